//! What the router reports about a component that is restarted. The scripts check only the messages.

use acp_wire::{Id, Message, Side};
use bytes::Bytes;
use router::{
    Action, Chain, Component, Event, Exit, ExitCause, Mode, Outcome, Recovery, Router, Seat, Time,
};

const AGENT: Seat = Seat(1);

struct TestRouter(Router);

impl TestRouter {
    fn handle(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.0.handle(Time(0), event, &mut actions);
        actions
    }

    fn send(&mut self, from: Seat, toward: Side, line: &str) -> Vec<Action> {
        let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).expect("a message");
        self.handle(Event::Arrived { from, toward, message })
    }

    /// Answers `initialize` as the agent.
    fn answer_initialize(&mut self, id: &Id) -> Vec<Action> {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":1}}}}"#);
        self.send(AGENT, Side::Editor, &line)
    }
}

/// The id of the request that is delivered to the agent.
fn request_id(actions: &[Action]) -> Id {
    let id = actions.iter().find_map(|action| match action {
        Action::Deliver { to: AGENT, message: Message::Request { id, .. }, .. } => Some(id.clone()),
        _ => None,
    });
    id.expect("a request for the agent")
}

#[test]
fn sessions_are_replayed_between_initialize_and_the_held_messages() {
    let mut router = TestRouter(Router::new(Chain {
        mode: Mode::Agent,
        components: vec![Component::new("agent", "run-agent")],
        order: Chain::first_order(1),
        initialize_timeout: 1000,
        grace: 1000,
        any_version: false,
    }));
    let initialize =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    let initialize_id = request_id(&router.send(Seat::OUTER, Side::Agent, initialize));
    router.answer_initialize(&initialize_id);
    assert!(!router.0.is_replaying(AGENT));

    let exit = Exit::new(ExitCause::Status(1));
    let recovery = Recovery::Restart { at: Time(0), attempts: 1 };
    router.handle(Event::Down { seat: AGENT, exit, recovery, lost: Vec::new() });
    let delivered = router.send(Seat::OUTER, Side::Agent, r#"{"jsonrpc":"2.0","method":"a"}"#);
    let (count, bytes) = router.0.held(AGENT);
    assert_eq!((delivered, count), (vec![], 1));
    assert!((5..1000).contains(&bytes), "{bytes} bytes");
    assert!(
        router.0.may_hold_messages() && !router.0.waits_for_held(Seat::OUTER),
        "a held notification has no answer"
    );
    router.send(Seat::OUTER, Side::Agent, r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#);
    assert!(router.0.waits_for_held(Seat::OUTER) && !router.0.waits_for_held(AGENT));
    assert!(router.0.held(AGENT).1 > bytes);

    let initialize_id = request_id(&router.handle(Event::Restarted(AGENT)));
    assert!(!router.0.is_replaying(AGENT));
    let actions = router.answer_initialize(&initialize_id);
    let is_result = |outcome: &Outcome| matches!(outcome, Outcome::Result(_));
    assert!(
        matches!(&actions[..], [Action::Reinitialized { seat: AGENT, outcome }] if is_result(outcome)),
        "{actions:?}"
    );
    assert!(router.0.is_replaying(AGENT));

    let delivered = router.handle(Event::Resumed(AGENT));
    let to_agent = |it: &Action| matches!(it, Action::Deliver { to: AGENT, .. });
    assert!(delivered.len() == 2 && delivered.iter().all(to_agent), "{delivered:?}");
    assert!(!router.0.may_hold_messages() && !router.0.waits_for_held(Seat::OUTER));
    assert_eq!((router.0.is_replaying(AGENT), router.0.held(AGENT)), (false, (0, 0)));
}
