//! The equation of an `einsum`: which label stands for which axis.

use smallvec::SmallVec;

use crate::error::{Result, TensorFacts, refuse};

/// A letter, or an axis under an ellipsis, counted from the right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Label {
    Under(usize),
    Letter(char),
}

/// The labels of an operand's axes, or of the result's.
pub(super) type Labels = SmallVec<[Label; 6]>;

/// An equation, with the ellipses written out for operands of given ranks.
pub(super) struct Equation {
    pub(super) operands: Vec<Labels>,
    pub(super) result: Labels,
}

/// One side of a comma: letters, and where among them the ellipsis stands.
struct Term {
    letters: Vec<char>,
    ellipsis: Option<usize>,
}

/// What is wrong with an equation.
pub(super) fn wrong<T>(equation: &str, problem: String) -> Result<T> {
    refuse(TensorFacts::Equation { op: "einsum", equation: equation.to_owned(), problem })
}

impl Equation {
    /// Reads an equation for operands of these ranks.
    pub(super) fn parse(equation: &str, ranks: &[usize]) -> Result<Equation> {
        let (left, right) = match equation.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (equation, None),
        };
        let terms = left.split(',').map(|t| Term::parse(equation, t)).collect::<Result<Vec<_>>>()?;
        if terms.len() != ranks.len() {
            let (said, given) = (terms.len(), ranks.len());
            return wrong(
                equation,
                format!("it names {said} operands, {given} are given: separate them by commas"),
            );
        }
        let mut operands = Vec::new();
        for (number, (term, &rank)) in terms.iter().zip(ranks).enumerate() {
            operands.push(term.labels(equation, number, rank)?);
        }
        let under = |labels: &Labels| labels.iter().filter(|l| matches!(l, Label::Under(_))).count();
        let widest = operands.iter().map(under).max().unwrap_or(0);
        let result = match right {
            Some(right) => Term::parse(equation, right)?.with(widest),
            None => implicit(&terms, widest),
        };
        for (i, label) in result.iter().enumerate() {
            let Label::Letter(c) = label else { continue };
            if result[..i].contains(label) {
                return wrong(
                    equation,
                    format!("label '{c}' stands twice in the result: name each label there once"),
                );
            }
            if !operands.iter().any(|labels| labels.contains(label)) {
                return wrong(equation, format!("label '{c}' of the result is in no operand: leave it out"));
            }
        }
        Ok(Equation { operands, result })
    }
}

impl Term {
    fn parse(equation: &str, text: &str) -> Result<Term> {
        let mut term = Term { letters: Vec::new(), ellipsis: None };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(behind) = rest.strip_prefix("...") {
                if term.ellipsis.replace(term.letters.len()).is_some() {
                    return wrong(
                        equation,
                        format!("two ellipses in {:?}: an operand has at most one", text.trim()),
                    );
                }
                rest = behind;
                continue;
            }
            match c {
                ' ' => {}
                'a'..='z' | 'A'..='Z' => term.letters.push(c),
                _ => {
                    let labels = "labels are letters, `...` the axes without one, `->` stands once";
                    return wrong(equation, format!("{c:?} is no label: {labels}"));
                }
            }
            rest = &rest[c.len_utf8()..];
        }
        Ok(term)
    }

    /// The labels of an operand of this rank.
    fn labels(&self, equation: &str, number: usize, rank: usize) -> Result<Labels> {
        let named = self.letters.len();
        match (self.ellipsis, rank.checked_sub(named)) {
            (Some(_), Some(under)) => Ok(self.with(under)),
            (None, Some(0)) => Ok(self.with(0)),
            _ => {
                let cure = "name each axis, or write `...` for those without a label";
                wrong(equation, format!("operand {number} has rank {rank} and {named} labels: {cure}"))
            }
        }
    }

    /// The labels, with so many axes under the ellipsis.
    fn with(&self, under: usize) -> Labels {
        let letters = |c: &char| Label::Letter(*c);
        let (front, back) = self.letters.split_at(self.ellipsis.unwrap_or(0));
        let under = if self.ellipsis.is_some() { under } else { 0 };
        front
            .iter()
            .map(letters)
            .chain((0..under).rev().map(Label::Under))
            .chain(back.iter().map(letters))
            .collect()
    }
}

/// The result of an equation without one: what is under ellipses, and the letters that stand once, in their order.
fn implicit(terms: &[Term], widest: usize) -> Labels {
    let mut letters: Vec<char> = terms.iter().flat_map(|t| t.letters.iter().copied()).collect();
    letters.sort_unstable();
    let once =
        letters.chunk_by(|a, b| a == b).filter(|same| same.len() == 1).map(|same| Label::Letter(same[0]));
    (0..widest).rev().map(Label::Under).chain(once).collect()
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Letter(c) => write!(f, "label '{c}'"),
            Label::Under(n) => write!(f, "axis {n} from the right under the ellipsis"),
        }
    }
}
