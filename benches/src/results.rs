//! The page of results: tables with what they were measured on, and its place in a file.

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::arguments::Arguments;
use crate::record::Record;
use crate::table::Report;

const START: &str = "<!-- results -->";
const END: &str = "<!-- end of results -->";

/// All tables, under what is to be said about the machine and the versions.
pub fn page(
    about: &[String; 2],
    report: &Report<'_>,
    notes: &[String],
    arguments: &Arguments,
    markdown: bool,
) -> String {
    let judged = if arguments.best { "fastest samples" } else { "medians" };
    let effort = if arguments.quick { ", quick" } else { "" };
    let rounds = match arguments.rounds {
        1 => String::new(),
        n => format!("; the smallest of {n} rounds"),
    };
    let mix = match arguments.mix {
        0 => String::new(),
        seed => format!("; mixed by seed {seed}"),
    };
    let [machine, versions] = about;
    let mut text = format!("{machine}\n\n{versions}\n\nTimes are {judged}{effort}{rounds}{mix}.\n");
    let mut section = |title: &str, body: &str| {
        let mark = if markdown { "### " } else { "" };
        write!(text, "\n{mark}{title}\n\n{body}").expect("a string takes all");
    };
    section("Limits of the machine", &report.limits().render(markdown));
    section("Foldback", &report.ours().render(markdown));
    if let Some(peers) = report.peers() {
        section("Peers: time in us, and its ratio to ours", &peers.render(markdown));
    }
    if !notes.is_empty() {
        let lines: String = notes.iter().map(|n| format!("- {n}\n")).collect();
        section("Notes", &lines);
    }
    text
}

/// Puts a result into the list; of two for the same runner and work the faster stays.
pub fn keep_faster(records: &mut Vec<Record>, new: Record) {
    let same =
        |r: &&mut Record| (&r.workload, &r.runner, r.threads) == (&new.workload, &new.runner, new.threads);
    match records.iter_mut().find(same) {
        None => records.push(new),
        Some(old) => match (&old.outcome, &new.outcome) {
            (Ok((a, _)), Ok((b, _))) if b.median < a.median => *old = new,
            (Err(_), Ok(_)) => *old = new,
            _ => {}
        },
    }
}

/// Writes the page between the two marks of a file, or as a file of its own if there is none with marks.
///
/// # Errors
/// If the file cannot be read or written, or exists without the marks: it is not overwritten.
pub fn write(path: &Path, page: &str) -> io::Result<()> {
    let text = match std::fs::read_to_string(path) {
        Ok(old) => between_marks(&old, page).ok_or_else(|| {
            let why = format!("{}: has no lines {START} and {END}; it is left as it is", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => format!("{START}\n\n{page}\n{END}\n"),
        Err(e) => return Err(e),
    };
    std::fs::write(path, text)
}

fn between_marks(old: &str, page: &str) -> Option<String> {
    let (before, rest) = old.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n\n{page}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Times;

    #[test]
    fn the_page_replaces_what_stood_between_the_marks() {
        let old = format!("# Title\n{START}\nold\n{END}\nend\n");
        let new = between_marks(&old, "new").unwrap();
        assert_eq!(new, format!("# Title\n{START}\n\nnew\n{END}\nend\n"));
        assert_eq!(between_marks("no marks", "new"), None);
    }

    #[test]
    fn files_without_marks_stay() {
        let dir = std::env::temp_dir().join(format!("foldback-benches-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("results.md");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("two") && !text.contains("one"));
        std::fs::write(&path, "mine").unwrap();
        assert!(write(&path, "three").unwrap_err().to_string().contains("left as it is"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn of_two_runs_the_faster_counts() {
        let record = |time: Option<f64>| Record {
            workload: "W1".into(),
            runner: "candle".into(),
            threads: 1,
            outcome: match time {
                Some(t) => Ok((Times { min: t, low: t, median: t, high: t }, vec![])),
                None => Err("failed".into()),
            },
        };
        let mut records = vec![record(None)];
        for time in [Some(3.0), Some(2.0), Some(4.0), None] {
            keep_faster(&mut records, record(time));
        }
        assert_eq!(records, [record(Some(2.0))]);
    }
}
