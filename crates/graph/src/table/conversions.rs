//! Rows that keep the values and change how they are stored: casts, and row-major copies.

use foldback_tensor::{DType, Here, or_panic};

use super::function_rows::function;
use crate::error::Result;
use crate::node::Var;

function! {
    in rows;

    pub(crate) fn cast(a; dtype: DType) = a.try_to(dtype);
        // The engine casts it back, and a tangent.
        d a = g;
        t = t;
        over leading axes;
        check { "to itself": [[2, 3] Any] |x| x[0].cast(DType::F64); }

    fn laid_out(a) = a.try_contiguous();
        d a = g;
        t = t;
        over leading axes;
        check { "plain": [[2, 3] Any] |x| x[0].laid_out(); }
}

pub(super) use rows::ALL;

impl Var {
    /// The same values in another type; the gradient arrives in this variable's own. Integers require none.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{DType, tensor};
    /// let x = tensor![1.0].requires_grad();
    /// x.to(DType::F64).backward()?;
    /// assert_eq!(x.grad().unwrap().dtype(), DType::F32);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn to(&self, dtype: DType) -> Var {
        or_panic(self.try_to(dtype))
    }

    /// [`Var::to`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if this is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.0].requires_grad().try_to(DType::F64)?.dtype(), DType::F64);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn try_to(&self, dtype: DType) -> Result<Var> {
        if self.dtype() == dtype { Ok(self.clone()) } else { self.cast(dtype).here() }
    }

    /// Cast to `f32`.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().float().dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn float(&self) -> Var {
        self.to(DType::F32)
    }

    /// Cast to `f64`.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().double().dtype(), DType::F64);
    /// ```
    #[track_caller]
    pub fn double(&self) -> Var {
        self.to(DType::F64)
    }

    /// Cast to `i64`; fractions are cut off.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().long().dtype(), DType::I64);
    /// ```
    #[track_caller]
    pub fn long(&self) -> Var {
        self.to(DType::I64)
    }

    /// Cast to `bool`: whether elements are not zero.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().bool().dtype(), DType::Bool);
    /// ```
    #[track_caller]
    pub fn bool(&self) -> Var {
        self.to(DType::Bool)
    }

    /// Itself if it is contiguous, else a row-major copy.
    ///
    /// # Panics
    /// If this is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert!(x.t().contiguous().value().is_contiguous());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn contiguous(&self) -> Var {
        or_panic(self.try_contiguous().map_err(|e| e.named("contiguous")))
    }

    /// [`Var::contiguous`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if this is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert!(x.t().try_contiguous()?.value().is_contiguous());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn try_contiguous(&self) -> Result<Var> {
        if self.value_ref().is_contiguous() { Ok(self.clone()) } else { self.laid_out().here() }
    }
}
