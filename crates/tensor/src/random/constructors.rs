//! The constructors of random tensors, on `Tensor` and on `Generator`.

use super::{DEFAULT, Generator, make};
use crate::create::Interval;
use crate::dtype::DType;
use crate::error::{Here, Result, or_panic};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Defines the four forms of a random constructor: on `Tensor` and on `Generator`, panicking and not.
macro_rules! constructors {
    ($(
        $(#[$doc:meta])*
        $name:ident, $try_name:ident($($arg:ident: $ty:ty),*) = $make:ident($($given:expr),*);
        errors $errors:literal;
        example $example:literal, $check:literal;
    )*) => {
        /// # Random numbers
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Uses the generator of this thread, see [`manual_seed`](crate::manual_seed).
            ///
            /// # Panics
            #[doc = concat!("If an argument is refused; [`Tensor::", stringify!($try_name), "`] returns an error instead.")]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Tensor};\nlet t = Tensor::", $example, ";\n", $check, "\n```"
            )]
            #[track_caller]
            pub fn $name($($arg: $ty),*) -> Tensor {
                or_panic(Tensor::$try_name($($arg),*))
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] that returns an error instead of panicking.")]
            ///
            /// # Errors
            #[doc = $errors]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Tensor};\nlet t = Tensor::try_", $example, "?;\n", $check,
                "\n# Ok::<(), foldback_tensor::Error>(())\n```"
            )]
            #[track_caller]
            pub fn $try_name($($arg: $ty),*) -> Result<Tensor> {
                make::$make(&mut |n| DEFAULT.with_borrow_mut(|g| g.reserve(n)), $($given),*).here()
            }
        )*}

        /// # Tensors
        impl Generator {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = concat!("If an argument is refused; [`Generator::", stringify!($try_name), "`] returns an error instead.")]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Generator};\nlet t = Generator::new(7).", $example, ";\n", $check, "\n```"
            )]
            #[track_caller]
            pub fn $name(&mut self, $($arg: $ty),*) -> Tensor {
                or_panic(self.$try_name($($arg),*))
            }

            #[doc = concat!("[`Generator::", stringify!($name), "`] that returns an error instead of panicking.")]
            ///
            /// # Errors
            #[doc = $errors]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Generator};\nlet t = Generator::new(7).try_", $example, "?;\n", $check,
                "\n# Ok::<(), foldback_tensor::Error>(())\n```"
            )]
            #[track_caller]
            pub fn $try_name(&mut self, $($arg: $ty),*) -> Result<Tensor> {
                make::$make(&mut |n| self.reserve(n), $($given),*).here()
            }
        )*}
    };
}

constructors! {
    /// `f32` numbers spread evenly over `[0, 1)`; 1 itself never comes.
    ///
    /// `F32` has 24 random bits, `F64` has 53.
    rand, try_rand(shape: impl Into<Shape>) = rand(shape, DType::F32);
    errors "`TooLarge`.";
    example "rand([2, 3])", "assert!(t.to_vec::<f32>().unwrap().iter().all(|v| (0.0..1.0).contains(v)));";

    /// [`Self::rand`] of a given element type.
    rand_with, try_rand_with(shape: impl Into<Shape>, dtype: DType) = rand(shape, dtype);
    errors "`DTypeUnsupported` unless the type is `F32` or `F64`, `TooLarge`.";
    example "rand_with([2, 3], DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// Normal `f32` numbers of mean 0 and standard deviation 1.
    ///
    /// Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
    randn, try_randn(shape: impl Into<Shape>) = randn(shape, DType::F32);
    errors "`TooLarge`.";
    example "randn([2, 3])", "assert_eq!(t.dims(), [2, 3]);";

    /// [`Self::randn`] of a given element type.
    randn_with, try_randn_with(shape: impl Into<Shape>, dtype: DType) = randn(shape, dtype);
    errors "`DTypeUnsupported` unless the type is `F32` or `F64`, `TooLarge`.";
    example "randn_with([2, 3], DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// `f32` numbers spread evenly over `[low, high)`; `high` itself never comes.
    uniform, try_uniform(shape: impl Into<Shape>, low: f64, high: f64) = uniform(shape, low, high, DType::F32);
    errors "`Parameter` unless `low < high` and both and their distance are finite in the type, `TooLarge`.";
    example "uniform([9], -1.0, 1.0)", "assert!(t.to_vec::<f32>().unwrap().iter().all(|v| (-1.0..1.0).contains(v)));";

    /// [`Self::uniform`] of a given element type.
    uniform_with, try_uniform_with(shape: impl Into<Shape>, low: f64, high: f64, dtype: DType) = uniform(shape, low, high, dtype);
    errors "`Parameter` unless `low < high` and both and their distance are finite in the type, `DTypeUnsupported` unless it is `F32` or `F64`, `TooLarge`.";
    example "uniform_with([9], -1.0, 1.0, DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// Normal `f32` numbers of the given mean and standard deviation.
    ///
    /// Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
    normal, try_normal(shape: impl Into<Shape>, mean: f64, std: f64) = normal(shape, mean, std, DType::F32);
    errors "`Parameter` if `std` is negative or NaN, `TooLarge`.";
    example "normal([9], 5.0, 0.0)", "assert!(t.to_vec::<f32>().unwrap().iter().all(|v| *v == 5.0));";

    /// [`Self::normal`] of a given element type.
    normal_with, try_normal_with(shape: impl Into<Shape>, mean: f64, std: f64, dtype: DType) = normal(shape, mean, std, dtype);
    errors "`Parameter` if `std` is negative or NaN, `DTypeUnsupported` unless the type is `F32` or `F64`, `TooLarge`.";
    example "normal_with([9], 5.0, 0.0, DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// One with probability `p`, else zero: `f32`, or any other element type.
    bernoulli, try_bernoulli(shape: impl Into<Shape>, p: f64) = bernoulli(shape, p, DType::F32);
    errors "`Parameter` unless `p` lies in `0..=1`, `TooLarge`.";
    example "bernoulli([3], 1.0)", "assert_eq!(t.to_vec::<f32>().unwrap(), [1.0; 3]);";

    /// [`Self::bernoulli`] of a given element type.
    bernoulli_with, try_bernoulli_with(shape: impl Into<Shape>, p: f64, dtype: DType) = bernoulli(shape, p, dtype);
    errors "`Parameter` unless `p` lies in `0..=1`, `TooLarge`.";
    example "bernoulli_with([3], 1.0, DType::Bool)", "assert_eq!(t.dtype(), DType::Bool);";

    /// Integers spread evenly over a range of `i32`, `i64` or `usize`, in `I64`; every one is exactly as likely as any other. A number is the
    /// end of a range from 0.
    ///
    /// Source: Lemire, "Fast random integer generation in an interval" (2019): a product's high half, and another try
    /// in the rare case that the low half would favour some.
    randint, try_randint(range: impl Into<Interval>, shape: impl Into<Shape>) = randint(range, shape);
    errors "`Parameter` if the range is empty or one of floats, `TooLarge`.";
    example "randint(0..10, [5])", "assert!(t.to_vec::<i64>().unwrap().iter().all(|v| (0..10).contains(v)));\n# let _ = DType::F32;";

    /// The numbers `0 .. n` in random order, in `I64`; every order is as likely as any other.
    ///
    /// Source: Durstenfeld's form of the Fisher-Yates shuffle (1964).
    randperm, try_randperm(n: usize) = randperm(n);
    errors "`TooLarge`.";
    example "randperm(4)", "let mut v = t.to_vec::<i64>().unwrap();\nv.sort();\nassert_eq!(v, [0, 1, 2, 3]);\n# let _ = DType::F32;";
}
