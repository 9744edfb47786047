//! `cargo bench -p benches`: the workloads that decide what the core feels like, each at one and at two threads.
//!
//! Prints the median of many runs, the quartiles, and the time per element, node or floating-point operation. Compare
//! figures of one run with each other only; machines are noisy.

use benches::{Unit, workload};
use foldback::prelude::*;
use foldback::tensor::{ThreadPool, release_memory};

fn main() {
    for threads in [1, 2] {
        println!("\n{threads} thread(s)");
        ThreadPool::new(threads).install(run);
        release_memory();
    }
}

fn run() {
    broadcasting();
    reductions();
    elementary();
    small_graphs();
    products();
}

fn broadcasting() {
    let x = Tensor::rand([4096, 1024], DType::F32);
    let (row, column) = (Tensor::rand([1024], DType::F32), Tensor::rand([4096, 1], DType::F32));
    let elements = Unit::Elements(x.numel());
    workload("bias add [4096, 1024] + [1024]", elements, || x.add(&row));
    let short = column.narrow(0, 0, 2048).expect("inside the axis");
    let wide = Tensor::rand([1, 2048], DType::F32);
    workload("outer [2048, 1] * [1, 2048]", Unit::Elements(2048 * 2048), || short.mul(&wide));
    for (name, w) in [("[1024]", &row), ("[4096, 1]", &column)] {
        let (x, w) = (x.clone().requires_grad(), w.clone().requires_grad());
        workload(&format!("(x * w).sum() and back, w {name}"), elements, || {
            x.zero_grad();
            w.zero_grad();
            (&x * &w).sum(.., false)?.backward()
        });
    }
}

fn reductions() {
    let x = Tensor::rand([4096, 1024], DType::F32);
    let elements = Unit::Elements(x.numel());
    workload("sum [4096, 1024] to [1024]", elements, || x.sum(0, false));
    workload("sum [4096, 1024] to [4096, 1]", elements, || x.sum(1, true));
    workload("sum [4096, 1024] to a number", elements, || x.sum(.., false));
    let y = x.reshape([64, 128, 512]).expect("as many elements");
    workload("sum [64, 128, 512] to [1, 128, 1]", elements, || y.sum([0, 2], true));
    workload("log_softmax [4096, 1024]", elements, || x.log_softmax(1));
}

fn elementary() {
    let x = Tensor::randn([4096, 1024], DType::F32);
    let elements = Unit::Elements(x.numel());
    workload("exp", elements, || Ok::<_, Error>(x.exp()));
    workload("tanh", elements, || Ok::<_, Error>(x.tanh()));
    workload("sigmoid", elements, || Ok::<_, Error>(x.sigmoid()));
    workload("gelu", elements, || x.gelu());
}

fn small_graphs() {
    const NODES: usize = 20_000;
    let x = tensor![1.0].requires_grad();
    let chain = || {
        let mut y = &x * 1.0;
        for _ in 0..NODES / 2 {
            y = &(&y * &x) + &x;
        }
        y
    };
    workload("chain of one-element nodes, forward and drop", Unit::Nodes(NODES), || Ok::<_, Error>(chain()));
    workload("chain of one-element nodes, and back", Unit::Nodes(NODES), || chain().backward());
}

fn products() {
    for n in [64, 256, 1024] {
        let (a, b) = (Tensor::rand([n, n], DType::F32), Tensor::rand([n, n], DType::F32));
        workload(&format!("matmul {n}"), Unit::Flops(2 * n * n * n), || a.matmul(&b));
    }
}
