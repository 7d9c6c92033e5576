//! Marks the ids in messages that pass through a component and are meant for another one.

use acp_wire::{Call, Json};

/// The suffix of a marked id. It is used on the link of a proxy that has a server or connection
/// with the same id. Without the mark the proxy would handle the message itself.
const MARK: &str = "#theirs";

/// All members that hold the id of a server or a connection.
const ID_MEMBERS: [&str; 9] = [
    "serverId",
    "acpId",
    "acpUrl",
    "acp_url",
    "acp_id",
    "url",
    "name",
    "connectionId",
    "connection_id",
];

/// Marks every server id and connection id in a message.
pub(super) fn mark_as_foreign(call: &Call) -> Call {
    rename_ids(call, |name| Some(format!("{name}{MARK}"))).unwrap_or_else(|| call.clone())
}

/// Removes the mark from a message. Returns `None` if it has none.
pub(super) fn strip_foreign_mark(call: &Call) -> Option<Call> {
    rename_ids(call, |name| name.strip_suffix(MARK).map(str::to_owned))
}

fn rename_ids(call: &Call, rename: impl Fn(&str) -> Option<String>) -> Option<Call> {
    let mut params = call.params.clone()?;
    let mut found = false;
    for key in ID_MEMBERS {
        if let Some(name) = params.member(key).and_then(|it| rename(&it.text()?)) {
            params = params.with_member(key, &Json::string(&name));
            found = true;
        }
    }
    found.then(|| Call { params: Some(params), ..call.clone() })
}
