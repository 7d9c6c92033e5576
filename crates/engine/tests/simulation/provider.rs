//! An MCP server of a proxy. Each life has other ids for it, and other connections.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use acp_wire::{Call, Generation, Id, Json, Message, Outcome, Side};
use mcp::form::{self, Address, Answer, Form, Frame, Target};
use router::Time;

use crate::pen::{Pen, Serial, json, serial};

/// How long a tool takes, in milliseconds.
const WORK: u64 = 20;

/// What outlives a life.
#[derive(Debug, Default)]
pub struct Toolbox {
    /// The calls that were carried out.
    pub done: BTreeSet<Serial>,
    lives: u32,
}

pub struct Provider {
    form: Form,
    /// What its ids begin with: those of each life are others, or each life has the same.
    life: String,
    toolbox: Rc<RefCell<Toolbox>>,
    servers: BTreeSet<String>,
    /// Its connections, and whether they were greeted.
    connections: BTreeMap<String, bool>,
    last: u64,
    /// Calls that are carried out, and until when.
    work: Vec<Work>,
}

struct Work {
    at: Time,
    id: Id,
    inner: Option<Id>,
    connection: String,
    call: Serial,
}

impl Provider {
    pub fn new(
        generation: Generation,
        toolbox: Rc<RefCell<Toolbox>>,
        counts_anew: bool,
    ) -> Provider {
        let form = match generation {
            Generation::P3 => Form::M2,
            Generation::P4 => Form::M3,
            _ => Form::M5,
        };
        toolbox.borrow_mut().lives += 1;
        let life = match counts_anew {
            true => "x".to_owned(),
            false => toolbox.borrow().lives.to_string(),
        };
        Provider {
            form,
            life,
            toolbox,
            servers: BTreeSet::new(),
            connections: BTreeMap::new(),
            last: 0,
            work: Vec::new(),
        }
    }

    /// Adds its server to a request that sets a session up.
    pub fn declare(&mut self, params: &Json) -> Json {
        let Some(list) = params.member("mcpServers") else { return params.clone() };
        self.last += 1;
        let id = format!("tools-{}-{}", self.life, self.last);
        let entry = match self.form {
            Form::M2 | Form::M3 => {
                format!(r#"{{"type":"http","name":"tools","url":"acp:{id}","headers":[]}}"#)
            }
            _ => format!(r#"{{"type":"acp","name":"tools","id":"{id}"}}"#),
        };
        self.servers.insert(id);
        let mut entries = list.elements();
        entries.push(json(entry));
        params.with_member("mcpServers", &Json::array(&entries))
    }

    /// Says whether the request was meant for it.
    pub fn on_request(&mut self, id: &Id, call: &Call, pen: &mut Pen<'_>) -> bool {
        match form::decode(call) {
            Some((_, Frame::Connect { server, .. })) if self.servers.contains(&server) => {
                self.last += 1;
                let connection = format!("v-{}-{}", self.life, self.last);
                let result = self.form.encode_connect_result(&connection);
                self.connections.insert(connection, false);
                pen.say(Side::Agent, Message::response(id.clone(), Outcome::Result(result)));
            }
            Some((_, Frame::Disconnect { connection_id: connection }))
                if self.connections.contains_key(&connection) =>
            {
                self.connections.remove(&connection);
                let outcome = Outcome::Result(Json::EMPTY);
                pen.say(Side::Agent, Message::response(id.clone(), outcome));
            }
            Some((_, Frame::Mcp { target: Target::Connection(it), call, id: inner }))
                if self.connections.contains_key(&it) =>
            {
                self.on_call(id.clone(), inner, it, &call, pen);
            }
            Some((_, word)) => {
                if self.would_be_its_own(&word) {
                    pen.wrong(format!("a provider hears {word:?}, of which it does not know"));
                }
                return false;
            }
            None => return false,
        }
        true
    }

    pub fn on_notification(&mut self, call: &Call, pen: &mut Pen<'_>) -> bool {
        match form::decode(call) {
            Some((_, Frame::Disconnect { connection_id: connection })) => {
                self.connections.remove(&connection).is_some()
            }
            Some((_, Frame::Mcp { target: Target::Connection(it), .. })) => {
                self.connections.contains_key(&it)
            }
            Some((_, word)) if self.would_be_its_own(&word) => {
                pen.wrong(format!("a provider hears {word:?}, of which it does not know"));
                false
            }
            _ => false,
        }
    }

    /// Nobody else has ids like this: what names one that it does not know was for another life.
    fn would_be_its_own(&self, word: &Frame) -> bool {
        match word {
            Frame::Connect { server: it, .. }
            | Frame::Mcp { target: Target::Connection(it), .. } => {
                (it.starts_with("v-") || it.starts_with("tools-"))
                    && !it.ends_with("#theirs")
                    && !it.starts_with(&format!("v-{}-", self.life))
                    && !it.starts_with(&format!("tools-{}-", self.life))
            }
            // A goodbye may come after the end of what it is for.
            Frame::Disconnect { .. } | Frame::Mcp { .. } => false,
        }
    }

    fn on_call(
        &mut self,
        id: Id,
        inner: Option<Id>,
        connection: String,
        call: &Call,
        pen: &mut Pen<'_>,
    ) {
        if call.is("initialize") {
            self.connections.insert(connection.clone(), true);
            let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}"#;
            return self.answer(id, inner, &connection, json(result.to_owned()), pen);
        }
        if self.connections.get(&connection) != Some(&true) {
            pen.wrong(format!("a server hears {call:?} in a connection that was never greeted"));
        }
        let Some(number) = call.params.as_ref().and_then(|it| it.member("arguments")) else {
            return self.answer(id, inner, &connection, Json::EMPTY, pen);
        };
        let number = serial(&number).unwrap_or_default();
        if !self.toolbox.borrow_mut().done.insert(number) {
            pen.wrong(format!("the tool call {number} is carried out twice"));
        }
        self.work.push(Work { at: pen.now.plus(WORK), id, inner, connection, call: number });
    }

    fn answer(&self, id: Id, inner: Option<Id>, connection: &str, result: Json, pen: &mut Pen<'_>) {
        let address = Address { server: "", connection_id: connection, request_id: "" };
        let said = Answer::FromServer(Outcome::Result(result));
        let outcome = self.form.encode_answer(address, inner.as_ref(), said);
        pen.say(Side::Agent, Message::response(id, outcome));
    }

    pub fn wake(&mut self, pen: &mut Pen<'_>) {
        for work in self.work.extract_if(.., |work| work.at <= pen.now).collect::<Vec<_>>() {
            let result = json(format!(r#"{{"content":[],"to":{}}}"#, work.call));
            self.answer(work.id, work.inner, &work.connection, result, pen);
        }
    }

    pub fn alarm(&self) -> Option<Time> {
        self.work.iter().map(|work| work.at).min()
    }
}
