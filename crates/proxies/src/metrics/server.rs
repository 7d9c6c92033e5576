//! Serves the metrics over HTTP, on a loopback address.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::exposition::Format;
use super::state::Measured;

/// The path of the metrics.
const PATH: &str = "/metrics";

/// How many connections are served at once. Further ones wait.
const MAX_CONNECTIONS: usize = 16;

/// How long a connection may send no request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection may last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

/// How long to wait before an address that is in use is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// The address of the metrics, and its socket. The socket outlives a restart of the component. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Socket(Arc<Mutex<Option<StdListener>>>);

impl Socket {
    /// Opens the socket, unless it is open.
    pub(super) fn open(&self, address: SocketAddr) -> io::Result<()> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.is_none() {
            let listener = StdListener::bind(address)?;
            listener.set_nonblocking(true)?;
            *socket = Some(listener);
        }
        Ok(())
    }

    /// The address, if the socket is open.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        socket.as_ref().and_then(|socket| socket.local_addr().ok())
    }

    fn listener(&self) -> io::Result<TcpListener> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        TcpListener::from_std(socket.try_clone()?)
    }

    /// Serves the metrics. Waits for an address that another program uses.
    pub(super) async fn serve(self, address: SocketAddr, measured: Measured, log: impl Fn(&str)) {
        let mut is_reported = false;
        let listener = loop {
            match self.open(address).and_then(|()| self.listener()) {
                Ok(listener) => break listener,
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        log(&format!("cannot listen on {address}: {error}; trying again"));
                    }
                }
            }
            tokio::time::sleep(RETRY).await;
        };
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let measured = measured.clone();
                    connections.spawn(async move {
                        serve_connection(stream, measured).await;
                        drop(slot);
                    });
                }
                // Too many open files, for example.
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, measured: Measured) {
    let Ok(address) = stream.local_addr() else { return };
    let service = service_fn(move |request| {
        let response = answer(&request, address, &measured);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // The client may have disconnected, or is too slow.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

fn answer(
    request: &Request<Incoming>,
    address: SocketAddr,
    measured: &Measured,
) -> Response<String> {
    if !is_local(request, address) {
        let why = "unexpected Host or Origin header; only programs on this machine can read the metrics\n";
        return plain(StatusCode::FORBIDDEN, why);
    }
    if request.uri().path() != PATH {
        return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
    }
    if request.method() != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    let accepted: Vec<&str> =
        request.headers().get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok()).collect();
    let format = Format::accepted(&accepted.join(","));
    let mut response = Response::new(measured.text(format));
    let content_type = HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Whether a request names this server as its host. A web page that was opened under another name, which leads to this
/// machine, does not.
fn is_local(request: &Request<Incoming>, address: SocketAddr) -> bool {
    let headers: &HeaderMap = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let uri = request.uri().authority().map(|it| it.as_str());
    host.is_some_and(|host| is_local_host(host, address))
        && hosts.next().is_none()
        && uri.is_none_or(|host| is_local_host(host, address))
        && !headers.contains_key(ORIGIN)
}

/// Whether a host is this machine, with the port of this address.
fn is_local_host(host: &str, address: SocketAddr) -> bool {
    let port = address.port();
    let own = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let names = ["127.0.0.1", "localhost", "[::1]", &own];
    let suffix = format!(":{port}");
    names.iter().any(|name| {
        let start = host.get(..name.len()).filter(|it| it.eq_ignore_ascii_case(name));
        let rest = start.map(|_| &host[name.len()..]);
        rest.is_some_and(|rest| rest == suffix || rest.is_empty() && port == 80)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        let address: SocketAddr = "127.0.0.1:9464".parse().expect("an address");
        for host in ["127.0.0.1:9464", "localhost:9464", "LocalHost:9464", "[::1]:9464"] {
            assert!(is_local_host(host, address), "{host}");
        }
        assert!(is_local_host("127.0.0.1", "127.0.0.1:80".parse().expect("an address")));
        assert!(is_local_host("127.0.0.2:9464", "127.0.0.2:9464".parse().expect("an address")));
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:80",
            "evil.example:9464",
            "localhost.evil:9464",
            "127.0.0.1:9464.evil",
            "127.0.0.11:9464",
            "127.0.0.2:9464",
            "é",
        ] {
            assert!(!is_local_host(host, address), "{host}");
        }
    }
}
