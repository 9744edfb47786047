//! What was measured, as a table and as a trace.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

/// An operation, or a node of a backward pass, and when it ran.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) op: &'static str,
    pub(super) location: &'static Location<'static>,
    pub(super) backward: bool,
    /// since the profile began
    pub(super) start: u64,
    pub(super) nanoseconds: u64,
    /// without what ran inside it
    pub(super) own: u64,
    /// of the results
    pub(super) bytes: usize,
}

/// What [`profile`](crate::profile()) has measured: a table by `{}`, a trace by [`Profile::chrome_trace`].
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(super) events: Vec<Event>,
}

/// What all calls of one operation took. Times are nanoseconds, without those of operations inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileLine {
    /// the operation
    pub op: &'static str,
    /// how often it was called
    pub calls: usize,
    /// how long these took
    pub forward: u64,
    /// how often its node ran in a backward pass
    pub backward_calls: usize,
    /// how long these took, what became of the gradients included: folds, casts, sums
    pub backward: u64,
    /// how many bytes its results take, views included
    pub bytes: usize,
}

impl Profile {
    /// A line per operation, those that took longest first.
    pub fn lines(&self) -> Vec<ProfileLine> {
        let mut lines: BTreeMap<&'static str, ProfileLine> = BTreeMap::new();
        for e in &self.events {
            let new =
                ProfileLine { op: e.op, calls: 0, forward: 0, backward_calls: 0, backward: 0, bytes: 0 };
            let line = lines.entry(e.op).or_insert(new);
            if e.backward {
                (line.backward_calls, line.backward) = (line.backward_calls + 1, line.backward + e.own);
            } else {
                (line.calls, line.forward) = (line.calls + 1, line.forward + e.own);
            }
            line.bytes += e.bytes;
        }
        let mut lines: Vec<_> = lines.into_values().collect();
        lines.sort_by_key(|l| std::cmp::Reverse(l.forward + l.backward));
        lines
    }

    /// Everything that ran, in the trace format of Chrome (`chrome://tracing`, <https://ui.perfetto.dev>): an event each, with
    /// the line that recorded it.
    pub fn chrome_trace(&self) -> String {
        let mut events: Vec<&Event> = self.events.iter().collect();
        events.sort_by_key(|e| (e.start, std::cmp::Reverse(e.nanoseconds)));
        let event = |e: &&Event| {
            let category = if e.backward { "backward" } else { "forward" };
            let (start, took) = (e.start as f64 / 1e3, e.nanoseconds as f64 / 1e3);
            format!(
                "{{\"name\":\"{}\",\"cat\":\"{category}\",\"ph\":\"X\",\"ts\":{start:.3},\"dur\":{took:.3},\"pid\":1,\"tid\":1,\
                 \"args\":{{\"recorded\":\"{}\",\"bytes\":{}}}}}",
                escaped(e.op),
                escaped(&e.location.to_string()),
                e.bytes
            )
        };
        format!("{{\"traceEvents\":[{}]}}", events.iter().map(event).collect::<Vec<_>>().join(",\n"))
    }
}

/// For a string in JSON.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let width = lines.iter().map(|l| l.op.len()).chain([9]).max().unwrap_or(9);
        writeln!(f, "{:width$}  calls  forward us  backward calls  backward us       bytes", "operation")?;
        for l in &lines {
            let (forward, backward) = (l.forward as f64 / 1e3, l.backward as f64 / 1e3);
            writeln!(
                f,
                "{:width$}  {:5}  {forward:10.1}  {:14}  {backward:11.1}  {:10}",
                l.op, l.calls, l.backward_calls, l.bytes
            )?;
        }
        Ok(())
    }
}
