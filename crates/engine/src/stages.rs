//! The stages that a message passes between the link that it comes on and the router, and between the router
//! and the link that it leaves on.
//!
//! Each stage has its own state. On the way in it looks at a message, and passes it on or takes it. On the way
//! out the stages come in the opposite order. A message that a stage makes up itself begins at the place of
//! that stage, so it passes only the stages that come after it.

use mcp::{Hop, Step};
use router::Seat;
use router::pending::Gist;
use wire::{Id, Message, Outcome, Side};

use crate::event::Action;
use crate::supervisor::{Supervisor, Todo};
use crate::topic::{Topic, session_of};

/// A stage, in the order of the way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What may pass at the moment: nothing goes to a seat without a component.
    Gate,
    /// Signs of life (`watchdog`).
    Watch,
    /// Which kind of message a component crashes on (`blame`).
    Blame,
    /// Turns in ACP version 2 (`turn`).
    Turns,
    /// MCP over ACP (crate `mcp`).
    Mcp,
    /// What is told to the user in front of the editor (`telling`).
    Notes,
    /// What the next component in a seat must be told (`record`).
    Sessions,
    /// What a restarted component is told, and sessions that the agent has lost (`recovery`).
    Lessons,
    /// Sessions that no component before them knows (`orphan`).
    Orphans,
}

impl Stage {
    /// From the link to the router. The way out is the reverse.
    pub const ALL: [Stage; 9] = [
        Stage::Gate,
        Stage::Watch,
        Stage::Blame,
        Stage::Turns,
        Stage::Mcp,
        Stage::Notes,
        Stage::Sessions,
        Stage::Lessons,
        Stage::Orphans,
    ];
}

impl Supervisor {
    /// A message has come from a component or from the outer pipe.
    pub(crate) fn on_arrived(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        let mut steps = Vec::new();
        let left = self.walk_in(&Stage::ALL, from, toward, message, &mut steps, actions);
        if let Some(message) = left {
            self.route(router::Event::Arrived { from, toward, message }, actions);
        }
        self.take(steps, actions);
    }

    /// A message is made up in the place of a component. It is no sign of life.
    pub(crate) fn supply(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        self.walk_on(Stage::Blame, from, toward, message, actions);
    }

    /// Queues a message of a stage's own: after the current event it goes on toward the router.
    pub(crate) fn inject(&mut self, stage: Stage, from: Seat, toward: Side, message: Message) {
        self.later(Todo::Inject { stage, from, toward, message });
    }

    /// A message that a stage has made up goes on toward the router.
    pub(crate) fn walk_on(
        &mut self,
        stage: Stage,
        from: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        let mut steps = Vec::new();
        let next = &Stage::ALL[stage as usize + 1..];
        let left = self.walk_in(next, from, toward, message, &mut steps, actions);
        if let Some(message) = left {
            self.route(router::Event::Supplied { from, toward, message }, actions);
        }
        self.take(steps, actions);
    }

    /// Takes a message through these stages. Gives what is left of it for the router. A stage that has nothing to
    /// do with a message does not move it: this is the path of every update.
    fn walk_in(
        &mut self,
        stages: &[Stage],
        from: Seat,
        toward: Side,
        mut message: Message,
        steps: &mut Vec<Step>,
        actions: &mut Vec<Action>,
    ) -> Option<Message> {
        for stage in stages {
            match stage {
                Stage::Gate => {}
                Stage::Watch => self.sign_of_life(from),
                Stage::Blame => self.blame_arrived(from, toward, &message),
                Stage::Turns => self.turn_arrived(from, toward, &message),
                Stage::Mcp if !self.mcp_minds(&message) => {}
                Stage::Mcp => message = self.mcp_arrived(from, toward, message, steps)?,
                Stage::Notes => self.editor_says(from, toward, &message, actions),
                Stage::Sessions => self.session_arrived(from, toward, &message),
                Stage::Lessons if !self.router.learns(from) => {}
                Stage::Lessons => message = self.on_lesson(from, toward, message, actions)?,
                Stage::Orphans if self.orphans.is_empty() => {}
                Stage::Orphans => {
                    message = self.on_orphan_answer(from, message, actions)?;
                    message = self.unless_of_orphan(from, toward, message, actions)?;
                }
            }
        }
        Some(message)
    }

    /// The router delivers a message.
    pub(crate) fn deliver(
        &mut self,
        to: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        self.walk_out(&Stage::ALL, to, toward, message, actions);
    }

    /// A message of a stage's own goes on toward the link.
    pub(crate) fn send_from(
        &mut self,
        stage: Stage,
        to: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        self.walk_out(&Stage::ALL[..stage as usize], to, toward, message, actions);
    }

    /// Takes a message through these stages, the last one first, and to the link.
    fn walk_out(
        &mut self,
        stages: &[Stage],
        to: Seat,
        toward: Side,
        mut message: Message,
        actions: &mut Vec<Action>,
    ) {
        let mut steps = Vec::new();
        for stage in stages.iter().rev() {
            match stage {
                Stage::Orphans => {}
                Stage::Lessons => {
                    if self.is_for_lost_session(to, toward, &message) {
                        return;
                    }
                    // Only what reaches the component claims a session that nobody has.
                    self.claim_orphan(to, &message);
                }
                Stage::Sessions => self.session_delivered(to, toward, &message),
                Stage::Notes => self.editor_hears(to, toward, &message),
                Stage::Mcp if !self.mcp_minds_delivery(to, &message) => {}
                Stage::Mcp => match self.mcp_delivered(to, toward, message, &mut steps) {
                    Some(left) => message = left,
                    None => return self.take(steps, actions),
                },
                Stage::Turns => self.turn_delivered(to, toward, &message),
                Stage::Blame => self.blame_delivered(to, toward, &message),
                Stage::Watch => self.watch_delivered(to, &message),
                // The next component would not understand it.
                Stage::Gate if self.is_vacant(to) => return self.take(steps, actions),
                Stage::Gate => {}
            }
        }
        actions.push(Action::Deliver { to, toward, message });
        self.take(steps, actions);
    }

    fn mcp_minds(&self, message: &Message) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.minds(message))
    }

    fn mcp_minds_delivery(&self, to: Seat, message: &Message) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.minds_delivery(to, message))
    }

    fn mcp_arrived(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        let hop = Hop { seat: from, toward, dialect: self.dialects[from.index()] };
        match &mut self.exchange {
            Some(exchange) => exchange.arrived(self.now, hop, message, steps),
            None => Some(message),
        }
    }

    fn mcp_delivered(
        &mut self,
        to: Seat,
        toward: Side,
        message: Message,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        let hop = Hop { seat: to, toward, dialect: self.dialects[to.index()] };
        match &mut self.exchange {
            Some(exchange) => exchange.deliver(self.now, hop, message, steps),
            None => Some(message),
        }
    }

    /// Performs what the exchange wants done. Its messages go on from its place.
    pub(crate) fn take(&mut self, steps: Vec<Step>, actions: &mut Vec<Action>) {
        for step in steps {
            match step {
                Step::Arrive { from, toward, message } => {
                    self.inject(Stage::Mcp, from, toward, message);
                }
                Step::Deliver { to, toward, message } => {
                    self.send_from(Stage::Mcp, to, toward, message, actions);
                }
                Step::Tell { caller, message } => actions.push(Action::Tell { caller, message }),
                Step::HangUp(caller) => actions.push(Action::HangUp(caller)),
                Step::Admit { ticket, kind } => actions.push(Action::Admit { ticket, kind }),
                Step::Revoke(ticket) => actions.push(Action::Revoke(ticket)),
                Step::Report(notice) => actions.push(Action::Report(notice)),
            }
        }
    }

    fn blame_arrived(&mut self, from: Seat, toward: Side, message: &Message) {
        if let Some(blame) = self.blames.get_mut(from) {
            blame.arrived(toward, message);
        }
    }

    fn blame_delivered(&mut self, to: Seat, toward: Side, message: &Message) {
        if self.router.can_go_around(to)
            && let Some(blame) = self.blames.get_mut(to)
        {
            blame.delivered(toward, message);
        }
    }

    fn watch_delivered(&mut self, to: Seat, message: &Message) {
        if let Message::Response { .. } = message
            && let Some(signs) = self.signs.get_mut(to)
        {
            signs.freed(self.now);
        }
    }

    fn editor_hears(&mut self, to: Seat, toward: Side, message: &Message) {
        if to == Seat::OUTER {
            self.telling.editor_hears(toward, message);
        }
    }

    fn session_arrived(&mut self, from: Seat, toward: Side, message: &Message) {
        let ended = match self.records.get_mut(from) {
            Some(record) => record.arrived(toward, message),
            None => self.ended_beyond(message),
        };
        if !self.lost.is_empty()
            && self.is_agent(from)
            && let Message::Response { outcome: Outcome::Result(result), .. } = message
            && let Some(session) = session_of(result)
        {
            // A restarted agent may give a new session the id of a lost one.
            self.lost.remove(&session);
        }
        if let Some(session) = ended {
            // If a component dies that this is passed through, the next one need not be told of the session.
            self.records.iter_mut().for_each(|record| record.forget(&session));
            self.close_kept(&session);
        }
    }

    /// The session that an agent beyond this chain has ended with this.
    fn ended_beyond(&self, message: &Message) -> Option<String> {
        let Message::Response { id, outcome: Outcome::Result(_), .. } = message else {
            return None;
        };
        let ask = self.router.question(id)?;
        match &ask.gist {
            Gist::Whole(params) if Topic::of(&ask.method) == Some(Topic::End) => session_of(params),
            _ => None,
        }
    }

    fn session_delivered(&mut self, to: Seat, toward: Side, message: &Message) {
        let keep = self.keep(to, toward, message);
        let (now, router) = (self.now, &self.router);
        if let Some(record) = self.records.get_mut(to) {
            let method =
                |id: &Id| Some(router.question(id).filter(|it| it.answerer == to)?.method.clone());
            record.delivered(now, toward, message, method, keep);
        }
    }
}
