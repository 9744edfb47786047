//! What `fuse!` expands to; and what it reads off an expression as it is written.

use foldback_tensor::kernel::MOST_CALLS;
pub use foldback_tensor::kernel::{FloatOps, Formula, Real};

/// The functions of angles.
pub const ANGLES: &[&str] = &["sin", "cos", "tan"];

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        /// The elementary functions, and others that take as long; one that is made of two stands here twice.
        pub const FUNCTIONS: &[&str] =
            &[$(stringify!($name),)* "normal_cdf", "gelu", "pow", "pow_number", "softplus", "softplus"];
    };
}
foldback_tensor::__elementary!(names);

/// How many functions of a formula as it is written have loops of their own.
pub const fn with_loops(formula: &str) -> usize {
    let calls = calls(formula, FUNCTIONS);
    if calls < MOST_CALLS { calls } else { MOST_CALLS }
}

/// How often a formula as it is written names one of some functions. In functions that it calls they are not seen.
pub const fn calls(formula: &str, functions: &[&str]) -> usize {
    let text = formula.as_bytes();
    let (mut start, mut count) = (0, 0);
    while start < text.len() {
        let end = end_of_name(text, start);
        count += times(text, start, end, functions);
        start = end + 1;
    }
    count
}

/// The first operand that the only function of a formula reads, as it is written, if it reads some of them, and nothing else reads these. The
/// text may deceive, as names may stand for other numbers.
pub const fn of_function(formula: &str, operands: &[&str]) -> Option<usize> {
    let Some((start, end)) = the_call(formula) else { return None };
    let call = formula.split_at(end).0.split_at(start).1;
    let (mut nr, mut first, mut reads_all) = (operands.len(), None, true);
    while nr > 0 {
        nr -= 1;
        let inside = calls(call, &[operands[nr]]);
        if inside == 0 {
            reads_all = false;
        } else if inside < calls(formula, &[operands[nr]]) {
            return None;
        } else {
            first = Some(nr);
        }
    }
    if reads_all { None } else { first }
}

/// From where to where the only function of a formula is called, with what it is a method of.
const fn the_call(formula: &str) -> Option<(usize, usize)> {
    if calls(formula, FUNCTIONS) != 1 {
        return None;
    }
    let text = formula.as_bytes();
    let (mut start, mut end) = (0, end_of_name(text, 0));
    while times(text, start, end, FUNCTIONS) == 0 {
        start = end + 1;
        end = end_of_name(text, start);
    }
    let mut depth = 0;
    while end < text.len() {
        match text[end] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        end += 1;
        if depth == 0 && !text[end - 1].is_ascii_whitespace() {
            break;
        }
    }
    // Link by link of a chain: a name, or what is in brackets behind a name or nothing.
    let mut link = trimmed(text, start);
    while link > 0 && text[link - 1] == b'.' {
        start = trimmed(text, link - 1);
        let mut depth = 0;
        while start > 0 && (depth > 0 || text[start - 1] == b')') {
            start -= 1;
            match text[start] {
                b')' => depth += 1,
                b'(' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        while start > 0 && is_of_a_name(text[start - 1]) {
            start -= 1;
        }
        link = trimmed(text, start);
    }
    Some((start, end))
}

/// The end of a text up to a place without the white space before that.
const fn trimmed(text: &[u8], mut end: usize) -> usize {
    while end > 0 && text[end - 1].is_ascii_whitespace() {
        end -= 1;
    }
    end
}

/// The end of the name that begins at this place, which is the place itself where there is none.
const fn end_of_name(text: &[u8], mut end: usize) -> usize {
    while end < text.len() && is_of_a_name(text[end]) {
        end += 1;
    }
    end
}

/// How often the name at this place is one of some functions.
const fn times(text: &[u8], start: usize, end: usize, functions: &[&str]) -> usize {
    let (mut nr, mut count) = (0, 0);
    while nr < functions.len() && end > start {
        count += is_at(text, start, end, functions[nr].as_bytes()) as usize;
        nr += 1;
    }
    count
}

/// Whether a name stands at this place of a text.
const fn is_at(text: &[u8], start: usize, end: usize, name: &[u8]) -> bool {
    if end - start != name.len() {
        return false;
    }
    let mut at = 0;
    while at < name.len() && text[start + at] == name[at] {
        at += 1;
    }
    at == name.len()
}

/// Whether a byte is of a name, which may have letters of any alphabet.
const fn is_of_a_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || !c.is_ascii()
}

/// A captured number.
pub fn number(v: impl Into<f64>) -> f64 {
    v.into()
}

#[cfg(test)]
mod tests {
    use super::{ANGLES, FUNCTIONS, MOST_CALLS, calls, of_function, with_loops};

    #[test]
    fn a_call_is_seen_where_its_function_is_named() {
        for formula in ["x.sin()", "(x * w).cos() * w", "R::tan(x)", "{ let y = x; y . sin () }", "cos"] {
            assert_eq!((calls(formula, ANGLES), calls(formula, FUNCTIONS)), (1, 1), "{formula}");
        }
        assert_eq!(calls("x.sin() + x.sin().exp() + x.tan()", ANGLES), 3);
        assert_eq!(calls("x.sin() + x.sin().exp() + x.tanh()", FUNCTIONS), 4);
        assert_eq!(with_loops("x.softplus() * x.gelu().pow(x).pow_number(3.0) * w.normal_cdf()"), 6);
        assert_eq!(with_loops(&"x.exp()".repeat(20)), MOST_CALLS);
        for formula in [
            "",
            "x",
            "si",
            "1.0 - x",
            "sine(x)",
            "x.tan_()",
            "my_sin(x)",
            "tan2",
            "x.square().relu()",
            "expé(x)",
        ] {
            assert_eq!((calls(formula, ANGLES), calls(formula, FUNCTIONS)), (0, 0), "{formula}");
        }
    }

    #[test]
    fn an_operand_of_the_only_function_is_seen_where_it_is_read() {
        for (formula, expected) in [
            ("x * w.exp()", Some(1)),
            ("w . exp () * x", Some(1)),
            ("x * R::exp(w)", Some(1)),
            ("(x - m) * (w * w + 1e-5).rsqrt()", Some(1)),
            ("x * (w + m).abs().clamp(0.0, 1.0).tanh() / 2.0", Some(1)),
            ("x * (w + m).maximum(R::lit((0.5))).tanh().square()", Some(1)),
            ("x + w.abs().pow(m * m)", Some(1)),
            ("{ let t = m.tanh(); x * t + w }", Some(2)),
            ("-x.sin() * w", Some(0)),
            ("f(x.sin()) * w", Some(0)),
            ("x.tanh() * my::f(w)", Some(0)),
            ("x * my::f(w).tanh()", Some(1)),
            // It reads all, or what it does is read elsewhere, too.
            ("(x * w + m).tanh()", None),
            ("x * w.exp() + w", None),
            ("x * (x + w).exp() + m", None),
            // Several functions, or none; a number by another name, or of another kind.
            ("x * w.exp() + m.exp()", None),
            ("x * w.softplus()", None),
            ("x * w", None),
            ("{ let y = x * w; y.tanh() + m }", None),
            ("x * { w }.exp()", None),
            ("x * R::lit(2.0).exp()", None),
            ("exp", None),
        ] {
            assert_eq!(of_function(formula, &["x", "w", "m"]), expected, "{formula}");
        }
        assert_eq!(of_function("x.tanh()", &["x"]), None);
        assert_eq!(of_function("x * σ.exp() + é", &["x", "σ", "é"]), Some(1));
    }
}
