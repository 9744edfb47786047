//! Copies of modules, part by part: with the same weights, or with weights of their own.

use foldback_graph::Var;

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
    /// The variables so far and their copies; none if the copy shares them.
    own: Option<Vec<(Var, Var)>>,
}

impl Copies {
    /// Variables stay the same.
    pub(crate) fn shared() -> Copies {
        Copies { own: None }
    }

    /// Variables become others.
    pub(crate) fn deep() -> Copies {
        Copies { own: Some(Vec::new()) }
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
        let Some(pairs) = &mut self.own else { return var.clone() };
        if let Some((_, copy)) = pairs.iter().find(|(old, _)| old.is_same(var)) {
            return copy.clone();
        }
        let copy = var.deep_copy();
        pairs.push((var.clone(), copy.clone()));
        copy
    }
}
