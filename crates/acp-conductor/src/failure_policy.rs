//! What happens when a component fails: the options of the user, and the rules that the core follows.

use std::str::FromStr;
use std::time::Duration;

use engine::{Backoff, ComponentPolicy, Fallback, Restart, Rules, Timeouts};
use router::{Mode, UpdateFilter};

use crate::config::{Config, Spec, milliseconds};

/// The failure settings of the whole chain.
#[derive(Debug, Clone)]
pub struct FailurePolicy {
    /// The backoff before a restart: the maximum delay of the first restart, which doubles with each
    /// further one, and the upper bound.
    pub restart_delay: (Duration, Duration),
    /// The restart count resets after this much uptime.
    pub reset_after: Duration,
    /// How long a request may stay unanswered. Prompts and other long requests are exempt.
    pub answer_limit: Option<Duration>,
    /// How long a component may be silent during a prompt or another long request.
    pub prompt_limit: Option<Duration>,
    /// How long a cancelled request may stay unanswered.
    pub cancel_limit: Option<Duration>,
    /// Whether the editor shows notices about failed components.
    pub notices: bool,
}

impl Default for FailurePolicy {
    fn default() -> FailurePolicy {
        let backoff = Backoff::default();
        FailurePolicy {
            restart_delay: (
                Duration::from_millis(backoff.first_delay),
                Duration::from_millis(backoff.max_delay),
            ),
            reset_after: Duration::from_millis(backoff.reset_after),
            answer_limit: None,
            prompt_limit: None,
            cancel_limit: Some(Duration::from_secs(120)),
            notices: true,
        }
    }
}

/// What to do if a component fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCrash {
    /// Restart it. If it fails too often, use the default for its role.
    Restart,
    /// Restart it. If it fails too often, bypass it or stop the chain.
    RestartThen(Fallback),
    /// Continue without it.
    Bypass,
    /// End the chain.
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
                    "{text:?} is not one of restart, restart,bypass, restart,stop, bypass, stop"
                ));
            }
        })
    }
}

/// How often a component may be restarted within a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// The maximum number of restarts.
    pub max: u32,
    /// The period in which they are counted.
    pub within: Duration,
}

impl Default for Restarts {
    fn default() -> Restarts {
        let backoff = Backoff::default();
        Restarts { max: backoff.max_restarts, within: Duration::from_millis(backoff.window) }
    }
}

impl FromStr for Restarts {
    type Err = String;

    /// Parses `COUNT/SECONDS`.
    fn from_str(text: &str) -> Result<Restarts, String> {
        let wrong = || format!("{text:?} is not COUNT/SECONDS, for example 5/60");
        let (max, within) = text.split_once('/').ok_or_else(wrong)?;
        let seconds: f64 =
            within.strip_suffix('s').unwrap_or(within).parse().map_err(|_| wrong())?;
        let within = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        Ok(Restarts { max: max.parse().map_err(|_| wrong())?, within })
    }
}

/// Which kinds of `session/update` a proxy receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates(pub UpdateFilter);

impl FromStr for Updates {
    type Err = String;

    fn from_str(text: &str) -> Result<Updates, String> {
        match text {
            "all" => Ok(Updates(UpdateFilter::All)),
            "known" => Ok(Updates(UpdateFilter::Known)),
            _ => Err(format!("{text:?} is not one of all, known")),
        }
    }
}

/// An option for one component, or for all components that no other option names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForComponent<T> {
    /// The number or name of the component; `None` for all.
    pub component: Option<String>,
    /// The value of the option.
    pub value: T,
}

impl<T: FromStr<Err = String>> FromStr for ForComponent<T> {
    type Err = String;

    /// Parses `[COMPONENT=]VALUE`.
    fn from_str(text: &str) -> Result<ForComponent<T>, String> {
        let (component, value) = match text.rsplit_once('=') {
            Some((component, value)) => (Some(component.to_owned()), value),
            None => (None, text),
        };
        Ok(ForComponent { component, value: value.parse()? })
    }
}

impl Config {
    /// Sets what to do if a component fails: one component, or all without a specific setting.
    ///
    /// # Errors
    /// There is no such component, or it cannot be bypassed.
    pub fn set_on_crash(&mut self, option: &ForComponent<OnCrash>) -> Result<(), String> {
        let index = self.index_for("--on-crash", option.component.as_deref())?;
        for spec in Config::selected(&mut self.components, index) {
            // A guard is bypassed only if the option names it. If the component is a nested chain that
            // contains a guard, the core learns that from its answer to `initialize`.
            let bypasses_guard = spec.guard && option.value.may_bypass();
            let applies = spec.on_crash.is_none() && !bypasses_guard;
            if index.is_some() || applies {
                spec.on_crash = Some(option.value);
                spec.on_crash_named = index.is_some();
            }
        }
        self.check_failure_policy(index.is_some())
    }

    /// Sets how often a component may be restarted: one component, or all without a specific setting.
    ///
    /// # Errors
    /// There is no such component.
    pub fn set_restarts(&mut self, option: &ForComponent<Restarts>) -> Result<(), String> {
        let index = self.index_for("--restarts", option.component.as_deref())?;
        for spec in Config::selected(&mut self.components, index) {
            if index.is_some() || spec.restarts.is_none() {
                spec.restarts = Some(option.value);
            }
        }
        Ok(())
    }

    /// Sets which updates a proxy receives: one proxy, or all without a specific setting.
    ///
    /// # Errors
    /// There is no such component, it is the agent, or it is a guard and the value is `known`.
    pub fn set_updates(&mut self, option: &ForComponent<Updates>) -> Result<(), String> {
        let index = self.index_for("--updates", option.component.as_deref())?;
        if let Some(index) = index {
            let spec = &self.components[index];
            if self.is_agent(index) {
                return Err(format!(
                    "--updates: {} is the agent; the option is for proxies",
                    spec.name
                ));
            }
            if spec.guard && option.value == Updates(UpdateFilter::Known) {
                let name = &spec.name;
                return Err(format!(
                    "--updates: {name} is a guard, and messages never go around a guard"
                ));
            }
        }
        for spec in Config::selected(&mut self.components, index) {
            if index.is_some() || spec.updates.is_none() {
                spec.updates = Some(option.value);
            }
        }
        Ok(())
    }

    /// Marks a component as a guard: messages never bypass it.
    ///
    /// # Errors
    /// There is no such component, or it is the agent.
    pub fn set_guard(&mut self, component: &str) -> Result<(), String> {
        let index = self.index_of("--guard", component)?;
        if self.is_agent(index) {
            let name = &self.components[index].name;
            return Err(format!("--guard: {name} is the agent; only proxies can be guards"));
        }
        self.components[index].guard = true;
        Ok(())
    }

    /// Like `index_of`, for an optional component.
    fn index_for(&self, option: &str, component: Option<&str>) -> Result<Option<usize>, String> {
        component.map(|component| self.index_of(option, component)).transpose()
    }

    /// The component with this index, or all components.
    fn selected(specs: &mut [Spec], index: Option<usize>) -> impl Iterator<Item = &mut Spec> {
        let all = specs.iter_mut().enumerate();
        all.filter(move |(at, _)| index.is_none_or(|index| index == *at)).map(|(_, spec)| spec)
    }

    /// Checks the settings of the agent, which can be neither bypassed nor a guard. An option to bypass all
    /// components excludes the agent.
    ///
    /// # Errors
    /// The agent is a guard, or an option that names it (`named`) bypasses it.
    pub fn check_failure_policy(&mut self, named: bool) -> Result<(), String> {
        let last = self.components.len().wrapping_sub(1);
        let Some(agent) = self.components.get_mut(last).filter(|_| self.mode == Mode::Agent) else {
            return Ok(());
        };
        if agent.guard {
            return Err(format!("guard: {} is the agent; only proxies can be guards", agent.name));
        }
        match agent.on_crash {
            Some(what) if what.may_bypass() && named => Err(format!(
                "--on-crash: {} is the agent, which cannot be bypassed; use restart or stop",
                agent.name
            )),
            Some(what) if what.may_bypass() => {
                agent.on_crash = (what != OnCrash::Bypass).then_some(OnCrash::Restart);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The failure rules of every component, for the core.
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

/// A random seed for the backoff, different for every chain.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => u64::from(std::process::id()),
    }
}

/// The failure policy of one component, with the defaults of its role.
fn policy(spec: &Spec, agent: bool, failure: &FailurePolicy) -> ComponentPolicy {
    let default = if agent || spec.guard { Fallback::Stop } else { Fallback::Bypass };
    let (restart, fallback) = match spec.on_crash {
        None if agent => (Restart::IfResumable, default),
        None | Some(OnCrash::Restart) => (Restart::Always, default),
        Some(OnCrash::RestartThen(then)) => (Restart::Always, then),
        Some(OnCrash::Bypass) => (Restart::Never, Fallback::Bypass),
        Some(OnCrash::Stop) => (Restart::Never, Fallback::Stop),
    };
    let Restarts { max, within } = spec.restarts.unwrap_or_default();
    let backoff = Backoff {
        max_restarts: max,
        window: milliseconds(within),
        first_delay: milliseconds(failure.restart_delay.0),
        max_delay: milliseconds(failure.restart_delay.1),
        reset_after: milliseconds(failure.reset_after),
    };
    ComponentPolicy { restart, fallback, backoff, named: spec.on_crash_named }
}

/// The policy as it is written in `--on-crash`.
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
            config.set_on_crash(&option.parse()?)?;
        }
        Ok(config)
    }

    fn policies(options: &[&str]) -> Vec<&'static str> {
        config(options).unwrap().rules().policies.iter().map(policy_name).collect()
    }

    #[test]
    fn by_default_proxies_are_restarted_then_bypassed_unless_they_are_guards() {
        assert_eq!(policies(&[]), ["restart,bypass", "restart,stop", "restart,stop"]);
        let rules = config(&[]).unwrap().rules();
        assert_eq!(rules.policies[0].restart, Restart::Always);
        assert_eq!(rules.policies[2].restart, Restart::IfResumable);
    }

    #[test]
    fn an_option_applies_to_one_component_or_to_all_without_a_specific_one() {
        assert_eq!(policies(&["stop"]), ["stop", "stop", "stop"]);
        assert_eq!(policies(&["2=restart,bypass", "stop"]), ["stop", "restart,bypass", "stop"]);
        assert_eq!(policies(&["c=restart"])[2], "restart,stop");
        assert_eq!(config(&["c=restart"]).unwrap().rules().policies[2].restart, Restart::Always);
        // The agent and guards are excluded unless the option names them.
        assert_eq!(policies(&["bypass"]), ["bypass", "restart,stop", "restart,stop"]);
        assert_eq!(policies(&["b=bypass"])[1], "bypass");
    }

    #[test]
    fn invalid_failure_options_are_rejected() {
        let why = |option| config(&[option]).unwrap_err();
        assert!(why("c=bypass").contains("is the agent"));
        assert!(why("d=stop").contains("a, b, c"));
        assert!(why("a=nothing").contains("restart,bypass"));
        let mut chain = config(&[]).unwrap();
        assert!(chain.set_guard("3").is_err() && chain.set_guard("1").is_ok());
        assert!(chain.components[0].guard);
        for wrong in ["5", "x/60", "5/soon", "5/-1"] {
            assert!(wrong.parse::<Restarts>().is_err(), "{wrong}");
        }
        let mut updates = |option: &str| chain.set_updates(&option.parse()?);
        assert!(updates("a=all").is_ok() && updates("known").is_ok());
        assert!(updates("b=known").unwrap_err().contains("guard"));
        assert!(updates("c=all").unwrap_err().contains("agent"));
        assert!(updates("a=some").unwrap_err().contains("known"));
        let filters: Vec<_> = chain.chain().components.iter().map(|it| it.updates).collect();
        assert_eq!(filters[..2], [UpdateFilter::All, UpdateFilter::Known]);
        let restarts: ForComponent<Restarts> = "a=2/0.5s".parse().unwrap();
        assert_eq!(restarts.component.as_deref(), Some("a"));
        assert_eq!(restarts.value, Restarts { max: 2, within: Duration::from_millis(500) });
    }
}
