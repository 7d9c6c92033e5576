//! The project's own chores: `cargo xtask` lists them.
#![allow(clippy::print_stdout)] // standard output is the protocol in the conductor, not here

mod bench;
mod cache;
mod peers;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((chore, rest)) if chore == "bench" => bench::run(rest),
        Some((chore, [])) if chore == "peers" => {
            peers::ensure().map(|index| println!("{}", index.display()))
        }
        _ => Err(format!("usage: cargo xtask peers\n       cargo xtask bench {}", bench::USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
