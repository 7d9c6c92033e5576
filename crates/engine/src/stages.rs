//! The stages that a message passes between its link and the router.
//!
//! On the way in, each stage looks at a message and either passes it on or takes it. On the way out, the stages
//! run in reverse order. A message that a stage sends itself starts at that stage, so it passes only the stages
//! that follow (`pipeline`).
//!
//! Each stage is a module with one type whose fields are private. `failure` handles the failure of a component for
//! all stages, `command` the commands of the user, and `reload` a new configuration.

mod by_seat;
mod command;
mod config;
mod failure;
mod gate;
mod mcp;
mod notices;
mod orphans;
mod pipeline;
mod poison;
mod reload;
mod replay;
mod scp;
mod sessions;
mod telemetry;
mod trial;
mod turns;
mod watchdog;

use std::collections::VecDeque;
use std::fmt;

use ::mcp::Broker;
use acp_wire::dialect::{Generation, LinkProtocol};
use acp_wire::{Id, Json, Message, Outcome, Side};
use router::{Chain, Diagnostic, Level, Role, Router, Seat, Time, UpdateFilter};

use crate::input::{KeptTelemetry, Output, Setup};
use crate::policy::{ComponentPolicy, Rules, Timeouts};
use crate::stage_io::{StageInput, StageOutput};
use config::Config;
use failure::Failures;
use gate::Gate;
use mcp::Mcp;
use notices::Notices;
use orphans::Orphans;
use poison::PoisonDetector;
use replay::SessionReplay;
use scp::Scp;
use sessions::Sessions;
use telemetry::TelemetryFilter;
use trial::Trials;
use turns::Turns;
use watchdog::Watchdog;

/// A stage, in the order of the way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Holds messages for a seat on command, and drops messages for a seat without a component.
    Gate,
    /// Tracks when each component was last active, to notice components that are silent for too long.
    Watchdog,
    /// Finds the kind of message that a component crashes on.
    Poison,
    /// Tracks turns in ACP version 2.
    Turns,
    /// Carries MCP over ACP (crate `acp-conductor-mcp`).
    Mcp,
    /// Shows notices about failures in the editor.
    Notices,
    /// Records how the sessions of each component were set up.
    Sessions,
    /// Replays set-up requests to a restarted component, and answers requests for sessions that the agent has lost.
    Replay,
    /// Handles sessions whose requester is gone.
    Orphans,
    /// Reports log messages and metrics, and keeps them from editors that have not asked for them.
    Telemetry,
    /// Keeps the panels and comments of different components apart (SCP).
    Scp,
    /// Brings requests about options to the component that is meant, and answers them for built-in components.
    Config,
}

impl Stage {
    /// All stages from the link to the router. The way out is the reverse.
    pub const ALL: [Stage; 12] = [
        Stage::Gate,
        Stage::Watchdog,
        Stage::Poison,
        Stage::Turns,
        Stage::Mcp,
        Stage::Notices,
        Stage::Sessions,
        Stage::Replay,
        Stage::Orphans,
        Stage::Telemetry,
        Stage::Scp,
        Stage::Config,
    ];
}

/// The path of a message from link to link, as readable text.
pub fn describe_path() -> String {
    let stages: Vec<String> = Stage::ALL.iter().map(Stage::to_string).collect();
    let back: Vec<&str> = stages.iter().rev().map(String::as_str).collect();
    format!("dialect → {} → router → {} → dialect", stages.join(" → "), back.join(" → "))
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Gate => "gate",
            Stage::Watchdog => "watchdog",
            Stage::Poison => "poison",
            Stage::Turns => "turns",
            Stage::Mcp => "mcp",
            Stage::Notices => "notices",
            Stage::Sessions => "sessions",
            Stage::Replay => "replay",
            Stage::Orphans => "orphans",
            Stage::Telemetry => "telemetry",
            Stage::Scp => "scp",
            Stage::Config => "config",
        })
    }
}

/// What a stage has done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageResult {
    /// The message continues to the next stage.
    Pass,
    /// The message ends here. The stage keeps it, answers it, or drops it.
    Taken,
}

/// Takes a message out of a reference, and leaves a placeholder.
fn take(message: &mut Message) -> Message {
    std::mem::replace(message, Message::response(Id::NULL, Outcome::Result(Json::NULL)))
}

/// Whether this is the id of a request that the core itself has sent.
fn is_own_request(id: &Id) -> bool {
    id.text().is_some_and(|id| id.starts_with("r:"))
}

/// One end of a hop: the seat that a message comes from or goes to, and the side that it travels toward.
#[derive(Debug, Clone, Copy)]
struct Hop {
    seat: Seat,
    toward: Side,
}

/// The state that all stages share: the time, and the list of outputs.
#[derive(Debug, Default)]
struct Context {
    now: Time,
    out: Vec<StageOutput>,
    /// How many requests the core itself has sent.
    own_requests: u64,
}

impl Context {
    /// A new id for a request of the core itself.
    fn next_id(&mut self) -> Id {
        self.own_requests += 1;
        Id::string(&format!("r:{}", self.own_requests))
    }

    fn push(&mut self, output: Output) {
        self.out.push(StageOutput::Output(output));
    }

    fn warn(&mut self, seat: Seat, text: String) {
        self.push(Output::Report(Diagnostic { level: Level::Warn, seat, text }));
    }
}

/// All stages and the router. [`Core`](crate::Core) gives them inputs and performs their outputs.
#[derive(Debug)]
pub struct Stages {
    cx: Context,
    rules: Rules,
    gate: Gate,
    watchdog: Watchdog,
    poison: PoisonDetector,
    turns: Turns,
    mcp: Mcp,
    notices: Notices,
    sessions: Sessions,
    replay: SessionReplay,
    orphans: Orphans,
    telemetry: TelemetryFilter,
    scp: Scp,
    config: Config,
    failures: Failures,
    trials: Trials,
    router: Router,
    /// Work to do after the current input.
    deferred: VecDeque<Deferred>,
    /// A buffer that is reused, so that a busy chain allocates nothing per message.
    router_actions: Vec<router::Action>,
    finished: bool,
}

/// Work to do after the current input.
#[derive(Debug)]
enum Deferred {
    /// A message that a stage sends continues toward the router.
    Inject { stage: Stage, hop: Hop, message: Message },
    /// A restarted component has answered `initialize`.
    Restarted { seat: Seat, outcome: Outcome },
}

impl Stages {
    /// The stages of a chain that has not started.
    pub(crate) fn of_setup(setup: &Setup) -> Stages {
        let chain = setup.chain.clone();
        let bridge = setup.bridge.filter(|_| Broker::is_needed(&chain));
        let broker = bridge.map(|policy| Broker::new(chain.clone(), policy, &setup.nonce));
        let mut stages = Stages::new(
            chain,
            setup.rules.clone(),
            broker,
            setup.forwards_telemetry,
            setup.kept_telemetry.clone(),
        );
        stages.set_about(setup.about.clone());
        if setup.nested {
            stages.router.announce_guards();
        }
        stages.notices.add_for_next_prompt(setup.start_notices.clone());
        stages
    }

    /// The stages of a chain that has not started. `broker` is `None` if the chain does not need MCP over ACP.
    /// `forwards_telemetry` and `kept_telemetry`: see [`Setup`].
    pub fn new(
        chain: Chain,
        rules: Rules,
        broker: Option<Broker>,
        forwards_telemetry: bool,
        kept_telemetry: KeptTelemetry,
    ) -> Stages {
        let count = chain.components.len();
        let mut router = Router::new(chain);
        router.set_seed(rules.seed);
        Stages {
            cx: Context::default(),
            gate: Gate::new(count),
            watchdog: Watchdog::new(count),
            poison: PoisonDetector::new(count),
            turns: Turns::new(count),
            mcp: Mcp::new(count, broker),
            notices: Notices::default(),
            sessions: Sessions::new(count),
            replay: SessionReplay::new(count),
            orphans: Orphans::default(),
            telemetry: TelemetryFilter::new(count, forwards_telemetry, kept_telemetry),
            scp: Scp::new(rules.seed),
            config: Config::new(rules.seed),
            failures: Failures::new(count, rules.seed),
            trials: Trials::default(),
            router,
            deferred: VecDeque::new(),
            router_actions: Vec::new(),
            rules,
            finished: false,
        }
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The broker of MCP over ACP, if the chain has one.
    pub fn broker(&self) -> Option<&Broker> {
        self.mcp.broker()
    }

    /// See [`Router::accept_any_version`].
    pub(crate) fn accept_any_version(&mut self) {
        self.router.accept_any_version();
    }

    /// See [`Router::restart_barrier_timeout`].
    pub(crate) fn restart_barrier_timeout(&mut self, now: Time, seat: Seat) {
        self.router.restart_barrier_timeout(now, seat);
    }

    /// Sets the dialect of the link of a seat.
    pub fn set_dialect(&mut self, seat: Seat, protocol: LinkProtocol) {
        if !self.mcp.set_dialect(seat, protocol) {
            return;
        }
        self.update_skipped_updates(seat);
    }

    /// Passes to the router which updates skip a component.
    fn update_skipped_updates(&mut self, seat: Seat) {
        let Some(component) = self.router.chain().component(seat) else { return };
        let known = self.mcp.dialect(seat).generation().and_then(Generation::update_schema);
        let reads = match component.updates {
            UpdateFilter::Auto => known.filter(|it| it.fails_on_others),
            UpdateFilter::All => None,
            UpdateFilter::Known => known,
        };
        self.router.set_readable_updates(seat, reads);
    }

    /// The current rules.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The current timeouts.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.rules.timeouts
    }

    /// How many sessions are live, as far as the core knows.
    pub fn live_sessions(&self) -> usize {
        self.sessions.live()
    }

    /// The number of messages that are held for a peer, and their size in bytes.
    pub fn held(&self, seat: Seat) -> (usize, usize) {
        let (router, gate) = (self.router.held(seat), self.gate.held(seat));
        (router.0 + gate.0, router.1 + gate.1)
    }

    /// Whether any message is held, or may have to be held.
    pub(crate) fn holds_any(&self) -> bool {
        self.router.may_hold_messages() || self.gate.holds_any()
    }

    /// Whether a command holds the messages for a peer.
    pub(crate) fn is_gate_closed(&self, seat: Seat) -> bool {
        self.gate.is_closed(seat)
    }

    /// How many bytes of long requests and answers are recorded, for tests.
    pub fn retained_bytes(&self) -> usize {
        self.sessions.retained_bytes()
    }

    /// The failure policy of a component.
    pub fn policy(&self, seat: Seat) -> Option<ComponentPolicy> {
        let policy = *self.rules.policies.get(seat.index().checked_sub(1)?)?;
        // A nested chain declares only in its answer to `initialize` that it contains a guard.
        let guard = self.router.chain().component(seat).is_some_and(|it| it.guard);
        Some(if guard { policy.for_guard() } else { policy })
    }

    /// When to call [`handle`](Stages::handle) with [`StageInput::Tick`], if no other input comes first.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let stages = [self.mcp.deadline(), self.watchdog_deadline(), self.cancel_deadline()];
        let router = [self.router.deadline(), self.router.state_deadline()];
        stages.into_iter().chain(router).flatten().min()
    }

    /// How much is unfinished, for tests. First the pending requests, then the held messages, then the unfinished
    /// requests, turns and orphans of the stages, then the open prompts of the editor, then the table sizes of the MCP
    /// broker.
    pub fn sizes(&self) -> Vec<usize> {
        let held: usize = self.router.chain().seats().map(|seat| self.held(seat).0).sum();
        let open = self.sessions.open() + self.turns.open() + self.orphans.len();
        let open = open + self.config.open();
        let broker = self.mcp.broker().into_iter().flat_map(Broker::sizes);
        [self.router.open_request_count(), held, open, self.notices.open()]
            .into_iter()
            .chain(broker)
            .collect()
    }

    /// Handles an input, and appends its outputs to `outputs` in order.
    pub fn handle(&mut self, now: Time, input: StageInput, outputs: &mut Vec<StageOutput>) {
        if self.finished {
            return;
        }
        self.cx.now = now;
        std::mem::swap(&mut self.cx.out, outputs);
        match input {
            StageInput::Arrived { from, toward, message } => {
                self.on_arrived(Hop { seat: from, toward }, message);
            }
            StageInput::Ended { seat, exit } => self.on_ended(seat, exit),
            StageInput::GreetingRetried { seat, exit } => {
                self.with_broker(|it, cx| it.component_removed(seat, cx));
                self.route(router::Event::GreetingRetried { seat, exit });
            }
            StageInput::ClientConnected { ticket, client_id } => {
                self.with_broker(|it, cx| it.client_connected(ticket, client_id, cx));
            }
            StageInput::ClientMessage { client_id, line } => {
                self.with_broker(|it, cx| it.client_message(client_id, &line, cx));
            }
            StageInput::ClientDisconnected(client_id) => {
                self.with_broker(|it, cx| it.client_disconnected(client_id, cx));
            }
            StageInput::EndpointOpened { ticket, endpoint } => {
                self.with_broker(|it, cx| it.endpoint_opened(ticket, endpoint, cx));
            }
            StageInput::Configured { request, answer } => self.on_configured(request, answer),
            StageInput::Command(command) => self.on_command(command),
            StageInput::Reload(reload) => self.on_reload(&reload),
            StageInput::Superseded(seats) => self.on_superseded(&seats),
            StageInput::Hurry(reload) => self.on_hurry(&reload),
            StageInput::Tick => self.on_tick(),
        }
        self.run_deferred();
        while self.advance_config() {
            self.run_deferred();
        }
        if self.router.is_ending() && !self.finished {
            self.release_all();
        }
        std::mem::swap(&mut self.cx.out, outputs);
    }

    /// Does the deferred work.
    fn run_deferred(&mut self) {
        while let Some(deferred) = self.deferred.pop_front().filter(|_| !self.finished) {
            match deferred {
                Deferred::Inject { stage, hop, message } => {
                    self.continue_inbound(stage, hop, message)
                }
                Deferred::Restarted { seat, outcome } => self.on_restarted(seat, outcome),
            }
        }
    }

    /// Passes an event to the router, and performs its actions.
    fn route(&mut self, event: router::Event) {
        let mut actions = std::mem::take(&mut self.router_actions);
        self.router.handle(self.cx.now, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                router::Action::Deliver { to: Seat::CONDUCTOR, message, .. } => {
                    self.on_cancelled_by_requester(&message);
                }
                router::Action::Deliver { to, toward, message } => {
                    self.deliver(Hop { seat: to, toward }, message);
                }
                router::Action::Start(seat) => self.cx.out.push(StageOutput::Start(seat)),
                router::Action::Reinitialized { seat, outcome } => {
                    self.deferred.push_back(Deferred::Restarted { seat, outcome });
                }
                router::Action::Report(diagnostic) => self.cx.push(Output::Report(diagnostic)),
                router::Action::Finish(ending) => {
                    self.release_all();
                    self.finished = true;
                    self.cx.out.push(StageOutput::Finish(ending));
                }
            }
        }
        self.router_actions = actions;
    }

    fn on_tick(&mut self) {
        let now = self.cx.now;
        let due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if due(self.router.deadline()) {
            self.route(router::Event::Tick);
        }
        // No output may follow the end of the chain.
        if self.finished {
            return;
        }
        if due(self.mcp.deadline()) {
            self.with_broker(|it, cx| it.tick(cx));
        }
        self.answer_cancelled();
        self.start_due_components();
    }

    fn is_agent(&self, seat: Seat) -> bool {
        seat.is_component() && self.router.chain().role(seat) == Role::Agent
    }

    fn warn(&mut self, seat: Seat, text: String) {
        self.cx.warn(seat, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagram_and_the_table_in_architecture_md_show_the_stages_in_order() {
        let text = include_str!("../../../ARCHITECTURE.md");
        let path = describe_path();
        let (into, out) = path.split_once(" → router → ").unwrap();
        let picture = format!("line ─▶ {} ─▶", into.replace('→', "─▶"));
        assert!(text.contains(&picture), "{picture}");
        let back: Vec<&str> = out.split(" → ").collect();
        let back: Vec<&str> = back.into_iter().rev().collect();
        let picture = format!("bytes ◀─ {} ◀─", back.join(" ◀─ "));
        assert!(text.contains(&picture), "{picture}");
        let rows: Vec<usize> = Stage::ALL
            .iter()
            .map(|stage| text.find(&format!("\n| {stage} | `{stage}.rs`")).expect("a row"))
            .collect();
        assert!(rows.is_sorted(), "{rows:?}");
    }
}
