//! Moves a message from stage to stage.

use acp_wire::Message;
use mcp::Action;

use super::{Deferred, Hop, Stage, StageResult, Stages};
use crate::stage_io::StageOutput;

impl Stages {
    /// Handles a message that a peer has sent.
    pub(super) fn on_arrived(&mut self, hop: Hop, message: Message) {
        let mut actions = Vec::new();
        let passed = self.run_inbound(&Stage::ALL, hop, message, &mut actions);
        if let Some(message) = passed {
            let Hop { seat: from, toward } = hop;
            self.route(router::Event::Arrived { from, toward, message });
        }
        self.perform(actions);
    }

    /// Sends a message on behalf of a component. It does not count as activity of the component, so it starts after the
    /// stages watchdog and poison.
    pub(super) fn send_on_behalf(&mut self, hop: Hop, message: Message) {
        self.continue_inbound(Stage::Poison, hop, message);
    }

    /// Queues a message that a stage sends toward the router. It is sent after the current input.
    pub(super) fn inject(&mut self, stage: Stage, hop: Hop, message: Message) {
        self.deferred.push_back(Deferred::Inject { stage, hop, message });
    }

    /// Moves a message that a stage sends through the following stages to the router. The router does not count it as
    /// sent by the component.
    pub(super) fn continue_inbound(&mut self, stage: Stage, hop: Hop, message: Message) {
        let mut actions = Vec::new();
        let passed =
            self.run_inbound(&Stage::ALL[stage as usize + 1..], hop, message, &mut actions);
        if let Some(message) = passed {
            let Hop { seat: from, toward } = hop;
            self.route(router::Event::Supplied { from, toward, message });
        }
        self.perform(actions);
    }

    /// Moves a message through these stages. Returns it for the router, unless a stage has taken it. Appends the actions of
    /// the MCP broker to `actions`.
    fn run_inbound(
        &mut self,
        stages: &[Stage],
        hop: Hop,
        mut message: Message,
        actions: &mut Vec<Action>,
    ) -> Option<Message> {
        for stage in stages {
            let result = match stage {
                Stage::Gate => StageResult::Pass,
                Stage::Watchdog => self.watchdog.arrived(&self.cx, &mut self.router, hop),
                Stage::Poison => self.poison.arrived(hop, &message),
                Stage::Turns => self.turns_arrived(hop, &message),
                Stage::Mcp => self.mcp.arrived(&self.cx, hop, &mut message, actions),
                Stage::Notices => self.notices_arrived(hop, &message),
                Stage::Sessions => self.sessions_arrived(hop, &message),
                Stage::Replay => self.replay_arrived(hop, &mut message),
                Stage::Orphans => self.orphans_arrived(hop, &message),
                Stage::Telemetry => self.telemetry_arrived(hop, &mut message),
                Stage::Scp => self.scp_arrived(hop, &mut message),
                Stage::Config => self.config_arrived(hop, &mut message),
            };
            if result == StageResult::Taken {
                return None;
            }
        }
        Some(message)
    }

    /// Moves a message from the router through all stages to its link.
    pub(super) fn deliver(&mut self, hop: Hop, message: Message) {
        self.run_outbound(&Stage::ALL, hop, message);
    }

    /// Sends a message from a stage through the remaining stages to its link.
    pub(super) fn send_from(&mut self, stage: Stage, hop: Hop, message: Message) {
        self.run_outbound(&Stage::ALL[..stage as usize], hop, message);
    }

    /// Moves a message through these stages in reverse order, and to its link.
    fn run_outbound(&mut self, stages: &[Stage], hop: Hop, mut message: Message) {
        let mut actions = Vec::new();
        let result = self.pass_outbound(stages, hop, &mut message, &mut actions);
        if result == StageResult::Pass {
            let Hop { seat: to, toward } = hop;
            self.cx.out.push(StageOutput::Deliver { to, toward, message });
        }
        self.perform(actions);
    }

    /// Moves a message through these stages in reverse order. Returns whether a stage has taken it.
    fn pass_outbound(
        &mut self,
        stages: &[Stage],
        hop: Hop,
        message: &mut Message,
        actions: &mut Vec<Action>,
    ) -> StageResult {
        for stage in stages.iter().rev() {
            let result = match stage {
                Stage::Config => self.config_delivered(hop, message),
                Stage::Scp => self.scp_delivered(hop, message),
                Stage::Telemetry => self.telemetry.delivered(&self.cx, hop, message),
                Stage::Orphans => StageResult::Pass,
                Stage::Replay => self.replay_delivered(hop, message),
                Stage::Sessions => self.sessions.delivered(&self.cx, &self.router, hop, message),
                Stage::Notices => self.notices.delivered(hop, message),
                Stage::Mcp => self.mcp.delivered(&self.cx, hop, message, actions),
                Stage::Turns => self.turns.delivered(&self.cx, &self.router, hop, message),
                Stage::Poison => self.poison.delivered(&self.router, hop, message),
                Stage::Watchdog => self.watchdog.delivered(&self.cx, hop, message),
                Stage::Gate => self.gate.delivered(&self.router, hop, message),
            };
            if result == StageResult::Taken {
                return result;
            }
        }
        StageResult::Pass
    }
}
