//! Copies of modules, part by part: with the same weights, or with weights of their own.

use foldback_graph::{Var, enable_grad};
use foldback_tensor::{DType, or_panic};

use crate::buffer::Buffer;
use crate::module::Module;

/// A copy of a module in the making: it knows what stands for each variable in the copy.
///
/// ```
/// use foldback_graph::Var;
/// use foldback_nn::{Copies, Module, Visitor};
///
/// struct Scale { scale: Var, name: String }
/// impl Module for Scale {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.layer(self);
///         visitor.part("scale", &self.scale);
///     }
///     fn set_training(&mut self, _: bool) {}
///     fn copy_parts(&self, copies: &mut Copies) -> Scale {
///         Scale { scale: copies.part(&self.scale), name: copies.setting(&self.name) }
///     }
/// }
/// # use foldback_graph::RequiresGrad;
/// let model = Scale { scale: foldback_tensor::tensor![2.0].requires_grad(), name: "a".into() };
/// let copy = model.deep_copy();
/// assert!(!copy.scale.is_same(&model.scale) && copy.name == "a");
/// ```
#[derive(Debug)]
pub struct Copies {
    others: Others,
    pairs: Pairs,
}

/// What stands in the copy for a variable that none is known for.
#[derive(Debug)]
enum Others {
    /// the same one
    Same,
    /// one of its own
    Own,
    /// one of its own, of this type if it holds floating-point numbers
    Converted(DType),
}

/// The variables and buffers so far, each with its copy.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) vars: Vec<(Var, Var)>,
    pub(crate) buffers: Vec<(Buffer, Buffer)>,
}

impl Copies {
    fn new(others: Others) -> Copies {
        Copies { others, pairs: Pairs::default() }
    }

    /// Variables stay the same.
    pub(crate) fn shared() -> Copies {
        Copies::new(Others::Same)
    }

    /// Variables become others.
    pub(crate) fn deep() -> Copies {
        Copies::new(Others::Own)
    }

    /// Variables become others, floating-point ones of this type.
    pub(crate) fn converted(dtype: DType) -> Copies {
        Copies::new(Others::Converted(dtype))
    }

    /// The first of each pair becomes the second; others stay the same.
    pub(crate) fn given(pairs: Pairs) -> Copies {
        Copies { others: Others::Same, pairs }
    }

    /// The copy of a part: a variable or a module.
    pub fn part<M: Module>(&mut self, part: &M) -> M {
        part.copy_parts(self)
    }

    /// The copy of a setting, which is its clone.
    pub fn setting<T: Clone>(&mut self, setting: &T) -> T {
        setting.clone()
    }

    /// What stands for this variable in the copy; the same at every place where it stands.
    pub(crate) fn var(&mut self, var: &Var) -> Var {
        if let Some((_, copy)) = self.pairs.vars.iter().find(|(old, _)| old.is_same(var)) {
            return copy.clone();
        }
        let copy = match self.others {
            Others::Same => return var.clone(),
            Others::Converted(dtype) if var.dtype().is_float() && var.dtype() != dtype => {
                converted(var, dtype)
            }
            Others::Own | Others::Converted(_) => var.deep_copy(),
        };
        self.pairs.vars.push((var.clone(), copy.clone()));
        copy
    }

    /// What stands for this buffer in the copy.
    pub(crate) fn buffer(&mut self, buffer: &Buffer) -> Buffer {
        if let Some((_, copy)) = self.pairs.buffers.iter().find(|(old, _)| old.is_same(buffer)) {
            return copy.clone();
        }
        let value = buffer.value();
        let copy = match self.others {
            Others::Same => return buffer.clone(),
            Others::Converted(dtype) if value.dtype().is_float() => buffer.with(value.to(dtype)),
            Others::Own | Others::Converted(_) => buffer.with(value),
        };
        self.pairs.buffers.push((buffer.clone(), copy.clone()));
        copy
    }
}

/// A leaf becomes a leaf, what a program has computed or fixed is converted in its graph.
fn converted(var: &Var, dtype: DType) -> Var {
    // A variable without history is not even the same as itself.
    if !(var.is_leaf() && var.is_same(var)) {
        return enable_grad(|| var.to(dtype));
    }
    let mut leaf = or_panic(Var::leaf(var.value().to(dtype)));
    or_panic(leaf.requires_grad_(var.requires_grad()));
    leaf
}

#[cfg(test)]
mod tests;
