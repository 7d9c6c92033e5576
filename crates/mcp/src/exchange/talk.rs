//! Conversations between a consumer and a provider, at the provider's hop.
//!
//! What a consumer says comes in its own form and leaves in the provider's. Where both speak the same
//! form, messages pass as they are. The router does not know: a request is answered under the id it
//! was delivered with, whatever was said to the provider in between.

use std::collections::BTreeMap;

use router::{Seat, Time};
use wire::message::error_object;
use wire::{Call, Id, Json, Message, Outcome, Side, code};

use super::server::Server;
use super::{Exchange, Name, Step, Watch, name};
use crate::bridge::no_such;
use crate::form::{self, Address, Answer, Form, Target, Way, Word, connection_of};
use crate::stateless::{
    self, CANCELLED, Client, DISCOVER, INITIALIZE, INITIALIZED, PING, PROGRESS, Stage,
};

/// How long a provider may take with what we ourselves want to know, in milliseconds. What a consumer
/// asks has no limit.
const PATIENCE: u64 = 30_000;

/// How often a server may ask back before it answers.
const ROUNDS: u8 = 16;

#[derive(Debug, Default)]
pub struct Talks {
    all: BTreeMap<u64, Talk>,
    /// By the id that a consumer knows.
    by_connection: BTreeMap<String, u64>,
    /// By the id that a provider knows.
    by_provider: BTreeMap<(Seat, String), u64>,
    /// What is being done, by provider and `requestId`: between a stateless side and one that is not.
    operations: BTreeMap<(Seat, String), Operation>,
    /// Answers of consumers that are spelt differently for the provider who asked.
    reversed: BTreeMap<(Seat, Name), Reversed>,
    /// What stateless servers want to know before they answer.
    inputs: BTreeMap<u64, Input>,
    /// Until when our own questions may be answered.
    limits: BTreeMap<(Seat, Name), Time>,
    last: u64,
}

#[derive(Debug)]
pub struct Talk {
    server: String,
    pub seat: Seat,
    consumer: Consumer,
    state: State,
    /// What the server answered to our own `initialize`, for a stateless consumer.
    hello: Option<Json>,
}

/// How the other side knows this conversation.
#[derive(Debug, Clone)]
enum Consumer {
    Connection {
        form: Form,
        id: String,
    },
    /// By the server's id, or name, as it says it.
    Server {
        form: Form,
        id: String,
    },
    Stateless,
}

#[derive(Debug)]
enum State {
    /// What is said waits.
    Opening(Vec<Item>),
    /// The same; we have said `initialize` for a consumer that does not.
    Greeting {
        form: Form,
        connection: String,
        waiting: Vec<Item>,
    },
    Open {
        form: Form,
        connection: String,
    },
    Stateless(Client),
}

/// Something that a consumer says.
#[derive(Debug, Clone)]
struct Item {
    /// Under which it is to be answered.
    id: Option<Id>,
    /// What the inner message calls itself.
    inner: Option<Id>,
    request: String,
    call: Call,
    /// The message as it came.
    original: Option<Call>,
}

#[derive(Debug)]
struct Operation {
    talk: u64,
    token: Option<Json>,
    /// What the other side calls it.
    request: String,
}

#[derive(Debug)]
struct Reversed {
    provider: Form,
    consumer: Form,
    inner: Option<Id>,
}

/// Questions of a server that the consumer is asked before the server can answer.
#[derive(Debug)]
struct Input {
    talk: u64,
    id: Id,
    call: Call,
    inner: Option<Id>,
    state: Option<Json>,
    rounds: u8,
    /// By our number of the question: its name, and the answer.
    answers: Vec<(u64, String, Option<Json>)>,
}

/// Something that a provider was asked.
#[derive(Debug)]
pub enum Question {
    Connect {
        talk: u64,
        form: Form,
        asked: Option<Id>,
        alike: bool,
    },
    /// Is it stateless? And then: what does it offer?
    Discover {
        talk: u64,
        then: Then,
    },
    Hello {
        talk: u64,
    },
    Say {
        talk: u64,
        form: Form,
        inner: Option<Id>,
        request: String,
        call: Call,
        rounds: u8,
    },
    /// A stateless request to a server of which it is not known whether it is.
    Trial {
        server: String,
        inner: Option<Id>,
        request: String,
        call: Call,
    },
    Goodbye,
}

/// What a discovery is for.
#[derive(Debug)]
pub enum Then {
    /// Answer the consumer's connect, if it was one.
    Open { asked: Option<Id> },
    /// Answer the consumer's `initialize`.
    Hello { id: Id, inner: Option<Id> },
}

const INPUT: &str = "conductor/mcp-input:";

fn is_ignorance(outcome: &Outcome) -> bool {
    let codes = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INVALID_REQUEST];
    outcome.error_code().is_some_and(|code| codes.contains(&code))
}

impl Talks {
    pub fn len(&self) -> usize {
        self.all.len() + self.operations.len() + self.reversed.len() + self.inputs.len()
    }

    pub fn waits_for_consumers(&self) -> bool {
        !self.reversed.is_empty() || !self.inputs.is_empty()
    }

    pub fn deadline(&self) -> Option<Time> {
        self.limits.values().min().copied()
    }

    pub fn with(&self, connection: &str) -> Option<&Talk> {
        self.all.get(self.by_connection.get(connection)?)
    }

    pub fn of_provider(&self, seat: Seat, connection: &str) -> Option<u64> {
        self.by_provider.get(&(seat, connection.to_owned())).copied()
    }

    pub fn forget(&mut self, seat: Seat) {
        self.all.retain(|_, talk| talk.seat != seat);
        let all = &self.all;
        self.by_connection.retain(|_, talk| all.contains_key(talk));
        self.by_provider.retain(|(whose, _), _| *whose != seat);
        self.operations.retain(|(whose, _), _| *whose != seat);
        self.reversed.retain(|(whose, _), _| *whose != seat);
        self.inputs.retain(|_, input| all.contains_key(&input.talk));
        self.limits.retain(|(whose, _), _| *whose != seat);
    }

    fn add(&mut self, talk: Talk) -> u64 {
        self.last += 1;
        self.all.insert(self.last, talk);
        self.last
    }

    fn remove(&mut self, number: u64) -> Option<Talk> {
        let talk = self.all.remove(&number)?;
        self.by_connection.retain(|_, it| *it != number);
        self.by_provider.retain(|_, it| *it != number);
        self.operations.retain(|_, it| it.talk != number);
        self.inputs.retain(|_, it| it.talk != number);
        Some(talk)
    }

    fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

fn deliver(to: Seat, toward: Side, message: Message, steps: &mut Vec<Step>) {
    steps.push(Step::Deliver { to, toward, message });
}

/// Answers a request that was delivered to a seat, in its place.
fn answer(seat: Seat, id: Id, outcome: Outcome, steps: &mut Vec<Step>) {
    let message = Message::response(id, outcome);
    steps.push(Step::Arrive { from: seat, toward: Side::Agent, message });
}

fn message(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

impl Exchange {
    /// A consumer's message is to be delivered to a seat on its way to the provider.
    pub(super) fn on_consumer(
        &mut self,
        now: Time,
        seat: Seat,
        id: Option<Id>,
        call: Call,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        let Some((form, word)) = form::read(&call) else { return Some(message(id, call)) };
        let mine = |exchange: &Exchange, server: &str| {
            exchange.find(form, server).filter(|key| exchange.servers[key].seat == seat)
        };
        match word {
            Word::Connect { server, chosen } => {
                let Some(key) = mine(self, &server) else {
                    return self.not_here(
                        seat,
                        id,
                        form,
                        &format!("server '{server}'"),
                        call,
                        steps,
                    );
                };
                let id = id?;
                let consumer = Consumer::Connection { form, id: chosen.unwrap_or_default() };
                let number = self.add_talk(&key, seat, consumer);
                let form = self.servers[&key].form_for(form);
                self.open(now, number, form, Some(id), Some(call), steps);
            }
            Word::Disconnect { connection } => {
                let number = self.talks.by_connection.get(&connection).copied();
                let Some(number) = number.filter(|it| self.talks.all[it].seat == seat) else {
                    let what = format!("connection '{connection}'");
                    return self.not_here(seat, id, form, &what, call, steps);
                };
                self.close_talk(number, id, steps);
            }
            Word::Say { target: Target::Connection(connection), call: said, id: inner } => {
                let number = self.talks.by_connection.get(&connection).copied();
                let Some(number) = number.filter(|it| self.talks.all[it].seat == seat) else {
                    let what = format!("connection '{connection}'");
                    return self.not_here(seat, id, form, &what, call, steps);
                };
                let request = String::new();
                let item = Item { id, inner, request, call: said, original: Some(call) };
                self.say(now, number, item, steps);
            }
            Word::Say { target: Target::Server(server), call: said, id: inner } => {
                let Some(key) = mine(self, &server) else {
                    return self.not_here(
                        seat,
                        id,
                        form,
                        &format!("server '{server}'"),
                        call,
                        steps,
                    );
                };
                let open = self.talks.all.iter().find(|(_, talk)| {
                    talk.server == key && matches!(talk.consumer, Consumer::Server { .. })
                });
                let number = match open {
                    Some((number, _)) => *number,
                    None => {
                        let number =
                            self.add_talk(&key, seat, Consumer::Server { form, id: server });
                        let form = self.servers[&key].form_for(form);
                        self.open(now, number, form, None, None, steps);
                        number
                    }
                };
                let request = String::new();
                let item = Item { id, inner, request, call: said, original: Some(call) };
                self.say(now, number, item, steps);
            }
            Word::Say { target: Target::Operation { server, request }, call: said, id: inner } => {
                let Some(key) = mine(self, &server) else {
                    return self.not_here(
                        seat,
                        id,
                        form,
                        &format!("server '{server}'"),
                        call,
                        steps,
                    );
                };
                let server = &self.servers[&key];
                if server.form_for(Form::M7) == Form::M7 {
                    let settled = server.settled;
                    let call = if server.native == key {
                        call
                    } else {
                        let native = Json::string(&server.native);
                        let params = call.params.map(|it| it.with_member("serverId", &native));
                        Call { params, ..call }
                    };
                    if let Some(id) = id.as_ref().filter(|_| !settled) {
                        let trial = Question::Trial { server: key, inner, request, call: said };
                        self.watched.insert((seat, name(id)), Watch::Question(trial));
                    }
                    return Some(message(id, call));
                }
                let item = Item { id, inner, request, call: said, original: None };
                self.say_stateless(now, &key, item, steps);
            }
        }
        None
    }

    /// A message has come to a seat that does not provide what it is for.
    fn not_here(
        &self,
        seat: Seat,
        id: Option<Id>,
        form: Form,
        what: &str,
        call: Call,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        if !self.is_end_of_road(seat) {
            return Some(message(id, call));
        }
        answer(seat, id?, Outcome::Error(no_such(what, form)), steps);
        None
    }

    fn add_talk(&mut self, server: &str, seat: Seat, consumer: Consumer) -> u64 {
        let state = State::Opening(Vec::new());
        self.talks.add(Talk { server: server.to_owned(), seat, consumer, state, hello: None })
    }

    /// What a stateless consumer says to a server with connections: all of it goes over one.
    fn say_stateless(&mut self, now: Time, key: &str, item: Item, steps: &mut Vec<Step>) {
        let open = |talk: &Talk| talk.server == key && matches!(talk.consumer, Consumer::Stateless);
        let found = self.talks.all.iter().find(|(_, talk)| open(talk)).map(|(number, _)| *number);
        let number = found.unwrap_or_else(|| {
            let server = &self.servers[key];
            let (seat, form) = (server.seat, server.form_for(Form::M7));
            let number = self.add_talk(key, seat, Consumer::Stateless);
            self.open(now, number, form, None, None, steps);
            number
        });
        self.say(now, number, item, steps);
    }

    /// Opens a conversation with a provider in this form. `asked` is the consumer's own connect,
    /// `original` what it said.
    fn open(
        &mut self,
        now: Time,
        number: u64,
        form: Form,
        asked: Option<Id>,
        original: Option<Call>,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get(&number) else { return };
        let Some(server) = self.servers.get(&talk.server) else { return };
        if form == Form::M7 {
            if server.settled {
                return self.on_stateless(number, asked, steps);
            }
            let then = Then::Open { asked };
            return self.discover(now, number, then, steps);
        }
        if !form.connects() {
            return self.on_open(now, number, form, String::new(), asked, None, steps);
        }
        let unchanged = |consumer| form == consumer && talk.server == server.native;
        let alike = matches!(talk.consumer, Consumer::Connection { form, .. } if unchanged(form));
        let call = match original.filter(|_| alike) {
            Some(call) => call,
            None => form.connect(&server.native, &format!("mcp-over-acp:{number}")),
        };
        let seat = talk.seat;
        let limit = asked.is_none().then(|| now.plus(PATIENCE));
        let question = Question::Connect { talk: number, form, asked, alike };
        self.ask(seat, question, call, limit, steps);
    }

    /// Asks a provider something of our own.
    fn ask(
        &mut self,
        seat: Seat,
        question: Question,
        call: Call,
        limit: Option<Time>,
        steps: &mut Vec<Step>,
    ) {
        let id = Id::string(&format!("m:{}", self.talks.fresh()));
        let key = (seat, name(&id));
        self.talks.limits.extend(limit.map(|limit| (key.clone(), limit)));
        self.watched.insert(key, Watch::Question(question));
        deliver(seat, Side::Editor, Message::Request { id, call }, steps);
    }

    fn discover(&mut self, now: Time, number: u64, then: Then, steps: &mut Vec<Step>) {
        let Some(talk) = self.talks.all.get(&number) else { return };
        let Some(server) = self.servers.get(&talk.server) else { return };
        let request = format!("mcp-over-acp:{number}");
        let address = Address { server: &server.native, connection: "", request: &request };
        let call = Form::M7.say(Way::ToServer, address, Some(&Id::NULL), &stateless::discover());
        let (seat, limit) = (talk.seat, now.plus(PATIENCE));
        self.ask(seat, Question::Discover { talk: number, then }, call, Some(limit), steps);
    }

    /// The provider can be spoken to.
    #[allow(clippy::too_many_arguments)] // it is where all that is known of a connection comes together
    fn on_open(
        &mut self,
        now: Time,
        number: u64,
        form: Form,
        connection: String,
        asked: Option<Id>,
        result: Option<Json>,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        if let Some(server) = self.servers.get_mut(&talk.server) {
            server.settle(form);
        }
        let seat = talk.seat;
        let opened = State::Open { form, connection: connection.clone() };
        let State::Opening(waiting) = std::mem::replace(&mut talk.state, opened) else { return };
        if !connection.is_empty() {
            self.talks.by_provider.insert((seat, connection.clone()), number);
        }
        if matches!(talk.consumer, Consumer::Stateless) {
            let Some(server) = self.servers.get(&talk.server) else { return };
            let hello = stateless::initialize(waiting.first().map(|item| &item.call));
            let address = Address { server: &server.native, connection: &connection, request: "" };
            let call = form.say(Way::ToServer, address, Some(&Id::string("hello")), &hello);
            talk.state = State::Greeting { form, connection, waiting };
            let limit = Some(now.plus(PATIENCE));
            return self.ask(seat, Question::Hello { talk: number }, call, limit, steps);
        }
        self.tell_connected(number, &connection, asked, result, steps);
        for item in waiting {
            self.say(now, number, item, steps);
        }
    }

    /// The provider has no connections; the consumer may believe that it has one.
    fn on_stateless(&mut self, number: u64, asked: Option<Id>, steps: &mut Vec<Step>) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        let stateless = State::Stateless(Client::unknown());
        let State::Opening(waiting) = std::mem::replace(&mut talk.state, stateless) else { return };
        self.tell_connected(number, "", asked, None, steps);
        for item in waiting {
            self.say(Time::default(), number, item, steps);
        }
    }

    /// Answers a consumer's connect: the provider's id of the connection, if nobody else has the same.
    fn tell_connected(
        &mut self,
        number: u64,
        connection: &str,
        asked: Option<Id>,
        result: Option<Json>,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        let Consumer::Connection { form, id: known_as } = &mut talk.consumer else { return };
        let wanted = match (known_as.is_empty(), connection.is_empty()) {
            (false, _) => known_as.clone(),
            (true, false) => connection.to_owned(),
            (true, true) => format!("mcp-over-acp:{number}"),
        };
        let taken = &self.talks.by_connection;
        let mut candidates =
            std::iter::once(wanted.clone()).chain((2..).map(|n| format!("{wanted}#{n}")));
        let free = candidates.find(|it| !taken.contains_key(it)).unwrap_or_default();
        known_as.clone_from(&free);
        let told = result.filter(|_| free == connection).unwrap_or_else(|| form.connected(&free));
        self.talks.by_connection.insert(free, number);
        if let Some(id) = asked {
            answer(talk.seat, id, Outcome::Result(told), steps);
        }
    }

    /// A conversation could not be opened.
    fn on_closed(&mut self, number: u64, asked: Option<Id>, error: &Json, steps: &mut Vec<Step>) {
        let Some(talk) = self.talks.remove(number) else { return };
        if let Some(id) = asked {
            answer(talk.seat, id, Outcome::Error(error.clone()), steps);
        }
        if let State::Opening(waiting) | State::Greeting { waiting, .. } = talk.state {
            for id in waiting.into_iter().filter_map(|item| item.id) {
                answer(talk.seat, id, Outcome::Error(error.clone()), steps);
            }
        }
    }

    /// Says something to the provider, or answers it here.
    fn say(&mut self, now: Time, number: u64, item: Item, steps: &mut Vec<Step>) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        let Some(server) = self.servers.get(&talk.server) else { return };
        match &mut talk.state {
            State::Opening(waiting) | State::Greeting { waiting, .. } => {
                let call = item.call.detached();
                let original = item.original.as_ref().map(Call::detached);
                waiting.push(Item { call, original, ..item });
            }
            State::Open { form, connection } => {
                let (form, connection) = (*form, connection.clone());
                let unchanged = match &talk.consumer {
                    Consumer::Stateless => {
                        return self.say_attached(number, form, &connection, item, steps);
                    }
                    Consumer::Connection { form: theirs, id } => {
                        theirs.talks_like(form) && *id == connection
                    }
                    Consumer::Server { form: theirs, id } => {
                        *theirs == form && *id == server.native
                    }
                };
                let Item { id, inner, request, call, original } = item;
                if let Some(id) = id.as_ref().filter(|_| call.is(DISCOVER)) {
                    // MCP with connections does not know it, and not every server says so.
                    let error = stateless::unknown_method(DISCOVER);
                    let outcome =
                        close(talk, server, inner.as_ref(), Answer::Said(Outcome::Error(error)));
                    return answer(talk.seat, id.clone(), outcome, steps);
                }
                let address =
                    Address { server: &server.native, connection: &connection, request: "" };
                let said = match original.filter(|_| unchanged) {
                    Some(original) => original,
                    None => form.say(Way::ToServer, address, id.as_ref(), &call),
                };
                let seat = talk.seat;
                if let Some(id) = &id {
                    let call = Call::new("", None);
                    let question =
                        Question::Say { talk: number, form, inner, request, call, rounds: 0 };
                    self.watched.insert((seat, name(id)), Watch::Question(question));
                }
                deliver(seat, Side::Editor, message(id, said), steps);
            }
            State::Stateless(_) => self.say_detached(now, number, item, 0, steps),
        }
    }

    /// The consumer of a connection speaks to a stateless server.
    fn say_detached(
        &mut self,
        now: Time,
        number: u64,
        item: Item,
        rounds: u8,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        let Some(server) = self.servers.get(&talk.server) else { return };
        let State::Stateless(client) = &mut talk.state else { return };
        // Stateless servers are told nothing that is not a request.
        let Item { id: Some(id), inner, call, .. } = item else { return };
        let seat = talk.seat;
        if call.is(INITIALIZE) {
            *client = Client::of(&call);
            match server.discovered.clone() {
                Some(found) => {
                    let result = stateless::initialized(Some(&found), client, &server.name);
                    let said = Answer::Said(Outcome::Result(result));
                    let outcome = close(talk, server, inner.as_ref(), said);
                    answer(seat, id, outcome, steps);
                }
                None => self.discover(now, number, Then::Hello { id, inner }, steps),
            }
            return;
        }
        if call.is(PING) || call.is(INITIALIZED) {
            let said = Answer::Said(Outcome::Result(Json::EMPTY));
            let outcome = close(talk, server, inner.as_ref(), said);
            return answer(seat, id, outcome, steps);
        }
        let detached = stateless::detached(&call, client);
        self.talks.last += 1;
        let request = format!("r-{}", self.talks.last);
        let token = stateless::progress_token(&call);
        let operation = Operation { talk: number, token, request: String::new() };
        self.talks.operations.insert((seat, request.clone()), operation);
        let address = Address { server: &server.native, connection: "", request: &request };
        let said = Form::M7.say(Way::ToServer, address, Some(&id), &detached);
        let call = call.detached();
        let question = Question::Say { talk: number, form: Form::M7, inner, request, call, rounds };
        self.watched.insert((seat, name(&id)), Watch::Question(question));
        deliver(seat, Side::Editor, Message::Request { id, call: said }, steps);
    }

    /// A stateless consumer speaks to the server of a connection.
    fn say_attached(
        &mut self,
        number: u64,
        form: Form,
        connection: &str,
        item: Item,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get(&number) else { return };
        let Some(server) = self.servers.get(&talk.server) else { return };
        let Item { id: Some(id), inner, request, call, .. } = item else { return };
        let seat = talk.seat;
        if call.is(DISCOVER) {
            let found = talk.hello.as_ref().map(stateless::discovered).unwrap_or(Json::EMPTY);
            let said = Answer::Said(Outcome::Result(found));
            let outcome = close(talk, server, inner.as_ref(), said);
            return answer(seat, id, outcome, steps);
        }
        let attached = stateless::attached(&call);
        let token = stateless::progress_token(&call);
        let operation = Operation { talk: number, token, request: request.clone() };
        let key = String::from_utf8_lossy(&name(&id)).into_owned();
        self.talks.operations.insert((seat, key.clone()), operation);
        let address = Address { server: &server.native, connection, request: "" };
        let said = form.say(Way::ToServer, address, Some(&id), &attached);
        let call = Call::new("", None);
        let question = Question::Say { talk: number, form, inner, request: key, call, rounds: 0 };
        self.watched.insert((seat, name(&id)), Watch::Question(question));
        deliver(seat, Side::Editor, Message::Request { id, call: said }, steps);
    }

    /// A provider has answered. What it returns goes on to the consumer.
    pub(super) fn on_provider_answer(
        &mut self,
        now: Time,
        seat: Seat,
        id: &Id,
        question: Question,
        outcome: Outcome,
        steps: &mut Vec<Step>,
    ) -> Option<Outcome> {
        self.talks.limits.remove(&(seat, name(id)));
        match question {
            Question::Connect { talk, form, asked, alike } => {
                let found = match &outcome {
                    Outcome::Result(result) => connection_of(result),
                    Outcome::Error(_) => None,
                };
                // One that was named by us need not be named again.
                let chosen = (form == Form::M3t && matches!(outcome, Outcome::Result(_)))
                    .then(|| format!("mcp-over-acp:{talk}"));
                match (found.or(chosen), outcome) {
                    (Some(connection), Outcome::Result(result)) => {
                        let result = alike.then_some(result);
                        self.on_open(now, talk, form, connection, asked, result, steps);
                    }
                    (_, outcome) => self.on_ignorance(now, talk, form, asked, outcome, steps),
                }
                None
            }
            Question::Discover { talk, then } => {
                self.on_discovered(now, talk, then, outcome, steps);
                None
            }
            Question::Hello { talk } => {
                self.on_hello(now, talk, outcome, steps);
                None
            }
            Question::Say { talk, form, inner, request, call, rounds } => {
                self.talks.operations.remove(&(seat, request));
                let Some(open) = self.talks.all.get(&talk) else { return Some(outcome) };
                let Some(server) = self.servers.get(&open.server) else { return Some(outcome) };
                match (&open.consumer, &open.state) {
                    (Consumer::Stateless, _) => {
                        let answer = match form.open(outcome) {
                            Answer::Said(said) => Answer::Said(stateless::completed(said)),
                            failed => failed,
                        };
                        Some(close(open, server, inner.as_ref(), answer))
                    }
                    (_, State::Stateless(client)) => {
                        let said = match Form::M7.open(outcome) {
                            Answer::Said(said) => said,
                            Answer::Failed(error) => Outcome::Error(not_mcp(&error)),
                        };
                        match stateless::stage(said, client) {
                            Stage::Done(said) => {
                                Some(close(open, server, inner.as_ref(), Answer::Said(said)))
                            }
                            Stage::Asks { .. } if rounds >= ROUNDS => {
                                let why = "the server asks back without end";
                                let error = error_object(code::INTERNAL_ERROR, why, None);
                                let said = Answer::Said(Outcome::Error(error));
                                Some(close(open, server, inner.as_ref(), said))
                            }
                            Stage::Asks { questions, state } => {
                                let id = id.clone();
                                let input = Input {
                                    talk,
                                    id,
                                    call,
                                    inner,
                                    state,
                                    rounds,
                                    answers: Vec::new(),
                                };
                                self.ask_consumer(now, input, questions, steps);
                                None
                            }
                        }
                    }
                    (
                        Consumer::Connection { form: theirs, .. }
                        | Consumer::Server { form: theirs, .. },
                        _,
                    ) if theirs.talks_like(form) && !matches!(form, Form::M0 | Form::M1) => {
                        Some(outcome)
                    }
                    _ => Some(close(open, server, inner.as_ref(), form.open(outcome))),
                }
            }
            Question::Trial { server, inner, request, call } => {
                if is_ignorance(&outcome)
                    && self
                        .servers
                        .get_mut(&server)
                        .is_some_and(|it| it.rule_out(Form::M7).is_some())
                {
                    let id = Some(id.clone());
                    let item = Item { id, inner, request, call, original: None };
                    self.say_stateless(now, &server, item, steps);
                    return None;
                }
                if let Some(server) = self.servers.get_mut(&server) {
                    server.settle(Form::M7);
                }
                Some(outcome)
            }
            Question::Goodbye => None,
        }
    }

    /// A connect was refused: perhaps the provider speaks another form.
    fn on_ignorance(
        &mut self,
        now: Time,
        number: u64,
        form: Form,
        asked: Option<Id>,
        outcome: Outcome,
        steps: &mut Vec<Step>,
    ) {
        let server = self.talks.all.get(&number).map(|talk| talk.server.clone());
        let server = server.and_then(|key| self.servers.get_mut(&key));
        let next = server.filter(|_| is_ignorance(&outcome)).and_then(|it| it.rule_out(form));
        match (next, outcome) {
            (Some(form), _) => self.open(now, number, form, asked, None, steps),
            (None, Outcome::Error(error)) => self.on_closed(number, asked, &error, steps),
            (None, Outcome::Result(_)) => {
                let why = "the provider of the MCP server did not say how it calls the connection";
                let error = error_object(code::INTERNAL_ERROR, why, None);
                self.on_closed(number, asked, &error, steps);
            }
        }
    }

    fn on_discovered(
        &mut self,
        now: Time,
        number: u64,
        then: Then,
        outcome: Outcome,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        let Some(server) = self.servers.get_mut(&talk.server) else { return };
        if let Then::Open { asked } = &then
            && is_ignorance(&outcome)
            && let Some(form) = server.rule_out(Form::M7)
        {
            let asked = asked.clone();
            return self.open(now, number, form, asked, None, steps);
        }
        server.settle(Form::M7);
        if let Answer::Said(Outcome::Result(found)) = Form::M7.open(outcome) {
            server.discovered = Some(found.detached());
        }
        match then {
            Then::Open { asked } => self.on_stateless(number, asked, steps),
            Then::Hello { id, inner } => {
                let State::Stateless(client) = &talk.state else { return };
                let found = server.discovered.as_ref();
                let result = stateless::initialized(found, client, &server.name);
                let said = Answer::Said(Outcome::Result(result));
                let outcome = close(talk, server, inner.as_ref(), said);
                answer(talk.seat, id, outcome, steps);
            }
        }
    }

    /// The server of a connection has answered our own `initialize`.
    fn on_hello(&mut self, now: Time, number: u64, outcome: Outcome, steps: &mut Vec<Step>) {
        let Some(talk) = self.talks.all.get_mut(&number) else { return };
        let Some(server) = self.servers.get(&talk.server) else { return };
        let State::Greeting { form, connection, waiting } = &mut talk.state else { return };
        let form = *form;
        let result = match form.open(outcome) {
            Answer::Said(Outcome::Result(result)) => result.detached(),
            Answer::Said(Outcome::Error(error)) | Answer::Failed(error) => {
                return self.on_closed(number, None, &error, steps);
            }
        };
        let (connection, waiting) = (std::mem::take(connection), std::mem::take(waiting));
        let address = Address { server: &server.native, connection: &connection, request: "" };
        let initialized = form.say(Way::ToServer, address, None, &Call::new(INITIALIZED, None));
        deliver(talk.seat, Side::Editor, Message::Notification(initialized), steps);
        talk.hello = Some(result);
        talk.state = State::Open { form, connection };
        for item in waiting {
            self.say(now, number, item, steps);
        }
    }

    /// A stateless server wants to know something before it answers.
    fn ask_consumer(
        &mut self,
        now: Time,
        mut input: Input,
        questions: Vec<(String, Call)>,
        steps: &mut Vec<Step>,
    ) {
        let Some(talk) = self.talks.all.get(&input.talk) else { return };
        let (seat, consumer, server) = (talk.seat, talk.consumer.clone(), talk.server.clone());
        for (question, call) in questions {
            let number = self.talks.fresh();
            let id = Id::string(&format!("{INPUT}{number}"));
            let Some(call) = to_consumer(&consumer, &server, Some(&id), &call) else { continue };
            input.answers.push((number, question, None));
            let message = Message::Request { id, call };
            steps.push(Step::Arrive { from: seat, toward: Side::Agent, message });
        }
        if input.answers.is_empty() {
            return self.answer_server(now, input, steps);
        }
        let number = self.talks.fresh();
        self.talks.inputs.insert(number, input);
    }

    /// Repeats a request to a stateless server, with what it wanted to know.
    fn answer_server(&mut self, now: Time, input: Input, steps: &mut Vec<Step>) {
        let answers =
            input.answers.into_iter().filter_map(|(_, name, answer)| Some((name, answer?)));
        let answers: Vec<(String, Json)> = answers.collect();
        let call = stateless::again(&input.call, &answers, input.state.as_ref());
        let (id, inner) = (Some(input.id), input.inner);
        let item = Item { id, inner, request: String::new(), call, original: None };
        self.say_detached(now, input.talk, item, input.rounds + 1, steps);
    }

    /// A consumer's answer is to be delivered to a provider. What it returns is.
    pub(super) fn on_consumer_answer(
        &mut self,
        now: Time,
        seat: Seat,
        id: &Id,
        outcome: Outcome,
        steps: &mut Vec<Step>,
    ) -> Option<Outcome> {
        let ours = id.text().and_then(|text| text.strip_prefix(INPUT)?.parse::<u64>().ok());
        if let Some(number) = ours {
            self.on_input(now, number, outcome, steps);
            return None;
        }
        if self.talks.reversed.is_empty() {
            return Some(outcome);
        }
        let Some(reversed) = self.talks.reversed.remove(&(seat, name(id))) else {
            return Some(outcome);
        };
        let address = Address { server: "", connection: "", request: "" };
        let answer = reversed.consumer.open(outcome);
        Some(reversed.provider.close(address, reversed.inner.as_ref(), answer))
    }

    fn on_input(&mut self, now: Time, number: u64, outcome: Outcome, steps: &mut Vec<Step>) {
        let asks = |input: &Input| input.answers.iter().any(|(asked, ..)| *asked == number);
        let Some(key) = self.talks.inputs.iter().find(|(_, it)| asks(it)).map(|(key, _)| *key)
        else {
            return;
        };
        let consumer_form = |talk: &Talk| match &talk.consumer {
            Consumer::Connection { form, .. } | Consumer::Server { form, .. } => *form,
            Consumer::Stateless => Form::M7,
        };
        let talk = self.talks.inputs.get(&key).map(|input| input.talk);
        let form = talk.and_then(|it| self.talks.all.get(&it)).map_or(Form::M3, consumer_form);
        match form.open(outcome) {
            Answer::Said(Outcome::Result(result)) => {
                if let Some(input) = self.talks.inputs.get_mut(&key) {
                    let found = input.answers.iter_mut().find(|(asked, ..)| *asked == number);
                    found.into_iter().for_each(|(_, _, slot)| *slot = Some(result.detached()));
                    if input.answers.iter().any(|(_, _, answer)| answer.is_none()) {
                        return;
                    }
                }
                if let Some(input) = self.talks.inputs.remove(&key) {
                    self.answer_server(now, input, steps);
                }
            }
            Answer::Said(Outcome::Error(error)) | Answer::Failed(error) => {
                // The client will not say: that is the end of the operation.
                let Some(input) = self.talks.inputs.remove(&key) else { return };
                let Some(talk) = self.talks.all.get(&input.talk) else { return };
                let Some(server) = self.servers.get(&talk.server) else { return };
                let said = Answer::Said(Outcome::Error(error));
                let outcome = close(talk, server, input.inner.as_ref(), said);
                answer(talk.seat, input.id, outcome, steps);
            }
        }
    }

    /// A provider says something to its consumer. What it returns goes on.
    pub(super) fn on_provider(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        call: Call,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        let Some((form, word)) = form::read(&call) else { return Some(message(id, call)) };
        let (target, said, inner) = match word {
            Word::Say { target, call, id } => (target, call, id),
            Word::Disconnect { connection } => {
                let Some(number) = self.talks.of_provider(seat, &connection) else {
                    return Some(message(id, call));
                };
                let talk = self.talks.remove(number)?;
                let Consumer::Connection { form, id: known_as } = talk.consumer else {
                    return None;
                };
                if let Some(id) = id {
                    let message = Message::response(id, Outcome::Result(Json::EMPTY));
                    deliver(seat, Side::Agent, message, steps);
                }
                return Some(Message::Notification(form.disconnect(&known_as).0));
            }
            Word::Connect { .. } => return Some(message(id, call)),
        };
        let mut known_as = String::new();
        let number = match &target {
            Target::Connection(connection) => {
                known_as.clone_from(connection);
                self.talks.of_provider(seat, connection)
            }
            Target::Operation { request, .. } => {
                self.talks.operations.get(&(seat, request.clone())).map(|operation| operation.talk)
            }
            Target::Server(server) => {
                let whose = |talk: &Talk| {
                    talk.seat == seat
                        && self.servers.get(&talk.server).is_some_and(|it| it.native == *server)
                };
                let mut talks = self.talks.all.iter().filter(|(_, talk)| whose(talk));
                talks.next_back().map(|(number, _)| *number)
            }
        };
        let Some(talk) = number.and_then(|number| self.talks.all.get(&number)) else {
            return Some(message(id, call));
        };
        match &talk.consumer {
            Consumer::Stateless => {
                match id {
                    Some(id) => {
                        let error = stateless::unknown_method(&said.method.name());
                        let said = Answer::Said(Outcome::Error(error));
                        let address = Address { server: "", connection: "", request: "" };
                        let outcome = form.close(address, inner.as_ref(), said);
                        deliver(seat, Side::Agent, Message::response(id, outcome), steps);
                    }
                    None => {
                        let request = self.operation_of(seat, number?, &said)?;
                        let address =
                            Address { server: &talk.server, connection: "", request: &request };
                        let call = Form::M7.say(Way::ToClient, address, None, &said);
                        return Some(Message::Notification(call));
                    }
                }
                None
            }
            Consumer::Connection { form: theirs, id: visible }
                if theirs.talks_like(form) && *visible == known_as =>
            {
                Some(message(id, call))
            }
            consumer @ (Consumer::Connection { form: theirs, .. }
            | Consumer::Server { form: theirs, .. }) => {
                let to_consumer = to_consumer(consumer, &talk.server, id.as_ref(), &said)?;
                let whole = |form| matches!(form, Form::M0 | Form::M1);
                if let Some(id) = id.as_ref().filter(|_| whole(form) || whole(*theirs)) {
                    let reversed = Reversed { provider: form, consumer: *theirs, inner };
                    self.talks.reversed.insert((seat, name(id)), reversed);
                }
                Some(message(id, to_consumer))
            }
        }
    }

    /// The operation of a stateless consumer that a notification belongs to.
    fn operation_of(&self, seat: Seat, number: u64, said: &Call) -> Option<String> {
        let token = said.params.as_ref().and_then(|params| params.member("progressToken"));
        let progress = said.is(PROGRESS);
        let mut active = self
            .talks
            .operations
            .iter()
            .filter(|((whose, _), operation)| *whose == seat && operation.talk == number)
            .filter(|(_, operation)| !progress || operation.token == token);
        active.next_back().map(|(_, operation)| operation.request.clone())
    }

    /// A request that was delivered to a provider is cancelled: an MCP server with connections wants
    /// to be told in MCP's own words, too.
    pub(super) fn on_cancel(&mut self, seat: Seat, id: &Id, steps: &mut Vec<Step>) {
        let Some(Watch::Question(question)) = self.watched.get(&(seat, name(id))) else { return };
        let Question::Say { talk, form, .. } = question else { return };
        let Some(talk) = self.talks.all.get(talk) else { return };
        let (State::Open { connection, .. }, Some(server)) =
            (&talk.state, self.servers.get(&talk.server))
        else {
            return;
        };
        let params = Json::object([("requestId", Some(id.json().clone()))]);
        let address = Address { server: &server.native, connection, request: "" };
        let said = form.say(Way::ToServer, address, None, &Call::new(CANCELLED, params));
        deliver(seat, Side::Editor, Message::Notification(said), steps);
    }

    /// A consumer ends a conversation, perhaps with a request.
    fn close_talk(&mut self, number: u64, asked: Option<Id>, steps: &mut Vec<Step>) {
        let Some(talk) = self.talks.remove(number) else { return };
        if let State::Open { form, connection } | State::Greeting { form, connection, .. } =
            &talk.state
            && form.connects()
        {
            match form.disconnect(connection) {
                (call, true) => self.ask(talk.seat, Question::Goodbye, call, None, steps),
                (call, false) => {
                    deliver(talk.seat, Side::Editor, Message::Notification(call), steps)
                }
            }
        }
        if let State::Opening(waiting) | State::Greeting { waiting, .. } = talk.state {
            for id in waiting.into_iter().filter_map(|item| item.id) {
                let error = error_object(code::INTERNAL_ERROR, "the connection was closed", None);
                answer(talk.seat, id, Outcome::Error(error), steps);
            }
        }
        if let Some(id) = asked {
            answer(talk.seat, id, Outcome::Result(Json::EMPTY), steps);
        }
    }

    pub(super) fn close_talks_of(&mut self, server: &str, steps: &mut Vec<Step>) {
        let talks = self.talks.all.iter().filter(|(_, talk)| talk.server == server);
        let talks: Vec<u64> = talks.map(|(number, _)| *number).collect();
        for number in talks {
            self.close_talk(number, None, steps);
        }
    }

    /// Gives up what we ourselves wanted to know for too long.
    pub(super) fn talks_tick(&mut self, now: Time, steps: &mut Vec<Step>) {
        let over = self.talks.limits.iter().filter(|(_, limit)| **limit <= now);
        let over: Vec<(Seat, Name)> = over.map(|(key, _)| key.clone()).collect();
        for (seat, id) in over {
            self.talks.limits.remove(&(seat, id.clone()));
            let Some(Watch::Question(question)) = self.watched.remove(&(seat, id)) else {
                continue;
            };
            let why = format!(
                "{} did not answer within {} s when its MCP server was to be opened",
                self.chain.describe(seat),
                PATIENCE / 1000
            );
            let outcome = Outcome::error(code::INTERNAL_ERROR, &why);
            self.on_provider_answer(now, seat, &Id::NULL, question, outcome, steps);
        }
    }
}

/// The answer to a consumer, in its form.
fn close(talk: &Talk, server: &Server, inner: Option<&Id>, answer: Answer) -> Outcome {
    let (form, id) = match &talk.consumer {
        Consumer::Connection { form, .. } => (*form, server.name.as_str()),
        Consumer::Server { form, id } => (*form, id.as_str()),
        Consumer::Stateless => (Form::M7, ""),
    };
    form.close(Address { server: id, connection: "", request: "" }, inner, answer)
}

/// A message to a consumer, in its form.
fn to_consumer(consumer: &Consumer, server: &str, id: Option<&Id>, call: &Call) -> Option<Call> {
    let (form, server, connection) = match consumer {
        Consumer::Connection { form, id } => (form, server, id.as_str()),
        Consumer::Server { form, id } => (form, id.as_str(), ""),
        Consumer::Stateless => return None,
    };
    Some(form.say(Way::ToClient, Address { server, connection, request: "" }, id, call))
}

/// An error of ACP for somebody who speaks MCP: its code would mean something else there.
fn not_mcp(error: &Json) -> Json {
    let text = error.member("message").and_then(|it| it.text().map(|it| it.into_owned()));
    let text = text.unwrap_or_else(|| "the MCP server could not be asked".into());
    error_object(code::INTERNAL_ERROR, &text, Some(error))
}
