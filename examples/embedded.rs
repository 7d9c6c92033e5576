//! A program that runs a chain inside itself: a proxy and an agent, without other processes. The program is the
//! editor, too. It prints the agent's answer, and a tap prints every message on the way.
//!
//! `cargo run -p examples --bin example-embedded`

use acp_conductor::{Config, Ending, InProcess, Mode, Spec, Tap, TapEvent};
use acp_proxy::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// An agent that repeats every prompt.
fn echo() -> Agent {
    Agent::new("echo").on_prompt(async |prompt, context| {
        context.say(prompt.text())?;
        Ok(PromptResponse::new(StopReason::EndTurn))
    })
}

/// A proxy that changes every prompt to upper case.
fn loud() -> Proxy {
    Proxy::new("loud").on_prompt(async |mut prompt, next| {
        prompt.edit_text(|text| *text = text.to_uppercase());
        next.run(prompt).await
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let components = vec![
        Spec::in_process("loud", InProcess::of(loud)),
        Spec::in_process("echo", InProcess::of(echo)),
    ];
    let mut config = Config::new(Mode::Agent, components);
    config.tap = Some(Tap::new(|event| {
        if let TapEvent::Delivered { seat, message, .. } = event {
            eprintln!("{seat} ← {}", message.label());
        }
    }));
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let chain =
        acp_conductor::run(config, (Box::new(reader), Box::new(writer)), std::future::pending());
    let (ending, answer) = tokio::join!(chain, converse(ours));
    assert_eq!(ending, Ending::Clean);
    // Only components must keep their standard output free.
    #[allow(clippy::print_stdout)]
    {
        println!("{answer}");
    }
}

/// Plays the editor: sends one prompt and returns the text of the answer.
async fn converse(stream: tokio::io::DuplexStream) -> String {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut answer = String::new();
    let mut session = Value::Null;
    for (id, method) in ["initialize", "session/new", "session/prompt"].into_iter().enumerate() {
        let params = match method {
            "initialize" => json!({ "protocolVersion": 1 }),
            "session/new" => json!({ "cwd": "/", "mcpServers": [] }),
            _ => json!({
                "sessionId": session,
                "prompt": [{ "type": "text", "text": "hello from within" }],
            }),
        };
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writer.write_all(format!("{request}\n").as_bytes()).await.expect("the chain reads");
        while let Some(line) = lines.next_line().await.expect("the chain writes") {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == id {
                session = message["result"]["sessionId"].clone();
                break;
            }
            answer.push_str(message["params"]["update"]["content"]["text"].as_str().unwrap_or(""));
        }
    }
    answer
}
