//! `cargo xtask demo`: one conversation through a real chain, as an editor sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// What the editor sends. The demo's agent streams three updates and answers.
const CONVERSATION: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"stream 3"}]}}"#,
];

pub fn run() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "--release", "--package", "conductor", "--package", "testkit"];
    let built = Command::new(&cargo).args(build).status().map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("the demo cannot be built".into());
    }
    let metadata = Command::new(&cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| error.to_string())?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata.stdout).map_err(|error| error.to_string())?;
    let target = metadata["target_directory"].as_str().ok_or("no target directory")?;
    let binary = |name: &str| testkit::peers::quote(&format!("{target}/release/{name}"));

    println!("$ conductor agent transparent transparent stub_agent\n");
    let mut conductor = Command::new(format!("{target}/release/conductor"))
        .args(["agent", &binary("transparent"), &binary("transparent"), &binary("stub_agent")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (mut stdin, stdout) =
        conductor.stdin.take().zip(conductor.stdout.take()).ok_or("no pipes")?;
    let mut answers = BufReader::new(stdout).lines();
    for line in CONVERSATION {
        println!("editor → {line}");
        writeln!(stdin, "{line}").map_err(|error| error.to_string())?;
        loop {
            let answer =
                answers.next().ok_or("the conductor ended")?.map_err(|it| it.to_string())?;
            println!("editor ← {answer}");
            if answer.contains(r#""result""#) {
                break;
            }
            if answer.contains(r#""error""#) {
                return Err("the chain answered with an error".into());
            }
        }
    }
    drop(stdin);
    let status = conductor.wait().map_err(|error| error.to_string())?;
    println!("\nThe editor left; the conductor ended its components and itself: {status}");
    Ok(())
}
