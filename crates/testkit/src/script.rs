//! Tests that are written as readable conversations.
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
//! The first argument is the [`topology`](crate::topology). In the script, `name > line` is sent by a participant, and
//! `name < line` must be delivered to it. The deliveries must come in this order, without others between them.
//! [`notation`] describes how lines are written. In an expected line, `…` stands for any text. The other lines are:
//!
//! | the test does | the test expects |
//! |---|---|
//! | `p1 exits with status 3: last output` | `started p1 p2 agent` |
//! | `p1 exits with signal 9` | `warning about p1: text` |
//! | `p1 cannot start: why` | `finished clean` |
//! | `editor closes its output` (it still reads) | `finished failed: text` |
//! | `editor closes its input` | `inner finished clean` (a nested conductor) |
//! | `p1 restarts` (its restart is due) | |
//! | `time 60000` (milliseconds since the start) | |
//! | the answers to requests about options, see below | `request 1 for p1: Set {…}`, `apply options 1`, `drop options 1` |
//! | `stop`, `restart p1`, `bypass p1`, `hold p1`, `release p1` (commands) | |
//! | `reload p2 p1* p9 agent` (another configuration; p1 is restarted, p9 is new) | `reloaded` |
//! | `reload p1 now` (does not wait for components that leave or are restarted) | `not reloaded: why` |
//! | `reload p1 and say TEXT` (with a notice for the user) | `reverted p1: why` |
//! | `forget reload` | |
//!
//! A script may begin with settings. `p1 has crashed on a` and `p1 has crashed on ~b` mean that p1 has crashed in an
//! earlier run on messages with these methods, toward the agent or the editor. The core does not send them to p1.
//! `timeout answer 1000`, `timeout prompt 1000` and `timeout cancel 1000` set the [`Timeouts`] in milliseconds, after
//! which a silent component is considered stuck. `notify editor` turns on the notices to the user. `p1 is managed`
//! means that the shell keeps the options of p1. It answers [`Output::Configure`] with `options of request 1 are {…}`
//! (then p1 is restarted), `options of request 1 stay {…}`, or `options of request 1 are wrong: why`.
//!
//! A comment begins with `# `.

use std::collections::VecDeque;

use acp_wire::dialect::Generation;
use acp_wire::{Json, Message, Side};
use bytes::Bytes;
use engine::{Command, Configured, Input, Output, Reload, Rules, Timeouts};
use router::{Diagnostic, Ending, Exit, ExitCause, Level, MessageKind, Seat, StartFailure, Time};

use crate::shell::{Effect, Shell};
use crate::topology::{ParticipantRole, SeatPeer, Topology};
use crate::{diff, notation};

/// Runs a script. The chain is not initialized.
///
/// # Panics
/// If the conversation differs from the script.
#[track_caller]
pub fn check(topology: &str, script: &str) {
    let script = Script::parse(script);
    ScriptRunner::new(topology, &script).play(&script);
}

/// Runs a script with a chain whose components have all answered `initialize`.
///
/// # Panics
/// If the conversation differs from the script.
#[track_caller]
pub fn check_live(topology: &str, script: &str) {
    let script = Script::parse(script);
    let mut runner = ScriptRunner::new(topology, &script);
    runner.handshake();
    runner.play(&script);
}

/// The params and the result of `initialize` in a chain that [`check_live`] has set up.
const HELLO: &str = r#"{"protocolVersion":1}"#;

/// The settings and the lines of a script.
struct Script {
    /// By component: the kinds of messages on which it has crashed before.
    poison: Vec<(String, MessageKind)>,
    timeouts: Timeouts,
    notify_editor: bool,
    /// The components whose options the shell keeps.
    managed: Vec<String>,
    lines: Vec<String>,
}

impl Script {
    fn parse(script: &str) -> Script {
        let mut lines: Vec<String> = script.lines().filter_map(normalize).collect();
        let mut poison = Vec::new();
        let mut timeouts = Timeouts::default();
        let mut managed = Vec::new();
        let count = lines.len();
        lines.retain(|line| line != "notify editor");
        let notify_editor = lines.len() < count;
        lines.retain(|line| {
            if let Some((name, what)) = line.split_once(" has crashed on ") {
                poison.push((name.to_owned(), kind(what)));
                return false;
            }
            if let Some(name) = line.strip_suffix(" is managed") {
                managed.push(name.to_owned());
                return false;
            }
            let Some(timeout) = line.strip_prefix("timeout ") else { return true };
            let (name, limit) = timeout.split_once(' ').expect("a timeout has a name and a number");
            let limit = Some(limit.parse().expect("a timeout is a number of milliseconds"));
            match name {
                "answer" => timeouts.answer = limit,
                "prompt" => timeouts.prompt = limit,
                "cancel" => timeouts.cancel = limit,
                other => panic!("there is no timeout {other:?}"),
            }
            false
        });
        Script { poison, timeouts, notify_editor, managed, lines }
    }
}

/// Parses a kind of message: a method toward the agent, or `~` and a method toward the editor.
fn kind(text: &str) -> MessageKind {
    let (toward, method) = match text.strip_prefix('~') {
        Some(method) => (Side::Editor, method),
        None => (Side::Agent, text),
    };
    MessageKind { toward, method: method.to_owned(), update: None }
}

/// Runs the lines of a script and logs what happens.
struct ScriptRunner {
    topology: Topology,
    /// By conductor.
    shells: Vec<Shell>,
    now: Time,
    /// By conductor: how many ids it had made when the script began, and has made now.
    ids: Vec<(u64, u64)>,
    log: Vec<Entry>,
}

/// An event, in the notation and, if it is a line, also as it is on the wire.
struct Entry {
    text: String,
    raw: Option<String>,
}

impl ScriptRunner {
    fn new(topology: &str, script: &Script) -> ScriptRunner {
        let topology = Topology::parse(topology);
        let mut setups: Vec<_> =
            (0_u64..).zip(&topology.conductors).map(|(seed, config)| config.setup(seed)).collect();
        for setup in &mut setups {
            (setup.rules.timeouts, setup.rules.notify_editor) =
                (script.timeouts, script.notify_editor);
        }
        for (name, kind) in &script.poison {
            let participant = &topology.participants[topology.participant(name)];
            let facts = &mut setups[participant.conductor].facts[participant.seat.index() - 1];
            facts.poison.push(kind.clone());
        }
        for name in &script.managed {
            let participant = &topology.participants[topology.participant(name)];
            let chain = &mut setups[participant.conductor].chain;
            chain.components[participant.seat.index() - 1].managed = true;
        }
        let shells: Vec<Shell> = setups.into_iter().map(Shell::new).collect();
        ScriptRunner {
            ids: vec![(0, 0); shells.len()],
            topology,
            shells,
            now: Time(0),
            log: Vec::new(),
        }
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
            panic!("the conversation differs from the script (- expected, + actual):\n{diff}");
        }
    }

    /// Performs one line of a script.
    fn act(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "stop" => return self.command(0, Command::Stop),
            "options" => return self.options(rest),
            "restart" | "bypass" | "hold" | "release" => {
                let (index, seat) = self.seat(self.topology.participant(rest));
                let command = match first {
                    "restart" => Command::Restart(seat),
                    "bypass" => Command::Bypass(seat),
                    "hold" => Command::Hold(seat),
                    _ => Command::Release(seat),
                };
                return self.command(index, command);
            }
            "reload" => return self.reload(rest),
            "forget" => {
                return self.with_shell(0, |shell, now| shell.handle(now, Input::DropReload));
            }
            "time" => {
                self.now = Time(rest.parse().expect("time needs milliseconds"));
                return (0..self.shells.len()).for_each(|it| self.with_shell(it, Shell::tick));
            }
            _ => {}
        }
        let participant = self.topology.participant(first);
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (what, text) = rest.split_once(": ").unwrap_or((rest, ""));
        let last_output = if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        let number = |prefix| what.strip_prefix(prefix).and_then(|it| it.trim().parse().ok());
        let cause = match (verb, what) {
            (">", _) => {
                let base = self.ids[self.topology.participants[participant].conductor].0;
                return self.send(participant, &notation::line(rest, base));
            }
            ("closes", "its output") => ExitCause::ClosedOutput,
            ("closes", "its input") => ExitCause::ClosedInput,
            ("cannot", "start") => ExitCause::NotStarted(StartFailure::other(text)),
            ("restarts", "") => return self.with_shell(self.seat(participant).0, Shell::tick),
            ("exits", _) => match (number("with status "), number("with signal ")) {
                (Some(status), _) => ExitCause::Status(status),
                (_, Some(signal)) => ExitCause::Signal(signal),
                _ => panic!("an exit needs a status or a signal: {line:?}"),
            },
            _ => panic!("not a line of a script: {line:?}"),
        };
        let (index, seat) = self.seat(participant);
        self.with_shell(index, |shell, now| {
            shell.exit(now, seat, Exit { last_output, ..Exit::new(cause) })
        });
    }

    /// Gives the first conductor another configuration.
    fn reload(&mut self, words: &str) {
        let (words, notice) = match words.split_once(" and say ") {
            Some((words, notice)) => (words, Some(notice.to_owned())),
            None => (words, None),
        };
        let (words, is_now) = match words.strip_suffix(" now") {
            Some(words) => (words, true),
            None => (words, false),
        };
        let is_restarted = |word: &&str| word.ends_with('*');
        self.topology.reload(words.split(' ').map(|word| word.trim_end_matches('*')));
        let restarted = words.split(' ').filter(is_restarted);
        let restarted = restarted.map(|word| self.topology.participant(word.trim_end_matches('*')));
        let restarted = restarted.map(|participant| self.seat(participant).1).collect();
        let setup = self.topology.conductors[0].setup(0);
        let old = &self.shells[0].setup().rules;
        let rules = Rules { policies: setup.rules.policies, ..old.clone() };
        let (chain, facts, kept_telemetry) = (setup.chain, setup.facts, setup.kept_telemetry);
        let (tapped, notices) = (setup.tapped, Vec::from_iter(notice));
        let (about, now) = (setup.about, is_now);
        let reload =
            Reload { chain, rules, facts, kept_telemetry, restarted, tapped, notices, about, now };
        let reload = Box::new(reload);
        self.with_shell(0, |shell, now| shell.handle(now, Input::Reload(reload)));
    }

    fn command(&mut self, index: usize, command: Command) {
        self.with_shell(index, |shell, now| shell.handle(now, Input::Command(command)));
    }

    /// The shell answers a request about options.
    fn options(&mut self, line: &str) {
        let rest = line.strip_prefix("of request ").expect("options of request NUMBER …");
        let (number, what) = rest.split_once(' ').expect("a number and what happens");
        let request = number.parse().expect("a number");
        let result = |text: &str, restart| {
            let result = Json::parse(text.to_owned()).expect("JSON");
            Ok(Configured { result, restart })
        };
        let answer = match what.split_once(' ') {
            Some(("stay", text)) => result(text, false),
            Some(("are", text)) => match text.strip_prefix("wrong: ") {
                Some(why) => Err(why.to_owned()),
                None => result(text, true),
            },
            _ => panic!("options are, stay or are wrong, not {what:?}"),
        };
        self.with_shell(0, |shell, now| shell.handle(now, Input::Configured { request, answer }));
    }

    fn send(&mut self, participant: usize, line: &Bytes) {
        let (index, seat) = self.seat(participant);
        let line =
            translated(line, Generation::CURRENT, self.topology.conductors[index].generation(seat));
        self.with_shell(index, |shell, now| shell.line(now, seat, line));
    }

    fn seat(&self, participant: usize) -> (usize, Seat) {
        let participant = &self.topology.participants[participant];
        (participant.conductor, participant.seat)
    }

    /// Passes an input to a conductor. The conductors next to it handle the effects.
    fn with_shell(&mut self, index: usize, act: impl FnOnce(&mut Shell, Time) -> Vec<Effect>) {
        let effects = act(&mut self.shells[index], self.now);
        let mut todo: VecDeque<(usize, Effect)> =
            effects.into_iter().map(|it| (index, it)).collect();
        while let Some((index, effect)) = todo.pop_front() {
            match effect {
                Effect::Line { to, line } => {
                    self.count(index, &line);
                    match self.topology.conductors[index].seats[to.seat.index()] {
                        SeatPeer::Participant(participant) => self.deliver(participant, &line),
                        SeatPeer::Conductor(other) => {
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
                            let effects = self.shells[other].exit(self.now, seat, Exit::new(how));
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
                self.log(format!("warning about {}: {text}", self.name(index, seat)), None);
            }
            Output::Reloaded { problem: None } => self.log("reloaded".to_owned(), None),
            Output::Reloaded { problem: Some(why) } => {
                self.log(format!("not reloaded: {why}"), None);
            }
            Output::Reverted { seat, why } => {
                self.log(format!("reverted {}: {why}", self.name(index, seat)), None);
            }
            Output::ReloadNote(text) => self.log(format!("note: {text}"), None),
            // In a script, a component that exits leaves no unread lines.
            Output::Report(_) | Output::Discard(_) => {}
            Output::Configure { request, seat, operation, values } => {
                let name = self.name(index, seat);
                self.log(format!("request {request} for {name}: {operation:?} {values}"), None);
            }
            Output::ApplyOptions { request } => self.log(format!("apply options {request}"), None),
            Output::DropOptions { request } => self.log(format!("drop options {request}"), None),
            output => self.log(format!("{output:?}"), None),
        }
    }

    /// Counts the ids that a conductor makes.
    fn count(&mut self, index: usize, line: &Bytes) {
        if let Ok(Message::Request { id, .. }) = Message::parse(line)
            && let Some(number) =
                id.text().and_then(|it| it.strip_prefix("c:").and_then(|it| it.parse().ok()))
        {
            self.ids[index].1 = self.ids[index].1.max(number);
        }
    }

    fn deliver(&mut self, participant: usize, line: &Bytes) {
        let (index, seat) = self.seat(participant);
        let name = &self.topology.participants[participant].name;
        let spoken = self.topology.conductors[index].generation(seat);
        let current = translated(line, spoken, Generation::CURRENT);
        let text = format!("{name} < {}", notation::text(&current, self.ids[index].0));
        let raw = format!("{name} < {}", String::from_utf8_lossy(line));
        self.log(text, Some(raw));
    }

    fn finish(&mut self, index: usize, ending: &Ending) {
        let name = match self.topology.conductors[index].parent {
            Some((parent, seat)) => format!("{} ", self.name(parent, seat)),
            None => String::new(),
        };
        let how = match ending {
            Ending::Clean => "clean".to_owned(),
            Ending::Failed(why) => format!("failed: {why}"),
        };
        self.log(format!("{name}finished {how}"), None);
    }

    /// The seat of one conductor in the chain of another one.
    fn seat_of(&self, conductor: usize, at: usize) -> Seat {
        match self.topology.conductors[conductor].parent {
            Some((parent, seat)) if parent == at => seat,
            _ => Seat::OUTER,
        }
    }

    fn are_linked(&self, one: usize, other: usize) -> bool {
        let is_parent = |parent: usize, child: usize| {
            self.topology.conductors[child].parent.is_some_and(|(it, _)| it == parent)
        };
        is_parent(one, other) || is_parent(other, one)
    }

    fn name(&self, index: usize, seat: Seat) -> &str {
        match self.topology.conductors[index].seats[seat.index()] {
            SeatPeer::Participant(participant) => &self.topology.participants[participant].name,
            SeatPeer::Conductor(_) => self.topology.conductors[index].chain.name(seat),
        }
    }

    fn log(&mut self, text: String, raw: Option<String>) {
        self.log.push(Entry { text, raw });
    }

    /// Initializes the chain: every component answers `initialize`. Clears the log after that.
    fn handshake(&mut self) {
        let hello = match self.topology.participants[0].role {
            ParticipantRole::Outer => format!("proxy/initialize hello {HELLO}"),
            _ => format!("initialize hello {HELLO}"),
        };
        self.send(0, &notation::line(&hello, 0));
        let mut asked = vec![String::new(); self.topology.participants.len()];
        let mut seen = 0;
        while seen < self.log.len() {
            let text = self.log[seen].text.clone();
            seen += 1;
            let words: Vec<&str> = text.split(' ').collect();
            let [name, "<", what, id, ..] = words[..] else { continue };
            let participant = self.topology.participant(name);
            let answer = match what {
                "proxy/initialize" => {
                    asked[participant] = id.to_owned();
                    format!("~initialize hello {HELLO}")
                }
                "initialize" | "~initialize" => format!("result {id} {HELLO}"),
                "result" if participant > 0 => format!("result {} {HELLO}", asked[participant]),
                _ => continue,
            };
            self.send(participant, &notation::line(&answer, 0));
        }
        let last = self.log.pop().map(|entry| entry.text).unwrap_or_default();
        assert!(last.ends_with(&format!(" < result hello {HELLO}")), "no handshake: {last}");
        self.log.clear();
        self.ids.iter_mut().for_each(|(base, made)| *base = *made);
    }
}

/// Translates a line from one generation to another. Scripts are written in the current generation. Of the older ones,
/// they support P4, which differs in the names of two methods.
fn translated(line: &Bytes, from: Generation, to: Generation) -> Bytes {
    let methods = |generation| match generation {
        Generation::P5 => [r#""method":"proxy/successor""#, r#""method":"proxy/initialize""#],
        Generation::P4 => [r#""method":"_proxy/successor""#, r#""method":"_proxy/initialize""#],
        other => panic!("scripts do not support {other:?}"),
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

/// A line of a script without comment and with one space between its parts. `None` for an empty line.
fn normalize(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.split_once(" # ").map_or(line, |(line, _)| line.trim_end());
    if line.is_empty() || line.starts_with("# ") {
        return None;
    }
    let mut parts = line.splitn(2, ' ').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let rest = parts.next().unwrap_or_default();
    let (verb, what) = rest.split_once(' ').unwrap_or((rest, ""));
    Some([name, verb, what.trim()].join(" ").trim_end().to_owned())
}

/// Whether the test expects this line, instead of performing it.
fn expected(line: &str) -> bool {
    let mut words = line.split(' ');
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let notes = [
        "started", "finished", "warning", "request", "apply", "drop", "reloaded", "not",
        "reverted", "note:",
    ];
    notes.contains(&first) || matches!(second, "<" | "finished")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "- agent < x #2\n+ agent < x #1\n")]
    fn a_conversation_that_differs_from_the_script_fails() {
        check_live("editor agent", "editor > x 5\n agent < x #2");
    }

    #[test]
    #[should_panic(expected = "+ agent < x\n")]
    fn a_delivery_that_the_script_does_not_mention_fails() {
        check_live("editor agent", "editor > x");
    }

    #[test]
    fn an_expected_line_may_be_written_as_on_the_wire() {
        check_live(
            "editor agent",
            r#"
            editor > {"method":"x","params":{ "a":1e400 }}   # as it is
            agent  < {"jsonrpc":"2.0","method":"x","params":{ "a":1e400 }}
            "#,
        );
    }
}
