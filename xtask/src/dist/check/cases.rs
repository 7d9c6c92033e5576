//! The install script on the bare system: what it installs, and what it refuses. The cases are in `cases.sh`.

use std::path::Path;

use super::bare_system::BareSystem;
use super::server::Server;
use super::{INSTALL_SCRIPT, Release, emulated_target, host_target};
use crate::tool::{copy_folder, read, run_here, write};

const RELEASES: &str = concat!("RELEASES='", env!("CARGO_PKG_REPOSITORY"), "/releases'");

/// Copies the release and the install script into the system, and runs the cases.
pub fn run_all(release: &Release, system: &BareSystem, out: &Path) -> Result<(), String> {
    let server = Server::start(out, &release.version)?;
    copy_folder(out, &system.path("/release"), &[])?;
    let script = read(INSTALL_SCRIPT)?;
    let local = script.replace(RELEASES, &format!("RELEASES={}", server.url("releases")));
    write(&system.path("/install.sh"), &script)?;
    write(&system.path("/install-from-releases.sh"), local)?;
    let (host, other) = (host_target()?, emulated_target()?);
    let archive = |target| format!("{}.tar.gz", release.archive_name(target));
    let mut settings = String::new();
    for (name, value) in [
        ("VERSION", &*release.version),
        ("COMMIT", &release.commit),
        ("TARGET", host),
        ("ARCHIVE", &archive(host)),
        ("OTHER_ARCHIVE", &archive(other)),
        ("OTHER_MACHINE", other.split('-').next().unwrap_or_default()),
        ("SERVER", server.url("").trim_end_matches('/')),
    ] {
        settings += &format!("{name}='{value}'\n");
    }
    run_here(&mut system.command(&(settings + include_str!("cases.sh"))))
}
