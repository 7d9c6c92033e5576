//! What the core makes of links that end, pause and go on.

use bytes::Bytes;
use engine::{
    Backoff, Command, ComponentPolicy, Core, Facts, Fallback, Input, Line, Link, Output, Outputs,
    Restart, Rules, Setup, Timeouts, Watermarks,
};
use router::{Chain, Component, ExitCause, Mode, Seat, Time};

const EDITOR: Seat = Seat::OUTER;
const AGENT: Seat = Seat(1);

/// A chain of an editor and an agent.
struct Play {
    core: Core,
    out: Outputs,
    now: Time,
}

impl Play {
    fn new(timeouts: Timeouts) -> Play {
        let policy = ComponentPolicy {
            restart: Restart::Always,
            fallback: Fallback::Stop,
            backoff: Backoff::default(),
            named: false,
        };
        let core = Core::new(Setup {
            chain: Chain {
                mode: Mode::Agent,
                components: vec![Component::new("agent", "agent")],
                initialize_timeout: 60_000,
                grace: 2_000,
                any_version: false,
            },
            rules: Rules { policies: vec![policy], timeouts, notify_editor: false, seed: 1 },
            bridge: None,
            nonce: String::new(),
            nested: false,
            max_line: 1_000_000,
            watermarks: Watermarks { high: 1_000, low: 100, ..Watermarks::DEFAULT },
            facts: vec![Facts::default()],
            tapped: false,
        });
        Play { core, out: Outputs::default(), now: Time(0) }
    }

    fn handle(&mut self, input: Input) -> Vec<Output> {
        self.core.handle(self.now, input, &mut self.out);
        std::mem::take(&mut self.out.list)
    }

    fn line(&mut self, seat: Seat, line: &str) -> Vec<Output> {
        let line = Line::Text(Bytes::copy_from_slice(line.as_bytes()));
        self.handle(Input::Line { link: Link::main(seat), line })
    }

    /// The peer reads everything that waits for it.
    fn read(&mut self, seat: Seat) -> (String, Vec<Output>) {
        let link = Link::main(seat);
        let (slices, count) = self.out.queue(link).expect("a queue").slices();
        let text = String::from_utf8(slices[..count].concat()).expect("UTF-8");
        let outputs = self.handle(Input::Written { link, count: text.len() });
        (text, outputs)
    }

    /// The editor and the agent agree on this version.
    fn greet(&mut self, version: u8, capabilities: &str) {
        self.line(
            EDITOR,
            &format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":{version}}}}}"#
            ),
        );
        self.read(AGENT);
        self.line(
            AGENT,
            &format!(
                r#"{{"jsonrpc":"2.0","id":"c:1","result":{{"protocolVersion":{version}{capabilities}}}}}"#
            ),
        );
        self.read(EDITOR);
    }
}

/// The editor reads slowly, so the agent is paused. It writes the rest of its turn and exits. The rest is read
/// when the editor goes on, however long ago the exit was.
#[test]
fn a_component_that_ended_while_it_was_paused_is_read_to_its_end() {
    let mut play = Play::new(Timeouts::default());
    play.greet(1, r#","agentCapabilities":{}"#);
    play.line(EDITOR, r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{}}"#);
    play.read(AGENT);
    let long = "x".repeat(2_000);
    let update =
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"t":"{long}"}}}}"#);
    let link = Link::main(AGENT);
    assert_eq!(play.line(AGENT, &update), [Output::Read { link, read: false }]);
    play.handle(Input::Readable { link, readable: true });
    play.handle(Input::Exited { seat: AGENT, life: 0, how: ExitCause::Status(0) });
    play.now = Time(5_000);
    let (text, outputs) = play.read(EDITOR);
    assert_eq!(
        (text.trim_end(), &outputs[..]),
        (&update[..], &[Output::Read { link, read: true }][..])
    );
    assert_eq!(play.handle(Input::Tick), []);
    assert_eq!(play.line(AGENT, r#"{"jsonrpc":"2.0","id":"c:2","result":{}}"#), []);
    let answered = play.read(EDITOR).0;
    assert_eq!(answered.trim_end(), r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    play.handle(Input::Readable { link, readable: false });
    let ended = play.handle(Input::OutputClosed { link, rest: None });
    assert!(ended.contains(&Output::Discard(AGENT)), "{ended:?}");
}

/// ACP version 2: a prompt that is answered in place of the component, after its cancellation, does not become a
/// turn when the component answers late.
#[test]
fn a_late_answer_to_a_cancelled_prompt_begins_no_turn() {
    let limit = Some(1_000);
    let mut play = Play::new(Timeouts { answer: None, prompt: limit, cancel: limit });
    play.greet(2, r#","capabilities":{}"#);
    let prompt = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}"#;
    play.line(EDITOR, prompt);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#;
    play.line(EDITOR, cancel);
    play.read(AGENT);
    // A sign of life, so that the time for the prompt is not over before that for the cancellation.
    play.now = Time(900);
    play.line(AGENT, r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#);
    play.now = play.core.deadline().expect("the cancellation has a limit");
    play.handle(Input::Tick);
    assert!(play.read(EDITOR).0.contains("-32800"));
    play.line(AGENT, r#"{"jsonrpc":"2.0","id":"c:2","result":{}}"#);
    assert_eq!(play.core.deadline(), None, "nothing is waited for");
    assert_eq!(play.core.stages().active_turns(AGENT), 0);
}

/// A component cannot answer a request that is held. Its time begins when the request is released. Meanwhile
/// the sender is held back as if the component did not read.
#[test]
fn a_component_is_not_overdue_while_its_messages_are_held() {
    let mut play = Play::new(Timeouts { answer: Some(1_000), prompt: None, cancel: None });
    play.greet(1, r#","agentCapabilities":{}"#);
    assert_eq!(play.handle(Input::Command(Command::Hold(AGENT))), []);
    let long = "x".repeat(2_000);
    let ask = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"m","params":{{"t":"{long}"}}}}"#);
    let link = Link::main(EDITOR);
    assert_eq!(play.line(EDITOR, &ask), [Output::Read { link, read: false }]);
    assert_eq!((play.core.deadline(), play.read(AGENT).0.as_str()), (None, ""));
    assert_eq!(play.core.queued(AGENT, &play.out), 0);
    let (count, bytes) = play.core.stages().held(AGENT);
    assert!(count == 1 && (2_000..3_000).contains(&bytes), "{count} messages, {bytes} bytes");
    play.now = Time(5_000);
    play.handle(Input::Command(Command::Release(AGENT)));
    assert_eq!(play.core.deadline(), Some(Time(6_000)));
    let queued = play.core.queued(AGENT, &play.out);
    let (text, outputs) = play.read(AGENT);
    assert_eq!((queued, play.core.queued(AGENT, &play.out)), (text.len(), 0));
    assert!(text.contains(r#""method":"m""#), "{text}");
    assert_eq!(outputs, [Output::Read { link, read: true }]);
}

/// A queue is full when it is longer than the mark.
#[test]
fn a_peer_is_paused_when_it_has_sent_more_than_the_mark() {
    for (length, full) in [(1_000, false), (1_001, true)] {
        let mut play = Play::new(Timeouts::default());
        play.greet(1, r#","agentCapabilities":{}"#);
        let update = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"t":"{text}"}}}}"#)
        };
        let line = update(&"x".repeat(length - update("").len() - "\n".len()));
        let link = Link::main(AGENT);
        let paused = play.line(AGENT, &line).contains(&Output::Read { link, read: false });
        assert_eq!((play.core.queued(EDITOR, &play.out), paused), (length, full));
    }
}

/// The limit for a cancellation begins when the component hears of it.
#[test]
fn a_cancellation_that_is_held_does_not_count_before_it_is_released() {
    let mut play = Play::new(Timeouts { answer: None, prompt: None, cancel: Some(1_000) });
    play.greet(1, r#","agentCapabilities":{}"#);
    play.handle(Input::Command(Command::Hold(AGENT)));
    let prompt = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}"#;
    play.line(EDITOR, prompt);
    play.line(EDITOR, r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    assert_eq!(play.core.deadline(), None);
    play.now = Time(5_000);
    play.handle(Input::Command(Command::Release(AGENT)));
    assert_eq!(play.core.deadline(), Some(Time(6_000)));
}
