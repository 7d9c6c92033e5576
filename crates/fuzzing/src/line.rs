//! Any bytes as one line, from anybody, in every generation of the proxy protocol.
//!
//! Nothing may panic; what is called JSON is what `serde_json` calls JSON; what was read can be
//! written, and then reads the same; what one end wraps, the other unwraps.

use acp_wire::dialect::{Generation, Outer, Plain, Proxy, Relay};
use acp_wire::{Call, DamagedLine, Dialect, Json, Malformed, Message, Side, acp};
use bytes::Bytes;
use serde_json::value::RawValue;

/// # Panics
/// If something of this does not hold.
pub fn check(data: &[u8]) {
    // Lines are what newlines separate.
    if data.contains(&b'\n') {
        return;
    }
    let line = Bytes::copy_from_slice(data);
    DamagedLine::read(&line);
    judge(&line);
    hear(&mut Plain::editor().into(), &line);
    hear(&mut Plain::agent().into(), &line);
    hear(&mut Relay::new(None).into(), &line);
    hear(&mut Outer::unknown().into(), &line);
    hear(&mut Proxy::unknown("x").into(), &line);
    let mut probing = Dialect::from(Proxy::unknown("x"));
    probing.encode(Side::Agent, &greeting(), &mut Vec::new());
    hear(&mut probing, &line);
    let parsed = Message::parse(&line).ok();
    if let Some(message) = &parsed {
        reads_the_same(message);
    }
    for generation in Generation::ALL.into_iter().filter(|it| *it != Generation::P0) {
        let (mut proxy, mut outer) = acquainted(generation);
        hear(&mut proxy, &line);
        hear(&mut outer, &line);
        if let Some(message) = parsed.as_ref().filter(|it| wraps(it)) {
            let (mut proxy, mut outer) = acquainted(generation);
            passes(&mut proxy, &mut outer, Side::Editor, message);
            let (mut proxy, mut outer) = acquainted(generation);
            passes(&mut outer, &mut proxy, Side::Agent, message);
        }
    }
}

/// Two readers agree on what is JSON.
fn judge(line: &Bytes) {
    let ours = !matches!(Message::parse(line), Err(Malformed::NotJson(_)));
    let theirs = serde_json::from_slice::<&RawValue>(line).is_ok();
    assert_eq!(ours, theirs);
}

/// Whatever is heard, what is said about it is well-formed.
fn hear(dialect: &mut Dialect, line: &Bytes) {
    let mut out = Vec::new();
    match dialect.decode(line, &mut out) {
        Ok(Some((_, message))) => reads_the_same(&message),
        Ok(None) => {}
        Err(rejection) => rejection.reply.iter().for_each(|reply| reads_the_same(reply)),
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
fn acquainted(generation: Generation) -> (Dialect, Dialect) {
    let mut proxy = Dialect::from(Proxy::pinned("x", generation));
    let mut outer = Dialect::from(Outer::pinned(generation));
    let mut greeted = Vec::new();
    proxy.encode(Side::Agent, &greeting(), &mut greeted);
    greeted.pop();
    outer.decode(&greeted.into(), &mut Vec::new()).expect("it is greeted in its own words");
    let mut forwarded = Vec::new();
    outer.encode(Side::Agent, &greeting(), &mut forwarded);
    forwarded.pop();
    proxy.decode(&forwarded.into(), &mut Vec::new()).expect("it answers in its own words");
    (proxy, outer)
}

/// What one end wraps, the other unwraps.
fn passes(from: &mut Dialect, to: &mut Dialect, toward: Side, message: &Message) {
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
        // The oldest generations cannot say that there are none.
        if call.params.is_none() && read.params == Some(Json::EMPTY) {
            call.params = Some(Json::EMPTY);
        }
    }
    assert_eq!(read, (toward, expected));
}

pub(crate) fn reads_the_same(message: &Message) {
    let mut line = Vec::new();
    message.write_line(&mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n'), "one line");
    assert_eq!(Message::parse(&line.into()).as_ref(), Ok(message));
}

/// Can an envelope carry all of this? Not params that JSON-RPC does not allow, nor members of the
/// message that would be the envelope's own, nor the words of the proxy protocol, nor what is never
/// wrapped.
pub(crate) fn wraps(message: &Message) -> bool {
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
