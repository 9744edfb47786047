//! The bilinear layer.

use foldback_graph::Var;
use foldback_tensor::{DType, Here, refuse};

use super::making::{Drawing, Drawn, blank, bound, clear, has, making};
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

/// `a W b + bias` over the last axes of two inputs, with a matrix `W` for each output: `[.., in1]` and `[.., in2]` to `[.., out]`. PyTorch's
/// [`Bilinear`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html).
///
/// Weight and bias start uniform between `-1/sqrt(in1)` and `1/sqrt(in1)`. A clone shares them,
/// [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::Bilinear;
/// use foldback_tensor::Tensor;
/// let layer = Bilinear::new(3, 5, 2);
/// assert_eq!(layer.forward(&Tensor::ones([4, 3]), &Tensor::ones([4, 5]))?.shape(), [4, 2]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct Bilinear {
    /// `[out, in1, in2]`
    pub weight: Var,
    /// `[out]`, if there is one
    pub bias: Option<Var>,
    in1_features: usize,
    in2_features: usize,
    out_features: usize,
    #[module(skip)]
    dtype: DType,
}

making! {
    Bilinear(in1_features: usize, in2_features: usize, out_features: usize) = Bilinear {
        weight: blank(),
        bias: Some(blank()),
        in1_features,
        in2_features,
        out_features,
        dtype: DType::F32,
    };
    shown { in1_features in2_features out_features dtype }
    keep {}
    anew {
        /// Whether there is a bias. The default is yes. One that was not there is drawn.
        bias: bool, |layer| has(&mut layer.bias, bias);
    }
}

impl Drawn for Bilinear {
    fn clear(&mut self) {
        self.weight = blank();
        clear([&mut self.bias]);
    }

    #[track_caller]
    fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
        let (law, shape) =
            (bound(self.in1_features), [self.out_features, self.in1_features, self.in2_features]);
        if self.in1_features == 0 {
            let (op, name, expected) = ("bilinear", "in1_features", "1 or more");
            return refuse(NnFacts::Parameter { op, name, value: 0.0, expected });
        }
        drawing.fill(&mut self.weight, &shape, law, self.dtype)?;
        drawing.fill(self.bias.as_mut(), &[self.out_features], law, self.dtype)
    }
}

#[forward]
impl Bilinear {
    /// `[.., in1]` and `[.., in2]` to `[.., out]`.
    ///
    /// # Errors
    /// `InputShape` if a last axis is not what the layer was made for or the other axes differ; if the types differ.
    #[track_caller]
    pub fn forward(&self, input1: &Var, input2: &Var) -> Result<Var> {
        let (lead, other) = (leading(input1, self.in1_features)?, leading(input2, self.in2_features)?);
        if lead != other {
            let expected = format!("{:?}", [lead, &[self.in2_features]].concat());
            return refuse(NnFacts::InputShape {
                op: "bilinear",
                name: "an input",
                expected,
                found: input2.shape().clone(),
            })
            .here();
        }
        let [a, b] = [(input1, self.in1_features), (input2, self.in2_features)]
            .map(|(x, width)| x.reshape([lead.iter().product(), width]));
        let y = Var::einsum("ni,oij,nj->no", [&a?, &self.weight, &b?])?;
        let y = if let Some(bias) = &self.bias { y.add(bias)? } else { y };
        y.reshape([lead, &[self.out_features]].concat())
    }
}

/// All axes but the last, which must have this size.
#[track_caller]
fn leading(x: &Var, width: usize) -> Result<&[usize]> {
    match x.dims().split_last() {
        Some((&last, lead)) if last == width => Ok(lead),
        _ => refuse(NnFacts::Features { op: "bilinear", expected: width, found: x.shape().clone() }).here(),
    }
}
