//! How a message goes from stage to stage.

use acp_wire::Message;
use mcp::Step;

use super::{Flow, Hop, Stage, Stages, Todo};
use crate::event::Action;

impl Stages {
    /// A message has come from a component or from the outer pipe.
    pub(super) fn on_arrived(&mut self, hop: Hop, message: Message) {
        let mut steps = Vec::new();
        let left = self.walk_in(&Stage::ALL, hop, message, &mut steps);
        if let Some(message) = left {
            let Hop { seat: from, toward } = hop;
            self.route(router::Event::Arrived { from, toward, message });
        }
        self.perform(steps);
    }

    /// A message is made up in the place of a component. It is no sign of life.
    pub(super) fn supply(&mut self, hop: Hop, message: Message) {
        self.walk_on(Stage::Blame, hop, message);
    }

    /// Queues a message of a stage's own: after the current event it goes on toward the router.
    pub(super) fn inject(&mut self, stage: Stage, hop: Hop, message: Message) {
        self.todo.push_back(Todo::Inject { stage, hop, message });
    }

    /// A message that a stage has made up goes on toward the router.
    pub(super) fn walk_on(&mut self, stage: Stage, hop: Hop, message: Message) {
        let mut steps = Vec::new();
        let left = self.walk_in(&Stage::ALL[stage as usize + 1..], hop, message, &mut steps);
        if let Some(message) = left {
            let Hop { seat: from, toward } = hop;
            self.route(router::Event::Supplied { from, toward, message });
        }
        self.perform(steps);
    }

    /// Takes a message through these stages. Gives it back for the router, unless a stage has taken it.
    /// What the exchange wants done because of it is added to `steps`.
    fn walk_in(
        &mut self,
        stages: &[Stage],
        hop: Hop,
        mut message: Message,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        for stage in stages {
            let flow = match stage {
                Stage::Gate => Flow::Pass,
                Stage::Watch => self.watch.arrived(&self.cx, &mut self.router, hop),
                Stage::Blame => self.blame.arrived(hop, &message),
                Stage::Turns => self.turns_arrived(hop, &message),
                Stage::Mcp => self.mcp.arrived(&self.cx, hop, &mut message, steps),
                Stage::Notes => self.notes_arrived(hop, &message),
                Stage::Sessions => self.sessions_arrived(hop, &message),
                Stage::Lessons => self.lessons_arrived(hop, &mut message),
                Stage::Orphans => self.orphans_arrived(hop, &message),
            };
            if flow == Flow::Taken {
                return None;
            }
        }
        Some(message)
    }

    /// The router delivers a message.
    pub(super) fn deliver(&mut self, hop: Hop, message: Message) {
        self.walk_out(&Stage::ALL, hop, message);
    }

    /// A message of a stage's own goes on toward the link.
    pub(super) fn send_from(&mut self, stage: Stage, hop: Hop, message: Message) {
        self.walk_out(&Stage::ALL[..stage as usize], hop, message);
    }

    /// Takes a message through these stages, the last one first, and to the link.
    fn walk_out(&mut self, stages: &[Stage], hop: Hop, mut message: Message) {
        let mut steps = Vec::new();
        let flow = self.pass_out(stages, hop, &mut message, &mut steps);
        if flow == Flow::Pass {
            let Hop { seat: to, toward } = hop;
            self.cx.out.push(Action::Deliver { to, toward, message });
        }
        self.perform(steps);
    }

    fn pass_out(
        &mut self,
        stages: &[Stage],
        hop: Hop,
        message: &mut Message,
        steps: &mut Vec<Step>,
    ) -> Flow {
        for stage in stages.iter().rev() {
            let flow = match stage {
                Stage::Orphans => Flow::Pass,
                Stage::Lessons => self.lessons_delivered(hop, message),
                Stage::Sessions => self.sessions.delivered(&self.cx, &self.router, hop, message),
                Stage::Notes => self.notes.delivered(hop, message),
                Stage::Mcp => self.mcp.delivered(&self.cx, hop, message, steps),
                Stage::Turns => self.turns.delivered(&self.cx, &self.router, hop, message),
                Stage::Blame => self.blame.delivered(&self.router, hop, message),
                Stage::Watch => self.watch.delivered(&self.cx, hop, message),
                Stage::Gate => self.gate.delivered(&self.router, hop, message),
            };
            if flow == Flow::Taken {
                return flow;
            }
        }
        Flow::Pass
    }
}
