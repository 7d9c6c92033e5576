//! The options of the command line, and the settings of files.

use std::path::PathBuf;
use std::time::Duration;

use acp_wire::dialect::Generation;
use config::file::{McpBridge, Settings};
use config::source::{Diagnostic, Placed};
use config::when::Surroundings;
use mcp::{BridgePolicy, Transport};

use super::expanded;
use crate::config::Config;
use crate::failure_policy::{ForComponent, OnCrash, Restarts, Updates};

/// The options of a chain. `None` is an option that is not set, which is not the same as its default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The protocol generations of proxies, by number or name.
    pub dialect: Vec<(String, Generation)>,
    /// The proxies that are guards, by number or name.
    pub guard: Vec<String>,
    /// What to do if a component crashes.
    pub on_crash: Vec<ForComponent<OnCrash>>,
    /// Which kinds of `session/update` a proxy receives.
    pub updates: Vec<ForComponent<Updates>>,
    /// The maximum number of restarts.
    pub restarts: Vec<ForComponent<Restarts>>,
    /// How to offer MCP-over-ACP servers. The inner `None` turns the bridge off.
    pub mcp_bridge: Option<Option<BridgePolicy>>,
    /// The delay before a restart.
    pub restart_delay: Option<(Duration, Duration)>,
    /// The time limit of an answer. The inner `None` is no limit.
    pub answer_limit: Option<Option<Duration>>,
    /// The time limit of silence during a long request.
    pub prompt_limit: Option<Option<Duration>>,
    /// The time limit of the answer to a cancelled request.
    pub cancel_limit: Option<Option<Duration>>,
    /// Whether the editor shows notices about failed components.
    pub notices: Option<bool>,
    /// The timeout of `initialize`.
    pub init_timeout: Option<Duration>,
    /// The grace period at shutdown.
    pub grace: Option<Duration>,
    /// Whether `conductor status` shows the chain.
    pub status: Option<bool>,
    /// The maximum length of a line.
    pub max_line: Option<usize>,
    /// What to log.
    pub log: Option<String>,
    /// Where to write the log.
    pub log_file: Option<PathBuf>,
}

impl Options {
    /// The options, with the settings of files in place of those that are not set.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn or_settings(
        mut self,
        settings: &Settings,
        surroundings: &Surroundings,
    ) -> Result<Options, Diagnostic> {
        or_all(&mut self.on_crash, settings.on_crash.as_ref());
        or_all(&mut self.updates, settings.updates.as_ref());
        or_all(&mut self.restarts, settings.restarts.as_ref());
        or(&mut self.mcp_bridge, &settings.mcp_bridge, |it| policy(*it));
        or(&mut self.restart_delay, &settings.restart_delay, |it| (it.first, it.longest));
        or(&mut self.answer_limit, &settings.answer_limit, |it| it.0);
        or(&mut self.prompt_limit, &settings.prompt_limit, |it| it.0);
        or(&mut self.cancel_limit, &settings.cancel_limit, |it| it.0);
        or(&mut self.notices, &settings.notices, |it| *it);
        or(&mut self.init_timeout, &settings.init_timeout, |it| it.0);
        or(&mut self.grace, &settings.grace, |it| it.0);
        or(&mut self.status, &settings.status, |it| *it);
        or(&mut self.max_line, &settings.max_line, |it| it.0);
        if let (None, Some(log)) = (&self.log, &settings.log) {
            crate::log::check(log).map_err(|why| log.error(why))?;
            self.log = Some(log.value.clone());
        }
        if let (None, Some(file)) = (&self.log_file, &settings.log_file) {
            let path = expanded(file, surroundings)?;
            self.log_file = Some(file.place.source.folder().join(path));
        }
        Ok(self)
    }

    /// Applies the options to a chain. Options that name a component override those that do not.
    ///
    /// # Errors
    /// There is no component of that name, or the option cannot be used for it.
    pub fn apply(&self, config: &mut Config) -> Result<(), String> {
        for (component, generation) in &self.dialect {
            config.set_dialect(component, *generation)?;
        }
        config.check_failure_policy(true)?;
        self.guard.iter().try_for_each(|component| config.set_guard(component))?;
        for named in [true, false] {
            let on_crash = self.on_crash.iter().filter(|it| it.component.is_some() == named);
            on_crash.into_iter().try_for_each(|option| config.set_on_crash(option))?;
            let updates = self.updates.iter().filter(|it| it.component.is_some() == named);
            updates.into_iter().try_for_each(|option| config.set_updates(option))?;
            let restarts = self.restarts.iter().filter(|it| it.component.is_some() == named);
            restarts.into_iter().try_for_each(|option| config.set_restarts(option))?;
        }
        config.mcp_bridge = self.mcp_bridge.unwrap_or(config.mcp_bridge);
        let failure = &mut config.failure;
        failure.restart_delay = self.restart_delay.unwrap_or(failure.restart_delay);
        failure.answer_limit = self.answer_limit.unwrap_or(failure.answer_limit);
        failure.prompt_limit = self.prompt_limit.unwrap_or(failure.prompt_limit);
        failure.cancel_limit = self.cancel_limit.unwrap_or(failure.cancel_limit);
        failure.notices = self.notices.unwrap_or(failure.notices);
        let limits = &mut config.limits;
        limits.initialize = self.init_timeout.unwrap_or(limits.initialize);
        limits.grace = self.grace.unwrap_or(limits.grace);
        limits.max_line = self.max_line.unwrap_or(limits.max_line);
        // A program that embeds the library is not listed unless it asks for it. This program is.
        config.status = self.status.unwrap_or(true);
        Ok(())
    }
}

/// The policy of the MCP bridge. `None` turns the bridge off.
fn policy(bridge: McpBridge) -> Option<BridgePolicy> {
    match bridge {
        McpBridge::Off => None,
        McpBridge::Stdio => Some(BridgePolicy::Only(Transport::Stdio)),
        McpBridge::Http => Some(BridgePolicy::Only(Transport::Http)),
        McpBridge::Auto => Some(BridgePolicy::Auto),
    }
}

fn or<T, S>(option: &mut Option<T>, setting: &Option<Placed<S>>, convert: impl Fn(&S) -> T) {
    if option.is_none() {
        *option = setting.as_ref().map(|it| convert(&it.value));
    }
}

/// A setting for all components. It does not count if the command line has an option for all components.
fn or_all<T: From<S>, S: Clone>(options: &mut Vec<ForComponent<T>>, setting: Option<&Placed<S>>) {
    if let Some(setting) = setting
        && options.iter().all(|it| it.component.is_some())
    {
        let value = T::from(setting.value.clone());
        options.push(ForComponent { component: None, value });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::source::Source;
    use router::{Mode, UpdateFilter};

    use super::*;
    use crate::config::Spec;

    const ALL: &str = "mcp-bridge = \"http\"\non-crash = \"stop\"\nupdates = \"known\"\nrestarts = \"1/2\"\nrestart-delay = \"1..3\"\n\
                       answer-limit = 4\nprompt-limit = 5\ncancel-limit = \"off\"\nnotices = false\ninit-timeout = 6\ngrace = 7\n\
                       status = false\nmax-line = \"8K\"\nlog = \"debug\"\nlog-file = \"${HOME}/x.log\"\n";

    fn filled(options: Options, text: &str) -> Result<Options, Diagnostic> {
        let source = Source::from_bytes(Path::new("/u/c.toml"), text.into()).expect("text");
        let settings: Settings = source.parse().expect("settings");
        let surroundings = Surroundings::new("/", [("HOME", "/home/me")], "linux");
        options.or_settings(&settings, &surroundings)
    }

    fn config(options: &Options) -> Config {
        let specs = ["a", "b", "c"].map(|it| Spec::parse(it).expect("a component"));
        let mut config = Config::new(Mode::Agent, specs.to_vec());
        options.apply(&mut config).expect("valid");
        config
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn each_setting_applies() {
        let options = filled(Options::default(), ALL).expect("valid");
        assert_eq!(options.log.as_deref(), Some("debug"));
        assert_eq!(options.log_file.as_deref(), Some(Path::new("/home/me/x.log")));
        let config = config(&options);
        assert!(matches!(config.mcp_bridge, Some(BridgePolicy::Only(Transport::Http))));
        assert_eq!(config.failure.restart_delay, (seconds(1), seconds(3)));
        assert_eq!(config.failure.answer_limit, Some(seconds(4)));
        assert_eq!(config.failure.prompt_limit, Some(seconds(5)));
        assert_eq!(config.failure.cancel_limit, None);
        assert!(!config.failure.notices && !config.status);
        assert_eq!((config.limits.initialize, config.limits.grace), (seconds(6), seconds(7)));
        assert_eq!(config.limits.max_line, 8192);
        for spec in &config.components {
            assert_eq!(spec.on_crash, Some(OnCrash::Stop));
            assert_eq!(spec.restarts, Some(Restarts { max: 1, within: seconds(2) }));
            assert!(!spec.on_crash_named);
        }
        assert_eq!(config.components[0].updates, Some(Updates(UpdateFilter::Known)));
    }

    /// Also if the value on the command line is the default.
    #[test]
    fn the_command_line_wins_over_each_setting() {
        let given = Options {
            on_crash: vec!["restart".parse().expect("valid")],
            updates: vec!["all".parse().expect("valid")],
            restarts: vec!["a=9/9".parse().expect("valid"), "5/60".parse().expect("valid")],
            mcp_bridge: Some(Some(BridgePolicy::Auto)),
            restart_delay: Some((seconds(0), seconds(10))),
            answer_limit: Some(None),
            prompt_limit: Some(None),
            cancel_limit: Some(Some(seconds(120))),
            notices: Some(true),
            init_timeout: Some(seconds(60)),
            grace: Some(seconds(2)),
            status: Some(true),
            max_line: Some(1),
            log: Some("warn".to_owned()),
            log_file: Some("own".into()),
            ..Options::default()
        };
        let options = filled(given, ALL).expect("valid");
        assert_eq!(options.log.as_deref(), Some("warn"));
        assert_eq!(options.log_file.as_deref(), Some(Path::new("own")));
        let config = config(&options);
        assert!(matches!(config.mcp_bridge, Some(BridgePolicy::Auto)));
        assert_eq!(config.failure.restart_delay, (seconds(0), seconds(10)));
        assert_eq!((config.failure.answer_limit, config.failure.prompt_limit), (None, None));
        assert_eq!(config.failure.cancel_limit, Some(seconds(120)));
        assert!(config.failure.notices && config.status);
        assert_eq!((config.limits.initialize, config.limits.grace), (seconds(60), seconds(2)));
        assert_eq!(config.limits.max_line, 1);
        assert_eq!(config.components[1].on_crash, Some(OnCrash::Restart));
        assert_eq!(config.components[0].updates, Some(Updates(UpdateFilter::All)));
        assert_eq!(config.components[0].restarts.map(|it| it.max), Some(9));
        assert_eq!(config.components[1].restarts.map(|it| it.max), Some(5));
    }

    /// The setting is for the components that the command line does not name.
    #[test]
    fn an_option_for_one_component_leaves_the_setting_to_the_others() {
        let given =
            Options { on_crash: vec!["a=restart".parse().expect("valid")], ..Options::default() };
        let config = config(&filled(given, ALL).expect("valid"));
        assert_eq!(config.components[0].on_crash, Some(OnCrash::Restart));
        assert_eq!(config.components[1].on_crash, Some(OnCrash::Stop));
    }

    #[test]
    fn without_settings_the_defaults_apply() {
        let config = config(&filled(Options::default(), "").expect("valid"));
        let default = Config::new(Mode::Agent, Vec::new());
        assert_eq!(config.limits.max_line, default.limits.max_line);
        assert_eq!(config.failure.cancel_limit, default.failure.cancel_limit);
        assert!(config.status && config.components.iter().all(|it| it.on_crash.is_none()));
    }

    #[test]
    fn a_wrong_setting_is_an_error_at_its_place() {
        let error = filled(Options::default(), "log = \"a=b=c\"\n").expect_err("not a filter");
        assert!(error.to_string().starts_with("/u/c.toml:1:7: \"a=b=c\" is not"), "{error}");
        let error = filled(Options::default(), "log-file = \"${NO}\"\n").expect_err("not set");
        assert!(error.to_string().starts_with("/u/c.toml:1:13: "), "{error}");
    }
}
