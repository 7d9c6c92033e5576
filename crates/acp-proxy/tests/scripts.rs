//! The guarantees of the SDK, as scripts.

use acp_proxy::{Agent, Call, Delivery, Error, NoInput, Proxy, Side, script};

const PROMPT: &str = r#"{"sessionId":"s","prompt":[{"type":"text","text":"q"}]}"#;

/// Replaces `PROMPT` by the parameters of a prompt.
fn filled(script: &str) -> String {
    script.replace("PROMPT", PROMPT)
}

#[test]
fn a_proxy_without_handlers_is_transparent() {
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
    );
}

#[test]
fn a_handler_changes_a_prompt_and_its_answer() {
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
    );
}

#[test]
fn handlers_run_in_the_order_in_which_they_were_added() {
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
        &filled(
            r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"},{"type":"text","text":"first"},{"type":"text","text":"second"}]}}
        agent  > {"id":1,"error":{"code":-32000,"message":"auth","data":{"k":1}}}
        editor < {"id":1,"error":{"code":-32000,"message":"auth","data":{"k":1}}}
        "#,
        ),
    );
}

#[test]
fn a_handler_answers_a_prompt_itself_or_sends_an_extra_prompt() {
    let proxy = Proxy::new("twice").on_prompt(async |prompt, next| {
        if prompt.text() == "never" {
            return Err(Error::new(-32001, "not today"));
        }
        next.run(prompt.extra("warm up")).await?;
        next.run(prompt).await
    });
    script::play(
        proxy,
        &filled(
            r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"warm up"}]}}
        # A handler that waits does not delay other messages.
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"t","prompt":[{"type":"text","text":"never"}]}}
        editor < {"id":2,"error":{"code":-32001,"message":"not today"}}
        agent  > {"id":1,"result":{"stopReason":"end_turn"}}
        agent  < {"id":2,"method":"session/prompt","params":PROMPT}
        agent  > {"id":2,"result":{"stopReason":"max_tokens"}}
        editor < {"id":1,"result":{"stopReason":"max_tokens"}}
        "#,
        ),
    );
}

/// A handler that waits for an answer only for some time drops the rest of its waiting.
#[test]
fn a_request_whose_answer_nobody_awaits_is_cancelled_and_a_late_answer_is_ignored() {
    let proxy = Proxy::new("impatient").on_permission(async |permission, next| {
        let denied = permission.deny();
        let limit = std::time::Duration::from_millis(1);
        let asked = tokio::time::timeout(limit, next.run(permission));
        asked.await.unwrap_or(Ok(denied))
    });
    script::play(
        proxy,
        r#"
        agent  > {"id":1,"method":"session/request_permission","params":{"sessionId":"s","options":[],"toolCall":{"toolCallId":"t"}}}
        editor < {"id":5,"method":"session/request_permission","params":{"sessionId":"s","options":[],"toolCall":{"toolCallId":"t"}}}
        agent  < {"id":1,"result":{"outcome":{"outcome":"cancelled"}}}
        editor < {"method":"$/cancel_request","params":{"requestId":5}}
        editor > {"id":5,"result":{"outcome":{"outcome":"selected","optionId":"late"}}}
        editor > {"method":"_last"}
        agent  < {"method":"_last"}
    "#,
    );
}

#[test]
fn cancelling_a_request_cancels_the_requests_of_its_handler() {
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
    );
}

#[test]
fn an_update_handler_sees_updates_in_order_and_changes_or_drops_them() {
    let mut count = 0;
    let proxy = Proxy::new("numbers").on_update(move |update, _| {
        use acp_proxy::schema::{ContentBlock, SessionUpdate};
        count += 1;
        if let SessionUpdate::AgentMessageChunk(chunk) = &mut update.update
            && let ContentBlock::Text(text) = &mut chunk.content
        {
            text.text = format!("{count}:{}", text.text);
        }
        if count == 2 { Delivery::Drop } else { Delivery::Forward }
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
    script::play(proxy, &script);
}

#[test]
fn a_handler_sends_requests_and_notifications_to_both_sides() {
    let proxy = Proxy::new("nosy").on_raw_request(Side::Editor, "_x/go", async |_: Call, next| {
        let name = next.editor().request_raw("_x/name", serde_json::json!({})).await?;
        next.agent().notify_raw("_x/told", serde_json::json!({ "k": 1 }))?;
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
    );
}

#[test]
fn a_subagent_is_invisible_to_the_editor() {
    let proxy = Proxy::new("delegates").on_prompt(async |mut prompt, next| {
        let session = next.agent().new_session("/project").await?;
        let turn = session.prompt(format!("Summarise: {}", prompt.text())).await?;
        prompt.append_text(turn.text());
        next.run(prompt).await
    });
    script::play(
        proxy,
        &filled(
            r#"
        editor > {"id":1,"method":"session/prompt","params":PROMPT}
        agent  < {"id":1,"method":"session/new","params":{"cwd":"/project","mcpServers":[]}}
        agent  > {"id":1,"result":{"sessionId":"sub"}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"sub","prompt":[{"type":"text","text":"Summarise: q"}]}}
        agent  > {"method":"session/update","params":{"sessionId":"sub","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"in short"}}}}
        agent  > {"id":3,"method":"session/request_permission","params":{"sessionId":"sub","toolCall":{"toolCallId":"t"},"options":[]}}
        agent  < {"id":3,"result":{"outcome":{"outcome":"cancelled"}}}
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        agent  < {"id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"},{"type":"text","text":"in short"}]}}
        agent  > {"id":4,"result":{"stopReason":"end_turn"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
        ),
    );
}

#[derive(serde::Deserialize, acp_proxy::JsonSchema)]
struct Sum {
    numbers: Vec<i64>,
}

/// The ids of servers are random, so this is a `Conversation` and not a script.
#[test]
fn tools_are_declared_listed_and_called() {
    let proxy = Proxy::new("sums")
        .tool("now", "The time", async |_: NoInput| Ok("noon"))
        .tool_with("sum", "The sum", async |input: Sum, cx| {
            cx.progress(1.0, Some(2.0), None)?;
            let roots = cx.request_client("roots/list", serde_json::json!({})).await?;
            let sum: i64 = input.numbers.iter().sum();
            Ok(format!("{sum} for {} in {roots}", cx.session().unwrap_or_default()))
        });
    let mut conversation = acp_proxy::script::Conversation::new(proxy);
    conversation.send("editor", r#"{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[{"name":"own","command":"x"}]}}"#);
    let new = conversation.receive("agent");
    let servers = &new["params"]["mcpServers"];
    assert_eq!(
        (&servers[0]["name"], &servers[1]["type"], &servers[1]["name"]),
        (&"own".into(), &"acp".into(), &"sums".into())
    );
    let server = servers[1]["serverId"].as_str().expect("an id").to_owned();
    conversation.send("agent", &format!(r#"{{"id":{},"result":{{"sessionId":"S"}}}}"#, new["id"]));
    assert_eq!(conversation.receive("editor")["result"]["sessionId"], "S");
    let ask = |id: u64, method: &str, params: &str| {
        format!(
            r#"{{"id":{id},"method":"mcp/message","params":{{"serverId":"{server}","requestId":"r{id}","method":"{method}","params":{params}}}}}"#
        )
    };
    conversation.send("agent", &ask(1, "tools/list", "{}"));
    let listed = conversation.receive("agent");
    assert_eq!(listed["result"]["result"]["tools"][0]["name"], "now");
    let schema = &listed["result"]["result"]["tools"][1]["inputSchema"];
    assert_eq!(schema["properties"]["numbers"]["type"], "array");
    conversation.send("agent", &ask(2, "tools/call", r#"{"name":"now","arguments":{}}"#));
    assert_eq!(conversation.receive("agent")["result"]["result"]["content"][0]["text"], "noon");
    conversation
        .send("agent", &ask(3, "tools/call", r#"{"name":"sum","arguments":{"numbers":["x"]}}"#));
    assert_eq!(conversation.receive("agent")["result"]["result"]["isError"], true);
    conversation.send("agent", &ask(4, "nonsense", "{}"));
    assert_eq!(conversation.receive("agent")["result"]["error"]["code"], -32601);

    conversation.send(
        "agent",
        &ask(
            5,
            "tools/call",
            r#"{"name":"sum","arguments":{"numbers":[1,2]},"_meta":{"progressToken":"t"}}"#,
        ),
    );
    let progress = conversation.receive("agent");
    assert_eq!(
        (&progress["params"]["method"], &progress["params"]["requestId"]),
        (&"notifications/progress".into(), &"r5".into())
    );
    let asks = conversation.receive("agent");
    let wanted = &asks["result"]["result"];
    assert_eq!(
        (&wanted["resultType"], &wanted["inputRequests"]["question"]["method"]),
        (&"input_required".into(), &"roots/list".into())
    );
    let again = format!(
        r#"{{"name":"sum","arguments":{{}},"requestState":{},"inputResponses":{{"question":[7]}}}}"#,
        wanted["requestState"]
    );
    conversation.send("agent", &ask(6, "tools/call", &again));
    assert_eq!(
        conversation.receive("agent")["result"]["result"]["content"][0]["text"],
        "3 for S in [7]"
    );
}

#[test]
fn a_failed_script_shows_the_line_and_a_diff() {
    let fail = |script: &'static str| {
        let play = || script::play(Proxy::new("nothing"), script);
        let panic = std::panic::catch_unwind(play).expect_err("the script fails");
        panic.downcast_ref::<String>().expect("a message").clone()
    };
    let text = fail(
        r#"editor > {"method":"x","params":{"b":[1],"a":2}}
        agent < {"method":"x","params":{"a":3,"b":[1]}}"#,
    );
    assert!(text.starts_with("line 2: the agent has received another message"), "{text}");
    assert!(text.contains("\n-     \"a\": 3,\n+     \"a\": 2,\n"), "{text}");
    let text = fail(r#"editor > {"method":"x"}"#);
    assert!(text.starts_with("at the end, the agent has received an unexpected"), "{text}");
}

#[test]
fn an_agent_answers_prompts_and_ends_a_cancelled_turn() {
    use acp_proxy::schema::{PromptResponse, StopReason};
    let agent = Agent::new("parrot").on_prompt(async |prompt, context| {
        context.say(prompt.text())?;
        if prompt.text() == "wait" {
            context.cancelled().await;
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        Ok(PromptResponse::new(StopReason::EndTurn))
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
        editor < {"id":3,"error":{"code":-32601,"message":"method not found: _x/y; agent 'parrot' does not support it"}}
        editor > {"method":"session/cancel","params":{"sessionId":"s"}}
        editor < {"id":2,"result":{"stopReason":"cancelled"}}
        # A request that the agent cannot read is answered with an error.
        editor > {"id":4,"method":"session/prompt","params":{"prompt":[]}}
        editor < {"id":4,"error":{"code":-32602,"message":"missing field `sessionId` at line 1 column 13"}}
        "#;
    let said = |text| {
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    };
    let script = script.replace("SAID(q)", &said("q")).replace("SAID(wait)", &said("wait"));
    script::play(agent, &script);
}
