//! `Agent`: the builder that collects the handlers of an agent.

use std::io;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Message, Side};
use agent_client_protocol_schema::v1::PromptResponse;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::component::Component;
use crate::context::Context;
use crate::error::Result;
use crate::message_type::{Notification, Request};
use crate::options::Refusal;
use crate::prompt::Prompt;

/// An agent: the end of a chain. Requests without a handler are answered with "method not found".
///
/// `initialize` and `session/new` have a default answer: ACP version 1 without capabilities, and a new session id.
///
/// ```no_run
/// use acp_proxy::prelude::*;
///
/// fn main() -> std::io::Result<()> {
///     Agent::new("parrot")
///         .on_prompt(async |prompt, context| {
///             context.say(prompt.text())?;
///             Ok(PromptResponse::new(StopReason::EndTurn))
///         })
///         .run()
/// }
/// ```
///
/// A handler that takes its time should also wait for [`Context::cancelled`].
pub struct Agent {
    component: Component,
}

const INITIALIZE: &str = "initialize";
const NEW_SESSION: &str = "session/new";

impl Agent {
    /// An agent with the default answers only. The name appears in logs and in errors.
    pub fn new(name: impl Into<String>) -> Agent {
        let component = Component { name: name.into(), is_agent: true, ..Component::default() };
        Agent { component }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.component.name
    }

    /// Handles each prompt of the user, in ACP version 1 and 2. The turn ends when the handler returns.
    #[must_use]
    pub fn on_prompt<F>(mut self, handler: F) -> Agent
    where
        F: AsyncFn(Prompt, Context) -> Result<PromptResponse> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.component.add_prompt(async move |prompt, next| {
            let context = next.context().clone();
            handler(prompt, context).await
        });
        self
    }

    /// Handles each request of a type: a type of the [`schema`](crate::schema), or one of your own that implements
    /// [`Request`].
    #[must_use]
    pub fn on_request<T, F>(mut self, handler: F) -> Agent
    where
        T: Request,
        F: AsyncFn(T, Context) -> Result<T::Response> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.component.add_request(async move |request: T, next| {
            let context = next.context().clone();
            handler(request, context).await
        });
        self
    }

    /// Handles each request with this method, without a type. [`to_json`](crate::to_json) makes the answer.
    #[must_use]
    pub fn on_raw_request<F>(mut self, method: &str, handler: F) -> Agent
    where
        F: AsyncFn(Call, Context) -> Result<Json> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.component.add_raw_request(Some(Side::Editor), method, None, move |call, next| {
            let handler = handler.clone();
            async move { handler(call, next.context().clone()).await }
        });
        self
    }

    /// Handles each request that has no other handler.
    #[must_use]
    pub fn on_other_request<F>(mut self, handler: F) -> Agent
    where
        F: AsyncFn(Call, Context) -> Result<Json> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.component.any_requests.push(Arc::new(move |call, next| {
            let handler = handler.clone();
            Box::pin(async move { handler(call, next.context().clone()).await })
        }));
        self
    }

    /// Handles each notification of a type: a type of the [`schema`](crate::schema), or one of your own that
    /// implements [`Notification`].
    #[must_use]
    pub fn on_notification<T, F>(mut self, mut handler: F) -> Agent
    where
        T: Notification,
        F: FnMut(&T, &Context) + Send + 'static,
    {
        self.component.add_notification(move |it: &mut T, context: &Context| handler(it, context));
        self
    }

    /// Handles each notification of any method.
    #[must_use]
    pub fn on_any_notification<F>(mut self, mut handler: F) -> Agent
    where
        F: FnMut(&Call, &Context) + Send + 'static,
    {
        self.component.any_notifications.push(Box::new(move |_, call, context| {
            handler(call, context);
            ().into()
        }));
        self
    }

    /// Sees every message from the editor, answers included, in order and before all handlers.
    #[must_use]
    pub fn observe<F>(mut self, mut observer: F) -> Agent
    where
        F: FnMut(&Message) + Send + 'static,
    {
        self.component.observers.push(Box::new(move |_, message| observer(message)));
        self
    }

    /// Handles prompts like any other request, in ACP version 2 as well: the result of a handler is the answer that
    /// accepts the prompt, and the handler sends the updates that begin and end the turn. `session/cancel` is a
    /// notification like any other: [`Context::cancelled`] waits only for `$/cancel_request`.
    #[must_use]
    pub fn raw_turns(mut self) -> Agent {
        self.component.has_raw_turns = true;
        self
    }

    /// Sends log lines to this function instead of standard error.
    #[must_use]
    pub fn log_to(mut self, log: impl Fn(&str) + Send + 'static) -> Agent {
        self.component.logger = Some(Box::new(log));
        self
    }

    /// Takes options that can be read and changed while the agent runs: the request `_proxy/config`. Each change calls
    /// the function with all options. If it returns an error with a sentence for the user, nothing is changed.
    ///
    /// The options are the fields of a type. The agent answers with their values and their JSON Schema by itself, and
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
    /// let agent = Agent::new("parrot").options(initial, move |new: Options, _| {
    ///     *changed.lock().unwrap() = new;
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Panics
    /// If the type is not a struct with named fields.
    #[must_use]
    #[track_caller]
    pub fn options<T, F>(mut self, initial: T, on_change: F) -> Agent
    where
        T: Serialize + DeserializeOwned + JsonSchema + 'static,
        F: FnMut(T, &Context) -> Result<(), Refusal> + Send + 'static,
    {
        self.component.add_options(&initial, on_change);
        self
    }

    /// Runs a background task when the agent starts.
    #[must_use]
    pub fn on_start<F>(mut self, start: F) -> Agent
    where
        F: AsyncFnOnce(Context) + Send + 'static,
    {
        self.component.starters.push(Box::new(move |context| {
            let shared = context.shared.clone();
            shared.spawn(Box::pin(async move { start(context).await }));
        }));
        self
    }

    /// Runs the agent on standard input and output until the editor closes them. Blocks the thread.
    ///
    /// # Errors
    /// If standard input or output fails.
    #[cfg(feature = "stdio")]
    pub fn run(self) -> io::Result<()> {
        Component::from(self).run()
    }

    /// Runs the agent on standard input and output until the editor closes them. Needs a tokio runtime with I/O
    /// enabled, which `#[tokio::main]` starts.
    ///
    /// # Errors
    /// If standard input or output fails.
    #[cfg(feature = "stdio")]
    pub async fn serve(self) -> io::Result<()> {
        Component::from(self).serve().await
    }

    /// Runs the agent on any pair of streams until the reader ends.
    ///
    /// # Errors
    /// If a stream fails.
    pub async fn serve_on(
        self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        Component::from(self).serve_on(reader, writer).await
    }

    /// Adds the default answers.
    pub(crate) fn into_component(self) -> Component {
        let has =
            |method: &str| self.component.requests.contains_key(&(Side::Editor, method.to_owned()));
        let (has_initialize, has_new_session) = (has(INITIALIZE), has(NEW_SESSION));
        let mut agent = self;
        if !has_initialize {
            agent = agent.on_raw_request(INITIALIZE, async |_, _| {
                Ok(Json::trusted(r#"{"protocolVersion":1,"agentCapabilities":{}}"#))
            });
        }
        if !has_new_session {
            agent = agent.on_raw_request(NEW_SESSION, async |_, context| {
                let id = Json::string(&context.shared.new_id());
                Ok(Json::object([("sessionId", Some(id))]))
            });
        }
        agent.component
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.component.name).finish_non_exhaustive()
    }
}
