//! An editor that opens one session and sends prompts.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A running chain and the connection to it.
#[derive(Debug)]
pub struct Editor {
    conductor: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    session: String,
    last: u64,
    /// Whether it prints each message.
    show: bool,
}

impl Editor {
    pub fn start(command: &mut Command, show: bool) -> Result<Editor, String> {
        let mut conductor = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let (input, output) =
            conductor.stdin.take().zip(conductor.stdout.take()).ok_or("no pipes")?;
        let output = BufReader::new(output).lines();
        Ok(Editor { conductor, input: Some(input), output, session: String::new(), last: 0, show })
    }

    /// Initialises the chain and opens a session.
    pub fn open(&mut self, directory: &str) -> Result<(), String> {
        let capabilities = json!({"protocolVersion": 1, "clientCapabilities": {}});
        self.request("initialize", &capabilities)?;
        let opened = self.request("session/new", &json!({"cwd": directory, "mcpServers": []}))?;
        self.session = opened["sessionId"].as_str().ok_or("no sessionId")?.to_owned();
        Ok(())
    }

    /// Sends a prompt and waits for the end of its turn.
    pub fn prompt(&mut self, text: &str) -> Result<(), String> {
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        let answer = self.request("session/prompt", &params)?;
        match answer["stopReason"].as_str() {
            Some("end_turn") => Ok(()),
            _ => Err(format!("the turn ended with {answer}")),
        }
    }

    /// Closes the connection. The conductor must exit with status 0.
    pub fn close(mut self) -> Result<(), String> {
        drop(self.input.take());
        let status = self.conductor.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the conductor: {status}")) }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        if self.show {
            println!("→ {request}");
        }
        let input = self.input.as_mut().ok_or("the connection is closed")?;
        writeln!(input, "{request}").map_err(|error| format!("{method}: {error}"))?;
        loop {
            let line = self.output.next().ok_or_else(|| format!("no answer to {method}"))?;
            let line = line.map_err(|error| error.to_string())?;
            if self.show {
                println!("← {line}");
            }
            let mut message: Value = serde_json::from_str(&line)
                .map_err(|error| format!("{line:?} is no JSON: {error}"))?;
            if message["id"] == self.last && message.get("method").is_none() {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.conductor.kill();
        let _ = self.conductor.wait();
    }
}
