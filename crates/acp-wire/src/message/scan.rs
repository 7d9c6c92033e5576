//! What can still be made out of a line that is too long, cut off, broken, or a batch: enough to
//! answer its sender, or to end the wait of whoever it was going to answer.
//!
//! The scan does not check the grammar. It follows strings and brackets, and so finds the members of
//! the message itself wherever they stand: behind the payload, or behind what is broken. It takes a
//! line in pieces and keeps little of it. Where the line has thrown it off the track (a string without
//! an end, a bracket too few), it reads the end of the line backward. An id that is found like this is
//! a guess: it counts only if an answer with this id is waited for.
//!
//! Components write log lines where messages belong, and log lines quote messages. So a line in which
//! something else comes before the message is no message, and neither is an object inside another one.

use super::Id;
use crate::json::{Json, plain_prefix_length, unquote};

/// As much of a key, or of an id, as is of interest.
const LONGEST_KEY: usize = 64;
const LONGEST_ID: usize = 512;

/// How much of the end of a line is kept.
const ENDING: usize = 4096;

/// How many messages of one line are looked at, and how many ids of one message.
const MOST_MESSAGES: usize = 4096;
const MOST_IDS: usize = 4;

/// What is left of one message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartialMessage {
    /// The ids that it may have: one, unless the line contradicts itself.
    pub ids: Vec<Id>,
    /// It has members of a request or notification.
    pub call: bool,
    /// It has members of an answer.
    pub answer: bool,
    /// It has the member `jsonrpc`.
    pub jsonrpc: bool,
}

impl PartialMessage {
    fn note(&mut self, key: &str) {
        self.call |= matches!(key, "method" | "params");
        self.answer |= matches!(key, "result" | "error");
        self.jsonrpc |= key == "jsonrpc";
    }

    /// Is it an answer, as far as its members tell?
    pub fn is_answer(&self) -> bool {
        self.answer && !self.call
    }

    /// Is this object, found at the end of the line, a message of its own, which the line quotes? The rest of
    /// a message has no members that its beginning has.
    fn is_quoted_by(&self, beginning: &PartialMessage) -> bool {
        let kinds = (beginning.answer || beginning.call) && (self.answer || self.call);
        kinds || (beginning.jsonrpc && self.jsonrpc)
    }

    fn note_id(&mut self, text: &[u8]) {
        let json = Json::parse(text.to_vec()).ok();
        if let Some(id) = json.and_then(Id::new)
            && !self.ids.contains(&id)
            && self.ids.len() < MOST_IDS
        {
            self.ids.push(id);
        }
    }
}

/// What a scan has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    pub messages: Vec<PartialMessage>,
    /// How many answers there are beside these.
    pub more_answers: usize,
    /// The line breaks off, or goes on behind its end.
    pub is_damaged: bool,
    /// The line begins as JSON does.
    pub looks_like_json: bool,
}

/// The scan of one line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scan {
    /// The line is a list: its messages are one level deeper.
    batch: bool,
    begun: bool,
    start: Start,
    /// How many bytes came in earlier pieces.
    before: usize,
    /// Where the message at hand, or the last one, begins.
    opened_at: usize,
    /// Where the first message, or the list, ends.
    ended_at: Option<usize>,
    /// A message that comes now is behind something else: it does not count.
    is_behind_text: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// At the level of a message: what comes next is a key.
    at_key: bool,
    key: Vec<u8>,
    keeping: Keeping,
    kept: Vec<u8>,
    /// The message at hand, and those before it.
    current: Option<PartialMessage>,
    messages: Vec<PartialMessage>,
    /// How many answers there were beyond [`MOST_MESSAGES`].
    more_answers: usize,
    /// The line goes on behind its end.
    goes_on: bool,
    ending: Vec<u8>,
}

/// How the line begins.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Start {
    #[default]
    Blank,
    /// With `[`, so far.
    List,
    /// With `{` or `[{`, so far.
    Object,
    /// As an object or a list of objects does.
    Json,
    /// Otherwise.
    Text,
}

impl Start {
    /// The next byte that is not blank.
    fn next(self, byte: u8) -> Start {
        match (self, byte) {
            (Start::Blank | Start::List, b'{') => Start::Object,
            (Start::Blank, b'[') => Start::List,
            (Start::List, b']') | (Start::Object, b'"' | b'}') => Start::Json,
            (Start::Json, _) => Start::Json,
            _ => Start::Text,
        }
    }
}

/// What is being kept of the line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Keeping {
    #[default]
    Nothing,
    Key,
    Id,
}

impl Scan {
    /// Scans a whole line.
    pub fn of(line: &[u8]) -> Scan {
        let mut scan = Scan::default();
        scan.feed(line);
        scan
    }

    /// Goes on with the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.keep_ending(piece);
        let mut at = 0;
        while let Some(&byte) = piece.get(at)
            && self.start != Start::Text
        {
            if self.in_string {
                at += self.string(&piece[at..]);
            } else {
                self.token(byte, self.before + at);
                at += 1;
            }
        }
        self.before += piece.len();
    }

    /// Does the line begin as a message or a batch does? A log line such as `[INFO] {…}` does not.
    pub fn looks_like_json(&self) -> bool {
        self.start == Start::Json
    }

    /// How many answers there are in the line besides [`messages`](Scan::messages).
    pub fn more_answers(&self) -> usize {
        self.more_answers
    }

    /// Is something wrong with the brackets or strings, so that parts of it could not be made out?
    pub fn is_damaged(&self) -> bool {
        self.begun && (self.depth > 0 || self.in_string || self.goes_on)
    }

    pub fn findings(&self) -> Findings {
        Findings {
            messages: self.messages(),
            more_answers: self.more_answers(),
            is_damaged: self.is_damaged(),
            looks_like_json: self.looks_like_json(),
        }
    }

    /// What is left of the messages in the line.
    pub fn messages(&self) -> Vec<PartialMessage> {
        let mut messages = self.messages.clone();
        if let Some(mut cut_off) = self.current.clone() {
            // A number with which the text breaks off may be half of another.
            let kept = self.kept.trim_ascii_end();
            if self.keeping == Keeping::Id && !self.in_string && kept.ends_with(b"\"") {
                cut_off.note_id(kept);
            }
            messages.push(cut_off);
        }
        if self.is_damaged()
            && !self.batch
            && let Some(last) = messages.last_mut()
        {
            self.add_ending(last);
        }
        messages
    }

    /// Adds the members that can be read from the end of the line to those from its beginning.
    fn add_ending(&self, message: &mut PartialMessage) {
        // Only a message has an end that is of interest.
        if !(message.call || message.answer || message.jsonrpc) {
            return;
        }
        let (ending, start) = read_backward(&self.ending);
        // Where the object begins that was read, if it is not the message itself.
        let start = start.map(|at| self.before - self.ending.len() + at);
        if let Some(start) = start.filter(|&start| start > self.opened_at)
            && (self.ended_at.is_some_and(|end| start > end) || ending.is_quoted_by(message))
        {
            return;
        }
        message.call |= ending.call;
        message.answer |= ending.answer;
        message.jsonrpc |= ending.jsonrpc;
        let new = |id: &Id| !message.ids.contains(id);
        let ids: Vec<Id> = ending.ids.into_iter().filter(new).collect();
        message.ids.extend(ids);
    }

    fn keep_ending(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(ENDING)..];
        let excess = (self.ending.len() + piece.len()).saturating_sub(ENDING);
        self.ending.drain(..excess);
        self.ending.extend_from_slice(piece);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let most = match self.keeping {
            Keeping::Nothing => return,
            Keeping::Key => LONGEST_KEY,
            Keeping::Id => LONGEST_ID,
        };
        if self.kept.len() + bytes.len() > most {
            (self.keeping, self.kept) = (Keeping::Nothing, Vec::new());
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }

    /// Inside a string: how many bytes were taken.
    fn string(&mut self, piece: &[u8]) -> usize {
        if std::mem::take(&mut self.escaped) {
            self.keep(&piece[..1]);
            return 1;
        }
        let end = plain_prefix_length(piece);
        let taken = piece.len().min(end + 1);
        self.keep(&piece[..taken]);
        match piece.get(end) {
            Some(b'"') => {
                self.in_string = false;
                if self.keeping == Keeping::Key {
                    self.key = std::mem::take(&mut self.kept);
                    self.keeping = Keeping::Nothing;
                }
            }
            Some(b'\\') => self.escaped = true,
            _ => {}
        }
        taken
    }

    /// A byte outside strings; `at` is its path in the line.
    fn token(&mut self, byte: u8, at: usize) {
        if byte.is_ascii_whitespace() {
            return self.keep(&[byte]);
        }
        self.start = self.start.next(byte);
        if self.start == Start::Text {
            self.current = None;
            return;
        }
        if self.begun && self.depth == 0 {
            self.goes_on = true;
            self.is_behind_text |= byte != b'{';
        }
        let in_message = self.current.is_some() && self.depth == self.level();
        match byte {
            b'"' => {
                self.in_string = true;
                if in_message && self.at_key {
                    (self.keeping, self.kept) = (Keeping::Key, Vec::new());
                }
                self.keep(&[byte]);
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
                    self.on_end();
                }
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.ended_at.get_or_insert(at);
                    self.is_behind_text |= self.batch;
                }
            }
            _ => self.keep(&[byte]),
        }
        self.begun = true;
    }

    /// At which depth the members of a message are.
    fn level(&self) -> usize {
        1 + usize::from(self.batch)
    }

    /// The message at hand ends.
    fn on_end(&mut self) {
        let Some(message) = self.current.take() else { return };
        self.is_behind_text |= !message.jsonrpc && !self.batch;
        if self.messages.len() < MOST_MESSAGES {
            self.messages.push(message);
        } else if message.is_answer() && message.jsonrpc {
            self.more_answers += 1;
        }
    }

    fn on_open(&mut self, byte: u8, at: usize) {
        if self.depth == 0 {
            self.batch = byte == b'[' && !self.begun;
        }
        // An id is neither an object nor a list.
        self.keeping = Keeping::Nothing;
        self.depth += 1;
        if byte == b'{' && self.depth == self.level() && !self.is_behind_text {
            self.current = Some(PartialMessage::default());
            self.opened_at = at;
            (self.at_key, self.key) = (true, Vec::new());
        }
    }

    fn on_key(&mut self) {
        self.at_key = false;
        let key = std::mem::take(&mut self.key);
        let key = unquote(&key).unwrap_or_default();
        if key == "id" {
            (self.keeping, self.kept) = (Keeping::Id, Vec::new());
        } else if let Some(message) = &mut self.current {
            message.note(&key);
        }
    }

    fn on_value(&mut self) {
        if std::mem::take(&mut self.keeping) == Keeping::Id
            && let Some(message) = &mut self.current
        {
            message.note_id(&self.kept);
        }
    }
}

/// The members of a message that can be read from its end; and where the object or list begins that ends
/// there, if its bracket was found.
fn read_backward(ending: &[u8]) -> (PartialMessage, Option<usize>) {
    let mut found = PartialMessage::default();
    let Some(text) = ending.trim_ascii_end().strip_suffix(b"}") else { return (found, None) };
    // Where the value ends whose key comes next.
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
                        "id" => found.note_id(value),
                        key => found.note(key),
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

/// Where the string begins whose closing quote follows on this text.
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

    /// The ids of each message, and which kind it seems to be; however the line is cut into pieces.
    fn scan(line: &[u8]) -> Vec<(String, &'static str)> {
        let whole = Scan::of(line);
        for cut in 0..line.len() {
            let mut scan = Scan::default();
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
    fn an_id_is_found_wherever_it_stands() {
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
        // Perhaps it was to be 12.
        check(r#"{"result":1,"id":1"#, &[("", "answer")]);
        check(r#"{"result":1,"id":"c:1""#, &[(r#""c:1""#, "answer")]);
        check("Starting agent", &[]);
    }

    /// Log lines quote messages. (31)
    #[test]
    fn a_message_that_is_quoted_is_not_taken_for_a_message() {
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
            assert!(!Scan::of(line.as_bytes()).looks_like_json(), "{line}");
            check(line, &[]);
        }
        check(r#"[] {"jsonrpc":"2.0","id":"c:3","result":{}}"#, &[]);
        let nothing = &[("", "nothing")];
        check(r#"{"sent":1} -> {"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        check(r#"{"level":"debug"} {"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        check(r#"{"got":{"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        check(r#"{"got":"x"y", "was":{"jsonrpc":"2.0","id":"c:3","result":{}}"#, nothing);
        // A message that is broken quotes others.
        let start = r#"{"jsonrpc":"2.0","method":"log","params":{"#;
        check(&format!(r#"{start}"got":{{"id":"c:3","result":{{}}}}"#), &[("", "call")]);
        let start = r#"{"jsonrpc":"2.0","result":{"#;
        check(&format!(r#"{start}"got":{{"id":"c:3","result":{{}}}}"#), &[("", "answer")]);
        check(&format!(r#"{start}"got":{{"id":"c:3","jsonrpc":"2.0"}}"#), &[("", "answer")]);
        let start = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        check(&format!(r#"{start} -> {{"id":2,"result":{{}}}}"#), &[("1", "answer")]);
    }

    #[test]
    fn answers_beyond_the_most_messages_are_counted() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":1}"#;
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
        let mut messages = vec![answer; MOST_MESSAGES + 44];
        messages.push(call);
        let scan = Scan::of(format!("[{},]", messages.join(",")).as_bytes());
        assert_eq!((scan.messages().len(), scan.more_answers()), (MOST_MESSAGES, 44));
    }

    #[test]
    fn what_throws_the_scan_off_the_track_does_not_hide_the_end() {
        check(r#"{"result":"say "hello" to","id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":"say "}" to","id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":"never ends,"id":"c:1","jsonrpc":"2.0"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":["x\","id":"c\\\"1"}"#, &[(r#""c\\\"1""#, "answer")]);
        check(r#"{"result":{"a":[1,2},"id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        check(r#"{"result":{"a":{"b":1},"id":"c:1"}"#, &[(r#""c:1""#, "answer")]);
        // One that contradicts itself has two.
        check(r#"{"id":1,"result":"a"b","id":2}"#, &[("1 2", "answer")]);
    }

    #[test]
    fn the_messages_of_a_batch_are_told_apart() {
        let two = &[("1", "answer"), ("2", "call")];
        check(r#"[{"id":1,"result":[{"id":9}]},{"method":"m","id":2}]"#, two);
        check(r#"[{"id":1,"result":1},{"method":"m","id":2,"params":["#, two);
        check(r#"{"jsonrpc":"2.0","id":1,"result":1} {"method":"m","id":2}"#, two);
        check(r#"[[{"id":1,"result":1}]]"#, &[]);
    }

    #[test]
    fn little_is_kept_of_a_line() {
        let mut scan = Scan::of(br#"{"result":[""#);
        for _ in 0..1000 {
            scan.feed(&[b'x'; 10_000]);
        }
        scan.feed(br#""],"#);
        let key = format!(r#""{}":1,"id":"{}","#, "k".repeat(100_000), "i".repeat(100_000));
        scan.feed(key.as_bytes());
        (0..1000).for_each(|n| scan.feed(format!(r#""id":{n},"#).as_bytes()));
        assert!(scan.ending.capacity() < 4 * ENDING && scan.kept.len() <= LONGEST_ID);
        assert_eq!(scan.messages()[0].ids.len(), MOST_IDS);
        let many = Scan::of(r#"{"jsonrpc":"2.0","id":1}"#.repeat(10_000).as_bytes());
        assert_eq!(many.messages().len(), MOST_MESSAGES);
    }
}
