//! Follows the includes of a chain and evaluates its conditions.

use acp_wire::suggestion;

use super::{Configuration, MAX_DEPTH, MAX_ENTRIES, ResolvedChain, ResolvedEntry, Role};
use crate::file::{Chain, Component, Entry, EntryKind};
use crate::source::{Diagnostic, Placed};
use crate::when::{Condition, Surroundings, Verdict};

impl Configuration {
    /// A chain with its includes. The conditions are evaluated in these surroundings.
    ///
    /// # Errors
    /// There is no such chain, one of its names does not exist, or it includes itself.
    pub fn chain(
        &self,
        name: &str,
        surroundings: &Surroundings,
    ) -> Result<ResolvedChain, Diagnostic> {
        self.resolve(name, &|condition| condition.evaluate(surroundings))
    }

    /// A chain as if all its conditions held.
    ///
    /// # Errors
    /// As [`chain`](Configuration::chain).
    pub fn whole_chain(&self, name: &str) -> Result<ResolvedChain, Diagnostic> {
        let holds = |_: &Condition| Verdict { holds: true, reason: String::new() };
        self.resolve(name, &holds)
    }

    fn resolve(
        &self,
        name: &str,
        evaluate: &dyn Fn(&Condition) -> Verdict,
    ) -> Result<ResolvedChain, Diagnostic> {
        let Some((name, chain)) = self.chains.get_key_value(name) else {
            return Err(self.unknown_chain(name));
        };
        let (entries, path, includes) = (Vec::new(), Vec::new(), 0);
        let mut walk = Walk { configuration: self, evaluate, entries, path, includes };
        let mut agent = None;
        walk.chain(name, chain, &[], &mut agent)?;
        let mut entries = walk.entries;
        entries.extend(agent);
        let mut settings = self.settings.clone();
        settings.merge(chain.settings.clone());
        Ok(ResolvedChain { name: name.clone(), entries, settings })
    }

    /// The component with a name that is written in a chain.
    fn find_component(&self, name: &Placed<String>, role: Role) -> Result<Component, Diagnostic> {
        if let Some((key, component)) = self.components.get_key_value(name) {
            if component.command.is_none() {
                let error = key.error(format!("the component `{}` has no `command`", name.value));
                return Err(error.help("write `command = \"PROGRAM\"`, or the name of a built-in"));
            }
            return Ok(component.clone());
        }
        match self.built_ins.iter().find(|it| it.name == name.as_str()) {
            Some(built_in) if built_in.agent != (role == Role::Agent) => {
                let (is, place) = match built_in.agent {
                    true => ("an agent", "`agent`"),
                    false => ("a proxy", "`proxies`"),
                };
                let error = name.error(format!("the built-in component `{}` is {is}", name.value));
                Err(error.help(format!("write it into {place}")))
            }
            Some(built_in) => {
                let command = format!("builtin:{}", built_in.name);
                let command = Some(Placed::new(command, name.place.clone()));
                Ok(Component { command, ..Component::default() })
            }
            None => Err(self.unknown_component(name, role)),
        }
    }

    fn unknown_component(&self, name: &Placed<String>, role: Role) -> Diagnostic {
        let built_ins = self.built_ins.iter().filter(|it| it.agent == (role == Role::Agent));
        let built_ins = built_ins.map(|it| it.name);
        let known = self.components.keys().map(|it| it.value.as_str()).chain(built_ins);
        let error = name.error(format!("there is no component `{}`", name.value));
        let mut words = name.split_whitespace();
        error.help(match suggestion::closest(name, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if self.chains.contains_key(name.as_str()) && role == Role::Proxy => {
                format!("to include this chain, write `{{ chain = \"{}\" }}`", name.value)
            }
            None => {
                let command = words.next().unwrap_or("PROGRAM");
                let table = command.rsplit(['/', '\\', ':', '@']).next().unwrap_or(command);
                format!("define it: `[components.{table}]` with `command = \"{command}\"`")
            }
        })
    }
}

/// A walk through a chain and the chains that it includes.
struct Walk<'a> {
    configuration: &'a Configuration,
    evaluate: &'a dyn Fn(&Condition) -> Verdict,
    entries: Vec<ResolvedEntry>,
    /// The names of the chains from the outermost one to this one.
    path: Vec<String>,
    /// The number of chains that were included.
    includes: usize,
}

impl Walk<'_> {
    /// Adds the proxies of a chain. Its agent goes into `agent`, unless an outer chain has one.
    fn chain(
        &mut self,
        name: &Placed<String>,
        chain: &Chain,
        outer: &[Verdict],
        agent: &mut Option<ResolvedEntry>,
    ) -> Result<(), Diagnostic> {
        self.path.push(name.value.clone());
        if let (Some(name), None) = (&chain.agent, &*agent) {
            let component = self.configuration.find_component(name, Role::Agent)?;
            let verdicts = self.verdicts(outer, None, component.when.as_ref());
            *agent = Some(self.entry(name, Role::Agent, component, verdicts));
        }
        for entry in chain.proxies.iter().flat_map(|it| &it.value) {
            if self.entries.len() >= MAX_ENTRIES {
                let why = format!("the chain has more than {MAX_ENTRIES} components");
                return Err(Diagnostic::at(&entry.place, why));
            }
            match entry.kind {
                EntryKind::Chain => self.include(entry, outer, agent)?,
                EntryKind::Component => {
                    let component = self.configuration.find_component(&entry.name, Role::Proxy)?;
                    let when = (entry.when.as_ref(), component.when.clone());
                    let verdicts = self.verdicts(outer, when.0, when.1.as_ref());
                    let mut found = self.entry(&entry.name, Role::Proxy, component, verdicts);
                    found.place = entry.place.clone();
                    self.entries.push(found);
                }
            }
        }
        self.path.pop();
        Ok(())
    }

    fn include(
        &mut self,
        entry: &Entry,
        outer: &[Verdict],
        agent: &mut Option<ResolvedEntry>,
    ) -> Result<(), Diagnostic> {
        let (name, chain) = self.configuration.find_chain(&entry.name)?;
        if self.path.contains(name) {
            let path =
                [self.path.as_slice(), std::slice::from_ref(&name.value)].concat().join(" → ");
            let error =
                Diagnostic::at(&entry.place, format!("the chain `{}` includes itself", name.value));
            return Err(error.label(path).help("remove one of these entries"));
        }
        if self.path.len() >= MAX_DEPTH {
            let why = format!("chains include each other more than {MAX_DEPTH} times");
            return Err(Diagnostic::at(&entry.place, why));
        }
        self.includes += 1;
        if self.includes > MAX_ENTRIES {
            let why = format!("the chain includes more than {MAX_ENTRIES} chains");
            return Err(Diagnostic::at(&entry.place, why));
        }
        let verdicts = self.verdicts(outer, entry.when.as_ref(), None);
        if verdicts.iter().any(|it| !it.holds) {
            let mut found = self.entry(&entry.name, Role::Chain, Component::default(), verdicts);
            found.place = entry.place.clone();
            self.entries.push(found);
            return Ok(());
        }
        self.chain(name, chain, &verdicts, agent)
    }

    fn verdicts(
        &self,
        outer: &[Verdict],
        entry: Option<&Placed<Condition>>,
        component: Option<&Placed<Condition>>,
    ) -> Vec<Verdict> {
        let own = entry.into_iter().chain(component).map(|it| (self.evaluate)(&it.value));
        outer.iter().cloned().chain(own).collect()
    }

    fn entry(
        &self,
        name: &Placed<String>,
        role: Role,
        component: Component,
        verdicts: Vec<Verdict>,
    ) -> ResolvedEntry {
        let through = self.path.get(1..).unwrap_or_default().to_vec();
        let (place, name) = (name.place.clone(), name.value.clone());
        ResolvedEntry { name, role, place, through, component, verdicts }
    }
}
