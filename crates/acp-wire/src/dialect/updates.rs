//! Which `session/update`s the SDKs of a generation can read.
//!
//! The typed SDKs of the older generations deserialize an update into the types of their schema. These
//! types have no catch-all. If an update kind, or a value inside an update, is newer than the schema,
//! deserialization fails. A proxy with a handler for updates then exits or loses the update. The tables
//! below describe what the oldest SDK of a generation accepts, because the versions cannot be distinguished
//! on the wire.
//!
//! | generation | SDKs | schema | update kinds |
//! |---|---|---|---|
//! | P3 | sacp 0.1 to 2 | 0.6.3 | 8 |
//! | P4 | sacp 3 to 11, agent-client-protocol 0.11 to 3.6 | 0.6.3 to 1.13 | 8 to 14; the 8 of 0.6.3 |
//! | P5 | agent-client-protocol 5 | 1.15.1 | v1: 14; v2: all |
//!
//! The other generations have no published typed SDK.

use crate::json::Json;

/// The `session/update`s that the SDKs of a generation can read.
#[derive(Debug)]
pub struct UpdateSchema {
    /// The update kinds that they accept, with the required shape of each.
    kinds: &'static [(&'static str, &'static [Member])],
    /// Whether a proxy of this generation is expected to fail on other updates.
    pub fails_on_others: bool,
}

/// The shape of a JSON value, as far as a typed SDK requires it.
#[derive(Debug)]
enum Shape {
    Text,
    Number,
    /// A non-negative integer.
    Count,
    /// One of these strings: an enum without a catch-all.
    OneOf(&'static [&'static str]),
    List(&'static Shape),
    Object(&'static [Member]),
    /// An object whose `type` determines its members: an enum without a catch-all.
    Typed(&'static [(&'static str, &'static [Member])]),
    Either(&'static Shape, &'static Shape),
}

/// A member of an object. Members that are not listed may have any value.
#[derive(Debug)]
struct Member {
    name: &'static str,
    shape: Shape,
    presence: Presence,
}

/// Whether a member may be missing or null.
#[derive(Debug, PartialEq)]
enum Presence {
    Required,
    /// May be missing, but not null.
    Defaulted,
    /// May be missing or null.
    Optional,
}

const fn required(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, presence: Presence::Required }
}

const fn defaulted(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, presence: Presence::Defaulted }
}

const fn optional(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, presence: Presence::Optional }
}

const META: Member = optional("_meta", Shape::Object(&[]));

const ANNOTATIONS: Member = optional(
    "annotations",
    Shape::Object(&[
        optional("audience", Shape::List(&Shape::OneOf(&["assistant", "user"]))),
        optional("lastModified", Shape::Text),
        optional("priority", Shape::Number),
        META,
    ]),
);

const BLOB: Shape = Shape::Object(&[
    required("uri", Shape::Text),
    required("blob", Shape::Text),
    optional("mimeType", Shape::Text),
]);

const DOCUMENT: Shape = Shape::Object(&[
    required("uri", Shape::Text),
    required("text", Shape::Text),
    optional("mimeType", Shape::Text),
]);

/// A content block.
const BLOCK: Shape = Shape::Typed(&[
    ("text", &[required("text", Shape::Text), ANNOTATIONS, META]),
    (
        "image",
        &[
            required("data", Shape::Text),
            required("mimeType", Shape::Text),
            optional("uri", Shape::Text),
            ANNOTATIONS,
            META,
        ],
    ),
    (
        "audio",
        &[required("data", Shape::Text), required("mimeType", Shape::Text), ANNOTATIONS, META],
    ),
    (
        "resource_link",
        &[
            required("name", Shape::Text),
            required("uri", Shape::Text),
            optional("description", Shape::Text),
            optional("mimeType", Shape::Text),
            optional("size", Shape::Number),
            optional("title", Shape::Text),
            ANNOTATIONS,
            META,
        ],
    ),
    ("resource", &[required("resource", Shape::Either(&DOCUMENT, &BLOB)), ANNOTATIONS, META]),
]);

const CHUNK: &[Member] = &[required("content", BLOCK), META];

const TOOL_CONTENT: Shape = Shape::List(&Shape::Typed(&[
    ("content", &[required("content", BLOCK)]),
    (
        "diff",
        &[
            required("path", Shape::Text),
            required("newText", Shape::Text),
            optional("oldText", Shape::Text),
            META,
        ],
    ),
    ("terminal", &[required("terminalId", Shape::Text)]),
]));

const LOCATIONS: Shape = Shape::List(&Shape::Object(&[
    required("path", Shape::Text),
    optional("line", Shape::Count),
    META,
]));

/// The kind of a tool call. The SDKs read an unknown kind as `other`, so any string is valid.
const TOOL_KIND: Shape = Shape::Text;

const TOOL_STATUS: Shape = Shape::OneOf(&["pending", "in_progress", "completed", "failed"]);

/// Schema 0.6.3. Its enums have the same values in all v1 schemas up to 1.15.1.
pub(crate) static SCHEMA_0_6: UpdateSchema =
    UpdateSchema { kinds: KINDS_0_6, fails_on_others: true };

const KINDS_0_6: &[(&str, &[Member])] = &[
    ("user_message_chunk", CHUNK),
    ("agent_message_chunk", CHUNK),
    ("agent_thought_chunk", CHUNK),
    (
        "tool_call",
        &[
            required("toolCallId", Shape::Text),
            required("title", Shape::Text),
            defaulted("kind", TOOL_KIND),
            defaulted("status", TOOL_STATUS),
            defaulted("content", TOOL_CONTENT),
            defaulted("locations", LOCATIONS),
            META,
        ],
    ),
    (
        "tool_call_update",
        &[
            required("toolCallId", Shape::Text),
            optional("title", Shape::Text),
            optional("kind", TOOL_KIND),
            optional("status", TOOL_STATUS),
            optional("content", TOOL_CONTENT),
            optional("locations", LOCATIONS),
            META,
        ],
    ),
    (
        "plan",
        &[
            required(
                "entries",
                Shape::List(&Shape::Object(&[
                    required("content", Shape::Text),
                    required("priority", Shape::OneOf(&["high", "medium", "low"])),
                    required("status", Shape::OneOf(&["pending", "in_progress", "completed"])),
                    META,
                ])),
            ),
            META,
        ],
    ),
    (
        "available_commands_update",
        &[
            required(
                "availableCommands",
                Shape::List(&Shape::Object(&[
                    required("name", Shape::Text),
                    required("description", Shape::Text),
                    optional("input", Shape::Object(&[required("hint", Shape::Text)])),
                    META,
                ])),
            ),
            META,
        ],
    ),
    ("current_mode_update", &[required("currentModeId", Shape::Text), META]),
];

/// Schema 1.15.1 in ACP v1, without unstable features. It replaces unknown values with defaults, except in
/// content blocks. An SDK with this schema drops other updates and continues. In ACP v2 it accepts all
/// updates.
pub(crate) static SCHEMA_1_15: UpdateSchema = UpdateSchema {
    kinds: &[
        ("user_message_chunk", CHUNK),
        ("agent_message_chunk", CHUNK),
        ("agent_thought_chunk", CHUNK),
        ("tool_call", &[]),
        ("tool_call_update", &[]),
        ("plan", &[]),
        ("available_commands_update", &[]),
        ("current_mode_update", &[]),
        ("config_option_update", &[]),
        ("session_info_update", &[]),
        ("usage_update", &[]),
        ("notice", &[]),
        ("compaction_update", &[]),
        ("compaction_summary_chunk", CHUNK),
    ],
    fails_on_others: false,
};

/// All update kinds of schema 1.15.1, in v1 or v2, stable or not.
pub const CURRENT_KINDS: [&str; 26] = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
    "compaction_update",
    "compaction_summary_chunk",
    "plan_update",
    "plan_removed",
    "subagent_update",
    "session_message",
    "session_message_chunk",
    "user_message",
    "agent_message",
    "agent_thought",
    "state_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
];

impl UpdateSchema {
    /// The update kinds that these SDKs accept.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|(name, _)| *name)
    }

    /// Whether these SDKs can read the params of this `session/update`, as far as that depends on the age
    /// of their schema. An update without a kind, or without a member that every schema requires, is
    /// malformed and not newer. It counts as readable, so it is left to the proxy.
    pub fn can_read(&self, params: &Json) -> bool {
        let Some(update) = params.member("update") else { return true };
        let Some(kind) = update.member("sessionUpdate") else { return true };
        match self.kinds.iter().find(|(name, _)| kind.equals_text(name)) {
            Some((_, members)) => {
                members.iter().all(|it| update.member(it.name).is_none() || has(&update, it))
            }
            None => !kind.is_string(),
        }
    }
}

/// The kind of a `session/update`, as a JSON string.
pub fn update_kind(params: &Json) -> Option<Json> {
    params.first_at(&["update", "sessionUpdate"]).filter(Json::is_string)
}

/// Whether the object has this member with a valid value, or may omit it.
fn has(object: &Json, member: &Member) -> bool {
    match object.member(member.name) {
        None => member.presence != Presence::Required,
        Some(value) if value.is_null() => member.presence == Presence::Optional,
        Some(value) => fits(&value, &member.shape),
    }
}

/// Whether a value has this shape. The shape limits the depth of the recursion, so deeply nested values are safe.
fn fits(value: &Json, shape: &Shape) -> bool {
    match shape {
        Shape::Text => value.is_string(),
        Shape::Number => matches!(value.as_bytes().first(), Some(b'-' | b'0'..=b'9')),
        Shape::Count => value.integer().is_some_and(|it| u32::try_from(it).is_ok()),
        Shape::OneOf(texts) => texts.iter().any(|text| value.equals_text(text)),
        Shape::List(shape) => {
            value.is_array() && value.elements().iter().all(|element| fits(element, shape))
        }
        Shape::Object(members) => value.is_object() && members.iter().all(|it| has(value, it)),
        Shape::Typed(variants) => {
            let Some(tag) = value.member("type") else { return false };
            let variant = variants.iter().find(|(name, _)| tag.equals_text(name));
            variant.is_some_and(|(_, members)| members.iter().all(|it| has(value, it)))
        }
        Shape::Either(one, other) => fits(value, one) || fits(value, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Generation;

    fn reads(generation: &str, update: &str) -> bool {
        let updates = Generation::from_name(generation).unwrap().update_schema().unwrap();
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        updates.can_read(&Json::parse(params).unwrap())
    }

    #[test]
    fn an_update_kind_newer_than_the_schema_cannot_be_read() {
        let read_by = |generation: &str| {
            let updates = Generation::from_name(generation).unwrap().update_schema().unwrap();
            CURRENT_KINDS.into_iter().filter(|kind| updates.kinds().any(|it| it == *kind)).count()
        };
        assert_eq!([read_by("P3"), read_by("P4"), read_by("P5")], [8, 8, 14]);
        for generation in ["P3", "P4", "P5"] {
            for kind in ["plan_update", "state_update", "_future", ""] {
                let update = format!(r#"{{"sessionUpdate":"{kind}"}}"#);
                assert!(!reads(generation, &update), "{generation} {kind}");
            }
        }
        let usage = r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#;
        assert!(!reads("P4", usage) && reads("P5", usage));
        // An escaped kind is recognised.
        assert!(reads("P4", r#"{"sessionUpdate":"current_mod\u0065_update","currentModeId":"x"}"#));
    }

    #[test]
    fn a_malformed_update_counts_as_readable() {
        let chunk = r#"{"sessionUpdate":"agent_message_chunk","messageId":"m"}"#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#;
        for update in ["{}", "null", "1", r#"{"sessionUpdate":1}"#, chunk, call] {
            assert!(reads("P4", update), "{update}");
        }
        assert!(SCHEMA_0_6.can_read(&Json::trusted("{}")));
    }

    #[test]
    fn a_value_newer_than_the_schema_cannot_be_read() {
        let known = [
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m"}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","annotations":{"audience":["user"],"priority":0.5}}}"#,
            r#"{"sessionUpdate":"user_message_chunk","content":{"type":"resource","resource":{"uri":"u","blob":"b"}}}"#,
            r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","kind":"newest","status":"failed"}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":null,"content":[{"type":"diff","path":"/a","newText":"n","oldText":null}],"locations":[{"path":"/a","line":3}],"rawInput":[1]}"#,
            r#"{"sessionUpdate":"plan","entries":[{"content":"c","priority":"high","status":"pending"}],"_meta":null}"#,
            r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"n","description":"d","input":{"type":"text","hint":"h"}}]}"#,
        ];
        for update in known {
            assert!(reads("P3", update) && reads("P4", update), "{update}");
        }
        let newer = [
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"video","data":""}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","annotations":{"audience":["robot"]}}}"#,
            r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","status":null}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"paused"}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"diff","changes":[]}]}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"chart"}]}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"content","content":{"type":"video"}}]}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","locations":[{"path":"/a","line":-3}]}"#,
            r#"{"sessionUpdate":"plan","entries":[{"content":"c","priority":"high","status":"cancelled"}]}"#,
            r#"{"sessionUpdate":"plan","entries":[{"content":"c","priority":"urgent","status":"pending"}]}"#,
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"m","_meta":[]}"#,
        ];
        for update in newer {
            assert!(!reads("P3", update) && !reads("P4", update), "{update}");
        }
    }
}
