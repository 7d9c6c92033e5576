//! The MCP servers that a session is set up with, and how a server whose transport is the ACP channel
//! itself is declared.
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
use crate::form::{bare, prefixed, url};

/// Whether a request may carry servers: those that set a session up do, and methods of later versions of ACP may. So it is
/// more than `acp_wire::acp::Topic::SetUp`.
pub fn may_carry_servers(call: &Call) -> bool {
    let method = call.method.name();
    method.starts_with("session/") && !matches!(&*method, acp::PROMPT | acp::UPDATE)
}

/// The servers of a set-up request.
#[derive(Debug, Clone)]
pub struct Servers {
    path: &'static [&'static str],
    /// They are a map, by name.
    map: bool,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub struct Entry {
    /// Where servers are a map, their names are its keys.
    key: Option<String>,
    pub json: Json,
    /// If it is to be reached over ACP.
    pub offer: Option<Offer>,
}

/// A server that is to be reached over ACP, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    /// Its id, without one leading `acp:`. The name, where it has no other.
    pub id: String,
    /// The id as it is declared.
    pub spelt: String,
    pub spelling: Spelling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `type: "acp"` with `serverId`
    ServerId,
    /// `type: "acp"` with `id` only
    AcpId,
    /// `transport: "acp"` with `uuid`
    Uuid,
    /// http with a URL `acp:…`
    Url,
    /// `type: "scp"`
    Scp,
    /// `type: "acp"` and no id
    Nameless,
}

const PLACES: [&[&str]; 2] = [&["mcpServers"], &["tools", "mcpServers"]];

impl Servers {
    /// Finds the servers in the params of a set-up request.
    pub fn find(params: &Json) -> Option<Servers> {
        let (path, json) = PLACES.iter().find_map(|path| Some((*path, params.at(path)?)))?;
        let entry = |(key, json): (Option<String>, Json)| {
            let offer = read(key.as_deref(), &json);
            Entry { key, json, offer }
        };
        let map = json.is_object();
        let entries = if map {
            json.members().into_iter().map(|(key, json)| entry((Some(key), json))).collect()
        } else {
            json.elements().into_iter().map(|json| entry((None, json))).collect()
        };
        Some(Servers { path, map, entries })
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// Leaves out what is offered over ACP and fits. Says whether anything did.
    pub fn leave_out(&mut self, fits: impl Fn(&Offer) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| !entry.offer.as_ref().is_some_and(&fits));
        self.entries.len() < before
    }

    /// Leaves out the entries with these indexes.
    pub fn leave_out_at(&mut self, indexes: &[usize]) {
        let mut index = 0..;
        self.entries.retain(|_| !index.next().is_some_and(|index| indexes.contains(&index)));
    }

    pub fn has_offers(&self) -> bool {
        self.entries.iter().any(|entry| entry.offer.is_some())
    }

    /// The params with these servers instead of theirs.
    pub fn write(&self, params: &Json) -> Json {
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

fn read(key: Option<&str>, json: &Json) -> Option<Offer> {
    let text = |name: &str| json.member(name)?.text().map(|text| text.into_owned());
    let name = key.map(str::to_owned).or_else(|| text("name"));
    let kind = text("type").or_else(|| text("transport")).unwrap_or_default();
    let offer = |spelt: String, spelling| {
        let id = match spelling {
            Spelling::Scp | Spelling::Nameless => spelt.clone(),
            _ => bare(&spelt).to_owned(),
        };
        Some(Offer { name: name.clone().unwrap_or_else(|| id.clone()), id, spelt, spelling })
    };
    match kind.as_str() {
        "acp" => {
            let spelt = [
                ("serverId", Spelling::ServerId),
                ("id", Spelling::AcpId),
                ("uuid", Spelling::Uuid),
                ("url", Spelling::Url),
            ];
            let found = spelt.into_iter().find_map(|(key, spelling)| Some((text(key)?, spelling)));
            match found {
                Some((id, spelling)) => offer(id, spelling),
                None => offer(name.clone().unwrap_or_default(), Spelling::Nameless),
            }
        }
        "scp" => offer(name.clone()?, Spelling::Scp),
        "http" | "sse" | "" => {
            let url = text("url").filter(|url| url.starts_with("acp:"))?;
            offer(url, Spelling::Url)
        }
        _ => None,
    }
}

/// How to declare a server that is reached over ACP.
#[derive(Debug, Clone)]
pub enum Manner {
    /// As every generation takes it: http with a URL that says `acp:`.
    Url,
    /// As the newest has it.
    ServerId,
    /// To an agent of which it is not known which of the newest it is of.
    BothIds,
    /// By its name alone.
    Scp,
    /// Not at all: as a server that the agent starts, or finds, at this place. In ACP v2 every
    /// server says its type.
    Bridged { place: Endpoint, v2: bool },
}

impl Entry {
    pub fn name(&self) -> Option<String> {
        let name = || self.json.member("name")?.text().map(|text| text.into_owned());
        self.key.clone().or_else(name)
    }

    /// Spells the entry in another manner, with this name and id.
    pub fn respell(&mut self, name: &str, id: &str, manner: &Manner) {
        let map = self.key.is_some();
        let some = |text: &str| Some(Json::string(text));
        let id_text = || some(&prefixed(id));
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
        self.json = match manner {
            Manner::Url => {
                let none = if map { Json::EMPTY } else { Json::array([]) };
                Json::object([
                    kind("http"),
                    title(),
                    ("url", Some(url(id))),
                    ("headers", Some(none)),
                    meta,
                ])
            }
            Manner::ServerId | Manner::BothIds if map => {
                Json::object([kind("acp"), ("uuid", id_text()), meta])
            }
            Manner::ServerId => Json::object([kind("acp"), title(), ("serverId", id_text()), meta]),
            Manner::Scp => Json::object([kind("scp"), title(), meta]),
            Manner::BothIds => {
                let ids = [("id", id_text()), ("serverId", id_text())];
                Json::object([kind("acp"), title()].into_iter().chain(ids).chain([meta]))
            }
            Manner::Bridged { place: Endpoint::Stdio { program, port, variable, secret }, v2 } => {
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
            Manner::Bridged { place: Endpoint::Http { url, secret }, .. } => {
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
        self.offer = read(self.key.as_deref(), &self.json);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(params: &str) -> (Json, Servers) {
        let params = Json::parse(params.to_owned()).unwrap();
        let servers = Servers::find(&params).unwrap();
        (params, servers)
    }

    /// Every form of the documents, as list and as map.
    #[test]
    fn declarations_of_every_generation_are_found() {
        for (params, id, spelling) in [
            (
                r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#,
                "U",
                Spelling::ServerId,
            ),
            (r#"{"mcpServers":[{"type":"acp","name":"N","id":"U"}]}"#, "U", Spelling::AcpId),
            (
                r#"{"mcpServers":[{"type":"acp","name":"N","id":"V","serverId":"U"}]}"#,
                "U",
                Spelling::ServerId,
            ),
            (
                r#"{"mcpServers":[{"type":"http","name":"N","url":"acp:U","headers":[]}]}"#,
                "U",
                Spelling::Url,
            ),
            (r#"{"mcpServers":[{"name":"N","transport":"acp","uuid":"U"}]}"#, "U", Spelling::Uuid),
            (r#"{"mcpServers":[{"type":"scp","name":"N"}]}"#, "N", Spelling::Scp),
            (r#"{"mcpServers":[{"type":"acp","name":"N"}]}"#, "N", Spelling::Nameless),
            (
                r#"{"tools":{"mcpServers":{"N":{"transport":"acp","uuid":"U"}}}}"#,
                "U",
                Spelling::Uuid,
            ),
            (
                r#"{"tools":{"mcpServers":{"N":{"transport":"http","url":"acp:U","headers":{}}}}}"#,
                "U",
                Spelling::Url,
            ),
            (
                r#"{"mcpServers":{"N":{"transport":"http","url":"acp:U","headers":{}}}}"#,
                "U",
                Spelling::Url,
            ),
        ] {
            let (_, servers) = servers(params);
            let spelt = match spelling {
                Spelling::Url => format!("acp:{id}"),
                _ => id.to_owned(),
            };
            let offer = Offer { name: "N".into(), id: id.into(), spelt, spelling };
            assert_eq!(servers.entries()[0].offer, Some(offer), "{params}");
        }
    }

    /// Checklist 73.
    #[test]
    fn other_servers_are_no_offers_and_stay_as_they_are_spelt() {
        let text = r#"{"cwd":"/x","mcpServers":[{"name":"a", "command":"b","args":[],"env":[]},{"type":"http","name":"h","url":"http://x","headers":[]},{"type":"sse","name":"s","url":"https://y","headers":[]},{"type":"acp","name":"N","serverId":"U"}],"z":1.10}"#;
        let (params, mut servers) = servers(text);
        assert_eq!(servers.write(&params).as_str(), text);
        let entry = &mut servers.entries_mut()[3];
        entry.respell("N", "U", &Manner::Url);
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
    fn each_manner_has_its_spelling_as_list_and_as_map() {
        let stdio = Endpoint::Stdio {
            program: "/bin/c".into(),
            port: 7,
            variable: "S".into(),
            secret: "x".into(),
        };
        let http = Endpoint::Http { url: "http://127.0.0.1:7/mcp/o".into(), secret: "x".into() };
        for (manner, list, map) in [
            (
                Manner::Url,
                r#"{"type":"http","name":"M","url":"acp:U","headers":[]}"#,
                r#"{"transport":"http","url":"acp:U","headers":{}}"#,
            ),
            (
                Manner::ServerId,
                r#"{"type":"acp","name":"M","serverId":"U"}"#,
                r#"{"transport":"acp","uuid":"U"}"#,
            ),
            (
                Manner::BothIds,
                r#"{"type":"acp","name":"M","id":"U","serverId":"U"}"#,
                r#"{"transport":"acp","uuid":"U"}"#,
            ),
            (
                Manner::Bridged { place: stdio.clone(), v2: false },
                r#"{"name":"M","command":"/bin/c","args":["mcp","7"],"env":[{"name":"S","value":"x"}]}"#,
                r#"{"transport":"stdio","command":"/bin/c","args":["mcp","7"],"env":{"S":"x"}}"#,
            ),
            (
                Manner::Bridged { place: http, v2: true },
                r#"{"type":"http","name":"M","url":"http://127.0.0.1:7/mcp/o","headers":[{"name":"Authorization","value":"Bearer x"}]}"#,
                r#"{"transport":"http","url":"http://127.0.0.1:7/mcp/o","headers":{"Authorization":"Bearer x"}}"#,
            ),
        ] {
            let (params, mut as_list) = servers(r#"{"mcpServers":[{"type":"scp","name":"N"}]}"#);
            as_list.entries_mut()[0].respell("M", "U", &manner);
            assert_eq!(as_list.write(&params).as_str(), format!(r#"{{"mcpServers":[{list}]}}"#));
            let (params, mut as_map) =
                servers(r#"{"tools":{"mcpServers":{"N":{"transport":"acp","uuid":"U"}}}}"#);
            as_map.entries_mut()[0].respell("M", "U", &manner);
            assert_eq!(
                as_map.write(&params).as_str(),
                format!(r#"{{"tools":{{"mcpServers":{{"M":{map}}}}}}}"#)
            );
        }
        let (_, mut entry) = servers(
            r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U","_meta":{"k":1.0}}]}"#,
        );
        entry.entries_mut()[0].respell("N", "U", &Manner::Bridged { place: stdio, v2: true });
        let json = entry.entries()[0].json.to_string();
        assert!(
            json.starts_with(r#"{"type":"stdio","name":"N""#)
                && json.ends_with(r#","_meta":{"k":1.0}}"#),
            "{json}"
        );
    }
}
