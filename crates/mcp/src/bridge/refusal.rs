//! Why an agent refuses to set up a session: because of the MCP servers in it, or for another reason?
//!
//! JSON-RPC has no code for this, so the words of the error have to tell. Only an error that clearly
//! speaks of MCP servers or of their transport leads to another try.

use wire::{Outcome, code};

use crate::ports::Kind;

/// Words that only an error about MCP servers has.
const ABOUT_SERVERS: [&str; 6] = ["mcp", "mcpservers", "mcpserver", "stdio", "sse", "transport"];

/// Words of errors that another transport does not mend, whatever else they say.
const ABOUT_OTHERS: [&str; 14] = [
    "cwd",
    "workdir",
    "folder",
    "auth",
    "authenticate",
    "authentication",
    "unauthorized",
    "login",
    "logged",
    "credentials",
    "apikey",
    "quota",
    "billing",
    "sandbox",
];

/// Phrases of the same kind.
const PHRASES_ABOUT_OTHERS: [&str; 4] =
    ["working directory", "api key", "log in", "additionaldirectories"];

/// Whether an agent's refusal is about the MCP servers that it was given over this kind of transport.
/// `names`: how they are called.
pub fn is_about_servers(outcome: &Outcome, kind: Kind, names: &[String]) -> bool {
    let Outcome::Error(error) = outcome else { return false };
    let codes = [Some(code::INVALID_PARAMS), Some(code::INTERNAL_ERROR)];
    if !codes.contains(&outcome.error_code()) {
        return false;
    }
    let text = |key: &str| error.member(key).map(|it| it.as_str().to_lowercase());
    let said = [text("message"), text("data")].map(Option::unwrap_or_default).join(" ");
    let words: Vec<&str> = said.split(|it: char| !it.is_alphanumeric()).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    if has(&ABOUT_OTHERS) || PHRASES_ABOUT_OTHERS.iter().any(|it| said.contains(it)) {
        return false;
    }
    has(&ABOUT_SERVERS)
        || kind == Kind::Http && speaks_of_http(&said)
        || names_a_server(&said, names)
}

/// Whether `http` is meant as a transport, and not as part of a URL or of a status.
fn speaks_of_http(said: &str) -> bool {
    let ends = |at: usize| {
        let rest = &said[at + "http".len()..];
        let next = rest.trim_start_matches([' ', '"', '\'', '`', '\\']).chars().next();
        !rest.starts_with(|it: char| it.is_alphanumeric() || it == ':' || it == '/')
            && !next.is_some_and(|it| it.is_ascii_digit())
            && !["status", "error", "code", "request", "response"]
                .iter()
                .any(|word| rest.trim_start().starts_with(word))
    };
    let begins = |at: usize| !said[..at].ends_with(char::is_alphanumeric);
    said.match_indices("http").any(|(at, _)| begins(at) && ends(at))
}

/// Whether a server is named, in quotes or as a server: `server tools`, `tools server`.
fn names_a_server(said: &str, names: &[String]) -> bool {
    names.iter().map(|name| name.to_lowercase()).any(|name| {
        let quotes = ["'", "\"", "`", "\\\""];
        let quoted = quotes.iter().any(|it| said.contains(&format!("{it}{name}{it}")));
        let server =
            said.contains(&format!("server {name}")) || said.contains(&format!("{name} server"));
        !name.is_empty() && (quoted || server)
    })
}

#[cfg(test)]
mod tests {
    use wire::Json;

    use super::*;

    fn error(code: i64, message: &str, data: &str) -> Outcome {
        let data = (!data.is_empty()).then(|| Json::trusted(data.to_owned()));
        Outcome::Error(wire::message::error_object(code, message, data.as_ref()))
    }

    #[test]
    fn only_what_is_about_the_servers_is() {
        let names = ["tools".to_owned(), "cwd".to_owned()];
        for (message, data) in [
            ("Unsupported MCP transport", ""),
            ("stdio MCP servers are not supported", ""),
            ("Invalid params", r#"{"mcpServers":{"_errors":["Invalid input"]}}"#),
            ("no http", ""),
            ("servers over http are disabled", ""),
            ("could not start 'tools'", ""),
            ("server tools failed", ""),
            ("Invalid params", r#""unknown variant `http`, expected stdio""#),
        ] {
            assert!(
                is_about_servers(&error(-32602, message, data), Kind::Http, &names),
                "{message}"
            );
            assert!(
                is_about_servers(&error(-32603, message, data), Kind::Http, &names),
                "{message}"
            );
            let login = error(-32000, message, data);
            assert!(!is_about_servers(&login, Kind::Http, &names), "{message}");
        }
        for (message, data) in [
            ("cwd does not exist", ""),
            ("Invalid params", r#"{"cwd":{"_errors":["must be absolute"]}}"#),
            ("working directory not found", r#"{"params":{"mcpServers":[]}}"#),
            ("HTTP 500 from the model", ""),
            ("http error", ""),
            ("see https://example.com/help", ""),
            ("see http://example.com/help", ""),
            ("tools are out of order", ""),
            ("MCP server needs authentication", ""),
            ("no", ""),
            ("", ""),
            ("Internal error", r#"{"details":"session limit reached"}"#),
        ] {
            for code in [-32602, -32603, -32000, -32002, 7] {
                let refusal = error(code, message, data);
                assert!(!is_about_servers(&refusal, Kind::Http, &names), "{code} {message} {data}");
            }
        }
    }
}
