//! A Debian system with nothing but the essential packages, and programs that download files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::places::cache;
use crate::tool::{at, output_of, run};

const SUITE: &str = "bookworm";

/// The packages besides the essential ones.
const PACKAGES: &str = "curl,wget";

/// The sources of Debian's packages on this machine. They may name a mirror.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];

/// What a process in the system begins with: the devices and processes of this machine, and a clean environment.
const ENTER: &str = r#"
mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" &&
exec chroot "$0" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c "$1"
"#;

/// Makes the system in the cache, unless it is there. Returns its archive.
pub fn make() -> Result<PathBuf, String> {
    let archive = cache().join(format!("debian-{SUITE}-{PACKAGES}.tar"));
    if archive.is_file() {
        return Ok(archive);
    }
    fs::create_dir_all(cache()).map_err(at(&cache()))?;
    let unfinished = archive.with_extension("unfinished.tar");
    let mut make = Command::new("mmdebstrap");
    make.arg("--variant=essential").arg(format!("--include={PACKAGES}"));
    make.args([
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
    ]);
    make.arg(SUITE).arg(&unfinished);
    let names_debian = |path: &&&str| {
        let text = fs::read_to_string(path);
        text.is_ok_and(|it| it.contains(SUITE) && it.contains("debian"))
    };
    make.args(SOURCES.iter().find(names_debian));
    run(&mut make)?;
    fs::rename(&unfinished, &archive).map_err(at(&unfinished))?;
    Ok(archive)
}

/// An unpacked system.
#[derive(Debug)]
pub struct BareSystem {
    root: PathBuf,
}

impl BareSystem {
    /// Unpacks the system into a new folder.
    pub fn unpack(root: &Path) -> Result<BareSystem, String> {
        fs::create_dir_all(root).map_err(at(root))?;
        let archive = make()?;
        let mut tar = Command::new("tar");
        // Only the superuser can create devices. A process in the system gets those of this machine.
        tar.args(["--exclude=./dev/*", "--extract", "--file"]).arg(archive).arg("-C").arg(root);
        run(&mut tar)?;
        Ok(BareSystem { root: root.to_owned() })
    }

    /// The path on this machine of a path in the system.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A command that runs shell commands in the system.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        let superuser = output_of(Command::new("id").arg("-u")).is_ok_and(|it| it.trim() == "0");
        if !superuser {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--", "sh", "-c", ENTER]).arg(&self.root).arg(script);
        command
    }

    /// Runs shell commands that must succeed. Returns what they print.
    pub fn succeed(&self, script: &str) -> Result<String, String> {
        let output = self.command(script).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("unshare: {error}"))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        match output.status.success() {
            true => Ok(text),
            false => Err(format!("this failed on the bare system: {script}\n{text}")),
        }
    }
}
