//! Copies of modules, part by part: with the same weights, or with weights of their own.

use foldback_graph::Var;

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
    /// None if the copy shares them.
    own: Option<Pairs>,
}

/// The variables and buffers so far, each with its copy.
#[derive(Debug, Default)]
struct Pairs {
    vars: Vec<(Var, Var)>,
    buffers: Vec<(Buffer, Buffer)>,
}

impl Copies {
    /// Variables stay the same.
    pub(crate) fn shared() -> Copies {
        Copies { own: None }
    }

    /// Variables become others.
    pub(crate) fn deep() -> Copies {
        Copies { own: Some(Pairs::default()) }
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
        let Some(own) = &mut self.own else { return var.clone() };
        if let Some((_, copy)) = own.vars.iter().find(|(old, _)| old.is_same(var)) {
            return copy.clone();
        }
        let copy = var.deep_copy();
        own.vars.push((var.clone(), copy.clone()));
        copy
    }

    /// What stands for this buffer in the copy.
    pub(crate) fn buffer(&mut self, buffer: &Buffer) -> Buffer {
        let Some(own) = &mut self.own else { return buffer.clone() };
        if let Some((_, copy)) = own.buffers.iter().find(|(old, _)| old.is_same(buffer)) {
            return copy.clone();
        }
        let copy = buffer.own();
        own.buffers.push((buffer.clone(), copy.clone()));
        copy
    }
}
