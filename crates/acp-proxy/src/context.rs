//! What a handler can do beside handling: speak to both sides, on its own account.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use acp_proxy_core::{Call, Id, IncomingRequest, Json, Outcome, Side};
use acp_wire::acp::SessionId;
use serde::Serialize;

use crate::calls::{Subject, ToolCalls};
use crate::error::{Error, Result};
use crate::handler::Verdict;
use crate::proxy::Logger;
use crate::session::{Session, Sessions};
use crate::signal::{Giver, signal};
use crate::tool::Offers;
use crate::typed::to_json;

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What handlers want to be done. The loop does it as soon as they wait or are done.
pub(crate) enum Command {
    /// Ask in the course of handling `of`, or on nobody's account.
    Ask {
        toward: Side,
        call: Call,
        of: Option<Id>,
        /// It is the proxy's own, and not what `of` asks for.
        own: bool,
        reply: Giver<Result<Json>>,
    },
    Notify {
        toward: Side,
        call: Call,
    },
    Answer(IncomingRequest, Outcome),
    /// The handler of a prompt is done, in ACP version 2: the prompt by its id, and how the turn ends.
    Finish(Id, Result<Json>),
}

/// What the loop and all handlers share.
#[derive(Default)]
pub(crate) struct Shared {
    pub commands: RefCell<VecDeque<Command>>,
    pub tasks: RefCell<Vec<Task>>,
    /// Requests that are being handled, and whether their askers still want the answer.
    pub handled: RefCell<BTreeMap<Id, Rc<Wanted>>>,
    pub sessions: Sessions,
    pub offers: Offers,
    /// Nobody is behind us: we are the agent.
    pub last: bool,
    pub name: String,
    /// What handlers cannot read does not pass.
    pub strict: bool,
    pub logger: Option<Logger>,
    /// How many lines were logged.
    pub logged: Cell<usize>,
    pub calls: ToolCalls,
    /// The ACP version that the agent has answered to `initialize`; 0 before that.
    pub version: Cell<i64>,
    /// Part of the ids of messages, so that those of another process are not used again.
    pub salt: u32,
    /// How many ids of messages were given.
    pub messages: Cell<u64>,
    /// The ids of the messages that handlers are saying, by session, in ACP version 2.
    pub saying: RefCell<BTreeMap<SessionId, String>>,
    pub waker: RefCell<Option<Waker>>,
}

/// Whether the answer to a request is still wanted.
#[derive(Default)]
pub(crate) struct Wanted {
    /// The session whose cancellation is that of the request, too: of a prompt, for an agent.
    session: Option<SessionId>,
    cancelled: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Wanted {
    pub fn in_session(session: Option<SessionId>) -> Wanted {
        Wanted { session, ..Wanted::default() }
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    pub fn cancel(&self) {
        self.cancelled.set(true);
        self.wakers.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// How many lines a proxy logs about messages that it could not read.
const MOST_LOGGED: usize = 100;

impl Shared {
    /// What becomes of a message that a handler cannot read. It is logged; `why` must not quote the message.
    pub fn unread(&self, method: &str, why: &str) -> Verdict {
        let (verdict, done) = match self.strict {
            true => (Verdict::Drop, "did not let it pass"),
            false => (Verdict::Pass, "passed it on unhandled"),
        };
        self.log_some(&format!("cannot read a {method} and {done}: {why}"));
        verdict
    }

    /// A notification was refused by a check. Not even its method is logged: what must not be sent may be
    /// in it.
    pub fn refused(&self) {
        self.log_some("did not let a notification pass that its check refuses");
    }

    /// Logs a line about a message, unless there were very many.
    fn log_some(&self, line: &str) {
        let logged = self.logged.get();
        self.logged.set(logged.saturating_add(1));
        if logged < MOST_LOGGED {
            self.log(line);
        }
    }

    /// A new id for a message, as ACP version 2 has them.
    pub fn message_id(&self) -> String {
        self.messages.set(self.messages.get() + 1);
        format!("{}-{:08x}-{}", self.name, self.salt, self.messages.get())
    }

    /// An update as ACP version 2 spells it.
    pub fn in_v2(&self, session: &str, update: &Json) -> Json {
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
        let turn = self.saying.borrow().get(session).cloned();
        let turn = turn.unwrap_or_else(|| self.message_id());
        let part = if kind.contains("thought") { "-thought" } else { "" };
        update.with_at(&["messageId"], Some(&Json::string(&format!("{turn}{part}"))))
    }

    pub fn log(&self, line: &str) {
        let line = format!("{}: {line}", self.name);
        match &self.logger {
            Some(log) => log(&line),
            // If standard error is closed, there is nowhere to report it.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// The answer to a request that a strict proxy does not let pass.
    pub fn refusal(&self, method: &str, why: &str) -> Error {
        let name = &self.name;
        Error::invalid_params(format!(
            "{name} refuses this {method}, because it passes on only what it can read: {why}"
        ))
    }

    /// What is known of the tool call that a permission request is about.
    pub fn subject(&self, params: &Json) -> Option<Subject> {
        self.calls.subject(params, self.is_v2())
    }

    /// Whether the editor and the agent have agreed on ACP version 2.
    pub fn is_v2(&self) -> bool {
        self.version.get() >= 2
    }

    pub fn push(&self, command: Command) {
        self.commands.borrow_mut().push_back(command);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    pub fn spawn(&self, task: Task) {
        self.tasks.borrow_mut().push(task);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The turn of a session is to end.
    pub fn cancel_session(&self, session: &str) {
        let handled = self.handled.borrow();
        let turns = handled.values().filter(|it| it.session.as_deref() == Some(session));
        turns.for_each(|turn| turn.cancel());
    }

    pub async fn ask(&self, toward: Side, call: Call, of: Option<Id>, own: bool) -> Result<Json> {
        if self.last && toward == Side::Agent {
            return Err(Error::method_not_found(&call.method.name()));
        }
        let (reply, answer) = signal();
        self.push(Command::Ask { toward, call, of, own, reply });
        answer.take().await.unwrap_or_else(|| Err(Error::internal("the proxy is ending")))
    }
}

/// Where a handler is: it can speak to both sides, start tasks, and see whether it was cancelled.
#[derive(Clone)]
pub struct Cx {
    pub(crate) shared: Rc<Shared>,
    /// The request that is being handled.
    pub(crate) of: Option<(Id, Rc<Wanted>)>,
}

impl Cx {
    pub fn editor(&self) -> Peer {
        Peer { cx: self.clone(), side: Side::Editor }
    }

    pub fn agent(&self) -> Peer {
        Peer { cx: self.clone(), side: Side::Agent }
    }

    /// Writes a line for the user of the proxy to the log: standard error, unless
    /// [`Proxy::log_to`](crate::Proxy::log_to) says otherwise.
    pub fn log(&self, line: &str) {
        self.shared.log(line);
    }

    /// Runs something beside the messages, for as long as the proxy runs.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawn(Box::pin(task));
    }

    /// Ready when the asker of the request at hand does not want its answer any more. (It has to be
    /// answered all the same. What was asked with `next.run` is cancelled by itself.) For an agent that
    /// handles a prompt, `session/cancel` says so, too.
    pub async fn cancelled(&self) {
        poll_fn(|cx| match &self.of {
            Some((_, wanted)) if wanted.cancelled.get() => Poll::Ready(()),
            Some((_, wanted)) => {
                let mut wakers = wanted.wakers.borrow_mut();
                if !wakers.iter().any(|it| it.will_wake(cx.waker())) {
                    wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
            None => Poll::Pending,
        })
        .await;
    }
}

impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cx").field("of", &self.of.as_ref().map(|(id, _)| id)).finish()
    }
}

/// The editor or the agent, as far as the proxy is concerned: whoever is next in that direction.
#[derive(Debug, Clone)]
pub struct Peer {
    pub(crate) cx: Cx,
    side: Side,
}

impl Peer {
    /// Asks something of the proxy's own.
    pub async fn ask(&self, method: &str, params: impl Serialize) -> Result<Json> {
        self.ask_raw(Call::new(method, to_json(&params)?)).await
    }

    pub async fn ask_raw(&self, call: Call) -> Result<Json> {
        self.cx.shared.ask(self.side, call, None, true).await
    }

    /// Tells something of the proxy's own. It leaves in the order in which it was said.
    pub fn notify(&self, method: &str, params: impl Serialize) -> Result<()> {
        self.notify_raw(Call::new(method, to_json(&params)?));
        Ok(())
    }

    pub fn notify_raw(&self, call: Call) {
        self.cx.shared.push(Command::Notify { toward: self.side, call });
    }

    /// Opens a session of the proxy's own with the agent: a subagent. The editor sees nothing of it.
    pub async fn new_session(&self, cwd: impl AsRef<str>) -> Result<Session> {
        Session::open(self.clone(), self.cx.shared.clone(), cwd.as_ref()).await
    }
}
