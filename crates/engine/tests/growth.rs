//! Work that must not grow with the square of what is open, and memory that must not grow with its size.
//! Issue 11, items 25 and 26. There is no clock here: the sizes are such that quadratic work takes minutes.

use acp_wire::dialect::Generation;
use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use engine::{
    Backoff, ComponentPolicy, Fallback, Input, Line, Link, Output, Restart, Rules, Setup, Timeouts,
};
use router::{Chain, Component, Exit, ExitCause, Mode, Seat, Time};
use testkit::peer::{Peer, Read};
use testkit::shell::{self, Effect, Shell};

const PROXY: Seat = Seat(1);
const AGENT: Seat = Seat(2);

/// A proxy that passes everything on, and an agent, in front of an editor.
struct Play {
    shell: Shell,
    now: Time,
    /// By seat.
    peers: [Peer; 3],
    /// What each peer has heard.
    heard: Vec<(Seat, Message)>,
    outputs: Vec<Output>,
}

impl Play {
    fn new(offers: &str) -> Play {
        let chain = Chain {
            mode: Mode::Agent,
            components: vec![Component::new("proxy", "proxy"), Component::new("agent", "agent")],
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
        let mut play = Play {
            shell: Shell::new(Setup { rules, ..shell::setup(chain) }),
            now: Time(0),
            peers: [Peer::editor(), Peer::proxy(Generation::CURRENT), Peer::agent()],
            heard: Vec::new(),
            outputs: Vec::new(),
        };
        let params = Json::trusted(r#"{"protocolVersion":1,"clientCapabilities":{}}"#);
        let asked = play.ask("init", "initialize", &params);
        let result = format!(r#"{{"protocolVersion":1,"agentCapabilities":{offers}}}"#);
        play.answer(asked, &Json::trusted(result));
        play
    }

    fn arrive(&mut self, from: Seat, toward: Side, message: Message) {
        for (port, line) in self.peers[from.index()].write(toward, &message) {
            let link = Link { seat: from, port };
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
                        self.heard.push((to.seat, message));
                    }
                }
                Effect::Output(output) => self.outputs.push(output),
            }
        }
    }

    /// The next request for a seat, and its id.
    fn request(&mut self, seat: Seat) -> (Id, Call) {
        let requests = self.heard.drain(..).filter_map(|(to, message)| match message {
            Message::Request { id, call } if to == seat => Some((id, call)),
            _ => None,
        });
        requests.last().expect("a request")
    }

    /// The answers that a seat has heard.
    fn answers(&self, seat: Seat) -> impl Iterator<Item = &Outcome> {
        self.heard.iter().filter_map(move |(to, message)| match message {
            Message::Response { outcome, .. } if *to == seat => Some(outcome),
            _ => None,
        })
    }

    fn kept(&self) -> usize {
        self.shell.core().stages().retained_bytes()
    }

    /// The editor asks, and the proxy passes it on. Gives the ids for the proxy and for the agent.
    fn ask(&mut self, id: &str, method: &str, params: &Json) -> [Id; 2] {
        let call = Call::new(method, params.clone());
        self.arrive(Seat::OUTER, Side::Agent, Message::Request { id: Id::string(id), call });
        let (first, call) = self.request(PROXY);
        let own = Id::string(&format!("own {id}"));
        self.arrive(PROXY, Side::Agent, Message::Request { id: own, call });
        let (second, _) = self.request(AGENT);
        [first, second]
    }

    /// The agent answers, and the proxy passes it on.
    fn answer(&mut self, [first, second]: [Id; 2], result: &Json) {
        let outcome = Outcome::Result(result.clone());
        self.arrive(AGENT, Side::Editor, Message::response(second, outcome.clone()));
        self.arrive(PROXY, Side::Editor, Message::response(first, outcome));
        self.heard.clear();
    }

    /// Sets a session up, whose request has so many bytes more than usual.
    fn session(&mut self, session: &str, more: usize) {
        let params = Json::object([
            ("cwd", Some(Json::string("/"))),
            ("session", Some(Json::string(session))),
            ("more", Some(Json::string(&"x".repeat(more)))),
        ]);
        let asked = self.ask(session, "session/new", &params);
        self.answer(asked, &Json::object([("sessionId", Some(Json::string(session)))]));
    }

    /// A turn in a session.
    fn turn(&mut self, session: &str) {
        let params = Json::object([("sessionId", Some(Json::string(session)))]);
        let asked = self.ask("prompt", "session/prompt", &params);
        self.answer(asked, &Json::trusted(r#"{"stopReason":"end_turn"}"#));
    }

    /// What the proxy is answered when it passes on a prompt for a session that the agent has lost.
    fn refusal(&mut self, session: &str) -> String {
        let params = Json::object([("sessionId", Some(Json::string(session)))]);
        let call = Call::new("session/prompt", params);
        self.arrive(PROXY, Side::Agent, Message::Request { id: Id::string("refused"), call });
        let errors = self.answers(PROXY).filter_map(|outcome| match outcome {
            Outcome::Error(error) => Some(error.to_string()),
            Outcome::Result(_) => None,
        });
        let error = errors.last().expect("an error");
        self.heard.clear();
        error
    }

    fn leave(&mut self, seat: Seat) {
        self.outputs.clear();
        self.heard.clear();
        let effects = self.shell.exit(self.now, seat, Exit::new(ExitCause::Status(1)));
        self.take(effects);
    }

    /// A component that has left is started again and greeted. Gives the sessions that it is told of.
    fn learn(&mut self, seat: Seat) -> Vec<String> {
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
        let mut told = Vec::new();
        loop {
            self.arrive(seat, Side::Editor, Message::response(id, outcome));
            let lesson = self.heard.drain(..).find_map(|(to, message)| match message {
                Message::Request { id, call }
                    if to == seat && id.text().is_some_and(|it| it.starts_with("r:")) =>
                {
                    Some((id, call))
                }
                _ => None,
            });
            let Some((next, call)) = lesson else { return told };
            let name = call.params.as_ref().and_then(|it| it.member("session")).expect("its name");
            told.push(name.text().expect("a text").into_owned());
            (id, outcome) = (next, Outcome::Result(Json::EMPTY));
        }
    }

    fn cancel(&mut self, from: Seat, id: &str) {
        let params = Json::object([("requestId", Some(Json::string(id)))]);
        let message = Message::notification("$/cancel_request", params);
        self.arrive(from, Side::Agent, message);
        self.heard.clear();
    }
}

#[test]
fn cancelled_requests_that_nobody_answers_cost_the_others_nothing() {
    let mut play = Play::new("{}");
    let params = Json::trusted("{}");
    for number in 0..4_000 {
        let id = number.to_string();
        play.ask(&id, "_x/wait", &params);
        // The proxy passes on every second cancellation.
        play.cancel(Seat::OUTER, &id);
        if number % 2 == 0 {
            play.cancel(PROXY, &format!("own {id}"));
        }
    }
    for number in 0..4_000 {
        let asked = play.ask(&format!("round {number}"), "_x/ask", &params);
        assert_eq!(play.shell.core().deadline(), Some(Time(1_000)));
        play.answer(asked, &params);
    }
    // All those are answered that the agent should have stopped.
    let effects = play.shell.tick(Time(1_000));
    play.take(effects);
    assert_eq!(play.answers(PROXY).count(), 2_000);
}

const LOADS: &str = r#"{"loadSession":true}"#;

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("s{number}")).collect()
}

/// Twenty requests of 10 MiB, through two components: as many are kept as fit, and each only once.
#[test]
fn long_requests_are_kept_within_a_budget_and_once() {
    const MIB: usize = 1024 * 1024;
    let mut play = Play::new(LOADS);
    play.session("short", 0);
    for name in names(0..20) {
        play.session(&name, 10 * MIB);
    }
    assert!((60 * MIB..=64 * MIB).contains(&play.kept()), "{}", play.kept());
    play.session("last", 0);
    for name in names(0..20) {
        play.turn(&name);
    }
    let kept = [vec!["short".to_owned()], names(0..6), vec!["last".to_owned()]].concat();
    // The agent has lost the others, and says so; all else goes on.
    play.leave(AGENT);
    assert_eq!(play.learn(AGENT), kept);
    let refusal = play.refusal("s7");
    assert!(refusal.contains("'s7'") && refusal.contains("too long"), "{refusal}");
    play.turn("s3");
    // A proxy is not told of them again, and the people are.
    play.leave(PROXY);
    assert_eq!(play.learn(PROXY), kept);
    play.turn("s3");
    // Room that is given back can be used.
    for name in names(0..6) {
        let params = Json::object([("sessionId", Some(Json::string(&name)))]);
        let asked = play.ask("close", "session/close", &params);
        play.answer(asked, &Json::EMPTY);
    }
    assert_eq!(play.kept(), 0);
}

/// However many sessions there are, an agent that can load sessions is restarted, and one that cannot is not.
#[test]
fn a_forgotten_session_does_not_change_what_a_crash_does() {
    for count in [3, 300, 4_200] {
        let mut able = Play::new(LOADS);
        let mut unable = Play::new("{}");
        for play in [&mut able, &mut unable] {
            for name in names(0..count) {
                play.session(&name, 0);
            }
            // Also in the oldest one.
            play.turn("s0");
        }
        able.leave(AGENT);
        assert_eq!(able.learn(AGENT), names(count.saturating_sub(256)..count));
        if count > 256 {
            let session = format!("s{}", count - 257);
            let refusal = able.refusal(&session);
            assert!(refusal.contains("too many sessions ago"), "{refusal}");
        }
        // The newest sessions are closed: the old ones are still there.
        for name in names(if count > 3 { 4 } else { 1 }..count) {
            let params = Json::object([("sessionId", Some(Json::string(&name)))]);
            let asked = unable.ask("close", "session/close", &params);
            unable.answer(asked, &Json::EMPTY);
        }
        unable.leave(AGENT);
        assert!(!unable.outputs.contains(&Output::Discard(AGENT)), "{count}: it is restarted");
    }
}

/// Open requests are kept within a budget; they are recognised all the same if they were not changed.
#[test]
fn open_requests_are_kept_within_a_budget() {
    let mut play = Play::new(LOADS);
    let long = "x".repeat(60 * 1024);
    let mut asked = Vec::new();
    for number in 0..400 {
        let id = number.to_string();
        let params = Json::object([("n", Some(Json::string(&format!("{number} {long}"))))]);
        asked.push(play.ask(&id, "_x/long", &params));
    }
    let kept = |play: &Play| play.shell.core().router().kept_param_bytes();
    assert!(kept(&play) <= 16 * 1024 * 1024, "{}", kept(&play));
    // The proxy dies, and the answers come all the same.
    play.leave(PROXY);
    assert_eq!(play.answers(Seat::OUTER).count(), 0);
    for [_, second] in asked {
        let answer = Message::response(second, Outcome::Result(Json::EMPTY));
        play.arrive(AGENT, Side::Editor, answer);
    }
    assert_eq!(kept(&play), 0);
}
