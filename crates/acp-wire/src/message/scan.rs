//! Finds messages in a line that is too long, cut off, malformed, or a batch: the ids of each message, and whether
//! it is a call or a response. This is enough to answer the sender of a request, or to fail the request that a lost
//! response would have answered.
//!
//! The scan does not check the grammar. It follows strings and brackets, so it finds the members of the
//! message wherever they are: after the payload, or after the damage. It reads a line in pieces and keeps
//! little of it. If the structure is damaged (an unterminated string, a missing bracket), it also reads the
//! end of the line backward. An id found that way is a guess. The caller must use it only if a request with
//! this id is waiting for an answer.
//!
//! Components write log lines to their output, and log lines quote messages. So an object that comes after other
//! text does not count as a message, and neither does an object inside another object.

use super::Id;
use crate::json::{Json, plain_prefix_length, unquote};

/// Longer keys and ids are ignored.
const MAX_KEY: usize = 64;
const MAX_ID: usize = 512;

/// How many bytes of the end of a line are kept.
const MAX_TAIL: usize = 4096;

/// How many messages of one line are read, and how many ids of one message.
const MAX_MESSAGES: usize = 4096;
const MAX_IDS: usize = 4;

/// The parts of a message that could be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartialMessage {
    /// The ids that the message may have: one, unless the line contradicts itself.
    pub ids: Vec<Id>,
    /// The message has members of a request or notification.
    pub call: bool,
    /// The message has members of a response.
    pub answer: bool,
    /// The message has the member `jsonrpc`.
    pub jsonrpc: bool,
}

impl PartialMessage {
    /// Records that the message has this member.
    fn record_key(&mut self, key: &str) {
        self.call |= matches!(key, "method" | "params");
        self.answer |= matches!(key, "result" | "error");
        self.jsonrpc |= key == "jsonrpc";
    }

    /// Whether the message is a response, judging by its members.
    pub fn is_answer(&self) -> bool {
        self.answer && !self.call
    }

    /// Whether this object, found at the end of the line, is a separate message that the line quotes. It is one
    /// if both have a member that shows their kind, or both have `jsonrpc`: one message has these members only once.
    fn is_quoted_by(&self, beginning: &PartialMessage) -> bool {
        let kinds = (beginning.answer || beginning.call) && (self.answer || self.call);
        kinds || (beginning.jsonrpc && self.jsonrpc)
    }

    /// Records an id, if it is a valid one.
    fn record_id(&mut self, text: &[u8]) {
        let json = Json::parse(text.to_vec()).ok();
        if let Some(id) = json.and_then(Id::new)
            && !self.ids.contains(&id)
            && self.ids.len() < MAX_IDS
        {
            self.ids.push(id);
        }
    }
}

/// The result of a [`LineScan`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScanResult {
    /// The messages in the line.
    pub messages: Vec<PartialMessage>,
    /// How many responses the line has in addition to `messages`.
    pub more_answers: usize,
    /// Brackets or strings do not match, or text follows the message. Messages or members may be missing from the
    /// result.
    pub is_damaged: bool,
    /// The line starts like a JSON object or an array of objects.
    pub looks_like_json: bool,
}

/// An incremental scan of one line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineScan {
    /// The line is an array: its messages are one level deeper.
    batch: bool,
    /// A byte that is not white space was read.
    started: bool,
    start: LineStart,
    /// How many bytes the earlier pieces had.
    before: usize,
    /// Where the current or last message starts.
    message_start: usize,
    /// Where the first message or the array ends.
    first_end: Option<usize>,
    /// An object that starts now comes after other text, so it does not count as a message.
    follows_other_text: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// At the level of a message: a key comes next.
    at_key: bool,
    /// The last key of the current message, in quotes.
    key: Vec<u8>,
    capture: Capture,
    /// The text captured so far.
    captured: Vec<u8>,
    /// The current message, and the messages before it.
    current: Option<PartialMessage>,
    messages: Vec<PartialMessage>,
    /// How many responses there are beyond [`MAX_MESSAGES`].
    more_answers: usize,
    /// Text follows the first message or the array.
    has_trailing_text: bool,
    /// The last bytes of the line.
    tail: Vec<u8>,
}

/// What the start of the line looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum LineStart {
    /// Only white space so far.
    #[default]
    Blank,
    /// `[` so far.
    List,
    /// `{` or `[{` so far.
    Object,
    /// An object, or an array of objects.
    Json,
    /// Anything else.
    Text,
}

impl LineStart {
    /// The state after the next byte that is not white space.
    fn next(self, byte: u8) -> LineStart {
        match (self, byte) {
            (LineStart::Blank | LineStart::List, b'{') => LineStart::Object,
            (LineStart::Blank, b'[') => LineStart::List,
            (LineStart::List, b']') | (LineStart::Object, b'"' | b'}') => LineStart::Json,
            (LineStart::Json, _) => LineStart::Json,
            _ => LineStart::Text,
        }
    }
}

/// The part of the line that is being captured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Capture {
    #[default]
    Nothing,
    Key,
    Id,
}

impl LineScan {
    /// Scans a whole line.
    pub fn of(line: &[u8]) -> LineScan {
        let mut scan = LineScan::default();
        scan.feed(line);
        scan
    }

    /// Scans the next piece of the line.
    pub fn feed(&mut self, piece: &[u8]) {
        self.keep_tail(piece);
        let mut at = 0;
        while let Some(&byte) = piece.get(at)
            && self.start != LineStart::Text
        {
            if self.in_string {
                at += self.consume_string(&piece[at..]);
            } else {
                self.consume_byte(byte, self.before + at);
                at += 1;
            }
        }
        self.before += piece.len();
    }

    /// Whether the line starts like a message or a batch. A log line such as `[INFO] {…}` does not.
    pub fn looks_like_json(&self) -> bool {
        self.start == LineStart::Json
    }

    /// How many responses the line has in addition to [`messages`](LineScan::messages).
    pub fn more_answers(&self) -> usize {
        self.more_answers
    }

    /// Whether brackets or strings do not match, or text follows the message. Messages or members may be missing
    /// from the result.
    pub fn is_damaged(&self) -> bool {
        self.started && (self.depth > 0 || self.in_string || self.has_trailing_text)
    }

    /// The complete result.
    pub fn result(&self) -> ScanResult {
        ScanResult {
            messages: self.messages(),
            more_answers: self.more_answers(),
            is_damaged: self.is_damaged(),
            looks_like_json: self.looks_like_json(),
        }
    }

    /// The messages in the line.
    pub fn messages(&self) -> Vec<PartialMessage> {
        let mut messages = self.messages.clone();
        if let Some(mut cut_off) = self.current.clone() {
            // An id at which the line is cut off counts only if it is a complete string. A number may have had
            // more digits.
            let kept = self.captured.trim_ascii_end();
            if self.capture == Capture::Id && !self.in_string && kept.ends_with(b"\"") {
                cut_off.record_id(kept);
            }
            messages.push(cut_off);
        }
        if self.is_damaged()
            && !self.batch
            && let Some(last) = messages.last_mut()
        {
            self.add_members_from_tail(last);
        }
        messages
    }

    /// Adds the members found at the end of the line.
    fn add_members_from_tail(&self, message: &mut PartialMessage) {
        // The end of a line is read only if its beginning is a message.
        if !(message.call || message.answer || message.jsonrpc) {
            return;
        }
        let (found, start) = read_from_end(&self.tail);
        // Where the object that was read starts, if it is not the message itself.
        let start = start.map(|at| self.before - self.tail.len() + at);
        if let Some(start) = start.filter(|&start| start > self.message_start)
            && (self.first_end.is_some_and(|end| start > end) || found.is_quoted_by(message))
        {
            return;
        }
        message.call |= found.call;
        message.answer |= found.answer;
        message.jsonrpc |= found.jsonrpc;
        let new = |id: &Id| !message.ids.contains(id);
        let ids: Vec<Id> = found.ids.into_iter().filter(new).collect();
        message.ids.extend(ids);
    }

    fn keep_tail(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(MAX_TAIL)..];
        let excess = (self.tail.len() + piece.len()).saturating_sub(MAX_TAIL);
        self.tail.drain(..excess);
        self.tail.extend_from_slice(piece);
    }

    /// Adds bytes to the captured text. Stops the capture if the text is too long.
    fn capture_bytes(&mut self, bytes: &[u8]) {
        let most = match self.capture {
            Capture::Nothing => return,
            Capture::Key => MAX_KEY,
            Capture::Id => MAX_ID,
        };
        if self.captured.len() + bytes.len() > most {
            (self.capture, self.captured) = (Capture::Nothing, Vec::new());
        } else {
            self.captured.extend_from_slice(bytes);
        }
    }

    /// Reads on inside a string. Returns how many bytes were consumed.
    fn consume_string(&mut self, piece: &[u8]) -> usize {
        if std::mem::take(&mut self.escaped) {
            self.capture_bytes(&piece[..1]);
            return 1;
        }
        let end = plain_prefix_length(piece);
        let taken = piece.len().min(end + 1);
        self.capture_bytes(&piece[..taken]);
        match piece.get(end) {
            Some(b'"') => {
                self.in_string = false;
                if self.capture == Capture::Key {
                    self.key = std::mem::take(&mut self.captured);
                    self.capture = Capture::Nothing;
                }
            }
            Some(b'\\') => self.escaped = true,
            _ => {}
        }
        taken
    }

    /// Handles a byte outside strings. `at` is its position in the line.
    fn consume_byte(&mut self, byte: u8, at: usize) {
        if byte.is_ascii_whitespace() {
            return self.capture_bytes(&[byte]);
        }
        self.start = self.start.next(byte);
        if self.start == LineStart::Text {
            self.current = None;
            return;
        }
        if self.started && self.depth == 0 {
            self.has_trailing_text = true;
            self.follows_other_text |= byte != b'{';
        }
        let in_message = self.current.is_some() && self.depth == self.member_depth();
        match byte {
            b'"' => {
                self.in_string = true;
                if in_message && self.at_key {
                    (self.capture, self.captured) = (Capture::Key, Vec::new());
                }
                self.capture_bytes(&[byte]);
            }
            b':' if in_message && self.at_key => self.on_key(),
            b',' if in_message => {
                self.on_value();
                self.at_key = true;
            }
            b'{' | b'[' => self.on_open(byte, at),
            b'}' | b']' => {
                if in_message {
                    self.on_value();
                    self.on_message_end();
                }
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.first_end.get_or_insert(at);
                    self.follows_other_text |= self.batch;
                }
            }
            _ => self.capture_bytes(&[byte]),
        }
        self.started = true;
    }

    /// The depth of the members of a message.
    fn member_depth(&self) -> usize {
        1 + usize::from(self.batch)
    }

    /// Finishes the current message.
    fn on_message_end(&mut self) {
        let Some(message) = self.current.take() else { return };
        self.follows_other_text |= !message.jsonrpc && !self.batch;
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        } else if message.is_answer() && message.jsonrpc {
            self.more_answers += 1;
        }
    }

    fn on_open(&mut self, byte: u8, at: usize) {
        if self.depth == 0 {
            self.batch = byte == b'[' && !self.started;
        }
        // An id is neither an object nor an array.
        self.capture = Capture::Nothing;
        self.depth += 1;
        if byte == b'{' && self.depth == self.member_depth() && !self.follows_other_text {
            self.current = Some(PartialMessage::default());
            self.message_start = at;
            (self.at_key, self.key) = (true, Vec::new());
        }
    }

    fn on_key(&mut self) {
        self.at_key = false;
        let key = std::mem::take(&mut self.key);
        let key = unquote(&key).unwrap_or_default();
        if key == "id" {
            (self.capture, self.captured) = (Capture::Id, Vec::new());
        } else if let Some(message) = &mut self.current {
            message.record_key(&key);
        }
    }

    fn on_value(&mut self) {
        if std::mem::take(&mut self.capture) == Capture::Id
            && let Some(message) = &mut self.current
        {
            message.record_id(&self.captured);
        }
    }
}

/// Reads the members of a message from its end. Also returns where the object or array that ends there
/// starts, if its opening bracket was found.
fn read_from_end(ending: &[u8]) -> (PartialMessage, Option<usize>) {
    let mut found = PartialMessage::default();
    let Some(text) = ending.trim_ascii_end().strip_suffix(b"}") else { return (found, None) };
    // Where the value of the next key ends.
    let mut value_end = text.len();
    let (mut at, mut depth) = (text.len(), 1_usize);
    while at > 0 {
        at -= 1;
        match text[at] {
            b'"' => {
                let Some(start) = opening_quote(&text[..at]) else { break };
                let behind = text[at + 1..value_end.max(at + 1)].trim_ascii_start();
                if depth == 1
                    && let Some(value) = behind.strip_prefix(b":")
                {
                    match unquote(&text[start..=at]).unwrap_or_default().as_ref() {
                        "id" => found.record_id(value),
                        key => found.record_key(key),
                    }
                }
                at = start;
            }
            b'}' | b']' => depth += 1,
            b'{' | b'[' => {
                depth -= 1;
                if depth == 0 {
                    return (found, Some(at));
                }
            }
            b',' if depth == 1 => value_end = at,
            _ => {}
        }
    }
    (found, None)
}

/// The start of the string whose closing quote follows this text.
fn opening_quote(text: &[u8]) -> Option<usize> {
    let is_plain = |at: &usize| {
        let slashes = text[..*at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        slashes.is_multiple_of(2)
    };
    (0..text.len()).rev().filter(|&at| text[at] == b'"').find(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids of each message and its apparent kind. Checks that the result does not depend on how the
    /// line is split.
    fn scan(line: &[u8]) -> Vec<(String, &'static str)> {
        let whole = LineScan::of(line);
        for cut in 0..line.len() {
            let mut scan = LineScan::default();
            scan.feed(&line[..cut]);
            scan.feed(&line[cut..]);
            assert_eq!(scan, whole, "cut at {cut}");
        }
        let name = |it: &PartialMessage| match (it.call, it.answer) {
            (true, false) => "call",
            (false, true) => "answer",
            (false, false) => "nothing",
            (true, true) => "both",
        };
        let ids =
            |it: &PartialMessage| it.ids.iter().map(Id::to_string).collect::<Vec<_>>().join(" ");
        whole.messages().iter().map(|it| (ids(it), name(it))).collect()
    }

    #[track_caller]
    fn check(line: &str, expected: &[(&str, &str)]) {
        let found = scan(line.as_bytes());
        let found: Vec<_> = found.iter().map(|(ids, kind)| (ids.as_str(), *kind)).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn an_id_is_found_at_any_position() {
        check(r#"{"jsonrpc":"2.0","id":"c:1","result":{"a":1"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":{"a":NaN},"id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":[1,],"id":12 , "x":{"id":3}}"#, &[("12", "answer")]);
        check(
            r#"{"error":{"id":7,"message":"\"id\":8"},"\u0069d":"c:1"}"#,
            &[(r#""c:1""#, "answer")],
        );
        check(r#"{"params":{"x":[{"id":1}]},"id":5,"method":"m"}}"#, &[("5", "call")]);
        check("{\"result\":\"\u{1}\",\"id\":3}", &[("3", "answer")]);
        check(r#"{"id":{"a":1},"result":1,}"#, &[("", "answer")]);
        // The id may have been 12.
        check(r#"{"result":1,"id":1"#, &[("", "answer")]);
        check(r#"{"result":1,"id":"c:1""#, &[(r#""c:1""#, "answer")]);
        check("Starting agent", &[]);
    }

    /// Checklist 31: log lines quote messages.
    #[test]
    fn a_quoted_message_is_ignored() {
        for line in [
            r#"[INFO] {"id":1,"result":1}"#,
            r#"[2026] {"result":1}"#,
            r#"[1, {"id":1,"result":1}]"#,
            r#"[debug] -> {"jsonrpc":"2.0","id":"c:3","result":{}}"#,
            r#"{worker} {"jsonrpc":"2.0","id":"c:3","result":{}}"#,
            r#"[{worker}] {"jsonrpc":"2.0","id":"c:3","result":{}}"#,
            r#"-> {"jsonrpc":"2.0","id":"c:3","result":{}}"#,
            "{ jsonrpc: '2.0', id: 'c:3', \"result\":{} }",
        ] {
            assert!(!LineScan::of(line.as_bytes()).looks_like_json(), "{line}");
            check(line, &[]);
        }
        check(r#"[] {"jsonrpc":"2.0","id":"c:3","result":{}}"#, &[]);
        let nothing = &[("", "nothing")];
        check(r#"{"sent":1} -> {"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        check(r#"{"level":"debug"} {"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        check(r#"{"got":{"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        check(r#"{"got":"x"y", "was":{"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        // A damaged message quotes another one.
        let start = r#"{"jsonrpc":"2.0","method":"log","params":{"#;
        check(&format!(r#"{start}"got":{{"id":"c:3","result":{{}}}}"#), &[("", "call")]);
        let start = r#"{"jsonrpc":"2.0","result":{"#;
        check(&format!(r#"{start}"got":{{"id":"c:3","result":{{}}}}"#), &[("", "answer")]);
        check(&format!(r#"{start}"got":{{"id":"c:3","jsonrpc":"2.0"}}"#), &[("", "answer")]);
        let start = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        check(&format!(r#"{start} -> {{"id":2,"result":{{}}}}"#), &[("1", "answer")]);
    }

    #[test]
    fn responses_beyond_the_limit_are_counted() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":1}"#;
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
        let mut messages = vec![answer; MAX_MESSAGES + 44];
        messages.push(call);
        let scan = LineScan::of(format!("[{},]", messages.join(",")).as_bytes());
        assert_eq!((scan.messages().len(), scan.more_answers()), (MAX_MESSAGES, 44));
    }

    #[test]
    fn the_end_of_a_damaged_line_is_read_backward() {
        check(r#"{"result":"say "hello" to","id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":"say "}" to","id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":"never ends,"id":"c:1","jsonrpc":"2.0"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":["x\","id":"c\\\"1"}"#, &[(r#""c\\\"1""#, "answer")]);
        check(r#"{"result":{"a":[1,2},"id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":{"a":{"b":1},"id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        // A line that contradicts itself has two ids.
        check(r#"{"id":1,"result":"a"b","id":2}"#, &[("1 2", "answer")]);
    }

    #[test]
    fn the_messages_of_a_batch_are_separated() {
        let two = &[("1", "answer"), ("2", "call")];
        check(r#"[{"id":1,"result":[{"id":9}]},{"method":"m","id":2}]"#, two);
        check(r#"[{"id":1,"result":1},{"method":"m","id":2,"params":["#, two);
        check(r#"{"jsonrpc":"2.0","id":1,"result":1} {"method":"m","id":2}"#, two);
        check(r#"[[{"id":1,"result":1}]]"#, &[]);
    }

    #[test]
    fn a_scan_keeps_little_of_a_line() {
        let mut scan = LineScan::of(br#"{"result":[""#);
        for _ in 0..1000 {
            scan.feed(&[b'x'; 10_000]);
        }
        scan.feed(br#""],"#);
        let key = format!(r#""{}":1,"id":"{}","#, "k".repeat(100_000), "i".repeat(100_000));
        scan.feed(key.as_bytes());
        (0..1000).for_each(|n| scan.feed(format!(r#""id":{n},"#).as_bytes()));
        assert!(scan.tail.capacity() < 4 * MAX_TAIL && scan.captured.len() <= MAX_ID);
        assert_eq!(scan.messages()[0].ids.len(), MAX_IDS);
        let many = LineScan::of(r#"{"jsonrpc":"2.0","id":1}"#.repeat(10_000).as_bytes());
        assert_eq!(many.messages().len(), MAX_MESSAGES);
    }
}
