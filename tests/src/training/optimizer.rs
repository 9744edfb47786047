//! Optimisers over many steps.

use foldback::optim::{
    ASGD, Adadelta, Adagrad, Adam, AdamW, Adamax, AsParameter, Group, LBFGS, Lion, NAdam, Optimizer, RAdam,
    RMSprop, Result, Rprop, SGD,
};
use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::{DType, Error, StateDict, Tensor};
use serde_json::{Map, Value};

use super::judge::{list, number, written};
use super::{Judge, TrainingCase};
use crate::conformance::case::text;
use crate::conformance::close::same_bits;
use crate::conformance::run::Stop;

/// An optimiser made from what a case says: one whose step is plain, or one that takes a closure.
pub(super) enum Made {
    Plain(Box<dyn Optimizer>),
    Closure(LBFGS),
}

impl Made {
    pub(super) fn get(&self) -> &dyn Optimizer {
        match self {
            Made::Plain(optimizer) => &**optimizer,
            Made::Closure(optimizer) => optimizer,
        }
    }
}

/// Why none was made: the library refuses it, or lacks something by that name.
pub(super) enum NotMade {
    Refused(Error),
    Stop(Stop),
}

impl From<Stop> for NotMade {
    fn from(stop: Stop) -> NotMade {
        NotMade::Stop(stop)
    }
}

impl From<String> for NotMade {
    fn from(reason: String) -> NotMade {
        NotMade::Stop(Stop::Failed(reason))
    }
}

impl From<Error> for NotMade {
    fn from(e: Error) -> NotMade {
        NotMade::Refused(e)
    }
}

/// PyTorch's name, and the learning rate that it has where none is given.
const RATES: [(&str, f64); 14] = [
    ("SGD", 1e-3),
    ("Adam", 1e-3),
    ("AdamW", 1e-3),
    ("NAdam", 2e-3),
    ("RAdam", 1e-3),
    ("Adagrad", 1e-2),
    ("RMSprop", 1e-2),
    ("Lion", 1e-4),
    ("Adadelta", 1.0),
    ("Adamax", 2e-3),
    ("Rprop", 1e-2),
    ("ASGD", 1e-2),
    ("LBFGS", 1.0),
    ("SparseAdam", 1e-3),
];

/// Groups of parameters, each with keywords.
pub(super) type Groups<P> = Vec<(Vec<P>, Map<String, Value>)>;

/// An optimiser of PyTorch's name; the first group's parameters stay, the others are groups of their own. One group with keywords
/// of its own is the whole.
pub(super) fn make<P: AsParameter + Clone>(
    name: &str,
    args: &Map<String, Value>,
    groups: &Groups<P>,
) -> Result<Made, NotMade> {
    let Some((_, usual)) = RATES.iter().find(|(own, _)| *own == name) else {
        return Err(Stop::Unsupported(format!("optimizer {name}")).into());
    };
    let lr = args.get("lr").map_or(Ok(*usual), number)?;
    let all: Vec<P> = groups.iter().flat_map(|(list, _)| list.iter().cloned()).collect();
    let options = keywords(name, args)?;
    macro_rules! made {
        ($type:ident, $kind:expr) => {{
            let mut made = $type::try_new(&all, lr)?.try_with(options)?;
            for (list, own) in groups {
                if groups.len() > 1 || !own.is_empty() {
                    made = made.try_group(list, keywords(name, own)?)?;
                }
            }
            Ok($kind(made))
        }};
        ($type:ident) => {
            made!($type, |made| Made::Plain(Box::new(made)))
        };
    }
    match name {
        "SGD" => made!(SGD),
        "Adam" => made!(Adam),
        "AdamW" => made!(AdamW),
        "NAdam" => made!(NAdam),
        "RAdam" => made!(RAdam),
        "Adagrad" => made!(Adagrad),
        "RMSprop" => made!(RMSprop),
        "Lion" => made!(Lion),
        "Adadelta" => made!(Adadelta),
        "Adamax" => made!(Adamax),
        "Rprop" => made!(Rprop),
        "ASGD" => made!(ASGD),
        "LBFGS" => made!(LBFGS, Made::Closure),
        _ => Err(Stop::Unsupported(format!("optimizer {name}")).into()),
    }
}

/// PyTorch's keywords as ours, one by one.
fn keywords(name: &str, args: &Map<String, Value>) -> Result<Group, Stop> {
    let mut group = Group::new();
    for (key, value) in args {
        let float = || number(value);
        let flag = || value.as_bool().ok_or_else(|| Stop::Failed(format!("{key}: {value} is no flag")));
        let count = || match value.as_u64() {
            Some(n) => Ok(n as usize),
            // No call can say it: whole numbers here are not negative.
            None => Err(Stop::Unsupported(format!("{name}({key}={value})"))),
        };
        let pair = || match value.as_array().map(Vec::as_slice) {
            Some([a, b]) => Ok((number(a)?, number(b)?)),
            _ => Err(Stop::Failed(format!("{key}: {value} is no pair"))),
        };
        group = match key.as_str() {
            "lr" => group.lr(float()?),
            "momentum" => group.momentum(float()?),
            "dampening" => group.dampening(float()?),
            "weight_decay" => group.weight_decay(float()?),
            "nesterov" => group.nesterov(flag()?),
            "maximize" => group.maximize(flag()?),
            "eps" => group.eps(float()?),
            "amsgrad" => group.amsgrad(flag()?),
            "momentum_decay" => group.momentum_decay(float()?),
            "decoupled_weight_decay" => group.decoupled_weight_decay(flag()?),
            "lr_decay" => group.lr_decay(float()?),
            "initial_accumulator_value" => group.initial_accumulator_value(float()?),
            "alpha" => group.alpha(float()?),
            "centered" => group.centered(flag()?),
            "rho" => group.rho(float()?),
            "lambd" => group.lambd(float()?),
            "t0" => group.t0(float()?),
            "max_iter" => group.max_iter(count()?),
            "max_eval" if value.is_null() => group,
            "max_eval" => group.max_eval(count()?),
            "tolerance_grad" => group.tolerance_grad(float()?),
            "tolerance_change" => group.tolerance_change(float()?),
            "history_size" => group.history_size(count()?),
            "line_search_fn" if value.is_null() => group,
            "line_search_fn" if value == "strong_wolfe" => group.strong_wolfe(true),
            "betas" => {
                let (first, second) = pair()?;
                group.betas(first, second)
            }
            "etas" => {
                let (down, up) = pair()?;
                group.etas(down, up)
            }
            "step_sizes" => {
                let (least, most) = pair()?;
                group.step_sizes(least, most)
            }
            _ => return Err(Stop::Unsupported(format!("{name}({key})"))),
        };
    }
    Ok(group)
}

/// Where the gradients of a step come from.
enum Source {
    /// a row for each step, over and over
    Rows(Vec<Vec<Option<Tensor>>>),
    Objective(Value),
}

struct Run {
    vars: Vec<Var>,
    made: Made,
    source: Source,
    losses: Vec<f64>,
}

impl Run {
    fn new(case: &TrainingCase) -> Result<Run, NotMade> {
        let params = list(case.get("params")?)?.iter().map(written);
        let vars = params.map(|t| Ok(t?.requires_grad())).collect::<Result<Vec<Var>, Stop>>()?;
        let mut groups: Groups<Var> = Vec::new();
        for group in list(case.get("groups")?)? {
            let mut own = group.as_object().cloned().unwrap_or_default();
            let indices = own.remove("params").ok_or_else(|| "a group without params".to_owned())?;
            let of = |i: &Value| i.as_u64().and_then(|i| vars.get(i as usize).cloned());
            let list: Option<Vec<Var>> = list(&indices)?.iter().map(of).collect();
            groups.push((list.ok_or_else(|| "no such parameter".to_owned())?, own));
        }
        let made = make(&text(&case.body, "name")?, &case.args(), &groups)?;
        let grads = case.get("grads")?;
        let source = match (grads.get("cycle").or_else(|| grads.get("steps")), grads.get("objective")) {
            (Some(rows), _) => {
                let maybe = |v: &Value| if v.is_null() { Ok(None) } else { written(v).map(Some) };
                let rows = list(rows)?.iter().map(|row| list(row)?.iter().map(maybe).collect());
                Source::Rows(rows.collect::<Result<_, Stop>>()?)
            }
            (None, Some(objective)) => Source::Objective(objective.clone()),
            _ => return Err("grads of an unknown form".to_owned().into()),
        };
        Ok(Run { vars, made, source, losses: Vec::new() })
    }

    /// Takes a step, counted from 0.
    fn step(&mut self, at: usize) -> Result<(), Stop> {
        match &self.source {
            Source::Rows(rows) => {
                for (var, grad) in self.vars.iter().zip(&rows[at % rows.len()]) {
                    var.set_grad(grad.clone()).map_err(|e| e.to_string())?;
                }
                self.made.get().step().map_err(|e| e.to_string())?;
            }
            Source::Objective(objective) => {
                let terms = Terms::new(objective)?;
                let closure = || {
                    self.made.get().zero_grad();
                    let loss = terms.value(&self.vars)?;
                    loss.backward()?;
                    Ok(loss)
                };
                let loss = match &self.made {
                    Made::Closure(lbfgs) => lbfgs.step_with(closure),
                    Made::Plain(plain) => closure().and_then(|loss| plain.step().map(|()| loss)),
                };
                self.losses.push(loss.and_then(|l| l.item()).map_err(|e| e.to_string())?);
            }
        }
        Ok(())
    }
}

/// What an objective is made of.
struct Terms {
    id: String,
    tensors: Vec<Tensor>,
    l2: f64,
}

impl Terms {
    fn new(objective: &Value) -> Result<Terms, Stop> {
        let id = text(objective, "id")?;
        let names: &[&str] = match id.as_str() {
            "quadratic" => &["A", "b"],
            "logistic" => &["X", "y"],
            "quartic" => &["c"],
            "rosenbrock" => &[],
            _ => return Err(Stop::Unsupported(format!("objective {id}"))),
        };
        let tensors = names.iter().map(|name| match objective.get(name) {
            Some(v) => written(v),
            None => Err(Stop::Failed(format!("no `{name}`"))),
        });
        let l2 = objective.get("l2").and_then(Value::as_f64).unwrap_or(0.0);
        Ok(Terms { tensors: tensors.collect::<Result<_, Stop>>()?, id, l2 })
    }

    fn value(&self, vars: &[Var]) -> Result<Var> {
        let parts: Vec<Var> = vars.iter().map(|v| v.reshape(v.numel())).collect::<Result<_>>()?;
        let x = Var::cat(&parts, 0)?;
        match (self.id.as_str(), self.tensors.as_slice()) {
            ("quadratic", [a, b]) => x.dot(Var::from(a).mv(&x)?)?.mul(0.5)?.sub(x.dot(b)?),
            ("logistic", [rows, y]) => {
                let margins = Var::from(rows).mv(&x)?.mul(y)?.neg();
                margins.softplus().mean(..)?.add(x.dot(&x)? * (0.5 * self.l2))
            }
            ("quartic", [c]) => {
                let d = x.sub(c)?;
                (d.powi(4) * 0.25 + d.square() * 0.5).sum(..)
            }
            _ => {
                let n = x.numel() - 1;
                let (head, tail) = (x.narrow(0, 0, n)?, x.narrow(0, 1, n)?);
                let bend = (&tail - head.square()).square() * 100.0;
                (bend + (1.0 - &head).square()).sum(..)
            }
        }
    }
}

pub(super) fn replay(case: &TrainingCase, judge: &mut Judge) -> Result<(), Stop> {
    let mut run = match (Run::new(case), case.is_refused()) {
        (Err(NotMade::Stop(stop)), _) => return Err(stop),
        (Err(NotMade::Refused(_)), true) => return Ok(()),
        (Err(NotMade::Refused(e)), false) => return Err(Stop::Failed(format!("refused: {e}"))),
        (Ok(_), true) => return Err(Stop::Failed("was not refused".into())),
        (Ok(run), false) => run,
    };
    let record: Vec<usize> =
        list(case.get("record")?)?.iter().filter_map(|v| v.as_u64().map(|v| v as usize)).collect();
    let last = *record.last().ok_or_else(|| "nothing is recorded".to_owned())?;
    // Goes on from a saved state behind the first recorded step.
    let mut again: Option<Run> = None;
    for step in 1..=last {
        if let Some(rates) = case.body.get("set_lr").and_then(|all| all.get(step.to_string())) {
            let rates = list(rates)?.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            for run in [Some(&run), again.as_ref()].into_iter().flatten() {
                run.made.get().set_lrs(&rates).map_err(|e| e.to_string())?;
            }
        }
        run.step(step - 1)?;
        if let Some(again) = &mut again {
            again.step(step - 1)?;
        }
        if record.contains(&step) {
            let expected = case.get("after")?.get(step.to_string()).ok_or_else(|| "no `after`".to_owned())?;
            for (i, (var, expected)) in run.vars.iter().zip(list(expected)?).enumerate() {
                judge.tensor(&format!("parameter {i} after step {step}"), &var.value(), expected)?;
            }
            if let Some(again) = &again {
                for (i, (one, other)) in run.vars.iter().zip(&again.vars).enumerate() {
                    if !same_bits(&one.value(), &other.value()) {
                        return Err(Stop::Failed(format!("parameter {i} has other bits from a saved state")));
                    }
                }
            }
        }
        if step == record[0] {
            again = Some(resumed(case, &run)?);
        }
    }
    if let Some(losses) = case.body.get("losses") {
        judge.numbers("losses", &run.losses, losses, DType::F64)?;
    }
    Ok(())
}

/// Whether two states are one, bit by bit: there may be NaN in them.
fn same_state(a: &StateDict, b: &StateDict) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, tensor)| b.get(name).is_some_and(|other| same_bits(tensor, other)))
}

/// A fresh optimiser of copies of the parameters with the saved state of another.
fn resumed(case: &TrainingCase, run: &Run) -> Result<Run, Stop> {
    let Ok(mut again) = Run::new(case) else { return Err(Stop::Failed("is not made again".into())) };
    let state = run.made.get().state_dict();
    for (own, other) in again.vars.iter_mut().zip(&run.vars) {
        own.set_value(other.value()).map_err(|e| e.to_string())?;
    }
    again.made.get().load_state_dict(&state).map_err(|e| e.to_string())?;
    if !same_state(&again.made.get().state_dict(), &state) {
        return Err(Stop::Failed("a loaded state is another one when saved again".into()));
    }
    Ok(again)
}
