//! Dropout of whole channels.

use foldback_graph::Var;
use foldback_tensor::{Here, Tensor, refuse};

use super::dropout::{Dropout, dropping};
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

macro_rules! channels {
    ($($(#[$doc:meta])* $layer:ident($op:literal, $ranks:pat, $shapes:literal, |$rank:ident| $behind:expr);)*) => {$(
        dropping!($(#[$doc])* $layer, "channels");

        #[forward]
        impl $layer {
            /// The input with some channels dropped; itself after [`Module::eval`].
            ///
            /// # Errors
            /// `InputShape` for another number of axes; `DType` for integers and `bool`, in training.
            #[track_caller]
            pub fn forward(&self, x: &Var) -> Result<Var> {
                let $rank = x.rank();
                if !matches!($rank, $ranks) {
                    let expected = $shapes.into();
                    return refuse(NnFacts::InputShape { op: $op, name: "an input", expected, found: x.shape().clone() }).here();
                }
                let behind: usize = $behind;
                if !self.each.is_training() || self.each.p() == 0.0 {
                    return Ok(x.clone());
                }
                // One number for each channel, dropped or not, and spread over what is behind it.
                let mut shape = x.dims().to_vec();
                shape[$rank - behind..].fill(1);
                x.mul(&self.each.forward(&Tensor::try_ones_with(shape, x.dtype())?)?)
            }
        }
    )*};
}

channels! {
    /// In training, sets whole channels to zero with probability `p` and multiplies the others by `1 / (1 - p)`: `[n, c, l]` or
    /// `[c, l]`. PyTorch's [`Dropout1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout1d.html).
    ///
    /// ```
    /// use foldback_nn::Dropout1d;
    /// use foldback_tensor::Tensor;
    /// let y = Dropout1d::new(0.5).forward(&Tensor::ones([1, 2, 3]))?.value();
    /// assert_eq!(y.amax(-1)?, y.amin(-1)?);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Dropout1d("dropout1d", 2 | 3, "[n, c, l] or [c, l]", |_rank| 1);
    /// In training, sets whole channels to zero with probability `p` and multiplies the others by `1 / (1 - p)`: `[n, c, h, w]`, and as
    /// in PyTorch `[n, c, l]`. PyTorch's [`Dropout2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout2d.html).
    ///
    /// ```
    /// use foldback_nn::Dropout2d;
    /// use foldback_tensor::Tensor;
    /// let y = Dropout2d::new(0.5).forward(&Tensor::ones([1, 2, 3, 3]))?.value();
    /// assert_eq!(y.amax([-1, -2])?, y.amin([-1, -2])?);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Dropout2d("dropout2d", 3 | 4, "[n, c, h, w] or [n, c, l]", |rank| rank - 2);
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;

    use super::*;

    /// Whole channels go, about as many as asked for, and the gradient goes with them.
    #[test]
    fn drops_whole_channels() {
        let x = Tensor::ones([40, 50, 2, 2]).requires_grad();
        let y = Dropout2d::new(0.25).seed(3).forward(&x).unwrap();
        let channels = y.value().amax([2, 3]).unwrap();
        assert_eq!(channels, y.value().amin([2, 3]).unwrap());
        let values: Vec<f32> = channels.to_vec().unwrap();
        let dropped = values.iter().filter(|&&v| v == 0.0).count() as f64 / 2000.0;
        // 4 standard errors of a share of 2000
        assert!((dropped - 0.25).abs() < 4.0 * (0.25f64 * 0.75 / 2000.0).sqrt(), "{dropped}");
        assert!(values.iter().all(|&v| v == 0.0 || (v - 4.0 / 3.0).abs() < 1e-6));
        y.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap(), y.value());
        assert_eq!(
            Dropout1d::new(1.0).forward(x.narrow(3, 0, 1).unwrap().squeeze(3).unwrap()).unwrap().value(),
            Tensor::zeros([40, 50, 2])
        );
    }

    #[test]
    fn refusals() {
        assert!(Dropout1d::try_new(1.5).is_err() && Dropout2d::try_new(f64::NAN).is_err());
        let e = Dropout1d::new(0.5).forward(Tensor::ones(3)).unwrap_err().with_location(None).to_string();
        assert_eq!(e, "dropout1d: expected an input of shape [n, c, l] or [c, l], found [3]");
        let mut layer = Dropout2d::new(0.5);
        layer.eval();
        assert!(layer.forward(Tensor::ones([1, 2, 3, 4])).is_ok() && layer.forward(Tensor::ones(3)).is_err());
    }
}
