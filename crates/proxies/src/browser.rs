//! Opens a page in the browser of the user.
//!
//! The address contains a secret, and other users can see the arguments of a program. So the browser opens a file that
//! only the user can read, which leads to the address.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long the browser may take to read the file.
const READ: Duration = Duration::from_secs(60);

/// Opens an address.
///
/// # Errors
/// There is no state folder, or no program that opens files.
pub fn open(url: &str) -> io::Result<()> {
    let folder = component_base::state_folder::path()
        .ok_or_else(|| io::Error::other("there is no home folder"))?
        .join("studio");
    component_base::state_folder::create_private(&folder)?;
    let file = folder.join(format!("open-{}.html", std::process::id()));
    let html = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={url}\">\
         <title>Conductor studio</title><p><a href=\"{url}\">Open the studio</a></p>\n"
    );
    // Another file with this name may belong to an earlier process.
    let _ = fs::remove_file(&file);
    component_base::append::open_to_read(&file)
        .map_err(io::Error::other)
        .and_then(|mut it| io::Write::write_all(&mut it, html.as_bytes()))?;
    start(file)
}

fn start(file: PathBuf) -> io::Result<()> {
    let mut command = match () {
        () if cfg!(target_os = "macos") => Command::new("open"),
        () if cfg!(windows) => Command::new("explorer"),
        () => Command::new("xdg-open"),
    };
    command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // Some programs stay in the foreground as long as the browser runs.
    std::thread::spawn(move || child.wait());
    std::thread::spawn(move || {
        std::thread::sleep(READ);
        let _ = fs::remove_file(file);
    });
    Ok(())
}
