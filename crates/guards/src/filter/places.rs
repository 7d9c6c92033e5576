//! Where text stands in messages: identifiers that must not change, and texts that come in pieces.

use acp_proxy::{Json, Side};

use super::strings::{self, Place};
use super::writer::{MAX_LENGTH, Marks};
use component_base::sessions::session_key;

/// Members whose values name something. A changed name would name something else.
const IDENTIFIERS: [&str; 22] = [
    "sessionId",
    "parentSessionId",
    "toolCallId",
    "parentToolCallId",
    "messageId",
    "terminalId",
    "terminal_id",
    "compactionId",
    "optionId",
    "connectionId",
    "serverId",
    "requestId",
    "elicitationId",
    "planId",
    "promptId",
    "methodId",
    "modeId",
    "currentModeId",
    "modelId",
    "currentModelId",
    "configId",
    "providerId",
];

/// Members with a fixed choice of words. Extension methods may use these names for any text.
const CHOICES: [&str; 6] = ["sessionUpdate", "type", "kind", "status", "state", "stopReason"];

/// The words of these members. Any other word is searched.
const WORDS: [&str; 58] = [
    // `sessionUpdate`
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "user_message",
    "agent_message",
    "agent_thought",
    "tool_call",
    "tool_call_update",
    "tool_call_content_chunk",
    "plan",
    "plan_update",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "state_update",
    "terminal_update",
    "terminal_output_chunk",
    "compaction_update",
    "compaction_summary_chunk",
    "notice",
    // `type`
    "text",
    "image",
    "audio",
    "resource",
    "resource_link",
    "content",
    "diff",
    "terminal",
    "http",
    "sse",
    "stdio",
    "select",
    "boolean",
    // `kind`
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
    "allow_once",
    "allow_always",
    "reject_once",
    "reject_always",
    // `status`, `state` and `stopReason`
    "pending",
    "in_progress",
    "completed",
    "failed",
    "idle",
    "running",
    "end_turn",
    "max_tokens",
    "cancelled",
];

/// Methods with the folder of a session, or with the next page of a list.
const WITH_NAMES: [&str; 7] = [
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "mcp/message",
    "_mcp/message",
];

/// The members of these methods that name them.
const NAMES: [&str; 3] = ["cwd", "cursor", "nextCursor"];

/// The methods of ACP that are frequent or that `filter` acts on. The name of any other method is searched.
const METHODS: [&str; 35] = [
    "session/update",
    "session/prompt",
    "session/cancel",
    "session/request_permission",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/close",
    "session/delete",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/release",
    "terminal/kill",
    "mcp/connect",
    "mcp/message",
    "mcp/disconnect",
    "_mcp/connect",
    "_mcp/message",
    "_mcp/disconnect",
    "elicitation/create",
    "elicitation/complete",
    "initialize",
    "authenticate",
    "logout",
    "auth/login",
    "auth/logout",
    "$/cancel_request",
];

/// Members with data of any form. Nothing in them is an identifier of the protocol.
const FREE: [&str; 7] =
    ["rawInput", "rawOutput", "_meta", "arguments", "structuredContent", "params", "data"];

/// Requests of the editor with secrets on purpose: the settings of MCP servers, of the agent and of providers.
const WITH_SETTINGS: [&str; 5] =
    ["session/new", "session/load", "session/resume", "session/fork", "providers/set"];

/// The members of these requests that have the secrets.
const SETTINGS: [&str; 3] = ["mcpServers", "env", "headers"];

/// Base64 of at least this length in `data` and `blob` may be an image, a sound or a file.
const MIN_BASE64: usize = 128;

/// What is searched in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Searched {
    All,
    /// Only exact values: a detector could find anything in an image.
    Values,
    Nothing,
}

/// Whether a method has a name of ACP, which must not change.
pub(super) fn is_acp(method: &str) -> bool {
    METHODS.contains(&method)
}

/// What is searched in a string of a message that goes toward this side.
pub(super) fn searched(toward: Side, method: &str, place: Place<'_>, quoted: &[u8]) -> Searched {
    if place.is_name {
        return Searched::All;
    }
    let Some((last, around)) = place.path.split_last() else { return Searched::All };
    let is_in = |names: &[&str], name: &[u8]| names.iter().any(|it| it.as_bytes() == name);
    // Only the editor sends secrets on purpose.
    if toward == Side::Agent
        && WITH_SETTINGS.contains(&method)
        && place.path.iter().any(|it| is_in(&SETTINGS, it))
    {
        return Searched::Nothing;
    }
    if is_in(&["data", "blob"], last)
        && quoted.len() > MIN_BASE64
        && is_base64(quoted)
        && place.object.is_some_and(|it| is_file(last, it))
    {
        return Searched::Values;
    }
    let is_extension = method.starts_with('_') && !is_acp(method);
    let word = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let is_name = is_in(&IDENTIFIERS, last)
        || WITH_NAMES.contains(&method) && is_in(&NAMES, last)
        || !is_extension && is_in(&CHOICES, last) && is_in(&WORDS, word);
    match is_name && !around.iter().any(|it| is_in(&FREE, it)) {
        true => Searched::Nothing,
        false => Searched::All,
    }
}

/// Whether the member `data` or `blob` of an object is an image, a sound or a file.
fn is_file(name: &[u8], object: &[u8]) -> bool {
    strings::members(object).any(|(member, value)| match member {
        b"mimeType" => true,
        b"type" => [&b"\"image\""[..], b"\"audio\""].contains(&value),
        b"uri" => name == b"blob",
        _ => false,
    })
}

/// Whether a longer version of a string may follow, in an update or an answer whose texts may grow. A title or a path is
/// complete.
pub(super) fn may_grow(place: Place<'_>) -> bool {
    let path = place.path.strip_prefix(&[&b"update"[..]]).unwrap_or(place.path);
    let growing: [&[u8]; 5] = [b"content", b"rawOutput", b"_meta", b"summary", b"output"];
    path.first().is_some_and(|it| growing.contains(it))
}

fn is_base64(quoted: &[u8]) -> bool {
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    inner.iter().all(|it| it.is_ascii_alphanumeric() || b"+/=".contains(it))
}

/// How the text of a piece is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Base64,
}

/// A part of a text that comes with several updates.
#[derive(Debug)]
pub(super) struct Piece {
    /// The kind of update and the field: together with the id they name the stream.
    pub(super) kind: String,
    pub(super) id: String,
    /// The sub-agent that has written the text. Empty for the agent itself, and where the id tells it.
    pub(super) writer: String,
    /// Where the text stands in the update.
    pub(super) path: Vec<String>,
    pub(super) encoding: Encoding,
    /// The text with its quotes.
    pub(super) text: Json,
}

/// Updates with a whole message. Chunks may continue it.
const MESSAGES: [&str; 4] = ["user_message", "agent_message", "agent_thought", "session_message"];

/// The members that name the message, call or terminal of an update.
const IDS: [&str; 4] = ["messageId", "toolCallId", "terminalId", "compactionId"];

/// Whether chunks of this kind are parts of a message, which the next message may continue.
pub(super) fn is_message(kind: &str) -> bool {
    kind.strip_suffix("_chunk").is_some_and(|it| MESSAGES.contains(&it))
}

fn is(json: Option<&Json>, text: &str) -> bool {
    json.is_some_and(|it| it.equals_text(text))
}

/// The text of an update that replaces a text as a whole, as a piece of the stream that continues the text.
pub(super) fn replaced(kind: &str, params: &Json, update: &Json) -> Option<Piece> {
    let (chunks, member) = match kind {
        "tool_call" | "tool_call_update" => ("tool_call_content_chunk".to_owned(), "content"),
        "compaction_update" => ("compaction_summary_chunk".to_owned(), "summary"),
        "terminal_update" => ("terminal_output_chunk".to_owned(), "output"),
        kind if MESSAGES.contains(&kind) => (format!("{kind}_chunk"), "content"),
        _ => return None,
    };
    let value = update.member(member)?;
    let encoding = if member == "output" { Encoding::Base64 } else { Encoding::Plain };
    let text = match encoding {
        Encoding::Base64 => value.member("data"),
        Encoding::Plain => {
            let last = value.elements().pop()?;
            last.member("text").or_else(|| last.at(&["content", "text"]))
        }
    };
    let text = text.filter(Json::is_string).unwrap_or_else(|| Json::string(""));
    let (id, writer) = owner(params, update);
    Some(Piece { kind: chunks, id, writer, path: Vec::new(), encoding, text })
}

/// The id of the text in an update, and the sub-agent that has written it. `_meta` may stand in the notification, in the update
/// and in its content.
fn owner(params: &Json, update: &Json) -> (String, String) {
    let content = update.member("content");
    let marks: Vec<Marks> = [Some(params), Some(update), content.as_ref()]
        .into_iter()
        .flatten()
        .map(Marks::of)
        .collect();
    let joined = |of: fn(&Marks) -> String| {
        let all: Vec<String> = marks.iter().map(of).filter(|it| !it.is_empty()).collect();
        session_key(&all.join(" ")).into_owned()
    };
    let has_own_id = IDS.iter().any(|it| *it != "messageId" && update.member(it).is_some());
    let writer = if has_own_id { String::new() } else { joined(Marks::writer) };
    (id_of(update).unwrap_or_else(|| joined(Marks::message)), writer)
}

fn id_of(update: &Json) -> Option<String> {
    IDS.iter().find_map(|it| Some(session_key(&update.member(it)?.text()?).into_owned()))
}

/// The pieces of streamed texts in an update of this kind.
pub(super) fn pieces(kind: &str, params: &Json, update: &Json) -> Vec<Piece> {
    if kind.ends_with("_chunk") {
        return chunk(kind, params, update).into_iter().collect();
    }
    match kind {
        "tool_call" | "tool_call_update" => terminal_output(update),
        _ => Vec::new(),
    }
}

fn chunk(kind: &str, params: &Json, update: &Json) -> Option<Piece> {
    let (id, writer) = owner(params, update);
    let (path, text, encoding): (&[&str], _, _) = match kind {
        "terminal_output_chunk" => (&["data"], update.member("data"), Encoding::Base64),
        _ => {
            let content = update.member("content")?;
            if is(content.member("type").as_ref(), "resource") {
                return resource(kind, &id, writer, &content);
            }
            let inner = if is(content.member("type").as_ref(), "content") {
                content.member("content")
            } else {
                None
            };
            let path: &[&str] = match inner {
                Some(_) => &["content", "content", "text"],
                None => &["content", "text"],
            };
            (path, inner.unwrap_or(content).member("text"), Encoding::Plain)
        }
    };
    let text = text.filter(Json::is_string)?;
    let path = path.iter().map(|it| (*it).to_owned()).collect();
    Some(Piece { kind: session_key(kind).into_owned(), id, writer, path, encoding, text })
}

/// The text of an embedded file in a chunk. Several chunks with the same address are one text.
fn resource(kind: &str, id: &str, writer: String, content: &Json) -> Option<Piece> {
    let text = content.at(&["resource", "text"]).filter(Json::is_string)?;
    let uri = content.at(&["resource", "uri"]);
    let uri = uri.as_ref().and_then(Json::text).unwrap_or_default();
    let path = ["content", "resource", "text"].map(str::to_owned).to_vec();
    let (kind, id) =
        (format!("{} resource", session_key(kind)), format!("{id} {}", session_key(&uri)));
    Some(Piece { kind, id, writer, path, encoding: Encoding::Plain, text })
}

/// Terminal output that an agent streams in `_meta`: `terminal_output` and `terminal_output_delta`.
fn terminal_output(update: &Json) -> Vec<Piece> {
    let Some(meta) = update.member("_meta").filter(Json::is_object) else { return Vec::new() };
    let id = update.member("toolCallId").and_then(|it| Some(session_key(&it.text()?).into_owned()));
    let id = id.unwrap_or_default();
    let is_output = |it: &String| it.starts_with("terminal_output") && it.len() <= MAX_LENGTH;
    let names = meta.keys().into_iter().filter(is_output);
    names
        .filter_map(|name| {
            let text = meta.at(&[&name, "data"]).filter(Json::is_string)?;
            let path = vec!["_meta".to_owned(), name.clone(), "data".to_owned()];
            let (id, writer) = (id.clone(), String::new());
            Some(Piece { kind: name, id, writer, path, encoding: Encoding::Plain, text })
        })
        .collect()
}

/// Whether an update has nothing but this piece. Then it can be dropped if its whole text is held back.
pub(super) fn has_only(params: &Json, update: &Json, piece: &Piece) -> bool {
    let known =
        |json: &Json, names: &[&str]| json.keys().iter().all(|key| names.contains(&key.as_str()));
    let ids = ["sessionUpdate", "content", "messageId", "toolCallId", "terminalId", "compactionId"];
    let is_plain = match piece.path.len() {
        1 => known(update, &["sessionUpdate", "terminalId", "data"]),
        2 => update.member("content").is_some_and(|it| known(&it, &["type", "text"])),
        3 if piece.path[0] == "content" => {
            let inner = update.at(&["content", "content"]);
            update.member("content").is_some_and(|it| known(&it, &["type", "content"]))
                && inner.is_some_and(|it| known(&it, &["type", "text"]))
        }
        _ => false,
    };
    let is_bare = piece.path.len() == 1 || known(update, &ids);
    is_plain && is_bare && known(params, &["sessionId", "update"])
}

/// The parameters of an update with only this piece, to send the rest of its text later. Of `_meta`, it keeps what names the
/// writer and the message: the rest, such as a count of tokens, was sent with its own update.
pub(super) fn template(params: &Json, update: &Json, piece: &Piece) -> Json {
    let kind = match piece.path.first().map(String::as_str) {
        Some("_meta") => Some(Json::string("tool_call_update")),
        _ => update.member("sessionUpdate"),
    };
    let ids = IDS.iter().map(|it| (*it, update.member(it)));
    let marks = Marks::of(update).meta();
    let (content, meta) = match piece.path.as_slice() {
        [meta, name, _] if meta == "_meta" => {
            let marks = marks.unwrap_or(Json::EMPTY_OBJECT);
            (None, Some(marks.with_at(&[name], update.at(&[meta, name]).as_ref())))
        }
        [field] => (Some((field.as_str(), update.member(field))), marks),
        _ => (Some(("content", update.member("content"))), marks),
    };
    let members = std::iter::once(("sessionUpdate", kind)).chain(ids).chain(content);
    // The text is filled in when it is sent.
    let path: Vec<&str> = piece.path.iter().map(String::as_str).collect();
    let update = Json::object(members.chain([("_meta", meta)]));
    let update = update.with_at(&path, Some(&Json::string("")));
    let members = [
        ("sessionId", params.member("sessionId")),
        ("update", Some(update)),
        ("_meta", Marks::of(params).meta()),
    ];
    Json::object(members).detached()
}

/// Whether an update may be followed by a longer version of its texts.
pub(super) fn is_unfinished(kind: &str, update: &Json) -> bool {
    match kind {
        "tool_call" | "tool_call_update" => {
            let status = update.member("status");
            !is(status.as_ref(), "completed") && !is(status.as_ref(), "failed")
        }
        "compaction_update" => true,
        kind if MESSAGES.contains(&kind) || kind.ends_with("_chunk") => true,
        "terminal_update" => !update.member("exitStatus").is_some_and(|it| it.is_object()),
        _ => false,
    }
}

/// Whether an update ends the turn of its session, in ACP version 2.
pub(super) fn ends_turn(kind: &str, update: &Json) -> bool {
    kind == "state_update" && is(update.member("state").as_ref(), "idle")
}

/// Whether a turn with this answer or update was cut off, perhaps within a word.
pub(super) fn is_cut_off(end: &Json) -> bool {
    let reason = end.member("stopReason");
    is(reason.as_ref(), "cancelled") || is(reason.as_ref(), "max_tokens")
}
