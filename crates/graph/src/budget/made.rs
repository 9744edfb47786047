//! `Made`: a result of an operation that was recorded within a budget. It is kept, or it can be computed again.
//!
//! Note [Given up]
//! A value is kept while a node has it among its saved values. It is given up if what it is made of is there anyway: kept,
//! given up itself, or made of such values; these are then *needed* and stay as long as the value's handle. So whatever
//! is given up can be computed, and what is given up takes no memory with it that was not taken before.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldback_tensor::{Shape, StateCell, Tensor};
use smallvec::SmallVec;

use super::account::{Account, Deposit};
use crate::slot::RuleValue;

/// A result, for all nodes that save it.
pub(crate) struct Made {
    /// larger than those of what it is made of
    pub(super) number: u64,
    pub(crate) shape: Shape,
    pub(crate) bytes: usize,
    /// none if it cannot be computed again, or not cheaply
    pub(super) recipe: Option<Recipe>,
    account: Arc<Account>,
    standing: StateCell<Standing>,
}

/// How to compute a value.
pub(crate) struct Recipe {
    pub(crate) value: RuleValue,
    pub(crate) numbers: [f64; 2],
    pub(crate) sources: SmallVec<[MadeOf; 2]>,
}

/// What a value is made of.
pub(crate) enum MadeOf {
    /// kept with it
    Base(Deposit),
    Made(Arc<Made>),
}

#[derive(Default)]
struct Standing {
    kept: Option<Deposit>,
    /// how many nodes have it among their saved values
    keepers: usize,
    /// whether it is to stay for another value's sake
    is_needed: bool,
    /// the bytes that were gained by giving it up
    given_up: Option<usize>,
}

/// More operations than that are not gone through to find what a value is made of.
const FARTHEST: usize = 256;

impl Made {
    pub(crate) fn new(
        shape: Shape,
        bytes: usize,
        recipe: Option<Recipe>,
        account: &Arc<Account>,
    ) -> Arc<Made> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Made {
            number,
            shape,
            bytes,
            recipe,
            account: account.clone(),
            standing: StateCell::default(),
        })
    }

    /// The value, if it is kept.
    pub(super) fn kept(&self) -> Option<Tensor> {
        self.standing.update(|now| now.kept.as_ref().map(|deposit| deposit.tensor.clone()))
    }

    /// The value, if it is kept for others' sake.
    pub(super) fn kept_for_others(&self) -> Option<Tensor> {
        if self.standing.update(|now| now.is_needed) { self.kept() } else { None }
    }

    /// How it is computed again: it has been given up, or another one is made of it that has.
    pub(super) fn recipe(&self) -> &Recipe {
        self.recipe.as_ref().expect("what is given up has a recipe")
    }

    /// The values that it is made of.
    pub(super) fn made_of(&self) -> impl Iterator<Item = &Arc<Made>> {
        self.recipe.iter().flat_map(|r| &r.sources).filter_map(|source| match source {
            MadeOf::Made(made) => Some(made),
            MadeOf::Base(_) => None,
        })
    }

    /// Whether it can be had, and will be.
    fn is_assured(&self) -> bool {
        self.standing.update(|now| now.is_needed || now.given_up.is_some())
    }

    /// Has it stay if it is there or can be computed.
    fn need(&self) -> bool {
        self.standing.update(|now| {
            now.is_needed |= now.kept.is_some();
            now.is_needed || now.given_up.is_some()
        })
    }

    /// Gives up the kept value, if it can be had without: see Note [Given up].
    pub(super) fn give_up(&self) -> bool {
        let (mut between, mut bases, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut stack: Vec<&Arc<Made>> = self.made_of().collect();
        while let Some(made) = stack.pop() {
            if made.is_assured() || !seen.insert(made.number) {
                continue;
            }
            if made.kept().is_some() {
                bases.push(made);
            } else if made.recipe.is_none() || between.len() == FARTHEST {
                return false;
            } else {
                between.push(made);
                stack.extend(made.made_of());
            }
        }
        // It would be computed again for nothing.
        if self.kept().is_none_or(|t| self.account.keeps_twice(&t)) {
            return false;
        }
        // Another thread's pass may free what was there.
        if self.recipe.is_none() || !bases.iter().all(|made| made.need()) {
            return false;
        }
        between.iter().for_each(|made| made.standing.update(|now| now.is_needed = true));
        let before = self.account.kept();
        drop(self.standing.update(|now| {
            now.given_up = Some(0);
            now.kept.take()
        }));
        let gained = before.saturating_sub(self.account.kept());
        self.standing.update(|now| now.given_up = Some(gained));
        self.account.add_given_up(gained);
        true
    }
}

impl Drop for Made {
    /// A chain is dropped without recursion.
    fn drop(&mut self) {
        if let Some(gained) = self.standing.get_mut().given_up {
            self.account.remove_given_up(gained);
        }
        let Some(recipe) = &mut self.recipe else { return };
        let mut rest = std::mem::take(&mut recipe.sources);
        while let Some(source) = rest.pop() {
            if let MadeOf::Made(made) = source
                && let Some(mut made) = Arc::into_inner(made)
                && let Some(recipe) = &mut made.recipe
            {
                rest.extend(std::mem::take(&mut recipe.sources));
            }
        }
    }
}

/// A node's hold on a value that it saves.
pub(crate) struct Keeper(Arc<Made>);

impl Keeper {
    pub(crate) fn new(made: Arc<Made>, t: &Tensor) -> Keeper {
        made.standing.update(|now| {
            now.keepers += 1;
            if now.given_up.is_none() && now.kept.is_none() {
                now.kept = Some(Deposit::new(t.clone(), &made.account));
            }
        });
        Keeper(made)
    }

    pub(crate) fn made(&self) -> &Arc<Made> {
        &self.0
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.standing.update(|now| {
            now.keepers -= 1;
            if now.keepers == 0 && !now.is_needed { now.kept.take() } else { None }
        }));
    }
}
