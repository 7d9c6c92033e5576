//! The MCP server of a proxy. Its ids and connections change with each restart.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use acp_wire::{Call, Generation, Id, Json, Message, Outcome, Side};
use mcp::form::{self, Address, Answer, Form, Frame, Target};
use router::Time;

use crate::outbox::{Outbox, Serial, json, serial};

/// The duration of a tool call, in milliseconds.
const TOOL_DURATION: u64 = 20;

/// What survives a restart.
#[derive(Debug, Default)]
pub struct ToolState {
    /// The tool calls that were executed.
    pub done: BTreeSet<Serial>,
    /// How many processes there were.
    processes: u32,
}

pub struct Provider {
    form: Form,
    /// The part of its ids that identifies the process.
    process: String,
    tool_state: Rc<RefCell<ToolState>>,
    servers: BTreeSet<String>,
    /// Its connections, and whether they were initialized.
    connections: BTreeMap<String, bool>,
    last: u64,
    /// The tool calls that are being executed.
    running_calls: Vec<RunningCall>,
}

/// A tool call that is being executed.
struct RunningCall {
    /// When it ends.
    at: Time,
    id: Id,
    inner: Option<Id>,
    connection: String,
    call: Serial,
}

impl Provider {
    pub fn new(
        generation: Generation,
        tool_state: Rc<RefCell<ToolState>>,
        reuses_ids: bool,
    ) -> Provider {
        let form = match generation {
            Generation::P3 => Form::M2,
            Generation::P4 => Form::M3,
            _ => Form::M5,
        };
        tool_state.borrow_mut().processes += 1;
        let process = match reuses_ids {
            true => "x".to_owned(),
            false => tool_state.borrow().processes.to_string(),
        };
        Provider {
            form,
            process,
            tool_state,
            servers: BTreeSet::new(),
            connections: BTreeMap::new(),
            last: 0,
            running_calls: Vec::new(),
        }
    }

    /// Adds its server to a set-up request.
    pub fn declare(&mut self, params: &Json) -> Json {
        let Some(list) = params.member("mcpServers") else { return params.clone() };
        self.last += 1;
        let id = format!("tools-{}-{}", self.process, self.last);
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

    /// Handles a request for the server. Returns whether it was one.
    pub fn on_request(&mut self, id: &Id, call: &Call, outbox: &mut Outbox<'_>) -> bool {
        match form::decode(call) {
            Some((_, Frame::Connect { server, .. })) if self.servers.contains(&server) => {
                self.last += 1;
                let connection = format!("v-{}-{}", self.process, self.last);
                let result = self.form.encode_connect_result(&connection);
                self.connections.insert(connection, false);
                outbox.send(Side::Agent, Message::response(id.clone(), Outcome::Result(result)));
            }
            Some((_, Frame::Disconnect { connection_id: connection }))
                if self.connections.contains_key(&connection) =>
            {
                self.connections.remove(&connection);
                let outcome = Outcome::Result(Json::EMPTY_OBJECT);
                outbox.send(Side::Agent, Message::response(id.clone(), outcome));
            }
            Some((_, Frame::Mcp { target: Target::Connection(it), call, id: inner }))
                if self.connections.contains_key(&it) =>
            {
                self.on_call(id.clone(), inner, it, &call, outbox);
            }
            Some((_, frame)) => {
                if self.is_from_earlier_process(&frame) {
                    outbox.violation(format!("a provider gets {frame:?}, which it does not know"));
                }
                return false;
            }
            None => return false,
        }
        true
    }

    pub fn on_notification(&mut self, call: &Call, outbox: &mut Outbox<'_>) -> bool {
        match form::decode(call) {
            Some((_, Frame::Disconnect { connection_id: connection })) => {
                self.connections.remove(&connection).is_some()
            }
            Some((_, Frame::Mcp { target: Target::Connection(it), .. })) => {
                self.connections.contains_key(&it)
            }
            Some((_, frame)) if self.is_from_earlier_process(&frame) => {
                outbox.violation(format!("a provider gets {frame:?}, which it does not know"));
                false
            }
            _ => false,
        }
    }

    /// Whether a frame has an id of an earlier process of this proxy. The core should have translated it.
    fn is_from_earlier_process(&self, frame: &Frame) -> bool {
        match frame {
            Frame::Connect { server: it, .. }
            | Frame::Mcp { target: Target::Connection(it), .. } => {
                (it.starts_with("v-") || it.starts_with("tools-"))
                    && !it.ends_with("#theirs")
                    && !it.starts_with(&format!("v-{}-", self.process))
                    && !it.starts_with(&format!("tools-{}-", self.process))
            }
            // A disconnect may arrive after the end of its connection.
            Frame::Disconnect { .. } | Frame::Mcp { .. } => false,
        }
    }

    fn on_call(
        &mut self,
        id: Id,
        inner: Option<Id>,
        connection: String,
        call: &Call,
        outbox: &mut Outbox<'_>,
    ) {
        if call.is("initialize") {
            self.connections.insert(connection.clone(), true);
            let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}"#;
            return self.answer(id, inner, &connection, json(result.to_owned()), outbox);
        }
        if self.connections.get(&connection) != Some(&true) {
            outbox.violation(format!(
                "a server gets {call:?} on a connection that was never initialized"
            ));
        }
        let Some(number) = call.params.as_ref().and_then(|it| it.member("arguments")) else {
            return self.answer(id, inner, &connection, Json::EMPTY_OBJECT, outbox);
        };
        let number = serial(&number).unwrap_or_default();
        if !self.tool_state.borrow_mut().done.insert(number) {
            outbox.violation(format!("the tool call {number} is executed twice"));
        }
        self.running_calls.push(RunningCall {
            at: outbox.now.plus(TOOL_DURATION),
            id,
            inner,
            connection,
            call: number,
        });
    }

    fn answer(
        &self,
        id: Id,
        inner: Option<Id>,
        connection: &str,
        result: Json,
        outbox: &mut Outbox<'_>,
    ) {
        let address = Address { server: "", connection_id: connection, request_id: "" };
        let answer = Answer::FromServer(Outcome::Result(result));
        let outcome = self.form.encode_answer(address, inner.as_ref(), answer);
        outbox.send(Side::Agent, Message::response(id, outcome));
    }

    pub fn wake(&mut self, outbox: &mut Outbox<'_>) {
        for call in
            self.running_calls.extract_if(.., |call| call.at <= outbox.now).collect::<Vec<_>>()
        {
            let result = json(format!(r#"{{"content":[],"to":{}}}"#, call.call));
            self.answer(call.id, call.inner, &call.connection, result, outbox);
        }
    }

    pub fn next_timer(&self) -> Option<Time> {
        self.running_calls.iter().map(|call| call.at).min()
    }
}
