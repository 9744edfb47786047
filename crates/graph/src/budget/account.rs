//! What operations that were recorded within a budget keep, in bytes: each storage once.

use std::collections::HashMap;
use std::sync::Arc;

use foldback_tensor::{StateCell, Tensor};

/// The storages that are kept now, and what values are that were given up.
#[derive(Default)]
pub(crate) struct Account(StateCell<Book>);

#[derive(Default)]
struct Book {
    kept: usize,
    /// by storage, its bytes and how often it is kept
    storages: HashMap<usize, (usize, usize)>,
    given_up: usize,
    operations: usize,
}

impl Account {
    pub(super) fn kept(&self) -> usize {
        self.0.update(|book| book.kept)
    }

    /// The bytes that were given up, and how many operations' results these are.
    pub(super) fn given_up(&self) -> (usize, usize) {
        self.0.update(|book| (book.given_up, book.operations))
    }

    /// Whether somebody keeps a tensor's storage.
    pub(crate) fn keeps(&self, t: &Tensor) -> bool {
        t.holding().is_some_and(|h| self.0.update(|book| book.storages.contains_key(&h.storage)))
    }

    /// Whether a tensor's storage is kept more than once: by a view of it, for instance.
    pub(super) fn keeps_twice(&self, t: &Tensor) -> bool {
        t.holding()
            .is_some_and(|h| self.0.update(|book| book.storages.get(&h.storage).is_some_and(|s| s.1 > 1)))
    }

    pub(super) fn add_given_up(&self, bytes: usize) {
        self.0.update(|book| {
            book.given_up += bytes;
            book.operations += 1;
        });
    }

    pub(super) fn remove_given_up(&self, bytes: usize) {
        self.0.update(|book| {
            book.given_up -= bytes;
            book.operations -= 1;
        });
    }
}

/// A tensor that is kept and counted.
pub(crate) struct Deposit {
    // In this order: a storage is taken out of the books before it is freed, and another may have its address.
    _entry: Option<Entry>,
    pub(super) tensor: Tensor,
}

impl Deposit {
    pub(crate) fn new(tensor: Tensor, account: &Arc<Account>) -> Deposit {
        Deposit { _entry: Entry::of(&tensor, account), tensor }
    }

    /// One that lies in a leaf, or for other reasons does not count.
    pub(crate) fn uncounted(tensor: Tensor) -> Deposit {
        Deposit { _entry: None, tensor }
    }
}

/// A place in the books.
struct Entry {
    account: Arc<Account>,
    storage: usize,
}

impl Entry {
    /// None for a single number, which takes no storage.
    fn of(t: &Tensor, account: &Arc<Account>) -> Option<Entry> {
        let held = t.holding()?;
        account.0.update(|book| {
            let (_, times) = book.storages.entry(held.storage).or_insert((held.bytes, 0));
            *times += 1;
            if *times == 1 {
                book.kept += held.bytes;
            }
        });
        Some(Entry { account: account.clone(), storage: held.storage })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.account.0.update(|book| {
            let Some((bytes, times)) = book.storages.get_mut(&self.storage) else { return };
            *times -= 1;
            if *times == 0 {
                book.kept -= *bytes;
                book.storages.remove(&self.storage);
            }
        });
    }
}
