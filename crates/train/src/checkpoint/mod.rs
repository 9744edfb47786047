//! Checkpoints: everything that a run needs to go on, in one file.

mod folder;
mod sealed;
mod stateful;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use foldback_nn::safetensors::{self, Metadata};
use foldback_nn::{FileFacts, read_bytes, write_named};
use foldback_tensor::{Error, Here, Kind, Result, StateDict, Tensor, or_panic, refuse};

pub use folder::{Checkpoints, Saved};
use sealed::Sealing;
pub(crate) use stateful::RAW;
pub use stateful::{ByLoader, ByModule, ByOptimizer, BySchedule, ByValue, Stateful};

/// Says what a file is, and what is in it.
const FORMAT: &str = "foldback.checkpoint";
const ENTRY: &str = "entry.";

/// The state of a whole run under names of one's own: models, optimisers, schedules, loaders, generators, numbers, texts.
///
/// What can stand in it is [`Stateful`]. The file is a safetensors file, in which the tensors of the entry `model` have names like
/// `model.l1.weight`, with a checksum over all of it. It is written whole or not at all
/// ([`write_atomically`](foldback_nn::write_atomically)): a run that is killed at any moment finds its last checkpoint. An optimiser, a schedule, a loader and the generators of random numbers then go on with the same bits.
///
/// Behind the feature `safetensors`.
///
/// ```
/// use foldback_nn::{Dropout, Linear, Module, loss, sequential};
/// use foldback_optim::{Adam, Optimizer};
/// use foldback_tensor::{Tensor, get_rng_state, set_rng_state, tensor};
/// use foldback_train::Checkpoint;
/// # let path = std::env::temp_dir().join(format!("foldback-run-{}.ckpt", std::process::id()));
/// let make = || sequential![Linear::new(3, 8), Dropout::new(0.1), Linear::new(8, 1)];
/// let x = tensor![[0.5, 1.0, -1.0]];
/// let (model, mut epoch) = (make(), 0usize);
/// let adam = Adam::new(model.parameters(), 1e-2);
/// let step = |model: &foldback_nn::Sequential, adam: &Adam| {
///     adam.zero_grad();
///     model.forward(&x)?.square().sum(..)?.backward()?;
///     adam.step()
/// };
/// step(&model, &adam)?;
/// epoch += 1;
/// Checkpoint::new()
///     .put("model", &model)
///     .put("adam", &adam)
///     .put("rng", &get_rng_state())
///     .put("epoch", &epoch)
///     .save(&path)?;
///
/// // Another day, in another process:
/// let mut other = make();
/// let mut resumed = Adam::new(other.parameters(), 1e-2);
/// let (mut generator, mut reached) = (get_rng_state(), 0usize);
/// let c = Checkpoint::open(&path)?;
/// c.get("model", &mut other)?;
/// c.get("adam", &mut resumed)?;
/// c.get("rng", &mut generator)?;
/// c.get("epoch", &mut reached)?;
///
/// set_rng_state(generator.clone());
/// step(&other, &resumed)?;
/// # set_rng_state(generator);
/// # step(&model, &adam)?;
/// assert_eq!(other.state_dict(), model.state_dict()); // as if nothing had happened: the same bits
/// assert_eq!(reached, 1);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Checkpoint {
    entries: Vec<Entry>,
    /// the file that it was read from
    path: Option<PathBuf>,
}

#[derive(Clone)]
struct Entry {
    name: String,
    /// what it is the state of
    kind: String,
    state: StateDict,
}

impl Checkpoint {
    /// One without entries.
    pub fn new() -> Checkpoint {
        Checkpoint::default()
    }

    /// Puts the state of something in, as it is now; what is done to it later changes nothing here. Nothing is copied.
    ///
    /// # Panics
    /// If the name is empty, has a dot, or is there already; [`Checkpoint::try_put`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn put<K>(self, name: &str, what: &(impl Stateful<K> + ?Sized)) -> Checkpoint {
        or_panic(self.try_put(name, what))
    }

    /// [`Checkpoint::put`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Unwritable` if the name is empty, has a dot, or is there already.
    ///
    /// ```
    /// use foldback_train::Checkpoint;
    /// let e = Checkpoint::new().put("step", &1usize).try_put("step", &2usize).unwrap_err();
    /// assert!(e.to_string().starts_with("put: there is an entry `step` already: "));
    /// ```
    #[track_caller]
    pub fn try_put<K>(mut self, name: &str, what: &(impl Stateful<K> + ?Sized)) -> Result<Checkpoint> {
        let problem = if name.is_empty() || name.contains('.') {
            format!("`{name}` is no name for an entry: give one that is not empty and has no dot")
        } else if self.entries.iter().any(|entry| entry.name == name) {
            format!("there is an entry `{name}` already: give each a name of its own")
        } else {
            let (name, kind, state) = (name.to_owned(), what.kind().to_owned(), what.state());
            self.entries.push(Entry { name, kind, state });
            return Ok(self);
        };
        refuse(FileFacts::Unwritable { op: "put", problem }).here()
    }

    /// Makes something go on where the entry of this name was saved. A [`StateDict`] takes what is there, whatever it is of.
    ///
    /// # Errors
    /// `Contents`, with the file and the name, if there is no such entry, if it is the state of something of another kind, or
    /// if that refuses it. Nothing is changed then.
    #[track_caller]
    pub fn get<K>(&self, name: &str, into: &mut (impl Stateful<K> + ?Sized)) -> Result<()> {
        self.get_entry(name, into.kind(), &mut |state| into.load_state(state)).here()
    }

    /// The same by a function, of an entry of this kind.
    #[track_caller]
    pub(crate) fn get_entry(
        &self,
        name: &str,
        kind: &str,
        load: &mut dyn FnMut(&StateDict) -> Result<()>,
    ) -> Result<()> {
        let refused = |problem: String| Err(self.refused(name, Kind::Argument, problem));
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            let there: Vec<&str> = self.names().collect();
            return refused(format!("there is no such entry: there are {}", there.join(", ")));
        };
        if entry.kind != kind && kind != RAW {
            return refused(format!(
                "what is there is the state of {} ({kind} is asked for): read it into one of that kind",
                entry.kind
            ));
        }
        load(&entry.state).map_err(|e| self.refused(name, e.kind(), e.with_location(None).to_string()))
    }

    fn refused(&self, name: &str, kind: Kind, error: String) -> Error {
        let file = self.path.as_ref().map_or(String::new(), |path| format!("{}: ", path.display()));
        FileFacts::Contents { op: "get", place: format!("{file}entry `{name}`"), kind, error }.into()
    }

    /// The names of the entries, in the order in which they were put in.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Whether there is an entry of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// Writes it to a file: whole or not at all.
    ///
    /// # Errors
    /// Of kind `Io`, with the path; `Unwritable` beyond the limits of a file, see
    /// [`safetensors`](foldback_nn::safetensors).
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.write(path.as_ref()).here()
    }

    fn write(&self, path: &Path) -> Result<()> {
        let op = "save";
        let mut metadata: Metadata = safetensors::usual();
        metadata.insert(FORMAT.to_owned(), "1".to_owned());
        for (number, entry) in self.entries.iter().enumerate() {
            // The numbers keep the order.
            metadata.insert(format!("{ENTRY}{number:06}.{}", entry.name), entry.kind.clone());
        }
        let parts = self.entries.iter().flat_map(|entry| {
            entry.state.iter().map(|(name, tensor)| (format!("{}.{name}", entry.name), tensor.clone()))
        });
        let state: StateDict = parts.chain([(sealed::NAME.to_owned(), sealed::room())]).collect();
        write_named(op, path, &|out| {
            let mut sealing = Sealing::new(out);
            safetensors::save_to(op, &state, Some(&metadata), &mut sealing)?;
            Ok(sealing.finish()?)
        })
    }

    /// Reads a file that [`Checkpoint::save`] has written. A file that a single bit of differs is refused.
    ///
    /// # Errors
    /// Of kind `Io`, with the path, if it cannot be read; `Malformed` if it is damaged, or no checkpoint.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        Checkpoint::read(path.as_ref()).here()
    }

    fn read(path: &Path) -> Result<Checkpoint> {
        Checkpoint::parse(path, &read_bytes("open", path)?)
    }

    /// The checkpoint of a file with these bytes.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Checkpoint> {
        let op = "open";
        let malformed = |problem: &str, cure| {
            let (path, problem) = (path.display().to_string(), problem.to_owned());
            refuse(FileFacts::Malformed { op, path, problem, cure })
        };
        let (mut state, metadata) = safetensors::from_file(op, path, bytes)?;
        let metadata = metadata.unwrap_or_default();
        if !metadata.contains_key(FORMAT) || state.remove(sealed::NAME).is_none() {
            return malformed(
                "this is no checkpoint of a run",
                "weights alone are read by load and load_file",
            );
        }
        if !sealed::is_whole(bytes) {
            return malformed(
                "the checksum is not that of the bytes",
                "the file is damaged; take an earlier checkpoint",
            );
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (key, kind) in metadata {
            // entry.000001.name
            let name = key.strip_prefix(ENTRY).and_then(|numbered| numbered.split_once('.'));
            if let Some((_, name)) = name {
                entries.push(Entry { name: name.to_owned(), kind, state: StateDict::new() });
            }
        }
        distribute(state, &mut entries);
        Ok(Checkpoint { entries, path: Some(path.to_owned()) })
    }
}

/// Gives each entry its tensors, under the names that they have in it.
fn distribute(state: StateDict, entries: &mut [Entry]) {
    let mut parts: HashMap<String, Vec<(String, Tensor)>> = HashMap::new();
    for (key, tensor) in state {
        if let Some((entry, name)) = key.split_once('.') {
            parts.entry(entry.to_owned()).or_default().push((name.to_owned(), tensor));
        }
    }
    for entry in entries {
        entry.state = parts.remove(&entry.name).unwrap_or_default().into_iter().collect();
    }
}

impl fmt::Debug for Checkpoint {
    /// Names and kinds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|entry| (&entry.name, &entry.kind))).finish()
    }
}

#[cfg(test)]
mod tests;
