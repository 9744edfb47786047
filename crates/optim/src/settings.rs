//! The settings of an optimiser, group by group, and which parameter is in which group.

use std::fmt;
use std::sync::Arc;

use foldback_tensor::{Here, StateCell, refuse};

use crate::error::{OptimFacts, Result};
use crate::group::Group;
use crate::setting::{Domain, Setting};

/// The settings of an optimiser, by PyTorch's names and group by group: a handle, as a clone of the optimiser is.
///
/// Every setting is a number; a flag is 0 or 1. `betas` are `beta1` and `beta2`.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{Optimizer, SGD};
/// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 0.1).momentum(0.9);
/// assert_eq!(sgd.settings().get("momentum"), Some(vec![0.9]));
/// sgd.settings().set("momentum", &[0.5])?;
/// assert_eq!(sgd.settings().get("momentum"), Some(vec![0.5]));
/// assert_eq!(sgd.settings().get("eps"), None);
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[derive(Clone)]
pub struct Settings {
    optimizer: &'static str,
    table: &'static [Setting],
    cell: Arc<StateCell<Arc<Groups>>>,
}

/// Behind an `Arc`: a step reads them without a copy.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// whether the first one is of those that no `group` has taken
    pub(crate) has_rest: bool,
    /// which group each parameter is in
    pub(crate) of: Vec<usize>,
    pub(crate) each: Vec<Values>,
}

/// The settings of a group.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// in the order of the table
    pub(crate) numbers: Vec<f64>,
    /// which of them the group has of its own: a setter of the optimiser leaves these alone
    own: Vec<bool>,
    /// the rate that schedules start from, once there is one
    pub(crate) initial_lr: Option<f64>,
}

impl Settings {
    /// One group of so many parameters, with the defaults.
    pub(crate) fn new(optimizer: &'static str, table: &'static [Setting], parameters: usize) -> Settings {
        let numbers: Vec<f64> = table.iter().map(|s| s.default).collect();
        let own = vec![false; table.len()];
        let each = vec![Values { numbers, own, initial_lr: None }];
        let groups = Groups { has_rest: true, of: vec![0; parameters], each };
        Settings { optimizer, table, cell: Arc::new(StateCell::new(Arc::new(groups))) }
    }

    /// All of them as they are now.
    pub(crate) fn read(&self) -> Arc<Groups> {
        self.cell.read()
    }

    pub(crate) fn replace(&self, groups: Groups) {
        drop(self.cell.replace(Arc::new(groups)));
    }

    /// Whether both are handles on the same settings.
    pub(crate) fn is_same(&self, other: &Settings) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }

    /// How many groups there are.
    pub fn num_groups(&self) -> usize {
        self.read().each.len()
    }

    /// A setting in every group; `None` if the optimiser has no such setting.
    pub fn get(&self, name: &str) -> Option<Vec<f64>> {
        let at = self.table.iter().position(|s| s.name == name)?;
        Some(self.read().each.iter().map(|values| values.numbers[at]).collect())
    }

    /// Changes a setting in every group, from the next step on.
    ///
    /// # Errors
    /// `Setting` if the optimiser has no such setting, `Groups` if there are more or fewer numbers than groups,
    /// `Parameter` if one is outside its domain. Nothing is changed then.
    #[track_caller]
    pub fn set(&self, name: &str, numbers: &[f64]) -> Result<()> {
        let at = self.find(name).here()?;
        for &number in numbers {
            self.table[at].check(self.optimizer, number).here()?;
        }
        self.set_unchecked(at, numbers).here()
    }

    /// Sets a rate that a schedule has computed, which may have any sign but must be finite.
    pub(crate) fn set_scheduled(&self, schedule: &'static str, name: &str, numbers: &[f64]) -> Result<()> {
        if let Some(&value) = numbers.iter().find(|v| !v.is_finite()) {
            let (name, expected) =
                ("the computed rate", "a finite number: look at the settings of the schedule");
            return refuse(OptimFacts::Parameter { optimizer: schedule, name, value, expected });
        }
        self.set_unchecked(self.find(name)?, numbers)
    }

    fn set_unchecked(&self, at: usize, numbers: &[f64]) -> Result<()> {
        self.change(|groups| {
            let (expected, found) = (groups.each.len(), numbers.len());
            if expected != found {
                return refuse(OptimFacts::Groups { optimizer: self.optimizer, expected, found });
            }
            for (values, &number) in groups.each.iter_mut().zip(numbers) {
                values.numbers[at] = number;
            }
            Ok(())
        })
    }

    fn find(&self, name: &str) -> Result<usize> {
        match self.table.iter().position(|s| s.name == name) {
            Some(at) => Ok(at),
            None => {
                let known = self.table.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
                refuse(OptimFacts::Setting { optimizer: self.optimizer, name: name.to_owned(), known })
            }
        }
    }

    /// Where the settings of a group stand in the table, and its numbers, which have been checked.
    fn checked(&self, group: &Group) -> Result<Vec<(usize, f64)>> {
        let each = group.settings.iter().map(|&(name, number)| {
            let at = self.find(name)?;
            self.table[at].check(self.optimizer, number)?;
            Ok((at, number))
        });
        each.collect()
    }

    /// Gives all groups settings, except where they have their own, unless `check` refuses what comes out.
    pub(crate) fn set_for_all(&self, group: &Group, check: fn(&[f64]) -> Result<()>) -> Result<()> {
        let settings = self.checked(group)?;
        self.change(|groups| {
            let mut each = groups.each.clone();
            for values in &mut each {
                for &(at, number) in &settings {
                    if !values.own[at] {
                        values.numbers[at] = number;
                    }
                }
                check(&values.numbers)?;
            }
            groups.each = each;
            Ok(())
        })
    }

    /// Takes members out of the first group and makes them one of their own. The first group ends where it is empty.
    pub(crate) fn split(&self, members: &[usize], group: &Group) -> Result<()> {
        let settings = self.checked(group)?;
        self.change(|groups| {
            let mut values = groups.each[0].clone();
            for (at, number) in settings {
                (values.numbers[at], values.own[at]) = (number, true);
            }
            groups.each.push(values);
            for &member in members {
                groups.of[member] = groups.each.len() - 1;
            }
            if !groups.of.contains(&0) {
                groups.has_rest = false;
                groups.each.remove(0);
                groups.of.iter_mut().for_each(|of| *of -= 1);
            }
            Ok(())
        })
    }

    /// The rates that schedules start from: the present ones, unless an earlier schedule has noted others.
    pub(crate) fn initial_lrs(&self) -> Vec<f64> {
        let lr = self.find("lr").expect("every optimiser has a learning rate");
        let noted = self.change(|groups| {
            let each = groups.each.iter_mut();
            Ok(each.map(|v| *v.initial_lr.get_or_insert(v.numbers[lr])).collect())
        });
        noted.expect("nothing is refused")
    }

    pub(crate) fn set_initial_lrs(&self, rates: &[f64]) {
        let done = self.change(|groups| {
            groups.each.iter_mut().zip(rates).for_each(|(v, &rate)| v.initial_lr = Some(rate));
            Ok(())
        });
        done.expect("nothing is refused");
    }

    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut Groups) -> Result<T>) -> Result<T> {
        self.cell.update(|groups| f(Arc::make_mut(groups)))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Shown<'a>(&'a [Setting], &'a [f64]);
        impl fmt::Debug for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct("Group");
                self.0.iter().zip(self.1).for_each(|(s, number)| {
                    match s.domain {
                        Domain::Flag => shown.field(s.name, &(*number == 1.0)),
                        whole if whole.is_whole() => shown.field(s.name, &(*number as u64)),
                        _ => shown.field(s.name, number),
                    };
                });
                shown.finish()
            }
        }
        let groups = self.read();
        f.debug_list().entries(groups.each.iter().map(|v| Shown(self.table, &v.numbers))).finish()
    }
}
