//! The page "From PyTorch" says what the replayer's table does, of all of its rows.

use std::fs;
use std::path::Path;

use foldback::nn::init::{Init, Nonlinearity};
use foldback::prelude::*;
use tests::conformance::page::{faults, found_after_all, renewed};

#[test]
fn the_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/from-pytorch.md");
    let page = fs::read_to_string(&path).expect("the page is committed");
    let new = renewed(&page);
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::write(&path, &new).expect("the page can be written");
    } else if page != new {
        let differ = page.lines().zip(new.lines()).find(|(old, new)| old != new);
        panic!(
            "docs/src/from-pytorch.md is not what the table says: UPDATE_PAGES=1 cargo test -p tests --test from_pytorch\nwrites it anew; the first difference: {differ:#?}"
        );
    }
    assert_eq!(found_after_all(&new), [] as [&str; 0], "said to be missing");
}

#[test]
fn each_row_has_its_line_and_each_line_its_row() {
    let faults = faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What the page composes of what is here.
#[test]
fn compositions_do_what_they_stand_for() {
    manual_seed(3);
    let p = tensor![[0.1, 0.2, 0.7]].expand([20_000, 3]).unwrap();
    let drawn = (p.log() - (-Tensor::rand(p.shape()).log()).log()).argmax(1).unwrap();
    for (class, share) in [(0, 0.1), (1, 0.2), (2, 0.7)] {
        let found = drawn.eq(class).unwrap().float().mean(..).unwrap().item().unwrap();
        assert!((found - share).abs() < 0.02, "{class}: {found}");
    }
    let mut w = Linear::new(400, 300).weight;
    w.set_value(Init::kaiming_normal(Nonlinearity::ReLU).sample(w.shape(), w.dtype()).unwrap()).unwrap();
    let spread = w.std(..).unwrap().item().unwrap();
    assert!((spread / (2f64 / 400.0).sqrt() - 1.0).abs() < 0.02, "{spread}");
    w.set_value(Tensor::zeros(w.shape())).unwrap();
    assert_eq!(w.value(), Tensor::zeros([300, 400]));
    let losses =
        [tensor![2.0].requires_grad().sum(..).unwrap(), tensor![3.0].requires_grad().sum(..).unwrap()];
    assert_eq!(Var::stack(&losses, 0).unwrap().sum(..).unwrap().item().unwrap(), 5.0);
}
