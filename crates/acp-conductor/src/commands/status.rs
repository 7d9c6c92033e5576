//! `conductor status`: the running conductors.

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_conductor::status::{self, QueryResult};
use acp_conductor::{log, stdio};
use acp_wire::ErrorKind;

use super::chain::wait_for_signal;
use super::output::{Failure, print, print_json};
use super::screen::{Screen, ScreenEvent};

/// `conductor status`: prints the status of the running conductors once, or at an interval until the user stops it.
pub fn show_status(pid: Option<u32>, json: bool, watch: Option<Duration>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(ErrorKind::SystemError, error))?;
    let done = match watch {
        None => runtime.block_on(show_once(pid, json)),
        Some(interval) if json || !has_screen() => {
            runtime.block_on(print_changes(pid, json, interval))
        }
        Some(interval) => runtime.block_on(show_on_screen(pid, interval)),
    };
    // A thread that still reads the keyboard must not delay the exit.
    runtime.shutdown_background();
    done
}

/// Whether standard output is a terminal that can be redrawn.
fn has_screen() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|it| it != "dumb")
}

async fn query(pid: Option<u32>) -> Result<QueryResult, Failure> {
    let since = Instant::now();
    let found = status::query(pid, status::TIMEOUT, |unanswered| {
        let pids: Vec<String> = unanswered.iter().map(ToString::to_string).collect();
        let seconds = since.elapsed().as_secs();
        log::progress::show(&format!(
            "waiting for conductor {} to answer… {seconds} s",
            pids.join(", ")
        ));
    });
    let found = found.await.map_err(unavailable);
    log::progress::clear();
    found
}

async fn show_once(pid: Option<u32>, json: bool) -> Result<(), Failure> {
    let found = query(pid).await?;
    match pid.and_then(|pid| found.no_answer(pid)) {
        Some(why) => Err(unavailable(why)),
        None => {
            print_problems(&found);
            print_status(&found, json)
        }
    }
}

fn print_problems(found: &QueryResult) {
    found.problems().iter().for_each(|line| {
        let line = ErrorKind::StatusUnavailable.tag(line);
        log::print_error(&format!("conductor: {line}\n"));
    });
}

fn print_status(found: &QueryResult, json: bool) -> Result<(), Failure> {
    print(|out| match json {
        true => print_json(out, &found.running),
        false => out.write_all(status::table::text(found, terminal_width()).as_bytes()),
    })
}

/// The width of the terminal, if standard output is one.
pub(super) fn terminal_width() -> Option<usize> {
    let size = stdout().is_terminal().then(crossterm::terminal::size)?;
    size.ok().map(|(width, _)| usize::from(width)).filter(|width| *width > 0)
}

/// Prints the status each time that it has changed.
async fn print_changes(pid: Option<u32>, json: bool, interval: Duration) -> Result<(), Failure> {
    let mut last: Option<QueryResult> = None;
    loop {
        let found = query(pid).await?;
        match pid.and_then(|pid| found.no_answer(pid)) {
            Some(why) if last.is_none() => return Err(no_conductor_to_watch(&why)),
            Some(_) if found.unresponsive.is_empty() => return Ok(()),
            _ => {}
        }
        if last.as_ref().is_none_or(|last| found.differs_from(last)) {
            if last.is_some() && !json {
                print(|out| writeln!(out, "--- {}", time_of_day()))?;
            }
            print_problems(&found);
            match json {
                true => print(|out| {
                    let text = serde_json::to_string(&found.running)?;
                    writeln!(out, "{}", acp_wire::printable::json(&text))
                })?,
                false => print_status(&found, false)?,
            }
            last = Some(found);
        }
        tokio::time::sleep(interval).await;
        // Without a change nothing is written, so a reader that has closed the pipe would not be noticed.
        if stdio::stdout_is_closed() {
            return Ok(());
        }
    }
}

/// The time in UTC.
fn time_of_day() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Shows the status on the whole terminal until the user presses q or Ctrl-C.
async fn show_on_screen(pid: Option<u32>, interval: Duration) -> Result<(), Failure> {
    let mut signal = std::pin::pin!(wait_for_signal(true));
    // An error of the first query is printed on the normal screen.
    let mut found = query(pid).await?;
    if let Some(why) = pid.and_then(|pid| found.no_answer(pid)) {
        return Err(no_conductor_to_watch(&why));
    }
    // The handlers of signals must be installed before the mode of the terminal changes.
    tokio::select! {
        biased;
        () = &mut signal => return Ok(()),
        () = std::future::ready(()) => {}
    }
    let mut screen = Screen::open().map_err(on_screen)?;
    loop {
        let problems: String = found.problems().iter().map(|line| format!("{line}\n")).collect();
        let text = format!("{}{problems}", status::table::text(&found, terminal_width()));
        let footer = format!("{}  every {} s  q quits", time_of_day(), interval.as_secs_f64());
        screen.draw(&text, &footer).map_err(on_screen)?;
        let mut next = std::pin::pin!(async {
            tokio::time::sleep(interval).await;
            status::query(pid, status::TIMEOUT, |_| {}).await
        });
        found = loop {
            tokio::select! {
                found = &mut next => break found.map_err(unavailable)?,
                () = &mut signal => return Ok(()),
                event = screen.event() => match event {
                    ScreenEvent::Quit => return Ok(()),
                    ScreenEvent::Resized => screen.draw(&text, &footer).map_err(on_screen)?,
                },
            }
        };
        if let Some(pid) = pid.filter(|pid| has_exited(*pid, &found)) {
            drop(screen);
            log::print_error(&format!("conductor: conductor {pid} has exited\n"));
            return Ok(());
        }
    }
}

fn no_conductor_to_watch(why: &str) -> Failure {
    unavailable(format!("{why} (an interval is written as --watch=SECONDS)"))
}

fn on_screen(error: std::io::Error) -> Failure {
    Failure::of(ErrorKind::SystemError, format!("cannot use the terminal: {error}"))
}

/// Whether the only conductor that was queried is not running any more.
fn has_exited(pid: u32, found: &QueryResult) -> bool {
    found.no_answer(pid).is_some() && found.unresponsive.is_empty()
}

fn unavailable(why: String) -> Failure {
    Failure::of(ErrorKind::StatusUnavailable, why)
}
