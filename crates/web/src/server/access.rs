//! Who may do what.
//!
//! - The `Host` of a request must be a name of this server. Otherwise a foreign name that resolves to loopback would let
//!   a web page of that name read everything (DNS rebinding).
//! - The `Origin` of everything that is not a plain GET must be this server, with its port.
//! - The key logs in. The cookie and the token are needed after that.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

/// How many wrong keys are accepted in a minute.
const MAX_FAILURES: usize = 10;
/// The port that an address without a port has.
const HTTP_PORT: u16 = 80;
const MINUTE: Duration = Duration::from_secs(60);
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused.
pub(super) type Refusal = (StatusCode, &'static str);

/// The names and secrets of a server. It has no derived `Debug`, which would show the secrets.
pub(super) struct Access {
    address: SocketAddr,
    hosts: Vec<String>,
    key: String,
    cookie: String,
    token: String,
    /// When wrong keys were sent.
    failures: Mutex<VecDeque<Instant>>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What a page gets when it logs in. Both are secrets.
pub(super) struct LoggedIn {
    pub(super) cookie: String,
    pub(super) token: String,
}

impl Access {
    pub(super) fn new(address: SocketAddr) -> io::Result<Access> {
        let port = address.port();
        let mut hosts = match address.ip() {
            ip if ip.is_loopback() || ip.is_unspecified() => {
                vec![
                    format!("127.0.0.1:{port}"),
                    format!("localhost:{port}"),
                    format!("[::1]:{port}"),
                ]
            }
            IpAddr::V4(ip) => vec![format!("{ip}:{port}")],
            IpAddr::V6(ip) => vec![format!("[{ip}]:{port}")],
        };
        // 127.0.0.2, for example, is loopback, too.
        let own = address.to_string();
        if !address.ip().is_unspecified() && !hosts.contains(&own) {
            hosts.push(own);
        }
        Ok(Access {
            address,
            hosts,
            key: random_text()?,
            cookie: random_text()?,
            token: random_text()?,
            failures: Mutex::default(),
        })
    }

    /// The address of a page. The key is in the fragment, which a browser does not send.
    pub(super) fn url(&self, page: &str) -> String {
        // All addresses of the machine are no address. Its own one works here.
        let host = match self.address.ip().is_unspecified() {
            true => format!("127.0.0.1:{}", self.address.port()),
            false => self.address.to_string(),
        };
        format!("http://{host}/{page}#key={}", self.key)
    }

    /// Checks that a request is for this server, and that no other site has made it.
    pub(super) fn check(&self, headers: &HeaderMap, is_static: bool) -> Result<(), Refusal> {
        if self.host(headers).is_none() {
            let why = "the host name of the request is not one of this server; use the IP address, or localhost";
            return Err((StatusCode::MISDIRECTED_REQUEST, why));
        }
        let site = headers.get(SEC_FETCH_SITE).map(|it| it.as_bytes());
        if !is_static && site.is_some_and(|site| site != b"same-origin") {
            return Err((StatusCode::FORBIDDEN, "another site has made the request"));
        }
        Ok(())
    }

    /// The name by which the request knows this server.
    pub(super) fn host(&self, headers: &HeaderMap) -> Option<String> {
        let mut given = headers.get_all(header::HOST).iter();
        let (host, None) = (given.next()?, given.next()) else { return None };
        let host = host.to_str().ok()?;
        // Browsers leave out the port 80.
        let has_port = host.rsplit(']').next().is_some_and(|it| it.contains(':'));
        let full = match self.address.port() == HTTP_PORT && !has_port {
            true => format!("{host}:{HTTP_PORT}"),
            false => host.to_owned(),
        };
        if self.hosts.contains(&full) {
            return Some(host.to_owned());
        }
        // On all addresses of the machine, any address will do. A name will not: it may be somebody else's.
        let address = full.parse::<SocketAddr>().ok()?;
        let any = self.address.ip().is_unspecified() && address.port() == self.address.port();
        any.then(|| match has_port {
            true => address.to_string(),
            false => host.to_owned(),
        })
    }

    /// Checks that a page of this server has made the request.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let expected = self.host(headers).map(|host| format!("http://{host}"));
        let origin = headers.get(header::ORIGIN).and_then(|it| it.to_str().ok());
        match origin.is_some() && origin == expected.as_deref() {
            true => Ok(()),
            false => Err((StatusCode::FORBIDDEN, "the request is not from a page of this server")),
        }
    }

    pub(super) fn log_in(&self, key: &str) -> Result<LoggedIn, Refusal> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while failures.front().is_some_and(|it| now.duration_since(*it) > MINUTE) {
            failures.pop_front();
        }
        // The right key is never refused: otherwise wrong ones of somebody else would lock the owner out.
        if !constant_time_eq(key.as_bytes(), self.key.as_bytes()) {
            if failures.len() >= MAX_FAILURES {
                let why = "too many wrong keys; wait a minute";
                return Err((StatusCode::TOO_MANY_REQUESTS, why));
            }
            failures.push_back(now);
            let why = "the key is wrong; open the address that conductor has printed";
            return Err((StatusCode::UNAUTHORIZED, why));
        }
        let (name, value) = (self.cookie_name(), &self.cookie);
        Ok(LoggedIn {
            cookie: format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/"),
            token: self.token.clone(),
        })
    }

    /// Cookies are shared by all ports of a host, so the name contains the port.
    fn cookie_name(&self) -> String {
        format!("conductor_{}", self.address.port())
    }

    pub(super) fn check_cookie(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
        match values.any(|it| constant_time_eq(it.as_bytes(), self.cookie.as_bytes())) {
            true => Ok(()),
            false => Err((StatusCode::UNAUTHORIZED, "the page is not logged in")),
        }
    }

    pub(super) fn is_token(&self, token: &str) -> bool {
        constant_time_eq(token.as_bytes(), self.token.as_bytes())
    }
}

/// 256 random bits, in hexadecimal.
pub(super) fn random_text() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in constant time, so that the duration does not reveal where the texts differ.
fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

impl std::fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoggedIn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new("127.0.0.1:4000".parse().expect("an address")).expect("random numbers")
    }

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let pairs = list.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"))
        });
        pairs.collect()
    }

    #[test]
    fn only_names_of_this_server_are_served() {
        let access = access();
        for (host, good) in [
            ("127.0.0.1:4000", true),
            ("localhost:4000", true),
            ("[::1]:4000", true),
            ("127.0.0.1", false),
            ("127.0.0.1:4001", false),
            ("evil.example:4000", false),
            ("localhost.evil.example:4000", false),
        ] {
            let checked = access.check(&headers(&[("host", host)]), true);
            assert_eq!(checked.is_ok(), good, "{host}");
        }
        assert!(access.check(&HeaderMap::new(), true).is_err());
        let site = [("host", "127.0.0.1:4000"), ("sec-fetch-site", "cross-site")];
        assert!(access.check(&headers(&site), true).is_ok());
        assert!(access.check(&headers(&site), false).is_err());
    }

    #[test]
    fn a_server_on_another_loopback_address_is_reached_at_its_own_address() {
        for (address, others) in [("127.0.0.2:4000", true), ("192.168.1.2:4000", false)] {
            let access = Access::new(address.parse().expect("an address")).expect("random numbers");
            assert!(access.check(&headers(&[("host", address)]), true).is_ok(), "{address}");
            assert!(access.url("studio").starts_with(&format!("http://{address}/studio#key=")));
            let local = access.check(&headers(&[("host", "localhost:4000")]), true);
            assert_eq!(local.is_ok(), others, "{address}");
        }
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_by_each_of_them_but_not_by_a_name() {
        let address = "0.0.0.0:4000".parse().expect("an address");
        let access = Access::new(address).expect("random numbers");
        for (host, good) in [
            ("192.168.1.2:4000", true),
            ("[fe80::1]:4000", true),
            ("localhost:4000", true),
            ("192.168.1.2:4001", false),
            ("evil.example:4000", false),
        ] {
            let list = [("host", host), ("origin", &format!("http://{host}"))];
            assert_eq!(access.check(&headers(&list), false).is_ok(), good, "{host}");
            assert_eq!(access.check_origin(&headers(&list)).is_ok(), good, "{host}");
        }
        assert!(access.url("studio").starts_with("http://127.0.0.1:4000/studio#key="));
    }

    #[test]
    fn an_origin_has_the_same_name_and_port() {
        let access = access();
        for (origin, good) in [
            (Some("http://127.0.0.1:4000"), true),
            (Some("http://localhost:4000"), false),
            (Some("http://127.0.0.1:4001"), false),
            (Some("https://127.0.0.1:4000"), false),
            (Some("null"), false),
            (None, false),
        ] {
            let mut list = vec![("host", "127.0.0.1:4000")];
            list.extend(origin.map(|it| ("origin", it)));
            assert_eq!(access.check_origin(&headers(&list)).is_ok(), good, "{origin:?}");
        }
    }

    #[test]
    fn the_port_80_may_be_left_out() {
        for (listen, host, good) in [
            ("127.0.0.1:80", "127.0.0.1", true),
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "localhost", true),
            ("127.0.0.1:80", "[::1]", true),
            ("127.0.0.1:80", "[::1]:80", true),
            ("127.0.0.1:80", "192.168.1.2", false),
            ("127.0.0.1:80", "127.0.0.1:8080", false),
            ("127.0.0.1:80", "evil.example", false),
            ("192.168.1.2:80", "192.168.1.2", true),
            ("0.0.0.0:80", "192.168.1.2", true),
            ("0.0.0.0:80", "[fe80::1]", true),
            ("0.0.0.0:80", "evil.example", false),
            ("0.0.0.0:4000", "192.168.1.2", false),
        ] {
            let access = Access::new(listen.parse().expect("an address")).expect("random numbers");
            let list = [("host", host), ("origin", &format!("http://{host}"))];
            assert_eq!(access.check(&headers(&list), false).is_ok(), good, "{listen}: {host}");
            assert_eq!(access.check_origin(&headers(&list)).is_ok(), good, "{listen}: {host}");
            let other = [("host", host), ("origin", "http://evil.example")];
            assert!(access.check_origin(&headers(&other)).is_err() || host == "evil.example");
        }
    }

    #[test]
    fn wrong_keys_are_limited_and_cookies_are_compared_whole() {
        let access = access();
        let login = access.log_in(&access.key).expect("the key is right");
        let pair = login.cookie.split(';').next().expect("a pair").to_owned();
        let good = headers(&[("cookie", &format!("a=b; {pair}"))]);
        assert!(access.check_cookie(&good).is_ok());
        let wrong = headers(&[("cookie", &pair[..pair.len() - 1])]);
        assert!(access.check_cookie(&wrong).is_err());
        for _ in 0..MAX_FAILURES {
            assert_eq!(access.log_in("wrong").err().map(|it| it.0), Some(StatusCode::UNAUTHORIZED));
        }
        let refused = access.log_in("wrong").err().map(|it| it.0);
        assert_eq!(refused, Some(StatusCode::TOO_MANY_REQUESTS));
        assert!(access.log_in(&access.key).is_ok(), "the owner is not locked out");
        assert!(!format!("{access:?}").contains(&access.key));
    }
}
