//! The proxy that people write first: handlers, one after the other.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Message, Side};
use agent_client_protocol_schema::v1::{PromptResponse, SessionNotification};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::context::Cx;
use crate::error::Result;
use crate::handler::{Handler, LinkProtocol, Next, Prompt, Verdict, place_of};
use crate::permission::Permission;
use crate::serve::serve;
use crate::tool::Server;
use crate::typed::Typed;

pub(crate) type Listener = Box<dyn FnMut(&mut Call, &Cx) -> Verdict + Send>;
pub(crate) type Observer = Box<dyn FnMut(Side, &Message) + Send>;
pub(crate) type Check = Box<dyn Fn(&Call) -> Result<()> + Send>;
pub(crate) type Starter = Box<dyn FnOnce(Cx) + Send>;
pub(crate) type Logger = Box<dyn Fn(&str) + Send>;

/// A proxy. What it does not handle passes it as if it were not there.
pub struct Proxy {
    pub(crate) name: String,
    pub(crate) requests: BTreeMap<(Side, String), Vec<Handler>>,
    pub(crate) notifications: BTreeMap<(Side, String), Vec<Listener>>,
    pub(crate) servers: Vec<Server>,
    pub(crate) observers: Vec<Observer>,
    pub(crate) checks: Vec<(Side, Check)>,
    pub(crate) starters: Vec<Starter>,
    pub(crate) strict: bool,
    pub(crate) logger: Option<Logger>,
    /// It is an agent: nobody is behind it.
    pub(crate) last: bool,
}

const PERMISSION: &str = "session/request_permission";

impl Proxy {
    pub fn new(name: impl Into<String>) -> Proxy {
        Proxy {
            name: name.into(),
            requests: BTreeMap::new(),
            notifications: BTreeMap::new(),
            servers: Vec::new(),
            observers: Vec::new(),
            checks: Vec::new(),
            starters: Vec::new(),
            strict: false,
            logger: None,
            last: false,
        }
    }

    /// An agent, written like a proxy: what it does not handle it does not know, and `next.run` leads
    /// nowhere. What it says goes to `next.cx().editor()`; see [`agent`](crate::agent).
    pub fn agent(name: impl Into<String>) -> Proxy {
        Proxy { last: true, ..Proxy::new(name) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// For a proxy that protects something: lets no message of a handled method pass that its handler could
    /// not read. Such a request is answered with an error, and such a notification is dropped and logged.
    ///
    /// Some legal JSON cannot be read into the types of the schema, or is read differently by different
    /// programs: half a surrogate pair, more than 128 levels of nesting, a member that occurs twice, a number
    /// such as `1e400`, a kind of content that the schema does not know. Without this it passes unhandled, with a line in the log.
    pub fn strict(mut self) -> Proxy {
        self.strict = true;
        self
    }

    /// Where lines for the log go, instead of standard error.
    pub fn log_to(mut self, log: impl Fn(&str) + Send + 'static) -> Proxy {
        self.logger = Some(Box::new(log));
        self
    }

    /// Handles each prompt of the user. The answer that the handler returns is the one that the
    /// editor gets.
    pub fn on_prompt<F>(self, handler: F) -> Proxy
    where
        F: AsyncFn(Prompt, Next<Prompt>) -> Result<Typed<PromptResponse>> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.handle(Side::Editor, "session/prompt", move |call, next| {
            let handler = handler.clone();
            async move {
                match Prompt::read(call.params.as_ref().unwrap_or(&Json::NULL)) {
                    Ok(prompt) => handler(prompt, next.kind()).await?.write(),
                    // Not a prompt as the schema knows it.
                    Err(why) => next.unread(call, why).await,
                }
            }
        })
    }

    /// Handles each request of the agent for permission, in ACP version 1 and 2. The handler gets everything
    /// that is known of the tool call, also from earlier updates. What it returns is the answer.
    pub fn on_permission<F>(self, handler: F) -> Proxy
    where
        F: AsyncFn(Permission, Next<Permission>) -> Result<Json> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.handle(Side::Agent, PERMISSION, move |call, next| {
            let handler = handler.clone();
            async move {
                let params = &call.params.clone().unwrap_or(Json::NULL);
                let subject = next.cx.shared.subject(params);
                match Permission::read(params, subject) {
                    Ok(permission) => handler(permission, next.kind()).await,
                    Err(why) => next.unread(call, why).await,
                }
            }
        })
    }

    /// Handles each request of a kind that the schema knows, such as
    /// [`NewSessionRequest`](crate::schema::NewSessionRequest) from the editor. A
    /// [`RequestPermissionRequest`](crate::schema::RequestPermissionRequest) has everything that is known of
    /// the tool call, also from earlier updates.
    pub fn on<T, F>(self, handler: F) -> Proxy
    where
        T: LinkProtocol,
        F: AsyncFn(Typed<T>, Next<Typed<T>>) -> Result<Typed<T::Answer>> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.handle(T::FROM, T::METHOD, move |call, next| {
            let handler = handler.clone();
            async move {
                let params = &call.params.clone().unwrap_or(Json::NULL);
                let more = match T::METHOD {
                    PERMISSION => next.cx.shared.subject(params),
                    _ => None,
                };
                let more = more.map(|it| params.with_at(it.path, Some(&it.call)));
                match Typed::read_with(params, more.as_ref().unwrap_or(params)) {
                    Ok(request) => handler(request, next.kind()).await?.write(),
                    Err(why) => next.unread(call, why).await,
                }
            }
        })
    }

    /// Handles each request with this method that comes from that side, whatever it says.
    pub fn on_request<F>(self, from: Side, method: &str, handler: F) -> Proxy
    where
        F: AsyncFn(Call, Next<Call>) -> Result<Json> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.handle(from, method, move |call, next| {
            let handler = handler.clone();
            async move { handler(call, next).await }
        })
    }

    /// Sees every `session/update` on its way to the editor, in order, and may change it or, with
    /// [`Verdict::Drop`], keep it. Must not wait: the next message waits for it.
    pub fn on_update<F, V>(self, mut handler: F) -> Proxy
    where
        F: FnMut(&mut Typed<SessionNotification>, &Cx) -> V + Send + 'static,
        V: Into<Verdict>,
    {
        self.on_notification(Side::Agent, "session/update", move |call, cx| {
            let params = &call.params.clone().unwrap_or(Json::NULL);
            let mut update = match Typed::<SessionNotification>::read(params) {
                Ok(update) => update,
                Err(why) => return cx.shared.unread("session/update", &place_of(&why)),
            };
            let verdict = handler(&mut update, cx).into();
            match update.write() {
                Ok(params) => call.params = Some(params),
                Err(why) => return cx.shared.unread("session/update", &place_of(&why)),
            }
            verdict
        })
    }

    /// The same for any notification from that side.
    pub fn on_notification<F, V>(mut self, from: Side, method: &str, mut handler: F) -> Proxy
    where
        F: FnMut(&mut Call, &Cx) -> V + Send + 'static,
        V: Into<Verdict>,
    {
        let handlers = self.notifications.entry((from, method.to_owned())).or_default();
        handlers.push(Box::new(move |call, cx| handler(call, cx).into()));
        self
    }

    /// Sees every message that comes from either side, answers, too, in order and before any handler.
    pub fn observe<F>(mut self, observer: F) -> Proxy
    where
        F: FnMut(Side, &Message) + Send + 'static,
    {
        self.observers.push(Box::new(observer));
        self
    }

    /// Checks every request and notification on its way to that side, of whatever method, after all handlers
    /// and also if it is the proxy's own. A request that the check refuses is answered with its error; a
    /// notification is dropped and logged. Answers are not checked.
    pub fn check<F>(mut self, toward: Side, check: F) -> Proxy
    where
        F: Fn(&Call) -> Result<()> + Send + 'static,
    {
        self.checks.push((toward, Box::new(check)));
        self
    }

    /// Runs something when the proxy starts, beside the messages.
    pub fn on_start<F>(mut self, start: F) -> Proxy
    where
        F: AsyncFnOnce(Cx) + Send + 'static,
    {
        self.starters.push(Box::new(move |cx| {
            let shared = cx.shared.clone();
            shared.spawn(Box::pin(async move { start(cx).await }));
        }));
        self
    }

    fn handle<F, A>(mut self, from: Side, method: &str, handler: F) -> Proxy
    where
        F: Fn(Call, Next<Call>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Json>> + 'static,
    {
        let handlers = self.requests.entry((from, method.to_owned())).or_default();
        handlers.push(Arc::new(move |call, next| Box::pin(handler(call, next))));
        self
    }

    /// Runs the proxy on standard input and output until the conductor closes them. Needs a tokio runtime
    /// with I/O enabled, which `#[tokio::main]` starts.
    #[cfg(feature = "stdio")]
    pub async fn serve_stdio(self) -> io::Result<()> {
        let (reader, writer) = crate::stdio::open();
        self.serve(reader, writer).await
    }

    /// Runs the proxy over any pair of streams.
    pub async fn serve(
        self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        serve(self, reader, writer).await
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("name", &self.name).finish_non_exhaustive()
    }
}
