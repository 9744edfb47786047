//! The rectifier with a slope that is learned.

use foldback_graph::Var;
use foldback_tensor::DType;

use super::making::{Drawing, Drawn, blank, expect_float, making};
use crate::error::Result;
use crate::init::Init;
use crate::{Module, forward};

/// `x`, and `weight x` below zero, with one weight or one for each channel (axis 1): see [`Var::prelu`]. PyTorch's
/// [`PReLU`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PReLU.html).
///
/// The weight starts as 0.25. A clone shares it, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::PReLU;
/// use foldback_tensor::tensor;
/// assert_eq!(PReLU::new().forward(&tensor![-4.0, 3.0])?.value(), tensor![-1.0, 3.0]);
/// assert_eq!(PReLU::new().num_parameters(3).init(0.1).weight.shape(), [3]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct PReLU {
    /// `[1]` or `[c]`
    pub weight: Var,
    num_parameters: usize,
    init: f64,
    #[module(skip)]
    dtype: DType,
}

making! {
    PReLU() = PReLU { weight: blank(), num_parameters: 1, init: 0.25, dtype: DType::F32 };
    shown { num_parameters init dtype }
    keep {}
    anew {
        /// How many weights there are: 1, the default, or as many as channels.
        num_parameters: usize, |layer| {
            layer.num_parameters = num_parameters;
            layer.clear();
        };
        /// What the weights start as. The default is 0.25.
        init: f64, |layer| {
            layer.init = init;
            layer.clear();
        };
    }
}

impl Default for PReLU {
    fn default() -> PReLU {
        PReLU::new()
    }
}

impl Drawn for PReLU {
    fn clear(&mut self) {
        self.weight = blank();
    }

    #[track_caller]
    fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
        expect_float("prelu", self.dtype)?;
        drawing.fill(&mut self.weight, &[self.num_parameters], Init::constant(self.init), self.dtype)
    }
}

#[forward]
impl PReLU {
    /// The function of each element.
    ///
    /// # Errors
    /// If there is neither one weight nor one for each channel, or the types differ.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        x.prelu(&self.weight)
    }
}
