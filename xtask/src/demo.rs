//! `cargo xtask demo`: runs a conversation through a real chain, and prints what the editor sees.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::tool::release;

/// The messages of the editor. The agent streams three updates and answers.
const CONVERSATION: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"stream 3"}]}}"#,
];

pub fn run() -> Result<(), String> {
    let programs = release()?;
    let binary = |name: &str| testkit::peers::quote(&programs.join(name).display().to_string());

    println!("$ conductor agent transparent transparent stub_agent\n");
    let mut conductor = Command::new(programs.join("conductor"))
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
                answers.next().ok_or("the conductor has exited")?.map_err(|it| it.to_string())?;
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
    println!(
        "\nThe editor has disconnected. The conductor has stopped its components and exited: {status}"
    );
    Ok(())
}
