//! The commands of docs/install.md. Those for archives run on the bare system, those for sources on this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::bare_system::BareSystem;
use super::server::Server;
use crate::dist::build::Builder;
use crate::dist::{Release, host_target};
use crate::markdown;
use crate::tool::{at, cargo, expect, output_of, root, run};

const RELEASES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/releases");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Runs the code blocks of the page, except those that compile. They use the release on this machine instead of the
/// published one.
pub fn check_page(
    release: &Release,
    system: &BareSystem,
    out: &Path,
    page: &str,
) -> Result<(), String> {
    let server = Server::start(out, &release.version)?;
    let releases = server.url("releases");
    for program in ["curl", "wget"] {
        let hidden = system.path(&format!("/{program}"));
        fs::rename(&hidden, system.path(&format!("/usr/bin/{program}"))).map_err(at(&hidden))?;
    }
    let mut count = 0;
    for block in blocks(page).iter().filter(|it| !it.contains("cargo install")) {
        println!("docs/install.md:\n{block}");
        // The server has no certificate.
        let local = block.replace(RELEASES, &releases).replace("--proto '=https' --tlsv1.2 ", "");
        let setting = format!("export CONDUCTOR_DOWNLOAD_URL={releases}/latest/download");
        let path = "export PATH=/root/.local/bin:/usr/local/bin:$PATH";
        system.succeed(&format!("set -e\n{setting}\n{path}\ncd /root\n{local}"))?;
        count += 1;
    }
    match count >= 8 {
        true => Ok(()),
        false => Err(format!("docs/install.md has {count} commands: are they found?")),
    }
}

/// Runs the commands of the page that compile the program. They compile for the same platform as the archive, so that its
/// dependencies are there already.
pub fn check_source_installs(builder: &Builder, folder: &Path, page: &str) -> Result<(), String> {
    let blocks = blocks(page);
    let lines = blocks.iter().flat_map(|block| block.lines());
    let lines: Vec<&str> = lines.filter(|it| it.starts_with("cargo install ")).collect();
    for option in ["--git", "--path"] {
        if !lines.iter().any(|line| line.contains(option)) {
            return Err(format!("docs/install.md has no `cargo install` with {option}"));
        }
    }
    for (index, line) in lines.iter().enumerate() {
        println!("docs/install.md:\n{line}");
        let target = folder.join(index.to_string());
        let mut install = Command::new(cargo());
        for word in line.split_whitespace().skip(1) {
            match word == REPOSITORY {
                true => {
                    let url = format!("file://{}", root().display());
                    install.args([&url, "--rev", &builder.release.commit])
                }
                false => install.arg(word),
            };
        }
        install.args(["--debug", "--target", host_target()?]).arg("--root").arg(&target);
        builder.configure(&mut install)?;
        run(&mut install)?;
        let version = output_of(Command::new(target.join("bin/conductor")).arg("--version"))?;
        expect(&version, env!("CARGO_PKG_VERSION"))?;
    }
    Ok(())
}

/// The code blocks of a page that have shell commands.
fn blocks(page: &str) -> Vec<String> {
    let blocks = markdown::blocks(page).into_iter();
    blocks.filter(|it| it.info.starts_with("sh")).map(|it| it.text).collect()
}
