//! The list of the built-in components, and how their options are parsed.

use acp_wire::ErrorKind;
use clap::Parser;

use crate::context::Context;
use crate::demo::DemoAgent;
use crate::log::Log;
use crate::sparkle::Sparkle;

/// All built-in components, in the order in which `conductor components` lists them.
pub static ALL: [Entry; 4] =
    [Entry::of::<Sparkle>(), Entry::of::<Context>(), Entry::of::<Log>(), Entry::of::<DemoAgent>()];

/// A built-in component. The fields of the type are its command-line options.
pub trait BuiltIn: Parser + Send + Sync + 'static {
    /// Its name on the command line.
    const NAME: &'static str;

    /// Whether it is an agent, the last component of a chain. All others are proxies.
    const AGENT: bool = false;

    /// Whether it is a guard: the chain does not bypass it unless the user allows it.
    const GUARD: bool = false;

    /// Checks the files that the options name, so that errors are reported before the chain starts.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self) -> Result<(), OptionError> {
        Ok(())
    }

    /// Builds the component. Called at each start.
    fn build(&self) -> acp_proxy::Component;
}

/// What is wrong with the options of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What is wrong.
    pub why: String,
}

/// Builds a new instance of a component. Called at each start.
pub type ComponentFactory = Box<dyn Fn() -> acp_proxy::Component + Send + Sync>;

/// A built-in component in the catalog.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name of the component.
    pub name: &'static str,
    /// Whether it is an agent.
    pub agent: bool,
    /// Whether it is a guard.
    pub guard: bool,
    command: fn() -> clap::Command,
    parse: fn(&[String]) -> Result<ComponentFactory, OptionError>,
}

/// The component of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

impl Entry {
    const fn of<C: BuiltIn>() -> Entry {
        Entry {
            name: C::NAME,
            agent: C::AGENT,
            guard: C::GUARD,
            command: || C::command().name(C::NAME),
            parse: parse::<C>,
        }
    }

    /// The command line of the component: its description and its options.
    pub fn command(&self) -> clap::Command {
        (self.command)().disable_version_flag(true)
    }

    /// A description in one line.
    pub fn about(&self) -> String {
        self.command().get_about().map(ToString::to_string).unwrap_or_default()
    }

    /// The help text: what the component does, and its options.
    pub fn help(&self) -> String {
        let command = self.command().bin_name(format!("conductor component {}", self.name));
        command.to_owned().render_long_help().to_string()
    }

    /// Parses and checks the options of the component.
    ///
    /// # Errors
    /// What is wrong, how to get help, and the section of the error page.
    pub fn parse(&self, words: &[String]) -> Result<ComponentFactory, String> {
        (self.parse)(words).map_err(|OptionError { kind, why }| {
            let help = match kind {
                ErrorKind::MisusedBuiltIn => {
                    format!("; see conductor component {} --help", self.name)
                }
                _ => String::new(),
            };
            kind.tag(format!("{}: {why}{help}", self.name))
        })
    }
}

fn parse<C: BuiltIn>(words: &[String]) -> Result<ComponentFactory, OptionError> {
    let words = std::iter::once(C::NAME.to_owned()).chain(words.iter().cloned());
    let component = C::try_parse_from(words).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        let why = first.trim_start_matches("error: ").to_owned();
        OptionError { kind: ErrorKind::MisusedBuiltIn, why }
    })?;
    component.check()?;
    Ok(Box::new(move || component.build()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_has_a_unique_name_and_a_help_text() {
        for entry in &ALL {
            (entry.command)().debug_assert();
            assert!(std::ptr::eq(find(entry.name).unwrap(), entry), "{}", entry.name);
            assert!(!entry.about().is_empty() && entry.help().contains("Usage"), "{}", entry.name);
            assert!(entry.parse(&[]).is_ok(), "{} works without options", entry.name);
            let wrong = entry.parse(&["--no-such-option".to_owned()]).err().unwrap();
            assert!(wrong.starts_with(entry.name), "{wrong}");
        }
        assert!(find("nothing").is_none());
    }
}
