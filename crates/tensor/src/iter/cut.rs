//! Cuts: a walk divided into parts, by shape alone, with the range of each target's accumulators that a part touches.

use smallvec::SmallVec;

use super::plan::Axis;
use crate::threads::GRAIN;

/// Parts that one walk is cut into, unless the accumulators of a part would be too many.
const MAX_PARTS: usize = 64;

/// Accumulators that a part holds for itself if more parts, of this many elements at least, can help it.
const ENOUGH_RESULTS: usize = 1024;
const SMALL_PART: usize = GRAIN / 4;

/// Elements walked per accumulator that parts hold beside each other: these then take a 64th of what is walked at most.
const MIN_DEPTH: usize = 128;

/// Neighbouring results that stay together where a narrower strip would waste the cache lines it touches.
const STRIP: usize = 1024;

/// Per axis of a walk, where a part starts and how far it goes.
pub(crate) type Ranges = SmallVec<[(usize, usize); 4]>;

/// One axis that is cut: into `count` chunks.
#[derive(Clone, Debug)]
struct Along {
    axis: usize,
    chunk: usize,
    count: usize,
}

/// How a walk is divided. Parts are numbered in the order of the axes cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    along: SmallVec<[Along; 4]>,
    pub(crate) parts: usize,
}

impl Cut {
    /// Cuts a walk whose axes hold the steps of the operands and then those of the targets, from `first` on.
    ///
    /// A target is either *owned* part by part, since each axis that is cut moves it, or every part has accumulators
    /// of its own, which are merged behind them; these must be few.
    pub(crate) fn new(axes: &[Axis], first: usize) -> Cut {
        let total: usize = axes.iter().map(|a| a.size).product();
        let many = total.div_ceil(GRAIN);
        let targets = || first..axes.first().map_or(first, |a| a.steps.len());
        let mut want = many.min(MAX_PARTS);
        let mut cut = Cut::along(axes, 0..axes.len(), want);
        while want > 1 {
            let apart = targets().filter(|&k| !cut.owns(axes, k));
            let held: usize = apart.map(|k| cut.parts * cut.most(axes, k)).sum();
            if held.saturating_mul(MIN_DEPTH) <= total {
                break;
            }
            want /= 2;
            cut = Cut::along(axes, 0..axes.len(), want);
        }
        // With a single target there is the choice of cutting along its own axes alone.
        if targets().len() != 1 || many <= 1 {
            return cut;
        }
        let kept = || (0..axes.len()).filter(|&i| axes[i].steps[first] != 0);
        let results: usize = kept().map(|i| axes[i].size).product();
        let want = many.min(MAX_PARTS).max((results / ENOUGH_RESULTS).min(total / SMALL_PART));
        if cut.owns(axes, first) && want <= MAX_PARTS {
            return cut;
        }
        let own = Cut::along(axes, kept(), want);
        if own.parts > cut.parts { own } else { cut }
    }

    /// About `want` parts, along the first of these axes.
    fn along(axes: &[Axis], order: impl Iterator<Item = usize>, want: usize) -> Cut {
        let mut cut = Cut { along: SmallVec::new(), parts: 1 };
        for axis in order {
            let size = axes[axis].size;
            let left = want.div_ceil(cut.parts);
            if left <= 1 {
                break;
            }
            let least = if axis + 1 == axes.len() { STRIP } else { 1 };
            let chunk = size.div_ceil(left).max(least).min(size);
            let count = size.div_ceil(chunk);
            cut.along.push(Along { axis, chunk, count });
            cut.parts *= count;
            if chunk > 1 {
                break;
            }
        }
        cut
    }

    /// The part with this number.
    pub(crate) fn part(&self, axes: &[Axis], number: usize) -> Ranges {
        let mut ranges: Ranges = axes.iter().map(|a| (0, a.size)).collect();
        let mut rest = number;
        for along in self.along.iter().rev() {
            let from = rest % along.count * along.chunk;
            ranges[along.axis] = (from, along.chunk.min(axes[along.axis].size - from));
            rest /= along.count;
        }
        ranges
    }

    /// Whether no two parts touch the same accumulator of the target with the steps `k`.
    pub(crate) fn owns(&self, axes: &[Axis], k: usize) -> bool {
        self.along.iter().all(|a| a.count == 1 || axes[a.axis].steps[k] != 0)
    }

    /// The first accumulator that a part touches, and how many there are.
    pub(crate) fn region(&self, axes: &[Axis], k: usize, number: usize) -> (usize, usize) {
        let ranges = self.part(axes, number);
        let steps = || axes.iter().zip(&ranges).map(|(a, r)| (a.steps[k] as usize, r));
        let start = steps().map(|(step, r)| r.0 * step).sum();
        (start, 1 + steps().map(|(step, r)| (r.1 - 1) * step).sum::<usize>())
    }

    /// The most that any part touches: the first one's chunks are whole.
    pub(crate) fn most(&self, axes: &[Axis], k: usize) -> usize {
        self.region(axes, k, 0).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(size: usize, operand: isize, target: isize) -> Axis {
        Axis { size, steps: crate::shape::Dims::from_slice(&[operand, target]), kept: target != 0 }
    }

    /// Parts must cover every element once; owned regions must be disjoint and in order.
    #[test]
    fn parts_cover_everything_once() {
        let spaces = [
            vec![axis(4096, 1024, 0), axis(1024, 1, 1)],
            vec![axis(4096, 1024, 1), axis(1024, 1, 0)],
            vec![axis(3_000_000, 1, 0)],
            vec![axis(7, 320_001, 1), axis(320_001, 1, 0)],
            vec![axis(320_001, 7, 0), axis(7, 1, 1)],
            vec![axis(8, 1_000_003, 0), axis(1_000_003, 1, 1)],
            vec![axis(64, 32_768, 0), axis(128, 256, 1), axis(256, 1, 0)],
            vec![axis(1_000_001, 2, 1), axis(2, 1, 0)],
            vec![axis(5, 4, 0)],
        ];
        for axes in spaces {
            let cut = Cut::new(&axes, 1);
            let total: usize = axes.iter().map(|a| a.size).product();
            let mut seen = 0;
            let mut end = 0;
            for p in 0..cut.parts {
                seen += cut.part(&axes, p).iter().map(|r| r.1).product::<usize>();
                let (start, len) = cut.region(&axes, 1, p);
                assert!(len <= cut.most(&axes, 1));
                if cut.owns(&axes, 1) {
                    assert_eq!(start, end, "part {p} of {axes:?}");
                    end = start + len;
                }
            }
            assert_eq!(seen, total, "{axes:?}");
            assert!(total < 10 * GRAIN || cut.parts >= 8, "{} parts of {axes:?}", cut.parts);
        }
    }
}
