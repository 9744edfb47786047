//! `StateDict`: tensors by name, in order.

use std::collections::HashMap;
use std::fmt;

use crate::{Here, Result, Tensor, TensorFacts, refuse};

/// Tensors by name, in the order in which they were put in: what a model, an optimiser, a schedule or a loader keeps.
///
/// Settings stand in it as tensors of no axes. Clones share the elements until one is written to.
///
/// ```
/// use foldback_tensor::{StateDict, tensor};
/// let mut state = StateDict::new();
/// state.insert("weight", tensor![[1.0, 2.0]]);
/// state.insert("bias", tensor![0.5]);
/// assert_eq!(state.get("bias"), Some(&tensor![0.5]));
/// assert_eq!(state.names().collect::<Vec<_>>(), ["weight", "bias"]);
/// ```
#[derive(Clone, Default)]
pub struct StateDict {
    /// in order; none where one was taken out, which is so at no more than half of the places: see [`StateDict::remove`]
    entries: Vec<Option<(String, Tensor)>>,
    /// by name, where its entry stands: there may be many thousands, and a search for each would take seconds
    places: HashMap<String, usize>,
}

impl PartialEq for StateDict {
    /// The same names in the same order, and equal tensors.
    fn eq(&self, other: &StateDict) -> bool {
        self.iter().eq(other.iter())
    }
}

impl StateDict {
    /// One without entries.
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// Puts a tensor in, and returns the one that had this name: the new one stands at its place then.
    pub fn insert(&mut self, name: impl Into<String>, value: Tensor) -> Option<Tensor> {
        let name = name.into();
        match self.places.get(&name) {
            Some(&at) => self.entries[at].replace((name, value)).map(|(_, old)| old),
            None => {
                self.places.insert(name.clone(), self.entries.len());
                self.entries.push(Some((name, value)));
                None
            }
        }
    }

    /// Puts all entries of another in, with `prefix.` before their names.
    ///
    /// ```
    /// use foldback_tensor::{StateDict, tensor};
    /// let part = StateDict::from_iter([("weight", tensor![1.0])]);
    /// let mut whole = StateDict::new();
    /// whole.insert_all("encoder", part.clone());
    /// assert_eq!(whole.names().next(), Some("encoder.weight"));
    /// assert_eq!(whole.part("encoder"), part);
    /// ```
    pub fn insert_all(&mut self, prefix: &str, part: StateDict) {
        for (name, value) in part {
            self.insert(format!("{prefix}.{name}"), value);
        }
    }

    /// The entries whose names begin with `prefix.`, without it.
    #[must_use]
    pub fn part(&self, prefix: &str) -> StateDict {
        let below = |name: &str| name.strip_prefix(prefix)?.strip_prefix('.').map(str::to_owned);
        self.iter().filter_map(|(name, value)| Some((below(name)?, value.clone()))).collect()
    }

    /// The entries under other names, in the same order: for weights that were saved by a program which calls its parts otherwise.
    ///
    /// # Errors
    /// `Parameter` if two entries would have one name.
    ///
    /// ```
    /// use foldback_tensor::{StateDict, tensor};
    /// let saved = StateDict::from_iter([("norm.gamma", tensor![1.0]), ("norm.beta", tensor![0.0])]);
    /// let state = saved.map_names(|name| name.replace("gamma", "weight").replace("beta", "bias"))?;
    /// assert_eq!(state.names().collect::<Vec<_>>(), ["norm.weight", "norm.bias"]);
    /// assert_eq!(saved.map_names(|name| name.trim_start_matches("norm."))?.names().next(), Some("gamma"));
    /// assert!(saved.map_names(|_| "norm").is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn map_names<'a, N: Into<String>>(
        &'a self,
        mut name_of: impl FnMut(&'a str) -> N,
    ) -> Result<StateDict> {
        let mut renamed = StateDict::new();
        for (name, value) in self.iter() {
            let new = name_of(name).into();
            if let Some(&at) = renamed.places.get(&new) {
                let first = self.names().nth(at).unwrap_or_default();
                return refuse(TensorFacts::Parameter {
                    op: "map_names",
                    name: "the name",
                    value: format!("{new:?} for {first:?} and {name:?}"),
                    expected: "another one for each entry: remove those that are not wanted, or take a part",
                })
                .here();
            }
            renamed.insert(new, value.clone());
        }
        Ok(renamed)
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.places.get(name).and_then(|&at| self.entries[at].as_ref()).map(|(_, value)| value)
    }

    /// Takes the tensor of this name out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let (_, value) = self.entries[self.places.remove(name)?].take()?;
        // Who takes out many one by one, as an optimiser does that loads its state, would move the others for each.
        if self.entries.len() > 2 * self.len() {
            self.entries.retain(Option::is_some);
            for (at, (name, _)) in self.entries.iter().flatten().enumerate() {
                if let Some(place) = self.places.get_mut(name) {
                    *place = at;
                }
            }
        }
        Some(value)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries.iter().flatten().map(|(name, value)| (name.as_str(), value))
    }
}

impl<N: Into<String>> FromIterator<(N, Tensor)> for StateDict {
    /// The last of several entries of one name is kept, at the place of the first.
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(entries: I) -> StateDict {
        let mut all = StateDict::new();
        for (name, value) in entries {
            all.insert(name, value);
        }
        all
    }
}

impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter().flatten().collect::<Vec<_>>().into_iter()
    }
}

impl fmt::Debug for StateDict {
    /// Names, types and shapes, not the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |t: &Tensor| format!("{} {}", t.dtype(), t.shape());
        f.debug_map().entries(self.iter().map(|(name, value)| (name, shown(value)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    #[test]
    fn entries_keep_their_places() {
        let mut state = StateDict::from_iter([("a", tensor![1.0]), ("b", tensor![2.0]), ("a", tensor![3.0])]);
        assert_eq!(state.iter().collect::<Vec<_>>(), [("a", &tensor![3.0]), ("b", &tensor![2.0])]);
        assert_eq!(state.insert("b", tensor![4; i64]), Some(tensor![2.0]));
        assert_eq!((state.len(), state.is_empty()), (2, false));
        assert_eq!(state.remove("a"), Some(tensor![3.0]));
        assert_eq!(state.remove("a"), None);
        assert_eq!(format!("{state:?}"), r#"{"b": "i64 [1]"}"#);
        assert_eq!(state.into_iter().collect::<Vec<_>>(), [("b".to_owned(), tensor![4; i64])]);
    }

    /// With a search for each name this would take a minute.
    #[test]
    fn many_entries_are_found_at_once() {
        let (mut state, n) = (StateDict::new(), 100_000);
        let name = |i: usize| format!("layers.{i}.weight");
        for i in 0..n {
            assert_eq!(state.insert(name(i), tensor![0.0]), None);
        }
        assert!((0..n).all(|i| state.get(&name(i)).is_some()) && state.get("layers").is_none());
        assert_eq!((state.part("layers").len(), state.len()), (n, n));
        // Behind one that is taken out the others are found, too.
        assert!(state.remove(&name(1)).is_some() && state.remove(&name(1)).is_none());
        assert_eq!(state.insert(name(n - 1), tensor![1.0]), Some(tensor![0.0]));
        assert_eq!(state.insert(name(1), tensor![2.0]), None);
        assert_eq!(state.names().last(), Some(&*name(1)));
        assert_eq!(
            (state.get(&name(0)), state.get(&name(n - 1))),
            (Some(&tensor![0.0]), Some(&tensor![1.0]))
        );
    }

    /// Nothing is moved for an entry that is taken out: places stay empty, up to half of them. From the front on, moving the others
    /// each time would be five billion moves.
    #[test]
    fn many_entries_are_taken_out_at_once() {
        let n = 100_000;
        let name = |i: usize| format!("state.{i}.step");
        let mut state: StateDict = (0..n).map(|i| (name(i), tensor![i as i64; i64])).collect();
        for i in 0..n - 3 {
            assert_eq!(state.remove(&name(i)), Some(tensor![i as i64; i64]));
            assert!(state.len() == n - 1 - i && state.entries.len() <= 2 * state.len());
        }
        // What is left has its order, also beside what comes now, and equals one that never had more.
        assert_eq!(state.remove(&name(n - 2)), Some(tensor![n as i64 - 2; i64]));
        state.insert("last", tensor![0.5]);
        let others = [n - 3, n - 1].map(|i| (name(i), tensor![i as i64; i64]));
        let fresh: StateDict = others.into_iter().chain([("last".to_owned(), tensor![0.5])]).collect();
        assert_eq!((&state, state.len()), (&fresh, 3));
        assert!(state.names().eq(fresh.names()) && state.clone().into_iter().eq(fresh));
        assert!(
            state.names().map(str::to_owned).collect::<Vec<_>>().iter().all(|n| state.remove(n).is_some())
        );
        assert!(state.is_empty() && state == StateDict::new() && state.entries.is_empty());
    }

    #[test]
    fn parts_end_at_dots() {
        let names = ["l1.weight", "l10.weight", "l1", "l1.a.b"];
        let state: StateDict = names.into_iter().map(|name| (name, tensor![0.0])).collect();
        assert_eq!(state.part("l1").names().collect::<Vec<_>>(), ["weight", "a.b"]);
        assert!(state.part("l").is_empty());
    }

    #[test]
    fn names_are_mapped_one_to_one() {
        let state =
            StateDict::from_iter([("a.w", tensor![1.0]), ("b.w", tensor![2.0]), ("b.c", tensor![3.0])]);
        let swapped = state.map_names(|name| match name.split_once('.') {
            Some(("a", rest)) => format!("b.{rest}"),
            Some((_, rest)) => format!("a.{rest}"),
            None => name.to_owned(),
        });
        let swapped = swapped.unwrap();
        assert_eq!(swapped.names().collect::<Vec<_>>(), ["b.w", "a.w", "a.c"]);
        assert_eq!(swapped.get("a.c"), Some(&tensor![3.0]));
        // Also where entries were taken out before them.
        let mut fewer = state.clone();
        fewer.remove("a.w");
        for (state, first) in [(&state, "a.w"), (&fewer, "b.w")] {
            let e = state.map_names(|_| "w").unwrap_err();
            assert!(e.location().is_some_and(|at| (at.file(), at.line()) == (file!(), line!() - 1)), "{e}");
            let start = format!("map_names: the name = \"w\" for {first:?} and \"b.");
            assert!(e.to_string().starts_with(&start), "{e}");
        }
    }
}
