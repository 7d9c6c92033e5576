//! What the user wants to happen when a component fails: policy_name first, then rules for every seat.

use std::str::FromStr;
use std::time::Duration;

use engine::{Backoff, ComponentPolicy, Fallback, Restart, Rules, Timeouts};
use router::{Mode, UpdateFilter};

use crate::config::{Config, Spec, milliseconds};

/// What holds for the whole chain.
#[derive(Debug, Clone)]
pub struct FailurePolicy {
    /// The first restart waits up to the first of these, each further one twice as long as the last,
    /// but never longer than the second.
    pub delay: (Duration, Duration),
    /// The count of restarts resets after this much uptime.
    pub stable: Duration,
    /// How long a request may stay unanswered that is neither a prompt nor for an MCP server.
    pub answer_limit: Option<Duration>,
    /// How long a prompt, or a request for an MCP server, may go without any sign of life.
    pub prompt_limit: Option<Duration>,
    /// How long a cancellation may be ignored.
    pub cancel_limit: Option<Duration>,
    /// Tell the people in front of the editor what became of their chain.
    pub notices: bool,
}

impl Default for FailurePolicy {
    fn default() -> FailurePolicy {
        let backoff = Backoff::default();
        FailurePolicy {
            delay: (
                Duration::from_millis(backoff.first_delay),
                Duration::from_millis(backoff.max_delay),
            ),
            stable: Duration::from_millis(backoff.reset_after),
            answer_limit: None,
            prompt_limit: None,
            cancel_limit: Some(Duration::from_secs(120)),
            notices: true,
        }
    }
}

/// What becomes of a component that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCrash {
    /// Restarted, and then what is usual for one like it.
    Restart,
    RestartThen(Fallback),
    Bypass,
    Stop,
}

impl OnCrash {
    fn may_bypass(self) -> bool {
        matches!(self, OnCrash::Bypass | OnCrash::RestartThen(Fallback::Bypass))
    }
}

impl FromStr for OnCrash {
    type Err = String;

    fn from_str(text: &str) -> Result<OnCrash, String> {
        Ok(match text {
            "restart" => OnCrash::Restart,
            "restart,bypass" => OnCrash::RestartThen(Fallback::Bypass),
            "restart,stop" => OnCrash::RestartThen(Fallback::Stop),
            "bypass" => OnCrash::Bypass,
            "stop" => OnCrash::Stop,
            _ => {
                return Err(format!(
                    "{text:?} is none of restart, restart,bypass, restart,stop, bypass, stop"
                ));
            }
        })
    }
}

/// How often a component may be restarted in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    pub most: u32,
    pub within: Duration,
}

impl Default for Restarts {
    fn default() -> Restarts {
        let backoff = Backoff::default();
        Restarts { most: backoff.max_restarts, within: Duration::from_millis(backoff.window) }
    }
}

impl FromStr for Restarts {
    type Err = String;

    /// `COUNT/SECONDS`.
    fn from_str(text: &str) -> Result<Restarts, String> {
        let wrong = || format!("{text:?} is not COUNT/SECONDS, such as 5/60");
        let (most, within) = text.split_once('/').ok_or_else(wrong)?;
        let seconds: f64 =
            within.strip_suffix('s').unwrap_or(within).parse().map_err(|_| wrong())?;
        let within = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        Ok(Restarts { most: most.parse().map_err(|_| wrong())?, within })
    }
}

/// Which `session/update`s a proxy is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates(pub UpdateFilter);

impl FromStr for Updates {
    type Err = String;

    fn from_str(text: &str) -> Result<Updates, String> {
        match text {
            "all" => Ok(Updates(UpdateFilter::All)),
            "known" => Ok(Updates(UpdateFilter::Known)),
            _ => Err(format!("{text:?} is neither all nor known")),
        }
    }
}

/// An option for one component, or for all that have none of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForComponent<T> {
    pub component: Option<String>,
    pub value: T,
}

impl<T: FromStr<Err = String>> FromStr for ForComponent<T> {
    type Err = String;

    /// `[COMPONENT=]WHAT`.
    fn from_str(text: &str) -> Result<ForComponent<T>, String> {
        let (component, value) = match text.rsplit_once('=') {
            Some((component, value)) => (Some(component.to_owned()), value),
            None => (None, text),
        };
        Ok(ForComponent { component, value: value.parse()? })
    }
}

impl Config {
    /// Sets what becomes of a component, or of all that have nothing of their own.
    ///
    /// # Errors
    /// There is no such component, or it cannot be done without.
    pub fn on_crash(&mut self, option: &ForComponent<OnCrash>) -> Result<(), String> {
        let index = self.index_for("--on-crash", option.component.as_deref())?;
        for spec in Config::chosen(&mut self.components, index) {
            // A guard is left out only if it is named: what is said of all must not open a door. A chain
            // may contain a guard, which the core knows once the chain has answered `initialize`.
            let opens = spec.guard && option.value.may_bypass();
            let all = spec.on_crash.is_none() && !opens;
            if index.is_some() || all {
                spec.on_crash = Some(option.value);
                spec.on_crash_named = index.is_some();
            }
        }
        self.check_failure_policy(index.is_some())
    }

    /// Sets how often a component may be restarted, or all that have nothing of their own.
    ///
    /// # Errors
    /// There is no such component.
    pub fn restarts(&mut self, option: &ForComponent<Restarts>) -> Result<(), String> {
        let index = self.index_for("--restarts", option.component.as_deref())?;
        for spec in Config::chosen(&mut self.components, index) {
            if index.is_some() || spec.restarts.is_none() {
                spec.restarts = Some(option.value);
            }
        }
        Ok(())
    }

    /// Sets which updates a proxy is sent, or all that have nothing of their own.
    ///
    /// # Errors
    /// There is no such component, it is the agent, or it is a guard that is to miss something.
    pub fn updates(&mut self, option: &ForComponent<Updates>) -> Result<(), String> {
        let index = self.index_for("--updates", option.component.as_deref())?;
        if let Some(index) = index {
            let spec = &self.components[index];
            if self.is_agent(index) {
                return Err(format!("--updates: {} is the agent; name a proxy", spec.name));
            }
            if spec.guard && option.value == Updates(UpdateFilter::Known) {
                let name = &spec.name;
                return Err(format!(
                    "--updates: {name} is a guard, and nothing goes around a guard"
                ));
            }
        }
        for spec in Config::chosen(&mut self.components, index) {
            if index.is_some() || spec.updates.is_none() {
                spec.updates = Some(option.value);
            }
        }
        Ok(())
    }

    /// Nothing may pass without this component.
    ///
    /// # Errors
    /// There is no such component, or it is the agent.
    pub fn guard(&mut self, component: &str) -> Result<(), String> {
        let index = self.index_of("--guard", component)?;
        if self.is_agent(index) {
            return Err(format!("--guard: {component} is the agent, and only proxies are guards"));
        }
        self.components[index].guard = true;
        Ok(())
    }

    fn index_for(&self, option: &str, component: Option<&str>) -> Result<Option<usize>, String> {
        component.map(|component| self.index_of(option, component)).transpose()
    }

    fn chosen(specs: &mut [Spec], index: Option<usize>) -> impl Iterator<Item = &mut Spec> {
        let all = specs.iter_mut().enumerate();
        all.filter(move |(at, _)| index.is_none_or(|index| index == *at)).map(|(_, spec)| spec)
    }

    /// The agent cannot be left out, and is no guard. Said of all, leaving out means all but the agent.
    ///
    /// # Errors
    /// The agent itself is `named` to be left out, or to be a guard.
    pub fn check_failure_policy(&mut self, named: bool) -> Result<(), String> {
        let last = self.components.len().wrapping_sub(1);
        let Some(agent) = self.components.get_mut(last).filter(|_| self.mode == Mode::Agent) else {
            return Ok(());
        };
        if agent.guard {
            return Err(format!("guard: {} is the agent, and only proxies are guards", agent.name));
        }
        match agent.on_crash {
            Some(what) if what.may_bypass() && named => Err(format!(
                "--on-crash: {} is the agent and cannot be left out; write restart or stop",
                agent.name
            )),
            Some(what) if what.may_bypass() => {
                agent.on_crash = (what != OnCrash::Bypass).then_some(OnCrash::Restart);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The rules for every seat.
    pub fn rules(&self) -> Rules {
        let specs = self.components.iter().enumerate();
        let limit = |limit: Option<Duration>| limit.map(milliseconds);
        Rules {
            policies: specs
                .map(|(index, spec)| policy(spec, self.is_agent(index), &self.failure))
                .collect(),
            timeouts: Timeouts {
                answer: limit(self.failure.answer_limit),
                prompt: limit(self.failure.prompt_limit),
                cancel: limit(self.failure.cancel_limit),
            },
            notify_editor: self.failure.notices,
            seed: seed(),
        }
    }
}

/// Different for every chain.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => u64::from(std::process::id()),
    }
}

/// What one component wants, filled in with what is usual.
fn policy(spec: &Spec, agent: bool, failure: &FailurePolicy) -> ComponentPolicy {
    let usual = if agent || spec.guard { Fallback::Stop } else { Fallback::Bypass };
    let (restart, fallback) = match spec.on_crash {
        None if agent => (Restart::IfResumable, usual),
        None | Some(OnCrash::Restart) => (Restart::Always, usual),
        Some(OnCrash::RestartThen(then)) => (Restart::Always, then),
        Some(OnCrash::Bypass) => (Restart::Never, Fallback::Bypass),
        Some(OnCrash::Stop) => (Restart::Never, Fallback::Stop),
    };
    let Restarts { most, within } = spec.restarts.unwrap_or_default();
    let backoff = Backoff {
        max_restarts: most,
        window: milliseconds(within),
        first_delay: milliseconds(failure.delay.0),
        max_delay: milliseconds(failure.delay.1),
        reset_after: milliseconds(failure.stable),
    };
    ComponentPolicy { restart, fallback, backoff, named: spec.on_crash_named }
}

/// The policy in the policy_name it is written in.
pub fn policy_name(policy: &ComponentPolicy) -> &'static str {
    match (policy.restart, policy.fallback) {
        (Restart::Never, Fallback::Bypass) => "bypass",
        (Restart::Never, Fallback::Stop) => "stop",
        (_, Fallback::Bypass) => "restart,bypass",
        (_, Fallback::Stop) => "restart,stop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[&str]) -> Result<Config, String> {
        let specs =
            ["a", r#"{"command":"b","guard":true}"#, "c"].map(|it| Spec::parse(it).unwrap());
        let mut config = Config::new(Mode::Agent, specs.to_vec());
        for option in options {
            config.on_crash(&option.parse()?)?;
        }
        Ok(config)
    }

    fn policies(options: &[&str]) -> Vec<&'static str> {
        config(options).unwrap().rules().policies.iter().map(policy_name).collect()
    }

    #[test]
    fn proxies_are_restarted_and_then_left_out_unless_they_are_guards() {
        assert_eq!(policies(&[]), ["restart,bypass", "restart,stop", "restart,stop"]);
        let rules = config(&[]).unwrap().rules();
        assert_eq!(rules.policies[0].restart, Restart::Always);
        assert_eq!(rules.policies[2].restart, Restart::IfResumable);
    }

    #[test]
    fn an_option_is_for_one_or_for_all_that_have_none() {
        assert_eq!(policies(&["stop"]), ["stop", "stop", "stop"]);
        assert_eq!(policies(&["2=restart,bypass", "stop"]), ["stop", "restart,bypass", "stop"]);
        assert_eq!(policies(&["c=restart"])[2], "restart,stop");
        assert_eq!(config(&["c=restart"]).unwrap().rules().policies[2].restart, Restart::Always);
        // All but the agent and guards, which have to be named.
        assert_eq!(policies(&["bypass"]), ["bypass", "restart,stop", "restart,stop"]);
        assert_eq!(policies(&["b=bypass"])[1], "bypass");
    }

    #[test]
    fn mistakes_are_told() {
        let why = |option| config(&[option]).unwrap_err();
        assert!(why("c=bypass").contains("is the agent"));
        assert!(why("d=stop").contains("a, b, c"));
        assert!(why("a=nothing").contains("restart,bypass"));
        let mut chain = config(&[]).unwrap();
        assert!(chain.guard("3").is_err() && chain.guard("1").is_ok());
        assert!(chain.components[0].guard);
        for wrong in ["5", "x/60", "5/soon", "5/-1"] {
            assert!(wrong.parse::<Restarts>().is_err(), "{wrong}");
        }
        let mut updates = |option: &str| chain.updates(&option.parse()?);
        assert!(updates("a=all").is_ok() && updates("known").is_ok());
        assert!(updates("b=known").unwrap_err().contains("guard"));
        assert!(updates("c=all").unwrap_err().contains("agent"));
        assert!(updates("a=some").unwrap_err().contains("known"));
        let takes: Vec<_> = chain.chain().components.iter().map(|it| it.updates).collect();
        assert_eq!(takes[..2], [UpdateFilter::All, UpdateFilter::Known]);
        let restarts: ForComponent<Restarts> = "a=2/0.5s".parse().unwrap();
        assert_eq!(restarts.component.as_deref(), Some("a"));
        assert_eq!(restarts.value, Restarts { most: 2, within: Duration::from_millis(500) });
    }
}
