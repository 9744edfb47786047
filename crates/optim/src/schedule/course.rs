//! What schedules share: a place in a course, and the settings that it changes.

use std::sync::Arc;

use foldback_tensor::{Here, StateDict, Tensor, refuse};

use super::Schedule;
use crate::Optimizer;
use crate::error::{OptimFacts, Result};
use crate::saved::Reader;
use crate::settings::{Groups, Settings};

/// Where a schedule stands.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    name: &'static str,
    pub(crate) settings: Settings,
    /// the rates that it starts from
    pub(crate) base: Vec<f64>,
    pub(crate) epoch: i64,
    /// the settings when it was made, for setters that begin again
    before: Arc<Groups>,
}

/// New rates, and momenta of schedules that change them.
pub(crate) struct Rates {
    pub(crate) lrs: Vec<f64>,
    pub(crate) momenta: Option<Vec<f64>>,
}

impl From<Vec<f64>> for Rates {
    fn from(lrs: Vec<f64>) -> Rates {
        Rates { lrs, momenta: None }
    }
}

impl Course {
    pub(crate) fn new(name: &'static str, optimizer: &dyn Optimizer) -> Course {
        let settings = optimizer.settings().clone();
        let before = settings.read();
        Course { name, base: vec![0.0; before.each.len()], settings, epoch: 0, before }
    }

    /// Refuses with the schedule's name.
    pub(crate) fn refuse<T>(&self, problem: impl Into<String>) -> Result<T> {
        refuse(OptimFacts::Refused { of: self.name, problem: problem.into() })
    }

    /// Refuses a setting unless it holds.
    pub(crate) fn check(
        &self,
        holds: bool,
        name: &'static str,
        value: f64,
        expected: &'static str,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        refuse(OptimFacts::Parameter { optimizer: self.name, name, value, expected })
    }

    pub(crate) fn lrs(&self) -> Vec<f64> {
        self.settings.get("lr").expect("every optimiser has a learning rate")
    }

    /// The name of the momentum, if the optimiser has one.
    pub(crate) fn momentum(&self) -> Option<&'static str> {
        ["beta1", "momentum"].into_iter().find(|name| self.settings.get(name).is_some())
    }

    /// One number for each group.
    pub(crate) fn by_group(&self, numbers: &PerGroup) -> Result<Vec<f64>> {
        let expected = self.base.len();
        match numbers {
            PerGroup::Same(number) => Ok(vec![*number; expected]),
            PerGroup::Each(all) if all.len() == expected => Ok(all.clone()),
            PerGroup::Each(all) => {
                refuse(OptimFacts::Groups { optimizer: self.name, expected, found: all.len() })
            }
        }
    }

    /// Refuses setters behind the first step.
    pub(crate) fn expect_at_start(&self) -> Result<()> {
        if self.epoch == 0 {
            return Ok(());
        }
        self.refuse("is under way: its setters belong directly behind `new`")
    }

    /// Comes to a place, with new rates.
    pub(crate) fn go_to(&mut self, epoch: i64, rates: &Rates) -> Result<()> {
        if let (Some(momenta), Some(name)) = (&rates.momenta, self.momentum()) {
            self.settings.set_scheduled(self.name, name, momenta)?;
        }
        self.settings.set_scheduled(self.name, "lr", &rates.lrs)?;
        self.epoch = epoch;
        Ok(())
    }
}

/// A schedule as a function from the place in its course and the present rates to new ones.
pub(crate) trait ScheduleRule: Send + Sync {
    fn course(&self) -> &Course;
    fn course_mut(&mut self) -> &mut Course;

    /// Refuses what its arguments and setters may not be.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Notes the rates that it starts from.
    fn prepare(&mut self) -> Result<()> {
        let base = self.course().settings.initial_lrs();
        self.course_mut().base = base;
        Ok(())
    }

    /// Comes to a place in its course.
    fn enter(&mut self, _epoch: i64) {}

    /// The rates there; `initial` when it is being made.
    fn rates(&self, epoch: i64, lrs: &[f64], initial: bool) -> Result<Rates>;

    /// The first rates of a part of a sequence whose turn has come.
    fn anew(&self, lrs: &[f64]) -> Result<Rates> {
        self.rates(0, lrs, false)
    }

    /// What it keeps beside its place, by name.
    fn more(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Whether these can be what [`ScheduleRule::more`] told.
    fn has_place_for(&self, _numbers: &[f64]) -> bool {
        true
    }

    fn load_more(&mut self, _numbers: &[f64]) {}

    /// The settings of the optimiser as they were before, and then the first rates.
    fn begin_again(&mut self) -> Result<()>
    where
        Self: Sized,
    {
        self.check()?;
        self.course().expect_at_start()?;
        let Course { settings, before, .. } = self.course().clone();
        settings.replace(Groups::clone(&before));
        let begun = self.prepare().and_then(|()| self.begin());
        if begun.is_err() {
            settings.replace(Groups::clone(&before));
        }
        begun
    }
}

impl<R: ScheduleRule> Schedule for R {
    #[track_caller]
    fn step(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        expect_same(self.course().name, &self.course().settings, optimizer).here()?;
        self.advance().here()
    }

    fn state_dict(&self) -> StateDict {
        let course = self.course();
        let mut state = StateDict::from_iter([
            ("last_epoch", Tensor::from(course.epoch)),
            ("base_lrs", Tensor::from(course.base.clone())),
            ("lrs", Tensor::from(course.lrs())),
        ]);
        if let Some(momenta) = course.momentum().and_then(|name| course.settings.get(name)) {
            state.insert("momenta", Tensor::from(momenta));
        }
        for (name, number) in self.more() {
            state.insert(name, Tensor::from(number));
        }
        state
    }

    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        load(self, state).here()
    }

    fn name(&self) -> &'static str {
        self.course().name
    }

    fn begin(&mut self) -> Result<()> {
        self.enter(0);
        let rates = self.rates(0, &self.course().lrs(), true)?;
        self.course_mut().go_to(0, &rates)
    }

    fn advance(&mut self) -> Result<()> {
        let epoch = self.course().epoch.saturating_add(1);
        self.enter(epoch);
        let rates = self.rates(epoch, &self.course().lrs(), false)?;
        if rates.momenta.is_some() && self.course().momentum().is_none() {
            return self
                .course()
                .refuse("the optimiser has no momentum to cycle: add .cycle_momentum(false)");
        }
        self.course_mut().go_to(epoch, &rates)
    }

    fn restart(&mut self) -> Result<()> {
        self.enter(0);
        let rates = self.anew(&self.course().lrs())?;
        self.course_mut().go_to(0, &rates)
    }

    fn undo(&mut self) {
        self.course_mut().epoch -= 1;
    }

    fn scheduled(&self) -> &Settings {
        &self.course().settings
    }
}

fn load<R: ScheduleRule>(rule: &mut R, state: &StateDict) -> Result<()> {
    let course = rule.course();
    let mut reader = Reader::new(course.name, state);
    let (groups, momentum) = (course.base.len(), course.momentum());
    let epoch = reader.whole("last_epoch", -1)?;
    let base = reader.numbers("base_lrs", groups)?;
    let lrs = reader.numbers("lrs", groups)?;
    let momenta = match momentum {
        Some(_) => Some(reader.numbers("momenta", groups)?),
        None => None,
    };
    let more: Result<Vec<f64>> = rule.more().iter().map(|(name, _)| reader.number(name)).collect();
    let more = more?;
    if !rule.has_place_for(&more) {
        let names = rule.more().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return reader.refuse(format!("{names} are {more:?}, which no step of this schedule leads to"));
    }
    reader.finish()?;
    let course = rule.course_mut();
    course.go_to(epoch, &Rates { lrs, momenta })?;
    course.base = base;
    rule.load_more(&more);
    Ok(())
}

/// Refuses another optimiser than the schedule's.
pub(crate) fn expect_same(of: &'static str, own: &Settings, optimizer: &dyn Optimizer) -> Result<()> {
    if own.is_same(optimizer.settings()) {
        return Ok(());
    }
    let problem = "this is not the optimiser that the schedule was made of: give that one, or make a schedule of this one";
    refuse(OptimFacts::Refused { of, problem: problem.into() })
}

/// A number for all groups of parameters (`0.1`), or one for each (`[0.1, 0.01]`).
#[derive(Clone, Debug, PartialEq)]
pub enum PerGroup {
    /// one for all
    Same(f64),
    /// one for each, in order
    Each(Vec<f64>),
}

impl From<f64> for PerGroup {
    fn from(number: f64) -> PerGroup {
        PerGroup::Same(number)
    }
}

impl From<Vec<f64>> for PerGroup {
    fn from(numbers: Vec<f64>) -> PerGroup {
        PerGroup::Each(numbers)
    }
}

impl From<&[f64]> for PerGroup {
    fn from(numbers: &[f64]) -> PerGroup {
        PerGroup::Each(numbers.to_vec())
    }
}

impl<const N: usize> From<[f64; N]> for PerGroup {
    fn from(numbers: [f64; N]) -> PerGroup {
        PerGroup::Each(numbers.to_vec())
    }
}

/// Defines a schedule: its documentation, its name and arguments, and its setters with their defaults. Its [`ScheduleRule`] is
/// written beside it.
macro_rules! schedule {
    (
        $(#[$doc:meta])*
        $name:ident, $text:literal ( $($arg:ident: $arg_ty:ty => $kept_ty:ty),* );
        settings { $( $help:literal $setter:ident / $try_setter:ident ( $ty:ty => $field_ty:ty = $default:expr ); )* }
        $(keeps { $($kept:ident: $kept_field_ty:ty = $start:expr;)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            course: $crate::schedule::course::Course,
            $($arg: $kept_ty,)*
            $($setter: $field_ty,)*
            $($($kept: $kept_field_ty,)*)?
        }

        impl $name {
            #[doc = concat!("A schedule of an optimiser, whose rates change at once where `", $text, "` begins with others.")]
            ///
            /// # Panics
            /// Where `try_new` returns an error.
            #[track_caller]
            pub fn new(optimizer: &dyn $crate::Optimizer $(, $arg: $arg_ty)*) -> $name {
                foldback_tensor::or_panic($name::try_new(optimizer $(, $arg)*))
            }

            /// `new` that returns an error instead of panicking.
            ///
            /// # Errors
            /// `Parameter` if an argument is outside its domain; `Groups` if there are more or fewer numbers than groups.
            /// The optimiser is as before then.
            #[track_caller]
            pub fn try_new(optimizer: &dyn $crate::Optimizer $(, $arg: $arg_ty)*) -> $crate::Result<$name> {
                use foldback_tensor::Here;
                let mut schedule = $name {
                    course: $crate::schedule::course::Course::new($text, optimizer),
                    $($arg: $arg.into(),)*
                    $($setter: $default.into(),)*
                    $($($kept: $start,)*)?
                };
                schedule.begin_again().here()?;
                Ok(schedule)
            }

            $(
                #[doc = $help]
                ///
                /// # Panics
                #[doc = concat!("Where `", stringify!($try_setter), "` returns an error.")]
                #[must_use]
                #[track_caller]
                pub fn $setter(self, $setter: $ty) -> $name {
                    foldback_tensor::or_panic(self.$try_setter($setter))
                }

                #[doc = concat!("`", stringify!($setter), "` that returns an error instead of panicking.")]
                ///
                /// # Errors
                /// `Parameter` if it is outside its domain; `Groups`; `Refused` behind the first step.
                #[track_caller]
                pub fn $try_setter(mut self, $setter: $ty) -> $crate::Result<$name> {
                    use foldback_tensor::Here;
                    self.$setter = $setter.into();
                    self.begin_again().here()?;
                    Ok(self)
                }
            )*
        }
    };
}

/// The parts of a [`ScheduleRule`] that are the same for all.
macro_rules! course {
    () => {
        fn course(&self) -> &$crate::schedule::course::Course {
            &self.course
        }
        fn course_mut(&mut self) -> &mut $crate::schedule::course::Course {
            &mut self.course
        }
    };
}

pub(crate) use {course, schedule};
