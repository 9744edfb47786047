//! Names of parameters, chosen by patterns.

/// Whether a name is one of those that a pattern means: `*` in it stands for any run of characters, dots and none too, and
/// everything else for itself.
///
/// ```
/// use foldback_tensor::name_matches;
/// assert!(name_matches("*.bias", "blocks.0.fc.bias"));
/// assert!(name_matches("blocks.*", "blocks.0.fc.bias"));
/// assert!(!name_matches("*.bias", "bias"));
/// assert!(!name_matches("fc", "fc.bias"));
/// ```
pub fn name_matches(pattern: &str, name: &str) -> bool {
    let Some((start, pattern)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(start) else { return false };
    // Each piece takes the first place where it fits: any later one leaves less for those behind it.
    let (middle, end) = pattern.rsplit_once('*').unwrap_or(("", pattern));
    for piece in middle.split('*') {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let names = ["", "weight", "bias", "fc.bias", "blocks.10.fc.bias", "blocks.10.fc.weight", "größe.ü"];
        let chosen = |pattern: &str| {
            let all = names.iter().enumerate().filter(|(_, name)| name_matches(pattern, name));
            all.map(|(i, _)| i).collect::<Vec<_>>()
        };
        assert_eq!(chosen("*"), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(chosen("**"), chosen("*"));
        assert_eq!(chosen(""), [0]);
        assert_eq!(chosen("bias"), [2]);
        assert_eq!(chosen("*bias"), [2, 3, 4]);
        assert_eq!(chosen("*.bias"), [3, 4]);
        assert_eq!(chosen("blocks.*.fc.*"), [4, 5]);
        assert_eq!(chosen("blocks.1*"), [4, 5]);
        assert_eq!(chosen("blocks.2*"), []);
        assert_eq!(chosen("*fc*bias*"), [3, 4]);
        assert_eq!(chosen("*ö*.ü"), [6]);
        assert_eq!(chosen("[wb]*"), []);
        // The ends do not overlap.
        assert!(!name_matches("ab*ba", "aba") && name_matches("ab*ba", "abba"));
        assert!(!name_matches("a*b*b", "ab") && name_matches("a*b*b", "abcb"));
        assert!(name_matches("*a*b", "aab") && name_matches("*ab*ab", "ababab"));
    }

    /// Against the definition: a star is nothing, or a character and a star.
    #[test]
    fn every_short_pattern() {
        fn meant(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern, name) {
                ([], _) => name.is_empty(),
                ([b'*', rest @ ..], _) => {
                    meant(rest, name) || name.split_first().is_some_and(|(_, name)| meant(pattern, name))
                }
                ([p, rest @ ..], [n, name @ ..]) => p == n && meant(rest, name),
                _ => false,
            }
        }
        let words = |letters: &[char], length: u32| {
            let mut all = vec![String::new()];
            for _ in 0..length {
                let longer = all.iter().flat_map(|w| letters.iter().map(move |l| format!("{w}{l}")));
                let longer: Vec<String> = longer.collect();
                all.extend(longer);
            }
            all.sort();
            all.dedup();
            all
        };
        for pattern in words(&['a', 'b', '*'], 4) {
            for name in words(&['a', 'b'], 5) {
                let expected = meant(pattern.as_bytes(), name.as_bytes());
                assert_eq!(name_matches(&pattern, &name), expected, "{pattern:?} and {name:?}");
            }
        }
    }
}
