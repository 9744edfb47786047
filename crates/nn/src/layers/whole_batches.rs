//! Statistics of batch norms over all batches, whatever their momenta: what `update_bn` of `foldback-train` is made of.

use std::any::type_name;
use std::cell::Cell;

use super::batch_norm::{BatchNorm1d, BatchNorm2d};
use crate::Module;
use crate::module::{Seen, Visitor};

thread_local! {
    static ASKED_FOR: Cell<bool> = const { Cell::new(false) };
}

/// Whether batch norms of this thread take means over all batches.
pub(super) fn asked_for() -> bool {
    ASKED_FOR.get()
}

/// Runs something while the batch norms of this thread take means over all batches, as with a momentum of `None`.
#[doc(hidden)]
pub fn over_all_batches<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            ASKED_FOR.set(self.0);
        }
    }
    let _back = Back(ASKED_FOR.replace(true));
    f()
}

/// Puts the running statistics of a model's batch norms back to those of the beginning; whether it has any.
#[doc(hidden)]
pub fn forget_batches<M: Module + ?Sized>(model: &M) -> bool {
    let names = [type_name::<BatchNorm1d>(), type_name::<BatchNorm2d>()];
    let (mut any, mut within) = (false, None::<String>);
    model.visit(&mut Visitor::new(&mut |path, seen| match seen {
        Seen::Layer((_, name)) => {
            within = names.contains(&name).then(|| path.to_owned());
            any |= within.is_some();
        }
        Seen::Buffer(buffer) => {
            let Some(layer) = &within else { return };
            match path.strip_prefix(layer.as_str()).map(|name| name.trim_start_matches('.')) {
                Some("running_var") => buffer.set(buffer.value().ones_like()),
                Some("running_mean" | "num_batches_tracked") => buffer.set(buffer.value().zeros_like()),
                _ => {}
            }
        }
        _ => {}
    }));
    any
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, tensor};

    use super::*;
    use crate::{InstanceNorm1d, Linear, sequential};

    #[test]
    fn only_batch_norms_forget() {
        let model = sequential![
            BatchNorm1d::new(2),
            sequential![
                BatchNorm1d::new(2).track_running_stats(false),
                InstanceNorm1d::new(2).track_running_stats(true)
            ],
        ];
        let fresh = model.state_dict();
        let wide = Tensor::arange(0..12).float().reshape([2, 2, 3]).unwrap();
        model.forward(&wide).unwrap();
        let moved = model.state_dict();
        assert!(forget_batches(&model));
        let forgotten = model.state_dict();
        for (name, value) in forgotten.iter() {
            let expected = if name.starts_with("0.") { &fresh } else { &moved };
            assert_eq!(Some(value), expected.get(name), "{name}");
        }
        assert_ne!(moved.get("0.running_mean"), fresh.get("0.running_mean"));
        assert_ne!(moved.get("1.1.running_var"), fresh.get("1.1.running_var"));
        assert!(!forget_batches(&Linear::new(1, 1)) && forget_batches(&BatchNorm2d::new(1)));
    }

    #[test]
    fn means_over_all_batches_end_with_the_call() {
        let layer = BatchNorm1d::new(1).momentum(0.5);
        let mean = || layer.running_mean.as_ref().unwrap().value();
        let (a, b) = (tensor![[0.0], [2.0]], tensor![[4.0], [6.0]]);
        over_all_batches(|| [&a, &b].map(|x| layer.forward(x).unwrap()));
        assert_eq!(mean(), tensor![3.0]);
        let caught = std::panic::catch_unwind(|| over_all_batches(|| panic!("on the way")));
        assert!(caught.is_err() && !asked_for());
        layer.forward(&b).unwrap();
        assert_eq!(mean(), tensor![4.0]);
    }
}
