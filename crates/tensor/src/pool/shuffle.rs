//! Pixels made of channels, and channels made of pixels.

use crate::error::{Here, Result, TensorFacts, refuse};
use crate::tensor::Tensor;

/// # Shuffling pixels
impl Tensor {
    /// Channels as pixels: `[.., c r r, h, w]` gives `[.., c, h r, w r]`, of any type. PyTorch's
    /// `torch.nn.functional.pixel_shuffle`.
    ///
    /// # Errors
    /// `Rank` for fewer than three axes, `Parameter` for a factor of 0, `Window` unless its square divides the channels.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[[1.0]], [[2.0]], [[3.0]], [[4.0]]];
    /// assert_eq!(x.pixel_shuffle(2)?, tensor![[[1.0, 2.0], [3.0, 4.0]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_shuffle(&self, upscale_factor: usize) -> Result<Tensor> {
        let (op, r) = ("pixel_shuffle", upscale_factor);
        let [c, h, w] = last_three(op, self, r).here()?;
        let Some(square) = r.checked_mul(r).filter(|square| c.is_multiple_of(*square)) else {
            let why = format!(
                "has {c} channels, which {r} * {r} does not divide: it makes one channel of {r} * {r}"
            );
            return refuse(TensorFacts::Window { op, input: self.shape().clone(), why }).here();
        };
        shuffled(op, self, [c / square, r, r, h, w], [0, 3, 1, 4, 2], [c / square, h * r, w * r]).here()
    }

    /// Pixels as channels: `[.., c, h r, w r]` gives `[.., c r r, h, w]`; what [`Tensor::pixel_shuffle`] does, undone.
    ///
    /// # Errors
    /// `Rank` for fewer than three axes, `Parameter` for a factor of 0, `Window` unless it divides the sizes.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[[1.0, 2.0], [3.0, 4.0]]];
    /// assert_eq!(x.pixel_unshuffle(2)?.flatten(..)?, tensor![1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_unshuffle(&self, downscale_factor: usize) -> Result<Tensor> {
        let (op, r) = ("pixel_unshuffle", downscale_factor);
        let [c, h, w] = last_three(op, self, r).here()?;
        if !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            let why = format!("has pixels {h} * {w}, and {r} does not divide both: pad or narrow them");
            return refuse(TensorFacts::Window { op, input: self.shape().clone(), why }).here();
        }
        // All sizes but of an empty image are those of elements; of an empty one they may be anything.
        let channels = c.saturating_mul(r).saturating_mul(r);
        shuffled(op, self, [c, h / r, r, w / r, r], [0, 2, 4, 1, 3], [channels, h / r, w / r]).here()
    }
}

fn last_three(op: &'static str, x: &Tensor, r: usize) -> Result<[usize; 3]> {
    let Some((_, last)) = x.dims().split_last_chunk::<3>() else {
        return refuse(TensorFacts::Rank { op, operand: "", expected: "at least 3", found: x.rank() });
    };
    if r == 0 {
        let (name, value) = ("factor", "0".into());
        return refuse(TensorFacts::Parameter { op, name, value, expected: "at least 1" });
    }
    Ok(*last)
}

/// The last three axes as five, in another order, as three.
fn shuffled(
    op: &'static str,
    x: &Tensor,
    five: [usize; 5],
    order: [usize; 5],
    three: [usize; 3],
) -> Result<Tensor> {
    let batch = x.rank() - 3;
    let shape = |last: &[usize]| x.dims()[..batch].iter().chain(last).copied().collect::<Vec<usize>>();
    let axes: Vec<usize> = (0..batch).chain(order.map(|axis| batch + axis)).collect();
    let last = shape(&three);
    crate::create::checked_len(op, &last.clone().into(), x.dtype())?;
    x.reshaped(op, shape(&five).into())?.permute(axes)?.reshaped(op, last.into())
}
