//! Streamable HTTP, request by request.

use mcp::{Ticket, Transport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::{Conductor, LONG, LONGEST, TICKET};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;

/// Where to call, and as whom.
struct Client {
    authority: String,
    path: String,
    secret: String,
    session: Option<String>,
}

/// A response whose head has come.
struct Response {
    stream: BufReader<TcpStream>,
    status: u16,
    head: String,
}

impl Client {
    fn new(place: (String, String)) -> Client {
        let (authority, path) = place.0.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Client {
            authority: authority.to_owned(),
            path: format!("/{path}"),
            secret: place.1,
            session: None,
        }
    }

    /// Sends a request with these headers beside those that it needs anyway.
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

    /// Has a session, with the conductor's caller.
    async fn begin(conductor: &mut Conductor) -> (Client, mcp::ClientId) {
        let mut client = Client::new(conductor.http());
        let answer = async {
            let mut response = client.post(INITIALIZE).await;
            assert_eq!(response.event().await.as_deref(), Some(INITIALIZED));
            assert_eq!(response.event().await, None);
            response.header("mcp-session-id").expect("a session")
        };
        let play = async {
            let client_id = conductor.called().await;
            assert_eq!(conductor.line(client_id).await, INITIALIZE);
            conductor.say(client_id, INITIALIZED);
            client_id
        };
        let (session, client_id) = tokio::join!(answer, play);
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
        tokio::time::timeout(LONG, read).await.expect("in time");
        let status = head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default();
        Response { stream, status, head }
    }

    fn header(&self, name: &str) -> Option<String> {
        self.head
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
    }

    /// The data of the next event, `None` at the end of the stream.
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
        tokio::time::timeout(LONG, read).await.expect("in time")
    }

    async fn body(&mut self) -> String {
        let mut body = vec![0; self.header("content-length").unwrap().parse().unwrap()];
        self.stream.read_exact(&mut body).await.unwrap();
        String::from_utf8(body).unwrap()
    }
}

#[tokio::test]
async fn only_who_may_call_is_heard() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    let port = client.authority.split(':').nth(1).unwrap().to_owned();
    let evil = [
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
    for (headers, status) in evil {
        let mut response = client.send("POST", &headers, INITIALIZE).await;
        assert_eq!(response.status, status, "{headers}");
        assert!(response.body().await.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"#));
        assert_eq!(response.header("www-authenticate").is_some(), status == 401);
    }
    // The path of one ticket, the secret of another; no path of ours.
    let other = Client::new(conductor.http_for(Ticket(8)));
    assert_eq!(other.authority, client.authority, "one for all");
    let mixed = Client { path: client.path.clone(), ..other };
    assert_eq!(mixed.post(INITIALIZE).await.status, 401);
    for path in ["/", "/mcp/", "/mcp/0", &client.path[4..]] {
        let lost = Client { path: path.to_owned(), ..Client::new(conductor.http_for(Ticket(8))) };
        assert_eq!(lost.post(INITIALIZE).await.status, 404, "{path}");
    }
    conductor.listeners.revoke(TICKET);
    assert_eq!(client.post(INITIALIZE).await.status, 404);
    conductor.assert_quiet();
}

#[tokio::test]
async fn local_names_and_origins_are_welcome() {
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
        // Not an `initialize`, and no session: heard, but refused.
        let response = client.send("POST", &headers, r#"{"method":"n"}"#).await;
        assert_eq!(response.status, 400, "{headers}");
    }
}

#[tokio::test]
async fn what_is_no_request_of_ours_is_refused() {
    let mut conductor = Conductor::start();
    let (mut client, _) = Client::begin(&mut conductor).await;
    let session = client.session.take();
    for (method, status) in [("POST", 400), ("GET", 405), ("DELETE", 405), ("OPTIONS", 405)] {
        assert_eq!(client.send(method, "", "{\"method\":\"n\"}").await.status, status, "{method}");
    }
    client.session = Some("0".into());
    for (method, status) in [("POST", 404), ("GET", 404), ("DELETE", 404), ("PUT", 405)] {
        assert_eq!(client.send(method, "", "{\"method\":\"n\"}").await.status, status, "{method}");
    }
    let other = Client { session: session.clone(), ..Client::new(conductor.http_for(Ticket(8))) };
    assert_eq!(other.post("{\"method\":\"n\"}").await.status, 404, "somebody else's session");
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
    let long = format!("{{\"method\":\"{}\"}}", "x".repeat(LONGEST));
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
    conductor.assert_quiet();
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
async fn a_session_from_its_beginning_to_its_end() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::begin(&mut conductor).await;

    // Byte for byte, but for line breaks.
    let body =
        "{ \"jsonrpc\":\"2.0\",\r\n \"method\" : \"n\",\n\"params\":{\"b\":1.10,\"a\":1e400}\n}\n";
    let response = client.post(body).await;
    assert_eq!((response.status, response.header("content-length").as_deref()), (202, Some("0")));
    let line = body.trim_end().replace('\n', " ");
    assert_eq!(conductor.line(client_id).await, line);

    // A request, its progress, a request of the server, and the answer.
    let call = r#"{"id":"a","method":"tools/call","params":{"_meta":{"progressToken":5}}}"#;
    let mut response = client.post(call).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type").as_deref(), Some("text/event-stream"));
    conductor.line(client_id).await;
    let progress = r#"{"method":"notifications/progress","params":{"progressToken":5}}"#;
    let sampling = "{\"id\":\"s\",\r\"method\":\"sampling/createMessage\"}";
    let result = r#"{"id":"\u0061","result":{"n":1.10}}"#;
    conductor.say(client_id, progress);
    conductor.say(client_id, sampling);
    conductor.say(client_id, r#"{"id":"never asked","result":{}}"#);
    conductor.say(client_id, "not a message");
    conductor.say(client_id, result);
    assert_eq!(response.event().await.as_deref(), Some(progress));
    assert_eq!(response.event().await.unwrap(), sampling.replace('\r', " "));
    assert_eq!(response.event().await.as_deref(), Some(result));
    assert_eq!(response.event().await, None);
    let answer = r#"{"id":"s","result":{}}"#;
    assert_eq!(client.post(answer).await.status, 202);
    assert_eq!(conductor.line(client_id).await, answer);

    assert_eq!(client.send("DELETE", "", "").await.status, 204);
    conductor.hung_up(client_id).await;
    for method in ["DELETE", "POST", "GET"] {
        assert_eq!(client.send(method, "", "{\"method\":\"n\"}").await.status, 404);
    }
    conductor.assert_quiet();
}

#[tokio::test]
async fn what_belongs_to_no_request_finds_its_stream() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::begin(&mut conductor).await;
    let note = |n: u32| format!(r#"{{"method":"note","params":{n}}}"#);
    let request = |id: u32| {
        format!(r#"{{"id":{id},"method":"m","params":{{"_meta":{{"progressToken":{id}}}}}}}"#)
    };
    // Kept for the first stream that comes.
    conductor.say(client_id, &note(1));
    conductor.say(client_id, &note(2));
    let mut first = client.post(&request(1)).await;
    conductor.line(client_id).await;
    assert_eq!(first.event().await, Some(note(1)));
    assert_eq!(first.event().await, Some(note(2)));
    // Without a GET, the latest POST.
    let mut second = client.post(&request(2)).await;
    conductor.line(client_id).await;
    conductor.say(client_id, &note(3));
    assert_eq!(second.event().await, Some(note(3)));
    // One that takes only its answer gets only that.
    let third = request(3);
    let third = client.send("POST", "Accept: application/json\r\n", &third);
    let play = async {
        conductor.line(client_id).await;
        conductor
            .say(client_id, r#"{"method":"notifications/progress","params":{"progressToken":3}}"#);
        conductor.say(client_id, &note(4));
        conductor.say(client_id, r#"{"id":3,"result":3}"#);
    };
    let (mut third, ()) = tokio::join!(third, play);
    assert_eq!(third.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(third.body().await, r#"{"id":3,"result":3}"#);
    assert_eq!(second.event().await, Some(note(4)));
    // With a GET, that; but progress and answers stay where they belong.
    let mut get = client.send("GET", "Accept: text/event-stream\r\n", "").await;
    assert_eq!(get.status, 200);
    conductor.say(client_id, &note(5));
    let progress = r#"{"method":"notifications/progress","params":{"progressToken":1}}"#;
    conductor.say(client_id, progress);
    conductor.say(client_id, r#"{"id":2,"error":{"code":-32601,"message":""}}"#);
    let sampling = r#"{"id":"s","method":"sampling/createMessage"}"#;
    conductor.say(client_id, sampling);
    assert_eq!(get.event().await, Some(note(5)));
    assert_eq!(first.event().await.as_deref(), Some(progress));
    assert!(second.event().await.unwrap().starts_with(r#"{"id":2,"#));
    assert_eq!(second.event().await, None);
    // A request of the server is most likely about one of the client's.
    assert_eq!(first.event().await.as_deref(), Some(sampling));
    // A second GET takes the place of the first.
    let mut again = client.send("GET", "", "").await;
    assert_eq!(get.event().await, None);
    conductor.say(client_id, &note(6));
    assert_eq!(again.event().await, Some(note(6)));
    // A stream that breaks cancels nothing, and the next one takes its place.
    drop((first, again));
    conductor.say(client_id, &note(7));
    conductor.say(client_id, r#"{"id":1,"result":{}}"#);
    let mut last = client.send("GET", "", "").await;
    conductor.say(client_id, &note(8));
    let seen = last.event().await;
    // Written to a connection that was already closed, perhaps.
    assert!(seen == Some(note(7)) || seen == Some(note(8)));
    conductor.assert_quiet();
}

#[tokio::test]
async fn a_batch_is_taken_apart() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::begin(&mut conductor).await;
    let batch = "[ {\"id\":1,\"method\":\"a\"},\n{\"method\":\"n\"},{\"id\":2,\"method\":\"b\"} ]";
    for (accept, whole) in [("text/event-stream", false), ("application/json", true)] {
        let headers = format!("Accept: {accept}\r\n");
        let play = async {
            assert_eq!(conductor.line(client_id).await, "{\"id\":1,\"method\":\"a\"}");
            assert_eq!(conductor.line(client_id).await, "{\"method\":\"n\"}");
            assert_eq!(conductor.line(client_id).await, "{\"id\":2,\"method\":\"b\"}");
            conductor.say(client_id, "{\"id\":2,\"result\":2}");
            conductor.say(client_id, "{\"id\":1,\"result\":1}");
        };
        let (mut response, ()) = tokio::join!(client.send("POST", &headers, batch), play);
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
    conductor.line(client_id).await;
}

#[tokio::test]
async fn when_the_conductor_ends_a_call_everything_open_is_answered() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::begin(&mut conductor).await;
    let mut get = client.send("GET", "", "").await;
    let mut post = client.post(r#"{"id":1,"method":"m"}"#).await;
    conductor.line(client_id).await;
    conductor.say(client_id, r#"{"method":"last words"}"#);
    conductor.senders.clear();
    conductor.hung_up(client_id).await;
    assert_eq!(get.event().await.as_deref(), Some(r#"{"method":"last words"}"#));
    assert_eq!(get.event().await, None);
    let answer = post.event().await.unwrap();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603"#), "{answer}");
    assert_eq!(post.event().await, None);
    assert_eq!(client.post("{\"method\":\"n\"}").await.status, 404);
    conductor.assert_quiet();
}

#[tokio::test]
async fn a_request_without_a_session_is_a_call_of_its_own() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    for (accept, method, answer, status) in [
        ("*/*", "tools/list", r#"{"id":1,"result":{}}"#, 200),
        ("application/json", "tools/list", r#"{"id":1,"result":{}}"#, 200),
        ("*/*", "tools/list", r#"{"id":1,"error":{"code":-32603,"message":""}}"#, 200),
        ("*/*", "tools/list", r#"{"id":1,"error":{"code":-32601,"message":""}}"#, 404),
        ("*/*", "tools/list", r#"{"id":1,"error":{"code":-32022,"message":""}}"#, 400),
        // This is how a client finds out that it must say `initialize`.
        ("*/*", "server/discover", r#"{"id":1,"error":{"code":-32601,"message":""}}"#, 400),
        (
            "application/json",
            "server/discover",
            r#"{"id":1,"error":{"code":-32601,"message":""}}"#,
            400,
        ),
    ] {
        let body = format!(r#"{{"id":1,"method":"{method}"}}"#);
        let play = async {
            let client_id = conductor.called().await;
            assert_eq!(conductor.line(client_id).await, body);
            conductor.say(client_id, answer);
            conductor.hung_up(client_id).await;
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
        tokio::join!(play, read);
    }
    // What comes before the answer starts the stream; the client leaves before the end.
    let play = async {
        let client_id = conductor.called().await;
        conductor.line(client_id).await;
        conductor.say(client_id, "{\"method\":\"n\"}");
        client_id
    };
    let (client_id, mut response) = tokio::join!(play, client.post("{\"id\":1,\"method\":\"m\"}"));
    assert_eq!(response.event().await.as_deref(), Some("{\"method\":\"n\"}"));
    drop(response);
    conductor.hung_up(client_id).await;
    conductor.assert_quiet();
}

#[tokio::test]
async fn a_client_that_never_hears_of_its_session_has_left() {
    let mut conductor = Conductor::start();
    let client = Client::new(conductor.http());
    // It does not wait for the answer.
    let response = client.post(INITIALIZE).await;
    let client_id = conductor.called().await;
    conductor.line(client_id).await;
    drop(response);
    conductor.hung_up(client_id).await;
    // It is refused.
    let mut response = client.post(INITIALIZE).await;
    let client_id = conductor.called().await;
    conductor.line(client_id).await;
    conductor.say(client_id, r#"{"id":0,"error":{"code":1,"message":""}}"#);
    assert!(response.event().await.is_some());
    conductor.hung_up(client_id).await;
    conductor.assert_quiet();
}

#[tokio::test]
async fn messages_that_nobody_reads_are_kept_up_to_a_limit() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::begin(&mut conductor).await;
    let note = |n: usize| format!(r#"{{"method":"note","params":{n}}}"#);
    for n in 0..1500 {
        conductor.say(client_id, &note(n));
    }
    // The session has heard it all before the client asks.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let mut get = client.send("GET", "", "").await;
    for n in 500..1500 {
        assert_eq!(get.event().await, Some(note(n)));
    }
    // With nothing else open, this is the place for requests, too.
    let sampling = r#"{"id":"s","method":"sampling/createMessage"}"#;
    conductor.say(client_id, sampling);
    assert_eq!(get.event().await.as_deref(), Some(sampling));
}

#[tokio::test]
async fn a_listener_that_closes_lets_calls_end_and_then_ends_all() {
    let mut conductor = Conductor::start();
    let (client, client_id) = Client::begin(&mut conductor).await;
    let mut get = client.send("GET", "", "").await;
    conductor.listeners.revoke(TICKET);
    // What the conductor still says arrives.
    conductor.say(client_id, r#"{"method":"last words"}"#);
    conductor.senders.clear();
    assert_eq!(get.event().await.as_deref(), Some(r#"{"method":"last words"}"#));
    assert_eq!(get.event().await, None);
    conductor.hung_up(client_id).await;
    while TcpStream::connect(&client.authority).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // It opens again for the next ticket.
    let (client, client_id) = Client::begin(&mut conductor).await;
    let mut get = client.send("GET", "", "").await;
    assert!(conductor.listeners.open_endpoint(Transport::Http, Ticket(9)).is_ok());
    drop(conductor.listeners);
    assert_eq!(get.event().await, None);
    assert!(TcpStream::connect(&client.authority).await.is_err());
    assert!(!conductor.senders[&client_id].send("x".into()), "nobody is there to hear it");
}

#[tokio::test]
async fn silent_connections_keep_nobody_from_calling() {
    let mut conductor = Conductor::start();
    let mut silent = Vec::new();
    for _ in 0..5 {
        let address = Client::new(conductor.http()).authority;
        for _ in 0..80 {
            silent.push(TcpStream::connect(&address).await.unwrap());
        }
        // A connection that has sent a part of its request counts as silent, too.
        silent.last_mut().unwrap().write_all(b"POST /mcp/ HTTP/1.1\r\n").await.unwrap();
        Client::begin(&mut conductor).await;
    }
    let mut oldest = silent.swap_remove(0);
    assert_eq!(oldest.read(&mut [0; 8]).await.unwrap_or(0), 0, "the oldest is closed");
}
