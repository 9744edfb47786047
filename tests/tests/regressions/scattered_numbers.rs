//! An index may have another rank than its source, if it has no elements or one of the two is a single number:
//! `scatter_add` took it, and its backward pass was refused; so was that of `index_add` for a
//! vector that is added to a number.

use foldback_graph::{Result, Var};
use foldback_tensor::{DType, Tensor, tensor};

#[test]
fn an_empty_index_of_another_rank_has_zeros_for_a_gradient() -> Result<()> {
    let x = Var::leaf(Tensor::from(1.5f64))?;
    let source = Var::leaf(tensor![1.0, 2.0; f64])?;
    let y = x.scatter_add(0, Tensor::zeros_with([2, 0, 3], DType::I64), &source)?;
    y.backward()?;
    assert_eq!((x.grad(), source.grad()), (Some(Tensor::from(1.0f64)), Some(tensor![0.0, 0.0; f64])));
    Ok(())
}

#[test]
fn a_single_number_counts_as_a_vector_of_one() -> Result<()> {
    let number = Tensor::from(2.5f64);
    let vector = tensor![2.5, 4.0; f64];
    for (index, source, expected) in [
        (tensor![0; i64], &number, Tensor::from(1.0f64)),
        (Tensor::from(1i64), &vector, tensor![1.0, 0.0; f64]),
    ] {
        let source = Var::leaf(source.clone())?;
        let x = Var::leaf(if index.rank() == 0 { tensor![0.0, 0.0; f64] } else { Tensor::from(0.0f64) })?;
        x.scatter_add(0, &index, &source)?.sum(..)?.backward()?;
        assert_eq!(source.grad(), Some(expected));
    }
    Ok(())
}

#[test]
fn a_vector_of_one_is_added_to_a_number() -> Result<()> {
    let x = Var::leaf(Tensor::from(2.5f64))?;
    for (index, source, expected) in [
        (tensor![0; i64], tensor![2.5; f64], tensor![1.0; f64]),
        (
            Tensor::zeros_with(0, DType::I64),
            Tensor::zeros_with(0, DType::F64),
            Tensor::zeros_with(0, DType::F64),
        ),
    ] {
        let source = Var::leaf(source)?;
        x.index_add(0, &index, &source)?.backward()?;
        assert_eq!(source.grad(), Some(expected));
    }
    Ok(())
}
