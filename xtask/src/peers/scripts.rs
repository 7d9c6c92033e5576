//! The peers in TypeScript and Python.

use std::path::Path;
use std::process::Command;

use super::build_cache::{built, copy_files, source};
use super::{Commands, quoted};
use crate::tool::{ensure_installed, output_of, run};

pub fn typescript(commands: &mut Commands) -> Result<(), String> {
    ensure_installed("node", &["--version"], "nodejs")?;
    ensure_installed("npm", &["--version"], "npm")?;
    let source = source("typescript");
    let place = built("peers-typescript", std::slice::from_ref(&source), "", |place| {
        copy_files(&source, place)?;
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place))
    })?;
    for (name, file) in [
        ("ts_editor", "editor.mjs"),
        ("ts_proxy", "proxy.mjs"),
        ("ts_agent", "agent.mjs"),
        ("everything_proxy", "everything-proxy.mjs"),
        ("mcp_agent_ts", "mcp-agent.mjs"),
        ("mcp_editor_ts", "mcp-editor.mjs"),
        ("mcp_everything", "node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
        ("ts_thinkwell", "thinkwell-conductor.mjs"),
    ] {
        commands.insert(name, quoted([Path::new("node"), &place.join(file)]));
    }
    Ok(())
}

pub fn python(commands: &mut Commands) -> Result<(), String> {
    ensure_installed("python3", &["--version"], "python3")?;
    // Debian's python3 has the module venv, but not ensurepip, which venv needs to install pip.
    ensure_installed("python3", &["-c", "import venv, ensurepip"], "python3-venv")?;
    // A virtual environment works only with the Python that has created it.
    let version = output_of(
        Command::new("python3").args(["-c", "import sys; print(sys.base_prefix, sys.version)"]),
    )?;
    let source = source("python");
    let place = built("peers-python", std::slice::from_ref(&source), &version, |place| {
        copy_files(&source, place)?;
        run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(place))?;
        run(Command::new("venv/bin/python")
            .args(["-m", "pip", "install", "--quiet", "--requirement", "requirements.txt"])
            .current_dir(place))
    })?;
    // Run by path, and not with a script of the environment: such a script contains the directory in which it was
    // created, and the environment has been moved since.
    let python = place.join("venv/bin/python");
    commands.insert("py_editor", quoted([&python, &place.join("editor.py")]));
    commands.insert("py_agent", quoted([&python, &place.join("agent.py")]));
    commands.insert("mcp_agent_py", quoted([&python, &place.join("mcp_agent.py")]));
    Ok(())
}
