//! `conductor agent` and `conductor proxy`: a chain on standard input and output.

use std::io::IsTerminal;

use acp_conductor::host::process::ProcessCleanup;
use acp_conductor::{Config, Ending, JournalFile, Mode, Spec, log, stdio};
use acp_wire::ErrorKind;

use super::editor_hint;
use super::output::{Failure, print, print_json};
use crate::cli::{ChainArgs, ChainOptions, Switch};

/// `conductor agent` and `conductor proxy`: runs a chain.
pub fn run(mode: Mode, components: Vec<String>, options: &ChainArgs) -> Result<(), Failure> {
    let ending = with_chain_and_journal(
        mode,
        parse_components(&components)?,
        options,
        async |mut config: Config| {
            let arguments: Vec<String> = std::env::args().collect();
            editor_hint::print(mode, &config.components, &components, &arguments);
            config.hung_up = Some(stdio::hung_up);
            config.report_wait = std::io::stdin().is_terminal().then_some(log::progress::show);
            acp_conductor::run(config, stdio::outer_streams(), wait_for_signal(true)).await
        },
    )?;
    match ending {
        Ending::Clean => Ok(()),
        Ending::Failed(line) => Err(Failure::run(line)),
    }
}

/// `conductor agent --explain`: prints the report.
pub fn explain(components: Vec<String>, options: &ChainArgs, json: bool) -> Result<(), Failure> {
    let report = with_chain_and_journal(
        Mode::Agent,
        parse_components(&components)?,
        options,
        async |mut config: Config| {
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

/// Parses the COMPONENT arguments. An error does not repeat the argument, which may contain a secret.
pub fn parse_components(components: &[String]) -> Result<Vec<Spec>, Failure> {
    let parse = |(number, text): (usize, &String)| {
        Spec::parse(text).map_err(|why| {
            let why = format!("component {number} is invalid: {why}");
            Failure::invalid(ErrorKind::InvalidComponent, why)
        })
    };
    (1..).zip(components).map(parse).collect()
}

/// Like [`with_chain`], with the log and the journal of `conductor agent` and `conductor proxy`.
fn with_chain_and_journal<T>(
    mode: Mode,
    specs: Vec<Spec>,
    options: &ChainArgs,
    work: impl AsyncFnOnce(Config) -> T,
) -> Result<T, Failure> {
    let start_log = || log::start(&options.log, options.log_file.as_deref());
    // The journal is created after the reaper was forked. Otherwise the reaper would inherit and keep its lock.
    with_chain(mode, specs, &options.chain, start_log, async |mut config: Config| {
        let journal = options.journal.as_deref().map(JournalFile::create).transpose();
        config.journal = journal.map_err(unwritable)?;
        Ok(work(config).await)
    })?
}

/// Configures a chain, forks the reaper, starts the log, and runs `work` in an asynchronous runtime.
pub fn with_chain<T>(
    mode: Mode,
    mut specs: Vec<Spec>,
    options: &ChainOptions,
    start_log: impl FnOnce() -> Result<log::Logs, String>,
    work: impl AsyncFnOnce(Config) -> T,
) -> Result<T, Failure> {
    let warnings = acp_conductor::builtin::resolve(mode, &mut specs).map_err(Failure::usage)?;
    let mut config = Config::new(mode, specs);
    for (component, generation) in &options.dialect {
        config.set_dialect(component, *generation).map_err(invalid_option)?;
    }
    config.mcp_bridge = options.mcp_bridge.policy();
    apply_failure_options(&mut config, options).map_err(invalid_option)?;
    config.forwards_telemetry |= acp_conductor::host::leftovers::is_in_conductor();
    config.keeps_telemetry_of = acp_conductor::builtin::names();
    config.status = options.status == Switch::On;
    config.limits.initialize = options.init_timeout;
    config.limits.grace = options.grace;
    config.limits.max_line = options.max_line;
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
    let logs = start_log().map_err(Failure::usage)?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(ErrorKind::SystemError, error))?;
    let done = runtime.block_on(work(config));
    // A thread that still reads standard input must not delay the exit.
    runtime.shutdown_background();
    drop(logs);
    Ok(done)
}

fn invalid_option(why: String) -> Failure {
    Failure::invalid(ErrorKind::InvalidOption, why)
}

fn unwritable(why: String) -> Failure {
    Failure::invalid(ErrorKind::UnwritableFile, why)
}

/// Applies the options about failures. Options that name a component override those that do not.
fn apply_failure_options(config: &mut Config, options: &ChainOptions) -> Result<(), String> {
    config.check_failure_policy(true)?;
    options.guard.iter().try_for_each(|component| config.set_guard(component))?;
    for named in [true, false] {
        let on_crash = options.on_crash.iter().filter(|it| it.component.is_some() == named);
        on_crash.into_iter().try_for_each(|option| config.set_on_crash(option))?;
        let updates = options.updates.iter().filter(|it| it.component.is_some() == named);
        updates.into_iter().try_for_each(|option| config.set_updates(option))?;
        let restarts = options.restarts.iter().filter(|it| it.component.is_some() == named);
        restarts.into_iter().try_for_each(|option| config.set_restarts(option))?;
    }
    config.failure.restart_delay = options.restart_delay;
    config.failure.answer_limit = options.answer_limit.0;
    config.failure.prompt_limit = options.prompt_limit.0;
    config.failure.cancel_limit = options.cancel_limit.0;
    config.failure.notices = options.notices == Switch::On;
    Ok(())
}

/// Completes on a signal that asks the program to end. Includes Ctrl-C if `include_interrupt` is set.
#[cfg(unix)]
pub async fn wait_for_signal(include_interrupt: bool) {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
    let kinds = &kinds[..if include_interrupt { 3 } else { 2 }];
    let mut signals: Vec<_> = kinds.iter().filter_map(|kind| signal(*kind).ok()).collect();
    std::future::poll_fn(|cx| {
        match signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

#[cfg(not(unix))]
pub async fn wait_for_signal(include_interrupt: bool) {
    if !include_interrupt || tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
