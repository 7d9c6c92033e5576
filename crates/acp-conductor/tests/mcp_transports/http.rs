//! Streamable HTTP, request by request.

use mcp::{Ticket, Transport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::{Conductor, MAX_LINE, TICKET, TIMEOUT};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;

/// The address and the credentials of a client.
struct Client {
    authority: String,
    path: String,
    secret: String,
    session: Option<String>,
}

/// A response of which the head was read.
struct Response {
    stream: BufReader<TcpStream>,
    status: u16,
    head: String,
}

impl Client {
    fn new(endpoint: (String, String)) -> Client {
        let (authority, path) =
            endpoint.0.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Client {
            authority: authority.to_owned(),
            path: format!("/{path}"),
            secret: endpoint.1,
            session: None,
        }
    }

    /// Sends a request with these headers and the required ones.
    async fn send(&self, method: &str, headers: &str, body: &str) -> Response {
        let mut headers = headers.to_owned();
        for (name, value) in [
            ("Host", &self.authority),
            ("Authorization", &format!("Bearer {}", self.secret)),
            ("Content-Length", &body.len().to_string()),
        ] {
            if !headers.contains(&format!("{name}:")) {
                headers += &format!("{name}: {value}\r\n");
            }
        }
        if let Some(session) = &self.session {
            headers += &format!("Mcp-Session-Id: {session}\r\n");
        }
        let text = format!("{method} {} HTTP/1.1\r\n{headers}\r\n{body}", self.path);
        let mut stream = TcpStream::connect(&self.authority).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        Response::read(BufReader::new(stream)).await
    }

    async fn post(&self, body: &str) -> Response {
        self.send("POST", "", body).await
    }

    /// Initializes a session. Returns the client and its id in the conductor.
    async fn with_session(conductor: &mut Conductor) -> (Client, mcp::ClientId) {
        let mut client = Client::new(conductor.http());
        let answer = async {
            let mut response = client.post(INITIALIZE).await;
            assert_eq!(response.event().await.as_deref(), Some(INITIALIZED));
            assert_eq!(response.event().await, None);
            response.header("mcp-session-id").expect("a session")
        };
        let serve = async {
            let client_id = conductor.expect_connected().await;
            assert_eq!(conductor.expect_line(client_id).await, INITIALIZE);
            conductor.send(client_id, INITIALIZED);
            client_id
        };
        let (session, client_id) = tokio::join!(answer, serve);
        client.session = Some(session);
        (client, client_id)
    }
}

impl Response {
    async fn read(mut stream: BufReader<TcpStream>) -> Response {
        let mut head = String::new();
        let read = async {
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap() > 0 {}
        };
        tokio::time::timeout(TIMEOUT, read).await.expect("in time");
        let status = head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default();
        Response { stream, status, head }
    }

    fn header(&self, name: &str) -> Option<String> {
        self.head
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
    }

    /// The data of the next event, or `None` at the end of the stream.
    async fn event(&mut self) -> Option<String> {
        let read = async {
            loop {
                let mut line = String::new();
                self.stream.read_line(&mut line).await.unwrap();
                match line.strip_prefix("data: ") {
                    Some(data) => return Some(data.trim_end_matches('\n').to_owned()),
                    None if line.is_empty() || line == "0\r\n" => return None,
                    None => {}
                }
            }
        };
        tokio::time::timeout(TIMEOUT, read).await.expect("in time")
    }

    async fn body(&mut self) -> String {
        let mut body = vec![0; self.header("content-length").unwrap().parse().unwrap()];
        self.stream.read_exact(&mut body).await.unwrap();
        String::from_utf8(body).unwrap()
    }
}

#[tokio::test]
async fn unauthorized_requests_are_refused() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    let port = client.authority.split(':').nth(1).unwrap().to_owned();
    let unauthorized = [
        ("Host: evil.example\r\n".to_owned(), 403),
        (format!("Host: evil.example:{port}\r\n"), 403),
        ("Host: 127.0.0.1:1\r\n".to_owned(), 403),
        ("Origin: http://evil.example\r\n".to_owned(), 403),
        ("Origin: http://localhost.evil.example\r\n".to_owned(), 403),
        ("Origin: http://localhost:x\r\n".to_owned(), 403),
        ("Origin: https://127.0.0.1\r\n".to_owned(), 403),
        ("Origin: null\r\n".to_owned(), 403),
        ("Authorization: Bearer 0\r\n".to_owned(), 401),
        (format!("Authorization: Basic {}\r\n", client.secret), 401),
        ("Authorization: \r\n".to_owned(), 401),
        ("Accept: text/html\r\n".to_owned(), 406),
    ];
    for (headers, status) in unauthorized {
        let mut response = client.send("POST", &headers, INITIALIZE).await;
        assert_eq!(response.status, status, "{headers}");
        assert!(response.body().await.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"#));
        assert_eq!(response.header("www-authenticate").is_some(), status == 401);
    }
    // The path of one ticket with the secret of another, and unknown paths.
    let other = Client::new(conductor.http_for(Ticket(8)));
    assert_eq!(other.authority, client.authority, "all tickets share one address");
    let mixed = Client { path: client.path.clone(), ..other };
    assert_eq!(mixed.post(INITIALIZE).await.status, 401);
    for path in ["/", "/mcp/", "/mcp/0", &client.path[4..]] {
        let unknown =
            Client { path: path.to_owned(), ..Client::new(conductor.http_for(Ticket(8))) };
        assert_eq!(unknown.post(INITIALIZE).await.status, 404, "{path}");
    }
    conductor.listeners.revoke(TICKET);
    assert_eq!(client.post(INITIALIZE).await.status, 404);
    conductor.assert_no_event();
}

#[tokio::test]
async fn local_hosts_and_origins_are_accepted() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    let port = client.authority.split(':').nth(1).unwrap().to_owned();
    for headers in [
        format!("Host: LocalHost:{port}\r\n"),
        "Origin: http://localhost\r\n".to_owned(),
        "Origin: http://127.0.0.1:3000\r\n".to_owned(),
        "Origin: http://[::1]:3000\r\n".to_owned(),
        "Accept: */*\r\n".to_owned(),
        "Accept: application/*;q=0.5\r\n".to_owned(),
    ] {
        // The headers are accepted. The request is refused only for lack of a session.
        let response = client.send("POST", &headers, r#"{"method":"n"}"#).await;
        assert_eq!(response.status, 400, "{headers}");
    }
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let mut conductor = Conductor::start();
    let (mut client, _) = Client::with_session(&mut conductor).await;
    let session = client.session.take();
    for (method, status) in [("POST", 400), ("GET", 405), ("DELETE", 405), ("OPTIONS", 405)] {
        assert_eq!(client.send(method, "", "{\"method\":\"n\"}").await.status, status, "{method}");
    }
    client.session = Some("0".into());
    for (method, status) in [("POST", 404), ("GET", 404), ("DELETE", 404), ("PUT", 405)] {
        assert_eq!(client.send(method, "", "{\"method\":\"n\"}").await.status, status, "{method}");
    }
    let other = Client { session: session.clone(), ..Client::new(conductor.http_for(Ticket(8))) };
    assert_eq!(other.post("{\"method\":\"n\"}").await.status, 404, "a session of another ticket");
    client.session = session;
    assert_eq!(client.send("GET", "Accept: application/json\r\n", "").await.status, 406);
    for (body, code) in [
        ("", "-32700"),
        ("{\"id\":1,", "-32700"),
        ("{\"id\":1,\"method\":\"a\nb\"}", "-32700"),
        ("[]", "-32600"),
        ("7", "-32600"),
        ("{\"id\":1}", "-32600"),
        ("[{\"method\":\"n\"},7]", "-32600"),
    ] {
        let mut response = client.post(body).await;
        assert_eq!(response.status, 400, "{body}");
        assert!(response.body().await.contains(code), "{body}");
    }
    let long = format!("{{\"method\":\"{}\"}}", "x".repeat(MAX_LINE));
    let chunked = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    for (headers, body) in [
        ("", &*long),
        ("Transfer-Encoding: chunked\r\nContent-Length:\r\n", &*chunked),
        ("Expect: 100-continue\r\nContent-Length: 999999999\r\n", ""),
    ] {
        let headers = headers.replace("Content-Length:\r\n", "");
        let response = if headers.contains("chunked") {
            client.send_raw(&headers, body).await
        } else {
            client.send("POST", &headers, body).await
        };
        assert_eq!(response.status, 413, "{headers}");
    }
    conductor.assert_no_event();
}

impl Client {
    /// A POST without a content length.
    async fn send_raw(&self, headers: &str, body: &str) -> Response {
        let text = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{headers}\r\n{body}",
            self.path, self.authority, self.secret
        );
        let mut stream = TcpStream::connect(&self.authority).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        Response::read(BufReader::new(stream)).await
    }
}

#[tokio::test]
async fn a_session_works_until_it_is_deleted() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::with_session(&mut conductor).await;

    // Unchanged, except for line breaks.
    let body =
        "{ \"jsonrpc\":\"2.0\",\r\n \"method\" : \"n\",\n\"params\":{\"b\":1.10,\"a\":1e400}\n}\n";
    let response = client.post(body).await;
    assert_eq!((response.status, response.header("content-length").as_deref()), (202, Some("0")));
    let line = body.trim_end().replace('\n', " ");
    assert_eq!(conductor.expect_line(client_id).await, line);

    // A request, its progress, a request of the server, and the answer.
    let call = r#"{"id":"a","method":"tools/call","params":{"_meta":{"progressToken":5}}}"#;
    let mut response = client.post(call).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type").as_deref(), Some("text/event-stream"));
    conductor.expect_line(client_id).await;
    let progress = r#"{"method":"notifications/progress","params":{"progressToken":5}}"#;
    let sampling = "{\"id\":\"s\",\r\"method\":\"sampling/createMessage\"}";
    let result = r#"{"id":"\u0061","result":{"n":1.10}}"#;
    conductor.send(client_id, progress);
    conductor.send(client_id, sampling);
    conductor.send(client_id, r#"{"id":"never asked","result":{}}"#);
    conductor.send(client_id, "not a message");
    conductor.send(client_id, result);
    assert_eq!(response.event().await.as_deref(), Some(progress));
    assert_eq!(response.event().await.unwrap(), sampling.replace('\r', " "));
    assert_eq!(response.event().await.as_deref(), Some(result));
    assert_eq!(response.event().await, None);
    let answer = r#"{"id":"s","result":{}}"#;
    assert_eq!(client.post(answer).await.status, 202);
    assert_eq!(conductor.expect_line(client_id).await, answer);

    assert_eq!(client.send("DELETE", "", "").await.status, 204);
    conductor.expect_disconnected(client_id).await;
    for method in ["DELETE", "POST", "GET"] {
        assert_eq!(client.send(method, "", "{\"method\":\"n\"}").await.status, 404);
    }
    conductor.assert_no_event();
}

#[tokio::test]
async fn messages_that_belong_to_no_request_reach_an_open_stream() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::with_session(&mut conductor).await;
    let note = |n: u32| format!(r#"{{"method":"note","params":{n}}}"#);
    let request = |id: u32| {
        format!(r#"{{"id":{id},"method":"m","params":{{"_meta":{{"progressToken":{id}}}}}}}"#)
    };
    // Messages are kept for the first stream.
    conductor.send(client_id, &note(1));
    conductor.send(client_id, &note(2));
    let mut first = client.post(&request(1)).await;
    conductor.expect_line(client_id).await;
    assert_eq!(first.event().await, Some(note(1)));
    assert_eq!(first.event().await, Some(note(2)));
    // Without a GET, they go to the latest POST.
    let mut second = client.post(&request(2)).await;
    conductor.expect_line(client_id).await;
    conductor.send(client_id, &note(3));
    assert_eq!(second.event().await, Some(note(3)));
    // A POST that accepts only JSON receives only its answer.
    let third = request(3);
    let third = client.send("POST", "Accept: application/json\r\n", &third);
    let serve = async {
        conductor.expect_line(client_id).await;
        conductor
            .send(client_id, r#"{"method":"notifications/progress","params":{"progressToken":3}}"#);
        conductor.send(client_id, &note(4));
        conductor.send(client_id, r#"{"id":3,"result":3}"#);
    };
    let (mut third, ()) = tokio::join!(third, serve);
    assert_eq!(third.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(third.body().await, r#"{"id":3,"result":3}"#);
    assert_eq!(second.event().await, Some(note(4)));
    // With a GET, they go there. Progress and answers stay with their requests.
    let mut get = client.send("GET", "Accept: text/event-stream\r\n", "").await;
    assert_eq!(get.status, 200);
    conductor.send(client_id, &note(5));
    let progress = r#"{"method":"notifications/progress","params":{"progressToken":1}}"#;
    conductor.send(client_id, progress);
    conductor.send(client_id, r#"{"id":2,"error":{"code":-32601,"message":""}}"#);
    let sampling = r#"{"id":"s","method":"sampling/createMessage"}"#;
    conductor.send(client_id, sampling);
    assert_eq!(get.event().await, Some(note(5)));
    assert_eq!(first.event().await.as_deref(), Some(progress));
    assert!(second.event().await.unwrap().starts_with(r#"{"id":2,"#));
    assert_eq!(second.event().await, None);
    // A request of the server is most likely about one of the client's requests.
    assert_eq!(first.event().await.as_deref(), Some(sampling));
    // A second GET replaces the first.
    let mut again = client.send("GET", "", "").await;
    assert_eq!(get.event().await, None);
    conductor.send(client_id, &note(6));
    assert_eq!(again.event().await, Some(note(6)));
    // A broken stream cancels nothing, and the next one replaces it.
    drop((first, again));
    conductor.send(client_id, &note(7));
    conductor.send(client_id, r#"{"id":1,"result":{}}"#);
    let mut last = client.send("GET", "", "").await;
    conductor.send(client_id, &note(8));
    let seen = last.event().await;
    // The message may have been written to the connection that was already closed.
    assert!(seen == Some(note(7)) || seen == Some(note(8)));
    conductor.assert_no_event();
}

#[tokio::test]
async fn a_batch_is_split_into_messages() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::with_session(&mut conductor).await;
    let batch = "[ {\"id\":1,\"method\":\"a\"},\n{\"method\":\"n\"},{\"id\":2,\"method\":\"b\"} ]";
    for (accept, whole) in [("text/event-stream", false), ("application/json", true)] {
        let headers = format!("Accept: {accept}\r\n");
        let serve = async {
            assert_eq!(conductor.expect_line(client_id).await, "{\"id\":1,\"method\":\"a\"}");
            assert_eq!(conductor.expect_line(client_id).await, "{\"method\":\"n\"}");
            assert_eq!(conductor.expect_line(client_id).await, "{\"id\":2,\"method\":\"b\"}");
            conductor.send(client_id, "{\"id\":2,\"result\":2}");
            conductor.send(client_id, "{\"id\":1,\"result\":1}");
        };
        let (mut response, ()) = tokio::join!(client.send("POST", &headers, batch), serve);
        if whole {
            let all = "[{\"id\":2,\"result\":2},{\"id\":1,\"result\":1}]";
            assert_eq!(response.body().await, all);
        } else {
            assert_eq!(response.event().await.as_deref(), Some("{\"id\":2,\"result\":2}"));
            assert_eq!(response.event().await.as_deref(), Some("{\"id\":1,\"result\":1}"));
            assert_eq!(response.event().await, None);
        }
    }
    assert_eq!(client.post("[{\"method\":\"n\"}]").await.status, 202);
    conductor.expect_line(client_id).await;
}

#[tokio::test]
async fn open_requests_are_answered_when_the_conductor_disconnects_a_client() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::with_session(&mut conductor).await;
    let mut get = client.send("GET", "", "").await;
    let mut post = client.post(r#"{"id":1,"method":"m"}"#).await;
    conductor.expect_line(client_id).await;
    conductor.send(client_id, r#"{"method":"last words"}"#);
    conductor.senders.clear();
    conductor.expect_disconnected(client_id).await;
    assert_eq!(get.event().await.as_deref(), Some(r#"{"method":"last words"}"#));
    assert_eq!(get.event().await, None);
    let answer = post.event().await.unwrap();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#), "{answer}");
    assert_eq!(post.event().await, None);
    assert_eq!(client.post("{\"method\":\"n\"}").await.status, 404);
    conductor.assert_no_event();
}

#[tokio::test]
async fn a_request_without_a_session_is_a_connection_of_its_own() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    for (accept, method, answer, status) in [
        ("*/*", "tools/list", r#"{"id":1,"result":{}}"#, 200),
        ("application/json", "tools/list", r#"{"id":1,"result":{}}"#, 200),
        ("*/*", "tools/list", r#"{"id":1,"error":{"code":-32603,"message":""}}"#, 200),
        ("*/*", "tools/list", r#"{"id":1,"error":{"code":-32601,"message":""}}"#, 404),
        ("*/*", "tools/list", r#"{"id":1,"error":{"code":-32022,"message":""}}"#, 400),
        // This shows a client that it must send `initialize`.
        ("*/*", "server/discover", r#"{"id":1,"error":{"code":-32601,"message":""}}"#, 400),
        (
            "application/json",
            "server/discover",
            r#"{"id":1,"error":{"code":-32601,"message":""}}"#,
            400,
        ),
    ] {
        let body = format!(r#"{{"id":1,"method":"{method}"}}"#);
        let serve = async {
            let client_id = conductor.expect_connected().await;
            assert_eq!(conductor.expect_line(client_id).await, body);
            conductor.send(client_id, answer);
            conductor.expect_disconnected(client_id).await;
        };
        let read = async {
            let headers = format!("Accept: {accept}\r\n");
            let mut response = client.send("POST", &headers, &body).await;
            assert_eq!(response.status, status, "{answer}");
            assert_eq!(response.header("mcp-session-id"), None);
            let seen = match response.header("content-type").as_deref() {
                Some("text/event-stream") => response.event().await.unwrap(),
                _ => response.body().await,
            };
            assert_eq!(seen, answer);
            response
        };
        tokio::join!(serve, read);
    }
    // A message before the answer starts the stream. The client disconnects before the answer.
    let serve = async {
        let client_id = conductor.expect_connected().await;
        conductor.expect_line(client_id).await;
        conductor.send(client_id, "{\"method\":\"n\"}");
        client_id
    };
    let (client_id, mut response) = tokio::join!(serve, client.post("{\"id\":1,\"method\":\"m\"}"));
    assert_eq!(response.event().await.as_deref(), Some("{\"method\":\"n\"}"));
    drop(response);
    conductor.expect_disconnected(client_id).await;
    conductor.assert_no_event();
}

#[tokio::test]
async fn a_client_that_never_receives_its_session_is_disconnected() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    // The client does not wait for the answer.
    let response = client.post(INITIALIZE).await;
    let client_id = conductor.expect_connected().await;
    conductor.expect_line(client_id).await;
    drop(response);
    conductor.expect_disconnected(client_id).await;
    // The server refuses to initialize.
    let mut response = client.post(INITIALIZE).await;
    let client_id = conductor.expect_connected().await;
    conductor.expect_line(client_id).await;
    conductor.send(client_id, r#"{"id":0,"error":{"code":1,"message":""}}"#);
    assert!(response.event().await.is_some());
    conductor.expect_disconnected(client_id).await;
    conductor.assert_no_event();
}

#[tokio::test]
async fn unread_messages_are_kept_up_to_a_limit() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::with_session(&mut conductor).await;
    let note = |n: usize| format!(r#"{{"method":"note","params":{n}}}"#);
    for n in 0..1500 {
        conductor.send(client_id, &note(n));
    }
    // The session has received all messages before the client opens the stream.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let mut get = client.send("GET", "", "").await;
    for n in 500..1500 {
        assert_eq!(get.event().await, Some(note(n)));
    }
    // Without any other stream, requests of the server arrive here, too.
    let sampling = r#"{"id":"s","method":"sampling/createMessage"}"#;
    conductor.send(client_id, sampling);
    assert_eq!(get.event().await.as_deref(), Some(sampling));
}

#[tokio::test]
async fn a_closing_listener_lets_sessions_end() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::with_session(&mut conductor).await;
    let mut get = client.send("GET", "", "").await;
    conductor.listeners.revoke(TICKET);
    // Messages of the conductor still arrive.
    conductor.send(client_id, r#"{"method":"last words"}"#);
    conductor.senders.clear();
    assert_eq!(get.event().await.as_deref(), Some(r#"{"method":"last words"}"#));
    assert_eq!(get.event().await, None);
    conductor.expect_disconnected(client_id).await;
    while TcpStream::connect(&client.authority).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // The listener opens again for the next ticket.
    let (client, client_id) = Client::with_session(&mut conductor).await;
    let mut get = client.send("GET", "", "").await;
    assert!(conductor.listeners.open_endpoint(Transport::Http, Ticket(9)).is_ok());
    drop(conductor.listeners);
    assert_eq!(get.event().await, None);
    assert!(TcpStream::connect(&client.authority).await.is_err());
    assert!(!conductor.senders[&client_id].send("x".into()), "the client is gone");
}

#[tokio::test]
async fn silent_http_connections_do_not_block_clients() {
    let mut conductor = Conductor::start();
    let mut silent = Vec::new();
    for _ in 0..5 {
        let address = Client::new(conductor.http()).authority;
        for _ in 0..80 {
            silent.push(TcpStream::connect(&address).await.unwrap());
        }
        // A connection that has sent only a part of its request counts as silent.
        silent.last_mut().unwrap().write_all(b"POST /mcp/ HTTP/1.1\r\n").await.unwrap();
        Client::with_session(&mut conductor).await;
    }
    let mut oldest = silent.swap_remove(0);
    assert_eq!(oldest.read(&mut [0; 8]).await.unwrap_or(0), 0, "the oldest is closed");
}
