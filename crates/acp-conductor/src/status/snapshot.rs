//! Creates the status snapshot of a chain.

use std::task::{Context, Poll};
use std::time::Duration;

use engine::Port;
use router::exit::MAX_QUOTED_LINES;
use router::{Seat, SeatState};

use super::{
    ChainState, Component, ComponentState, Editor, Mcp, Mode, NextStart, Queue, Role, Status,
    VERSION,
};
use crate::failure_policy;
use crate::run::Shell;

impl Shell {
    /// Answers the pending status requests.
    pub(crate) fn answer_status_requests(&mut self, cx: &mut Context<'_>) {
        while let Some(status_server) = &mut self.status_server
            && let Poll::Ready(Some(request)) = status_server.poll_request(cx)
        {
            self.report_stderr();
            // The client may have disconnected.
            let _ = request.send(self.snapshot());
        }
    }

    /// The current state of the chain.
    pub(crate) fn snapshot(&self) -> Status {
        let router = self.router();
        let outer = self.core.peer(Seat::OUTER);
        let stages = self.core.stages();
        let servers = stages.broker().map_or(0, mcp::Broker::server_count);
        let clients = self.clients.len();
        let directory = std::env::current_dir().unwrap_or_default();
        Status {
            version: VERSION,
            pid: std::process::id(),
            conductor_version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: match self.config.mode {
                router::Mode::Agent => Mode::Agent,
                router::Mode::Proxy => Mode::Proxy,
            },
            cwd: directory.to_string_lossy().into_owned(),
            uptime_seconds: seconds(self.started.elapsed()),
            state: self.chain_state(),
            open_requests: router.open_request_count(),
            sessions: stages.live_sessions(),
            components: router.chain().seats().map(|seat| self.component(seat)).collect(),
            editor: Editor {
                out_bytes: self.core.queued(Seat::OUTER, &self.out),
                paused: outer.link_state(Port::Main).paused,
            },
            mcp: Mcp { servers, clients },
        }
    }

    fn chain_state(&self) -> ChainState {
        let router = self.router();
        let is_up = |seat: Seat| {
            let state = router.state(seat);
            state.is_some_and(|it| it.was_initialized() || matches!(it, SeatState::Bypassed))
        };
        match router.is_ending() {
            true => ChainState::Ending,
            false if router.has_started() && router.chain().seats().all(is_up) => {
                ChainState::Running
            }
            false => ChainState::Starting,
        }
    }

    fn component(&self, seat: Seat) -> Component {
        let (router, io) = (self.router(), &self.seats[seat.index()]);
        let (stages, peer) = (self.core.stages(), self.core.peer(seat));
        let chain = router.chain();
        let state = router.state(seat);
        let has_ended = router.is_ending() && io.component.is_none() && peer.started_at.is_some();
        let exit = router.last_exit(seat);
        let (held_messages, held_bytes) = stages.held(seat);
        Component {
            number: chain.position(seat),
            name: chain.name(seat).to_owned(),
            command: chain.component(seat).map(|it| it.command.clone()).unwrap_or_default(),
            role: match chain.role(seat) {
                router::Role::Proxy => Role::Proxy,
                router::Role::Agent => Role::Agent,
            },
            dialect: self.dialect(seat).to_string(),
            guard: chain.component(seat).is_some_and(|it| it.guard),
            policy: stages
                .policy(seat)
                .map_or("", |it| failure_policy::policy_name(&it))
                .to_owned(),
            state: match state {
                Some(SeatState::Closed) => ComponentState::Lost,
                _ if has_ended => ComponentState::Ended,
                Some(SeatState::NotStarted | SeatState::Starting) | None => ComponentState::Waiting,
                Some(SeatState::Initializing { .. }) => ComponentState::Greeting,
                Some(SeatState::Live { .. }) => ComponentState::Live,
                Some(
                    SeatState::Down { .. }
                    | SeatState::Reinitializing { .. }
                    | SeatState::Replaying { .. },
                ) => ComponentState::Restarting,
                Some(SeatState::Bypassed) => ComponentState::Bypassed,
            },
            pid: io.component.as_ref().and_then(|it| it.pid()),
            // A component that has exited and was not restarted yet does not count.
            restarts: peer.incarnation.saturating_sub(u32::from(peer.started_at.is_none())),
            next_start: match state {
                Some(SeatState::Down { at, attempts }) => Some(NextStart {
                    attempt: *attempts,
                    in_seconds: seconds(
                        Duration::from_millis(at.0).saturating_sub(self.started.elapsed()),
                    ),
                }),
                _ => None,
            },
            uptime_seconds: peer.started_at.filter(|_| io.component.is_some()).map(|since| {
                seconds(self.started.elapsed().saturating_sub(Duration::from_millis(since.0)))
            }),
            last_exit: exit.map(|exit| exit.description()),
            exit_words: exit.map(|exit| exit.quoted_output().to_vec()).unwrap_or_default(),
            last_words: last_lines(peer.recent_output()).to_vec(),
            report: self.report_of(seat),
            queue: Queue {
                out_bytes: self.core.queued(seat, &self.out),
                held_messages,
                held_bytes,
                owes: router.owed_count(seat) + stages.active_turns(seat),
            },
        }
    }
}

impl Shell {
    /// How a component in this process describes its state.
    fn report_of(&self, seat: Seat) -> Vec<String> {
        let spec = seat.index().checked_sub(1).and_then(|index| self.config.components.get(index));
        let in_process = spec.and_then(|spec| spec.in_process.as_ref());
        let lines = in_process.map(|it| it.status_lines()).unwrap_or_default();
        lines.into_iter().take(MAX_REPORT_LINES).collect()
    }
}

/// The maximum number of lines with which a component describes its state.
const MAX_REPORT_LINES: usize = 20;

/// The last lines of a component's output.
fn last_lines(output: &[String]) -> &[String] {
    &output[output.len().saturating_sub(MAX_QUOTED_LINES)..]
}

/// The duration in seconds, with a precision of milliseconds.
fn seconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}
