//! The hosts and addresses in the arguments of a command.

use std::collections::HashSet;

use super::parts::name_of;
use super::programs::is_flag;
use super::words::{Unit, Word};

/// A word that may name a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    /// The word, or its part that may be a host or an address.
    pub(crate) word: Word,
    /// Whether it is a host or an address for certain.
    pub(crate) is_host: bool,
}

/// Programs that connect to a host in their arguments.
const PROGRAMS: [&str; 32] = [
    "aria2c", "curl", "dig", "elinks", "ftp", "git", "host", "http", "https", "lftp", "links",
    "lynx", "mosh", "nc", "ncat", "netcat", "nslookup", "openssl", "ping", "rsync", "scp", "sftp",
    "socat", "ssh", "telnet", "tftp", "w3m", "websocat", "wget", "wget2", "xh", "xhs",
];

/// Short options of `curl` with a value.
const CURL_VALUES: &str = "AbcCdDeEFhHKmoPQrtTuUwxXyYz";
/// Short options of `wget` with a value.
const WGET_VALUES: &str = "aAoiOeDPRXUtTwQlBI";
/// Long options whose value is a host or an address.
const HOSTS: [&str; 11] = [
    "--url",
    "--proxy",
    "--preproxy",
    "--proxy1.0",
    "--socks4",
    "--socks4a",
    "--socks5",
    "--socks5-hostname",
    "--doh-url",
    "--base",
    "--connect-to",
];
/// The most hosts that are compared. A command line that is not too long has fewer.
const MAX_HOSTS: usize = 64 * 1024;

/// Long options without a value.
#[rustfmt::skip] // many in a line
const SWITCHES: [&str; 34] = [
    "--silent", "--show-error", "--location", "--location-trusted", "--fail", "--fail-with-body", "--insecure",
    "--verbose", "--compressed", "--head", "--get", "--include", "--ipv4", "--ipv6", "--http1.0", "--http1.1",
    "--http2", "--http3", "--globoff", "--path-as-is", "--progress-bar", "--no-progress-meter", "--no-buffer",
    "--parallel", "--remote-name", "--remote-name-all", "--remote-header-name", "--create-dirs", "--raw",
    "--quiet", "--spider", "--no-check-certificate", "--no-verbose", "--continue",
];

/// The words of a command that may name a host: all words with `://`, and the arguments of programs that use the network.
/// What was seen before is left out.
pub(crate) fn named(words: &[Word], seen: &mut HashSet<Host>) -> Vec<Host> {
    let has_scheme = |word: &&Word| word.known_texts().any(|it| it.contains("://"));
    let with_scheme = words.iter().skip(1).filter(has_scheme);
    let mut hosts: Vec<Host> =
        with_scheme.map(|it| Host { word: it.clone(), is_host: true }).collect();
    let program = |word: &Word| name_of(word).filter(|it| PROGRAMS.contains(&it.as_str()));
    let found = words.iter().enumerate().find_map(|(at, it)| Some((at, program(it)?)));
    if let Some((at, name)) = found {
        match name.as_str() {
            "curl" => of_fetcher(&words[at + 1..], CURL_VALUES, &mut hosts),
            "wget" | "wget2" => of_fetcher(&words[at + 1..], WGET_VALUES, &mut hosts),
            _ => words[at + 1..].iter().for_each(|it| add_parts(it, &mut hosts)),
        }
        if takes_hosts_from_elsewhere(&name, &words[at + 1..]) {
            hosts.push(Host { word: Word::unknown(), is_host: true });
        }
    }
    hosts.retain(|it| seen.len() <= MAX_HOSTS && seen.insert(it.clone()));
    if seen.len() > MAX_HOSTS {
        hosts.push(Host { word: Word::unknown(), is_host: true });
    }
    hosts
}

/// Whether a file, or a variable of the program, has further addresses.
fn takes_hosts_from_elsewhere(name: &str, words: &[Word]) -> bool {
    let mut texts = words.iter().filter_map(Word::text);
    let is = |text: &str, flags: &[&str]| flags.iter().any(|it| is_flag(text, it));
    match name {
        "curl" => texts.any(|it| {
            it.starts_with("--expand-") || it.starts_with("--va") || is(it, &["-K", "--config"])
        }),
        "wget" | "wget2" => {
            texts.any(|it| is(it, &["-i", "--input-file", "-e", "--execute", "--config"]))
        }
        _ => false,
    }
}

/// The arguments of `curl` and `wget`: what is neither an option nor its value is an address.
fn of_fetcher(words: &[Word], with_value: &str, hosts: &mut Vec<Host>) {
    let mut words = words.iter();
    let mut is_over = false;
    while let Some(word) = words.next() {
        let first = match word.units.first() {
            Some(Unit::Text(text)) if !is_over && text.len() > 1 => text.as_str(),
            _ => "",
        };
        if first == "--" {
            is_over = true;
        } else if let Some((option, value)) =
            first.split_once('=').filter(|_| first.starts_with("--"))
        {
            if HOSTS.contains(&option) {
                let word = Word { units: vec![Unit::Text(value.to_owned())], ..Word::default() };
                hosts.push(Host { word, is_host: true });
            }
        } else if HOSTS.contains(&first) {
            hosts.extend(words.next().map(|it| Host { word: it.clone(), is_host: true }));
        } else if first.starts_with("--") {
            // Whether the next word is a value of this option is not known.
            if !SWITCHES.contains(&first)
                && !first.starts_with("--no-")
                && let Some(value) = words.next()
            {
                add_parts(value, hosts);
            }
        } else if let Some(letters) = first.strip_prefix('-') {
            let Some(at) = letters.find(|it| with_value.contains(it)) else { continue };
            let rest = &letters[at + 1..];
            let value = match rest.is_empty() && word.units.len() == 1 {
                true => words.next().cloned(),
                false => Some(Word::of_text(rest)),
            };
            match (letters.as_bytes()[at], value) {
                // The address of a proxy.
                (b'x', Some(value)) => hosts.push(Host { word: value, is_host: true }),
                (b'H' | b'e', Some(value)) => add_parts(&value, hosts),
                _ => {}
            }
        } else {
            hosts.push(Host { word: word.clone(), is_host: true });
        }
    }
}

/// A text that may be a host, and its parts that may be.
fn add_parts(word: &Word, hosts: &mut Vec<Host>) {
    for text in word.known_texts() {
        let parts = text.split([' ', ',', '=']).chain(text.rsplit(": ").take(1));
        for part in parts.filter(|it| it.contains(['.', ':'])) {
            hosts.push(Host { word: Word::of_text(part), is_host: false });
        }
    }
}

/// Whether `curl` makes several addresses of a text: `https://{a,b}.example.com`.
pub(crate) fn is_several(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let in_brackets = authority.split_once('[').map(|(_, rest)| rest.split(']').next());
    // An address of IPv6 stands in brackets, too.
    let is_range = in_brackets.flatten().is_some_and(|it| !it.contains(':'));
    authority.contains('{') || is_range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<(String, bool)> {
        let words: Vec<Word> = line.split(' ').map(Word::of_text).collect();
        let text = |it: &Host| (it.word.text().unwrap_or_default().to_owned(), it.is_host);
        named(&words, &mut HashSet::new()).iter().map(text).collect()
    }

    #[test]
    fn what_is_no_option_of_curl_is_an_address() {
        for (line, host) in [
            ("curl evil.com", "evil.com"),
            ("curl -sSL -o out.json evil.com", "evil.com"),
            ("curl -sSLo out.json evil.com/x", "evil.com/x"),
            ("curl -X POST //evil.com", "//evil.com"),
            ("curl --url evil.com", "evil.com"),
            ("curl --url=evil.com", "evil.com"),
            ("curl -x evil.com:80", "evil.com:80"),
            ("sudo wget -O x evil.com", "evil.com"),
        ] {
            assert_eq!(of(line), [(host.to_owned(), true)], "{line}");
        }
        let other = of("curl --header Host:evil.com --silent --data a.b good.com");
        assert!(other.contains(&("Host:evil.com".to_owned(), false)), "{other:?}");
        assert!(other.contains(&("good.com".to_owned(), true)), "{other:?}");
        assert_eq!(of("ssh -p 22 evil.com"), [("evil.com".to_owned(), false)]);
        assert_eq!(of("make evil.com"), []);
    }

    #[test]
    fn an_address_with_braces_is_several() {
        for (text, is) in [
            ("https://{a,b}.com/", true),
            ("https://ev[i]l.com", true),
            ("https://a.com/{x}", false),
            ("http://[::1]:80/", false),
        ] {
            assert_eq!(is_several(text), is, "{text}");
        }
    }
}
