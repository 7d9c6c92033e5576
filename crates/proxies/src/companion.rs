//! The component `companion`: panels, comments and operations for an editor that lacks them, on a page beside it.
//!
//! # Layout
//! - here: the component
//! - `pages`: the page of each project folder, and its server

mod pages;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_proxy::scp::{
    Capabilities, ClearComment, ClearPanel, GetPanel, IdeOperation, ShowComment, ShowPanel,
};
use acp_proxy::{Call, Context, Delivery, Error, Json, Next, Proxy, Request, Side};
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use web::surface::Surface;

use crate::browser;
use component_base::BuiltIn;
use component_base::sessions::{Sessions, text};
use pages::{Page, Pages};

/// Shows panels, comments and proposed edits on a page, for an editor that cannot show them.
///
/// Components such as `walkthrough` show HTML panels and comments on lines, if the editor supports that (docs/scp.md).
/// This component supports it for every editor: on a page that is served on this machine. When the first panel or
/// comment of a session is shown, the chat says where the page is. What the editor supports itself, it does itself.
///
/// Operations of an editor that need only the files are done on the files: open a file, find a definition or
/// references (as text), propose an edit.
#[derive(Debug, Clone, Default, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Companion {
    /// Open the page in a browser when the first panel or comment of a session is shown.
    #[arg(long)]
    open: bool,

    /// The port of the page. 0 is any free port. With another number, only one project has a page.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// They survive a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    pages: Pages,

    #[arg(skip)]
    #[serde(skip)]
    known: Known,
}

/// What the component knows about sessions.
#[derive(Debug, Clone, Default)]
struct Known {
    sessions: Sessions<Told>,
    /// The session that was set up or used last, for messages that name none.
    latest: Arc<Mutex<Option<String>>>,
    /// The addresses of pages that were used when no session was known. The next prompt gets them.
    untold: Arc<Mutex<BTreeSet<String>>>,
}

/// What is known about a session.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The addresses that the chat has named.
    told: BTreeSet<String>,
}

impl Known {
    fn latest(&self) -> Option<String> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_latest(&self, session: String) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }

    fn untold(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the session that was used last.
    fn watch(&self, proxy: Proxy) -> Proxy {
        let set_up = ["session/new", "session/load", "session/resume", "session/fork"];
        set_up.into_iter().fold(proxy, |proxy, method| {
            let known = self.clone();
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let asked = text(call.params.as_ref(), "sessionId");
                let result = next.run(call).await?;
                let asked = asked.filter(|_| method != "session/fork");
                if let Some(session) = text(Some(&result), "sessionId").or(asked) {
                    known.set_latest(session);
                }
                Ok(result)
            })
        })
    }
}

/// A handler of the component.
#[derive(Clone)]
struct Handler {
    options: Companion,
}

impl Handler {
    async fn page(&self, session: Option<&str>) -> Result<Page, Error> {
        let folder = session.map(|it| self.options.known.sessions.cwd(it)).unwrap_or_default();
        let folder = match folder.as_os_str().is_empty() {
            true => std::env::current_dir().unwrap_or_default(),
            false => folder,
        };
        let page = self.options.pages.open(&folder, self.options.port).await;
        page.map_err(|why| Error::internal(format!("companion cannot serve a page: {why}")))
    }

    /// The page for a message. A panel stays on the page that shows it, also if a later message belongs to a session in
    /// another folder. A comment is on the page of its file. `None` for a message about something that no page shows.
    async fn page_for(
        &self,
        method: &str,
        subject: Option<(&'static str, &str)>,
        session: Option<&str>,
    ) -> Result<Option<Page>, Error> {
        let Some((topic, id)) = subject else { return self.page(session).await.map(Some) };
        let shown = self.options.pages.find(topic, id).await;
        match method {
            ShowPanel::METHOD if shown.is_some() => Ok(shown),
            ShowPanel::METHOD | ShowComment::METHOD => self.page(session).await.map(Some),
            _ => Ok(shown),
        }
    }

    /// Does what a component asks for on the page.
    async fn perform(&self, call: &Call, context: &Context) -> Result<Json, Error> {
        let method = call.method.name().into_owned();
        let params = call.params.as_ref().map(client::payload::read).unwrap_or_default();
        let session = context.session().or_else(|| self.options.known.latest());
        let session = session.as_deref();
        let id = params["id"].as_str().unwrap_or_default().to_owned();
        let subject = Surface::topic(&method).map(|topic| (topic, id.as_str()));
        if subject.is_some() && !params["id"].is_string() {
            return Err(Error::invalid_params("the member `id` is missing or is not a text"));
        }
        let Some(page) = self.page_for(&method, subject, session).await? else {
            return Ok(if method == GetPanel::METHOD { Json::NULL } else { Json::EMPTY_OBJECT });
        };
        if method == IdeOperation::ApplyEdit.method() {
            // It waits for the person, who has to know that.
            self.tell(&page, session, context);
        }
        let outcome = tokio::select! {
            outcome = page.surface.handle(&method, params) => outcome,
            () = context.cancelled() => Err(client::rpc_error::cancelled()),
        };
        let shows = [ShowPanel::METHOD, ShowComment::METHOD, IdeOperation::OpenFile.method()];
        if outcome.is_ok() && shows.contains(&method.as_str()) {
            self.tell(&page, session, context);
        }
        if outcome.is_ok() && method == ShowComment::METHOD {
            self.options.pages.clear_others(&page, &id).await;
        }
        match outcome {
            Ok(result) => to_json(&result),
            // The component knows its id without the mark of the conductor.
            Err(error) => {
                let text = error.to_string().replace(&escaped(&id), &escaped(unmarked(&id)));
                Err(Error::from_json(Json::parse(text).map_err(internal)?))
            }
        }
    }

    /// Says once in each session where the page is.
    fn tell(&self, page: &Page, session: Option<&str>, context: &Context) {
        match session {
            Some(session) => self.tell_address(&page.url, session, context),
            None => drop(self.options.known.untold().insert(page.url.clone())),
        }
    }

    fn tell_address(&self, url: &str, session: &str, context: &Context) {
        let sessions = &self.options.known.sessions;
        if !sessions.with(session, |it| it.state.told.insert(url.to_owned())) {
            return;
        }
        let text = format!("\n\nPanels and comments of this session are on this page: {url}\n\n");
        match context.is_idle(session) {
            true => context.announce(session, text),
            false => drop(context.editor().say(session, text)),
        }
        if self.options.open
            && let Err(why) = browser::open(url)
        {
            context.log(format!("cannot open a browser: {why}"));
        }
    }
}

/// An id without the marks that conductors have added: `plan` for `conductor.8f3a.2.plan`.
fn unmarked(id: &str) -> &str {
    let is_number = |text: &str, digits: fn(&u8) -> bool| {
        !text.is_empty() && text.bytes().all(|it| digits(&it))
    };
    let mut parts = id.splitn(4, '.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("conductor"), Some(chain), Some(owner), Some(rest))
            if is_number(chain, u8::is_ascii_hexdigit) && is_number(owner, u8::is_ascii_digit) =>
        {
            unmarked(rest)
        }
        _ => id,
    }
}

/// A text as it is written between the quotation marks of JSON.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

fn to_json(value: &Value) -> Result<Json, Error> {
    Json::parse(value.to_string()).map_err(internal)
}

/// Whether the editor itself does what a method asks for.
fn is_native(editor: &Capabilities, method: &str) -> bool {
    match method {
        // Panels of SCP 1.0 report nothing, and its comments have no text. Those on the page do.
        ShowPanel::METHOD | ClearPanel::METHOD | GetPanel::METHOD => {
            editor.html_panel && editor.has_additions()
        }
        ShowComment::METHOD | ClearComment::METHOD => editor.file_comment && editor.has_additions(),
        _ => IdeOperation::ALL.into_iter().any(|it| it.method() == method && editor.performs(it)),
    }
}

impl BuiltIn for Companion {
    const NAME: &'static str = "companion";

    fn build(&self) -> acp_proxy::Component {
        let handler = Handler { options: self.clone() };
        let mut proxy = Proxy::new(Self::NAME).on_raw_request(
            Side::Editor,
            "initialize",
            async |mut call: Call, next: Next<Call>| {
                let params = call.params.take().unwrap_or(Json::EMPTY_OBJECT);
                call.params = Some(Surface::capabilities().add_to(&params));
                next.run(call).await
            },
        );
        let panels = [ShowPanel::METHOD, ClearPanel::METHOD, GetPanel::METHOD];
        let comments = [ShowComment::METHOD, ClearComment::METHOD];
        let operations = IdeOperation::ALL.map(IdeOperation::method);
        for method in panels.into_iter().chain(comments).chain(operations) {
            let requests = handler.clone();
            proxy = proxy.on_raw_request(
                Side::Agent,
                method,
                async move |call: Call, next: Next<Call>| match is_native(
                    &next.editor_capabilities(),
                    method,
                ) || !does(method)
                {
                    true => next.run(call).await,
                    false => requests.perform(&call, next.context()).await,
                },
            );
            let notifications = handler.clone();
            proxy = proxy.on_raw_notification(
                Side::Agent,
                method,
                move |call: &mut Call, context: &Context| {
                    if is_native(&context.editor_capabilities(), method) || !does(method) {
                        return Delivery::Forward;
                    }
                    let (handler, call, own) =
                        (notifications.clone(), call.clone(), context.clone());
                    context.spawn(async move {
                        if let Err(error) = handler.perform(&call, &own).await {
                            own.log(format!("{method} failed: {}", error.message()));
                        }
                    });
                    Delivery::Drop
                },
            );
        }
        let prompted = handler;
        proxy = proxy.on_prompt(async move |prompt, next| {
            let known = &prompted.options.known;
            let session = prompt.session().to_owned();
            known.set_latest(session.clone());
            let untold = std::mem::take(&mut *known.untold());
            untold.iter().for_each(|url| prompted.tell_address(url, &session, next.context()));
            next.run(prompt).await
        });
        proxy = self.known.watch(proxy);
        let (pages, status) = (self.pages.clone(), self.pages.clone());
        self.known
            .sessions
            .watch(proxy)
            .on_start(async move |context| {
                // What a person does on the page goes to the component that owns the panel or the comment.
                while let Some(event) = pages.next_event().await {
                    if let Err(error) = context.agent().notify_raw(event.method, &event.params) {
                        context.log(format!("{} failed: {}", event.method, error.message()));
                    }
                }
            })
            .status(move || status.status())
            .into()
    }
}

/// Whether a page can do what a method asks for.
fn does(method: &str) -> bool {
    method != IdeOperation::Diagnostics.method()
}
