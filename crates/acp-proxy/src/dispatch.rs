//! Dispatches messages to handlers: the synchronous proxy that the driver runs.

mod outside_turn;
mod prompts;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{
    Call, Id, IncomingRequest, Json, Message, Outbox, Outcome, RequestKey, Rewritten, Side,
};
use acp_wire::acp::{self, SessionId, session_of_call};
use acp_wire::guards;

use crate::ahead::Ahead;
use crate::component::{
    Check, Component, NotificationHandler, Observer, PERMISSION, Rewriter, ToolCallHandler,
    Versioned,
};
use crate::context::Context;
use crate::error::{Error, Result, outcome};
use crate::next::{Delivery, Handler, Next, ReceivedAnswers};
use crate::oneshot::Sender;
use crate::shared::{Cancellation, Command, Shared};
use crate::strict;
use crate::tool_call::ToolCall;
use crate::turn::{self, HandledPrompt, Turns};

/// Finds the handlers of each message and performs what handlers want.
pub(crate) struct Dispatcher {
    requests: BTreeMap<String, [MethodHandlers; 2]>,
    /// The handlers of requests without a handler for their method.
    any_requests: Arc<[Handler]>,
    notifications: BTreeMap<String, [Vec<Versioned<NotificationHandler>>; 2]>,
    any_notifications: Vec<NotificationHandler>,
    tool_calls: Vec<ToolCallHandler>,
    rewriters: Vec<Rewriter>,
    observers: Vec<Observer>,
    checks: Vec<(Side, Check)>,
    pub(crate) shared: Rc<Shared>,
    /// The requests that handlers have sent.
    sent: BTreeMap<RequestKey, SentRequest>,
    /// The id of the editor's `initialize` that was forwarded, until it is answered.
    initialize: Option<Id>,
    /// Whether the answer to `initialize` declares a guard.
    is_guard: bool,
    /// The prompts of the editor that are being handled, in ACP version 2.
    prompts: BTreeMap<Id, HandledPrompt>,
    turns: Turns,
    /// Whether what the agent reports about its tool calls is remembered.
    tracks_tool_calls: bool,
}

/// The handlers of requests of one method from one side.
#[derive(Clone, Default)]
struct MethodHandlers {
    /// By ACP version: 1, 2.
    by_version: [Arc<[Handler]>; 2],
    /// Whether the method has a handler in any version.
    is_handled: bool,
}

/// A request that a handler has sent.
struct SentRequest {
    /// The request that is being handled.
    parent: Option<Id>,
    on_answer: OnAnswer,
}

/// What to do with an answer.
enum OnAnswer {
    Reply(Sender<Result<Json>>),
    /// The handler does not wait any more.
    Ignore,
    /// The answer accepts a prompt, in ACP version 2.
    AcceptPrompt {
        session: SessionId,
        is_extra: bool,
    },
}

fn index(side: Side) -> usize {
    match side {
        Side::Editor => 0,
        Side::Agent => 1,
    }
}

/// Whether a handler of this version runs on a connection of version 2 or not. Where a method has handlers of
/// version 2, handlers of version 1 do not run on connections of version 2.
fn runs(version: Option<u16>, is_v2: bool, has_v2: bool) -> bool {
    match version {
        None => true,
        Some(2..) => is_v2,
        Some(_) => !is_v2 || !has_v2,
    }
}

fn has_v2<H>(handlers: &[Versioned<H>]) -> bool {
    handlers.iter().any(|it| it.version.is_some_and(|version| version >= 2))
}

impl MethodHandlers {
    fn new(handlers: &[Versioned<Handler>], any: &[Handler], any_is_last: bool) -> MethodHandlers {
        let has_v2 = has_v2(handlers);
        let of_version = |is_v2: bool| -> Arc<[Handler]> {
            let own = handlers.iter().filter(|it| runs(it.version, is_v2, has_v2));
            let own = own.map(|it| it.handler.clone());
            match any_is_last {
                true => own.chain(any.iter().cloned()).collect(),
                false => any.iter().cloned().chain(own).collect(),
            }
        };
        MethodHandlers { by_version: [false, true].map(of_version), is_handled: true }
    }
}

impl Dispatcher {
    pub(crate) fn new(component: Component, shared: Rc<Shared>) -> Dispatcher {
        let is_permission_handled =
            component.requests.contains_key(&(Side::Agent, PERMISSION.to_owned()));
        let tracks_tool_calls = is_permission_handled || !component.tool_calls.is_empty();
        let any = &component.any_requests;
        let mut requests = BTreeMap::<String, [MethodHandlers; 2]>::new();
        for ((sender, method), handlers) in &component.requests {
            let slots = requests.entry(method.clone()).or_default();
            slots[index(*sender)] = MethodHandlers::new(handlers, any, component.is_agent);
        }
        // A method that is handled from one side only still has the handlers of any method on the other.
        for slot in requests.values_mut().flatten().filter(|it| !it.is_handled) {
            *slot = MethodHandlers::new(&[], any, component.is_agent);
            slot.is_handled = !any.is_empty();
        }
        let mut notifications = BTreeMap::<String, [Vec<Versioned<NotificationHandler>>; 2]>::new();
        for ((sender, method), handlers) in component.notifications {
            notifications.entry(method).or_default()[index(sender)] = handlers;
        }
        let context = Context::new(shared.clone());
        component.starters.into_iter().for_each(|start| start(context.clone()));
        Dispatcher {
            requests,
            any_requests: any.iter().cloned().collect(),
            notifications,
            any_notifications: component.any_notifications,
            tool_calls: component.tool_calls,
            rewriters: component.rewriters,
            observers: component.observers,
            checks: component.checks,
            shared,
            sent: BTreeMap::new(),
            initialize: None,
            is_guard: component.is_guard,
            prompts: BTreeMap::new(),
            turns: Turns::default(),
            tracks_tool_calls,
        }
    }

    /// The handlers of a request, and whether its method has a handler in any version.
    fn handlers(&self, from: Side, call: &Call) -> (Arc<[Handler]>, bool) {
        match self.requests.get(&*call.method.name()) {
            Some(slots) => {
                let slot = &slots[index(from)];
                (slot.by_version[usize::from(self.is_v2(call))].clone(), slot.is_handled)
            }
            None => (self.any_requests.clone(), !self.any_requests.is_empty()),
        }
    }

    /// Whether a message is of ACP version 2. `initialize` names its version.
    fn is_v2(&self, call: &Call) -> bool {
        match call.is("initialize") {
            true => {
                let version = call.params.as_ref().and_then(acp::protocol_version);
                version.is_some_and(|version| version >= 2)
            }
            false => self.shared.is_v2(),
        }
    }

    /// Remembers the version that the agent has agreed to.
    fn on_initialized(&self, outcome: &Outcome) {
        let Outcome::Result(result) = outcome else { return };
        let version = result.member("protocolVersion").as_ref().and_then(Json::integer);
        // Some agents repeat the requested version and continue with version 1.
        let is_first = result.member("agentCapabilities").is_some();
        self.shared.version.set(if is_first { 1 } else { version.unwrap_or(1) });
    }

    /// The answer to `initialize` as the editor's side receives it.
    fn declare_guard(&self, outcome: &mut Outcome) {
        if let (true, Outcome::Result(result)) = (self.is_guard, outcome) {
            *result = guards::set_flag(result);
        }
    }

    pub(crate) fn perform(&mut self, command: Command, out: &mut Outbox<'_>) {
        match command {
            Command::Request { reply, .. } if !reply.has_receiver() => {}
            Command::Request { toward, call, parent, is_extra, reply } => {
                if let Err(why) = self.check(toward, &call) {
                    return reply.send(Err(why));
                }
                self.on_prompt_sent(toward, &call);
                let is_turn =
                    self.shared.reads_turns() && call.is(acp::PROMPT) && toward == Side::Agent;
                let session = session_of_call(&call).filter(|_| is_turn);
                let key = out.request(toward, call);
                let is_cancelled = parent.as_ref().is_some_and(|parent| {
                    let cancellations = self.shared.cancellations.borrow();
                    cancellations.get(parent).is_some_and(|it| it.is_cancelled())
                });
                let on_answer = match session {
                    Some(session) => {
                        self.begin_turn(session, key, parent.as_ref(), is_extra, reply)
                    }
                    None => OnAnswer::Reply(reply),
                };
                self.sent.insert(key, SentRequest { parent, on_answer });
                if is_cancelled {
                    out.cancel(key);
                }
            }
            Command::Notify { toward, call } => self.notify(toward, call, out),
            Command::Answer(request, mut outcome) => {
                self.shared.cancellations.borrow_mut().remove(request.id());
                if request.call.is("initialize") {
                    self.on_initialized(&outcome);
                    self.declare_guard(&mut outcome);
                }
                let prompt = request.call.is(acp::PROMPT).then(|| request.id().detached());
                let answered = prompt.map(|id| (id, outcome.clone()));
                out.answer(request, outcome);
                if let Some((id, outcome)) = answered {
                    self.on_prompt_answered(&id, &outcome);
                }
            }
            Command::EndOwnTurn(session) => self.end_own_turn(&session, out),
            Command::Announce(session, text) => {
                self.shared.activity.announce(&session, text);
                self.settle(&session);
            }
            Command::Settle(session) => self.settle(&session),
            Command::CancelUnawaited => self.cancel_unawaited(out),
            Command::FinishTurn(id, result) => self.finish_turn(&id, result, out),
        }
    }

    /// Cancels the requests whose handlers do not wait for the answer any more. An answer that comes later is ignored.
    fn cancel_unawaited(&mut self, out: &mut Outbox<'_>) {
        for (key, sent) in &mut self.sent {
            let is_awaited = match &sent.on_answer {
                OnAnswer::Reply(reply) => reply.has_receiver(),
                OnAnswer::AcceptPrompt { .. } | OnAnswer::Ignore => true,
            };
            if !is_awaited {
                sent.on_answer = OnAnswer::Ignore;
                out.cancel(*key);
            }
        }
    }

    /// Runs the checks on a request or notification to that side.
    fn check(&self, toward: Side, call: &Call) -> Result<()> {
        let mut checks = self.checks.iter().filter(|(side, _)| *side == toward);
        checks.try_for_each(|(_, check)| check(call))
    }

    /// Sends a notification, unless a check refuses it.
    pub(crate) fn notify(&self, toward: Side, call: Call, out: &mut Outbox<'_>) {
        match self.check(toward, &call) {
            Ok(()) => out.notify(toward, call),
            Err(_) => self.shared.report_refused(),
        }
    }

    /// The reason why a strict proxy refuses a message of a method that it handles.
    fn ambiguity(&self, call: &Call) -> Option<strict::Ambiguity> {
        let params = call.params.as_ref().filter(|_| self.shared.is_strict)?;
        strict::check(params).err()
    }

    /// In a new turn, an agent may use the ids of its tool calls again.
    fn on_prompt_sent(&self, toward: Side, call: &Call) {
        if self.tracks_tool_calls && toward == Side::Agent && call.is(acp::PROMPT) {
            let session = session_of_call(call);
            session.iter().for_each(|session| self.shared.known_calls.forget(session));
        }
    }

    /// Answers a request that reaches neither a handler nor the other side.
    fn refuse(&self, request: IncomingRequest, why: Error, out: &mut Outbox<'_>) {
        let prompt = request.call.is(acp::PROMPT).then(|| request.id().detached());
        out.answer(request, why.into_outcome());
        // It was admitted, so its session is busy until it is over.
        prompt.iter().for_each(|id| self.end_prompt(id, false));
    }

    /// Handles a request in a new task.
    fn handle(
        &mut self,
        from: Side,
        request: IncomingRequest,
        handlers: Arc<[Handler]>,
        out: &mut Outbox<'_>,
    ) {
        let is_prompt =
            self.shared.is_agent && !self.shared.has_raw_turns && request.call.is(acp::PROMPT);
        let session = if is_prompt { session_of_call(&request.call) } else { None };
        let cancellation = Rc::new(Cancellation::in_session(session));
        let id = request.id().detached();
        self.shared.cancellations.borrow_mut().insert(id.clone(), cancellation.clone());
        let shared = self.shared.clone();
        let call = request.call.clone();
        let context = Context::of_request(shared.clone(), &call, id.clone(), cancellation);
        let is_for_server =
            from == Side::Agent && call.is("mcp/message") && shared.servers.owns(&call);
        let request = self.keep_prompt(from, request, out);
        self.shared.spawn(Box::pin(async move {
            let result = if is_for_server {
                shared.servers.answer(context, call).await
            } else {
                let next = Next::<Call> {
                    context,
                    toward: from.opposite(),
                    handlers,
                    position: 0,
                    is_extra: false,
                    received: None,
                    answers: ReceivedAnswers::default(),
                    kind: PhantomData,
                };
                next.pass(call, false).await
            };
            shared.push(match request {
                Some(request) => Command::Answer(request, outcome(result)),
                None => Command::FinishTurn(id, result),
            });
        }));
    }

    /// Forgets what belongs to a session that the editor closes or deletes.
    fn on_session_end(&mut self, call: &Call, out: &mut Outbox<'_>) {
        if !call.is(acp::CLOSE_SESSION) && !call.is(acp::DELETE_SESSION) {
            return;
        }
        if let Some(session) = session_of_call(call) {
            self.shared.servers.forget(&session);
            self.shared.known_calls.forget(&session);
            self.turns.on_close(&session);
            for prompt in self.shared.activity.on_close(&session) {
                self.answer_cancelled(prompt, &session, out);
            }
        }
    }

    /// Merges a tool call and shows it to its handlers.
    fn on_tool_call(&mut self, call: &Call) {
        let merged = self.shared.known_calls.update(call, self.shared.is_v2());
        if let Some((session, merged)) = merged.filter(|_| !self.tool_calls.is_empty()) {
            let context = Context::of_notification(self.shared.clone(), call);
            let tool_call = ToolCall::new(session, merged);
            self.tool_calls.iter_mut().for_each(|handler| handler(&tool_call, &context));
        }
    }

    /// Runs the handlers of a notification.
    fn run_handlers(&mut self, from: Side, call: &mut Call) -> Delivery {
        let method = call.method.name();
        let handlers = self.notifications.get_mut(&*method).map(|slots| &mut slots[index(from)]);
        let handlers = handlers.filter(|it| !it.is_empty());
        if self.any_notifications.is_empty() && handlers.is_none() {
            return Delivery::Forward;
        }
        let (method, is_v2) = (method.into_owned(), self.shared.is_v2());
        let params = call.params.as_ref().filter(|_| self.shared.is_strict);
        if let Some(why) = params.and_then(|params| strict::check(params).err()) {
            return self.shared.report_unreadable(&method, why.kind);
        }
        let context = Context::of_notification(self.shared.clone(), call);
        for handler in &mut self.any_notifications {
            if handler(from, call, &context) == Delivery::Drop {
                return Delivery::Drop;
            }
        }
        let Some(handlers) = handlers else { return Delivery::Forward };
        let (has_v2, mut has_run) = (has_v2(handlers), false);
        for handler in handlers.iter_mut().filter(|it| runs(it.version, is_v2, has_v2)) {
            has_run = true;
            if (handler.handler)(from, call, &context) == Delivery::Drop {
                return Delivery::Drop;
            }
        }
        match has_run {
            true => Delivery::Forward,
            false => self.shared.report_unreadable(&method, OTHER_VERSION),
        }
    }
}

const OTHER_VERSION: &str = "its handlers are for another ACP version";

impl acp_proxy_core::Proxy for Dispatcher {
    fn rewrite(&mut self, from: Side, message: &mut Message, out: &mut Outbox<'_>) -> Rewritten {
        let mut rewriters = std::mem::take(&mut self.rewriters);
        let mut result = Rewritten::Pass;
        for rewriter in &mut rewriters {
            result = match rewriter(from, message, &mut Ahead { dispatcher: self, out }) {
                Ok(Delivery::Forward) => continue,
                Ok(Delivery::Drop) => Rewritten::Drop,
                Err(why) => Rewritten::Refuse(why.json().clone()),
            };
            break;
        }
        self.rewriters = rewriters;
        if let (Side::Agent, Message::Response { id, outcome, .. }) = (from, message)
            && self.initialize.as_ref() == Some(id)
        {
            self.declare_guard(outcome);
        }
        result
    }

    fn on_message(&mut self, from: Side, message: &Message) {
        if let Message::Response { id, outcome, .. } = message
            && from == Side::Agent
            && self.initialize.as_ref() == Some(id)
        {
            self.initialize = None;
            self.on_initialized(outcome);
        }
        self.observers.iter_mut().for_each(|observer| observer(from, message));
    }

    fn on_request(&mut self, from: Side, request: IncomingRequest, out: &mut Outbox<'_>) {
        let Some(request) = self.admit(from, request) else { return };
        let call = &request.call;
        let servers = &self.shared.servers;
        let is_for_servers = match from {
            Side::Editor => servers.joins(call, &self.shared.editor_capabilities.borrow()),
            Side::Agent => call.is("mcp/message") && servers.owns(call),
        };
        if from == Side::Editor {
            self.on_session_end(&request.call, out);
        }
        let call = &request.call;
        let answer = self.shared.own_sessions.answer(call).filter(|_| from == Side::Agent);
        if let Some(answer) = answer {
            return out.answer(request, answer);
        }
        let (handlers, is_handled) = self.handlers(from, call);
        let refusal = match self.ambiguity(call).filter(|_| is_handled) {
            Some(why) => Some((why.kind, why.text)),
            None if is_handled && handlers.is_empty() && self.shared.is_strict => {
                Some((OTHER_VERSION, OTHER_VERSION.to_owned()))
            }
            None => None,
        };
        if let Some((kind, text)) = refusal {
            let method = call.method.name().into_owned();
            self.shared.report_unreadable(&method, kind);
            return self.refuse(request, self.shared.refusal(&method, &text), out);
        }
        if !handlers.is_empty() || is_for_servers {
            return self.handle(from, request, handlers, out);
        }
        if self.shared.is_agent && from == Side::Editor {
            let (method, name) = (call.method.name(), &self.shared.name);
            let text = format!("method not found: {method}; agent '{name}' does not support it");
            let error = Error::new(acp_wire::code::METHOD_NOT_FOUND, text);
            return self.refuse(request, error, out);
        }
        if let Err(why) = self.check(from.opposite(), call) {
            return self.refuse(request, why, out);
        }
        self.on_prompt_sent(from.opposite(), call);
        if from == Side::Editor && call.is("initialize") {
            self.initialize = Some(request.id().detached());
        }
        out.forward(from.opposite(), request);
    }

    fn on_notification(&mut self, from: Side, mut call: Call, out: &mut Outbox<'_>) {
        let is_update = from == Side::Agent && call.is(acp::UPDATE);
        let state = if is_update && self.shared.is_v2() { turn::state(&call) } else { None };
        if let Some((session, is_idle, update)) = &state {
            self.turns.on_state(session, *is_idle, update);
            self.shared.activity.on_state(session, *is_idle);
            self.settle(session);
        }
        if is_update && self.shared.own_sessions.keep(&call) {
            return;
        }
        if is_update && self.tracks_tool_calls {
            self.on_tool_call(&call);
        }
        if self.run_handlers(from, &mut call) == Delivery::Drop {
            return;
        }
        if from == Side::Editor && call.is(acp::CANCEL_SESSION) {
            session_of_call(&call).iter().for_each(|it| self.cancel_held(it, out));
        }
        if self.shared.is_agent && from == Side::Editor {
            if call.is(acp::CANCEL_SESSION) {
                session_of_call(&call).iter().for_each(|id| self.shared.cancel_session(id));
            }
            return;
        }
        let call = match state {
            Some((session, true, _)) => self.turns.hold(&session, call),
            _ => Some(call),
        };
        if let Some(call) = call {
            if is_update {
                self.shared.updates.add(&call);
            }
            self.notify(from.opposite(), call, out);
        }
    }

    fn on_forwarded_answer(&mut self, id: &Id, outcome: &Outcome) {
        self.on_prompt_answered(id, outcome);
    }

    fn on_cancel(&mut self, id: &Id, out: &mut Outbox<'_>) {
        if self.cancel_held_prompt(id, out) {
            return;
        }
        if let Some(cancellation) = self.shared.cancellations.borrow().get(id) {
            cancellation.cancel();
        }
        for (key, sent) in &self.sent {
            if sent.parent.as_ref() == Some(id) {
                out.cancel(*key);
            }
        }
    }

    fn on_answer(&mut self, key: RequestKey, outcome: Outcome, out: &mut Outbox<'_>) {
        let Some(SentRequest { parent, on_answer }) = self.sent.remove(&key) else { return };
        let answer = match outcome {
            Outcome::Result(result) => Ok(result.detached()),
            Outcome::Error(error) => Err(Error::from_json(error.detached())),
        };
        match on_answer {
            OnAnswer::Reply(reply) => reply.send(answer),
            OnAnswer::Ignore => {}
            OnAnswer::AcceptPrompt { session, is_extra } => {
                if let (Some(parent), Ok(answer)) = (&parent, &answer) {
                    self.accept(parent, is_extra, answer, out);
                }
                self.turns.on_answer(&session, key, answer);
            }
        }
    }
}
