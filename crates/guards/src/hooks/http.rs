//! Runs a hook of type `http`: sends its input to a server and reads the answer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::process::MAX_OUTPUT;
use super::reply::{Ending, HookOutput};

/// Reads the address of a hook. Only loopback addresses and the hosts that the user allows are accepted.
pub(crate) fn parse_url(text: &str, allowed: &[String]) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|error| format!("the url {text} is invalid: {error}"))?;
    match (url.scheme_str(), url.host()) {
        (Some("http"), Some(host)) if is_loopback(host) || is_allowed(&url, host, allowed) => {
            Ok(url)
        }
        (Some("http"), Some(host)) => Err(format!(
            "the host {host} is not this machine; use a loopback address, or allow the host with --allow-http {host}"
        )),
        (Some("https"), _) => Err(format!(
            "the url {text} uses https, which is not supported; use http on a loopback address, or a command hook that calls curl"
        )),
        _ => {
            Err(format!("the url {text} is not an http address; write http://127.0.0.1:PORT/PATH"))
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
}

fn is_allowed(url: &Uri, host: &str, allowed: &[String]) -> bool {
    let with_port = format!("{host}:{}", url.port_u16().unwrap_or(80));
    allowed.iter().any(|it| it.eq_ignore_ascii_case(host) || it.eq_ignore_ascii_case(&with_port))
}

/// Sends the input and reads the answer within this time. An answer with status 2xx counts as exit status 0, and its
/// body as standard output. Everything else is a failure.
pub(crate) async fn run(
    url: &Uri,
    headers: &BTreeMap<String, String>,
    allowed_variables: &[String],
    input: Vec<u8>,
    time: Duration,
) -> HookOutput {
    let result = tokio::time::timeout(time, exchange(url, headers, allowed_variables, input)).await;
    let (ending, stdout) = match result {
        Ok(Ok(body)) => (Ending::Status(0), body),
        Ok(Err(why)) => (Ending::Failed(why), String::new()),
        Err(_) => (Ending::TimedOut, String::new()),
    };
    HookOutput { ending, stdout, stderr: String::new() }
}

async fn exchange(
    url: &Uri,
    headers: &BTreeMap<String, String>,
    allowed_variables: &[String],
    input: Vec<u8>,
) -> Result<String, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let stream = connect(url).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed("it cannot connect", &error))?;
    let path = url.path_and_query().map_or("/", |it| it.as_str());
    let mut request = Request::post(path)
        .header("host", url.authority().map_or("", |it| it.as_str()))
        .header("content-type", "application/json")
        .header("content-length", input.len());
    for (name, value) in headers {
        request = request.header(name, with_variables(value, allowed_variables));
    }
    let request = request
        .body(WholeBody(Some(Bytes::from(input))))
        .map_err(|error| failed("its headers are invalid", &error))?;
    let answer = async {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| failed("it did not answer", &error))?;
        let status = answer.status();
        let body = read(answer.into_body()).await?;
        match status.is_success() {
            true => Ok(body),
            false => Err(format!("it answered with status {}", status.as_u16())),
        }
    };
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    let mut is_open = true;
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            // The connection may end before the answer is read. The answer knows how that is meant.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

async fn connect(url: &Uri) -> Result<TcpStream, String> {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let addresses = tokio::net::lookup_host((host, url.port_u16().unwrap_or(80))).await;
    let addresses = addresses.map_err(|error| format!("it cannot find {host}: {error}"))?;
    let only_loopback = is_loopback(host);
    let mut last = format!("{host} is not a loopback address");
    for address in addresses.filter(|it| !only_loopback || it.ip().is_loopback()) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("it cannot connect to {address}: {error}"),
        }
    }
    Err(last)
}

/// Replaces `$NAME` and `${NAME}` by environment variables, if they are allowed. Others become empty.
fn with_variables(text: &str, allowed: &[String]) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let (name, after) = match after.strip_prefix('{').and_then(|it| it.split_once('}')) {
            Some(found) => found,
            None => {
                let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
                let end = after.find(|it| !is_name(it)).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            result.push('$');
        } else if allowed.iter().any(|it| it == name) {
            result.push_str(&std::env::var(name).unwrap_or_default());
        }
        rest = after;
    }
    result.push_str(rest);
    result
}

async fn read(mut body: Incoming) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| format!("its answer is incomplete: {error}"))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > MAX_OUTPUT {
                return Err("its answer is longer than 1 MiB".to_owned());
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A body that is sent in one piece.
struct WholeBody(Option<Bytes>);

impl Body for WholeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_and_allowed_hosts_are_accepted() {
        for url in [
            "http://127.0.0.1:8080/x",
            "http://localhost/x",
            "http://[::1]:1/x",
            "http://127.9.9.9",
        ] {
            assert!(parse_url(url, &[]).is_ok(), "{url}");
        }
        for url in [
            "https://127.0.0.1/x",
            "http://example.com/x",
            "http://localhost.example.com/",
            "http://127.0.0.1.example.com/",
            "http://127.0.0.1@example.com/",
            "ftp://127.0.0.1/",
            "/path",
            "",
        ] {
            assert!(parse_url(url, &[]).is_err(), "{url}");
        }
        let allowed = ["example.com".to_owned(), "other.example:81".to_owned()];
        assert!(parse_url("http://example.com:9/x", &allowed).is_ok());
        assert!(parse_url("http://other.example:81/x", &allowed).is_ok());
        assert!(parse_url("http://other.example:82/x", &allowed).is_err());
    }

    #[test]
    fn headers_contain_only_variables_that_are_allowed() {
        let path = std::env::var("PATH").unwrap();
        let allowed = ["PATH".to_owned()];
        assert_eq!(with_variables("a $PATH b", &allowed), format!("a {path} b"));
        assert_eq!(with_variables("${PATH}${HOME}$HOME.", &allowed), format!("{path}."));
        assert_eq!(with_variables("5 $ and $", &allowed), "5 $ and $");
    }
}
