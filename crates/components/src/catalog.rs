//! The list of what there is, and how its options are read.

use clap::Parser;

use crate::context::Context;
use crate::demo::DemoAgent;
use crate::log::Log;
use crate::sparkle::Sparkle;

/// Everything there is, in the order in which it is listed.
pub static ALL: [Entry; 4] =
    [Entry::of::<Sparkle>(), Entry::of::<Context>(), Entry::of::<Log>(), Entry::of::<DemoAgent>()];

/// A component: its options are its fields.
pub trait Component: Parser + Send + Sync + 'static {
    const NAME: &'static str;

    /// It is an agent, to stand at the end of a chain; all others are proxies.
    const AGENT: bool = false;

    /// It is there to keep something from passing: a chain does not go on without it unless its user
    /// says so.
    const GUARD: bool = false;

    /// Looks at what the options name, such as files, so that mistakes are told at the start.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn make(&self) -> acp_proxy::Component;
}

/// Makes a proxy, as often as it is started.
pub type Recipe = Box<dyn Fn() -> acp_proxy::Component + Send + Sync>;

/// A row of the catalog.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub agent: bool,
    pub guard: bool,
    command: fn() -> clap::Command,
    read: fn(&[String]) -> Result<Recipe, String>,
}

pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

impl Entry {
    const fn of<C: Component>() -> Entry {
        Entry {
            name: C::NAME,
            agent: C::AGENT,
            guard: C::GUARD,
            command: || C::command().name(C::NAME),
            read: read::<C>,
        }
    }

    /// One line about it.
    pub fn about(&self) -> String {
        (self.command)().get_about().map(ToString::to_string).unwrap_or_default()
    }

    /// All about it: what it does, and its options.
    pub fn help(&self) -> String {
        let command = (self.command)().bin_name(format!("conductor component {}", self.name));
        command.disable_version_flag(true).render_long_help().to_string()
    }

    /// Reads its options.
    pub fn read(&self, words: &[String]) -> Result<Recipe, String> {
        (self.read)(words).map_err(|why| {
            format!("{}: {why}; see conductor component {} --help", self.name, self.name)
        })
    }
}

fn read<C: Component>(words: &[String]) -> Result<Recipe, String> {
    let words = std::iter::once(C::NAME.to_owned()).chain(words.iter().cloned());
    let component = C::try_parse_from(words).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })?;
    component.check()?;
    Ok(Box::new(move || component.make()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_has_a_name_of_its_own_and_tells_what_it_does() {
        for entry in &ALL {
            (entry.command)().debug_assert();
            assert!(std::ptr::eq(find(entry.name).unwrap(), entry), "{}", entry.name);
            assert!(!entry.about().is_empty() && entry.help().contains("Usage"), "{}", entry.name);
            assert!(entry.read(&[]).is_ok(), "{} works without options", entry.name);
            let wrong = entry.read(&["--no-such-option".to_owned()]).err().unwrap();
            assert!(wrong.starts_with(entry.name), "{wrong}");
        }
        assert!(find("nothing").is_none());
    }
}
