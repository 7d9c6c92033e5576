//! Conversations with a scripted agent, without a chain and without a page.

use tokio::sync::oneshot;
use web::project::Project;
use web::protocol::{Action, Activity, Attachment};
use web::server::ActionRequest;

use super::*;

struct Fixture {
    editor: Editor,
    topics: Topics,
}

type Answer = oneshot::Receiver<Result<Value, String>>;

impl Fixture {
    /// An editor whose agent has answered `initialize` with these capabilities.
    fn greeted(capabilities: &Value) -> Fixture {
        let mut fixture = Fixture::new();
        let greeting = json!({ "protocolVersion": 1, "agentCapabilities": capabilities });
        let sent = fixture.sent();
        assert_eq!(sent[0]["method"], "initialize");
        fixture.answer(&sent[0], Ok(greeting));
        fixture
    }

    fn new() -> Fixture {
        let topics = Topics::default();
        let folder = std::env::temp_dir();
        let (surface, _) = Surface::new(topics.clone(), Project::new(&folder));
        let options =
            Options { components: vec!["agent".to_owned()], folder, ..Options::default() };
        let editor = Editor::new(options, topics.clone(), surface);
        Fixture { editor, topics }
    }

    /// An editor with the session `s`.
    fn open() -> Fixture {
        let mut fixture = Fixture::greeted(&json!({}));
        let new = fixture.sent().remove(0);
        fixture.answer(&new, Ok(json!({ "sessionId": "s" })));
        fixture
    }

    /// What the editor has sent since the last call.
    fn sent(&mut self) -> Vec<Value> {
        self.editor.outgoing.take()
    }

    fn answer(&mut self, request: &Value, outcome: Result<Value, Value>) {
        let id = request["id"].as_u64().expect("an id");
        self.editor.on_message(Incoming::Answer { id, outcome });
    }

    fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s", "update": update });
        let method = "session/update".to_owned();
        self.editor.on_message(Incoming::Notification { method, params });
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) {
        let (id, method) = (id.into(), method.to_owned());
        self.editor.on_message(Incoming::Request { id, method, params });
    }

    fn act(&mut self, action: Action) -> Answer {
        let (answer, result) = oneshot::channel();
        self.editor.on_action(ActionRequest { action, answer });
        result
    }

    fn prompt(&mut self, text: &str) -> Answer {
        let (session, text) = ("s".to_owned(), text.to_owned());
        self.act(Action::Prompt { session, text, attachments: Vec::new() })
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        self.topics.get("session/s", id)
    }

    fn activity(&self) -> Option<Activity> {
        match self.entry("turn") {
            Some(Entry::Turn { state, .. }) => Some(state),
            _ => None,
        }
    }

    /// The id of the only open question.
    fn question(&self) -> String {
        let found: Vec<&String> = self.editor.questions.keys().collect();
        assert_eq!(found.len(), 1, "one question");
        found[0].clone()
    }
}

fn text(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn result(mut answer: Answer) -> Result<Value, String> {
    answer.try_recv().expect("it was answered")
}

#[test]
fn a_prompt_waits_for_the_turn_and_can_be_taken_back() {
    let mut fixture = Fixture::open();
    assert_eq!(result(fixture.prompt("one")), Ok(Value::Null));
    assert_eq!(fixture.activity(), Some(Activity::Running));
    let prompt = fixture.sent().remove(0);
    assert_eq!(prompt["params"]["prompt"][0]["text"], "one");
    result(fixture.prompt("two")).expect("queued");
    result(fixture.prompt("three")).expect("queued");
    assert!(fixture.sent().is_empty());
    let queued: Vec<String> =
        fixture.editor.sessions["s"].queue.iter().map(|it| it.entry.clone()).collect();
    let unqueue = Action::Unqueue { session: "s".to_owned(), entry: queued[0].clone() };
    let unqueued = json!({ "text": "two", "attachments": [] });
    assert_eq!(result(fixture.act(unqueue.clone())), Ok(unqueued));
    assert!(result(fixture.act(unqueue)).is_err(), "only once");
    fixture.answer(&prompt, Ok(json!({ "stopReason": "end_turn" })));
    assert_eq!(fixture.sent()[0]["params"]["prompt"][0]["text"], "three");
    assert!(matches!(fixture.entry(&queued[1]), Some(Entry::User { queued: false, .. })));
}

#[test]
fn texts_grow_and_end_with_what_follows() {
    let mut fixture = Fixture::open();
    result(fixture.prompt("hi")).expect("sent");
    let prompt = fixture.sent().remove(0);
    for update in [
        text("agent_thought_chunk", "th"),
        text("agent_thought_chunk", "ought"),
        text("agent_message_chunk", "Hel"),
        text("agent_message_chunk", "lo"),
        json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read", "kind": "read" }),
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" }),
        text("agent_message_chunk", "Bye"),
        // Some agents repeat the prompt.
        text("user_message_chunk", "hi"),
    ] {
        fixture.update(update);
    }
    fixture.answer(&prompt, Ok(json!({ "stopReason": "end_turn" })));
    let entries: Vec<Entry> = fixture
        .topics
        .change("session/s", |topic| topic.entries().map(|it| it.1.clone()).collect());
    let texts: Vec<String> = entries
        .iter()
        .filter_map(|it| match it {
            Entry::User { text, .. } => Some(format!("user {text}")),
            Entry::Agent { text, open: false, .. } => Some(format!("agent {text}")),
            Entry::Thought { text, open: false, ms: Some(_), .. } => {
                Some(format!("thought {text}"))
            }
            Entry::Tool(tool) => Some(format!("tool {} {}", tool.title, tool.status)),
            _ => None,
        })
        .collect();
    assert_eq!(
        texts,
        ["user hi", "thought thought", "agent Hello", "tool Read completed", "agent Bye"]
    );
}

#[test]
fn a_permission_is_answered_once_with_a_choice_that_was_offered() {
    let mut fixture = Fixture::open();
    result(fixture.prompt("hi")).expect("sent");
    let prompt = fixture.sent().remove(0);
    fixture.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run",
        "rawInput": { "command": "make" } }));
    let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
    let params = json!({ "sessionId": "s", "toolCall": { "toolCallId": "t" }, "options": options });
    fixture.ask(7, "session/request_permission", params.clone());
    let question = fixture.question();
    let Some(Entry::Question(shown)) = fixture.entry(&question) else { panic!("a question") };
    assert_eq!((shown.title.as_str(), shown.command.as_deref()), ("Run", Some("make")));
    let choose = |choice: &str| Action::Answer {
        session: "s".to_owned(),
        entry: question.clone(),
        choice: choice.to_owned(),
    };
    assert!(result(fixture.act(choose("always"))).is_err(), "not offered");
    assert!(fixture.sent().is_empty());
    assert_eq!(result(fixture.act(choose("y"))), Ok(Value::Null));
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "y" } });
    assert_eq!(fixture.sent()[0]["result"], outcome);
    assert!(result(fixture.act(choose("y"))).is_err(), "only once");
    // A turn that is cancelled cancels its questions, and those that come later.
    fixture.ask(8, "session/request_permission", params.clone());
    result(fixture.act(Action::Cancel { session: "s".to_owned() })).expect("cancelled");
    let sent = fixture.sent();
    assert_eq!(sent[0]["method"], "session/cancel");
    assert_eq!(sent[1]["result"]["outcome"]["outcome"], "cancelled");
    fixture.ask(9, "session/request_permission", params);
    assert_eq!(fixture.sent()[0]["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(fixture.activity(), Some(Activity::Cancelling));
    fixture.answer(&prompt, Ok(json!({ "stopReason": "cancelled" })));
    assert_eq!(fixture.activity(), Some(Activity::Idle));
}

#[test]
fn a_prompt_that_failed_is_sent_again_with_its_attachments() {
    let mut fixture = Fixture::open();
    let attachments = vec![Attachment::Text { name: "a.txt".into(), text: "the text".into() }];
    let (session, text) = ("s".to_owned(), "look".to_owned());
    let prompt = Action::Prompt { session, text, attachments: attachments.clone() };
    result(fixture.act(prompt.clone())).expect("sent");
    let first = fixture.sent().remove(0);
    result(fixture.act(prompt)).expect("queued");
    let entry = fixture.editor.sessions["s"].queue[0].entry.clone();
    let unqueued = result(fixture.act(Action::Unqueue { session: "s".to_owned(), entry }));
    assert_eq!(unqueued, Ok(json!({ "text": "look", "attachments": attachments })));
    fixture.answer(&first, Err(json!({ "code": -32603, "message": "no network" })));
    let failed = fixture.topics.change("session/s", |topic| {
        let mut all = topic.entries().filter(|it| matches!(it.1, Entry::Error { .. }));
        all.next().map(|(id, entry)| (id.to_owned(), entry.clone()))
    });
    let Some((entry, Entry::Error { attachments: names, .. })) = failed else { panic!("an error") };
    assert_eq!(names, ["a.txt"]);
    let again = |entry: &str| Action::TryAgain { session: "s".to_owned(), entry: entry.to_owned() };
    assert!(result(fixture.act(again("none"))).is_err());
    result(fixture.act(again(&entry))).expect("sent again");
    assert_eq!(fixture.sent()[0]["params"], first["params"]);
}

#[test]
fn each_turn_has_a_plan_of_its_own() {
    let mut fixture = Fixture::open();
    for turn in 1..=2 {
        result(fixture.prompt("go")).expect("sent");
        let prompt = fixture.sent().remove(0);
        let content = format!("step of turn {turn}");
        fixture.update(json!({ "sessionUpdate": "plan", "entries": [{ "content": content }] }));
        fixture.answer(&prompt, Ok(json!({ "stopReason": "end_turn" })));
    }
    for turn in 1..=2 {
        let Some(Entry::Plan { steps }) = fixture.entry(&format!("plan:{turn}")) else {
            panic!("the plan of turn {turn}");
        };
        assert_eq!(steps[0].text, format!("step of turn {turn}"));
    }
}

#[test]
fn a_command_outside_of_the_folder_needs_a_permission_and_is_shown_as_it_runs() {
    let mut fixture = Fixture::open();
    let params = json!({ "sessionId": "s", "command": "touch", "args": ["a b"], "cwd": "/" });
    fixture.ask(1, "terminal/create", params);
    let entry = fixture.question();
    let Some(Entry::Question(shown)) = fixture.entry(&entry) else { panic!("a question") };
    let command = (shown.command.as_deref(), shown.folder.as_deref());
    assert_eq!(command, (Some("touch 'a b'"), Some("/")));
    assert!(fixture.sent().is_empty());
    let (session, choice) = ("s".to_owned(), "reject_once".to_owned());
    result(fixture.act(Action::Answer { session, entry, choice })).expect("answered");
    assert!(fixture.sent()[0]["error"].to_string().contains("permission denied"));
}

#[cfg(unix)]
#[test]
fn a_closed_session_ends_its_commands_and_gets_no_new_ones() {
    let mut fixture = Fixture::open();
    let params = |session: &str| json!({ "sessionId": session, "command": "exec sleep 1000" });
    fixture.ask(1, "terminal/create", params("s"));
    fixture.ask(2, "terminal/create", params("other"));
    assert_eq!(fixture.sent()[1]["result"]["terminalId"], "terminal-2");
    assert!(matches!(
        fixture.entry("terminal:terminal-1"),
        Some(Entry::Terminal { exit: None, .. })
    ));
    result(fixture.act(Action::CloseSession { session: "s".to_owned() })).expect("closed");
    let is_open = |fixture: &Fixture, id: &str| fixture.editor.workspace.terminals().is_open(id);
    assert!(!is_open(&fixture, "terminal-1") && is_open(&fixture, "terminal-2"));
    fixture.ask(3, "terminal/create", params("s"));
    assert!(fixture.sent()[0]["error"].to_string().contains("the session was closed"));
    fixture.editor.on_agent_end();
    assert!(!is_open(&fixture, "terminal-2"));
    let (session, terminal) = ("s".to_owned(), "terminal-1".to_owned());
    let kill = fixture.act(Action::KillTerminal { session, terminal });
    assert_eq!(result(kill), Err("the command has ended already".to_owned()));
}

#[test]
fn a_request_whose_id_is_null_gets_no_result_of_a_page() {
    let mut fixture = Fixture::open();
    fixture.editor.running.push((Value::Null, oneshot::channel().0));
    fixture.editor.on_task((None, Ok(json!("of a page"))));
    assert!(fixture.sent().is_empty());
    assert_eq!(fixture.editor.running.len(), 1);
}

#[test]
fn when_the_chain_has_ended_a_session_is_closed_at_once() {
    let mut fixture = Fixture::greeted(&json!({ "sessionCapabilities": { "close": {} } }));
    let new = fixture.sent().remove(0);
    fixture.answer(&new, Ok(json!({ "sessionId": "s" })));
    fixture.editor.on_end(None);
    let close = fixture.act(Action::CloseSession { session: "s".to_owned() });
    assert_eq!(result(close), Ok(Value::Null));
}

#[test]
fn a_file_outside_of_the_folder_needs_a_permission() {
    let mut fixture = Fixture::open();
    result(fixture.prompt("hi")).expect("sent");
    fixture.sent();
    let params = json!({ "sessionId": "s", "path": "/etc/hostname" });
    fixture.ask(1, "fs/read_text_file", params);
    let question = fixture.question();
    assert!(fixture.sent().is_empty());
    let reject = Action::Answer {
        session: "s".to_owned(),
        entry: question,
        choice: "reject_once".to_owned(),
    };
    result(fixture.act(reject)).expect("rejected");
    assert!(fixture.sent()[0]["error"].to_string().contains("permission denied"));
    fixture.ask(2, "unknown/method", json!({}));
    assert_eq!(fixture.sent()[0]["error"]["code"], -32601);
}

#[test]
fn an_error_keeps_the_prompt_and_a_login_is_asked_for() {
    let mut fixture = Fixture::open();
    result(fixture.prompt("hi")).expect("sent");
    let prompt = fixture.sent().remove(0);
    fixture.answer(&prompt, Err(json!({ "code": -32000, "message": "Authentication required" })));
    let error = fixture.topics.change("session/s", |topic| {
        topic.entries().map(|it| it.1.clone()).find(|it| matches!(it, Entry::Error { .. }))
    });
    assert!(matches!(error, Some(Entry::Error { prompt: Some(prompt), .. }) if prompt == "hi"));
    assert_eq!(fixture.editor.chain.state, "login");
    let login = fixture.act(Action::LogIn { login: "key".to_owned() });
    let sent = fixture.sent().remove(0);
    assert_eq!(
        (&sent["method"], &sent["params"]["methodId"]),
        (&json!("authenticate"), &json!("key"))
    );
    fixture.answer(&sent, Ok(json!({})));
    assert_eq!((result(login), fixture.editor.chain.state.as_str()), (Ok(Value::Null), "running"));
}

#[test]
fn sessions_are_listed_loaded_and_closed() {
    let session = json!({ "list": {}, "close": {} });
    let mut fixture =
        Fixture::greeted(&json!({ "loadSession": true, "sessionCapabilities": session }));
    let sent = fixture.sent();
    fixture.answer(&sent[0], Ok(json!({ "sessionId": "s" })));
    assert_eq!(sent[1]["method"], "session/list");
    let listed = json!([{ "sessionId": "old", "title": "Earlier", "updatedAt": "1970-01-01T00:00:01Z" }, {}]);
    fixture.answer(&sent[1], Ok(json!({ "sessions": listed })));
    let Some(Entry::Session(shown)) = fixture.topics.get(SESSIONS, "old") else { panic!("listed") };
    assert_eq!(
        (shown.title.as_str(), shown.state.as_str(), shown.time),
        ("Earlier", "saved", 1000)
    );
    let open = fixture.act(Action::OpenSession { session: "old".to_owned() });
    let load = fixture.sent().remove(0);
    assert_eq!(
        (&load["method"], &load["params"]["sessionId"]),
        (&json!("session/load"), &json!("old"))
    );
    let params = json!({ "sessionId": "old", "update": text("user_message_chunk", "before") });
    let method = "session/update".to_owned();
    fixture.editor.on_message(Incoming::Notification { method, params });
    fixture.answer(&load, Ok(json!({})));
    assert_eq!(result(open), Ok("old".into()));
    let entries = fixture.topics.change("session/old", |topic| topic.len());
    assert_eq!(entries, 3, "the turn, the settings and the message");
    let close = fixture.act(Action::CloseSession { session: "old".to_owned() });
    let sent = fixture.sent();
    assert_eq!(
        (&sent[0]["method"], &sent[1]["method"]),
        (&json!("session/close"), &json!("session/list"))
    );
    fixture.answer(&sent[0], Ok(json!({})));
    assert_eq!(result(close), Ok(Value::Null));
    assert_eq!(fixture.topics.get(SESSIONS, "old"), None);
}

#[test]
fn sessions_of_other_folders_do_not_use_up_the_list() {
    let mut fixture = Fixture::greeted(&json!({ "sessionCapabilities": { "list": {} } }));
    let mut asked = fixture.sent().remove(1);
    let here = std::env::temp_dir().display().to_string();
    for page in 0..4 {
        let cwd = if page < 3 { "/another/folder" } else { &here };
        let listed = (0..100).map(|it| json!({ "sessionId": format!("{page}-{it}"), "cwd": cwd }));
        let sessions: Vec<Value> = listed.collect();
        fixture.answer(&asked, Ok(json!({ "sessions": sessions, "nextCursor": page.to_string() })));
        let mut sent = fixture.sent();
        assert_eq!(sent.len(), 1, "page {page}");
        asked = sent.remove(0);
        assert_eq!(asked["params"]["cursor"], page.to_string());
    }
    fixture.answer(&asked, Ok(json!({ "sessions": [] })));
    let listed = fixture.topics.change(SESSIONS, |topic| topic.len());
    assert_eq!(listed, 100);
    // An agent that never ends its list is not asked for ever.
    let again = fixture.act(Action::ListSessions);
    let mut pages = 0;
    while let Some(asked) = fixture.sent().pop() {
        pages += 1;
        let other = json!([{ "sessionId": "x", "cwd": "/another/folder" }]);
        fixture.answer(&asked, Ok(json!({ "sessions": other, "nextCursor": "more" })));
        assert!(pages <= 100, "it is asked for ever");
    }
    assert_eq!(pages, 50);
    drop(again);
}

#[test]
fn a_late_answer_to_a_closed_session_does_not_end_the_turn_of_the_one_that_is_opened_again() {
    let mut fixture = Fixture::greeted(&json!({ "loadSession": true }));
    let new = fixture.sent().remove(0);
    fixture.answer(&new, Ok(json!({ "sessionId": "s" })));
    result(fixture.prompt("one")).expect("sent");
    let one = fixture.sent().remove(0);
    result(fixture.act(Action::CloseSession { session: "s".to_owned() })).expect("closed");
    fixture.sent();
    let _open = fixture.act(Action::OpenSession { session: "s".to_owned() });
    let load = fixture.sent().remove(0);
    fixture.answer(&load, Ok(json!({})));
    result(fixture.prompt("two")).expect("sent");
    let two = fixture.sent().remove(0);
    fixture.answer(&one, Ok(json!({ "stopReason": "cancelled" })));
    assert_eq!(fixture.activity(), Some(Activity::Running));
    fixture.answer(&two, Ok(json!({ "stopReason": "end_turn" })));
    assert_eq!(fixture.activity(), Some(Activity::Idle));
}

#[test]
fn a_session_that_cannot_be_opened_keeps_what_is_shown() {
    let mut fixture = Fixture::greeted(&json!({ "loadSession": true }));
    let new = fixture.sent().remove(0);
    fixture.answer(&new, Ok(json!({ "sessionId": "s" })));
    let open = |fixture: &mut Fixture, id: &str| {
        fixture.act(Action::OpenSession { session: id.to_owned() })
    };
    for number in 1..50 {
        open(&mut fixture, &format!("old{number}"));
        let load = fixture.sent().remove(0);
        fixture.answer(&load, Ok(json!({})));
    }
    fixture.topics.put("session/other", "m", Entry::Note { text: "kept".to_owned() });
    let refused = result(open(&mut fixture, "other"));
    assert!(refused.expect_err("refused").contains("too many sessions"));
    assert!(fixture.topics.get("session/other", "m").is_some());
    // One that has failed is not another one.
    fixture.editor.fail_session("old1");
    let _again = open(&mut fixture, "old1");
    assert_eq!(fixture.sent()[0]["params"]["sessionId"], "old1");
}

#[test]
fn a_prompt_that_is_written_while_a_session_loads_is_sent_afterwards() {
    let mut fixture = Fixture::greeted(&json!({ "loadSession": true }));
    fixture.sent();
    let _open = fixture.act(Action::OpenSession { session: "s".to_owned() });
    let load = fixture.sent().remove(0);
    result(fixture.prompt("early")).expect("queued");
    assert!(fixture.sent().is_empty());
    fixture.answer(&load, Ok(json!({})));
    let sent = fixture.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0]["params"]["prompt"][0]["text"], "early");
}

#[test]
fn a_session_that_is_asked_for_too_early_is_the_first_one() {
    let mut fixture = Fixture::new();
    let early = fixture.act(Action::NewSession);
    let greeting = fixture.sent().remove(0);
    fixture.answer(&greeting, Ok(json!({ "protocolVersion": 1 })));
    let later = fixture.act(Action::NewSession);
    let sent = fixture.sent();
    assert_eq!(sent.len(), 1, "one session is enough");
    // An agent may speak before the session has an id.
    fixture.update(text("agent_message_chunk", "early"));
    fixture.answer(&sent[0], Ok(json!({ "sessionId": "s" })));
    assert_eq!((result(early), result(later)), (Ok("s".into()), Ok("s".into())));
    let has_text = fixture.topics.change("session/s", |topic| {
        topic.entries().any(|it| matches!(it.1, Entry::Agent { text, .. } if text == "early"))
    });
    assert!(has_text);
}

#[test]
fn when_the_chain_has_ended_everything_is_answered() {
    let mut fixture = Fixture::open();
    let set = fixture.act(Action::NewSession);
    result(fixture.prompt("hi")).expect("sent");
    fixture.editor.on_end(Some("the agent has crashed".to_owned()));
    assert!(result(set).is_err());
    assert_eq!(fixture.activity(), Some(Activity::Failed));
    assert!(result(fixture.prompt("again")).is_err());
    assert!(result(fixture.act(Action::NewSession)).is_err());
    let Some(Entry::Chain(chain)) = fixture.topics.get(CHAIN, "chain") else { panic!("a chain") };
    assert_eq!(chain.error.as_deref(), Some("the agent has crashed"));
}
