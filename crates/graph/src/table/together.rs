//! Gradients of several inputs that are computed together, in one pass over what they share.

use std::cell::RefCell;
use std::rc::Rc;

use foldback_tensor::Tensor;

use crate::error::Result;
use crate::node::{Context, Flow, Take, Var, Work};

/// A step whose gradients are computed at once, or recorded one by one.
pub(super) trait Together<const N: usize>: 'static {
    /// All of them; anything stands in the place of those that nobody asks for.
    fn now(&self) -> Result<[Tensor; N]>;
    /// One of them as an expression over variables.
    fn recorded(&self, which: usize) -> Result<Var>;
}

/// Describes the gradients of the inputs at these places, as far as they are asked for.
pub(super) fn describe<const N: usize>(
    ctx: &Context<'_>,
    take: &mut Take<'_>,
    step: impl Together<N>,
    places: [Option<usize>; N],
) -> Result<()> {
    let shared = Rc::new((step, RefCell::new(None::<[Tensor; N]>)));
    for (which, place) in places.into_iter().enumerate() {
        let Some(place) = place.filter(|&place| ctx.needs(place)) else { continue };
        let now = move |shared: &Rc<(_, RefCell<Option<[Tensor; N]>>)>| {
            let (step, done): &(_, RefCell<Option<[Tensor; N]>>) = shared;
            if done.borrow().is_none() {
                let all = Together::now(step)?;
                *done.borrow_mut() = Some(all);
            }
            Ok(done.borrow().as_ref().expect("computed just now")[which].clone())
        };
        take(Flow::to(place, Work::either(shared.clone(), now, move |shared| shared.0.recorded(which))))?;
    }
    Ok(())
}
