//! A component may speak outside of a turn: it knows whether a session is idle, shows texts after a turn, and starts
//! turns of its own. Prompts of the user wait for these, and nothing is lost.

use acp_proxy::script::{Conversation, play};
use acp_proxy::{Agent, Call, Component, Context, Error, Json, LateUpdates, Proxy, Side};

/// A proxy that obeys requests of the editor: `_announce`, `_turn`, `_idle` and `_wait`, with a session and a text.
fn obedient() -> Proxy {
    fn texts(call: &Call) -> (String, String) {
        let member = |name: &str| call.params.as_ref()?.member(name)?.text().map(|it| it.into());
        (member("sessionId").expect("a session"), member("text").unwrap_or_default())
    }
    let done = || Ok(Json::trusted("{}"));
    Proxy::new("obedient")
        .on_raw_request(Side::Editor, "_announce", async move |call, next| {
            let (session, text) = texts(&call);
            next.announce(&session, text);
            done()
        })
        .on_raw_request(Side::Editor, "_turn", async move |call, next| {
            let (session, text) = texts(&call);
            let context: Context = next.context().clone();
            next.spawn(async move {
                let report = match context.start_turn(&session, text).await {
                    Ok(turn) => format!("{:?} {}", turn.response.stop_reason, turn.text()),
                    Err(why) => why.message(),
                };
                context.editor().notify_raw("_report", report.trim()).expect("text");
            });
            done()
        })
        .on_raw_request(Side::Editor, "_idle", async |call, next| {
            let is_idle = next.is_idle(&texts(&call).0);
            Ok(Json::trusted(is_idle.to_string()))
        })
        .on_raw_request(Side::Editor, "_wait", async move |call, next| {
            next.wait_until_idle(&texts(&call).0).await;
            done()
        })
}

/// A script with short forms, in both protocol versions.
fn script(version: u8, client: &str, text: &str) -> String {
    let capabilities = if version == 1 { r#","agentCapabilities":{}"# } else { "" };
    let mut out = format!(
        r#"
        editor > {{"id":0,"method":"initialize","params":{{"protocolVersion":{version},"clientInfo":{{"name":"{client}","version":"1"}}}}}}
        agent  < {{"id":0,"method":"initialize","params":{{"protocolVersion":{version},"clientInfo":{{"name":"{client}","version":"1"}}}}}}
        agent  > {{"id":0,"result":{{"protocolVersion":{version}{capabilities}}}}}
        editor < {{"id":0,"result":{{"protocolVersion":{version}{capabilities}}}}}
        "#
    );
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let update = |update: &str| {
            format!(
                r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
            )
        };
        let line = match words.as_slice() {
            [who, way, "DO", id, method, text] => format!(
                r#"{who} {way} {{"id":{id},"method":"{method}","params":{{"sessionId":"s","text":"{text}"}}}}"#
            ),
            [who, way, "PROMPT", id, text] => format!(
                r#"{who} {way} {{"id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
            ),
            [who, way, "ANSWER", id, result] => {
                format!(r#"{who} {way} {{"id":{id},"result":{result}}}"#)
            }
            [who, way, "SAY", text] => format!(
                "{who} {way} {}",
                update(&format!(
                    r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
                ))
            ),
            [who, way, "STATE", state] => format!(
                "{who} {way} {}",
                update(&format!(r#"{{"sessionUpdate":"state_update","state":"{state}"}}"#))
            ),
            [who, way, "CANCEL"] => {
                format!(r#"{who} {way} {{"method":"session/cancel","params":{{"sessionId":"s"}}}}"#)
            }
            [who, way, "REPORT", rest @ ..] => {
                format!(r#"{who} {way} {{"method":"_report","params":"{}"}}"#, rest.join(" "))
            }
            _ => line.trim().to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

const END: &str = r#"{"stopReason":"end_turn"}"#;
const CANCELLED: &str = r#"{"stopReason":"cancelled"}"#;

#[test]
fn a_text_is_shown_at_once_in_an_idle_session_and_after_the_turn_in_a_busy_one() {
    let text = format!(
        r#"
        editor > DO 1 _announce one
        editor < ANSWER 1 {{}}
        editor < SAY one
        editor > PROMPT 2 hi
        agent  < PROMPT 2 hi
        editor > DO 3 _announce two
        editor < ANSWER 3 {{}}
        agent  > SAY words
        editor < SAY words
        agent  > ANSWER 2 {END}
        editor < ANSWER 2 {END}
        editor < SAY two
        "#
    );
    play(obedient(), &script(1, "zed", &text));
}

#[test]
fn an_editor_that_shows_nothing_outside_of_a_turn_gets_the_text_in_the_next_one() {
    let text = format!(
        r#"
        editor > PROMPT 1 hi
        agent  < PROMPT 1 hi
        editor > DO 2 _announce late
        editor < ANSWER 2 {{}}
        agent  > ANSWER 1 {END}
        editor < ANSWER 1 {END}
        editor > PROMPT 3 again
        editor < SAY late
        agent  < PROMPT 3 again
        agent  > SAY words
        editor < SAY words
        agent  > ANSWER 3 {END}
        editor < ANSWER 3 {END}
        "#
    );
    for editor in ["agent-shell", "CodeCompanion.nvim", "acpx"] {
        play(obedient(), &script(1, editor, &text));
    }
    play(obedient().late_updates(LateUpdates::Hold), &script(1, "zed", &text));
    let at_once = "editor > DO 1 _announce now\neditor < ANSWER 1 {}\neditor < SAY now";
    play(obedient().late_updates(LateUpdates::Send), &script(1, "agent-shell", at_once));
}

#[test]
fn a_session_is_idle_between_turns() {
    let text = format!(
        r#"
        editor > DO 1 _idle -
        editor < ANSWER 1 true
        editor > PROMPT 2 hi
        agent  < PROMPT 2 hi
        editor > DO 3 _idle -
        editor < ANSWER 3 false
        editor > DO 4 _wait -
        editor > {{"id":5,"method":"_idle","params":{{"sessionId":"other"}}}}
        editor < ANSWER 5 true
        agent  > ANSWER 2 {END}
        editor < ANSWER 2 {END}
        editor < ANSWER 4 {{}}
        editor > DO 6 _idle -
        editor < ANSWER 6 true
        "#
    );
    play(obedient(), &script(1, "zed", &text));
}

#[test]
fn in_version_2_a_session_is_idle_when_the_agent_reports_it() {
    let text = r#"
        editor > PROMPT 1 hi
        agent  < PROMPT 1 hi
        agent  > ANSWER 1 {"messageId":"m"}
        editor < ANSWER 1 {"messageId":"m"}
        editor > DO 2 _idle -
        editor < ANSWER 2 false
        agent  > STATE running
        editor < STATE running
        editor > DO 3 _wait -
        agent  > STATE requires_action
        editor < STATE requires_action
        agent  > STATE idle
        editor < STATE idle
        editor < ANSWER 3 {}
        editor > DO 4 _idle -
        editor < ANSWER 4 true
        # An agent may become busy without a prompt.
        agent  > STATE running
        editor < STATE running
        editor > DO 5 _idle -
        editor < ANSWER 5 false
        "#;
    play(obedient(), &script(2, "zed", text));
}

#[test]
fn a_turn_of_the_component_starts_when_the_session_is_idle_and_prompts_wait_for_its_end() {
    let text = format!(
        r#"
        editor > PROMPT 1 hi
        agent  < PROMPT 1 hi
        editor > DO 2 _turn check
        editor < ANSWER 2 {{}}
        agent  > ANSWER 1 {END}
        editor < ANSWER 1 {END}
        agent  < PROMPT 7 check
        # The editor sees the turn, and may answer requests in it.
        agent  > SAY checking
        editor < SAY checking
        agent  > {{"id":8,"method":"fs/read_text_file","params":{{"sessionId":"s","path":"/a"}}}}
        editor < {{"id":8,"method":"fs/read_text_file","params":{{"sessionId":"s","path":"/a"}}}}
        editor > PROMPT 3 first
        editor > PROMPT 4 second
        editor > ANSWER 8 {{"content":"x"}}
        agent  < ANSWER 8 {{"content":"x"}}
        agent  > ANSWER 7 {END}
        agent  < PROMPT 9 first
        agent  < PROMPT 10 second
        editor < REPORT EndTurn checking
        agent  > ANSWER 9 {END}
        editor < ANSWER 3 {END}
        agent  > ANSWER 10 {END}
        editor < ANSWER 4 {END}
        "#
    );
    play(obedient(), &script(1, "zed", &text));
}

#[test]
fn in_version_2_a_turn_of_the_component_ends_with_the_idle_state() {
    let text = r#"
        editor > DO 1 _turn check
        editor < ANSWER 1 {}
        agent  < PROMPT 7 check
        agent  > ANSWER 7 {"messageId":"m"}
        agent  > STATE running
        editor < STATE running
        editor > PROMPT 2 mine
        agent  > STATE idle
        editor < STATE idle
        agent  < PROMPT 8 mine
        editor < REPORT EndTurn
        agent  > ANSWER 8 {"messageId":"n"}
        editor < ANSWER 2 {"messageId":"n"}
        "#;
    play(obedient(), &script(2, "zed", text));
}

#[test]
fn a_cancellation_ends_the_turn_of_the_component_and_the_prompts_that_wait() {
    let text = format!(
        r#"
        editor > DO 1 _turn check
        editor < ANSWER 1 {{}}
        agent  < PROMPT 7 check
        editor > PROMPT 2 mine
        editor > PROMPT 3 other
        editor > {{"method":"$/cancel_request","params":{{"requestId":3}}}}
        editor < {{"id":3,"error":{{"code":-32800,"message":"the request was cancelled"}}}}
        editor > CANCEL
        agent  < CANCEL
        editor < ANSWER 2 {CANCELLED}
        # A prompt after the cancellation waits for the end of the turn.
        editor > PROMPT 4 next
        agent  > ANSWER 7 {CANCELLED}
        agent  < PROMPT 8 next
        editor < REPORT Cancelled
        agent  > ANSWER 8 {END}
        editor < ANSWER 4 {END}
        "#
    );
    play(obedient(), &script(1, "zed", &text));
}

#[test]
fn turns_of_the_component_run_one_after_the_other_and_not_in_a_closed_session() {
    let close = r#"{"id":3,"method":"session/close","params":{"sessionId":"s"}}"#;
    let text = format!(
        r#"
        editor > DO 1 _turn one
        editor < ANSWER 1 {{}}
        agent  < PROMPT 7 one
        editor > DO 2 _turn two
        editor < ANSWER 2 {{}}
        agent  > {{"id":7,"error":{{"code":-32000,"message":"no"}}}}
        agent  < PROMPT 8 two
        editor < REPORT no
        editor > DO 4 _turn three
        editor < ANSWER 4 {{}}
        editor > {close}
        agent  < {close}
        editor < REPORT the session was closed before the turn began
        agent  > ANSWER 8 {CANCELLED}
        editor < REPORT Cancelled
        agent  > ANSWER 3 {{}}
        editor < ANSWER 3 {{}}
        "#
    );
    play(obedient(), &script(1, "zed", &text));
}

/// A handler of prompts does not change any of this: the turn ends with its answer.
#[test]
fn a_handled_prompt_ends_when_its_handler_returns() {
    let proxy = obedient().on_prompt(async |prompt, next| {
        let answer = next.run(prompt).await?;
        next.say("handled")?;
        Ok(answer)
    });
    let text = format!(
        r#"
        editor > PROMPT 1 hi
        agent  < PROMPT 1 hi
        editor > DO 2 _announce after
        editor < ANSWER 2 {{}}
        agent  > ANSWER 1 {END}
        editor < SAY handled
        editor < ANSWER 1 {END}
        editor < SAY after
        "#
    );
    play(proxy, &script(1, "zed", &text));
}

#[test]
fn with_raw_turns_a_handler_returns_the_answer_that_accepts_a_prompt() {
    let proxy = Proxy::new("raw").raw_turns().on_any_request(async |call, next| {
        let is_prompt = call.is("session/prompt");
        let answer = next.run(call).await?;
        if is_prompt {
            next.editor().notify_raw("_report", answer.as_str())?;
        }
        Ok(answer)
    });
    let text = r#"
        editor > PROMPT 1 hi
        agent  < PROMPT 1 hi
        agent  > ANSWER 1 {"messageId":"m"}
        editor < {"method":"_report","params":"{\"messageId\":\"m\"}"}
        editor < ANSWER 1 {"messageId":"m"}
        agent  > STATE idle
        editor < STATE idle
        "#;
    play(proxy, &script(2, "zed", text));
}

/// A prompt that no handler gets, and that the agent does not get either.
#[test]
fn a_refused_prompt_does_not_keep_its_session_busy() {
    let with_handler = obedient().strict().on_prompt(async |prompt, next| next.run(prompt).await);
    let with_check = obedient().check(Side::Agent, |call| match call.is("session/prompt") {
        true => Err(Error::internal("no prompts")),
        false => Ok(()),
    });
    let without_prompts = Agent::new("idle")
        .on_raw_request("_idle", async |_, next| Ok(Json::trusted(next.is_idle("s").to_string())));
    let components: [Component; 3] =
        [with_handler.into(), with_check.into(), without_prompts.into()];
    for component in components {
        let mut conversation = Conversation::new(component);
        let prompt = r#"{"jsonrpc":"2.0","id":"Editor:1","method":"session/prompt","params":{"sessionId":"s","prompt":[],"x":1,"x":2}}"#;
        conversation.send_text("editor", prompt);
        assert!(conversation.receive("editor")["error"].is_object());
        conversation.send("editor", r#"{"id":2,"method":"_idle","params":{"sessionId":"s"}}"#);
        assert_eq!(conversation.receive("editor")["result"], true);
    }
}
