//! A number on the left of a power may be larger than any `f32`, or smaller: its logarithm is that of the number.

use foldback_graph::{Grad, RequiresGrad, Var};
use foldback_tensor::{assert_close, tensor};

#[test]
fn the_gradient_of_a_power_of_a_number_that_no_f32_holds() {
    for (number, slope) in [(1e40, 92.103_404), (1e-46, -105.918_92), (3.402_823_567_797_336_6e38, 88.722_84)]
    {
        for create_graph in [false, true] {
            let x = tensor![0.0].requires_grad();
            let y = x.rpow(number).unwrap();
            let seed = Var::from(tensor![1.0]);
            let (roots, inputs, seeds) = ([&y], [&x], [&seed]);
            let pass = Grad::new(roots, inputs).seeds(&seeds).create_graph(create_graph);
            let g = pass.run().unwrap().remove(0).unwrap();
            assert_close!(g.value(), tensor![slope], rtol = 1e-6);
        }
    }
}
