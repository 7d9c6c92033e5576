//! `cargo xtask bench`: builds the crate `bench` and what it compares, optimised, and runs it.

use std::process::Command;

use crate::cache::{Profile, PublishedCrate};
use crate::tool::{cargo, root, run, run_here, target};
use crate::{options, peers};

/// The reference conductor.
const REFERENCE: PublishedCrate = PublishedCrate {
    name: "agent-client-protocol-conductor",
    version: "5.0.0",
    profile: Profile::Release,
};

pub const USAGE: &str = "\
bench [--quick] [--no-reference] [--only WORD] [--no-write] [--no-build] [--ours PROGRAM]
                   compare the conductor with the reference conductor and with bare pipes
    --quick          fewer and shorter rounds: two minutes instead of ten
    --no-reference   ours and the floor only; writes nothing
    --only WORD      only measurements with WORD in their name (start-up, prompt-pinned, prompt-unpinned,
                     stream-pinned, stream-unpinned, big-1, big-8, asks, sessions, tool-pinned,
                     tool-unpinned, tool-http-pinned, tool-http-unpinned, tool-memory,
                     tool-http-memory, proxy-cost); writes nothing. component-cost, the cost of the
                     built-in components, is measured only by name, and writes its section
    --no-write       leave BENCHMARKS.md as it is
    --no-build       measure the release binaries as they are
    --ours PROGRAM   measure another program in our place; writes nothing";

pub fn run_command(arguments: &[String]) -> Result<(), String> {
    let flags = ["--quick", "--no-reference", "--no-write", "--no-build"];
    let options = options::parse(arguments, USAGE, &flags, &["--only", "--ours"])?;
    options.no_words()?;
    if !options.has("--no-build") {
        let packages = ["-p", "acp-conductor", "-p", "testkit", "-p", "bench"];
        run(Command::new(cargo()).args(["build", "--release"]).args(packages).current_dir(root()))?;
    }
    let mut bench = Command::new(target()?.join("release/bench"));
    let only = options.value("--only");
    // The benchmark of the components has no other contender.
    if !options.has("--no-reference") && only != Some("component-cost") {
        bench.env("BENCH_REFERENCE", REFERENCE.installed()?);
        if only.is_none_or(|word| "proxy-cost".contains(word)) {
            bench.env("BENCH_OFFICIAL_PROXY", peers::optimised_proxy()?);
        }
    }
    run_here(bench.env("BENCH_REFERENCE_VERSION", REFERENCE.version).args(arguments))
}
