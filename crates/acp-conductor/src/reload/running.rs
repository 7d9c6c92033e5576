//! Performs reloads in the main loop of a chain.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use engine::Input;
use router::{Seat, SeatState};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tracing::{info, warn};

use super::plan::{Plan, Running};
use super::{Progress, Report};
use crate::config::{Config, Spec};
use crate::crash_cache::CrashCache;
use crate::greeting_cache::GreetingCache;
use crate::run::Shell;
use crate::tap::TapEvent;

#[cfg(unix)]
use super::server::ReloadServer;
#[cfg(not(unix))]
use super::unsupported::ReloadServer;

/// A client that waits for the result of a reload.
type ReloadClient = UnboundedSender<Progress>;

/// A client asks for a reload.
#[derive(Debug)]
pub(crate) struct ReloadRequest {
    pub(super) client: ReloadClient,
    /// See [`Reload::now`](engine::Reload::now).
    pub(super) now: bool,
}

/// What a thread that reads the configuration finds.
type ReadConfig = Result<Box<Config>, String>;

/// How many requests wait for the main loop at most. Further clients wait in the backlog of the socket.
const MAX_REQUESTS: usize = 8;

/// The reloads of a chain. A reload is read, then it waits in the core, then it starts components. Each of these can be
/// under way for another reload, and each has its own clients.
pub(crate) struct Reloads {
    /// Accepts the requests of `conductor reload`.
    _server: Option<ReloadServer>,
    requests: Receiver<ReloadRequest>,
    hang_ups: HangUps,
    /// What the threads that read the configuration have found.
    read: (UnboundedSender<ReadConfig>, UnboundedReceiver<ReadConfig>),
    /// How many such threads run. Their results come in any order, so only one runs at a time.
    is_reading: bool,
    /// Whether the configuration has to be read once more, because a request came while it was read.
    reads_again: bool,
    /// The clients for which the configuration is read.
    asking: Clients,
    /// Whether one of them does not want to wait.
    asks_now: bool,
    /// The reload that the core has, until it uses it.
    waiting: Option<Waiting>,
    /// The reload that was used last, until its components are live.
    starting: Option<Starting>,
}

/// The clients of one reload.
#[derive(Debug, Default)]
struct Clients(Vec<ReloadClient>);

/// A reload that waits in the core.
struct Waiting {
    plan: Box<Plan>,
    clients: Clients,
    /// The last reason to wait that the clients were told.
    told: Option<String>,
}

/// A reload whose components are being started.
struct Starting {
    /// The components that have joined or were restarted.
    seats: Vec<Seat>,
    /// The previous configuration of those that were restarted.
    before: BTreeMap<Seat, Spec>,
    report: Report,
    clients: Clients,
}

impl Clients {
    fn tell(&mut self, progress: &Progress) {
        self.0.retain(|client| client.send(progress.clone()).is_ok());
    }

    fn take(&mut self) -> Clients {
        std::mem::take(self)
    }

    fn add(&mut self, mut others: Clients) {
        self.0.append(&mut others.0);
    }

    /// Ends a reload.
    fn end(mut self, report: Report) {
        match &report.error {
            Some(why) => warn!("the configuration was not reloaded: {why}"),
            None if report.is_complete() => info!("the configuration was reloaded: {report}"),
            None => warn!("the configuration was reloaded: {report}"),
        }
        self.tell(&Progress::Done(Box::new(report)));
    }
}

impl Reloads {
    /// Accepts reloads, if the chain has a configuration that can be read again.
    pub(crate) fn new(config: &Config) -> Reloads {
        let (sender, requests) = channel(MAX_REQUESTS);
        let can_reload = config.reload.is_some();
        let server = (can_reload && config.status).then(|| ReloadServer::open(sender)).flatten();
        Reloads {
            _server: server,
            requests,
            hang_ups: HangUps::new(can_reload),
            read: unbounded_channel(),
            is_reading: false,
            reads_again: false,
            asking: Clients::default(),
            asks_now: false,
            waiting: None,
            starting: None,
        }
    }
}

impl Shell {
    /// Handles requests to reload, and the steps of a reload. Returns whether it did any work.
    pub(crate) fn poll_reloads(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(source) = self.config.reload.clone() else { return false };
        let mut busy = false;
        let reloads = &mut self.reloads;
        while let Poll::Ready(Some(request)) = reloads.requests.poll_recv(cx) {
            reloads.asking.0.push(request.client);
            reloads.asks_now |= request.now;
            reloads.reads_again = true;
        }
        reloads.reads_again |= reloads.hang_ups.poll(cx);
        if reloads.reads_again && !reloads.is_reading {
            (reloads.reads_again, reloads.is_reading) = (false, true);
            let sender = reloads.read.0.clone();
            // Files can be on a slow disk, so another thread reads them.
            tokio::task::spawn_blocking(move || {
                // The chain may have ended.
                let _ = sender.send(source.read().map(Box::new));
            });
        }
        while let Poll::Ready(Some(read)) = self.reloads.read.1.poll_recv(cx) {
            self.reloads.is_reading = false;
            busy = true;
            match read {
                // The result of the next reading counts.
                _ if self.reloads.reads_again => cx.waker().wake_by_ref(),
                Ok(config) => self.begin_reload(*config),
                Err(why) => self.refuse_reload(why),
            }
        }
        self.report_waiting_reload();
        self.report_started_components();
        busy
    }

    /// Passes the difference between the running chain and a new configuration to the core.
    fn begin_reload(&mut self, config: Config) {
        let mut plan = match self.plan(config) {
            Ok(plan) => plan,
            Err(why) => return self.refuse_reload(why),
        };
        let mut clients = self.reloads.asking.take();
        plan.reload.now = std::mem::take(&mut self.reloads.asks_now);
        // A plan that waits is replaced, even by one that changes nothing.
        if let Some(earlier) = self.reloads.waiting.take() {
            clients.add(earlier.clients);
        } else if plan.is_empty() {
            return match &mut self.reloads.starting {
                // The clients get the report of the components that are being started.
                Some(starting) => starting.clients.add(clients),
                None => clients.end(Report::default()),
            };
        }
        let reload = Box::new(plan.reload.clone());
        self.reloads.waiting = Some(Waiting { plan: Box::new(plan), clients, told: None });
        self.handle(Input::Reload(reload));
    }

    /// Compares the running chain with a new configuration.
    fn plan(&mut self, mut config: Config) -> Result<Plan, String> {
        config.keep_run_of(&self.config);
        if !self.config.has_proxies() && config.has_proxies() {
            (self.greetings, self.crashes) = (GreetingCache::load(), CrashCache::load());
        }
        let setup = config.setup(&self.greetings, &self.crashes);
        let router = self.core.router();
        let is_bypassed = |seat| matches!(router.state(seat), Some(SeatState::Bypassed));
        let running = Running {
            config: &self.config,
            chain: router.chain(),
            rules: self.core.rules(),
            is_bypassed: &is_bypassed,
        };
        Plan::make(&running, config, setup)
    }

    /// The new configuration cannot be used. One that still waits is not what the user wants any more.
    fn refuse_reload(&mut self, why: String) {
        let mut clients = self.reloads.asking.take();
        self.reloads.asks_now = false;
        if let Some(waiting) = self.reloads.waiting.take() {
            clients.add(waiting.clients);
            self.handle(Input::DropReload);
        }
        clients.end(Report { error: Some(why), ..Report::default() });
    }

    /// The configuration of a component has changed while a reload waits: the difference is another one. The core gets it
    /// before any other input.
    pub(crate) fn plan_again(&mut self) {
        let Some(Waiting { plan, clients, .. }) = self.reloads.waiting.take() else { return };
        match self.plan(plan.config) {
            Ok(plan) => {
                self.inputs.push_front(Input::Reload(Box::new(plan.reload.clone())));
                self.reloads.waiting = Some(Waiting { plan: Box::new(plan), clients, told: None });
            }
            Err(why) => {
                self.inputs.push_front(Input::DropReload);
                clients.end(Report { error: Some(why), ..Report::default() });
            }
        }
    }

    /// The core uses the new configuration from now on, or cannot use it.
    pub(crate) fn on_reloaded(&mut self, problem: Option<String>) {
        let Some(Waiting { plan, clients, .. }) = self.reloads.waiting.take() else { return };
        let Plan { specs, config, starting: seats, report, reload, .. } = *plan;
        if let Some(why) = problem {
            return clients.end(Report { error: Some(why), ..Report::default() });
        }
        // The chain was at rest, so the components of an earlier reload are live or have failed.
        self.end_starting();
        let old =
            |seat: &Seat| Some((*seat, self.config.components.get(seat.index() - 1)?.clone()));
        let before = reload.restarted.iter().filter_map(old).collect();
        self.config.components = specs;
        self.config.failure = config.failure;
        (self.config.limits.initialize, self.config.limits.grace) =
            (config.limits.initialize, config.limits.grace);
        self.config.keeps_telemetry_of = config.keeps_telemetry_of;
        self.config.start_notices = config.start_notices;
        self.config.chain_name = config.chain_name;
        self.create_seats();
        let chain = self.core.chain();
        let names: Vec<&str> = chain.seats().map(|seat| chain.name(seat)).collect();
        self.emit(&TapEvent::Changed { components: &names });
        self.reloads.starting = Some(Starting { seats, before, report, clients });
    }

    /// A component has not become live with the new configuration. It has its previous one again, or has left the chain
    /// again.
    pub(crate) fn on_reverted(&mut self, seat: Seat, why: &str) {
        let name = self.core.chain().name(seat).to_owned();
        if let Some(Starting { before, report, .. }) = &mut self.reloads.starting {
            report.reasons.push(format!("{name}: {why}"));
            report.added.retain(|it| *it != name);
            match before.remove(&seat) {
                Some(spec) => {
                    report.restarted.retain(|it| {
                        *it != name && *it != self.config.components[seat.index() - 1].name
                    });
                    report.reverted.push(name);
                    self.config.components[seat.index() - 1] = spec;
                }
                None => report.failed.push(name),
            }
        }
        self.plan_again();
    }

    /// The user should know this about the last reload.
    pub(crate) fn on_reload_note(&mut self, text: String) {
        if let Some(starting) = &mut self.reloads.starting {
            starting.report.notes.push(text);
        }
    }

    /// Tells the clients what the chain waits for, if that has changed.
    fn report_waiting_reload(&mut self) {
        let Some(waiting) = &mut self.reloads.waiting else { return };
        let why = self.core.reload_waits_for();
        if why != waiting.told {
            waiting.told.clone_from(&why);
            if let Some(why) = why {
                waiting.clients.tell(&Progress::Waiting { why });
            }
        }
    }

    /// Ends a reload as soon as the components that it has started are live, or have failed for good.
    fn report_started_components(&mut self) {
        let Some(starting) = &self.reloads.starting else { return };
        let router = self.core.router();
        let is_settled = |seat: &Seat| match router.state(*seat) {
            Some(state) => {
                state.is_up() || matches!(state, SeatState::Bypassed) || !router.has_started()
            }
            None => true,
        };
        if router.is_ending() || starting.seats.iter().all(is_settled) {
            self.end_starting();
        }
    }

    fn end_starting(&mut self) {
        if let Some(Starting { report, clients, .. }) = self.reloads.starting.take() {
            clients.end(report);
        }
    }
}

/// The signal SIGHUP.
#[cfg(unix)]
struct HangUps(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl HangUps {
    fn new(wanted: bool) -> HangUps {
        use tokio::signal::unix::{SignalKind, signal};
        HangUps(wanted.then(|| signal(SignalKind::hangup()).ok()).flatten())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        self.0.as_mut().is_some_and(|signal| signal.poll_recv(cx).is_ready())
    }
}

/// Other systems have no such signal.
#[cfg(not(unix))]
struct HangUps;

#[cfg(not(unix))]
impl HangUps {
    fn new(_wanted: bool) -> HangUps {
        HangUps
    }

    fn poll(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }
}
