//! The connections of a server: so many that nobody can use up all of them.
//!
//! Any user of the machine can connect. So a request must arrive soon, and if there are too many connections, the oldest
//! one is closed. A page that is logged in has a connection of its own kind, which is not closed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tower_service::Service;

/// How many connections there can be, without those of pages.
const MAX_CONNECTIONS: usize = 256;
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait after the system has refused to accept a connection: it may have no descriptors left.
const REFUSED: Duration = Duration::from_millis(200);

/// Accepts connections and answers their requests.
pub(super) async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
    let mut open = Open::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => open.start(stream, router.clone()),
                Err(error) if is_of_connection(&error) => {}
                Err(_) => {
                    open.close_oldest();
                    tokio::time::sleep(REFUSED).await;
                }
            },
            Some(_) = open.tasks.join_next() => {}
        }
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    /// The oldest first.
    order: VecDeque<AbortHandle>,
}

impl Open {
    fn start(&mut self, stream: TcpStream, router: Router) {
        self.order.retain(|it| !it.is_finished());
        if self.order.len() >= MAX_CONNECTIONS {
            self.close_oldest();
        }
        self.order.push_back(self.tasks.spawn(answer(stream, router)));
    }

    fn close_oldest(&mut self) {
        if let Some(oldest) = self.order.pop_front() {
            oldest.abort();
        }
    }
}

/// Answers the requests of one connection. It ends when a page begins a WebSocket, which goes on elsewhere.
async fn answer(stream: TcpStream, router: Router) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move { router.call(request.map(Body::new)).await }
    });
    connection(stream, service).await;
}

async fn connection<S>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S)
where
    S: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // An error is one of the other side.
    let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn half_sent_requests_leave_room_for_a_whole_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/", get(async || "served"));
        let serving = tokio::spawn(serve(listener, router));
        let mut half = Vec::new();
        for _ in 0..MAX_CONNECTIONS + 1 {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("sent");
            half.push(stream);
        }
        let mut whole = TcpStream::connect(address).await.expect("connected");
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        whole.write_all(request).await.expect("sent");
        let mut answer = String::new();
        whole.read_to_string(&mut answer).await.expect("answered");
        assert!(answer.ends_with("served"), "{answer}");
        // The oldest one made room.
        let mut rest = Vec::new();
        let closed = half[0].read_to_end(&mut rest).await;
        assert!(closed.is_err() || rest.is_empty(), "{rest:?}");
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_of_a_request_must_arrive_soon() {
        let (mut client, server) = tokio::io::duplex(1024);
        let service = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(axum::http::Response::new(Body::empty()))
        });
        let answering = tokio::spawn(connection(server, service));
        client.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("sent");
        let began = tokio::time::Instant::now();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
        answering.await.expect("no panic");
    }
}
