//! Files that components read, and the messages that are shown.

use super::*;

/// Sends a text to the agent, and returns what it gets.
fn passed(chain: &mut Reloaded, agent: &mut ScriptedComponent, text: &str) -> String {
    let prompt = json!({ "jsonrpc": "2.0", "id": "text", "method": "session/prompt", "params": {
        "sessionId": "s", "prompt": [{ "type": "text", "text": text }],
    } });
    chain.test.editor.send(&prompt.to_string());
    let prompt = agent.request("session/prompt");
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    let answer = chain.test.editor.message();
    assert_eq!(answer["id"], "text", "{answer}");
    prompt.to_string()
}

fn start_with_filter(name: &str, more: &str) -> (Reloaded, ScriptedComponent) {
    let text = format!("\n[components.filter]\ncommand = \"builtin:filter\"\n{more}");
    let mut chain = Reloaded::start(name, &["filter", "agent"], &text);
    chain.test.editor.send(
        r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#,
    );
    let mut agent = chain.test.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    assert_eq!(chain.test.editor.message()["id"], "init");
    (chain, agent)
}

/// The second change has the same length, and comes when the rules were read for the first one.
#[test]
fn a_file_that_changes_while_a_reload_waits_is_read_by_the_next_reload() {
    let values = directory("reload-late").join("values.txt");
    fs::write(&values, "secret-number-one\n").expect("written");
    let (mut chain, mut agent) =
        start_with_filter("late", &format!("options = {{ values = [{values:?}] }}\n"));
    chain.test.editor.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    );
    let prompt = agent.request("session/prompt");
    fs::write(&values, "secret-number-two\n").expect("written");
    let (reloading, _) = chain.begin_waiting_reload();
    fs::write(&values, "secret-number-six\n").expect("written");
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(chain.test.editor.message()["id"], 1);
    let told = report(reloading.wait_with_output().expect("an output"));
    assert_eq!(told["restarted"], json!(["filter"]), "{told}");
    assert_eq!(chain.reload()["restarted"], json!(["filter"]));
    assert!(!passed(&mut chain, &mut agent, "say secret-number-six").contains("secret-number-six"));
    assert_eq!(chain.reload()["restarted"], json!([]));
}

#[test]
fn a_file_that_a_file_of_options_names_is_compared() {
    let folder = directory("reload-options");
    let (values, options) = (folder.join("values.txt"), folder.join("filter.toml"));
    fs::write(&values, "secret-number-one\n").expect("written");
    fs::write(&options, format!("values = [{values:?}]\n")).expect("written");
    let (mut chain, mut agent) =
        start_with_filter("options", &format!("args = [\"--config\", {options:?}]\n"));
    assert_eq!(chain.reload()["restarted"], json!([]));
    fs::write(&values, "secret-number-six\n").expect("written");
    assert_eq!(chain.reload()["restarted"], json!(["filter"]));
    assert!(!passed(&mut chain, &mut agent, "say secret-number-six").contains("secret-number-six"));
}

#[test]
fn the_chat_shows_the_messages_after_a_reload() {
    let folder = directory("reload-wire");
    let file = folder.join("conductor.toml");
    let text = "default = \"main\"\n[chains.main]\nproxies = []\nagent = \"demo-agent\"\n";
    fs::write(&file, text).expect("written");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("CONDUCTOR_CONFIG", &file).env("XDG_RUNTIME_DIR", &folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("the conductor starts")
    };
    let mut chat = run(&["try", "--chain", "main", "--show-wire", "--plain"]);
    let mut input = chat.stdin.take().expect("a pipe");
    let mut output = BufReader::new(chat.stdout.take().expect("a pipe"));
    let mut prompt = |text: &str| {
        writeln!(input, "{text}").expect("the chat runs");
        let mut line = String::new();
        while !(line.contains("session/prompt") && line.contains(text)) {
            line.clear();
            assert!(output.read_line(&mut line).expect("text") > 0, "the chat has ended");
        }
        line
    };
    assert!(prompt("before").contains("editor → demo-agent"));
    fs::write(&file, text.replace("[]", "[\"sparkle\"]")).expect("written");
    let reload = run(&["reload", &chat.id().to_string(), "--json"]);
    let told = report(reload.wait_with_output().expect("an output"));
    assert_eq!(told["added"], json!(["sparkle"]), "{told}");
    let line = prompt("after");
    assert!(line.contains("editor → sparkle"), "{line}");
    drop(input);
    chat.wait().expect("the chat ends");
}
