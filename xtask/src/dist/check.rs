//! Checks a release: makes the archives, runs the programs, and installs them on a bare Debian system.
//!
//! The programs are compiled without optimisation, because that is much faster. Everything else is as in a release.

mod bare_system;
mod cases;
mod guide;
mod server;

use std::path::Path;
use std::process::{Command, id};
use std::{env, fs};

use super::build::Builder;
use super::{INSTALL_SCRIPT, Release, SUMS, TARGETS, host_target, sbom};
use crate::cache::{CachedBuilds, Profile};
use crate::platforms;
use crate::tool::{at, ensure_all_installed, enter_root, expect, output_of, read, root, run};
use bare_system::BareSystem;

/// Installs the programs that the check needs, and makes the bare Debian system.
pub fn install_tools() -> Result<(), String> {
    ensure_all_installed(&[
        (&emulator()?, &["--version"], "qemu-user-static"),
        ("shellcheck", &["--version"], "shellcheck"),
        ("unshare", &["--version"], "util-linux"),
        ("mmdebstrap", &["--version"], "mmdebstrap"),
        ("zsh", &["--version"], "zsh"),
        ("busybox", &["true"], "busybox"),
    ])?;
    bare_system::make().map(drop)
}

/// Checks everything.
pub fn run_all() -> Result<(), String> {
    enter_root()?;
    let cases = root().join("xtask/src/dist/check/cases.sh");
    run(Command::new("shellcheck").args(["--shell=sh", INSTALL_SCRIPT]).arg(cases))?;
    platforms::install_targets(&TARGETS)?;
    let folder = env::temp_dir().join(format!("conductor-dist-{}", id()));
    let checked = check_in(&folder);
    let _ = fs::remove_dir_all(&folder);
    checked
}

fn check_in(folder: &Path) -> Result<(), String> {
    let builds = CachedBuilds::open()?;
    let release = Release::read()?;
    let builder = Builder { profile: Profile::Dev, cache: Some(&builds), release: &release };
    let (first, second) = (folder.join("release"), folder.join("again"));
    for out in [&first, &second] {
        super::write_release(&release, &builder, &TARGETS, "notes\n", out)?;
    }
    println!("the same commit gives the same bytes");
    run(Command::new("diff").arg("--recursive").args([&first, &second]))?;
    println!("the checksums and SBOMs are valid");
    run(Command::new("sha256sum").args(["--check", "--strict", SUMS]).current_dir(&first))?;
    for target in TARGETS {
        let text = read(first.join(format!("{}.cdx.json", release.archive_name(target))))?;
        sbom::check(&serde_json::from_str(&text).map_err(|error| format!("the SBOM: {error}"))?)?;
    }
    emulate(&release, &first)?;
    try_shells(&release, &first)?;
    let system = BareSystem::unpack(&folder.join("debian"))?;
    cases::run_all(&release, &system, &first)?;
    let page = read("docs/install.md")?;
    guide::check_page(&release, &system, &first, &page)?;
    guide::check_source_installs(&builder, &folder.join("source"), &page)
}

/// Runs the program for the other platform in an emulator.
fn emulate(release: &Release, out: &Path) -> Result<(), String> {
    let name = release.archive_name(emulated_target()?);
    println!("{name} in an emulator");
    let archive = out.join(format!("{name}.tar.gz"));
    let folder = out.with_file_name("emulated");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder))?;
    let program = folder.join(&name).join("conductor");
    let output = |arguments: &[&str]| {
        output_of(Command::new(emulator()?).arg(&program).args(arguments).env("HOME", &folder))
    };
    let version = output(&["--version"])?;
    expect(&version, &format!("conductor {}\n", release.version))?;
    // The emulator runs one program. A chain with names of built-in components starts no other one.
    let answer = output(&["try", "--prompt", "hello", "sparkle", "demo-agent"])?;
    expect(&answer, "Hello!")
}

/// Runs the install script in the shells of other systems.
fn try_shells(release: &Release, out: &Path) -> Result<(), String> {
    let home = out.with_file_name("home");
    for shell in [&["bash"][..], &["busybox", "sh"], &["zsh"]] {
        println!("install.sh in {}", shell.join(" "));
        let script = |arguments: &[&str]| {
            let mut command = Command::new(shell[0]);
            command.args(&shell[1..]).arg(INSTALL_SCRIPT).args(arguments);
            command.arg("--from").arg(out).env("HOME", &home).env_remove("XDG_DATA_HOME");
            output_of(&mut command)
        };
        let program = home.join(".local/bin/conductor");
        // The second run is an upgrade.
        for _ in 0..2 {
            expect(&script(&[])?, "is installed")?;
            let version = output_of(Command::new(&program).arg("--version"))?;
            expect(&version, &format!("conductor {}\n", release.version))?;
        }
        expect(&script(&["--uninstall"])?, "Conductor is removed")?;
        if program.exists() {
            return Err(format!("{} is left", program.display()));
        }
    }
    Ok(())
}

fn emulated_target() -> Result<&'static str, String> {
    let host = host_target()?;
    TARGETS.into_iter().find(|it| *it != host).ok_or_else(|| "no other platform".to_owned())
}

fn emulator() -> Result<String, String> {
    let machine = emulated_target()?.split('-').next().unwrap_or_default();
    Ok(format!("qemu-{machine}-static"))
}
