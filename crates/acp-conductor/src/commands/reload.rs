//! `conductor reload`: running chains read their configuration again.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use acp_conductor::log;
use acp_conductor::reload::{self, Report};
use acp_wire::ErrorKind;
use serde_json::json;
use tokio::task::JoinSet;

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
    // All chains are asked at once: one that waits for the end of a turn delays no other one.
    let mut asked = JoinSet::new();
    for pid in pids.iter().copied() {
        let waiting = move |why: &str| show_waiting(pid, why);
        asked.spawn(async move { (pid, reload::reload(pid, now, waiting).await) });
    }
    let mut answers = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        let (pid, answer) = answer.map_err(|error| failed(error.to_string()))?;
        log::progress::clear();
        answers.insert(pid, answer);
    }
    for (pid, answer) in answers {
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

/// The error of the command. The reason of a chain may name its section of the error page already.
fn failed(why: String) -> Failure {
    match why.ends_with(']') && why.contains("[more: ") {
        true => Failure::run(why),
        false => Failure::run(ErrorKind::ReloadFailed.tag(why)),
    }
}
