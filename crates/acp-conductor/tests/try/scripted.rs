//! `conductor try --json` with scripted agents: commands, sessions, files, terminals and permissions.

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, assert_gone, directory, wait_until};

/// A chat with a scripted agent.
struct Chat {
    chain: TestChain,
    agent: ScriptedComponent,
    /// The params of `initialize`.
    client: Value,
}

impl Chat {
    /// Starts a chat. The agent has answered `initialize` with these members, and nothing else.
    fn start(options: &[&str], greeting: Value) -> Chat {
        let builder = TestChain::builder(env!("CARGO_BIN_EXE_conductor")).option(&["--json"]);
        let builder = builder.option(options).option(&["--"]);
        let agent = builder.scripted_json("agent").to_string();
        let mut chain = builder.run("try", &[agent]);
        let mut agent = chain.wait_for_component("agent");
        let request = agent.request("initialize");
        let mut answer =
            json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [] });
        for (name, value) in greeting.as_object().expect("an object") {
            answer[name] = value.clone();
        }
        agent.answer(&request, &answer.to_string());
        Chat { chain, agent, client: request["params"].clone() }
    }

    /// Starts a chat with an open session `s`.
    fn open(options: &[&str], greeting: Value, session: Value) -> Chat {
        let mut chat = Chat::start(options, greeting);
        let request = chat.agent.request("session/new");
        let mut answer = json!({ "sessionId": "s" });
        for (name, value) in session.as_object().expect("an object") {
            answer[name] = value.clone();
        }
        chat.agent.answer(&request, &answer.to_string());
        chat.shown("session");
        chat
    }

    /// Enters a line.
    fn enter(&mut self, line: &str) {
        self.chain.editor.send(line);
    }

    /// Enters a prompt. Returns the request that the agent receives.
    fn prompt(&mut self, line: &str) -> Value {
        self.enter(line);
        self.agent.request("session/prompt")
    }

    /// Waits until an object of this type is printed.
    fn shown(&mut self, kind: &str) -> Value {
        loop {
            let value = self.chain.editor.message();
            if value["type"] == kind {
                return value;
            }
        }
    }

    /// The agent sends a request, and receives its answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send_request("a", method, params);
        let answer = self.agent.message();
        assert_eq!(answer["id"], "a", "{answer}");
        answer
    }

    fn send_request(&mut self, id: &str, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.agent.send(&request.to_string());
    }

    fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s", "update": update });
        let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        self.agent.send(&update.to_string());
    }

    /// Ends the turn and the chat. Returns the exit status.
    fn finish(mut self, prompt: &Value) -> i32 {
        self.agent.answer(prompt, r#"{"stopReason":"end_turn"}"#);
        assert_eq!(self.shown("turn_end")["stopReason"], "end_turn");
        self.close()
    }

    fn close(mut self) -> i32 {
        self.chain.editor.close();
        assert!(self.agent.next_line().is_none());
        self.agent.exit(0);
        self.chain.conductor.status()
    }
}

fn open() -> Chat {
    Chat::open(&[], json!({}), json!({}))
}

#[test]
fn every_event_is_an_object_on_one_line() {
    let mut chat = Chat::start(&[], json!({ "agentInfo": { "name": "x", "version": "1" } }));
    assert_eq!(chat.client["clientCapabilities"]["terminal"], true);
    assert_eq!(chat.client["clientCapabilities"]["fs"]["writeTextFile"], true);
    let request = chat.agent.request("session/new");
    // Some agents send updates before the answer that contains the id of the session.
    chat.update(json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }));
    chat.agent.answer(&request, r#"{"sessionId":"s"}"#);
    let session = chat.chain.editor.message();
    assert_eq!((&session["type"], &session["sessionId"]), (&json!("session"), &json!("s")));
    assert_eq!(session["agent"]["name"], "x");
    assert_eq!(chat.chain.editor.message()["update"]["sessionUpdate"], "available_commands_update");
    let prompt = chat.prompt("hello");
    assert_eq!(chat.chain.editor.message(), json!({ "type": "prompt", "text": "hello" }));
    let update = json!({ "sessionUpdate": "new_kind", "_meta": { "x": [1, null] } });
    chat.update(update.clone());
    assert_eq!(chat.chain.editor.message(), json!({ "type": "update", "update": update }));
    assert_eq!(chat.finish(&prompt), 0);
}

#[test]
fn a_failed_answer_is_an_error_and_the_status_is_1() {
    let mut chat = open();
    let prompt = chat.prompt("hello");
    let error = r#"{"code":-32603,"message":"Internal error","data":{"details":"out of words"}}"#;
    chat.agent.answer_error(&prompt, error);
    let text = chat.shown("error")["text"].as_str().expect("a text").to_owned();
    assert!(text.contains("Internal error: out of words"), "{text}");
    assert_eq!(chat.shown("turn_end")["stopReason"], "error");
    assert_eq!(chat.close(), 1);
}

#[test]
fn the_agent_reads_and_writes_files_in_the_folder_of_the_session() {
    let folder = directory("try-files");
    let path = folder.join("a.txt");
    std::fs::write(&path, "one\r\ntwo\nthree").expect("a file");
    let mut chat = Chat::start(&["--cwd", folder.to_str().expect("UTF-8")], json!({}));
    let request = chat.agent.request("session/new");
    assert_eq!(request["params"]["cwd"], json!(folder));
    chat.agent.answer(&request, r#"{"sessionId":"s"}"#);
    let prompt = chat.prompt("hello");
    let read = |chat: &mut Chat, params: Value| {
        let mut all = json!({ "sessionId": "s", "path": path });
        params.as_object().expect("an object").iter().for_each(|it| all[it.0] = it.1.clone());
        chat.ask("fs/read_text_file", all)
    };
    assert_eq!(read(&mut chat, json!({}))["result"]["content"], "one\r\ntwo\nthree");
    assert_eq!(read(&mut chat, json!({ "line": 2, "limit": 1 }))["result"]["content"], "two\n");
    let missing = read(&mut chat, json!({ "path": folder.join("x") }));
    assert_eq!(missing["error"]["code"], -32002);
    let message = missing["error"]["message"].as_str().expect("a text");
    assert!(
        message.contains("Resource not found") && message.contains("No such file"),
        "{message}"
    );
    let new = folder.join("new").join("b.txt");
    let params = json!({ "sessionId": "s", "path": new, "content": "ä" });
    assert_eq!(chat.ask("fs/write_text_file", params)["result"], json!({}));
    assert_eq!(std::fs::read_to_string(new).expect("a file"), "ä");
    assert_eq!(chat.finish(&prompt), 0);
}

#[test]
fn files_outside_of_the_folder_need_permission() {
    let folder = directory("try-outside");
    let (inside, secret) = (folder.join("inside"), folder.join("secret"));
    std::fs::create_dir(&inside).expect("a folder");
    std::fs::write(&secret, "hidden").expect("a file");
    std::os::unix::fs::symlink(&secret, inside.join("link")).expect("a link");
    for (yes, allowed) in [(false, false), (true, true)] {
        let mut options = vec!["--cwd", inside.to_str().expect("UTF-8")];
        options.extend(yes.then_some("--yes"));
        let mut chat = Chat::open(&options, json!({}), json!({}));
        let prompt = chat.prompt("hello");
        for path in [&secret, &inside.join("link"), &inside.join("../secret")] {
            let answer = chat.ask("fs/read_text_file", json!({ "sessionId": "s", "path": path }));
            assert_eq!(answer["result"]["content"] == "hidden", allowed, "{answer}");
            let permission = chat.shown("permission");
            assert!(permission["title"].as_str().expect("a text").contains("secret"));
            assert_eq!(permission["answer"], if allowed { "Allow once" } else { "Reject" });
        }
        let params = json!({ "sessionId": "s", "path": folder.join("new"), "content": "" });
        assert_eq!(chat.ask("fs/write_text_file", params)["result"].is_object(), allowed);
        assert_eq!(folder.join("new").exists(), allowed);
        assert_eq!(chat.finish(&prompt), 0);
    }
}

#[test]
fn the_agent_runs_commands_in_terminals() {
    let folder = directory("try-terminals");
    let options = ["--cwd", folder.to_str().expect("UTF-8")];
    let mut chat = Chat::open(&options, json!({}), json!({}));
    let prompt = chat.prompt("hello");
    let params = json!({ "sessionId": "s", "command": "echo $WORD; pwd; echo problem >&2; exit 3",
        "env": [{ "name": "WORD", "value": "hello" }] });
    let terminal = chat.ask("terminal/create", params)["result"]["terminalId"].clone();
    let named = json!({ "sessionId": "s", "terminalId": terminal });
    let exit = chat.ask("terminal/wait_for_exit", named.clone());
    assert_eq!(exit["result"], json!({ "exitCode": 3, "signal": null }));
    let output = chat.ask("terminal/output", named.clone())["result"].clone();
    assert_eq!(output["output"], format!("hello\n{}\nproblem\n", folder.display()));
    assert_eq!(
        (&output["truncated"], &output["exitStatus"]["exitCode"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(chat.ask("terminal/release", named.clone())["result"], json!({}));
    assert_eq!(chat.ask("terminal/output", named)["error"]["code"], -32602);
    let shown = chat.shown("terminal");
    assert_eq!(shown["exit"], "exited with status 3");
    assert_eq!(chat.finish(&prompt), 0);
}

#[test]
fn the_commands_of_the_agent_end_with_the_chat() {
    let folder = directory("try-orphans");
    let mut chat = Chat::open(&["--cwd", folder.to_str().expect("UTF-8")], json!({}), json!({}));
    let prompt = chat.prompt("hello");
    // The second process leaves the process group.
    let command = "sleep 1000 & echo $! > a; setsid sh -c 'echo $$ > b; exec sleep 1000' & wait";
    chat.ask("terminal/create", json!({ "sessionId": "s", "command": command }));
    let pid = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    let pids: Vec<u32> = ["a", "b"].map(|name| wait_until("a process runs", || pid(name))).to_vec();
    assert_eq!(chat.finish(&prompt), 0);
    pids.into_iter().for_each(|pid| assert_gone(pid, "the command"));
}

/// The reaper finds them.
#[cfg(target_os = "linux")]
#[test]
fn the_commands_of_the_agent_end_if_the_conductor_is_killed() {
    let folder = directory("try-killed");
    let mut chat = Chat::open(&["--cwd", folder.to_str().expect("UTF-8")], json!({}), json!({}));
    chat.prompt("hello");
    let command = "echo $$ > pid; exec sleep 1000";
    chat.ask("terminal/create", json!({ "sessionId": "s", "command": command }));
    let pid = || std::fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok();
    let pid: u32 = wait_until("the command runs", pid);
    chat.chain.conductor.signal(libc::SIGKILL);
    wait_until("the command is killed", || (!testkit::test_chain::is_alive(pid)).then_some(()));
}

/// Many agents send only the id of a tool call.
#[test]
fn a_permission_is_joined_with_earlier_updates_of_the_tool_call() {
    let mut chat = Chat::open(&["--yes"], json!({}), json!({}));
    let prompt = chat.prompt("hello");
    chat.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run it",
        "rawInput": { "command": "ls" }, "status": "pending" }));
    let options = json!([{ "optionId": "always", "name": "Always", "kind": "allow_always" },
        { "optionId": "once", "name": "Once", "kind": "allow_once" }]);
    let params = json!({ "sessionId": "s", "toolCall": { "toolCallId": "t" }, "options": options });
    let answer = chat.ask("session/request_permission", params);
    assert_eq!(
        answer["result"],
        json!({ "outcome": { "outcome": "selected", "optionId": "once" } })
    );
    let permission = chat.shown("permission");
    assert_eq!((&permission["title"], &permission["answer"]), (&json!("Run it"), &json!("Once")));
    assert_eq!(permission["toolCall"]["rawInput"]["command"], "ls");
    // Without an option to allow, no option is invented.
    let params = json!({ "sessionId": "s", "toolCall": { "toolCallId": "t" }, "options": [] });
    let answer = chat.ask("session/request_permission", params);
    assert_eq!(answer["result"], json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(chat.finish(&prompt), 0);
}

#[test]
fn each_request_of_the_agent_is_answered_once() {
    let mut chat = open();
    let prompt = chat.prompt("hello");
    assert_eq!(chat.ask("craft/drainMidTurnQueue", json!({}))["error"]["code"], -32601);
    let params = json!({ "sessionId": "s", "mode": "form", "message": "Name?",
        "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
    assert_eq!(chat.ask("elicitation/create", params)["result"], json!({ "action": "decline" }));
    let terminal = json!({ "sessionId": "s", "command": "sleep", "args": ["1000"] });
    let terminal = chat.ask("terminal/create", terminal)["result"]["terminalId"].clone();
    let named = json!({ "sessionId": "s", "terminalId": terminal });
    chat.send_request("w", "terminal/wait_for_exit", named.clone());
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": "w" } });
    chat.agent.send(&cancel.to_string());
    let answer = chat.agent.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("w"), &json!(-32800)));
    assert_eq!(chat.ask("terminal/kill", named.clone())["result"], json!({}));
    let exit = chat.ask("terminal/wait_for_exit", named);
    assert_eq!(exit["result"], json!({ "exitCode": null, "signal": "SIGTERM" }));
    assert_eq!(chat.finish(&prompt), 0);
}

#[test]
fn modes_models_and_options_are_listed_and_changed() {
    let session = json!({
        "modes": { "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }] },
        "models": { "currentModelId": "a", "availableModels": [{ "modelId": "a", "name": "A" }, { "modelId": "b", "name": "B" }] },
        "configOptions": [{ "id": "effort", "name": "Effort", "type": "select", "currentValue": "low",
            "options": [{ "value": "low", "name": "Low" }, { "value": "high", "name": "High" }] }],
    });
    let mut chat = Chat::open(&[], json!({}), session);
    chat.enter("/mode");
    let text = chat.shown("note")["text"].as_str().expect("a text").to_owned();
    assert!(text.contains("* 1 Ask\n  2 Code"), "{text}");
    for (line, method, member, value, note) in [
        ("/mode code", "session/set_mode", "modeId", "code", "mode: Code"),
        ("/model 2", "session/set_model", "modelId", "b", "model: B"),
        ("/config effort high", "session/set_config_option", "value", "high", "Effort: High"),
    ] {
        chat.enter(line);
        let request = chat.agent.request(method);
        assert_eq!(
            (&request["params"]["sessionId"], &request["params"][member]),
            (&json!("s"), &json!(value))
        );
        chat.agent.answer(&request, "{}");
        assert_eq!(chat.shown("note")["text"], note);
    }
    chat.enter("/mode none");
    chat.shown("error");
    assert_eq!(chat.close(), 1);
}

#[test]
fn slash_commands_are_ours_or_the_agents_or_unknown() {
    let mut chat = open();
    let command =
        |name: &str| json!({ "name": name, "description": "d", "input": { "hint": "what" } });
    let commands = [command("web"), command("help")];
    chat.update(
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }),
    );
    chat.shown("update");
    chat.enter("/help");
    let help = chat.shown("note")["text"].as_str().expect("a text").to_owned();
    assert!(help.contains("/web [what]") && help.contains("//help"), "{help}");
    chat.enter("/wbe x");
    let error = chat.shown("error")["text"].as_str().expect("a text").to_owned();
    assert!(error.contains("Did you mean /web?"), "{error}");
    for (line, text) in [
        ("/web of words", "/web of words"),
        ("//help", "/help"),
        (" /new", "/new"),
        ("/a/b", "/a/b"),
    ] {
        let prompt = chat.prompt(line);
        assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": text }]));
        chat.agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
        chat.shown("turn_end");
    }
    chat.enter("/exit");
    assert!(chat.agent.next_line().is_none());
    chat.agent.exit(0);
    assert_eq!(chat.chain.conductor.status(), 1);
}

#[test]
fn sessions_are_listed_loaded_and_resumed() {
    let capabilities =
        json!({ "loadSession": true, "sessionCapabilities": { "list": {}, "resume": {} } });
    let servers = ["--mcp-server", "web=http://127.0.0.1:1/mcp", "--mcp-server", "x=/bin/x -y"];
    let greeting = json!({ "agentCapabilities": capabilities });
    let mut chat = Chat::start(&servers, greeting);
    let request = chat.agent.request("session/new");
    let declared = request["params"]["mcpServers"].clone();
    assert_eq!(
        (&declared[0]["url"], &declared[1]["args"]),
        (&json!("http://127.0.0.1:1/mcp"), &json!(["-y"]))
    );
    chat.agent.answer(&request, r#"{"sessionId":"s"}"#);
    chat.enter("/sessions");
    let request = chat.agent.request("session/list");
    let sessions = json!({ "sessions": [{ "sessionId": "old", "cwd": "/", "title": "An old talk", "updatedAt": "2026-01-02T03:04:05Z" }] });
    chat.agent.answer(&request, &sessions.to_string());
    let text = chat.shown("note")["text"].as_str().expect("a text").to_owned();
    assert!(text.contains("1  An old talk  2026-01-02 03:04  old"), "{text}");
    chat.enter("/load 1");
    let request = chat.agent.request("session/load");
    assert_eq!(
        (&request["params"]["sessionId"], &request["params"]["mcpServers"]),
        (&json!("old"), &declared)
    );
    let update = json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "hi" } });
    let params = json!({ "sessionId": "old", "update": update });
    chat.agent.send(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string(),
    );
    assert_eq!(chat.shown("update")["replayed"], true);
    chat.agent.answer(&request, "{}");
    assert_eq!(chat.shown("session")["sessionId"], "old");
    chat.enter("/resume s");
    let request = chat.agent.request("session/resume");
    chat.agent.answer_error(&request, r#"{"code":-32002,"message":"no such session"}"#);
    chat.shown("error");
    // The current session goes on.
    let prompt = chat.prompt("hello");
    assert_eq!(prompt["params"]["sessionId"], "old");
    assert_eq!(chat.finish(&prompt), 1);
}

#[test]
fn a_chat_can_begin_with_an_earlier_session() {
    let greeting = json!({ "agentCapabilities": { "loadSession": true } });
    // Without session/resume, the session is loaded.
    let mut chat = Chat::start(&["--resume", "old"], greeting);
    let request = chat.agent.request("session/load");
    chat.agent.answer(&request, "{}");
    let prompt = chat.prompt("hello");
    assert_eq!(prompt["params"]["sessionId"], "old");
    assert_eq!(chat.finish(&prompt), 0);
    let chat = Chat::start(&["--load", "old"], json!({}));
    let mut conductor = chat.chain.conductor;
    assert_eq!(conductor.status(), 1);
    assert!(
        conductor.whole_stderr().contains("cannot load or resume"),
        "{}",
        conductor.whole_stderr()
    );
}

#[test]
fn without_a_terminal_a_missing_login_ends_the_chat_with_the_ways_to_log_in() {
    let methods = json!([{ "id": "key", "name": "API key", "type": "env_var", "vars": [{ "name": "THE_KEY" }] }]);
    let mut chat = Chat::start(&[], json!({ "authMethods": methods }));
    let request = chat.agent.request("session/new");
    chat.agent.answer_error(&request, r#"{"code":-32000,"message":"Authentication required"}"#);
    let shown = chat.shown("error")["text"].as_str().expect("a text").to_owned();
    assert!(shown.contains("Authentication required"), "{shown}");
    assert_eq!(chat.chain.conductor.status(), 1);
    let stderr = chat.chain.conductor.whole_stderr();
    assert!(stderr.contains("Authentication required") && stderr.contains("THE_KEY"), "{stderr}");
}

#[test]
fn invalid_options_are_explained() {
    for (options, why) in [
        (&["--cwd", "/not/there"][..], "/not/there"),
        (&["--mcp-server", "x"], "NAME=COMMAND"),
        (&["--prompt", " "], "--prompt is empty"),
        (&["--json", "--plain"], "--plain"),
    ] {
        let output = super::run_try(options);
        let stderr = super::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::create("/dev/full").expect("a device");
    for options in [&["--prompt", "hello"][..], &["--prompt", "hello", "--json"]] {
        let mut command = super::conductor(&[&["try"], options].concat());
        let output = command.stdout(full.try_clone().expect("a file")).output().expect("an end");
        let stderr = super::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{stderr}");
        assert!(stderr.ends_with("[more: conductor errors output-failed]\n"), "{stderr}");
    }
}
