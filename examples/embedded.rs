//! A program that runs a chain in itself: a proxy and an agent of its own, no other process. It is the
//! editor, too, and prints what comes back; everything that happens on the way is seen by a tap.
//!
//! `cargo run -p examples --bin example-embedded`

use acp_conductor::{Config, Ending, InProcess, Mode, Spec, Tap, TapEvent};
use acp_proxy::schema::PromptResponse;
use acp_proxy::{Json, Proxy, Side, Typed};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// An agent that says every prompt back.
fn echo() -> Proxy {
    Proxy::agent("echo")
        .on_request(Side::Editor, "initialize", async |_, _| {
            Ok(Json::trusted(r#"{"protocolVersion":1}"#))
        })
        .on_request(Side::Editor, "session/new", async |_, _| {
            Ok(Json::trusted(r#"{"sessionId":"s"}"#))
        })
        .on_prompt(async |prompt, next| {
            let content = json!({ "type": "text", "text": prompt.text() });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
            let params = json!({ "sessionId": prompt.session(), "update": update });
            next.cx().editor().notify("session/update", params)?;
            let result: PromptResponse =
                serde_json::from_value(json!({ "stopReason": "end_turn" }))?;
            Ok(Typed::from(result))
        })
}

/// A proxy that says it louder.
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
    let (ending, said) = tokio::join!(chain, converse(ours));
    assert_eq!(ending, Ending::Clean);
    // This program is no component: its standard output is its own.
    #[allow(clippy::print_stdout)]
    {
        println!("{said}");
    }
}

/// The editor's part: one prompt, and all that is said to it.
async fn converse(stream: tokio::io::DuplexStream) -> String {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut said = String::new();
    let block = json!({ "type": "text", "text": "hello from within" });
    for (id, (method, params)) in [
        ("initialize", json!({ "protocolVersion": 1 })),
        ("session/new", json!({ "cwd": "/", "mcpServers": [] })),
        ("session/prompt", json!({ "sessionId": "s", "prompt": [block] })),
    ]
    .into_iter()
    .enumerate()
    {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writer.write_all(format!("{request}\n").as_bytes()).await.expect("the chain reads");
        while let Some(line) = lines.next_line().await.expect("the chain writes") {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == id {
                break;
            }
            said.push_str(message["params"]["update"]["content"]["text"].as_str().unwrap_or(""));
        }
    }
    said
}
