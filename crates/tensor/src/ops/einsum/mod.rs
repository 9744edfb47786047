//! Sums of products by labels, composed of views, sums and products of matrices, for tensors and for variables alike.
//!
//! Operands are combined from the left. What only one of them has is summed there; what both have and nobody needs any
//! more is the inner axis of a product of matrices, so that no product of elements is stored before it is summed.

mod equation;

use equation::{Equation, Label, Labels, wrong};
use smallvec::SmallVec;

use super::arg::{AsArg, List, tensors_of};
use crate::axes::Axes;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;
use crate::views::NewShape;

/// What an [`einsum`](Tensor::einsum) is made of.
#[doc(hidden)]
pub trait Contract: Clone {
    fn sizes_of(&self) -> &[usize];
    fn permuted(&self, axes: Axes) -> Result<Self>;
    fn reshaped_to(&self, shape: NewShape) -> Result<Self>;
    fn on_diagonal(&self, axes: [usize; 2]) -> Result<Self>;
    fn summed(&self, axes: Axes) -> Result<Self>;
    fn times(&self, other: &Self) -> Result<Self>;
    fn matrix_product(&self, other: &Self) -> Result<Self>;
}

/// Implements [`Contract`] by the methods that tensors and variables both have.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_by_methods {
    ($t:ty) => {
        impl $crate::Contract for $t {
            fn sizes_of(&self) -> &[usize] {
                self.dims()
            }
            #[track_caller]
            fn permuted(&self, axes: $crate::Axes) -> $crate::Result<Self> {
                self.permute(axes)
            }
            #[track_caller]
            fn reshaped_to(&self, shape: $crate::NewShape) -> $crate::Result<Self> {
                self.reshape(shape)
            }
            #[track_caller]
            fn on_diagonal(&self, [a, b]: [usize; 2]) -> $crate::Result<Self> {
                self.diagonal_with(0, a, b)
            }
            #[track_caller]
            fn summed(&self, axes: $crate::Axes) -> $crate::Result<Self> {
                self.sum(axes)
            }
            #[track_caller]
            fn times(&self, other: &Self) -> $crate::Result<Self> {
                self.mul(other)
            }
            #[track_caller]
            fn matrix_product(&self, other: &Self) -> $crate::Result<Self> {
                self.matmul(other)
            }
        }
    };
}
contract_by_methods!(Tensor);

impl Tensor {
    /// A sum of products, by labels of axes: `einsum("ij,jk->ik", [a, b])` is the product of two matrices.
    ///
    /// Each operand has a label, a letter, for each of its axes; `...` stands for the axes without one. The result has
    /// the labels behind `->`, in that order, and what is not among them is summed. Without `->` it has what is under
    /// ellipses and the letters that stand once, in alphabetical order, capitals first. A label that an operand has twice
    /// is its diagonal. Axes of one label, and those under ellipses, broadcast. Spaces mean nothing.
    ///
    /// | equation | is |
    /// |---|---|
    /// | `"ij->ji"` | the transpose |
    /// | `"ii"`, `"ii->i"` | the trace, the diagonal |
    /// | `"ij->j"` | sums of columns |
    /// | `"i,j->ij"` | all products of pairs |
    /// | `"...ij,...jk"` | products of batches of matrices |
    /// | `"bhqd,bhkd->bhqk"` | scores of attention |
    ///
    /// Operands are combined from the left; where two share labels that are summed, by a product of matrices, in which
    /// both have one element type, `I64`, `F32` or `F64`.
    ///
    /// # Errors
    /// `Equation` if the equation does not fit the operands: it says which label does not; `NoTensors`; those of
    /// [`Tensor::matmul`] about element types; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![10.0, 1.0]);
    /// assert_eq!(Tensor::einsum("ij,j->i", [&a, &b])?, tensor![12.0, 34.0]);
    /// assert_eq!(Tensor::einsum("ii", [&a])?.item()?, 5.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, operands: impl IntoIterator<Item: AsArg>) -> Result<Tensor> {
        let list: List<_> = operands.into_iter().collect();
        let operands: Vec<Tensor> = tensors_of(&list).into_iter().map(|t| t.into_owned()).collect();
        einsum(equation, &operands).here()
    }
}

/// [`Tensor::einsum`] of tensors or of variables.
#[track_caller]
#[doc(hidden)]
pub fn einsum<T: Contract>(equation: &str, operands: &[T]) -> Result<T> {
    if operands.is_empty() {
        return refuse(TensorFacts::NoTensors { op: "einsum" }).here();
    }
    let ranks: Vec<usize> = operands.iter().map(|t| t.sizes_of().len()).collect();
    let Equation { operands: labels, result } = Equation::parse(equation, &ranks).here()?;
    expect_sizes(equation, operands, &labels).here()?;
    combined(operands, &labels, &result).map_err(|e| e.named("einsum")).here()
}

/// Refuses sizes of one label that do not broadcast; those of one operand must be equal.
fn expect_sizes<T: Contract>(equation: &str, operands: &[T], labels: &[Labels]) -> Result<()> {
    let mut seen: Vec<(Label, usize, usize)> = Vec::new();
    for (number, (operand, labels)) in operands.iter().zip(labels).enumerate() {
        for (&label, &size) in labels.iter().zip(operand.sizes_of()) {
            let other = seen.iter().find(|&&(l, other, at)| {
                l == label && other != size && (at == number || (other != 1 && size != 1))
            });
            if let Some(&(_, other, at)) = other {
                let cure = if at == number {
                    "a label that an operand has twice names axes of one size"
                } else {
                    "sizes of one label are equal, or 1"
                };
                let sizes = format!("has size {other} in operand {at} and {size} in operand {number}");
                return wrong(equation, format!("{label} {sizes}: {cure}"));
            }
            seen.push((label, size, number));
        }
    }
    Ok(())
}

/// An operand, or what some of them have been combined to.
struct LabelledOperand<T> {
    value: T,
    labels: Labels,
}

#[track_caller]
fn combined<T: Contract>(operands: &[T], labels: &[Labels], result: &Labels) -> Result<T> {
    let mut done: Option<LabelledOperand<T>> = None;
    for (i, value) in operands.iter().enumerate() {
        let mut part = LabelledOperand { value: value.clone(), labels: labels[i].clone() };
        part.take_diagonals()?;
        // What the result and the operands to come still need.
        let needed = |l: &Label| result.contains(l) || labels[i + 1..].iter().any(|more| more.contains(l));
        done = Some(match done {
            None => part.sum_all_but(&needed)?,
            Some(mut before) => {
                before.drop_ones(&part)?;
                part.drop_ones(&before)?;
                let before = before.sum_all_but(&|l| needed(l) || part.labels.contains(l))?;
                let part = part.sum_all_but(&|l| needed(l) || before.labels.contains(l))?;
                before.times(part, &needed)?
            }
        });
    }
    let done = done.expect("there is an operand");
    let order = places(result, &done.labels);
    done.value.in_order(&order)
}

/// Where labels stand among others.
fn places(labels: &[Label], among: &[Label]) -> SmallVec<[usize; 6]> {
    labels.iter().filter_map(|l| among.iter().position(|m| m == l)).collect()
}

trait Arrange: Sized {
    fn in_order(&self, order: &[usize]) -> Result<Self>;
    fn in_shape(&self, sizes: &[usize]) -> Result<Self>;
}
impl<T: Contract> Arrange for T {
    /// The axes in another order, if it is another one.
    #[track_caller]
    fn in_order(&self, order: &[usize]) -> Result<T> {
        if order.is_sorted() { Ok(self.clone()) } else { self.permuted(Axes::from(order)) }
    }

    /// The elements in another shape, if it is another one.
    #[track_caller]
    fn in_shape(&self, sizes: &[usize]) -> Result<T> {
        if self.sizes_of() == sizes { Ok(self.clone()) } else { self.reshaped_to(NewShape::from(sizes)) }
    }
}

impl<T: Contract> LabelledOperand<T> {
    /// The sizes of labels, 1 for those that it does not have.
    fn sizes(&self, labels: &Labels) -> SmallVec<[usize; 6]> {
        labels.iter().map(|l| self.size(l)).collect()
    }

    fn size(&self, label: &Label) -> usize {
        places(&[*label], &self.labels).first().map_or(1, |&axis| self.value.sizes_of()[axis])
    }

    /// Keeps the diagonal of axes with one label, as the last axis.
    #[track_caller]
    fn take_diagonals(&mut self) -> Result<()> {
        while let Some(second) = (0..self.labels.len()).find(|&i| self.labels[..i].contains(&self.labels[i]))
        {
            let label = self.labels[second];
            let first = places(&[label], &self.labels)[0];
            self.value = self.value.on_diagonal([first, second])?;
            self.labels.remove(second);
            self.labels.remove(first);
            self.labels.push(label);
        }
        Ok(())
    }

    /// Drops axes of size 1 that the other part has longer: they broadcast.
    #[track_caller]
    fn drop_ones(&mut self, other: &LabelledOperand<T>) -> Result<()> {
        let drops = |l: &Label| self.size(l) == 1 && other.size(l) != 1;
        if self.labels.iter().any(drops) {
            let kept: Labels = self.labels.iter().filter(|l| !drops(l)).copied().collect();
            let sizes = self.sizes(&kept);
            (self.value, self.labels) = (self.value.in_shape(&sizes)?, kept);
        }
        Ok(())
    }

    /// Sums over what nobody needs.
    #[track_caller]
    fn sum_all_but(self, needed: &dyn Fn(&Label) -> bool) -> Result<LabelledOperand<T>> {
        let summed: SmallVec<[usize; 6]> =
            (0..self.labels.len()).filter(|&i| !needed(&self.labels[i])).collect();
        if summed.is_empty() {
            return Ok(self);
        }
        let value = self.value.summed(Axes::from(&summed[..]))?;
        Ok(LabelledOperand { value, labels: self.labels.into_iter().filter(needed).collect() })
    }

    /// The product of two parts, in which labels that both have are summed unless they are needed.
    #[track_caller]
    fn times(self, other: LabelledOperand<T>, needed: &dyn Fn(&Label) -> bool) -> Result<LabelledOperand<T>> {
        let shared = |l: &&Label| self.labels.contains(l) && other.labels.contains(l);
        let batch: Labels = self.labels.iter().filter(|l| shared(l) && needed(l)).copied().collect();
        let inner: Labels = self.labels.iter().filter(|l| shared(l) && !needed(l)).copied().collect();
        let left: Labels = self.labels.iter().filter(|l| !shared(l)).copied().collect();
        let right: Labels = other.labels.iter().filter(|l| !shared(l)).copied().collect();
        let labels: Labels = batch.iter().chain(&left).chain(&right).copied().collect();
        let sizes: SmallVec<[usize; 6]> = labels
            .iter()
            .map(|l| if self.labels.contains(l) { self.size(l) } else { other.size(l) })
            .collect();
        if inner.is_empty() {
            let a = self.grouped(&[&batch, &left], &self.sizes(&labels))?;
            let b = other.grouped(&[&batch, &right], &other.sizes(&labels))?;
            return Ok(LabelledOperand { value: a.times(&b)?, labels });
        }
        let a = self.matrices([&batch, &left, &inner])?;
        let b = other.matrices([&batch, &inner, &right])?;
        let value = a.matrix_product(&b)?.in_shape(&sizes)?;
        Ok(LabelledOperand { value, labels })
    }

    /// The axes in the order of these groups, in this shape.
    #[track_caller]
    fn grouped(&self, groups: &[&Labels], sizes: &[usize]) -> Result<T> {
        let order: SmallVec<[usize; 6]> =
            groups.iter().flat_map(|group| places(group, &self.labels)).collect();
        self.value.in_order(&order)?.in_shape(sizes)
    }

    /// A batch of matrices, each group one axis; the batch none if there is nothing in it.
    #[track_caller]
    fn matrices(&self, groups: [&Labels; 3]) -> Result<T> {
        let mut sizes: SmallVec<[usize; 3]> = SmallVec::new();
        for group in &groups[usize::from(groups[0].is_empty())..] {
            sizes.push(product_of(&self.sizes(group))?);
        }
        self.grouped(&groups, &sizes)
    }
}

/// The size of several axes as one.
fn product_of(sizes: &[usize]) -> Result<usize> {
    let all = if sizes.contains(&0) {
        Some(0)
    } else {
        sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size))
    };
    let too_large = || TensorFacts::TooLarge { op: "einsum", shape: sizes.into() };
    Ok(all.filter(|&n| isize::try_from(n).is_ok()).ok_or_else(too_large)?)
}

#[cfg(test)]
mod tests;
