//! Any bytes as one line, from anybody.
//!
//! Nothing may panic; what is called JSON is what `serde_json` calls JSON; what was read can be
//! written, and then reads the same.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use wire::dialect::{Plain, Rfd};
use wire::{Call, Dialect, Malformed, Message, Side, acp, message};

fuzz_target!(|data: &[u8]| {
    // Lines are what newlines separate.
    if data.contains(&b'\n') {
        return;
    }
    let line = Bytes::copy_from_slice(data);
    message::salvage(&line);
    judge(&line);
    if let Ok(message) = Message::parse(&line) {
        reads_the_same(&message);
    }
    round_trip(&mut Plain::editor(), &mut Plain::agent(), &line);
    round_trip(&mut Plain::agent(), &mut Plain::editor(), &line);
    round_trip(&mut Rfd::proxy(), &mut Rfd::outer(), &line);
    round_trip(&mut Rfd::outer(), &mut Rfd::proxy(), &line);
});

/// Two readers agree on what is JSON.
fn judge(line: &Bytes) {
    let ours = !matches!(Message::parse(line), Err(Malformed::NotJson(_)));
    let theirs = serde_json::from_slice::<&RawValue>(line).is_ok();
    assert_eq!(ours, theirs);
}

/// What `reader` reads, its peer could have written, and then it reads the same again.
fn round_trip(reader: &mut dyn Dialect, peer: &mut dyn Dialect, line: &Bytes) {
    let (side, message) = match reader.decode(line) {
        Ok(read) => read,
        Err(rejection) => {
            if let Some(reply) = rejection.reply {
                reads_the_same(&reply);
            }
            return;
        }
    };
    reads_the_same(&message);
    let again = reader.decode(&encode(peer, side, &message));
    let (side_again, message_again) = again.expect("what was read is read again");
    assert_eq!(message, message_again);
    // Answers and cancellations are plain, wherever they go.
    if !matches!(message, Message::Response { .. }) && !is_cancel(&message) {
        assert_eq!(side, side_again);
    }
    if wraps(&message) && !is_cancel(&message) {
        through_an_envelope(&message);
    }
}

/// A proxy takes out of an envelope what its conductor has put there.
fn through_an_envelope(message: &Message) {
    let line = encode(&mut Rfd::proxy(), Side::Editor, message);
    match Rfd::outer().decode(&line) {
        Ok(read) => assert_eq!(read, (Side::Editor, message.clone())),
        // Envelopes do not stack, and nobody but a conductor greets.
        Err(rejection) => assert!(matches!(rejection.why, Malformed::NotAMessage { .. })),
    }
}

fn reads_the_same(message: &Message) {
    let mut line = Vec::new();
    message.write_line(&mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n'), "one line");
    assert_eq!(Message::parse(&line.into()).as_ref(), Ok(message));
}

fn encode(dialect: &mut dyn Dialect, toward: Side, message: &Message) -> Bytes {
    let mut line = Vec::new();
    dialect.encode(toward, message, &mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    line.into()
}

fn is_cancel(message: &Message) -> bool {
    matches!(message, Message::Notification(call) if call.is(acp::CANCEL_REQUEST))
}

/// Can an envelope carry all of this? Not params that JSON-RPC does not allow, nor members of the
/// message that would be the envelope's own.
fn wraps(message: &Message) -> bool {
    let fits = |call: &Call| {
        let params = call.params.as_ref();
        call.extras.is_none() && params.is_none_or(|it| it.is_object() || it.is_array())
    };
    match message {
        Message::Request { call, .. } | Message::Notification(call) => fits(call),
        Message::Response { .. } => false,
    }
}
