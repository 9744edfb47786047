//! The loss of sequences whose places are not known.

use foldback_graph::Var;
use foldback_tensor::{DType, Tensor, refuse};

use super::options::losses;
use super::{Reduction, expect_float};
use crate::error::{NnFacts, Result};

const LOSS: &str = "ctc_loss";

/// Stands for the logarithm of 0: where all ways are impossible, infinities would make their gradients NaN.
const NEVER: f64 = -1e30;

losses! {
    /// Connectionist temporal classification: how likely a sequence of classes is, over all ways of placing it among the steps of
    /// an input, with blanks between (Graves, Fernandez, Gomez and Schmidhuber, 2006). PyTorch's
    /// [`CTCLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::CTCLoss;
    /// use foldback_tensor::{Tensor, assert_close, tensor};
    /// let log_p = Tensor::zeros([2, 1, 3]).log_softmax(-1)?; // two steps, one example, three classes
    /// let loss = CTCLoss::new().forward(&log_p, &tensor![[1]; i64], &tensor![2; i64], &tensor![1; i64])?;
    /// assert_close!(loss.value(), Tensor::scalar(3f32.ln())); // 1 1, 0 1 or 1 0: three of nine
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    CTCLoss {
        /// The class that is no class. The default is 0.
        blank: usize = 0usize;
        /// Whether the loss of an example that cannot be placed is 0 instead of infinite. The default is no.
        zero_infinity: bool = false;
    }
    /// The negative logarithm of that likelihood, reduced; a mean is over examples, each divided by the length of its target.
    ///
    /// Log-probabilities `[t, n, c]`, as `log_softmax` gives them; targets `[n, s]`, or all in one row; lengths `[n]`; class numbers and
    /// lengths `i64`. Without a batch log-probabilities are `[t, c]`, targets `[s]` and lengths `[]`. As in PyTorch the gradient is that of
    /// scores before a softmax: it is right for log-probabilities that are normalised; that of an infinite loss is NaN.
    ///
    /// # Errors
    /// `InputShape` if the shapes or lengths do not fit, `DType` for other types, `TargetOutOfRange`, `Parameter` for a blank that is no class.
    fn ctc_loss(log_probs, targets, input_lengths, target_lengths) |own| {
        expect_float(LOSS, "the input", log_probs)?;
        if log_probs.rank() == 2 {
            let batch = own.of_batch(
                &log_probs.unsqueeze(1)?,
                &targets.value(),
                &input_lengths.value().reshape([-1])?,
                &target_lengths.value().reshape([-1])?,
            )?;
            match own.reduction {
                Reduction::None => batch.squeeze(0),
                _ => Ok(batch),
            }
        } else {
            own.of_batch(log_probs, &targets.value(), &input_lengths.value(), &target_lengths.value())
        }
    };
}

impl CTCLoss {
    /// The losses of a batch, over the lengths of targets where their mean is wanted.
    #[track_caller]
    fn of_batch(&self, log_p: &Var, targets: &Tensor, steps: &Tensor, lengths: &Tensor) -> Result<Var> {
        let places = ExtendedTargets::new(self.blank, log_p, targets, steps, lengths)?;
        let ways = places.ways(log_p)?;
        let losses = ways.neg();
        let impossible = losses.value().gt(-NEVER / 2.0)?;
        let other = if self.zero_infinity { 0.0 } else { f64::INFINITY };
        // PyTorch's gradient has the softmax in it: that of the sum of probabilities, whose value is taken away again.
        let total = log_p.exp().sum(-1)?;
        let counted =
            Tensor::arange_with(0..log_p.dims()[0] as i64, 1, DType::I64).unsqueeze(1)?.lt(steps)?;
        let total = total.masked_fill(counted.logical_not(), 0.0)?.sum(0)?;
        let mut losses = losses.add(&total.sub(total.detach())?)?.masked_fill(&impossible, other)?;
        if !self.zero_infinity && impossible.any(..)?.item_as::<bool>()? {
            // As in PyTorch such a loss has no gradient that is a number: a logarithm of 0 is infinite and has one of that kind.
            let possible = impossible.logical_not();
            let never = total.mul(possible.to(log_p.dtype()))?.log().neg().masked_fill(&possible, 0.0)?;
            losses = losses.masked_fill(&impossible, 0.0)?.add(&never)?;
        }
        match self.reduction {
            Reduction::Mean => losses.div(lengths.clamp_min(1)?.to(log_p.dtype())),
            _ => Ok(losses),
        }
    }
}

/// Where the classes of each target may stand: blank, class, blank, ..., blank.
struct ExtendedTargets {
    /// `[n, 2 s + 1]`: the class of each place
    classes: Tensor,
    /// `[n, 2 s + 1]`: whether a place may follow the one before the last
    skips: Tensor,
    /// `[n]`: the last place
    last: Tensor,
    steps: Vec<i64>,
}

impl ExtendedTargets {
    fn new(
        blank: usize,
        log_p: &Var,
        targets: &Tensor,
        steps: &Tensor,
        lengths: &Tensor,
    ) -> Result<ExtendedTargets> {
        let [count, n, classes] = expect_operands(blank, log_p, targets, steps, lengths)?;
        let (steps, lengths): (Vec<i64>, Vec<i64>) = (steps.to_vec()?, lengths.to_vec()?);
        let longest = expect_lengths(targets, &steps, &lengths, [count, n])?;
        let numbers: Vec<i64> = targets.to_vec()?;
        let width = (targets.rank() == 2).then(|| targets.dims()[1]);
        let (places, mut start) = (2 * longest + 1, 0);
        let (mut at, mut skips) = (vec![blank as i64; n * places], vec![false; n * places]);
        for (row, &length) in lengths.iter().enumerate() {
            let first = width.map_or(start, |width| row * width);
            start += length as usize;
            let own = &numbers[first..first + length as usize];
            if let Some(i) = own.iter().position(|&c| !(0..classes as i64).contains(&c)) {
                let index = if width.is_some() { vec![row, i] } else { vec![first + i] };
                return refuse(NnFacts::TargetOutOfRange { loss: LOSS, target: own[i], index, classes });
            }
            for (i, &class) in own.iter().enumerate() {
                at[row * places + 2 * i + 1] = class;
                skips[row * places + 2 * i + 1] = i > 0 && class != own[i - 1];
            }
        }
        let last = lengths.iter().map(|l| 2 * l).collect::<Vec<i64>>();
        Ok(ExtendedTargets {
            classes: Tensor::from_vec(at, [n, places])?,
            skips: Tensor::from_vec(skips, [n, places])?,
            last: Tensor::from_vec(last, [n])?,
            steps,
        })
    }

    /// The logarithm of the likelihood of each target: the forward recursion over steps.
    #[track_caller]
    fn ways(&self, log_p: &Var) -> Result<Var> {
        let &[n, places] = self.classes.dims() else { unreachable!("made so") };
        let never = |width: usize| Tensor::full_with([n, width], NEVER, log_p.dtype());
        let place = Tensor::arange_with(0..places as i64, 1, DType::I64);
        // Before the first step: only the first place is about to come, and the one behind it.
        let mut ways =
            Var::from(place.eq(0)?.where_cond(Tensor::zeros_with((), log_p.dtype()), never(places))?);
        for (step, log_p) in log_p.unbind(0)?.iter().enumerate() {
            let here = log_p.gather(1, &self.classes)?.clamp_min(NEVER)?;
            let by = |back: usize| -> Result<Var> {
                let kept = places.saturating_sub(back);
                Var::cat([&Var::from(never(places - kept)), &ways.narrow(1, 0, kept)?], 1)
            };
            let two = by(2)?.masked_fill(self.skips.logical_not(), NEVER)?;
            let next = match step {
                // The recursion begins at either of the first two places.
                0 => Var::stack([&ways, &by(1)?], 0)?,
                _ => Var::stack([&ways, &by(1)?, &two], 0)?,
            };
            let next = next.logsumexp(0)?.add(&here)?.clamp_min(NEVER)?;
            let goes_on: Vec<bool> = self.steps.iter().map(|&t| (step as i64) < t).collect();
            ways = match goes_on.iter().all(|on| *on) {
                true => next,
                false => Var::where_cond(&Tensor::from_vec(goes_on, [n, 1])?.into(), &next, &ways)?,
            };
        }
        // The last place, or the one before it.
        let ends = ways.gather(1, self.last.unsqueeze(1)?)?;
        let before = ways.gather(1, self.last.sub(1)?.clamp_min(0)?.unsqueeze(1)?)?;
        let before = before.masked_fill(self.last.eq(0)?.unsqueeze(1)?, NEVER)?;
        Var::cat([&ends, &before], 1)?.logsumexp(1)
    }
}

/// The sizes `[t, n, c]` of the log-probabilities; refuses shapes, types and a blank that do not fit.
fn expect_operands(
    blank: usize,
    log_p: &Var,
    targets: &Tensor,
    steps: &Tensor,
    lengths: &Tensor,
) -> Result<[usize; 3]> {
    let [count, n, classes] = *log_p.dims() else {
        let (name, expected) = ("log-probabilities", "[t, n, c] or [t, c]".into());
        return refuse(NnFacts::InputShape { op: LOSS, name, expected, found: log_p.shape().clone() });
    };
    if blank >= classes {
        let (name, expected) = ("blank", "the number of a class");
        return refuse(NnFacts::Parameter { op: LOSS, name, value: blank as f64, expected });
    }
    for (name, tensor) in [("targets", targets), ("input lengths", steps), ("target lengths", lengths)] {
        if tensor.dtype() != DType::I64 {
            return refuse(NnFacts::DType { op: LOSS, name, found: tensor.dtype(), expected: "i64" });
        }
    }
    for (name, tensor) in [("input lengths", steps), ("target lengths", lengths)] {
        if *tensor.shape() != [n] {
            return misshapen(name, tensor, format!("[{n}]"));
        }
    }
    Ok([count, n, classes])
}

/// The greatest length of a target; refuses lengths that are not within the input and the targets.
fn expect_lengths(targets: &Tensor, steps: &[i64], lengths: &[i64], [count, n]: [usize; 2]) -> Result<usize> {
    let longest = lengths.iter().copied().max().unwrap_or(0).max(0);
    let total = lengths.iter().try_fold(0i64, |sum, &l| sum.checked_add(l)).unwrap_or(i64::MAX);
    let room = match targets.dims() {
        [rows, width] if *rows == n => longest <= *width as i64,
        [all] => n == 1 && longest <= *all as i64 || total == *all as i64,
        _ => false,
    };
    let bounds = lengths.iter().all(|&l| l >= 0) && steps.iter().all(|&t| (0..=count as i64).contains(&t));
    if !room || !bounds {
        let expected = format!("[{n}, s] with s from {longest}, or [{total}], and lengths within the input");
        return misshapen("targets", targets, expected);
    }
    Ok(longest as usize)
}

fn misshapen<T>(name: &'static str, tensor: &Tensor, expected: String) -> Result<T> {
    refuse(NnFacts::InputShape { op: LOSS, name, expected, found: tensor.shape().clone() })
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{assert_close, tensor};

    use super::*;

    /// What is left of a path without repetitions and blanks.
    fn collapsed(path: &[usize]) -> Vec<usize> {
        let kept = |i: &usize| path[*i] != 0 && (*i == 0 || path[*i - 1] != path[*i]);
        (0..path.len()).filter(kept).map(|i| path[i]).collect()
    }

    /// The sum over all paths, one by one.
    #[test]
    fn likelihood_by_enumeration() {
        let (steps, classes) = (4, 3);
        let scores = Tensor::randn_with([steps, 1, classes], DType::F64).requires_grad();
        let log_p = scores.log_softmax(-1).unwrap();
        let p: Vec<f64> = log_p.value().exp().to_vec().unwrap();
        for target in [vec![], vec![1], vec![1, 2], vec![1, 1], vec![2, 1, 2], vec![1, 1, 1]] {
            let mut total = 0.0;
            for number in 0..classes.pow(steps as u32) {
                let path: Vec<usize> = (0..steps).map(|t| number / classes.pow(t as u32) % classes).collect();
                if collapsed(&path) == target {
                    total += path.iter().enumerate().map(|(t, &c)| p[t * classes + c]).product::<f64>();
                }
            }
            let wide: Vec<i64> = target.iter().map(|&c| c as i64).chain([0]).collect();
            let wide = Tensor::from_vec(wide, (1, -1)).unwrap();
            let lengths = tensor![target.len() as i64; i64];
            let loss = CTCLoss::new().reduction(Reduction::Sum);
            let loss = loss.forward(&log_p, &wide, &tensor![4; i64], &lengths).unwrap();
            let (found, expected) = (loss.item().unwrap(), -total.ln());
            assert!(found == expected || (found - expected).abs() < 1e-10, "{target:?}: {found}, {expected}");
        }
    }

    /// As PyTorch has it: NaN in the steps of an example that cannot be placed, and nowhere else.
    #[test]
    fn gradients_of_infinite_losses() {
        let log_p = Tensor::full_with([2, 3, 2], -(2f64.ln()), DType::F64).requires_grad();
        let (targets, steps, lengths) =
            (tensor![[1, 1], [1, 1], [1, 1]; i64], tensor![1, 1, 0; i64], tensor![2, 1, 0; i64]);
        let loss = |loss: CTCLoss| loss.forward(&log_p, &targets, &steps, &lengths).unwrap();
        let sum = loss(CTCLoss::new().reduction(Reduction::Sum));
        assert_eq!(sum.item().unwrap(), f64::INFINITY);
        sum.backward().unwrap();
        let grad: Vec<f64> = log_p.grad().unwrap().to_vec().unwrap();
        assert!(grad[0].is_nan() && grad[1].is_nan());
        assert_close!(
            Tensor::from(grad[2..].to_vec()),
            tensor![0.5, -0.5, 0., 0., 0., 0., 0., 0., 0., 0.; f64]
        );
        log_p.zero_grad();
        loss(CTCLoss::new().zero_infinity(true)).backward().unwrap();
        assert!(log_p.grad().unwrap().isfinite().all(..).unwrap().item_as::<bool>().unwrap());
    }

    #[test]
    fn refusals() {
        let log_p = Tensor::zeros([3, 1, 2]);
        let text = |targets: Tensor, steps: Tensor, lengths: Tensor| {
            ctc_loss(&log_p, &targets, &steps, &lengths).unwrap_err().with_location(None).to_string()
        };
        let one = || tensor![1; i64];
        assert_eq!(
            text(tensor![[2]; i64], one(), one()),
            "ctc_loss: target 2 at index [0, 0] is out of bounds for 2 classes: give one from 0 to 1"
        );
        assert!(text(tensor![[1.0]], one(), one()).contains("targets must be i64, found f32"));
        assert!(text(tensor![[1]; i64], tensor![4; i64], one()).contains("lengths within the input"));
        assert!(text(tensor![[1]; i64], one(), tensor![2; i64]).contains("from 2"));
        assert!(
            text(tensor![[1]; i64], tensor![1, 1; i64], one())
                .contains("expected input lengths of shape [1]")
        );
        assert!(CTCLoss::new().blank(2usize).forward(&log_p, &tensor![[1]; i64], one(), one()).is_err());
    }
}
