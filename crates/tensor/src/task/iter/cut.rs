//! Cuts: a walk divided into parts, by shape alone, and parts into cells that are of one segment of every target.

use smallvec::SmallVec;

use super::order::STRIP;

/// Per axis of a walk, where a piece of it starts and how far it goes.
pub(crate) type Ranges = SmallVec<[(usize, usize); 4]>;

/// A box of elements divided into chunks along each axis. Chunks are numbered in the order of the walk.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    whole: Ranges,
    chunks: SmallVec<[usize; 4]>,
}

impl Cut {
    /// About `want` parts of a piece, along the first axes: what [`CutPoints`], counted from where it starts, allows of them.
    pub(crate) fn new(piece: &[(usize, usize)], want: usize, along: impl Fn(usize) -> CutPoints) -> Cut {
        let mut cut = Cut { whole: piece.into(), chunks: piece.iter().map(|r| r.1).collect() };
        let mut parts = 1;
        for (place, &(_, size)) in piece.iter().enumerate() {
            let left = want.div_ceil(parts);
            if left <= 1 {
                break;
            }
            let granule = match along(place) {
                CutPoints::Multiples(granule) => granule,
                CutPoints::Nowhere => continue,
                CutPoints::NowhereFurther => break,
            };
            let least = if place + 1 == piece.len() { STRIP } else { 1 };
            cut.chunks[place] = size.div_ceil(left).max(least).next_multiple_of(granule).min(size);
            parts *= size.div_ceil(cut.chunks[place]);
            if cut.chunks[place] > 1 {
                break;
            }
        }
        cut
    }

    /// A piece divided into chunks of these sizes; a piece starts where a chunk does.
    pub(crate) fn of(piece: &Ranges, chunks: &[usize]) -> Cut {
        Cut { whole: piece.clone(), chunks: chunks.iter().copied().collect() }
    }

    pub(crate) fn count(&self) -> usize {
        self.whole.iter().zip(&self.chunks).map(|(r, &c)| r.1.div_ceil(c)).product()
    }

    /// The chunk with this number.
    pub(crate) fn chunk(&self, number: usize) -> Ranges {
        let (mut ranges, mut rest) = (self.whole.clone(), number);
        for (range, &chunk) in ranges.iter_mut().zip(&self.chunks).rev() {
            let count = range.1.div_ceil(chunk);
            let from = rest % count * chunk;
            *range = (range.0 + from, chunk.min(range.1 - from));
            rest /= count;
        }
        ranges
    }
}

/// Where an axis may be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CutPoints {
    /// at multiples of so many elements
    Multiples(usize),
    /// not at all: some target folds it in one piece, and none keeps it
    Nowhere,
    /// neither it nor an axis further in: some target keeps it, and its results would not be of one piece
    NowhereFurther,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks must cover every element once, in order.
    #[test]
    fn chunks_cover_everything_once() {
        let spaces: [(&[usize], usize); 6] = [
            (&[4096, 1024], 64),
            (&[7, 320_001], 64),
            (&[3_000_000], 64),
            (&[8, 5, 1000], 20),
            (&[5, 4], 1),
            (&[], 8),
        ];
        for (sizes, want) in spaces {
            let piece: Ranges = sizes.iter().map(|&n| (3, n)).collect();
            let cut = Cut::new(&piece, want, |_| CutPoints::Multiples(3));
            let mut seen = 0;
            for number in 0..cut.count() {
                let part = cut.chunk(number);
                assert!(part.iter().all(|r| r.0 % 3 == 0 && r.1 > 0), "{part:?}");
                let cells = Cut::of(&part, &part.iter().map(|_| 2).collect::<Vec<_>>());
                let len = |piece: &Ranges| piece.iter().map(|r| r.1).product::<usize>();
                let all: usize = (0..cells.count().min(1000)).map(|c| len(&cells.chunk(c))).sum();
                assert!(cells.count() > 1000 || all == len(&part), "{part:?}");
                seen += len(&part);
            }
            assert_eq!(seen, sizes.iter().product::<usize>(), "{sizes:?}");
        }
    }

    #[test]
    fn an_axis_is_cut_only_where_it_may_be() {
        let along =
            |first: CutPoints| move |place: usize| if place == 0 { first } else { CutPoints::Multiples(1) };
        let cut = |first| Cut::new(&[(0, 8), (0, 9000)], 4, along(first));
        assert_eq!(cut(CutPoints::Nowhere).chunk(1)[..], [(0, 8), (2250, 2250)]);
        assert_eq!(cut(CutPoints::NowhereFurther).count(), 1);
        assert_eq!(cut(CutPoints::Multiples(4)).count(), 2);
    }
}
