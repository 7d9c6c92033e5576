//! `conductor spent`: what agents have consumed, from the ledger of `budget`.

use std::io::{self, Write};

use acp_conductor::spent_table;
use acp_wire::{ErrorKind, printable};
use components::budget::default_folder;
use components::budget::report::{Day, Days, read};

use super::output::{Failure, print, print_json};
use crate::cli::SpentArgs;

/// `conductor spent`: prints what was consumed.
pub fn spent(args: &SpentArgs) -> Result<(), Failure> {
    let unreadable =
        |why: String| Failure::of(ErrorKind::UnreadableFile, printable::one_line(&why));
    let folder = args.ledger.clone().or_else(default_folder).ok_or_else(|| {
        unreadable(
            "the folder of the user is unknown: HOME is not set. Name one with --ledger".to_owned(),
        )
    })?;
    let days = match args.days {
        Some(number) => Days::Last(number as usize),
        None => Days::One(args.day.unwrap_or_else(Day::today)),
    };
    let reports = read(&folder, days, args.session.as_deref()).map_err(unreadable)?;
    print(|out| match (args.json, args.days) {
        (true, _) => print_json(out, &reports),
        (false, Some(_)) => write_lines(out, spent_table::of_days(&reports)),
        (false, None) => {
            reports.iter().try_for_each(|day| write_lines(out, spent_table::of_day(day)))
        }
    })
}

fn write_lines(out: &mut dyn Write, lines: Vec<String>) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}
