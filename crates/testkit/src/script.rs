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
//! | `p1 returns` (the time for its restart has come) | |
//! | `time 60000` (milliseconds since the start) | |
//! | `stop`, `restart p1`, `bypass p1`, `hold p1`, `release p1` (commands) | |
//!
//! Before all else, `p1 is spared a` and `p1 is spared ~b` say that p1 has crashed in an earlier run on these
//! methods, toward the agent or the editor, so the core spares it them. `limit answer 1000`, `limit prompt 1000` and
//! `limit cancel 1000` say after how many milliseconds a silent component is considered stuck ([`Watch`]). `tell editor`: people in front of
//! the editor are told what becomes of the components.
//!
//! What follows `# ` is a comment.

use std::collections::VecDeque;

use acp_wire::dialect::Generation;
use acp_wire::{Message, Side};
use bytes::Bytes;
use engine::{Command, Input, Output, Timeouts};
use router::{Diagnostic, Ending, Exit, ExitCause, Level, MessageKind, Seat, Time};

use crate::cast::{Cast, Part, Sitter};
use crate::shell::{Effect, Shell};
use crate::{diff, notation};

/// Plays the script from the very beginning.
///
/// # Panics
/// If anything else happens than the script says.
#[track_caller]
pub fn check(cast: &str, script: &str) {
    let script = Script::parse(script);
    Stage::new(cast, &script).play(&script);
}

/// Plays the script with a chain whose components have all answered `initialize`.
///
/// # Panics
/// If anything else happens than the script says.
#[track_caller]
pub fn check_live(cast: &str, script: &str) {
    let script = Script::parse(script);
    let mut stage = Stage::new(cast, &script);
    stage.shake_hands();
    stage.play(&script);
}

/// The `initialize` of a chain that [`check_live`] has set up.
const HELLO: &str = r#"{"protocolVersion":1}"#;

/// The lines of a script.
struct Script {
    /// The kinds of message that components are spared from the beginning.
    spared: Vec<(String, MessageKind)>,
    watch: Timeouts,
    tell_editor: bool,
    lines: Vec<String>,
}

impl Script {
    fn parse(script: &str) -> Script {
        let mut lines: Vec<String> = script.lines().filter_map(tidy).collect();
        let mut spared = Vec::new();
        let mut watch = Timeouts::default();
        let count = lines.len();
        lines.retain(|line| line != "tell editor");
        let tell_editor = lines.len() < count;
        lines.retain(|line| match (line.split_once(" is spared "), line.strip_prefix("limit ")) {
            (Some((who, what)), _) => {
                spared.push((who.to_owned(), kind(what)));
                false
            }
            (None, Some(limit)) => {
                let (what, limit) = limit.split_once(' ').expect("a limit has a name and a number");
                let limit = Some(limit.parse().expect("a limit is a number of milliseconds"));
                match what {
                    "answer" => watch.answer = limit,
                    "prompt" => watch.prompt = limit,
                    "cancel" => watch.cancel = limit,
                    other => panic!("there is no limit {other:?}"),
                }
                false
            }
            _ => true,
        });
        Script { spared, watch, tell_editor, lines }
    }
}

/// A kind of message: a method toward the agent, or `~` and a method toward the editor.
fn kind(text: &str) -> MessageKind {
    let (toward, method) = match text.strip_prefix('~') {
        Some(method) => (Side::Editor, method),
        None => (Side::Agent, text),
    };
    MessageKind { toward, method: method.to_owned(), update: None }
}

struct Stage {
    cast: Cast,
    /// By conductor.
    shells: Vec<Shell>,
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
    fn new(cast: &str, script: &Script) -> Stage {
        let cast = Cast::parse(cast);
        let mut setups: Vec<_> =
            (0_u64..).zip(&cast.conductors).map(|(seed, table)| table.setup(seed)).collect();
        for setup in &mut setups {
            (setup.rules.timeouts, setup.rules.notify_editor) = (script.watch, script.tell_editor);
        }
        for (who, kind) in &script.spared {
            let player = &cast.players[cast.player(who)];
            let facts = &mut setups[player.conductor].facts[player.seat.index() - 1];
            facts.poison.push(kind.clone());
        }
        let shells: Vec<Shell> = setups.into_iter().map(Shell::new).collect();
        Stage { ids: vec![(0, 0); shells.len()], cast, shells, now: Time(0), log: Vec::new() }
    }

    #[track_caller]
    fn play(&mut self, script: &Script) {
        let lines = &script.lines;
        for line in lines {
            if !expected(line) {
                self.log(line.clone(), None);
                self.act(line);
            }
        }
        let same = |line: &String, entry: &Entry| {
            diff::matches(line, &entry.text)
                || entry.raw.as_ref().is_some_and(|raw| diff::matches(line, raw))
        };
        if let Some(diff) = diff::diff(lines, &self.log, same, |entry| entry.text.clone()) {
            panic!("the conversation went differently (- expected, + actual):\n{diff}");
        }
    }

    /// Makes one thing of a script happen.
    fn act(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "stop" => return self.command(0, Command::Stop),
            "restart" | "bypass" | "hold" | "release" => {
                let (index, seat) = self.seat(self.cast.player(rest));
                let command = match first {
                    "restart" => Command::Restart(seat),
                    "bypass" => Command::Bypass(seat),
                    "hold" => Command::Hold(seat),
                    _ => Command::Release(seat),
                };
                return self.command(index, command);
            }
            "time" => {
                self.now = Time(rest.parse().expect("time needs milliseconds"));
                return (0..self.shells.len()).for_each(|it| self.with_shell(it, Shell::tick));
            }
            _ => {}
        }
        let player = self.cast.player(first);
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (what, words) = rest.split_once(": ").unwrap_or((rest, ""));
        let last_words = if words.is_empty() { Vec::new() } else { vec![words.to_owned()] };
        let number = |prefix| what.strip_prefix(prefix).and_then(|it| it.trim().parse().ok());
        let how = match (verb, what) {
            (">", _) => {
                let base = self.ids[self.cast.players[player].conductor].0;
                return self.send(player, &notation::line(rest, base));
            }
            ("leaves", "") => ExitCause::ClosedOutput,
            ("hangs", "up") => ExitCause::ClosedInput,
            ("cannot", "start") => ExitCause::NotStarted(words.to_owned()),
            ("returns", "") => return self.with_shell(self.seat(player).0, Shell::tick),
            ("dies", _) => match (number("status "), number("signal ")) {
                (Some(status), _) => ExitCause::Status(status),
                (_, Some(signal)) => ExitCause::Signal(signal),
                _ => panic!("how does it die? {line:?}"),
            },
            _ => panic!("what is this? {line:?}"),
        };
        let (index, seat) = self.seat(player);
        self.with_shell(index, |shell, now| {
            shell.leave(now, seat, Exit { cause: how, last_output: last_words })
        });
    }

    fn command(&mut self, index: usize, command: Command) {
        self.with_shell(index, |shell, now| shell.handle(now, Input::Command(command)));
    }

    fn send(&mut self, player: usize, line: &Bytes) {
        let (index, seat) = self.seat(player);
        let line = respelt(line, Generation::CURRENT, self.cast.conductors[index].generation(seat));
        self.with_shell(index, |shell, now| shell.line(now, seat, line));
    }

    fn seat(&self, player: usize) -> (usize, Seat) {
        let player = &self.cast.players[player];
        (player.conductor, player.seat)
    }

    /// Something happens to a conductor. Others around the table react to what it does.
    fn with_shell(&mut self, index: usize, act: impl FnOnce(&mut Shell, Time) -> Vec<Effect>) {
        let effects = act(&mut self.shells[index], self.now);
        let mut todo: VecDeque<(usize, Effect)> =
            effects.into_iter().map(|it| (index, it)).collect();
        while let Some((index, effect)) = todo.pop_front() {
            match effect {
                Effect::Line { to, line } => {
                    self.count(index, &line);
                    match self.cast.conductors[index].seats[to.seat.index()] {
                        Sitter::Player(player) => self.deliver(player, &line),
                        Sitter::Conductor(other) => {
                            let from = self.seat_of(index, other);
                            let effects = self.shells[other].line(self.now, from, line);
                            todo.extend(effects.into_iter().map(|it| (other, it)));
                        }
                    }
                }
                Effect::Output(Output::Finish(ending)) => {
                    self.finish(index, &ending);
                    for other in 0..self.shells.len() {
                        let seat = self.seat_of(index, other);
                        let how = match &ending {
                            _ if seat == Seat::OUTER => ExitCause::ClosedOutput,
                            Ending::Clean => ExitCause::Status(0),
                            Ending::Failed(_) => ExitCause::Status(1),
                        };
                        if self.are_linked(index, other) {
                            let effects = self.shells[other].leave(self.now, seat, Exit::new(how));
                            todo.extend(effects.into_iter().map(|it| (other, it)));
                        }
                    }
                }
                Effect::Output(output) => self.perform(index, output),
            }
        }
    }

    fn perform(&mut self, index: usize, output: Output) {
        match output {
            Output::Start { seat, .. } => {
                let name = self.name(index, seat).to_owned();
                match self.log.last_mut() {
                    Some(entry) if entry.text.starts_with("started ") => {
                        entry.text += &format!(" {name}");
                    }
                    _ => self.log(format!("started {name}"), None),
                }
            }
            Output::Report(Diagnostic { level: Level::Warn, seat, text }) => {
                self.log(format!("warned of {}: {text}", self.name(index, seat)), None);
            }
            // In a script, a component that ends leaves nothing behind.
            Output::Report(_) | Output::Discard(_) => {}
            output => self.log(format!("{output:?}"), None),
        }
    }

    /// Keeps count of the ids that a conductor makes.
    fn count(&mut self, index: usize, line: &Bytes) {
        if let Ok(Message::Request { id, .. }) = Message::parse(line)
            && let Some(number) =
                id.text().and_then(|it| it.strip_prefix("c:").and_then(|it| it.parse().ok()))
        {
            self.ids[index].1 = self.ids[index].1.max(number);
        }
    }

    fn deliver(&mut self, player: usize, line: &Bytes) {
        let (index, seat) = self.seat(player);
        let name = &self.cast.players[player].name;
        let spoken = self.cast.conductors[index].generation(seat);
        let current = respelt(line, spoken, Generation::CURRENT);
        let text = format!("{name} < {}", notation::text(&current, self.ids[index].0));
        let raw = format!("{name} < {}", String::from_utf8_lossy(line));
        self.log(text, Some(raw));
    }

    fn finish(&mut self, index: usize, ending: &Ending) {
        let who = match self.cast.conductors[index].parent {
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

    fn name(&self, index: usize, seat: Seat) -> &str {
        match self.cast.conductors[index].seats[seat.index()] {
            Sitter::Player(player) => &self.cast.players[player].name,
            Sitter::Conductor(_) => self.cast.conductors[index].chain.name(seat),
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

/// A line of one generation as another one spells it. Scripts are written in the current generation; of the others,
/// they know P4, which differs in the names of two methods.
fn respelt(line: &Bytes, from: Generation, to: Generation) -> Bytes {
    let methods = |generation| match generation {
        Generation::P5 => [r#""method":"proxy/successor""#, r#""method":"proxy/initialize""#],
        Generation::P4 => [r#""method":"_proxy/successor""#, r#""method":"_proxy/initialize""#],
        other => panic!("scripts do not know {other:?}"),
    };
    if from == to {
        return line.clone();
    }
    let mut text = String::from_utf8_lossy(line).into_owned();
    for (from, to) in methods(from).into_iter().zip(methods(to)) {
        text = text.replacen(from, to, 1);
    }
    text.into()
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
