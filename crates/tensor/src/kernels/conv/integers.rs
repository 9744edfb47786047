//! Convolutions of integers, by their definition: they wrap, and have no gradients.

use super::product::SlideProduct;
use super::sweep::Sweep;
use crate::threads::split_work;

/// Multiplications of a task, at least.
const TASK: usize = 1 << 16;

/// Computes all results into `out`, `[items, groups, rows, ..]`.
pub(crate) fn slide_integers(x: &SlideProduct<'_, i64>, out: &mut [i64]) {
    let plane = x.sizes[0] * x.sizes[1];
    if out.is_empty() {
        return;
    }
    let work = plane.saturating_mul(x.channels).saturating_mul(x.weight.sizes[0] * x.weight.sizes[1]);
    split_work(
        x.items * x.groups * x.rows,
        (TASK / work.max(1)).max(1),
        out,
        &|o: &mut [i64], at| o.split_at_mut(at * plane),
        &|start, _, out| {
            for (i, out) in out.chunks_exact_mut(plane).enumerate() {
                out.fill(x.bias.map_or(0, |b| b[(start + i) % (x.groups * x.rows)]));
                x.pairs().for_each(|sweeps| add_plane(x, sweeps, start + i, out));
            }
        },
    );
}

/// Adds what one plane of results is made of.
fn add_plane(x: &SlideProduct<'_, i64>, [down, across]: [&Sweep; 2], plane: usize, out: &mut [i64]) {
    let (group, row) = (plane / x.rows, plane % x.rows);
    let w = &x.weight;
    let size = down.sources * across.sources;
    let inside = |place: isize, size: usize| usize::try_from(place).ok().filter(|&p| p < size);
    for channel in 0..x.channels {
        let source = &x.source[(group * x.channels + channel) * size..][..size];
        let numbers =
            &w.data[group % x.groups * w.group_step + row * w.row_step + channel * w.channel_step..];
        for (y, t) in down.taps.iter().flat_map(|y| across.taps.iter().map(move |t| (y, t))) {
            let number = numbers[y.number * w.sizes[1] + t.number];
            for i in 0..down.count {
                let Some(line) = inside(y.place + (i * down.stride) as isize, down.sources) else { continue };
                for j in 0..across.count {
                    let place = t.place + (j * across.stride) as isize;
                    if let Some(col) = inside(place, across.sources) {
                        let at = (down.first + i * down.step) * x.sizes[1] + across.first + j * across.step;
                        let term = number.wrapping_mul(source[line * across.sources + col]);
                        out[at] = out[at].wrapping_add(term);
                    }
                }
            }
        }
    }
}
