//! The node of a normalisation and its gradients: one pass over the rows, or, where they are to be recorded, the same
//! formulas over variables.

use std::sync::Arc;

use foldback_tensor::kernel::Normalisation;
use foldback_tensor::{Axes, Norm, Over, Shape, Tensor, keep};
use smallvec::SmallVec;

use super::Row;
use super::together::{self, Together};
use crate::arrival::apart;
use crate::error::Result;
use crate::input::{AsOptionalInput, Input};
use crate::lead::Lead;
use crate::node::{Able, Context, Flow, Take, Var};
use crate::record::{Reads, record_one};
use crate::slot::RuleSlot;

/// The weight and the bias of a normalisation.
pub(super) fn parameters(
    options: &Norm<impl AsOptionalInput, impl AsOptionalInput>,
) -> [Option<Input<'_>>; 2] {
    [options.weight.optional_input(), options.bias.optional_input()]
}

/// Normalises with the statistics of the elements themselves.
#[track_caller]
pub(super) fn normalised(
    row: &'static Row,
    x: &Var,
    how: Normalisation,
    parameters: [Option<Input<'_>>; 2],
) -> Result<Var> {
    with_statistics(row, x, how, parameters, |_, _| Ok(())).map(|(y, ())| y)
}

/// The same, and the statistics found, or those that go on with running ones.
#[track_caller]
pub(super) fn trained(
    row: &'static Row,
    x: &Var,
    how: Normalisation,
    parameters: [Option<Input<'_>>; 2],
    running: Option<([Tensor; 2], f64)>,
) -> Result<(Var, Var, Var)> {
    let running = running.as_ref().map(|([mean, var], momentum)| ([mean, var], *momentum));
    let found = |how: &Normalisation, statistics: &Tensor| how.found(&x.value_ref(), statistics, running);
    let (y, [mean, var]) = with_statistics(row, x, how, parameters, found)?;
    Ok((y, Var::constant(mean), Var::constant(var)))
}

#[track_caller]
fn with_statistics<T>(
    row: &'static Row,
    x: &Var,
    how: Normalisation,
    parameters: [Option<Input<'_>>; 2],
    found: impl FnOnce(&Normalisation, &Tensor) -> Result<T>,
) -> Result<(Var, T)> {
    let _span = crate::profile::forward(row.name);
    let [w, b] = parameters.map(|p| p.map(|p| p.beside(x)));
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
    let (of_x, of_w) = ([RuleSlot::Input(0), RuleSlot::Input(1)], [RuleSlot::Input(0)]);
    let all: [&[RuleSlot]; 3] = match places {
        (Some(_), _) => [&of_x, &of_w, &[]],
        _ => [&of_w, &[], &[]],
    };
    record_one(row.name, &inputs, y, Reads::Each(&all[..inputs.len()]), move || {
        let how = Arc::new(how);
        let function = move |ctx: &Context<'_>, take: &mut Take<'_>| {
            describe(ctx, take, &how, &statistics, places, known)
        };
        Box::new(Able { leads: true, pushes: true, arrival: apart, function })
    })
}

/// What the gradients of a normalisation are made of.
struct NormalisationBackward {
    how: Arc<Normalisation>,
    statistics: Tensor,
    known: bool,
    g: Var,
    /// needed for all gradients but the bias's
    x: Option<Var>,
    w: Option<Var>,
    /// whether the gradient of the elements is asked for, and one of a parameter
    wanted: (bool, bool),
    n: Lead,
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
    let saved = |place: usize| ctx.value(RuleSlot::Input(place));
    let x = (of_x || needs(weight)).then(|| saved(0));
    let w = if of_x { weight.map(saved) } else { None };
    if ctx.tangents.is_some() {
        let of =
            |place: Option<usize>| place.filter(|&place| ctx.needs(place)).map(|place| ctx.tangent(place));
        let push = Push { how, statistics, known, x, w, n: ctx.lead };
        return take(Flow::to(0, push.tangent([of(Some(0)), of(weight), of(bias)], &ctx.full())?));
    }
    let step = NormalisationBackward {
        how: how.clone(),
        statistics: statistics.clone(),
        known,
        g: ctx.grad(0),
        x,
        w,
        wanted: (of_x, needs(weight) || needs(bias)),
        n: ctx.lead,
    };
    together::describe(ctx, take, &step, [Some(0), weight, bias])
}

impl NormalisationBackward {
    fn of_bias(&self) -> Result<Var> {
        self.of_parameter(self.g.reshape(self.n.shape(&self.how.view))?)
    }

    fn of_parameter(&self, g: Var) -> Result<Var> {
        g.sum_to_size(affine(&self.how, self.n))?.reshape(self.n.shape(&self.how.parameter))
    }
}

/// The gradients of the elements (0), of the weight (1) and of the bias (2).
impl Together<3> for NormalisationBackward {
    fn now(&self) -> Result<[Tensor; 3]> {
        if self.n.0.is_some() {
            // The kernels have no leading axis.
            let of = |which: usize, wanted: bool| match wanted {
                true => self.recorded(which).map(|g| g.value()),
                false => Ok(Tensor::zeros_with(0, self.g.dtype())),
            };
            let (of_x, parameters) = self.wanted;
            return Ok([of(0, of_x)?, of(1, parameters)?, of(2, parameters)?]);
        }
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
        let (how, n) = (&self.how, self.n);
        let Some(own) = self.x.as_ref().filter(|_| which < 2) else { return self.of_bias() };
        let g = self.g.reshape(n.shape(&how.view))?;
        let (normal, r) = normal(how, own, &self.statistics, self.known)?;
        if which == 1 {
            return self.of_parameter(g.mul(&normal)?);
        }
        let slope = match &self.w {
            Some(w) => g.mul(w.reshape(&how.affine)?)?,
            None => g,
        };
        through(how, slope, [&normal, &r], self.known, n)?.reshape(n.shape(own.shape()))
    }
}

/// What tangents are made of.
struct Push<'a> {
    how: &'a Normalisation,
    statistics: &'a Tensor,
    known: bool,
    x: Option<Var>,
    w: Option<Var>,
    n: Lead,
}

impl Push<'_> {
    /// The tangent of the result, given those of the operand, the weight and the bias.
    fn tangent(&self, [dx, dw, db]: [Option<Var>; 3], full: &Shape) -> Result<Var> {
        let (how, n) = (self.how, self.n);
        let in_view = |t: Var| t.reshape(affine(how, n))?.expand(n.shape(&how.view));
        let mut sum = db.map(in_view).transpose()?;
        let mut add = |term: Var| -> Result<()> {
            sum = Some(sum.take().map_or_else(|| Ok(term.clone()), |sum| sum.add(&term))?);
            Ok(())
        };
        if let Some(x) = &self.x {
            let (normal, r) = normal(how, x, self.statistics, self.known)?;
            if let Some(dw) = dw {
                add(in_view(dw)?.mul(&normal)?)?;
            }
            if let Some(dx) = dx {
                let term = through(how, dx.reshape(n.shape(&how.view))?, [&normal, &r], self.known, n)?;
                add(match &self.w {
                    Some(w) => term.mul(w.reshape(&how.affine)?)?,
                    None => term,
                })?;
            }
        }
        sum.expect("some operand has a tangent").reshape(full)
    }
}

/// The normalised elements in the view, and what their distances from the mean were multiplied by.
fn normal(how: &Normalisation, x: &Var, statistics: &Tensor, known: bool) -> Result<(Var, Var)> {
    let x = x.reshape(&how.view)?;
    if known {
        let [m, r] = how.moments(statistics)?.map(Var::constant);
        return Ok((x.sub(&m)?.mul(&r)?, r));
    }
    let over = over(how, Lead(None));
    let c = if how.centred { x.sub(x.mean(&over)?)? } else { x };
    let r = c.square().mean(&over)?.add(how.eps)?.rsqrt();
    Ok((c.mul(&r)?, r))
}

/// What the Jacobian of the normalised elements makes of a gradient or of a tangent: it is symmetric.
fn through(how: &Normalisation, v: Var, [normal, r]: [&Var; 2], known: bool, n: Lead) -> Result<Var> {
    if known {
        return v.mul(r);
    }
    let over = over(how, n);
    let along = normal.mul(v.mul(normal)?.mean(&over)?)?;
    let mean = v.mean(&over)?;
    let rest = if how.centred { v.sub(&mean)?.sub(&along)? } else { v.sub(&along)? };
    rest.mul(r)
}

/// The axes that are normalised over.
fn over(how: &Normalisation, n: Lead) -> Over {
    keep(n.list(&Axes::from(how.axes), how.view.rank()))
}

/// The shape of weights in the view, behind a leading axis.
fn affine(how: &Normalisation, n: Lead) -> Shape {
    n.aligned(&how.affine, how.view.rank())
}
