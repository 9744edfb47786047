//! Functions that make tensors and can refuse.

use foldback_tensor::{DType, Generator, Tensor};

use super::tensors::told;
use super::{Choices, Target};

macro_rules! targets {
    ($($name:literal => |$c:ident| $body:expr;)*) => {
        &[$(Target { name: $name, call: |$c: &mut Choices<'_>| told($body) }),*]
    };
}

pub(super) const TARGETS: &[Target] = targets! {
    "zeros" => |c| Tensor::try_zeros_with(c.untouched_shape(), c.dtype());
    "ones" => |c| Tensor::try_ones_with(c.shape(), c.dtype());
    "full" => |c| Tensor::try_full_with(c.shape(), c.scalar(), c.dtype());
    "eye" => |c| Tensor::try_eye_with(c.size(), c.dtype());
    "eye" => |c| Tensor::try_eye_with((c.size(), c.size()), c.dtype());
    "linspace" => |c| Tensor::try_linspace_with(c.scalar(), c.scalar(), c.size(), c.dtype());
    "from_vec" => |c| Tensor::from_vec(values(c), c.shape());
    "from_slice" => |c| Tensor::from_slice(&values(c), c.shape());
    "from_strided" => |c| Tensor::from_strided(values(c), c.untouched_shape(), &c.positions(), c.size());
    "rand" => |c| Generator::new(7).try_rand_with(c.shape(), c.dtype());
    "randn" => |c| Generator::new(7).try_randn_with(c.shape(), c.dtype());
    "uniform" => |c| Generator::new(7).try_uniform_with(c.shape(), c.float(), c.float(), c.dtype());
    "normal" => |c| Generator::new(7).try_normal_with(c.shape(), c.float(), c.float(), c.dtype());
    "bernoulli" => |c| Generator::new(7).try_bernoulli_with(c.shape(), c.float(), c.dtype());
    "randint" => |c| Generator::new(7).try_randint(c.integer()..c.integer(), c.shape());
    "randperm" => |c| Generator::new(7).try_randperm(c.size());
    "arange" => |c| Tensor::try_arange_with((c.float() % 1e3)..(c.float() % 1e3), c.float(), DType::F64);
};

fn values(c: &mut Choices<'_>) -> Vec<f64> {
    vec![0.5; c.below(20)]
}
