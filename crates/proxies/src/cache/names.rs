//! What differs between two runs of the same conversation: ids, and the paths of the project and the home directory.
//! In a recording they are placeholders: `$session:1`, `$call:2`, `$CWD`, `$HOME`.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::in_text::InText;
use super::raw::map_strings;

/// The members that contain ids, with the kind of id.
const ID_MEMBERS: [(&str, &str); 20] = [
    ("sessionId", "session"),
    ("session_id", "session"),
    ("toolCallId", "call"),
    ("tool_call_id", "call"),
    ("parentToolCallId", "call"),
    ("toolUseId", "call"),
    ("parentToolUseId", "call"),
    ("terminalId", "terminal"),
    ("terminal_id", "terminal"),
    ("messageId", "message"),
    ("message_id", "message"),
    ("userMessageId", "message"),
    ("parentMessageId", "message"),
    ("serverId", "server"),
    ("acpId", "server"),
    ("acp_id", "server"),
    ("connectionId", "connection"),
    ("connection_id", "connection"),
    ("requestId", "request"),
    ("elicitationId", "elicitation"),
];

/// The kinds of ids that are also replaced inside of longer texts, such as paths.
const KINDS_IN_TEXT: [&str; 2] = ["session", "terminal"];

/// How many ids a session may have. Further ones stay as they are.
const MAX_IDS: usize = 100_000;

const CWD: &str = "CWD";
const HOME: &str = "HOME";

/// The ids and paths of one session, and their placeholders.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// The placeholder of each id, such as `session:1`.
    placeholders: HashMap<String, String>,
    /// The id of each placeholder in this run.
    ids: HashMap<String, String>,
    /// How many ids of each kind there are.
    counts: HashMap<&'static str, usize>,
    /// Values that are replaced inside of texts, with their placeholders.
    in_text: InText,
    /// Whether ids of sessions stay as they are.
    keeps_sessions: bool,
}

impl Names {
    /// No ids yet. `home` is the home directory.
    pub(super) fn new(home: Option<&str>) -> Names {
        let mut names = Names::default();
        if let Some(home) = home {
            names.set_path(HOME, home);
        }
        names
    }

    /// Sets the working directory of the session.
    pub(super) fn set_cwd(&mut self, cwd: &str) {
        self.set_path(CWD, cwd);
    }

    /// The ids of sessions stay as they are from now on. The list of an agent's sessions is the same in each replay, so
    /// that the editor can load the sessions in it.
    pub(super) fn keep_sessions(&mut self) {
        self.keeps_sessions = true;
    }

    /// Whether this id has a placeholder.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.placeholders.contains_key(id)
    }

    /// A path is also known by the place that it links to, and as it is written in a URI.
    fn set_path(&mut self, placeholder: &str, path: &str) {
        let trimmed = path.trim_end_matches(['/', '\\']);
        self.in_text.forget_path(placeholder);
        let resolved = std::fs::canonicalize(path).ok();
        let resolved = resolved.as_deref().and_then(Path::to_str).unwrap_or_default();
        for form in [trimmed, resolved, &percent_encoded(trimmed), &percent_encoded(resolved)] {
            if form.len() > 1 {
                // Where the project is the home directory, the name of the project is used.
                self.in_text.add_path(form, placeholder, CWD);
            }
        }
        let path = if trimmed.is_empty() { path } else { trimmed };
        self.ids.insert(placeholder.to_owned(), path.to_owned());
    }

    /// The placeholder of an id. `None` if there are too many.
    fn placeholder(&mut self, kind: &'static str, id: &str) -> Option<String> {
        if let Some(known) = self.placeholders.get(id) {
            return Some(known.clone());
        }
        if self.placeholders.len() >= MAX_IDS {
            return None;
        }
        let placeholder = self.next_placeholder(kind);
        self.bind(kind, &placeholder, id);
        Some(placeholder)
    }

    fn next_placeholder(&mut self, kind: &'static str) -> String {
        let count = self.counts.entry(kind).or_default();
        *count = count.saturating_add(1);
        format!("{kind}:{count}")
    }

    fn bind(&mut self, kind: &'static str, placeholder: &str, id: &str) {
        self.placeholders.insert(id.to_owned(), placeholder.to_owned());
        self.ids.insert(placeholder.to_owned(), id.to_owned());
        if KINDS_IN_TEXT.contains(&kind) {
            self.in_text.add_id(id, placeholder);
        }
    }

    /// Another id with the placeholder of this one: the agent and the editor know the session by different ids.
    pub(super) fn add_alias(&mut self, id: &str, alias: &str) {
        if let Some(placeholder) = self.placeholders.get(id).cloned() {
            self.placeholders.insert(alias.to_owned(), placeholder.clone());
            self.in_text.add_id(alias, &placeholder);
        }
    }

    /// A copy of a value with placeholders for ids and paths.
    pub(super) fn encode(&mut self, value: &Value) -> Value {
        self.encode_member("", value)
    }

    fn encode_member(&mut self, name: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.encode_string(name, text)),
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.encode_member("", value)).collect())
            }
            Value::Object(members) => {
                let members = members.iter();
                let encoded = members
                    .map(|(name, value)| (self.encode_text(name), self.encode_member(name, value)));
                Value::Object(encoded.collect())
            }
            other => other.clone(),
        }
    }

    fn encode_string(&mut self, name: &str, text: &str) -> String {
        let kind = ID_MEMBERS.iter().find(|(member, _)| *member == name).map(|(_, kind)| *kind);
        let is_kept = text.is_empty() || self.keeps_sessions && kind == Some("session");
        if let Some(kind) = kind.filter(|_| !is_kept)
            && let Some(placeholder) = self.placeholder(kind, text)
        {
            return format!("${placeholder}");
        }
        let is_id = name.ends_with("Id") || name.ends_with("_id") || name == "id";
        if let Some(known) = self.placeholders.get(text).filter(|_| is_id) {
            return format!("${known}");
        }
        self.encode_text(text)
    }

    /// Replaces paths and long ids in a text, and adds a `$` to what looks like a placeholder.
    fn encode_text(&self, text: &str) -> String {
        let found = self.in_text.find(text);
        if found.is_empty() && !text.contains('$') {
            return text.to_owned();
        }
        let mut encoded = String::with_capacity(text.len());
        let mut done = 0;
        for (at, length, placeholder) in found {
            escape(&text[done..], at - done, &mut encoded);
            encoded.push('$');
            encoded.push_str(placeholder);
            done = at + length;
        }
        escape(&text[done..], text.len() - done, &mut encoded);
        encoded
    }

    /// A copy of a JSON text with placeholders for ids and paths.
    pub(super) fn encode_json(&mut self, json: &str) -> String {
        map_strings(json, |name, text| {
            let encoded = match name {
                Some(name) => self.encode_string(name, text),
                None => self.encode_text(text),
            };
            (encoded != text).then_some(encoded)
        })
    }

    /// A copy of a JSON text with the ids and paths of this run. `new_session` makes the id of a session that is new.
    pub(super) fn decode_json(
        &mut self,
        json: &str,
        new_session: &mut dyn FnMut() -> String,
    ) -> String {
        map_strings(json, |_, text| text.contains('$').then(|| self.decode_text(text, new_session)))
    }

    fn decode_text(&mut self, text: &str, new_session: &mut dyn FnMut() -> String) -> String {
        let mut decoded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            decoded.push_str(&rest[..at]);
            rest = &rest[at..];
            let dollars = rest.len() - rest.trim_start_matches('$').len();
            let after = &rest[dollars..];
            match (dollars, placeholder_length(after)) {
                (1, Some(length)) => {
                    let id = self.id(&after[..length], new_session);
                    rest = &after[length..];
                    let id = match decoded.ends_with("file://") {
                        true => percent_encoded(&id),
                        false => id,
                    };
                    // The project may be the root directory.
                    let is_double = id.ends_with('/') && rest.starts_with('/');
                    decoded.push_str(&id[..id.len() - usize::from(is_double)]);
                }
                (_, Some(_)) => {
                    decoded.push_str(&rest[..dollars - 1]);
                    rest = after;
                }
                (_, None) => {
                    decoded.push_str(&rest[..dollars]);
                    rest = after;
                }
            }
        }
        decoded.push_str(rest);
        decoded
    }

    /// The id of a placeholder in this run.
    fn id(&mut self, placeholder: &str, new_session: &mut dyn FnMut() -> String) -> String {
        if let Some(id) = self.ids.get(placeholder) {
            return id.clone();
        }
        let (kind, number) = placeholder.split_once(':').unwrap_or((placeholder, "1"));
        let Some((_, kind)) = ID_MEMBERS.iter().find(|(_, it)| *it == kind) else {
            // A directory that this run does not have.
            return format!("${placeholder}");
        };
        let id = match *kind {
            "session" => new_session(),
            kind => format!("{kind}-{number}"),
        };
        let count = self.counts.entry(kind).or_default();
        *count = (*count).max(number.parse().unwrap_or_default());
        self.bind(kind, placeholder, &id);
        id
    }

    /// The ids of MCP servers that the editor or a proxy declares. They get placeholders in the order of the list.
    pub(super) fn learn_servers(&mut self, params: &Value) -> Vec<String> {
        let servers = params.get("mcpServers").and_then(Value::as_array);
        let ids = servers.into_iter().flatten().filter_map(|server| {
            let member = |name: &str| server.get(name).and_then(Value::as_str);
            let url = member("url").filter(|it| it.starts_with("acp:"));
            member("serverId").or(member("acpId")).or(member("id")).or(url)
        });
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        ids.iter().for_each(|id| drop(self.placeholder("server", id)));
        ids
    }
}

/// A path as it is written in a URI.
fn percent_encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => encoded.push(byte as char),
            _ if b"-._~/!$&'()*+,;=:@".contains(&byte) => encoded.push(byte as char),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Copies the first bytes of a text, and adds a `$` to what looks like a placeholder.
fn escape(text: &str, length: usize, encoded: &mut String) {
    let mut done = 0;
    while let Some(at) = text[done..length].find('$') {
        let end = done + at + 1;
        encoded.push_str(&text[done..end]);
        let rest = &text[end..];
        if !rest.starts_with('$') && placeholder_length(rest).is_some() {
            encoded.push('$');
        }
        done = end;
    }
    encoded.push_str(&text[done..length]);
}

/// The length of the placeholder at the beginning of a text, without its `$`.
fn placeholder_length(text: &str) -> Option<usize> {
    if let Some(path) = [CWD, HOME].iter().find(|it| text.starts_with(**it)) {
        return Some(path.len());
    }
    let (kind, rest) = text.split_once(':')?;
    ID_MEMBERS.iter().find(|(_, it)| *it == kind)?;
    let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    (digits > 0).then_some(kind.len() + 1 + digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decode(names: &mut Names, value: &Value, session: &mut dyn FnMut() -> String) -> Value {
        serde_json::from_str(&names.decode_json(&value.to_string(), session)).expect("JSON")
    }

    fn names() -> Names {
        let mut names = Names::new(Some("/home/me"));
        names.set_cwd("/home/me/app");
        names
    }

    #[test]
    fn ids_and_paths_become_placeholders_and_come_back() {
        let value = json!({
            "sessionId": "0199-aaaa-bbbb-cccc", "toolCallId": "toolu_1",
            "title": "Read /home/me/app/src/a.rs and /home/me/apple, then /home/me.",
            "uri": "file:///home/me/app", "deep": [{ "terminalId": "t9", "other_id": "toolu_1" }],
            "log": "/tmp/0199-aaaa-bbbb-cccc/log", "n": 1.5, "option": "t9",
        });
        let mut names = names();
        let encoded = names.encode(&value);
        let expected = json!({
            "sessionId": "$session:1", "toolCallId": "$call:1",
            "title": "Read $CWD/src/a.rs and $HOME/apple, then $HOME.",
            "uri": "file://$CWD", "deep": [{ "terminalId": "$terminal:1", "other_id": "$call:1" }],
            "log": "/tmp/$session:1/log", "n": 1.5, "option": "t9",
        });
        assert_eq!(encoded, expected);
        let text = self::names().encode_json(&value.to_string());
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), expected);
        assert_eq!(decode(&mut names, &encoded, &mut || unreachable!()), value);

        let mut other = Names::new(Some("/home/other"));
        other.set_cwd("/project");
        let decoded = decode(&mut other, &encoded, &mut || "s".to_owned());
        assert_eq!(
            decoded["title"],
            "Read /project/src/a.rs and /home/other/apple, then /home/other."
        );
        assert_eq!(
            (&decoded["sessionId"], &decoded["toolCallId"]),
            (&json!("s"), &json!("call-1"))
        );
        assert_eq!(decoded["log"], "/tmp/s/log");
        assert_eq!(other.encode(&decoded)["sessionId"], "$session:1");
    }

    /// Every text comes back, whatever it contains.
    #[test]
    fn texts_that_look_like_placeholders_come_back() {
        for text in [
            "$CWD",
            "echo $HOME",
            "$$CWD",
            "$$$HOME:1",
            "$session:1",
            "$session:",
            "$call:12x",
            "$",
            "$$",
            "a$b",
            "$CWDX",
            "/home/me/app$CWD",
            "$/home/me/app",
            "$$/home/me/app/x",
            "é$HOME/home/me",
            "/home/me/app",
            "/home/me/app.rs",
            "x/home/me/app",
            "/home/me/app/../b",
            "",
        ] {
            let mut names = names();
            let encoded = names.encode(&json!([text, { text: text }]));
            let decoded = decode(&mut names, &encoded, &mut || unreachable!("{encoded}"));
            assert_eq!(decoded, json!([text, { text: text }]), "{encoded}");
        }
    }

    #[test]
    fn random_texts_come_back() {
        let parts =
            ["$", "CWD", "HOME", "/home/me", "/app", "session:", "1", "/", ".", "a", "é", " "];
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(parts[(seed >> 33) as usize % parts.len()]);
            }
            let mut names = names();
            let encoded = names.encode(&json!(text));
            let decoded = decode(&mut names, &encoded, &mut || unreachable!("{encoded}"));
            assert_eq!(decoded, json!(text), "{encoded}");
        }
    }

    #[test]
    fn a_project_in_the_root_directory_is_not_replaced() {
        let mut names = Names::new(None);
        names.set_cwd("/");
        assert_eq!(names.encode(&json!({ "path": "/a/b" })), json!({ "path": "/a/b" }));
        let decoded =
            decode(&mut names, &json!(["$CWD", "$CWD/a", "in $CWD."]), &mut || unreachable!());
        assert_eq!(decoded, json!(["/", "/a", "in /."]));
    }

    #[cfg(unix)]
    #[test]
    fn a_project_is_known_by_its_link_and_in_uris() {
        let folder = std::env::temp_dir().join(format!("cache-names-{}", std::process::id()));
        let (real, link) = (folder.join("my project"), folder.join("link"));
        std::fs::create_dir_all(&real).expect("a directory");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        let real = real.canonicalize().expect("a directory").display().to_string();
        for cwd in [link.display().to_string(), format!("{real}/")] {
            let mut names = Names::new(None);
            names.set_cwd(&cwd);
            let uri = format!("file://{}/a", real.replace(' ', "%20"));
            let encoded = names.encode(&json!([format!("{real}/a"), uri, format!("{cwd}/a")]));
            let last = encoded[2].as_str().expect("a text").replace("//", "/");
            assert_eq!((&encoded[0], &encoded[1]), (&json!("$CWD/a"), &json!("file://$CWD/a")));
            assert_eq!(last, "$CWD/a");
        }
        let mut names = Names::new(None);
        names.set_cwd("/other place");
        let decoded =
            decode(&mut names, &json!(["$CWD/a", "file://$CWD/a"]), &mut || unreachable!());
        assert_eq!(decoded, json!(["/other place/a", "file:///other%20place/a"]));
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn a_project_that_is_the_home_directory_has_the_name_of_the_project() {
        let mut names = Names::new(Some("/home/me"));
        names.set_cwd("/home/me");
        assert_eq!(names.encode(&json!("/home/me/a")), json!("$CWD/a"));
    }

    #[test]
    fn the_largest_number_of_a_placeholder_does_not_overflow() {
        let mut names = Names::default();
        let largest = format!("$call:{}", usize::MAX);
        decode(&mut names, &json!({ "toolCallId": largest }), &mut || unreachable!());
        assert_eq!(names.encode(&json!({ "toolCallId": "new" })), json!({ "toolCallId": largest }));
    }

    #[test]
    fn declared_servers_have_placeholders_in_their_order() {
        let mut names = Names::default();
        let params = json!({ "mcpServers": [
            { "name": "a", "command": "x" }, { "type": "acp", "name": "b", "id": "u1" },
            { "type": "acp", "name": "c", "serverId": "u2" }, { "type": "http", "name": "d", "url": "acp:u3" },
        ] });
        assert_eq!(names.learn_servers(&params), ["u1", "u2", "acp:u3"]);
        assert_eq!(names.encode(&json!({ "serverId": "u2" })), json!({ "serverId": "$server:2" }));
    }
}
