//! The difference between the configuration of a running chain and a new one.

use engine::{ComponentPolicy, Facts, Reload, Rules, Setup};
use router::{Chain, Component, Mode, Seat};

use super::Report;
use crate::config::{Config, Spec};

/// What a reload changes.
#[derive(Debug)]
pub(super) struct Plan {
    /// The components by seat, also those that are no longer in the chain.
    pub(super) specs: Vec<Spec>,
    /// The input for the core.
    pub(super) reload: Reload,
    /// The new configuration, with its components in order.
    pub(super) config: Config,
    /// The components that join the chain or are restarted.
    pub(super) starting: Vec<Seat>,
    pub(super) report: Report,
    /// Whether the chain has another name.
    is_renamed: bool,
}

/// The running chain.
pub(super) struct Running<'a> {
    /// Its configuration. The components are by seat.
    pub(super) config: &'a Config,
    pub(super) chain: &'a Chain,
    /// Whether a component has no process, because it failed too often.
    pub(super) is_bypassed: &'a dyn Fn(Seat) -> bool,
    /// The rules of the core. A message may have changed them.
    pub(super) rules: &'a Rules,
}

impl Plan {
    /// Whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        self.report.is_empty() && self.reload.notices.is_empty() && !self.is_renamed
    }

    /// Compares a new configuration with the running chain. `setup` is the set-up that a chain with the new configuration
    /// would start with.
    ///
    /// # Errors
    /// The new configuration cannot be used while the chain runs.
    pub(super) fn make(
        running: &Running<'_>,
        config: Config,
        setup: Setup,
    ) -> Result<Plan, String> {
        let old = running.config;
        if config.mode != old.mode {
            return Err(
                "a chain with an agent cannot become one without, or the reverse".to_owned()
            );
        }
        if old.mode == Mode::Proxy && running.chain.order.is_empty() != config.components.is_empty()
        {
            return Err(
                "a chain without components must be started again to get the first one".to_owned()
            );
        }
        let seats = assign_seats(running, &config);
        let mut specs = old.components.clone();
        let mut components = running.chain.components.clone();
        let mut policies = vec![ComponentPolicy::STOP; components.len()];
        let mut facts = vec![Facts::default(); components.len()];
        for spec in &mut specs {
            // A component that leaves the chain observes nothing more.
            spec.in_process = None;
        }
        let mut report = Report::default();
        let (mut restarted, mut starting) = (Vec::new(), Vec::new());
        for (index, (seat, spec)) in seats.iter().zip(&config.components).enumerate() {
            let at = seat.index() - 1;
            let is_present = running.chain.contains(*seat);
            let is_added = !is_present || (running.is_bypassed)(*seat);
            let has_changed = || !is_same(&old.components[at], spec);
            if is_added {
                report.added.push(spec.name.clone());
                starting.push(*seat);
            } else if has_changed() {
                report.restarted.push(spec.name.clone());
                restarted.push(*seat);
                starting.push(*seat);
            }
            if at >= specs.len() {
                specs.resize(at + 1, Spec::default());
                components.resize(at + 1, Component::new("", ""));
                policies.resize(at + 1, ComponentPolicy::STOP);
                facts.resize(at + 1, Facts::default());
            }
            specs[at] = spec.clone();
            components[at] = setup.chain.components[index].clone();
            policies[at] = setup.rules.policies[index];
            facts[at] = setup.facts[index].clone();
        }
        let leaving = running.chain.seats().filter(|seat| !seats.contains(seat));
        report.removed = leaving.map(|seat| running.chain.name(seat).to_owned()).collect();
        report.order = changed_order(running.chain, &seats, &components);
        let rules = Rules { policies, ..setup.rules };
        compare_settings(old, &config, (running.rules, &rules), &mut report);
        let is_guarded = |seats: &[Seat], components: &[Component]| {
            seats.iter().any(|seat| components[seat.index() - 1].guard)
        };
        if old.nested && is_guarded(&seats, &components) && !running.chain.has_guard() {
            return Err(
                "the outer conductor does not know that this chain has a guard; start the outer chain again"
                    .to_owned(),
            );
        }
        let chain = Chain { components, order: seats, ..setup.chain };
        let notices = match config.start_notices == old.start_notices {
            true => Vec::new(),
            false => config.start_notices.clone(),
        };
        let (kept_telemetry, tapped, about) = (setup.kept_telemetry, setup.tapped, setup.about);
        let reload = Reload {
            chain,
            rules,
            facts,
            kept_telemetry,
            restarted,
            tapped,
            notices,
            about,
            now: false,
        };
        let is_renamed = config.chain_name != old.chain_name;
        Ok(Plan { specs, reload, config, starting, report, is_renamed })
    }
}

/// The seats of the new components, in order. A component keeps its seat by its name; the agent keeps its seat whatever
/// its name is.
fn assign_seats(running: &Running<'_>, config: &Config) -> Vec<Seat> {
    let agent = match config.mode {
        Mode::Agent => running.chain.last(),
        Mode::Proxy => None,
    };
    let known = running.config.components.len();
    let mut next = known;
    let mut taken: Vec<Seat> = agent.into_iter().collect();
    let count = config.components.len();
    let seats = config.components.iter().enumerate().map(|(index, spec)| {
        if let Some(agent) = agent.filter(|_| index + 1 == count) {
            return agent;
        }
        let named = (1..=known as u16).map(Seat).find(|seat| {
            running.config.components[seat.index() - 1].name == spec.name && !taken.contains(seat)
        });
        let seat = named.unwrap_or_else(|| {
            next += 1;
            Seat(next as u16)
        });
        taken.push(seat);
        seat
    });
    seats.collect()
}

/// Whether a component runs the same program in the same way.
fn is_same(old: &Spec, new: &Spec) -> bool {
    let part = |it: &Spec| {
        (
            it.program.clone(),
            it.args.clone(),
            it.options.clone(),
            it.env.clone(),
            it.directory.clone(),
            it.dialect,
            it.inputs.clone(),
            // A consent to other bytes is not one to those that run.
            it.before_start.clone(),
        )
    };
    part(old) == part(new) && old.in_process.is_some() == new.in_process.is_some()
}

/// The names in the new order, if components that stay have changed places.
fn changed_order(old: &Chain, seats: &[Seat], components: &[Component]) -> Option<Vec<String>> {
    let stay = |list: &[Seat], other: &[Seat]| -> Vec<Seat> {
        list.iter().copied().filter(|seat| other.contains(seat)).collect()
    };
    let is_kept = stay(&old.order, seats) == stay(seats, &old.order);
    let names = seats.iter().map(|seat| components[seat.index() - 1].name.clone());
    (!is_kept).then(|| names.collect())
}

fn compare_settings(
    old: &Config,
    new: &Config,
    (current, rules): (&Rules, &Rules),
    report: &mut Report,
) {
    let (a, b) = (&old.failure, &new.failure);
    let (old_limits, limits) = (current.timeouts, rules.timeouts);
    let now = [
        ("init-timeout", old.limits.initialize != new.limits.initialize),
        ("grace", old.limits.grace != new.limits.grace),
        ("restart-delay", a.restart_delay != b.restart_delay),
        ("answer-limit", old_limits.answer != limits.answer),
        ("prompt-limit", old_limits.prompt != limits.prompt),
        ("cancel-limit", old_limits.cancel != limits.cancel),
        ("notices", current.notify_editor != rules.notify_editor),
    ];
    let later = [
        ("max-line", old.limits.max_line != new.limits.max_line),
        ("mcp-bridge", old.mcp_bridge != new.mcp_bridge),
        ("status", old.status != new.status),
    ];
    let names = |list: &[(&str, bool)]| -> Vec<String> {
        list.iter().filter(|(_, changed)| *changed).map(|(name, _)| (*name).to_owned()).collect()
    };
    (report.settings, report.at_next_start) = (names(&now), names(&later));
    let policies = |config: &Config| -> Vec<_> {
        let spec = |it: &Spec| (it.name.clone(), it.on_crash, it.restarts, it.guard, it.updates);
        config.components.iter().map(spec).collect()
    };
    let (old, new) = (policies(old), policies(new));
    let has_changed = new.iter().any(|it| old.iter().any(|other| other.0 == it.0 && other != it));
    if has_changed {
        report.settings.push("what happens when components fail".to_owned());
    }
}
