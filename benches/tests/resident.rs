//! A training loop holds no more memory after many steps than after ten, as the system counts it.

use foldback::prelude::*;
use foldback::tensor::num_threads;

/// Pages of this process in memory, in bytes; nothing where the system does not say.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

#[test]
fn training_is_flat_after_the_tenth_step() -> Result<()> {
    manual_seed(0);
    let model = sequential![Linear::new(256, 512), ReLU, Linear::new(512, 10)];
    let adam = Adam::new(model.parameters(), 1e-3);
    let x = Tensor::rand([128, 256]);
    let labels = Tensor::from_vec((0..128).map(|i| i % 10).collect::<Vec<i64>>(), [128])?;
    let step = || -> Result<()> {
        adam.zero_grad();
        loss::cross_entropy(model.forward(&x)?, &labels)?.backward()?;
        adam.step()
    };
    for _ in 0..10 {
        step()?;
    }
    let Some(before) = resident() else { return Ok(()) };
    for _ in 0..300 {
        step()?;
    }
    let after = resident().expect("it was there before");
    // The C library's heap may take a few pages more, and a thread that first helps later brings its stack and working
    // memory; one leaked activation per step would be 75 MiB.
    let allowed = (256 << 10) + num_threads() * (64 << 10);
    assert!(after <= before + allowed, "resident memory went from {before} to {after} bytes");
    Ok(())
}
