//! Components that die at any moment, and come back, or do not.

use acp_wire::Outcome;
use mcp::form::Form;

use super::Play;
use crate::cast::*;
use crate::stage::*;

/// Where a line leads to.
#[derive(Debug)]
struct Found {
    who: String,
    /// Which of its servers it is.
    place: usize,
    /// It has accepted an `initialize` of the agent process that asks.
    greeted: bool,
}

impl Play {
    /// Those who live and may die: not the editor.
    fn mortals(&self) -> Vec<String> {
        let providers = self.world.providers.iter().map(|it| &it.who);
        let proxies = providers.filter(|it| *it != "editor").chain(&self.sleepers);
        let here = proxies.filter(|it| !self.away.contains(it) && !self.bypassed.contains(it));
        let mut here: Vec<String> = here.cloned().collect();
        here.extend(self.agent_is_here().then(|| "agent".to_owned()));
        here
    }

    pub(super) fn agent_is_here(&self) -> bool {
        !self.away.iter().any(|it| it == "agent")
    }

    pub(super) fn someone_dies(&mut self) {
        let mortals = self.mortals();
        let Some(who) = self.dice.pick(&mortals).cloned() else { return };
        self.deaths += 1;
        self.world.stage.die(&who);
        if who == "agent" {
            self.world.agent.reborn();
            self.pending.clear();
            self.connecting.clear();
            self.lines.clear();
            self.asked.clear();
        } else {
            self.new_life(&who, false);
        }
        self.is_away(who);
    }

    /// Notes what has become of one who has died.
    fn is_away(&mut self, who: String) {
        if !self.world.stage.is_left_out(&who) {
            return self.away.push(who);
        }
        if let Some(provider) = self.world.providers.iter_mut().find(|it| it.who == who) {
            provider.reborn(&[]);
        }
        self.bypassed.push(who);
    }

    /// A provider that was started again has other ids; sometimes it offers less, or speaks otherwise.
    fn new_life(&mut self, who: &str, faithful: bool) {
        self.last += 1;
        let life = self.last;
        let Some(index) = self.world.providers.iter().position(|it| it.who == who) else { return };
        let provider = &self.world.providers[index];
        let form = provider.form;
        let mut servers = provider.servers.clone();
        if !faithful && self.dice.one_in(5) {
            servers.pop();
        }
        let scp = form == Form::M0;
        for (_, id) in servers.iter_mut().filter(|_| !scp) {
            if !self.dice.one_in(4) {
                let bare = id.split('@').next().unwrap_or_default();
                *id = format!("{bare}@{life}");
            }
        }
        let alike: Vec<Form> =
            FORMS.into_iter().filter(|it| dialect_of(*it) == dialect_of(form)).collect();
        let next = if self.dice.one_in(4) { self.dice.pick(&alike).copied() } else { None };
        let servers: Vec<(&str, &str)> =
            servers.iter().map(|(name, id)| (name.as_str(), id.as_str())).collect();
        let provider = &mut self.world.providers[index];
        provider.reborn(&servers);
        provider.form = next.unwrap_or(form);
    }

    /// Something becomes of one who has died.
    pub(super) fn someone_comes_back(&mut self) {
        if self.away.is_empty() {
            return;
        }
        let index = self.dice.below(self.away.len());
        let who = self.away.remove(index);
        match self.dice.one_in(5) {
            // It may have been left out since: it was started, and did not answer its greeting in time.
            _ if self.world.stage.is_left_out(&who) => self.is_away(who),
            true => self.dies_again(who),
            false => self.comes_back(&who),
        }
    }

    fn dies_again(&mut self, who: String) {
        match (who.as_str(), self.dice.below(2)) {
            ("agent", _) => self.world.stage.boot("agent", Agent::greeting(self.world.agent.form)),
            (_, 0) => self.world.stage.boot(&who, STDIO),
            _ => self.world.told_all(&who),
        }
        self.world.stage.die(&who);
        self.new_life(&who, true);
        self.is_away(who);
    }

    fn comes_back(&mut self, who: &str) {
        if who == "agent" {
            self.world.stage.slow_shell(false);
            for (session, entries) in self.world.revive_agent() {
                self.sessions.insert(session, entries);
            }
            self.world.stage.slow_shell(self.slow);
        } else {
            self.world.told_all(who);
            self.world.stage.is_back(who);
        }
    }

    pub(super) fn all_come_back(&mut self) {
        for who in std::mem::take(&mut self.away) {
            match self.world.stage.is_left_out(&who) {
                true => self.is_away(who),
                false => self.comes_back(&who),
            }
        }
    }

    /// The editor could not end a session if somebody died on the way.
    pub(super) fn note_what_stands(&mut self) {
        for (name, session) in std::mem::take(&mut self.closing) {
            if matches!(self.world.editor().answers.get(&name), Some(Outcome::Error(_))) {
                self.sessions.entry(session).or_default();
            }
        }
    }

    /// A provider is started again while nothing else happens: whoever could use its servers before
    /// still can, and finds it by its new ids.
    pub(super) fn restart_in_peace(&mut self) {
        self.all_come_back();
        for sleeper in self.sleepers.clone() {
            self.world.stage.sleep(&sleeper, false);
        }
        self.kind = true;
        self.drain();
        let mut here = self.mortals();
        here.retain(|it| it != "agent" && !self.once.contains(it));
        let Some(who) = self.dice.pick(&here).cloned() else { return };
        let mut good = Vec::new();
        let lines: Vec<Line> =
            self.lines.iter().filter(|it| self.is_of_a_session(it)).cloned().collect();
        for line in lines {
            good.extend(self.probe(&line).map(|found| (line, found)));
        }
        self.deaths += 1;
        self.world.stage.die(&who);
        self.new_life(&who, true);
        self.comes_back(&who);
        self.drain();
        for (line, before) in good {
            let after = self.probe(&line);
            let form = self.world.provider(&before.who).form;
            // Without connections, it may have been greeted on another line, which is closed since.
            let on_another =
                !form.has_connections() && !self.greeting.contains(&format!("{line:?}"));
            let excused = form == Form::M7 || on_another || !before.greeted || self.lost_hellos;
            let same = |after: &Found| {
                (&after.who, after.place) == (&before.who, before.place)
                    && (after.greeted || excused)
            };
            if !after.as_ref().is_some_and(same) {
                let why = format!("{line:?} led to {before:?}, and now to {after:?}");
                self.world.stage.fail(&why);
            }
        }
        self.kind = false;
    }

    /// Does a line lead to a server of a session that stands? (Clients of others are hung up on.)
    fn is_of_a_session(&self, line: &Line) -> bool {
        let (Line::Native { server, .. }, Some(form)) = (line, self.world.agent.form) else {
            return true;
        };
        let sessions = self.sessions.iter().filter(|(name, _)| self.is_sound(&self.origins[*name]));
        let mut entries = sessions.flat_map(|(_, entries)| entries);
        entries.any(|entry| server_in(form, entry) == *server)
    }

    /// Who hears what is said on a line?
    fn probe(&mut self, line: &Line) -> Option<Found> {
        self.last += 1;
        let mark = format!(r#"{{"name":"probe-{}"}}"#, self.last);
        let name = self.world.agent.ask(&mut self.world.stage, line, &call("tools/call", &mark));
        self.asked.push((name.clone(), line.clone()));
        let mark = mark.trim_matches(['{', '}']);
        let mut found = None;
        let mut busy = true;
        while std::mem::take(&mut busy) {
            self.world.settle();
            for index in 0..self.world.providers.len() {
                let owed: Vec<Said> = self.world.providers[index].owed.values().cloned().collect();
                for said in owed {
                    busy = true;
                    let params = said.call.params.as_ref();
                    if params.is_some_and(|it| it.as_str().contains(mark)) {
                        let provider = &self.world.providers[index];
                        let greeted = provider.is_greeted(&said, &self.world.agent);
                        found = provider.place_of(&said).map(|(who, place)| Found {
                            who,
                            place,
                            greeted,
                        });
                    }
                    self.answer_as(index, &said);
                }
            }
        }
        self.drain();
        let answered = matches!(self.world.agent.outcomes.get(&name), Some(Outcome::Result(_)));
        found.filter(|_| answered)
    }
}
