//! The options of a check.

use foldback_tensor::Tensor;

use crate::modes::Modes;

/// The options of a check.
///
/// # What is compared
///
/// With a seed `s` of the output's shape (random, of either sign, never all ones), `L(x) = sum(s * f(x))` is a single
/// number. Its derivative along a direction `d` is `sum(grad * d)` by the backward pass, and
/// `(L(x + h d) - L(x - h d)) / 2h` by differences. Every tracked input is varied along a random direction, then in
/// every single element if it is small, then all inputs together. The second order does the same with
/// `sum(v * grad(f; s))` in place of `L`, as a function of the inputs and of the seed, with random `v`.
///
/// # The tolerance
///
/// A central difference is wrong by two things: what the Taylor series leaves out, `h^2 / 6` times the third
/// derivative, and the rounding of `f`, about `eps / h` times the size of `f`. Their sum is smallest where they are
/// equal, near `h = cbrt(eps)`, which is 6e-6 for `f64`; both are then about 4e-11, times the size of `f` and of its
/// third derivative. The default tolerance of 1e-7 therefore leaves room for a third derivative that is some
/// thousand times larger than `f`, and for a few hundred roundings in its computation; a wrong factor or sign
/// misses it by six orders of magnitude. It is relative to `1 + sum |s f| + sum |grad d|`. Where `f` is rougher or
/// its gradients are much smaller than 1, choose other inputs or scale `f` rather than another tolerance.
///
/// # Kinks
///
/// Where the differences to either side do not agree, as those of `relu` at 0 or of a maximum with ties, a central difference
/// is no derivative. Such a point is neither passed nor accused: the check fails with `Kink`, unless something else is wrong with
/// the gradient. [`Check::resample`] goes on at other values instead. A kink that changes the slope by less than 1e-4, relative
/// as above, is not seen.
///
/// ```
/// use foldback_gradcheck::Check;
/// use foldback_tensor::tensor;
/// let inputs = [tensor![1, 2, 3; f64], tensor![0, 1, 0; f64]];
/// Check::new().seeds(3).tolerance(1e-8).tracked(&[true, false]).gradcheck(|[x, y]| x / (y + 1.0), inputs)?;
/// # Ok::<(), foldback_gradcheck::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a check runs when gradcheck() or gradgradcheck() is called"]
pub struct Check {
    pub(crate) step: f64,
    pub(crate) tolerance: Option<f64>,
    pub(crate) elements: usize,
    pub(crate) seeds: usize,
    pub(crate) given: Vec<Tensor>,
    pub(crate) tracked: Option<Vec<bool>>,
    pub(crate) resample: bool,
    pub(crate) single: bool,
    pub(crate) modes: Modes,
}

impl Default for Check {
    fn default() -> Check {
        Check {
            step: f64::EPSILON.cbrt(),
            tolerance: None,
            elements: 64,
            seeds: 2,
            given: Vec::new(),
            tracked: None,
            resample: false,
            single: false,
            modes: Modes::default(),
        }
    }
}

impl Check {
    /// The options as described above.
    pub fn new() -> Check {
        Check::default()
    }

    /// The step of the differences, for elements up to 1; larger ones are moved in proportion. Positive and finite.
    pub fn step(mut self, step: f64) -> Check {
        self.step = step;
        self
    }

    /// How far gradient and difference may be apart, relative to `1 + sum |s f| + sum |grad d|`. Finite, or
    /// every gradient would pass.
    pub fn tolerance(mut self, tolerance: f64) -> Check {
        self.tolerance = Some(tolerance);
        self
    }

    /// How many random seeds are tried; 2 by default. None only if [`Check::seed`] gives one.
    pub fn seeds(mut self, count: usize) -> Check {
        self.seeds = count;
        self
    }

    /// Tries this seed, in addition to the random ones. It has the output's shape, in any layout; of several outputs, the first
    /// one's.
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::tensor;
    /// let seed = tensor![2; f64].expand([3])?;
    /// Check::new().seeds(0).seed(seed).gradcheck(|x| x.exp(), &tensor![1, 2, 3; f64])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seed(mut self, seed: Tensor) -> Check {
        self.given.push(seed);
        self
    }

    /// Which inputs are tracked, and hence checked; the others are constants. By default all that hold numbers with a
    /// fraction; integers and truth values are constants.
    pub fn tracked(mut self, flags: &[bool]) -> Check {
        self.tracked = Some(flags.to_vec());
        self
    }

    /// Inputs of up to so many elements are varied element by element, too; 64 by default.
    pub fn elements(mut self, limit: usize) -> Check {
        self.elements = limit;
        self
    }

    /// Takes inputs of `f32`, too: their gradients are computed in `f32`, the differences at the same values in `f64`, where all
    /// inputs are `f64`. `f` must follow the type of its inputs.
    ///
    /// Differences in `f32` would be right to two digits. Against exact ones, what is wrong with the gradient is the rounding of
    /// its own computation, 6e-8 a step; the default tolerance is then 1e-4, which leaves room for a thousand. It finds
    /// wrong signs and factors; for a gradient's digits check it in `f64`.
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::tensor;
    /// Check::new().single_precision(true).gradcheck(|x| x.softmax(0), &tensor![0.5, -1.0, 2.0])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    pub fn single_precision(mut self, on: bool) -> Check {
        self.single = on;
        self
    }

    /// Compares forward mode with the backward pass, too, along a random direction of all tracked inputs.
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::tensor;
    /// Check::new().check_forward_ad(true).gradcheck(|x| x.cumprod(0), &tensor![1, 2; f64])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    pub fn check_forward_ad(mut self, on: bool) -> Check {
        self.modes.forward = on;
        self
    }

    /// Compares a pass with several seeds at once with one pass for each, too.
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::tensor;
    /// Check::new().check_batched_grad(true).gradcheck(|x| x.cumprod(0), &tensor![1, 2; f64])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    pub fn check_batched_grad(mut self, on: bool) -> Check {
        self.modes.batched = on;
        self
    }

    /// Varies inputs along random directions only, one for each input and seed and one for all inputs together: two evaluations
    /// each, whatever the number of elements. The same as `elements(0)`.
    ///
    /// A fault whose largest element is `m` times the tolerance (which grows with the sums it is relative to) stays below it
    /// along one direction with probability of at most `2 / m`: that element's part of the sum is spread evenly over as many
    /// tolerances, whatever the others add. It does so for all of `n` seeds with at most `(2 / m)^n`. Which of the elements are wrong is
    /// found out all the same, if there are no more than 512.
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::Tensor;
    /// use foldback_tensor::DType;
    /// let x = Tensor::full_with([100, 100], 0.5, DType::F64);
    /// Check::new().fast_mode().gradcheck(|x| x.matmul(x), &x)?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    pub fn fast_mode(self) -> Check {
        self.elements(0)
    }

    /// Goes on at other values near the given ones where the function has a kink or a jump: up to eight times, each element
    /// another one of its sign, at least 0.02 away from zero. What is found is then a fault at these values; if there is
    /// a kink in each try, that is reported.
    ///
    /// ```
    /// use foldback_gradcheck::{Check, GradcheckFacts};
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, 0.0, 1.0; f64];
    /// let e = Check::new().gradcheck(|x| x.relu(), &x).unwrap_err();
    /// assert!(matches!(e.facts(), Some(GradcheckFacts::Kink { before: 0.0, .. })));
    /// Check::new().resample(true).gradcheck(|x| x.relu(), &x)?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    pub fn resample(mut self, on: bool) -> Check {
        self.resample = on;
        self
    }
}
