//! The streamed texts of all sessions, in bounded memory.

use std::borrow::Cow;
use std::collections::HashMap;

use acp_proxy::{Call, Json};

use secrets::{Findings, SecretStream, Secrets};

use super::places::{self, Encoding, Piece};
use super::strings;
use component_base::sessions::session_key;

/// The maximum number of sessions. Those without a possible secret are forgotten first, and of them those that were not used for
/// the longest time.
pub(super) const MAX_SESSIONS: usize = 10_000;

/// How many texts of one session are remembered. Those without a possible secret are forgotten first.
const MAX_STREAMS: usize = 32;

/// The streamed texts of all sessions.
#[derive(Debug)]
pub(super) struct Streams {
    sessions: HashMap<String, Session>,
    clock: u64,
    limit: usize,
    /// Whether the component was started again: the beginning of a text may be lost.
    is_restarted: bool,
    /// Whether a session with a possible secret was forgotten.
    has_lost: bool,
}

#[derive(Debug, Default)]
struct Session {
    used: u64,
    /// Whether a turn has ended, so that the beginning of all later texts is seen.
    has_begun: bool,
    /// Whether a turn runs, or the session is being loaded. Outside of it, no message may follow for long, so no text is held.
    in_turn: bool,
    /// Whether a text with a possible secret was forgotten in this turn. An unknown text may be its rest.
    has_lost: bool,
    /// The last one was used last.
    streams: Vec<Stream>,
    /// What was found in this turn.
    found: Findings,
}

#[derive(Debug)]
struct Stream {
    kind: String,
    id: String,
    writer: String,
    path: Vec<String>,
    encoding: Encoding,
    text: SecretStream,
    /// The update in which held text is sent.
    template: Option<Json>,
}

/// What becomes of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewText {
    Same,
    /// The JSON string that replaces it.
    Changed(Vec<u8>),
    /// All of it is held back.
    Held,
}

/// Held text that must be sent now, and what was found in it.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    pub(super) updates: Vec<Call>,
    pub(super) findings: Findings,
}

/// Why held text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Another message follows. The text may go on.
    Interruption,
    /// The text is over.
    End,
}

impl Cause {
    /// Why held text is sent at the end of a turn.
    pub(super) fn of_end(is_cut_off: bool) -> Cause {
        if is_cut_off { Cause::Interruption } else { Cause::End }
    }
}

impl Streams {
    pub(super) fn new(limit: usize, is_restarted: bool) -> Streams {
        Streams { sessions: HashMap::new(), clock: 0, limit, is_restarted, has_lost: false }
    }

    /// The number of sessions, and the size of all texts in bytes.
    #[cfg(test)]
    fn size(&self) -> (usize, usize) {
        let texts = self.sessions.values().flat_map(|it| &it.streams);
        (self.sessions.len(), texts.map(|it| it.text.size()).sum())
    }

    /// A turn begins, or the session is loaded. The texts of the turn before are over.
    pub(super) fn begin(&mut self, id: &str, secrets: &Secrets) -> Flushed {
        let (session, mut flushed) = self.session(id, secrets);
        if !std::mem::replace(&mut session.in_turn, true) {
            let over = session.streams.drain(..);
            over.for_each(|mut it| it.flush(Cause::End, secrets, &mut flushed));
            session.has_lost = false;
        }
        flushed
    }

    /// The turn of a session ends. Sends what is held. An agent whose turn was cancelled may send the rest of a text later.
    pub(super) fn end(&mut self, session: &str, cause: Cause, secrets: &Secrets) -> Flushed {
        let flushed = self.flush(session, cause, &[], secrets);
        if let Some(session) = self.sessions.get_mut(&*session_key(session)) {
            (session.has_begun, session.in_turn) = (true, false);
        }
        flushed
    }

    /// The agent begins a turn, in ACP version 2. The texts of the turn before are over, and nothing of them is held.
    pub(super) fn on_busy(&mut self, session: &str) {
        if let Some(session) = self.sessions.get_mut(&*session_key(session))
            && !std::mem::replace(&mut session.in_turn, true)
        {
            session.streams.clear();
            session.has_lost = false;
        }
    }

    /// Counts what was found in a session, for the notice at the end of the turn.
    pub(super) fn count(&mut self, session: &str, findings: &Findings) {
        if let Some(session) = self.sessions.get_mut(&*session_key(session)) {
            session.found.merge(findings);
        }
    }

    /// What was found in the turn of a session. Begins anew.
    pub(super) fn take_found(&mut self, session: &str) -> Findings {
        let session = self.sessions.get_mut(&*session_key(session));
        session.map(|it| std::mem::take(&mut it.found)).unwrap_or_default()
    }

    /// Sends what is held in all sessions, because a message that belongs to none of them follows.
    pub(super) fn flush_all(&mut self, secrets: &Secrets) -> Vec<(String, Flushed)> {
        let is_holding = |it: &Session| it.streams.iter().any(|it| it.text.is_holding());
        let holding = self.sessions.iter().filter(|(_, it)| is_holding(it));
        let ids: Vec<String> = holding.map(|(id, _)| id.clone()).collect();
        let flush = |id: String| {
            let flushed = self.flush(&id, Cause::Interruption, &[], secrets);
            (id, flushed)
        };
        ids.into_iter().map(flush).collect()
    }

    /// A tool call is over. Sends what is held of its texts, except those that these pieces continue, and forgets them.
    pub(super) fn end_call(
        &mut self,
        session: &str,
        call: &str,
        except: &[Piece],
        secrets: &Secrets,
    ) -> Flushed {
        let mut flushed = Flushed::default();
        let Some(session) = self.sessions.get_mut(&*session_key(session)) else { return flushed };
        let call = &*session_key(call);
        session.streams.retain_mut(|stream| {
            let is_over = stream.id == call
                && !places::is_message(&stream.kind)
                && !except.iter().any(|it| it.kind == stream.kind);
            if is_over {
                stream.flush(Cause::End, secrets, &mut flushed);
            }
            !is_over
        });
        flushed
    }

    /// Sends what is held in a session, except the texts that these pieces continue.
    pub(super) fn flush(
        &mut self,
        session: &str,
        cause: Cause,
        except: &[Piece],
        secrets: &Secrets,
    ) -> Flushed {
        let mut flushed = Flushed::default();
        let Some(session) = self.sessions.get_mut(&*session_key(session)) else { return flushed };
        let continues = |it: &Stream| except.iter().any(|piece| it.is_of(piece));
        for stream in session.streams.iter_mut().filter(|it| !continues(it)) {
            stream.flush(cause, secrets, &mut flushed);
        }
        flushed
    }

    /// Forgets a session that was closed.
    pub(super) fn forget(&mut self, session: &str) {
        self.sessions.remove(&*session_key(session));
    }

    /// Adds a piece to its text. `is_last`: nothing follows it.
    pub(super) fn push(
        &mut self,
        session: &str,
        piece: &Piece,
        is_last: bool,
        secrets: &Secrets,
        flushed: &mut Flushed,
    ) -> (NewText, Findings) {
        let (session, evicted) = self.session(session, secrets);
        flushed.add(evicted);
        let in_turn = session.in_turn;
        let stream = session.stream(piece, secrets, flushed);
        let Some(bytes) = decode(piece) else {
            // Another decoder may find a secret in it.
            return (NewText::Changed(encode(b"", piece.encoding)), Findings::default());
        };
        let (mut out, mut findings) = (Vec::with_capacity(bytes.len()), Findings::default());
        stream.text.push(secrets, &bytes, &mut out, &mut findings);
        if is_last {
            stream.text.finish(secrets, &mut out, &mut findings);
            session.streams.pop();
        } else if in_turn || stream.text.may_be_rest() {
            stream.text.release(secrets, &mut out);
        } else {
            stream.text.interrupt(secrets, &mut out, &mut findings);
        }
        let new = if out == *bytes {
            NewText::Same
        } else if out.is_empty() {
            NewText::Held
        } else {
            NewText::Changed(encode(&out, piece.encoding))
        };
        (new, findings)
    }

    /// A text was replaced as a whole. The next piece of its stream may complete a secret.
    pub(super) fn replace(
        &mut self,
        session: &str,
        text: &Piece,
        is_unfinished: bool,
        secrets: &Secrets,
    ) -> Flushed {
        let bytes = decode(text).unwrap_or_default();
        let state = SecretStream::after(secrets, &bytes, is_unfinished);
        if state.is_none() && !self.sessions.contains_key(&*session_key(session)) {
            return Flushed::default();
        }
        let (session, mut flushed) = self.session(session, secrets);
        let is_known = session.streams.iter().any(|it| it.is_of(text));
        if state.is_some() || is_known {
            session.stream(text, secrets, &mut flushed).text = state.unwrap_or_default();
        }
        flushed
    }

    /// Whether the text of a piece waits to be sent.
    pub(super) fn keep_template(
        &mut self,
        session: &str,
        piece: &Piece,
        template: impl FnOnce() -> Json,
    ) {
        let Some(session) = self.sessions.get_mut(&*session_key(session)) else { return };
        let found = session.streams.iter_mut().find(|it| it.is_of(piece));
        if let Some(stream) = found.filter(|it| it.text.is_holding()) {
            stream.template = Some(template());
        }
    }

    fn session(&mut self, id: &str, secrets: &Secrets) -> (&mut Session, Flushed) {
        let id = &*session_key(id);
        self.clock += 1;
        let mut flushed = Flushed::default();
        if !self.sessions.contains_key(id) {
            if self.sessions.len() >= self.limit {
                flushed = self.make_room(secrets);
            }
            let has_begun = !self.is_restarted && !self.has_lost;
            self.sessions.insert(id.to_owned(), Session { has_begun, ..Session::default() });
        }
        let session = self.sessions.get_mut(id).expect("it was just inserted");
        session.used = self.clock;
        (session, flushed)
    }

    /// Forgets a tenth of the sessions, so that the search for old ones is rare. What they hold is sent.
    fn make_room(&mut self, secrets: &Secrets) -> Flushed {
        let rank = |it: &Session| (it.streams.iter().any(Stream::is_open), it.in_turn, it.used);
        let mut ranks: Vec<(bool, bool, u64)> = self.sessions.values().map(rank).collect();
        ranks.sort_unstable();
        let last = ranks[(self.limit / 10).min(ranks.len() - 1)];
        self.has_lost |= last.0;
        let mut flushed = Flushed::default();
        self.sessions.retain(|_, session| {
            let is_kept = rank(session) > last;
            if !is_kept {
                let streams = session.streams.iter_mut();
                streams.for_each(|it| it.flush(Cause::Interruption, secrets, &mut flushed));
            }
            is_kept
        });
        flushed
    }
}

impl Session {
    /// The text that a piece continues. It becomes the last one.
    fn stream(&mut self, piece: &Piece, secrets: &Secrets, flushed: &mut Flushed) -> &mut Stream {
        let found = self.streams.iter().position(|it| it.is_of(piece));
        if let Some(index) = found {
            let stream = self.streams.remove(index);
            self.streams.push(Stream { path: piece.path.clone(), ..stream });
        } else {
            if self.streams.len() >= MAX_STREAMS {
                self.make_room(secrets, flushed);
            }
            // A secret may continue in the next message of the same kind and writer.
            let is_before = |it: &&Stream| it.kind == piece.kind && it.writer == piece.writer;
            let before = self.streams.iter().rfind(is_before);
            let text = match before.filter(|_| places::is_message(&piece.kind)) {
                Some(before) => before.text.continued(),
                None if self.has_begun && !self.has_lost => SecretStream::default(),
                None => SecretStream::resumed(),
            };
            self.streams.push(Stream {
                kind: piece.kind.clone(),
                id: piece.id.clone(),
                writer: piece.writer.clone(),
                path: piece.path.clone(),
                encoding: piece.encoding,
                text,
                template: None,
            });
        }
        self.streams.last_mut().expect("it was just pushed")
    }

    /// Forgets a text.
    fn make_room(&mut self, secrets: &Secrets, flushed: &mut Flushed) {
        let idle = self.streams.iter().position(|it| !it.is_open());
        self.has_lost |= idle.is_none();
        let mut forgotten = self.streams.remove(idle.unwrap_or(0));
        forgotten.flush(Cause::Interruption, secrets, flushed);
    }
}

impl Stream {
    /// Whether a piece continues this text.
    fn is_of(&self, piece: &Piece) -> bool {
        self.kind == piece.kind && self.id == piece.id && self.writer == piece.writer
    }

    /// Whether more text may complete a secret.
    fn is_open(&self) -> bool {
        self.text.is_open() || self.text.may_be_rest()
    }

    fn flush(&mut self, cause: Cause, secrets: &Secrets, flushed: &mut Flushed) {
        let mut out = Vec::new();
        match cause {
            Cause::Interruption => {
                self.text.interrupt(secrets, &mut out, &mut flushed.findings);
            }
            Cause::End => self.text.pause(secrets, &mut out, &mut flushed.findings),
        }
        let Some(template) = self.template.take().filter(|_| !out.is_empty()) else { return };
        let text = Json::trusted(encode(&out, self.encoding));
        let mut path = vec!["update"];
        path.extend(self.path.iter().map(String::as_str));
        flushed.updates.push(Call::new("session/update", template.with_at(&path, Some(&text))));
    }
}

impl Flushed {
    fn add(&mut self, other: Flushed) {
        self.updates.extend(other.updates);
        self.findings.merge(&other.findings);
    }
}

/// The JSON string of a text.
fn encode(text: &[u8], encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    match encoding {
        Encoding::Plain => strings::write_string(text, &mut out),
        Encoding::Base64 => strings::write_string(encode_base64(text).as_bytes(), &mut out),
    }
    out
}

/// The text of a piece. `None` if it is not written as it should be.
fn decode(piece: &Piece) -> Option<Cow<'_, [u8]>> {
    let text = strings::decode(piece.text.as_bytes());
    match piece.encoding {
        Encoding::Plain => Some(text),
        Encoding::Base64 => decode_base64(&text).map(Cow::Owned),
    }
}

/// The bytes of a text in Base64, as tolerant decoders read it: without padding, with spaces, with the alphabet of
/// addresses. `None` if it is something else.
pub(super) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    const TOLERANT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let standard = |it: &u8| match it {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let letters = text.iter().filter(|it| !it.is_ascii_whitespace()).map(standard);
    TOLERANT.decode(letters.collect::<Vec<u8>>()).ok()
}

/// Base64 of these bytes.
pub(super) fn encode_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Whether an update ends a tool call and its texts.
pub(super) fn is_last_piece(kind: &str, update: &Json) -> bool {
    ["tool_call", "tool_call_update"].contains(&kind) && !places::is_unfinished(kind, update)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn piece(kind: &str, id: &str, text: &str) -> Piece {
        let update = json!({ "messageId": id, "content": { "type": "text", "text": text } });
        let update = Json::trusted(update.to_string());
        places::pieces(kind, &Json::NULL, &update).remove(0)
    }

    /// Adds a text to a session in a turn. Returns what is sent of it.
    fn say(streams: &mut Streams, session: &str, text: &str) -> String {
        let secrets = Secrets::standard();
        streams.begin(session, secrets);
        let piece = piece("agent_message_chunk", "m", text);
        match streams.push(session, &piece, false, secrets, &mut Flushed::default()).0 {
            NewText::Same => format!("{text:?}"),
            NewText::Changed(new) => String::from_utf8(new).unwrap(),
            NewText::Held => String::new(),
        }
    }

    #[test]
    fn sessions_with_a_possible_secret_are_forgotten_last() {
        let rest = "H9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6, ok";
        let mut streams = Streams::new(10, false);
        say(&mut streams, "first", "is ghp_aB3dE6g");
        for number in 0..100 {
            say(&mut streams, &format!("s{number}"), "word ");
        }
        assert_eq!(say(&mut streams, "first", rest), "\"[redacted:github], ok\"");
        assert_eq!(say(&mut streams, "new", "internationalization "), "\"internationalization \"");
        // The state of a session is lost: what comes of it may be the rest of a secret.
        say(&mut streams, "second", "is ghp_aB3dE6g");
        for number in 0..100 {
            say(&mut streams, &format!("t{number}"), "is ghp_aB3dE6g");
        }
        assert_eq!(say(&mut streams, "second", rest), "\"[redacted:rest], ok\"");
    }

    #[test]
    fn long_ids_take_no_more_memory_than_short_ones() {
        let (secrets, mut streams) = (Secrets::standard(), Streams::new(10, false));
        let long = "x".repeat(200_000);
        let piece = piece("agent_message_chunk", &long, "is ghp_aB3dE6g");
        streams.push(&long, &piece, false, secrets, &mut Flushed::default());
        let (session, texts) = streams.sessions.iter().next().expect("a session");
        assert!(session.len() < 100 && texts.streams[0].id.len() < 100);
        let flushed = streams.end(&long, Cause::End, secrets);
        assert!(flushed.updates.is_empty() && flushed.findings.is_empty(), "there is no template");
        streams.forget(&long);
        assert!(streams.sessions.is_empty());
    }

    #[test]
    fn long_names_and_values_in_meta_take_no_memory() {
        let (secrets, mut streams) = (Secrets::standard(), Streams::new(10, false));
        let (long, id) = ("x".repeat(200_000), "y".repeat(200));
        let mut marks = json!({ (long.clone()): { "agentId": "a" }, "agentName": long });
        for number in 0..20 {
            marks[format!("{number}")] = json!({ "messageId": id, "agentId": id });
        }
        let output = format!("terminal_output{long}");
        let updates = [
            ("agent_message_chunk".to_owned(), json!({ "_meta": marks })),
            (format!("{long}_chunk"), json!({ "_meta": marks })),
            ("tool_call_update".to_owned(), json!({ "_meta": { (output): { "data": "ghp_a" } } })),
        ];
        for (kind, mut update) in updates {
            update["content"] = json!({ "type": "text", "text": "is ghp_aB3dE6g" });
            let update = Json::trusted(update.to_string());
            for piece in places::pieces(&kind, &Json::NULL, &update) {
                streams.push("s", &piece, false, secrets, &mut Flushed::default());
            }
        }
        let texts = &streams.sessions["s"].streams;
        assert_eq!(texts.len(), 2, "a long name of an output is none");
        for it in texts {
            let size: usize =
                it.path.iter().chain([&it.kind, &it.id, &it.writer]).map(String::len).sum();
            assert!(size < 300, "{it:?}");
            assert!(it.id.starts_with("sha256-") && it.writer.starts_with("sha256-"), "{it:?}");
        }
    }

    #[test]
    fn the_memory_of_many_sessions_and_messages_is_bounded() {
        let (secrets, mut streams) = (Secrets::standard(), Streams::new(100, false));
        let long = format!("ghp_{}", "aB3d".repeat(1000));
        for number in 0..150 {
            let session = format!("s{number}");
            for message in 0..20 {
                let piece = piece("agent_message_chunk", &format!("m{message}"), &long);
                streams.push(&session, &piece, false, secrets, &mut Flushed::default());
                streams.flush(&session, Cause::Interruption, &[], secrets);
            }
            let (sessions, bytes) = streams.size();
            assert!(sessions <= 100 && bytes <= 100 * MAX_STREAMS * 4200, "{sessions}, {bytes}");
        }
        streams.forget("s149");
        assert!(!streams.sessions.contains_key("s149"));
    }
}
