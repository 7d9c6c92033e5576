//! Proxies whose generation the core has to detect. They react to greetings of other generations.

use acp_wire::{Generation, Id, Json, Message, Outcome, code};
use bytes::Bytes;
use router::ExitCause;

use crate::case::Case;
use crate::link::{Item, ProcessState};
use crate::world::World;

/// What a proxy does with an unknown greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Forwards it to its successor in an envelope of its own generation, and forwards the answer.
    Forwards,
    /// Answers with an error.
    Refuses,
    /// Exits with an error status.
    Exits,
}

impl Reaction {
    /// The reaction in a case. `None` if the core knows the generations.
    pub fn of(case: &Case) -> Option<Reaction> {
        let words = [
            ("forwards", Reaction::Forwards),
            ("refuses", Reaction::Refuses),
            ("exits", Reaction::Exits),
        ];
        words.into_iter().find(|(word, _)| case.has(word)).map(|(_, reaction)| reaction)
    }
}

/// The greetings, the newest first.
const GREETINGS: [&str; 3] = ["proxy/initialize", "_proxy/initialize", "initialize"];

/// The prefix of the request id under which a proxy forwards an unknown greeting.
const FORWARDED_PREFIX: &str = "greeting ";

impl World {
    /// Handles an unknown greeting, or the answer to a forwarded one. Returns whether the line was one of these.
    pub fn handle_unknown_greeting(&mut self, seat: usize, line: &Bytes) -> bool {
        let proxy = seat.checked_sub(1).and_then(|index| self.topology.proxies.get(index));
        let (Some(reaction), Some((_, generation))) = (Reaction::of(&self.case), proxy) else {
            return false;
        };
        let (known, envelope) = match generation {
            Generation::P5 => ("proxy/initialize", "proxy/successor"),
            Generation::P4 => ("_proxy/initialize", "_proxy/successor"),
            _ => ("initialize", "_proxy/successor/request"),
        };
        let (id, call) = match Message::parse(line) {
            Ok(Message::Request { id, call }) => (id, call),
            Ok(Message::Response { id, outcome, .. }) => {
                let text = id.text().unwrap_or_default();
                let Some(original) = text.strip_prefix(FORWARDED_PREFIX) else { return false };
                self.write_line(seat, &Message::response(Id::string(original), outcome));
                return true;
            }
            _ => return false,
        };
        let method = call.method.name().into_owned();
        if !GREETINGS.contains(&method.as_str()) || method == known {
            return false;
        }
        // Forwarded in an envelope, the oldest greeting would look like the proxy's own.
        let reaction = match reaction {
            Reaction::Forwards if method == "initialize" => Reaction::Refuses,
            reaction => reaction,
        };
        self.trace(|| format!("    {seat} does not know {method}: it {reaction:?}"));
        let answer = match reaction {
            Reaction::Forwards => {
                let params = Json::object([
                    ("method", Some(Json::string(&method))),
                    ("params", call.params),
                ]);
                let own = format!("{FORWARDED_PREFIX}{}", id.text().unwrap_or_default());
                Message::request(Id::string(&own), envelope, params)
            }
            Reaction::Refuses => {
                Message::response(id, Outcome::error(code::METHOD_NOT_FOUND, "unknown method"))
            }
            Reaction::Exits => {
                self.die(seat, ExitCause::Status(1));
                return true;
            }
        };
        self.write_line(seat, &answer);
        true
    }

    /// Writes a line that does not come from the participant.
    fn write_line(&mut self, seat: usize, message: &Message) {
        if self.links[seat].state == ProcessState::Running {
            self.stamp += 1;
            self.links[seat].from.push_back((self.stamp, Item::Line(message.to_line().into())));
        }
    }
}
