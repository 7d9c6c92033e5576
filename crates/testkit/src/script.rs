//! Tests as conversations that a person can read.
//!
//! ```
//! testkit::script::check_live("editor p1 agent", r##"
//!     editor > session/prompt 5 {"text":"hi"}
//!     p1     < session/prompt #1 {"text":"hi"}
//!     p1     > ~session/prompt 0 {"text":"hi"}
//!     agent  < session/prompt #2 {"text":"hi"}
//!     agent  > result #2 {}
//!     p1     < result 0 {}
//! "##);
//! ```
//!
//! The first argument is the [`cast`](crate::cast). In the script, `who > line` is sent and `who < line`
//! must be delivered, in this order, nothing else and nothing less. How lines are written:
//! [`notation`]; in what is expected, `…` stands for any text. The other lines:
//!
//! | it happens | it must happen |
//! |---|---|
//! | `p1 dies status 3: last words` | `started p1 p2 agent` |
//! | `p1 dies signal 9` | `warned of p1: text` |
//! | `p1 cannot start: why` | `finished clean` |
//! | `editor leaves` (it still reads) | `finished failed: text` |
//! | `editor hangs up` | `inner finished clean` (a nested conductor) |
//! | `p1 parts signal 9` (another one comes) | |
//! | `p1 parts for good signal 9` (none does) | |
//! | `p1 returns`, `p1 resumes`, `p1 is bypassed` | |
//! | `p1 reads P4` (the updates that its SDKs can read) | |
//! | `p1 is spared a`, `p1 is spared ~b` (methods toward the agent, the editor) | |
//! | `time 60000` (milliseconds since the start) | |
//! | `stop` | |
//!
//! What follows `# ` is a comment.

use std::collections::VecDeque;

use bytes::Bytes;
use router::{Ending, Event, Exit, How, Plan, Seat, Time};
use wire::{Message, Side};

use crate::cast::{Cast, Part, Sitter};
use crate::hub::{Hub, Output};
use crate::{diff, notation};

/// Plays the script from the very beginning.
///
/// # Panics
/// If anything else happens than the script says.
#[track_caller]
pub fn check(cast: &str, script: &str) {
    Stage::new(cast).play(script);
}

/// Plays the script with a chain whose components have all answered `initialize`.
///
/// # Panics
/// If anything else happens than the script says.
#[track_caller]
pub fn check_live(cast: &str, script: &str) {
    let mut stage = Stage::new(cast);
    stage.shake_hands();
    stage.play(script);
}

/// The `initialize` of a chain that [`check_live`] has set up.
const HELLO: &str = r#"{"protocolVersion":1}"#;

struct Stage {
    cast: Cast,
    hubs: Vec<Hub>,
    now: Time,
    /// For each conductor: how many ids it had made when the script began, and has made now.
    ids: Vec<(u64, u64)>,
    log: Vec<Entry>,
}

/// Something that happened, in the notation and, if it is a line, as it was on the wire.
struct Entry {
    text: String,
    raw: Option<String>,
}

impl Stage {
    fn new(cast: &str) -> Stage {
        let cast = Cast::parse(cast);
        let mut hubs: Vec<Hub> =
            cast.conductors.iter().map(|table| Hub::new(table.chain.clone())).collect();
        (0_u64..).zip(&mut hubs).for_each(|(seed, hub)| hub.set_seed(seed));
        Stage { ids: vec![(0, 0); hubs.len()], cast, hubs, now: Time(0), log: Vec::new() }
    }

    #[track_caller]
    fn play(&mut self, script: &str) {
        let lines: Vec<String> = script.lines().filter_map(tidy).collect();
        for line in &lines {
            if !expected(line) {
                self.log(line.clone(), None);
                self.act(line);
            }
        }
        let same = |line: &String, entry: &Entry| {
            diff::matches(line, &entry.text)
                || entry.raw.as_ref().is_some_and(|raw| diff::matches(line, raw))
        };
        if let Some(diff) = diff::diff(&lines, &self.log, same, |entry| entry.text.clone()) {
            panic!("the conversation went differently (- expected, + actual):\n{diff}");
        }
    }

    /// Makes one thing of a script happen.
    fn act(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "stop" => return self.event(0, Event::Stop),
            "time" => {
                self.now = Time(rest.parse().expect("time needs milliseconds"));
                for hub in 0..self.hubs.len() {
                    if self.hubs[hub].router().deadline().is_some_and(|it| it <= self.now) {
                        self.event(hub, Event::Tick);
                    }
                }
                return;
            }
            _ => {}
        }
        let player = self.cast.player(first);
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (what, words) = rest.split_once(": ").unwrap_or((rest, ""));
        let last_words = if words.is_empty() { Vec::new() } else { vec![words.to_owned()] };
        let (plan, what) = match what.strip_prefix("for good ") {
            Some(what) => (Plan::Bypass, what),
            None => (Plan::Restart { at: self.now, attempts: 1 }, what),
        };
        let number = |prefix| what.strip_prefix(prefix).and_then(|it| it.trim().parse().ok());
        let seat = self.cast.players[player].seat;
        let how = match (verb, what) {
            (">", _) => {
                let base = self.ids[self.cast.players[player].conductor].0;
                return self.send(player, &notation::line(rest, base));
            }
            ("leaves", "") => How::ClosedOutput,
            ("hangs", "up") => How::ClosedInput,
            ("cannot", "start") => {
                let why = Exit::new(How::NotStarted(words.to_owned()));
                return self.leave(player, why);
            }
            ("returns", "") => {
                self.hubs[self.cast.players[player].conductor].renew(seat);
                return self.meet(player, Event::Returned(seat));
            }
            ("resumes", "") => return self.meet(player, Event::Resumed(seat)),
            ("reads", generation) => {
                return self.hubs[self.cast.players[player].conductor].reads(seat, generation);
            }
            ("is", what) if what.starts_with("spared ") => {
                let hub = &mut self.hubs[self.cast.players[player].conductor];
                let what = what.trim_start_matches("spared ");
                return match what.strip_prefix("~") {
                    Some(what) => hub.spare(seat, Side::Editor, what),
                    None => hub.spare(seat, Side::Agent, what),
                };
            }
            ("is", "bypassed") => return self.meet(player, Event::Bypassed(seat)),
            ("dies" | "parts", _) => match (number("status "), number("signal ")) {
                (Some(status), _) => How::Status(status),
                (_, Some(signal)) => How::Signal(signal),
                _ => panic!("how does it die? {line:?}"),
            },
            _ => panic!("what is this? {line:?}"),
        };
        let why = Exit { how, last_words };
        match verb {
            "parts" => self.meet(player, Event::Parted { seat, why, plan, lost: Vec::new() }),
            _ => self.leave(player, why),
        }
    }

    /// Something happens to the seat of a player.
    fn meet(&mut self, player: usize, event: Event) {
        self.event(self.cast.players[player].conductor, event);
    }

    fn send(&mut self, player: usize, line: &Bytes) {
        let (hub, seat) = self.seat(player);
        let mut out = Vec::new();
        self.hubs[hub].line(self.now, seat, line, &mut out);
        self.perform(hub, out);
    }

    fn leave(&mut self, player: usize, why: Exit) {
        let (hub, seat) = self.seat(player);
        self.event(hub, Event::Left { seat, why });
    }

    fn seat(&self, player: usize) -> (usize, Seat) {
        let player = &self.cast.players[player];
        (player.conductor, player.seat)
    }

    fn event(&mut self, hub: usize, event: Event) {
        let mut out = Vec::new();
        self.hubs[hub].event(self.now, event, &mut out);
        self.perform(hub, out);
    }

    /// Does what a conductor said, and what others around the table say to that.
    fn perform(&mut self, hub: usize, out: Vec<Output>) {
        let mut todo: VecDeque<(usize, Output)> = out.into_iter().map(|it| (hub, it)).collect();
        while let Some((hub, output)) = todo.pop_front() {
            let mut out = Vec::new();
            let mut next = hub;
            if let Output::Line { line, .. } = &output {
                self.count(hub, line);
            }
            match output {
                Output::Line { to, line } => match self.cast.conductors[hub].seats[to.index()] {
                    Sitter::Player(player) => self.deliver(player, &line),
                    Sitter::Conductor(other) => {
                        next = other;
                        let from = self.seat_of(hub, other);
                        self.hubs[other].line(self.now, from, &line, &mut out);
                    }
                },
                Output::Start(seat) => {
                    let name = self.name(hub, seat).to_owned();
                    match self.log.last_mut() {
                        Some(entry) if entry.text.starts_with("started ") => {
                            entry.text += &format!(" {name}");
                        }
                        _ => self.log(format!("started {name}"), None),
                    }
                }
                Output::Warn { seat, text } => {
                    self.log(format!("warned of {}: {text}", self.name(hub, seat)), None);
                }
                Output::Finish(ending) => {
                    self.finish(hub, &ending);
                    for other in 0..self.hubs.len() {
                        let seat = self.seat_of(hub, other);
                        let how = match &ending {
                            _ if seat == Seat::OUTER => How::ClosedOutput,
                            Ending::Clean => How::Status(0),
                            Ending::Failed(_) => How::Status(1),
                        };
                        if self.are_linked(hub, other) {
                            let event = Event::Left { seat, why: Exit::new(how) };
                            let mut out = Vec::new();
                            self.hubs[other].event(self.now, event, &mut out);
                            todo.extend(out.into_iter().map(|it| (other, it)));
                        }
                    }
                }
            }
            todo.extend(out.into_iter().map(|it| (next, it)));
        }
    }

    /// Keeps count of the ids that a conductor makes.
    fn count(&mut self, hub: usize, line: &Bytes) {
        if let Ok(Message::Request { id, .. }) = Message::parse(line)
            && let Some(number) =
                id.text().and_then(|it| it.strip_prefix("c:").and_then(|it| it.parse().ok()))
        {
            self.ids[hub].1 = self.ids[hub].1.max(number);
        }
    }

    fn deliver(&mut self, player: usize, line: &Bytes) {
        let hub = self.cast.players[player].conductor;
        let name = &self.cast.players[player].name;
        let text = format!("{name} < {}", notation::text(line, self.ids[hub].0));
        let raw = format!("{name} < {}", String::from_utf8_lossy(line));
        self.log(text, Some(raw));
    }

    fn finish(&mut self, hub: usize, ending: &Ending) {
        let who = match self.cast.conductors[hub].parent {
            Some((parent, seat)) => format!("{} ", self.name(parent, seat)),
            None => String::new(),
        };
        let how = match ending {
            Ending::Clean => "clean".to_owned(),
            Ending::Failed(why) => format!("failed: {why}"),
        };
        self.log(format!("{who}finished {how}"), None);
    }

    /// Where conductor `who` sits, seen from conductor `at`.
    fn seat_of(&self, who: usize, at: usize) -> Seat {
        match self.cast.conductors[who].parent {
            Some((parent, seat)) if parent == at => seat,
            _ => Seat::OUTER,
        }
    }

    fn are_linked(&self, one: usize, other: usize) -> bool {
        let is_parent = |parent: usize, child: usize| {
            self.cast.conductors[child].parent.is_some_and(|(it, _)| it == parent)
        };
        is_parent(one, other) || is_parent(other, one)
    }

    fn name(&self, hub: usize, seat: Seat) -> &str {
        match self.cast.conductors[hub].seats[seat.index()] {
            Sitter::Player(player) => &self.cast.players[player].name,
            Sitter::Conductor(_) => self.cast.conductors[hub].chain.name(seat),
        }
    }

    fn log(&mut self, text: String, raw: Option<String>) {
        self.log.push(Entry { text, raw });
    }

    /// Everybody does what a good component does with `initialize`; the log is cleared after that.
    fn shake_hands(&mut self) {
        let hello = match self.cast.players[0].part {
            Part::Outer => format!("proxy/initialize hello {HELLO}"),
            _ => format!("initialize hello {HELLO}"),
        };
        self.send(0, &notation::line(&hello, 0));
        let mut asked = vec![String::new(); self.cast.players.len()];
        let mut seen = 0;
        while seen < self.log.len() {
            let text = self.log[seen].text.clone();
            seen += 1;
            let words: Vec<&str> = text.split(' ').collect();
            let [name, "<", what, id, ..] = words[..] else { continue };
            let player = self.cast.player(name);
            let answer = match what {
                "proxy/initialize" => {
                    asked[player] = id.to_owned();
                    format!("~initialize hello {HELLO}")
                }
                "initialize" | "~initialize" => format!("result {id} {HELLO}"),
                "result" if player > 0 => format!("result {} {HELLO}", asked[player]),
                _ => continue,
            };
            self.send(player, &notation::line(&answer, 0));
        }
        let last = self.log.pop().map(|entry| entry.text).unwrap_or_default();
        assert!(last.ends_with(&format!(" < result hello {HELLO}")), "no handshake: {last}");
        self.log.clear();
        self.ids.iter_mut().for_each(|(base, made)| *base = *made);
    }
}

/// A line of a script with one space between its parts; `None` if there is nothing in it.
fn tidy(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.split_once(" # ").map_or(line, |(line, _)| line.trim_end());
    if line.is_empty() || line.starts_with("# ") {
        return None;
    }
    let mut parts = line.splitn(2, ' ').map(str::trim);
    let who = parts.next().unwrap_or_default();
    let rest = parts.next().unwrap_or_default();
    let (verb, what) = rest.split_once(' ').unwrap_or((rest, ""));
    Some([who, verb, what.trim()].join(" ").trim_end().to_owned())
}

/// Is this line of a script something that must happen, rather than something that does?
fn expected(line: &str) -> bool {
    let mut words = line.split(' ');
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    matches!(first, "started" | "finished" | "warned") || matches!(second, "<" | "finished")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "- agent < x #2\n+ agent < x #1\n")]
    fn a_conversation_that_goes_differently_fails() {
        check_live("editor agent", "editor > x 5\n agent < x #2");
    }

    #[test]
    #[should_panic(expected = "+ agent < x\n")]
    fn a_delivery_that_the_script_does_not_mention_fails() {
        check_live("editor agent", "editor > x");
    }

    #[test]
    fn a_line_can_be_expected_as_it_is_on_the_wire() {
        check_live(
            "editor agent",
            r#"
            editor > {"method":"x","params":{ "a":1e400 }}   # as it is
            agent  < {"jsonrpc":"2.0","method":"x","params":{ "a":1e400 }}
            "#,
        );
    }
}
