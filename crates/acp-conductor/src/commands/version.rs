//! `conductor --version`: the version, and with `--verbose` how the program was built and what it supports.

use std::fmt::Write;

use acp_wire::dialect::Generation;

/// The output of `conductor --version`.
pub fn short() -> String {
    format!("conductor {}\n", env!("CARGO_PKG_VERSION"))
}

/// The output of `conductor --version --verbose`. The rows have a fixed order, so that scripts can read them.
pub fn verbose() -> String {
    let changed = option_env!("CONDUCTOR_COMMIT_CHANGED").map_or("", |_| ", with changes");
    let commit = match (option_env!("CONDUCTOR_COMMIT"), option_env!("CONDUCTOR_COMMIT_DATE")) {
        (Some(commit), Some(date)) => format!("{commit} ({date}){changed}"),
        (Some(commit), None) => format!("{commit}{changed}"),
        (None, _) if cfg!(debug_assertions) => "not recorded in a debug build".to_owned(),
        (None, _) => "unknown".to_owned(),
    };
    let generations = Generation::ALL.map(|it| match it {
        Generation::CURRENT => format!("{it} (current)"),
        Generation::P0 => format!("{it} (SCP)"),
        it => it.to_string(),
    });
    let unknown = "unknown";
    let rows = [
        ("commit", commit),
        ("target", option_env!("CONDUCTOR_TARGET").unwrap_or(unknown).to_owned()),
        ("compiler", option_env!("CONDUCTOR_RUSTC").unwrap_or(unknown).to_owned()),
        ("features", "cli".to_owned()),
        ("ACP versions", "1, 2".to_owned()),
        ("ACP schema", option_env!("CONDUCTOR_SCHEMA").unwrap_or(unknown).to_owned()),
        ("proxy protocol", generations.join(", ")),
        ("MCP bridge", "stdio, http".to_owned()),
    ];
    let mut text = short();
    for (name, value) in rows {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}
