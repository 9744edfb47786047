//! Running sums and products along an axis.

use crate::axes::Axis;
use crate::dtype::BlockMut;
use crate::error::{Here, Result};
use crate::kernels::scan;
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;

/// # Running sums and products
impl Tensor {
    /// The running sum along an axis: each element with all before it. Integers and `bool` add up in `I64` (wrapping).
    ///
    /// Sums are kept in `f64`, in blocks of rows that do not depend on the number of threads, and neither do the bits of
    /// the result. A single number is its own sum.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `TooLarge` if no memory can hold the result.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// assert_eq!(x.cumsum(1)?, tensor![[1.0, 3.0, 6.0], [4.0, 9.0, 15.0]]);
    /// assert_eq!(x.cumsum(0)?, tensor![[1.0, 2.0, 3.0], [5.0, 7.0, 9.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        self.running("cumsum", axis.into(), false).here()
    }

    /// The running product along an axis: each element times all before it. Integers and `bool` multiply in `I64`
    /// (wrapping).
    ///
    /// The result has the same bits for any number of threads.
    ///
    /// # Errors
    /// As [`Self::cumsum`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, 3.0, 0.0, 5.0].cumprod(0)?, tensor![2.0, 6.0, 0.0, 0.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        self.running("cumprod", axis.into(), true).here()
    }

    fn running(&self, op: &'static str, axis: Axis, product: bool) -> Result<Tensor> {
        let axis = self.shape().axis(op, axis)?;
        // As it lies, and so lies the result: nothing has to be laid out.
        if let Some((lying, order)) = self.as_it_lies() {
            let place = order.iter().position(|&own| own == axis).unwrap_or(0);
            return Ok(lying.running_along(op, place, product)?.put_back(&order));
        }
        self.running_along(op, axis, product)
    }

    fn running_along(&self, op: &'static str, axis: usize, product: bool) -> Result<Tensor> {
        let dtype = self.dtype().to_accumulator();
        let (rows, len) = match &self.dims()[axis.min(self.rank())..] {
            // Of one row each, every element is a line of its own.
            [] | [1, ..] => (1, 1),
            [rows, inner @ ..] => (*rows, inner.iter().product()),
        };
        let source = self.cast(op, dtype)?.laid_out(op)?;
        let rule = Scan { product, rows, len };
        task::whole(op, &rule, &[Read::Tensor(&source, dtype)], self.shape(), dtype)
    }
}

/// Folds a row-major tensor, matrices of so many rows of this length, along the rows.
struct Scan {
    product: bool,
    rows: usize,
    len: usize,
}

impl WholeRule for Scan {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        macro_rules! run {
            ($out:ident) => {{
                let source = reads[0].as_slice().expect("laid out in the type of the result");
                match self.product {
                    true => scan::<_, true>(source, self.rows, self.len, $out),
                    false => scan::<_, false>(source, self.rows, self.len, $out),
                }
            }};
        }
        match out {
            BlockMut::I64(out) => run!(out),
            BlockMut::F32(out) => run!(out),
            BlockMut::F64(out) => run!(out),
            BlockMut::Bool(_) => unreachable!("truth values are folded as integers"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, ThreadPool, refused, tensor};

    /// The definition, for whole numbers.
    fn naive(x: &Tensor, axis: usize, product: bool) -> Tensor {
        let mut parts: Vec<Tensor> = Vec::new();
        for part in x.unbind(axis).unwrap() {
            let next = match parts.last() {
                None => part,
                Some(last) if product => last.mul(&part).unwrap(),
                Some(last) => last.add(&part).unwrap(),
            };
            parts.push(next);
        }
        Tensor::stack(parts, axis).unwrap()
    }

    #[test]
    fn every_axis_and_layout_follows_the_definition() {
        for shape in [
            &[7][..],
            &[3, 4],
            &[2, 3, 4],
            &[1, 5, 1],
            &[40, 1, 3],
            &[4, 3],
            &[2, 7, 5],
            &[5, 600],
            &[70, 9],
            &[3, 2, 300],
        ] {
            let n = shape.iter().product::<usize>() as i64;
            let whole = Tensor::arange(0..n).remainder_of_five().reshape(shape).unwrap();
            for dtype in [DType::I64, DType::F32, DType::F64] {
                let x = whole.to(dtype);
                let turned = x.transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap();
                for (axis, x) in (0..shape.len()).flat_map(|a| [(a, &x), (a, &turned)]) {
                    assert_eq!(x.cumsum(axis).unwrap(), naive(x, axis, false), "{shape:?} {axis}");
                    assert_eq!(x.cumprod(axis).unwrap(), naive(x, axis, true), "{shape:?} {axis}");
                }
            }
        }
    }

    /// What a piece multiplies to alone, infinity, is never multiplied with the zero before it.
    #[test]
    fn a_zero_stays_a_zero_however_much_follows() {
        for columns in [1, 2] {
            let x = Tensor::arange(0..100_000).minimum(2).unwrap().double().reshape([-1, 1]).unwrap();
            let x = x.expand([100_000, columns]).unwrap();
            let zeros = Tensor::zeros_with(x.shape(), DType::F64);
            assert!(x.cumprod(0).unwrap() == zeros, "{columns}");
        }
    }

    trait Small {
        fn remainder_of_five(&self) -> Tensor;
    }
    impl Small for Tensor {
        /// -2 ..= 2, with zeros.
        fn remainder_of_five(&self) -> Tensor {
            self.sub(self.div_floor(5).unwrap().mul(5).unwrap()).unwrap().sub(2).unwrap()
        }
    }

    #[test]
    fn long_axes_have_the_same_bits_for_any_number_of_threads() {
        for shape in [&[100_001][..], &[20_000, 3], &[3, 40_000], &[130, 1000]] {
            let x = Tensor::rand(shape).add(0.5).unwrap();
            for axis in 0..shape.len() {
                let run =
                    || (x.cumsum(axis).unwrap(), x.log().cumsum(axis).unwrap(), x.cumprod(axis).unwrap());
                let serial = ThreadPool::new(1).install(run);
                for threads in [2, 5] {
                    assert!(ThreadPool::new(threads).install(run) == serial, "{shape:?} {axis} {threads}");
                }
                let last = serial.0.narrow(axis, -1, 1).unwrap();
                let sum = x.double().sum(crate::keep(axis)).unwrap().float();
                crate::assert_close!(last, sum, rtol = 2e-7, atol = 0.0);
            }
        }
    }

    #[test]
    fn types_edges_and_refusals() {
        let truth = tensor![true, false, true; bool];
        assert_eq!(truth.cumsum(0).unwrap(), tensor![1, 1, 2; i64]);
        assert_eq!(truth.cumprod(-1).unwrap(), tensor![1, 0, 0; i64]);
        assert_eq!(tensor![i64::MAX, 1; i64].cumsum(0).unwrap(), tensor![i64::MAX, i64::MIN; i64]);
        assert_eq!(tensor![2.5].squeeze(0).unwrap().cumsum(-1).unwrap().item().unwrap(), 2.5);
        assert_eq!(Tensor::zeros([2, 0, 3]).cumprod(1).unwrap().dims(), [2, 0, 3]);
        assert_eq!(tensor![1.0].expand([3]).unwrap().cumsum(0).unwrap(), tensor![1.0, 2.0, 3.0]);
        let x = tensor![1.0, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        let sums = x.cumsum(0).unwrap().to_vec::<f32>().unwrap();
        assert!(sums[..2] == [1.0, f32::INFINITY] && sums[2..].iter().all(|v| v.is_nan()), "{sums:?}");
        // Small terms behind a large one are not lost.
        let x = Tensor::cat([tensor![1e8], Tensor::ones([1000])], 0).unwrap();
        assert_eq!(x.cumsum(0).unwrap().select(0, -1).unwrap().item().unwrap(), 1e8 + 1000.0);
        assert!(refused!(x.cumsum(1), TensorFacts::AxisOutOfRange { op: "cumsum", .. }));
        assert!(refused!(x.cumprod(usize::MAX), TensorFacts::AxisOutOfRange { op: "cumprod", .. }));
        // What folds in integers is no truth value.
        let boolean = truth.cumsum_with(0, DType::Bool);
        assert!(refused!(boolean, TensorFacts::DTypeUnsupported { op: "cumsum_with", .. }));
        let boolean = x.cumprod_with(0, DType::Bool);
        assert!(refused!(boolean, TensorFacts::DTypeUnsupported { op: "cumprod_with", .. }));
        let huge = tensor![1.0].expand([1usize << 60]).unwrap();
        assert!(refused!(huge.cumsum(0), TensorFacts::TooLarge { op: "cumsum", .. }));
        assert!(refused!(huge.bool().cumprod(0), TensorFacts::TooLarge { op: "cumprod", .. }));
    }
}
