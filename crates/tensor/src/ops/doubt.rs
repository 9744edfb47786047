//! Which broadcasts nobody may have meant, and what is said of them.

use std::fmt::Write;
use std::panic::Location;

use super::warning::Operand;
use crate::shape::{Shape, broadcast_shapes, can_broadcast, expands_to};

/// Where two operands were recorded, if they were.
pub(crate) type Origins = [Option<&'static Location<'static>>; 2];

/// Why a broadcast may not have been meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// both operands grow, and nobody made an axis for it
    BothGrow,
    /// the shorter shape could stand elsewhere in the longer one
    FitsTwice,
}

impl Doubt {
    /// What is doubtful about these operands, which broadcast; to the strict, anything that may be.
    pub(crate) fn about(lists: Lists, a: Operand<'_>, b: Operand<'_>, strict: bool) -> Option<Doubt> {
        if a.0 == b.0 || !can_broadcast(a.0, b.0) {
            return None;
        }
        let growth = Growth::of(a, b);
        if growth.is_doubtful(strict || lists == Lists::Doubtful, strict) {
            return Some(Doubt::BothGrow);
        }
        let (short, long) = if a.0.len() < b.0.len() { (a.0, b.0) } else { (b.0, a.0) };
        (strict && fits_twice(short, long)).then_some(Doubt::FitsTwice)
    }

    /// The words for it, with what to do.
    pub(crate) fn text(self, op: &str, [a, b]: [&Shape; 2], origins: &Origins) -> String {
        let mut text = match self {
            Doubt::BothGrow => format!(
                "{op}: {a} and {b} {}both grow when they are broadcast, although no axis of size 1 was made for that: \
                 {}if it is meant, say so where the axis is made, by unsqueeze or a 1 in reshape",
                if a.numel() == b.numel() { "hold the same number of elements, and " } else { "" },
                mistake(a, b)
            ),
            Doubt::FitsTwice => {
                let (short, long) = if a.rank() < b.rank() { (a, b) } else { (b, a) };
                format!(
                    "{op}: {short} fits more than one place in {long}, because sizes coincide, and belongs to the last \
                     axes: unsqueeze it, so that each of its axes stands under its own"
                )
            }
        };
        for (shape, origin) in [a, b].into_iter().zip(origins) {
            if let Some(at) = origin {
                write!(text, "; {shape} is from {at}").expect("a string takes any text");
            }
        }
        text
    }
}

/// What to do if it is a mistake.
fn mistake(a: &Shape, b: &Shape) -> String {
    let squeezed = |from: &Shape, to: &Shape| {
        (0..from.rank()).find(|&axis| {
            let mut rest = from.clone();
            rest.0.remove(axis) == 1 && rest == *to
        })
    };
    if let Some(axis) = squeezed(a, b) {
        format!("if it is a mistake, squeeze({axis}) the first; ")
    } else if let Some(axis) = squeezed(b, a) {
        format!("if it is a mistake, squeeze({axis}) the second; ")
    } else if a.numel() == b.numel() {
        "if it is a mistake, reshape one to the shape of the other; ".to_owned()
    } else {
        String::new()
    }
}

/// What a kept axis beside a list is to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lists {
    /// as good as meant: `|x|^2 + |y|^2` for all pairs
    Idiom,
    /// as doubtful as another axis: a difference, a product, a quotient or a remainder is of elements that belong together
    Doubtful,
}

/// Whether one of the other operands has all sizes that these two make together.
pub(crate) fn is_held<'a>(
    a: Operand<'_>,
    b: Operand<'_>,
    mut others: impl Iterator<Item = Operand<'a>>,
) -> bool {
    let Ok(together) = broadcast_shapes(&[a.0, b.0]) else { return false };
    others.any(|c| expands_to(&together, c.0))
}

/// Whether these operands are all pairs of two lists and say so: both grow, by axes that were written, each of them.
pub(crate) fn are_pairs(a: Operand<'_>, b: Operand<'_>) -> bool {
    let growth = Growth::of(a, b);
    can_broadcast(a.0, b.0) && growth.both && growth.all_written
}

/// How two operands grow when they are broadcast.
struct Growth {
    both: bool,
    /// an axis that grows was written
    written: bool,
    /// each of them was
    all_written: bool,
    /// an axis that grows was kept by a reduction, or written
    kept: bool,
    same_rank: bool,
    same_count: bool,
}

impl Growth {
    fn of(a: Operand<'_>, b: Operand<'_>) -> Growth {
        let count = |(dims, _): Operand<'_>| Shape::from(dims).numel();
        let size =
            |(dims, _): Operand<'_>, back: usize| dims.len().checked_sub(back + 1).map(|axis| dims[axis]);
        let (mut grown, mut written, mut all_written, mut kept) = ([false; 2], false, true, false);
        for back in 0..a.0.len().max(b.0.len()) {
            for (i, (own, other)) in [(a, b), (b, a)].into_iter().enumerate() {
                let one = size(own, back);
                if one.unwrap_or(1) == 1 && size(other, back).is_some_and(|n| n != 1) {
                    grown[i] = true;
                    let is_written = one.is_some() && own.1.has_written(back);
                    written |= is_written;
                    all_written &= is_written;
                    kept |= one.is_some() && own.1.has(back);
                }
            }
        }
        let (same_rank, same_count) = (a.0.len() == b.0.len(), count(a) == count(b));
        Growth { both: grown == [true; 2], written, all_written, kept, same_rank, same_count }
    }

    /// Whether nobody may have meant it. A kept axis goes with what has as many axes, and with a list only where `lists` are not
    /// asked about. Without a coincidence of counts it takes equal ranks, and somebody strict.
    fn is_doubtful(&self, lists: bool, strict: bool) -> bool {
        let excused = self.written || self.kept && (self.same_rank || !lists);
        self.both && !excused && (self.same_count || strict && self.same_rank)
    }
}

/// Whether the sizes of the shorter shape are found in this order in more than one place of the longer one. A shape
/// with an axis of size 1 has been placed.
fn fits_twice(short: &[usize], long: &[usize]) -> bool {
    if short.len() == long.len() || short.contains(&1) {
        return false;
    }
    // How many ways there are to find the first sizes of the shorter shape in what has been looked at of the longer one.
    let mut ways = vec![0usize; short.len() + 1];
    ways[0] = 1;
    for size in long {
        for i in (0..short.len()).rev() {
            if short[i] == *size {
                ways[i + 1] = ways[i + 1].saturating_add(ways[i]);
            }
        }
    }
    ways[short.len()] > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meant::Meant;

    fn about(a: &[usize], b: &[usize]) -> Option<Doubt> {
        let [there, back] = [(a, b), (b, a)]
            .map(|(a, b)| Doubt::about(Lists::Idiom, (a, Meant::NONE), (b, Meant::NONE), true));
        assert_eq!(there, back, "{a:?} {b:?}");
        there
    }

    #[test]
    fn both_grow_from_as_many_elements() {
        for (a, b) in [
            (&[4, 1][..], &[4][..]),
            (&[4, 1], &[1, 4]),
            (&[2, 3, 1], &[2, 1, 3]),
            (&[2, 1, 8, 8], &[2, 1, 1, 8, 8]),
            (&[6, 1], &[2, 3, 1, 1]),
            (&[0, 1], &[0]),
        ] {
            let expected = can_broadcast(a, b).then_some(Doubt::BothGrow);
            assert_eq!(about(a, b), expected, "{a:?} {b:?}");
        }
        for (a, b) in [
            (&[4, 1][..], &[3][..]),
            (&[4], &[1, 4]),
            (&[4, 1], &[4, 1]),
            (&[4, 1], &[4, 4]),
            (&[4, 1], &[1]),
            (&[], &[1]),
            (&[4, 1], &[5, 1, 4]),
        ] {
            assert_eq!(about(a, b), None, "{a:?} {b:?}");
        }
    }

    #[test]
    fn an_axis_that_was_made_on_purpose_settles_it_if_it_grows() {
        let plain = |dims: &'static [usize]| (dims, Meant::NONE);
        let made = |dims: &'static [usize], axis: usize| (dims, Meant::written(dims.len(), |i| i == axis));
        assert_eq!(Doubt::about(Lists::Doubtful, made(&[4, 1], 1), plain(&[4]), true), None);
        assert_eq!(Doubt::about(Lists::Doubtful, plain(&[1, 4]), made(&[4, 1], 1), true), None);
        assert_eq!(
            Doubt::about(Lists::Doubtful, made(&[1, 4, 1], 0), plain(&[4]), true),
            Some(Doubt::BothGrow)
        );
    }

    #[test]
    fn a_shape_that_another_operand_has_is_not_made_by_two() {
        let plain = |dims: &'static [usize]| (dims, Meant::NONE);
        let held = |others: &[&'static [usize]]| {
            is_held(plain(&[4, 1]), plain(&[4]), others.iter().map(|dims| plain(dims)))
        };
        assert!(held(&[&[], &[4, 4]]) && held(&[&[2, 4, 4]]));
        assert!(!held(&[]) && !held(&[&[4], &[4, 1], &[1, 4]]));
    }

    #[test]
    fn pairs_say_so_on_both_sides() {
        let of = |dims: &'static [usize], written: &'static [usize]| {
            (dims, Meant::written(dims.len(), |i| written.contains(&i)))
        };
        assert!(are_pairs(of(&[3, 4, 1], &[2]), of(&[3, 1, 4], &[1])));
        assert!(are_pairs(of(&[3, 1], &[1]), of(&[1, 4], &[0])));
        for (a, b) in [
            (of(&[3, 1], &[1]), of(&[1, 4], &[])),
            (of(&[3, 1], &[1]), of(&[4], &[])),
            (of(&[3, 1], &[1]), of(&[3, 4], &[])),
            (of(&[3, 1], &[1]), of(&[3, 1], &[1])),
            (of(&[3, 1, 2], &[1]), of(&[1, 4, 5], &[0])),
            ((&[3, 1], Meant::kept(2, |i| i == 1)), of(&[1, 3], &[0])),
        ] {
            assert!(!are_pairs(a, b) && !are_pairs(b, a), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_kept_axis_goes_with_what_has_as_many_axes() {
        let plain = |dims: &'static [usize]| (dims, Meant::NONE);
        let kept = (&[4, 1][..], Meant::kept(2, |i| i == 1));
        for strict in [false, true] {
            for lists in [Lists::Idiom, Lists::Doubtful] {
                assert_eq!(Doubt::about(lists, kept, plain(&[1, 4]), strict), None);
                let doubtful = strict || lists == Lists::Doubtful;
                let expected = doubtful.then_some(Doubt::BothGrow);
                assert_eq!(Doubt::about(lists, kept, plain(&[4]), strict), expected, "{lists:?}");
                assert_eq!(Doubt::about(lists, plain(&[4]), kept, strict), expected, "{lists:?}");
                assert_eq!(Doubt::about(lists, kept, plain(&[5]), strict), None, "{lists:?}");
            }
        }
    }

    #[test]
    fn other_counts_are_doubtful_to_the_strict_where_ranks_are_equal() {
        let plain = |dims: &'static [usize]| (dims, Meant::NONE);
        for (a, b, is) in
            [(&[3, 1][..], &[1, 4][..], true), (&[3, 1], &[4], false), (&[2, 1, 3], &[1, 5, 1], true)]
        {
            assert_eq!(Doubt::about(Lists::Doubtful, plain(a), plain(b), false), None);
            assert_eq!(
                Doubt::about(Lists::Doubtful, plain(a), plain(b), true),
                is.then_some(Doubt::BothGrow)
            );
        }
    }

    #[test]
    fn a_shorter_shape_fits_twice_where_sizes_coincide() {
        for (short, long) in
            [(&[6][..], &[6, 8, 6][..]), (&[8], &[32, 8, 8]), (&[4], &[4, 4]), (&[4, 4], &[4, 2, 4, 4])]
        {
            assert_eq!(about(short, long), Some(Doubt::FitsTwice), "{short:?} {long:?}");
            let long = (long, Meant::NONE);
            assert_eq!(Doubt::about(Lists::Doubtful, (short, Meant::NONE), long, false), None);
        }
        for (short, long) in
            [(&[8][..], &[5, 6, 8][..]), (&[4, 4], &[2, 4, 4]), (&[1, 4], &[2, 4, 4]), (&[1], &[4, 4])]
        {
            assert_eq!(about(short, long), None, "{short:?} {long:?}");
        }
    }

    #[test]
    fn the_words_name_both_shapes_and_the_cure() {
        let say =
            |doubt: Doubt, a: &[usize], b: &[usize]| doubt.text("sub", [&a.into(), &b.into()], &[None; 2]);
        assert_eq!(
            say(Doubt::BothGrow, &[4, 1], &[4]),
            "sub: [4, 1] and [4] hold the same number of elements, and both grow when they are broadcast, although no \
             axis of size 1 was made for that: if it is a mistake, squeeze(1) the first; if it is meant, say so where \
             the axis is made, by unsqueeze or a 1 in reshape"
        );
        assert!(say(Doubt::BothGrow, &[3, 1], &[1, 4]).starts_with("sub: [3, 1] and [1, 4] both grow when"));
        assert!(say(Doubt::BothGrow, &[4], &[4, 1]).contains("squeeze(1) the second"));
        assert!(say(Doubt::BothGrow, &[4, 1], &[1, 4]).contains("reshape one to the shape of the other"));
        assert_eq!(
            say(Doubt::FitsTwice, &[6, 8, 6], &[6]),
            "sub: [6] fits more than one place in [6, 8, 6], because sizes coincide, and belongs to the last axes: \
             unsqueeze it, so that each of its axes stands under its own"
        );
    }
}
