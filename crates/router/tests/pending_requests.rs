//! What the router reports about pending requests.

use acp_wire::{Id, Message, Side};
use bytes::Bytes;
use router::{Action, Chain, Component, Event, Mode, Router, Seat, Time};

const P1: Seat = Seat(1);
const AGENT: Seat = Seat(2);

fn send(router: &mut Router, from: Seat, toward: Side, line: &str) -> Vec<Action> {
    let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).expect("a message");
    let mut actions = Vec::new();
    router.handle(Time(0), Event::Arrived { from, toward, message }, &mut actions);
    actions
}

/// The router of an initialized chain with one proxy and an agent.
fn initialized_router() -> Router {
    let mut router = Router::new(Chain {
        mode: Mode::Agent,
        components: vec![Component::new("p1", "p1"), Component::new("agent", "agent")],
        order: Chain::first_order(2),
        initialize_timeout: 1000,
        grace: 1000,
        any_version: false,
    });
    let initialize = r#"{"id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    assert!(!router.has_started());
    for from in [Seat::OUTER, P1] {
        send(&mut router, from, Side::Agent, initialize);
    }
    for (from, id) in [(AGENT, 2), (P1, 1)] {
        let answer = format!(r#"{{"id":"c:{id}","result":{{"protocolVersion":1}}}}"#);
        send(&mut router, from, Side::Editor, &answer);
    }
    assert!(
        router.has_started() && router.open_request_count() == 0 && router.kept_param_bytes() == 0
    );
    router
}

/// The params of a request are kept to recognise it when a proxy forwards it. Short params are not counted.
#[test]
fn pending_requests_are_counted_until_they_are_answered() {
    let mut router = initialized_router();
    let params = format!(r#"{{"text":"{}"}}"#, "x".repeat(2000));
    let request =
        |id: u8, method: &str| format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
    for (id, method) in [(5, "m"), (6, "m"), (7, "other")] {
        send(&mut router, Seat::OUTER, Side::Agent, &request(id, method));
    }
    assert_eq!(router.kept_param_bytes(), 3 * params.len());
    assert_eq!(
        (router.open_request_count(), router.owed_count(P1), router.owed_count(AGENT)),
        (3, 3, 0)
    );
    assert!(router.has_open_request(Seat::OUTER, "m") && !router.has_open_request(P1, "m"));
    let ids: Vec<Id> = router.requests_with_ids().map(|(id, _)| id).collect();
    assert_eq!(ids, ["c:3", "c:4", "c:5"].map(Id::string));
    assert!(router.owes(P1, &ids[0]) && !router.owes(AGENT, &ids[0]));
    assert_eq!(router.request(&ids[2]).map(|request| request.method.as_str()), Some("other"));

    let mut answer = |from: Seat, id: &Id| {
        send(&mut router, from, Side::Editor, &format!(r#"{{"id":{id},"result":{{}}}}"#));
        (
            router.open_request_count(),
            router.kept_param_bytes(),
            router.has_open_request(Seat::OUTER, "m"),
        )
    };
    let size = params.len();
    // Only the responder may answer.
    assert_eq!(answer(AGENT, &ids[0]), (3, 3 * size, true));
    assert_eq!(answer(P1, &ids[0]), (2, 2 * size, true));
    assert_eq!(answer(P1, &ids[0]), (2, 2 * size, true));
    assert_eq!(answer(P1, &ids[1]), (1, size, false));
    assert_eq!(answer(P1, &ids[2]), (0, 0, false));
    assert!(router.requests_with_ids().next().is_none() && !router.owes(P1, &ids[2]));
}

#[test]
fn the_size_of_kept_params_is_limited() {
    let mut router = initialized_router();
    let mut send_request = |id: usize, length: usize| {
        let text = "x".repeat(length - r#"{"text":""}"#.len());
        let line = format!(r#"{{"id":{id},"method":"m","params":{{"text":"{text}"}}}}"#);
        send(&mut router, Seat::OUTER, Side::Agent, &line);
        router.kept_param_bytes()
    };
    assert_eq!(send_request(1, 1024), 0);
    assert_eq!(send_request(2, 1025), 1025);
    assert_eq!(send_request(3, 64 * 1024 + 1), 1025);
    assert_eq!(send_request(4, 64 * 1024), 1025 + 64 * 1024);
    for number in 0..300 {
        send_request(5 + number, 64 * 1024);
    }
    let most = 16 * 1024 * 1024;
    let kept = send_request(400, 64 * 1024);
    assert!((most - 64 * 1024..=most).contains(&kept), "{kept} bytes");
    assert_eq!(send_request(401, most - kept), most, "the limit is used up");
}
