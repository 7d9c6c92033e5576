//! `conductor status`: the running conductors.

use acp_conductor::{log, status};

use super::output::{Failure, print, print_json};

/// `conductor status`: prints the status of the running conductors.
pub fn show_status(pid: Option<u32>, json: bool) -> Result<(), Failure> {
    let found = status::query(pid).map_err(Failure::run)?;
    let problems = found.unreadable.iter().chain(&found.unresponsive);
    problems.for_each(|line| log::print_error(&format!("conductor: {line}\n")));
    print(|out| match json {
        true => print_json(out, &found.running),
        false => out.write_all(status::table::text(&found).as_bytes()),
    })
}
