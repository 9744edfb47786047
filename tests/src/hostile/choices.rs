//! Arguments from random bytes: mostly reasonable ones, so that calls get far, and some that no caller means.

use std::collections::VecDeque;
use std::fmt::Debug;

use foldback_tensor::{
    Amounts, Axes, DType, Over, Pad, Repeats, Scalar, Shape, Slice, SliceItem, Slices, Tensor,
};

/// A source of arguments. When its bytes are used up, it chooses the first of everything.
pub struct Choices<'a> {
    bytes: std::slice::Iter<'a, u8>,
    told: VecDeque<String>,
}

/// Tensors have at most so many elements; what two of them broadcast to is still small.
const MOST: usize = 64;

/// So many elements are refused, even of one byte.
const NO_MEMORY: usize = 1 << 42;

/// Whole numbers that are hostile everywhere.
const EXTREMES: [isize; 10] =
    [isize::MIN, isize::MAX, isize::MIN + 1, isize::MAX - 1, 1 << 40, -(1 << 40), 1 << 62, 64, -65, 1 << 31];

impl<'a> Choices<'a> {
    /// Reads choices from bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes: bytes.iter(), told: VecDeque::new() }
    }

    /// The arguments chosen so far.
    pub fn told(&self) -> String {
        self.told.iter().cloned().collect::<Vec<_>>().join(", ")
    }

    fn tell<T: Debug>(&mut self, value: T) -> T {
        self.told.push_back(format!("{value:?}"));
        value
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) * 256 + usize::from(self.byte())) % n
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::from(self.byte()) % list.len()]
    }

    fn hostile(&mut self) -> bool {
        self.byte() >= 215
    }

    /// A truth value.
    pub fn flag(&mut self) -> bool {
        let flag = self.byte() % 2 == 1;
        self.tell(flag)
    }

    fn whole(&mut self) -> isize {
        if self.hostile() { self.one_of(&EXTREMES) } else { self.one_of(&[0, 1, -1, 2, -2, 3, -3, 4]) }
    }

    /// A place on an axis, an axis, or a step.
    pub fn position(&mut self) -> isize {
        let at = self.whole();
        self.tell(at)
    }

    fn extent(&mut self) -> usize {
        if self.hostile() {
            self.one_of(&[
                usize::MAX,
                1 << 63,
                usize::MAX - 1,
                (1 << 63) + 1,
                0,
                1 << 13,
                1 << 21,
                1 << 42,
                1 << 27,
            ])
        } else {
            self.one_of(&[1, 2, 3, 0, 4, 5])
        }
    }

    /// A size or a count: a small one, or one that no memory holds.
    pub fn size(&mut self) -> usize {
        let n = self.extent();
        let fits = n <= 1 << 16 || n >= NO_MEMORY;
        self.tell(if fits { n } else { 3 })
    }

    fn length(&mut self) -> usize {
        if self.hostile() { self.one_of(&[0, 8, 17, 33, 40]) } else { self.one_of(&[0, 1, 2, 3, 4]) }
    }

    /// Sizes: small ones, or ones whose product no memory holds. What lies between would only fill the memory.
    pub fn shape(&mut self) -> Shape {
        self.shape_up_to(1 << 16)
    }

    /// The same with ones between, which the memory holds as long as nobody touches it.
    pub fn untouched_shape(&mut self) -> Shape {
        self.shape_up_to(1 << 27)
    }

    fn shape_up_to(&mut self, most: usize) -> Shape {
        let sizes: Vec<usize> = (0..self.length()).map(|_| self.extent()).collect();
        let shape = Shape::from(sizes);
        let fits = shape.numel() <= most || shape.numel() >= NO_MEMORY;
        let shape = if fits { shape } else { Shape::from([2, 3]) };
        self.tell(shape)
    }

    /// Sizes with -1 and other negative numbers among them.
    pub fn new_shape(&mut self) -> Vec<isize> {
        let sizes = (0..self.length()).map(|_| self.whole()).collect();
        self.tell(sizes)
    }

    /// Strides, or any list of numbers.
    pub fn positions(&mut self) -> Vec<isize> {
        let list = (0..self.length()).map(|_| self.whole()).collect();
        self.tell(list)
    }

    /// What a reduction folds: axes, kept or not.
    pub fn over(&mut self) -> Over {
        Over::from(self.axes()).with_keepdim(self.flag())
    }

    /// Axes, perhaps too many, twice the same, none, or all.
    pub fn axes(&mut self) -> Axes {
        let axes = match self.byte() % 4 {
            0 => Axes::from(..),
            1 => Axes::from(self.whole()),
            _ => Axes::from((0..self.length()).map(|_| self.whole()).collect::<Vec<isize>>()),
        };
        self.tell(axes)
    }

    /// Slices of several axes.
    pub fn slices(&mut self) -> Slices {
        let items: Vec<SliceItem> = (0..self.length()).map(|_| self.slice_item()).collect();
        self.tell(Slices::from(items))
    }

    fn slice_item(&mut self) -> SliceItem {
        let (a, b) = (self.whole(), self.whole());
        match self.byte() % 10 {
            8 => SliceItem::from(self.indices()),
            9 => SliceItem::from(self.tensor_of(DType::Bool)),
            0 => SliceItem::from(..),
            1 => SliceItem::from(a),
            2 => SliceItem::from(a..b),
            3 => SliceItem::from(a..=b),
            4 => SliceItem::from(..=b),
            5 => SliceItem::from(a as usize..),
            6 => SliceItem::from(Slice::new(a, b, self.whole())),
            _ => SliceItem::from(Slice::from(a..).step(self.whole())),
        }
    }

    /// An equation of labels, which may fit something.
    pub fn equation(&mut self) -> String {
        const PARTS: [&str; 16] =
            ["i", "j", "k", ",", "->", "...", "i", "j", ",", " ", "ii", "ij", "jk", ".", "1", "A"];
        let equation = if self.hostile() {
            (0..self.length() * 2).map(|_| self.one_of(&PARTS)).collect()
        } else {
            self.one_of(&[
                "ij,jk",
                "...,...->...",
                "i,j",
                "ii",
                "...i,...i",
                "ij",
                "",
                ",",
                "i...->...",
                "iij,jk,k",
            ])
            .to_owned()
        };
        self.tell(equation)
    }

    /// What `pad` puts around a tensor.
    pub fn pad(&mut self) -> Pad {
        match self.byte() % 4 {
            0 => Pad::Reflect,
            1 => Pad::Replicate,
            2 => Pad::Circular,
            _ => Pad::from(self.scalar()),
        }
    }

    /// Signed numbers, one or several.
    pub fn amounts(&mut self) -> Amounts {
        let list = (0..self.one_of(&[1, 2, 4, 0, 3])).map(|_| self.whole()).collect::<Vec<_>>();
        self.told.push_back(format!("amounts {list:?}"));
        Amounts::from(list)
    }

    /// How much to add to the ends of axes: little, or what no memory holds.
    pub fn widths(&mut self) -> Amounts {
        let list = (0..self.one_of(&[2, 4, 0, 6, 3])).map(|_| self.offset()).collect::<Vec<_>>();
        Amounts::from(list)
    }

    /// A distance that sizes grow by: a small one, or one that no memory holds.
    pub fn offset(&mut self) -> i64 {
        let n = self.whole() as i64;
        let fits = n.unsigned_abs() <= 100 || n.unsigned_abs() >= NO_MEMORY as u64;
        self.tell(if fits { n } else { 3 })
    }

    /// Counts of repetitions.
    pub fn repeats(&mut self) -> Repeats {
        match self.byte() % 2 {
            0 => Repeats::from(self.size()),
            _ => Repeats::from(self.indices().abs()),
        }
    }

    /// An element type.
    pub fn dtype(&mut self) -> DType {
        let dtype = self.one_of(&[DType::F64, DType::F32, DType::I64, DType::Bool]);
        self.tell(dtype)
    }

    fn real(&mut self) -> f64 {
        match self.hostile() {
            true => self.one_of(&[
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -0.0,
                f64::MAX,
                f64::MIN_POSITIVE,
                1e19,
            ]),
            false => self.one_of(&[0.0, 1.0, -1.0, 0.5, -2.5, 3.0]),
        }
    }

    /// A floating-point parameter.
    pub fn float(&mut self) -> f64 {
        let value = self.real();
        self.tell(value)
    }

    /// A number of any type.
    pub fn scalar(&mut self) -> Scalar {
        let scalar = match self.byte() % 4 {
            0 | 1 => Scalar::F64(self.real()),
            2 => Scalar::I64(self.whole() as i64),
            _ => Scalar::Bool(self.byte() % 2 == 1),
        };
        self.tell(scalar)
    }

    /// A whole number of 64 bits.
    pub fn integer(&mut self) -> i64 {
        self.position() as i64
    }

    /// A small tensor of any type in some layout.
    pub fn tensor(&mut self) -> Tensor {
        let dtype = self.one_of(&[DType::F64, DType::F64, DType::F32, DType::I64, DType::Bool]);
        self.tensor_of(dtype)
    }

    /// A small tensor of a type in some layout.
    pub fn tensor_of(&mut self, dtype: DType) -> Tensor {
        let mut sizes: Vec<usize> = (0..self.length()).map(|_| self.one_of(&[1, 2, 3, 0, 4])).collect();
        // Without its empty axes it is small, too: reductions may drop those.
        while sizes.iter().fold(1usize, |n, &size| n.saturating_mul(size.max(1))) > MOST {
            sizes.pop();
        }
        self.tensor_like(&sizes, dtype)
    }

    /// A tensor of a shape that is small and a type, in some layout.
    pub fn tensor_like(&mut self, sizes: &[usize], dtype: DType) -> Tensor {
        let numel = sizes.iter().product::<usize>();
        let values: Vec<f64> = (0..numel).map(|_| self.real()).collect();
        let t = Tensor::from_vec(values, sizes).expect("as many values").to(dtype);
        let t = match (self.byte() % 6, t.rank()) {
            (1, 2..) => t.transpose(0, -1),
            (2, 1..) => t.slice(Slice::from(1..)),
            (3, 1..) => t.flip(0),
            (4, 1..) => t.narrow(0, 0, 1.min(sizes[0])).and_then(|one| one.expand_as(&t)),
            (5, 1..) => t.slice(Slice::from(..).step(2)),
            _ => Ok(t),
        };
        let t = t.expect("views of small tensors");
        self.told.push_back(format!("{:?} {:?} strides {:?}", t.dtype(), t.dims(), t.strides()));
        t
    }

    /// A tensor of the shape of another, nearly always.
    pub fn same_shape(&mut self, t: &Tensor, dtype: DType) -> Tensor {
        if self.hostile() { self.tensor_of(dtype) } else { self.tensor_like(t.dims(), dtype) }
    }

    /// Indices, most of which exist somewhere.
    pub fn indices(&mut self) -> Tensor {
        let shape: Vec<usize> =
            (0..self.one_of(&[1, 1, 2, 0, 3])).map(|_| self.one_of(&[1, 2, 3, 0])).collect();
        let values = (0..shape.iter().product()).map(|_| self.whole() as i64).collect::<Vec<i64>>();
        self.told.push_back(format!("indices {values:?} of shape {shape:?}"));
        let dtype = if self.hostile() { DType::F64 } else { DType::I64 };
        Tensor::from_vec(values, shape).expect("as many values").to(dtype)
    }
}
