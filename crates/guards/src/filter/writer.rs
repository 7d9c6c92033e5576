//! Which agent has written a streamed text. Agents with sub-agents send the chunks of all of them in one session, and name
//! the sub-agent in `_meta`: `claudeCode.parentToolUseId`, `parentToolCallId`, and others.

use acp_proxy::Json;

/// How deep the members are looked for.
const MAX_DEPTH: usize = 4;

/// How many members count.
const MAX_MEMBERS: usize = 16;

/// A longer value is not an id, and a longer name says nothing.
pub(super) const MAX_LENGTH: usize = 256;

/// Members of `_meta` that belong to the whole text, and not only to one chunk of it.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The members that name the writer: their path and their value.
    writer: Vec<(Vec<String>, Json)>,
    /// The members that name the message.
    message: Vec<(Vec<String>, Json)>,
}

/// What the name of a member says about its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Writer,
    Message,
    Nothing,
}

impl Marks {
    /// The marks in the `_meta` of an object.
    pub(super) fn of(object: &Json) -> Marks {
        let mut marks = Marks::default();
        if let Some(meta) = object.member("_meta").filter(Json::is_object) {
            marks.collect(&meta, &mut Vec::new(), false);
            marks.writer.sort_by(|one, other| one.0.cmp(&other.0));
            marks.message.sort_by(|one, other| one.0.cmp(&other.0));
        }
        marks
    }

    /// The writer, as a part of the name of a stream. Empty for the agent itself.
    pub(super) fn writer(&self) -> String {
        joined(&self.writer)
    }

    /// The message, as a part of the name of a stream. Empty if `_meta` does not name it.
    pub(super) fn message(&self) -> String {
        joined(&self.message)
    }

    /// A `_meta` with the marks only.
    pub(super) fn meta(&self) -> Option<Json> {
        let members = self.writer.iter().chain(&self.message);
        members.fold(None, |meta, (path, value)| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            Some(meta.unwrap_or(Json::EMPTY_OBJECT).with_at(&path, Some(value)))
        })
    }

    fn collect(&mut self, object: &Json, path: &mut Vec<String>, is_in_writer: bool) {
        for (name, value) in object.members().into_iter().filter(|it| it.0.len() <= MAX_LENGTH) {
            let names = match says(&name) {
                Names::Nothing if is_in_writer && name.eq_ignore_ascii_case("id") => Names::Writer,
                names => names,
            };
            path.push(name);
            if value.is_object() && path.len() < MAX_DEPTH {
                self.collect(&value, path, names == Names::Writer);
            } else if is_short_scalar(&value) {
                let marks = match names {
                    Names::Writer => Some(&mut self.writer),
                    Names::Message => Some(&mut self.message),
                    Names::Nothing => None,
                };
                if let Some(marks) = marks.filter(|it| it.len() < MAX_MEMBERS) {
                    marks.push((path.clone(), value));
                }
            }
            path.pop();
        }
    }
}

fn is_short_scalar(value: &Json) -> bool {
    let is_scalar = value.is_string() || value.integer().is_some();
    is_scalar && value.as_bytes().len() <= MAX_LENGTH
}

/// What a name such as `parentToolUseId`, `parent_tool_use_id` or `messageId` says. The parent of a trace is not a writer.
fn says(name: &str) -> Names {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|it| name.contains(it));
    match () {
        () if has(&["trace", "span", "user"]) => Names::Nothing,
        () if has(&["message"]) && is_id(&name) => Names::Message,
        () if !has(&WORKERS) || !is_of_worker(&name) => Names::Nothing,
        () if has(&["parent", "agent"]) && names_one(&name) => Names::Writer,
        () if is_id(&name) => Names::Writer,
        () => Names::Nothing,
    }
}

/// What an agent calls its sub-agents and their work.
const WORKERS: [&str; 5] = ["agent", "task", "thread", "session", "tool"];

/// Whether a name has only words that fit a sub-agent. The value of any other name, such as `agentEventId`, may differ in each
/// chunk: if it named the writer, each chunk would be a text of its own, and a secret that is cut into chunks would pass.
fn is_of_worker(name: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "parent", "child", "sub", "root", "main", "run", "use", "call", "type", "name", "id", "_",
        "-",
    ];
    let mut rest = name;
    while !rest.is_empty() {
        let mut words = WORKERS.iter().chain(&OTHERS);
        let Some(after) = words.find_map(|it| rest.strip_prefix(it)) else { return false };
        rest = after;
    }
    true
}

/// Whether the value names something. Of an agent, there may also be times and counts, which differ in each chunk.
fn names_one(name: &str) -> bool {
    is_id(name) || ["agent", "parent", "type", "name"].iter().any(|it| name.ends_with(it))
}

fn is_id(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("id")
}

fn joined(marks: &[(Vec<String>, Json)]) -> String {
    let one =
        |(path, value): &(Vec<String>, Json)| format!("{}={}", path.join("."), value.as_str());
    marks.iter().map(one).collect::<Vec<_>>().join(" ")
}
