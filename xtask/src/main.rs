//! The project's own chores: `cargo xtask` lists them.
#![allow(clippy::print_stdout)] // standard output is the protocol in the conductor, not here

mod bench;
mod cache;
mod demo;
mod fuzz;
mod mutants;
mod packages;
mod peers;
mod picture;
mod platforms;
mod replay;
mod test;
mod tidy;
mod tool;
mod wine;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

  demo             a conversation through a chain of two proxies, as an editor sees it
  picture          make docs/try.svg, the picture of `conductor try` in the README
  test             everything that must pass, also on macOS and Windows; installs what it needs; says
                   first what it does and how long it takes
  test --quick     some minutes: format, house rules, lints, and the tests that need no third-party
                   program
  test --only STEP one step of it
  peers            build the third-party programs that the tests talk to (done by `test`)
  tidy             the house rules alone
  fuzz [--seconds N] [TARGET…]
                   fuzz longer: ten minutes for each target; what it finds is kept as a test
  mutants [OPTION…]
                   test the core's tests: change the code at random places, and see whether they notice
  replay FILE      step through the journal of a chain, and see whether it replays identically; of
                   several files and folders, name the journals that do not
  bench [OPTION…]  measure the conductor against the reference conductor and bare pipes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["demo"] => demo::run(),
        ["test", ..] => test::start(&arguments[1..]),
        ["picture"] => picture::run(),
        ["peers"] => peers::ensure().map(|index| println!("{}", index.display())),
        ["tidy"] => tidy::run(),
        ["fuzz", ..] => fuzz::run(&arguments[1..]),
        ["mutants", ..] => mutants::run(&arguments[1..]),
        ["replay", ..] => replay::run(&arguments[1..]),
        ["bench", ..] => bench::run(&arguments[1..]),
        _ => Err(format!(
            "{USAGE}\n\n  mutants {}\n\n  {}\n\n  bench {}",
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
