//! There is no other door, and the short way through it leads where the long one does.

use std::fs;
use std::path::Path;

use super::*;
use crate::kernels::{FloatKernel, FloatOps, Formula, Real};
use crate::tensor;

/// The sources in a folder, by their paths from `src`.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Elements are written through `Storage`. Who asks for one, or for its elements to write, is this module, or below it:
/// the buffers themselves and the kernels. `create/values.rs` stores what a caller brings.
#[test]
fn nobody_else_writes_to_a_storage() {
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    assert!(all.len() > 100 && all.iter().any(|(name, _)| name == "task/mod.rs"));
    let below = ["task/", "buffer/", "kernels/"];
    for (name, text) in all.iter().filter(|(name, _)| !below.iter().any(|b| name.starts_with(b))) {
        let own = text.split("#[cfg(test)]").next().unwrap();
        let writes = [".block_mut()", "Storage::stale", "Storage::scratch", "Storage::zeros", "Room::new"];
        let allowed: &[&str] = match name.as_str() {
            // The definitions that this module uses.
            "tensor.rs" => &[".block_mut()"],
            "create/mod.rs" => &["Storage::stale"],
            // Values that a caller brings.
            "create/values.rs" => &[".block_mut()", "Storage::scratch"],
            _ => &[],
        };
        for w in writes.iter().filter(|w| !allowed.contains(w)) {
            assert!(
                !own.contains(w),
                "{name} has {w}: what computes elements is a task, see Note [One door]"
            );
        }
    }
}

#[derive(Clone, Copy)]
struct Affine;

impl Formula<2> for Affine {
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        a * 1.5 + b
    }
}

#[test]
fn the_short_way_is_the_long_one() {
    let number = |n: usize, k: f64| Tensor::arange_with(0..(n as i64), 1, DType::F64).mul(k).unwrap().sin();
    for (n, dtype) in [0, 1, 7, 1500].into_iter().flat_map(|n| [DType::F32, DType::F64].map(|d| (n, d))) {
        let [a, b, prior] = [0.3, 0.7, 1.1].map(|k| number(n, k).to(dtype));
        let (reads, shape, kernel) =
            ([Read::Tensor(&a, dtype), Read::Tensor(&b, dtype)], a.shape(), FloatKernel(Affine));
        let kinds = [Does::Blocks(&kernel), Does::Same];
        for (reads, does) in [(&reads[..], &kinds[0]), (&reads[..1], &kinds[1])] {
            for prior in [None, Some(prior.clone())] {
                let does = || match does {
                    Does::Blocks(kernel) => Does::Blocks(*kernel),
                    _ => Does::Same,
                };
                let (mut one, mut other) = (prior.clone(), prior.clone());
                let to = &mut [To::Sum { shape, dtype, prior: &mut one }];
                let short = make(Task { op: "t", reads, space: Space::Common, does: does(), to }).unwrap();
                let to = &mut [To::Sum { shape, dtype, prior: &mut other }];
                let long =
                    make_at_length(Task { op: "t", reads, space: Space::Common, does: does(), to }).unwrap();
                assert_eq!(short, long, "{n} {dtype}");
            }
        }
        let (to, other) = (&mut [To::New(dtype)], &mut [To::New(dtype)]);
        let (reads, space) = (&reads[..], Space::Asked(Lists::Idiom));
        let short = make(Task { op: "t", reads, space, does: Does::Blocks(&kernel), to }).unwrap();
        let long =
            make_at_length(Task { op: "t", reads, space, does: Does::Blocks(&kernel), to: other }).unwrap();
        assert_eq!(short, long);
    }
}

#[test]
fn numbers_and_places_by_the_short_way_are_those_of_the_long_one() {
    let kernel = FloatKernel(Affine);
    for n in [1, 7, 1024, 5000, 40_000] {
        let a = Tensor::arange_with(0..n, 1, DType::F32);
        // The same elements in another order of memory, where there is no short way.
        let other = a.flip(0).unwrap().contiguous().flip(0).unwrap();
        let results = [&a, &other].map(|a| {
            let reads = [Read::Tensor(a, DType::F32), Read::Number(Scalar::F64(0.3), DType::F32)];
            let new = map("t", &kernel, &reads, a.shape(), DType::F32).unwrap();
            let (mut place, shape) = (Tensor::ones(a.shape()), a.shape().clone());
            let (space, does) = (Space::Of(&shape), Does::Blocks(&kernel));
            change(Task { op: "t", reads: &reads[..1], space, does, to: &mut [To::Change(&mut place)] })
                .unwrap();
            // A tensor without axes is a number, and so is what is expanded from it, and what is written in place where it stands.
            let (scalar, row) = (Tensor::scalar(0.3f32), tensor![0.1, 0.3, 0.2]);
            let expanded = [scalar.expand(a.shape()), row.narrow(0, 1, 1).unwrap().expand(a.shape())];
            for number in [&scalar].into_iter().chain(&expanded.map(Result::unwrap)) {
                let reads = [Read::Tensor(a, DType::F32), Read::Tensor(number, DType::F32)];
                assert_eq!(map("t", &kernel, &reads, a.shape(), DType::F32).unwrap(), new);
                for mut prior in [None, Some(a.clone())] {
                    let sum = prior.as_ref().map_or_else(|| new.clone(), |prior| prior.add(&new).unwrap());
                    let to = &mut [To::Sum { shape: &shape, dtype: DType::F32, prior: &mut prior }];
                    let (space, does) = (Space::Common, Does::Blocks(&kernel));
                    assert_eq!(make(Task { op: "t", reads: &reads, space, does, to }).unwrap(), sum);
                }
                let (turned, of_two) = (number.sub(a).unwrap(), a.sub(number).unwrap());
                let chosen = a.gt(number).unwrap().where_cond(number, a).unwrap();
                assert!(turned.is_contiguous() || !a.is_contiguous());
                let mut own = a.clone();
                own.sub_(number).unwrap();
                let number = &number.expand(a.shape()).unwrap().contiguous();
                assert_eq!((turned, &of_two), (number.sub(a).unwrap(), &a.sub(number).unwrap()));
                assert_eq!(chosen, a.gt(number).unwrap().where_cond(number, a).unwrap());
                assert_eq!(own, of_two);
            }
            (new, place)
        });
        assert_eq!(results[0], results[1], "{n}");
        // Where nothing moves, one element is computed.
        let still = Tensor::scalar(0.3f32).expand(a.shape()).unwrap();
        assert!(still.add(&still).unwrap().strides() == [0] || n == 1);
        assert_eq!(
            results[0].0.select(0, n as isize - 1).unwrap(),
            Tensor::scalar((n - 1) as f32 * 1.5 + 0.3)
        );
    }
}

/// Rows and tensors of one element, with axes of size 1 in front or without, in their place or beside others, summed, of several types.
#[test]
fn rows_by_the_short_way_are_those_of_the_long_one() {
    let shapes: [&[usize]; 5] = [&[7, 5], &[200, 5], &[4, 3, 6], &[2, 1, 9], &[40, 30]];
    for (shape, dtype) in shapes.iter().flat_map(|s| [(*s, DType::F32), (*s, DType::F64), (*s, DType::I64)]) {
        let numbers = |own: &[usize], from: i64| {
            let n = own.iter().product::<usize>() as i64;
            Tensor::arange(0..n)
                .mul(7)
                .unwrap()
                .add(from)
                .unwrap()
                .remainder(11)
                .unwrap()
                .to(dtype)
                .reshape(own)
                .unwrap()
        };
        let x = numbers(shape, 1);
        for skip in 1..=shape.len() {
            for ones in 0..=skip {
                let own = [&vec![1; ones][..], &shape[skip..]].concat();
                let row = numbers(&own, 4);
                let laid = row.expand(shape).unwrap().contiguous();
                let results = |row: &Tensor| {
                    let mut own = x.clone();
                    own.sub_(row).unwrap();
                    let mut all = vec![own, x.add(row).unwrap(), row.sub(&x).unwrap(), x.lt(row).unwrap()];
                    all.push(x.lt(row).unwrap().where_cond(row, &x).unwrap());
                    if dtype != DType::I64 {
                        let reads = [
                            Read::Tensor(&x, dtype),
                            Read::Tensor(row, dtype),
                            Read::Number(Scalar::F64(0.5), dtype),
                        ];
                        all.push(map("t", &FloatKernel(AddProduct), &reads, x.shape(), dtype).unwrap());
                        for target in [&shape[1..], &[]].map(Shape::from) {
                            let to = &mut [To::Sum { shape: &target, dtype, prior: &mut None }];
                            let (space, does) = (Space::Common, Does::Blocks(&FloatKernel(AddProduct)));
                            all.push(make(Task { op: "t", reads: &reads, space, does, to }).unwrap());
                        }
                    }
                    all
                };
                assert_eq!(results(&row), results(&laid), "{shape:?} {own:?} {dtype}");
            }
        }
    }
}

#[derive(Clone, Copy)]
struct AddProduct;
impl Formula<3> for AddProduct {
    #[inline(always)]
    fn eval<R: Real>(&self, [x, row, number]: [R; 3]) -> R
    where
        f64: FloatOps<R>,
    {
        x * row + number
    }
}

#[test]
fn a_sum_in_another_type_is_computed_in_its_own() {
    let (g, shape) = (tensor![[1.0, 2.0], [3.0, 4.0]; f64], Shape::from([2]));
    for (prior, want) in [(None, tensor![4.0, 6.0]), (Some(tensor![0.5, 0.25]), tensor![4.5, 6.25])] {
        let mut prior = prior;
        let to = &mut [To::Sum { shape: &shape, dtype: DType::F32, prior: &mut prior }];
        let reads = &[Read::Tensor(&g, DType::F64)];
        let sum = make(Task { op: "t", reads, space: Space::Common, does: Does::Same, to }).unwrap();
        assert_eq!((sum.dtype(), sum), (DType::F32, want));
    }
}

#[test]
fn what_somebody_else_holds_is_left_behind() {
    let mut t = tensor![1.0, 2.0];
    let (held, shape) = (t.clone(), t.shape().clone());
    let (space, does) = (Space::Of(&shape), Does::Fill(Scalar::F64(7.0)));
    change(Task { op: "t", reads: &[], space, does, to: &mut [To::Over(&mut t)] }).unwrap();
    assert_eq!((&t, &held), (&tensor![7.0, 7.0], &tensor![1.0, 2.0]));
    let held = t.clone();
    let kernel = FloatKernel(Affine);
    let (reads, does) = (&[Read::Number(Scalar::I64(1), DType::F32)], Does::Blocks(&kernel));
    change(Task { op: "t", reads, space, does, to: &mut [To::Change(&mut t)] }).unwrap();
    assert_eq!(held, tensor![7.0, 7.0]);
    assert_eq!(t, tensor![11.5, 11.5]);
}

#[test]
fn a_rule_that_refuses_leaves_everything_as_it_was() {
    struct Refusal;
    impl WholeRule for Refusal {
        fn run(&self, op: &'static str, _: &[&Tensor], _: BlockMut<'_>) -> Result<()> {
            crate::error::refuse(crate::TensorFacts::DivisionByZero { op })
        }
    }
    let mut t = tensor![1.0, 2.0];
    let shape = t.shape().clone();
    let (space, to) = (Space::Of(&shape), &mut [To::Change(&mut t)]);
    assert!(change(Task { op: "t", reads: &[], space, does: Does::Whole(&Refusal), to }).is_err());
    assert_eq!(t, tensor![1.0, 2.0]);
    assert!(whole("t", &Refusal, &[], &shape, DType::F32).is_err());
}
