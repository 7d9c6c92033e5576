//! Development commands: `cargo xtask` lists them.
#![allow(clippy::print_stdout)] // standard output is the protocol in the conductor, not here

mod bench;
mod cache;
mod demo;
mod dist;
mod editor;
mod fuzz;
mod licences;
mod markdown;
mod mutants;
mod options;
mod packages;
mod peers;
mod picture;
#[path = "../../crates/testkit/src/places.rs"]
mod places;
mod platforms;
mod test;
mod tidy;
mod tool;
mod vscode;
mod walk;
mod web;
mod wine;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo             run a conversation through a chain of two proxies, and print what the editor sees
  picture [PROGRAM]
                   write docs/try.svg, the picture of `conductor try` in the guide
  peers            build the third-party programs for the interop tests (`test` does this, too)
  tidy             check the house rules
  replay FILE [--from N] [--to N] [--quiet]
                   replay the journal of a chain step by step, between these lines of FILE
  replay FILE|FOLDER…
                   replay several journals, and list those that do not replay identically";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["demo"] => demo::run(),
        ["test", ..] => test::start(&arguments[1..]),
        ["stress", ..] => test::stress::start(&arguments[1..]),
        ["picture"] => picture::run(None),
        ["picture", program] => picture::run(Some(program)),
        ["peers"] => peers::ensure().map(|index| println!("{}", index.display())),
        ["tidy"] => tidy::run(),
        ["fuzz", ..] => fuzz::run(&arguments[1..]),
        ["mutants", ..] => mutants::run(&arguments[1..]),
        ["replay", ..] => {
            tool::run_here(tool::cargo_run("testkit", "replay").args(&arguments[1..]))
        }
        ["walk", ..] => walk::run_walk(&arguments[1..]),
        ["web", ..] => web::run_command(&arguments[1..]),
        ["vscode", ..] => vscode::run_command(&arguments[1..]),
        ["dist", ..] => dist::run(&arguments[1..]),
        ["bench", ..] => bench::run_command(&arguments[1..]),
        _ => {
            let more = [test::USAGE, test::stress::USAGE, fuzz::USAGE, mutants::USAGE];
            let more = more.into_iter().chain([
                web::USAGE,
                vscode::USAGE,
                walk::USAGE,
                dist::USAGE,
                bench::USAGE,
            ]);
            Err(more.fold(USAGE.to_owned(), |text, usage| format!("{text}\n  {usage}")))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
