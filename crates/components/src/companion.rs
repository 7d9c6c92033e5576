//! The component `companion`: panels, comments and operations for an editor that lacks them, on a page beside it.
//!
//! # Layout
//! - here: the component
//! - `pages`: the page of each project folder, and its server

mod pages;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
use crate::catalog::BuiltIn;
use crate::sessions::Sessions;
use pages::{Page, Pages};

/// How many panels and comments are remembered with their session.
const MAX_SHOWN: usize = 10_000;

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
    /// The session that was used last, for messages that name none.
    latest: Arc<Mutex<Option<String>>>,
    /// The session in which each panel and comment was shown.
    shown: Arc<Mutex<BTreeMap<String, String>>>,
}

/// What is known about a session.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Whether the chat has said where the page is.
    told: bool,
}

/// A handler of the component.
#[derive(Clone)]
struct Handler {
    options: Companion,
}

impl Handler {
    /// The session that a message belongs to: the one that it names, the one in which its panel or comment was shown,
    /// or the one that was used last.
    fn session(&self, context: &Context, id: Option<&str>) -> Option<String> {
        let known = &self.options.known;
        let mut shown = known.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = id.and_then(|id| shown.get(id).cloned());
        let latest = || known.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = context.session().or(before).or_else(latest);
        if let (Some(id), Some(session)) = (id, &session)
            && (shown.len() < MAX_SHOWN || shown.contains_key(id))
        {
            shown.insert(id.to_owned(), session.clone());
        }
        session
    }

    async fn page(&self, session: Option<&str>) -> Result<Page, Error> {
        let folder = session.map(|it| self.options.known.sessions.cwd(it)).unwrap_or_default();
        let folder = match folder.as_os_str().is_empty() {
            true => std::env::current_dir().unwrap_or_default(),
            false => folder,
        };
        let page = self.options.pages.open(&folder, self.options.port).await;
        page.map_err(|why| Error::internal(format!("companion cannot serve a page: {why}")))
    }

    /// Does what a component asks for on the page.
    async fn perform(&self, call: &Call, context: &Context) -> Result<Json, Error> {
        let method = call.method.name().into_owned();
        let params = call.params.as_ref().map(client::payload::read).unwrap_or_default();
        let session = self.session(context, params["id"].as_str());
        let page = self.page(session.as_deref()).await?;
        if method == IdeOperation::ApplyEdit.method() {
            // It waits for the person, who has to know that.
            self.tell(&page, session.as_deref(), context);
        }
        let outcome = tokio::select! {
            outcome = page.surface.handle(&method, params) => outcome,
            () = context.cancelled() => Err(client::rpc_error::cancelled()),
        };
        let shows = [ShowPanel::METHOD, ShowComment::METHOD, IdeOperation::OpenFile.method()];
        if outcome.is_ok() && shows.contains(&method.as_str()) {
            self.tell(&page, session.as_deref(), context);
        }
        match outcome {
            Ok(result) => to_json(&result),
            Err(error) => Err(Error::from_json(to_json(&error)?)),
        }
    }

    /// Says once in each session where the page is.
    fn tell(&self, page: &Page, session: Option<&str>, context: &Context) {
        let Some(session) = session else { return };
        let told = self
            .options
            .known
            .sessions
            .with(session, |it| std::mem::replace(&mut it.state.told, true));
        if told {
            return;
        }
        let text =
            format!("\n\nPanels and comments of this session are on this page: {}\n\n", page.url);
        match context.is_idle(session) {
            true => context.announce(session, text),
            false => drop(context.editor().say(session, text)),
        }
        if self.options.open
            && let Err(why) = browser::open(&page.url)
        {
            context.log(format!("cannot open a browser: {why}"));
        }
    }
}

fn to_json(value: &Value) -> Result<Json, Error> {
    Json::parse(value.to_string()).map_err(|error| Error::internal(error.to_string()))
}

/// Whether the editor itself does what a method asks for.
fn is_native(editor: &Capabilities, method: &str) -> bool {
    match method {
        // Panels and comments of SCP 1.0 report nothing, and components rely on that.
        _ if !editor.has_additions() => false,
        ShowPanel::METHOD | ClearPanel::METHOD | GetPanel::METHOD => editor.html_panel,
        ShowComment::METHOD | ClearComment::METHOD => editor.file_comment,
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
        let latest = self.known.latest.clone();
        proxy = proxy.on_prompt(async move |prompt, next| {
            let session = prompt.session().to_owned();
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
            next.run(prompt).await
        });
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
