//! `Normaliser`: columns of mean 0 and deviation 1, by the statistics of the training set.

use foldback_tensor::{DType, Here, StateDict, Tensor, refuse};

use crate::error::{DataFacts, Result, check};

const OP: &str = "normaliser";

/// Brings columns, or channels of images, to mean 0 and standard deviation 1: `(x - mean) / std`, by the statistics of the set it was
/// fitted to, which is the training set; the others are brought to the same scale.
///
/// There is a mean and a deviation for each index of axis 1: for columns of `[n, columns]`, for channels of `[n, channels,
/// height, width]`. The deviation is that of the population (divided by `n`, as scikit-learn's `StandardScaler` has it).
///
/// ```
/// use foldback_data::Normaliser;
/// use foldback_tensor::{assert_close, tensor};
/// let train = tensor![[1.0, 10.0], [3.0, 10.0]];
/// let normaliser = Normaliser::fit(&train)?;
/// assert_close!(normaliser.apply(&train)?, tensor![[-1.0, 0.0], [1.0, 0.0]]);
/// assert_close!(normaliser.apply(&tensor![[5.0, 11.0]])?, tensor![[3.0, 1.0]]);
/// assert_eq!(normaliser.constant(), [1]);     // a column without variance is only moved
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Normaliser {
    mean: Tensor,
    std: Tensor,
}

impl Normaliser {
    /// The statistics of a set, `[n, columns, ..]`, taken in `f64`.
    ///
    /// # Errors
    /// `Parameter` if it has fewer than two axes, no numbers, is of another type than `f32` and `f64`, or a column holds NaN
    /// or an infinity, or numbers whose squares are infinite.
    #[track_caller]
    pub fn fit(set: &Tensor) -> Result<Normaliser> {
        Normaliser::measure(set).here()
    }

    fn measure(set: &Tensor) -> Result<Normaliser> {
        check(
            set.shape().rank() >= 2,
            OP,
            "the shape",
            set.shape(),
            "[n, columns, ..]: unsqueeze(1) makes a column",
        )?;
        check(set.numel() > 0, OP, "the shape", set.shape(), "at least one number")?;
        let floats = matches!(set.dtype(), DType::F32 | DType::F64);
        check(floats, OP, "the type", set.dtype(), "f32 or f64: use float()")?;
        let others: Vec<usize> = (0..set.shape().rank()).filter(|&axis| axis != 1).collect();
        let (var, mean) = set.to(DType::F64).var_mean_with(others, 0.0)?;
        let expected = |column, of, cure| format!("finite {of} in column {column}: {cure}");
        for (column, (m, v)) in mean.to_vec::<f64>()?.into_iter().zip(var.to_vec::<f64>()?).enumerate() {
            check(m.is_finite(), OP, "the mean", m, expected(column, "numbers", "fill in what is missing"))?;
            check(v.is_finite(), OP, "the variance", v, expected(column, "squares", "divide it first"))?;
        }
        // The mean of equal numbers may differ from them by its rounding, and their deviation from 0 by as much.
        let std = var.sqrt();
        let noise = mean.abs().mul(if set.dtype() == DType::F32 { 1e-7 } else { 1e-15 })?;
        let std = Tensor::where_cond(&std.le(&noise)?, 0.0, &std)?;
        Ok(Normaliser { mean: mean.to(set.dtype()), std: std.to(set.dtype()) })
    }

    /// The set on this scale. Where the deviation is 0, the mean is taken off alone.
    ///
    /// # Errors
    /// `Parameter` if axis 1 has another size than that of the set it was fitted to, or the type is another.
    #[track_caller]
    pub fn apply(&self, set: &Tensor) -> Result<Tensor> {
        self.scaled(set, |x, mean, scale| x.sub(mean)?.div(scale)).here()
    }

    /// Back from this scale: what `apply` was given.
    ///
    /// # Errors
    /// Those of [`Normaliser::apply`].
    ///
    /// ```
    /// use foldback_data::Normaliser;
    /// use foldback_tensor::{assert_close, tensor};
    /// let x = tensor![[1.0, 10.0], [3.0, 30.0]];
    /// let normaliser = Normaliser::fit(&x)?;
    /// assert_close!(normaliser.invert(&normaliser.apply(&x)?)?, x);
    /// # Ok::<(), foldback_data::Error>(())
    /// ```
    #[track_caller]
    pub fn invert(&self, set: &Tensor) -> Result<Tensor> {
        self.scaled(set, |x, mean, scale| x.mul(scale)?.add(mean)).here()
    }

    fn scaled(
        &self,
        set: &Tensor,
        change: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let columns = self.mean.numel();
        let fits = set.shape().rank() >= 2 && set.dims()[1] == columns;
        check(
            fits,
            OP,
            "the shape",
            set.shape(),
            format!("[n, {columns}, ..], as it was fitted to: unsqueeze(0) makes a batch of an item"),
        )?;
        let dtype = self.mean.dtype();
        check(set.dtype() == dtype, OP, "the type", set.dtype(), format!("{dtype}, as it was fitted to"))?;
        let mut shape = vec![1; set.shape().rank()];
        shape[1] = columns;
        let scale = Tensor::where_cond(&self.std.eq(0.0)?, 1.0, &self.std)?;
        change(set, &self.mean.reshape(shape.as_slice())?, &scale.reshape(shape.as_slice())?)
    }

    /// The columns whose numbers are all equal, so that they say nothing.
    pub fn constant(&self) -> Vec<usize> {
        let std = self.std.to(DType::F64).to_vec::<f64>().unwrap_or_default();
        std.iter().enumerate().filter(|(_, s)| **s == 0.0).map(|(column, _)| column).collect()
    }

    /// The means, `[columns]`.
    pub fn mean(&self) -> &Tensor {
        &self.mean
    }

    /// The standard deviations, `[columns]`; 0 for columns of equal numbers.
    pub fn std(&self) -> &Tensor {
        &self.std
    }

    /// `mean` and `std`, to be kept with the model.
    pub fn state_dict(&self) -> StateDict {
        StateDict::from_iter([("mean", self.mean.clone()), ("std", self.std.clone())])
    }

    /// One of what [`Normaliser::state_dict`] gave.
    ///
    /// # Errors
    /// `State` if an entry is absent, or they are not of one type and one axis, finite, and `std` not negative.
    ///
    /// ```
    /// use foldback_data::Normaliser;
    /// use foldback_tensor::tensor;
    /// let normaliser = Normaliser::fit(&tensor![[1.0], [3.0]])?;
    /// assert_eq!(Normaliser::from_state_dict(&normaliser.state_dict())?, normaliser);
    /// # Ok::<(), foldback_data::Error>(())
    /// ```
    #[track_caller]
    pub fn from_state_dict(state: &StateDict) -> Result<Normaliser> {
        let (mean, std) = (entry(state, "mean").here()?, entry(state, "std").here()?);
        if mean.shape() != std.shape()
            || mean.dtype() != std.dtype()
            || std.lt(0.0)?.any(..)?.item_as::<bool>()?
        {
            let expected = format!("{} {}, not negative, as `mean` is", mean.dtype(), mean.shape());
            return wrong("std", format!("{} {}", std.dtype(), std.shape()), expected).here();
        }
        Ok(Normaliser { mean, std })
    }
}

fn entry(state: &StateDict, name: &'static str) -> Result<Tensor> {
    let expected = || "f32 or f64 of one axis, finite".to_owned();
    let Some(t) = state.get(name) else { return wrong(name, "absent".into(), expected()) };
    let fits = t.shape().rank() == 1 && matches!(t.dtype(), DType::F32 | DType::F64);
    if !fits || !t.isfinite().all(..)?.item_as::<bool>()? {
        return wrong(name, format!("{} {}", t.dtype(), t.shape()), expected());
    }
    Ok(t.clone())
}

fn wrong<T>(entry: &'static str, found: String, expected: String) -> Result<T> {
    refuse(DataFacts::State { op: OP, entry, found, expected })
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{assert_close, refused, tensor};

    use super::*;

    #[test]
    fn columns_and_channels() {
        let x = tensor![[1.0, -2.0], [2.0, 4.0], [6.0, 7.0]; f64];
        let normaliser = Normaliser::fit(&x).unwrap();
        assert_close!(normaliser.mean(), tensor![3.0, 3.0; f64]);
        assert_close!(normaliser.std(), tensor![(14.0f64 / 3.0).sqrt(), 14.0f64.sqrt(); f64]);
        let y = normaliser.apply(&x).unwrap();
        assert_close!(y.mean(0).unwrap(), tensor![0.0, 0.0; f64]);
        assert_close!(y.square().mean(0).unwrap(), tensor![1.0, 1.0; f64]);
        assert_close!(normaliser.invert(&y).unwrap(), x);

        let images = Tensor::randn([4, 3, 5, 6]) * 2.0 + 7.0;
        let normaliser = Normaliser::fit(&images).unwrap();
        assert_eq!((normaliser.mean().dims(), normaliser.constant()), (&[3][..], vec![]));
        let y = normaliser.apply(&images).unwrap();
        assert_close!(y.mean([0, 2, 3]).unwrap(), tensor![0.0, 0.0, 0.0], atol = 1e-5);
        assert_close!(y.square().mean([0, 2, 3]).unwrap(), tensor![1.0, 1.0, 1.0], atol = 1e-5);
    }

    #[test]
    fn columns_without_variance_are_said_and_only_moved() {
        let x = tensor![[0.1, 1.0, 0.0], [0.1, 2.0, 0.0], [0.1, 4.0, 0.0]];
        let normaliser = Normaliser::fit(&x).unwrap();
        assert_eq!(normaliser.constant(), [0, 2]);
        let y = normaliser.apply(&tensor![[1.1, 0.0, -3.0]]).unwrap().to_vec::<f32>().unwrap();
        assert!((y[0] - 1.0).abs() < 1e-6 && y[2] == -3.0);
    }

    #[test]
    fn what_has_no_statistics_is_refused() {
        let bad = [
            tensor![1.0, 2.0],
            Tensor::zeros([0, 2]),
            tensor![[1, 2]; i64],
            tensor![[1.0, f32::NAN]],
            tensor![[f32::INFINITY], [1.0]],
            tensor![[1e200], [-1e200]; f64],
        ];
        for x in bad {
            assert!(refused!(Normaliser::fit(&x), DataFacts::Parameter { .. }), "{x}");
        }
        let normaliser = Normaliser::fit(&tensor![[1.0, 2.0], [3.0, 5.0]]).unwrap();
        for x in [tensor![[1.0]], tensor![1.0, 2.0], tensor![[1.0, 2.0]; f64]] {
            let e = normaliser.apply(&x).unwrap_err();
            assert!(matches!(e.facts(), Some(DataFacts::Parameter { .. })), "{e}");
            assert!(e.location().is_some_and(|at| at.file() == file!()));
        }
    }

    #[test]
    fn states_of_others_are_refused() {
        let state = Normaliser::fit(&tensor![[1.0], [3.0]]).unwrap().state_dict();
        for bad in [
            tensor![[1.0]],
            tensor![1; i64],
            tensor![-1.0],
            tensor![1.0, 2.0],
            tensor![1.0; f64],
            tensor![f32::NAN],
        ] {
            let mut state = state.clone();
            state.insert("std", bad);
            assert!(refused!(Normaliser::from_state_dict(&state), DataFacts::State { .. }));
        }
        let mut state = state;
        state.remove("mean");
        assert!(refused!(Normaliser::from_state_dict(&state), DataFacts::State { entry: "mean", .. }));
    }
}
