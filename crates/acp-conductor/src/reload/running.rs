//! Performs reloads in the main loop of a chain.

use std::task::{Context, Poll};

use engine::Input;
use router::{Seat, SeatState};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tracing::{info, warn};

use super::plan::{FileStamp, Plan, Running, files_of};
use super::{Progress, Report};
use crate::config::Config;
use crate::crash_cache::CrashCache;
use crate::greeting_cache::GreetingCache;
use crate::run::Shell;

#[cfg(unix)]
use super::server::ReloadServer;
#[cfg(not(unix))]
use super::unsupported::ReloadServer;

/// A client that waits for the result of a reload.
pub(crate) type ReloadClient = UnboundedSender<Progress>;

/// What a thread that reads the configuration finds.
type ReadConfig = Result<Box<Config>, String>;

/// How many requests wait for the main loop at most. Further clients wait in the backlog of the socket.
const MAX_REQUESTS: usize = 8;

/// The reloads of a chain.
pub(crate) struct Reloads {
    /// Accepts the requests of `conductor reload`.
    _server: Option<ReloadServer>,
    requests: Receiver<ReloadClient>,
    hang_ups: HangUps,
    /// What the threads that read the configuration have found.
    read: (UnboundedSender<ReadConfig>, UnboundedReceiver<ReadConfig>),
    /// How many such threads run. Their results come in any order, so only one runs at a time.
    is_reading: bool,
    /// Whether the configuration has to be read once more, because a request came while it was read.
    reads_again: bool,
    clients: Vec<ReloadClient>,
    /// The plan that the core has, until it uses it.
    plan: Option<Box<Plan>>,
    /// The components that the last reload has started, and its report.
    starting: Option<(Vec<Seat>, Report)>,
    /// The last reason to wait that the clients were told.
    told: Option<String>,
    /// The files of each component, by seat.
    files: Vec<Vec<FileStamp>>,
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
            clients: Vec::new(),
            plan: None,
            starting: None,
            told: None,
            files: config.components.iter().map(files_of).collect(),
        }
    }

    fn tell(&mut self, progress: &Progress) {
        self.clients.retain(|client| client.send(progress.clone()).is_ok());
    }
}

impl Shell {
    /// Handles requests to reload, and the steps of a reload. Returns whether it did any work.
    pub(crate) fn poll_reloads(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(source) = self.config.reload.clone() else { return false };
        let mut busy = false;
        let reloads = &mut self.reloads;
        while let Poll::Ready(Some(client)) = reloads.requests.poll_recv(cx) {
            reloads.clients.push(client);
            reloads.told = None;
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
                Ok(_) if self.reloads.reads_again => {}
                Ok(config) => self.begin_reload(*config),
                Err(why) => self.end_reload(Report { error: Some(why), ..Report::default() }),
            }
        }
        self.report_waiting_reload();
        self.report_started_components();
        busy
    }

    /// Passes the difference between the running chain and a new configuration to the core.
    fn begin_reload(&mut self, config: Config) {
        if !self.config.has_proxies() && config.has_proxies() {
            (self.greetings, self.crashes) = (GreetingCache::load(), CrashCache::load());
        }
        let setup = config.setup(&self.greetings, &self.crashes);
        let router = self.core.router();
        let is_bypassed = |seat| matches!(router.state(seat), Some(SeatState::Bypassed));
        let running = Running {
            config: &self.config,
            chain: router.chain(),
            is_bypassed: &is_bypassed,
            files: &self.reloads.files,
        };
        match Plan::make(&running, config, setup) {
            Err(why) => self.end_reload(Report { error: Some(why), ..Report::default() }),
            // A plan that waits is replaced, even by one that changes nothing.
            Ok(plan) if plan.is_empty() && self.reloads.plan.is_none() => {
                // The clients get the report of the components that are being started.
                if self.reloads.starting.is_none() {
                    self.end_reload(Report::default());
                }
            }
            Ok(plan) => {
                let reload = Box::new(plan.reload.clone());
                self.reloads.plan = Some(Box::new(plan));
                self.handle(Input::Reload(reload));
            }
        }
    }

    /// The core uses the new configuration from now on, or cannot use it.
    pub(crate) fn on_reloaded(&mut self, problem: Option<String>) {
        let Some(plan) = self.reloads.plan.take() else { return };
        let Plan { specs, config, starting, report, .. } = *plan;
        if let Some(why) = problem {
            return self.end_reload(Report { error: Some(why), ..Report::default() });
        }
        self.reloads.files = specs.iter().map(files_of).collect();
        self.config.components = specs;
        self.config.failure = config.failure;
        (self.config.limits.initialize, self.config.limits.grace) =
            (config.limits.initialize, config.limits.grace);
        self.config.keeps_telemetry_of = config.keeps_telemetry_of;
        self.config.start_notices = config.start_notices;
        self.create_seats();
        self.reloads.starting = Some((starting, report));
    }

    /// Tells the clients what the chain waits for, if that has changed.
    fn report_waiting_reload(&mut self) {
        if self.reloads.plan.is_none() {
            return;
        }
        let why = self.core.reload_waits_for();
        if why != self.reloads.told {
            self.reloads.told.clone_from(&why);
            if let Some(why) = why {
                self.reloads.tell(&Progress::Waiting { why });
            }
        }
    }

    /// Ends a reload as soon as the components that it has started are live, or have failed for good.
    fn report_started_components(&mut self) {
        let Some((starting, _)) = &self.reloads.starting else { return };
        let router = self.core.router();
        let is_settled = |seat: &Seat| match router.state(*seat) {
            Some(state) => {
                state.is_up() || matches!(state, SeatState::Bypassed) || !router.has_started()
            }
            None => true,
        };
        if !router.is_ending() && !starting.iter().all(is_settled) {
            return;
        }
        let Some((starting, mut report)) = self.reloads.starting.take() else { return };
        let failed = starting.iter().filter(|seat| {
            let state = self.core.router().state(**seat);
            self.core.router().has_started() && !state.is_some_and(SeatState::is_up)
        });
        report.failed = failed.map(|seat| self.core.chain().name(*seat).to_owned()).collect();
        report.added.retain(|name| !report.failed.contains(name));
        report.restarted.retain(|name| !report.failed.contains(name));
        self.end_reload(report);
    }

    fn end_reload(&mut self, report: Report) {
        self.reloads.told = None;
        match &report.error {
            Some(why) => warn!("the configuration was not reloaded: {why}"),
            None if !report.failed.is_empty() => warn!("the configuration was reloaded: {report}"),
            None => info!("the configuration was reloaded: {report}"),
        }
        self.reloads.tell(&Progress::Done(report));
        self.reloads.clients.clear();
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
