//! Files and terminals of the client.

use serde_json::{Value, json};

use crate::chat::{Chat, everything, selected};

#[test]
fn it_edits_files_through_the_client() {
    let mut chat = Chat::with_client(everything(1));
    chat.files.insert("/project/a.txt".into(), "one".into());
    chat.send_prompt("edit a.txt new/b.txt one more");
    let done = chat.read_turn(selected("allow"));
    assert_eq!(done.tools, ["pending", "in_progress", "completed"]);
    assert_eq!(chat.files["/project/a.txt"], "one\none more\n");
    assert_eq!(chat.files["/project/new/b.txt"], "one more\n");
    let call = &chat.questions[0]["toolCall"];
    assert_eq!(call["title"], "Edit a.txt, new/b.txt");
    let first = json!({ "type": "diff", "path": "/project/a.txt", "oldText": "one", "newText": "one\none more\n" });
    assert_eq!(call["content"][0], first);
    assert_eq!(call["content"][1]["oldText"], Value::Null);
    assert_eq!(call["locations"][0], json!({ "path": "/project/a.txt", "line": 2 }));

    chat.send_prompt("edit a.txt again");
    assert_eq!(chat.read_turn(selected("reject")).tools.last().unwrap(), "failed");
    assert_eq!(chat.files["/project/a.txt"], "one\none more\n");
    chat.send_prompt("edit read-only.txt");
    let failed = chat.read_turn(selected("allow"));
    assert_eq!(failed.text, "I could not write read-only.txt: the file is read-only.");
    // Without a name, it only pretends.
    chat.send_prompt("edit the file");
    assert!(chat.read_turn(selected("allow")).text.contains("only pretend"));
    assert_eq!(chat.files.len(), 2);
}

#[test]
fn it_reads_files_through_the_client() {
    let mut chat = Chat::with_client(everything(1));
    chat.files.insert("/project/a.txt".into(), "one\ntwo\n".into());
    let read = chat.prompt_and_answer("read a.txt");
    assert_eq!(read.tools, ["pending", "in_progress", "completed"]);
    assert_eq!(read.text, "a.txt has 2 lines. The first one is: one");
    let content = &read.updates.iter().find(|it| it["status"] == "completed").unwrap()["content"];
    assert_eq!(content[0]["content"]["text"], "one\ntwo\n");
    let missing = chat.prompt_and_answer("read b.txt");
    assert_eq!(missing.text, "I could not read b.txt: /project/b.txt does not exist.");
    assert_eq!(missing.tools.last().unwrap(), "failed");
}

#[test]
fn it_runs_commands_in_terminals_of_the_client() {
    let mut chat = Chat::with_client(everything(1));
    chat.send_prompt("run echo 'hello world'");
    let done = chat.read_turn(selected("allow"));
    assert_eq!(done.text, "`echo hello world` has ended with status 0. It has printed: hello");
    assert_eq!(done.tools, ["pending", "in_progress", "completed"]);
    let terminal = done.updates.iter().find(|it| it["status"] == "in_progress").unwrap();
    assert_eq!(terminal["content"][0], json!({ "type": "terminal", "terminalId": "t1" }));
    // The terminal is released after the turn or before its end.
    assert_eq!(
        chat.terminal_requests[..3],
        ["terminal/create", "terminal/wait_for_exit", "terminal/output"]
    );
    if chat.terminal_requests.len() == 3 {
        assert_eq!(chat.conversation.receive("editor")["method"], "terminal/release");
    }
    chat.send_prompt("run missing");
    let failed = chat.read_turn(selected("allow"));
    assert_eq!(failed.text, "I could not run `missing`: command not found: missing.");
    chat.send_prompt("run rm -r /");
    assert!(chat.read_turn(selected("reject")).text.contains("alone"));
}

#[test]
fn a_cancelled_command_is_killed() {
    let mut chat = Chat::with_client(everything(1));
    let mode = json!({ "sessionId": chat.session, "modeId": "auto" });
    chat.request("session/set_mode", mode);
    chat.conversation.receive("editor");
    chat.send_prompt("run sleep 100");
    let receive = |chat: &mut Chat| chat.conversation.receive("editor");
    assert_eq!(receive(&mut chat)["params"]["update"]["sessionUpdate"], "tool_call");
    let create = receive(&mut chat);
    assert_eq!(create["params"]["args"], json!(["100"]));
    let answer = json!({ "id": create["id"], "result": { "terminalId": "t1" } });
    chat.conversation.send("editor", &answer.to_string());
    assert_eq!(receive(&mut chat)["params"]["update"]["status"], "in_progress");
    assert_eq!(receive(&mut chat)["method"], "terminal/wait_for_exit");
    chat.cancel();
    let mut methods = Vec::new();
    while methods.len() < 2 {
        let message = receive(&mut chat);
        if let Some(method) = message["method"].as_str().filter(|it| it.starts_with("terminal/")) {
            methods.push(method.to_owned());
            let answer = json!({ "id": message["id"], "result": {} });
            chat.conversation.send("editor", &answer.to_string());
        }
    }
    assert_eq!(methods, ["terminal/kill", "terminal/release"]);
}

#[test]
fn it_says_what_the_client_cannot_do() {
    for version in [1, 2] {
        let mut chat = Chat::with_client(json!({ "protocolVersion": version }));
        let read = chat.prompt_and_answer("read a.txt").text;
        assert_eq!(read, "I cannot read a.txt: the editor does not let me read files.");
        let run = chat.prompt_and_answer("run ls").text;
        assert_eq!(run, "I cannot run `ls`: the editor does not let me use terminals.");
        chat.send_prompt("edit a.txt");
        let edited = chat.read_turn(selected("allow"));
        assert!(edited.text.contains("does not let me write files"), "{}", edited.text);
    }
}
