//! Finds out whether an agent has refused a session because of its MCP servers.
//!
//! JSON-RPC has no error code for this, so the bridge examines the text of the error. Only an error that
//! clearly mentions MCP servers or their transport leads to another attempt. A single word such as
//! `transport` or `sse` is not enough, because agents also connect to their models over transports.

use acp_wire::{Outcome, code};

use crate::endpoint::Transport;

/// Words that only an error about MCP servers contains.
const SERVER_WORDS: [&str; 7] =
    ["mcpservers", "mcpserver", "mcp_servers", "mcp_server", "mcp-servers", "mcp-server", "mcps"];

/// Transports of MCP servers. They count only near one of the words below.
const TRANSPORTS: [&str; 6] = ["transport", "transports", "stdio", "sse", "http", "streamable"];

/// Words near a transport that relate it to a server, or say that the agent does not support it.
const NEAR_TRANSPORTS: [&str; 8] = [
    "server",
    "servers",
    "unsupported",
    "unknown",
    "variant",
    "supported",
    "disabled",
    "implemented",
];

/// The largest distance in words that counts as near.
const NEAR_DISTANCE: usize = 4;

/// Words of errors that another transport does not fix, whatever else the error says.
const OTHER_CAUSES: [&str; 14] = [
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

/// Phrases of errors that another transport does not fix.
const OTHER_CAUSE_PHRASES: [&str; 4] =
    ["working directory", "api key", "log in", "additionaldirectories"];

/// Whether an error is about the MCP servers that the agent was given over this transport. `names`
/// are the names of the servers.
pub(super) fn is_about_servers(outcome: &Outcome, transport: Transport, names: &[String]) -> bool {
    let Outcome::Error(error) = outcome else { return false };
    let member = |key: &str| error.member(key).map(|it| it.as_str().to_lowercase());
    let text = [member("message"), member("data")].map(Option::unwrap_or_default).join(" ");
    let text = text.replace("\\\"", "\"");
    let has_other = |word: &str| OTHER_CAUSES.contains(&word);
    let mut plain_words = text.split(|it: char| !it.is_alphanumeric());
    if plain_words.any(has_other) || OTHER_CAUSE_PHRASES.iter().any(|it| text.contains(it)) {
        return false;
    }
    let words = words(&text);
    let names_servers = words.iter().any(|word| SERVER_WORDS.contains(word));
    match outcome.error_code() {
        Some(code::INVALID_PARAMS) => {
            names_servers
                || words.contains(&"mcp")
                || mentions_transport(&words, transport)
                || names_a_server(&words, &text, names)
        }
        // An internal error can have any cause, so it has to mention the servers themselves.
        Some(code::INTERNAL_ERROR) => {
            let together = |pair: &[&str]| pair[0] == "mcp" && pair[1].starts_with("server");
            names_servers || words.windows(2).any(together) || names_a_server(&words, &text, names)
        }
        _ => false,
    }
}

/// The words of a text, except those in paths and URLs.
fn words(text: &str) -> Vec<&str> {
    let is_path = |token: &&str| token.contains(['/', '\\']);
    let ends_token = |it: char| it.is_whitespace() || "\"'`()[]{},;<>".contains(it);
    let ends_word = |it: char| !it.is_alphanumeric() && it != '-' && it != '_';
    let tokens = text.split(ends_token).filter(|token| !is_path(token));
    tokens.flat_map(|token| token.split(ends_word)).filter(|word| !word.is_empty()).collect()
}

/// Whether the text mentions the transport of MCP servers. The word `http`
/// counts only if the servers were declared over HTTP, and not in the report of an HTTP status.
fn mentions_transport(words: &[&str], transport: Transport) -> bool {
    let is_transport = |index: usize, word: &str| {
        let next = words.get(index + 1).copied().unwrap_or_default();
        let is_status = next.starts_with(|it: char| it.is_ascii_digit())
            || ["status", "error", "code", "request", "response"].contains(&next);
        TRANSPORTS.contains(&word) && (word != "http" || transport == Transport::Http && !is_status)
    };
    let mut transports = words.iter().enumerate().filter(|(index, it)| is_transport(*index, it));
    transports.any(|(index, _)| {
        let near =
            &words[index.saturating_sub(NEAR_DISTANCE)..words.len().min(index + NEAR_DISTANCE + 1)];
        near.iter().any(|word| NEAR_TRANSPORTS.contains(word))
    })
}

/// Whether the text names a server, in quotes or next to the word "server": `server tools`, `tools
/// server`.
fn names_a_server(words: &[&str], text: &str, names: &[String]) -> bool {
    names.iter().map(|name| name.to_lowercase()).filter(|name| !name.is_empty()).any(|name| {
        let quotes = ["'", "\"", "`"];
        let quoted = quotes.iter().any(|it| text.contains(&format!("{it}{name}{it}")));
        let beside = |pair: &[&str]| {
            pair[0] == "server" && pair[1] == name || pair[0] == name && pair[1] == "server"
        };
        quoted || words.windows(2).any(beside)
    })
}

#[cfg(test)]
mod tests {
    use acp_wire::Json;

    use super::*;

    fn error(code: i64, message: &str, data: &str) -> Outcome {
        let data = (!data.is_empty()).then(|| Json::trusted(data.to_owned()));
        Outcome::Error(acp_wire::message::error_object(code, message, data.as_ref()))
    }

    fn is_about(code: i64, transport: Transport, message: &str, data: &str) -> bool {
        let names = ["tools".to_owned(), "cwd".to_owned()];
        is_about_servers(&error(code, message, data), transport, &names)
    }

    #[test]
    fn errors_about_mcp_servers_are_recognized() {
        for (message, data, internal) in [
            ("Unsupported MCP transport", "", false),
            ("stdio MCP servers are not supported", "", true),
            ("Invalid params", r#"{"mcpServers":{"_errors":["Invalid input"]}}"#, true),
            ("mcpServers[0].type: Invalid literal value", "", true),
            ("MCP server configuration is invalid", "", true),
            ("no MCP", "", false),
            ("unknown transport", "", false),
            ("http is not supported", "", false),
            ("servers over http are disabled", "", false),
            ("transport type 'sse' unsupported", "", false),
            // Four words apart, in either order.
            ("transport type given is unsupported", "", false),
            ("unsupported is the given transport", "", false),
            ("could not start 'tools'", "", true),
            (r#"could not start "tools""#, "", true),
            ("server tools failed", "", true),
            ("Invalid params", r#""unknown variant `http`, expected stdio""#, false),
        ] {
            assert!(is_about(-32602, Transport::Http, message, data), "{message}");
            assert_eq!(is_about(-32603, Transport::Http, message, data), internal, "{message}");
            assert!(!is_about(-32000, Transport::Http, message, data), "{message}");
        }
    }

    #[test]
    fn errors_with_other_causes_are_not_about_mcp_servers() {
        for (message, data) in [
            ("cwd does not exist", ""),
            ("Invalid params", r#"{"cwd":{"_errors":["must be absolute"]}}"#),
            ("working directory not found", r#"{"params":{"mcpServers":[]}}"#),
            ("HTTP 500 from the model", ""),
            ("http error", ""),
            ("see https://example.com/help", ""),
            ("see http://example.com/help", ""),
            ("tools are out of order", ""),
            ("server toolset failed", ""),
            ("MCP server needs authentication", ""),
            ("transport error: connection refused (api.example.com)", ""),
            ("the model's SSE stream broke", ""),
            // Five words apart.
            ("transport type given here is unsupported", ""),
            ("unsupported as of now the transport", ""),
            ("EPIPE: stdio closed while spawning git", ""),
            ("directory /srv/mcp/project does not exist", ""),
            (r"directory C:\srv\mcp does not exist", ""),
            ("directory not found", r#"{"path":"/home/u/mcp-server/x"}"#),
            ("the project my-mcp-thing is locked", ""),
            ("no", ""),
            ("", ""),
            ("Internal error", r#"{"details":"session limit reached"}"#),
        ] {
            for code in [-32602, -32603, -32000, -32002, 7] {
                for transport in [Transport::Http, Transport::Stdio] {
                    assert!(!is_about(code, transport, message, data), "{code} {message} {data}");
                }
            }
        }
    }
}
