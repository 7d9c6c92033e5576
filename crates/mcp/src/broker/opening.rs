//! How a conversation begins: in which form the provider can be spoken to, and with what.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::Seat;

use super::question::{Question, Then, is_ignorance};
use super::questions::What;
use super::server::Server;
use super::talk::*;
use super::{Broker, Cx, LIMIT};
use crate::form::{self, Address, Answer, Direction, Form};
use crate::stateless::{self, INITIALIZED};

impl Broker {
    pub(super) fn add_talk(&mut self, server: &str, seat: Seat, consumer: Consumer) -> u64 {
        let told_to = match &consumer {
            Consumer::Connection { id, .. } if id.is_empty() => seat,
            // It knows how to call it from the beginning.
            _ => self.far,
        };
        let number = self.ids.fresh();
        let talk = Talk {
            server: server.to_owned(),
            seat,
            consumer,
            state: State::Opening(Vec::new()),
            hello: None,
            begun: None,
            told_to,
            held: 0,
            unanswered: false,
            leaving: false,
        };
        self.talks.add(number, talk);
        number
    }

    /// Opens a conversation with a provider in this form. `asked` is the consumer's own connect,
    /// `original` what it said.
    pub(super) fn open(
        &mut self,
        number: u64,
        form: Form,
        asked: Option<Id>,
        original: Option<Call>,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        if form == Form::M7 {
            if server.settled {
                return self.on_stateless(number, asked, cx);
            }
            let then = Then::Open { asked };
            return self.discover(number, then, cx);
        }
        if !form.connects() {
            let seat = talk.seat;
            return self.on_open(seat, number, form, String::new(), asked, None, cx);
        }
        // Who says `_mcp/connect` may know only one of its spellings, and the provider another.
        let as_spelt = form::named_server(&form.connect(server.address(form), ""));
        let spelt = original.as_ref().and_then(form::named_server);
        let unchanged = |consumer| form == consumer && form != Form::M3 && spelt == as_spelt;
        let is_free = |id: &str| !id.is_empty() && self.talks.of_provider(talk.seat, id).is_none();
        let (alike, chosen) = match &talk.consumer {
            Consumer::Connection { form, id } if unchanged(*form) => (true, id.clone()),
            // A provider that lets its consumers choose may as well have what they choose.
            Consumer::Connection { form: Form::M3t, id } if is_free(id) => (false, id.clone()),
            _ => (false, format!("mcp-over-acp:{number}")),
        };
        let call = match original.filter(|_| alike) {
            Some(call) => call,
            None => form.connect(server.address(form), &chosen),
        };
        let seat = talk.seat;
        let what = What::Connect { form, server: server.address(form).to_owned() };
        let question = Question::Connect { talk: number, form, asked, alike, chosen };
        self.ask(seat, question, call, Some(what), cx);
    }

    /// Asks a provider something of our own.
    pub(super) fn ask(
        &mut self,
        seat: Seat,
        question: Question,
        call: Call,
        what: Option<What>,
        cx: &mut Cx<'_>,
    ) {
        let id = Id::string(&format!("m:{}", self.ids.fresh()));
        self.questions.expect(cx.now, (seat, &id), question, Some(cx.now.plus(LIMIT)), what);
        deliver(seat, Side::Editor, Message::Request { id, call }, cx);
    }

    pub(super) fn discover(&mut self, number: u64, then: Then, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let request = format!("mcp-over-acp:{number}");
        let address =
            Address { server: server.address(Form::M7), connection: "", request: &request };
        let connects = matches!(then, Then::Open { .. });
        let discover = stateless::discover(connects);
        let call = Form::M7.say(Direction::ToServer, address, Some(&Id::NULL), &discover);
        let what = What::say(Form::M7, server.address(Form::M7), "", &discover);
        let question = Question::Discover { talk: number, then };
        self.ask(talk.seat, question, call, what, cx);
    }

    /// The provider can be spoken to.
    #[allow(clippy::too_many_arguments)] // it is where all that is known of a connection comes together
    pub(super) fn on_open(
        &mut self,
        seat: Seat,
        number: u64,
        form: Form,
        connection: String,
        asked: Option<Id>,
        result: Option<Json>,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get_mut(number) else {
            // Nobody wants it any more.
            return self.say_goodbye(seat, form, &connection, cx);
        };
        if let Some(server) = self.registry.get_mut(&talk.server) {
            server.settle(form);
        }
        let opened = State::Open { form, connection: connection.clone() };
        let State::Opening(waiting) = std::mem::replace(&mut talk.state, opened) else { return };
        // A provider that was started anew does not know what was said to the one before.
        let hello = matches!(talk.consumer, Consumer::Stateless) || talk.begun.is_some();
        if !connection.is_empty() {
            self.talks.connect(seat, connection.clone(), number);
        }
        if hello {
            return self.greet(number, form, connection, waiting, cx);
        }
        self.tell_connected(number, &connection, asked, result, cx);
        for item in waiting {
            self.say(number, item, cx);
        }
    }

    /// Says `initialize` to a server, in the place of a consumer that does not, or will not again.
    pub(super) fn greet(
        &mut self,
        number: u64,
        form: Form,
        connection: String,
        waiting: Vec<Item>,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get_mut(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let hello = match &talk.begun {
            Some(begun) => begun.hello.clone(),
            None => stateless::initialize(waiting.first().map(|item| &item.call)),
        };
        let address =
            Address { server: server.address(form), connection: &connection, request: "" };
        let call = form.say(Direction::ToServer, address, Some(&Id::string("hello")), &hello);
        let what = What::say(form, server.address(form), &connection, &hello);
        talk.state = State::Greeting { form, connection, waiting };
        let seat = talk.seat;
        self.ask(seat, Question::Hello { talk: number, form }, call, what, cx);
    }

    /// The provider has no connections; the consumer may believe that it has one.
    pub(super) fn on_stateless(&mut self, number: u64, asked: Option<Id>, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get_mut(number) else { return };
        let stateless = State::Stateless(talk.client());
        let State::Opening(waiting) = std::mem::replace(&mut talk.state, stateless) else { return };
        self.tell_connected(number, "", asked, None, cx);
        for item in waiting {
            self.say(number, item, cx);
        }
    }

    /// Answers a consumer's connect: the provider's id of the connection, if nobody else has the same.
    /// One that is opened anew has its name already.
    pub(super) fn tell_connected(
        &mut self,
        number: u64,
        connection: &str,
        asked: Option<Id>,
        result: Option<Json>,
        cx: &mut Cx<'_>,
    ) {
        if self.talks.is_told(number) {
            return;
        }
        let Some(talk) = self.talks.get(number) else { return };
        let (seat, untold) = (talk.seat, talk.told_to != self.far);
        let Consumer::Connection { form, id: known_as } = &talk.consumer else { return };
        let wanted = match (known_as.is_empty(), connection.is_empty()) {
            (false, _) => known_as.clone(),
            // Who has taken a place may count as the one before did, whose ids are still on their way.
            (true, false) if !self.registry.is_reborn(seat) => connection.to_owned(),
            (true, _) => format!("mcp-over-acp:{number}"),
        };
        let form = *form;
        if untold {
            self.talks.tell(number);
        }
        let free = self.talks.claim(number, &wanted);
        let told = result.filter(|_| free == connection).unwrap_or_else(|| form.connected(&free));
        if let Some(Consumer::Connection { id, .. }) =
            self.talks.get_mut(number).map(|talk| &mut talk.consumer)
        {
            *id = free;
        }
        if let Some(id) = asked {
            answer(seat, id, Outcome::Result(told), cx);
        }
    }

    /// A conversation could not be opened.
    pub(super) fn on_closed(
        &mut self,
        number: u64,
        asked: Option<Id>,
        error: &Json,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get(number) else { return };
        let stateless = matches!(talk.consumer, Consumer::Stateless);
        let error = if stateless { backend_failed(error) } else { error.clone() };
        if let Some(id) = asked {
            answer(talk.seat, id, Outcome::Error(error.clone()), cx);
        }
        if let Some(talk) = self.dismiss(number, &error, cx) {
            if let State::Greeting { form, connection, .. } = &talk.state {
                self.say_goodbye(talk.seat, *form, connection, cx);
            }
            self.drop_if_unused(&talk.server, cx);
        }
    }

    /// A connect was refused: perhaps the provider speaks another form.
    pub(super) fn on_ignorance(
        &mut self,
        number: u64,
        form: Form,
        asked: Option<Id>,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        let server = self.talks.get(number).map(|talk| talk.server.clone());
        let server = server.and_then(|key| self.registry.get_mut(&key));
        // Speaking without a connect cannot be refused at once, so only who does not know what a
        // connect is at all is spoken to like that.
        let unknown = outcome.error_code() == Some(code::METHOD_NOT_FOUND);
        let another =
            |server: &&mut Server| is_ignorance(&outcome) && (unknown || !server.may_be(Form::M1));
        let next = server.filter(another).and_then(|it| it.rule_out(form));
        match (next, outcome) {
            (Some(form), _) => self.open(number, form, asked, None, cx),
            (None, Outcome::Error(error)) => self.on_closed(number, asked, &error, cx),
            (None, Outcome::Result(_)) => {
                let why = "the provider of the MCP server did not say how it calls the connection";
                let error = error_object(code::INTERNAL_ERROR, why, None);
                self.on_closed(number, asked, &error, cx);
            }
        }
    }

    pub(super) fn on_discovered(
        &mut self,
        number: u64,
        then: Then,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get_mut(number) else { return };
        let Some(server) = self.registry.get_mut(&talk.server) else { return };
        if let Then::Open { asked } = &then
            && is_ignorance(&outcome)
            && let Some(form) = server.rule_out(Form::M7)
        {
            let asked = asked.clone();
            return self.open(number, form, asked, None, cx);
        }
        server.settle(Form::M7);
        if let Answer::FromServer(Outcome::Result(found)) = Form::M7.open(outcome) {
            server.discovered = Some(found.detached());
        }
        match then {
            Then::Open { asked } => self.on_stateless(number, asked, cx),
            Then::Hello { id, inner } => {
                let State::Stateless(client) = &talk.state else { return };
                let found = server.discovered.as_ref();
                let result = stateless::initialized(found, client, &server.name);
                let said = Answer::FromServer(Outcome::Result(result));
                let outcome = close(talk, server, inner.as_ref(), said);
                answer(talk.seat, id, outcome, cx);
            }
        }
    }

    /// The server of a connection has answered our own `initialize`.
    pub(super) fn on_hello(&mut self, number: u64, outcome: Outcome, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get_mut(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let State::Greeting { form, connection, waiting } = &mut talk.state else { return };
        let form = *form;
        let result = match form.open(outcome) {
            Answer::FromServer(Outcome::Result(result)) => result.detached(),
            Answer::FromServer(Outcome::Error(error)) | Answer::NotDelivered(error) => {
                return self.on_closed(number, None, &error, cx);
            }
        };
        let (connection, waiting) = (std::mem::take(connection), std::mem::take(waiting));
        // Who has not said it will.
        if talk.begun.as_ref().is_none_or(|begun| begun.ready) {
            let address =
                Address { server: server.address(form), connection: &connection, request: "" };
            let initialized =
                form.say(Direction::ToServer, address, None, &Call::new(INITIALIZED, None));
            deliver(talk.seat, Side::Editor, Message::Notification(initialized), cx);
        }
        talk.hello = Some(result);
        talk.state = State::Open { form, connection };
        for item in waiting {
            self.say(number, item, cx);
        }
    }
}
