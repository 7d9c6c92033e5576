//! The part of a failed step's output that is shown: the report of each test that failed, then the last lines.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Lines shown from the end of the output.
const LAST: usize = 25;

/// Lines shown of one test's report.
const OF_A_REPORT: usize = 20;

/// The number of reports shown. A broken build fails hundreds of tests, and the first reports show the reason.
const REPORTS: usize = 10;

/// Reads a step's output and picks the lines that are shown.
pub fn of(path: &Path) -> Vec<String> {
    pick(&lines(path))
}

/// The last line of a step's output so far.
pub fn last_line(path: &Path) -> String {
    lines(path).pop().unwrap_or_default()
}

fn lines(path: &Path) -> Vec<String> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

fn pick(lines: &[String]) -> Vec<String> {
    let reports: Vec<usize> =
        (0..lines.len()).filter(|&at| begins_report(&lines[at])).take(REPORTS).collect();
    let mut shown = Vec::new();
    for start in reports {
        let rest = &lines[start + 1..];
        let end = rest.iter().position(|line| ends_report(line)).unwrap_or(rest.len());
        shown.push(lines[start].clone());
        shown.extend(rest[..end.min(OF_A_REPORT)].iter().cloned());
    }
    shown.extend(lines[lines.len().saturating_sub(LAST)..].iter().cloned());
    shown
}

/// The test harness heads the output of a failed test with `---- NAME stdout ----`.
fn begins_report(line: &str) -> bool {
    line.starts_with("---- ") && line.ends_with(" stdout ----")
}

/// Backtraces are only in the log file.
fn ends_report(line: &str) -> bool {
    begins_report(line) || line == "failures:" || line == "stack backtrace:"
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn the_reports_of_failed_tests_are_shown_before_the_last_lines() {
        let mut output = vec![
            "test a ... FAILED",
            "---- a stdout ----",
            "a: left != right",
            "stack backtrace:",
            "   0: rust_begin_unwind",
            "---- b stdout ----",
            "b: timeout",
            "failures:",
            "    a",
        ];
        let after: Vec<String> = (0..100).map(|n| format!("test c{n} ... ok")).collect();
        output.extend(after.iter().map(String::as_str));
        let output: Vec<String> = output.into_iter().map(str::to_owned).collect();
        let shown = pick(&output);
        let start = ["---- a stdout ----", "a: left != right", "---- b stdout ----", "b: timeout"];
        assert_eq!(shown[..4], start);
        assert_eq!(shown[4..], after[75..]);
    }
}
