//! The page of each project folder, and its server. A server has a thread of its own, so that its address stays the same
//! when the component is restarted.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::Request;
use acp_proxy::scp::ClearComment;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use web::project::Project;
use web::protocol::{Chain, Entry, Features};
use web::server::{Handle, Options, Server};
use web::surface::{COMMENTS, Surface, ToOwner};
use web::topics::Topics;

/// The most folders that have a page.
const MAX_PAGES: usize = 16;
/// How many events wait for the component.
const MAX_EVENTS: usize = 256;

/// The pages of all project folders. A clone is another handle.
#[derive(Clone)]
pub(super) struct Pages(Arc<Shared>);

struct Shared {
    pages: tokio::sync::Mutex<BTreeMap<PathBuf, Page>>,
    /// The addresses without their secrets, and how many pages of browsers are connected.
    handles: Mutex<Vec<(PathBuf, Handle)>>,
    sender: mpsc::Sender<ToOwner>,
    events: tokio::sync::Mutex<mpsc::Receiver<ToOwner>>,
}

impl Default for Pages {
    fn default() -> Pages {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let events = tokio::sync::Mutex::new(events);
        Pages(Arc::new(Shared {
            pages: Default::default(),
            handles: Default::default(),
            sender,
            events,
        }))
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}

/// The page of a project folder.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) surface: Surface,
    /// The address with its secret.
    pub(super) url: String,
    /// The server ends when this is dropped.
    _stop: Arc<oneshot::Sender<()>>,
}

impl Pages {
    /// The page of a folder, which is served from now on.
    pub(super) async fn open(&self, folder: &Path, port: u16) -> Result<Page, String> {
        let mut pages = self.0.pages.lock().await;
        let project = Project::new(folder);
        if let Some(page) = pages.get(project.folder()) {
            return Ok(page.clone());
        }
        if pages.len() >= MAX_PAGES {
            return Err(format!("{MAX_PAGES} projects have a page already"));
        }
        let key = project.folder().to_owned();
        let (page, handle) = serve(project, port, self.0.sender.clone()).await?;
        pages.insert(key.clone(), page.clone());
        let mut handles = self.0.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.push((key, handle));
        Ok(page)
    }

    /// The page that shows a panel or a comment.
    pub(super) async fn find(&self, topic: &str, id: &str) -> Option<Page> {
        let pages = self.0.pages.lock().await;
        pages.values().find(|page| page.surface.shows(topic, id)).cloned()
    }

    /// A comment is shown on this page now, so it is removed from all other ones.
    pub(super) async fn clear_others(&self, page: &Page, id: &str) {
        let pages = self.0.pages.lock().await.clone();
        let others = pages.values().filter(|it| it.url != page.url);
        for other in others.filter(|it| it.surface.shows(COMMENTS, id)) {
            drop(other.surface.handle(ClearComment::METHOD, json!({ "id": id })).await);
        }
    }

    /// The next thing that a person has done on a page.
    pub(super) async fn next_event(&self) -> Option<ToOwner> {
        self.0.events.lock().await.recv().await
    }

    /// The lines for `conductor status`.
    pub(super) fn status(&self) -> Vec<String> {
        let handles = self.0.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(folder, handle): &(PathBuf, Handle)| {
            let url = handle.url("studio");
            let address = url.split('#').next().unwrap_or_default();
            let browsers = match handle.pages() {
                1 => "1 browser is connected".to_owned(),
                count => format!("{count} browsers are connected"),
            };
            format!("page of {}: {address}, {browsers}", folder.display())
        };
        handles.iter().map(line).collect()
    }
}

/// Serves the page of a project in a thread of its own.
async fn serve(
    project: Project,
    port: u16,
    events: mpsc::Sender<ToOwner>,
) -> Result<(Page, Handle), String> {
    let topics = Topics::default();
    let (surface, mut own_events) = Surface::new(topics.clone(), project.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let (started, start) = oneshot::channel();
    let (acting, shown) = (surface.clone(), topics.clone());
    let run = async move {
        let features = Features {
            chat: false,
            title: "Panels and comments".to_owned(),
            folder: project.folder().display().to_string(),
        };
        let listen = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let server = match Server::bind(Options { listen, features }, topics).await {
            Ok(server) => server,
            Err(error) => {
                let _ = started.send(Err(format!("cannot listen on {listen}: {error}")));
                return;
            }
        };
        let chain = Chain { state: "running".to_owned(), ..Chain::default() };
        shown.put("chain", "chain", Entry::Chain(chain));
        let _ = started.send(Ok((server.url("studio"), server.handle())));
        let (serving, mut actions) = server.serve();
        let acts = async {
            while let Some(request) = actions.recv().await {
                let surface = acting.clone();
                // An answer to an edit must not wait for a search.
                tokio::spawn(async move {
                    let result = surface.act(&request.action).await;
                    let chat = || Err("this page has no chat; use the editor".to_owned());
                    let _ = request.answer.send(result.unwrap_or_else(chat));
                });
            }
        };
        let forwards = async {
            while let Some(event) = own_events.recv().await {
                if events.send(event).await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            _ = serving => {}
            () = acts => {}
            () = forwards => {}
            _ = stopped => {}
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let thread = std::thread::Builder::new().name("companion".to_owned());
    thread.spawn(move || runtime.block_on(run)).map_err(|error| error.to_string())?;
    let ended = |_| Err("the server has ended".to_owned());
    let (url, handle) = start.await.unwrap_or_else(ended)?;
    Ok((Page { surface, url, _stop: Arc::new(stop) }, handle))
}
