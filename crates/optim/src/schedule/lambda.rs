//! Schedules by functions of a program's own.

use std::fmt;
use std::sync::Arc;

use foldback_tensor::{Here, or_panic};

use super::course::{Course, Rates, ScheduleRule, course};
use crate::Optimizer;
use crate::error::Result;

/// From the group and the epoch to a factor.
type Factor = Arc<dyn Fn(usize, i32) -> f64 + Send + Sync>;

macro_rules! lambda {
    ($(#[$doc:meta])* $name:ident, $text:literal) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            course: Course,
            factor: Factor,
        }

        impl $name {
            /// A schedule with one function for all groups.
            ///
            /// # Panics
            /// Where `try_new` returns an error.
            #[track_caller]
            pub fn new(optimizer: &dyn Optimizer, lr_lambda: impl Fn(i32) -> f64 + Send + Sync + 'static) -> $name {
                or_panic($name::try_new(optimizer, lr_lambda))
            }

            /// `new` that returns an error instead of panicking.
            ///
            /// # Errors
            /// `Parameter` if the first factor is negative or not finite. The optimiser is as before then.
            #[track_caller]
            pub fn try_new(
                optimizer: &dyn Optimizer,
                lr_lambda: impl Fn(i32) -> f64 + Send + Sync + 'static,
            ) -> Result<$name> {
                $name::try_by_group(optimizer, move |_, epoch| lr_lambda(epoch)).here()
            }

            /// A schedule with a function of the number of the group, from 0, and the epoch.
            ///
            /// # Errors
            /// As `try_new`.
            #[track_caller]
            pub fn try_by_group(
                optimizer: &dyn Optimizer,
                lr_lambda: impl Fn(usize, i32) -> f64 + Send + Sync + 'static,
            ) -> Result<$name> {
                let mut schedule = $name { course: Course::new($text, optimizer), factor: Arc::new(lr_lambda) };
                schedule.begin_again().here()?;
                Ok(schedule)
            }

            /// The rates times the factors of an epoch.
            fn times(&self, epoch: i64, lrs: &[f64]) -> Result<Rates> {
                let epoch = i32::try_from(epoch).unwrap_or(i32::MAX);
                let each = lrs.iter().enumerate().map(|(group, lr)| {
                    let factor = (self.factor)(group, epoch);
                    let holds = factor >= 0.0 && factor.is_finite();
                    self.course.check(holds, "lr_lambda", factor, "a finite number that is not negative")?;
                    Ok(lr * factor)
                });
                Ok(each.collect::<Result<Vec<f64>>>()?.into())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($text).field("course", &self.course).finish_non_exhaustive()
            }
        }
    };
}

lambda! {
    /// The first rates times a function of the epoch, from 0, as PyTorch's
    /// [`LambdaLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{LambdaLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 2.0);
    /// let mut schedule = LambdaLR::new(&sgd, |epoch| 0.5f64.powi(epoch));
    /// (0..2).try_for_each(|_| schedule.step(&sgd))?;
    /// assert_eq!(sgd.lr(), 0.5);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    LambdaLR, "LambdaLR"
}

impl ScheduleRule for LambdaLR {
    course!();
    fn rates(&self, epoch: i64, _: &[f64], _: bool) -> Result<Rates> {
        self.times(epoch, &self.course.base)
    }
}

lambda! {
    /// The present rates times a function of the epoch, from 1, as PyTorch's
    /// [`MultiplicativeLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.MultiplicativeLR.html).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{MultiplicativeLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 2.0);
    /// let mut schedule = MultiplicativeLR::new(&sgd, |_| 0.5);
    /// (0..2).try_for_each(|_| schedule.step(&sgd))?;
    /// assert_eq!(sgd.lr(), 0.5);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    MultiplicativeLR, "MultiplicativeLR"
}

impl ScheduleRule for MultiplicativeLR {
    course!();
    fn rates(&self, epoch: i64, lrs: &[f64], initial: bool) -> Result<Rates> {
        if initial {
            return Ok(lrs.to_vec().into());
        }
        self.times(epoch, lrs)
    }
}
