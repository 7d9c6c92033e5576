//! What `conductor status` shows of a chain.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::test_chain::wait_until;

use crate::{INITIALIZE, LONG_GRACE, PROMPT, TestDirectories, names, start_agent, start_pair};

fn signal(pid: u32, signal: i32) {
    // SAFETY: sends a signal to a process that the test has started and that is not reaped yet.
    unsafe { libc::kill(pid as i32, signal) };
}

#[test]
fn a_chain_is_shown_with_its_components_and_open_requests() {
    let directories = TestDirectories::new("chain");
    let (mut chain, mut proxy, mut agent) = start_pair(directories.new_setup());
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    proxy.forward("down", "session/prompt", "{}");
    agent.request("session/prompt");

    let status = directories.json();
    let directory = std::env::current_dir().expect("a directory");
    assert_eq!(status["version"], 1);
    assert_eq!(status["pid"], chain.conductor.pid());
    assert_eq!(status["conductorVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&status["mode"], &status["state"]), (&json!("agent"), &json!("running")));
    assert_eq!(status["cwd"], directory.to_str().expect("UTF-8"));
    assert_eq!(status["openRequests"], 2);
    assert_eq!(status["sessions"], 0);
    assert_eq!(status["editor"], json!({"outBytes": 0, "paused": false}));
    assert_eq!(status["mcp"], json!({"servers": 0, "clients": 0}));
    let uptime = status["uptimeSeconds"].as_f64().expect("a number");
    let roles = [("proxy", "P5", proxy.pid), ("agent", "plain", agent.pid)];
    let policies = ["restart,bypass", "restart,stop"];
    for (index, (role, dialect, pid)) in roles.into_iter().enumerate() {
        let mut component = status["components"][index].clone();
        let since = component["uptimeSeconds"].take().as_f64().expect("a number");
        assert!((0.0..=uptime).contains(&since), "{status}");
        let command = component["command"].take();
        let command = command.as_str().expect("a string");
        assert!(command.contains("scripted ") && command.ends_with(role), "{command}");
        let expected = json!({
            "number": index + 1, "name": role, "command": null, "role": role, "dialect": dialect,
            "guard": false, "policy": policies[index], "state": "live", "pid": pid, "restarts": 0,
            "nextStart": null, "uptimeSeconds": null, "lastExit": null, "exitWords": [], "lastWords": [],
            "report": [], "queue": {"outBytes": 0, "heldMessages": 0, "heldBytes": 0, "owes": 1},
        });
        assert_eq!(component, expected);
    }

    let text = directories.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|it| it.split_whitespace().collect()).collect();
    let (conductor, proxy, agent) =
        (chain.conductor.pid().to_string(), proxy.pid.to_string(), agent.pid.to_string());
    assert_eq!(lines[0][..2], [&conductor, "agent"], "{text}");
    assert!(text.lines().next().unwrap().ends_with(&format!("  in {}", directory.display())));
    assert!(text.contains("  2 open requests  in "), "{text}");
    assert_eq!(lines[1].join(" "), "# name role dialect pid state restarts up queue owes command");
    assert_eq!(lines[2][..7], ["1", "proxy", "proxy", "P5", &proxy, "live", "0"], "{text}");
    assert_eq!(lines[3][..7], ["2", "agent", "agent", "plain", &agent, "live", "0"], "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

#[test]
fn a_chain_is_shown_from_its_start_to_its_end() {
    let directories = TestDirectories::new("states");
    let mut chain = directories.new_setup().option(&LONG_GRACE).run_named(&["proxy", "agent"]);
    let states = |status: &Value| {
        let of = |index: usize| status["components"][index]["state"].as_str().unwrap().to_owned();
        [status["state"].as_str().unwrap().to_owned(), of(0), of(1)]
    };
    // A conductor that waits for its editor is running.
    let status = wait_until("the status is available", || directories.list().pop());
    assert_eq!(states(&status), ["starting", "waiting", "waiting"]);
    assert_eq!(status["components"][0]["pid"], Value::Null);
    assert_eq!(status["components"][0]["uptimeSeconds"], Value::Null);

    chain.editor.send(INITIALIZE);
    let (mut proxy, mut agent) =
        (chain.wait_for_component("proxy"), chain.wait_for_component("agent"));
    let greeting = proxy.request("proxy/initialize");
    let status = directories.json();
    assert_eq!(states(&status), ["starting", "greeting", "waiting"]);
    assert_eq!(status["components"][1]["pid"], agent.pid);
    assert!(directories.text().contains("  starting  1 open request  in "));
    proxy.forward("down", "initialize", r#"{"protocolVersion":1}"#);
    let received = agent.request("initialize");
    assert_eq!(states(&directories.json()), ["starting", "greeting", "greeting"]);
    agent.answer(&received, r#"{"protocolVersion":1}"#);
    proxy.message();
    assert_eq!(states(&directories.json()), ["starting", "greeting", "live"]);
    proxy.answer(&greeting, r#"{"protocolVersion":1}"#);
    chain.editor.message();
    assert_eq!(states(&directories.json()), ["running", "live", "live"]);

    chain.editor.close();
    assert_eq!(proxy.next_line(), None);
    let status = directories.json();
    assert_eq!(states(&status), ["ending", "live", "live"]);
    proxy.exit(0);
    let status = wait_until("the proxy has ended", || {
        Some(directories.json()).filter(|status| states(status) == ["ending", "ended", "live"])
    });
    assert_eq!(status["components"][0]["pid"], Value::Null);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(directories.text(), "No conductor is running.\n");
}

#[test]
fn the_last_words_are_the_last_lines_of_stderr() {
    let directories = TestDirectories::new("words");
    let (_chain, mut agent) = start_agent(directories.new_setup());
    agent.write_stderr("not 30 lines\n");
    for number in 1..=30 {
        agent.write_stderr(&format!("line {number}\n"));
    }
    let words = wait_until("the last line is read", || {
        let words = directories.json()["components"][0]["lastWords"].take();
        let words = words.as_array().expect("a list").clone();
        words.last().is_some_and(|it| it == "line 30").then_some(words)
    });
    let expected: Vec<Value> = (11..=30).map(|number| json!(format!("line {number}"))).collect();
    assert_eq!(words, expected);
    // The component is alive, so the JSON has its last words and the table does not.
    assert!(!directories.text().contains("line 30"));
}

#[test]
fn the_end_of_a_component_is_shown_with_its_last_words() {
    let directories = TestDirectories::new("exit");
    let (mut chain, mut proxy, mut agent) = start_pair(directories.new_setup().option(&LONG_GRACE));
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    proxy.forward("down", "session/prompt", "{}");
    agent.request("session/prompt");
    agent.write_stderr("one\ntwo\nthree\n\x1b[31mout of luck\n");
    agent.exit(3);
    // The proxy has received the error, and has not answered yet.
    assert_eq!(proxy.message()["id"], "down");
    let status = directories.json();
    assert_eq!((&status["state"], &status["openRequests"]), (&json!("ending"), &json!(1)));
    let agent = &status["components"][1];
    assert_eq!((&agent["state"], &agent["pid"]), (&json!("lost"), &Value::Null));
    assert_eq!(agent["uptimeSeconds"], Value::Null);
    assert_eq!(agent["lastExit"], "exited with status 3");
    assert_eq!(agent["exitWords"], json!(["one", "two", "three", "\x1b[31mout of luck"]));
    let text = directories.text();
    let expected = "\n     last exit: exited with status 3\n       two\n       three\n       ·[31mout of luck\n";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_restarted_component_is_shown_with_its_last_exit() {
    let directories = TestDirectories::new("again");
    let mut chain = directories.new_setup().run_named(&["old", "agent"]);
    chain.editor.send(INITIALIZE);
    let mut first = chain.wait_for_component("old");
    first.request("proxy/initialize");
    first.write_stderr("what?\n");
    first.exit(4);
    let mut second = chain.wait_for_component("old");
    second.request("_proxy/initialize");
    let component = directories.json()["components"][0].take();
    assert_eq!((&component["restarts"], &component["pid"]), (&json!(1), &json!(second.pid)));
    assert_eq!(component["state"], "greeting");
    assert!(component["uptimeSeconds"].is_number(), "{component}");
    assert_eq!(component["lastExit"], "exited with status 4");
    assert_eq!((&component["exitWords"], &component["lastWords"]), (&json!(["what?"]), &json!([])));
    let text = directories.text();
    assert!(text.contains("\n     last exit: exited with status 4\n       what?\n"), "{text}");
}

#[test]
fn the_queue_of_an_agent_that_does_not_read_is_shown() {
    let directories = TestDirectories::new("queue");
    let (mut chain, mut agent) = start_agent(directories.new_setup());
    signal(agent.pid, libc::SIGSTOP);
    let long = PROMPT.replace("\"s\"", &format!("\"{}\"", "x".repeat(4 << 20)));
    chain.editor.send(&long);
    let status = wait_until("the prompt waits", || {
        Some(directories.json()).filter(|status| status["editor"]["paused"] == true)
    });
    let queue = &status["components"][0]["queue"];
    let bytes = queue["outBytes"].as_u64().expect("a number");
    assert!((1 << 20..5 << 20).contains(&bytes), "{status}");
    assert_eq!((&queue["owes"], &status["openRequests"]), (&json!(1), &json!(1)));
    let text = directories.text();
    assert!(
        text.contains("MiB  1 ") && text.contains("\n  reading from the editor is paused\n"),
        "{text}"
    );

    signal(agent.pid, libc::SIGCONT);
    let prompt = agent.request("session/prompt");
    let status = wait_until("the prompt is read", || {
        Some(directories.json()).filter(|status| status["editor"]["paused"] == false)
    });
    let expected = json!({"outBytes": 0, "heldMessages": 0, "heldBytes": 0, "owes": 1});
    assert_eq!(status["components"][0]["queue"], expected);
    agent.answer(&prompt, "{}");
    assert_eq!(chain.editor.message()["id"], 1);
    assert_eq!(directories.json()["components"][0]["queue"]["owes"], 0);
}

#[test]
fn a_components_environment_is_not_shown() {
    let directories = TestDirectories::new("secret");
    let setup = directories.new_setup();
    let mut proxy = setup.scripted_json("proxy");
    proxy["env"] = json!({"TOKEN": "hunter2"});
    let components =
        [proxy.to_string(), format!("KEY=hunter2 {}", setup.scripted_command("agent"))];
    let mut chain = setup.run("agent", &components);
    let scripted = chain.initialize(&["proxy", "agent"]);
    assert_eq!(scripted[1].start_info["env"]["KEY"], "hunter2");
    let shown = format!("{}{:?}", directories.text(), directories.list());
    assert!(shown.contains("scripted") && !shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains("TOKEN") && !shown.contains("KEY"), "{shown}");
}

#[test]
fn in_process_components_are_shown_without_a_process_id() {
    let directories = TestDirectories::new("resident");
    let mut chain = directories.new_setup().run("agent", &["sparkle".into(), "demo-agent".into()]);
    chain.editor.send(INITIALIZE);
    assert!(chain.editor.message()["result"].is_object());
    chain.editor.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    );
    assert!(chain.editor.message()["result"]["sessionId"].is_string());
    let status = directories.json();
    assert_eq!(status["state"], "running");
    for (index, name) in ["sparkle", "demo-agent"].into_iter().enumerate() {
        let component = &status["components"][index];
        assert_eq!((&component["name"], &component["pid"]), (&json!(name), &Value::Null));
        assert!(component["uptimeSeconds"].is_number(), "{status}");
    }
    // The agent uses the tools of the proxy.
    wait_until("the agent has connected", || {
        (directories.json()["mcp"] == json!({"servers": 1, "clients": 1})).then_some(())
    });
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
}

#[test]
fn the_chain_of_a_chat_is_shown_as_well() {
    let directories = TestDirectories::new("try");
    let mut chat = directories.command(&["try"]);
    let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let status = wait_until("the chain is up", || {
        directories.list().pop().filter(|status| status["state"] == "running")
    });
    assert_eq!((&status["pid"], &status["mode"]), (&json!(chat.id()), &json!("agent")));
    assert_eq!(status["components"][0]["name"], "demo-agent");
    drop(chat.stdin.take());
    assert!(wait_until("it ends", || chat.try_wait().expect("wait")).success());
    assert_eq!(names(&directories.sockets()), [""; 0]);
}
