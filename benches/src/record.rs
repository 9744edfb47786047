//! One line that a measuring process prints and `compare` reads: JSON, the same from Rust and from Python.

use serde_json::{Value, json};

use crate::checksum::Checksum;
use crate::measure::Times;

/// What one runner found for one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// the workload's key; empty if the runner as a whole says something
    pub workload: String,
    /// who computed it: `foldback`, `candle`, `eager`, ...
    pub runner: String,
    /// with how many threads
    pub threads: usize,
    /// times and checksums, or why there are none
    pub outcome: Result<(Times, Vec<Checksum>), String>,
}

impl Record {
    /// As a line without its end.
    pub fn to_line(&self) -> String {
        let mut object = json!({
            "workload": self.workload, "runner": self.runner, "threads": self.threads,
        });
        match &self.outcome {
            Ok((times, sums)) => {
                object["times"] = json!([times.min, times.low, times.median, times.high]);
                object["checksums"] =
                    sums.iter().map(|c| json!([c.sum, c.weighted, c.magnitude])).collect::<Value>();
            }
            Err(why) => object["error"] = json!(why),
        }
        object.to_string()
    }

    /// Reads a line back; nothing if it is no record.
    pub fn from_line(line: &str) -> Option<Record> {
        let object: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| Some(object.get(key)?.as_str()?.to_owned());
        let outcome = match text("error") {
            Some(why) => Err(why),
            None => {
                let [min, low, median, high] = numbers(object.get("times")?)?;
                let sums = object.get("checksums")?.as_array()?;
                let sum =
                    |v| numbers(v).map(|[sum, weighted, magnitude]| Checksum { sum, weighted, magnitude });
                Ok((Times { min, low, median, high }, sums.iter().map(sum).collect::<Option<_>>()?))
            }
        };
        let threads = object.get("threads")?.as_u64()? as usize;
        Some(Record { workload: text("workload")?, runner: text("runner")?, threads, outcome })
    }
}

/// The version that a process reports of the library it measures: `{"version": "torch 2.0"}`.
pub fn version_from_line(line: &str) -> Option<String> {
    let object: Value = serde_json::from_str(line).ok()?;
    Some(object.get("version")?.as_str()?.to_owned())
}

/// A number that is not finite has no JSON and arrives as null.
fn numbers<const N: usize>(list: &Value) -> Option<[f64; N]> {
    let values: Vec<f64> = list.as_array()?.iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect();
    values.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let times = Times { min: 1.0, low: 1.5, median: 2.0, high: 4.25 };
        let outcome = Ok((times, vec![Checksum::of([1.0, -2.0]), Checksum::of([0.5])]));
        let record = Record { workload: "W3".into(), runner: "foldback".into(), threads: 2, outcome };
        assert_eq!(Record::from_line(&record.to_line()), Some(record.clone()));
        let failed = Record { outcome: Err("no \"jax\"".into()), ..record };
        assert_eq!(Record::from_line(&failed.to_line()), Some(failed));
    }

    #[test]
    fn versions_are_lines_of_their_own() {
        assert_eq!(version_from_line(r#"{"version": "torch 2.0"}"#), Some("torch 2.0".to_owned()));
        assert_eq!(version_from_line("torch 2.0"), None);
    }

    #[test]
    fn other_lines_are_no_records() {
        for line in ["", "warming up", "{}", r#"{"workload": "W1", "runner": "a", "threads": 1}"#] {
            assert_eq!(Record::from_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_nan_never_agrees() {
        let line = r#"{"workload":"W1","runner":"a","threads":1,"times":[1,1,1,1],"checksums":[[null,0,0]]}"#;
        let (_, sums) = Record::from_line(line).unwrap().outcome.unwrap();
        assert!(sums[0].sum.is_nan() && !sums[0].agrees(&sums[0]));
    }
}
