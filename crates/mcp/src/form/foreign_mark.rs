//! A mark for messages that only pass a component, and that it would take for its own.

use acp_wire::{Call, Json};

use super::text;

/// What stands after the id of a server, or of a connection, on the link of a proxy that has another
/// one with the same id. It would take the message for its own.
const MARK: &str = "#theirs";

/// All members that name a server or a connection.
const NAMES: [&str; 9] = [
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

/// The message with a mark on what it names.
pub(crate) fn mark_as_foreign(call: &Call) -> Call {
    renamed(call, |name| Some(format!("{name}{MARK}"))).unwrap_or_else(|| call.clone())
}

/// The message as it was before it was marked, if it was.
pub(crate) fn strip_foreign_mark(call: &Call) -> Option<Call> {
    renamed(call, |name| name.strip_suffix(MARK).map(str::to_owned))
}

fn renamed(call: &Call, rename: impl Fn(&str) -> Option<String>) -> Option<Call> {
    let mut params = call.params.clone()?;
    let mut found = false;
    for key in NAMES {
        if let Some(name) = text(&params, key).and_then(|name| rename(&name)) {
            params = params.with_member(key, &Json::string(&name));
            found = true;
        }
    }
    found.then(|| Call { params: Some(params), ..call.clone() })
}
