//! Any bytes as one line, from any peer, in every generation of the proxy protocol.
//!
//! Invariants: nothing panics. The parser accepts the same JSON as `serde_json`. A parsed message can be written and
//! parsed again with the same result. What one end wraps, the other end unwraps.

use acp_wire::dialect::{Generation, Outer, Plain, Proxy, Relay};
use acp_wire::{Call, DamagedLine, Dialect, Json, Malformed, Message, Side, acp};
use bytes::Bytes;
use serde_json::value::RawValue;

/// # Panics
/// If an invariant does not hold.
pub fn check(data: &[u8]) {
    // A line has no newline.
    if data.contains(&b'\n') {
        return;
    }
    let line = Bytes::copy_from_slice(data);
    DamagedLine::read(&line);
    check_is_json(&line);
    check_decode(&mut Plain::editor().into(), &line);
    check_decode(&mut Plain::agent().into(), &line);
    check_decode(&mut Relay::new(None).into(), &line);
    check_decode(&mut Outer::unknown().into(), &line);
    check_decode(&mut Proxy::unknown("x").into(), &line);
    let mut probing = Dialect::from(Proxy::unknown("x"));
    probing.encode(Side::Agent, &greeting(), &mut Vec::new());
    check_decode(&mut probing, &line);
    let parsed = Message::parse(&line).ok();
    if let Some(message) = &parsed {
        assert_round_trips(message);
    }
    for generation in Generation::ALL.into_iter().filter(|it| *it != Generation::P0) {
        let (mut proxy, mut outer) = initialized_pair(generation);
        check_decode(&mut proxy, &line);
        check_decode(&mut outer, &line);
        if let Some(message) = parsed.as_ref().filter(|it| can_be_wrapped(it)) {
            let (mut proxy, mut outer) = initialized_pair(generation);
            check_wrapping(&mut proxy, &mut outer, Side::Editor, message);
            let (mut proxy, mut outer) = initialized_pair(generation);
            check_wrapping(&mut outer, &mut proxy, Side::Agent, message);
        }
    }
}

/// Checks that the parser accepts the same JSON as `serde_json`.
fn check_is_json(line: &Bytes) {
    let ours = !matches!(Message::parse(line), Err(Malformed::NotJson(_)));
    let theirs = serde_json::from_slice::<&RawValue>(line).is_ok();
    assert_eq!(ours, theirs);
}

/// Decodes a line. The message and the replies must be well-formed.
fn check_decode(dialect: &mut Dialect, line: &Bytes) {
    let mut out = Vec::new();
    match dialect.decode(line, &mut out) {
        Ok(Some((_, message))) => assert_round_trips(&message),
        Ok(None) => {}
        Err(rejection) => rejection.reply.iter().for_each(|reply| assert_round_trips(reply)),
    }
    for line in out.split_inclusive(|&byte| byte == b'\n') {
        assert!(Message::parse(&Bytes::copy_from_slice(line)).is_ok());
    }
}

pub(crate) fn greeting() -> Message {
    let params = Json::trusted(r#"{"protocolVersion":1,"clientCapabilities":{}}"#);
    Message::request(acp_wire::Id::string("c:1"), acp::INITIALIZE, params)
}

/// Both ends of a link to a proxy of this generation, after their handshake.
fn initialized_pair(generation: Generation) -> (Dialect, Dialect) {
    let mut proxy = Dialect::from(Proxy::pinned("x", generation));
    let mut outer = Dialect::from(Outer::pinned(generation));
    let mut greeted = Vec::new();
    proxy.encode(Side::Agent, &greeting(), &mut greeted);
    greeted.pop();
    outer
        .decode(&greeted.into(), &mut Vec::new())
        .expect("the greeting has the form of this generation");
    let mut forwarded = Vec::new();
    outer.encode(Side::Agent, &greeting(), &mut forwarded);
    forwarded.pop();
    proxy
        .decode(&forwarded.into(), &mut Vec::new())
        .expect("the answer has the form of this generation");
    (proxy, outer)
}

/// Checks that one end unwraps what the other end wraps.
fn check_wrapping(from: &mut Dialect, to: &mut Dialect, toward: Side, message: &Message) {
    let mut line = Vec::new();
    from.encode(toward, message, &mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    let read =
        to.decode(&line.into(), &mut Vec::new()).expect("it is read").expect("it is passed on");
    let mut expected = message.clone();
    if let Message::Request { call, .. } | Message::Notification(call) = &mut expected {
        let (_, Message::Request { call: read, .. } | Message::Notification(read)) = &read else {
            panic!("a call stays a call");
        };
        // The oldest generations cannot omit params.
        if call.params.is_none() && read.params == Some(Json::EMPTY_OBJECT) {
            call.params = Some(Json::EMPTY_OBJECT);
        }
    }
    assert_eq!(read, (toward, expected));
}

pub(crate) fn assert_round_trips(message: &Message) {
    let mut line = Vec::new();
    message.write_line(&mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n'), "one line");
    assert_eq!(Message::parse(&line.into()).as_ref(), Ok(message));
}

/// Whether an envelope can carry this message. It cannot carry params that JSON-RPC does not allow, additional members
/// of the message, methods of the proxy protocol, and methods that are never wrapped.
pub(crate) fn can_be_wrapped(message: &Message) -> bool {
    let fits = |call: &Call| {
        let name = call.method.name();
        let params = call.params.as_ref();
        call.extras.is_none()
            && params.is_none_or(|it| it.is_object() || it.is_array())
            && ![acp::CANCEL_REQUEST, acp::INITIALIZE].contains(&name.as_ref())
            && !["proxy/", "_proxy/", "_scp/"].iter().any(|prefix| name.starts_with(prefix))
    };
    match message {
        Message::Request { call, .. } | Message::Notification(call) => fits(call),
        Message::Response { .. } => false,
    }
}
