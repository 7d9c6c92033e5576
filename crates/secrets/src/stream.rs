//! Redacts a text that comes in pieces.
//!
//! Text is held back only from the first position on where a secret could begin that the text so far neither shows nor
//! excludes. So the output does not depend on how the text is cut.

use super::interruption::SHOWN;
use super::key::KeyLines;
use super::machine::{MAX_CANDIDATE, Swallow, Verdict};
use super::{Cursor, Decision, Findings, Found, Search, Secrets, WORD_CONTEXT};

/// The state of one streamed text. It holds at most 4 KiB, and one piece of text while that is searched.
#[derive(Debug, Clone, Default)]
pub struct SecretStream {
    /// The context, and the candidate that is not decided.
    text: Vec<u8>,
    /// Where the candidate begins.
    candidate: usize,
    /// The text before this position was sent.
    sent: usize,
    /// The text before this position was replaced by a placeholder, though it was not decided.
    masked: usize,
    /// The secret whose end is awaited.
    swallow: Option<(usize, Swallow)>,
    /// Whether the text may begin with the rest of a secret.
    may_be_rest: bool,
    /// Where another message begins: a word may begin there.
    border: Option<usize>,
}

impl SecretStream {
    /// A text whose beginning was lost, such as after a restart. If it begins with the rest of a secret, the rest is
    /// redacted: a word of more than 12 characters, or lines of a key.
    pub fn resumed() -> SecretStream {
        SecretStream { may_be_rest: true, ..SecretStream::default() }
    }

    /// Whether a part of the text waits to be sent.
    pub fn is_holding(&self) -> bool {
        self.sent < self.text.len()
    }

    /// Whether it is not clear whether the text begins with the rest of a secret.
    pub fn may_be_rest(&self) -> bool {
        self.may_be_rest
    }

    /// The size of the state in bytes.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Adds a piece of text. Appends what can be sent to `out`.
    pub fn push(
        &mut self,
        secrets: &Secrets,
        piece: &[u8],
        out: &mut Vec<u8>,
        findings: &mut Findings,
    ) {
        self.text.extend_from_slice(piece);
        self.scan(secrets, false, out, findings);
    }

    /// Ends the text. Appends the rest to `out`, and begins a new text.
    pub fn finish(&mut self, secrets: &Secrets, out: &mut Vec<u8>, findings: &mut Findings) {
        self.scan(secrets, true, out, findings);
        *self = SecretStream::default();
    }

    /// Sends what is held back, because the text seems to be over. If it goes on nevertheless, the rest of a secret
    /// is still redacted.
    pub fn pause(&mut self, secrets: &Secrets, out: &mut Vec<u8>, findings: &mut Findings) {
        let (undecided, count) = (self.clone(), findings.total());
        self.scan(secrets, true, out, findings);
        let end = undecided.text.len();
        let masked = if findings.total() > count { end } else { undecided.masked };
        *self = SecretStream { sent: end, masked, ..undecided };
    }

    /// The state after a text that was sent as a whole, if more text could complete a secret. `is_unfinished`: the text was
    /// redacted by [`Secrets::redact_unfinished`].
    pub fn after(secrets: &Secrets, text: &[u8], is_unfinished: bool) -> Option<SecretStream> {
        if !secrets.may_go_on(text) {
            return None;
        }
        let mut stream = SecretStream::default();
        let (mut out, mut findings) = (Vec::new(), Findings::default());
        stream.push(secrets, text, &mut out, &mut findings);
        match is_unfinished {
            true => stream.interrupt(secrets, &mut out, &mut findings),
            false => stream.pause(secrets, &mut out, &mut findings),
        }
        stream.is_open().then_some(stream)
    }

    /// Sends what is held back, because another message must follow it. The text may go on later: a beginning that
    /// is the same for all secrets of its kind is sent with at most four characters more. A longer candidate, and one that is
    /// a secret already, is replaced. In both cases the rest of the secret is still redacted.
    pub fn interrupt(&mut self, secrets: &Secrets, out: &mut Vec<u8>, findings: &mut Findings) {
        if !self.is_holding() {
            return;
        }
        let (search, end) = (&*secrets.0, self.text.len());
        let is_masked = self.masked > self.candidate || self.swallow.is_some();
        let hidden = match self.may_be_rest {
            true => (end > SHOWN).then_some((0, search.rest)),
            false => search.hidden(&self.text, self.candidate, self.border),
        };
        match hidden {
            // The placeholder stands for all of it.
            _ if is_masked => {}
            None => return self.pause(secrets, out, findings),
            Some((start, detector)) => {
                if start > self.sent {
                    out.extend_from_slice(&self.text[self.sent..start]);
                }
                let name = &search.detectors[detector].name;
                write_placeholder(name, out);
                findings.add(name);
            }
        }
        self.sent = end;
        self.masked = end;
    }

    /// Sends what is held back within a word, if it is a short beginning that all tokens of a kind share: the `g` of
    /// `waiting`. So ordinary text does not wait for the next piece. A token hardly ever follows a letter.
    pub fn release(&mut self, secrets: &Secrets, out: &mut Vec<u8>) {
        let is_undecided = self.masked <= self.candidate && self.is_holding();
        if is_undecided
            && self.swallow.is_none()
            && !self.may_be_rest
            && secrets.0.tells_nothing(&self.text, self.candidate, self.border)
        {
            out.extend_from_slice(&self.text[self.sent..]);
            self.sent = self.text.len();
        }
    }

    /// Whether more text may complete a secret that has begun.
    pub fn is_open(&self) -> bool {
        self.candidate < self.text.len() || self.swallow.is_some()
    }

    /// Continues the text as another message. Its beginning may be the rest of a secret.
    #[must_use]
    pub fn continued(&self) -> SecretStream {
        let end = self.text.len();
        match self.swallow {
            _ if !self.is_open() => SecretStream::default(),
            Some((detector, Swallow::Key(_))) => {
                let swallow = Some((detector, Swallow::Key(KeyLines::IN_NEXT_MESSAGE)));
                SecretStream { swallow, ..SecretStream::default() }
            }
            _ => SecretStream { sent: end, border: Some(end), ..self.clone() },
        }
    }

    fn scan(
        &mut self,
        secrets: &Secrets,
        is_end: bool,
        out: &mut Vec<u8>,
        findings: &mut Findings,
    ) {
        let search = &*secrets.0;
        let mut at = self.candidate;
        if let Some((detector, swallow)) = self.swallow {
            at = self.swallow(search, detector, swallow, at, is_end);
        }
        if self.may_be_rest && !self.text.is_empty() {
            match search.detectors[search.rest].look(&self.text, 0, is_end) {
                Verdict::Open => return,
                Verdict::NoMatch | Verdict::Placeholder => self.may_be_rest = false,
                Verdict::Match { start, end, then } => {
                    self.may_be_rest = false;
                    let found = Found { detector: search.rest, start, end, then };
                    at = self.replace(search, found, is_end, out, findings);
                }
            }
        }
        let (mut partial, mut cursor) = (None, Cursor::default());
        while at < self.text.len() && self.swallow.is_none() {
            let text = self.text.as_slice();
            let partial = match partial {
                Some(found) if found >= at => found,
                _ if is_end => text.len(),
                _ => *partial.insert(search.partial_literal(text, at, self.border)),
            };
            let Some((found, trigger)) =
                search.next_candidate(text, at, &mut cursor).filter(|it| it.0 < partial)
            else {
                at = partial;
                break;
            };
            match search.decide(text, found, trigger, self.border, is_end) {
                Decision::Open => {
                    at = found;
                    break;
                }
                Decision::NoSecret => at = found + 1,
                Decision::Secret(found) => at = self.replace(search, found, is_end, out, findings),
            }
        }
        let at = at.min(self.text.len());
        if at > self.sent {
            out.extend_from_slice(&self.text[self.sent..at]);
            self.sent = at;
        }
        self.forget_before(at);
    }

    /// Writes the text before a secret and a placeholder. Returns the end of the secret.
    fn replace(
        &mut self,
        search: &Search,
        found: Found,
        is_end: bool,
        out: &mut Vec<u8>,
        findings: &mut Findings,
    ) -> usize {
        let Found { detector, start, end, then } = found;
        let name = &search.detectors[detector].name;
        if start > self.sent {
            out.extend_from_slice(&self.text[self.sent..start]);
        }
        // The placeholder of an interrupted candidate stands for the rest, too.
        if start >= self.masked {
            findings.add(name);
            if end > self.sent {
                write_placeholder(name, out);
            }
        }
        self.sent = self.sent.max(end);
        match then {
            Some(swallow) => self.swallow(search, detector, swallow, end, is_end),
            None => end,
        }
    }

    /// Drops the text of a secret from a position on. Returns its end, or where the text begins that decides about it.
    fn swallow(
        &mut self,
        search: &Search,
        detector: usize,
        swallow: Swallow,
        from: usize,
        is_end: bool,
    ) -> usize {
        let text = &self.text[from..];
        let (length, then) = search.detectors[detector].swallow(swallow, text, is_end);
        self.swallow = then.map(|it| (detector, it));
        self.sent = self.sent.max(from + length);
        from + length
    }

    fn forget_before(&mut self, candidate: usize) {
        let dropped = candidate.saturating_sub(WORD_CONTEXT);
        self.text.drain(..dropped);
        self.candidate = candidate - dropped;
        self.sent -= dropped.min(self.sent);
        self.masked = self.masked.saturating_sub(dropped);
        self.border = self.border.and_then(|it| it.checked_sub(dropped));
        if self.text.capacity() > 2 * MAX_CANDIDATE {
            self.text.shrink_to(MAX_CANDIDATE);
        }
    }
}

fn write_placeholder(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(super::PLACEHOLDER.as_bytes());
    out.extend_from_slice(name.as_bytes());
    out.push(b']');
}
