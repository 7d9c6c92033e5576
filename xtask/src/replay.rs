//! `cargo xtask replay FILE`: steps through the journal of a chain.

use std::fs::File;
use std::io::{BufRead, BufReader};

use engine::journal::{Replay, Report};

pub const USAGE: &str = "\
replay FILE [--from N] [--to N] [--quiet]
      print each input of a journal (`conductor agent --journal FILE`) and what came of it, and tell
      whether the core of this source gives the same outputs and bytes. N are numbers of lines of
      FILE; --quiet prints the result only";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut path = None;
    let (mut from, mut to, mut quiet) = (0, usize::MAX, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|it| it.parse::<usize>().ok());
            number.ok_or_else(|| format!("{word} needs a number"))
        };
        match word.as_str() {
            "--from" => from = number()?,
            "--to" => to = number()?,
            "--quiet" => quiet = true,
            _ if path.is_none() => path = Some(word),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let path = path.ok_or(USAGE)?;
    let wanted = |line: usize| !quiet && (from..=to).contains(&line);
    let report = replay(path, wanted).map_err(|why| format!("{path}: {why}"))?;
    let Report { inputs, outputs, bytes, cut_off } = report;
    let end = if cut_off { "; the last line has no end and was left out" } else { "" };
    println!("{path}: replays identically: {inputs} inputs, {outputs} outputs, {bytes} bytes{end}");
    Ok(())
}

fn replay(path: &str, wanted: impl Fn(usize) -> bool) -> Result<Report, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        reader.read_until(b'\n', line).map_err(|error| error.to_string())
    };
    next(&mut line)?;
    let mut report = Report::default();
    let Some(mut replay) = Replay::new(&line).map_err(|why| why.to_string())? else {
        report.cut_off = true;
        return Ok(report);
    };
    while next(&mut line)? > 0 {
        let Some(step) = replay.step(&line).map_err(|why| why.to_string())? else {
            report.cut_off = true;
            break;
        };
        report.add(&step);
        if wanted(step.line) {
            replay.show(&step).iter().for_each(|it| println!("{:>6}  {it}", step.line));
        }
    }
    Ok(report)
}
