//! What the router reports about messages that skip a component. The scripts check only the messages.

use acp_wire::dialect::Generation;
use acp_wire::{Call, Json, Message, Side};
use bytes::Bytes;
use router::{Action, Chain, Component, Event, MessageKind, Mode, Router, Seat, Time};

const P1: Seat = Seat(1);
const GUARD: Seat = Seat(2);
const AGENT: Seat = Seat(3);

fn chain() -> Chain {
    let names = ["p1", "guard", "agent"];
    let component = |name| Component { guard: name == "guard", ..Component::new(name, name) };
    Chain {
        mode: Mode::Agent,
        components: names.map(component).into(),
        order: Chain::first_order(names.len()),
        initialize_timeout: 1000,
        grace: 1000,
        any_version: false,
    }
}

/// A router for components that can all read the updates of generation P4.
fn router() -> Router {
    let mut router = Router::new(chain());
    for seat in [P1, GUARD, AGENT] {
        router.set_readable_updates(seat, Generation::P4.update_schema());
    }
    router
}

fn send(router: &mut Router, from: Seat, toward: Side, line: &str) -> Vec<Action> {
    let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).expect("a message");
    let mut actions = Vec::new();
    router.handle(Time(0), Event::Arrived { from, toward, message }, &mut actions);
    actions
}

/// Initializes the chain. The agent answers with this result.
fn initialize(router: &mut Router, result: &str) {
    let initialize = |id: u8| {
        format!(
            r#"{{"id":{id},"method":"initialize","params":{{"protocolVersion":2,"info":{{}}}}}}"#
        )
    };
    for (from, id) in [(Seat::OUTER, 0), (P1, 1), (GUARD, 2)] {
        send(router, from, Side::Agent, &initialize(id));
    }
    for (from, id) in [(AGENT, 3), (GUARD, 2), (P1, 1)] {
        send(router, from, Side::Editor, &format!(r#"{{"id":"c:{id}","result":{result}}}"#));
    }
}

fn kind(method: &str) -> MessageKind {
    MessageKind { toward: Side::Agent, method: method.to_owned(), update: None }
}

#[test]
fn the_updates_that_skip_a_proxy_are_listed() {
    let mut router = router();
    let skipped = router.skipped_updates(P1);
    assert!(skipped.contains(&"usage_update") && !skipped.contains(&"plan"), "{skipped:?}");
    initialize(&mut router, r#"{"protocolVersion":1}"#);
    assert_eq!(router.skipped_updates(P1), skipped);
    // No message skips a guard, the agent, or a proxy whose SDKs read everything.
    for seat in [GUARD, AGENT, Seat::OUTER] {
        assert!(router.skipped_updates(seat).is_empty(), "{seat:?}");
    }
    assert!(Router::new(chain()).skipped_updates(P1).is_empty());
}

/// SDKs for ACP version 2 can read unknown updates.
#[test]
fn no_update_skips_a_proxy_in_acp_version_2() {
    let mut router = router();
    initialize(&mut router, r#"{"protocolVersion":2,"info":{}}"#);
    assert!(router.skipped_updates(P1).is_empty());
}

#[test]
fn a_skip_rule_is_added_once_and_their_number_is_limited() {
    let mut router = Router::new(chain());
    assert!(!router.add_skip_rule(GUARD, kind("a")) && !router.add_skip_rule(AGENT, kind("a")));
    assert!(
        !router.add_skip_rule(Seat::OUTER, kind("a")) && !router.add_skip_rule(Seat(9), kind("a"))
    );
    assert!(router.add_skip_rule(P1, kind("a")));
    assert!(!router.add_skip_rule(P1, kind("a")), "the rule exists already");
    let new = (0..100).filter(|n| router.add_skip_rule(P1, kind(&n.to_string()))).count();
    assert_eq!((new, router.skipped_kinds(P1).len()), (31, 32));
    assert!(router.skipped_kinds(GUARD).is_empty() && router.skipped_kinds(Seat::OUTER).is_empty());
}

/// Messages are of the same kind if the direction, the method and the kind of update are the same.
#[test]
fn only_messages_of_the_same_kind_skip_a_proxy() {
    let mut router = Router::new(chain());
    let update = |kind: &str| {
        let params = format!(r#"{{"update":{{"sessionUpdate":"{kind}"}}}}"#);
        Call::new("session/update", Json::trusted(params))
    };
    let plan = Message::Notification(update("plan"));
    let skipped = MessageKind::of(Side::Editor, &plan).expect("a kind");
    assert_eq!(skipped.update.as_deref(), Some("plan"));
    assert!(router.add_skip_rule(P1, skipped) && router.add_skip_rule(P1, kind("a")));
    let a = Call::new("a", Json::EMPTY_OBJECT);
    assert!(router.is_skipped(P1, Side::Editor, &update("plan")));
    assert!(router.is_skipped(P1, Side::Agent, &a));
    assert!(!router.is_skipped(P1, Side::Editor, &update("tool_call")));
    assert!(!router.is_skipped(P1, Side::Editor, &Call::new("session/update", Json::EMPTY_OBJECT)));
    assert!(!router.is_skipped(P1, Side::Agent, &update("plan")));
    assert!(!router.is_skipped(P1, Side::Editor, &a) && !router.is_skipped(GUARD, Side::Agent, &a));
}

/// Kinds are stored, so the length of their names is limited. An answer has no kind.
#[test]
fn a_message_with_a_very_long_name_has_no_kind() {
    let of = |method: &str| {
        MessageKind::of(Side::Agent, &Message::notification(method, Json::EMPTY_OBJECT))
            .map(|it| it.method)
    };
    let longest = "x".repeat(128);
    assert_eq!(of(&longest), Some(longest.clone()));
    assert_eq!(of(&"x".repeat(129)), None);
    let answer = Message::parse(&Bytes::from_static(br#"{"id":1,"result":{}}"#)).unwrap();
    assert_eq!(MessageKind::of(Side::Agent, &answer), None);
}

/// The watchdog and flow control use these numbers.
#[test]
fn messages_that_wait_to_skip_a_proxy_are_counted() {
    let mut router = router();
    initialize(&mut router, r#"{"protocolVersion":1}"#);
    assert!(router.add_skip_rule(P1, kind("a")));
    assert!(!router.may_hold_messages() && router.held(P1) == (0, 0));
    let request = |id| format!(r#"{{"id":{id},"method":"a","params":{{"text":"some text"}}}}"#);
    let sent = send(&mut router, Seat::OUTER, Side::Agent, &request(5));
    let [Action::Deliver { to: P1, message: Message::Request { id: barrier, .. }, .. }] = &sent[..]
    else {
        panic!("no barrier was sent: {sent:?}");
    };
    let (count, bytes) = router.held(P1);
    assert_eq!(count, 1);
    assert!((20..2000).contains(&bytes), "{bytes} bytes");
    assert_eq!(send(&mut router, Seat::OUTER, Side::Agent, &request(6)), []);
    assert_eq!(router.held(P1), (2, 2 * bytes));
    assert!(router.may_hold_messages());
    assert!(router.waits_for_held(Seat::OUTER));
    assert!(!router.waits_for_held(AGENT) && !router.waits_for_held(P1));
    assert!(router.held(GUARD) == (0, 0) && router.held(Seat::OUTER) == (0, 0));
    let released =
        send(&mut router, P1, Side::Editor, &format!(r#"{{"id":{barrier},"result":{{}}}}"#));
    assert!(matches!(&released[..], [Action::Deliver { to: GUARD, .. }, Action::Deliver { .. }]));
    assert!(!router.may_hold_messages() && !router.waits_for_held(Seat::OUTER));
    assert_eq!(router.held(P1), (0, 0));
}
