//! W22: rows of a table by number, and the gradient of the table.

use foldback::graph::Var;
use foldback::prelude::*;

use super::{Both, Work, Workload, both, bytes, tensor};
use crate::inputs::{Input, labels};

pub(super) fn list() -> Vec<Workload> {
    let list = [
        embedding(["W22-embedding", "W22-embedding-back"], [32_000, 256], [32, 128]),
        // Each row is looked up 63 times, so that the gradient adds up far more than it stores.
        embedding(["W22-characters", "W22-characters-back"], [65, 64], [16, 256]),
        embedding(["W22-odd", "W22-odd-back"], [1003, 37], [7, 719]),
    ];
    list.into_iter().flatten().collect()
}

fn embedding(keys: [&'static str; 2], table: [usize; 2], ids: [usize; 2]) -> [Workload; 2] {
    let [rows, width] = table;
    let looked_up = bytes(&[ids[0], ids[1], width]);
    let read = looked_up.min(bytes(&table));
    let what = Both {
        keys,
        title: format!("embedding {ids:?} in [{rows}, {width}]"),
        elements: (looked_up / 4).max(rows * width),
        // A row is read once, however often it is looked up; the gradient has a number for every element of the table.
        work: [looked_up, bytes(&table)].map(|written| Work { read, written, ..Work::default() }),
    };
    let weight = Input::new(table, 130, -0.5, 1.0);
    both(
        what,
        move || {
            let ids = Tensor::from_vec(labels(ids[0] * ids[1], 131, rows as u32), ids)?;
            Ok([tensor(weight)?, ids])
        },
        |[table, ids]| Tensor::embedding(ids, table),
        |[table, ids]| Var::embedding(ids.value(), table),
    )
}
