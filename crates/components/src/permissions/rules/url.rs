//! Addresses on the web, and their patterns in rules.

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
                    let reading = Address { scheme: scheme.clone(), host, path: path.clone() };
                    if !readings.contains(&reading) {
                        readings.push(reading);
                    }
                }
            }
        }
    }
    readings
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
