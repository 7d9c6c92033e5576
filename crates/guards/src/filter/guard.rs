//! Sees every message and decides what happens to its secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use acp_proxy::{Ahead, Call, Delivery, Id, Json, Message, Outcome, Result, Side};

use component_base::sessions::text;
use secrets::{Findings, PLACEHOLDER};

use super::options::OnAction;
use super::places::{self, Piece, Searched};
use super::report::{self, At, Report, What};
use super::rules::{Direction, Rules};
use super::streams::{self, Cause, Flushed, NewText, Streams};
use super::strings;

/// Requests of the agent that show text to the user. All others are actions, which are never changed.
const SHOWN: [&str; 2] = ["session/request_permission", "elicitation/create"];

/// Requests with secrets on purpose.
const UNTOUCHED: [&str; 4] = ["authenticate", "logout", "auth/login", "auth/logout"];

/// The state of a running filter.
pub(super) struct Guard {
    rules: Arc<Rules>,
    report: Report,
    /// Whether the user gets a notice at the end of a turn.
    has_notice: bool,
    streams: Streams,
    /// The requests that were not answered, by the side that has sent them.
    open: BTreeMap<(Side, Id), OpenRequest>,
    /// Whether the editor and the agent have agreed on ACP version 2.
    is_v2: bool,
}

struct OpenRequest {
    method: String,
    session: Option<String>,
}

/// How the strings of a value are searched.
#[derive(Clone, Copy)]
struct Search<'a> {
    toward: Side,
    method: &'a str,
    /// Strings that are searched as streams.
    pieces: &'a [Piece],
    /// Whether a longer version of the texts may follow.
    is_unfinished: bool,
    /// Whether the value has terminal output in Base64.
    has_snapshot: bool,
    /// Whether the value is an action of the agent.
    is_action: bool,
}

impl<'a> Search<'a> {
    fn new(toward: Side, method: &'a str) -> Search<'a> {
        Search {
            toward,
            method,
            pieces: &[],
            is_unfinished: false,
            has_snapshot: false,
            is_action: false,
        }
    }
}

impl Guard {
    pub(super) fn new(
        rules: Arc<Rules>,
        report: Report,
        has_notice: bool,
        is_restarted: bool,
    ) -> Guard {
        Guard {
            rules,
            report,
            has_notice,
            streams: Streams::new(streams::MAX_SESSIONS, is_restarted),
            open: BTreeMap::new(),
            is_v2: false,
        }
    }

    /// Rewrites a message.
    pub(super) fn on_message(
        &mut self,
        from: Side,
        message: &mut Message,
        ahead: &mut Ahead<'_, '_>,
    ) -> Result<Delivery> {
        match message {
            Message::Notification(call) if from == Side::Agent && call.is("session/update") => {
                self.on_update(call, ahead)
            }
            Message::Notification(call) => {
                let session = text(call.params.as_ref(), "sessionId");
                self.before(from.opposite(), session.as_deref(), ahead);
                let method = self.label(call);
                let findings = self.redact_call(Search::new(from.opposite(), &method), call);
                let (toward, session) = (from.opposite(), session.as_deref());
                let at = At { toward, requester: from, method: &method, session };
                self.found(What::Redacted, at, &findings, ahead)?;
                Ok(Delivery::Forward)
            }
            Message::Request { id, call } => {
                self.on_request(from, id, call, ahead)?;
                Ok(Delivery::Forward)
            }
            Message::Response { id, outcome, extras } => {
                self.on_answer(from, id, outcome, extras, ahead)?;
                Ok(Delivery::Forward)
            }
        }
    }

    /// Sends the text that is held in a session, because another message toward the editor follows.
    fn before(&mut self, toward: Side, session: Option<&str>, ahead: &mut Ahead<'_, '_>) {
        if let (Side::Editor, Some(session)) = (toward, session) {
            let rules = self.rules.clone();
            let secrets = &rules.toward(Side::Editor).secrets;
            let flushed = self.streams.flush(session, Cause::Interruption, &[], secrets);
            self.send(flushed, session, ahead);
        }
    }

    /// Sends the text that is held in all sessions, because a question that belongs to no session follows.
    fn before_all(&mut self, ahead: &mut Ahead<'_, '_>) {
        let rules = self.rules.clone();
        for (session, flushed) in self.streams.flush_all(&rules.toward(Side::Editor).secrets) {
            self.send(flushed, &session, ahead);
        }
    }

    /// Sends held text.
    fn send(&mut self, flushed: Flushed, session: &str, ahead: &mut Ahead<'_, '_>) {
        for update in flushed.updates {
            ahead.notify(Side::Editor, update);
        }
        let at = At::update(session);
        // The text has been redacted, whether that is recorded or not.
        let _ = self.found(What::Redacted, at, &flushed.findings, ahead);
    }

    /// Counts and records findings.
    fn found(
        &mut self,
        what: What,
        at: At<'_>,
        findings: &Findings,
        ahead: &Ahead<'_, '_>,
    ) -> Result<()> {
        if findings.is_empty() {
            return Ok(());
        }
        if let Some(session) = at.session {
            self.streams.count(session, findings);
        }
        self.report.add(what, at, findings, &ahead.context())
    }

    fn on_request(
        &mut self,
        from: Side,
        id: &Id,
        call: &mut Call,
        ahead: &mut Ahead<'_, '_>,
    ) -> Result<()> {
        let toward = from.opposite();
        let method = self.label(call);
        let session = text(call.params.as_ref(), "sessionId");
        let is_shown = SHOWN.contains(&method.as_str());
        match &session {
            None if toward == Side::Editor && is_shown => self.before_all(ahead),
            session => self.before(toward, session.as_deref(), ahead),
        }
        let at = At { toward, requester: from, method: &method, session: session.as_deref() };
        if !UNTOUCHED.contains(&method.as_str()) {
            match toward == Side::Editor && !is_shown {
                true => self.check_action(at, call, ahead)?,
                false => {
                    let mut redacted = call.clone();
                    let findings = self.redact_call(Search::new(toward, &method), &mut redacted);
                    if self.rules.toward(toward).blocks(&findings) {
                        self.found(What::Blocked, at, &findings, ahead)?;
                        return Err(report::blocked(at, &findings));
                    }
                    if let (Side::Editor, Some(session)) = (from, at.session) {
                        self.on_session_request(&method, session, ahead);
                    }
                    self.found(What::Redacted, at, &findings, ahead)?;
                    *call = redacted;
                }
            }
        }
        self.open.insert((from, id.detached()), OpenRequest { method, session });
        Ok(())
    }

    /// The editor begins a turn or loads a session.
    fn on_session_request(&mut self, method: &str, session: &str, ahead: &mut Ahead<'_, '_>) {
        let rules = self.rules.clone();
        let secrets = &rules.toward(Side::Editor).secrets;
        let flushed = match method {
            "session/prompt" | "session/load" | "session/resume" => {
                self.streams.begin(session, secrets)
            }
            _ => return,
        };
        self.send(flushed, session, ahead);
    }

    /// Looks at an action of the agent. It is refused or passes unchanged.
    fn check_action(&mut self, at: At<'_>, call: &Call, ahead: &Ahead<'_, '_>) -> Result<()> {
        let search = Search { is_action: true, ..Search::new(at.toward, at.method) };
        let mut findings = self.redact_call(search, &mut call.clone());
        let has_secret = !findings.is_empty();
        let is_write = ["fs/write_text_file", "terminal/create"].contains(&at.method);
        if is_write && call.any_string(|it| it.contains(PLACEHOLDER)) {
            findings.add("placeholder");
        }
        if findings.is_empty() {
            return Ok(());
        }
        match self.rules.actions {
            OnAction::Warn => self.found(What::Warned, at, &findings, ahead),
            OnAction::Block => {
                self.found(What::Blocked, at, &findings, ahead)?;
                Err(match has_secret {
                    true => report::blocked(at, &findings),
                    false => report::has_placeholder(at),
                })
            }
        }
    }

    fn on_answer(
        &mut self,
        from: Side,
        id: &Id,
        outcome: &mut Outcome,
        extras: &mut Option<Box<[u8]>>,
        ahead: &mut Ahead<'_, '_>,
    ) -> Result<()> {
        let toward = from.opposite();
        let open = self.open.remove(&(toward, id.clone()));
        let (method, session) = match &open {
            Some(open) => (open.method.as_str(), open.session.as_deref()),
            None => ("", None),
        };
        if method == "initialize" {
            self.on_initialized(outcome);
        }
        if toward == Side::Editor {
            self.before_answer(method, session, outcome, ahead);
        }
        let is_unfinished = method == "terminal/output"
            && matches!(outcome, Outcome::Result(it) if !it.member("exitStatus").is_some_and(|it| it.is_object()));
        let (Outcome::Result(json) | Outcome::Error(json)) = &*outcome;
        let search = Search { is_unfinished, ..Search::new(toward, method) };
        let mut findings = Findings::default();
        let redacted = self.redact(search, json.as_bytes(), &mut findings).map(Json::trusted);
        let new_extras = extras.as_deref().and_then(|it| self.redact(search, it, &mut findings));
        let at = At { toward, requester: toward, method, session };
        if toward == Side::Agent && self.rules.toward(toward).blocks(&findings) {
            self.found(What::Blocked, at, &findings, ahead)?;
            return Err(report::blocked(at, &findings));
        }
        if let Some(redacted) = redacted {
            match outcome {
                Outcome::Result(json) | Outcome::Error(json) => *json = redacted,
            }
        }
        if let Some(new) = new_extras {
            *extras = Some(new.into());
        }
        self.found(What::Redacted, at, &findings, ahead)
    }

    fn on_initialized(&mut self, outcome: &Outcome) {
        let Outcome::Result(result) = outcome else { return };
        let version = result.member("protocolVersion").and_then(|it| it.integer());
        self.is_v2 = version >= Some(2) && result.member("agentCapabilities").is_none();
    }

    /// Sends what must come before an answer to the editor: held text, and the notice at the end of a turn.
    fn before_answer(
        &mut self,
        method: &str,
        session: Option<&str>,
        outcome: &Outcome,
        ahead: &mut Ahead<'_, '_>,
    ) {
        let Some(session) = session else { return };
        let cause = match (method, outcome) {
            // In ACP version 2 the answer only accepts the prompt.
            ("session/prompt", Outcome::Result(result)) => {
                result.member("stopReason").map(|_| Cause::of_end(places::is_cut_off(result)))
            }
            ("session/load" | "session/resume", Outcome::Result(_)) => Some(Cause::End),
            ("session/prompt" | "session/load" | "session/resume", Outcome::Error(_)) => {
                Some(Cause::Interruption)
            }
            _ => None,
        };
        match cause {
            Some(cause) => self.end_turn(session, cause, ahead),
            None => self.before(Side::Editor, Some(session), ahead),
        }
        if let ("session/close" | "session/delete", Outcome::Result(_)) = (method, outcome) {
            self.streams.forget(session);
        }
    }

    /// A turn ends: nothing is held any more.
    fn end_turn(&mut self, session: &str, cause: Cause, ahead: &mut Ahead<'_, '_>) {
        let rules = self.rules.clone();
        let secrets = &rules.toward(Side::Editor).secrets;
        let flushed = self.streams.end(session, cause, secrets);
        self.send(flushed, session, ahead);
        let found = self.streams.take_found(session);
        if self.has_notice && !found.is_empty() {
            let update = self.notice(&found);
            let params = [("sessionId", Some(Json::string(session))), ("update", Some(update))];
            ahead.notify(Side::Editor, Call::new("session/update", Json::object(params)));
        }
    }

    /// The update that tells the user what was redacted.
    fn notice(&self, found: &Findings) -> Json {
        let total = found.total();
        let (noun, verb) = if total == 1 { ("secret", "was") } else { ("secrets", "were") };
        let text =
            format!("filter: {total} {noun} {verb} redacted or blocked ({})", report::list(found));
        if self.is_v2 {
            return Json::object([
                ("sessionUpdate", Some(Json::string("notice"))),
                ("severity", Some(Json::string("warning"))),
                ("title", Some(Json::string(&text))),
            ]);
        }
        let content = Json::object([
            ("type", Some(Json::string("text"))),
            ("text", Some(Json::string(&format!("\n\n{text}\n")))),
        ]);
        Json::object([
            ("sessionUpdate", Some(Json::string("agent_message_chunk"))),
            ("content", Some(content)),
        ])
    }

    fn on_update(&mut self, call: &mut Call, ahead: &mut Ahead<'_, '_>) -> Result<Delivery> {
        let rules = self.rules.clone();
        let secrets = &rules.toward(Side::Editor).secrets;
        let params = call.params.clone().unwrap_or(Json::NULL);
        let session = text(Some(&params), "sessionId").unwrap_or_default();
        let update = params.member("update").unwrap_or(Json::NULL);
        let kind = update.member("sessionUpdate");
        let kind = kind.as_ref().and_then(Json::text).unwrap_or_default();
        let pieces = places::pieces(&kind, &params, &update);
        let is_last = streams::is_last_piece(&kind, &update);
        if let (true, Some(call)) = (is_last, text(Some(&update), "toolCallId")) {
            let flushed = self.streams.end_call(&session, &call, &pieces, secrets);
            self.send(flushed, &session, ahead);
        }
        match places::ends_turn(&kind, &update) {
            true => self.end_turn(&session, Cause::of_end(places::is_cut_off(&update)), ahead),
            false => {
                let flushed = self.streams.flush(&session, Cause::Interruption, &pieces, secrets);
                self.send(flushed, &session, ahead);
            }
        }
        if kind == "state_update" && !places::ends_turn(&kind, &update) {
            self.streams.on_busy(&session);
        }
        let search = Search {
            pieces: &pieces,
            is_unfinished: places::is_unfinished(&kind, &update),
            has_snapshot: kind == "terminal_update",
            ..Search::new(Side::Editor, "session/update")
        };
        let mut delivery = Delivery::Forward;
        let mut findings = self.redact_call(search, call);
        for piece in &pieces {
            let mut evicted = Flushed::default();
            let (new, found) = self.streams.push(&session, piece, is_last, secrets, &mut evicted);
            self.send(evicted, &session, ahead);
            findings.merge(&found);
            let text = match new {
                NewText::Same => continue,
                NewText::Changed(text) => Json::trusted(text),
                NewText::Held
                    if call.extras.is_none() && places::has_only(&params, &update, piece) =>
                {
                    delivery = Delivery::Drop;
                    continue;
                }
                NewText::Held => Json::string(""),
            };
            let mut path = vec!["update"];
            path.extend(piece.path.iter().map(String::as_str));
            call.params = call.params.take().map(|params| params.with_at(&path, Some(&text)));
        }
        if let Some(text) = places::replaced(&kind, &params, &update) {
            let evicted = self.streams.replace(&session, &text, search.is_unfinished, secrets);
            self.send(evicted, &session, ahead);
        }
        let redacted = call.params.clone().unwrap_or(Json::NULL);
        for piece in &pieces {
            let template = || {
                let update = redacted.member("update").unwrap_or(Json::NULL);
                places::template(&redacted, &update, piece)
            };
            self.streams.keep_template(&session, piece, template);
        }
        let at = At::update(&session);
        self.found(What::Redacted, at, &findings, ahead)?;
        Ok(delivery)
    }

    /// The name of a method, as it may stand in reports.
    fn label(&self, call: &Call) -> String {
        let name = call.method.name();
        match places::is_acp(&name) {
            true => name.into_owned(),
            false => self.rules.in_actions.secrets.redact(&name).into_owned(),
        }
    }

    /// Redacts all strings of a request or notification.
    fn redact_call(&self, search: Search<'_>, call: &mut Call) -> Findings {
        let mut findings = Findings::default();
        let name = call.method.name().into_owned();
        if !places::is_acp(&name)
            && let Some(new) =
                self.secrets(search).secrets.redact_bytes(name.as_bytes(), &mut findings)
        {
            call.method = (&*String::from_utf8_lossy(&new)).into();
        }
        if let Some(params) = &call.params
            && let Some(new) = self.redact(search, params.as_bytes(), &mut findings)
        {
            call.params = Some(Json::trusted(new));
        }
        if let Some(extras) = &call.extras
            && let Some(new) = self.redact(search, extras, &mut findings)
        {
            call.extras = Some(new.into());
        }
        findings
    }

    /// What is searched for.
    fn secrets(&self, search: Search<'_>) -> &Direction {
        match search.is_action {
            true => &self.rules.in_actions,
            false => self.rules.toward(search.toward),
        }
    }

    /// The JSON text with redacted strings. `None` if there is no secret.
    fn redact(&self, search: Search<'_>, json: &[u8], findings: &mut Findings) -> Option<Vec<u8>> {
        let direction = self.secrets(search);
        let secrets = &direction.secrets;
        let may_be_cut = search.is_unfinished && secrets.has_own();
        if !search.has_snapshot && !may_be_cut && !secrets.may_be_in_json(json) {
            return None;
        }
        strings::replace(json, |place, quoted| {
            let is_snapshot = search.has_snapshot && is_terminal_snapshot(place);
            let searched = match is_snapshot {
                true => Searched::All,
                false => places::searched(search.toward, search.method, place, quoted),
            };
            let secrets = match searched {
                Searched::All => secrets,
                Searched::Values => direction.values.as_ref()?,
                Searched::Nothing => return None,
            };
            // Of several members with the same name, only one is the piece.
            let is_piece = |piece: &Piece| piece.text.as_bytes().as_ptr() == quoted.as_ptr();
            if search.pieces.iter().any(is_piece) {
                return None;
            }
            let text = strings::decode(quoted);
            let is_unfinished = search.is_unfinished && places::may_grow(place);
            let redact = |text: &[u8], findings: &mut Findings| match is_unfinished {
                true => secrets.redact_unfinished(text, findings),
                false => secrets.redact_bytes(text, findings),
            };
            if is_snapshot {
                let Some(bytes) = streams::decode_base64(&text) else { return Some(Vec::new()) };
                return redact(&bytes, findings).map(|it| streams::encode_base64(&it).into_bytes());
            }
            redact(&text, findings)
        })
    }
}

/// The output of a terminal in ACP version 2, which is written in Base64.
fn is_terminal_snapshot(place: strings::Place<'_>) -> bool {
    !place.is_name && place.path == [&b"update"[..], b"output", b"data"]
}
