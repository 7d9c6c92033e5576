use super::*;
use acp_wire::{Generation, LinkProtocol};

const PLAIN: LinkProtocol = LinkProtocol::Plain;

fn message(text: &str) -> Message {
    let text = format!("{{\"jsonrpc\":\"2.0\",{}", &text[1..]);
    Message::parse(&bytes::Bytes::from(text)).unwrap()
}

struct Log {
    wire: WireLog,
    milliseconds: u64,
}

impl Log {
    fn new(detail: WireDetail, payload: PayloadLayout) -> Log {
        let names = ["proxy".to_owned(), "agent".to_owned()];
        Log { wire: WireLog::with_payload(&names, detail, payload), milliseconds: 0 }
    }

    fn rows(&mut self, event: &TapEvent<'_>) -> Vec<Row> {
        self.milliseconds += 1;
        self.wire.rows_at(Duration::from_millis(self.milliseconds), event)
    }

    fn arrived(&mut self, seat: &str, toward: Side, text: &str) -> Vec<Row> {
        let message = message(text);
        self.rows(&TapEvent::Arrived { seat, toward, dialect: PLAIN, message: &message })
    }

    fn delivered(&mut self, seat: &str, toward: Side, text: &str) -> Vec<Row> {
        let message = message(text);
        self.rows(&TapEvent::Delivered { seat, toward, dialect: PLAIN, message: &message })
    }

    /// A message from one component to another, which gets another id on its way. Returns the row.
    fn passes(&mut self, hop: [&str; 2], toward: Side, ids: [&str; 2], rest: &str) -> Row {
        let [sent, received] = ids.map(|id| format!("{{\"id\":{id},{rest}}}"));
        assert!(self.arrived(hop[0], toward, &sent).is_empty());
        let mut rows = self.delivered(hop[1], toward, &received);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }
}

fn log() -> Log {
    Log::new(WireDetail::Folded, PayloadLayout::Shortened)
}

#[test]
fn the_sender_follows_from_the_receiver_and_the_direction() {
    let mut log = log();
    let row = log.passes(
        ["outer", "proxy"],
        Side::Agent,
        ["7", "\"c:1\""],
        r#""method":"m","params":{"a":1}"#,
    );
    assert_eq!((row.from.as_str(), row.to.as_str()), ("editor", "proxy"));
    assert_eq!(row.kind, RowKind::Request("m".into()));
    assert_eq!((row.number, row.json.as_str()), (Some(1), r#"{"a":1}"#));
    let row = log.passes(["proxy", "outer"], Side::Editor, ["\"c:1\"", "7"], r#""result":{}"#);
    assert_eq!((row.from.as_str(), row.to.as_str()), ("proxy", "editor"));
    assert_eq!(row.kind, RowKind::Answer("m".into()));
    // The bypassed proxy does not send it.
    let row = log.passes(["outer", "agent"], Side::Agent, ["8", "\"c:2\""], r#""method":"m""#);
    assert_eq!((row.from.as_str(), row.to.as_str()), ("editor", "agent"));
}

/// A prompt passes a proxy, which first sends a prompt of its own.
#[test]
fn a_request_has_one_number_on_all_hops_and_so_have_its_answers() {
    let (agent, editor) = (Side::Agent, Side::Editor);
    let mut log = log();
    let prompt = |text: &str| {
        format!(
            r#""method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{text}"}}]}}"#
        )
    };
    let end = r#""result":{"stopReason":"end_turn"}"#;
    let first = log.passes(["outer", "proxy"], agent, ["7", "\"c:1\""], &prompt("hello"));
    let own = log.passes(["proxy", "agent"], agent, ["1", "\"c:2\""], &prompt("use a tool"));
    let own_end = log.passes(["agent", "proxy"], editor, ["\"c:2\"", "1"], end);
    let next = log.passes(["proxy", "agent"], agent, ["2", "\"c:3\""], &prompt("Be brief. hello"));
    let next_end = log.passes(["agent", "proxy"], editor, ["\"c:3\"", "2"], end);
    let end = log.passes(["proxy", "outer"], editor, ["\"c:1\"", "7"], end);
    let numbers = [&first, &own, &own_end, &next, &next_end, &end].map(|row| row.number);
    assert_eq!(numbers, [1, 2, 2, 1, 1, 1].map(Some));
    // Each event takes a millisecond.
    assert_eq!(end.took, Some(Duration::from_millis(11)));
    assert_eq!(next_end.took, Some(Duration::from_millis(3)));
    assert_eq!((first.took, first.time), (None, Duration::from_millis(2)));
}

#[test]
fn params_with_more_members_belong_to_the_same_request() {
    let mut log = log();
    let new = |servers: &str| {
        format!(r#""method":"session/new","params":{{"cwd":"/","mcpServers":[{servers}]}}"#)
    };
    let first = log.passes(["outer", "proxy"], Side::Agent, ["1", "\"c:1\""], &new(""));
    let next =
        log.passes(["proxy", "agent"], Side::Agent, ["9", "\"c:2\""], &new(r#"{"name":"x"}"#));
    assert_eq!((first.number, next.number), (Some(1), Some(1)));
}

#[test]
fn an_answer_to_a_request_of_the_conductor_is_shown_when_it_arrives() {
    let mut log = log();
    let request =
        r#"{"id":"m:1","method":"mcp/message","params":{"method":"tools/list","params":{"a":1}}}"#;
    let rows = log.delivered("proxy", Side::Editor, request);
    assert_eq!(rows[0].kind, RowKind::Request("mcp/message tools/list".into()));
    assert_eq!((rows[0].from.as_str(), rows[0].json.as_str()), ("agent", r#"{"a":1}"#));
    let answer = message(r#"{"id":"m:1","result":{"tools":[]}}"#);
    let rows = log.rows(&TapEvent::Arrived {
        seat: "proxy",
        toward: Side::Agent,
        dialect: LinkProtocol::Generation(Generation::P5),
        message: &answer,
    });
    assert_eq!(rows[0].kind, RowKind::Answer("mcp/message tools/list".into()));
    assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("proxy", "agent"));
    assert_eq!((rows[0].number, rows[0].took), (Some(1), Some(Duration::from_millis(1))));
    // Other requests of the conductor name it.
    let resume = r#"{"id":"c:9","method":"session/resume","params":{}}"#;
    assert_eq!(log.delivered("agent", Side::Agent, resume)[0].from, "conductor");
}

#[test]
fn the_answer_to_a_converted_request_is_shown_once() {
    let mut log = log();
    assert!(log.arrived("outer", Side::Agent, r#"{"id":1,"method":"old","params":{}}"#).is_empty());
    let rows = log.delivered("proxy", Side::Agent, r#"{"id":"c:1","method":"new","params":{}}"#);
    assert_eq!(rows[0].kind, RowKind::Request("new".into()));
    assert!(log.arrived("proxy", Side::Editor, r#"{"id":"c:1","result":{}}"#).is_empty());
    let rows = log.delivered("outer", Side::Editor, r#"{"id":1,"result":{}}"#);
    let kinds: Vec<&RowKind> = rows.iter().map(|row| &row.kind).collect();
    assert_eq!(kinds, [&RowKind::Answer("old".into())]);
}

/// The conductor answers some requests itself, for example while a component is down.
#[test]
fn a_request_that_was_not_delivered_does_not_give_its_number_to_the_next_one() {
    let mut log = log();
    let prompt = r#""method":"session/prompt","params":{"sessionId":"s"}"#;
    assert!(log.arrived("outer", Side::Agent, &format!("{{\"id\":1,{prompt}}}")).is_empty());
    let refused = r#"{"id":1,"error":{"code":-32603,"message":"the agent is down"}}"#;
    assert_eq!(log.delivered("outer", Side::Editor, refused)[0].number, Some(1));
    let sent = log.passes(["outer", "proxy"], Side::Agent, ["2", "\"c:1\""], prompt);
    let answered = log.passes(["proxy", "outer"], Side::Editor, ["\"c:1\"", "2"], r#""result":{}"#);
    assert_eq!((sent.number, answered.number), (Some(2), Some(2)));
}

#[test]
fn a_component_may_be_called_editor() {
    let names = ["editor".to_owned()];
    let mut wire = WireLog::with_payload(&names, WireDetail::All, PayloadLayout::OneLine);
    let rows = wire.rows(&TapEvent::Ended { seat: "editor", how: "exited" });
    assert_eq!(rows[0].kind, RowKind::Ended("exited".into()));
}

#[test]
fn components_start_and_end_in_rows_of_their_own() {
    let mut log = log();
    let rows = log.rows(&TapEvent::Started { seat: "agent" });
    assert_eq!((rows[0].from.as_str(), &rows[0].kind), ("agent", &RowKind::Started));
    let how = "exited with status 101";
    let rows = log.rows(&TapEvent::Ended { seat: "agent", how });
    assert_eq!(rows[0].kind, RowKind::Ended(how.into()));
}

#[test]
fn an_error_has_its_code_and_message() {
    let error = r#""error":{"code":-32603,"message":"bad token=abc","data":{"details":"d"}}"#;
    let mut shown = Vec::new();
    for payload in [PayloadLayout::Shortened, PayloadLayout::OneLine] {
        let mut log = Log::new(WireDetail::Folded, payload);
        log.passes(["outer", "proxy"], Side::Agent, ["1", "\"c:1\""], r#""method":"m""#);
        let row = log.passes(["proxy", "outer"], Side::Editor, ["\"c:1\"", "1"], error);
        let (method, message) = ("m".into(), "bad token=…".into());
        assert_eq!(row.kind, RowKind::Failure { method, code: Some(-32603), message });
        shown.push(row.json);
    }
    assert_eq!(shown[0], r#"{"details":"d"}"#);
    assert_eq!(shown[1], r#"{"code":-32603,"message":"bad token=…","data":{"details":"d"}}"#);
}

#[test]
fn a_whole_payload_has_every_member_as_it_was_sent() {
    let params = r#"{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1.10,"size":12345678901234567890123}}"#;
    let update = format!(r#"{{"method":"session/update","params":{params}}}"#);
    for (payload, expected) in [
        (PayloadLayout::OneLine, params),
        (PayloadLayout::Wrapped, params),
        (PayloadLayout::Shortened, r#"{"used":1.10,"size":12345678901234567890123}"#),
    ] {
        let mut log = Log::new(WireDetail::All, payload);
        let rows = log.delivered("outer", Side::Editor, &update);
        assert_eq!(rows[0].json, expected);
        assert_eq!(rows[0].kind, RowKind::Notification("session/update usage_update".into()));
    }
}

#[test]
fn the_chunks_of_a_stream_are_counted_on_each_hop() {
    const CHUNK: &str = r#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk"}}}"#;
    const OTHER: &str = r#"{"method":"x"}"#;
    let mut folding = log();
    assert_eq!(folding.delivered("proxy", Side::Editor, CHUNK).len(), 1);
    assert!(folding.delivered("proxy", Side::Editor, CHUNK).is_empty());
    assert_eq!(folding.delivered("outer", Side::Editor, CHUNK).len(), 1);
    assert!(folding.delivered("proxy", Side::Editor, CHUNK).is_empty());
    let rows = folding.delivered("proxy", Side::Editor, OTHER);
    let method = "session/update agent_message_chunk".to_owned();
    assert_eq!(rows[0].kind, RowKind::More(method, 2));
    assert_eq!(rows[1].kind, RowKind::Notification("x".into()));
    assert_eq!(folding.delivered("outer", Side::Editor, OTHER).len(), 1);
    let mut all = Log::new(WireDetail::All, PayloadLayout::OneLine);
    assert_eq!(all.delivered("proxy", Side::Editor, CHUNK).len(), 1);
    assert_eq!(all.delivered("proxy", Side::Editor, CHUNK).len(), 1);
}
