//! What a player says of its own accord and in reply.
//!
//! Players count their ids from 0, so that they collide. They do their part of a handshake at once;
//! everything else they answer when the schedule says so.

use acp_wire::Side;
use router::Seat;

use super::ledger::{Question, Serial, What, requested, violation};
use super::world::World;
use super::{Check, Violation};
use crate::cast::Part;
use crate::stub::Frame;

#[derive(Debug, Default)]
pub struct State {
    /// It was sent a greeting (or has sent the first one), so it may be spoken to.
    pub greeted: bool,
    pub started: bool,
    /// It has accepted a greeting, and whoever greeted it knows.
    pub live: bool,
    /// It says nothing any more.
    pub mute: bool,
    /// Nor does it hear anything.
    pub gone: bool,
    /// Its conductor has lost patience with it.
    pub given_up: bool,
    /// As a proxy it leaves its successor to the conductor.
    pub lazy: bool,
    next_id: usize,
    /// The questions that it has yet to answer.
    pub owed: Vec<Serial>,
    /// Greetings that it will answer when its own has been answered: (owed, own).
    relayed: Vec<(Serial, Serial)>,
}

impl State {
    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        match self.next_id {
            id if id % 5 == 0 => format!("\"{}\"", id - 1),
            id => (id - 1).to_string(),
        }
    }
}

/// A payload with spellings that a parser would change.
fn payload(serial: Serial) -> String {
    match serial % 4 {
        0 => format!(r#"{{"n":{serial}}}"#),
        1 => format!(r#"{{"n":{serial},"x": 1.10,"protocolVersion":1,"e":"\u00e9é"}}"#),
        2 => format!(r#"{{"n":{serial},"b":[{{"id":0}} ,1e400],"a":{{"method":"x"}}}}"#),
        _ => format!(r#"{{"n":{serial},"big":123456789012345678901234567890,"_meta":null}}"#),
    }
}

fn greeting(serial: Serial) -> String {
    format!(r#"{{"n":{serial},"protocolVersion":1,"x": 1.10}}"#)
}

impl World {
    pub(super) fn ask(
        &mut self,
        who: usize,
        toward: Side,
        method: &str,
    ) -> Result<Option<Serial>, Violation> {
        let Some(to) = self.hearer(who, toward) else { return Ok(None) };
        let id = self.players[who].fresh_id();
        let question =
            Question { method: method.to_owned(), id: id.clone(), ..Question::default() };
        let fair = self.can_be_spoken_to(to);
        let text = if method == "initialize" { greeting } else { payload };
        let serial = self.ledger.write((who, to), toward, What::Ask(question), fair, text);
        let line = self.call(who, toward, serial, method, Some(&id));
        self.send(who, line);
        Ok(Some(serial))
    }

    pub(super) fn note(&mut self, who: usize, toward: Side, method: &str) {
        let Some(to) = self.hearer(who, toward) else { return };
        let what = What::Note { method: method.to_owned() };
        let fair = self.can_be_spoken_to(to);
        let serial = self.ledger.write((who, to), toward, what, fair, payload);
        let line = self.call(who, toward, serial, method, None);
        self.send(who, line);
    }

    /// Answers the question `ask`, which must be owed.
    pub(super) fn answer(&mut self, who: usize, ask: Serial, error: bool) {
        self.players[who].owed.retain(|owed| *owed != ask);
        let (asker, toward) = (self.ledger.said[ask].from, self.ledger.said[ask].toward.opposite());
        let Some(question) = self.ledger.question(ask) else { return };
        let id = question.known_as.clone().unwrap_or_default();
        let greets = question.method == "initialize";
        let text = |serial| match (greets, error) {
            (true, _) => greeting(serial),
            (_, true) => format!(r#"{{"n":{serial},"code":7,"message":"no","data":null}}"#),
            (_, false) => payload(serial),
        };
        let what = What::Answer { ask, error };
        let serial = self.ledger.write((who, asker), toward, what, true, text);
        if let Some(question) = self.ledger.question_mut(ask) {
            question.answer = Some(serial);
        }
        self.reply(who, serial, &id, error);
    }

    /// Cancels its own question `ask`.
    pub(super) fn cancel(&mut self, who: usize, ask: Serial, wrapped: bool) {
        let said = &self.ledger.said[ask];
        let (to, toward) = (said.to, said.toward);
        let Some(question) = self.ledger.question(ask) else { return };
        let id = requested(&question.id);
        let text = |serial| format!(r#"{{"n":{serial},{id},"_meta":{{"why": 1.0}}}}"#);
        let serial = self.ledger.write((who, to), toward, What::Cancel { ask }, true, text);
        self.send_cancel(who, serial, wrapped);
    }

    /// Cancels a question that it was asked, under the id that the conductor gave it.
    pub(super) fn echo(&mut self, who: usize, ask: Serial, wrapped: bool) {
        let Some(known_as) = self.ledger.question(ask).and_then(|it| it.known_as.clone()) else {
            return;
        };
        let text = |serial| format!(r#"{{"n":{serial},{}}}"#, requested(&known_as));
        let nowhere = (who, usize::MAX);
        let serial = self.ledger.write(nowhere, Side::Agent, What::Nonsense, false, text);
        self.send_cancel(who, serial, wrapped);
    }

    fn send_cancel(&mut self, who: usize, serial: Serial, wrapped: bool) {
        let params = &self.ledger.said[serial].payload;
        let call = format!(r#""method":"$/cancel_request","params":{params}"#);
        let line = match wrapped && self.cast.players[who].part == Part::Proxy {
            true => {
                format!(r#"{{"jsonrpc":"2.0","method":"proxy/successor","params":{{{call}}}}}"#)
            }
            false => format!(r#"{{"jsonrpc":"2.0",{call}}}"#),
        };
        self.send(who, line);
    }

    /// Answers what it has answered before, what another was asked, or what nobody was.
    pub(super) fn stray(&mut self, who: usize, number: u8) {
        let conductor = self.cast.players[who].conductor;
        let foreign = self.ledger.questions().filter(|(_, said, question)| {
            let here = self.cast.players[said.to].conductor == conductor;
            here && (said.to != who || question.answer.is_some())
        });
        let ids: Vec<_> = foreign.filter_map(|(.., question)| question.known_as.clone()).collect();
        let id = match ids.get(usize::from(number) % (ids.len() + 1)) {
            Some(id) => id.clone(),
            None => number.to_string(),
        };
        let nowhere = (who, usize::MAX);
        let serial = self.ledger.write(nowhere, Side::Agent, What::Nonsense, false, payload);
        self.reply(who, serial, &id, number.is_multiple_of(3));
    }

    fn reply(&mut self, who: usize, serial: Serial, id: &str, error: bool) {
        let key = if error { "error" } else { "result" };
        let text = &self.ledger.said[serial].payload;
        let line = match serial % 2 {
            0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{text}}}"#),
            _ => format!(r#"{{"{key}": {text} ,"id":{id},"jsonrpc":"2.0"}}"#),
        };
        self.send(who, line);
    }

    /// A request or notification as this player writes it.
    fn call(
        &self,
        who: usize,
        toward: Side,
        serial: Serial,
        method: &str,
        id: Option<&str>,
    ) -> String {
        let part = self.cast.players[who].part;
        let id = id.map_or_else(String::new, |id| format!(r#""id":{id},"#));
        let params = &self.ledger.said[serial].payload;
        if part.wraps(toward) == Some(true) {
            let meta = if serial.is_multiple_of(3) { r#""_meta":{"this":"hop"},"# } else { "" };
            return format!(
                r#"{{"jsonrpc":"2.0",{id}"method":"proxy/successor","params":{{{meta}"method":"{method}","params":{params}}}}}"#
            );
        }
        let method = match (part, method) {
            (Part::Outer, "initialize") => "proxy/initialize",
            _ => method,
        };
        match serial % 3 {
            0 => format!(r#"{{"params":{params},"method":"{method}",{id}"jsonrpc":"2.0"}}"#),
            _ => format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#),
        }
    }

    /// The neighbour that would hear this player, if it can say anything.
    fn hearer(&self, who: usize, toward: Side) -> Option<usize> {
        let player = &self.players[who];
        if player.mute || !player.started {
            return None;
        }
        self.cast.neighbour(who, toward)
    }

    /// A line has come to a player: judge it, and do the player's part of a handshake.
    pub(super) fn hear(&mut self, who: usize, line: &[u8]) -> Check {
        let Some(frame) = Frame::split(line) else {
            return violation(format!("{who} cannot read {}", String::from_utf8_lossy(line)));
        };
        let text = |bytes: Option<&[u8]>| {
            bytes.map(|it| String::from_utf8_lossy(it).into_owned()).unwrap_or_default()
        };
        let id = frame.id.map(|it| text(Some(it)));
        let Some(method) = frame.method else {
            let is_error = frame.error.is_some();
            let payload = text(if is_error { frame.error } else { frame.result });
            return self.hear_answer(who, &id.unwrap_or_default(), is_error, &payload);
        };
        let wrapped = method == b"\"proxy/successor\"";
        let inner =
            if wrapped { frame.params.and_then(Frame::split).unwrap_or_default() } else { frame };
        let method = text(inner.method).trim_matches('"').to_owned();
        let payload = text(inner.params);
        // A proxy that does not react to its greeting is sent a line that means nothing.
        let is_proxy = self.cast.players[who].part == Part::Proxy;
        if is_proxy && method == "$/cancel_request" && payload == r#"{"requestId":"none"}"# {
            return Ok(());
        }
        let Some(serial) = self.ledger.find(&payload) else {
            return violation(format!("{who} hears what nobody said: {}", text(Some(line))));
        };
        if method == "$/cancel_request" {
            if wrapped {
                return violation("a cancellation in an envelope");
            }
            let id = Frame::split(payload.as_bytes()).and_then(|_| requested_id(&payload));
            self.ledger.hear(who, serial, &payload, true)?;
            return self.ledger.hear_cancel(serial, &payload, &id.unwrap_or_default());
        }
        self.hear_call(who, serial, wrapped, &method, id.as_deref(), &payload)
    }

    fn hear_call(
        &mut self,
        who: usize,
        serial: Serial,
        wrapped: bool,
        method: &str,
        id: Option<&str>,
        payload: &str,
    ) -> Check {
        let part = self.cast.players[who].part;
        let toward = part.heard(wrapped);
        let greets = part == Part::Proxy && !wrapped && method == "proxy/initialize";
        let unoffered;
        let payload = if greets {
            // Whoever is greeted as a proxy is offered MCP over ACP; all else is the sender's.
            let Some(before) = payload.strip_suffix(r#","_meta":{"mcp_acp_transport":true}}"#)
            else {
                return violation(format!("{who} is not offered MCP over ACP: {payload}"));
            };
            unoffered = format!("{before}}}");
            unoffered.as_str()
        } else {
            payload
        };
        if toward == Some(Side::Agent) && self.is_repair(who, serial) {
            return self.hear_repair(who, payload, id);
        }
        if toward != Some(self.ledger.said[serial].toward) {
            return violation(format!("{who} hears message {serial} from the wrong side"));
        }
        self.ledger.hear(who, serial, payload, true)?;
        self.ledger.hear_call(serial, if greets { "initialize" } else { method }, id)?;
        let known_as =
            |owed: &Serial| self.ledger.question(*owed).and_then(|it| it.known_as.clone());
        if id.is_some() && self.players[who].owed.iter().any(|it| known_as(it).as_deref() == id) {
            return violation(format!("{who} is asked two questions as {id:?}"));
        }
        if id.is_none() {
            return Ok(());
        }
        self.players[who].owed.push(serial);
        let greets = matches!(method, "initialize" | "proxy/initialize");
        if greets && toward == Some(Side::Agent) {
            self.shake_hands(who, serial)?;
        }
        Ok(())
    }

    /// A player's part of the handshake: a proxy greets its successor first.
    fn shake_hands(&mut self, who: usize, greeting: Serial) -> Check {
        let state = &self.players[who];
        if state.mute {
            return Ok(());
        }
        let refuses = self.moody && greeting.is_multiple_of(3);
        if self.cast.players[who].part != Part::Proxy || state.lazy || refuses {
            self.answer(who, greeting, refuses);
        } else if let Some(own) = self.ask(who, Side::Agent, "initialize")? {
            self.players[who].relayed.push((greeting, own));
        }
        Ok(())
    }

    /// Is this the greeting that the player's lazy predecessor should have passed on?
    fn is_repair(&self, who: usize, serial: Serial) -> bool {
        let said = &self.ledger.said[serial];
        let greets = matches!(&said.what, What::Ask(it) if it.method == "initialize");
        greets
            && said.toward == Side::Agent
            && self.players.get(said.to).is_some_and(|it| it.lazy)
            && self.cast.neighbour(said.to, Side::Agent) == Some(who)
    }

    /// The conductor asks in its own name: written down as answered, since no player waits for it.
    fn hear_repair(&mut self, who: usize, payload: &str, id: Option<&str>) -> Check {
        let question = Question {
            method: "initialize".into(),
            known_as: id.map(str::to_owned),
            answered: true,
            ..Question::default()
        };
        let parties = (usize::MAX, who);
        let copy = |_| payload.to_owned();
        let serial = self.ledger.write(parties, Side::Agent, What::Ask(question), false, copy);
        self.ledger.take(serial);
        self.players[who].owed.push(serial);
        self.shake_hands(who, serial)
    }

    fn hear_answer(&mut self, who: usize, id: &str, is_error: bool, payload: &str) -> Check {
        let ask = self.ledger.asked(who, id)?;
        match self.ledger.find(payload) {
            Some(serial) => {
                self.ledger.hear_answer(ask, serial, is_error)?;
                // A lazy proxy's answer waits until the conductor has done the proxy's part.
                let greets = self.ledger.question(ask).is_some_and(|it| it.method == "initialize");
                let held = greets && self.players[self.ledger.said[serial].from].lazy;
                self.ledger.hear(who, serial, payload, !held)?;
                let answerer = self.ledger.said[serial].from;
                self.players[answerer].live |= greets && !is_error;
            }
            None if is_error && self.may_fail(ask) => {}
            None => {
                return violation(format!("question {ask} is answered for no reason: {payload}"));
            }
        }
        if let Some(question) = self.ledger.question_mut(ask) {
            question.answered = true;
        }
        let relayed = &mut self.players[who].relayed;
        if let Some(at) = relayed.iter().position(|(_, own)| *own == ask) {
            let (owed, _) = relayed.swap_remove(at);
            if !self.players[who].mute {
                self.answer(who, owed, is_error && self.moody);
            }
        }
        Ok(())
    }

    /// Must what is said to this player now reach it, as long as nobody leaves?
    fn can_be_spoken_to(&self, who: usize) -> bool {
        let flat = self.cast.conductors.len() == 1;
        let player = &self.players[who];
        if self.moody { player.live && flat } else { player.greeted }
    }

    /// May a conductor answer this question itself?
    fn may_fail(&self, ask: Serial) -> bool {
        let said = &self.ledger.said[ask];
        let nested = self.cast.conductors.len() > 1;
        !said.fair
            || self.players[said.to].mute
            || self.anyone_finished()
            || self.disturbed && (nested || said.from == 0)
    }

    pub(super) fn seat(&self, who: usize) -> (usize, Seat) {
        (self.cast.players[who].conductor, self.cast.players[who].seat)
    }
}

fn requested_id(params: &str) -> Option<String> {
    let (_, rest) = params.split_once("\"requestId\":")?;
    let end = rest.find([',', '}'])?;
    Some(rest[..end].to_owned())
}
