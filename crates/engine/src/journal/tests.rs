//! Every input and every output can be written and read back.

use std::fmt::Debug;

use acp_wire::dialect::{Generation, Greeting};
use acp_wire::message::{PartialMessage, ScanResult};
use acp_wire::{Id, Json, LinkProtocol, Message, Side};
use mcp::{ClientId, Endpoint, Ticket};
use router::{
    Chain, Component, Diagnostic, Ending, ExitCause, Level, MessageKind, Mode, Seat, StartFailure,
    UpdateFilter,
};

use super::*;
use crate::flow_control::Watermarks;
use crate::input::{Command, Facts, KeptTelemetry, Line, Observation, Port};
use crate::policy::{Backoff, ComponentPolicy, Fallback, Restart, Rules, Timeouts};

fn written(value: &impl Codec) -> String {
    let mut text = Vec::new();
    value.write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

/// Checks that a value is the same after it was written and read, and that its text has no line break.
fn round_trip<T: Codec + Debug>(value: &T) -> String {
    let text = written(value);
    assert!(!text.contains('\n'), "{text}");
    let read = T::read(&Json::parse(text.clone()).expect(&text)).expect(&text);
    assert_eq!(format!("{read:?}"), format!("{value:?}"));
    assert_eq!(written(&read), text);
    text
}

fn message() -> Message {
    let line =
        r#"{"jsonrpc":"2.0","id":"\u0041","method":"a\/b","params":{"n":1.10,"m":1e400},"x":[]}"#;
    Message::parse(&line.into()).expect("a message")
}

fn setup() -> Setup {
    let policy = ComponentPolicy {
        restart: Restart::IfResumable,
        fallback: Fallback::Stop,
        backoff: Backoff::default(),
        named: true,
    };
    let kind = MessageKind { toward: Side::Agent, method: "m".into(), update: Some("plan".into()) };
    Setup {
        chain: Chain {
            mode: Mode::Proxy,
            components: vec![Component {
                name: "é \"\n\u{1}\u{2028}".into(),
                command: "c".into(),
                guard: true,
                updates: UpdateFilter::Known,
                managed: true,
            }],
            order: Chain::first_order(1),
            initialize_timeout: 1,
            grace: u64::MAX,
            any_version: true,
        },
        rules: Rules {
            policies: vec![
                policy,
                ComponentPolicy { restart: Restart::Never, fallback: Fallback::Bypass, ..policy },
                ComponentPolicy { restart: Restart::Always, ..policy },
            ],
            timeouts: Timeouts { answer: Some(1), prompt: None, cancel: Some(3) },
            notify_editor: true,
            seed: u64::MAX - 1,
        },
        bridge: Some(mcp::BridgePolicy::Only(mcp::Transport::Http)),
        nonce: "w".into(),
        nested: true,
        forwards_telemetry: false,
        about: crate::input::About { version: "0.1".into(), chain: Some("work".into()) },
        kept_telemetry: KeptTelemetry::Of(Vec::new()),
        max_line: usize::MAX,
        watermarks: Watermarks { high: 4, low: 3, cap: 2, mcp: 1 },
        facts: vec![
            Facts {
                generation: Some(Generation::P3t),
                greeting: Some(Greeting::Underscore),
                poison: vec![kind.clone(), MessageKind { update: None, ..kind }],
            },
            Facts::default(),
        ],
        tapped: true,
        start_notices: Vec::new(),
    }
}

#[test]
fn a_setup_can_be_read_back() {
    round_trip(&setup());
    round_trip(&Setup { bridge: Some(mcp::BridgePolicy::Auto), ..setup() });
    round_trip(&Setup { bridge: None, ..setup() });
    for generation in [
        Generation::P0,
        Generation::P1,
        Generation::P2,
        Generation::P3t,
        Generation::P3,
        Generation::P4,
        Generation::P5,
    ] {
        round_trip(&LinkProtocol::Generation(generation));
    }
    assert_eq!(round_trip(&Some(Greeting::Capability)), "\"Capability\"");
}

#[test]
fn every_input_can_be_read_back() {
    let link = LinkId { seat: Seat(3), port: Port::Relay };
    let (seat, incarnation) = (Seat(2), 7);
    let (ticket, client_id) = (Ticket(u64::MAX), ClientId(4));
    let line = || Line::Text("{\"a\":\"\\u00e9\"}\r".into());
    let found = ScanResult {
        messages: vec![PartialMessage {
            ids: vec![Id::NULL, Id::string("x"), Id::from(5)],
            call: true,
            answer: false,
            jsonrpc: true,
        }],
        more_answers: 9,
        is_damaged: true,
        looks_like_json: true,
    };
    let servers = Json::parse(r#"{"b":1.10, "a":[null]}"#).expect("JSON");
    let stdio = Endpoint::Stdio {
        program: "p".into(),
        port: u16::MAX,
        variable: "V".into(),
        secret: "s".into(),
    };
    let http = Endpoint::Http { url: "u".into(), secret: "s".into() };
    for input in [
        Input::Line { link, line: line() },
        Input::Line { link, line: Line::Text(vec![0xff, 0, 0x0a].into()) },
        Input::Line { link, line: Line::Text(Bytes::new()) },
        Input::Line { link, line: Line::TooLong { found: Box::new(found), length: 12 } },
        Input::Readable { link, readable: true },
        Input::OutputClosed { link, rest: Some(line()) },
        Input::OutputClosed { link, rest: None },
        Input::Written { link, count: 1 },
        Input::InputClosed(link),
        Input::NotStarted { seat, incarnation, why: StartFailure::other("w") },
        Input::Stderr { seat, incarnation, lines: vec!["a".into(), "\u{fffd}\0".into()] },
        Input::RelayOpened { seat, incarnation, servers: Ok(servers) },
        Input::RelayOpened { seat, incarnation, servers: Err("no".into()) },
        Input::RelayConnected { seat, incarnation },
        Input::Extended(Ok(Box::new(setup()))),
        Input::Extended(Err("no".into())),
        Input::ClientConnected { ticket, client_id },
        Input::ClientMessage { client_id, line: "l".into() },
        Input::ClientDisconnected(client_id),
        Input::EndpointOpened { ticket, endpoint: Ok(stdio) },
        Input::EndpointOpened { ticket, endpoint: Ok(http) },
        Input::EndpointOpened { ticket, endpoint: Err("no".into()) },
        Input::Configured { request: 7, answer: Err("no".into()) },
        Input::Configured {
            request: 7,
            answer: Ok(crate::input::Configured { result: Json::EMPTY_OBJECT, restart: true }),
        },
        Input::Command(Command::Stop),
        Input::Command(Command::Restart(seat)),
        Input::Command(Command::Bypass(seat)),
        Input::Command(Command::Hold(seat)),
        Input::Command(Command::Release(seat)),
        Input::Tick,
    ] {
        round_trip(&input);
    }
    for how in [
        ExitCause::NotStarted(StartFailure::other("w")),
        ExitCause::Status(-1),
        ExitCause::Signal(9),
        ExitCause::Ended("e".into()),
        ExitCause::ClosedOutput,
        ExitCause::ClosedInput,
        ExitCause::ClosedSuccessor,
        ExitCause::ByCommand,
        ExitCause::InitializeTimeout(1),
        ExitCause::RefusedInitialize("r".into()),
        ExitCause::Unresponsive { method: "m".into(), limit: 1 },
        ExitCause::Uncancellable { method: "m".into(), limit: 2 },
        ExitCause::StoppedReading(3),
    ] {
        round_trip(&Input::Exited { seat, incarnation, how });
    }
}

#[test]
fn every_output_can_be_read_back() {
    let link = LinkId { seat: Seat(0), port: Port::Main };
    let (seat, incarnation) = (Seat(2), 7);
    let (ticket, client_id) = (Ticket(1), ClientId(4));
    let (toward, dialect) = (Side::Editor, LinkProtocol::Plain);
    let notice = |level| Diagnostic { level, seat, text: "t".into() };
    for output in [
        Output::Start { seat, incarnation },
        Output::Kill(seat),
        Output::Discard(seat),
        Output::Close(link),
        Output::Read { link, read: false },
        Output::ReadClients(true),
        Output::OpenRelay { seat, incarnation },
        Output::Extend(Json::EMPTY_OBJECT),
        Output::SendToClient { client_id, message: message() },
        Output::DisconnectClient(client_id),
        Output::OpenEndpoint { ticket, transport: mcp::Transport::Stdio },
        Output::RevokeTicket(ticket),
        Output::Configure {
            request: 7,
            seat,
            operation: acp_wire::config::Operation::Set,
            values: Json::EMPTY_OBJECT,
        },
        Output::ApplyOptions { request: 7 },
        Output::DropOptions { request: u64::MAX },
        Output::RememberGreeting { seat, greeting: Some(Greeting::Proxy) },
        Output::RememberGreeting { seat, greeting: None },
        Output::RememberPoison {
            seat,
            kind: MessageKind { toward, method: "m".into(), update: None },
        },
        Output::Report(notice(Level::Warn)),
        Output::Report(notice(Level::Debug)),
        Output::Tap(Observation::Arrived { seat, toward, dialect, message: message() }),
        Output::Tap(Observation::Delivered {
            seat,
            toward,
            dialect: LinkProtocol::Unknown,
            message: message(),
        }),
        Output::Tap(Observation::Telemetry { seat, message: message() }),
        Output::Tap(Observation::Ended { seat, how: "h".into() }),
        Output::Finish(Ending::Clean),
        Output::Finish(Ending::Failed("f".into())),
    ] {
        let text = round_trip(&output);
        let read = Output::read(&Json::parse(text).expect("JSON")).expect("an output");
        assert_eq!(read, output);
    }
}

#[test]
fn the_format_is_readable() {
    let link = LinkId { seat: Seat(1), port: Port::Main };
    let input = Input::Line { link, line: Line::Text("{\"a\":1.0}".into()) };
    let text = r#"{"Line":{"link":{"seat":1,"port":"Main"},"line":{"Text":"{\"a\":1.0}"}}}"#;
    assert_eq!(written(&input), text);
    assert_eq!(written(&Input::Tick), "\"Tick\"");
    assert_eq!(written(&Bytes::from_static(b"\xff\x0a")), r#"{"hex":"ff0a"}"#);
    assert!(written(&message()).contains(r#"\"n\":1.10"#), "{}", written(&message()));
}
