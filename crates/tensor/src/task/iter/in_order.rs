//! Results in the memory order of what is read: what all operands that fill the space have in another order than the axes' is
//! gone through as it lies, and so lies the result.
//!
//! A sum or an exponential of transposed matrices is then one of vectors, at a third to an eighth of the time that laying them out
//! would take (`sweep`: transposed operands). The result of operands in different orders is row-major.

use smallvec::SmallVec;

use super::Operand;
use super::plan::broadcast_stride;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernels::BlockKernel;
use crate::shape::{Dims, Shape};
use crate::tensor::{Layout, Tensor, is_row_major, order_of};

/// The axes from the outermost to the innermost, where every operand that fills the space has its elements one after another in
/// this order, and it is not the axes' own.
pub(super) fn memory_order(operands: &[Operand<'_>], shape: &Shape) -> Option<Dims<usize>> {
    let moves = |(&step, &size): (&isize, &usize)| step != 0 || size == 1;
    let all_move = |strides: &[isize]| strides.iter().zip(shape.iter()).all(moves);
    let fills = |o: &&Operand<'_>| o.shape == &**shape && o.strides.is_none_or(all_move);
    let first = operands.iter().find(fills).filter(|o| !o.row_major)?;
    let order = order_of(shape, first.strides?)?;
    let sizes: Dims<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let lies_so = |o: &Operand<'_>| {
        is_row_major(&sizes, &order.iter().map(|&axis| o.stride(axis)).collect::<Dims<isize>>())
    };
    operands.iter().filter(fills).all(lies_so).then_some(order)
}

/// [`map`](super::map) over the axes in another order: the result has its elements in that order.
pub(super) fn map_in_order(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    (shape, order): (Shape, Dims<usize>),
    dtype: DType,
) -> Result<Tensor> {
    let rank = shape.rank();
    let turned_shape = Shape(order.iter().map(|&axis| shape[axis]).collect());
    let steps: SmallVec<[Dims<isize>; 4]> = operands
        .iter()
        .map(|o| order.iter().map(|&axis| broadcast_stride(o, axis, rank)).collect())
        .collect();
    let turned: SmallVec<[Operand<'_>; 4]> = operands
        .iter()
        .zip(&steps)
        .map(|(o, steps)| {
            let row_major = is_row_major(&turned_shape, steps);
            Operand { shape: &turned_shape, strides: Some(steps), row_major, ..*o }
        })
        .collect();
    let made = super::map(op, kernel, &turned, turned_shape.clone(), dtype)?;
    let mut strides = Dims::from_elem(0, rank);
    for (&axis, &step) in order.iter().zip(made.strides().iter()) {
        strides[axis] = step;
    }
    Ok(Tensor { layout: Layout::strided(shape, strides, 0, false), storage: made.storage })
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, ThreadPool, keep, tensor};

    fn numbers(shape: &[usize]) -> Tensor {
        let n = shape.iter().product::<usize>() as i64;
        Tensor::from_vec((0..n).map(|i| (i * 37 % 101) as f32 - 50.0).collect::<Vec<_>>(), shape).unwrap()
    }

    /// The strides of a result say the order of its elements.
    #[test]
    fn a_result_lies_as_what_fills_the_space() {
        let x = numbers(&[2, 3, 4]).permute([2, 0, 1]).unwrap(); // [4, 2, 3]
        let (row, column, other) = (numbers(&[3]), numbers(&[4, 1, 1]), numbers(&[4, 2, 3]));
        let expanded = numbers(&[4, 1, 3]).expand([4, 2, 3]).unwrap();
        for alike in
            [x.exp(), -&x, &x + &x, &x * 2.0, &x + &row, &column + &x, &expanded * &x, x.to(DType::F64)]
        {
            assert_eq!(alike.strides(), x.strides());
        }
        // An axis of one element has a step that says nothing, such as that of a reduced one.
        let reduced = numbers(&[2, 3, 4]).sum(keep(1)).unwrap().permute([2, 1, 0]).unwrap(); // [4, 1, 2]
        assert_eq!(reduced.strides(), [1, 0, 4]);
        assert_eq!(reduced.exp().squeeze(1).unwrap().strides(), [1, 4]);
        assert_eq!((&numbers(&[4, 1, 2]) + &reduced).squeeze(1).unwrap().strides(), [2, 1]);
        // What another operand that fills the space says otherwise, and what is no order of the axes.
        let flipped = x.flip(0).unwrap();
        for row_major in
            [&x + &other, &other * &x, &x + x.permute([0, 1, 2]).unwrap().contiguous(), flipped.exp()]
        {
            assert_eq!(row_major.strides(), [6, 3, 1]);
        }
        assert_eq!(x.narrow(0, 0, 2).unwrap().exp().strides(), [6, 3, 1]);
        assert_eq!(x.contiguous().strides(), [6, 3, 1]);
        assert_eq!(x.unsqueeze(1).unwrap().exp().squeeze(1).unwrap().strides(), x.strides());
        // One of a smaller rank that fills it, too, is laid out.
        let lower = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let higher = lower.t().contiguous().t().unsqueeze(0).unwrap();
        assert_eq!((&lower + &higher).strides()[1..], [1, 2]);
        assert_eq!(&lower + &higher, (&lower * 2.0).unsqueeze(0).unwrap());
    }

    /// The same elements as of row-major operands, of all sizes and for any number of threads.
    #[test]
    fn elements_are_those_of_other_layouts() {
        for shape in [&[2, 3][..], &[1, 5, 4], &[70, 90], &[300, 200], &[7, 1, 60, 50], &[0, 3]] {
            let (x, y) = (numbers(shape), numbers(shape).mul(0.25).unwrap());
            let rank = shape.len() as isize;
            let turned = |t: &Tensor| {
                let back: Vec<isize> = (0..rank).rev().collect();
                t.permute(back.clone()).unwrap().contiguous().permute(back).unwrap()
            };
            let (a, b, last) = (turned(&x), turned(&y), numbers(&shape[shape.len() - 1..]));
            let all = || {
                vec![
                    &a + &b,
                    &a * &last,
                    a.sigmoid(),
                    a.lt(&b).unwrap(),
                    &b - &y,
                    a.lt(&b).unwrap().where_cond(&a, &b).unwrap(),
                ]
            };
            let plain = vec![
                &x + &y,
                &x * &last,
                x.sigmoid(),
                x.lt(&y).unwrap(),
                &y - &y,
                x.lt(&y).unwrap().where_cond(&x, &y).unwrap(),
            ];
            for threads in [1, 3] {
                assert_eq!(ThreadPool::new(threads).install(all), plain, "{shape:?}");
            }
        }
    }
}
