//! How the core handles links that are closed, paused and resumed.

use bytes::Bytes;
use engine::{
    Backoff, Command, ComponentPolicy, Core, Facts, Fallback, Input, KeptTelemetry, Line, LinkId,
    Output, Outputs, Restart, Rules, Setup, Timeouts, Watermarks,
};
use router::{Chain, Component, ExitCause, Mode, Seat, Time};

const EDITOR: Seat = Seat::OUTER;
const AGENT: Seat = Seat(1);

/// A chain of an editor and an agent.
struct TestCore {
    core: Core,
    out: Outputs,
    now: Time,
}

impl TestCore {
    fn new(timeouts: Timeouts) -> TestCore {
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
                order: Chain::first_order(1),
                initialize_timeout: 60_000,
                grace: 2_000,
                any_version: false,
            },
            rules: Rules { policies: vec![policy], timeouts, notify_editor: false, seed: 1 },
            bridge: None,
            nonce: String::new(),
            nested: false,
            forwards_telemetry: false,
            about: engine::About::default(),
            kept_telemetry: KeptTelemetry::Of(Vec::new()),
            max_line: 1_000_000,
            watermarks: Watermarks { high: 1_000, low: 100, ..Watermarks::DEFAULT },
            facts: vec![Facts::default()],
            tapped: false,
            start_notices: Vec::new(),
        });
        TestCore { core, out: Outputs::default(), now: Time(0) }
    }

    fn handle(&mut self, input: Input) -> Vec<Output> {
        self.core.handle(self.now, input, &mut self.out);
        std::mem::take(&mut self.out.list)
    }

    fn line(&mut self, seat: Seat, line: &str) -> Vec<Output> {
        let line = Line::Text(Bytes::copy_from_slice(line.as_bytes()));
        self.handle(Input::Line { link: LinkId::main(seat), line })
    }

    /// The peer reads all queued bytes.
    fn read(&mut self, seat: Seat) -> (String, Vec<Output>) {
        let link = LinkId::main(seat);
        let (slices, count) = self.out.queue(link).expect("a queue").slices();
        let text = String::from_utf8(slices[..count].concat()).expect("UTF-8");
        let outputs = self.handle(Input::Written { link, count: text.len() });
        (text, outputs)
    }

    /// Performs the handshake with this protocol version.
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

/// The editor reads slowly, so the agent is paused. The agent writes the rest of its turn and exits. The rest is read when
/// the link is resumed, however long ago the exit was.
#[test]
fn the_output_of_a_component_that_exits_while_it_is_paused_is_not_lost() {
    let mut test = TestCore::new(Timeouts::default());
    test.greet(1, r#","agentCapabilities":{}"#);
    test.line(EDITOR, r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{}}"#);
    test.read(AGENT);
    let long = "x".repeat(2_000);
    let update =
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"t":"{long}"}}}}"#);
    let link = LinkId::main(AGENT);
    assert_eq!(test.line(AGENT, &update), [Output::Read { link, read: false }]);
    test.handle(Input::Readable { link, readable: true });
    test.handle(Input::Exited { seat: AGENT, incarnation: 0, how: ExitCause::Status(0) });
    test.now = Time(5_000);
    let (text, outputs) = test.read(EDITOR);
    assert_eq!(
        (text.trim_end(), &outputs[..]),
        (&update[..], &[Output::Read { link, read: true }][..])
    );
    assert_eq!(test.handle(Input::Tick), []);
    assert_eq!(test.line(AGENT, r#"{"jsonrpc":"2.0","id":"c:2","result":{}}"#), []);
    let answered = test.read(EDITOR).0;
    assert_eq!(answered.trim_end(), r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    test.handle(Input::Readable { link, readable: false });
    let ended = test.handle(Input::OutputClosed { link, rest: None });
    assert!(ended.contains(&Output::Discard(AGENT)), "{ended:?}");
}

/// In ACP version 2, after the core has answered a cancelled prompt on behalf of the component.
#[test]
fn a_late_answer_to_a_cancelled_prompt_starts_no_turn() {
    let limit = Some(1_000);
    let mut test = TestCore::new(Timeouts { answer: None, prompt: limit, cancel: limit });
    test.greet(2, r#","capabilities":{}"#);
    let prompt = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}"#;
    test.line(EDITOR, prompt);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#;
    test.line(EDITOR, cancel);
    test.read(AGENT);
    // This restarts the prompt timeout, so that the cancel timeout expires first.
    test.now = Time(900);
    test.line(AGENT, r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#);
    test.now = test.core.deadline().expect("the cancellation has a timeout");
    test.handle(Input::Tick);
    assert!(test.read(EDITOR).0.contains("-32800"));
    test.line(AGENT, r#"{"jsonrpc":"2.0","id":"c:2","result":{}}"#);
    assert_eq!(test.core.deadline(), None, "there is no timeout");
    assert_eq!(test.core.stages().active_turns(AGENT), 0);
}

/// The timeout starts when the request is released. Until then, the sender is paused as if the component did not read.
#[test]
fn a_component_has_no_timeouts_while_its_messages_are_held() {
    let mut test = TestCore::new(Timeouts { answer: Some(1_000), prompt: None, cancel: None });
    test.greet(1, r#","agentCapabilities":{}"#);
    assert_eq!(test.handle(Input::Command(Command::Hold(AGENT))), []);
    let long = "x".repeat(2_000);
    let ask = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"m","params":{{"t":"{long}"}}}}"#);
    let link = LinkId::main(EDITOR);
    assert_eq!(test.line(EDITOR, &ask), [Output::Read { link, read: false }]);
    assert_eq!((test.core.deadline(), test.read(AGENT).0.as_str()), (None, ""));
    assert_eq!(test.core.queued(AGENT, &test.out), 0);
    let (count, bytes) = test.core.stages().held(AGENT);
    assert!(count == 1 && (2_000..3_000).contains(&bytes), "{count} messages, {bytes} bytes");
    test.now = Time(5_000);
    test.handle(Input::Command(Command::Release(AGENT)));
    assert_eq!(test.core.deadline(), Some(Time(6_000)));
    let queued = test.core.queued(AGENT, &test.out);
    let (text, outputs) = test.read(AGENT);
    assert_eq!((queued, test.core.queued(AGENT, &test.out)), (text.len(), 0));
    assert!(text.contains(r#""method":"m""#), "{text}");
    assert_eq!(outputs, [Output::Read { link, read: true }]);
}

#[test]
fn a_link_is_paused_when_a_queue_that_it_feeds_exceeds_the_high_watermark() {
    for (length, full) in [(1_000, false), (1_001, true)] {
        let mut test = TestCore::new(Timeouts::default());
        test.greet(1, r#","agentCapabilities":{}"#);
        let update = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"t":"{text}"}}}}"#)
        };
        let line = update(&"x".repeat(length - update("").len() - "\n".len()));
        let link = LinkId::main(AGENT);
        let paused = test.line(AGENT, &line).contains(&Output::Read { link, read: false });
        assert_eq!((test.core.queued(EDITOR, &test.out), paused), (length, full));
    }
}

#[test]
fn the_timeout_of_a_held_cancellation_starts_when_it_is_released() {
    let mut test = TestCore::new(Timeouts { answer: None, prompt: None, cancel: Some(1_000) });
    test.greet(1, r#","agentCapabilities":{}"#);
    test.handle(Input::Command(Command::Hold(AGENT)));
    let prompt = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}"#;
    test.line(EDITOR, prompt);
    test.line(EDITOR, r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    assert_eq!(test.core.deadline(), None);
    test.now = Time(5_000);
    test.handle(Input::Command(Command::Release(AGENT)));
    assert_eq!(test.core.deadline(), Some(Time(6_000)));
}
