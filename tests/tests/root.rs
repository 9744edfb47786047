//! The names that people import from the root of the facade.

use foldback::{
    DType, Linear, Module as _, Optimizer as _, Result, SGD, Tensor, Var, fuse, grad, gradcheck, loss,
    no_grad, s, tensor,
};

#[test]
fn what_the_prelude_has_stands_at_the_root() -> Result<()> {
    let layer = Linear::new(2, 1);
    let sgd = SGD::new(layer.parameters(), 0.1);
    let x: Tensor = tensor![[1.0, 2.0]];
    let y: Var = loss::mse_loss(layer.forward(&x)?, tensor![[1.0]])?;
    y.backward_with(foldback::Backward::new().retain_graph(true))?;
    assert_eq!(layer.weight.grad(), Some(grad(&y, &layer.weight)?.value()));
    sgd.step()?;
    let z = no_grad(|| fuse!(|x| x.square()).call([&Var::from(&x)]))?;
    assert_eq!(z.value().slice(s![0, 1])?.item()?, 4.0);
    gradcheck(|x| Ok(x[0].square()), &[Tensor::zeros_with([2], DType::F64)])?;
    Ok(())
}

/// Traits of the prelude whose methods hid those of std's types would break programs that know nothing of them.
#[test]
fn the_prelude_hides_no_method_of_a_list() {
    use foldback::prelude::*;
    let words: Vec<String> = vec!["7".to_owned()];
    let first = words.len() - 1;
    assert_eq!(words.get(first).map(|w| w.parse::<u64>().unwrap()), Some(7));
    assert_eq!(words.get(1), None);
    let set = foldback::data::TensorDataset::new([Tensor::zeros([3, 2])]);
    assert_eq!(foldback::Dataset::len(&set), 3);
}
