//! Records the core and replays its journal.

use acp_wire::dialect::Generation;
use bytes::Bytes;
use engine::journal::{JournalReplay, Recorder, ReplayError, replay};
use engine::{
    Backoff, Command, ComponentPolicy, Core, Facts, Fallback, Input, KeptTelemetry, Line, LinkId,
    Outputs, Restart, Rules, Setup, Timeouts,
};
use router::{Chain, Component, ExitCause, Mode, Seat, Time};

const PROXY: Seat = Seat(1);
const AGENT: Seat = Seat(2);

fn setup() -> Setup {
    let policy = ComponentPolicy {
        restart: Restart::Always,
        fallback: Fallback::Stop,
        backoff: Backoff { first_delay: 10, ..Backoff::default() },
        named: false,
    };
    Setup {
        chain: Chain {
            mode: Mode::Agent,
            components: vec![Component::new("proxy", "proxy"), Component::new("agent", "agent")],
            order: Chain::first_order(2),
            initialize_timeout: 60_000,
            grace: 2_000,
            any_version: false,
        },
        rules: Rules {
            policies: vec![policy; 2],
            timeouts: Timeouts { answer: None, prompt: None, cancel: Some(1_000) },
            notify_editor: true,
            seed: u64::MAX,
        },
        bridge: Some(mcp::BridgePolicy::Only(mcp::Transport::Stdio)),
        nonce: "nonce".into(),
        nested: false,
        forwards_telemetry: false,
        about: engine::About::default(),
        kept_telemetry: KeptTelemetry::Of(Vec::new()),
        max_line: 1_000_000,
        watermarks: engine::Watermarks::DEFAULT,
        facts: vec![
            Facts { generation: Some(Generation::P5), ..Facts::default() },
            Facts::default(),
        ],
        tapped: true,
        start_notices: Vec::new(),
    }
}

/// A core with a recorder.
struct RecordedCore {
    core: Core,
    out: Outputs,
    recorder: Recorder,
    now: Time,
}

impl RecordedCore {
    fn new() -> RecordedCore {
        let setup = setup();
        let recorder = Recorder::new(&setup);
        RecordedCore { core: Core::new(setup), out: Outputs::default(), recorder, now: Time(0) }
    }

    /// Handles an input and returns the outputs as text.
    fn handle(&mut self, input: Input) -> String {
        self.now = self.now.plus(7);
        self.recorder.input(self.now, &input);
        self.core.handle(self.now, input, &mut self.out);
        self.recorder.outputs(&self.out);
        let outputs = format!("{:?}", self.out.list);
        self.out.list.clear();
        outputs
    }

    fn line(&mut self, seat: Seat, line: &[u8]) -> String {
        let line = Line::Text(Bytes::copy_from_slice(line));
        self.handle(Input::Line { link: LinkId::main(seat), line })
    }

    /// Writes all queued bytes of a seat, and returns them.
    fn read(&mut self, seat: Seat) -> String {
        let link = LinkId::main(seat);
        let queue = self.out.queue(link).expect("a queue");
        let (slices, count) = queue.slices();
        let text = String::from_utf8(slices[..count].concat()).expect("UTF-8");
        self.handle(Input::Written { link, count: text.len() });
        text
    }

    fn tick(&mut self) -> String {
        self.now = self.core.deadline().expect("a deadline");
        self.handle(Input::Tick)
    }
}

/// The journal of a chain with a handshake, a malformed line, a crash with dropped bytes, and a restart.
fn recorded() -> Vec<u8> {
    let mut test = RecordedCore::new();
    let greeting = br#"{"jsonrpc":"2.0","id":1e0,"method":"initialize"}"#;
    test.line(Seat::OUTER, greeting);
    let greeting = br#"{"jsonrpc":"2.0","id":12345678901234567890,"method":"initialize","params":{"protocolVersion":1,"n":1.50,"a":"\u00e9"}}"#;
    let started = test.line(Seat::OUTER, greeting);
    assert!(started.contains("Start { seat: Seat(1), incarnation: 0 }"), "{started}");
    let line = test.read(PROXY);
    assert!(line.contains("proxy/initialize") && line.contains("1.50"), "{line}");
    test.line(PROXY, br#"{"jsonrpc":"2.0","id":"p","method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1}}}"#);
    let line = test.read(AGENT);
    assert!(line.contains("c:2"), "{line}");
    test.line(AGENT, b"\xff\xfe not UTF-8");
    test.line(AGENT, br#"{"jsonrpc":"2.0","id":"c:2","result":{"protocolVersion":1}}"#);
    test.read(PROXY);
    test.line(PROXY, br#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1}}"#);
    assert!(test.read(Seat::OUTER).contains("12345678901234567890"));
    // The bytes that are queued for the proxy are dropped when it crashes.
    test.line(Seat::OUTER, br#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}"#);
    let lines = vec!["panicked at \u{1b}[31m".into()];
    test.handle(Input::Stderr { seat: PROXY, incarnation: 0, lines });
    test.handle(Input::InputClosed(LinkId::main(PROXY)));
    test.handle(Input::Exited { seat: PROXY, incarnation: 0, how: ExitCause::Signal(9) });
    let rest = Some(Line::Text("{\"half".into()));
    test.handle(Input::OutputClosed { link: LinkId::main(PROXY), rest });
    let started = test.tick();
    assert!(started.contains("Start { seat: Seat(1), incarnation: 1 }"), "{started}");
    assert!(test.read(PROXY).contains("initialize"));
    assert!(
        test.handle(Input::Command(Command::Stop)).contains("Finish")
            || test.tick().contains("Finish")
    );
    test.read(Seat::OUTER);
    test.recorder.take()
}

fn lines(journal: &[u8]) -> Vec<&[u8]> {
    journal.split_inclusive(|byte| *byte == b'\n').collect()
}

#[test]
fn a_journal_replays_identically() {
    let journal = recorded();
    let text = std::str::from_utf8(&journal).expect("UTF-8");
    assert!(text.contains(r#"{"hex":"fffe"#), "{text}");
    assert!(text.contains(r#""dropped":"#) && text.contains("incarnation"), "{text}");
    let summary = replay(lines(&journal)).expect("it replays identically");
    assert_eq!(summary.inputs, lines(&journal).len() - 1);
    assert!(summary.outputs > 10 && summary.bytes > 500 && !summary.cut_off, "{summary:?}");
}

#[test]
fn an_incomplete_journal_can_be_replayed() {
    let journal = recorded();
    let summary = replay(lines(&journal[..journal.len() - 5])).expect("it replays identically");
    assert_eq!((summary.inputs, summary.cut_off), (lines(&journal).len() - 1, true));
    assert!(summary.last_input, "the input of the last line is complete");
    // The input of the last line is incomplete, too.
    let last = lines(&journal).last().map_or(0, |it| it.len());
    let summary =
        replay(lines(&journal[..journal.len() - last + 12])).expect("it replays identically");
    assert_eq!((summary.inputs, summary.cut_off), (lines(&journal).len() - 2, true));
    assert!(!summary.last_input);
    // The first line is incomplete.
    for journal in [&b""[..], &journal[..50]] {
        let summary = replay(lines(journal)).expect("there is nothing to replay");
        assert_eq!((summary.inputs, summary.cut_off), (0, true));
    }
}

/// This is how a journal ends when the core panics.
#[test]
fn the_last_input_is_replayed_even_if_its_effects_are_missing() {
    let mut test = RecordedCore::new();
    test.line(Seat::OUTER, br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    let servers =
        acp_wire::Json::parse(r#"{"a":1,"effects":{"b":[]}}"#).map_err(|why| why.to_string());
    let input = Input::RelayOpened { seat: PROXY, incarnation: 0, servers };
    test.recorder.input(Time(20), &input);
    let journal = test.recorder.take();
    assert!(!journal.ends_with(b"\n"));
    let lines = lines(&journal);
    let mut replay = JournalReplay::new(lines[0]).expect("a header").expect("a complete line");
    let step = replay.step(lines[1]).expect("it replays identically").expect("a complete line");
    assert!(step.compared);
    let step = replay.step(lines[2]).expect("there is nothing to compare").expect("an input");
    assert!(!step.compared && step.at == Time(20));
    assert_eq!(format!("{:?}", step.input), format!("{input:?}"));
}

#[test]
fn a_different_byte_is_reported_with_both_versions() {
    let journal = String::from_utf8(recorded()).expect("UTF-8");
    let changed = journal.replacen(r#"\"n\":1.50"#, r#"\"n\":1.51"#, 2);
    assert_eq!(changed.len(), journal.len());
    // The first is in the input, the second in the observation of the tap.
    let changed = changed.replacen(r#"\"n\":1.51"#, r#"\"n\":1.50"#, 1);
    let why = replay(lines(changed.as_bytes())).expect_err("it differs");
    assert!(matches!(why, ReplayError::Different { line: 3, .. }), "{why}");
    let why = why.to_string();
    let (recorded, replayed) = why.split_once("replayed:").expect("both versions");
    assert!(recorded.contains("1.51") && replayed.contains("1.50"), "{why}");
    assert!(why.contains("before:   line 2:") && why.contains("from outer: initialize"), "{why}");
}

#[test]
fn a_different_number_of_dropped_bytes_is_reported() {
    let journal = String::from_utf8(recorded()).expect("UTF-8");
    // Adds a digit to the number of dropped bytes.
    let mut drops = journal.match_indices(r#""dropped":"#).map(|(at, key)| at + key.len());
    let at = drops.find(|at| !journal[*at..].starts_with('0')).expect("dropped bytes");
    let changed = format!("{}1{}", &journal[..at], &journal[at..]).into_bytes();
    let why = replay(lines(&changed)).expect_err("it differs");
    assert!(matches!(why, ReplayError::Different { .. }), "{why}");
}

#[test]
fn a_file_that_is_not_a_journal_is_refused() {
    let refused = |text: &str| replay(lines(text.as_bytes())).expect_err(text).to_string();
    assert!(refused("my notes").contains("line 1"));
    assert!(refused("{}\n").contains("this is not a journal"));
    assert!(refused("{\"journal\":1}\n").contains("version 1"));
    assert!(refused("{\"journal\":6,\"setup\":{}}\n").contains("setup: chain: mode"));
    let journal = String::from_utf8(recorded()).expect("UTF-8");
    let header = journal.lines().next().expect("a header");
    let entry = r#"{"at":1,"input":{"Line":{"link":{"seat":"x"}}}}"#;
    let why = refused(&format!("{header}\n{entry}\n"));
    assert!(why.contains("line 2") && why.contains("link: seat: u16 is expected"), "{why}");
}

#[test]
fn a_journal_can_be_replayed_step_by_step() {
    let journal = recorded();
    let lines = lines(&journal);
    let mut replay = JournalReplay::new(lines[0]).expect("a header").expect("a complete line");
    let mut shown = Vec::new();
    for line in &lines[1..] {
        let step = replay.step(line).expect("it replays identically").expect("a complete line");
        shown.extend(replay.show(&step));
    }
    let shown = shown.join("\n");
    for expected in [
        "     0.014  from outer: initialize id 12345678901234567890 (",
        "start proxy (incarnation 0)",
        "to proxy: proxy/initialize id \"c:1\" (",
        "from proxy: proxy/successor [initialize] id \"p\" (",
        "wrote on stderr: panicked",
        "drop 64 bytes for proxy",
        "exited: Signal(9)",
        "start proxy (incarnation 1)",
        "finish",
    ] {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
}
