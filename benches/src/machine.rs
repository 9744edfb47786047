//! What the figures were measured on: the processor, and the versions of everybody.

use std::fmt::Write;

/// The processor, its cores and caches, and the date, as far as the system tells.
pub fn description() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = field(&cpuinfo, "model name").unwrap_or("unknown processor");
    let flags = field(&cpuinfo, "flags").unwrap_or_default();
    let level = ["avx512f", "avx2", "avx", "sse2"].into_iter().find(|l| flags.split(' ').any(|f| f == *l));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let cache = |i: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/size");
        std::fs::read_to_string(path).map_or("?".to_owned(), |s| s.trim().to_owned())
    };
    let mut text = format!("{model}, {}, {cores} cores", level.unwrap_or(std::env::consts::ARCH));
    write!(text, ", caches {} / {} / {}", cache(0), cache(2), cache(3)).expect("a string takes all");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if let Some(load) = load.split(' ').next() {
        write!(text, ", load at the end {load}").expect("a string takes all");
    }
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    format!("{}: {text}.", date(seconds / 86_400))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Our version, those of compiled peers, and those that processes reported.
pub fn versions(reported: &[String]) -> String {
    let mut list: Vec<&str> = crate::peers::versions().collect();
    for version in reported {
        if !list.contains(&version.as_str()) {
            list.push(version);
        }
    }
    list.insert(0, "foldback of this tree");
    list.join(", ")
}

/// The date of a day counted from 1970-01-01, by the calendar's cycle of 400 years.
fn date(day: u64) -> String {
    // Days from 0000-03-01, so that a leap day ends its year.
    let days = day + 719_468;
    let (era, rest) = (days / 146_097, days % 146_097);
    let year = (rest - rest / 1_460 + rest / 36_524 - rest / 146_096) / 365;
    let of_year = rest - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", era * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_777), "2026-11-20");
    }

    #[test]
    fn fields_of_cpuinfo() {
        let text = "processor\t: 0\nmodel name\t: A: B\nflags\t\t: sse2 avx\n";
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "flags"), Some("sse2 avx"));
        assert_eq!(field(text, "bugs"), None);
    }
}
