//! What layers and losses refuse; each variant holds the facts.

use foldback_tensor::{DType, Facts, Kind, Shape};
pub(crate) use foldback_tensor::{Error, Result};

use crate::state::{Listed, LoadReport, Refused};

/// Why a layer or a loss was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NnFacts {
    /// An input whose last axis is not what the layer was made for.
    #[error(
        "{op}: expected an input of shape [.., {expected}], found {found}: the last axis holds the features; {}",
        match found.last() {
            Some(features) => format!("make the layer for {features}, or transpose or reshape the input"),
            None => "unsqueeze gives it one".to_owned(),
        }
    )]
    Features {
        /// the operation
        op: &'static str,
        /// the size wanted of the last axis
        expected: usize,
        /// the shape of the input
        found: Shape,
    },
    /// A parameter of a shape that its layer cannot have.
    #[error("{op}: expected {name} of shape {expected}, found {found}")]
    ParameterShape {
        /// the operation
        op: &'static str,
        /// the parameter
        name: &'static str,
        /// the shape wanted, with words for free sizes
        expected: String,
        /// the shape given
        found: Shape,
    },
    /// A target that is not of the input's shape. Losses do not broadcast, but for pairs that say so on both sides.
    #[error(
        "{loss}: the input has shape {input} and the target {target}; losses do not broadcast: {}",
        Advice(input, target)
    )]
    LossShapes {
        /// the loss
        loss: &'static str,
        /// the shape of the input
        input: Shape,
        /// the shape of the target
        target: Shape,
    },
    /// A target of classes that does not fit the scores.
    #[error("{loss}: scores of shape {input} need {}, found a target of shape {target}: {}", Targets(input, *probabilities), if *probabilities { "class numbers are i64 (tensor![1, 2; i64], or long())" } else { rows_of_scores(loss, input, target) })]
    TargetShape {
        /// the loss
        loss: &'static str,
        /// the shape of the scores
        input: Shape,
        /// the shape of the target
        target: Shape,
        /// whether the target holds probabilities, not class numbers
        probabilities: bool,
    },
    /// A class number that no class has.
    #[error("{loss}: target {target} at index {index:?} is out of bounds for {classes} classes: give one from 0 to {}{}", classes.saturating_sub(1), if ["cross_entropy", "nll_loss"].contains(loss) { ", or name it by ignore_index" } else { "" })]
    TargetOutOfRange {
        /// the loss
        loss: &'static str,
        /// the class number
        target: i64,
        /// where it stands in the target
        index: Vec<usize>,
        /// how many classes there are
        classes: usize,
    },
    /// An element type that a loss or layer cannot take.
    #[error("{op}: {name} must be {expected}, found {found}: use to(DType::{})", first_of(expected))]
    DType {
        /// the operation
        op: &'static str,
        /// which argument
        name: &'static str,
        /// its type
        found: DType,
        /// the types it may have
        expected: &'static str,
    },
    /// A parameter outside its domain.
    #[error("{op}: {name} = {value} is not valid: expected {expected}")]
    Parameter {
        /// the operation
        op: &'static str,
        /// the parameter
        name: &'static str,
        /// its value
        value: f64,
        /// its domain
        expected: &'static str,
    },
    /// A parameter that does not divide the sizes it should.
    #[error("{op}: {name} = {value} is not valid: expected a divisor of {}", NamedSizes(sizes))]
    NoDivisor {
        /// the operation
        op: &'static str,
        /// the parameter
        name: &'static str,
        /// its value
        value: usize,
        /// the sizes, by name
        sizes: Vec<(&'static str, usize)>,
    },
    /// An option that a loss cannot honour for this kind of target.
    #[error("{loss}: {option} is not supported for {target}: leave it out")]
    Unsupported {
        /// the loss
        loss: &'static str,
        /// the option
        option: &'static str,
        /// the kind of target
        target: &'static str,
    },
    /// A state dict that does not fit the module it was loaded into.
    #[error("{op}: {}", Refused(op, report))]
    StateDict {
        /// the operation
        op: &'static str,
        /// what is missing, unexpected or misshapen
        report: LoadReport,
    },
    /// A pattern that is no parameter's name.
    #[error(
        "{op}: {pattern:?} matches none of the names {}: `*` stands for any run of characters",
        Listed(names)
    )]
    NoSuchName {
        /// the operation
        op: &'static str,
        /// the pattern
        pattern: String,
        /// the names there are
        names: Vec<String>,
    },
    /// A shape that is none of a matrix.
    #[error("{op}: a matrix has {expected}, found shape {found}: use another initialisation")]
    MatrixShape {
        /// the initialisation
        op: &'static str,
        /// the axes wanted
        expected: &'static str,
        /// the shape
        found: Shape,
    },
    /// An input of a shape that does not fit the layer, or the other inputs.
    #[error("{op}: expected {name} of shape {expected}, found {found}")]
    InputShape {
        /// the operation
        op: &'static str,
        /// the input
        name: &'static str,
        /// the shape wanted, with words for free sizes
        expected: String,
        /// the shape given
        found: Shape,
    },
    /// Lengths that are not those of a batch of sequences.
    #[error("{op}: lengths {lengths:?} do not fit: {}", match rows { Some(rows) => format!("expected {rows} of them, each from 1 to {steps}"), None => "an input without a batch has one length, its own: leave them out".to_owned() })]
    Lengths {
        /// the operation
        op: &'static str,
        /// the lengths
        lengths: Vec<usize>,
        /// how many sequences the batch has, if there is one
        rows: Option<usize>,
        /// how many steps the input has
        steps: usize,
    },
    /// Something that does not stand alone.
    #[error("{op}: {option} is not enough for {target}: {cure}")]
    Needs {
        /// the operation
        op: &'static str,
        /// what is given
        option: &'static str,
        /// what it is given for
        target: &'static str,
        /// what to do
        cure: &'static str,
    },
    /// A list of sizes that do not go together.
    #[error("{op}: {name} = {found:?} is not valid: expected {expected}")]
    Sizes {
        /// the operation
        op: &'static str,
        /// the list
        name: &'static str,
        /// the sizes
        found: Vec<usize>,
        /// what they may be
        expected: String,
    },
    /// A choice among names that a layer does not offer.
    #[error("{op}: {name} = {found} is not offered: expected {expected}")]
    Choice {
        /// the operation
        op: &'static str,
        /// the parameter
        name: &'static str,
        /// what was chosen
        found: String,
        /// what may be
        expected: &'static str,
    },
    /// A shape without the axes that a fan is counted over.
    #[error(
        "init: fan in and fan out need at least 2 axes, found shape {shape}: give [out, in], or another initialisation"
    )]
    Fan {
        /// the shape
        shape: Shape,
    },
}

impl Facts for NnFacts {
    fn kind(&self) -> Kind {
        use NnFacts::*;
        match self {
            Features { .. } | ParameterShape { .. } | Fan { .. } | MatrixShape { .. } => Kind::Shape,
            InputShape { .. } | LossShapes { .. } | TargetShape { .. } => Kind::Shape,
            TargetOutOfRange { .. } => Kind::Index,
            DType { .. } => Kind::DType,
            Parameter { .. }
            | NoDivisor { .. }
            | Unsupported { .. }
            | StateDict { .. }
            | NoSuchName { .. } => Kind::Argument,
            Sizes { .. } | Choice { .. } | Lengths { .. } | Needs { .. } => Kind::Argument,
        }
    }
}

/// Sizes with their names.
struct NamedSizes<'a>(&'a [(&'static str, usize)]);

impl std::fmt::Display for NamedSizes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nr, (name, size)) in self.0.iter().enumerate() {
            write!(f, "{}{name} = {size}", if nr == 0 { "" } else { " and of " })?;
        }
        Ok(())
    }
}

/// The first of the types that are named.
fn first_of(expected: &str) -> &'static str {
    match expected {
        e if e.starts_with("i64") => "I64",
        e if e.starts_with("f64") => "F64",
        _ => "F32",
    }
}

/// How to make two shapes equal.
struct Advice<'a>(&'a Shape, &'a Shape);

impl std::fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let without_ones = |s: &Shape| s.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        let (input, target) = (self.0, self.1);
        if without_ones(input) == without_ones(target) {
            let (longer, shorter) =
                if input.rank() >= target.rank() { ("input", "target") } else { ("target", "input") };
            write!(f, "squeeze the {longer}, unsqueeze the {shorter}, or reshape one like the other")
        } else if foldback_tensor::can_broadcast(input, target) {
            f.write_str("expand one to the shape of the other if that is meant")
        } else {
            f.write_str("they must be equal")
        }
    }
}

/// The targets that fit some scores.
struct Targets<'a>(&'a Shape, bool);

/// The shape of the class numbers of some scores: without the axis of the classes, which is the second where there are several.
fn class_numbers(scores: &Shape) -> Vec<usize> {
    let mut sizes = scores.to_vec();
    if !sizes.is_empty() {
        sizes.remove(1.min(sizes.len() - 1));
    }
    sizes
}

/// How there comes to be a class number for each row of scores.
fn rows_of_scores(loss: &str, scores: &Shape, target: &Shape) -> &'static str {
    let numel = |sizes: &[usize]| sizes.iter().product::<usize>();
    let rows = scores.split_last().map_or(&[][..], |(_, rows)| rows);
    if rows.len() > 1 && rows == &target[..] {
        "classes stand on axis 1, so transpose(1, -1) the scores; or reshape them to (-1, classes) and the target to -1"
    } else if scores.rank() > 0 && numel(&class_numbers(scores)) == numel(target) {
        "there is one for each row of scores; squeeze and reshape make it so"
    } else if scores != target || target.rank() == 0 {
        "there is one for each row of scores"
    } else if loss != "cross_entropy" {
        "there is one for each row of scores; argmax over the classes makes them of one-hot rows"
    } else {
        "there is one for each row of scores; argmax over the classes makes them of one-hot rows, which are taken as probabilities if they are floats"
    }
}

impl std::fmt::Display for Targets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Targets(scores, probabilities) = self;
        if *probabilities {
            write!(f, "class probabilities of shape {scores}")
        } else if scores.rank() == 0 {
            f.write_str("an axis of classes")
        } else {
            write!(f, "class numbers of shape {:?}", class_numbers(scores))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_how_they_fit() {
        let told =
            |loss, scores: &[usize], target: &[usize]| rows_of_scores(loss, &scores.into(), &target.into());
        for (scores, target) in [
            (&[2, 7, 5, 5][..], &[2, 1, 5, 5][..]),
            (&[2, 7, 5], &[2, 1, 5]),
            (&[1, 7, 5, 5], &[5, 5]),
            (&[3, 1], &[3, 1]),
            (&[7], &[1]),
        ] {
            assert!(told("cross_entropy", scores, target).contains("squeeze"), "{scores:?} {target:?}");
        }
        assert!(told("nll_loss", &[2, 5, 7], &[2, 5]).contains("transpose(1, -1)"));
        for (scores, target) in [(&[2, 5, 7][..], &[10][..]), (&[2, 3], &[3]), (&[], &[])] {
            assert!(told("nll_loss", scores, target).ends_with("for each row of scores"), "{scores:?}");
        }
        assert!(told("cross_entropy", &[2, 3], &[2, 3]).ends_with("probabilities if they are floats"));
        assert!(told("multi_margin_loss", &[2, 3], &[2, 3]).ends_with("one-hot rows"));
    }

    #[test]
    fn every_fact_has_a_kind() {
        use NnFacts::*;
        let (op, loss, s) = ("linear", "mse_loss", || Shape::from(2));
        let all = [
            (Features { op, expected: 3, found: s() }, Kind::Shape),
            (ParameterShape { op, name: "a bias", expected: "[3]".into(), found: s() }, Kind::Shape),
            (LossShapes { loss, input: s(), target: Shape::from(3) }, Kind::Shape),
            (TargetShape { loss, input: s(), target: s(), probabilities: false }, Kind::Shape),
            (TargetOutOfRange { loss, target: 7, index: vec![0], classes: 2 }, Kind::Index),
            (
                DType {
                    op,
                    name: "the input",
                    found: foldback_tensor::DType::I64,
                    expected: "a floating-point type",
                },
                Kind::DType,
            ),
            (Parameter { op, name: "p", value: 2.0, expected: "less" }, Kind::Argument),
            (Unsupported { loss, option: "ignore_index", target: "probabilities" }, Kind::Argument),
            (StateDict { op: "load_state_dict", report: LoadReport::default() }, Kind::Argument),
            (NoSuchName { op, pattern: "*.b".into(), names: vec!["bias".into()] }, Kind::Argument),
            (MatrixShape { op: "eye", expected: "2 axes", found: s() }, Kind::Shape),
            (InputShape { op, name: "h_0", expected: "[3]".into(), found: s() }, Kind::Shape),
            (Lengths { op, lengths: vec![0], rows: None, steps: 2 }, Kind::Argument),
            (Needs { op, option: "a", target: "b", cure: "c" }, Kind::Argument),
            (Choice { op, name: "a", found: "b".into(), expected: "c" }, Kind::Argument),
            (Sizes { op, name: "a", found: vec![2], expected: "b".into() }, Kind::Argument),
            (Fan { shape: s() }, Kind::Shape),
        ];
        for (facts, kind) in all {
            let e = Error::from(facts.clone());
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e, facts);
        }
    }
}
