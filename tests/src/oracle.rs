//! Plain index loops over `Vec<f64>`: what the library's results are held against. Nothing here knows how it iterates.

use foldback_tensor::{DType, Tensor};

/// The most axes that the loops here go over.
pub const MAX_RANK: usize = 6;

/// An index: one position per axis, the rest unused.
pub type Index = [usize; MAX_RANK];

/// Calls `f` with every index of a shape, the last axis fastest.
pub fn for_each_index(shape: &[usize], mut f: impl FnMut(&Index)) {
    if shape.contains(&0) {
        return;
    }
    let mut index = [0; MAX_RANK];
    loop {
        f(&index);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The number of elements of a shape.
pub fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Numbers in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain {
    /// the sizes
    pub shape: Vec<usize>,
    /// the numbers
    pub values: Vec<f64>,
}

impl Plain {
    /// The same number everywhere.
    pub fn full(shape: &[usize], value: f64) -> Plain {
        Plain { shape: shape.to_vec(), values: vec![value; count(shape)] }
    }

    /// What a tensor holds.
    pub fn of(t: &Tensor) -> Plain {
        let values = match t.dtype() {
            DType::F64 => t.to_vec::<f64>().expect("doubles"),
            DType::F32 => t.to_vec::<f32>().expect("floats").into_iter().map(f64::from).collect(),
            DType::I64 => t.to_vec::<i64>().expect("integers").into_iter().map(|v| v as f64).collect(),
            DType::Bool => t.to_vec::<bool>().expect("truth values").into_iter().map(f64::from).collect(),
        };
        Plain { shape: t.dims().to_vec(), values }
    }

    /// Where the element lies that stands at `index` of a larger shape of `rank` axes which this one broadcasts to.
    pub fn place(&self, index: &Index, rank: usize) -> usize {
        let missing = rank - self.shape.len();
        let mut at = 0;
        for (axis, &size) in self.shape.iter().enumerate() {
            at = at * size + if size == 1 { 0 } else { index[missing + axis] };
        }
        at
    }
}

/// The shape that two shapes broadcast to; otherwise the last axis of it where they disagree.
pub fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>, usize> {
    let rank = a.len().max(b.len());
    let size = |s: &[usize], axis: usize| if axis + s.len() < rank { 1 } else { s[axis + s.len() - rank] };
    let mut common = vec![0; rank];
    for axis in (0..rank).rev() {
        common[axis] = match (size(a, axis), size(b, axis)) {
            (m, n) if m == n => m,
            (1, n) => n,
            (m, 1) => m,
            _ => return Err(axis),
        };
    }
    Ok(common)
}

/// Whether a tensor of shape `from` can stand where `to` is wanted.
pub fn expands(from: &[usize], to: &[usize]) -> bool {
    broadcast(from, to).is_ok_and(|common| common == to)
}

/// All shapes of up to `rank` axes with these sizes, by rank.
pub fn shapes(rank: usize, sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut from = 0;
    for _ in 0..rank {
        let to = all.len();
        for i in from..to {
            for &n in sizes {
                let mut longer = all[i].clone();
                longer.push(n);
                all.push(longer);
            }
        }
        from = to;
    }
    all
}

/// How a tensor lies in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layout {
    /// row-major, from the start
    Contiguous,
    /// row-major, from the third element on
    Offset,
    /// column-major; as `Offset` below two axes
    Transposed,
    /// every other element along each axis, with room around; a number lies somewhere inside
    Stepped,
    /// negative strides; as `Offset` without axes
    Flipped,
    /// stride 0 along the first axis longer than 1, so that values repeat; as `Offset` where there is none
    Expanded,
    /// stride 0 along every axis: one number; as `Offset` without an axis longer than 1
    Repeated,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 7] = [
        Layout::Contiguous,
        Layout::Offset,
        Layout::Transposed,
        Layout::Stepped,
        Layout::Flipped,
        Layout::Expanded,
        Layout::Repeated,
    ];

    /// Strides, offset and length of a buffer in which a shape lies like this.
    pub fn strided(self, shape: &[usize]) -> Strided {
        let mut strides = vec![0isize; shape.len()];
        let mut step = 1;
        let last_fastest = (0..shape.len()).rev();
        let order: Vec<usize> =
            if self == Layout::Transposed { last_fastest.rev().collect() } else { last_fastest.collect() };
        let spread = if self == Layout::Stepped { 2 } else { 1 };
        for axis in order {
            step *= spread;
            strides[axis] = if self == Layout::Flipped { -step } else { step };
            step *= (spread as usize * shape[axis].max(1)) as isize;
        }
        match self {
            Layout::Expanded => {
                if let Some(axis) = shape.iter().position(|&n| n > 1) {
                    strides[axis] = 0;
                }
            }
            Layout::Repeated => strides.fill(0),
            _ => {}
        }
        Strided::around(shape, strides, if self == Layout::Contiguous { 0 } else { 2 })
    }
}

/// A place in a buffer for every index of a shape.
#[derive(Clone, Debug)]
pub struct Strided {
    /// the sizes
    pub shape: Vec<usize>,
    /// how far the next element along each axis is
    pub strides: Vec<isize>,
    /// where the first one lies
    pub offset: usize,
    /// how long the buffer is
    pub len: usize,
}

impl Strided {
    /// The smallest buffer for these strides, with `margin` elements before and after.
    pub fn around(shape: &[usize], strides: Vec<isize>, margin: usize) -> Strided {
        let (mut low, mut high) = (0isize, 0isize);
        for (&n, &s) in shape.iter().zip(&strides) {
            let reach = n.saturating_sub(1) as isize * s;
            low += reach.min(0);
            high += reach.max(0);
        }
        let offset = low.unsigned_abs() + margin;
        let len = offset + high as usize + 1 + margin;
        Strided { shape: shape.to_vec(), strides, offset, len }
    }

    /// The place of an index.
    pub fn place(&self, index: &Index) -> usize {
        let moved: isize = self.strides.iter().zip(index).map(|(&s, &i)| s * i as isize).sum();
        (self.offset as isize + moved) as usize
    }

    /// A tensor that lies like this, with numbers from `next`; and these numbers, in row-major order.
    ///
    /// What lies between is `between`. Where strides are 0, the number written last stands for all.
    pub fn fill(&self, dtype: DType, between: f64, mut next: impl FnMut() -> f64) -> (Tensor, Plain) {
        let mut buffer = vec![between; self.len];
        for_each_index(&self.shape, |index| {
            let v = next();
            buffer[self.place(index)] = if dtype == DType::F32 { v as f32 as f64 } else { v };
        });
        let mut values = Vec::with_capacity(count(&self.shape));
        for_each_index(&self.shape, |index| values.push(buffer[self.place(index)]));
        let (shape, strides, offset) = (&self.shape[..], &self.strides[..], self.offset);
        let made = match dtype {
            DType::F64 => Tensor::from_strided(buffer, shape, strides, offset),
            DType::F32 => {
                Tensor::from_strided(buffer.iter().map(|&v| v as f32).collect(), shape, strides, offset)
            }
            DType::I64 => {
                Tensor::from_strided(buffer.iter().map(|&v| v as i64).collect(), shape, strides, offset)
            }
            DType::Bool => {
                Tensor::from_strided(buffer.iter().map(|&v| v != 0.0).collect(), shape, strides, offset)
            }
        };
        let tensor = made.expect("the buffer was made for these strides");
        (tensor, Plain { shape: self.shape.clone(), values })
    }
}

/// Random numbers without a library: splitmix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0 .. n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.bits() as u128 * n as u128) >> 64) as usize
    }

    /// A number of `low .. high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A sum with about 106 bits: an unevaluated pair of numbers, the second below half an ulp of the first
/// (T. J. Dekker, "A floating-point technique for extending the available precision", 1971).
#[derive(Clone, Copy, Debug, Default)]
pub struct Exact {
    high: f64,
    low: f64,
}

impl Exact {
    /// Adds a number.
    pub fn add(&mut self, v: f64) {
        let (sum, error) = two_sum(self.high, v);
        let low = self.low + error;
        self.high = sum + low;
        self.low = low - (self.high - sum);
    }

    /// Adds a product, with its rounding error.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.add(a.mul_add(b, -product));
    }

    /// The sum, rounded.
    pub fn value(self) -> f64 {
        self.high + self.low
    }

    /// How far a number is from the sum.
    pub fn distance(self, from: f64) -> f64 {
        ((from - self.high) - self.low).abs()
    }
}

/// A sum and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_aligns_at_the_right() {
        assert_eq!(broadcast(&[5, 1, 4, 1], &[3, 1, 1]), Ok(vec![5, 3, 4, 1]));
        assert_eq!(broadcast(&[5, 2, 4, 1], &[3, 1, 1]), Err(1));
        assert_eq!(broadcast(&[0], &[1]), Ok(vec![0]));
        assert_eq!(broadcast(&[0], &[2]), Err(0));
        assert_eq!(broadcast(&[], &[2, 0]), Ok(vec![2, 0]));
        assert!(expands(&[1, 3], &[2, 3]) && !expands(&[2, 3], &[1, 3]) && !expands(&[1, 3], &[3]));
    }

    #[test]
    fn there_are_as_many_shapes_as_choices() {
        let all = shapes(4, &[0, 1, 2, 3]);
        assert_eq!(all.len(), 1 + 4 + 16 + 64 + 256);
        assert_eq!((&all[0][..], &all[340][..]), (&[][..], &[3, 3, 3, 3][..]));
    }

    #[test]
    fn every_layout_holds_the_numbers_it_was_given() {
        for shape in shapes(3, &[0, 1, 2, 3]) {
            for layout in Layout::ALL {
                let strided = layout.strided(&shape);
                let mut next = 0.0;
                let (tensor, plain) = strided.fill(DType::F64, f64::NAN, || {
                    next += 1.0;
                    next
                });
                assert_eq!(Plain::of(&tensor), plain, "{layout:?} {shape:?}");
                if !matches!(layout, Layout::Expanded | Layout::Repeated) {
                    let counted: Vec<f64> = (1..=count(&shape)).map(|v| v as f64).collect();
                    assert_eq!(plain.values, counted, "{layout:?} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn exact_sums_keep_what_doubles_lose() {
        let mut sum = Exact::default();
        for v in [1e30, 1.0, -1e30, 1e-20] {
            sum.add(v);
        }
        assert_eq!(sum.value(), 1.0);
        let mut product = Exact::default();
        let third = 1.0 / 3.0;
        product.add_product(third, 3.0);
        assert_eq!(product.distance(1.0), 2f64.powi(-54));
    }
}
