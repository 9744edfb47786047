//! Schedules of learning rates.

use foldback::optim::{
    AnnealStrategy, ChainedScheduler, ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR,
    CyclicMode, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR, OneCycleLR, Optimizer,
    PerGroup, PlateauMode, PolynomialLR, ReduceLROnPlateau, Result, Schedule, SequentialLR, StepLR,
    ThresholdMode,
};
use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::{DType, Error, Tensor};
use serde_json::{Map, Value};

use super::judge::{list, number};
use super::optimizer::{Groups, Made, NotMade, make};
use super::{Judge, TrainingCase};
use crate::conformance::case::text;
use crate::conformance::run::Stop;

/// A schedule made from what a case says.
pub(super) enum Course {
    Plain(Box<dyn Schedule>),
    Restarts(CosineAnnealingWarmRestarts),
    Plateau(ReduceLROnPlateau),
}

impl Course {
    /// A step with a metric or a fractional epoch.
    pub(super) fn step(
        &mut self,
        optimizer: &dyn Optimizer,
        metric: Option<f64>,
        epoch: Option<f64>,
    ) -> Result<()> {
        match (self, metric, epoch) {
            (Course::Plain(s), None, None) => s.step(optimizer),
            (Course::Restarts(s), None, None) => s.step(optimizer),
            (Course::Restarts(s), None, Some(epoch)) => s.step_at(optimizer, epoch),
            (Course::Plateau(s), Some(metric), None) => s.step(optimizer, metric),
            _ => Err(Error::other("a step with other arguments than the schedule has")),
        }
    }

    fn resume(&mut self, of: &Course) -> Result<()> {
        match (self, of) {
            (Course::Plain(own), Course::Plain(other)) => own.load_state_dict(&other.state_dict()),
            (Course::Restarts(own), Course::Restarts(other)) => own.load_state_dict(&other.state_dict()),
            (Course::Plateau(own), Course::Plateau(other)) => own.load_state_dict(&other.state_dict()),
            _ => Err(Error::other("another schedule")),
        }
    }

    fn part(self) -> Result<Box<dyn Schedule>, Stop> {
        match self {
            Course::Plain(s) => Ok(s),
            Course::Restarts(s) => Ok(Box::new(s)),
            Course::Plateau(_) => Err(Stop::Unsupported("ReduceLROnPlateau in a list".into())),
        }
    }
}

/// The keywords of a constructor; each is taken once, and what is left at the end is unsupported by its name.
struct Keywords<'a> {
    name: &'a str,
    left: Map<String, Value>,
}

impl Keywords<'_> {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key)
    }

    fn need(&mut self, key: &str) -> Result<Value, Stop> {
        self.take(key).ok_or_else(|| Stop::Unsupported(format!("{} without {key}", self.name)))
    }

    fn finish(self) -> Result<(), Stop> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(Stop::Unsupported(format!("{}({key})", self.name))),
        }
    }
}

fn count(v: &Value) -> Result<usize, Stop> {
    // No call can say it: whole numbers here are not negative.
    v.as_u64().map(|n| n as usize).ok_or_else(|| Stop::Unsupported(format!("{v} for a count")))
}

fn counts(v: &Value) -> Result<Vec<usize>, Stop> {
    list(v)?.iter().map(count).collect()
}

fn flag(v: &Value) -> Result<bool, Stop> {
    Ok(v.as_bool().ok_or_else(|| format!("{v} is no flag"))?)
}

fn per_group(v: &Value) -> Result<PerGroup, Stop> {
    match v.as_array() {
        Some(all) => Ok(PerGroup::Each(all.iter().map(number).collect::<Result<_, _>>()?)),
        None => number(v).map(PerGroup::Same),
    }
}

fn word<T: Copy>(v: &Value, words: &[(&str, T)]) -> Result<T, Stop> {
    let found = words.iter().find(|(word, _)| v == word);
    found.map(|(_, t)| *t).ok_or_else(|| Stop::Unsupported(format!("the word {v}")))
}

/// A function of the epoch.
fn lambda(v: &Value) -> Result<Box<dyn Fn(i32) -> f64 + Send + Sync>, Stop> {
    let of = |key: &str| v.get(key).map_or_else(|| Err(Stop::Failed(format!("no `{key}`"))), number);
    Ok(match text(v, "f")?.as_str() {
        "power" => {
            let base = of("base")?;
            Box::new(move |e| base.powf(f64::from(e)))
        }
        "warmup" => {
            let steps = of("steps")?;
            Box::new(move |e| (f64::from(e + 1) / steps).min(1.0))
        }
        "inverse_sqrt" => Box::new(|e| 1.0 / f64::from(e + 1).sqrt()),
        "polynomial" => {
            let (total, power) = (of("total")?, of("power")?);
            Box::new(move |e| (1.0 - f64::from(e).min(total) / total).powf(power))
        }
        "staircase" => {
            let (factor, every) = (of("factor")?, of("every")?);
            Box::new(move |e| factor.powf((f64::from(e) / every).floor()))
        }
        other => return Err(Stop::Unsupported(format!("lr_lambda {other}"))),
    })
}

/// A schedule of PyTorch's name.
pub(super) fn schedule(
    name: &str,
    args: &Map<String, Value>,
    optimizer: &dyn Optimizer,
) -> Result<Course, NotMade> {
    let mut k = Keywords { name, left: args.clone() };
    macro_rules! set {
        ($made:ident: $($key:literal $setter:ident($read:expr);)*) => {{
            $(if let Some(v) = k.take($key) { $made = $made.$setter($read(&v)?)?; })*
            k.finish()?;
            $made
        }};
    }
    let plain: Box<dyn Schedule> = match name {
        "StepLR" => {
            let mut s = StepLR::try_new(optimizer, count(&k.need("step_size")?)?)?;
            Box::new(set!(s: "gamma" try_gamma(number);))
        }
        "MultiStepLR" => {
            let mut s = MultiStepLR::try_new(optimizer, counts(&k.need("milestones")?)?)?;
            Box::new(set!(s: "gamma" try_gamma(number);))
        }
        "ConstantLR" => {
            let mut s = ConstantLR::try_new(optimizer)?;
            Box::new(set!(s: "factor" try_factor(number); "total_iters" try_total_iters(count);))
        }
        "LinearLR" => {
            let mut s = LinearLR::try_new(optimizer)?;
            Box::new(set!(s: "start_factor" try_start_factor(number); "end_factor" try_end_factor(number);
                "total_iters" try_total_iters(count);))
        }
        "ExponentialLR" => {
            let s = ExponentialLR::try_new(optimizer, number(&k.need("gamma")?)?)?;
            Box::new(set!(s:))
        }
        "PolynomialLR" => {
            let mut s = PolynomialLR::try_new(optimizer)?;
            Box::new(set!(s: "total_iters" try_total_iters(count); "power" try_power(number);))
        }
        "CosineAnnealingLR" => {
            let mut s = CosineAnnealingLR::try_new(optimizer, count(&k.need("T_max")?)?)?;
            Box::new(set!(s: "eta_min" try_eta_min(number);))
        }
        "CosineAnnealingWarmRestarts" => {
            let mut s = CosineAnnealingWarmRestarts::try_new(optimizer, count(&k.need("T_0")?)?)?;
            return Ok(Course::Restarts(set!(s: "T_mult" try_t_mult(count); "eta_min" try_eta_min(number);)));
        }
        "CyclicLR" => {
            let (base, max) = (per_group(&k.need("base_lr")?)?, per_group(&k.need("max_lr")?)?);
            let mut s = CyclicLR::try_new(optimizer, base, max)?;
            if let Some(down) = k.take("step_size_down").filter(|v| !v.is_null()) {
                s = s.try_step_size_down(count(&down)?)?;
            }
            let modes = [
                ("triangular", CyclicMode::Triangular),
                ("triangular2", CyclicMode::Triangular2),
                ("exp_range", CyclicMode::ExpRange),
            ];
            Box::new(set!(s: "step_size_up" try_step_size_up(count);
                "mode" try_mode(|v| word(v, &modes)); "gamma" try_gamma(number);
                "cycle_momentum" try_cycle_momentum(flag); "base_momentum" try_base_momentum(per_group);
                "max_momentum" try_max_momentum(per_group);))
        }
        "OneCycleLR" => {
            let (max, total) = (per_group(&k.need("max_lr")?)?, k.take("total_steps"));
            let total = match total.filter(|v| !v.is_null()) {
                Some(total) => count(&total)?,
                None => count(&k.need("epochs")?)? * count(&k.need("steps_per_epoch")?)?,
            };
            let mut s = OneCycleLR::try_new(optimizer, max, total)?;
            let ways = [("cos", AnnealStrategy::Cos), ("linear", AnnealStrategy::Linear)];
            Box::new(set!(s: "pct_start" try_pct_start(number);
                "anneal_strategy" try_anneal_strategy(|v| word(v, &ways));
                "cycle_momentum" try_cycle_momentum(flag); "base_momentum" try_base_momentum(per_group);
                "max_momentum" try_max_momentum(per_group); "div_factor" try_div_factor(number);
                "final_div_factor" try_final_div_factor(number); "three_phase" try_three_phase(flag);))
        }
        "ReduceLROnPlateau" => {
            let mut s = ReduceLROnPlateau::try_new(optimizer)?;
            let modes = [("min", PlateauMode::Min), ("max", PlateauMode::Max)];
            let thresholds = [("rel", ThresholdMode::Rel), ("abs", ThresholdMode::Abs)];
            return Ok(Course::Plateau(
                set!(s: "mode" try_mode(|v| word(v, &modes)); "factor" try_factor(number);
                "patience" try_patience(count); "threshold" try_threshold(number);
                "threshold_mode" try_threshold_mode(|v| word(v, &thresholds)); "cooldown" try_cooldown(count);
                "min_lr" try_min_lr(per_group); "eps" try_eps(number);),
            ));
        }
        "LambdaLR" | "MultiplicativeLR" => {
            let of = k.need("lr_lambda")?;
            let all: Vec<_> = match of.as_array() {
                Some(all) => all.iter().map(lambda).collect::<Result<_, Stop>>()?,
                None => vec![lambda(&of)?],
            };
            if of.is_array() && all.len() != optimizer.lrs().len() {
                return Err(Stop::Unsupported(format!("{name}: lr_lambda of another length")).into());
            }
            let by_group = move |group: usize, epoch: i32| all[group.min(all.len() - 1)](epoch);
            if name == "LambdaLR" {
                let s = LambdaLR::try_by_group(optimizer, by_group)?;
                Box::new(set!(s:))
            } else {
                let s = MultiplicativeLR::try_by_group(optimizer, by_group)?;
                Box::new(set!(s:))
            }
        }
        "SequentialLR" | "ChainedScheduler" => {
            let mut parts = Vec::new();
            for part in list(&k.need("schedulers")?)? {
                let args = part.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
                parts.push(schedule(&text(part, "name")?, &args, optimizer)?.part()?);
            }
            if name == "SequentialLR" {
                let s = SequentialLR::try_new(optimizer, parts, counts(&k.need("milestones")?)?)?;
                Box::new(set!(s:))
            } else {
                let s = ChainedScheduler::try_new(optimizer, parts)?;
                Box::new(set!(s:))
            }
        }
        other => return Err(Stop::Unsupported(format!("schedule {other}")).into()),
    };
    Ok(Course::Plain(plain))
}

/// An optimiser with a group for each rate.
fn optimizer(case: &TrainingCase) -> Result<Made, NotMade> {
    let given = case.body.get("optimizer");
    let name = given.map_or_else(|| Ok("SGD".to_owned()), |o| text(o, "name"))?;
    let args = given.and_then(|o| o.get("args")?.as_object().cloned()).unwrap_or_default();
    let groups = list(case.get("base_lrs")?)?.iter().map(|lr| {
        let own = Map::from_iter([("lr".to_owned(), lr.clone())]);
        (vec![Tensor::zeros([1]).requires_grad()], own)
    });
    make(&name, &args, &groups.collect::<Groups<Var>>())
}

/// The rates and the momenta behind every step.
type Taken = (Vec<Vec<f64>>, Vec<f64>);

/// Runs the schedule; `resumed` goes on from a saved state half-way.
fn run(case: &TrainingCase, resumed: bool) -> Result<Taken, (usize, NotMade)> {
    let at = |k: usize| move |e: NotMade| (k, e);
    let fresh = || {
        let made = optimizer(case)?;
        let course = schedule(&text(&case.body, "name")?, &case.args(), made.get())?;
        Ok((made, course))
    };
    let (mut made, mut course) = fresh().map_err(at(0))?;
    let (mut lrs, mut momenta) = (Vec::new(), Vec::new());
    let mut note = |made: &Made| {
        lrs.push(made.get().lrs());
        let settings = made.get().settings();
        momenta.extend(settings.get("beta1").or_else(|| settings.get("momentum")).into_iter().flatten());
    };
    note(&made);
    let steps = case.body.get("steps").and_then(Value::as_u64).unwrap_or(0) as usize;
    let of = |key: &str, k: usize| case.body.get(key).and_then(|all| number(all.get(k - 1)?).ok());
    for k in 1..=steps {
        if resumed && k == steps / 2 + 1 {
            let (new_made, mut new) = fresh().map_err(at(k))?;
            let state = made.get().state_dict();
            new_made.get().load_state_dict(&state).map_err(|e| (k, e.into()))?;
            new.resume(&course).map_err(|e| (k, e.into()))?;
            (made, course) = (new_made, new);
        }
        if let Some(rates) = case.body.get("set_lr").and_then(|all| all.get(k.to_string())) {
            let rates = list(rates).and_then(|all| all.iter().map(number).collect::<Result<Vec<_>, _>>());
            let rates = rates.map_err(|e| (k, e.into()))?;
            made.get().set_lrs(&rates).map_err(|e| (k, e.into()))?;
        }
        course.step(made.get(), of("metrics", k), of("epochs", k)).map_err(|e| (k, e.into()))?;
        note(&made);
    }
    Ok((lrs, momenta))
}

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let refused_at = case.body.get("error_at").and_then(Value::as_u64);
    let (lrs, momenta) = match run(case, false) {
        Err((_, NotMade::Stop(stop))) => return Err(stop),
        Err((k, NotMade::Refused(_))) if refused_at == Some(k as u64) => return Ok(()),
        Err((k, NotMade::Refused(e))) => return Err(Stop::Failed(format!("refused at step {k}: {e}"))),
        Ok(_) if refused_at.is_some() => return Err(Stop::Failed("was not refused".into())),
        Ok(all) => all,
    };
    judge.numbers("lrs", &lrs.concat(), case.get("lrs")?, DType::F64)?;
    if let Some(expected) = case.body.get("momenta") {
        judge.numbers("momenta", &momenta, expected, DType::F64)?;
    }
    match run(case, true) {
        Ok(again) if again == (lrs, momenta) => Ok(()),
        _ => Err(Stop::Failed("other rates from a saved state".into())),
    }
}
