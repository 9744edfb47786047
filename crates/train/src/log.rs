//! Logs: rows of named numbers in files that other programs read.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Error, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use foldback_tensor::{Here, IoFacts, refuse};

use crate::error::{Result, TrainFacts};

/// Where the numbers of a run go.
pub trait Log {
    /// Writes a row: a step or an epoch, and numbers by name.
    ///
    /// # Errors
    /// Whatever the system says about writing; `Columns` where a file has columns, and these are others.
    fn log(&mut self, step: usize, values: &[(&str, f64)]) -> Result<()>;

    /// The run goes on at this step, from a checkpoint: rows from there on, which were written after it, will come again.
    /// The logs of this library take them from the end of their files; by default nothing is done. [`Fit`](crate::Fit) does not ask
    /// where there is no checkpoint, as what stands in the file may be another run's: one that was killed before its first checkpoint
    /// leaves its rows; nor where no epoch is left.
    ///
    /// # Errors
    /// Whatever the system says about reading and writing.
    fn go_on_at(&mut self, step: usize) -> Result<()> {
        let _ = step;
        Ok(())
    }

    /// Refuses what [`Log::go_on_at`] would, and changes nothing: a run asks all of its logs before the first one takes rows
    /// back. By default nothing is refused.
    ///
    /// # Errors
    /// Whatever the system says about reading.
    fn check_go_on_at(&self, step: usize) -> Result<()> {
        let _ = step;
        Ok(())
    }
}

/// Reads the step of a row.
type StepOf = fn(&str) -> Option<usize>;

/// A file and its name. Each row is written as a whole and at once: what was logged is there if the program is killed.
#[derive(Debug)]
struct Rows {
    name: String,
    path: PathBuf,
    file: File,
    /// whether the last row has no end: a full disk or a kill cut it off
    is_cut: bool,
}

impl Rows {
    fn open(path: &Path, options: &OpenOptions) -> Result<Rows> {
        let name = path.display().to_string();
        match options.open(path) {
            Ok(file) => Ok(Rows { name, path: path.to_owned(), file, is_cut: false }),
            Err(e) => Err(IoFacts::writing("log", name, &e)),
        }
    }

    fn write(&mut self, row: &str) -> Result<()> {
        let end = if self.is_cut { "\n" } else { "" };
        let done = self.file.write_all(format!("{end}{row}").as_bytes());
        self.is_cut = done.is_err();
        done.map_err(|e| IoFacts::writing("log", &self.name, &e))
    }

    /// A pipe or a device keeps nothing.
    fn is_file(&self) -> bool {
        self.file.metadata().is_ok_and(|of| of.is_file())
    }

    /// The bytes of the file, and how many of them are before the last rows that will come again; `step_of` reads the step of one.
    fn kept(&self, step: usize, step_of: StepOf) -> Result<(Vec<u8>, usize)> {
        if !self.is_file() {
            return Ok((Vec::new(), 0));
        }
        let whole = |bytes: Vec<u8>| {
            let same = self.file.metadata().is_ok_and(|of| of.len() == bytes.len() as u64);
            if same { Ok(bytes) } else { Err(Error::other("it is not the file that was opened")) }
        };
        let text = std::fs::read(&self.path).and_then(whole);
        let text = text.map_err(|e| IoFacts::reading("log", &self.name, &e))?;
        // What was cut off inside its step is nothing.
        let comes_again = |row: &&[u8]| match step_of(&String::from_utf8_lossy(row)) {
            Some(own) => own >= step,
            None => !row.ends_with(b"\n"),
        };
        let rows = text.split_inclusive(|&byte| byte == b'\n').rev();
        let kept = text.len() - rows.take_while(comes_again).map(<[u8]>::len).sum::<usize>();
        Ok((text, kept))
    }

    /// Takes away the last rows that will come again, and says whether these were all.
    fn cut(&mut self, step: usize, step_of: StepOf) -> Result<bool> {
        let (text, kept) = self.kept(step, step_of)?;
        if kept < text.len() {
            let cut = self.file.set_len(kept as u64).and_then(|()| self.file.seek(SeekFrom::End(0)));
            cut.map_err(|e| IoFacts::writing("log", &self.name, &e))?;
            self.is_cut = kept > 0 && text[kept - 1] != b'\n';
        }
        Ok(kept == 0 && !text.is_empty())
    }

    /// Opens a file to go on in it, on a line of its own.
    fn go_on(path: &Path) -> Result<Rows> {
        let mut rows = Rows::open(path, &further())?;
        rows.is_cut = ends_inside_a_line(path);
        Ok(rows)
    }
}

/// Whether a file ends without the end of a line; of a pipe or a device this is not known.
fn ends_inside_a_line(path: &Path) -> bool {
    let last = || -> std::io::Result<bool> {
        let (mut file, mut last) = (File::open(path)?, [b'\n']);
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(last != [b'\n'])
    };
    last().unwrap_or(false)
}

fn anew() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options
}

fn further() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    options
}

/// A log as CSV: `step` and the names of the first row as columns; each later row has the same names in the same order.
///
/// ```
/// use foldback_train::{CsvLog, Log};
/// let path = std::env::temp_dir().join(format!("run-{}.csv", std::process::id()));
/// let mut log = CsvLog::create(&path)?;
/// log.log(0, &[("loss", 0.5), ("accuracy", 0.25)])?;
/// log.log(1, &[("loss", 1e-7), ("accuracy", f64::NAN)])?;
/// assert_eq!(std::fs::read_to_string(&path)?, "step,loss,accuracy\n0,0.5,0.25\n1,1e-7,NaN\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[derive(Debug)]
pub struct CsvLog {
    rows: Rows,
    /// the first line, once there is one
    columns: Option<String>,
}

impl CsvLog {
    /// A new file, in the place of one of this name.
    ///
    /// # Errors
    /// Whatever the system says about making it.
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> Result<CsvLog> {
        Ok(CsvLog { rows: Rows::open(path.as_ref(), &anew()).here()?, columns: None })
    }

    /// Goes on with a file, as a resumed run does; makes one if there is none.
    ///
    /// # Errors
    /// Whatever the system says about reading and writing it.
    #[track_caller]
    pub fn append(path: impl AsRef<Path>) -> Result<CsvLog> {
        let rows = Rows::go_on(path.as_ref()).here()?;
        let mut first = String::new();
        // What a device has to say has no end.
        if rows.is_file() {
            let read = File::open(path.as_ref()).and_then(|file| BufReader::new(file).read_line(&mut first));
            read.map_err(|e| IoFacts::reading("log", &rows.name, &e)).here()?;
        }
        let columns = (!first.is_empty()).then(|| first.trim_end_matches(['\r', '\n']).to_owned());
        Ok(CsvLog { rows, columns })
    }
}

impl Log for CsvLog {
    #[track_caller]
    fn log(&mut self, step: usize, values: &[(&str, f64)]) -> Result<()> {
        let mut found = "step".to_owned();
        values.iter().for_each(|(name, _)| found = format!("{found},{}", csv_text(name)));
        let mut row = match &self.columns {
            None => format!("{found}\n"),
            Some(columns) if *columns == found => String::new(),
            Some(columns) => {
                let (file, columns) = (self.rows.name.clone(), columns.clone());
                return refuse(TrainFacts::Columns { file, columns, found }).here();
            }
        };
        row += &step.to_string();
        for (_, value) in values {
            let _ = write!(row, ",{value:?}");
        }
        row.push('\n');
        self.rows.write(&row).here()?;
        self.columns = Some(found);
        Ok(())
    }

    #[track_caller]
    fn go_on_at(&mut self, step: usize) -> Result<()> {
        if self.rows.cut(step, csv_step).here()? {
            // The first line was cut off.
            self.columns = None;
        }
        Ok(())
    }

    #[track_caller]
    fn check_go_on_at(&self, step: usize) -> Result<()> {
        self.rows.kept(step, csv_step).here().map(drop)
    }
}

fn csv_step(row: &str) -> Option<usize> {
    row.split_once([',', '\n'])?.0.parse().ok()
}

/// A text as a field: in quotes where it would be read as something else. A line's end becomes a space, as a name has none.
fn csv_text(text: &str) -> String {
    let text = text.replace(['\r', '\n'], " ");
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A log as lines of JSON: an object for each row, with `step` and the names. JSON has no word for what is no number: there
/// the texts `"nan"`, `"inf"` and `"-inf"` stand.
///
/// ```
/// use foldback_train::{JsonLinesLog, Log};
/// let path = std::env::temp_dir().join(format!("run-{}.jsonl", std::process::id()));
/// let mut log = JsonLinesLog::create(&path)?;
/// log.log(0, &[("loss", 0.5)])?;
/// log.log(1, &[("loss", f64::NAN), ("rate \"a\"", 1.0)])?;
/// let expected = "{\"step\":0,\"loss\":0.5}\n{\"step\":1,\"loss\":\"nan\",\"rate \\\"a\\\"\":1.0}\n";
/// assert_eq!(std::fs::read_to_string(&path)?, expected);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonLinesLog {
    rows: Rows,
}

impl JsonLinesLog {
    /// A new file, in the place of one of this name.
    ///
    /// # Errors
    /// Whatever the system says about making it.
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> Result<JsonLinesLog> {
        Ok(JsonLinesLog { rows: Rows::open(path.as_ref(), &anew()).here()? })
    }

    /// Goes on with a file, as a resumed run does; makes one if there is none.
    ///
    /// # Errors
    /// Whatever the system says about opening it.
    #[track_caller]
    pub fn append(path: impl AsRef<Path>) -> Result<JsonLinesLog> {
        Ok(JsonLinesLog { rows: Rows::go_on(path.as_ref()).here()? })
    }
}

impl Log for JsonLinesLog {
    #[track_caller]
    fn log(&mut self, step: usize, values: &[(&str, f64)]) -> Result<()> {
        let mut row = format!("{{\"step\":{step}");
        for (name, value) in values {
            let _ = match value {
                v if v.is_finite() => write!(row, ",{}:{v:?}", json_text(name)),
                v if v.is_nan() => write!(row, ",{}:\"nan\"", json_text(name)),
                v => write!(row, ",{}:\"{v}\"", json_text(name)),
            };
        }
        row.push_str("}\n");
        self.rows.write(&row).here()
    }

    #[track_caller]
    fn go_on_at(&mut self, step: usize) -> Result<()> {
        self.rows.cut(step, json_step).here().map(drop)
    }

    #[track_caller]
    fn check_go_on_at(&self, step: usize) -> Result<()> {
        self.rows.kept(step, json_step).here().map(drop)
    }
}

fn json_step(row: &str) -> Option<usize> {
    row.strip_prefix("{\"step\":")?.split_once([',', '}'])?.0.parse().ok()
}

/// A text in quotes (RFC 8259, section 7).
fn json_text(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Kind, refused};

    use super::*;

    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Temporary {
            Temporary(std::env::temp_dir().join(format!("foldback-{}-{name}", std::process::id())))
        }
        fn text(&self) -> String {
            std::fs::read_to_string(&self.0).unwrap()
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn rows_behind_a_checkpoint_are_taken_back() {
        let (csv, json) = (Temporary::new("back.csv"), Temporary::new("back.jsonl"));
        let mut logs: [Box<dyn Log>; 2] =
            [Box::new(CsvLog::append(&csv.0).unwrap()), Box::new(JsonLinesLog::append(&json.0).unwrap())];
        for log in &mut logs {
            (8..12).for_each(|step| log.log(step, &[("loss", 0.5)]).unwrap());
            log.go_on_at(12).unwrap();
            log.go_on_at(10).unwrap();
            log.log(10, &[("loss", 0.25)]).unwrap();
        }
        assert_eq!(csv.text(), "step,loss\n8,0.5\n9,0.5\n10,0.25\n");
        let rows =
            [(8, 0.5), (9, 0.5), (10, 0.25)].map(|(step, v)| format!("{{\"step\":{step},\"loss\":{v}}}\n"));
        assert_eq!(json.text(), rows.concat());
        // What a log of a new file has written is at its end, too.
        let mut log = CsvLog::create(&csv.0).unwrap();
        (0..4).for_each(|step| log.log(step, &[]).unwrap());
        log.go_on_at(2).unwrap();
        log.log(2, &[]).unwrap();
        assert_eq!(csv.text(), "step\n0\n1\n2\n");
        // A row that was cut off, inside its step or an `é`, stands behind those that are taken.
        std::fs::write(&csv.0, "step,loss\n9,1.0\n10,1.0\n11,1.0\n1").unwrap();
        CsvLog::append(&csv.0).unwrap().go_on_at(10).unwrap();
        assert_eq!(csv.text(), "step,loss\n9,1.0\n");
        std::fs::write(&json.0, b"{\"step\":9}\n{\"step\":10}\n{\"step\":11,\"\xc3").unwrap();
        JsonLinesLog::append(&json.0).unwrap().go_on_at(10).unwrap();
        assert_eq!(json.text(), "{\"step\":9}\n");
        #[cfg(unix)]
        CsvLog::append("/dev/null").unwrap().go_on_at(0).unwrap();
        // Or it is one of them.
        std::fs::write(&csv.0, "step,loss\n8,0.5\n9,0").unwrap();
        let mut log = CsvLog::append(&csv.0).unwrap();
        log.go_on_at(9).unwrap();
        log.log(9, &[("loss", 1.0)]).unwrap();
        assert_eq!(csv.text(), "step,loss\n8,0.5\n9,1.0\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_has_no_end_is_not_read() {
        CsvLog::append("/dev/zero").unwrap().go_on_at(1).unwrap();
    }

    #[test]
    fn another_file_of_that_name_is_left_alone() {
        let (csv, moved) = (Temporary::new("own.csv"), Temporary::new("moved.csv"));
        let mut log = CsvLog::create(&csv.0).unwrap();
        (0..4).for_each(|step| log.log(step, &[]).unwrap());
        std::fs::rename(&csv.0, &moved.0).unwrap();
        std::fs::write(&csv.0, "step\n2\n").unwrap();
        assert!(log.check_go_on_at(1).unwrap_err().to_string().contains("not the file that was opened"));
        assert!(log.go_on_at(1).is_err());
        assert_eq!((csv.text(), moved.text()), ("step\n2\n".into(), "step\n0\n1\n2\n3\n".into()));
    }

    #[test]
    fn a_log_whose_file_is_gone_knows_no_way_back() {
        let json = Temporary::new("gone.jsonl");
        let log = JsonLinesLog::append(&json.0).unwrap();
        log.check_go_on_at(1).unwrap();
        std::fs::remove_file(&json.0).unwrap();
        let e = log.check_go_on_at(1).unwrap_err();
        assert!(e.kind() == Kind::Io && e.location().is_some_and(|at| at.file() == file!()), "{e}");
    }

    #[test]
    fn csv_keeps_its_columns_over_a_resumed_run() {
        let file = Temporary::new("log.csv");
        let mut log = CsvLog::append(&file.0).unwrap();
        log.log(3, &[("a, \"b\"", 0.1), ("c\nd", f64::NEG_INFINITY)]).unwrap();
        drop(log);
        let mut log = CsvLog::append(&file.0).unwrap();
        log.log(4, &[("a, \"b\"", 1e300), ("c\nd", -0.0)]).unwrap();
        let text = "step,\"a, \"\"b\"\"\",c d\n3,0.1,-inf\n4,1e300,-0.0\n";
        assert_eq!(file.text(), text);
        let e = log.log(5, &[("a", 1.0)]).unwrap_err();
        assert!(matches!(e.facts(), Some(TrainFacts::Columns { .. })), "{e}");
        assert!(e.location().is_some_and(|at| at.file() == file!()));
        assert_eq!(file.text(), text);
        CsvLog::create(&file.0).unwrap().log(0, &[]).unwrap();
        assert_eq!(file.text(), "step\n0\n");
        assert!(refused!(CsvLog::append(&file.0).unwrap().log(1, &[("x", 0.0)]), TrainFacts::Columns { .. }));
    }

    /// A run that was killed, or whose disk was full, in the middle of a row: the next one has a line of its own.
    #[test]
    fn a_row_that_was_cut_off_ends_there() {
        let file = Temporary::new("cut.csv");
        std::fs::write(&file.0, "step,loss\n0,0.5\n1,0.").unwrap();
        let mut log = CsvLog::append(&file.0).unwrap();
        log.log(1, &[("loss", 0.25)]).unwrap();
        log.log(2, &[("loss", 0.125)]).unwrap();
        assert_eq!(file.text(), "step,loss\n0,0.5\n1,0.\n1,0.25\n2,0.125\n");
        std::fs::write(&file.0, "{\"step\":1").unwrap();
        JsonLinesLog::append(&file.0).unwrap().log(2, &[]).unwrap();
        assert_eq!(file.text(), "{\"step\":1\n{\"step\":2}\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let mut log = JsonLinesLog::append("/dev/full").unwrap();
        let e = log.log(1, &[]).unwrap_err();
        assert_eq!(e.kind(), Kind::Io);
        assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
        assert!(log.rows.is_cut);
    }

    #[test]
    fn json_texts_are_escaped() {
        let file = Temporary::new("log.jsonl");
        JsonLinesLog::create(&file.0).unwrap().log(1, &[("é\t\"\\", 1e-9)]).unwrap();
        JsonLinesLog::append(&file.0)
            .unwrap()
            .log(2, &[("x", f64::INFINITY), ("y", f64::NEG_INFINITY)])
            .unwrap();
        let expected = "{\"step\":1,\"é\\u0009\\\"\\\\\":1e-9}\n{\"step\":2,\"x\":\"inf\",\"y\":\"-inf\"}\n";
        assert_eq!(file.text(), expected);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        for e in [
            CsvLog::create("no/such/a").err(),
            CsvLog::append("no/such/a").err(),
            JsonLinesLog::create("no/such/a").err(),
        ] {
            let e = e.unwrap();
            assert!(e.kind() == Kind::Io && e.to_string().starts_with("log: no/such/a: "), "{e}");
        }
    }
}
