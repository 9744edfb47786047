//! The workloads of `compare`, without peers: `cargo bench -p benches --bench workloads`.

use std::cell::RefCell;

use benches::workloads;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use foldback::tensor::{release_memory, set_num_threads};

fn main() {
    divan::main();
}

fn keys() -> impl Iterator<Item = &'static str> {
    workloads::all().into_iter().map(|w| w.key)
}

#[divan::bench(args = keys(), max_time = 1)]
fn threads_1(bencher: Bencher<'_, '_>, key: &str) {
    run(bencher, key, 1);
}

#[divan::bench(args = keys(), max_time = 1)]
fn threads_2(bencher: Bencher<'_, '_>, key: &str) {
    run(bencher, key, 2);
}

/// Counts floating-point operations as items where they are the work, and bytes where moving them is.
fn run(bencher: Bencher<'_, '_>, key: &str, threads: usize) {
    set_num_threads(threads);
    release_memory();
    let workload = workloads::all().into_iter().find(|w| w.key == key).expect("keys come from the same list");
    let job = RefCell::new(workload.job().expect("the inputs fit"));
    let prepare = || {
        job.borrow_mut().reset().expect("the inputs fit");
        job.borrow_mut().prepare().expect("the inputs fit");
    };
    let run = |()| job.borrow_mut().run().expect("the inputs fit");
    match (workload.work.flops, workload.work.bytes()) {
        (0, 0) => bencher.with_inputs(prepare).bench_local_values(run),
        (0, bytes) => bencher.counter(BytesCount::new(bytes)).with_inputs(prepare).bench_local_values(run),
        (flops, _) => bencher.counter(ItemsCount::new(flops)).with_inputs(prepare).bench_local_values(run),
    }
}
