//! The MCP servers in a set-up request: a request that creates, loads or resumes a session.
//!
//! A server whose transport is the ACP channel itself (an *ACP server*) is declared in one of these ways:
//!
//! ```json
//! {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}
//! {"mcpServers":[{"type":"acp","name":"N","id":"U"}]}
//! {"mcpServers":[{"type":"http","name":"N","url":"acp:U","headers":[]}]}
//! {"mcpServers":[{"type":"scp","name":"N"}]}
//! {"tools":{"mcpServers":{"N":{"transport":"acp","uuid":"U"}}}}
//! {"tools":{"mcpServers":{"N":{"transport":"http","url":"acp:U","headers":{}}}}}
//! ```

use acp_wire::{Call, Json, acp};

use crate::endpoint::Endpoint;
use crate::form::{acp_url, escape_acp_prefix, strip_acp_prefix};

/// Whether a request may declare MCP servers. Methods of later ACP versions may do so too, so this
/// function accepts more methods than `acp_wire::acp::MethodKind::SetUpSession`.
pub fn may_carry_servers(call: &Call) -> bool {
    let method = call.method.name();
    method.starts_with("session/") && !matches!(&*method, acp::PROMPT | acp::UPDATE)
}

/// The list of servers in a set-up request.
#[derive(Debug, Clone)]
pub(crate) struct ServerList {
    path: &'static [&'static str],
    /// Whether the list is a map from names to servers.
    map: bool,
    entries: Vec<ServerEntry>,
}

/// One server in the list.
#[derive(Debug, Clone)]
pub(crate) struct ServerEntry {
    /// The name of the server, if the list is a map.
    key: Option<String>,
    /// The declaration as it is written.
    pub json: Json,
    /// The decoded declaration, if it is an ACP server.
    pub acp_server: Option<AcpServer>,
}

/// A server whose transport is the ACP channel, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AcpServer {
    /// The name that users see.
    pub name: String,
    /// The id without one leading `acp:`. It is the name, if the declaration has no id.
    pub id: String,
    /// The id exactly as it is written in the declaration.
    pub raw_id: String,
    /// How the server is declared.
    pub syntax: Syntax,
}

/// The ways to declare an ACP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// `type: "acp"` with `serverId`.
    ServerId,
    /// `type: "acp"` with `id` only.
    AcpId,
    /// `transport: "acp"` with `uuid`.
    Uuid,
    /// `type: "http"` with a URL `acp:…`.
    Url,
    /// `type: "scp"`.
    Scp,
    /// `type: "acp"` without an id.
    MissingId,
}

const SERVER_PATHS: [&[&str]; 2] = [&["mcpServers"], &["tools", "mcpServers"]];

impl ServerList {
    /// Finds the servers in the params of a request.
    pub(crate) fn find(params: &Json) -> Option<ServerList> {
        let (path, json) = SERVER_PATHS.iter().find_map(|path| Some((*path, params.at(path)?)))?;
        let entry = |(key, json): (Option<String>, Json)| {
            let acp_server = read(key.as_deref(), &json);
            ServerEntry { key, json, acp_server }
        };
        let map = json.is_object();
        let entries = if map {
            json.members().into_iter().map(|(key, json)| entry((Some(key), json))).collect()
        } else {
            json.elements().into_iter().map(|json| entry((None, json))).collect()
        };
        Some(ServerList { path, map, entries })
    }

    /// The servers, in the order of the request.
    pub(crate) fn entries(&self) -> &[ServerEntry] {
        &self.entries
    }

    /// The servers, to be rewritten.
    pub(crate) fn entries_mut(&mut self) -> &mut [ServerEntry] {
        &mut self.entries
    }

    /// Removes the ACP servers that match. Returns whether any server was removed.
    pub(crate) fn remove_matching(&mut self, is_match: impl Fn(&AcpServer) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| !entry.acp_server.as_ref().is_some_and(&is_match));
        self.entries.len() < before
    }

    /// Removes the entries at these indexes.
    pub(crate) fn remove_indexes(&mut self, indexes: &[usize]) {
        let mut index = 0..;
        self.entries.retain(|_| !index.next().is_some_and(|index| indexes.contains(&index)));
    }

    /// Whether the list contains an ACP server.
    pub(crate) fn has_acp_servers(&self) -> bool {
        self.entries.iter().any(|entry| entry.acp_server.is_some())
    }

    /// Returns the params with their list of servers replaced by this one.
    pub(crate) fn write(&self, params: &Json) -> Json {
        let servers = match self.map {
            true => Json::object(
                self.entries
                    .iter()
                    .map(|entry| (entry.key.as_deref().unwrap_or(""), Some(entry.json.clone()))),
            ),
            false => Json::array(self.entries.iter().map(|entry| &entry.json)),
        };
        params.with_at(self.path, Some(&servers))
    }
}

/// Decodes the declaration of an ACP server. `key` is the name of the server, if the list is a map.
fn read(key: Option<&str>, json: &Json) -> Option<AcpServer> {
    let text = |name: &str| json.member(name)?.text().map(|text| text.into_owned());
    let name = key.map(str::to_owned).or_else(|| text("name"));
    let kind = text("type").or_else(|| text("transport")).unwrap_or_default();
    let acp_server = |raw_id: String, syntax| {
        let id = match syntax {
            Syntax::Scp | Syntax::MissingId => raw_id.clone(),
            _ => strip_acp_prefix(&raw_id).to_owned(),
        };
        Some(AcpServer { name: name.clone().unwrap_or_else(|| id.clone()), id, raw_id, syntax })
    };
    match kind.as_str() {
        "acp" => {
            let id_keys = [
                ("serverId", Syntax::ServerId),
                ("id", Syntax::AcpId),
                ("uuid", Syntax::Uuid),
                ("url", Syntax::Url),
            ];
            let found = id_keys.into_iter().find_map(|(key, syntax)| Some((text(key)?, syntax)));
            match found {
                Some((id, syntax)) => acp_server(id, syntax),
                None => acp_server(name.clone().unwrap_or_default(), Syntax::MissingId),
            }
        }
        "scp" => acp_server(name.clone()?, Syntax::Scp),
        "http" | "sse" | "" => {
            let url = text("url").filter(|url| url.starts_with("acp:"))?;
            acp_server(url, Syntax::Url)
        }
        _ => None,
    }
}

/// How to rewrite the declaration of an ACP server.
#[derive(Debug, Clone)]
pub(crate) enum DeclareAs {
    /// `type: "http"` with a URL `acp:…`, which every generation accepts.
    Url,
    /// `type: "acp"` with `serverId`, the newest syntax.
    ServerId,
    /// `type: "acp"` with both `id` and `serverId`, for an agent whose version is not known.
    BothIds,
    /// `type: "scp"`, with the name alone.
    Scp,
    /// As a program or URL at an endpoint, for an agent that does not support MCP over ACP. In ACP
    /// v2 every server declares its type.
    Bridged { endpoint: Endpoint, v2: bool },
}

impl ServerEntry {
    /// The name of the server.
    pub(crate) fn name(&self) -> Option<String> {
        let name = || self.json.member("name")?.text().map(|text| text.into_owned());
        self.key.clone().or_else(name)
    }

    /// Rewrites the declaration, with this name and id.
    pub(crate) fn rewrite(&mut self, name: &str, id: &str, declare_as: &DeclareAs) {
        let map = self.key.is_some();
        let some = |text: &str| Some(Json::string(text));
        let id_text = || some(&escape_acp_prefix(id));
        let kind = |kind: &str| {
            let key = if map { "transport" } else { "type" };
            (key, Some(Json::string(kind)))
        };
        let title = || ("name", (!map).then(|| Json::string(name)));
        let meta = ("_meta", self.json.member("_meta"));
        let pairs = |key: &str, value: &str| match map {
            true => Some(Json::object([(key, some(value))])),
            false => {
                let pair = Json::object([("name", some(key)), ("value", some(value))]);
                Some(Json::array([&pair]))
            }
        };
        self.json = match declare_as {
            DeclareAs::Url => {
                let none = if map { Json::EMPTY_OBJECT } else { Json::array([]) };
                Json::object([
                    kind("http"),
                    title(),
                    ("url", Some(acp_url(id))),
                    ("headers", Some(none)),
                    meta,
                ])
            }
            DeclareAs::ServerId | DeclareAs::BothIds if map => {
                Json::object([kind("acp"), ("uuid", id_text()), meta])
            }
            DeclareAs::ServerId => {
                Json::object([kind("acp"), title(), ("serverId", id_text()), meta])
            }
            DeclareAs::Scp => Json::object([kind("scp"), title(), meta]),
            DeclareAs::BothIds => {
                let ids = [("id", id_text()), ("serverId", id_text())];
                Json::object([kind("acp"), title()].into_iter().chain(ids).chain([meta]))
            }
            DeclareAs::Bridged {
                endpoint: Endpoint::Stdio { program, port, variable, secret },
                v2,
            } => {
                let args = [Json::string("mcp"), Json::string(&port.to_string())];
                let typed = (map || *v2).then(|| kind("stdio"));
                let members = [
                    title(),
                    ("command", some(program)),
                    ("args", Some(Json::array(&args))),
                    ("env", pairs(variable, secret)),
                    meta,
                ];
                Json::object(typed.into_iter().chain(members))
            }
            DeclareAs::Bridged { endpoint: Endpoint::Http { url, secret }, .. } => {
                let headers = pairs("Authorization", &format!("Bearer {secret}"));
                Json::object([
                    kind("http"),
                    title(),
                    ("url", some(url)),
                    ("headers", headers),
                    meta,
                ])
            }
        };
        self.key = self.key.take().map(|_| name.to_owned());
        self.acp_server = read(self.key.as_deref(), &self.json);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(params: &str) -> (Json, ServerList) {
        let params = Json::parse(params.to_owned()).unwrap();
        let servers = ServerList::find(&params).unwrap();
        (params, servers)
    }

    /// Every syntax of the protocol documents, as list and as map.
    #[test]
    fn declarations_in_every_syntax_are_decoded() {
        for (params, id, syntax) in [
            (r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#, "U", Syntax::ServerId),
            (r#"{"mcpServers":[{"type":"acp","name":"N","id":"U"}]}"#, "U", Syntax::AcpId),
            (
                r#"{"mcpServers":[{"type":"acp","name":"N","id":"V","serverId":"U"}]}"#,
                "U",
                Syntax::ServerId,
            ),
            (
                r#"{"mcpServers":[{"type":"http","name":"N","url":"acp:U","headers":[]}]}"#,
                "U",
                Syntax::Url,
            ),
            (r#"{"mcpServers":[{"name":"N","transport":"acp","uuid":"U"}]}"#, "U", Syntax::Uuid),
            (r#"{"mcpServers":[{"type":"scp","name":"N"}]}"#, "N", Syntax::Scp),
            (r#"{"mcpServers":[{"type":"acp","name":"N"}]}"#, "N", Syntax::MissingId),
            (r#"{"tools":{"mcpServers":{"N":{"transport":"acp","uuid":"U"}}}}"#, "U", Syntax::Uuid),
            (
                r#"{"tools":{"mcpServers":{"N":{"transport":"http","url":"acp:U","headers":{}}}}}"#,
                "U",
                Syntax::Url,
            ),
            (
                r#"{"mcpServers":{"N":{"transport":"http","url":"acp:U","headers":{}}}}"#,
                "U",
                Syntax::Url,
            ),
        ] {
            let (_, servers) = servers(params);
            let raw_id = match syntax {
                Syntax::Url => format!("acp:{id}"),
                _ => id.to_owned(),
            };
            let acp_server = AcpServer { name: "N".into(), id: id.into(), raw_id, syntax };
            assert_eq!(servers.entries()[0].acp_server, Some(acp_server), "{params}");
        }
    }

    /// Checklist 73.
    #[test]
    fn other_servers_are_not_acp_servers_and_stay_unchanged() {
        let text = r#"{"cwd":"/x","mcpServers":[{"name":"a", "command":"b","args":[],"env":[]},{"type":"http","name":"h","url":"http://x","headers":[]},{"type":"sse","name":"s","url":"https://y","headers":[]},{"type":"acp","name":"N","serverId":"U"}],"z":1.10}"#;
        let (params, mut servers) = servers(text);
        assert_eq!(servers.write(&params).as_str(), text);
        let entry = &mut servers.entries_mut()[3];
        entry.rewrite("N", "U", &DeclareAs::Url);
        let written = servers.write(&params);
        assert_eq!(
            written.as_str(),
            text.replace(
                r#"{"type":"acp","name":"N","serverId":"U"}"#,
                r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#
            )
        );
    }

    #[test]
    fn each_declaration_is_written_as_list_and_as_map() {
        let stdio = Endpoint::Stdio {
            program: "/bin/c".into(),
            port: 7,
            variable: "S".into(),
            secret: "x".into(),
        };
        let http = Endpoint::Http { url: "http://127.0.0.1:7/mcp/o".into(), secret: "x".into() };
        for (declare_as, list, map) in [
            (
                DeclareAs::Url,
                r#"{"type":"http","name":"M","url":"acp:U","headers":[]}"#,
                r#"{"transport":"http","url":"acp:U","headers":{}}"#,
            ),
            (
                DeclareAs::ServerId,
                r#"{"type":"acp","name":"M","serverId":"U"}"#,
                r#"{"transport":"acp","uuid":"U"}"#,
            ),
            (
                DeclareAs::BothIds,
                r#"{"type":"acp","name":"M","id":"U","serverId":"U"}"#,
                r#"{"transport":"acp","uuid":"U"}"#,
            ),
            (
                DeclareAs::Bridged { endpoint: stdio.clone(), v2: false },
                r#"{"name":"M","command":"/bin/c","args":["mcp","7"],"env":[{"name":"S","value":"x"}]}"#,
                r#"{"transport":"stdio","command":"/bin/c","args":["mcp","7"],"env":{"S":"x"}}"#,
            ),
            (
                DeclareAs::Bridged { endpoint: http, v2: true },
                r#"{"type":"http","name":"M","url":"http://127.0.0.1:7/mcp/o","headers":[{"name":"Authorization","value":"Bearer x"}]}"#,
                r#"{"transport":"http","url":"http://127.0.0.1:7/mcp/o","headers":{"Authorization":"Bearer x"}}"#,
            ),
        ] {
            let (params, mut as_list) = servers(r#"{"mcpServers":[{"type":"scp","name":"N"}]}"#);
            as_list.entries_mut()[0].rewrite("M", "U", &declare_as);
            assert_eq!(as_list.write(&params).as_str(), format!(r#"{{"mcpServers":[{list}]}}"#));
            let (params, mut as_map) =
                servers(r#"{"tools":{"mcpServers":{"N":{"transport":"acp","uuid":"U"}}}}"#);
            as_map.entries_mut()[0].rewrite("M", "U", &declare_as);
            assert_eq!(
                as_map.write(&params).as_str(),
                format!(r#"{{"tools":{{"mcpServers":{{"M":{map}}}}}}}"#)
            );
        }
        let (_, mut entry) = servers(
            r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U","_meta":{"k":1.0}}]}"#,
        );
        entry.entries_mut()[0].rewrite("N", "U", &DeclareAs::Bridged { endpoint: stdio, v2: true });
        let json = entry.entries()[0].json.to_string();
        assert!(
            json.starts_with(r#"{"type":"stdio","name":"N""#)
                && json.ends_with(r#","_meta":{"k":1.0}}"#),
            "{json}"
        );
    }
}
