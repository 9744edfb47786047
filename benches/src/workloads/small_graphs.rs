//! W8 and W15: long graphs of one-element tensors, where the arithmetic costs nothing.

use foldback::Result;
use foldback::graph::Var;
use foldback::prelude::*;

use super::{Unit, Work, Workload, backward};
use crate::checksum::Checksum;
use crate::inputs::{ADDITIONS, CHAIN_NODES, CHAIN_START};
use crate::measure::Job;

pub(super) fn chains() -> [Workload; 2] {
    let unit = Unit::Nodes(CHAIN_NODES);
    [
        Workload::new(
            "W8-forward",
            "chain of 20,000 mul and add on [1], and drop",
            unit,
            Work::default(),
            || Ok(Chain::new()),
        ),
        Workload::new("W8-backward", "backward of that chain", unit, Work::default(), || {
            Ok(ChainBack { chain: Chain::new(), ready: Vec::new() })
        }),
    ]
}

pub(super) fn additions() -> [Workload; 1] {
    [Workload::new(
        "W15",
        "1,000,000 additions on [1], backward, drop",
        Unit::Nodes(ADDITIONS),
        Work::default(),
        || {
            let x = tensor![1.0].requires_grad();
            let one = tensor![1.0];
            Ok(backward(vec![x.clone()], move || {
                let mut y = x.add(&one)?;
                for _ in 1..ADDITIONS {
                    y = y.add(&one)?;
                }
                Ok(y)
            }))
        },
    )]
}

/// `y = y * x + x`, over and over.
struct Chain {
    x: Var,
}

impl Chain {
    fn new() -> Chain {
        Chain { x: tensor![CHAIN_START].requires_grad() }
    }

    fn build(&self) -> Var {
        let mut y = &self.x * &self.x;
        for _ in 0..CHAIN_NODES / 2 {
            y = &(&y * &self.x) + &self.x;
        }
        y
    }
}

impl Job for Chain {
    fn run(&mut self) -> Result<()> {
        std::hint::black_box(self.build());
        Ok(())
    }
    fn checksums(&mut self) -> Result<Vec<Checksum>> {
        Ok(vec![Checksum::of_tensor(&self.build().value())?])
    }
}

/// Only the backward pass is timed; it frees the graph as it goes.
struct ChainBack {
    chain: Chain,
    ready: Vec<Var>,
}

impl Job for ChainBack {
    fn needs_preparation(&self) -> bool {
        true
    }
    fn prepare(&mut self) -> Result<()> {
        self.chain.x.zero_grad();
        self.ready.push(self.chain.build());
        Ok(())
    }
    fn run(&mut self) -> Result<()> {
        let y = self.ready.pop().expect("a run is prepared");
        y.backward()
    }
    fn checksums(&mut self) -> Result<Vec<Checksum>> {
        self.prepare()?;
        self.run()?;
        let gradient = self.chain.x.grad().ok_or_else(|| Error::other("no gradient"))?;
        Ok(vec![Checksum::of_tensor(&gradient)?])
    }
}
