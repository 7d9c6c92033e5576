//! P0: SCP. A proxy gets a list of the programs that follow it, and starts them itself.
//!
//! ```json
//! {"id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","html_panel":true}}}}
//! {"id":0,"result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}
//! {"id":1,"method":"_scp/proxy","params":{"servers":[{"name":"next","command":"/opt/x","args":[],"env":[]}]}}
//! {"id":1,"result":{}}
//! ```
//!
//! There are no envelopes: the proxy's successor is on the other end of a pipe that the proxy opens. The
//! conductor names one program, a relay that connects back to it. So this generation has two links, with
//! plain ACP on both.

use bytes::Bytes;

use super::generation::{GenerationTable, Greeting};
use super::{Plain, Rejection, offer};
use crate::acp::{self, INITIALIZE};
use crate::json::Json;
use crate::message::{Id, Message, Outcome, Side};
use crate::sink::Sink;

pub(crate) static P0: GenerationTable = GenerationTable {
    name: "P0",
    about: "SCP: proxies that start their own successor",
    greeting: Greeting::Capability,
    offer: &["_meta", "symposium", "version"],
    acceptance: &["_meta", "symposium", "proxy"],
    sends: [""; 2],
    receives: [""; 2],
    wrapped: false,
    no_params: None,
    must_accept: false,
    any_version: false,
    mcp_path: &["_meta", "mcp_acp_transport"],
    updates: None,
};

/// Sends an SCP proxy the list of its successors.
pub(crate) const SCP_PROXY: &str = "_scp/proxy";

/// Whether an editor that sends these params knows SCP. The `symposium` object is enough.
pub(crate) fn knows_scp(params: &Json) -> bool {
    let paths: [&[&str]; 2] =
        [&["_meta", "symposium"], &["clientCapabilities", "_meta", "symposium"]];
    paths.iter().any(|path| params.at(path).is_some_and(|section| section.is_object()))
}

/// The list of servers in the params of `_scp/proxy`: the params themselves, or their only array.
pub(crate) fn servers(params: &Json) -> Option<Json> {
    if params.is_array() {
        return Some(params.clone());
    }
    let lists: Vec<Json> =
        params.keys().iter().filter_map(|key| params.member(key)).filter(Json::is_array).collect();
    match lists.as_slice() {
        [list] => Some(list.clone()),
        _ => params.member("servers").filter(Json::is_array),
    }
}

/// The dialect of the second link of an SCP proxy, which the proxy uses as the link to its successor. Its
/// lines go toward the agent.
#[derive(Debug)]
pub struct Relay {
    plain: Plain,
    /// The params of `initialize` for the proxy before the offer was added. The offer is not forwarded.
    params: Json,
    /// The id of the `initialize` that the proxy has sent.
    initialize_id: Option<Id>,
}

impl Relay {
    /// A dialect for the second link of an SCP proxy. `params` are the params of `initialize` for the proxy, before
    /// the offer was added.
    pub fn new(params: Option<Json>) -> Relay {
        // SCP knows only ACP v1.
        let params = acp::downgraded_to_v1(&params.unwrap_or(Json::EMPTY_OBJECT));
        Relay { plain: Plain::editor(), params, initialize_id: None }
    }

    /// Decodes a line; see [`Dialect::decode`](super::Dialect::decode).
    pub fn decode(&mut self, line: &Bytes) -> Result<Option<(Side, Message)>, Rejection> {
        let mut decoded = self.plain.decode(line)?;
        if let Some((_, Message::Request { id, call })) = &mut decoded
            && call.is(INITIALIZE)
        {
            self.initialize_id = Some(id.detached());
            let forwarded = call.params.take();
            call.params = forwarded.map(|it| offer::restore_params(&it, &self.params));
        }
        Ok(decoded)
    }

    /// Appends the line for a message; see [`Dialect::encode`](super::Dialect::encode).
    pub fn encode(&mut self, message: &Message, out: &mut dyn Sink) {
        if let Message::Response { id, outcome: Outcome::Result(result), extras } = message
            && self.initialize_id.take_if(|initialize_id| initialize_id == id).is_some()
        {
            // To the proxy, the conductor is an SCP agent at the end of the chain.
            let version = ["_meta", "symposium", "version"];
            let result = match result.at(&version) {
                Some(_) => result.clone(),
                None => result.with_at(&version, Some(&Json::string("1.0"))),
            };
            let result =
                result.with_at(&["_meta", "symposium", "proxy"], Some(&Json::trusted("false")));
            let (id, extras) = (id.clone(), extras.clone());
            let message = Message::Response { id, outcome: Outcome::Result(result), extras };
            return message.write_line(out);
        }
        message.write_line(out);
    }
}
