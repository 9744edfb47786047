//! Every optimiser there is, in each of the ways it works.

use foldback::prelude::*;

/// Makes an optimiser of some parameters, with a learning rate of 0.1.
pub type Make = fn(Vec<Var>) -> Box<dyn Optimizer>;

/// Without state and with each kind of it.
pub fn every_optimiser() -> [Make; 4] {
    [
        |p| Box::new(SGD::new(p, 0.1)),
        |p| Box::new(SGD::new(p, 0.1).momentum(0.9)),
        |p| Box::new(Adam::new(p, 0.1)),
        |p| Box::new(AdamW::new(p, 0.1).amsgrad(true)),
    ]
}
