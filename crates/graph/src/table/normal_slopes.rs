//! The node of a normalisation and its gradients: one pass over the rows, or, where they are to be recorded, the same
//! formulas over variables.

use std::sync::Arc;

use foldback_tensor::kernel::Normalisation;
use foldback_tensor::{Axes, Norm, Over, Tensor, keep};
use smallvec::SmallVec;

use super::Row;
use super::together::{self, Together};
use crate::error::Result;
use crate::input::AsOptionalInput;
use crate::record::{Reads, record_one};
use crate::rule::Slot;
use crate::var::Var;
use crate::work::{Context, Take};

/// Normalises with the statistics of the elements themselves.
#[track_caller]
pub(super) fn normalised(
    row: &'static Row,
    x: &Var,
    how: Normalisation,
    options: &Norm<impl AsOptionalInput, impl AsOptionalInput>,
) -> Result<Var> {
    with_statistics(row, x, how, options, |_, _| Ok(())).map(|(y, ())| y)
}

/// The same, and the statistics found, or those that go on with running ones.
#[track_caller]
pub(super) fn trained(
    row: &'static Row,
    x: &Var,
    how: Normalisation,
    options: &Norm<impl AsOptionalInput, impl AsOptionalInput>,
    running: Option<([Tensor; 2], f64)>,
) -> Result<(Var, Var, Var)> {
    let running = running.as_ref().map(|([mean, var], momentum)| ([mean, var], *momentum));
    let found = |how: &Normalisation, statistics: &Tensor| how.found(&x.value_ref(), statistics, running);
    let (y, [mean, var]) = with_statistics(row, x, how, options, found)?;
    Ok((y, Var::constant(mean), Var::constant(var)))
}

#[track_caller]
fn with_statistics<T>(
    row: &'static Row,
    x: &Var,
    how: Normalisation,
    options: &Norm<impl AsOptionalInput, impl AsOptionalInput>,
    found: impl FnOnce(&Normalisation, &Tensor) -> Result<T>,
) -> Result<(Var, T)> {
    let _span = crate::profile::forward(row.name);
    let [w, b] = [options.weight.optional_input(), options.bias.optional_input()];
    let [w, b] = [w, b].map(|p| p.map(|p| p.beside(x)));
    let [wv, bv] = [&w, &b].map(|p| p.as_deref().map(Var::value));
    let (y, statistics) = how.forward(&x.value_ref(), wv.as_ref(), bv.as_ref())?;
    let found = found(&how, &statistics)?;
    Ok((record(row, x, [w.as_deref(), b.as_deref()], y, (how, statistics, false)), found))
}

/// With statistics that have gradients of their own, which PyTorch refuses: operation by operation.
#[track_caller]
pub(super) fn with_tracked_statistics(
    how: &Normalisation,
    x: &Var,
    [mean, var]: [&Var; 2],
    [w, b]: [Option<&Var>; 2],
) -> Result<Var> {
    // What does not fit is refused as it is where nothing is tracked.
    let [wv, bv] = [w, b].map(|p| p.map(Var::value));
    let statistics = how.known(&mean.value_ref(), &var.value_ref())?;
    how.apply(&x.value_ref(), wv.as_ref(), bv.as_ref(), &statistics)?;
    let spread = |p: &Var| p.reshape(&how.affine);
    let view = x.reshape(&how.view)?;
    let mut y = view.sub(spread(mean)?)?.mul(spread(var)?.add(how.eps)?.rsqrt())?;
    if let Some(w) = w {
        y = y.mul(spread(w)?)?;
    }
    if let Some(b) = b {
        y = y.add(spread(b)?)?;
    }
    y.reshape(x.shape())
}

/// The node of a normalised variable; `known` says whether the statistics are constants.
#[track_caller]
pub(super) fn record(
    row: &'static Row,
    x: &Var,
    [w, b]: [Option<&Var>; 2],
    y: Tensor,
    (how, statistics, known): (Normalisation, Tensor, bool),
) -> Var {
    let inputs: SmallVec<[&Var; 3]> = [Some(x), w, b].into_iter().flatten().collect();
    // The places of weight and bias among the inputs.
    let places = (w.map(|_| 1), b.map(|_| inputs.len() - 1));
    let (of_x, of_w) = ([Slot::Input(0), Slot::Input(1)], [Slot::Input(0)]);
    let all: [&[Slot]; 3] = match places {
        (Some(_), _) => [&of_x, &of_w, &[]],
        _ => [&of_w, &[], &[]],
    };
    record_one(row, &inputs, y, Reads::Each(&all[..inputs.len()]), move || {
        let how = Arc::new(how);
        Box::new(move |ctx: &Context<'_>, take: &mut Take<'_>| {
            describe(ctx, take, &how, &statistics, places, known)
        })
    })
}

/// What the gradients of a normalisation are made of.
struct Step {
    how: Arc<Normalisation>,
    statistics: Tensor,
    known: bool,
    g: Var,
    /// needed for all gradients but the bias's
    x: Option<Var>,
    w: Option<Var>,
    /// whether the gradient of the elements is asked for, and one of a parameter
    wanted: (bool, bool),
}

fn describe(
    ctx: &Context<'_>,
    take: &mut Take<'_>,
    how: &Arc<Normalisation>,
    statistics: &Tensor,
    (weight, bias): (Option<usize>, Option<usize>),
    known: bool,
) -> Result<()> {
    let needs = |place: Option<usize>| place.is_some_and(|place| ctx.needs(place));
    let of_x = ctx.needs(0);
    let step = Step {
        how: how.clone(),
        statistics: statistics.clone(),
        known,
        g: ctx.grad(0),
        x: (of_x || needs(weight)).then(|| ctx.value(Slot::Input(0))),
        w: if of_x { weight.map(|place| ctx.value(Slot::Input(place))) } else { None },
        wanted: (of_x, needs(weight) || needs(bias)),
    };
    together::describe(ctx, take, step, [Some(0), weight, bias])
}

impl Step {
    fn of_bias(&self) -> Result<Var> {
        let g = self.g.reshape(&self.how.view)?;
        g.sum_to_size(&self.how.affine)?.reshape(&self.how.parameter)
    }
}

/// The gradients of the elements (0), of the weight (1) and of the bias (2).
impl Together<3> for Step {
    fn now(&self) -> Result<[Tensor; 3]> {
        let g = self.g.value_ref();
        let Some(x) = &self.x else {
            let nothing = Tensor::zeros_with(0, g.dtype());
            return Ok([nothing.clone(), nothing, self.of_bias()?.value()]);
        };
        let (x, w) = (x.value_ref(), self.w.as_ref().map(Var::value));
        match self.wanted {
            (false, _) => {
                let [dw, db] = self.how.slopes_of_parameters(&g, &x, &self.statistics)?;
                Ok([db.clone(), dw, db])
            }
            _ if self.known => self.how.backward_known(&g, &x, w.as_ref(), &self.statistics),
            (true, parameters) => self.how.backward(&g, &x, w.as_ref(), &self.statistics, parameters),
        }
    }

    fn recorded(&self, which: usize) -> Result<Var> {
        let (how, over) = (&self.how, over(&self.how));
        let g = self.g.reshape(&how.view)?;
        let Some(own) = self.x.as_ref().filter(|_| which < 2) else { return self.of_bias() };
        let x = own.reshape(&how.view)?;
        let (normal, r) = match self.known {
            true => {
                let [m, r] = how.moments(&self.statistics)?.map(Var::constant);
                (x.sub(&m)?.mul(&r)?, r)
            }
            false => {
                let c = if how.centred { x.sub(x.mean(&over)?)? } else { x };
                let r = c.square().mean(&over)?.add(how.eps)?.rsqrt();
                (c.mul(&r)?, r)
            }
        };
        if which == 1 {
            return g.mul(&normal)?.sum_to_size(&how.affine)?.reshape(&how.parameter);
        }
        let mut slope = match &self.w {
            Some(w) => g.mul(w.reshape(&how.affine)?)?,
            None => g,
        };
        if !self.known {
            let along = normal.mul(slope.mul(&normal)?.mean(&over)?)?;
            let mean = slope.mean(&over)?;
            slope = if how.centred { slope.sub(&mean)?.sub(&along)? } else { slope.sub(&along)? };
        }
        slope.mul(&r)?.reshape(own.shape())
    }
}

/// The axes that are normalised over.
fn over(how: &Normalisation) -> Over {
    keep(Axes::from(how.axes))
}
