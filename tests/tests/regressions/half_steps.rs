//! A step of an optimiser that was refused at the second parameter, when the first had been changed.

use foldback::prelude::*;
use tests::optimisers::every_optimiser;

/// Afterwards the next step is as if it were the first.
#[test]
fn a_step_inside_the_update_of_a_parameter_is_refused_before_the_first_is_changed() {
    for make in every_optimiser() {
        let [a, b, alone] = [(); 3].map(|()| tensor![1.0].requires_grad());
        [&a, &b, &alone].into_iter().for_each(|v| v.set_grad(Some(tensor![1.0])).unwrap());
        let optimiser = make(vec![a.clone(), b.clone()]);
        b.update_value(|_| {
            let error = optimiser.step().unwrap_err().to_string();
            assert!(error.contains("the leaf is being updated"), "{error}");
            Ok(())
        })
        .unwrap();
        assert_eq!((a.value(), b.value()), (tensor![1.0], tensor![1.0]));
        optimiser.step().unwrap();
        make(vec![alone.clone()]).step().unwrap();
        assert_eq!((a.value(), b.value()), (alone.value(), alone.value()));
    }
}
