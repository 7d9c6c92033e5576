//! `Proxy`: the builder that collects the handlers of a proxy.

use std::io;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Message, Side};
use agent_client_protocol_schema::v1::{PromptResponse, SessionNotification};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::activity::LateUpdates;
use crate::ahead::Ahead;
use crate::chain_event::ChainEvent;
use crate::component::Component;
use crate::context::Context;
use crate::error::Result;
use crate::mcp_request::{self, McpNext, McpRequest};
use crate::message_type::{Notification, Request};
use crate::next::{Delivery, Next};
use crate::options::Refusal;
use crate::permission::{Permission, PermissionAnswer};
use crate::prompt::Prompt;
use crate::tool_call::ToolCall;

/// A proxy between an editor and an agent. Messages without a handler pass unchanged.
///
/// Methods that begin with `on_` add a handler. Several handlers of the same message run in the order in which they
/// were added.
pub struct Proxy {
    pub(crate) component: Component,
}

impl Proxy {
    /// A proxy without handlers, which passes everything. The name appears in logs and in errors.
    pub fn new(name: impl Into<String>) -> Proxy {
        Proxy { component: Component { name: name.into(), ..Component::default() } }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.component.name
    }

    /// Handles each prompt of the user, in ACP version 1 and 2. The editor gets the answer that the handler returns.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    ///
    /// let proxy = Proxy::new("brief").on_prompt(async |mut prompt, next| {
    ///     if prompt.text().is_empty() {
    ///         return Ok(PromptResponse::new(StopReason::EndTurn)); // the agent does not see it
    ///     }
    ///     prompt.prepend_text("Answer in one sentence.");
    ///     next.run(prompt).await
    /// });
    /// ```
    #[must_use]
    pub fn on_prompt<F>(mut self, handler: F) -> Proxy
    where
        F: AsyncFn(Prompt, Next<Prompt>) -> Result<PromptResponse> + Send + Sync + 'static,
    {
        self.component.add_prompt(handler);
        self
    }

    /// Handles each permission request of the agent, in ACP version 1 and 2. See [`Permission`] for an example.
    #[must_use]
    pub fn on_permission<F>(mut self, handler: F) -> Proxy
    where
        F: AsyncFn(Permission, Next<Permission>) -> Result<PermissionAnswer>
            + Send
            + Sync
            + 'static,
    {
        self.component.add_permission(handler);
        self
    }

    /// Handles each MCP request of the agent that passes this proxy on its way to a server of another component.
    /// Requests for the tools of this proxy are not among them.
    ///
    /// The handler returns the MCP result, or an error for the agent's MCP client.
    ///
    /// MCP over ACP has several forms, and the agent chooses one. A [strict](Proxy::strict) proxy refuses a message with
    /// members of two forms, because the server may read it in the other form. It drops a notification that carries an MCP
    /// request.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    ///
    /// let proxy = Proxy::new("read-only").strict().on_mcp_request(async |request, next| {
    ///     match request.tool().as_deref() {
    ///         Some("delete") => Err(Error::new(-32000, "read-only: this tool is not allowed")),
    ///         _ => next.run(request).await,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn on_mcp_request<F>(mut self, handler: F) -> Proxy
    where
        F: AsyncFn(McpRequest, McpNext) -> Result<Json> + Send + Sync + 'static,
    {
        mcp_request::add(&mut self.component, handler);
        self
    }

    /// Handles each request of a type: a type of the [`schema`](crate::schema), or one of your own that implements
    /// [`Request`].
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    /// use acp_proxy::schema::NewSessionRequest;
    ///
    /// let proxy = Proxy::new("home").on_request(async |mut request: NewSessionRequest, next| {
    ///     request.cwd = "/home/me".into();
    ///     next.run(request).await
    /// });
    /// ```
    ///
    /// A [`RequestPermissionRequest`](crate::schema::RequestPermissionRequest) has everything that is known about the
    /// tool call, also from earlier updates.
    #[must_use]
    pub fn on_request<T, F>(mut self, handler: F) -> Proxy
    where
        T: Request,
        F: AsyncFn(T, Next<T>) -> Result<T::Response> + Send + Sync + 'static,
    {
        self.component.add_request(handler);
        self
    }

    /// Handles each request with this method from this side, without a type. [`to_json`](crate::to_json) makes the
    /// answer.
    #[must_use]
    pub fn on_raw_request<F>(mut self, sender: Side, method: &str, handler: F) -> Proxy
    where
        F: AsyncFn(Call, Next<Call>) -> Result<Json> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.component.add_raw_request(Some(sender), method, None, move |call, next| {
            let handler = handler.clone();
            async move { handler(call, next).await }
        });
        self
    }

    /// Handles each request of any method from both sides, before all other handlers. [`Next::sender`] is the side
    /// that it comes from. [`Request::from_call`] reads it as a type. MCP requests for the tools of this proxy are not
    /// among them.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    /// use acp_proxy::schema::NewSessionRequest;
    ///
    /// let proxy = Proxy::new("trace").on_any_request(async |call, next| {
    ///     if let Some(request) = NewSessionRequest::from_call(&call)? {
    ///         next.log(format!("new session in {}", request.cwd.display()));
    ///     }
    ///     next.log(format!("{:?} sends {}", next.sender(), call.method.name()));
    ///     next.run(call).await
    /// });
    /// ```
    #[must_use]
    pub fn on_any_request<F>(mut self, handler: F) -> Proxy
    where
        F: AsyncFn(Call, Next<Call>) -> Result<Json> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.component.any_requests.push(Arc::new(move |call, next| {
            let handler = handler.clone();
            Box::pin(async move { handler(call, next).await })
        }));
        self
    }

    /// Handles each `session/update` of the agent, in order. The handler may change the update, or drop it with
    /// [`Delivery::Drop`]. It cannot wait: the next message is read after it returns.
    ///
    /// The type is that of ACP version 1. An update of version 2 that does not fit it passes without the handler.
    #[must_use]
    pub fn on_update<F, D>(self, handler: F) -> Proxy
    where
        F: FnMut(&mut SessionNotification, &Context) -> D + Send + 'static,
        D: Into<Delivery>,
    {
        self.on_notification(handler)
    }

    /// Sees each tool call that the agent announces or updates, with everything that is known about the call.
    #[must_use]
    pub fn on_tool_call<F>(mut self, handler: F) -> Proxy
    where
        F: FnMut(&ToolCall, &Context) + Send + 'static,
    {
        self.component.tool_calls.push(Box::new(handler));
        self
    }

    /// Handles each notification of a type: a type of the [`schema`](crate::schema), or one of your own that
    /// implements [`Notification`]. The handler may change the notification, or drop it with [`Delivery::Drop`]. It
    /// cannot wait: the next message is read after it returns.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    /// use acp_proxy::schema::CancelNotification;
    ///
    /// let proxy = Proxy::new("stubborn").on_notification(|cancel: &mut CancelNotification, context| {
    ///     context.log(format!("did not cancel {}", cancel.session_id));
    ///     Delivery::Drop
    /// });
    /// ```
    #[must_use]
    pub fn on_notification<T, F, D>(mut self, handler: F) -> Proxy
    where
        T: Notification,
        F: FnMut(&mut T, &Context) -> D + Send + 'static,
        D: Into<Delivery>,
    {
        self.component.add_notification(handler);
        self
    }

    /// Handles each notification with this method from this side, without a type.
    #[must_use]
    pub fn on_raw_notification<F, D>(mut self, sender: Side, method: &str, handler: F) -> Proxy
    where
        F: FnMut(&mut Call, &Context) -> D + Send + 'static,
        D: Into<Delivery>,
    {
        self.component.add_raw_notification(sender, method, None, handler);
        self
    }

    /// Handles each notification of any method from both sides, before all other handlers.
    /// [`Notification::from_call`] reads it as a type, and [`Notification::update_call`] writes it back.
    #[must_use]
    pub fn on_any_notification<F, D>(mut self, mut handler: F) -> Proxy
    where
        F: FnMut(Side, &mut Call, &Context) -> D + Send + 'static,
        D: Into<Delivery>,
    {
        let handler =
            move |sender, call: &mut Call, context: &Context| handler(sender, call, context).into();
        self.component.any_notifications.push(Box::new(handler));
        self
    }

    /// Rewrites every message from both sides, answers included, in order and before anything else sees it. For a proxy
    /// that changes answers, or that must send something before a message. The function cannot wait.
    ///
    /// [`Delivery::Drop`] drops a notification. Requests and answers are not dropped. An error refuses the message: a
    /// request is answered with it, an answer becomes it, and a notification is dropped.
    ///
    /// The answer to a request without a handler has the id of that request. What a handler sends, also with `next.run`,
    /// is a new request of this proxy: its answer has another id than the request that is handled. The requests of this
    /// proxy, and the answers of its handlers, are not rewritten.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    /// use acp_proxy::{Message, Outcome};
    ///
    /// let proxy = Proxy::new("short").rewrite(|from, message, _| {
    ///     if let Message::Response { outcome: Outcome::Result(result), .. } = message
    ///         && from == Side::Editor
    ///         && result.as_bytes().len() > 1_000_000
    ///     {
    ///         return Err(Error::internal("the answer is too long"));
    ///     }
    ///     Ok(Delivery::Forward)
    /// });
    /// ```
    #[must_use]
    pub fn rewrite<F>(mut self, rewriter: F) -> Proxy
    where
        F: FnMut(Side, &mut Message, &mut Ahead<'_, '_>) -> Result<Delivery> + Send + 'static,
    {
        self.component.rewriters.push(Box::new(rewriter));
        self
    }

    /// Sees every message from both sides, answers included, in order and before all handlers. The ids of answers are
    /// those of [`rewrite`](Proxy::rewrite).
    #[must_use]
    pub fn observe<F>(mut self, observer: F) -> Proxy
    where
        F: FnMut(Side, &Message) + Send + 'static,
    {
        self.component.observers.push(Box::new(observer));
        self
    }

    /// Checks every request and notification that is sent to this side, of any method, after all handlers and
    /// including those that the proxy itself sends. A request that the check refuses is answered with the error. A
    /// notification is dropped and logged. Answers are not checked.
    #[must_use]
    pub fn check<F>(mut self, toward: Side, check: F) -> Proxy
    where
        F: Fn(&Call) -> Result<()> + Send + 'static,
    {
        self.component.checks.push((toward, Box::new(check)));
        self
    }

    /// For a proxy that protects something: messages of a handled method that the handler cannot read do not pass.
    /// Such a request is answered with an error. Such a notification is dropped and logged.
    ///
    /// Some legal JSON does not fit the types of the schema, or is read differently by different programs: half a
    /// surrogate pair, more than 128 levels of nesting, a member that occurs twice, a number such as `1e400`, a kind
    /// of content that the schema does not know. Without `strict` such a message passes without its handler, and a
    /// line is logged.
    #[must_use]
    pub fn strict(mut self) -> Proxy {
        self.component.is_strict = true;
        self
    }

    /// Describes the state of the proxy in a few lines of text. `conductor status` shows them, if the proxy runs inside
    /// the conductor. The function is called from another thread.
    #[must_use]
    pub fn status(mut self, lines: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Proxy {
        self.component.status = Some(Arc::new(lines));
        self
    }

    /// Observes the whole chain, if the proxy runs inside the conductor: restarts, and log messages and metrics from any
    /// place in the chain. The messages of all components are among the events only if the proxy is a built-in
    /// component that asks for them.
    ///
    /// The function is called in the main loop of the conductor, so it must not block. In a separate process it is never
    /// called.
    #[must_use]
    pub fn observe_chain(
        mut self,
        observer: impl Fn(&ChainEvent<'_>) + Send + Sync + 'static,
    ) -> Proxy {
        self.component.chain_observer = Some(Arc::new(observer));
        self
    }

    /// Sets what happens to the texts of [`Context::announce`] outside of a turn. The default is [`LateUpdates::Auto`].
    #[must_use]
    pub fn late_updates(mut self, late_updates: LateUpdates) -> Proxy {
        self.component.late_updates = late_updates;
        self
    }

    /// Handles prompts like any other request, in ACP version 2 as well: `next.run` returns the answer that accepts the
    /// prompt, and the result of a handler is that answer. The end of the turn is an update. For proxies that record
    /// or replay messages.
    #[must_use]
    pub fn raw_turns(mut self) -> Proxy {
        self.component.has_raw_turns = true;
        self
    }

    /// Sends log lines to this function instead of standard error.
    #[must_use]
    pub fn log_to(mut self, log: impl Fn(&str) + Send + 'static) -> Proxy {
        self.component.logger = Some(Box::new(log));
        self
    }

    /// Takes options that can be read and changed while the proxy runs: the request `_proxy/config`. Each change calls
    /// the function with all options. If it returns an error with a sentence for the user, nothing is changed.
    ///
    /// The options are the fields of a type. The proxy answers with their values and their JSON Schema by itself, and
    /// refuses unknown options and values of a wrong type. `null` sets an option to its initial value. The values of
    /// options with names such as `api_key` are never sent.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    /// use std::sync::{Arc, Mutex};
    ///
    /// #[derive(Clone, Serialize, Deserialize, JsonSchema)]
    /// #[serde(crate = "acp_proxy::serde")]
    /// struct Options {
    ///     /// What is added before each prompt.
    ///     prefix: String,
    /// }
    ///
    /// let initial = Options { prefix: "Briefly:".into() };
    /// let options = Arc::new(Mutex::new(initial.clone()));
    /// let changed = options.clone();
    /// let proxy = Proxy::new("prefix")
    ///     .options(initial, move |new: Options, _| {
    ///         if new.prefix.len() > 1000 {
    ///             return Err("the prefix is too long".into());
    ///         }
    ///         *changed.lock().unwrap() = new;
    ///         Ok(())
    ///     })
    ///     .on_prompt(async move |mut prompt, next| {
    ///         prompt.prepend_text(options.lock().unwrap().prefix.clone());
    ///         next.run(prompt).await
    ///     });
    /// ```
    ///
    /// # Panics
    /// If the type is not a struct with named fields.
    #[must_use]
    #[track_caller]
    pub fn options<T, F>(mut self, initial: T, on_change: F) -> Proxy
    where
        T: Serialize + DeserializeOwned + JsonSchema + 'static,
        F: FnMut(T, &Context) -> Result<(), Refusal> + Send + 'static,
    {
        self.component.add_options(&initial, on_change);
        self
    }

    /// Runs a background task when the proxy starts.
    #[must_use]
    pub fn on_start<F>(mut self, start: F) -> Proxy
    where
        F: AsyncFnOnce(Context) + Send + 'static,
    {
        self.component.starters.push(Box::new(move |context| {
            let shared = context.shared.clone();
            shared.spawn(Box::pin(async move { start(context).await }));
        }));
        self
    }

    /// Runs a task when the input has ended, before the proxy ends. Handlers and background tasks have stopped. Nothing is
    /// sent any more, and a request fails at once. Be brief: the conductor stops a component that does not end soon.
    #[must_use]
    pub fn on_end<F>(mut self, end: F) -> Proxy
    where
        F: AsyncFnOnce(Context) + Send + 'static,
    {
        let end =
            move |context| -> crate::shared::Task { Box::pin(async move { end(context).await }) };
        self.component.enders.push(Box::new(end));
        self
    }

    /// Runs the proxy on standard input and output until the conductor closes them. Blocks the thread. This is the
    /// last line of most `main` functions.
    ///
    /// # Errors
    /// If standard input or output fails.
    #[cfg(feature = "stdio")]
    pub fn run(self) -> io::Result<()> {
        self.component.run()
    }

    /// Runs the proxy on standard input and output until the conductor closes them. Needs a tokio runtime with I/O
    /// enabled, which `#[tokio::main]` starts.
    ///
    /// # Errors
    /// If standard input or output fails.
    #[cfg(feature = "stdio")]
    pub async fn serve(self) -> io::Result<()> {
        self.component.serve().await
    }

    /// Runs the proxy on any pair of streams until the reader ends.
    ///
    /// # Errors
    /// If a stream fails.
    pub async fn serve_on(
        self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        self.component.serve_on(reader, writer).await
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("name", &self.component.name).finish_non_exhaustive()
    }
}
