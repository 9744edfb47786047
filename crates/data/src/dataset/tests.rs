//! Datasets of tensors, of parts and of other datasets.

use foldback_tensor::{Error, refused, tensor};

use super::*;

fn tensors() -> TensorDataset<2> {
    TensorDataset::new([tensor![[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], tensor![7, 8, 9; i64]])
}

#[test]
fn a_batch_of_tensors_is_what_its_items_make() {
    let set = tensors();
    let [x, y] = set.batch(&[2, 0, 2]).unwrap();
    assert_eq!(x, tensor![[4.0, 5.0], [0.0, 1.0], [4.0, 5.0]]);
    assert_eq!(y, tensor![9, 7, 9; i64]);
    let stacked = Collate::collate(vec![set.get(2).unwrap(), set.get(0).unwrap(), set.get(2).unwrap()]);
    assert_eq!(stacked.unwrap(), [x, y]);
    assert_eq!((set.len(), set.is_empty(), set.tensors()[1].dims()), (3, false, &[3][..]));
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let items = DataFacts::Items { op: "tensor dataset", index: 1, found: 2, expected: 1 };
    assert_eq!(TensorDataset::try_new([tensor![1.0], tensor![1.0, 2.0]]).unwrap_err(), items);
    let none = TensorDataset::try_new([tensor![1.0], Tensor::scalar(1.0)]).unwrap_err();
    assert!(none.to_string().contains("unsqueeze(0)"), "{none}");
    assert!(TensorDataset::try_new([]).is_err());
}

#[test]
fn items_that_are_not_there_are_refused_at_the_callers_line() {
    let set = tensors();
    let concat = ConcatDataset::new([vec![1], vec![2, 3]]);
    let errors: [Error; 6] = [
        set.get(3).unwrap_err(),
        set.batch(&[0, 3]).unwrap_err(),
        Dataset::get(&vec![1], 1).unwrap_err(),
        Subset::new(set.clone(), [3]).unwrap_err(),
        Subset::new(set, [0]).unwrap().batch(&[1]).unwrap_err(),
        concat.get(3).unwrap_err(),
    ];
    for e in errors {
        assert!(matches!(e.facts(), Some(DataFacts::Index { .. })), "{e}");
        assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
    }
}

#[test]
fn datasets_of_datasets() {
    let concat = ConcatDataset::new([vec![10, 11], vec![], vec![12, 13, 14]]);
    let all: Vec<i32> = (0..concat.len()).map(|i| concat.get(i).unwrap()).collect();
    assert_eq!(all, [10, 11, 12, 13, 14]);
    let some = Subset::new(concat, [4, 0, 0]).unwrap();
    assert_eq!((some.indices(), some.dataset().len()), (&[4, 0, 0][..], 5));
    assert_eq!(some.batch(&[0, 2]).unwrap(), tensor![14, 10; i64]);
    let doubled =
        Arc::new(&some).map(|x| if x == 14 { Err(Error::other("no 14")) } else { Ok(2.0 * f64::from(x)) });
    assert_eq!(doubled.get(1).unwrap(), 20.0);
    assert!(doubled.batch(&[1, 0]).unwrap_err().to_string().contains("no 14"));
    let boxed: Vec<Box<dyn Dataset<Item = i32>>> = vec![Box::new(vec![1]), Box::new(some)];
    assert_eq!(ConcatDataset::new(boxed).batch(&[0, 1]).unwrap(), tensor![1, 14; i64]);
    assert!(refused!(Subset::new(vec![1], [1]), DataFacts::Index { index: 1, len: 1, .. }));
}
