//! `conductor audit`: verifies and shows audit logs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use acp_conductor::{audit_table, log};
use acp_wire::{ErrorKind, printable};
use components::audit::{self, Filter, Hasher, Head, Problem, Report};
use serde_json::{Value, json};

use super::output::{Failure, print, print_json};
use super::status::terminal_width;
use crate::cli::{AuditCommand, ShowArgs, VerifyArgs};

/// `conductor audit`: runs one of its commands.
pub fn audit(command: &AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Verify(args) => verify(args),
        AuditCommand::Show(args) => show(args),
    }
}

fn unreadable(why: impl std::fmt::Display) -> Failure {
    Failure::of(ErrorKind::UnreadableFile, printable::one_line(&why.to_string()))
}

fn file(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let file = named.map(Path::to_owned).or_else(audit::default_file);
    file.ok_or_else(|| unreadable("the folder of the user is unknown: HOME is not set. Name a log"))
}

fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let file = file(args.file.as_deref())?;
    let keys = args.key_file.iter().map(|path| audit::read_key(Some(path)));
    let keys: Vec<Hasher> = keys.collect::<Result<_, _>>().map_err(unreadable)?;
    let head = args.head.as_deref().map(read_head).transpose()?;
    let reports = audit::verify(&file, &keys, head.as_ref()).map_err(unreadable)?;
    print(|out| match args.json {
        true => print_json(out, &reports.iter().map(as_json).collect::<Vec<Value>>()),
        false => reports.iter().try_for_each(|report| describe(out, report)),
    })?;
    match reports.iter().find_map(|report| report.problem.as_ref()) {
        None => Ok(()),
        Some(problem) => Err(Failure::of(ErrorKind::AuditInvalid, place_and_reason(problem))),
    }
}

fn read_head(path: &Path) -> Result<Head, Failure> {
    match Head::read(path) {
        Ok(Some(head)) => Ok(head),
        Ok(None) => Err(unreadable(format!("there is no head {}", path.display()))),
        Err(why) => Err(unreadable(format!("{} is not a head: {why}", path.display()))),
    }
}

fn place_and_reason(problem: &Problem) -> String {
    let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
    printable::one_line(&format!("{}{line}: {}", problem.file.display(), problem.why))
}

fn describe(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let Some((newest, _)) = report.files.last() else { return Ok(()) };
    let files = match report.files.len() {
        1 => String::new(),
        count => format!(" in {count} files"),
    };
    let result =
        if report.problem.is_some() { "verified before the first problem" } else { "verified" };
    let records = match report.records() {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    };
    let line = format!("{}: {records}{files} {result}", newest.display());
    writeln!(out, "{}", printable::one_line(&line))?;
    if let Some(Head { seq, hash, time, .. }) = &report.last {
        let line = format!("  the last of them is record {seq} of {time}, hash {hash}");
        writeln!(out, "{}", printable::one_line(&line))?;
    }
    for note in &report.notes {
        writeln!(out, "  note: {}", printable::one_line(note))?;
    }
    Ok(())
}

fn as_json(report: &Report) -> Value {
    let file = |path: &Path| path.display().to_string();
    let files = report
        .files
        .iter()
        .map(|(path, records)| json!({ "file": file(path), "records": records }));
    let problem = report.problem.as_ref();
    json!({
        "files": files.collect::<Vec<Value>>(),
        "records": report.records(),
        "first": report.first,
        "last": report.last,
        "problem": problem.map(|it| json!({ "file": file(&it.file), "line": it.line, "why": it.why })),
        "notes": report.notes,
    })
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let file = file(args.file.as_deref())?;
    let filter = Filter {
        session: args.session.clone(),
        decision: args.decision.clone(),
        rule: args.rule.clone(),
        event: args.event.clone(),
        since: args.since,
        until: args.until,
    };
    let found = audit::show(&file, &filter, args.limit).map_err(unreadable)?;
    print(|out| match args.json {
        true => found
            .records
            .iter()
            .try_for_each(|record| writeln!(out, "{}", printable::json(&record.to_string()))),
        false => out.write_all(audit_table::text(&found.records, terminal_width()).as_bytes()),
    })?;
    if found.left_out > 0 {
        let line = format!("{} older records fit, too. Show them with --limit", found.left_out);
        log::print_error(&format!("conductor: {line}\n"));
    }
    if found.unreadable > 0 {
        let line =
            format!("{} lines are not records. Run conductor audit verify", found.unreadable);
        log::print_error(&format!("conductor: {line}\n"));
    }
    Ok(())
}
