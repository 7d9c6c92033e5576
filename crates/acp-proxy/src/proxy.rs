//! `Proxy`: the builder that collects the handlers of a proxy.

use std::io;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Message, Side};
use agent_client_protocol_schema::v1::{PromptResponse, SessionNotification};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::component::Component;
use crate::context::Context;
use crate::error::Result;
use crate::message_type::{Notification, Request};
use crate::next::{Delivery, Next};
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

    /// Sees every message from both sides, answers included, in order and before all handlers.
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

    /// Sends log lines to this function instead of standard error.
    #[must_use]
    pub fn log_to(mut self, log: impl Fn(&str) + Send + 'static) -> Proxy {
        self.component.logger = Some(Box::new(log));
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
