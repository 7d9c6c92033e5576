//! Components whose generation the core does not know: what they do with a greeting of another generation.

use acp_wire::{Generation, Id, Json, Message, Outcome, code};
use bytes::Bytes;
use router::ExitCause;

use crate::case::Case;
use crate::link::{Item, State};
use crate::world::World;

/// What a proxy does with a greeting that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// It passes the greeting on to its successor, in an envelope of its generation, and the answer back.
    Passes,
    Refuses,
    Dies,
}

impl Reaction {
    /// By the words of a case. Without such a word, the core knows the generations.
    pub fn of(case: &Case) -> Option<Reaction> {
        let words = [
            ("passes", Reaction::Passes),
            ("refuses", Reaction::Refuses),
            ("dies", Reaction::Dies),
        ];
        words.into_iter().find(|(word, _)| case.has(word)).map(|(_, reaction)| reaction)
    }
}

/// The greetings, the newest first.
const GREETINGS: [&str; 3] = ["proxy/initialize", "_proxy/initialize", "initialize"];

/// Under this and the id of a greeting that it does not know, a proxy passes it on.
const PASSED: &str = "greeting ";

impl World {
    /// A proxy reads a greeting that it does not know, or the answer to one that it has passed on. Says whether
    /// that is so; then it is dealt with.
    pub fn is_puzzled(&mut self, seat: usize, line: &Bytes) -> bool {
        let proxy = seat.checked_sub(1).and_then(|index| self.cast.proxies.get(index));
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
                let Some(asked) = text.strip_prefix(PASSED) else { return false };
                self.write_line(seat, &Message::response(Id::string(asked), outcome));
                return true;
            }
            _ => return false,
        };
        let method = call.method.name().into_owned();
        if !GREETINGS.contains(&method.as_str()) || method == known {
            return false;
        }
        // In an envelope, the oldest greeting would be its own.
        let reaction = match reaction {
            Reaction::Passes if method == "initialize" => Reaction::Refuses,
            reaction => reaction,
        };
        self.tell(|| format!("    {seat} does not know {method}: it {reaction:?}"));
        let answer = match reaction {
            Reaction::Passes => {
                let params = Json::object([
                    ("method", Some(Json::string(&method))),
                    ("params", call.params),
                ]);
                let own = format!("{PASSED}{}", id.text().unwrap_or_default());
                Message::request(Id::string(&own), envelope, params)
            }
            Reaction::Refuses => {
                Message::response(id, Outcome::error(code::METHOD_NOT_FOUND, "what is this?"))
            }
            Reaction::Dies => {
                self.die(seat, ExitCause::Status(1));
                return true;
            }
        };
        self.write_line(seat, &answer);
        true
    }

    /// A component writes something that is not a word of the player's.
    fn write_line(&mut self, seat: usize, message: &Message) {
        if self.links[seat].state == State::Alive {
            self.stamp += 1;
            self.links[seat].from.push_back((self.stamp, Item::Line(message.to_line().into())));
        }
    }
}
