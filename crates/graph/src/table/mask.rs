//! Masks: filling and selecting, composed of a choice and of a selection by places.

use foldback_tensor::kernel::{expect_mask, selected};
use foldback_tensor::{DType, Here, or_panic};

use crate::error::Result;
use crate::input::AsInput;
use crate::mode::{LineGuard, location};
use crate::node::Var;

/// # Masks
impl Var {
    /// This variable with `value` where `mask` is true; the two broadcast, the element type stays. See
    /// [`Tensor::masked_fill`](foldback_tensor::Tensor::masked_fill). No gradient passes where it is true.
    ///
    /// # Errors
    /// As [`Tensor::masked_fill`](foldback_tensor::Tensor::masked_fill).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// let y = x.masked_fill(tensor![true, false], f32::NEG_INFINITY)?;
    /// y.exp().sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 2f32.exp()]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: impl AsInput, value: impl AsInput) -> Result<Var> {
        let (mask, value) = (mask.input().into_var(DType::Bool), value.input().beside(self));
        expect_mask("masked_fill", &mask.value_ref(), Some((&value.value_ref(), self.dtype()))).here()?;
        mask.where_cond(value.to(self.dtype()), self).map_err(|e| e.named("masked_fill")).here()
    }

    /// [`Var::masked_fill`] in place: the mask broadcasts to this variable, which is rebound to the result.
    ///
    /// # Errors
    /// `LeafInPlace` for a leaf that requires a gradient, outside [`no_grad`](crate::no_grad); also as `masked_fill`. Nothing
    /// is changed then.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let mut x = Var::from(tensor![1.0, 2.0]);
    /// x.masked_fill_(tensor![true, false], 0)?;
    /// assert_eq!(x.value(), tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill_(&mut self, mask: impl AsInput, value: impl AsInput) -> Result<&mut Var> {
        let leaf = self.own_leaf();
        let _turn = self.turn_to_rebind("masked_fill_", leaf.as_deref()).here()?;
        let new = self.masked_fill(mask, value).map_err(|e| e.named("masked_fill_")).here()?;
        self.rebind("masked_fill_", new).here()?;
        Ok(self)
    }

    /// The elements where `mask` is true, as a vector; the two broadcast. See
    /// [`Tensor::masked_select`](foldback_tensor::Tensor::masked_select).
    ///
    /// # Errors
    /// As [`Tensor::masked_select`](foldback_tensor::Tensor::masked_select).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, -2.0, 3.0].requires_grad();
    /// x.masked_select(x.gt(0)?)?.square().sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 0.0, 6.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "boolean_mask")]
    pub fn masked_select(&self, mask: impl AsInput) -> Result<Var> {
        let _line = LineGuard::set(location());
        let mask = mask.input().into_var(DType::Bool);
        let (shape, places) = selected(&self.value_ref(), &mask.value_ref()).here()?;
        let wide = if shape == *self.shape() { Ok(self.clone()) } else { self.expand(shape) };
        let picked = wide.and_then(|wide| wide.reshape(-1)).and_then(|all| all.index_select(0, places));
        picked.map_err(|e| e.named("masked_select")).here()
    }

    /// The places of the elements that are not zero, a row of coordinates for each: an `i64` variable, which requires no
    /// gradient. See [`Tensor::nonzero`](foldback_tensor::Tensor::nonzero).
    ///
    /// # Panics
    /// If this is an expanded view too large to look through.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, 7.0].requires_grad().nonzero().value(), tensor![[1]; i64]);
    /// ```
    #[track_caller]
    #[doc(alias = "argwhere")]
    pub fn nonzero(&self) -> Var {
        or_panic(self.try_nonzero())
    }

    /// [`Self::nonzero`], with an error where that panics.
    ///
    /// # Errors
    /// `TooLarge`.
    #[track_caller]
    pub fn try_nonzero(&self) -> Result<Var> {
        self.value_ref().try_nonzero().map(Var::constant).here()
    }
}
