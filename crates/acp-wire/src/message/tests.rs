use super::*;

fn parse(line: &str) -> Result<Message, Malformed> {
    Message::parse(&Bytes::copy_from_slice(line.as_bytes()))
}

#[track_caller]
fn round_trips(line: &str) {
    assert_eq!(parse(line).unwrap().to_line(), line);
}

#[test]
fn a_message_is_written_as_it_was_spelled() {
    round_trips(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#);
    round_trips(
        r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"a","params":[]}"#,
    );
    round_trips(
        r#"{"jsonrpc":"2.0","id":"x\u0041","method":"session\/update","params":{ "b" : 1.10, "a":1e400, "a":"\ud800" }}"#,
    );
    round_trips(r#"{"jsonrpc":"2.0","method":"a","params":null}"#);
    round_trips(r#"{"jsonrpc":"2.0","id":null,"result":null}"#);
    round_trips(
        r#"{"jsonrpc":"2.0","id":-7,"error":{"code":12345678901,"message":"m","data":null,"more":[1]}}"#,
    );
    round_trips(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"trace":{"x": 1},"y":2}"#);
}

#[test]
fn key_order_white_space_and_a_missing_version_do_not_matter() {
    let message =
        parse(" { \"params\" : {\"method\":1} , \"me\\u0074hod\":\"m\",\"id\":3 } \r").unwrap();
    assert_eq!(
        message.to_line(),
        r#"{"jsonrpc":"2.0","id":3,"me"#.to_owned() + r#"thod":"m","params":{"method":1}}"#
    );
}

#[test]
fn an_invalid_message_is_refused_with_its_id() {
    let refused = |line: &str| match parse(line) {
        Err(Malformed::NotAMessage { id, .. }) => id.to_string(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(refused("[]"), "null");
    assert_eq!(refused("42"), "null");
    assert_eq!(refused("{}"), "null");
    assert_eq!(refused(r#"{"id":7}"#), "7");
    assert_eq!(refused(r#"{"id":7,"method":1}"#), "7");
    assert_eq!(refused(r#"{"id":7,"method":"a","result":1}"#), "7");
    assert_eq!(refused(r#"{"id":1.5,"method":"a"}"#), "null");
    assert_eq!(refused(r#"{"id":1e3,"method":"a"}"#), "null");
    assert_eq!(refused(r#"{"id":true,"method":"a"}"#), "null");
    assert_eq!(refused(r#"{"id":1,"id":2,"method":"a"}"#), "null");
    assert_eq!(refused(r#"{"id":1,"method":"a","params":{},"params":{}}"#), "1");
    assert_eq!(parse(r#"{"error":{"code":1}}"#), Err(Malformed::AnswerWithoutId));
    assert!(matches!(parse("hello"), Err(Malformed::NotJson(_))));
    assert!(matches!(parse("{\"id\":1"), Err(Malformed::NotJson(_))));
    let line = Bytes::from_static(b"{\"method\":\"\xff\"}");
    assert!(matches!(Message::parse(&line), Err(Malformed::NotJson(_))));
}

#[test]
fn a_response_with_a_null_error_is_accepted() {
    let outcome = |line| match parse(line) {
        Ok(Message::Response { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome(r#"{"id":1,"result":null,"error":null}"#), Outcome::Result(Json::NULL));
    let error = outcome(r#"{"id":1,"result":null,"error":{"code":-1}}"#);
    assert_eq!(error.error_code(), Some(-1));
    assert_eq!(outcome(r#"{"id":1,"error":null}"#), Outcome::Error(Json::NULL));
}

#[test]
fn ids_are_compared_by_their_text() {
    let id = |text: &'static str| Id::new(Json::parse(text).unwrap()).unwrap();
    assert_eq!(id(r#""a""#), id(r#""\u0061""#));
    assert_ne!(id("1"), id(r#""1""#));
    assert_ne!(id("null"), id(r#""null""#));
    assert_eq!(id(r#""\u0063:1""#).cmp(&id(r#""c:1""#)), Ordering::Equal);
    let sorted = [
        id(r#""""#),
        id(r#""a""#),
        id(r#""a!""#),
        id(r#""\u0061b""#),
        id(r#""b""#),
        id("-1"),
        id("10"),
        id("9"),
        Id::NULL,
    ];
    assert!(sorted.is_sorted_by(|one, next| one < next), "each is less than the next");
}

#[test]
fn a_damaged_line_has_a_kind_and_an_id() {
    let one = Id::from(1);
    assert_eq!(
        DamagedLine::read(br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"te"#),
        DamagedLine::Request(one.clone())
    );
    assert_eq!(
        DamagedLine::read(br#"{"jsonrpc":"2.0","id":1,"result":{"te"#),
        DamagedLine::Response(one.clone())
    );
    assert_eq!(
        DamagedLine::read(b"{\"id\":1,\"result\":\"\xff\"}"),
        DamagedLine::Response(one.clone())
    );
    assert_eq!(DamagedLine::read(br#"{"id":1,"params":{"te"#), DamagedLine::Request(one.clone()));
    assert_eq!(DamagedLine::read(br#"{"id":1}"#), DamagedLine::Ambiguous(one.clone()));
    assert_eq!(
        DamagedLine::read(br#"{"id":1,"method":"x","result":1}"#),
        DamagedLine::Ambiguous(one)
    );
    assert_eq!(DamagedLine::read(br#"{"result":{"te"#), DamagedLine::Unreadable);
    // The id may have been 12.
    assert_eq!(DamagedLine::read(br#"{"method":"x","id":1"#), DamagedLine::Unreadable);
    assert_eq!(DamagedLine::read(b"Starting agent"), DamagedLine::Unreadable);
}

/// The position of the session id is stored when a line is parsed. It must be the position that a search
/// finds.
#[test]
fn the_last_session_id_of_params_counts() {
    let long = "x".repeat(20_000);
    for (params, session) in [
        (r#"{ "sessionId" : "a" }"#, Some(r#""a""#)),
        (r#"{"prompt":[{"sessionId":"b"}],"sessionId":1.50,"z":2}"#, Some("1.50")),
        (
            r#"{"sessionId":"a","method":"m","params":{},"session\u0049d":{"b":[]}}"#,
            Some(r#"{"b":[]}"#),
        ),
        (r#"{"session":"a"}"#, None),
        ("{}", None),
        (r#"["sessionId","a"]"#, None),
        ("null", None),
    ] {
        for (before, after) in
            [("", ""), (r#""id":"sessionId","#, ""), ("", r#","sessionId":"no""#)]
        {
            let line = format!(r#" {{{before}"method":"m","params":{params}{after}}}"#);
            let Ok(Message::Request { call, .. } | Message::Notification(call)) = parse(&line)
            else {
                panic!("{line}")
            };
            let found = call.params.unwrap().member("sessionId").map(|it| it.to_string());
            assert_eq!(found.as_deref(), session, "{line}");
        }
        // In an envelope, and long.
        let filled = params.replacen('{', &format!(r#"{{"text":"{long}","#), 1).replace(",}", "}");
        for params in [params, &filled] {
            let line = format!(
                r#"{{"method":"proxy/successor","params":{{"method":"m","params":{params}}}}}"#
            );
            let line = Bytes::from(line.into_bytes());
            let mut parts = MessageParts::default();
            parts.split(&line).unwrap();
            let (call, _) = parts.inner_call(&line).unwrap();
            let found = call.params.and_then(|it| it.member("sessionId")).map(|it| it.to_string());
            assert_eq!(found.as_deref(), session, "{params:.100}");
        }
    }
}

/// A sink that stores long pieces without copying them.
#[derive(Default)]
struct NoCopySink {
    pieces: Vec<Bytes>,
    last: Vec<u8>,
}

impl Sink for NoCopySink {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    fn append_long(&mut self, piece: &Bytes) {
        self.pieces.push(std::mem::take(&mut self.last).into());
        self.pieces.push(piece.clone());
    }
}

#[test]
fn a_long_payload_is_written_without_a_copy() {
    let long = Json::string(&"x".repeat(LONG_THRESHOLD));
    let short = Json::string("x");
    let params = |json: &Json| Json::array([json]);
    for payload in [params(&short), params(&long)] {
        let call =
            || Call { extras: Some((*b",\"more\":1").into()), ..Call::new("m", payload.clone()) };
        let result = Outcome::Result(payload.clone());
        for message in [
            Message::Notification(call()),
            Message::Request { id: Id::from(1), call: call() },
            Message::Response { id: Id::from(1), outcome: result, extras: None },
        ] {
            let (mut plain, mut holding) = (Vec::new(), NoCopySink::default());
            message.write_line(&mut plain);
            message.write_line(&mut holding);
            let held = holding.pieces.iter().any(|it| it.as_ptr() == payload.as_bytes().as_ptr());
            assert_eq!(held, payload.as_bytes().len() >= LONG_THRESHOLD);
            holding.pieces.push(holding.last.into());
            assert!(holding.pieces.concat() == plain);
        }
    }
}
