//! What a convolution decides before it computes: all sizes, and what does not fit.

use crate::create::checked_len;
use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::kernels::conv::ConvAxis;
use crate::shape::{Pair, Shape};
use crate::tensor::Tensor;

use super::options::{Conv, Padding};

/// A convolution of given sizes: what its value, and the gradients of its input and its weight, are computed by, each of
/// which is a derivative of the others. A transposed convolution is that of the input.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    pub(super) op: &'static str,
    pub(super) items: usize,
    pub(super) groups: usize,
    /// of the input and of the output, in each group
    pub(super) channels: usize,
    pub(super) rows: usize,
    pub(super) axes: [ConvAxis; 2],
    pub(super) input: Shape,
    pub(super) weight: Shape,
    pub(super) output: Shape,
}

/// Sizes beyond this are refused, so that sums and products of a few of them are sizes, too.
const LARGEST: u128 = 1 << 60;

#[doc(hidden)]
impl Convolution {
    /// Of an input `[n, in, ..]` or `[in, ..]` by a weight `[out, in / groups, ..]`.
    pub fn new(op: &'static str, x: &Tensor, w: &Tensor, axes: usize, conv: &Conv) -> Result<Convolution> {
        let sizes = Sizes::of(op, [x, w], axes, conv)?;
        if conv.output_padding != Pair::from(0) {
            let value = format!("{:?}", conv.output_padding.get());
            let expected = "0: only a transposed convolution has it";
            return refuse(TensorFacts::Parameter { op, name: "output_padding", value, expected });
        }
        let (found, taken) = (sizes.channels, sizes.weight[1]);
        sizes.expect_divided(found, "channels", conv.groups)?;
        sizes.expect_divided(sizes.weight[0], "channels of the output", conv.groups)?;
        if taken.checked_mul(conv.groups) != Some(found) {
            return sizes.refuse_channels(taken.saturating_mul(conv.groups), 1, found / conv.groups);
        }
        let each = |d: usize| sizes.axis(d, conv)?.forward(&sizes);
        let axes = sizes.axes(each)?;
        sizes.plan([x, w], conv.groups, [taken, sizes.weight[0] / conv.groups], axes, false)
    }

    /// Of the transposed convolution of an input `[n, in, ..]` or `[in, ..]` by a weight `[in, out / groups, ..]`.
    pub fn transposed(
        op: &'static str,
        x: &Tensor,
        w: &Tensor,
        axes: usize,
        conv: &Conv,
    ) -> Result<Convolution> {
        let sizes = Sizes::of(op, [x, w], axes, conv)?;
        let (found, taken) = (sizes.channels, sizes.weight[0]);
        if found != taken {
            return sizes.refuse_channels(taken, 0, found);
        }
        sizes.expect_divided(found, "channels", conv.groups)?;
        if sizes.weight[1] == 0 {
            return sizes.refuse_window(format!("meets a weight {} of no channels in its axis 1", w.shape()));
        }
        let each = |d: usize| sizes.axis(d, conv)?.backward(&sizes, conv.output_padding.get()[d]);
        let axes = sizes.axes(each)?;
        sizes.plan([x, w], conv.groups, [sizes.weight[1], taken / conv.groups], axes, true)
    }

    /// Refuses an operand of another shape or type than was planned.
    pub(super) fn expect(
        &self,
        operand: &'static str,
        t: &Tensor,
        shape: &Shape,
        dtype: DType,
    ) -> Result<()> {
        let op = self.op;
        if t.shape() != shape {
            let (expected, found) = (shape.clone(), t.shape().clone());
            return refuse(TensorFacts::ShapeMismatch { op, operand, expected, found });
        }
        if t.dtype() != dtype {
            let (a, b) = (("input", dtype), (operand, t.dtype()));
            return refuse(TensorFacts::MixedDTypes { op, a, b });
        }
        Ok(())
    }

    /// The axes of the output that a bias is summed over.
    pub fn bias_axes(&self) -> Vec<isize> {
        let channel = self.channel_axis();
        (0..self.output.rank()).filter(|&d| d != channel).map(|d| d as isize).collect()
    }

    /// The shapes of input, weight and output.
    pub fn shapes(&self) -> [&Shape; 3] {
        [&self.input, &self.weight, &self.output]
    }

    /// In how many groups channels are apart from each other.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The axis of input and output where their channels are.
    pub fn channel_axis(&self) -> usize {
        self.output.rank() - self.axes_given() - 1
    }

    /// Of `count` times as many items, of which there is an axis then.
    #[must_use]
    pub fn of_items(mut self, count: usize) -> Convolution {
        let first = self.channel_axis();
        self.items = self.items.saturating_mul(count);
        for shape in [&mut self.input, &mut self.output] {
            *shape = [&[self.items], &shape.dims()[first..]].concat().into();
        }
        self
    }

    /// Of `count` times as many channels of the output in each group.
    #[must_use]
    pub fn of_rows(mut self, count: usize) -> Convolution {
        let axis = self.channel_axis();
        for size in [&mut self.rows, &mut self.weight[0], &mut self.output[axis]] {
            *size = size.saturating_mul(count);
        }
        self
    }

    /// Of `count` times as many channels of the input in each group.
    #[must_use]
    pub fn of_channels(mut self, count: usize) -> Convolution {
        let axis = self.channel_axis();
        for size in [&mut self.channels, &mut self.weight[1], &mut self.input[axis]] {
            *size = size.saturating_mul(count);
        }
        self
    }

    fn axes_given(&self) -> usize {
        self.weight.rank() - 2
    }

    /// Whether every output meets one element of each channel, in the same place.
    pub(super) fn is_plain(&self) -> bool {
        self.axes.iter().all(ConvAxis::is_trivial)
    }
}

/// The sizes that operands come with.
struct Sizes<'a> {
    op: &'static str,
    input: &'a Shape,
    weight: &'a Shape,
    dtype: DType,
    /// how many axes are convolved
    count: usize,
    items: usize,
    channels: usize,
}

/// One axis, before its output is known.
struct SpatialAxis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    padding: Option<usize>,
}

impl<'a> Sizes<'a> {
    fn of(op: &'static str, [x, w]: [&'a Tensor; 2], count: usize, conv: &Conv) -> Result<Sizes<'a>> {
        let ranks = ["2 (without a batch) or 3", "3 (without a batch) or 4"];
        if x.rank() != count + 1 && x.rank() != count + 2 {
            let (operand, expected) = ("input", ranks[count - 1]);
            return refuse(TensorFacts::Rank { op, operand, expected, found: x.rank() });
        }
        if w.rank() != count + 2 {
            let (operand, expected) = ("weight", ["3", "4"][count - 1]);
            return refuse(TensorFacts::Rank { op, operand, expected, found: w.rank() });
        }
        if x.dtype() != w.dtype() {
            let (a, b) = (("input", x.dtype()), ("weight", w.dtype()));
            return refuse(TensorFacts::MixedDTypes { op, a, b });
        }
        if x.dtype() == DType::Bool {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
        }
        if conv.groups == 0 {
            return refuse(positive(op, "groups", "0".into()));
        }
        if w.dims()[0] < conv.groups {
            let (weight, groups) = (w.shape(), conv.groups);
            let why = format!(
                "meets a weight {weight} with fewer channels in its axis 0 than {groups} groups: groups divide them"
            );
            return refuse(TensorFacts::Window { op, input: x.shape().clone(), why });
        }
        for (name, pair) in [("stride", conv.stride), ("dilation", conv.dilation)] {
            let [a, b] = pair.get();
            if a == 0 || b == 0 {
                return refuse(positive(op, name, format!("{:?}", pair.get())));
            }
        }
        if count == 1 {
            let padding = if let Padding::By(pair) = conv.padding { pair } else { 0.into() };
            let given = [
                ("stride", conv.stride),
                ("dilation", conv.dilation),
                ("padding", padding),
                ("output_padding", conv.output_padding),
            ];
            for (name, pair) in given {
                let [a, b] = pair.get();
                if a != b {
                    let (value, expected) = (format!("{:?}", pair.get()), "one number, as there is one axis");
                    return refuse(TensorFacts::Parameter { op, name, value, expected });
                }
            }
        }
        let batched = x.rank() == count + 2;
        let items = if batched { x.dims()[0] } else { 1 };
        let channels = x.dims()[batched as usize];
        Ok(Sizes { op, input: x.shape(), weight: w.shape(), dtype: x.dtype(), count, items, channels })
    }

    fn refuse_window<T>(&self, why: String) -> Result<T> {
        refuse(TensorFacts::Window { op: self.op, input: self.input.clone(), why })
    }

    fn expect_divided(&self, channels: usize, what: &str, groups: usize) -> Result<()> {
        if channels.is_multiple_of(groups) {
            return Ok(());
        }
        let weight = self.weight;
        self.refuse_window(format!(
            "meets a weight {weight}: groups must divide the {channels} {what}, and {groups} does not"
        ))
    }

    /// Refuses an input of other channels than the weight takes, which has so many of them in one of its axes.
    fn refuse_channels<T>(&self, taken: usize, axis: usize, fitting: usize) -> Result<T> {
        let rank = self.input.rank();
        let exchanged = self.weight[1 - axis] == fitting;
        let cure = match taken {
            1 if rank == self.count + 1 => "a batch of one channel is made by unsqueeze(1)".into(),
            _ if exchanged && axis == 0 => "transpose(0, 1) of the weight would fit".into(),
            _ if self.input.last() == Some(&taken) => {
                let place = self.count + 1;
                format!("channels stand before the positions, movedim(-1, -{place}) puts them there")
            }
            _ if exchanged => "transpose(0, 1) of the weight would fit".into(),
            _ => format!("axis {axis} of a weight for this input has size {fitting}"),
        };
        let channels = rank - self.count - 1;
        self.refuse_window(format!(
            "has {} channels, the size of its axis {channels}, and a weight {} takes {taken}: {cure}",
            self.channels, self.weight
        ))
    }

    /// The axes that are convolved, behind one of size 1 if there is one only.
    fn axes(&self, each: impl Fn(usize) -> Result<ConvAxis>) -> Result<[ConvAxis; 2]> {
        let one = ConvAxis { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0 };
        Ok(if self.count == 1 { [one, each(0)?] } else { [each(0)?, each(1)?] })
    }

    fn axis(&self, d: usize, conv: &Conv) -> Result<SpatialAxis> {
        let op = self.op;
        let input = self.input[self.input.rank() - self.count + d];
        let kernel = self.weight[2 + d];
        let (stride, dilation) = (conv.stride.get()[d], conv.dilation.get()[d]);
        let padding = match conv.padding {
            Padding::By(pair) => Some(pair.get()[d]),
            Padding::Valid => Some(0),
            Padding::Same => None,
        };
        if input == 0 {
            return self.refuse_window("has no elements on an axis that the kernel slides over".into());
        }
        if kernel == 0 {
            return self
                .refuse_window(format!("meets a kernel without elements: the weight is {}", self.weight));
        }
        for (name, value) in [("stride", stride), ("dilation", dilation), ("padding", padding.unwrap_or(0))] {
            if value as u128 > LARGEST {
                let (value, expected) = (value.to_string(), "a size that memory has");
                return refuse(TensorFacts::Parameter { op, name, value, expected });
            }
        }
        Ok(SpatialAxis { input, kernel, stride, dilation, padding })
    }

    fn plan(
        &self,
        [x, w]: [&Tensor; 2],
        groups: usize,
        [channels, rows]: [usize; 2],
        axes: [ConvAxis; 2],
        transposed: bool,
    ) -> Result<Convolution> {
        let mut other = x.shape().clone();
        let first = other.rank() - self.count;
        other[first - 1] = groups.saturating_mul(if transposed { channels } else { rows });
        for d in 0..self.count {
            let axis = &axes[2 - self.count + d];
            other[first + d] = if transposed { axis.input } else { axis.output };
        }
        checked_len(self.op, &other, self.dtype)?;
        let (input, output) =
            if transposed { (other, x.shape().clone()) } else { (x.shape().clone(), other) };
        let weight = w.shape().clone();
        Ok(Convolution {
            op: self.op,
            items: self.items,
            groups,
            channels,
            rows,
            axes,
            input,
            weight,
            output,
        })
    }
}

impl SpatialAxis {
    /// How far the kernel reaches: fits, as its factors were refused otherwise.
    fn reach(&self) -> u128 {
        self.dilation as u128 * (self.kernel as u128 - 1) + 1
    }

    fn forward(&self, sizes: &Sizes<'_>) -> Result<ConvAxis> {
        let op = sizes.op;
        let (reach, input) = (self.reach(), self.input as u128);
        let (before, all) = match self.padding {
            Some(n) => (n as u128, 2 * n as u128),
            None if self.stride == 1 => ((reach - 1) / 2, reach - 1),
            None => {
                let (value, expected) = ("Same".into(), "numbers, or a stride of 1");
                return refuse(TensorFacts::Parameter { op, name: "padding", value, expected });
            }
        };
        let padded = input + all;
        if reach > padded || padded > LARGEST {
            let why = format!(
                "has size {padded} on an axis with its padding, and the kernel reaches over {reach}: give more padding or a smaller kernel"
            );
            return sizes.refuse_window(why);
        }
        let output = (padded - reach) / self.stride as u128 + 1;
        Ok(self.with(self.input, output as usize, before as usize))
    }

    fn backward(&self, sizes: &Sizes<'_>, more: usize) -> Result<ConvAxis> {
        let op = sizes.op;
        let Some(padding) = self.padding else {
            let (value, expected) = ("Same".into(), "numbers: a transposed convolution has no other padding");
            return refuse(TensorFacts::Parameter { op, name: "padding", value, expected });
        };
        if more >= self.stride && more >= self.dilation {
            let (value, expected) = (more.to_string(), "less than the stride or the dilation");
            return refuse(TensorFacts::Parameter { op, name: "output_padding", value, expected });
        }
        let input = self.input as i128;
        let output = (input - 1) * self.stride as i128 + self.reach() as i128 + more as i128;
        let output = output - 2 * padding as i128;
        if output < 1 || output > LARGEST as i128 {
            let why = format!("makes an output of size {output} on an axis, which must be 1 at least");
            return sizes.refuse_window(why);
        }
        Ok(self.with(output as usize, self.input, padding))
    }

    fn with(&self, input: usize, output: usize, before: usize) -> ConvAxis {
        let SpatialAxis { kernel, stride, dilation, .. } = *self;
        // A kernel that stands in one place never moves.
        let stride = if output == 1 { stride.min(input.max(1)) } else { stride };
        ConvAxis { input, output, kernel, stride, dilation, before }
    }
}

fn positive(op: &'static str, name: &'static str, value: String) -> TensorFacts {
    TensorFacts::Parameter { op, name, value, expected: "at least 1" }
}
