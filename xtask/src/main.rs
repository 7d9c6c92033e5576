//! Development commands: `cargo xtask` lists them.
#![allow(clippy::print_stdout)] // standard output is the protocol in the conductor, not here

mod bench;
mod cache;
mod demo;
mod dist;
mod editor;
mod fuzz;
mod markdown;
mod mutants;
mod packages;
mod peers;
mod picture;
mod platforms;
mod replay;
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
  fuzz [--seconds N] [TARGET…]
                   run the fuzz targets, ten minutes each by default. Findings become tests
  mutants [OPTION…]
                   run mutation tests of the core: change random expressions, and check that tests fail
  replay FILE      replay the journal of a chain step by step. For several files or folders, list the
                   journals that do not replay identically
  dist             build the archives, checksums and notes of a release in target/dist
  bench [OPTION…]  compare the conductor with the reference conductor and with bare pipes";

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
        ["replay", ..] => replay::run(&arguments[1..]),
        ["walk", ..] => walk::run_walk(&arguments[1..]),
        ["web", ..] => web::run_command(&arguments[1..]),
        ["vscode", ..] => vscode::run_command(&arguments[1..]),
        ["dist", ..] => dist::run(&arguments[1..]),
        ["bench", ..] => bench::run(&arguments[1..]),
        _ => Err(format!(
            "{USAGE}\n\n  {}\n\n  {}\n\n  {}\n\n  {}\n\n  {}\n\n  {}\n\n  mutants {}\n\n  {}\n\n  bench {}",
            test::USAGE,
            test::stress::USAGE,
            web::USAGE,
            vscode::USAGE,
            walk::USAGE,
            dist::USAGE,
            mutants::USAGE,
            replay::USAGE,
            bench::USAGE
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
