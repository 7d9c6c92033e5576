//! P0: SCP, where a proxy is told which programs follow it and starts them itself.
//!
//! ```json
//! {"id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","html_panel":true}}}}
//! {"id":0,"result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}
//! {"id":1,"method":"_scp/proxy","params":{"servers":[{"name":"next","command":"/opt/x","args":[],"env":[]}]}}
//! {"id":1,"result":{}}
//! ```
//!
//! There are no envelopes: what follows it is on the other end of the pipe that it opens. We give it
//! one program, a relay of ours that connects back to us. So this generation has two links, and
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

/// Tells an SCP proxy its successors.
pub(crate) const SCP_PROXY: &str = "_scp/proxy";

/// Does an editor that sends these params know SCP? The section alone says so.
pub(crate) fn knows_scp(params: &Json) -> bool {
    let paths: [&[&str]; 2] =
        [&["_meta", "symposium"], &["clientCapabilities", "_meta", "symposium"]];
    paths.iter().any(|path| params.at(path).is_some_and(|section| section.is_object()))
}

/// The list of servers in the params of `_scp/proxy`: the params themselves, or their only list.
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

/// The second link of an SCP proxy: the pipe to what it takes for its successor, which is us. Its
/// lines go toward the agent, whatever comes from there is sent here.
#[derive(Debug)]
pub struct Relay {
    plain: Plain,
    /// What the proxy was asked, before we put our offer into it: the offer goes no further.
    asked: Json,
    /// The `initialize` that the proxy waits for.
    greeted: Option<Id>,
}

impl Relay {
    /// `asked` are the params of `initialize` as they were meant for the proxy.
    pub fn new(asked: Option<Json>) -> Relay {
        // SCP knows ACP v1 only.
        let asked = acp::lowered_to_v1(&asked.unwrap_or(Json::EMPTY));
        Relay { plain: Plain::editor(), asked, greeted: None }
    }

    pub fn decode(&mut self, line: &Bytes) -> Result<Option<(Side, Message)>, Rejection> {
        let mut decoded = self.plain.decode(line)?;
        if let Some((_, Message::Request { id, call })) = &mut decoded
            && call.is(INITIALIZE)
        {
            self.greeted = Some(id.detached());
            let params = call.params.take();
            call.params = params.map(|params| offer::take_offer(&params, &self.asked));
        }
        Ok(decoded)
    }

    pub fn encode(&mut self, message: &Message, out: &mut dyn Sink) {
        if let Message::Response { id, outcome: Outcome::Result(result), extras } = message
            && self.greeted.take_if(|greeted| greeted == id).is_some()
        {
            // To the proxy we are an SCP agent, the last of its chain.
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
