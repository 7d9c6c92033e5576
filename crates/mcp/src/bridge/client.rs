//! One MCP client that has called: its connection to the server, and what is open on both sides.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Malformed, Message, Outcome, code};
use router::Time;

use super::limit::Limits;
use super::requests::{Asked, Wanted};
use super::{Bridge, OURS};
use crate::broker::{Cx, Step, cancelled, may_repeat};
use crate::endpoint::{ClientId, Ticket, Transport};
use crate::form::{Address, Direction, connection_of};
use crate::stateless::{self, CANCELLED, DISCOVER, INITIALIZE, INITIALIZED};

/// A client waits this long for the answer to its first words; then we answer ourselves. The provider
/// may be busy with the very request that set up the session, and the agent may answer that only once
/// all its servers have said hello.
const PATIENCE: u64 = 2_000;

/// How long `notifications/initialized` is held back, in milliseconds, to go together with what the
/// client says next. There are servers (`sparkle-mcp` 0.7) that lose what comes right after it, unless
/// it comes with it.
const TOGETHER: u64 = 200;

/// How many requests of this sort a client may have open.
const MOST_HELLOS: usize = 64;

#[derive(Debug)]
pub struct Client {
    pub ticket: Ticket,
    pub(super) server: String,
    pub(super) name: String,
    kind: Transport,
    pub(super) state: State,
    hellos: Vec<Hello>,
    /// An `initialize` of it was answered by us, in the server's place.
    greeted: bool,
    /// What is held back, and until when.
    held: Option<(Call, Time)>,
    /// What it says after an answer of ours, until the server has given its own: no server expects
    /// anything before that.
    pub(super) early: Vec<(Option<Id>, Call)>,
    /// How many bytes wait for the connection, or for the server's `initialize`.
    pub(super) waiting: usize,
    /// Requests that have a limit.
    pub(super) limits: Limits,
    /// It has said `notifications/initialized`, which was lost with a connection that failed.
    unsaid_ready: bool,
    /// Questions of the server that this client has yet to answer, by the id they have in the chain.
    pub(super) owes: Vec<Id>,
}

#[derive(Debug)]
pub(super) enum State {
    /// It has said nothing yet, or could not be connected.
    Idle,
    /// What it says waits for the connection.
    Connecting(Vec<(Option<Id>, Call)>),
    Connected(String),
}

/// The `initialize` of a client, or the `server/discover` before it, until it is answered.
#[derive(Debug)]
struct Hello {
    id: Id,
    call: Call,
    until: Time,
    /// We have answered it ourselves.
    answered: bool,
    lost: Lost,
}

/// Has somebody been lost with it on the way?
#[derive(Debug, PartialEq)]
enum Lost {
    No,
    /// It is to be said again, unless the server has heard it.
    Now,
    /// It was said again.
    Before,
}

impl Hello {
    /// It has failed. Is it to be said again?
    fn is_lost(&mut self) -> bool {
        let first = self.answered && self.call.is(INITIALIZE) && self.lost == Lost::No;
        if first {
            self.lost = Lost::Now;
        }
        first
    }
}

impl Client {
    pub fn deadline(&self) -> Option<Time> {
        let hellos = self.hellos.iter().filter(|hello| !hello.answered).map(|hello| hello.until);
        let lost = self.hellos.iter().filter(|hello| hello.lost == Lost::Now);
        let lost = lost.map(|_| Time::default());
        let held = self.held.as_ref().map(|(_, until)| *until);
        hellos.chain(lost).chain(held).chain(self.limits.first()).min()
    }

    /// A request of it is answered, or the answer is not wanted any more.
    fn answered(&mut self, id: &Id) {
        self.limits.remove(id);
    }

    /// Has this to wait until the server has answered `initialize` itself?
    fn is_early(&self, id: Option<&Id>) -> bool {
        let ours = |hello: &&Hello| hello.answered && hello.call.is(INITIALIZE);
        self.hellos.iter().find(ours).is_some_and(|hello| id != Some(&hello.id))
    }
}

impl Bridge {
    /// Somebody has called with a ticket.
    pub fn on_called(&mut self, ticket: Ticket, client_id: ClientId, cx: &mut Cx<'_>) {
        let Some(declared) = self.tickets.called(ticket) else {
            // It was revoked in the meantime.
            return cx.out.push(Step::DisconnectClient(client_id));
        };
        self.agent.called(declared.kind);
        let client = Client {
            ticket,
            server: declared.server.clone(),
            name: declared.name.clone(),
            kind: declared.kind,
            state: State::Idle,
            hellos: Vec::new(),
            greeted: false,
            held: None,
            early: Vec::new(),
            waiting: 0,
            limits: Limits::default(),
            unsaid_ready: false,
            owes: Vec::new(),
        };
        self.clients.insert(client_id, client);
    }

    /// A client has said a line.
    pub fn on_heard(&mut self, client_id: ClientId, line: &bytes::Bytes, cx: &mut Cx<'_>) {
        if self.clients.get(client_id).is_none() {
            return;
        }
        match Message::parse(line) {
            Ok(Message::Request { id, call }) => {
                let (id, call) = (id.detached(), call.detached());
                let Some(client) = self.clients.get_mut(client_id) else { return };
                let begins = call.is(INITIALIZE) || call.is(DISCOVER);
                if begins && client.hellos.len() >= MOST_HELLOS
                    || may_repeat(&call) && client.limits.is_full()
                {
                    return self.refuse_more(client_id, id, cx);
                }
                if begins {
                    let until = cx.now.plus(PATIENCE);
                    let (id, call) = (id.clone(), call.clone());
                    let (answered, lost) = (false, Lost::No);
                    client.hellos.push(Hello { id, call, until, answered, lost });
                } else if may_repeat(&call) {
                    client.limits.insert(&id, &call, cx.now);
                }
                self.say(client_id, Some(id), call, cx);
            }
            Ok(Message::Notification(call)) if call.is(CANCELLED) => {
                self.on_cancelled(client_id, &call, cx);
            }
            Ok(Message::Notification(call)) if call.is(INITIALIZED) => {
                if let Some(client) = self.clients.get_mut(client_id) {
                    client.held = Some((call.detached(), cx.now.plus(TOGETHER)));
                }
            }
            Ok(Message::Notification(call)) => self.say(client_id, None, call.detached(), cx),
            Ok(Message::Response { id, outcome, .. }) => {
                self.on_answered(client_id, &id, outcome, cx)
            }
            Err(why) => {
                let (id, code) = match &why {
                    Malformed::NotJson(_) => (Id::NULL, code::PARSE_ERROR),
                    Malformed::NotAMessage { id, .. } => (id.clone(), code::INVALID_REQUEST),
                    Malformed::AnswerWithoutId => return,
                };
                let outcome = Outcome::error(code, &why.to_string());
                cx.out.push(Step::SendToClient {
                    client_id,
                    message: Message::response(id, outcome),
                });
            }
        }
    }

    /// Passes on what a client says, connecting it first if need be.
    fn say(&mut self, client_id: ClientId, id: Option<Id>, call: Call, cx: &mut Cx<'_>) {
        self.say_held(client_id, cx);
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let early = client.is_early(id.as_ref());
        let waits = early || matches!(client.state, State::Connecting(_));
        if waits && !self.may_wait(client_id, id.as_ref(), &call, cx) {
            return;
        }
        let Some(client) = self.clients.get_mut(client_id) else { return };
        match &mut client.state {
            State::Idle => {
                let connect = OURS.connect(&client.server, "");
                // What could not be said before comes first.
                let unsaid = client.hellos.iter().filter(|hello| hello.answered);
                let unsaid = unsaid.map(|hello| (Some(hello.id.clone()), hello.call.clone()));
                let ready = std::mem::take(&mut client.unsaid_ready);
                let ready = ready.then(|| (None, Call::new(INITIALIZED, None)));
                client.state = State::Connecting(unsaid.chain(ready).chain([(id, call)]).collect());
                client.count_waiting();
                self.ask(Asked::Connect(client_id), connect, cx);
            }
            State::Connecting(waiting) => waiting.push((id, call)),
            State::Connected(_) if early => client.early.push((id, call)),
            State::Connected(connection) => {
                let connection = connection.clone();
                self.send(client_id, &connection, id, &call, cx);
            }
        }
    }

    /// Says what was held back to go together with the next message.
    fn say_held(&mut self, client_id: ClientId, cx: &mut Cx<'_>) {
        let held = self.clients.get_mut(client_id).and_then(|client| client.held.take());
        if let Some((call, _)) = held {
            self.say(client_id, None, call, cx);
        }
    }

    /// Says what had to wait for the server's answer, unless it still has to.
    fn say_early(&mut self, client_id: ClientId, cx: &mut Cx<'_>) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let early = std::mem::take(&mut client.early);
        client.count_waiting();
        for (id, call) in early {
            self.say(client_id, id, call, cx);
        }
    }

    fn send(
        &mut self,
        client_id: ClientId,
        connection: &str,
        id: Option<Id>,
        call: &Call,
        cx: &mut Cx<'_>,
    ) {
        let address = Address { server: "", connection, request: "" };
        let call = OURS.say(Direction::ToServer, address, id.as_ref(), call);
        match id {
            Some(id) => self.ask(Asked::Call { client_id, id, wanted: Wanted::Yes }, call, cx),
            None => self.arrive(Message::Notification(call), cx),
        }
    }

    /// The clients whose first words have failed after we had answered them, and their connections.
    pub(crate) fn lost_hellos(&self) -> Vec<(ClientId, String)> {
        let lost = |client: &Client| client.hellos.iter().any(|hello| hello.lost == Lost::Now);
        let clients = self.clients.iter().filter(|(_, client)| lost(client));
        let connected = clients.filter_map(|(client_id, client)| match &client.state {
            State::Connected(connection) => Some((client_id, connection.clone())),
            _ => None,
        });
        connected.collect()
    }

    /// Says them again, unless the server has heard them.
    pub(crate) fn hello_again(&mut self, client_id: ClientId, heard: bool, cx: &mut Cx<'_>) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let lost = client.hellos.iter().position(|hello| hello.lost == Lost::Now);
        let Some(index) = lost else { return };
        if heard {
            client.hellos.swap_remove(index);
            return self.say_early(client_id, cx);
        }
        let hello = &mut client.hellos[index];
        hello.lost = Lost::Before;
        let (id, call) = (hello.id.clone(), hello.call.clone());
        self.say(client_id, Some(id), call, cx);
    }

    /// The answer to one of our questions in the chain.
    pub(crate) fn on_answer(&mut self, number: u64, outcome: Outcome, cx: &mut Cx<'_>) {
        match self.requests.take(number) {
            Some(Asked::Connect(client_id)) => self.on_connected(client_id, outcome, cx),
            Some(Asked::Call { client_id, id, wanted: Wanted::Yes }) => {
                let Some(client) = self.clients.get_mut(client_id) else { return };
                client.answered(&id);
                let hello = client.hellos.iter().position(|hello| hello.id == id);
                // The client has its answer and will not say it again; the server may not have heard
                // it. Whether that is so is known once it is known who was lost.
                if let (Some(index), Outcome::Error(_)) = (hello, &outcome)
                    && client.hellos[index].is_lost()
                {
                    return;
                }
                match hello.map(|index| client.hellos.swap_remove(index)) {
                    Some(Hello { answered: true, call, .. }) => {
                        on_late_hello(client_id, &call, &outcome, cx);
                        self.say_early(client_id, cx);
                    }
                    _ => cx.out.push(Step::SendToClient {
                        client_id,
                        message: Message::response(id, outcome),
                    }),
                }
            }
            // Whoever cancels does not want the answer.
            Some(Asked::Call { client_id, id, wanted: Wanted::Cancelled }) => {
                // Over HTTP, though, a request is a stream that has to end.
                let over_http = |client: &Client| client.kind == Transport::Http;
                if self.clients.get(client_id).is_some_and(over_http) {
                    cx.out.push(Step::SendToClient {
                        client_id,
                        message: Message::response(id, outcome),
                    });
                }
            }
            Some(Asked::Call { wanted: Wanted::No, .. }) | None => {}
        }
    }

    fn on_connected(&mut self, client_id: ClientId, outcome: Outcome, cx: &mut Cx<'_>) {
        let connection = match &outcome {
            Outcome::Result(result) => connection_of(result),
            Outcome::Error(_) => None,
        };
        let Some(client) = self.clients.get_mut(client_id) else {
            // It has left in the meantime.
            if let Some(connection) = connection {
                self.arrive(Message::Notification(OURS.disconnect(&connection).0), cx);
            }
            return;
        };
        let State::Connecting(waiting) = std::mem::replace(&mut client.state, State::Idle) else {
            return;
        };
        match connection {
            Some(connection) => {
                client.state = State::Connected(connection.clone());
                client.count_waiting();
                self.clients.connect(connection, client_id);
                for (id, call) in waiting {
                    self.say(client_id, id, call, cx);
                }
            }
            None => {
                let error = match outcome {
                    Outcome::Error(error) => error,
                    Outcome::Result(_) => {
                        let why = "the provider of the MCP server did not say how it calls the connection";
                        error_object(code::INTERNAL_ERROR, why, None)
                    }
                };
                client.unsaid_ready |= waiting.iter().any(|(_, call)| call.is(INITIALIZED));
                let hellos = std::mem::take(&mut client.hellos);
                let answered =
                    |id: &Id| hellos.iter().any(|hello| hello.answered && hello.id == *id);
                for (id, _) in waiting {
                    let Some(id) = id.filter(|id| !answered(id)) else { continue };
                    client.answered(&id);
                    let outcome = Outcome::Error(error.clone());
                    cx.out.push(Step::SendToClient {
                        client_id,
                        message: Message::response(id, outcome),
                    });
                }
                // A client that has its answer will not say its first words again.
                let unsaid = |it: &Hello| it.answered && it.call.is(INITIALIZE);
                client.hellos = hellos.into_iter().filter(unsaid).collect();
            }
        }
    }

    /// A client does not want an answer any more. What is answered already, be it by us, is not looked
    /// for.
    fn on_cancelled(&mut self, client_id: ClientId, call: &Call, cx: &mut Cx<'_>) {
        let id = call.params.as_ref().and_then(|params| Id::new(params.member("requestId")?));
        let (Some(id), Some(client)) = (id, self.clients.get_mut(client_id)) else { return };
        if client.hellos.iter().any(|hello| hello.answered && hello.id == id) {
            return;
        }
        client.hellos.retain(|hello| hello.id != id);
        client.answered(&id);
        let is_meant = |(waits, _): &mut (Option<Id>, Call)| waits.as_ref() == Some(&id);
        let mut unsaid = client.early.extract_if(.., is_meant).count();
        if let State::Connecting(waiting) = &mut client.state {
            unsaid += waiting.extract_if(.., is_meant).count();
        }
        client.count_waiting();
        if client.kind == Transport::Http {
            // Nobody else will answer, and the stream of the request has to end.
            let answer = Message::response(id.clone(), cancelled());
            cx.out.extend(
                (0..unsaid).map(|_| Step::SendToClient { client_id, message: answer.clone() }),
            );
        }
        self.cancel_open(client_id, &id, Wanted::Cancelled, cx);
        self.say_early(client_id, cx);
    }

    /// A client has answered a question of the server.
    fn on_answered(&mut self, client_id: ClientId, id: &Id, outcome: Outcome, cx: &mut Cx<'_>) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let Some(index) = client.owes.iter().position(|owed| owed == id) else { return };
        let id = client.owes.swap_remove(index);
        self.arrive(Message::response(id, outcome), cx);
    }

    /// A client has left, or was hung up on.
    pub fn on_hung_up(&mut self, client_id: ClientId, cx: &mut Cx<'_>) {
        let Some(client) = self.clients.remove(client_id) else { return };
        for id in client.owes {
            let why = "the MCP client has left";
            self.arrive(Message::response(id, Outcome::error(code::INTERNAL_ERROR, why)), cx);
        }
        self.cancel_all(client_id, cx);
        if let State::Connected(connection) = client.state {
            self.clients.disconnect(&connection);
            self.arrive(Message::Notification(OURS.disconnect(&connection).0), cx);
        }
    }

    /// Does the client with this connection believe that its server has greeted it?
    pub(crate) fn has_greeted(&self, connection: &str) -> bool {
        let client = self.client_of(connection).and_then(|client_id| self.clients.get(client_id));
        client.is_some_and(|client| client.greeted)
    }

    /// Who has this connection?
    pub(crate) fn client_of(&self, connection: &str) -> Option<ClientId> {
        self.clients.of(connection)
    }

    /// The server says something to a client.
    pub(crate) fn tell(
        &mut self,
        client_id: ClientId,
        id: Option<Id>,
        call: Call,
        cx: &mut Cx<'_>,
    ) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let message = match id {
            Some(id) => {
                client.owes.push(id.detached());
                Message::Request { id, call }
            }
            None => Message::Notification(call),
        };
        cx.out.push(Step::SendToClient { client_id, message });
    }

    /// The server does not want an answer any more that a client owes. True if one does. The client
    /// will not answer, as MCP has it; in ACP there is an answer to everything.
    pub(crate) fn withdraw(&mut self, id: &Id, cx: &mut Cx<'_>) -> bool {
        let Some((client_id, client)) = self.clients.debtor(id) else { return false };
        client.owes.retain(|owed| owed != id);
        let params = Json::object([("requestId", Some(id.json().clone()))]);
        let message = Message::notification(CANCELLED, params);
        cx.out.push(Step::SendToClient { client_id, message });
        self.arrive(Message::response(id.clone(), cancelled()), cx);
        true
    }

    /// The provider has closed a connection.
    pub(crate) fn on_disconnected(&mut self, connection: &str, cx: &mut Cx<'_>) {
        let Some(client_id) = self.clients.disconnect(connection) else { return };
        if let Some(client) = self.clients.get_mut(client_id) {
            client.state = State::Idle;
        }
        cx.out.push(Step::DisconnectClient(client_id));
        self.on_hung_up(client_id, cx);
    }

    /// Answers the first words of those who have waited long enough: with what every server has, and
    /// that it does not know what only stateless ones know.
    pub fn tick(&mut self, provider: impl Fn(&str) -> Option<String>, cx: &mut Cx<'_>) {
        self.give_up(provider, cx);
        let due = |client: &Client| client.held.as_ref().is_some_and(|(_, until)| *until <= cx.now);
        for client_id in self.clients.client_ids(due) {
            self.say_held(client_id, cx);
        }
        for (client_id, client) in self.clients.iter_mut() {
            for hello in client.hellos.iter_mut().filter(|it| !it.answered && it.until <= cx.now) {
                hello.answered = true;
                let outcome = if hello.call.is(DISCOVER) {
                    Outcome::Error(stateless::unknown_method(DISCOVER))
                } else {
                    client.greeted = true;
                    let asked = stateless::Client::of(&hello.call);
                    let result = stateless::initialized(None, &asked, &client.name)
                        .with_at(&["capabilities", "tools", "listChanged"], Some(&Json::TRUE));
                    Outcome::Result(result)
                };
                let message = Message::response(hello.id.clone(), outcome);
                cx.out.push(Step::SendToClient { client_id, message });
            }
        }
    }
}

/// The provider's own answer to `initialize`, after we had given ours: what it offers may be new.
fn on_late_hello(client_id: ClientId, asked: &Call, outcome: &Outcome, cx: &mut Cx<'_>) {
    let Some(Outcome::Result(result)) = asked.is(INITIALIZE).then_some(outcome) else { return };
    for (capability, method) in [
        ("tools", "notifications/tools/list_changed"),
        ("resources", "notifications/resources/list_changed"),
        ("prompts", "notifications/prompts/list_changed"),
    ] {
        if result.at(&["capabilities", capability]).is_some() {
            let message = Message::notification(method, None);
            cx.out.push(Step::SendToClient { client_id, message });
        }
    }
}
