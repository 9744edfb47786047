//! Shows what a backward pass will do, before it runs: `cargo run -p foldback --example plan > plan.html`, and open the page.

mod data;

use foldback::prelude::*;

fn main() -> Result<()> {
    manual_seed(0);
    let (training, _) = data::load()?;
    let rows = Tensor::randperm(training.labels.numel()).narrow(0, 0, 64)?;
    let (images, labels) = (training.images.index_select(0, &rows)?, training.labels.index_select(0, &rows)?);
    let model = sequential![Linear::new(64, 128), ReLU, Linear::new(128, 64), ReLU, Linear::new(64, 10)];
    let loss = loss::cross_entropy(model.forward(&images)?, &labels)?;

    let plan = loss.backward_plan()?.named(model.named_parameters());
    eprint!("{plan}");
    println!("{}", plan.to_html());
    Ok(())
}
