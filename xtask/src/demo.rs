//! `cargo xtask demo`: runs a conversation through a real chain, and prints what the editor sees.

use std::process::Command;

use crate::editor::Editor;
use crate::places::quote;
use crate::tool::release;

pub fn run() -> Result<(), String> {
    let programs = release()?;
    let binary = |name: &str| quote(&programs.join(name).display().to_string());
    println!("$ conductor agent transparent transparent stub_agent\n");
    let mut conductor = Command::new(programs.join("conductor"));
    conductor.args([
        "agent",
        &binary("transparent"),
        &binary("transparent"),
        &binary("stub_agent"),
    ]);
    let mut editor = Editor::start(&mut conductor, true)?;
    editor.open("/")?;
    // The agent streams three updates and answers.
    editor.prompt("stream 3")?;
    editor.close()?;
    println!("\nThe editor has disconnected. The conductor has stopped its components and exited.");
    Ok(())
}
