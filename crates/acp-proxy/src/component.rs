//! What a proxy and an agent have in common: handlers, and the functions that run them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Message, Side};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::activity::LateUpdates;
use crate::agent::Agent;
use crate::ahead::Ahead;
use crate::chain_event::ChainObserver;
use crate::context::Context;
use crate::error::Result;
use crate::message_type::{Notification, Request, params};
use crate::next::{Delivery, Handler, Next, ReceivedAnswers, position_of};
use crate::permission::Permission;
use crate::prompt::Prompt;
use crate::proxy::Proxy;
use crate::shared::Task;
use crate::tool_call::ToolCall;
use crate::tool_server::Server;
use crate::typed::{read_or_empty, read_with};

pub(crate) type NotificationHandler = Box<dyn FnMut(Side, &mut Call, &Context) -> Delivery + Send>;
pub(crate) type ToolCallHandler = Box<dyn FnMut(&ToolCall, &Context) + Send>;
pub(crate) type Rewriter =
    Box<dyn FnMut(Side, &mut Message, &mut Ahead<'_, '_>) -> Result<Delivery> + Send>;
pub(crate) type Observer = Box<dyn FnMut(Side, &Message) + Send>;
pub(crate) type Check = Box<dyn Fn(&Call) -> Result<()> + Send>;
pub(crate) type Starter = Box<dyn FnOnce(Context) + Send>;
pub(crate) type Ender = Box<dyn FnOnce(Context) -> Task + Send>;
pub(crate) type Logger = Box<dyn Fn(&str) + Send>;

/// Describes the state of a component in lines of text. See [`Proxy::status`].
pub type StatusSource = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A [`Proxy`] or an [`Agent`], ready to run. Both convert into it.
#[derive(Default)]
pub struct Component {
    pub(crate) name: String,
    /// Whether this is an agent: there is no component behind it.
    pub(crate) is_agent: bool,
    pub(crate) requests: BTreeMap<(Side, String), Vec<Versioned<Handler>>>,
    pub(crate) any_requests: Vec<Handler>,
    pub(crate) notifications: BTreeMap<(Side, String), Vec<Versioned<NotificationHandler>>>,
    pub(crate) any_notifications: Vec<NotificationHandler>,
    pub(crate) tool_calls: Vec<ToolCallHandler>,
    pub(crate) servers: Vec<Server>,
    pub(crate) rewriters: Vec<Rewriter>,
    pub(crate) observers: Vec<Observer>,
    pub(crate) checks: Vec<(Side, Check)>,
    pub(crate) starters: Vec<Starter>,
    pub(crate) enders: Vec<Ender>,
    pub(crate) is_strict: bool,
    /// Whether the answer to `initialize` declares a guard.
    pub(crate) is_guard: bool,
    pub(crate) has_raw_turns: bool,
    pub(crate) late_updates: LateUpdates,
    pub(crate) logger: Option<Logger>,
    pub(crate) status: Option<StatusSource>,
    pub(crate) chain_observer: Option<ChainObserver>,
}

/// A handler, and the ACP version of its type. `None` for handlers of every version.
pub(crate) struct Versioned<H> {
    pub(crate) version: Option<u16>,
    pub(crate) handler: H,
}

impl Component {
    /// The name of the proxy or agent.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function that describes the state of the component, if it has one.
    pub fn status_source(&self) -> Option<StatusSource> {
        self.status.clone()
    }

    /// The function that observes the whole chain. See [`Proxy::observe_chain`].
    pub fn chain_observer(&self) -> Option<ChainObserver> {
        self.chain_observer.clone()
    }

    /// Declares in the answer to `initialize` that this is a guard. A conductor that runs it as a program then never
    /// bypasses it.
    #[must_use]
    pub fn declared_as_guard(mut self) -> Component {
        self.is_guard = true;
        self
    }

    /// Sends log lines to this function instead of standard error.
    #[must_use]
    pub fn log_to(mut self, log: impl Fn(&str) + Send + 'static) -> Component {
        self.logger = Some(Box::new(log));
        self
    }

    /// Runs on standard input and output until the conductor closes them. Blocks the thread.
    ///
    /// # Errors
    /// If standard input or output fails.
    #[cfg(feature = "stdio")]
    pub fn run(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let result = runtime.block_on(self.serve());
        // Background tasks must not delay the end.
        runtime.shutdown_background();
        result
    }

    /// Runs on standard input and output until the conductor closes them. Needs a tokio runtime with I/O enabled,
    /// which `#[tokio::main]` starts.
    ///
    /// # Errors
    /// If standard input or output fails.
    #[cfg(feature = "stdio")]
    pub async fn serve(self) -> io::Result<()> {
        if io::IsTerminal::is_terminal(&io::stdin()) {
            let name = &self.name;
            eprintln!(
                "{name} speaks ACP on standard input and output; run it in a chain, with `conductor try`"
            );
        }
        let (reader, writer) = crate::stdio::open();
        self.serve_on(reader, writer).await
    }

    /// Runs on any pair of streams until the reader ends.
    ///
    /// # Errors
    /// If a stream fails.
    pub async fn serve_on(
        self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        crate::serve::serve(self, reader, writer).await
    }

    /// Adds a handler for requests of one method from this side, or from both.
    pub(crate) fn add_raw_request<F, A>(
        &mut self,
        sender: Option<Side>,
        method: &str,
        version: Option<u16>,
        handler: F,
    ) where
        F: Fn(Call, Next<Call>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Json>> + 'static,
    {
        let handler: Handler = Arc::new(move |call, next| Box::pin(handler(call, next)));
        for side in sides(sender) {
            let handlers = self.requests.entry((side, method.to_owned())).or_default();
            handlers.push(Versioned { version, handler: handler.clone() });
        }
    }

    /// Adds a handler for requests of a type.
    pub(crate) fn add_request<T, F>(&mut self, handler: F)
    where
        T: Request,
        F: AsyncFn(T, Next<T>) -> Result<T::Response> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.add_raw_request(T::SENDER, T::METHOD, T::VERSION, move |call, next| {
            let handler = handler.clone();
            async move {
                let params = &params(&call);
                let subject = match T::METHOD {
                    PERMISSION => next.shared.permission_subject(params),
                    _ => None,
                };
                let read = match subject.map(|it| params.with_at(it.path, Some(&it.call))) {
                    Some(more) => read_with(params, &more),
                    None => read_or_empty(params),
                };
                match read {
                    Ok((request, origin)) => {
                        let answers: ReceivedAnswers = next.answers.clone();
                        let answer = handler(request, next.of_type(Some(origin))).await?;
                        answers.write(&answer)
                    }
                    Err(why) => next.pass_unreadable(call, why).await,
                }
            }
        });
    }

    /// Adds a handler for prompts.
    pub(crate) fn add_prompt<F>(&mut self, handler: F)
    where
        F: AsyncFn(
                Prompt,
                Next<Prompt>,
            ) -> Result<agent_client_protocol_schema::v1::PromptResponse>
            + Send
            + Sync
            + 'static,
    {
        let handler = Arc::new(handler);
        self.add_raw_request(Some(Side::Editor), PROMPT, None, move |call, next| {
            let handler = handler.clone();
            async move {
                match Prompt::read(&params(&call)) {
                    Ok(prompt) => {
                        let answers = next.answers.clone();
                        answers.write(&handler(prompt, next.of_type(None)).await?)
                    }
                    Err(why) => next.pass_unreadable(call, why).await,
                }
            }
        });
    }

    /// Adds a handler for permission requests.
    pub(crate) fn add_permission<F>(&mut self, handler: F)
    where
        F: AsyncFn(Permission, Next<Permission>) -> Result<crate::PermissionAnswer>
            + Send
            + Sync
            + 'static,
    {
        let handler = Arc::new(handler);
        self.add_raw_request(Some(Side::Agent), PERMISSION, None, move |call, next| {
            let handler = handler.clone();
            async move {
                let params = &params(&call);
                let subject = next.shared.permission_subject(params);
                let permission = match Permission::read(params, subject) {
                    Ok(permission) => permission,
                    Err(why) => return next.pass_unreadable(call, why).await,
                };
                // The handler may decide to ask the user after all.
                let ask_user = next.again();
                match handler(permission, next.of_type(None)).await?.into_json() {
                    Some(answer) => Ok(answer),
                    None => ask_user.pass(call, false).await,
                }
            }
        });
    }

    /// Adds a handler for notifications of one method from this side.
    pub(crate) fn add_raw_notification<D: Into<Delivery>>(
        &mut self,
        sender: Side,
        method: &str,
        version: Option<u16>,
        mut handler: impl FnMut(&mut Call, &Context) -> D + Send + 'static,
    ) {
        let handlers = self.notifications.entry((sender, method.to_owned())).or_default();
        let handler: NotificationHandler =
            Box::new(move |_, call, context| handler(call, context).into());
        handlers.push(Versioned { version, handler });
    }

    /// Adds a handler for notifications of a type.
    pub(crate) fn add_notification<T: Notification, D: Into<Delivery>>(
        &mut self,
        handler: impl FnMut(&mut T, &Context) -> D + Send + 'static,
    ) {
        // Notifications are handled one at a time, so the lock is never waited for.
        let handler = Arc::new(std::sync::Mutex::new(handler));
        for side in sides(T::SENDER) {
            let handler = handler.clone();
            let handle = move |call: &mut Call, context: &Context| {
                let mut handler = handler.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                handle_notification::<T, D>(&mut *handler, call, context)
            };
            self.add_raw_notification(side, T::METHOD, T::VERSION, handle);
        }
    }
}

/// Reads a notification, runs its handler, and writes what the handler has changed.
fn handle_notification<T: Notification, D: Into<Delivery>>(
    handler: &mut impl FnMut(&mut T, &Context) -> D,
    call: &mut Call,
    context: &Context,
) -> Delivery {
    let unreadable = |why| context.shared.report_unreadable(T::METHOD, &position_of(&why));
    let (mut notification, origin) = match read_or_empty::<T>(&params(call)) {
        Ok(read) => read,
        Err(why) => return unreadable(why),
    };
    let delivery = handler(&mut notification, context).into();
    match origin.write(&notification) {
        Ok(params) => call.params = if params.is_null() { None } else { Some(params) },
        Err(why) => return unreadable(why),
    }
    delivery
}

pub(crate) const PERMISSION: &str = "session/request_permission";
pub(crate) const PROMPT: &str = "session/prompt";

fn sides(sender: Option<Side>) -> Vec<Side> {
    match sender {
        Some(side) => vec![side],
        None => vec![Side::Editor, Side::Agent],
    }
}

impl From<Proxy> for Component {
    fn from(proxy: Proxy) -> Component {
        proxy.component
    }
}

impl From<Agent> for Component {
    fn from(agent: Agent) -> Component {
        agent.into_component()
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component").field("name", &self.name).finish_non_exhaustive()
    }
}
