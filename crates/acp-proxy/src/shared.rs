//! The state that the event loop and all handlers share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use acp_proxy_core::{Call, Id, IncomingRequest, Json, Outcome, Side};
use acp_wire::acp::SessionId;

use crate::activity::Activity;
use crate::component::Logger;
use crate::error::{Error, Result};
use crate::known_calls::{KnownCalls, PermissionSubject};
use crate::next::Delivery;
use crate::oneshot::{Receiver, Sender, oneshot};
use crate::scp::Capabilities;
use crate::session::{OwnSessions, UpdateCollectors};
use crate::tool_server::ToolServers;

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What handlers want the event loop to do. The loop does it as soon as the handlers wait or return.
pub(crate) enum Command {
    Request {
        toward: Side,
        call: Call,
        /// The request whose handler sends this one. A cancellation of the parent cancels this one.
        parent: Option<Id>,
        /// Whether this is an additional request, and not the one that the parent asks for.
        is_extra: bool,
        reply: Sender<Result<Json>>,
    },
    Notify {
        toward: Side,
        call: Call,
    },
    Answer(IncomingRequest, Outcome),
    /// A handler does not wait any more for the answer to a request that it has sent.
    CancelUnawaited,
    /// The handler of this prompt has returned, in ACP version 2.
    FinishTurn(Id, Result<Json>),
    /// A turn that the component has started is over.
    EndOwnTurn(String),
    /// Shows a text when the session is idle.
    Announce(String, String),
    /// Performs what waits until the session is idle, if it is.
    Settle(String),
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) commands: RefCell<VecDeque<Command>>,
    /// New tasks, until the event loop takes them.
    pub(crate) tasks: RefCell<Vec<Task>>,
    /// The requests that are being handled.
    pub(crate) cancellations: RefCell<BTreeMap<Id, Rc<Cancellation>>>,
    pub(crate) own_sessions: OwnSessions,
    pub(crate) updates: UpdateCollectors,
    pub(crate) activity: Activity,
    /// What the editor has declared in `initialize`.
    pub(crate) editor_capabilities: RefCell<Capabilities>,
    pub(crate) servers: ToolServers,
    pub(crate) is_agent: bool,
    pub(crate) name: String,
    pub(crate) is_strict: bool,
    /// Whether prompts are handled like any other request. See [`Proxy::raw_turns`](crate::Proxy::raw_turns).
    pub(crate) has_raw_turns: bool,
    pub(crate) logger: Option<Logger>,
    /// How many log lines were written about messages.
    pub(crate) logged: Cell<usize>,
    pub(crate) known_calls: KnownCalls,
    /// The ACP version that the agent has answered to `initialize`. 0 before that.
    pub(crate) version: Cell<i64>,
    /// A random part of the ids that are given out, so that another process does not give out the same.
    pub(crate) salt: u32,
    pub(crate) ids: Cell<u64>,
    /// The id of the message that handlers write, by session, in ACP version 2.
    pub(crate) message_ids: RefCell<BTreeMap<SessionId, String>>,
    pub(crate) waker: RefCell<Option<Waker>>,
    /// Whether the event loop has ended, so that no answer comes any more.
    pub(crate) has_ended: Cell<bool>,
}

/// Whether a request was cancelled.
#[derive(Default)]
pub(crate) struct Cancellation {
    /// The session whose cancellation cancels the request: that of a prompt, for an agent.
    session: Option<SessionId>,
    is_cancelled: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Cancellation {
    pub(crate) fn in_session(session: Option<SessionId>) -> Cancellation {
        Cancellation { session, ..Cancellation::default() }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.set(true);
        self.wakers.borrow_mut().drain(..).for_each(Waker::wake);
    }

    pub(crate) async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_cancelled() {
                return Poll::Ready(());
            }
            let mut wakers = self.wakers.borrow_mut();
            if !wakers.iter().any(|it| it.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// An answer that a handler waits for. Dropping it cancels the request.
struct AwaitedAnswer<'a> {
    answer: Receiver<Result<Json>>,
    /// `None` if the answer has come.
    shared: Option<&'a Shared>,
}

impl Drop for AwaitedAnswer<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared {
            shared.push(Command::CancelUnawaited);
        }
    }
}

/// How many log lines are written about messages that handlers cannot read.
const MAX_LOGGED: usize = 100;

impl Shared {
    /// Logs that a handler cannot read a message, and decides what happens to the message. `why` must not quote the
    /// message.
    pub(crate) fn report_unreadable(&self, method: &str, why: &str) -> Delivery {
        let (delivery, done) = match self.is_strict {
            true => (Delivery::Drop, "did not let it pass"),
            false => (Delivery::Forward, "passed it on unhandled"),
        };
        self.log_about_message(&format!("cannot read a {method} and {done}: {why}"));
        delivery
    }

    /// Logs that a check has refused a notification. Not even the method is logged, because it may contain what must
    /// not be sent.
    pub(crate) fn report_refused(&self) {
        self.log_about_message("dropped a notification that its check refuses");
    }

    fn log_about_message(&self, line: &str) {
        let logged = self.logged.get();
        self.logged.set(logged.saturating_add(1));
        if logged < MAX_LOGGED {
            self.log(line);
        }
    }

    /// A new id for a message or a session.
    pub(crate) fn new_id(&self) -> String {
        self.ids.set(self.ids.get() + 1);
        format!("{}-{:08x}-{}", self.name, self.salt, self.ids.get())
    }

    /// Converts an update from ACP version 1 to version 2.
    pub(crate) fn update_in_v2(&self, session: &str, update: &Json) -> Json {
        let kind = update.member("sessionUpdate");
        let kind = kind.as_ref().and_then(Json::text).unwrap_or_default();
        if &*kind == "tool_call" {
            let kind = Json::string("tool_call_update");
            return update.with_at(&["sessionUpdate"], Some(&kind));
        }
        if !kind.ends_with("_message_chunk") && !kind.ends_with("_thought_chunk")
            || update.member("messageId").is_some()
        {
            return update.clone();
        }
        let message = self.message_ids.borrow().get(session).cloned();
        let message = message.unwrap_or_else(|| self.new_id());
        let part = if kind.contains("thought") { "-thought" } else { "" };
        update.with_at(&["messageId"], Some(&Json::string(&format!("{message}{part}"))))
    }

    pub(crate) fn log(&self, line: &str) {
        let line = format!("{}: {line}", self.name);
        match &self.logger {
            Some(log) => log(&line),
            // If standard error is closed, there is nowhere to report it.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// The answer to a request that a strict proxy does not let pass.
    pub(crate) fn refusal(&self, method: &str, why: &str) -> Error {
        let name = &self.name;
        Error::invalid_params(format!(
            "{name} refuses this {method}, because it passes on only what it can read: {why}"
        ))
    }

    /// The tool call that a permission request is about.
    pub(crate) fn permission_subject(&self, params: &Json) -> Option<PermissionSubject> {
        self.known_calls.subject(params, self.is_v2())
    }

    /// Whether the answer to a prompt is not the end of its turn, and handlers wait for the end.
    pub(crate) fn reads_turns(&self) -> bool {
        self.is_v2() && !self.has_raw_turns
    }

    /// Whether the editor and the agent have agreed on ACP version 2.
    pub(crate) fn is_v2(&self) -> bool {
        self.version.get() >= 2
    }

    pub(crate) fn push(&self, command: Command) {
        self.commands.borrow_mut().push_back(command);
        self.wake();
    }

    pub(crate) fn spawn(&self, task: Task) {
        self.tasks.borrow_mut().push(task);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Cancels the prompts of a session.
    pub(crate) fn cancel_session(&self, session: &str) {
        let cancellations = self.cancellations.borrow();
        let prompts = cancellations.values().filter(|it| it.session.as_deref() == Some(session));
        prompts.for_each(|prompt| prompt.cancel());
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(
        &self,
        toward: Side,
        call: Call,
        parent: Option<Id>,
        is_extra: bool,
    ) -> Result<Json> {
        if self.is_agent && toward == Side::Agent {
            return Err(Error::method_not_found(&call.method.name()));
        }
        let ended = || Error::internal("the component is shutting down");
        if self.has_ended.get() {
            return Err(ended());
        }
        let (reply, answer) = oneshot();
        self.push(Command::Request { toward, call, parent, is_extra, reply });
        let mut awaited = AwaitedAnswer { answer, shared: Some(self) };
        let answer = awaited.answer.receive().await;
        awaited.shared = None;
        answer.unwrap_or_else(|| Err(ended()))
    }

    /// Forwards a request to the other side. A request that sets up a session gets the MCP servers of this proxy.
    pub(crate) async fn forward(
        &self,
        toward: Side,
        call: Call,
        parent: Option<Id>,
        is_extra: bool,
    ) -> Result<Json> {
        let editor = &self.editor_capabilities;
        if toward != Side::Agent || !self.servers.joins(&call, &editor.borrow()) {
            return self.request(toward, call, parent, is_extra).await;
        }
        let (call, ids) = self.servers.declare(call, &editor.borrow());
        let answer = self.request(toward, call.clone(), parent, is_extra).await;
        self.servers.on_session_set_up(&call, ids, &answer);
        answer
    }
}
