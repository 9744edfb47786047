//! Gradients of several inputs that are computed together, in one pass over what they share.

use foldback_tensor::Tensor;
use smallvec::SmallVec;

use crate::error::Result;
use crate::node::{Context, Flow, Mood, Take, Var, Work};

/// A step whose gradients are computed at once, or recorded one by one.
pub(super) trait Together<const N: usize> {
    /// All of them; anything stands in the place of those that nobody asks for.
    fn now(&self) -> Result<[Tensor; N]>;
    /// One of them as an expression over variables.
    fn recorded(&self, which: usize) -> Result<Var>;
}

/// Describes the gradients of the inputs at these places, as far as they are asked for.
pub(super) fn describe<const N: usize>(
    ctx: &Context<'_>,
    take: &mut Take<'_>,
    step: &impl Together<N>,
    places: [Option<usize>; N],
) -> Result<()> {
    let asked = |(which, place): (usize, Option<usize>)| Some((which, place.filter(|&k| ctx.needs(k))?));
    let (asked, to): (SmallVec<[usize; N]>, SmallVec<[usize; 2]>) =
        places.into_iter().enumerate().filter_map(asked).unzip();
    let form = |mood| match mood {
        Mood::Now => {
            let all = step.now()?;
            Ok(asked.iter().map(|&which| Var::constant(all[which].clone())).collect())
        }
        Mood::Recorded => asked.iter().map(|&which| step.recorded(which)).collect(),
    };
    take(Flow { to, work: Work::Either(Box::new(form)) })
}
