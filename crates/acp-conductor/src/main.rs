//! The program `conductor`: parses the command line, runs a command, and reports the result.

mod cli;
mod commands;

use std::io::{self, Write};
use std::process::ExitCode;

use acp_conductor::{Mode, log};
use clap::{CommandFactory, Parser};

use cli::{Cli, Command};
use commands::chain::{explain, run};
use commands::component::{component, serve};
use commands::manual::write_manual;
use commands::output::{Failure, print, write_error};
use commands::status::show_status;
use commands::try_chat::try_chain;

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
