//! `conductor agent` and `conductor proxy`: a chain on standard input and output.

use std::io::IsTerminal;
use std::path::Path;

use acp_conductor::configuration::{self, Options, Request, Resolved, Run};
use acp_conductor::host::process::ProcessCleanup;
use acp_conductor::{Config, Ending, JournalFile, Mode, log, stdio};
use acp_wire::ErrorKind;

use super::output::{Failure, print, print_json};
use super::{editor_hint, refusal, try_chat};
use crate::cli::ChainArgs;

/// What to log if nothing is set.
pub const DEFAULT_LOG: &str = "warn";

/// `conductor agent` and `conductor proxy`: runs a chain.
pub fn run(mode: Mode, components: &[String], options: &ChainArgs) -> Result<(), Failure> {
    let run = options.chain.run(components, || match mode {
        Mode::Agent => Run::Default,
        Mode::Proxy => Run::Components(Vec::new()),
    });
    let ending = with_chain_and_journal(
        mode,
        run,
        options,
        refusal::answer,
        async |mut config: Config, chain| {
            let arguments: Vec<String> = std::env::args().collect();
            editor_hint::print(mode, &config.components, components, chain, &arguments);
            config.hung_up = Some(stdio::hung_up);
            config.report_wait = std::io::stdin().is_terminal().then_some(log::progress::show);
            // A chain of a configuration file reads it again on SIGHUP.
            let signals = Signals { interrupt: true, hang_up: config.reload.is_none() };
            acp_conductor::run(config, stdio::outer_streams(), wait_for_signals(signals)).await
        },
    )
    .map_err(refusal::answer_failure)?;
    match ending {
        Ending::Clean => Ok(()),
        Ending::Failed(line) => Err(Failure::run(line)),
    }
}

/// `conductor agent --explain`: prints the report.
pub fn explain(components: &[String], options: &ChainArgs, json: bool) -> Result<(), Failure> {
    let run = options.chain.run(components, || Run::Default);
    let report = with_chain_and_journal(
        Mode::Agent,
        run,
        options,
        Failure::configuration,
        async |mut config: Config, _| {
            config.report_wait = Some(log::progress::show);
            acp_conductor::explain(config, wait_for_signal(true)).await
        },
    )?;
    log::progress::clear();
    print(|out| match json {
        true => print_json(out, &report),
        false => write!(out, "{report}"),
    })?;
    match report.error {
        Some(error) => Err(Failure::run(error)),
        None => Ok(()),
    }
}

/// Like [`with_chain`], with the log and the journal of `conductor agent` and `conductor proxy`.
fn with_chain_and_journal<T>(
    mode: Mode,
    run: Run,
    options: &ChainArgs,
    refuse: impl FnOnce(&configuration::Failure) -> Failure,
    work: impl AsyncFnOnce(Config, Option<&str>) -> T,
) -> Result<T, Failure> {
    let chain_options = options.chain.options(options.log.as_ref(), options.log_file.as_ref());
    let request = request(mode, run, chain_options, None)?;
    let resolved = configuration::resolve(&request).map_err(|why| refuse(&why))?;
    let chain = resolved.chain.clone();
    let start_log =
        |level: Option<&str>, file: Option<&Path>| log::start(level.unwrap_or(DEFAULT_LOG), file);
    // The journal is created after the reaper was forked. Otherwise the reaper would inherit and keep its lock.
    with_chain(resolved, start_log, async |mut config: Config| {
        let journal = options.journal.as_deref().map(JournalFile::create).transpose();
        config.journal = journal.map_err(unwritable)?;
        Ok(work(config, chain.as_deref()).await)
    })?
}

/// A request for a chain that starts in a folder: the current one, or that of `--cwd`.
pub fn request(
    mode: Mode,
    run: Run,
    options: Options,
    cwd: Option<&Path>,
) -> Result<Request, Failure> {
    if cwd.is_some() {
        let folder = try_chat::folder(cwd)?;
        return Ok(Request { mode, run, folder, options, terminal_log: None });
    }
    let folder = std::env::current_dir().map_err(|error| {
        let why = format!("cannot find the current folder: {error}");
        Failure::of(ErrorKind::MissingDirectory, why)
    })?;
    Ok(Request { mode, run, folder, options, terminal_log: None })
}

/// The chain for a request.
pub fn resolve(request: &Request) -> Result<Resolved, Failure> {
    configuration::resolve(request).map_err(|why| Failure::configuration(&why))
}

/// Forks the reaper, starts the log, and runs `work` with the chain in an asynchronous runtime.
pub fn with_chain<T>(
    resolved: Resolved,
    start_log: impl FnOnce(Option<&str>, Option<&Path>) -> Result<log::Logs, String>,
    work: impl AsyncFnOnce(Config) -> T,
) -> Result<T, Failure> {
    let Resolved { mut config, log, log_file, warnings, .. } = resolved;
    config.forwards_telemetry |= acp_conductor::host::leftovers::is_in_conductor();
    let tag = acp_conductor::host::leftovers::ProcessTag::random();
    // The reaper is forked while the program still has a single thread.
    #[cfg(unix)]
    // SAFETY: nothing has started a thread yet.
    let reaper = unsafe { acp_conductor::host::reaper::Reaper::start(tag) }.map_err(|error| {
        let why = format!("cannot start the reaper process: {error}");
        Failure::of(ErrorKind::SystemError, why)
    })?;
    #[cfg(unix)]
    let cleanup =
        ProcessCleanup { reaper: reaper.descriptor(), die_with_thread: true, tag: Some(tag) };
    #[cfg(not(unix))]
    let cleanup = ProcessCleanup { tag: Some(tag), ..ProcessCleanup::default() };
    config.cleanup = cleanup;
    let (name, value) = acp_conductor::host::leftovers::variable(&format!("{tag}.component;"));
    components::child_environment::set(name, value);
    let logs = start_log(log.as_deref(), log_file.as_deref()).map_err(Failure::usage)?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(ErrorKind::SystemError, error))?;
    let done = runtime.block_on(work(config));
    // A thread that still reads standard input must not delay the exit.
    runtime.shutdown_background();
    drop(logs);
    Ok(done)
}

fn unwritable(why: String) -> Failure {
    Failure::invalid(ErrorKind::UnwritableFile, why)
}

/// Completes on a signal that asks the program to end. Includes Ctrl-C if `include_interrupt` is set.
pub async fn wait_for_signal(include_interrupt: bool) {
    wait_for_signals(Signals { interrupt: include_interrupt, hang_up: true }).await;
}

/// Which signals end the program, in addition to SIGTERM.
#[derive(Debug, Clone, Copy)]
struct Signals {
    /// SIGINT, which is Ctrl-C.
    interrupt: bool,
    /// SIGHUP. Other systems have no such signal.
    #[cfg_attr(not(unix), allow(dead_code))]
    hang_up: bool,
}

#[cfg(unix)]
async fn wait_for_signals(wanted: Signals) {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [
        Some(SignalKind::terminate()),
        wanted.hang_up.then(SignalKind::hangup),
        wanted.interrupt.then(SignalKind::interrupt),
    ];
    let kinds = kinds.into_iter().flatten();
    let mut signals: Vec<_> = kinds.filter_map(|kind| signal(kind).ok()).collect();
    std::future::poll_fn(|cx| {
        match signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

#[cfg(not(unix))]
async fn wait_for_signals(wanted: Signals) {
    if !wanted.interrupt || tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
