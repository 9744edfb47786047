//! Helpers of the function rows: gradients that take more than a line.

use foldback_tensor::kernel::ReducedShapes;
use foldback_tensor::{Axes, Axis, Indices, Over, Shape, Tensor};

use crate::error::Result;
use crate::lead::Lead;
use crate::node::Var;

/// Sends the gradients of picked elements back to where they were picked from.
pub(crate) fn scatter_back(g: &Var, index: &Var, shape: &Shape, over: &Over, n: Lead) -> Result<Var> {
    if shape.rank() == 0 {
        return Ok(g.clone());
    }
    let (shape, index) = (n.shape(shape), n.index(&Indices::from(index.value()))?);
    let zeros = Var::constant(Tensor::try_zeros_with(&shape, g.dtype())?);
    let Axes::List(axes) = over.axes() else {
        // The index counts through all elements.
        let one = n.shape(&[1].into());
        let all = zeros.flatten(n.axes() as isize..)?;
        return all.scatter_add(-1, index.reshape(&one)?, g.reshape(&one)?)?.reshape(&shape);
    };
    let axis = n.axis(Axis::from(axes[0]));
    if over.keepdim() {
        return zeros.scatter_add(axis, index, g);
    }
    zeros.scatter_add(axis, index.unsqueeze(axis)?, g.unsqueeze(axis)?)
}

/// The tangents of picked elements: of those that they were picked from.
pub(crate) fn gather_along(t: &Var, index: &Var, over: &Over, n: Lead) -> Result<Var> {
    if t.rank() == n.axes() {
        return Ok(t.clone());
    }
    let index = n.index(&Indices::from(index.value()))?;
    let Axes::List(axes) = over.axes() else {
        let all = t.flatten(n.axes() as isize..)?;
        return all.gather(-1, index.reshape(n.shape(&[1].into()))?)?.reshape(index.shape());
    };
    let axis = n.axis(Axis::from(axes[0]));
    if over.keepdim() {
        return t.gather(axis, index);
    }
    t.gather(axis, index.unsqueeze(axis)?)?.squeeze(axis)
}

/// For every element, the product of all others that are folded into the same result.
///
/// By pairs, so that no division meets a zero: the others of an element are its partner and the others of the pair.
pub(crate) fn product_of_others(a: &Var, r: &ReducedShapes) -> Result<Var> {
    let shape = a.shape();
    let rank = shape.rank();
    let reduced = |i: usize| r.kept[i] != shape[i] || shape[i] == 1;
    let (last, first): (Vec<usize>, Vec<usize>) = (0..rank).partition(|&i| reduced(i));
    let order: Vec<usize> = first.iter().chain(&last).copied().collect();
    let moved = a.permute(order.clone())?;
    let count: usize = last.iter().map(|&i| shape[i]).product();
    let outer: usize = first.iter().map(|&i| shape[i]).product();
    let others = others_of_rows(&moved.reshape([outer, count])?)?;
    let mut back = vec![0usize; rank];
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    others.reshape(moved.shape())?.permute(back)
}

fn others_of_rows(rows: &Var) -> Result<Var> {
    let (outer, count) = (rows.shape()[0], rows.shape()[1]);
    if count <= 1 {
        return Ok(Var::constant(Tensor::ones_with([outer, count], rows.dtype())));
    }
    let even = if count % 2 == 0 {
        rows.clone()
    } else {
        Var::cat(&[rows, &Var::constant(Tensor::ones_with([outer, 1], rows.dtype()))], 1)?
    };
    let pairs = even.reshape([outer, count.div_ceil(2), 2])?;
    let (left, right) = (pairs.select(2, 0)?, pairs.select(2, 1)?);
    let others = others_of_rows(&left.mul(&right)?)?;
    let both = Var::stack(&[&others.mul(&right)?, &others.mul(&left)?], 2)?;
    both.reshape([outer, count.div_ceil(2) * 2])?.narrow(1, 0, count)
}
