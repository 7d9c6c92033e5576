//! What the front promises, as conversations.

use acp_proxy::{Call, Error, Json, NoInput, Proxy, Side, Verdict, script};

const PROMPT: &str = r#"{"sessionId":"s","prompt":[{"type":"text","text":"q"}]}"#;

/// A line with a prompt in it.
fn filled(script: &str) -> String {
    script.replace("PROMPT", PROMPT)
}

#[tokio::test]
async fn a_proxy_without_handlers_is_transparent() {
    script::play(
        Proxy::new("nothing"),
        r#"
        editor > {"id":1,"method":"initialize","params":{"protocolVersion":1,"x":123456789012345678901234567890}}
        agent  < {"id":1,"method":"initialize","params":{"protocolVersion":1,"x":123456789012345678901234567890}}
        agent  > {"id":1,"result":{"protocolVersion":1}}
        editor < {"id":1,"result":{"protocolVersion":1}}
        agent  > {"id":1,"method":"_x/y"}
        editor < {"id":9,"method":"_x/y"}
        editor > {"id":9,"error":{"code":1,"message":"no","odd":true}}
        agent  < {"id":1,"error":{"code":1,"message":"no","odd":true}}
        editor > {"method":"session/cancel","params":{"sessionId":"s"}}
        agent  < {"method":"session/cancel","params":{"sessionId":"s"}}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_handler_changes_a_prompt_and_its_answer() {
    let proxy = Proxy::new("brief").on_prompt(async |mut prompt, next| {
        prompt.append_text("please");
        next.run(prompt).await
    });
    script::play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q","odd":1}],"more":2}}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q","odd":1},{"type":"text","text":"please"}],"more":2}}
        agent  > {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"never heard of"}}}
        agent  > {"id":1,"result":{"stopReason":"end_turn","odd":3}}
        agent  > {"method":"session/update","params":{"sessionId":"s","late":true}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"never heard of"}}}
        # The answer keeps its place before what was sent after it.
        editor < {"id":1,"result":{"stopReason":"end_turn","odd":3}}
        editor < {"method":"session/update","params":{"sessionId":"s","late":true}}
        "#,
    )
    .await;
}

#[tokio::test]
async fn handlers_stand_one_behind_the_other() {
    let proxy = Proxy::new("two")
        .on_prompt(async |mut prompt, next| {
            prompt.append_text("first");
            next.run(prompt).await
        })
        .on_prompt(async |mut prompt, next| {
            prompt.append_text("second");
            next.run(prompt).await
        });
    script::play(
        proxy,
        &filled(r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"},{"type":"text","text":"first"},{"type":"text","text":"second"}]}}
        agent  > {"id":1,"error":{"code":-32000,"message":"auth","data":{"k":1}}}
        editor < {"id":1,"error":{"code":-32000,"message":"auth","data":{"k":1}}}
        "#),
    )
    .await;
}

#[tokio::test]
async fn a_prompt_may_be_answered_here_or_asked_twice() {
    let proxy = Proxy::new("twice").on_prompt(async |prompt, next| {
        if prompt.text() == "never" {
            return Err(Error::new(-32001, "not today"));
        }
        next.run(prompt.instead("warm up")).await?;
        next.run(prompt).await
    });
    script::play(
        proxy,
        &filled(r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"warm up"}]}}
        # Nobody waits for a handler that waits.
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"t","prompt":[{"type":"text","text":"never"}]}}
        editor < {"id":2,"error":{"code":-32001,"message":"not today"}}
        agent  > {"id":1,"result":{"stopReason":"end_turn"}}
        agent  < {"id":2,"method":"session/prompt","params":PROMPT}
        agent  > {"id":2,"result":{"stopReason":"max_tokens"}}
        editor < {"id":1,"result":{"stopReason":"max_tokens"}}
        "#),
    )
    .await;
}

#[tokio::test]
async fn cancelling_a_handled_request_cancels_what_it_asked() {
    let proxy = Proxy::new("patient").on_prompt(async |prompt, next| next.run(prompt).await);
    script::play(
        proxy,
        &filled(
            r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":5,"method":"session/prompt","params":PROMPT}
        editor > {"method":"$/cancel_request","params":{"requestId":1}}
        agent  < {"method":"$/cancel_request","params":{"requestId":5}}
        agent  > {"id":5,"error":{"code":-32800,"message":"cancelled"}}
        editor < {"id":1,"error":{"code":-32800,"message":"cancelled"}}
        "#,
        ),
    )
    .await;
}

#[tokio::test]
async fn updates_are_seen_in_order_changed_and_dropped() {
    let mut count = 0;
    let proxy = Proxy::new("numbers").on_update(move |update, _| {
        use acp_proxy::schema::{ContentBlock, SessionUpdate};
        count += 1;
        if let SessionUpdate::AgentMessageChunk(chunk) = &mut update.update
            && let ContentBlock::Text(text) = &mut chunk.content
        {
            text.text = format!("{count}:{}", text.text);
        }
        if count == 2 { Verdict::Drop } else { Verdict::Pass }
    });
    let chunk = |text: &str, more: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}{more}}}}}}}"#
        )
    };
    let script = format!(
        "agent > {}\nagent > {}\nagent > {}\neditor < {}\neditor < {}",
        chunk("a", r#","odd":1.5"#),
        chunk("b", ""),
        chunk("c", ""),
        chunk("1:a", r#","odd":1.5"#),
        chunk("3:c", ""),
    );
    script::play(proxy, &script).await;
}

#[tokio::test]
async fn a_handler_speaks_to_both_sides_on_its_own_account() {
    let proxy = Proxy::new("nosy").on_request(Side::Editor, "_x/go", async |_: Call, next| {
        let cx = next.cx();
        let name = cx.editor().ask("_x/name", serde_json::json!({})).await?;
        cx.agent().notify("_x/told", serde_json::json!({ "k": 1 }))?;
        Ok(name)
    });
    script::play(
        proxy,
        r#"
        editor > {"id":1,"method":"_x/go","params":{}}
        editor < {"id":7,"method":"_x/name","params":{}}
        editor > {"id":7,"result":"ada"}
        agent  < {"method":"_x/told","params":{"k":1}}
        editor < {"id":1,"result":"ada"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_subagent_is_invisible_to_the_editor() {
    let proxy = Proxy::new("delegates").on_prompt(async |mut prompt, next| {
        let session = next.cx().agent().new_session("/work").await?;
        let turn = session.prompt(format!("Summarise: {}", prompt.text())).await?;
        prompt.append_text(turn.text());
        next.run(prompt).await
    });
    script::play(
        proxy,
        &filled(r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":1,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}
        agent  > {"id":1,"result":{"sessionId":"sub"}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"sub","prompt":[{"type":"text","text":"Summarise: q"}]}}
        agent  > {"method":"session/update","params":{"sessionId":"sub","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"in short"}}}}
        agent  > {"id":3,"method":"session/request_permission","params":{"sessionId":"sub","toolCall":{"toolCallId":"t"},"options":[]}}
        agent  < {"id":3,"result":{"outcome":{"outcome":"cancelled"}}}
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        agent  < {"id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"},{"type":"text","text":"in short"}]}}
        agent  > {"id":4,"result":{"stopReason":"end_turn"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#),
    )
    .await;
}

#[derive(serde::Deserialize, acp_proxy::JsonSchema)]
struct Sum {
    numbers: Vec<i64>,
}

/// Ids of servers are random, so the conversation is led by hand.
#[tokio::test]
async fn tools_are_offered_listed_and_called() {
    let proxy = Proxy::new("sums")
        .tool("now", "The time", async |_: NoInput| Ok("noon"))
        .tool_with("sum", "The sum", async |input: Sum, cx| {
            cx.progress(1.0, Some(2.0), None)?;
            let roots = cx.ask_client("roots/list", serde_json::json!({})).await?;
            let sum: i64 = input.numbers.iter().sum();
            Ok(format!("{sum} for {} in {roots}", cx.session().unwrap_or_default()))
        });
    let mut talk = acp_proxy::script::Talk::new(proxy);
    talk.send("editor", r#"{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[{"name":"own","command":"x"}]}}"#);
    let new = talk.receive("agent").await;
    let servers = &new["params"]["mcpServers"];
    assert_eq!(
        (&servers[0]["name"], &servers[1]["type"], &servers[1]["name"]),
        (&"own".into(), &"acp".into(), &"sums".into())
    );
    let server = servers[1]["serverId"].as_str().expect("an id").to_owned();
    talk.send("agent", &format!(r#"{{"id":{},"result":{{"sessionId":"S"}}}}"#, new["id"]));
    assert_eq!(talk.receive("editor").await["result"]["sessionId"], "S");
    let ask = |id: u64, method: &str, params: &str| {
        format!(
            r#"{{"id":{id},"method":"mcp/message","params":{{"serverId":"{server}","requestId":"r{id}","method":"{method}","params":{params}}}}}"#
        )
    };
    talk.send("agent", &ask(1, "tools/list", "{}"));
    let listed = talk.receive("agent").await;
    assert_eq!(listed["result"]["result"]["tools"][0]["name"], "now");
    let schema = &listed["result"]["result"]["tools"][1]["inputSchema"];
    assert_eq!(schema["properties"]["numbers"]["type"], "array");
    talk.send("agent", &ask(2, "tools/call", r#"{"name":"now","arguments":{}}"#));
    assert_eq!(talk.receive("agent").await["result"]["result"]["content"][0]["text"], "noon");
    talk.send("agent", &ask(3, "tools/call", r#"{"name":"sum","arguments":{"numbers":["x"]}}"#));
    assert_eq!(talk.receive("agent").await["result"]["result"]["isError"], true);
    talk.send("agent", &ask(4, "nonsense", "{}"));
    assert_eq!(talk.receive("agent").await["result"]["error"]["code"], -32601);

    talk.send(
        "agent",
        &ask(
            5,
            "tools/call",
            r#"{"name":"sum","arguments":{"numbers":[1,2]},"_meta":{"progressToken":"t"}}"#,
        ),
    );
    let progress = talk.receive("agent").await;
    assert_eq!(
        (&progress["params"]["method"], &progress["params"]["requestId"]),
        (&"notifications/progress".into(), &"r5".into())
    );
    let asks = talk.receive("agent").await;
    let wanted = &asks["result"]["result"];
    assert_eq!(
        (&wanted["resultType"], &wanted["inputRequests"]["question"]["method"]),
        (&"input_required".into(), &"roots/list".into())
    );
    let again = format!(
        r#"{{"name":"sum","arguments":{{}},"requestState":{},"inputResponses":{{"question":[7]}}}}"#,
        wanted["requestState"]
    );
    talk.send("agent", &ask(6, "tools/call", &again));
    assert_eq!(
        talk.receive("agent").await["result"]["result"]["content"][0]["text"],
        "3 for S in [7]"
    );
}

#[tokio::test]
#[should_panic(expected = "line 2")]
async fn a_script_that_goes_differently_fails() {
    let script = "editor > {\"method\":\"x\"}\nagent < {\"method\":\"y\"}";
    script::play(Proxy::new("nothing"), script).await;
}

#[test]
fn json_is_reexported_for_untyped_handlers() {
    assert_eq!(Json::EMPTY.as_str(), "{}");
}

#[tokio::test]
async fn an_agent_is_played_like_a_proxy_with_nobody_behind_it() {
    use acp_proxy::schema::{PromptResponse, StopReason};
    let agent = Proxy::agent("parrot").on_prompt(async |prompt, next| {
        let editor = next.cx().editor();
        editor.say(prompt.session(), prompt.text())?;
        if prompt.text() == "wait" {
            next.cx().cancelled().await;
            return Ok(PromptResponse::new(StopReason::Cancelled).into());
        }
        Ok(PromptResponse::new(StopReason::EndTurn).into())
    });
    let script = r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"}]}}
        editor < SAID(q)
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        # A turn ends when its session is cancelled, not when another is.
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"wait"}]}}
        editor < SAID(wait)
        editor > {"method":"session/cancel","params":{"sessionId":"other"}}
        editor > {"id":3,"method":"_x/y"}
        editor < {"id":3,"error":{"code":-32601,"message":"method not found: _x/y"}}
        editor > {"method":"session/cancel","params":{"sessionId":"s"}}
        editor < {"id":2,"result":{"stopReason":"cancelled"}}
        # What an agent cannot read is a mistake of the asker.
        editor > {"id":4,"method":"session/prompt","params":{"prompt":[]}}
        editor < {"id":4,"error":{"code":-32602,"message":"missing field `sessionId` at line 1 column 13"}}
        "#;
    let said = |text| {
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    };
    let script = script.replace("SAID(q)", &said("q")).replace("SAID(wait)", &said("wait"));
    script::play(agent, &script).await;
}
