//! How a step sees a gradient: turned around where it goes up, and with the weight decay.

use foldback_tensor::kernel::Real;

/// What becomes of the parameter and its gradient before a step.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    maximize: bool,
    /// this times the parameter is added to the gradient
    decay: f64,
    /// what the parameter is multiplied with
    shrink: f64,
}

impl Seen {
    /// Decay as part of the gradient.
    pub(crate) fn new(maximize: bool, decay: f64) -> Seen {
        Seen { maximize, decay, shrink: 1.0 }
    }

    /// Decay that passes the gradient by, if `decoupled`: the parameter shrinks by rate times decay.
    pub(crate) fn decoupled(maximize: bool, decay: f64, decoupled: bool, lr: f64) -> Seen {
        if decoupled {
            Seen { maximize, decay: 0.0, shrink: 1.0 - lr * decay }
        } else {
            Seen::new(maximize, decay)
        }
    }

    /// The parameter and its gradient; without decay the latter is untouched by a parameter that is not finite.
    #[inline(always)]
    pub(crate) fn see<R: Real>(&self, p: R, g: R) -> [R; 2] {
        let g = if self.maximize { -g } else { g };
        [p * self.shrink, if self.decay == 0.0 { g } else { g + p * self.decay }]
    }
}

/// A running mean, of which a share is kept, with a new value: `m + (1 - keep) * (x - m)`.
#[inline(always)]
pub(crate) fn mean<R: Real>(m: R, x: R, keep: f64) -> R {
    m + (x - m) * (1.0 - keep)
}

/// `keep * m + (1 - keep) * x`
#[inline(always)]
pub(crate) fn mixed<R: Real>(m: R, x: R, keep: f64) -> R {
    m * keep + x * (1.0 - keep)
}

/// A running mean of squares.
#[inline(always)]
pub(crate) fn mean_square<R: Real>(v: R, x: R, keep: f64) -> R {
    v * keep + x * x * (1.0 - keep)
}
