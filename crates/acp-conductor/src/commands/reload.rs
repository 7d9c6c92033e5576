//! `conductor reload`: running chains read their configuration again.

use std::io::IsTerminal;

use acp_conductor::log;
use acp_conductor::reload::{self, Report};
use acp_wire::ErrorKind;
use serde_json::json;

use super::chain::wait_for_signal;
use super::output::{Failure, print, print_json};

/// `conductor reload`: asks one chain, or all chains that have a configuration, and prints what has changed.
pub fn run(pid: Option<u32>, now: bool, json: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(ErrorKind::SystemError, error))?;
    runtime.block_on(async {
        tokio::select! {
            done = reload_all(pid, now, json) => done,
            () = wait_for_signal(true) => Err(Failure::run(ErrorKind::ReloadFailed.tag(
                "interrupted; the chain still reloads its configuration as soon as it is at rest",
            ))),
        }
    })
}

async fn reload_all(pid: Option<u32>, now: bool, json: bool) -> Result<(), Failure> {
    let pids = match pid {
        Some(pid) => vec![pid],
        None => reload::chains().map_err(failed)?,
    };
    if pids.is_empty() {
        let why = "no chain runs that could be reloaded: only chains of a configuration file can, and not with \
                   `status = false`";
        return Err(failed(why.to_owned()));
    }
    let (mut reports, mut failures) = (Vec::new(), Vec::new());
    for pid in pids.iter().copied() {
        let waiting = |why: &str| show_waiting(pid, why);
        let answer = reload::reload(pid, now, waiting).await;
        log::progress::clear();
        match answer {
            Ok(Some(report)) => {
                if !report.is_complete() {
                    failures.push(format!("conductor {pid}: {report}"));
                }
                reports.push((pid, report));
            }
            // A chain that has ended meanwhile needs no reload.
            Ok(None) if pids.len() > 1 => {}
            Ok(None) => failures.push(format!(
                "conductor {pid} does not run, or its chain does not come from a configuration file"
            )),
            Err(why) => failures.push(why),
        }
    }
    print_reports(&reports, json)?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failed(failures.join("\n"))),
    }
}

fn show_waiting(pid: u32, why: &str) {
    let text = format!("conductor {pid} waits until its chain is at rest: {why}");
    match std::io::stderr().is_terminal() {
        true => log::progress::show(&text),
        false => log::print_error(&format!("{text}\n")),
    }
}

fn print_reports(reports: &[(u32, Report)], json: bool) -> Result<(), Failure> {
    print(|out| {
        if json {
            let reports =
                reports.iter().map(|(pid, report)| json!({ "pid": pid, "report": report }));
            return print_json(out, &reports.collect::<Vec<_>>());
        }
        for (pid, report) in reports.iter().filter(|(_, report)| report.error.is_none()) {
            writeln!(out, "conductor {pid}: {report}")?;
        }
        Ok(())
    })
}

fn failed(why: String) -> Failure {
    Failure::run(ErrorKind::ReloadFailed.tag(why))
}
