//! Chains at random: several providers and consumers of any form, sessions that come and go, questions
//! both ways, cancellations, goodbyes, sleeping proxies, and time. In every other story components die,
//! and are started again or bypassed. In every third, providers lose answers. In every fifth, the shell takes
//! its time to open places for MCP clients, or cannot. Whatever happens:
//!
//! - every question is answered, once, unless an MCP client has taken it back or left;
//! - when all is over, nothing is left, neither with us nor with the providers;
//! - the editor hears nothing of servers that are not its own;
//! - who could use a server before its provider was started again, or anybody on the way, still can.
//!
//! A seed replays exactly: `SEED=7 cargo test -p acp-conductor-mcp --test scripts simulation`; `SEEDS=20000` tells
//! more stories.

mod checks;
mod deaths;
mod dice;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use acp_wire::{Json, Outcome};
use mcp::form::Form;

use self::dice::Dice;
use crate::cast::*;
use crate::stage::*;
use crate::world::*;

const SEEDS: u64 = 1_200;

/// Stories that once failed.
const ONCE_BROKEN: [u64; 3] = [1492, 8829, 14694];
const STEPS: usize = 120;

#[test]
fn whatever_happens_everything_is_answered_and_nothing_is_left() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => {
            let seeds = std::env::var("SEEDS").map(|it| it.parse().expect("SEEDS is a number"));
            ONCE_BROKEN.into_iter().chain(0..seeds.unwrap_or(SEEDS)).collect()
        }
    };
    for seed in seeds {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| Play::new(seed, false).play())) {
            eprintln!("SEED={seed}");
            resume_unwind(why);
        }
    }
}

#[test]
fn every_story_replays_from_its_journal() {
    for seed in 0..60 {
        let journal = Play::new(seed, true).play();
        match engine::journal::replay(journal.split_inclusive(|byte| *byte == b'\n')) {
            Ok(report) => assert!(report.inputs > 0 && !report.cut_off, "{seed}: {report:?}"),
            Err(why) => panic!("SEED={seed}: {why}"),
        }
    }
}

/// The simulation notices when lost answers are not made up for.
#[test]
fn a_chain_without_retries_is_found_out() {
    let caught = (0..200).map(|n| n * 3).any(|seed| {
        let mut play = Play::new(seed, false);
        play.world.stage.stop_clock();
        catch_unwind(AssertUnwindSafe(|| play.play())).is_err()
    });
    assert!(caught, "answers are lost, nobody asks again, and nothing was noticed");
}

struct Play {
    dice: Dice,
    world: World,
    /// Those who may fall asleep.
    sleepers: Vec<String>,
    /// Set-up requests that the agent has not answered: how the editor calls them, and their servers.
    pending: Vec<(String, String, Vec<Json>)>,
    /// How the editor calls the set-up of a session.
    origins: BTreeMap<String, String>,
    sessions: BTreeMap<String, Vec<Json>>,
    /// Connects that are not answered.
    connecting: Vec<(Line, String)>,
    lines: Vec<Line>,
    /// What the agent has asked, and on which line.
    asked: Vec<(String, Line)>,
    /// MCP clients do not want these answers any more.
    excused: Vec<String>,
    editor_asked: Vec<String>,
    last: u64,
    /// Somebody may die.
    mortal: bool,
    /// Who has died, and who was given up.
    away: Vec<String>,
    bypassed: Vec<String>,
    /// The components that are left out when they die for the second time.
    once: Vec<String>,
    /// The lines on which the agent, or its client, has sent an `initialize`.
    greeting: BTreeSet<String>,
    /// How many have died, at all and before a set-up.
    deaths: usize,
    deaths_before: BTreeMap<String, usize>,
    /// Requests to end a session.
    closing: Vec<(String, String)>,
    /// Servers do what they are asked.
    kind: bool,
    /// Providers lose answers, as old SDKs do.
    forgetful: bool,
    /// Somebody may use a server although its `initialize` has failed.
    lost_hellos: bool,
    /// How often a server has refused an `initialize` that the exchange sent for a connection that it
    /// had opened in place of another. The consumer is told that its connection is closed.
    refused_hellos: usize,
    /// The shell takes its time.
    slow: bool,
}

impl Play {
    fn new(seed: u64, recorded: bool) -> Play {
        let mut dice = Dice(seed.wrapping_mul(7_919).wrapping_add(17));
        let consumer = [None, None, None]
            .into_iter()
            .chain(FORMS.into_iter().map(Some))
            .nth(dice.below(12))
            .unwrap();
        let mut cast = Vec::new();
        let mut providers = Vec::new();
        let mut sleepers = Vec::new();
        let mut once = Vec::new();
        // Some of them have the same names and ids. They do not count their connections alike: who
        // does so may still mistake what was on its way before it began to (see `twins`).
        let names = ["tools", "tools", "more"];
        for number in 1..=1 + dice.below(3) {
            let form = FORMS[dice.below(FORMS.len())];
            let who = format!("p{number}");
            let ids: [String; 2] = std::array::from_fn(|n| match dice.one_in(4) {
                true => format!("U{n}"),
                false => format!("U{n}-{who}"),
            });
            let servers: Vec<(&str, &str)> = (0..1 + dice.below(2))
                .map(|n| (names[dice.below(3 - n) + n], ids[n].as_str()))
                .collect();
            let mut provider = Provider::new(&who, form, &servers);
            if form == Form::M0 {
                provider.servers.truncate(1);
            }
            provider.passes_unknown = dice.one_in(2);
            providers.push(provider);
            // Some are left out when they die for the second time.
            let survival = if dice.one_in(4) { "once" } else { "restart" };
            once.extend((survival == "once").then(|| who.clone()));
            cast.push(format!("{who}:{}+{survival}", dialect_of(form)));
            if dice.one_in(3) {
                sleepers.push(format!("x{number}"));
                cast.push(format!("(x{number}:{})", ["P3", "P4", "P5"][dice.below(3)]));
            }
        }
        if dice.one_in(3) {
            let form = [Form::M3, Form::M5, Form::M6, Form::M7][dice.below(4)];
            providers.push(Provider::new("editor", form, &[("tools", "UE")]));
        }
        cast.push("agent".into());
        let mut stage = Stage::before_greeting(&cast.join(" "), mcp::BridgePolicy::Auto);
        if recorded {
            stage.record();
        }
        stage.begin(Agent::greeting(consumer));
        let world = World::with_stage(stage, consumer, providers);
        Play {
            dice,
            world,
            sleepers,
            pending: Vec::new(),
            origins: BTreeMap::new(),
            sessions: BTreeMap::new(),
            connecting: Vec::new(),
            lines: Vec::new(),
            asked: Vec::new(),
            excused: Vec::new(),
            editor_asked: Vec::new(),
            last: 0,
            mortal: seed % 2 == 1,
            away: Vec::new(),
            bypassed: Vec::new(),
            once,
            greeting: BTreeSet::new(),
            deaths: 0,
            deaths_before: BTreeMap::new(),
            closing: Vec::new(),
            kind: false,
            forgetful: seed.is_multiple_of(3),
            lost_hellos: false,
            refused_hellos: 0,
            slow: seed.is_multiple_of(5),
        }
    }

    /// Gives the journal, if it is recorded.
    fn play(mut self) -> Vec<u8> {
        self.world.stage.slow_shell(self.slow);
        for _ in 0..STEPS {
            self.step();
            self.someone_reads();
        }
        self.finish();
        self.world.stage.recorded()
    }

    /// Somebody deals with what it got; the others have not come to it yet.
    fn someone_reads(&mut self) {
        let world = &mut self.world;
        match self.dice.below(world.providers.len() + 2) {
            0 => world.agent.pump(&mut world.stage),
            1 => world.settle(),
            n => world.providers[n - 2].pump(&mut world.stage),
        };
        self.shell_answers();
        self.look_around();
    }

    /// A slow shell may answer what it was asked, in any order.
    fn shell_answers(&mut self) {
        let asked = self.world.stage.asked_of_shell().len();
        if asked > 0 && self.dice.one_in(3) {
            let full = self.dice.one_in(6).then(|| "no port is free".to_owned());
            self.world.stage.desk.full = full;
            self.world.stage.shell_answers(self.dice.below(asked));
            self.world.stage.desk.full = None;
        }
    }

    /// Notes what the agent has learnt.
    fn look_around(&mut self) {
        for (id, call) in self.world.agent.requests.drain(..).collect::<Vec<_>>() {
            match call.is("session/new") {
                true => self.pending.push((id, origin_of(&call), servers(&call))),
                false => self.world.stage.say("agent", &format!("result {id} {{}}")),
            }
        }
        let known = |outcomes: &BTreeMap<String, Outcome>, name: &str| outcomes.contains_key(name);
        let outcomes = &self.world.agent.outcomes;
        let (done, open) = std::mem::take(&mut self.connecting)
            .into_iter()
            .partition(|(_, name)| known(outcomes, name));
        self.connecting = open;
        for (line, name) in done as Vec<(Line, String)> {
            self.lines.extend(self.world.agent.reached(line, &name));
        }
    }

    fn step(&mut self) {
        match self.dice.below(if self.mortal { 20 } else { 16 }) {
            16 if self.dice.one_in(3) => self.restart_in_peace(),
            16 | 17 => self.someone_dies(),
            18 | 19 => self.someone_comes_back(),
            0 | 1 => self.begin_session(),
            2 => self.answer_set_up(),
            3 => self.close_session(),
            4 | 5 => self.reach(),
            6 | 7 => self.ask(),
            8 => self.cancel(),
            9 => self.hang_up(),
            10 | 11 => self.provider_answers(),
            12 => self.provider_speaks(),
            13 => self.agent_answers(),
            14 => {
                let time = [1, 700, 2_500, 31_000][self.dice.below(4)];
                if time > 25_000 {
                    self.forget_what_is_given_up();
                }
                self.world.stage.wait(time);
            }
            _ => {
                if let Some(sleeper) = self.dice.pick(&self.sleepers).cloned() {
                    let asleep = self.dice.one_in(2);
                    self.world.stage.sleep(&sleeper, asleep);
                }
            }
        }
    }

    /// Providers do not answer what their consumers will have given up. All else they answer in time.
    fn forget_what_is_given_up(&mut self) {
        let World { providers, stage, .. } = &mut self.world;
        while providers.iter_mut().fold(false, |busy, it| it.pump(stage) | busy) {}
        for index in 0..self.world.providers.len() {
            let provider = &self.world.providers[index];
            for said in provider.owed.values().cloned().collect::<Vec<_>>() {
                if self.may_be_lost(index, &said) {
                    self.lose(index, &said);
                }
            }
        }
    }

    fn lose(&mut self, index: usize, said: &Said) {
        self.lost_hellos |= said.call.is("initialize");
        self.world.providers[index].lose(said);
    }

    /// Is this a request that is asked again? (Of servers that are in no session nothing is known.)
    fn may_be_lost(&self, index: usize, said: &Said) -> bool {
        let provider = &self.world.providers[index].who;
        said.id.as_ref().is_some_and(|it| self.world.stage.repeats(provider, it))
    }

    fn editor_asks(&mut self, method: &str, params: &str) -> String {
        self.last += 1;
        let name = format!("editor-{}", self.last);
        self.world.stage.say("editor", &format!("{method} {name} {params}"));
        self.editor_asked.push(name.clone());
        name
    }

    fn begin_session(&mut self) {
        if self.pending.len() + self.sessions.len() < 4 {
            let servers = self.world.editor().declarations().join(",");
            let name = format!("editor-{}", self.last + 1);
            self.deaths_before.insert(name.clone(), self.deaths);
            let params = format!(r#"{{"cwd":"{name}","mcpServers":[{servers}]}}"#);
            self.editor_asks("session/new", &params);
        }
    }

    fn answer_set_up(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let index = self.dice.below(self.pending.len());
        let (id, origin, entries) = self.pending.remove(index);
        if self.dice.one_in(4) {
            let error = r#"{"code":-32000,"message":"not now"}"#;
            self.world.stage.say("agent", &format!("error {id} {error}"));
            return;
        }
        self.last += 1;
        let session = format!("S{}", self.last);
        self.world.stage.say("agent", &format!(r#"result {id} {{"sessionId":"{session}"}}"#));
        self.origins.insert(session.clone(), origin);
        self.sessions.insert(session, entries);
    }

    fn close_session(&mut self) {
        // The editor cannot end what it has not heard of.
        let answers = &self.world.editor().answers;
        let told = answers.values().filter_map(|it| match it {
            Outcome::Result(result) => result.member("sessionId")?.text().map(|it| it.into_owned()),
            Outcome::Error(_) => None,
        });
        let told: Vec<String> = told.collect();
        let known: Vec<String> =
            self.sessions.keys().filter(|it| told.contains(it)).cloned().collect();
        if let Some(session) = self.dice.pick(&known) {
            self.sessions.remove(session);
            let method = ["session/close", "session/delete"][self.dice.below(2)];
            let name = self.editor_asks(method, &format!(r#"{{"sessionId":"{session}"}}"#));
            self.closing.push((name, session.clone()));
        }
    }

    fn reach(&mut self) {
        if !self.agent_is_here() {
            return;
        }
        let pending = self.pending.iter().map(|(_, origin, entries)| (origin, entries));
        let sessions = self.sessions.iter().map(|(name, entries)| (&self.origins[name], entries));
        let sound = pending.chain(sessions).filter(|(origin, _)| self.is_sound(origin));
        let entries: Vec<Json> = sound.flat_map(|(_, entries)| entries).cloned().collect();
        let Some(entry) = self.dice.pick(&entries) else { return };
        // An agent that speaks SCP is bridged to all servers that are not SCP's.
        match self.world.agent.reach(&mut self.world.stage, entry) {
            (line, Some(name)) => self.connecting.push((line, name)),
            (line, None) => self.lines.push(line),
        }
    }

    /// Is a session good for everybody? Its set-up may have been lost with somebody on the way, and
    /// then only those beyond know of it.
    fn is_sound(&self, origin: &str) -> bool {
        let mut providers = self.world.providers.iter();
        let editor = providers.find(|it| it.who == "editor");
        let told = editor.and_then(|it| it.answers.get(origin));
        matches!(told, Some(Outcome::Result(_))) || self.deaths_before[origin] == self.deaths
    }

    fn ask(&mut self) {
        let Some(line) = self.dice.pick(&self.lines).cloned() else { return };
        let stateless = self.world.agent.form == Some(Form::M7);
        let said = match self.dice.below(5) {
            0 if !stateless => {
                self.greeting.insert(format!("{line:?}"));
                self.world.agent.hello()
            }
            1 => call("tools/list", ""),
            2 => {
                return self.world.agent.note(
                    &mut self.world.stage,
                    &line,
                    &call("notifications/x", "{}"),
                );
            }
            _ => call("tools/call", r#"{"name":"x","_meta":{"progressToken":1}}"#),
        };
        let name = self.world.agent.ask(&mut self.world.stage, &line, &said);
        self.asked.push((name, line));
    }

    fn cancel(&mut self) {
        let Some((name, line)) = self.dice.pick(&self.asked).cloned() else { return };
        self.world.agent.cancel(&mut self.world.stage, &line, &name);
        self.excused.push(name);
    }

    fn hang_up(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let index = self.dice.below(self.lines.len());
        let line = self.lines.swap_remove(index);
        let goodbye = self.world.agent.hang_up(&mut self.world.stage, &line);
        self.asked.extend(goodbye.map(|name| (name, line)));
    }

    fn provider_answers(&mut self) {
        let index = self.dice.below(self.world.providers.len());
        let provider = &mut self.world.providers[index];
        let owed: Vec<Said> = provider.owed.values().cloned().collect();
        if let Some(said) = self.dice.pick(&owed).cloned() {
            self.answer_as(index, &said);
        }
    }

    fn answer_as(&mut self, index: usize, said: &Said) {
        let lost =
            self.forgetful && !self.kind && self.may_be_lost(index, said) && self.dice.one_in(3);
        if lost {
            return self.lose(index, said);
        }
        let from_exchange = said.id.as_ref().is_some_and(|id| id.starts_with("m:"));
        let provider = &mut self.world.providers[index];
        let outcome = match self.dice.below(6) {
            0 | 1 if self.kind => Outcome::Result(json(r#"{"content":[]}"#)),
            0 => Outcome::error(-32000, "the tool says no"),
            1 if provider.form == Form::M7 => Outcome::Result(json(
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#,
            )),
            _ => Outcome::Result(json(r#"{"content":[]}"#)),
        };
        let refused = matches!(outcome, Outcome::Error(_)) && said.call.is("initialize");
        self.refused_hellos += usize::from(refused && from_exchange);
        provider.answer(&mut self.world.stage, said, outcome);
    }

    /// A server says something by itself.
    fn provider_speaks(&mut self) {
        let index = self.dice.below(self.world.providers.len());
        let heard = self.obey(index);
        let provider = &mut self.world.providers[index];
        let Some(said) = self.dice.pick(&heard).cloned() else { return };
        let alive = said.connection.is_empty() || provider.open.contains_key(&said.connection);
        let stage = &mut self.world.stage;
        let progress = call("notifications/progress", r#"{"progressToken":1}"#);
        match self.dice.below(3) {
            // Only in a connection may a server ask.
            0 if provider.form.has_connections() && alive => {
                let name = provider.ask(stage, &said, &call("roots/list", ""));
                if self.dice.one_in(3) {
                    let cancel = format!(r#"~$/cancel_request {{"requestId":"{name}"}}"#);
                    let cancel =
                        cancel.trim_start_matches(if provider.who == "editor" { "~" } else { "" });
                    stage.say(&provider.who, cancel);
                }
            }
            _ if alive && provider.owed.contains_key(said.id.as_deref().unwrap_or("")) => {
                provider.note(stage, &said, &progress);
            }
            _ => {}
        }
    }

    fn agent_answers(&mut self) {
        if let Some(heard) = self.world.agent.heard.pop_front().filter(|it| it.id.is_some()) {
            self.world.agent.answer(&mut self.world.stage, &heard, r#"{"roots":[]}"#);
        }
    }

    /// Everybody ends what it has begun.
    fn finish(&mut self) {
        self.all_come_back();
        for sleeper in self.sleepers.clone() {
            self.world.stage.sleep(&sleeper, false);
        }
        self.drain();
        self.check_clients();
        self.note_what_stands();
        for session in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.editor_asks("session/close", &format!(r#"{{"sessionId":"{session}"}}"#));
        }
        self.drain();
        for line in std::mem::take(&mut self.lines) {
            let goodbye = self.world.agent.hang_up(&mut self.world.stage, &line);
            self.asked.extend(goodbye.map(|name| (name, line)));
        }
        self.drain();
        self.check();
    }

    fn drain(&mut self) {
        self.world.stage.slow_shell(false);
        loop {
            let mut busy = self.world.settle();
            self.look_around();
            while !self.pending.is_empty() {
                self.answer_set_up();
                busy = true;
            }
            for index in 0..self.world.providers.len() {
                self.obey(index);
                for said in self.world.providers[index].owed.values().cloned().collect::<Vec<_>>() {
                    self.answer_as(index, &said);
                    busy = true;
                }
            }
            while !self.world.agent.heard.is_empty() {
                self.agent_answers();
                busy = true;
            }
            if !busy && !self.world.stage.skip_to_deadline() {
                break;
            }
        }
        self.world.stage.slow_shell(self.slow);
    }

    /// Servers with connections do not answer what was taken back in MCP's words. Says what else
    /// they have heard.
    fn obey(&mut self, index: usize) -> Vec<Said> {
        let provider = &mut self.world.providers[index];
        let (back, heard): (Vec<Said>, Vec<Said>) =
            provider.heard.drain(..).partition(|said| said.call.is("notifications/cancelled"));
        for said in back {
            let id = said.call.params.and_then(|params| params.member("requestId"));
            let id = id.and_then(|id| id.text().map(|id| id.into_owned())).unwrap_or_default();
            let inner = |said: &Said| said.inner.as_ref().is_some_and(|it| token(it) == id);
            provider.owed.retain(|name, said| *name != id && !inner(said));
        }
        heard
    }
}

/// How the editor calls the set-up that has become this.
fn origin_of(call: &acp_wire::Call) -> String {
    let origin = call.params.as_ref().and_then(|params| params.member("cwd"));
    origin.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_default()
}
