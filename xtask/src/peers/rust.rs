//! The peers in Rust.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::place::{at, built, copy, source};
use super::tool::{cargo, need, run};
use super::{Commands, quoted};

/// Programs of the older generations: the name of the binary is also the name in the index.
const GENERATIONS: [&str; 21] = [
    "conductor_3_6",
    "conductor_sacp_11",
    "conductor_sacp_4",
    "conductor_sacp_5",
    "eliza_1",
    "eliza_12",
    "proxy_0_11",
    "proxy_1_3",
    "proxy_2_2",
    "proxy_3_6",
    "proxy_p3",
    "proxy_sacp_11",
    "sparkle_0_1",
    "sparkle_0_7",
    "tee_0_1",
    "tee_10",
    "tools_0_11",
    "tools_1_3",
    "tools_2_2",
    "tools_3_6",
    "tools_sacp_11",
];

/// The packages that they are in, below the first of them.
const GENERATION_PACKAGES: [&str; 5] = ["", "acp-2.2", "acp-1.3", "tools-3.6", "tools-2.2"];

pub fn current(commands: &mut Commands) -> Result<(), String> {
    let source = source("rust-sdk");
    let story = ["acp-editor", "acp-proxy", "acp-agent"];
    let mcp = ["mcp-agent", "tools"];
    let place = built(&source, "", |place| {
        let target = place.join("target");
        cargo_build(&source, &target, "release")?;
        keep(&story, &target.join("release"), place)?;
        cargo_build(&source.join("mcp"), &target, "dev")?;
        keep(&mcp, &target.join("debug"), place)?;
        fs::remove_dir_all(&target).map_err(at(&target))
    })?;
    let names = ["rust_editor", "rust_proxy", "rust_agent", "mcp_agent_rust", "tools_5_0"];
    for (name, binary) in names.into_iter().zip(story.into_iter().chain(mcp)) {
        commands.insert(name, quoted([place.join(binary)]));
    }
    Ok(())
}

pub fn generations(commands: &mut Commands) -> Result<(), String> {
    let source = source("generations");
    let place = built(&source, "", |place| {
        // sparkle-mcp 0.1 has an HTTP client on the system's OpenSSL.
        need("pkg-config", &["--version"], "pkg-config")?;
        need("pkg-config", &["--exists", "openssl"], "libssl-dev")?;
        // One for all packages: they have many dependencies in common.
        let target = place.join("target");
        for package in GENERATION_PACKAGES {
            cargo_build(&source.join(package), &target, "dev")?;
        }
        keep(&GENERATIONS, &target.join("debug"), place)?;
        fs::remove_dir_all(&target).map_err(at(&target))
    })?;
    for name in GENERATIONS {
        commands.insert(name, quoted([place.join(name)]));
    }
    Ok(())
}

fn cargo_build(package: &Path, target: &Path, profile: &str) -> Result<(), String> {
    run(Command::new(cargo())
        .args(["build", "--locked", "--profile", profile, "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", target))
}

/// Some programs are worth keeping, the gigabytes that they were made of are not.
fn keep(binaries: &[&str], from: &Path, to: &Path) -> Result<(), String> {
    binaries.iter().try_for_each(|it| copy(&from.join(it), &to.join(it)))
}
