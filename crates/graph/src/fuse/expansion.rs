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
        let mut end = start;
        while end < text.len() && is_of_a_name(text[end]) {
            end += 1;
        }
        let mut nr = 0;
        while nr < functions.len() && end > start {
            count += is_at(text, start, end, functions[nr].as_bytes()) as usize;
            nr += 1;
        }
        start = end + 1;
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

const fn is_of_a_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// A captured number.
pub fn number(v: impl Into<f64>) -> f64 {
    v.into()
}

#[cfg(test)]
mod tests {
    use super::{ANGLES, FUNCTIONS, MOST_CALLS, calls, with_loops};

    #[test]
    fn a_call_is_seen_where_its_function_is_named() {
        for formula in ["x.sin()", "(x * w).cos() * w", "R::tan(x)", "{ let y = x; y . sin () }", "cos"] {
            assert_eq!((calls(formula, ANGLES), calls(formula, FUNCTIONS)), (1, 1), "{formula}");
        }
        assert_eq!(calls("x.sin() + x.sin().exp() + x.tan()", ANGLES), 3);
        assert_eq!(calls("x.sin() + x.sin().exp() + x.tanh()", FUNCTIONS), 4);
        assert_eq!(with_loops("x.softplus() * x.gelu().pow(x).pow_number(3.0) * w.normal_cdf()"), 6);
        assert_eq!(with_loops(&"x.exp()".repeat(20)), MOST_CALLS);
        for formula in
            ["", "x", "si", "1.0 - x", "sine(x)", "x.tan_()", "my_sin(x)", "tan2", "x.square().relu()"]
        {
            assert_eq!((calls(formula, ANGLES), calls(formula, FUNCTIONS)), (0, 0), "{formula}");
        }
    }
}
