use std::error::Error as _;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use super::*;
use crate::shape::Shape;
use crate::{DType, Scalar, Tensor, tensor};

fn refusal() -> Error {
    tensor![1.0, 2.0].sum(3).unwrap_err()
}

#[test]
fn the_cure_for_an_index_or_an_axis_is_one_that_the_operation_takes() {
    let (x, i) = (Tensor::ones([4, 3]), tensor![-1; i64]);
    let said = |e: Error| e.to_string();
    assert!(said(Tensor::embedding(&i, &x).unwrap_err()).contains("give one from 0 to 3"));
    assert!(said(i.one_hot(3).unwrap_err()).contains("give one from 0 to 2"));
    assert!(said(i.bincount(3).unwrap_err()).contains("give one from 0 to 2"));
    assert!(said(x.index_select(0, &i).unwrap_err()).contains("give one from 0 to 3"));
    assert!(said(x.select(0, 4).unwrap_err()).contains("give one from -4 to 3"));
    assert!(said(x.take_along_dim(tensor![-1; i64], ..).unwrap_err()).contains("give one from 0 to 11"));
    assert!(said(x.slice(tensor![4; i64]).unwrap_err()).contains("give one from -4 to 3"));
    assert!(said(x.take_along_dim(tensor![[4]; i64], 0).unwrap_err()).contains("give one from -4 to 3"));
    let single = Tensor::scalar(1.0);
    assert!(
        said(single.roll(1, 0).unwrap_err()).starts_with("roll: Dimension specified as 0 but tensor has no")
    );
}

#[test]
fn an_error_is_a_pointer_and_a_result_of_a_tensor_is_no_larger_than_a_tensor() {
    assert_eq!(size_of::<Error>(), 8);
    assert_eq!(size_of::<Result<()>>(), 8);
    assert_eq!(size_of::<Result<Tensor>>(), size_of::<Tensor>());
    fn is_sent<T: Send + Sync + 'static>() {}
    is_sent::<Error>();
}

#[test]
fn debug_shows_the_words_and_its_long_form_the_facts() {
    let e = refusal();
    let words =
        "sum: Dimension out of range (expected to be in range of [-1, 0], but got 3) for a tensor of rank 1";
    assert_eq!(e.to_string(), format!("{words} (at {})", e.location().unwrap()));
    assert_eq!(format!("{e:?}"), e.to_string());
    let long = format!("{e:#?}");
    for part in ["kind: Axis", "AxisOutOfRange {", "limit: 1", "error/tests.rs:"] {
        assert!(long.contains(part), "{part} is missing from {long}");
    }
    assert_eq!(e.with_location(None).to_string(), words);
    // PyTorch's second argument of `norm` is the order.
    let e = Tensor::zeros([2]).norm(2).unwrap_err().with_location(None).to_string();
    assert!(e.starts_with("norm: Dimension out of range"), "{e}");
    assert!(e.ends_with(": the order of a norm is an argument of norm_with"), "{e}");
}

#[test]
fn facts_are_found_by_their_type_and_compared() {
    let e = refusal();
    assert!(matches!(e.facts(), Some(TensorFacts::AxisOutOfRange { op: "sum", .. })));
    assert_eq!(e, TensorFacts::AxisOutOfRange { op: "sum", axis: 3, limit: 1, rank: 1 });
    assert!(e != TensorFacts::NoTensors { op: "sum" });
    assert!(e.facts::<Io>().is_none());
    assert!(Error::other("mine").facts::<TensorFacts>().is_none());
    assert_eq!(refusal().named("other").to_string().split(':').next(), Some("other"));
}

#[test]
fn other_errors_come_as_they_are() {
    let own = Error::other("mine");
    assert_eq!((own.kind(), own.to_string().as_str(), own.location()), (Kind::User, "mine", None));
    assert_eq!(format!("{own:?}"), "mine");
    let again = Error::other(refusal());
    assert_eq!(again.kind(), Kind::Axis, "an error of ours is not wrapped in another");
    let missing = |path: &str| -> Result<String> { Ok(std::fs::read_to_string(path)?) };
    let line = line!() - 1;
    let e = missing("/no/such/file").unwrap_err();
    assert_eq!((e.kind(), e.location().map(Location::line)), (Kind::Io, Some(line)));
    assert!(e.source().unwrap().is::<std::io::Error>());
    assert!(refusal().source().is_none());
    let own = Error::other(std::io::Error::other("disk"));
    assert!(own.source().unwrap().is::<std::io::Error>());
}

#[test]
fn the_line_is_the_outermost_operations_unless_a_function_of_the_users_has_one() {
    #[track_caller]
    fn composed() -> Result<Tensor> {
        refuse(TensorFacts::NoTensors { op: "composed" }).here().here()
    }
    #[track_caller]
    fn running(f: impl Fn() -> Result<Tensor>) -> Result<Tensor> {
        f().or_here()
    }
    let line_of = |r: Result<Tensor>| r.unwrap_err().location().map(Location::line);
    assert_eq!(line_of(composed()), Some(line!()));
    assert_eq!(line_of(composed().here()), Some(line!()));
    let inside = line!() + 1;
    let own = || tensor![1.0].sum(3);
    assert_eq!(line_of(running(own)), Some(inside));
    assert_eq!(line_of(running(|| refuse(TensorFacts::NoTensors { op: "cat" }))), Some(line!()));
    assert_eq!(line_of(running(|| Err(Error::other("mine")))), None);
    assert_eq!(line_of(running(|| own().nowhere())), Some(line!()));
    assert!(Ok::<_, Error>(1).here().or_here().nowhere().is_ok());
}

#[test]
fn a_panic_names_the_line_once() {
    let panicked =
        catch_unwind(AssertUnwindSafe(|| &tensor![1.0, 2.0] + &tensor![1.0, 2.0, 3.0])).unwrap_err();
    let text = panicked.downcast_ref::<String>().expect("it is made of parts");
    assert!(text.starts_with("add: cannot broadcast") && !text.contains("(at "), "{text}");
}

/// The kinds of all variants, and that an operation's name can be changed wherever there is one.
#[test]
fn every_fact_has_a_kind_and_a_name() {
    let op = "before";
    let (s, d, n) = (|| Shape::from([2, 3]), DType::I64, 1usize);
    use TensorFacts::*;
    let all = [
        (Broadcast { op, a: s(), b: Shape::from(2), dim: 1 }, Kind::Shape),
        (Expand { op, operand: "", from: s(), to: Shape::from(2), dim: 1 }, Kind::Shape),
        (AxisOutOfRange { op, axis: 3, limit: n, rank: n }, Kind::Axis),
        (DuplicateAxis { op, axis: n }, Kind::Axis),
        (EmptySpan { op, start: n }, Kind::Axis),
        (Rank { op, operand: "", expected: "2", found: n }, Kind::Shape),
        (Sizes { op, expected: n, shape: s() }, Kind::Shape),
        (DTypeUnsupported { op, dtype: d }, Kind::DType),
        (DTypeMismatch { op, operand: "an index", expected: d, found: DType::F32 }, Kind::DType),
        (MixedDTypes { op, a: ("input", d), b: ("weight", DType::F32) }, Kind::DType),
        (Unfit { op, value: 300, to: "u8" }, Kind::DType),
        (Ragged { op, row: 1, found: 2, expected: 3 }, Kind::Shape),
        (ResultCast { op, from: DType::F32, to: d }, Kind::DType),
        (Alpha { op, alpha: Scalar::F64(0.5), dtype: d }, Kind::DType),
        (ShapeMismatch { op, operand: "bias", expected: s(), found: s() }, Kind::Shape),
        (ListShapes { op, index: 1, found: s(), first: 0, expected: s(), axis: None }, Kind::Shape),
        (ElementCount { op, shape: "[2]".into(), elements: n }, Kind::Shape),
        (ViewNeedsCopy { op, shape: s(), strides: vec![1, 2], wanted: s() }, Kind::Shape),
        (IndexOutOfRange { op, index: 7, axis: 0, size: n }, Kind::Index),
        (Range { op, start: 0, end: 9, step: 1, axis: 0, size: n }, Kind::Index),
        (Matmul { op, a: s(), b: s() }, Kind::Shape),
        (EmptyReduction { op, shape: s() }, Kind::Shape),
        (NoTensors { op }, Kind::Argument),
        (Overlap { op, shape: s(), strides: vec![0, 0] }, Kind::Argument),
        (NegativePower { op, exponent: -1 }, Kind::Argument),
        (DivisionByZero { op }, Kind::Argument),
        (Equation { op, equation: String::new(), problem: String::new() }, Kind::Argument),
        (TooLarge { op, shape: s() }, Kind::Memory),
        (Parameter { op, name: "p", value: "2".into(), expected: "less" }, Kind::Argument),
        (NamedRank { op, names: "n".into(), shape: s() }, Kind::Shape),
        (
            NamedSize {
                op,
                name: "n",
                axis: 1,
                shape: s(),
                expected: 2,
                seen_in: s(),
                seen_at: std::panic::Location::caller(),
            },
            Kind::Shape,
        ),
        (BroadcastRefused { op, a: s(), b: s(), origins: [None; 2] }, Kind::Shape),
    ];
    for (facts, kind) in all {
        let e = Error::from(facts);
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.to_string().starts_with("before: "), "{e}");
        assert!(e.named("after").to_string().starts_with("after: "));
    }
    assert_eq!(Error::from(NotASingleElement { shape: s() }).named("after").kind(), Kind::Shape);
}

/// What is refused says what to do.
#[test]
fn texts_have_a_cure() {
    let (x, i) = (tensor![[1.0, 2.0]], tensor![[1, 2]; i64]);
    let t = |shape: [usize; 2]| Tensor::zeros(shape);
    let says = |r: Result<Tensor>, text: &str| {
        let e = r.unwrap_err().with_location(None).to_string();
        assert_eq!(e, text);
    };
    says(i.mean(..), "mean: not defined for i64: use to(DType::F32)");
    says(Tensor::try_rand_with(2, DType::I64), "rand: not defined for i64: give DType::F32");
    says(
        Tensor::cat(&[&t([3, 3]), &t([2, 3]), &t([1, 2])], 0),
        "cat: tensor 2 has shape [1, 2], tensor 0 has [3, 3]: they must agree on every axis but 0",
    );
    says(
        Tensor::cat(&[&tensor![], &t([1, 3]), &t([1, 2])], 0),
        "cat: tensor 2 has shape [1, 2], tensor 1 has [1, 3]: they must agree on every axis but 0",
    );
    says(
        Tensor::stack(&[&t([3, 3]), &t([2, 3])], 0),
        "stack: tensor 1 has shape [2, 3], tensor 0 has [3, 3]: all must have one shape",
    );
    says(
        t([2, 3]).gather(1, &tensor![0, 1; i64]),
        "gather: the index must have shape [2, 1], found [2]: unsqueeze adds the axis that it goes along",
    );
    says(
        t([2, 3]).gather(0, &tensor![0, 1, 0, 1; i64]),
        "gather: the index must have shape [2, 3], found [4]: it has as many axes as the tensor, none longer but the one it goes along; unsqueeze, narrow and expand make it so",
    );
    says(
        Tensor::try_randint(0, 8),
        "randint: range = 0..0 is not valid: expected a range that is not empty, as the first argument: randint(0..8, shape)",
    );
    says(x.gather(0, &x), "gather: expected an index of dtype i64, found f32: use to(DType::I64)");
    says(
        x.matmul(&x),
        "matmul: shapes cannot be multiplied ([1, 2] x [1, 2]): the last axis of the first has size 2, the axis of the second that it meets 1; transpose(-2, -1) of the second would fit",
    );
    says(
        x.matmul(x.t().to(DType::F64)),
        "matmul: the left is f32, the right f64: they must have one dtype; convert the left with \
         to(DType::F64), or the right with to(DType::F32)",
    );
    says(
        i.add_with(&i, 0.5),
        "add_with: alpha 0.5 must not be f32 for tensors of dtype i64: convert them with to(DType::F32)",
    );
}
