//! What the router reports about a component that is replaced. The scripts show only the messages.

use acp_wire::{Id, Message, Side};
use bytes::Bytes;
use router::{
    Action, Chain, Component, Event, Exit, ExitCause, Mode, Outcome, Recovery, Router, Seat, Time,
};

const AGENT: Seat = Seat(1);

struct Talk(Router);

impl Talk {
    fn handle(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.0.handle(Time(0), event, &mut actions);
        actions
    }

    fn says(&mut self, from: Seat, toward: Side, line: &str) -> Vec<Action> {
        let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).expect("a message");
        self.handle(Event::Arrived { from, toward, message })
    }

    /// The agent answers `initialize`.
    fn answers(&mut self, id: &Id) -> Vec<Action> {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":1}}}}"#);
        self.says(AGENT, Side::Editor, &line)
    }
}

/// The id of the request that is delivered to the agent.
fn asked(actions: &[Action]) -> Id {
    let id = actions.iter().find_map(|action| match action {
        Action::Deliver { to: AGENT, message: Message::Request { id, .. }, .. } => Some(id.clone()),
        _ => None,
    });
    id.expect("a request for the agent")
}

#[test]
fn a_new_component_learns_between_its_greeting_and_the_messages_that_wait() {
    let mut talk = Talk(Router::new(Chain {
        mode: Mode::Agent,
        components: vec![Component::new("agent", "run-agent")],
        initialize_timeout: 1000,
        grace: 1000,
        any_version: false,
    }));
    let initialize =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    let greeting = asked(&talk.says(Seat::OUTER, Side::Agent, initialize));
    talk.answers(&greeting);
    assert!(!talk.0.is_replaying(AGENT));

    let exit = Exit { cause: ExitCause::Status(1), last_output: Vec::new() };
    let recovery = Recovery::Restart { at: Time(0), attempts: 1 };
    talk.handle(Event::Down { seat: AGENT, exit, recovery, lost: Vec::new() });
    let waits = talk.says(Seat::OUTER, Side::Agent, r#"{"jsonrpc":"2.0","method":"a"}"#);
    let (count, bytes) = talk.0.held(AGENT);
    assert_eq!((waits, count), (vec![], 1));
    assert!((5..1000).contains(&bytes), "{bytes} bytes");
    assert!(
        talk.0.may_hold_messages() && !talk.0.waits_for_held(Seat::OUTER),
        "nobody waits for an answer"
    );
    talk.says(Seat::OUTER, Side::Agent, r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#);
    assert!(talk.0.waits_for_held(Seat::OUTER) && !talk.0.waits_for_held(AGENT));
    assert!(talk.0.held(AGENT).1 > bytes);

    let greeting = asked(&talk.handle(Event::Restarted(AGENT)));
    assert!(!talk.0.is_replaying(AGENT));
    let told = talk.answers(&greeting);
    let is_result = |outcome: &Outcome| matches!(outcome, Outcome::Result(_));
    assert!(
        matches!(&told[..], [Action::Reinitialized { seat: AGENT, outcome }] if is_result(outcome)),
        "{told:?}"
    );
    assert!(talk.0.is_replaying(AGENT));

    let delivered = talk.handle(Event::Resumed(AGENT));
    let to_agent = |it: &Action| matches!(it, Action::Deliver { to: AGENT, .. });
    assert!(delivered.len() == 2 && delivered.iter().all(to_agent), "{delivered:?}");
    assert!(!talk.0.may_hold_messages() && !talk.0.waits_for_held(Seat::OUTER));
    assert_eq!((talk.0.is_replaying(AGENT), talk.0.held(AGENT)), (false, (0, 0)));
}
