//! The server of all pages: on loopback, with a log-in.
//!
//! # Layout
//! - here: the routes, and the life of the server
//! - `access`: who may do what: the names of the host, the origin, the key, the cookie and the token
//! - `connections`: how many there can be, and how long a request may take
//! - `assets`: the built files of the pages, with their headers
//! - `link`: the connection of one page
//! - `actions`: each action is done once
//!
//! A page and its files are the same for everybody and need no log-in. A page is logged in with the key of the address
//! that Conductor prints. It gets a cookie and a token. The connection needs both: a cookie is also sent to other ports
//! of the same host, and a token is not sent by itself.

mod access;
mod actions;
mod assets;
mod connections;
mod link;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::protocol::Features;
use crate::topics::Topics;
use access::Access;
use actions::Actions;
pub use actions::{ActionReceiver, ActionRequest};

/// The most bytes of a body that is read.
const MAX_BODY: usize = 4096;
/// How many pages can be connected at a time.
const MAX_PAGES: usize = 32;
/// How long a page may take to log in after it has connected.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server serves, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on. Port 0 is any free port.
    pub listen: SocketAddr,
    /// What the pages show.
    pub features: Features,
}

impl Options {
    /// Any free port on loopback.
    pub fn loopback(features: Features) -> Options {
        Options { listen: (IpAddr::V4(Ipv4Addr::LOCALHOST), 0).into(), features }
    }
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    actions: ActionReceiver,
}

#[derive(Debug)]
struct Shared {
    access: Access,
    features: Features,
    topics: Topics,
    actions: Actions,
    /// Random, so that a page notices another server.
    run: String,
    pages: Arc<tokio::sync::Semaphore>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The address cannot be used, or there are no random numbers.
    pub async fn bind(options: Options, topics: Topics) -> io::Result<Server> {
        let listener = TcpListener::bind(options.listen).await?;
        let access = Access::new(listener.local_addr()?)?;
        let (actions, receiver) = Actions::new();
        let shared = Shared {
            access,
            features: options.features,
            topics,
            actions,
            run: access::random_text()?,
            pages: Arc::new(tokio::sync::Semaphore::new(MAX_PAGES)),
        };
        Ok(Server { listener, shared: Arc::new(shared), actions: receiver })
    }

    /// The address of a page with the key. It is a secret.
    pub fn url(&self, page: &str) -> String {
        self.shared.access.url(page)
    }

    /// Facts about the server, also while it serves.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.shared) }
    }

    /// Serves pages. The actions of the pages come out of the receiver. Ends when the future is dropped.
    pub fn serve(self) -> (impl Future<Output = io::Result<()>> + Send, ActionReceiver) {
        let router = router(&self.shared);
        let serving = connections::serve(self.listener, router);
        (serving, self.actions)
    }
}

/// Facts about a server that serves.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// How many pages are connected.
    pub fn pages(&self) -> usize {
        MAX_PAGES - self.shared.pages.available_permits()
    }

    /// The address of a page with the key. It is a secret.
    pub fn url(&self, page: &str) -> String {
        self.shared.access.url(page)
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/studio", get(assets::studio))
        .route("/assets/{*name}", get(assets::asset))
        .route("/panel/{*name}", get(assets::panel))
        .route("/api/login", post(log_in))
        .route("/api/link", any(connect))
        .fallback(async || problem(StatusCode::NOT_FOUND, "there is no such page; open /studio"))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(Arc::clone(shared), check))
        .with_state(Arc::clone(shared))
}

/// Checks every request before anything else, and adds the headers that all answers have.
async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let is_static = !request.uri().path().starts_with("/api/");
    let mut response = match shared.access.check(request.headers(), is_static) {
        Ok(()) => match tokio::time::timeout(BODY_TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => problem(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        },
        Err((status, why)) => problem(status, why),
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}

/// An error that names its cause.
fn problem(status: StatusCode, why: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{why}\n"))
        .into_response()
}

/// `POST /api/login` with `{"key": …}`: sets the cookie and returns the token.
async fn log_in(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err((status, why)) = shared.access.check_origin(&headers) {
        return problem(status, why);
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match shared.access.log_in(body["key"].as_str().unwrap_or_default()) {
        Err((status, why)) => problem(status, why),
        Ok(login) => {
            let body = json!({ "token": login.token }).to_string();
            let headers = [
                (header::SET_COOKIE, login.cookie),
                (header::CONTENT_TYPE, "application/json".to_owned()),
            ];
            (headers, body).into_response()
        }
    }
}

/// `GET /api/link`: the connection of a page.
async fn connect(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response {
    let allowed = shared.access.check_origin(&headers);
    if let Err((status, why)) = allowed.and_then(|()| shared.access.check_cookie(&headers)) {
        return problem(status, why);
    }
    let Ok(upgrade) = upgrade else {
        return problem(StatusCode::UPGRADE_REQUIRED, "this address is for WebSocket connections");
    };
    let Ok(permit) = Arc::clone(&shared.pages).try_acquire_owned() else {
        let why = "too many pages are open; close one of them";
        return problem(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    upgrade
        .max_message_size(link::MAX_MESSAGE)
        .on_upgrade(async move |socket| link::run(&shared, socket, permit).await)
}
