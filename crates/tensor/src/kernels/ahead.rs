//! Memory that is asked for while something else is computed.
//!
//! Note [Ahead]
//! A processor reads ahead of a loop that goes through memory. A task that copies a window of its sources, computes for a while,
//! and copies what it found to its place gives it no such loop: memory is idle while the task computes, and the task waits
//! while it copies. So it asks for the lines that it will write, and for those that the next task will read, a few at a time
//! while it computes. A depthwise convolution of 26 MB takes 0.6 of the time (W18).

use std::cell::Cell;

/// What a task asks for, in as many steps as it computes.
pub(crate) struct Ahead {
    /// where each begins, and how many lines it has
    spans: Vec<(*const u8, usize)>,
    lines: usize,
    steps: usize,
    step: Cell<usize>,
    /// the span, and the line in it, that is next
    next: Cell<(usize, usize)>,
}

/// Bytes of a line of memory.
pub(crate) const LINE: usize = 64;

/// Operations on no more bytes find them in the second-level cache.
const NEAR: usize = 2 << 20;

impl Ahead {
    /// For an operation that reads and writes so many bytes.
    pub(crate) fn pays(bytes: usize) -> bool {
        bytes > NEAR
    }

    /// Nothing yet, in so many steps.
    pub(crate) fn new(steps: usize) -> Ahead {
        Ahead { spans: Vec::new(), lines: 0, steps, step: Cell::new(0), next: Cell::new((0, 0)) }
    }

    /// Asks for these elements, too. Nothing is read from them, so nothing depends on whose they are.
    pub(crate) fn add<T>(&mut self, start: *const T, len: usize) {
        let lines = (len * size_of::<T>()).div_ceil(LINE);
        self.spans.push((start.cast(), lines));
        self.lines += lines;
    }

    /// How many lines all steps ask for together.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// One step.
    pub(crate) fn step(&self) {
        let step = self.step.get();
        if self.lines == 0 || step == self.steps {
            return;
        }
        self.step.set(step + 1);
        let mut left = (step + 1) * self.lines / self.steps - step * self.lines / self.steps;
        let (mut span, mut line) = self.next.get();
        while left > 0 {
            let (start, lines) = self.spans[span];
            let now = left.min(lines - line);
            for at in line..line + now {
                ask(start.wrapping_add(at * LINE));
            }
            left -= now;
            (span, line) = if line + now == lines { (span + 1, 0) } else { (span, line + now) };
        }
        self.next.set((span, line));
    }
}

/// Asks for a line: a hint, which reads nothing.
#[inline]
pub(crate) fn ask(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: it belongs to SSE, which every processor of this architecture has, and may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_asked_for_once_in_as_many_steps() {
        let data = [0.0f32; 1000];
        for steps in [1, 3, 40, 1000] {
            let mut ahead = Ahead::new(steps);
            ahead.step();
            for (from, len) in [(0, 100), (100, 0), (300, 17), (500, 1)] {
                ahead.add(data[from..].as_ptr(), len);
            }
            assert_eq!(ahead.lines, 7 + 2 + 1);
            for _ in 0..steps {
                assert!(ahead.next.get().0 < 4);
                ahead.step();
            }
            assert_eq!(ahead.next.get(), (4, 0));
            ahead.step();
        }
    }
}
