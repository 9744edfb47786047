//! The strips of a product whose right operand is a window, and how their lines are found: where they lie, or laid out run by
//! run.

use super::sweep::Window;
use super::{ConvTile, Convolved};
use crate::kernels::doors::door;
use crate::kernels::level::{Level, level};
use crate::kernels::matmul::{Form, Lines, Places};

/// Laying a line out costs as much as its products with so many rows.
const LAYING: usize = 6;

/// The columns of a tile's results, strip by strip.
pub(super) struct Strips {
    form: Form,
    /// from the columns of an image to those of the next, and from those of a row of it to those of the next
    pub(super) image: usize,
    pub(super) pitch: usize,
    layout: StripLayout,
}

enum StripLayout {
    /// Windows row by row, with what lies between the rows of results: where each strip begins in the windows.
    Whole(Vec<usize>),
    /// Results alone: where a run begins in its strip and in the windows, and the first run of each strip and the end of the
    /// last.
    Runs(Vec<(usize, usize)>, Vec<usize>),
}

impl Strips {
    /// `apart` is from the windows of an image to those of the next; the product has so many rows.
    pub(super) fn new(form: Form, tile: &ConvTile, window: &Window<'_>, apart: usize, rows: usize) -> Strips {
        let ([lines, cols], pitch) = (tile.count, window.pitch());
        // Whole rows of windows need no laying out, which pays unless much of them is for nothing: 3 by 3 of 64 channels of 56
        // by 56 take 0.9 of the time (W18), those of W14 0.7.
        let each = ((lines - 1) * pitch + cols).div_ceil(form.span);
        let all = tile.items * each * form.span;
        if all * rows <= tile.places() * (rows + LAYING) {
            let from = |i: usize| (0..each).map(move |s| i * apart + s * form.span);
            let starts = (0..tile.items).flat_map(from).collect();
            return Strips { form, image: each * form.span, pitch, layout: StripLayout::Whole(starts) };
        }
        let total = tile.places();
        let (mut runs, mut starts) = (Vec::with_capacity(total / form.run + total / cols + 1), Vec::new());
        for first in (0..total).step_by(form.span) {
            starts.push(runs.len());
            let end = (first + form.span).min(total);
            let mut place = first;
            while place < end {
                let (line, col) = (place / cols, place % cols);
                let from = line / lines * apart + line % lines * pitch + col;
                let len = (cols - col).min(end - place);
                runs.extend((0..len).step_by(form.run).map(|i| (place - first + i, from + i)));
                place += len;
            }
        }
        starts.push(runs.len());
        Strips { form, image: lines * cols, pitch: cols, layout: StripLayout::Runs(runs, starts) }
    }

    pub(super) fn count(&self) -> usize {
        match &self.layout {
            StripLayout::Whole(starts) => starts.len(),
            StripLayout::Runs(_, starts) => starts.len() - 1,
        }
    }

    /// The lines of a strip, one for each of these places in the windows, laid out in `room` if need be.
    pub(super) fn lines<'a, T: Convolved>(
        &self,
        strip: usize,
        sources: &'a [T],
        places: Places<'a>,
        room: &'a mut [T],
    ) -> Lines<'a, T> {
        match &self.layout {
            StripLayout::Whole(starts) => Lines::Placed(&sources[starts[strip]..], places),
            StripLayout::Runs(runs, starts) => {
                lay_out(self.form, &runs[starts[strip]..starts[strip + 1]], sources, places, room);
                Lines::Beside(room)
            }
        }
    }
}

/// Lays a strip out: a line for each of `places`, from which its runs are counted. Runs are copied at full length, and what
/// one writes too much, the next one overwrites.
pub(super) fn lay_out<T: Convolved>(
    form: Form,
    runs: &[(usize, usize)],
    sources: &[T],
    places: Places<'_>,
    out: &mut [T],
) {
    match form.run {
        16 => lay_runs::<T, 16>(runs, sources, places.starts(), out, form.span),
        8 => lay_runs::<T, 8>(runs, sources, places.starts(), out, form.span),
        _ => unreachable!("a register holds eight or sixteen numbers"),
    }
}

door! {
    fn lay_runs[T: Convolved, const N: usize][T, N](runs: &[(usize, usize)], sources: &[T], places: &[usize], out: &mut [T], span: usize);
    body lay_runs_body
}
#[inline(always)]
fn lay_runs_body<const FMA: bool, T: Convolved, const N: usize>(
    runs: &[(usize, usize)],
    sources: &[T],
    places: &[usize],
    out: &mut [T],
    span: usize,
) {
    for (i, &place) in places.iter().enumerate() {
        let (from, line) = (&sources[place..], &mut out[i * span..]);
        for &(to, at) in runs {
            let run: &[T; N] = from[at..].first_chunk().expect("windows end with room for a run");
            *line[to..].first_chunk_mut().expect("a strip ends with room for a run") = *run;
        }
    }
}
