//! Work that must not grow with the square of what is open, and memory that must not grow with its size.
//! Issue 11, items 25 and 26. There is no clock here: the sizes are such that quadratic work takes minutes.

use router::{Chain, Component, Mode, Seat, Time};
use supervisor::{Action, Event, Pace, Policy, Restart, Rules, Supervisor, Then, Watch};
use wire::{Call, Id, Json, Message, Outcome, Side};

const PROXY: Seat = Seat(1);
const AGENT: Seat = Seat(2);

/// A proxy that passes everything on, and an agent, in front of an editor.
struct Play {
    core: Supervisor,
    actions: Vec<Action>,
}

impl Play {
    fn new(offers: &str) -> Play {
        let chain = Chain {
            mode: Mode::Agent,
            components: vec![Component::new("proxy", "proxy"), Component::new("agent", "agent")],
            greeting_limit: 60_000,
            grace: 2_000,
            any_version: false,
        };
        let policy = |restart, then| Policy { restart, then, pace: Pace::default(), named: false };
        let rules = Rules {
            policies: vec![
                policy(Restart::Always, Then::Bypass),
                policy(Restart::IfItCan, Then::Stop),
            ],
            watch: Watch { answer: None, prompt: None, cancel: Some(1_000) },
            tell_editor: false,
            seed: 1,
        };
        let mut play = Play { core: Supervisor::new(chain, rules, None), actions: Vec::new() };
        let params = Json::trusted(r#"{"protocolVersion":1,"clientCapabilities":{}}"#);
        let asked = play.ask("init", "initialize", &params);
        let result = format!(r#"{{"protocolVersion":1,"agentCapabilities":{offers}}}"#);
        play.answer(asked, &Json::trusted(result));
        play
    }

    fn arrive(&mut self, from: Seat, toward: Side, message: Message) {
        let event = Event::Arrived { from, toward, message };
        self.core.handle(Time(0), event, &mut self.actions);
    }

    /// The next request for a seat, and its id.
    fn request(&mut self, seat: Seat) -> (Id, Call) {
        let mut found = None;
        for action in self.actions.drain(..) {
            if let Action::Deliver { to, message: Message::Request { id, call }, .. } = action
                && to == seat
            {
                found = Some((id, call));
            }
        }
        found.expect("a request")
    }

    /// The editor asks, and the proxy passes it on. Gives the ids for the proxy and for the agent.
    fn ask(&mut self, id: &str, method: &str, params: &Json) -> [Id; 2] {
        let call = Call::new(method, params.clone());
        self.arrive(Seat::OUTER, Side::Agent, Message::Request { id: Id::string(id), call });
        let (first, call) = self.request(PROXY);
        let own = Id::string(&format!("own {id}"));
        // As it comes from the proxy: in a text of its own.
        let params = call.params.map(|it| it.detached());
        let call = Call { params, ..call };
        self.arrive(PROXY, Side::Agent, Message::Request { id: own, call });
        let (second, _) = self.request(AGENT);
        [first, second]
    }

    /// The agent answers, and the proxy passes it on.
    fn answer(&mut self, [first, second]: [Id; 2], result: &Json) {
        let outcome = Outcome::Result(result.clone());
        self.arrive(AGENT, Side::Editor, Message::response(second, outcome.clone()));
        self.arrive(PROXY, Side::Editor, Message::response(first, outcome));
        self.actions.clear();
    }

    fn cancel(&mut self, from: Seat, id: &str) {
        let params = Json::object([("requestId", Some(Json::string(id)))]);
        let message = Message::notification("$/cancel_request", params);
        self.arrive(from, Side::Agent, message);
        self.actions.clear();
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
        assert_eq!(play.core.deadline(), Some(Time(1_000)));
        play.answer(asked, &params);
    }
    // All those are answered that the agent should have stopped.
    play.core.handle(Time(1_000), Event::Tick, &mut play.actions);
    let answers = play.actions.iter().filter(|it| {
        matches!(it, Action::Deliver { to: PROXY, message: Message::Response { .. }, .. })
    });
    assert_eq!(answers.count(), 2_000);
}
