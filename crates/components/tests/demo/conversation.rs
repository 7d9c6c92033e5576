//! Prompts, permissions and sessions.

use serde_json::{Value, json};

use crate::chat::{Chat, everything, selected};

#[test]
fn an_answer_is_streamed_and_repeats_the_prompt() {
    let mut chat = Chat::new(json!([]));
    let answer = chat.prompt_and_answer("hello there");
    assert_eq!(
        (answer.kinds, answer.stop_reason.as_str()),
        (vec!["agent_message_chunk".into()], "end_turn")
    );
    assert!(answer.text.starts_with("Hello! You said “hello there”"), "{}", answer.text);
    let answer = chat.prompt_and_answer("what is a proxy?");
    assert_eq!(answer.kinds, ["agent_thought_chunk", "agent_message_chunk"]);
    assert!(chat.prompt_and_answer("help").text.contains("use TOOL"));
    assert!(chat.prompt_and_answer("tools").text.contains("no MCP servers"));
    let plans = chat.prompt_and_answer("a plan").updates;
    let plans: Vec<&Value> = plans.iter().filter(|it| it["sessionUpdate"] == "plan").collect();
    assert_eq!(plans.len(), 4);
    assert_eq!(plans[3]["entries"][2]["status"], "completed");
}

#[test]
fn answers_do_not_end_with_blank_lines() {
    let mut chat = Chat::with_client(everything(1));
    for prompt in [
        "help",
        "tools",
        "plan",
        "story",
        "walkthrough",
        "use nothing",
        "hello",
        "show all",
        "show",
    ] {
        let text = chat.prompt_and_answer(prompt).text;
        assert!(!text.is_empty() && text.trim_end() == text, "{prompt}: {text:?}");
    }
}

/// A proxy adds a text block before the user's, or a line in the same block. The component `context` adds files.
#[test]
fn only_the_last_line_of_the_last_text_block_is_a_command() {
    let mut chat = Chat::new(json!([]));
    let help = chat.prompt_and_answer("help").text;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let resource =
        json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "crash" } });
    for blocks in [
        json!([text("Answer in one sentence."), text("help")]),
        json!([text("Answer in one sentence.\n\nhelp")]),
        json!([text("help"), resource]),
    ] {
        chat.send_blocks(blocks.clone());
        assert_eq!(chat.read_turn(Value::Null).text, help, "{blocks}");
    }
    let agents = "From AGENTS.md:\n\nPlan first. Edit the file.\nuse tools\ncrash";
    for blocks in [json!([text(agents), text("hello")]), json!([text("hello"), resource])] {
        chat.send_blocks(blocks.clone());
        let answer = chat.read_turn(Value::Null);
        assert!(answer.text.starts_with("Hello! You said “hello”"), "{blocks}: {}", answer.text);
        assert_eq!(answer.kinds, ["agent_message_chunk"]);
    }
    chat.send_blocks(json!([{ "type": "image", "mimeType": "image/png", "data": "" }]));
    assert!(chat.read_turn(Value::Null).text.contains("I have received an image."));
}

#[test]
fn it_asks_for_permission_before_an_edit_unless_the_mode_is_auto() {
    let mut chat = Chat::new(json!([]));
    chat.send_prompt("edit the file");
    let allowed = chat.read_turn(selected("allow"));
    assert_eq!(allowed.tools, ["pending", "in_progress", "completed"]);
    assert!(allowed.kinds.contains(&"permission".to_owned()));
    let question = &chat.questions[0];
    assert_eq!(question["toolCall"]["title"], "Edit demo.txt");
    assert_eq!(question["toolCall"]["kind"], "edit");
    assert_eq!(question["toolCall"]["content"][0]["type"], "diff");
    assert_eq!(question["toolCall"]["locations"][0]["path"], "/project/demo.txt");
    let options = question["options"].as_array().expect("options");
    let kinds: Vec<&str> = options.iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once", "reject_always"]);

    chat.send_prompt("edit the file");
    let rejected = chat.read_turn(selected("reject"));
    assert_eq!(rejected.tools, ["pending", "failed"]);
    assert!(rejected.text.contains("alone"), "{}", rejected.text);
    let left = chat.prompt_and_answer("edit the file");
    assert_eq!((left.tools.len(), left.stop_reason.as_str()), (2, "cancelled"));

    let mode = json!({ "sessionId": chat.session, "modeId": "auto" });
    chat.request("session/set_mode", mode);
    let changed = chat.conversation.receive("editor");
    assert_eq!(changed["params"]["update"]["configOptions"][0]["currentValue"], "auto");
    let automatic = chat.prompt_and_answer("edit the file");
    assert_eq!(automatic.kinds, ["tool_call", "tool_call_update", "agent_message_chunk"]);
    let mode = json!({ "sessionId": chat.session, "modeId": "nonsense" });
    assert_eq!(chat.request("session/set_mode", mode)["code"], -32602);
}

#[test]
fn a_permission_can_be_given_or_refused_for_the_whole_session() {
    for (option, end) in [("allow-always", "completed"), ("reject-always", "failed")] {
        let mut chat = Chat::new(json!([]));
        for _ in 0..2 {
            chat.send_prompt("edit the file");
            assert_eq!(chat.read_turn(selected(option)).tools.last().unwrap(), end);
        }
        assert_eq!(chat.questions.len(), 1, "{option}");
    }
}

#[test]
fn a_turn_can_be_cancelled_while_it_waits_for_permission() {
    let mut chat = Chat::new(json!([]));
    chat.send_prompt("edit the file");
    assert_eq!(chat.conversation.receive("editor")["method"], "session/update");
    let question = chat.conversation.receive("editor");
    assert_eq!(question["method"], "session/request_permission");
    chat.cancel();
    let rest = chat.read_turn(Value::Null);
    assert_eq!((rest.tools, rest.stop_reason.as_str()), (vec!["failed".into()], "cancelled"));
    // The editor has to answer the question all the same.
    let answer =
        json!({ "id": question["id"], "result": { "outcome": { "outcome": "cancelled" } } });
    chat.conversation.send("editor", &answer.to_string());
    assert_eq!(chat.prompt_and_answer("hello").stop_reason, "end_turn");
}

#[test]
fn a_session_can_be_listed_and_loaded_until_it_is_closed() {
    let mut chat = Chat::new(json!([]));
    let text = chat.prompt_and_answer("hello").text;
    let listed = chat.request("session/list", json!({}));
    let expected = json!([{ "sessionId": chat.session, "cwd": "/project", "title": "hello" }]);
    assert_eq!(listed["sessions"], expected);
    let elsewhere = chat.request("session/list", json!({ "cwd": "/elsewhere" }));
    assert_eq!(elsewhere["sessions"], json!([]));

    let load = json!({ "sessionId": chat.session, "cwd": "/", "mcpServers": [] });
    chat.send("session/load", &load);
    let user = chat.conversation.receive("editor");
    assert_eq!(user["params"]["update"]["sessionUpdate"], "user_message_chunk");
    let agent = chat.conversation.receive("editor");
    assert_eq!(agent["params"]["update"]["content"]["text"], text.as_str());
    assert_eq!(chat.conversation.receive("editor")["result"]["modes"]["currentModeId"], "ask");
    chat.skip_commands();
    chat.request("session/close", json!({ "sessionId": chat.session }));
    let unknown = chat.request("session/load", load);
    assert!(unknown["message"].as_str().expect("why").contains("there is no session"), "{unknown}");
    assert_eq!(unknown["code"], -32002);
}

/// A restarted agent gets `session/resume` with a session id of its predecessor.
#[test]
fn any_session_can_be_resumed_and_the_agent_says_that_it_has_forgotten_it() {
    let mut chat = Chat::initialized(&[], json!({ "protocolVersion": 1 }));
    let resume = json!({ "sessionId": "from-before", "cwd": "/", "mcpServers": [] });
    assert_eq!(chat.request("session/resume", resume.clone())["modes"]["currentModeId"], "ask");
    chat.skip_commands();
    chat.session = "from-before".into();
    assert_eq!(chat.prompt_and_answer("hello").kinds[0], "agent_thought_chunk");
    chat.request("session/resume", resume);
    chat.skip_commands();
    assert_eq!(chat.prompt_and_answer("hello").kinds, ["agent_message_chunk"]);
}

#[test]
fn a_session_has_modes_models_and_switches() {
    let mut chat = Chat::initialized(&[], everything(1));
    let new = chat.open(json!([]));
    let options = new["configOptions"].as_array().expect("options");
    let ids: Vec<&str> = options.iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(ids, ["mode", "model", "thoughts"]);
    let session = chat.session.clone();
    let set =
        |id: &str, value: Value| json!({ "sessionId": session, "configId": id, "value": value });

    let answer = chat.request("session/set_config_option", set("model", "loud".into()));
    assert_eq!(answer["configOptions"][1]["currentValue"], "loud");
    assert!(chat.prompt_and_answer("hello").text.starts_with("HELLO!"));
    chat.request("session/set_config_option", set("thoughts", false.into()));
    assert_eq!(chat.prompt_and_answer("why?").kinds, ["agent_message_chunk"]);
    chat.request("session/set_config_option", set("mode", "auto".into()));
    let update = chat.conversation.receive("editor");
    assert_eq!(update["params"]["update"]["currentModeId"], "auto");
    let wrong = chat.request("session/set_config_option", set("model", "huge".into()));
    assert_eq!(wrong["code"], -32602);
}

#[test]
fn a_login_is_offered_and_required_only_on_demand() {
    let mut chat = Chat::initialized(&["--require-login"], json!({ "protocolVersion": 1 }));
    let session = json!({ "cwd": "/", "mcpServers": [] });
    assert_eq!(chat.request("session/new", session.clone())["code"], -32000);
    let wrong = chat.request("authenticate", json!({ "methodId": "wrong" }));
    assert_eq!(wrong["code"], -32602);
    chat.request("authenticate", json!({ "methodId": "demo-login" }));
    assert!(chat.request("session/new", session.clone())["sessionId"].is_string());
    chat.skip_commands();
    chat.request("logout", json!({}));
    assert_eq!(chat.request("session/new", session)["code"], -32000);
    // In version 2 the methods and members have other names.
    let mut chat = Chat::initialized(&["--require-login"], everything(2));
    chat.request("auth/login", json!({ "methodId": "demo-login" }));
    chat.open(json!([]));
    assert!(chat.prompt_and_answer("hello").text.starts_with("Hello!"));
}

#[test]
fn it_fails_refuses_and_waits_on_request() {
    let mut chat = Chat::new(json!([]));
    let failed = chat.prompt_and_answer("fail").error;
    assert_eq!((&failed["code"], &failed["message"]), (&json!(-32603), &json!("Internal error")));
    let details = failed["data"]["details"].as_str().expect("details");
    assert!(details.contains("the prompt asked for it"), "{details}");
    assert_eq!(chat.prompt_and_answer("fail auth").error["code"], -32000);
    assert_eq!(chat.prompt_and_answer("refuse").stop_reason, "refusal");
    assert_eq!(chat.prompt_and_answer("stop max_tokens").stop_reason, "max_tokens");
    assert!(chat.prompt_and_answer("sleep 0.01").text.ends_with("I have slept for 0.01 seconds."));
    chat.send_prompt("hang");
    assert_eq!(chat.conversation.receive("editor")["method"], "session/update");
    chat.cancel();
    assert_eq!(chat.read_turn(Value::Null).stop_reason, "cancelled");
}
