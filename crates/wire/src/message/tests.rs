use super::*;

fn parse(line: &str) -> Result<Message, Malformed> {
    Message::parse(&Bytes::copy_from_slice(line.as_bytes()))
}

#[track_caller]
fn round_trips(line: &str) {
    assert_eq!(parse(line).unwrap().to_line(), line);
}

#[test]
fn what_is_read_is_written_as_it_was_spelt() {
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
fn what_is_no_message_is_refused_with_the_id_it_has() {
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
fn answers_that_spell_out_the_absent_half_are_understood() {
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
fn ids_are_compared_by_what_they_say() {
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
fn the_beginning_of_a_lost_line_tells_who_waits() {
    let one = Id::from(1);
    assert_eq!(
        salvage(br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"te"#),
        Salvage::Request(one.clone())
    );
    assert_eq!(
        salvage(br#"{"jsonrpc":"2.0","id":1,"result":{"te"#),
        Salvage::Response(one.clone())
    );
    assert_eq!(salvage(b"{\"id\":1,\"result\":\"\xff\"}"), Salvage::Response(one.clone()));
    assert_eq!(salvage(br#"{"id":1,"params":{"te"#), Salvage::Request(one.clone()));
    assert_eq!(salvage(br#"{"id":1}"#), Salvage::Unclear(one.clone()));
    assert_eq!(salvage(br#"{"id":1,"method":"x","result":1}"#), Salvage::Unclear(one));
    assert_eq!(salvage(br#"{"result":{"te"#), Salvage::Nothing);
    // Perhaps it was to be 12.
    assert_eq!(salvage(br#"{"method":"x","id":1"#), Salvage::Nothing);
    assert_eq!(salvage(b"Starting agent"), Salvage::Nothing);
}
