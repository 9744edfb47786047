//! The command line of `compare`.

use std::path::PathBuf;

use crate::workloads::Workload;

/// What `compare --help` prints.
pub const USAGE: &str = "\
usage: cargo run --release -p benches [--features peers] --bin compare -- [options]

  --threads LIST    thread counts, 1,2 unless given
  --only LIST       workloads: W3,W8; W12 means all that begin with it
  --quick           few samples: for a glance
  --best            compare the fastest samples, not the medians (on a busy machine)
  --mix SEED        in another order, in memory that buffers of other sizes have gone through, and nothing given back in between
  --rounds N        do everything N times; of each time the smallest counts, for everybody
  --python PATH     also run PyTorch and JAX with this interpreter; may be given more than once
  --markdown FILE   also write the tables there, between the lines <!-- results --> and <!-- end of results -->
  --list            print the workloads and stop
  --help            print this and stop
";

/// What to run and where to write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    /// thread counts, in order
    pub threads: Vec<usize>,
    /// names of workloads; empty means all
    pub only: Vec<String>,
    /// few samples
    pub quick: bool,
    /// judge by the fastest sample
    pub best: bool,
    /// the seed of another order and of other buffers, where workloads are to stand in each other's way; else 0
    pub mix: u32,
    /// how often everything is measured
    pub rounds: usize,
    /// interpreters, each with some of the Python peers
    pub python: Vec<PathBuf>,
    /// where the tables are written, beside the terminal
    pub markdown: Option<PathBuf>,
    /// print the workloads only
    pub list: bool,
    /// print the usage only
    pub help: bool,
}

impl Arguments {
    /// Reads the words behind the program's name.
    ///
    /// # Errors
    /// A sentence that says which word is wrong.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments { threads: vec![1, 2], rounds: 1, ..Arguments::default() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (option, attached) = match word.split_once('=') {
                Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let mut value = || {
                let value = attached.clone().or_else(|| words.next());
                value.filter(|v| !v.is_empty()).ok_or_else(|| format!("{option} needs a value"))
            };
            match option.as_str() {
                "--threads" => arguments.threads = thread_counts(&value()?)?,
                "--rounds" => arguments.rounds = count("--rounds", &value()?)?,
                "--mix" => arguments.mix = seed(&value()?)?,
                "--only" => arguments.only = value()?.split(',').map(|s| s.trim().to_owned()).collect(),
                "--python" => arguments.python.push(value()?.into()),
                "--markdown" => arguments.markdown = Some(value()?.into()),
                flag if attached.is_some() => return Err(format!("{flag} is unknown or takes no value")),
                "--quick" => arguments.quick = true,
                "--best" => arguments.best = true,
                "--list" => arguments.list = true,
                "--help" | "-h" => arguments.help = true,
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(arguments)
    }

    /// The workloads that are meant.
    ///
    /// # Errors
    /// If a name means none.
    pub fn select(&self, all: Vec<Workload>) -> Result<Vec<Workload>, String> {
        if let Some(name) = self.only.iter().find(|name| !all.iter().any(|w| w.is_meant_by(name))) {
            return Err(format!("--only: no workload is called {name:?}; --list prints them"));
        }
        let is_meant =
            |w: &Workload| self.only.is_empty() || self.only.iter().any(|name| w.is_meant_by(name));
        Ok(all.into_iter().filter(is_meant).collect())
    }
}

fn thread_counts(list: &str) -> Result<Vec<usize>, String> {
    list.split(',').map(|word| count("--threads", word)).collect()
}

fn count(option: &str, word: &str) -> Result<usize, String> {
    match word.trim().parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{option}: {word:?} is no number above zero")),
    }
}

fn seed(word: &str) -> Result<u32, String> {
    let n = count("--mix", word)?;
    u32::try_from(n).map_err(|_| format!("--mix: {word:?} is no number below 2^32"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn all_options() {
        let a =
            parse("--threads 1,4 --only=W3,w8 --quick --best --python p --python=q --markdown f.md").unwrap();
        assert_eq!(a.threads, [1, 4]);
        assert_eq!(a.only, ["W3", "w8"]);
        assert!(a.quick && a.best && !a.list && !a.help);
        assert_eq!(a.python, [PathBuf::from("p"), PathBuf::from("q")]);
        assert_eq!(a.markdown, Some(PathBuf::from("f.md")));
        let a = parse("").unwrap();
        assert_eq!((a.threads, a.rounds), (vec![1, 2], 1));
        assert_eq!(parse("--rounds 3").unwrap().rounds, 3);
        assert!(parse("--rounds none").is_err());
        assert_eq!((a.mix, parse("--mix 7").unwrap().mix), (0, 7));
        assert!(parse("--mix 0").is_err() && parse("--mix 4294967296").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |line| parse(line).unwrap_err();
        assert_eq!(error("--thread 1"), "unknown option --thread");
        assert_eq!(error("W3"), "unknown option W3");
        assert_eq!(error("--threads 1,0"), "--threads: \"0\" is no number above zero");
        assert_eq!(error("--only"), "--only needs a value");
        assert_eq!(error("--python="), "--python needs a value");
        assert_eq!(error("--quick=yes"), "--quick is unknown or takes no value");
    }

    #[test]
    fn selection_keeps_the_order_and_refuses_unknown_names() {
        let keys = |line: &str| {
            let list = parse(line).unwrap().select(workloads::all())?;
            Ok::<_, String>(list.iter().map(|w| w.key).collect::<Vec<_>>())
        };
        assert_eq!(keys("--only W4,W1").unwrap(), ["W1", "W4", "W4-fuse"]);
        assert!(keys("").unwrap().len() > 30);
        assert!(keys("--only W1,W99").unwrap_err().contains("\"W99\""));
    }
}
