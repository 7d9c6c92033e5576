//! What the router reports about messages that go around a component. The scripts show only the messages.

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
        initialize_timeout: 1000,
        grace: 1000,
        any_version: false,
    }
}

/// A chain whose components can all read what the SDKs of generation P4 can read.
fn router() -> Router {
    let mut router = Router::new(chain());
    for seat in [P1, GUARD, AGENT] {
        router.set_readable_updates(seat, Generation::P4.updates());
    }
    router
}

fn says(router: &mut Router, from: Seat, toward: Side, line: &str) -> Vec<Action> {
    let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).expect("a message");
    let mut actions = Vec::new();
    router.handle(Time(0), Event::Arrived { from, toward, message }, &mut actions);
    actions
}

/// The chain is initialised; the agent gives this result.
fn initialize(router: &mut Router, result: &str) {
    let initialize = |id: u8| {
        format!(
            r#"{{"id":{id},"method":"initialize","params":{{"protocolVersion":2,"info":{{}}}}}}"#
        )
    };
    for (from, id) in [(Seat::OUTER, 0), (P1, 1), (GUARD, 2)] {
        says(router, from, Side::Agent, &initialize(id));
    }
    for (from, id) in [(AGENT, 3), (GUARD, 2), (P1, 1)] {
        says(router, from, Side::Editor, &format!(r#"{{"id":"c:{id}","result":{result}}}"#));
    }
}

fn kind(method: &str) -> MessageKind {
    MessageKind { toward: Side::Agent, method: method.to_owned(), update: None }
}

#[test]
fn the_updates_that_go_around_a_proxy_are_listed() {
    let mut router = router();
    let around = router.skipped_updates(P1);
    assert!(around.contains(&"usage_update") && !around.contains(&"plan"), "{around:?}");
    initialize(&mut router, r#"{"protocolVersion":1}"#);
    assert_eq!(router.skipped_updates(P1), around);
    // Nothing goes around a guard or the agent, nor around a proxy whose SDKs read everything.
    for seat in [GUARD, AGENT, Seat::OUTER] {
        assert!(router.skipped_updates(seat).is_empty(), "{seat:?}");
    }
    assert!(Router::new(chain()).skipped_updates(P1).is_empty());
}

/// In ACP version 2 the schema itself has room for what is new.
#[test]
fn no_update_goes_around_a_proxy_in_acp_version_2() {
    let mut router = router();
    initialize(&mut router, r#"{"protocolVersion":2,"info":{}}"#);
    assert!(router.skipped_updates(P1).is_empty());
}

#[test]
fn a_proxy_is_skipped_a_kind_of_message_once_and_a_limited_number_of_kinds() {
    let mut router = Router::new(chain());
    assert!(!router.add_skip_rule(GUARD, kind("a")) && !router.add_skip_rule(AGENT, kind("a")));
    assert!(
        !router.add_skip_rule(Seat::OUTER, kind("a")) && !router.add_skip_rule(Seat(9), kind("a"))
    );
    assert!(router.add_skip_rule(P1, kind("a")));
    assert!(!router.add_skip_rule(P1, kind("a")), "it is spared this kind already");
    let new = (0..100).filter(|n| router.add_skip_rule(P1, kind(&n.to_string()))).count();
    assert_eq!((new, router.skipped_kinds(P1).len()), (31, 32));
    assert!(router.skipped_kinds(GUARD).is_empty() && router.skipped_kinds(Seat::OUTER).is_empty());
}

/// A message is of a kind if its direction, its method and the kind of its update are the same.
#[test]
fn only_messages_of_the_same_kind_are_spared() {
    let mut router = Router::new(chain());
    let update = |kind: &str| {
        let params = format!(r#"{{"update":{{"sessionUpdate":"{kind}"}}}}"#);
        Call::new("session/update", Json::trusted(params))
    };
    let plan = Message::Notification(update("plan"));
    let spared = MessageKind::of(Side::Editor, &plan).expect("a kind");
    assert_eq!(spared.update.as_deref(), Some("plan"));
    assert!(router.add_skip_rule(P1, spared) && router.add_skip_rule(P1, kind("a")));
    let a = Call::new("a", Json::EMPTY);
    assert!(router.is_skipped(P1, Side::Editor, &update("plan")));
    assert!(router.is_skipped(P1, Side::Agent, &a));
    assert!(!router.is_skipped(P1, Side::Editor, &update("tool_call")));
    assert!(!router.is_skipped(P1, Side::Editor, &Call::new("session/update", Json::EMPTY)));
    assert!(!router.is_skipped(P1, Side::Agent, &update("plan")));
    assert!(!router.is_skipped(P1, Side::Editor, &a) && !router.is_skipped(GUARD, Side::Agent, &a));
}

/// Names are remembered, so their length is limited. An answer has no kind.
#[test]
fn a_message_with_a_very_long_name_has_no_kind() {
    let of = |method: &str| {
        MessageKind::of(Side::Agent, &Message::notification(method, Json::EMPTY))
            .map(|it| it.method)
    };
    let longest = "x".repeat(128);
    assert_eq!(of(&longest), Some(longest.clone()));
    assert_eq!(of(&"x".repeat(129)), None);
    let answer = Message::parse(&Bytes::from_static(br#"{"id":1,"result":{}}"#)).unwrap();
    assert_eq!(MessageKind::of(Side::Agent, &answer), None);
}

/// The watchdog does not run for a component that waits, and flow control counts what waits.
#[test]
fn messages_that_wait_to_go_around_a_proxy_are_counted() {
    let mut router = router();
    initialize(&mut router, r#"{"protocolVersion":1}"#);
    assert!(router.add_skip_rule(P1, kind("a")));
    assert!(!router.may_hold_messages() && router.held(P1) == (0, 0));
    let ask = |id| format!(r#"{{"id":{id},"method":"a","params":{{"text":"some text"}}}}"#);
    let sent = says(&mut router, Seat::OUTER, Side::Agent, &ask(5));
    let [Action::Deliver { to: P1, message: Message::Request { id: barrier, .. }, .. }] = &sent[..]
    else {
        panic!("a barrier is sent: {sent:?}");
    };
    let (count, bytes) = router.held(P1);
    assert_eq!(count, 1);
    assert!((20..2000).contains(&bytes), "{bytes} bytes");
    assert_eq!(says(&mut router, Seat::OUTER, Side::Agent, &ask(6)), []);
    assert_eq!(router.held(P1), (2, 2 * bytes));
    assert!(router.may_hold_messages());
    assert!(router.waits_for_held(Seat::OUTER));
    assert!(!router.waits_for_held(AGENT) && !router.waits_for_held(P1));
    assert!(router.held(GUARD) == (0, 0) && router.held(Seat::OUTER) == (0, 0));
    let passed =
        says(&mut router, P1, Side::Editor, &format!(r#"{{"id":{barrier},"result":{{}}}}"#));
    assert!(matches!(&passed[..], [Action::Deliver { to: GUARD, .. }, Action::Deliver { .. }]));
    assert!(!router.may_hold_messages() && !router.waits_for_held(Seat::OUTER));
    assert_eq!(router.held(P1), (0, 0));
}
