//! The rules for a chain that gets another configuration while it runs.
//!
//! The configuration changes only while the chain is *at rest*: no request is open, no message is held, and all components
//! are live or bypassed. So no message is on its way past a seat that moves, and no id belongs to a seat that is removed.
//!
//! - A seat that is removed is bypassed, as after a failure.
//! - A seat that gets a component (a new seat, or one that was not in the chain) is down. The component is then
//!   started like one that is restarted: it gets the `initialize` that its successor got, and the `initialize` that it sends
//!   to its successor is answered from memory. So neither the agent nor the editor is initialized again.
//! - All other components keep their seats and their states, wherever they are in the new order.

use acp_wire::Side;

use crate::barrier::BarrierState;
use crate::event::Context;
use crate::recovery::HeldQueue;
use crate::router::Router;
use crate::seat::{Chain, Component, Handshake, Seat, SeatState};
use crate::skip::SkipRules;

impl Router {
    /// Why the configuration of the chain cannot change now. `None` if the chain is at rest, or has not started.
    pub fn unrest(&self) -> Option<String> {
        if self.is_ending() {
            return Some("the chain is about to end".to_owned());
        }
        if !self.has_started() {
            return None;
        }
        for seat in self.chain.seats() {
            match self.state(seat) {
                Some(SeatState::Live { .. } | SeatState::Bypassed) => {}
                Some(state) if state.is_recovering() => {
                    return Some(format!("{} is being restarted", self.chain.describe(seat)));
                }
                _ => return Some(format!("{} is starting", self.chain.describe(seat))),
            }
        }
        if let Some(request) = self.requests().next() {
            let responder = match request.responder {
                Seat::CONDUCTOR => "conductor".to_owned(),
                responder => self.chain.describe(responder),
            };
            return Some(format!("{responder} has not answered {}", request.method));
        }
        self.may_hold_messages().then(|| "messages are held".to_owned())
    }

    pub(crate) fn on_reloaded(&mut self, chain: Chain, filled: &[Seat], cx: &mut Context<'_>) {
        let old = std::mem::replace(&mut self.chain, chain);
        // What a component has declared about itself stays true.
        for (new, old) in self.chain.components.iter_mut().zip(&old.components) {
            new.guard |= old.guard && new.command == old.command;
        }
        let count = self.chain.components.len();
        self.skip_rules.resize_with(count, SkipRules::default);
        self.barrier_states.resize_with(count, BarrierState::default);
        self.states.resize(count, SeatState::NotStarted);
        self.exits.resize(count, None);
        self.held_queues.resize_with(count, HeldQueue::default);
        self.handshakes.resize_with(count, Handshake::default);
        if !self.has_started() {
            return;
        }
        for seat in old.seats().filter(|seat| !self.chain.contains(*seat)).collect::<Vec<_>>() {
            if let Some(state) = self.state_mut(seat) {
                *state = SeatState::Bypassed;
            }
        }
        // From the agent's side, so that the successor of each has a handshake to copy.
        let is_filled = |seat: &Seat| !old.contains(*seat) || filled.contains(seat);
        for seat in self.chain.seats().rev().filter(is_filled).collect::<Vec<_>>() {
            let index = seat.index() - 1;
            self.handshakes[index] = self.handshake_for(seat);
            self.exits[index] = None;
            self.skip_rules[index] = SkipRules::default();
            self.reset_barriers(seat);
            if let Some(state) = self.state_mut(seat) {
                *state = SeatState::Down { at: cx.now, attempts: 0 };
            }
        }
    }

    /// A component has another configuration, or its previous one again. Its seat stays.
    pub fn replace_component(&mut self, seat: Seat, component: Component) {
        if let Some(current) = self.chain.components.get_mut(seat.index() - 1) {
            *current = component;
        }
    }

    /// The handshake of a component that joins the chain: what its successor was sent, and what its successor has answered.
    /// The successor of the last component in proxy mode is in the outer chain, so the component before it is asked instead.
    fn handshake_for(&self, seat: Seat) -> Handshake {
        let next = self.neighbour(seat, Side::Agent).and_then(|it| self.handshake(it));
        if let Some(next) = next {
            let answer = next.answer.clone();
            return Handshake {
                params: next.params.clone(),
                answer: answer.clone(),
                successor_answer: answer,
            };
        }
        let before = self.neighbour(seat, Side::Editor).and_then(|it| self.handshake(it));
        let params = before.and_then(|it| it.params.clone());
        let successor_answer = before.and_then(|it| it.successor_answer.clone());
        Handshake { params, answer: successor_answer.clone(), successor_answer }
    }
}
