//! The program `conductor`: parses the command line, runs a command, and reports the result.

mod cli;

use std::io::{self, Write};
use std::process::ExitCode;

use acp_conductor::chat::{self, ChatEnd, WireDetail};
use acp_conductor::host::process::ProcessCleanup;
use acp_conductor::{Config, Ending, JournalFile, Mode, Spec, log, status, stdio};
use clap::{CommandFactory, Parser};
use tokio::sync::mpsc::UnboundedReceiver;

use cli::{ChainArgs, ChainOptions, Cli, Color, Command, ShowWire, Switch, TryArgs};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => return print_clap_message(&message),
    };
    let result = match cli.command {
        Command::Agent(chain) if chain.explain => {
            explain(chain.components, &chain.options, chain.json)
        }
        Command::Agent(chain) => run(Mode::Agent, chain.components, &chain.options),
        Command::Proxy(chain) => run(Mode::Proxy, chain.components, &chain.options),
        Command::Try(options) => try_chain(&options),
        Command::DemoAgent(agent) => serve(components::BuiltIn::build(&agent)),
        Command::Components => {
            print(|out| out.write_all(acp_conductor::builtin::list().as_bytes()))
        }
        Command::Component { name, .. } if name == "--help" || name == "-h" => print(|out| {
            let mut cli = Cli::command();
            cli.build();
            let help = cli.find_subcommand_mut("component").map(|it| it.render_long_help());
            write!(out, "{}", help.unwrap_or_default())
        }),
        Command::Component { name, options } => component(&name, &options),
        Command::Status { pid, json } => show_status(pid, json),
        Command::Mcp { port } => acp_conductor::mcp::stdio::run(port).map_err(Failure::run),
        Command::Relay { port } => acp_conductor::relay::run(port).map_err(Failure::run),
        Command::Completions { shell } => print(|out| {
            clap_complete::generate(shell, &mut Cli::command(), "conductor", out);
            Ok(())
        }),
        Command::Man => print(write_manual),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { status, line }) => {
            if let Some(line) = line {
                log::print_error(&format!("conductor: {line}\n"));
            }
            ExitCode::from(status)
        }
    }
}

/// Prints what clap returns instead of a command: help, the version, or a usage error.
fn print_clap_message(message: &clap::Error) -> ExitCode {
    let written = message.print().and_then(|()| io::stdout().flush());
    match written {
        Err(error) if !message.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            log::print_error(&format!("conductor: {}\n", write_error(&error)));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2)),
    }
}

fn write_error(error: &io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// The exit status of a command that failed, and the error message unless it was already printed.
struct Failure {
    status: u8,
    line: Option<String>,
}

impl Failure {
    /// An invalid command line: status 2.
    fn usage(line: String) -> Failure {
        Failure { status: 2, line: Some(line) }
    }

    /// A command that failed: status 1.
    fn run(line: impl Into<String>) -> Failure {
        Failure { status: 1, line: Some(line.into()) }
    }
}

/// `conductor agent` and `conductor proxy`: runs a chain.
fn run(mode: Mode, components: Vec<String>, options: &ChainArgs) -> Result<(), Failure> {
    let ending = with_chain_and_journal(
        mode,
        parse_components(&components)?,
        options,
        async |mut config| {
            config.hung_up = Some(stdio::hung_up);
            acp_conductor::run(config, stdio::outer_streams(), wait_for_signal(true)).await
        },
    )?;
    match ending {
        Ending::Clean => Ok(()),
        Ending::Failed(line) => Err(Failure::run(line)),
    }
}

/// `conductor agent --explain`: prints the report.
fn explain(components: Vec<String>, options: &ChainArgs, json: bool) -> Result<(), Failure> {
    let report = with_chain_and_journal(
        Mode::Agent,
        parse_components(&components)?,
        options,
        async |config| acp_conductor::explain(config, wait_for_signal(true)).await,
    )?;
    print(|out| match json {
        true => print_json(out, &report),
        false => write!(out, "{report}"),
    })?;
    match report.error {
        Some(error) => Err(Failure::run(error)),
        None => Ok(()),
    }
}

/// `conductor status`: prints the status of the running conductors.
fn show_status(pid: Option<u32>, json: bool) -> Result<(), Failure> {
    let found = status::query(pid).map_err(Failure::run)?;
    let problems = found.unreadable.iter().chain(&found.unresponsive);
    problems.for_each(|line| log::print_error(&format!("conductor: {line}\n")));
    print(|out| match json {
        true => print_json(out, &found.running),
        false => out.write_all(status::table::text(&found).as_bytes()),
    })
}

/// `conductor try`: runs a chain and a chat with it.
fn try_chain(options: &TryArgs) -> Result<(), Failure> {
    let components = match options.components.is_empty() {
        true => demo_chain()?,
        false => parse_components(&options.components)?,
    };
    let mut style = chat::view::Style::default();
    match options.color {
        Color::Auto => {}
        Color::Always => style.color = true,
        Color::Never => style.color = false,
    }
    let wire = options.show_wire.map(|which| match which {
        ShowWire::Folded => WireDetail::Folded,
        ShowWire::All => WireDetail::All,
    });
    let (prompts, yes, protocol) = (options.prompt.clone(), options.yes, options.protocol);
    let chat_options = chat::Options { prompts, yes, wire, style, protocol };
    let start_log = || log::start_file_only(&options.log, options.log_file.as_deref());
    let end = with_chain(Mode::Agent, components, &options.chain, start_log, async |config| {
        chat::run(config, chat_options, interrupt_channel(), wait_for_signal(false)).await
    })?;
    match end.map_err(Failure::run)? {
        ChatEnd::Closed => Ok(()),
        ChatEnd::AnswerFailed | ChatEnd::ChainEnded => Err(Failure { status: 1, line: None }),
        ChatEnd::Interrupted => Err(Failure { status: 130, line: None }),
    }
}

/// The chain of `conductor try` without arguments: a built-in proxy and the demo agent, as processes.
fn demo_chain() -> Result<Vec<Spec>, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::run(format!("cannot find the path of the conductor program: {error}"))
    })?;
    let component = |name: &str, args: &[&str]| {
        let json = serde_json::json!({ "name": name, "command": program, "args": args });
        Spec::parse(&json.to_string()).map_err(Failure::run)
    };
    Ok(vec![
        component("sparkle", &["component", "sparkle"])?,
        component("demo-agent", &["demo-agent"])?,
    ])
}

/// `conductor component`: runs a built-in component as a separate process.
fn component(name: &str, options: &[String]) -> Result<(), Failure> {
    let Some(entry) = components::find(name) else {
        let why =
            format!("there is no built-in component '{name}'; `conductor components` lists them");
        return Err(Failure::usage(why));
    };
    if options.iter().any(|option| option == "--help" || option == "-h") {
        return print(|out| out.write_all(entry.help().as_bytes()));
    }
    let factory = entry.parse(options).map_err(Failure::usage)?;
    serve(factory())
}

/// Runs a proxy, or an agent, on standard input and output.
fn serve(component: acp_proxy::Component) -> Result<(), Failure> {
    let name = component.name().to_owned();
    component.run().map_err(|error| Failure::run(format!("{name}: {error}")))
}

/// Parses the COMPONENT arguments. An error does not repeat the argument, which may contain a secret.
fn parse_components(components: &[String]) -> Result<Vec<Spec>, Failure> {
    let parse = |(number, text): (usize, &String)| {
        Spec::parse(text).map_err(|why| {
            Failure::usage(format!(
                "component {number} is invalid: {why}; see `conductor agent --help`"
            ))
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
        config.journal = journal.map_err(Failure::usage)?;
        Ok(work(config).await)
    })?
}

/// Configures a chain, forks the reaper, starts the log, and runs `work` in an asynchronous runtime.
fn with_chain<T>(
    mode: Mode,
    mut specs: Vec<Spec>,
    options: &ChainOptions,
    start_log: impl FnOnce() -> Result<log::Logs, String>,
    work: impl AsyncFnOnce(Config) -> T,
) -> Result<T, Failure> {
    let warnings = acp_conductor::builtin::resolve(mode, &mut specs).map_err(Failure::usage)?;
    let mut config = Config::new(mode, specs);
    for (component, generation) in &options.dialect {
        config.set_dialect(component, *generation).map_err(Failure::usage)?;
    }
    config.mcp_bridge = options.mcp_bridge.policy();
    apply_failure_options(&mut config, options).map_err(Failure::usage)?;
    config.status = options.status == Switch::On;
    config.limits.initialize = options.init_timeout;
    config.limits.grace = options.grace;
    config.limits.max_line = options.max_line;
    let tag = acp_conductor::host::leftovers::ProcessTag::random();
    // The reaper is forked while the program still has a single thread.
    #[cfg(unix)]
    // SAFETY: nothing has started a thread yet.
    let reaper = unsafe { acp_conductor::host::reaper::Reaper::start(tag) }
        .map_err(|error| Failure::run(format!("cannot start the reaper process: {error}")))?;
    #[cfg(unix)]
    let cleanup =
        ProcessCleanup { reaper: reaper.descriptor(), die_with_thread: true, tag: Some(tag) };
    #[cfg(not(unix))]
    let cleanup = ProcessCleanup { tag: Some(tag), ..ProcessCleanup::default() };
    config.cleanup = cleanup;
    let logs = start_log().map_err(Failure::usage)?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::run(error.to_string()))?;
    let done = runtime.block_on(work(config));
    // A thread that still reads standard input must not delay the exit.
    runtime.shutdown_background();
    drop(logs);
    Ok(done)
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

/// A channel that receives a message for each Ctrl-C from now on.
fn interrupt_channel() -> UnboundedReceiver<()> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {}
    });
    receiver
}

/// Completes on a signal that asks the program to end. Includes Ctrl-C if `include_interrupt` is set.
#[cfg(unix)]
async fn wait_for_signal(include_interrupt: bool) {
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
async fn wait_for_signal(include_interrupt: bool) {
    if !include_interrupt || tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Writes a single manual page, with a section for each command.
fn write_manual(out: &mut dyn Write) -> io::Result<()> {
    let cli = Cli::command();
    let page = clap_mangen::Man::new(cli.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_description_section(out)?;
    for command in cli.get_subcommands() {
        let name = format!("conductor {}", command.get_name());
        let part = clap_mangen::Man::new(command.clone().bin_name(name.clone()));
        let mut text = Vec::new();
        part.render_synopsis_section(&mut text)?;
        part.render_description_section(&mut text)?;
        part.render_options_section(&mut text)?;
        part.render_extra_section(&mut text)?;
        let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
        write!(out, ".SH \"{}\"\n{text}", name.to_uppercase())?;
    }
    page.render_version_section(out)
}

/// Writes to standard output.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut text = Vec::new();
    write(&mut text).map_err(|error| Failure::run(error.to_string()))?;
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::run(write_error(&error))),
    }
}

/// Prints JSON with the control characters escaped: names and errors come from components.
fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{}", acp_wire::printable::json(&text))
}
