//! Addresses on the web, and their patterns in rules.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::permissions::command::words::glob;

/// A pattern of addresses: a host such as `*.example.com`, or an address such as `https://example.com/docs/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UrlPattern {
    scheme: Option<String>,
    host: String,
    path: Option<String>,
}

/// The parts of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    scheme: String,
    host: String,
    path: String,
}

impl UrlPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, and a hint.
    pub(crate) fn parse(text: &str) -> Result<UrlPattern, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_lowercase()), rest),
            None => (None, text),
        };
        let (host, path) = match rest.find('/') {
            Some(slash) => (&rest[..slash], Some(rest[slash..].to_owned())),
            None => (rest, None),
        };
        let plain = |it: char| it.is_ascii_alphanumeric() || "-._*:".contains(it);
        if host.is_empty() || !host.chars().all(plain) {
            return Err(format!(
                "`{text}` is not a host; write it like `example.com`, `*.example.com` or `https://example.com/docs/*`"
            ));
        }
        Ok(UrlPattern { scheme, host: host.to_lowercase(), path })
    }

    /// Whether the pattern contains a part of a host, so that it does not match every text.
    pub(crate) fn names_a_host(&self) -> bool {
        self.host.chars().any(|it| it.is_alphanumeric())
    }

    /// Whether an address matches, for a rule that denies or asks: any reading of it is enough, and a host also stands
    /// for the hosts below it.
    pub(crate) fn wide(&self, url: &str) -> bool {
        readings(url).iter().any(|it| {
            let below =
                without_port(&it.host).strip_suffix(&self.host).is_some_and(|it| it.ends_with('.'));
            (glob(&self.host, &it.host) || glob(&self.host, without_port(&it.host)) || below)
                && self.fits_rest(it)
        })
    }

    /// Whether an address matches, for a rule that allows: it can be read in one way only.
    pub(crate) fn narrow(&self, url: &str) -> bool {
        let Some(address) = plain_address(url) else { return false };
        let host = match self.host.contains(':') {
            true => address.host.as_str(),
            false => without_port(&address.host),
        };
        let dots =
            |path: &str| path.split('/').any(|it| it == ".." || it.to_lowercase().contains("%2e"));
        glob(&self.host, host)
            && self.fits_rest(&address)
            && !(self.path.is_some() && dots(&address.path))
    }

    fn fits_rest(&self, address: &Address) -> bool {
        self.scheme.as_ref().is_none_or(|it| *it == address.scheme)
            && self.path.as_ref().is_none_or(|it| glob(it, &address.path))
    }
}

/// The file that an address with the scheme `file` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalFile {
    /// Its path.
    pub(crate) path: String,
    /// Whether all programs take the address for this file, and for no other one.
    pub(crate) is_clear: bool,
}

/// The file that an address names: `file:///a`, `file:/a`, `FILE://localhost/a`. `None` if it is another address.
pub(crate) fn local_file(url: &str) -> Option<LocalFile> {
    let url: String = url.trim().chars().filter(|it| !it.is_control()).collect();
    let (scheme, rest) = url.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let path = decoded(&rest[..end]).replace('\\', "/");
    let (host, path) = match path.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", path.as_str()),
    };
    let is_here = ["", "localhost", "127.0.0.1"].contains(&host.to_ascii_lowercase().as_str());
    // `curl` makes several addresses of brackets and braces.
    let is_clear = is_here && !rest.contains(['{', '[', '%', '?', '#', '\\']);
    Some(LocalFile { path: format!("/{}", path.trim_start_matches('/')), is_clear })
}

fn without_port(host: &str) -> &str {
    host.split(':').next().unwrap_or_default()
}

/// An address without anything that programs read differently. `None` if there is something.
fn plain_address(url: &str) -> Option<Address> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if !["http", "https"].contains(&scheme.as_str()) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let plain = |it: char| it.is_ascii_alphanumeric() || "-.:".contains(it);
    let odd = |it: char| it.is_control() || it.is_whitespace() || it == '\\';
    if host.is_empty()
        || !host.chars().all(plain)
        || path.contains(odd)
        || host.matches(':').count() > 1
    {
        return None;
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some(Address { scheme, host: host.to_ascii_lowercase(), path })
}

/// All addresses that a program may take a text for.
fn readings(url: &str) -> Vec<Address> {
    let url: String = url.chars().filter(|it| !it.is_control()).map(plain_character).collect();
    let url = url.trim();
    let mut readings = Vec::new();
    // Some programs take a backslash for a slash, and some for a part of the user's name.
    for url in [url.replace('\\', "/"), url.to_owned()] {
        let (scheme, rest) = match url.split_once(':') {
            Some((scheme, rest))
                if scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it)) =>
            {
                (scheme.to_lowercase(), rest.trim_start_matches('/'))
            }
            _ => (String::new(), url.trim_start_matches('/')),
        };
        for rest in [rest, url.as_str()] {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            for authority in [authority.to_owned(), decoded(authority)] {
                for host in authority.split('@') {
                    let host = host.trim_end_matches('.').replace(".:", ":").to_lowercase();
                    let number = number_of(&host).map(|it| it.to_string());
                    for host in std::iter::once(host).chain(number) {
                        let reading = Address { scheme: scheme.clone(), host, path: path.clone() };
                        if !readings.contains(&reading) {
                            readings.push(reading);
                        }
                    }
                }
            }
        }
    }
    readings
}

/// The address of IPv4 that a host stands for: `127.1`, `0x7f000001`, `2130706433`, `0177.0.0.1`, `[::ffff:127.0.0.1]`.
fn number_of(host: &str) -> Option<Ipv4Addr> {
    if let Some(inside) = host.strip_prefix('[') {
        let inside: Ipv6Addr = inside.split(']').next()?.parse().ok()?;
        return inside.to_ipv4();
    }
    let number = |text: &str| match text.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let parts: Vec<u32> = without_port(host).split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|it| *it > 255) {
        return None;
    }
    // The last part stands for all bytes that are left.
    let bits = 8 * (4 - first.len() as u32);
    if u64::from(*last) >= 1_u64 << bits {
        return None;
    }
    let high = first.iter().fold(0_u32, |sum, it| (sum << 8) | it);
    let high = u64::from(high) << bits;
    Some(Ipv4Addr::from(u32::try_from(high).ok()? | last))
}

/// The character that programs take in the place of another one in a host: full-width letters and other dots.
fn plain_character(character: char) -> char {
    match character {
        '\u{3002}' | '\u{ff0e}' | '\u{ff61}' => '.',
        '\u{ff01}'..='\u{ff5e}' => {
            char::from_u32(character as u32 - 0xff01 + 0x21).unwrap_or(character)
        }
        _ => character,
    }
}

/// The text with its percent signs decoded, and with the characters that they stand for made plain.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).chars().map(plain_character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_denies_reads_an_address_in_every_way() {
        let pattern = UrlPattern::parse("evil.com").expect("a pattern");
        for url in [
            "https://evil.com/x",
            "http://EVIL.com",
            "https://a.evil.com:8080/",
            "https://good.com@evil.com/",
            "https:/\\evil.com",
            "https://evil.com.",
            "https:evil.com",
            "evil.com/x",
            "//evil.com",
            " https://evil.com",
            "ht\ntps://evil.com",
            "https://evil.com#@good.com",
            "https://evil.com:443",
            "http:evil.com",
            "https://\u{ff45}vil.com",
            "https://evil\u{3002}com",
            "https://evil%2ecom/x",
            "https://%65vil%E3%80%82com",
            "http://good.com\\@evil.com",
            "git@evil.com:x",
        ] {
            assert!(pattern.wide(url), "{url}");
        }
        assert!(
            !pattern.wide("https://notevil.com/evil.com")
                && !pattern.wide("https://good.com/?evil.com")
        );
    }

    #[test]
    fn an_address_of_ipv4_is_denied_in_every_spelling() {
        let pattern = UrlPattern::parse("127.0.0.1").expect("a pattern");
        for url in [
            "http://127.0.0.1/x",
            "http://127.1",
            "http://127.0.1:80/",
            "http://0x7f000001/",
            "http://0X7F.0.0.1/",
            "http://2130706433",
            "http://0177.0.0.01/x",
            "http://[::ffff:127.0.0.1]/",
            "http://me@127.1/",
            "127.1/x",
        ] {
            assert!(pattern.wide(url), "{url}");
        }
        for url in ["http://127.2", "http://127.0.0.256", "http://1/", "http://0x"] {
            assert!(!pattern.wide(url), "{url}");
        }
    }

    #[test]
    fn an_address_of_a_file_is_its_path_in_every_spelling() {
        for (url, path, is_clear) in [
            ("file:///a/b", "/a/b", true),
            ("file:/a/b", "/a/b", true),
            ("FILE:////a/b", "/a/b", true),
            (" file://localhost/a/b", "/a/b", true),
            ("file://LOCALHOST/a/b", "/a/b", true),
            ("file://127.0.0.1/a/b", "/a/b", true),
            ("fi\nle:///a/b", "/a/b", true),
            ("file:///a/%62", "/a/b", false),
            ("file:///a/b?x#y", "/a/b", false),
            ("file:\\\\\\a\\b", "/a/b", false),
            ("file://other/a/b", "/a/b", false),
            ("file:///a/{b,c}", "/a/{b,c}", false),
        ] {
            let expected = LocalFile { path: path.to_owned(), is_clear };
            assert_eq!(local_file(url), Some(expected), "{url}");
        }
        assert_eq!(local_file("https://file:80/"), None);
    }

    #[test]
    fn a_rule_that_allows_reads_an_address_in_one_way() {
        let pattern = UrlPattern::parse("*.example.com").expect("a pattern");
        assert!(
            pattern.narrow("https://docs.example.com/x?y#z")
                && pattern.narrow("http://a.example.com:8080")
        );
        for url in [
            "https://example.com",
            "https://docs.example.com@evil.com/",
            "https://evil.com\\.example.com/",
            "https://evil.com#.example.com",
            "ftp://docs.example.com",
            "docs.example.com",
            "https://docs.example.com\n",
            "https://evil.com?.example.com",
            "file://docs.example.com/etc/passwd",
            "https://docs.exämple.com",
        ] {
            assert!(!pattern.narrow(url), "{url}");
        }
        let path = UrlPattern::parse("https://example.com/docs/*").expect("a pattern");
        assert!(path.narrow("https://example.com/docs/a"));
        for url in [
            "http://example.com/docs/a",
            "https://example.com/docs/../a",
            "https://example.com/docs/%2E%2e/a",
        ] {
            assert!(!path.narrow(url), "{url}");
        }
        assert!(UrlPattern::parse("http://a b").is_err() && UrlPattern::parse("").is_err());
    }
}
