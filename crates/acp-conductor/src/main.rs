//! The program `conductor`: parses the command line, runs a command, and reports the result.

mod cli;
mod commands;
mod completion;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use acp_conductor::{Mode, log};
use acp_wire::ErrorKind;
use clap::FromArgMatches;

use cli::{Cli, Command};
use commands::audit::audit;
use commands::chain::{explain, run};
use commands::component::{component, serve};
use commands::config::configure;
use commands::manual::{write_directory, write_manual};
use commands::named_chain::named_chain;
use commands::next_steps::NEXT_STEPS;
use commands::output::{Failure, print, write_error};
use commands::spent::spent;
use commands::status::show_status;
use commands::studio::studio;
use commands::trust::{trust, untrust};
use commands::try_chat::try_chain;
use commands::{error_page, version};

fn main() -> ExitCode {
    let parsed = cli::command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(message) => return print_clap_message(&message),
    };
    let result = match cli.command {
        _ if cli.version => print_text(&match cli.verbose {
            true => version::verbose(),
            false => version::short(),
        }),
        None => print_text(NEXT_STEPS),
        Some(command) => run_command(command),
    };
    log::progress::clear();
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

fn run_command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Agent(chain) if chain.explain => {
            explain(&chain.components, &chain.options, chain.json)
        }
        Command::Agent(chain) => run(Mode::Agent, &chain.components, &chain.options),
        Command::Proxy(chain) => run(Mode::Proxy, &chain.components, &chain.options),
        Command::Try(options) => try_chain(&options),
        Command::Studio(options) => studio(&options),
        Command::DemoAgent(agent) => serve(components::BuiltIn::build(&agent)),
        Command::Errors { code } => print_text(&error_page::text(code.as_deref())),
        Command::Components => print_text(&acp_conductor::builtin::list()),
        Command::Component { name, .. } if name == "--help" || name == "-h" => print(|out| {
            let mut cli = cli::command();
            cli.build();
            let help = cli.find_subcommand_mut("component").map(|it| it.render_long_help());
            write!(out, "{}", help.unwrap_or_default())
        }),
        Command::Component { name, options } => component(&name, &options),
        Command::Status { pid, json, watch } => show_status(pid, json, watch),
        Command::Trust(args) => trust(&args),
        Command::Untrust(args) => untrust(&args),
        Command::Reload { pid, now, json } => commands::reload::run(pid, now, json),
        Command::Config(args) => configure(&args.command),
        Command::Chain(args) => named_chain(&args.command),
        Command::Spent(args) => spent(&args),
        Command::Audit(args) => audit(&args.command),
        Command::Mcp { port } => acp_conductor::mcp::stdio::run(port).map_err(system),
        Command::Relay { port } => acp_conductor::relay::run(port).map_err(system),
        Command::Completions { shell } => print_text(shell.script()),
        Command::Complete { shell, words } => print_text(&completion::complete(shell, words)),
        Command::Man { dir: Some(directory), .. } => write_directory(&directory),
        Command::Man { command, .. } => {
            let mut page = Vec::new();
            write_manual(&mut page, command.as_deref())?;
            print(|out| out.write_all(&page))
        }
    }
}

fn system(why: impl Display) -> Failure {
    Failure::of(ErrorKind::SystemError, why)
}

fn print_text(text: &str) -> Result<(), Failure> {
    print(|out| out.write_all(text.as_bytes()))
}

/// Prints what clap returns instead of a command: help, the version, or a usage error.
fn print_clap_message(message: &clap::Error) -> ExitCode {
    let written = message.print().and_then(|()| io::stdout().flush());
    if message.use_stderr() {
        let reference = ErrorKind::InvalidOption.tag("");
        log::print_error(&format!("{}\n", reference.trim_start()));
    }
    match written {
        Err(error) if !message.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            log::print_error(&format!("conductor: {}\n", write_error(&error)));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2)),
    }
}
