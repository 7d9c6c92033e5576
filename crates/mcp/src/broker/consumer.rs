//! What consumers say: delivered to the provider in its own form, or answered here.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Diagnostic, Level, Seat};

use super::operations::Operation;
use super::question::{Question, Then};
use super::questions::{Key, What};
use super::talk::*;
use super::{Broker, Cx, LIMIT, Step, has_limit};
use crate::bridge::{cancel, no_such};
use crate::form::{self, Address, Answer, Direction, Form, Frame, Subject, Target, named_server};
use crate::stateless::{self, CANCELLED, Client, DISCOVER, INITIALIZE, INITIALIZED, PING};

impl Broker {
    /// A consumer's message is to be delivered to a seat on its way to the provider.
    pub(super) fn on_consumer(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        call: Call,
        cx: &mut Cx<'_>,
    ) -> Option<Message> {
        let Some((form, word)) = form::read(&call) else { return Some(message(id, call)) };
        let form = self.talks.recognize(form, &word);
        // Where the conductor above us translates, its providers are not ours to translate for.
        let theirs = seat == Seat::OUTER && self.beyond_us();
        let mine = |broker: &Broker, server: &str| {
            let provider = broker.registry.provider_of(form, server);
            let key = broker.registry.find(form, server);
            key.filter(|_| provider == Some(seat) && !theirs)
        };
        let until = match &word {
            Frame::Mcp { call, .. } => has_limit(call).then(|| cx.now.plus(LIMIT)),
            _ => None,
        };
        match word {
            Frame::Connect { server, chosen } => {
                let Some(key) = mine(self, &server) else {
                    let what = format!("server '{server}'");
                    let call = form.spelt_out(call, &server);
                    return self.not_here(seat, id, form, &what, call, cx);
                };
                let id = id?;
                let consumer = Consumer::Connection { form, id: chosen.unwrap_or_default() };
                let number = self.add_talk(&key, seat, consumer);
                let form = self.registry.get(&key)?.form_for(form);
                self.open(number, form, Some(id), Some(call), cx);
            }
            Frame::Disconnect { connection } => {
                let number = self.talks.number_of(&connection);
                let Some(number) = number.filter(|it| self.is_at(seat, *it)) else {
                    let what = format!("connection '{connection}'");
                    return self.not_here(seat, id, form, &what, call, cx);
                };
                self.close_talk(number, id, cx);
            }
            Frame::Mcp { target: Target::Connection(connection), call: said, id: inner } => {
                let number = self.talks.number_of(&connection);
                let Some(number) = number.filter(|it| self.is_at(seat, *it)) else {
                    let what = format!("connection '{connection}'");
                    return self.not_here(seat, id, form, &what, call, cx);
                };
                let (request, original) = (String::new(), Some(call));
                let item = Item { id, inner, request, call: said, original, until };
                self.say(number, item, cx);
            }
            Frame::Mcp { target: Target::Server(server), call: said, id: inner } => {
                let Some(key) = mine(self, &server) else {
                    return self.not_here(seat, id, form, &format!("server '{server}'"), call, cx);
                };
                let number = self.talk_with_server(seat, &key, form, server, cx)?;
                let (request, original) = (String::new(), Some(call));
                let item = Item { id, inner, request, call: said, original, until };
                self.say(number, item, cx);
            }
            Frame::Mcp { target: Target::Operation { server, request }, call: said, id: inner } => {
                let Some(key) = mine(self, &server) else {
                    return self.not_here(seat, id, form, &format!("server '{server}'"), call, cx);
                };
                let item = Item { id, inner, request, call: said, original: Some(call), until };
                return self.on_operation(seat, key, item, cx);
            }
        }
        None
    }

    /// The conversation of a consumer that names a server and no connection. It is opened if there is none.
    fn talk_with_server(
        &mut self,
        seat: Seat,
        key: &str,
        form: Form,
        server: String,
        cx: &mut Cx<'_>,
    ) -> Option<u64> {
        let open = self.talks.iter().find(|(_, talk)| {
            talk.server == key && matches!(talk.consumer, Consumer::Server { .. })
        });
        if let Some((number, _)) = open {
            return Some(number);
        }
        let number = self.add_talk(key, seat, Consumer::Server { form, id: server });
        let form = self.registry.get(key)?.form_for(form);
        self.open(number, form, None, None, cx);
        Some(number)
    }

    /// A stateless consumer says something to a server. `item.original` is the message as it came.
    fn on_operation(
        &mut self,
        seat: Seat,
        key: String,
        mut item: Item,
        cx: &mut Cx<'_>,
    ) -> Option<Message> {
        let call = item.original.take()?;
        let server = self.registry.get_mut(&key)?;
        server.called = named_server(&call);
        if server.form_for(Form::M7) == Form::M7 {
            let Item { id, inner, request, call: said, until, .. } = item;
            let settled = server.settled;
            let call = match server.called.as_ref() == Some(&server.spelt) {
                true => call,
                false => {
                    let native = Json::string(&server.spelt);
                    let params = call.params.map(|it| it.with_member("serverId", &native));
                    Call { params, ..call }
                }
            };
            if let Some(id) = id.as_ref().filter(|_| !settled || until.is_some()) {
                let what = What::say(Form::M7, server.address(Form::M7), "", &said);
                let question = match settled {
                    true => Question::Passed { server: key, request },
                    false => Question::Trial { server: key, inner, request, call: said },
                };
                self.questions.expect(cx.now, (seat, id), question, until, what);
            }
            return Some(message(id, call));
        }
        if let Some(id) = item.id.as_ref().filter(|_| stateless::would_connect(&item.call)) {
            let error = stateless::unknown_method(DISCOVER);
            answer(seat, id.clone(), Outcome::Error(error), cx);
            return None;
        }
        self.say_stateless(&key, item, cx);
        None
    }

    /// Whether a conversation is with the provider in this seat.
    fn is_at(&self, seat: Seat, number: u64) -> bool {
        self.talks.get(number).is_some_and(|talk| talk.seat == seat)
    }

    /// A message has come to a seat that does not provide what it is for.
    pub(super) fn not_here(
        &self,
        seat: Seat,
        id: Option<Id>,
        form: Form,
        what: &str,
        call: Call,
        cx: &mut Cx<'_>,
    ) -> Option<Message> {
        if !self.is_end_of_road(seat) {
            let call = match self.registry.is_reborn(seat) && !self.is_anybodys(&call) {
                true => form::marked(&call),
                false => self.unmistakable(seat, call),
            };
            return Some(message(id, call));
        }
        answer(seat, id?, Outcome::Error(no_such(what, form)), cx);
        None
    }

    /// Is the server, or the connection, that a message is for known at all? If not, it may be meant for
    /// one who sat in a seat before, by an id that is another's now.
    fn is_anybodys(&self, call: &Call) -> bool {
        let Some((form, word)) = form::read(call) else { return false };
        match word.about() {
            Subject::Connection(it) => self.talks.number_of(it).is_some(),
            Subject::Server(it) => self.registry.find(form, it).is_some(),
        }
    }

    /// What a stateless consumer says to a server with connections: all of it goes over one.
    pub(super) fn say_stateless(&mut self, key: &str, item: Item, cx: &mut Cx<'_>) {
        let open = |talk: &Talk| talk.server == key && matches!(talk.consumer, Consumer::Stateless);
        let found = self.talks.iter().find(|(_, talk)| open(talk)).map(|(number, _)| number);
        let number = match found {
            Some(number) => number,
            None => {
                let Some(server) = self.registry.get(key) else { return };
                let (seat, form) = (server.seat, server.form_for(Form::M7));
                let number = self.add_talk(key, seat, Consumer::Stateless);
                self.open(number, form, None, None, cx);
                number
            }
        };
        if let Some(id) = item.id.as_ref().filter(|_| self.is_active(number, &item.request)) {
            let why = format!(
                "the requestId '{}' is in use by a request that is not answered",
                item.request
            );
            let Some(talk) = self.talks.get(number) else { return };
            return answer(talk.seat, id.clone(), Outcome::error(code::INVALID_PARAMS, &why), cx);
        }
        self.say(number, item, cx);
    }

    /// Is there a request of a stateless consumer with this `requestId`?
    fn is_active(&self, number: u64, request: &str) -> bool {
        let waiting = self.talks.get(number).and_then(Talk::waiting);
        self.operations.is_active(number, request)
            || waiting.into_iter().flatten().any(|item| item.request == request)
    }

    /// Says something to the provider, or answers it here.
    pub(super) fn say(&mut self, number: u64, item: Item, cx: &mut Cx<'_>) {
        let item = match item.call.is(INITIALIZE) {
            true => self.on_new_connection(number, item, cx),
            false => Some(item),
        };
        let Some(item) = item else { return };
        let Some(talk) = self.talks.get_mut(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        match &mut talk.state {
            State::Opening(waiting) | State::Greeting { waiting, .. } => {
                if waiting.is_empty() {
                    talk.held = 0;
                }
                let size = size_of(&item.call) + item.original.as_ref().map_or(0, size_of);
                if talk.held + size > MOST_WAITING {
                    return self.cannot_wait(number, item, cx);
                }
                talk.held += size;
                let call = item.call.detached();
                let original = item.original.as_ref().map(Call::detached);
                let until = item.until;
                waiting.push(Item { call, original, ..item });
                self.talks.await_opening(number, until);
            }
            State::Open { form, connection } => {
                let (form, connection) = (*form, connection.clone());
                if item.call.is(INITIALIZED) {
                    talk.is_ready();
                }
                if matches!(talk.consumer, Consumer::Stateless) {
                    return self.say_attached(number, form, &connection, item, cx);
                }
                let (seat, unchanged) = (talk.seat, talk.is_alike(server));
                let kept = server.keeps(form);
                let Item { id, inner, request, call, original, until } = item;
                if let Some(id) = id.as_ref().filter(|_| call.is(DISCOVER)) {
                    // MCP with connections does not know it, and not every server says so.
                    let error = stateless::unknown_method(DISCOVER);
                    let outcome = close(
                        talk,
                        server,
                        inner.as_ref(),
                        Answer::FromServer(Outcome::Error(error)),
                    );
                    return answer(seat, id.clone(), outcome, cx);
                }
                let address =
                    Address { server: server.address(form), connection: &connection, request: "" };
                let as_spelt = || {
                    let by_server = matches!(talk.consumer, Consumer::Server { .. });
                    by_server.then(|| form.say(Direction::ToServer, address, id.as_ref(), &call))
                };
                let is_spelt_alike = |original: &Call| {
                    as_spelt().is_none_or(|it| named_server(&it) == named_server(original))
                };
                let said = match original.filter(|it| unchanged && is_spelt_alike(it)) {
                    Some(original) => original,
                    None => {
                        let call = self.taken_back(number, &call).map_or(call.clone(), |id| {
                            let params = Json::object([("requestId", Some(id.json().clone()))]);
                            Call::new(CANCELLED, params)
                        });
                        form.say(Direction::ToServer, address, id.as_ref(), &call)
                    }
                };
                if let Some(id) = &id {
                    let what = What::say(form, server.address(form), &connection, &call);
                    let call = match call.is(INITIALIZE) || kept {
                        true => call.detached(),
                        false => Call::new("", None),
                    };
                    let question =
                        Question::Say { talk: number, form, inner, request, call, rounds: 0 };
                    self.questions.expect(cx.now, (seat, id), question, until, what);
                }
                deliver(seat, Side::Editor, message(id, said), cx);
            }
            State::Stateless(_) => self.say_detached(number, item, 0, cx),
        }
    }

    /// The consumer of a connection speaks to a stateless server.
    pub(super) fn say_detached(&mut self, number: u64, item: Item, rounds: u8, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get_mut(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let State::Stateless(client) = &mut talk.state else { return };
        let seat = talk.seat;
        let Item { id: Some(id), inner, call, until, .. } = item else {
            if item.call.is(INITIALIZED) {
                talk.is_ready();
            }
            // Stateless servers are told nothing that is not a request, but that one is taken back.
            if let Some(id) = self.taken_back(number, &item.call) {
                deliver(seat, Side::Editor, cancel(&id), cx);
            }
            return;
        };
        if call.is(INITIALIZE) {
            *client = Client::of(&call);
            talk.begins(&call);
            match server.discovered.clone() {
                Some(found) => {
                    let result = stateless::initialized(Some(&found), &talk.client(), &server.name);
                    let said = Answer::FromServer(Outcome::Result(result));
                    let outcome = close(talk, server, inner.as_ref(), said);
                    answer(seat, id, outcome, cx);
                }
                None => self.discover(number, Then::Hello { id, inner }, cx),
            }
            return;
        }
        if call.is(PING) || call.is(INITIALIZED) {
            let said = Answer::FromServer(Outcome::Result(Json::EMPTY));
            let outcome = close(talk, server, inner.as_ref(), said);
            return answer(seat, id, outcome, cx);
        }
        let detached = stateless::detached(&call, client);
        let request = format!("r-{}", self.ids.fresh());
        let token = stateless::progress_token(&call);
        let operation = Operation { talk: number, token, request: String::new() };
        self.operations.insert(seat, request.clone(), operation);
        let address =
            Address { server: server.address(Form::M7), connection: "", request: &request };
        let said = Form::M7.say(Direction::ToServer, address, Some(&id), &detached);
        let what = What::say(Form::M7, server.address(Form::M7), "", &detached);
        let call = self.kept(seat, &call);
        let question = Question::Say { talk: number, form: Form::M7, inner, request, call, rounds };
        self.questions.expect(cx.now, (seat, &id), question, until, what);
        deliver(seat, Side::Editor, Message::Request { id, call: said }, cx);
    }

    /// A message for a server that is not open yet, and for which too much waits already.
    fn cannot_wait(&self, number: u64, item: Item, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let why = format!(
            "{} MiB wait for the MCP server '{}' of {}, which does not answer",
            MOST_WAITING >> 20,
            server.name,
            self.chain.describe(talk.seat)
        );
        match item.id {
            Some(id) => {
                let error = error_object(code::INTERNAL_ERROR, &why, None);
                let said = Answer::FromServer(Outcome::Error(error));
                answer(talk.seat, id, close(talk, server, item.inner.as_ref(), said), cx);
            }
            None => {
                let text = format!("{} dropped: {why}", item.call.method.name());
                cx.out.push(Step::Report(Diagnostic { level: Level::Warn, seat: talk.seat, text }));
            }
        }
    }

    /// A request as it is kept for the case that its server asks back. A request that does not fit is not kept.
    fn kept(&self, seat: Seat, call: &Call) -> Call {
        const SMALL: usize = 64 * 1024;
        let size = size_of(call);
        let kept = |((whose, _), question): (&Key, &Question)| match question {
            Question::Say { call, .. } if *whose == seat => Some(size_of(call)),
            _ => None,
        };
        let fits = size <= SMALL
            || size + self.questions.iter().filter_map(kept).sum::<usize>() <= MOST_KEPT;
        match fits {
            true => call.detached(),
            false => Call::new("", None),
        }
    }

    /// A stateless consumer speaks to the server of a connection.
    pub(super) fn say_attached(
        &mut self,
        number: u64,
        form: Form,
        connection: &str,
        item: Item,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let Item { id: Some(id), inner, request, call, until, .. } = item else { return };
        let seat = talk.seat;
        if call.is(DISCOVER) {
            let found = talk.hello.as_ref().map(stateless::discovered).unwrap_or(Json::EMPTY);
            let said = Answer::FromServer(Outcome::Result(found));
            let outcome = close(talk, server, inner.as_ref(), said);
            return answer(seat, id, outcome, cx);
        }
        let attached = stateless::attached(&call);
        let token = stateless::progress_token(&call);
        let operation = Operation { talk: number, token, request: request.clone() };
        let key = id.to_string();
        self.operations.insert(seat, key.clone(), operation);
        let address = Address { server: server.address(form), connection, request: "" };
        let said = form.say(Direction::ToServer, address, Some(&id), &attached);
        let what = What::say(form, server.address(form), connection, &attached);
        let call = match server.keeps(form) {
            true => call.detached(),
            false => Call::new("", None),
        };
        let question = Question::Say { talk: number, form, inner, request: key, call, rounds: 0 };
        self.questions.expect(cx.now, (seat, &id), question, until, what);
        deliver(seat, Side::Editor, Message::Request { id, call: said }, cx);
    }

    /// The request that a consumer takes back in MCP's own words, as its provider knows it. Only where
    /// messages have ids of their own can it be known which one is meant.
    fn taken_back(&self, number: u64, call: &Call) -> Option<Id> {
        if !call.is(CANCELLED) {
            return None;
        }
        let meant = Id::new(call.params.as_ref()?.member("requestId")?)?;
        self.questions.iter().find_map(|((_, name), question)| match question {
            Question::Say { talk, inner: Some(inner), .. }
                if *talk == number && *inner == meant =>
            {
                Some(name.clone())
            }
            _ => None,
        })
    }
}
