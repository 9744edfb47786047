//! How a result is cut into tiles.

/// Products of at most this many multiplications are one task.
pub(super) const TASK: usize = 1 << 21;

/// Multiplications per part where the inner size is cut.
pub(super) const PART: usize = 1 << 22;

/// Rows and columns of a tile of a large product: its rows of the left operand, a few hundred inner positions deep, fit
/// in the second-level cache, and what is laid out of the right one serves many rows.
const TILE_ROWS: usize = 264;
const TILE_COLS: usize = 512;

/// Tiles that large products are cut into at least, where that must not depend on threads.
pub(super) const TILES: usize = 8;

/// Columns of a tile where the right operand has at most so many elements, and the result so many rows.
const STRIP_COLS: usize = 64;
const SMALL_RIGHT: usize = 1 << 17;
const MOST_ROWS: usize = 384;

/// How a result of `m` by `n` is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tiles {
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// tiles from left to right
    pub(super) across: usize,
    pub(super) count: usize,
}

impl Tiles {
    /// Columns of all rows, of a product that is small enough: each part of the right operand is laid out once, and the left one, which stays in
    /// the second-level cache, is read where it lies. Products of 256 by 256 by 256 take 0.96 of the time on one thread, and 0.75 to 0.9 on two, of
    /// tiles that lay both out.
    pub(super) fn columns(m: usize, n: usize, k: usize) -> Option<Tiles> {
        let count = n.div_ceil(STRIP_COLS);
        let is_small = m <= MOST_ROWS && n.saturating_mul(k) <= SMALL_RIGHT && n > STRIP_COLS;
        (is_small && m.saturating_mul(n).saturating_mul(k) > TASK).then_some(Tiles {
            rows: m,
            cols: STRIP_COLS,
            across: count,
            count,
        })
    }

    /// At least so many tiles, if there is enough to do.
    pub(super) fn new(m: usize, n: usize, k: usize, least: usize) -> Tiles {
        let work = |rows: usize, cols: usize| rows.saturating_mul(cols).saturating_mul(k);
        let (mut rows, mut cols) = (m, n);
        if work(m, n) > TASK {
            (rows, cols) = (m.min(TILE_ROWS), n.min(TILE_COLS));
            let few = |rows: usize, cols: usize| m.div_ceil(rows) * n.div_ceil(cols) < least;
            // Near squares: rows are laid out once per tile of columns, and columns once per tile of rows.
            while few(rows, cols) && work(rows, cols) > PART && (cols > 64 || rows > 64) {
                if cols > rows { cols /= 2 } else { rows /= 2 }
            }
            while work(rows, cols) < TASK && (rows < m || cols < n) {
                if cols < n { cols = (2 * cols).min(n) } else { rows = (2 * rows).min(m) }
            }
            // Tiles of like sizes, so that no thread waits for the others long.
            rows = m.div_ceil(m.div_ceil(rows)).next_multiple_of(24).min(m);
            cols = n.div_ceil(n.div_ceil(cols)).next_multiple_of(16).min(n);
        }
        let across = n.div_ceil(cols.max(1)).max(1);
        Tiles { rows, cols, across, count: across * m.div_ceil(rows.max(1)).max(1) }
    }
}
