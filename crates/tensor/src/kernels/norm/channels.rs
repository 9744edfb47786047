//! The loops of normalisation over a batch: a channel has a piece of each example.

use super::{NormRows, Sums, add_line, statistics, write_line, write_slopes};
use crate::kernels::Scattered;
use crate::kernels::doors::door;
use crate::kernels::level::{Level, level};
use crate::kernels::softmax::{Repeated, RowFloat};
use crate::task::{RUN, Reducer};

/// Where the channels of a batch lie: `[examples, channels, positions]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    pub(crate) examples: usize,
    pub(crate) channels: usize,
    pub(crate) positions: usize,
}

impl Channels {
    /// Where the pieces of a channel begin.
    #[inline(always)]
    fn starts(self, channel: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.examples).map(move |example| (example * self.channels + channel) * self.positions)
    }

    /// The pieces of a channel.
    #[inline(always)]
    fn pieces<T>(self, channel: usize, all: &[T]) -> impl Iterator<Item = &[T]> + Clone {
        self.starts(channel).map(move |start| &all[start..][..self.positions])
    }
}

door! {
    /// A channel normalised, and its statistics. A channel has one weight and one bias.
    pub(crate) fn norm_channel[T: RowFloat][T](how: &NormRows<'_, T>, at: Channels, channel: usize, x: &[T], out: &Scattered<'_, T>) -> [T; 3];
    body norm_channel_body
}
#[inline(always)]
fn norm_channel_body<const FMA: bool, T: RowFloat>(
    how: &NormRows<'_, T>,
    at: Channels,
    channel: usize,
    x: &[T],
    out: &Scattered<'_, T>,
) -> [T; 3] {
    let found = statistics::<FMA, T>(how, at.pieces(channel, x));
    let weight = how.of_row(channel, how.weight).first().copied().unwrap_or(T::of(1.0));
    let bias = how.of_row(channel, how.bias).first().copied().unwrap_or(T::of(0.0));
    for (start, x) in at.starts(channel).zip(at.pieces(channel, x)) {
        // SAFETY: a channel belongs to one task, and its pieces are written one after another.
        let out = unsafe { out.part(start, at.positions) };
        write_line(x, [found[0], found[1]], Repeated(weight), Repeated(bias), out);
    }
    found
}

door! {
    /// The gradient of [`norm_channel`] for the elements, given that of the results, and those of the weight and the bias.
    pub(crate) fn norm_channel_backward[T: RowFloat][T](how: &NormRows<'_, T>, at: Channels, channel: usize, operands: [&[T]; 2], found: [T; 2], out: &Scattered<'_, T>) -> [T; 2];
    body norm_channel_backward_body
}
#[inline(always)]
fn norm_channel_backward_body<const FMA: bool, T: RowFloat>(
    how: &NormRows<'_, T>,
    at: Channels,
    channel: usize,
    [g, x]: [&[T]; 2],
    found: [T; 2],
    out: &Scattered<'_, T>,
) -> [T; 2] {
    let (scratch, one) = (&mut [[T::of(0.0); RUN]; 2], Repeated(T::of(1.0)));
    let mut both: Sums<T> = [T::Sum::START; 2];
    for (g, x) in at.pieces(channel, g).zip(at.pieces(channel, x)) {
        for (g, x) in g.chunks(RUN).zip(x.chunks(RUN)) {
            both = add_line(g, x, found, one, scratch, both);
        }
    }
    let [of_bias, of_weight] = both.map(T::Sum::finish);
    let weight = how.of_row(channel, how.weight).first().copied().unwrap_or(T::of(1.0));
    let share = weight / T::of(how.n as f64);
    let means = [of_bias * share, of_weight * share];
    for ((start, g), x) in at.starts(channel).zip(at.pieces(channel, g)).zip(at.pieces(channel, x)) {
        // SAFETY: a channel belongs to one task, and its pieces are written one after another.
        let out = unsafe { out.part(start, at.positions) };
        write_slopes(g, x, found, Repeated(weight), means, out);
    }
    [of_weight, of_bias]
}
