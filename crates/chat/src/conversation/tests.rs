//! Tests of the conversation, without an agent.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::view::{Question, View};
use crate::wire::Row;

/// A view that writes down what it is told.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().expect("no panic").push(line.into());
    }

    /// What was shown since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }

    fn shows(&self, wanted: &str) -> bool {
        self.take().iter().any(|line| line.contains(wanted))
    }
}

impl View for Record {
    fn activity(&mut self, activity: Activity) {
        self.add(match activity {
            Activity::Starting { .. } => "starting",
            Activity::Idle => "idle",
            Activity::Working { .. } => "working",
            Activity::Cancelling { .. } => "cancelling",
        });
    }
    fn awaited(&mut self, _: Option<&str>) {}
    fn note(&mut self, text: &str) {
        self.add(format!("note {text}"));
    }
    fn error(&mut self, text: &str) {
        self.add(format!("error {text}"));
    }
    fn prompt(&mut self, text: &str) {
        self.add(format!("prompt {text}"));
    }
    fn queued(&mut self, prompts: &[String]) {
        self.add(format!("queued {}", prompts.join("|")));
    }
    fn update(&mut self, update: &Value, replayed: bool) {
        self.add(format!("update {} {replayed}", update["sessionUpdate"]));
    }
    fn question(&mut self, question: Option<&Question>) {
        self.add(format!("question {}", question.map_or("none", |it| &it.title)));
    }
    fn answered(&mut self, question: &Question, answer: &str) {
        self.add(format!("answered {}: {answer}", question.title));
    }
    fn turn_ended(&mut self, stop_reason: Option<&str>) {
        self.add(format!("turn ended {}", stop_reason.unwrap_or("none")));
    }
    fn commands(&mut self, commands: &[SlashCommand]) {
        let names: Vec<&str> = commands.iter().map(|it| it.name.as_str()).collect();
        self.add(format!("commands {}", names.join(" ")));
    }
    fn facts(&mut self, facts: &[String]) {
        self.add(format!("facts {}", facts.join(" · ")));
    }
    fn unfold(&mut self, number: Option<usize>) {
        self.add(format!("unfold {number:?}"));
    }
    fn wire(&mut self, _: &Row) {}
    fn finish(&mut self) {}
    fn write_error(&mut self) -> Option<io::Error> {
        None
    }
}

/// A conversation with an agent that the test plays.
struct Chat {
    conversation: Conversation,
    view: Record,
    /// Messages to the agent that the test has not looked at.
    sent: VecDeque<Value>,
}

impl Chat {
    fn new(options: Options) -> Chat {
        let view = Record::default();
        let conversation = Conversation::new(options, SharedView::new(view.clone()));
        Chat { conversation, view, sent: VecDeque::new() }
    }

    /// An interactive chat. The agent has answered `initialize` with these members.
    fn start(greeting: Value) -> Chat {
        let chain = vec!["proxy".to_owned(), "agent".to_owned()];
        let mut chat = Chat::new(Options {
            chain,
            agent_command: "the-agent --acp".to_owned(),
            interactive: true,
            folder: std::env::temp_dir().join("conductor-chat-not-there"),
            next_step: "Now with a proxy.".to_owned(),
            resume_command: "conductor try --resume ID".to_owned(),
            ..Options::default()
        });
        let mut answer = json!({ "protocolVersion": 1 });
        greeting.as_object().into_iter().flatten().for_each(|it| answer[it.0] = it.1.clone());
        chat.answer("initialize", Ok(answer));
        chat
    }

    /// An interactive chat with an open session.
    fn open(greeting: Value) -> Chat {
        let mut chat = Chat::start(greeting);
        chat.answer("session/new", Ok(json!({ "sessionId": "s" })));
        chat
    }

    /// The next message to the agent.
    fn next(&mut self) -> Option<Value> {
        self.sent.extend(self.conversation.outgoing.take());
        self.sent.pop_front()
    }

    /// The next message to the agent, which has this method.
    fn sent(&mut self, method: &str) -> Value {
        let message = self.next().unwrap_or_else(|| panic!("{method} is not sent"));
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Answers the next message, which has this method.
    fn answer(&mut self, method: &str, outcome: Result<Value, Value>) -> Value {
        let request = self.sent(method);
        let id = request["id"].as_u64().expect("a request");
        self.conversation.on_message(Some(Incoming::Answer { id, outcome }));
        request["params"].clone()
    }

    fn request(&mut self, id: &str, method: &str, params: Value) {
        let request = Incoming::Request { id: id.into(), method: method.into(), params };
        self.conversation.on_message(Some(request));
    }

    fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s", "update": update });
        self.conversation
            .on_message(Some(Incoming::Notification { method: "session/update".into(), params }));
    }

    fn enter(&mut self, line: &str) {
        self.conversation.on_input(UserInput::Line(line.to_owned()));
    }

    fn interrupt(&mut self) {
        self.conversation.on_input(UserInput::Interrupt);
    }

    fn end_turn(&mut self) -> Value {
        self.answer("session/prompt", Ok(json!({ "stopReason": "end_turn" })))
    }

    fn ended(&mut self) -> Option<Result<ChatEnd, String>> {
        self.conversation.take_end()
    }
}

fn permission(title: &str) -> Value {
    json!({ "sessionId": "s", "toolCall": { "toolCallId": title, "title": title }, "options": [
        { "optionId": "y", "name": "Yes", "kind": "allow_once" },
        { "optionId": "n", "name": "No", "kind": "reject_once" }] })
}

#[test]
fn the_welcome_says_who_answers_and_the_next_step_is_offered_once() {
    let mut chat =
        Chat::open(json!({ "agentInfo": { "name": "x", "title": "The X", "version": "2" } }));
    let shown = chat.view.take();
    assert_eq!(shown[0], "starting", "a sign of life from the first moment");
    let welcome = shown.iter().find(|it| it.contains("You are talking to")).expect("a welcome");
    assert!(
        welcome.contains("agent (The X 2) through proxy") && welcome.contains("/help"),
        "{welcome}"
    );
    assert_eq!(shown.last().map(String::as_str), Some("idle"));
    for offered in [true, false] {
        chat.enter("hello");
        chat.end_turn();
        assert_eq!(chat.view.shows("Now with a proxy."), offered);
    }
    chat.conversation.say_goodbye();
    assert!(!chat.view.shows("--resume"), "the agent cannot resume a session");
}

#[test]
fn lines_that_are_typed_ahead_are_sent_in_order() {
    let mut chat = Chat::open(json!({}));
    for line in ["one", "two", "/cwd", "three"] {
        chat.enter(line);
    }
    assert!(chat.view.shows("queued two|three"));
    for text in ["one", "two", "three"] {
        assert_eq!(chat.end_turn()["prompt"][0]["text"], text);
    }
    assert!(chat.next().is_none() && chat.ended().is_none());
}

#[test]
fn the_first_interrupt_cancels_the_turn_and_the_second_one_ends_the_chat() {
    let mut chat = Chat::open(json!({}));
    chat.enter("one");
    chat.enter("two");
    chat.request("p", "session/request_permission", permission("Edit"));
    chat.sent("session/prompt");
    chat.view.take();
    chat.interrupt();
    assert_eq!(chat.sent("session/cancel")["params"]["sessionId"], "s");
    let answer = chat.next().expect("an answer");
    assert_eq!(answer["result"]["outcome"], json!({ "outcome": "cancelled" }));
    let shown = chat.view.take();
    assert_eq!(shown[0], "cancelling", "acknowledged at once");
    assert!(shown.iter().any(|it| it == "note 1 queued line was discarded."), "{shown:?}");
    // A request that comes after the cancellation is answered as well.
    chat.request("q", "session/request_permission", permission("Edit"));
    assert_eq!(chat.next().expect("an answer")["result"]["outcome"]["outcome"], "cancelled");
    assert!(chat.ended().is_none());
    chat.interrupt();
    assert_eq!(chat.ended(), Some(Ok(ChatEnd::Interrupted)));
}

#[test]
fn an_interrupt_at_the_prompt_asks_before_it_ends_the_chat() {
    let mut chat = Chat::open(json!({}));
    chat.interrupt();
    assert!(chat.view.shows("again to leave") && chat.ended().is_none());
    chat.enter("/cwd");
    chat.interrupt();
    assert!(chat.ended().is_none());
    chat.interrupt();
    assert_eq!(chat.ended(), Some(Ok(ChatEnd::Interrupted)));
    let mut starting = Chat::start(json!({}));
    starting.interrupt();
    assert_eq!(starting.ended(), Some(Ok(ChatEnd::Interrupted)));
}

#[test]
fn questions_are_asked_one_after_the_other() {
    let mut chat = Chat::open(json!({}));
    chat.enter("one");
    chat.sent("session/prompt");
    for title in ["A", "B", "C"] {
        chat.request(title, "session/request_permission", permission(title));
    }
    let questions = |chat: &Chat| -> Vec<String> {
        chat.view.take().into_iter().filter(|it| it.starts_with("question")).collect()
    };
    assert_eq!(questions(&chat), ["question A"]);
    chat.conversation.on_input(UserInput::Choice(7));
    assert!(chat.next().is_none(), "only offered options are chosen");
    chat.conversation.on_input(UserInput::Choice(1));
    let answer = chat.next().expect("an answer");
    assert_eq!(
        (&answer["id"], &answer["result"]["outcome"]["optionId"]),
        (&json!("A"), &json!("n"))
    );
    assert_eq!(questions(&chat), ["question B"]);
    let params = json!({ "requestId": "C" });
    chat.conversation
        .on_message(Some(Incoming::Notification { method: "$/cancel_request".into(), params }));
    let answer = chat.next().expect("an answer");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("C"), &json!(-32800)));
    // Only a choice is an answer: a line may have been typed before the question.
    chat.enter("1");
    assert!(chat.view.shows("queued 1") && chat.next().is_none());
    chat.conversation.on_input(UserInput::Choice(0));
    assert_eq!(chat.next().expect("an answer")["result"]["outcome"]["optionId"], "y");
    assert_eq!(questions(&chat), ["question none"]);
    assert!(chat.next().is_none(), "each request is answered once");
}

/// The user has pressed a key for a question that the agent cancelled at that moment.
#[test]
fn a_choice_does_not_answer_a_question_that_has_just_replaced_another_one() {
    let mut chat = Chat::open(json!({}));
    chat.enter("one");
    chat.sent("session/prompt");
    for title in ["A", "B"] {
        chat.request(title, "session/request_permission", permission(title));
    }
    let params = json!({ "requestId": "A" });
    chat.conversation
        .on_message(Some(Incoming::Notification { method: "$/cancel_request".into(), params }));
    assert_eq!(chat.next().expect("an answer")["id"], "A");
    let replaced = chat.conversation.question_replaced.expect("B has replaced A");
    // Not long ago, however slow the test is.
    chat.conversation.question_replaced = Some(replaced + Duration::from_secs(3600));
    chat.conversation.on_input(UserInput::Choice(0));
    assert!(chat.next().is_none());
    chat.conversation.question_replaced = replaced.checked_sub(Duration::from_secs(1));
    chat.conversation.on_input(UserInput::Choice(0));
    assert_eq!(chat.next().expect("an answer")["id"], "B");
}

#[tokio::test]
async fn a_file_outside_of_the_folder_is_read_if_the_user_agrees() {
    let mut chat = Chat::open(json!({}));
    let path = std::env::current_exe().expect("a path");
    let params = json!({ "sessionId": "s", "path": path.with_file_name("not-there") });
    for (choice, code) in [(1, -32603), (0, -32002)] {
        chat.request("f", "fs/read_text_file", params.clone());
        assert!(chat.view.shows("question Read "));
        chat.conversation.on_input(UserInput::Choice(choice));
        for task in std::mem::take(&mut chat.conversation.tasks) {
            chat.conversation.on_task(task.await);
        }
        assert_eq!(chat.next().expect("an answer")["error"]["code"], code);
    }
}

#[test]
fn a_missing_login_is_explained_and_the_session_opens_after_it() {
    let methods = json!([{ "id": "web", "name": "Browser" },
        { "id": "cli", "name": "Program", "type": "terminal", "args": ["login"] },
        { "id": "env", "name": "Key", "type": "env_var", "vars": [{ "name": "THE_KEY" }] }]);
    let mut chat = Chat::start(json!({ "authMethods": methods }));
    let required = json!({ "code": -32000, "message": "Authentication required" });
    chat.answer("session/new", Err(required.clone()));
    let shown = chat.view.take().join("\n");
    assert!(shown.contains("Authentication required") && shown.contains("  1 Browser"), "{shown}");
    assert!(shown.ends_with("idle") && chat.ended().is_none(), "{shown}");
    chat.enter("/login 2");
    let login = chat.conversation.terminal_login.take().expect("a command");
    assert_eq!(login.command, "the-agent --acp login");
    chat.conversation.on_terminal_login(&login, None);
    assert!(chat.view.shows("the-agent --acp login"));
    chat.conversation.on_terminal_login(&login, Some(Err("exit status: 1".to_owned())));
    assert!(chat.view.shows("error The login failed: exit status: 1."));
    chat.enter("/login key");
    assert!(chat.view.shows("THE_KEY"));
    // A prompt tries to open the session.
    chat.enter("hello");
    chat.answer("session/new", Err(required));
    assert!(chat.view.shows("1 queued line was discarded"));
    chat.enter("/login browser");
    assert_eq!(chat.answer("authenticate", Ok(json!({})))["methodId"], "web");
    chat.answer("session/new", Ok(json!({ "sessionId": "s" })));
    assert!(chat.view.shows("You are talking to"));
    chat.enter("hello");
    chat.end_turn();
}

#[test]
fn a_login_can_be_cancelled() {
    let methods = json!([{ "id": "web", "name": "Browser" }]);
    let mut chat = Chat::open(json!({ "authMethods": methods }));
    chat.enter("/login");
    let id = chat.sent("authenticate")["id"].as_u64().expect("an id");
    assert_eq!(chat.view.take().last().map(String::as_str), Some("starting"));
    chat.interrupt();
    assert_eq!(chat.sent("$/cancel_request")["params"]["requestId"], id);
    assert!(chat.ended().is_none());
    let outcome = Err(json!({ "code": -32800, "message": "cancelled" }));
    chat.conversation.on_message(Some(Incoming::Answer { id, outcome }));
    assert!(!chat.view.shows("error"));
    chat.enter("hello");
    chat.end_turn();
}

#[test]
fn modes_and_commands_of_the_agent_are_facts_and_commands() {
    let mut chat = Chat::start(json!({}));
    let modes = json!({ "currentModeId": "a", "availableModes": [{ "id": "a", "name": "Ask" }, { "id": "b", "name": "Build" }] });
    chat.answer("session/new", Ok(json!({ "sessionId": "s", "modes": modes })));
    assert!(chat.view.shows("facts mode Ask"));
    chat.update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": "b" }));
    assert!(chat.view.shows("facts mode Build"));
    chat.update(json!({ "sessionUpdate": "usage_update", "used": 50, "size": 200 }));
    assert!(chat.view.shows("facts mode Build · context 25 %"));
    let commands = json!([{ "name": "web", "description": "Search" }]);
    chat.update(
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }),
    );
    let shown = chat.view.take().join("\n");
    assert!(shown.contains("commands help new mode cwd unfold wire exit web"), "{shown}");
    // A mode can be changed while the agent is working.
    chat.enter("hello");
    chat.enter("/mode ask");
    chat.sent("session/prompt");
    assert_eq!(chat.sent("session/set_mode")["params"]["modeId"], "a");
}

#[test]
fn in_version_2_the_turn_ends_when_the_agent_is_idle() {
    let mut chat = Chat::open(
        json!({ "protocolVersion": 2, "info": { "name": "x" }, "capabilities": { "session": {} } }),
    );
    chat.enter("hello");
    chat.update(json!({ "sessionUpdate": "state_update", "state": "idle" }));
    chat.answer("session/prompt", Ok(json!({ "messageId": "m" })));
    assert!(!chat.view.shows("turn ended"));
    chat.update(json!({ "sessionUpdate": "state_update", "state": "running" }));
    chat.update(
        json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal" }),
    );
    assert!(chat.view.shows("turn ended refusal"));
    chat.conversation.say_goodbye();
    assert!(chat.view.shows("conductor try --resume s"));
    chat.enter("/load old");
    let params = chat.answer("session/resume", Ok(json!({})));
    assert_eq!(
        (&params["sessionId"], &params["replayFrom"]["type"]),
        (&json!("old"), &json!("start"))
    );
    // A command that needs permission, with its text.
    chat.enter("hello");
    let subject = json!({ "type": "command", "command": "rm -r x", "cwd": "/" });
    let mut params = permission("t");
    (params["title"], params["subject"]) = ("Run a command".into(), subject);
    chat.request("p", "session/request_permission", params);
    assert!(chat.view.shows("question Run a command"));
    let question = &chat.conversation.questions[0];
    assert!(format!("{question:?}").contains("rm -r x"));
}

/// Several agents answer with the number that was requested, but speak version 1.
#[test]
fn an_agent_that_only_claims_version_2_is_an_agent_of_version_1() {
    let mut chat =
        Chat::open(json!({ "protocolVersion": 2, "agentCapabilities": { "loadSession": true } }));
    chat.enter("/load old");
    chat.answer("session/load", Ok(json!({})));
    chat.enter("hello");
    chat.end_turn();
    assert!(chat.view.shows("turn ended end_turn"));
}

#[test]
fn a_chain_that_ends_during_a_turn_ends_the_chat() {
    let mut chat = Chat::open(json!({}));
    chat.conversation.on_message(None);
    assert!(matches!(chat.ended(), Some(Err(_))));
    let mut chat = Chat::open(json!({}));
    chat.enter("hello");
    chat.answer("session/prompt", Err(json!({ "code": -32603, "message": "crashed" })));
    assert!(chat.view.shows("crashed"));
    // The agent may have been restarted.
    chat.enter("again");
    chat.end_turn();
    chat.enter("hello");
    chat.answer("session/prompt", Err(json!({ "code": -32603, "message": "crashed" })));
    chat.conversation.on_message(None);
    assert_eq!(chat.ended(), Some(Ok(ChatEnd::ChainEnded)));
}

#[test]
fn all_pages_of_the_sessions_are_listed_and_a_slow_load_can_be_cancelled() {
    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "list": {} } });
    let mut chat = Chat::open(json!({ "agentCapabilities": capabilities }));
    chat.enter("/load");
    let page = |id: &str, cursor: Value| json!({ "sessions": [{ "sessionId": id }], "nextCursor": cursor });
    chat.answer("session/list", Ok(page("a", json!("c"))));
    assert_eq!(chat.answer("session/list", Ok(page("b", Value::Null)))["cursor"], "c");
    assert!(chat.view.shows("  1  (no title)  a\n  2  (no title)  b\n"));
    chat.enter("/load 2");
    let id = chat.sent("session/load")["id"].as_u64().expect("an id");
    chat.interrupt();
    assert_eq!(chat.sent("$/cancel_request")["params"]["requestId"], id);
    assert!(chat.ended().is_none());
    chat.conversation.on_message(Some(Incoming::Answer { id, outcome: Ok(json!({})) }));
    chat.enter("hello");
    assert_eq!(chat.end_turn()["sessionId"], "s");
}

#[test]
fn the_messages_between_the_components_are_shown_on_request() {
    let mut chat = Chat::open(json!({}));
    let wire = chat.conversation.options.wire.clone();
    let is_shown = || wire.load(std::sync::atomic::Ordering::Relaxed);
    for (line, shown) in
        [("/wire", true), ("/wire on", true), ("/wire off", false), ("/wire x", false)]
    {
        chat.enter(line);
        assert_eq!(is_shown(), shown, "{line}");
    }
}

#[test]
fn answers_that_break_the_protocol_end_the_chat_with_the_reason() {
    for answer in [json!({}), json!({ "sessionId": 5 }), Value::Null] {
        let mut chat = Chat::start(json!({}));
        chat.answer("session/new", Ok(answer));
        let why = chat.ended().expect("an end").expect_err("no session");
        assert!(why.contains("agent 'agent'") && why.contains("sessionId"), "{why}");
    }
    let mut chat = Chat::start(json!({ "protocolVersion": 99, "info": {} }));
    let why = chat.ended().expect("an end").expect_err("an unknown version");
    assert!(why.contains("version 99"), "{why}");
    assert!(chat.next().is_none(), "no session is opened");
}

#[test]
fn updates_without_a_session_are_not_shown() {
    let mut chat = Chat::start(json!({}));
    for session in [Value::Null, json!(5), json!("")] {
        let update = json!({ "sessionUpdate": "agent_message_chunk" });
        let params = json!({ "sessionId": session, "update": update });
        let method = "session/update".to_owned();
        chat.conversation.on_message(Some(Incoming::Notification { method, params }));
    }
    chat.answer("session/new", Ok(json!({ "sessionId": "s" })));
    assert!(!chat.view.shows("update"));
}

#[test]
fn lists_and_numbers_of_the_agent_are_limited() {
    let mut chat = Chat::open(json!({}));
    let command = |number: usize| json!({ "name": format!("c{number}"), "description": "" });
    let commands: Vec<Value> = (0..100_000).map(command).collect();
    chat.update(
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }),
    );
    assert_eq!(chat.conversation.agent_commands.len(), 1000);
    for (used, size) in [(1e300, 1.0), (1.0, 0.0), (-5.0, 1.0)] {
        chat.update(json!({ "sessionUpdate": "usage_update", "used": used, "size": size }));
        assert!(!chat.view.shows("context"), "{used} {size}");
    }
    chat.update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 4 }));
    assert!(chat.view.shows("context 25 %"));
    for number in 0..1001 {
        chat.request(&number.to_string(), "session/request_permission", permission("Edit"));
    }
    let answer = chat.next().expect("only the last request is answered");
    assert_eq!((&answer["id"], chat.next()), (&json!("1000"), None));
    assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn the_command_that_resumes_a_session_is_quoted_for_a_shell() {
    let mut chat = Chat::start(json!({ "agentCapabilities": { "loadSession": true } }));
    chat.answer("session/new", Ok(json!({ "sessionId": "a; b" })));
    chat.enter("hello");
    chat.end_turn();
    chat.conversation.say_goodbye();
    assert!(chat.view.shows("conductor try --resume 'a; b'"));
}

#[test]
fn an_interrupt_cancels_the_change_of_a_setting_that_is_not_answered() {
    let mut chat = Chat::start(json!({}));
    let modes = json!({ "currentModeId": "a", "availableModes": [{ "id": "a" }, { "id": "b" }] });
    chat.answer("session/new", Ok(json!({ "sessionId": "s", "modes": modes })));
    chat.enter("/mode b");
    chat.sent("session/set_mode");
    chat.enter("hello");
    assert!(chat.next().is_none(), "the prompt waits");
    chat.interrupt();
    chat.sent("$/cancel_request");
    assert!(chat.ended().is_none());
    chat.enter("hello");
    chat.sent("session/prompt");
}
