//! Helpers of the function rows: gradients that take more than a line.

use foldback_tensor::{Axes, Shape, Tensor};

use crate::error::Result;
use crate::var::Var;

/// Puts the axes that a reduction dropped back, as axes of size 1.
pub(crate) fn with_reduced_axes(g: &Var, shape: &Shape, axes: &Axes, keepdim: bool) -> Result<Var> {
    if keepdim || g.shape().rank() == shape.rank() {
        return Ok(g.clone());
    }
    let mut kept: Vec<usize> = shape.to_vec();
    match axes {
        Axes::All => kept.fill(1),
        Axes::List(list) => {
            for &a in list {
                let i = if a < 0 { a + shape.rank() as isize } else { a };
                kept[i as usize] = 1;
            }
        }
    }
    g.reshape(Shape::from(kept))
}

/// How many elements are folded into each result. Axes that do not exist are refused elsewhere.
pub(crate) fn reduced_count(shape: &Shape, axes: &Axes) -> usize {
    match axes {
        Axes::All => shape.numel(),
        Axes::List(list) => {
            let at = |&a: &isize| if a < 0 { a + shape.rank() as isize } else { a };
            list.iter().filter_map(|a| shape.get(at(a) as usize)).product()
        }
    }
}

/// Sends the gradients of picked elements back to where they were picked from.
pub(crate) fn scatter_back(
    g: &Var,
    index: &Tensor,
    shape: &Shape,
    axis: isize,
    keepdim: bool,
) -> Result<Var> {
    if shape.rank() == 0 {
        return Ok(g.clone());
    }
    let zeros = Var::constant(Tensor::try_zeros(shape, g.dtype())?);
    if keepdim {
        return zeros.scatter_add(g, axis, index);
    }
    zeros.scatter_add(&g.unsqueeze(axis)?, axis, &index.unsqueeze(axis)?)
}

/// For every element, the product of all others that are folded into the same result.
///
/// By pairs, so that no division meets a zero: the others of an element are its partner and the others of the pair.
pub(crate) fn product_of_others(a: &Var, axes: &Axes) -> Result<Var> {
    let shape = a.shape();
    let rank = shape.rank();
    let reduced = |i: usize| match axes {
        Axes::All => true,
        Axes::List(list) => list.iter().any(|&x| (if x < 0 { x + rank as isize } else { x }) as usize == i),
    };
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
        return Ok(Var::constant(Tensor::ones([outer, count], rows.dtype())));
    }
    let even = if count % 2 == 0 {
        rows.clone()
    } else {
        Var::cat(&[rows, &Var::constant(Tensor::ones([outer, 1], rows.dtype()))], 1)?
    };
    let pairs = even.reshape([outer, count.div_ceil(2), 2])?;
    let (left, right) = (pairs.select(2, 0)?, pairs.select(2, 1)?);
    let others = others_of_rows(&left.mul(&right)?)?;
    let both = Var::stack(&[&others.mul(&right)?, &others.mul(&left)?], 2)?;
    both.reshape([outer, count.div_ceil(2) * 2])?.narrow(1, 0, count)
}
