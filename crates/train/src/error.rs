//! What loops, metrics and logs refuse; each variant holds the facts.

pub(crate) use foldback_tensor::Result;
use foldback_tensor::{DType, Facts, Kind, Shape, refuse};

/// Why something about a run was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainFacts {
    /// A setting outside its domain.
    #[error("{op}: {name} = {found} is not valid: expected {expected}")]
    Parameter {
        /// what was called
        op: &'static str,
        /// the setting
        name: &'static str,
        /// what it was
        found: String,
        /// its domain, and the cure
        expected: String,
    },
    /// A prediction and a target that do not fit. Metrics never broadcast.
    #[error("{op}: the prediction has shape {prediction} and the target {target}: expected {expected}")]
    Shapes {
        /// the metric
        op: &'static str,
        /// the shape of the prediction
        prediction: Shape,
        /// the shape of the target
        target: Shape,
        /// what would fit
        expected: &'static str,
    },
    /// An element type that a metric cannot take.
    #[error("{op}: the {what} is {found}, expected {expected}")]
    DType {
        /// the metric
        op: &'static str,
        /// the prediction or the target
        what: &'static str,
        /// its type
        found: DType,
        /// the types it may have, and the cure
        expected: &'static str,
    },
    /// A class number that no class has.
    #[error("{op}: the {what} holds class {class}, there are {classes}: expected 0 to {}", classes.saturating_sub(1))]
    Class {
        /// the metric
        op: &'static str,
        /// the prediction or the target
        what: &'static str,
        /// the class number
        class: i64,
        /// how many classes there are
        classes: usize,
    },
    /// A loss or a gradient that is not finite, or a gradient that is too large; the step was not taken.
    #[error("fit: {what} is {value} in batch {batch} of epoch {epoch}: {cause}")]
    Alarm {
        /// the loss, or the norm of all gradients
        what: &'static str,
        /// its value
        value: f64,
        /// the batch, counted from 0 in its epoch
        batch: usize,
        /// the epoch, counted from 0
        epoch: usize,
        /// where it came from, or what to do
        cause: String,
    },
    /// A row of a log whose names are not those of its first row.
    #[error(
        "log: {file}: the columns are {columns}, found a row of {found}: give the same names each time, or begin another file"
    )]
    Columns {
        /// the file
        file: String,
        /// the names of the first row
        columns: String,
        /// the names of this one
        found: String,
    },
    /// A saved state that does not fit what it was loaded into.
    #[error("load_state_dict: {what}: {problem}: give a state that this version of it has saved")]
    State {
        /// what it was loaded into
        what: &'static str,
        /// what is missing, left over, or of another form
        problem: String,
    },
    /// A picture that could not be drawn.
    #[error("{op}: {file}: {what}")]
    Picture {
        /// what was called
        op: &'static str,
        /// the file
        file: String,
        /// why, and what to do
        what: String,
    },
}

impl Facts for TrainFacts {
    fn kind(&self) -> Kind {
        use TrainFacts::*;
        match self {
            Parameter { .. } | Columns { .. } | State { .. } => Kind::Argument,
            Shapes { .. } => Kind::Shape,
            DType { .. } => Kind::DType,
            Class { .. } => Kind::Index,
            Alarm { .. } => Kind::Graph,
            Picture { .. } => Kind::File,
        }
    }
}

/// Refuses a setting unless it holds.
pub(crate) fn check(
    holds: bool,
    op: &'static str,
    name: &'static str,
    found: impl ToString,
    expected: impl Into<String>,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    refuse(TrainFacts::Parameter { op, name, found: found.to_string(), expected: expected.into() })
}

#[cfg(test)]
mod tests {
    use foldback_tensor::Error;

    use super::*;

    #[test]
    fn every_fact_has_a_kind() {
        use TrainFacts::*;
        let (op, text, what) = ("accuracy", String::new, "target");
        let all = [
            (Parameter { op, name: "k", found: text(), expected: text() }, Kind::Argument),
            (Shapes { op, prediction: 2.into(), target: 3.into(), expected: "" }, Kind::Shape),
            (
                TrainFacts::DType { op, what, found: foldback_tensor::DType::F32, expected: "i64" },
                Kind::DType,
            ),
            (Class { op, what, class: 3, classes: 3 }, Kind::Index),
            (Alarm { what, value: 1.0, batch: 0, epoch: 0, cause: text() }, Kind::Graph),
            (Columns { file: text(), columns: text(), found: text() }, Kind::Argument),
            (State { what, problem: text() }, Kind::Argument),
            (Picture { op: "plot_curves", file: text(), what: text() }, Kind::File),
        ];
        for (facts, kind) in all {
            let e = Error::from(facts.clone());
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e, facts);
        }
    }
}
