//! Hides secrets in payloads and texts.
//!
//! A value is secret if its name says so (`env`, `headers`, `apiKey`, `GITHUB_TOKEN`, `--password`), or if it has the
//! shape of a well-known kind of secret. Everything else keeps its text: numbers, the order of members, spaces.

use std::borrow::Cow;

use acp_wire::Json;
use secrets::{Secrets, has_secret_values, is_secret_name};
use serde_json::Value;

/// The replacement for a secret.
const HIDDEN: &str = "…";

/// The maximum nesting depth in which secrets are searched. Deeper values are hidden.
const MAX_DEPTH: usize = 64;

/// What is hidden in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hide {
    /// Whatever looks like a secret.
    Secrets,
    /// All texts and numbers: the value of a secret name.
    All,
    /// All values of variables or headers, which are an array of names and values, or an object.
    Variables,
}

/// The text of a payload, with `…` in place of secrets.
pub fn without_secrets(json: &Json) -> String {
    rewritten(json, Hide::Secrets, MAX_DEPTH).unwrap_or_else(|| json.as_str().to_owned())
}

/// Hides the secrets in a value.
pub fn hide_secrets(value: &mut Value) {
    let json = Json::trusted(value.to_string());
    if let Some(text) = rewritten(&json, Hide::Secrets, MAX_DEPTH) {
        *value = serde_json::from_str(&text).unwrap_or_default();
    }
}

/// A value with its secrets hidden. `None` if there are none.
fn rewritten(json: &Json, hide: Hide, depth: usize) -> Option<String> {
    if json.is_object() {
        let Some(depth) = depth.checked_sub(1) else { return Some(hidden()) };
        return rewritten_object(json, hide, depth);
    }
    if json.is_array() {
        let Some(depth) = depth.checked_sub(1) else { return Some(hidden()) };
        return rewritten_array(json, hide, depth);
    }
    match (json.text(), hide) {
        (Some(text), Hide::All | Hide::Variables) => (!text.is_empty()).then(hidden),
        (Some(text), Hide::Secrets) => match text_without_secrets(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(Json::string(&text).as_str().to_owned()),
        },
        // Numbers. Words such as `true` are no secrets.
        (None, Hide::All | Hide::Variables) => {
            json.as_str().starts_with(|it: char| it.is_ascii_digit() || it == '-').then(hidden)
        }
        (None, Hide::Secrets) => None,
    }
}

fn hidden() -> String {
    format!("\"{HIDDEN}\"")
}

fn rewritten_object(json: &Json, hide: Hide, depth: usize) -> Option<String> {
    let members = json.members();
    // An entry such as {"name": "API_KEY", "value": "…"}.
    let is_secret_entry = members.iter().any(|(name, value)| {
        ["name", "key", "id"].contains(&name.as_str())
            && value.text().is_some_and(|it| is_secret_name(&it))
    });
    let is_entry = hide == Hide::Variables && members.iter().any(|(name, _)| name == "value");
    let mut changed = false;
    let parts: Vec<String> = members
        .iter()
        .map(|(name, value)| {
            let hide = match hide {
                Hide::Variables if is_entry && name == "name" => Hide::Secrets,
                Hide::All | Hide::Variables => Hide::All,
                Hide::Secrets if is_secret_entry && name == "value" => Hide::All,
                Hide::Secrets if has_secret_values(name) => Hide::Variables,
                Hide::Secrets if is_secret_name(name) && !is_count(name, value) => Hide::All,
                Hide::Secrets => Hide::Secrets,
            };
            let rewritten = rewritten(value, hide, depth);
            changed |= rewritten.is_some();
            let value = rewritten.unwrap_or_else(|| value.as_str().to_owned());
            format!("{}:{value}", Json::string(name).as_str())
        })
        .collect();
    changed.then(|| format!("{{{}}}", parts.join(",")))
}

fn rewritten_array(json: &Json, hide: Hide, depth: usize) -> Option<String> {
    let mut changed = false;
    let mut after_flag = false;
    let parts: Vec<String> = json
        .elements()
        .iter()
        .map(|element| {
            let text = element.text();
            let is_value = std::mem::take(&mut after_flag)
                && text.as_ref().is_some_and(|it| !it.starts_with('-'));
            // The argument after an option such as `--token` is its value.
            after_flag = text.is_some_and(|it| {
                it.strip_prefix('-').is_some_and(|name| !name.contains('=') && is_secret_name(name))
            });
            let hide = if is_value { Hide::All } else { hide };
            let rewritten = rewritten(element, hide, depth);
            changed |= rewritten.is_some();
            rewritten.unwrap_or_else(|| element.as_str().to_owned())
        })
        .collect();
    changed.then(|| format!("[{}]", parts.join(",")))
}

/// Whether the value is a number of tokens, not a token.
fn is_count(name: &str, value: &Json) -> bool {
    name.to_ascii_lowercase().contains("token")
        && value.text().is_none()
        && !value.is_object()
        && !value.is_array()
}

/// A text with `…` in place of secrets: well-known shapes, passwords in addresses, and the values of secret names in
/// assignments, options and headers.
pub fn text_without_secrets(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut shapes = Secrets::standard_ranges(text).into_iter().peekable();
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        // What a name has hidden may contain a shape.
        while shapes.next_if(|shape| shape.start < at).is_some() {}
        let shape = shapes.peek().filter(|shape| shape.start == at).map(|it| (0, it.len()));
        if let Some((skip, length)) = shape.or_else(|| secret_at(text, at)) {
            out.push_str(&text[copied..at + skip]);
            out.push_str(HIDDEN);
            at += skip + length;
            copied = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    if copied == 0 && out.is_empty() {
        return text.into();
    }
    out.push_str(&text[copied..]);
    out.into()
}

/// Whether a secret begins at or soon after this position: the number of bytes before it, and its length.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    if let Some(after) = rest.strip_prefix("://") {
        // `user:password@` in an address.
        let end = after.find(|it: char| it == '/' || it.is_whitespace() || "\"'`<>".contains(it));
        let authority = &after[..end.unwrap_or(after.len())];
        return authority.rfind('@').filter(|length| *length > 0).map(|length| (3, length));
    }
    let is_start = !text[..at].ends_with(is_name_character);
    if !is_start {
        return None;
    }
    let name = rest.len() - rest.trim_start_matches(is_name_character).len();
    if name == 0 || !is_secret_name(&rest[..name]) && !rest[..name].eq_ignore_ascii_case("bearer") {
        return None;
    }
    assigned_value(&rest[..name], &rest[name..]).map(|(skip, length)| (name + skip, length))
}

fn is_name_character(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == '-' || it == '.'
}

/// The value that follows a secret name: the number of bytes before it, and its length.
fn assigned_value(name: &str, after: &str) -> Option<(usize, usize)> {
    let is_header = name.to_ascii_lowercase().contains("authorization")
        || name.to_ascii_lowercase().contains("cookie");
    let separator = after.chars().next()?;
    let skip = match separator {
        '=' => 1,
        ':' if !after.starts_with("://") => {
            1 + (after.len() - 1) - after[1..].trim_start_matches(' ').len()
        }
        // `Bearer abc` and `--token abc`.
        ' ' if name.starts_with("--") || name.eq_ignore_ascii_case("bearer") => 1,
        _ => return None,
    };
    let value = &after[skip..];
    let quote = value.chars().next().filter(|it| ['"', '\''].contains(it));
    let (skip, value) = match quote {
        Some(_) => (skip + 1, &value[1..]),
        None => (skip, value),
    };
    // A reference such as `$TOKEN`. It is checked before the end is searched: the time stays linear in the text.
    if ["$", "{{", HIDDEN].iter().any(|start| value.starts_with(start)) {
        return None;
    }
    let ends = |it: char| match quote {
        Some(quote) => it == quote,
        None if is_header => "\r\n\"'".contains(it),
        None => it.is_whitespace() || "&;,\"'`)]}".contains(it),
    };
    let length = value.find(ends).unwrap_or(value.len());
    let value = &value[..length];
    // Prose: "the token: it is …", "bearer of news".
    let is_certain = separator == '=' || is_header || name.starts_with("--");
    let has_digit = value.contains(|it: char| it.is_ascii_digit());
    let is_prose = !is_certain && (value.len() < 8 || !has_digit && value.len() < 20);
    (!value.is_empty() && !is_prose).then_some((skip, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        let shown = without_secrets(&Json::parse(text.to_owned()).unwrap());
        hide_secrets(&mut value);
        if !value.is_null() {
            assert_eq!(value, serde_json::from_str::<Value>(&shown).unwrap());
        }
        shown
    }

    #[test]
    fn variables_headers_and_values_of_secret_names_are_hidden_at_any_depth() {
        for (text, expected) in [
            (
                r#"{"cwd":"/","mcpServers":[{"name":"a","env":[{"name":"S","value":"x1"}]}]}"#,
                r#"{"cwd":"/","mcpServers":[{"name":"a","env":[{"name":"S","value":"…"}]}]}"#,
            ),
            (r#"{"e\u006ev":{"S":"x2"},"n":1e400}"#, r#"{"env":{"S":"…"},"n":1e400}"#),
            (
                r#"{"headers":[{"name":"Accept","value":"text"}]}"#,
                r#"{"headers":[{"name":"Accept","value":"…"}]}"#,
            ),
            (r#"{"env":["A=b"]}"#, r#"{"env":["…"]}"#),
            (
                r#"{"a":[{"b":{"apiKey":"k","access_token":"t","password":1234}}]}"#,
                r#"{"a":[{"b":{"apiKey":"…","access_token":"…","password":"…"}}]}"#,
            ),
            (r#"{"OPENAI_API_KEY":"abc","DB_KEY":"x"}"#, r#"{"OPENAI_API_KEY":"…","DB_KEY":"…"}"#),
            (
                r#"{"credentials":{"user":"u","pin":7}}"#,
                r#"{"credentials":{"user":"…","pin":"…"}}"#,
            ),
            (
                r#"[{"name":"MY_TOKEN","value":"abc"},{"name":"PATH","value":"/bin"}]"#,
                r#"[{"name":"MY_TOKEN","value":"…"},{"name":"PATH","value":"/bin"}]"#,
            ),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn secrets_in_arguments_addresses_and_texts_are_hidden() {
        for (text, expected) in [
            (
                r#"{"args":["--token","abc","--api-key=xyz","--verbose","-v"]}"#,
                r#"{"args":["--token","…","--api-key=…","--verbose","-v"]}"#,
            ),
            (r#"["-H","Authorization: Basic dTpw"]"#, r#"["-H","Authorization: …"]"#),
            (r#""https://me:pw@host/a?x=1""#, r#""https://…@host/a?x=1""#),
            (r#""https://host/a?token=abc&x=1""#, r#""https://host/a?token=…&x=1""#),
            (r#""export API_KEY=abc; run""#, r#""export API_KEY=…; run""#),
            (r#""tool --password hunter x""#, r#""tool --password … x""#),
            (r#""x-api-key: 0123456789""#, r#""x-api-key: …""#),
            (r#""curl -H 'Authorization: Bearer abc'""#, r#""curl -H 'Authorization: …'""#),
            (r#""it says Bearer abcdef0123456789""#, r#""it says Bearer …""#),
            (r#""password=\"a b\" user=me""#, r#""password=\"…\" user=me""#),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    /// The search for the end of each value would take hours.
    #[test]
    fn a_text_with_many_references_is_searched_in_linear_time() {
        let text = "cookie=$ authorization: {{ ".repeat(100_000);
        assert_eq!(text_without_secrets(&text), text);
    }

    #[test]
    fn what_is_not_secret_keeps_its_text() {
        for text in [
            r#"{"n":1.10, "big":12345678901234567890123,"env":[]}"#,
            r#"{"usage":{"inputTokens":12,"totalTokens":3,"max_tokens":5}}"#,
            r#"{"stopReason":"max_tokens","_meta":{"progressToken":"p1"}}"#,
            r#"{"text":"The token: it is what a bearer carries. A secret is secret.\u00e9"}"#,
            r#"{"primary_key":"id","key":"Enter","name":"secret garden"}"#,
            r#""use $TOKEN or --token=$TOKEN, see https://host/path@2""#,
            r#"{"authMethods":[{"id":"login","name":"Log in"}],"auth":{"logout":{}}}"#,
            r#"{"path":"/home/me/secret-plans.txt","line":3}"#,
        ] {
            assert_eq!(shown(text), text);
        }
        let deep = format!("{}\"a\"{}", "[".repeat(100), "]".repeat(100));
        assert!(!shown(&deep).contains('a'), "what cannot be searched is hidden");
    }

    #[test]
    fn well_known_shapes_are_hidden_in_any_text() {
        let body = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6k";
        for secret in [
            "AKIAIOSFODNN7ABCDEFG".to_owned(),
            format!("sk-ant-api03-{body}"),
            format!("sk-proj-{body}"),
            format!("ghp_{body}"),
            format!("github_pat_{body}"),
            format!("AIza{body}"),
            format!("glpat-{body}"),
            format!("xoxb-{body}"),
            format!("sk_live_{body}"),
            format!("npm_{body}"),
            format!("pypi-AgE{body}{body}"),
            format!("hf_{body}"),
            format!("dop_v1_{}", "0123456789abcdef".repeat(4)),
            format!("dapi{}", "0123456789abcdef".repeat(2)),
            format!("SG.{body}.{body}"),
            format!("hvs.{body}{body}"),
            format!("eyJ{body}.eyJ{body}.{body}"),
            format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"),
        ] {
            let text = format!("before {secret}, after");
            assert_eq!(text_without_secrets(&text), "before …, after", "{secret}");
            let json = Json::string(&text);
            assert_eq!(without_secrets(&json), "\"before …, after\"");
        }
        for text in [
            "a task-force of 20, sk-this-is-a-long-name-without-digits",
            "npm_config, hf_hub, dapifoo, eye. A key: -----BEGIN PUBLIC KEY-----",
            "AKIA",
        ] {
            assert_eq!(text_without_secrets(text), text);
        }
    }
}
