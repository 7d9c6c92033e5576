//! Finds messages that programs of different forms read differently.

use super::{Form, Frame, decode, strip_acp_prefix, text};
use crate::{Call, Json};

const SERVER_MEMBERS: [&str; 7] =
    ["serverId", "acpId", "acpUrl", "acp_url", "acp_id", "url", "name"];
const CONNECTION_MEMBERS: [&str; 2] = ["connectionId", "connection_id"];
const OTHER_MEMBERS: [&str; 4] = ["requestId", "message", "method", "params"];

/// The first member of a message that belongs to another form than the one that [`decode`] reads, or that names
/// another server or connection than the rest of the message. A program that supports that other form may read the
/// message differently. `None` also if the message is not of any form.
pub fn mixed_forms(call: &Call) -> Option<&'static str> {
    let (form, frame) = decode(call)?;
    let params = call.params.as_ref()?;
    let is_connect = matches!(frame, Frame::Connect { .. });
    let own: &[&str] = match frame {
        // A connect often has the members of several forms, for components that know only one of them.
        Frame::Connect { .. } => match call.is("mcp/connect") {
            true => &["serverId", "acpId", "acpUrl"],
            false => &["acp_url", "acp_id", "url", "connectionId", "connection_id"],
        },
        Frame::Disconnect { .. } => &CONNECTION_MEMBERS,
        Frame::Mcp { .. } => match form {
            Form::M0 => &["name", "message"],
            Form::M1 => &["url", "message"],
            Form::M7 => &["serverId", "requestId", "method", "params"],
            _ => &["connectionId", "connection_id", "method", "params"],
        },
    };
    let all = SERVER_MEMBERS.iter().chain(&CONNECTION_MEMBERS).chain(&OTHER_MEMBERS);
    // Some programs write a member without a value as null.
    let is_present = |key: &str| params.member(key).is_some_and(|it| !it.is_null());
    let foreign = all.copied().find(|key| !own.contains(key) && is_present(key));
    let servers = || differing(params, &SERVER_MEMBERS, strip_acp_prefix).filter(|_| is_connect);
    foreign.or_else(servers).or_else(|| differing(params, &CONNECTION_MEMBERS, |id| id))
}

/// The first of these members whose value is no text, or another one than that of the members before it.
fn differing(
    params: &Json,
    keys: &'static [&'static str],
    normal: fn(&str) -> &str,
) -> Option<&'static str> {
    let mut first = None;
    keys.iter().copied().find(|key| {
        if params.member(key).is_none_or(|it| it.is_null()) {
            return false;
        }
        let Some(value) = text(params, key) else { return true };
        let value = normal(&value).to_owned();
        *first.get_or_insert_with(|| value.clone()) != value
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{Address, Direction, MESSAGE_METHODS};

    const FORMS: [Form; 9] =
        [Form::M0, Form::M1, Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6, Form::M7];

    #[test]
    fn what_a_form_encodes_does_not_mix_forms() {
        let address = Address { server: "U", connection_id: "V", request_id: "r" };
        let inner = Call::new("tools/call", Json::EMPTY_OBJECT);
        for form in FORMS {
            let connect = form.encode_connect("U", "V");
            let connect = form.with_all_server_keys(connect, "U");
            let message = form.encode_message(Direction::ToServer, address, None, &inner);
            for call in [connect, message, form.encode_disconnect("V").0] {
                assert_eq!(mixed_forms(&call), None, "{call:?}");
            }
        }
    }

    /// Every set of members, for every method that carries an MCP message.
    #[test]
    fn a_message_with_an_address_that_decode_does_not_read_mixes_forms() {
        let keys: Vec<&'static str> =
            [&SERVER_MEMBERS[..], &CONNECTION_MEMBERS, &OTHER_MEMBERS].concat();
        for method in MESSAGE_METHODS {
            for set in 0..1_u32 << keys.len() {
                let has = |index: usize| set & (1 << index) != 0;
                let value = |key: &str| match key {
                    "message" => Json::trusted(r#"{"method":"inner"}"#),
                    "method" => Json::string("outer"),
                    "params" => Json::EMPTY_OBJECT,
                    _ => Json::string(key),
                };
                let members = keys.iter().enumerate().filter(|(index, _)| has(*index));
                let members = members.map(|(_, key)| (*key, Some(value(key))));
                let call = Call::new(method, Json::object(members));
                let Some((_, frame)) = decode(&call) else { continue };
                if mixed_forms(&call).is_some() {
                    continue;
                }
                let Frame::Mcp { call: inner, .. } = &frame else { panic!("{call:?}") };
                let is_whole = has(keys.iter().position(|it| *it == "message").unwrap());
                assert_eq!(inner.is("inner"), is_whole, "{call:?}");
                let addresses = (0..9).filter(|index| has(*index)).count();
                assert_eq!(addresses, 1, "{call:?}");
            }
        }
    }

    #[test]
    fn a_connect_names_one_server() {
        for (method, params, mixed) in [
            ("_mcp/connect", r#"{"acp_url":"acp:U","url":"U","connectionId":"V"}"#, None),
            ("_mcp/connect", r#"{"acp_url":"acp:U","url":"acp:W"}"#, Some("url")),
            ("_mcp/connect", r#"{"acp_url":"acp:U","serverId":"U"}"#, Some("serverId")),
            ("_mcp/connect", r#"{"acp_url":"acp:U","serverId":null}"#, None),
            ("mcp/connect", r#"{"serverId":"U","acpId":"W"}"#, Some("acpId")),
            ("mcp/connect", r#"{"serverId":"U","acpId":7}"#, Some("acpId")),
            ("_mcp/disconnect", r#"{"connection_id":"V","connectionId":"V"}"#, None),
            (
                "_mcp/disconnect",
                r#"{"connection_id":"V","connectionId":"W"}"#,
                Some("connection_id"),
            ),
        ] {
            let call = Call::new(method, Json::trusted(params));
            assert_eq!(mixed_forms(&call), mixed, "{method} {params}");
        }
    }
}
