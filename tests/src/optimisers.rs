//! Every optimiser there is, in each of the ways it works.

use foldback::prelude::*;

/// Makes an optimiser of some parameters, with a learning rate of 0.1.
pub type Make = fn(Vec<Var>) -> Box<dyn Optimizer>;

/// Without state and with each kind of it.
pub fn every_optimiser() -> [Make; 19] {
    [
        |p| Box::new(SGD::new(p, 0.1)),
        |p| Box::new(SGD::new(p, 0.1).momentum(0.9)),
        |p| Box::new(SGD::new(p, 0.1).momentum(0.9).nesterov(true).weight_decay(0.1)),
        |p| Box::new(Adam::new(p, 0.1)),
        |p| Box::new(Adam::new(p, 0.1).weight_decay(0.1)),
        |p| Box::new(AdamW::new(p, 0.1).amsgrad(true)),
        |p| Box::new(NAdam::new(p, 0.1)),
        |p| Box::new(RAdam::new(p, 0.1)),
        |p| Box::new(Adagrad::new(p, 0.1).lr_decay(0.1)),
        |p| Box::new(RMSprop::new(p, 0.1)),
        |p| Box::new(RMSprop::new(p, 0.1).momentum(0.5)),
        |p| Box::new(RMSprop::new(p, 0.1).centered(true)),
        |p| Box::new(RMSprop::new(p, 0.1).centered(true).momentum(0.5)),
        |p| Box::new(Adadelta::new(p, 0.1)),
        |p| Box::new(Adamax::new(p, 0.1)),
        |p| Box::new(ASGD::new(p, 0.1)),
        |p| Box::new(ASGD::new(p, 0.1).t0(1.0)),
        |p| Box::new(Lion::new(p, 0.1)),
        |p| Box::new(Rprop::new(p, 0.1)),
    ]
}
