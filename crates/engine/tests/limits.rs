//! Limits of time and memory (issue 11, items 25 and 26): no work is quadratic in the number of open requests, and memory
//! does not grow with their size. These tests measure no time. With their sizes, quadratic work would take minutes.

use acp_wire::dialect::Generation;
use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use engine::{
    Backoff, ComponentPolicy, Fallback, Input, Line, LinkId, Output, Restart, Rules, Setup,
    Timeouts,
};
use router::{Chain, Component, Exit, ExitCause, Mode, Seat, Time};
use testkit::peer::{Peer, Read};
use testkit::shell::{self, Effect, Shell};

const PROXY: Seat = Seat(1);
const AGENT: Seat = Seat(2);

/// A chain of an editor, a proxy that forwards everything, and an agent.
struct TestChain {
    shell: Shell,
    now: Time,
    /// By seat.
    peers: [Peer; 3],
    /// The messages that each peer has received.
    received: Vec<(Seat, Message)>,
    outputs: Vec<Output>,
}

impl TestChain {
    fn new(capabilities: &str) -> TestChain {
        let chain = Chain {
            mode: Mode::Agent,
            components: vec![Component::new("proxy", "proxy"), Component::new("agent", "agent")],
            order: Chain::first_order(2),
            initialize_timeout: 60_000,
            grace: 2_000,
            any_version: false,
        };
        let policy = |restart, fallback| ComponentPolicy {
            restart,
            fallback,
            backoff: Backoff::default(),
            named: false,
        };
        let rules = Rules {
            policies: vec![
                policy(Restart::Always, Fallback::Bypass),
                policy(Restart::IfResumable, Fallback::Stop),
            ],
            timeouts: Timeouts { answer: None, prompt: None, cancel: Some(1_000) },
            notify_editor: false,
            seed: 1,
        };
        let mut test = TestChain {
            shell: Shell::new(Setup { rules, ..shell::setup(chain) }),
            now: Time(0),
            peers: [Peer::editor(), Peer::proxy(Generation::CURRENT), Peer::agent()],
            received: Vec::new(),
            outputs: Vec::new(),
        };
        let params = Json::trusted(r#"{"protocolVersion":1,"clientCapabilities":{}}"#);
        let ids = test.send_request("init", "initialize", &params);
        let result = format!(r#"{{"protocolVersion":1,"agentCapabilities":{capabilities}}}"#);
        test.answer(ids, &Json::trusted(result));
        test
    }

    fn arrive(&mut self, from: Seat, toward: Side, message: Message) {
        for (port, line) in self.peers[from.index()].write(toward, &message) {
            let link = LinkId { seat: from, port };
            let effects = self.shell.handle(self.now, Input::Line { link, line: Line::Text(line) });
            self.take(effects);
        }
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Line { to, line } => {
                    let read = self.peers[to.seat.index()].read(to.port, &line);
                    if let Read::Message(_, message) = read.expect("a line that can be read") {
                        self.received.push((to.seat, message));
                    }
                }
                Effect::Output(output) => self.outputs.push(output),
            }
        }
    }

    /// The next request for a seat, and its id.
    fn request(&mut self, seat: Seat) -> (Id, Call) {
        let requests = self.received.drain(..).filter_map(|(to, message)| match message {
            Message::Request { id, call } if to == seat => Some((id, call)),
            _ => None,
        });
        requests.last().expect("a request")
    }

    /// The answers that a seat has received.
    fn answers(&self, seat: Seat) -> impl Iterator<Item = &Outcome> {
        self.received.iter().filter_map(move |(to, message)| match message {
            Message::Response { outcome, .. } if *to == seat => Some(outcome),
            _ => None,
        })
    }

    fn retained_bytes(&self) -> usize {
        self.shell.core().stages().retained_bytes()
    }

    /// The editor sends a request, and the proxy forwards it. Returns the ids for the proxy and for the agent.
    fn send_request(&mut self, id: &str, method: &str, params: &Json) -> [Id; 2] {
        let call = Call::new(method, params.clone());
        self.arrive(Seat::OUTER, Side::Agent, Message::Request { id: Id::string(id), call });
        let (first, call) = self.request(PROXY);
        let own = Id::string(&format!("own {id}"));
        self.arrive(PROXY, Side::Agent, Message::Request { id: own, call });
        let (second, _) = self.request(AGENT);
        [first, second]
    }

    /// The agent answers, and the proxy forwards the answer.
    fn answer(&mut self, [first, second]: [Id; 2], result: &Json) {
        let outcome = Outcome::Result(result.clone());
        self.arrive(AGENT, Side::Editor, Message::response(second, outcome.clone()));
        self.arrive(PROXY, Side::Editor, Message::response(first, outcome));
        self.received.clear();
    }

    /// Sets up a session with a request that has `more` additional bytes.
    fn session(&mut self, session: &str, more: usize) {
        let params = Json::object([
            ("cwd", Some(Json::string("/"))),
            ("session", Some(Json::string(session))),
            ("more", Some(Json::string(&"x".repeat(more)))),
        ]);
        let ids = self.send_request(session, "session/new", &params);
        self.answer(ids, &Json::object([("sessionId", Some(Json::string(session)))]));
    }

    /// Performs a turn in a session.
    fn turn(&mut self, session: &str) {
        let params = Json::object([("sessionId", Some(Json::string(session)))]);
        let ids = self.send_request("prompt", "session/prompt", &params);
        self.answer(ids, &Json::trusted(r#"{"stopReason":"end_turn"}"#));
    }

    /// The error that the proxy gets for a prompt in a session that the agent has lost.
    fn lost_session_error(&mut self, session: &str) -> String {
        let params = Json::object([("sessionId", Some(Json::string(session)))]);
        let call = Call::new("session/prompt", params);
        self.arrive(PROXY, Side::Agent, Message::Request { id: Id::string("refused"), call });
        let errors = self.answers(PROXY).filter_map(|outcome| match outcome {
            Outcome::Error(error) => Some(error.to_string()),
            Outcome::Result(_) => None,
        });
        let error = errors.last().expect("an error");
        self.received.clear();
        error
    }

    fn exit(&mut self, seat: Seat) {
        self.outputs.clear();
        self.received.clear();
        let effects = self.shell.exit(self.now, seat, Exit::new(ExitCause::Status(1)));
        self.take(effects);
    }

    /// Restarts a component and answers its handshake and replay. Returns the sessions that are replayed.
    fn restart(&mut self, seat: Seat) -> Vec<String> {
        self.outputs.clear();
        self.now = self.now.plus(30_000);
        self.peers[seat.index()] =
            if seat == PROXY { Peer::proxy(Generation::CURRENT) } else { Peer::agent() };
        let effects = self.shell.tick(self.now);
        self.take(effects);
        let starts =
            |output: &Output| matches!(output, Output::Start { seat: it, .. } if *it == seat);
        assert!(self.outputs.iter().any(starts), "{:?}", self.outputs);
        let (mut id, _) = self.request(seat);
        let result = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
        let mut outcome = Outcome::Result(Json::trusted(result));
        let mut sessions = Vec::new();
        loop {
            self.arrive(seat, Side::Editor, Message::response(id, outcome));
            let request = self.received.drain(..).find_map(|(to, message)| match message {
                Message::Request { id, call }
                    if to == seat && id.text().is_some_and(|it| it.starts_with("r:")) =>
                {
                    Some((id, call))
                }
                _ => None,
            });
            let Some((next, call)) = request else { return sessions };
            let name = call.params.as_ref().and_then(|it| it.member("session")).expect("its name");
            sessions.push(name.text().expect("a text").into_owned());
            (id, outcome) = (next, Outcome::Result(Json::EMPTY_OBJECT));
        }
    }

    fn cancel(&mut self, from: Seat, id: &str) {
        let params = Json::object([("requestId", Some(Json::string(id)))]);
        let message = Message::notification("$/cancel_request", params);
        self.arrive(from, Side::Agent, message);
        self.received.clear();
    }
}

#[test]
fn unanswered_cancelled_requests_do_not_slow_down_others() {
    let mut test = TestChain::new("{}");
    let params = Json::trusted("{}");
    for number in 0..4_000 {
        let id = number.to_string();
        test.send_request(&id, "_x/wait", &params);
        // The proxy forwards every second cancellation.
        test.cancel(Seat::OUTER, &id);
        if number % 2 == 0 {
            test.cancel(PROXY, &format!("own {id}"));
        }
    }
    for number in 0..4_000 {
        let ids = test.send_request(&format!("round {number}"), "_x/ask", &params);
        assert_eq!(test.shell.core().deadline(), Some(Time(1_000)));
        test.answer(ids, &params);
    }
    // The core answers the requests that the agent should have stopped.
    let effects = test.shell.tick(Time(1_000));
    test.take(effects);
    assert_eq!(test.answers(PROXY).count(), 2_000);
}

const LOADS: &str = r#"{"loadSession":true}"#;

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("s{number}")).collect()
}

/// Twenty requests of 10 MiB through two components: only some are stored, and each only once.
#[test]
fn the_memory_for_long_set_up_requests_is_limited() {
    const MIB: usize = 1024 * 1024;
    let mut test = TestChain::new(LOADS);
    test.session("short", 0);
    for name in names(0..20) {
        test.session(&name, 10 * MIB);
    }
    assert!((60 * MIB..=64 * MIB).contains(&test.retained_bytes()), "{}", test.retained_bytes());
    test.session("last", 0);
    for name in names(0..20) {
        test.turn(&name);
    }
    let kept = [vec!["short".to_owned()], names(0..6), vec!["last".to_owned()]].concat();
    // The agent has lost the other sessions. Everything else works.
    test.exit(AGENT);
    assert_eq!(test.restart(AGENT), kept);
    let error = test.lost_session_error("s7");
    assert!(error.contains("'s7'") && error.contains("too long"), "{error}");
    test.turn("s3");
    // They are not replayed to a proxy, and the user gets a notice.
    test.exit(PROXY);
    assert_eq!(test.restart(PROXY), kept);
    test.turn("s3");
    // Freed memory can be used again.
    for name in names(0..6) {
        let params = Json::object([("sessionId", Some(Json::string(&name)))]);
        let ids = test.send_request("close", "session/close", &params);
        test.answer(ids, &Json::EMPTY_OBJECT);
    }
    assert_eq!(test.retained_bytes(), 0);
}

/// An agent that can load sessions is restarted, and one that cannot is not, however many sessions there are.
#[test]
fn the_failure_decision_does_not_depend_on_the_number_of_sessions() {
    for count in [3, 300, 4_200] {
        let mut able = TestChain::new(LOADS);
        let mut unable = TestChain::new("{}");
        for test in [&mut able, &mut unable] {
            for name in names(0..count) {
                test.session(&name, 0);
            }
            // The oldest session works, too.
            test.turn("s0");
        }
        able.exit(AGENT);
        assert_eq!(able.restart(AGENT), names(count.saturating_sub(256)..count));
        if count > 256 {
            let session = format!("s{}", count - 257);
            let error = able.lost_session_error(&session);
            assert!(error.contains("too many sessions ago"), "{error}");
        }
        // The newest sessions are closed. The old ones still exist.
        for name in names(if count > 3 { 4 } else { 1 }..count) {
            let params = Json::object([("sessionId", Some(Json::string(&name)))]);
            let ids = unable.send_request("close", "session/close", &params);
            unable.answer(ids, &Json::EMPTY_OBJECT);
        }
        unable.exit(AGENT);
        assert!(
            !unable.outputs.contains(&Output::Discard(AGENT)),
            "{count}: it must not be restarted"
        );
    }
}

/// A forwarded request is still recognised if the proxy has not changed it.
#[test]
fn the_memory_for_open_requests_is_limited() {
    let mut test = TestChain::new(LOADS);
    let long = "x".repeat(60 * 1024);
    let mut pending = Vec::new();
    for number in 0..400 {
        let id = number.to_string();
        let params = Json::object([("n", Some(Json::string(&format!("{number} {long}"))))]);
        pending.push(test.send_request(&id, "_x/long", &params));
    }
    let kept = |test: &TestChain| test.shell.core().router().kept_param_bytes();
    assert!(kept(&test) <= 16 * 1024 * 1024, "{}", kept(&test));
    // The proxy fails, and the answers still arrive.
    test.exit(PROXY);
    assert_eq!(test.answers(Seat::OUTER).count(), 0);
    for [_, second] in pending {
        let answer = Message::response(second, Outcome::Result(Json::EMPTY_OBJECT));
        test.arrive(AGENT, Side::Editor, answer);
    }
    assert_eq!(kept(&test), 0);
}
