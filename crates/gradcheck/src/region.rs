//! Which elements are wrong, as a rule.

use crate::compare::unravel;
use crate::diagnosis::Region;

/// The rule that tells wrong elements from right ones. Elements that have no gradient in any case are neither.
pub(crate) fn region(values: &[f64], dims: &[usize], wrong: &[usize], right: &[usize]) -> Region {
    if right.is_empty() {
        return Region::Everywhere;
    }
    let separates =
        |of: &dyn Fn(usize) -> bool| wrong.iter().all(|&e| of(e)) && !right.iter().any(|&e| of(e));
    if separates(&|e| values[e] == 0.0) {
        return Region::Zero;
    }
    // One element is an index, and no rule about its sign.
    if let [one] = wrong {
        return Region::Index(unravel(*one, dims));
    }
    if separates(&|e| values[e] < 0.0) {
        return Region::Negative;
    }
    if separates(&|e| values[e] > 0.0) {
        return Region::Positive;
    }
    for axis in 0..dims.len() {
        let index = unravel(wrong[0], dims)[axis];
        if separates(&|e| unravel(e, dims)[axis] == index) {
            return Region::Along { axis, index };
        }
    }
    Region::Some
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_separates() {
        let values = [-1.0, 2.0, 0.0, -3.0, 4.0, 5.0];
        let of = |wrong: &[usize], right: &[usize]| region(&values, &[2, 3], wrong, right);
        assert_eq!(of(&[0, 1], &[]), Region::Everywhere);
        assert_eq!(of(&[2], &[0, 1]), Region::Zero);
        assert_eq!(of(&[5], &[0, 1]), Region::Index(vec![1, 2]));
        assert_eq!(of(&[0, 3], &[1, 2, 4]), Region::Negative);
        assert_eq!(of(&[1, 4, 5], &[0, 3]), Region::Positive);
        assert_eq!(of(&[0, 1, 2], &[3, 4, 5]), Region::Along { axis: 0, index: 0 });
        assert_eq!(of(&[1, 4], &[0, 3, 5]), Region::Along { axis: 1, index: 1 });
        assert_eq!(of(&[0, 1], &[2, 3]), Region::Some);
    }
}
