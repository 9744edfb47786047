//! Images, plane by plane: the largest elements of windows and their places, and weighted sums along both axes.
//!
//! Note [Alike]
//! The windows of most results are alike: as long as their neighbours', and as far apart. So the elements that are the first of
//! their windows lie at two steps, and so do the second ones: each are laid out for a block of windows, which are then
//! worked on side by side. The others, at the edges, are met one by one.

mod blend;
mod largest;

use std::ops::Range;

pub(crate) use blend::{Blend, WeightedSum, blend, blend_integers, spread};
pub(crate) use largest::{Windows, add_places, largest, take_places};

use crate::dtype::Element;
use crate::kernels::lay_out::lay_out;
use crate::threads::{GRAIN, split_work};

/// Runs `f` with the number and the piece of `out` of each plane.
fn each_plane<T: Element>(out: &mut [T], plane: usize, work: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    each_plane_of_two::<T, i64>((out, &mut []), [plane, 0], work, &|number, out, _| f(number, out));
}

/// What is run for each plane of two results.
type OfPlane<'a, A, B> = &'a (dyn Fn(usize, &mut [A], &mut [B]) + Sync);

/// The same of two results; the second one's planes may have no elements.
fn each_plane_of_two<A: Element, B: Element>(
    outs: (&mut [A], &mut [B]),
    planes: [usize; 2],
    work: usize,
    f: OfPlane<'_, A, B>,
) {
    if outs.0.is_empty() {
        return;
    }
    let grain = (GRAIN / work.max(1)).max(1);
    split_work(
        outs.0.len() / planes[0],
        grain,
        outs,
        &|(a, b): (&mut [A], &mut [B]), at| {
            let ((a, other_a), (b, other_b)) =
                (a.split_at_mut(at * planes[0]), b.split_at_mut(at * planes[1]));
            ((a, b), (other_a, other_b))
        },
        &|start, _, (a, b)| {
            for (i, a) in a.chunks_exact_mut(planes[0]).enumerate() {
                f(start + i, a, &mut b[i * planes[1]..][..planes[1]]);
            }
        },
    );
}

/// Results of a block of windows, at most, unless a line has more.
const BLOCK: usize = 1 << 11;

/// Along one axis, results whose windows are alike (Note [Alike]).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Alike {
    results: Range<usize>,
    /// where the first one's window begins, and from a window to the next
    from: usize,
    apart: usize,
}

impl Alike {
    /// The results from `start` on whose windows are like its; `from` says where one begins.
    fn new<W>(all: &[W], start: usize, from: impl Fn(&W) -> usize, same: impl Fn(&W, &W) -> bool) -> Alike {
        let first = all.get(start).map_or(0, &from);
        let apart = all.get(start + 1).map_or(0, |w| from(w).saturating_sub(first));
        let goes_on = |w: &&[W]| same(&w[0], &w[1]) && from(&w[1]) == from(&w[0]) + apart;
        let more = all.get(start..).map_or(0, |w| w.windows(2).take_while(goes_on).count());
        Alike { results: start..(start + 1 + more).min(all.len()), from: first, apart }
    }

    /// The results of a plane's row that are in no block.
    fn others([down, across]: &[Alike; 2], row: usize, wide: usize) -> impl Iterator<Item = usize> {
        let covered = if down.results.contains(&row) { across.results.clone() } else { 0..0 };
        (0..covered.start).chain(covered.end..wide)
    }
}

/// Results side by side, in some neighbouring rows.
struct PlaneBlock {
    rows: Range<usize>,
    cols: Range<usize>,
    /// the first element of the first window
    at: usize,
    /// from a window to the one below and to the one beside it
    steps: [usize; 2],
}

impl PlaneBlock {
    /// Blocks of a plane, in whose rows there are `width` elements, that cover what is alike along both axes.
    fn all([down, across]: &[Alike; 2], width: usize) -> impl Iterator<Item = PlaneBlock> {
        let (rows, cols) = (down.results.clone(), across.results.clone());
        let steps = [down.apart * width, across.apart];
        let first = down.from * width + across.from;
        let high = (BLOCK / cols.len().max(1)).max(1);
        rows.clone().step_by(high).map(move |row| PlaneBlock {
            rows: row..(row + high).min(rows.end),
            cols: cols.clone(),
            at: first + (row - rows.start) * steps[0],
            steps,
        })
    }

    fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }

    /// Lays out those elements of a plane that are so far from the first of their windows.
    fn lay_out<T: Element>(&self, x: &[T], offset: usize, out: &mut [T]) {
        let steps = self.steps.map(|step| step as isize);
        lay_out(x, (self.at + offset) as isize, steps, self.cols.len(), &mut out[..self.len()]);
    }
}
