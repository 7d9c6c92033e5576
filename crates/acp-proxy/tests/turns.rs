//! Turns are the same for handlers in ACP version 1 and 2. In version 2 a prompt is answered when it is accepted, and
//! the turn ends with an idle update.

use acp_proxy::schema::{ContentBlock, ContentChunk, PromptResponse, SessionUpdate, StopReason};
use acp_proxy::script::{Conversation, play};
use acp_proxy::{Agent, Error, Proxy};

const GREETING: &str = r#"
    editor > {"id":0,"method":"initialize","params":{"protocolVersion":2}}
    agent  < {"id":0,"method":"initialize","params":{"protocolVersion":2}}
    agent  > {"id":0,"result":{"protocolVersion":2}}
    editor < {"id":0,"result":{"protocolVersion":2}}
"#;

/// A script in version 2, with short forms for common messages.
fn v2(script: &str) -> String {
    let mut out = GREETING.to_owned();
    for line in script.lines() {
        let line = line.trim();
        let update = |session: &str, update: String| {
            format!(
                r#"{{"method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
            )
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = match words.as_slice() {
            [who, way, "PROMPT", id, session, text] => format!(
                r#"{who} {way} {{"id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
            ),
            [who, way, "ACCEPTED", id, message] => {
                format!(r#"{who} {way} {{"id":{id},"result":{{"messageId":"{message}"}}}}"#)
            }
            [who, way, "SAY", session, text] => format!(
                "{who} {way} {}",
                update(
                    session,
                    format!(
                        r#"{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"{text}"}}}}"#
                    )
                )
            ),
            [who, way, "IDLE", session, reason] => format!(
                "{who} {way} {}",
                update(
                    session,
                    format!(
                        r#"{{"sessionUpdate":"state_update","state":"idle","stopReason":"{reason}","usage":{{"n":1.0}}}}"#
                    )
                )
            ),
            [who, way, "STATE", session, state] => format!(
                "{who} {way} {}",
                update(session, format!(r#"{{"sessionUpdate":"state_update","state":"{state}"}}"#))
            ),
            _ => line.to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Sends the stop reason to the editor at the end of the turn.
fn echo() -> Proxy {
    Proxy::new("echo").on_prompt(async |prompt, next| {
        let session = prompt.session().to_owned();
        let answer = next.run(prompt).await?;
        let chunk = ContentChunk::new(ContentBlock::from(format!("{:?}", answer.stop_reason)));
        let chunk = chunk.message_id("m");
        next.editor().update(&session, SessionUpdate::AgentMessageChunk(chunk))?;
        Ok(answer)
    })
}

#[test]
fn a_turn_ends_with_idle_and_the_text_of_a_handler_comes_before_it() {
    let script = v2(r#"
        editor > PROMPT 1 s hi
        agent  < PROMPT 1 s hi
        # An idle update of an earlier turn is not the end of this one.
        agent  > IDLE s end_turn
        agent  > ACCEPTED 1 m1
        editor < ACCEPTED 1 m1
        agent  > STATE s running
        editor < STATE s running
        agent  > SAY s words
        editor < SAY s words
        agent  > STATE s requires_action
        editor < STATE s requires_action
        # The end of a turn in another session passes.
        agent  > IDLE other cancelled
        editor < IDLE other cancelled
        agent  > IDLE s max_tokens
        agent  > SAY other late
        editor < SAY s MaxTokens
        editor < IDLE s max_tokens
        editor < SAY other late
        "#);
    play(echo(), &script);
}

#[test]
fn in_version_1_the_answer_ends_the_turn() {
    let script = v2(r#"
        editor > PROMPT 1 s hi
        agent  < PROMPT 1 s hi
        agent  > IDLE s end_turn
        editor < IDLE s end_turn
        agent  > {"id":1,"result":{"stopReason":"refusal"}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Refusal"},"messageId":"m"}}}
        editor < {"id":1,"result":{"stopReason":"refusal"}}
        "#);
    let first = script.replace(r#""protocolVersion":2"#, r#""protocolVersion":1"#);
    play(echo(), &first);
    // Some agents repeat the requested version and continue with version 1.
    let answered = r#"{"protocolVersion":2,"agentCapabilities":{}}}"#;
    play(
        echo(),
        &script.replace(r#""result":{"protocolVersion":2}}"#, &format!(r#""result":{answered}"#)),
    );
}

/// Sends an extra prompt before the user's.
fn warm_up() -> Proxy {
    Proxy::new("warm-up").on_prompt(async |prompt, next| {
        let warm = next.run(prompt.extra("warm")).await?;
        if warm.stop_reason == StopReason::Cancelled {
            return Ok(warm);
        }
        next.run(prompt).await
    })
}

#[test]
fn an_extra_turn_does_not_look_like_the_end_of_the_turn() {
    let script = v2(r#"
        editor > PROMPT 1 s hi
        agent  < PROMPT 1 s warm
        agent  > ACCEPTED 1 own
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE s end_turn
        # The user's prompt is sent when the first turn is over, and accepted when the agent accepts it.
        agent  < PROMPT 2 s hi
        agent  > ACCEPTED 2 user
        editor < ACCEPTED 1 user
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE s refusal
        editor < IDLE s refusal
        # The agent refuses the second prompt. The editor still gets the idle update.
        editor > PROMPT 2 s hi
        agent  < PROMPT 3 s warm
        agent  > ACCEPTED 3 own
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE s end_turn
        agent  < PROMPT 4 s hi
        agent  > {"id":4,"error":{"code":-32000,"message":"log in"}}
        editor < {"id":2,"error":{"code":-32000,"message":"log in"}}
        editor < IDLE s end_turn
        # Cancelled in the first turn.
        editor > PROMPT 3 s hi
        agent  < PROMPT 5 s warm
        agent  > ACCEPTED 5 own
        agent  > STATE s running
        editor < STATE s running
        editor > {"method":"session/cancel","params":{"sessionId":"s"}}
        agent  < {"method":"session/cancel","params":{"sessionId":"s"}}
        agent  > IDLE s cancelled
        editor < ACCEPTED 3 own
        editor < IDLE s cancelled
        "#);
    play(warm_up(), &script);
}

#[test]
fn prompts_in_several_sessions_do_not_interfere() {
    let script = v2(r#"
        editor > PROMPT 1 s a
        editor > PROMPT 2 t b
        agent  < PROMPT 1 s a
        agent  < PROMPT 2 t b
        agent  > ACCEPTED 2 mt
        editor < ACCEPTED 2 mt
        agent  > ACCEPTED 1 ms
        editor < ACCEPTED 1 ms
        # A second prompt in a session that is at work. One idle update ends both.
        editor > PROMPT 3 s c
        agent  < PROMPT 3 s c
        agent  > ACCEPTED 3 mc
        editor < ACCEPTED 3 mc
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE t end_turn
        editor < SAY t EndTurn
        editor < IDLE t end_turn
        agent  > IDLE s cancelled
        editor < SAY s Cancelled
        editor < SAY s Cancelled
        editor < IDLE s cancelled
        "#);
    play(echo(), &script);
}

#[test]
fn an_early_idle_update_and_a_version_1_answer_end_the_turn() {
    let script = v2(r#"
        editor > PROMPT 1 s a
        agent  < PROMPT 1 s a
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE s end_turn
        agent  > ACCEPTED 1 m1
        editor < ACCEPTED 1 m1
        editor < SAY s EndTurn
        editor < IDLE s end_turn
        editor > PROMPT 2 s a
        agent  < PROMPT 2 s a
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        editor < {"id":2,"result":{"stopReason":"end_turn"}}
        editor < SAY s EndTurn
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}
        # A reason that the schema does not know is kept.
        editor > PROMPT 3 s a
        agent  < PROMPT 3 s a
        agent  > ACCEPTED 3 m3
        editor < ACCEPTED 3 m3
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE s _own_reason
        editor < SAY s EndTurn
        editor < IDLE s _own_reason
        "#);
    play(echo(), &script);
}

#[test]
fn a_turn_that_fails_is_an_error_for_its_handler() {
    let proxy = Proxy::new("tells").log_to(|_| {}).on_prompt(async |prompt, next| {
        let session = prompt.session().to_owned();
        let answer = next.run(prompt).await;
        let why = answer.as_ref().err().map(Error::message).unwrap_or_default();
        let chunk = ContentChunk::new(ContentBlock::from(why)).message_id("m");
        next.editor().update(&session, SessionUpdate::AgentMessageChunk(chunk))?;
        answer
    });
    let failed = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32603,"message":"died"}}}}"#;
    let script = v2(r#"
        editor > PROMPT 1 s a
        agent  < PROMPT 1 s a
        agent  > ACCEPTED 1 m1
        editor < ACCEPTED 1 m1
        agent  > STATE s running
        editor < STATE s running
        agent  > FAILED
        editor < SAY s died
        editor < FAILED
        # A session that is closed has no turn any more.
        editor > PROMPT 2 s a
        agent  < PROMPT 2 s a
        agent  > ACCEPTED 2 m2
        editor < ACCEPTED 2 m2
        editor > {"id":3,"method":"session/close","params":{"sessionId":"s"}}
        agent  < {"id":3,"method":"session/close","params":{"sessionId":"s"}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"messageId":"m"}}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}
        "#);
    play(proxy, &script.replace("FAILED", failed));
}

#[test]
fn a_handler_changes_how_a_turn_ends_or_answers_itself() {
    let proxy = Proxy::new("own").on_prompt(async |prompt, next| {
        if prompt.text() != "mine" {
            next.run(prompt).await?;
        }
        Ok(PromptResponse::new(StopReason::Refusal))
    });
    let mut conversation = Conversation::new(proxy);
    conversation.send("editor", r#"{"id":0,"method":"initialize","params":{"protocolVersion":2}}"#);
    let asked = conversation.receive("agent");
    conversation
        .send("agent", &format!(r#"{{"id":{},"result":{{"protocolVersion":2}}}}"#, asked["id"]));
    conversation.receive("editor");
    let prompt = |id: u8, text: &str| {
        format!(
            r#"{{"id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    conversation.send("editor", &prompt(1, "theirs"));
    let asked = conversation.receive("agent");
    conversation
        .send("agent", &format!(r#"{{"id":{},"result":{{"messageId":"m"}}}}"#, asked["id"]));
    assert_eq!(conversation.receive("editor")["result"]["messageId"], "m");
    conversation.send("agent", r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","usage":{}}}}"#);
    let idle = conversation.receive("editor");
    assert_eq!(idle["params"]["update"]["stopReason"], "refusal");
    assert!(idle["params"]["update"]["usage"].is_object());

    conversation.send("editor", &prompt(2, "mine"));
    let echoed = conversation.receive("editor")["params"]["update"].clone();
    assert_eq!(
        (&echoed["sessionUpdate"], &echoed["content"][0]["text"]),
        (&"user_message".into(), &"mine".into())
    );
    let answer = conversation.receive("editor");
    assert_eq!((&answer["id"], &answer["result"]["messageId"]), (&2.into(), &echoed["messageId"]));
    let idle = conversation.receive("editor");
    assert_eq!(
        (&idle["params"]["update"]["state"], &idle["params"]["update"]["stopReason"]),
        (&"idle".into(), &"refusal".into())
    );
}

#[test]
fn a_subagents_turn_ends_with_idle() {
    let proxy = Proxy::new("delegates").on_prompt(async |mut prompt, next| {
        let session = next.agent().new_session("/project").await?;
        let turn = session.prompt("ask").await?;
        prompt.append_text(turn.text());
        next.run(prompt).await
    });
    let script = v2(r#"
        editor > PROMPT 1 s hi
        agent  < {"id":1,"method":"session/new","params":{"cwd":"/project","mcpServers":[]}}
        agent  > {"id":1,"result":{"sessionId":"sub"}}
        agent  < PROMPT 2 sub ask
        agent  > ACCEPTED 2 m1
        agent  > STATE sub running
        agent  > SAY sub said
        agent  > IDLE sub end_turn
        agent  < {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"},{"type":"text","text":"said"}]}}
        agent  > ACCEPTED 3 m2
        editor < ACCEPTED 1 m2
        agent  > STATE s running
        editor < STATE s running
        agent  > IDLE s end_turn
        editor < IDLE s end_turn
        "#);
    play(proxy, &script);
}

/// An agent of the SDK supports version 2.
#[test]
fn an_agent_accepts_a_prompt_at_once_and_ends_its_turn_with_idle() {
    let agent = Agent::new("parrot")
        .on_raw_request("initialize", async |_, _| {
            Ok(acp_proxy::Json::trusted(r#"{"protocolVersion":2}"#))
        })
        .on_prompt(async |prompt, context| {
            context.say(prompt.text())?;
            context.cancelled().await;
            Ok(PromptResponse::new(StopReason::Cancelled))
        });
    let mut conversation = Conversation::new(agent);
    conversation.send("editor", r#"{"id":0,"method":"initialize","params":{"protocolVersion":2}}"#);
    conversation.receive("editor");
    conversation.send("editor", r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"}]}}"#);
    assert_eq!(conversation.receive("editor")["params"]["update"]["sessionUpdate"], "user_message");
    assert!(conversation.receive("editor")["result"]["messageId"].is_string());
    assert_eq!(conversation.receive("editor")["params"]["update"]["state"], "running");
    let said = conversation.receive("editor")["params"]["update"].clone();
    assert!(said["content"]["text"] == "q" && said["messageId"].is_string(), "{said}");
    conversation.send("editor", r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#);
    assert_eq!(conversation.receive("editor")["params"]["update"]["stopReason"], "cancelled");
}

/// Repeats the text of the agent's answer at the end of the turn.
fn repeat() -> Proxy {
    Proxy::new("repeat").on_prompt(async |prompt, next| {
        let session = prompt.session().to_owned();
        let turn = next.run_turn(prompt).await?;
        let chunk = ContentChunk::new(ContentBlock::from(turn.text())).message_id("m");
        next.editor().update(&session, SessionUpdate::AgentMessageChunk(chunk))?;
        Ok(turn.response)
    })
}

#[test]
fn run_turn_collects_the_text_of_the_turn_in_both_versions() {
    let script = v2(r#"
        editor > PROMPT 1 s hi
        agent  < PROMPT 1 s hi
        agent  > ACCEPTED 1 m1
        editor < ACCEPTED 1 m1
        agent  > STATE s running
        editor < STATE s running
        agent  > SAY s x
        editor < SAY s x
        agent  > REPLACE
        editor < REPLACE
        agent  > SAY s z
        editor < SAY s z
        agent  > SAY other no
        editor < SAY other no
        agent  > IDLE s end_turn
        editor < SAY s yz
        editor < IDLE s end_turn
        "#);
    let replace = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"y"},{"type":"image"}]}}}"#;
    play(repeat(), &script.replace("REPLACE", replace));
    let script = v2(r#"
        editor > PROMPT 1 s hi
        agent  < PROMPT 1 s hi
        agent  > SAY s a
        editor < SAY s a
        agent  > THINK
        editor < THINK
        agent  > SAY s b
        editor < SAY s b
        agent  > {"id":1,"result":{"stopReason":"end_turn"}}
        editor < SAY s ab
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#);
    let think = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"no"}}}}"#;
    let script = script.replace("THINK", think);
    play(repeat(), &script.replace(r#""protocolVersion":2"#, r#""protocolVersion":1"#));
}

#[test]
fn say_sends_text_in_the_session_of_the_request() {
    let proxy = Proxy::new("says").on_prompt(async |prompt, next| {
        let answer = next.run(prompt).await?;
        next.say("bye")?;
        Ok(answer)
    });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  > {"id":1,"result":{"stopReason":"end_turn"}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"bye"}}}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
}
