//! The loop: lines in, handlers, lines out.
//!
//! Everything runs in one task. After each line all handlers go as far as they can before the next
//! line is looked at, so a handler that waits for nothing but what it sent on keeps its place in the
//! order of messages.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use acp_proxy_core::{
    Call, Driver, Id, IncomingRequest, Json, Message, Outbox, Outcome, RequestKey, Side,
};
use acp_wire::acp::{self, SessionId, session_of_call};
use acp_wire::lines::{Line, Lines};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::context::{Command, Cx, Shared, Task, Wanted};
use crate::error::{Error, Result, outcome};
use crate::handler::{Handler, Next, Verdict};
use crate::proxy::{Check, Listener, Observer, Proxy};
use crate::signal::Giver;
use crate::strict;
use crate::tool::Offers;
use crate::turn::{self, Prompted, Turns};

const CHUNK: usize = 64 * 1024;

/// The synchronous proxy under the handlers.
struct Front {
    requests: BTreeMap<String, [Arc<[Handler]>; 2]>,
    notifications: BTreeMap<String, [Vec<Listener>; 2]>,
    observers: Vec<Observer>,
    checks: Vec<(Side, Check)>,
    shared: Rc<Shared>,
    waiting: BTreeMap<RequestKey, Waiting>,
    /// The id of the editor's `initialize` that was passed on, until it is answered.
    greeting: Option<Id>,
    /// Prompts of the editor that are being handled, in ACP version 2, by their ids.
    prompts: BTreeMap<Id, Prompted>,
    turns: Turns,
    /// It decides about permissions, so what is said about tool calls matters.
    decides: bool,
}

/// A question that was asked, and in the course of which request.
struct Waiting {
    of: Option<Id>,
    then: Then,
}

/// What is to be done with an answer.
enum Then {
    Give(Giver<Result<Json>>),
    /// It accepts a prompt, in ACP version 2.
    Turn {
        session: SessionId,
        own: bool,
    },
}

fn index(side: Side) -> usize {
    match side {
        Side::Editor => 0,
        Side::Agent => 1,
    }
}

impl Front {
    fn new(proxy: Proxy, shared: Rc<Shared>) -> Front {
        let mut requests = BTreeMap::<String, [Arc<[Handler]>; 2]>::new();
        for ((from, method), handlers) in proxy.requests {
            let slots = requests.entry(method).or_insert_with(|| [Arc::from([]), Arc::from([])]);
            slots[index(from)] = handlers.into();
        }
        let mut notifications = BTreeMap::<String, [Vec<Listener>; 2]>::new();
        for ((from, method), listeners) in proxy.notifications {
            notifications.entry(method).or_default()[index(from)] = listeners;
        }
        let cx = Cx { shared: shared.clone(), of: None };
        proxy.starters.into_iter().for_each(|start| start(cx.clone()));
        let decides = requests.get("session/request_permission");
        Front {
            decides: decides.is_some_and(|slots| !slots[index(Side::Agent)].is_empty()),
            requests,
            notifications,
            observers: proxy.observers,
            checks: proxy.checks,
            shared,
            waiting: BTreeMap::new(),
            greeting: None,
            prompts: BTreeMap::new(),
            turns: Turns::default(),
        }
    }

    /// Notes the version that the agent has agreed to.
    fn greeted(&self, outcome: &Outcome) {
        let Outcome::Result(result) = outcome else { return };
        let version = result.member("protocolVersion").as_ref().and_then(Json::integer);
        // Some agents answer with the version they were asked for, and go on as in version 1.
        let is_first = result.member("agentCapabilities").is_some();
        self.shared.version.set(if is_first { 1 } else { version.unwrap_or(1) });
    }

    fn perform(&mut self, command: Command, out: &mut Outbox<'_>) {
        match command {
            Command::Ask { toward, call, of, own, reply } => {
                if let Err(why) = self.check(toward, &call) {
                    return reply.give(Err(why));
                }
                self.begins_turn(toward, &call);
                let prompts = self.shared.is_v2() && call.is(acp::PROMPT);
                let session = session_of_call(&call).filter(|_| prompts && toward == Side::Agent);
                let tag = out.request(toward, call);
                let cancelled = of.as_ref().is_some_and(|of| {
                    self.shared.handled.borrow().get(of).is_some_and(|it| it.is_cancelled())
                });
                let then = match session {
                    Some(session) => self.run(session, tag, of.as_ref(), own, reply),
                    None => Then::Give(reply),
                };
                self.waiting.insert(tag, Waiting { of, then });
                if cancelled {
                    out.cancel(tag);
                }
            }
            Command::Notify { toward, call } => self.notify(toward, call, out),
            Command::Answer(request, outcome) => {
                self.shared.handled.borrow_mut().remove(request.id());
                if request.call.is("initialize") {
                    self.greeted(&outcome);
                }
                out.answer(request, outcome);
            }
            Command::Finish(id, result) => self.finish(&id, result, out),
        }
    }

    /// What the checks say of a request or notification on its way to that side.
    fn check(&self, toward: Side, call: &Call) -> Result<()> {
        let mut checks = self.checks.iter().filter(|(side, _)| *side == toward);
        checks.try_for_each(|(_, check)| check(call))
    }

    /// Sends a notification, unless a check refuses it.
    fn notify(&self, toward: Side, call: Call, out: &mut Outbox<'_>) {
        match self.check(toward, &call) {
            Ok(()) => out.notify(toward, call),
            Err(_) => self.shared.refused(),
        }
    }

    /// A prompt was sent to the agent, whose turn a handler waits for.
    fn run(
        &mut self,
        session: SessionId,
        tag: RequestKey,
        of: Option<&Id>,
        own: bool,
        reply: Giver<Result<Json>>,
    ) -> Then {
        let prompted = of.and_then(|of| self.prompts.get_mut(of));
        let prompted = prompted.filter(|it| it.session == session);
        let first = prompted.is_some_and(|it| !std::mem::replace(&mut it.sent, true));
        self.turns.sent(&session, tag, first, reply);
        Then::Turn { session, own }
    }

    /// The agent has accepted a prompt: so is the editor's, unless it was the proxy's own.
    fn accept(&mut self, of: &Id, own: bool, answer: &Json, out: &mut Outbox<'_>) {
        let Some(prompted) = self.prompts.get_mut(of) else { return };
        if own {
            prompted.own = Some(answer.detached());
        } else if let Some(request) = prompted.request.take() {
            out.answer(request, Outcome::Result(answer.clone()));
        }
    }

    /// The handler of a prompt is done. The editor is told what it has not been told yet: that the prompt was
    /// accepted, and how the turn ended.
    fn finish(&mut self, id: &Id, result: Result<Json>, out: &mut Outbox<'_>) {
        self.shared.handled.borrow_mut().remove(id);
        let Some(Prompted { session, request, sent, own }) = self.prompts.remove(id) else {
            return;
        };
        if !self.prompts.values().any(|it| it.session == session) {
            self.shared.saying.borrow_mut().remove(&session);
        }
        let failed = match (&result, &request) {
            (Err(why), None) => {
                // Only the editor is told why: the text may quote the conversation.
                let code = why.code().unwrap_or_default();
                let line =
                    format!("a turn failed after its prompt was accepted, with error {code}");
                self.shared.log(&line);
                false
            }
            (Err(_), Some(_)) => true,
            (Ok(_), _) => false,
        };
        match (request, &result) {
            (Some(request), Err(why)) => out.answer(request, why.clone().into_outcome()),
            (Some(request), Ok(_)) => match own {
                Some(answer) => out.answer(request, Outcome::Result(answer)),
                None => self.insert(request, &session, out),
            },
            (None, _) => {}
        }
        let (held, untold) = match sent {
            true => self.turns.done(&session),
            false => (Vec::new(), !failed),
        };
        for call in turn::with_end(held, &result) {
            self.notify(Side::Editor, call, out);
        }
        if untold && !failed {
            self.notify(Side::Editor, turn::idle(&session, &result), out);
        }
    }

    /// Answers a prompt that goes no further: it is part of the conversation.
    fn insert(&self, request: IncomingRequest, session: &str, out: &mut Outbox<'_>) {
        let id = self.shared.message_id();
        self.notify(Side::Editor, turn::user_message(&request, session, &id), out);
        let answer = Json::object([("messageId", Some(Json::string(&id)))]);
        out.answer(request, Outcome::Result(answer));
    }

    /// Whether a strict proxy refuses a message of a method that it handles, and why.
    fn refuses(&self, call: &Call) -> Option<strict::Fault> {
        let params = call.params.as_ref().filter(|_| self.shared.strict)?;
        strict::check(params).err()
    }

    /// In a new turn, an agent may use the ids of its tool calls again.
    fn begins_turn(&self, toward: Side, call: &Call) {
        if self.decides && toward == Side::Agent && call.is(acp::PROMPT) {
            session_of_call(call).iter().for_each(|session| self.shared.calls.forget(session));
        }
    }

    /// Handles a request in a task of its own.
    fn handle(
        &mut self,
        from: Side,
        request: IncomingRequest,
        handlers: Arc<[Handler]>,
        out: &mut Outbox<'_>,
    ) {
        let prompt = self.shared.last && request.call.is(acp::PROMPT);
        let session = if prompt { session_of_call(&request.call) } else { None };
        let wanted = Rc::new(Wanted::in_session(session));
        self.shared.handled.borrow_mut().insert(request.id().detached(), wanted.clone());
        let cx = Cx { shared: self.shared.clone(), of: Some((request.id().detached(), wanted)) };
        let shared = self.shared.clone();
        let call = request.call.clone();
        let own = from == Side::Agent && call.is("mcp/message") && shared.offers.owns(&call);
        let id = request.id().detached();
        let request = self.keep_prompt(from, request, out);
        self.shared.spawn(Box::pin(async move {
            let result = if own {
                shared.offers.answer(cx, call).await
            } else {
                let (toward, kind) = (from.opposite(), PhantomData);
                let next = Next::<Call> { cx, toward, rest: handlers, own: false, kind };
                next.pass(call, false).await
            };
            shared.push(match request {
                Some(request) => Command::Answer(request, outcome(result)),
                None => Command::Finish(id, result),
            });
        }));
    }

    /// Keeps a prompt whose turn is more than its answer, as in ACP version 2. Gives back any other request.
    fn keep_prompt(
        &mut self,
        from: Side,
        request: IncomingRequest,
        out: &mut Outbox<'_>,
    ) -> Option<IncomingRequest> {
        let is_turn = self.shared.is_v2() && from == Side::Editor && request.call.is(acp::PROMPT);
        let session = session_of_call(&request.call).filter(|_| is_turn);
        let Some(session) = session else { return Some(request) };
        let id = request.id().detached();
        let mut prompted = Prompted { session, request: None, sent: false, own: None };
        match self.shared.last {
            // An agent has accepted it with that.
            true => {
                self.insert(request, &prompted.session, out);
                self.notify(Side::Editor, turn::running(&prompted.session), out);
            }
            false => prompted.request = Some(request),
        }
        let saying = self.shared.message_id();
        self.shared.saying.borrow_mut().insert(prompted.session.clone(), saying);
        self.prompts.insert(id, prompted);
        None
    }
}

impl acp_proxy_core::Proxy for Front {
    fn on_message(&mut self, from: Side, message: &Message) {
        if let Message::Response { id, outcome, .. } = message
            && from == Side::Agent
            && self.greeting.as_ref() == Some(id)
        {
            self.greeting = None;
            self.greeted(outcome);
        }
        self.observers.iter_mut().for_each(|observer| observer(from, message));
    }

    fn on_request(&mut self, from: Side, request: IncomingRequest, out: &mut Outbox<'_>) {
        let method = request.call.method.name();
        let handlers = self.requests.get(&*method).map(|slots| slots[index(from)].clone());
        let handlers = handlers.unwrap_or_else(|| Arc::from([]));
        let offers = &self.shared.offers;
        let ours = match from {
            Side::Editor => offers.sets_up(&request.call),
            Side::Agent => &*method == "mcp/message" && offers.owns(&request.call),
        };
        if from == Side::Editor
            && matches!(&*method, acp::CLOSE_SESSION | acp::DELETE_SESSION)
            && let Some(session) = session_of_call(&request.call)
        {
            offers.forget(&session);
            self.shared.calls.forget(&session);
            self.turns.closed(&session);
        }
        drop(method);
        if let Some(answer) =
            self.shared.sessions.answer(&request.call).filter(|_| from == Side::Agent)
        {
            return out.answer(request, answer);
        }
        if handlers.is_empty() && !ours {
            if self.shared.last && from == Side::Editor {
                let error = Error::method_not_found(&request.call.method.name());
                return out.answer(request, error.into_outcome());
            }
            if let Err(why) = self.check(from.opposite(), &request.call) {
                return out.answer(request, why.into_outcome());
            }
            self.begins_turn(from.opposite(), &request.call);
            if from == Side::Editor && request.call.is("initialize") {
                self.greeting = Some(request.id().detached());
            }
            return out.forward(from.opposite(), request);
        }
        if let Some(why) = self.refuses(&request.call).filter(|_| !handlers.is_empty()) {
            let method = request.call.method.name().into_owned();
            self.shared.unread(&method, why.kind);
            return out.answer(request, self.shared.refusal(&method, &why.text).into_outcome());
        }
        self.handle(from, request, handlers, out);
    }

    fn on_notification(&mut self, from: Side, mut call: Call, out: &mut Outbox<'_>) {
        let watches = self.shared.is_v2() && from == Side::Agent && call.is(acp::UPDATE);
        let state = if watches { turn::state(&call) } else { None };
        if let Some((session, idle, update)) = &state {
            self.turns.reported(session, *idle, update);
        }
        if from == Side::Agent && call.is(acp::UPDATE) && self.shared.sessions.keep(&call) {
            return;
        }
        let method = call.method.name().into_owned();
        if self.decides && from == Side::Agent && method == acp::UPDATE {
            self.shared.calls.update(&call, self.shared.is_v2());
        }
        let heard = self.notifications.get(&method).is_some_and(|it| !it[index(from)].is_empty());
        if let Some(why) = self.refuses(&call).filter(|_| heard) {
            self.shared.unread(&method, why.kind);
            return;
        }
        if let Some(listeners) = self.notifications.get_mut(&method) {
            let cx = Cx { shared: self.shared.clone(), of: None };
            for listener in &mut listeners[index(from)] {
                if listener(&mut call, &cx) == Verdict::Drop {
                    return;
                }
            }
        }
        if self.shared.last && from == Side::Editor {
            if method == acp::CANCEL_SESSION {
                session_of_call(&call).iter().for_each(|id| self.shared.cancel_session(id));
            }
            return;
        }
        let call = match state {
            Some((session, true, _)) => self.turns.hold(&session, call),
            _ => Some(call),
        };
        if let Some(call) = call {
            self.notify(from.opposite(), call, out);
        }
    }

    fn on_cancel(&mut self, id: &Id, out: &mut Outbox<'_>) {
        if let Some(wanted) = self.shared.handled.borrow().get(id) {
            wanted.cancel();
        }
        for (tag, waiting) in &self.waiting {
            if waiting.of.as_ref() == Some(id) {
                out.cancel(*tag);
            }
        }
    }

    fn on_answer(&mut self, tag: RequestKey, outcome: Outcome, out: &mut Outbox<'_>) {
        let Some(Waiting { of, then }) = self.waiting.remove(&tag) else { return };
        let answer = match outcome {
            Outcome::Result(result) => Ok(result.detached()),
            Outcome::Error(error) => Err(Error::from_json(error.detached())),
        };
        match then {
            Then::Give(reply) => reply.give(answer),
            Then::Turn { session, own } => {
                if let (Some(of), Ok(answer)) = (&of, &answer) {
                    self.accept(of, own, answer, out);
                }
                self.turns.answered(&session, tag, answer);
            }
        }
    }
}

/// A proxy that runs, without its streams.
pub(crate) struct Engine {
    driver: Driver<Front>,
    shared: Rc<Shared>,
    tasks: FuturesUnordered<Task>,
}

impl Engine {
    pub fn new(mut proxy: Proxy) -> Engine {
        let offers = Offers::new(std::mem::take(&mut proxy.servers));
        let last = proxy.last;
        let (name, strict) = (proxy.name.clone(), proxy.strict);
        let logger = proxy.logger.take();
        let salt = RandomState::new().build_hasher().finish() as u32;
        let shared = Shared { offers, last, name, strict, logger, salt, ..Shared::default() };
        let shared = Rc::new(shared);
        let front = Front::new(proxy, shared.clone());
        let driver = if last { Driver::agent(front) } else { Driver::new(front) };
        Engine { driver, shared, tasks: FuturesUnordered::new() }
    }

    /// Takes one line; what is to be sent is appended.
    pub fn handle(&mut self, line: &bytes::Bytes, lines: &mut Vec<u8>) {
        self.driver.handle(line, lines);
    }

    /// Lets all handlers go as far as they can. Says whether anything was done.
    pub fn advance(&mut self, cx: &mut Context<'_>, lines: &mut Vec<u8>) -> bool {
        let mut busy = false;
        loop {
            self.tasks.extend(self.shared.tasks.borrow_mut().drain(..));
            let mut moved = false;
            while let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(cx) {
                moved = true;
            }
            while let Some(command) = self.next_command() {
                self.driver.with_proxy(lines, |front, out| front.perform(command, out));
                moved = true;
            }
            busy |= moved;
            if !moved && self.shared.tasks.borrow().is_empty() {
                *self.shared.waker.borrow_mut() = Some(cx.waker().clone());
                return busy;
            }
        }
    }

    fn next_command(&self) -> Option<Command> {
        self.shared.commands.borrow_mut().pop_front()
    }
}

/// Runs a proxy until its input ends.
pub(crate) async fn serve(
    proxy: Proxy,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut engine = Engine::new(proxy);
    // A proxy has no limit of its own: the conductor has one.
    let (mut received, mut lines) = (Lines::new(usize::MAX), Vec::new());
    loop {
        while let Some(Line::Text(line)) = received.next_line() {
            engine.handle(&line, &mut lines);
            poll_fn(|cx| Poll::Ready(engine.advance(cx, &mut lines))).await;
        }
        if !lines.is_empty() {
            writer.write_all(&lines).await?;
            writer.flush().await?;
            lines.clear();
        }
        // Whatever comes first: a chunk, or something that a handler has waited for.
        let count = {
            let mut reading = std::pin::pin!(reader.read_buf(received.room(CHUNK)));
            poll_fn(|cx| {
                if engine.advance(cx, &mut lines) {
                    return Poll::Ready(Ok(None));
                }
                reading.as_mut().poll(cx).map_ok(Some)
            })
            .await?
        };
        if count == Some(0) {
            return Ok(());
        }
    }
}
