//! How each generation spells its messages, according to its document. The tests have their own copy, so that
//! they do not depend on what the program considers right.

use serde_json::{Value, json};
use testkit::rpc::{notification, request};

#[derive(Debug, PartialEq, Eq)]
pub struct Generation {
    pub name: &'static str,
    /// The method of the greeting of a proxy.
    pub greeting: &'static str,
    /// The methods of the envelope for a request and for a notification: of the proxy, and of the conductor.
    sends: [&'static str; 2],
    receives: [&'static str; 2],
    /// Whether the inner message is an object of its own.
    wrapped: bool,
    /// The params of an inner message without params.
    nothing: &'static str,
    /// The path of the capability in the greeting, and in its result, if there is one.
    pub offer: &'static [&'static str],
    pub acceptance: &'static [&'static str],
}

pub static P5: Generation = Generation {
    name: "P5",
    greeting: "proxy/initialize",
    sends: ["proxy/successor"; 2],
    receives: ["proxy/successor"; 2],
    wrapped: false,
    nothing: "",
    // Not the role, which is in the method, but MCP over ACP: in the RFD, conductors offer it to every
    // proxy, and proxies accept it.
    offer: &["_meta", "mcp_acp_transport"],
    acceptance: &["_meta", "mcp_acp_transport"],
};

pub static P4: Generation = Generation {
    name: "P4",
    greeting: "_proxy/initialize",
    sends: ["_proxy/successor"; 2],
    receives: ["_proxy/successor"; 2],
    nothing: "null",
    offer: &[],
    acceptance: &[],
    ..P5
};

pub static P3: Generation = Generation {
    name: "P3",
    greeting: "initialize",
    sends: ["_proxy/successor/request", "_proxy/successor/notification"],
    receives: ["_proxy/successor/request", "_proxy/successor/notification"],
    wrapped: false,
    nothing: "null",
    offer: &["clientCapabilities", "_meta", "symposium", "proxy"],
    acceptance: &["agentCapabilities", "_meta", "symposium", "proxy"],
};

pub static P3T: Generation =
    Generation { name: "P3t", offer: &["_meta", "proxy"], acceptance: &["_meta", "proxy"], ..P3 };

pub static P2: Generation = Generation {
    name: "P2",
    wrapped: true,
    nothing: "{}",
    offer: &["capabilities", "_meta", "symposium", "proxy"],
    acceptance: &["capabilities", "_meta", "symposium", "proxy"],
    ..P3
};

pub static P1: Generation = Generation {
    name: "P1",
    sends: ["_proxy/successor/send/request", "_proxy/successor/send/notification"],
    receives: ["_proxy/successor/receive/request", "_proxy/successor/receive/notification"],
    offer: &["_meta", "symposium", "proxy"],
    acceptance: &["_meta", "symposium", "proxy"],
    ..P2
};

/// Newest first.
pub static ALL: [&Generation; 6] = [&P5, &P4, &P3, &P3T, &P2, &P1];

impl Generation {
    /// The greetings that the conductor tries on an unknown proxy of this generation.
    pub fn probe_greetings(&self) -> &'static [&'static str] {
        match self.greeting {
            "proxy/initialize" => &["proxy/initialize"],
            "_proxy/initialize" => &["proxy/initialize", "_proxy/initialize"],
            _ => &["proxy/initialize", "initialize"],
        }
    }

    /// A request in the envelope of a proxy, to its successor.
    pub fn sent(&self, id: &str, method: &str, params: &str) -> String {
        request(id, self.sends[0], &self.inner(method, params))
    }

    pub fn sent_notification(&self, method: &str, params: &str) -> String {
        notification(self.sends[1], &self.inner(method, params))
    }

    /// A request in the envelope of a conductor, from the successor.
    pub fn received(&self, id: &str, method: &str, params: &str) -> String {
        request(id, self.receives[0], &self.inner(method, self.or_nothing(params)))
    }

    pub fn received_notification(&self, method: &str, params: &str) -> String {
        notification(self.receives[1], &self.inner(method, self.or_nothing(params)))
    }

    fn or_nothing<'a>(&self, params: &'a str) -> &'a str {
        if params.is_empty() { self.nothing } else { params }
    }

    fn inner(&self, method: &str, params: &str) -> String {
        let params = match params {
            "" => String::new(),
            params => format!(r#","params":{params}"#),
        };
        match self.wrapped {
            true => format!(r#"{{"message":{{"method":"{method}"{params}}}}}"#),
            false => format!(r#"{{"method":"{method}"{params}}}"#),
        }
    }

    /// The params of the greeting that a conductor of this generation makes of those of `initialize`.
    pub fn offered(&self, params: &Value) -> Value {
        with(params, self.offer)
    }

    /// The params that a proxy of this generation passes on: it removes its own key and keeps the version.
    pub fn forwarded(&self, params: &Value) -> Value {
        let mut params = params.clone();
        if let Some((key, above)) = self.offer.split_last()
            && let Some(object) = above.iter().try_fold(&mut params, |it, key| it.get_mut(*key))
        {
            object.as_object_mut().expect("an object").remove(*key);
        }
        params
    }

    /// The result with which a proxy of this generation accepts its role.
    pub fn accepted(&self, result: &Value) -> Value {
        with(result, self.acceptance)
    }
}

/// The value with the key at this path, and the version beside it.
fn with(value: &Value, path: &[&str]) -> Value {
    let mut value = value.clone();
    let Some((key, above)) = path.split_last() else { return value };
    let object = above.iter().fold(&mut value, |it, key| &mut it[*key]);
    if above.last() == Some(&"symposium") && object["version"].is_null() {
        object["version"] = json!("1.0");
    }
    object[*key] = json!(true);
    value
}

/// Whether the value contains anything that only concerns a conductor and its proxy.
pub fn mentions_role(value: &Value) -> bool {
    let ours = |key: &str| key == "proxy" || key == "mcp_acp_transport";
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| ours(key) || mentions_role(value)),
        Value::Array(list) => list.iter().any(mentions_role),
        _ => false,
    }
}
