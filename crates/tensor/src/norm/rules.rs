//! Rows and channels, shared out among threads: what runs the loops of `kernels/norm`.

use smallvec::SmallVec;

use super::over::Normalisation;
use super::run::STATISTICS;
use crate::dtype::{BlockMut, DType, typed_mut};
use crate::error::Result;
use crate::kernels::Scattered;
use crate::kernels::norm::{
    Channels, NormRows, norm_channel, norm_channel_backward, norm_rows, norm_rows_backward,
};
use crate::kernels::softmax::RowFloat;
use crate::task::SeveralRule;
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// The elements of what is read, which has been laid out.
fn own<T: RowFloat>(t: &Tensor) -> &[T] {
    t.as_slice().expect("types and layouts have been checked")
}

/// Two results.
fn both<'a>(outs: SmallVec<[BlockMut<'a>; 2]>) -> [BlockMut<'a>; 2] {
    let mut outs = outs.into_iter();
    [(); 2].map(|()| outs.next().expect("there are two results"))
}

impl Normalisation {
    /// How the rows of a view are normalised.
    fn rows<'a, T: RowFloat>(&self, n: usize, weight: &'a [T], bias: &'a [T]) -> NormRows<'a, T> {
        let (lines, groups) = match *self.affine.dims() {
            [groups, each, 1] => (each, groups),
            [channels, 1] => (1, channels),
            _ => (n, 1),
        };
        NormRows { n, centred: self.centred, eps: self.eps, weight, bias, lines, groups }
    }
}

/// Normalises rows of so many elements, given the weight and the bias.
pub(super) struct Rows<'a>(pub(super) &'a Normalisation, pub(super) usize);

impl SeveralRule for Rows<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        fn run<T: RowFloat>(rule: &Rows<'_>, reads: &[&Tensor], [out, statistics]: [BlockMut<'_>; 2]) {
            let (x, n) = (own::<T>(reads[0]), rule.1);
            let statistics = typed_mut::<T>(statistics).as_chunks_mut::<STATISTICS>().0;
            let how = rule.0.rows(n, own(reads[1]), own(reads[2]));
            split_work(
                statistics.len(),
                (GRAIN / n).max(1),
                (typed_mut::<T>(out), statistics),
                &|(out, statistics), at| {
                    let ((a, b), (c, d)) = (out.split_at_mut(at * n), statistics.split_at_mut(at));
                    ((a, c), (b, d))
                },
                &|first, rows, (out, statistics)| {
                    norm_rows(&how, first, &x[first * n..][..rows * n], out, statistics);
                },
            );
        }
        match reads[0].dtype() {
            DType::F64 => run::<f64>(self, reads, both(outs)),
            _ => run::<f32>(self, reads, both(outs)),
        }
        Ok(())
    }
}

/// The gradients of [`Rows`], in pieces of so many rows.
pub(super) struct RowsBackward<'a> {
    pub(super) how: &'a Normalisation,
    pub(super) n: usize,
    pub(super) piece: usize,
}

impl SeveralRule for RowsBackward<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        fn run<T: RowFloat>(rule: &RowsBackward<'_>, reads: &[&Tensor], [out, sums]: [BlockMut<'_>; 2]) {
            let (n, piece) = (rule.n, rule.piece);
            let [g, x] = [own::<T>(reads[0]), own(reads[1])];
            let how = rule.how.rows(n, own(reads[2]), &[]);
            let statistics = own::<T>(reads[3]).as_chunks::<STATISTICS>().0;
            let (out, sums) = (typed_mut::<T>(out), typed_mut::<T>(sums));
            sums.fill(T::of(0.0));
            let (rows, pieces) = (statistics.len(), statistics.len().div_ceil(piece));
            let width = sums.len() / pieces;
            split_work(
                pieces,
                1,
                (out, sums),
                &|(out, sums), at| {
                    let cut = (at * piece * n).min(out.len());
                    let ((a, b), (c, d)) = (out.split_at_mut(cut), sums.split_at_mut(at * width));
                    ((a, c), (b, d))
                },
                &|first, count, (out, sums)| {
                    for k in 0..count {
                        let row = (first + k) * piece;
                        let rows = piece.min(rows - row);
                        let [g, x] = [g, x].map(|all| &all[row * n..][..rows * n]);
                        let out = &mut out[k * piece * n..][..rows * n];
                        let sums = &mut sums[k * width..][..width];
                        norm_rows_backward(&how, row, [g, x], &statistics[row..][..rows], out, sums);
                    }
                },
            );
        }
        match reads[0].dtype() {
            DType::F64 => run::<f64>(self, reads, both(outs)),
            _ => run::<f32>(self, reads, both(outs)),
        }
        Ok(())
    }
}

/// Normalises the channels of a batch, given the weight and the bias.
pub(super) struct InChannels<'a>(pub(super) &'a Normalisation, pub(super) Channels);

impl SeveralRule for InChannels<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        fn run<T: RowFloat>(rule: &InChannels<'_>, reads: &[&Tensor], [out, statistics]: [BlockMut<'_>; 2]) {
            let InChannels(how, at) = *rule;
            let (x, n) = (own::<T>(reads[0]), how.count());
            let how = how.rows(n, own(reads[1]), own(reads[2]));
            let out = Scattered::new(typed_mut::<T>(out));
            let statistics = typed_mut::<T>(statistics).as_chunks_mut::<STATISTICS>().0;
            split_work(
                at.channels,
                (GRAIN / n).max(1),
                statistics,
                &|all: &mut [[T; STATISTICS]], k| all.split_at_mut(k),
                &|first, _, statistics| {
                    for (channel, found) in (first..).zip(statistics) {
                        *found = norm_channel(&how, at, channel, x, &out);
                    }
                },
            );
        }
        match reads[0].dtype() {
            DType::F64 => run::<f64>(self, reads, both(outs)),
            _ => run::<f32>(self, reads, both(outs)),
        }
        Ok(())
    }
}

/// The gradients of [`InChannels`].
pub(super) struct InChannelsBackward<'a>(pub(super) &'a Normalisation, pub(super) Channels);

impl SeveralRule for InChannelsBackward<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        fn run<T: RowFloat>(
            rule: &InChannelsBackward<'_>,
            reads: &[&Tensor],
            [out, sums]: [BlockMut<'_>; 2],
        ) {
            let InChannelsBackward(how, at) = *rule;
            let ([g, x], n) = ([own::<T>(reads[0]), own(reads[1])], how.count());
            let how = how.rows(n, own(reads[2]), &[]);
            let statistics = own::<T>(reads[3]).as_chunks::<STATISTICS>().0;
            let out = Scattered::new(typed_mut::<T>(out));
            let sums = typed_mut::<T>(sums).split_at_mut(at.channels);
            split_work(
                at.channels,
                (GRAIN / n).max(1),
                sums,
                &|(of_weights, of_biases), k| {
                    let ((a, b), (c, d)) = (of_weights.split_at_mut(k), of_biases.split_at_mut(k));
                    ((a, c), (b, d))
                },
                &|first, _, (of_weights, of_biases)| {
                    for ((channel, w), b) in (first..).zip(of_weights).zip(of_biases) {
                        let found = [statistics[channel][0], statistics[channel][1]];
                        [*w, *b] = norm_channel_backward(&how, at, channel, [g, x], found, &out);
                    }
                },
            );
        }
        match reads[0].dtype() {
            DType::F64 => run::<f64>(self, reads, both(outs)),
            _ => run::<f32>(self, reads, both(outs)),
        }
        Ok(())
    }
}
