//! Greetings: which dialect a component is greeted with, and what happens if it does not understand the greeting.
//!
//! A dialect only translates between lines and messages. This module has the other parts of a handshake: restarts,
//! timeouts, the relay of an SCP proxy, and the completion of a chain by an SCP editor.

use acp_wire::dialect::{Generation, Greeting, Outer, Plain, Proxy, Relay};
use acp_wire::{Dialect, ErrorKind, Json, Message, Side, code};
use router::{Exit, ExitCause, Mode, Role, Seat};

use crate::core::Core;
use crate::input::{Facts, LinkId, Output, Outputs, Setup};
use crate::peer::{GreetingAction, Peer};
use crate::stage_io::StageInput;
use crate::stages::Stages;

impl Core {
    /// Creates the peers of a chain that has not started.
    pub(crate) fn create_peers(&mut self) {
        let chain = self.chain();
        let outer = match chain.mode {
            Mode::Agent => Dialect::Plain(Plain::editor()),
            Mode::Proxy => Dialect::Outer(Box::new(Outer::unknown())),
        };
        let seats: Vec<Seat> = (1..=chain.components.len() as u16).map(Seat).collect();
        if self.peers.is_empty() {
            let mut outer = Peer::new(outer);
            outer.opened();
            self.peers.push(outer);
        }
        self.peers.truncate(1);
        for seat in &seats {
            let facts = self.facts(*seat);
            for kind in facts.poison {
                self.stages.restore_poison(*seat, kind);
            }
            let peer = Peer::new(self.initial_dialect(*seat));
            self.peers.push(peer);
        }
        for seat in seats.into_iter().chain([Seat::OUTER]) {
            self.publish_dialect(seat);
        }
    }

    pub(crate) fn facts(&self, seat: Seat) -> Facts {
        self.setup.facts.get(seat.index() - 1).cloned().unwrap_or_default()
    }

    /// Passes the current dialect of a seat's link to the stages.
    pub(crate) fn publish_dialect(&mut self, seat: Seat) {
        let protocol = self.peers[seat.index()].dialect.protocol();
        self.stages.set_dialect(seat, protocol);
    }

    /// The dialect that a component is greeted with first.
    pub(crate) fn initial_dialect(&self, seat: Seat) -> Dialect {
        let chain = self.chain();
        if chain.role(seat) == Role::Agent {
            return Dialect::Plain(Plain::agent());
        }
        let (name, facts) = (chain.name(seat), self.facts(seat));
        let proxy = match (facts.generation, facts.greeting) {
            (Some(generation), _) => Proxy::pinned(name, generation),
            (None, Some(greeting)) => Proxy::remembered(name, greeting),
            (None, None) => Proxy::unknown(name),
        };
        Dialect::Proxy(Box::new(proxy.with_peers(self.names_behind(seat))))
    }

    /// The names of the components after a seat. In proxy mode, the last component is followed by components of the
    /// outer chain, whose names are unknown: then returns `None`.
    fn names_behind(&self, seat: Seat) -> Option<Vec<String>> {
        let chain = self.chain();
        let behind = chain.behind(seat);
        let unknown = behind.is_empty() && chain.mode == Mode::Proxy;
        (!unknown).then(|| behind.iter().map(|it| chain.name(*it).to_owned()).collect())
    }

    /// Discards the component in a seat, and prepares the seat for the next process. The next process gets the greeting
    /// that the last one understood. If the last one did not understand its greeting (the program on disk may have
    /// changed), the next process gets a greeting that has not been tried yet.
    pub(crate) fn reset_seat(&mut self, seat: Seat, out: &mut Outputs) {
        let peer = &self.peers[seat.index()];
        let dialect = &peer.dialect;
        let (generation, failed_greetings) =
            match dialect.proxy().and_then(Proxy::understood_greeting) {
                Some(_) => (dialect.generation(), None),
                None => {
                    let earlier = peer.failed_greetings.clone().unwrap_or_default();
                    let failed: Vec<Greeting> = earlier
                        .into_iter()
                        .chain(dialect.proxy().into_iter().flat_map(Proxy::failed_greetings))
                        .collect();
                    let any_left = Greeting::ALL.iter().any(|it| !failed.contains(it));
                    (peer.last_generation, any_left.then_some(failed))
                }
            };
        let chain = self.chain();
        let name = chain.name(seat);
        let is_agent = chain.role(seat) == Role::Agent;
        let proxy = match (generation, &failed_greetings) {
            _ if is_agent || peer.is_replaced || self.facts(seat).generation.is_some() => None,
            (_, Some(failed)) => Some(Proxy::after_failures(name, failed.clone())),
            // These two generations have the same envelopes, but read their role from different places. So the role
            // is offered in both places again.
            (Some(known), None) if [Generation::P3, Generation::P3t].contains(&known) => {
                Some(Proxy::remembered(name, Greeting::Capability))
            }
            (Some(known), None) => Some(Proxy::restarted(name, known)),
            (None, None) => None,
        };
        let dialect = match proxy {
            Some(proxy) => Dialect::Proxy(Box::new(proxy.with_peers(self.names_behind(seat)))),
            None => self.initial_dialect(seat),
        };
        let mut fresh = Peer::new(dialect);
        fresh.incarnation = peer.incarnation + 1;
        if !peer.is_replaced {
            (fresh.last_generation, fresh.failed_greetings) = (generation, failed_greetings);
        }
        self.peers[seat.index()] = fresh;
        self.clear_queues(seat, out);
        out.push(Output::Discard(seat));
        self.publish_dialect(seat);
    }

    /// Whether the next process of a seat may understand another greeting than this one, which has ended.
    fn has_other_greetings(&self, seat: Seat) -> bool {
        let peer = &self.peers[seat.index()];
        let is_fixed = self.facts(seat).generation.is_some();
        let Some(proxy) = peer.dialect.proxy().filter(|_| !is_fixed) else { return false };
        let failed = |it: &Greeting| {
            let earlier = peer.failed_greetings.as_ref().is_some_and(|list| list.contains(it));
            earlier || proxy.failed_greetings().contains(it)
        };
        proxy.understood_greeting().is_none() && !Greeting::ALL.iter().all(failed)
    }

    /// Drops the bytes that are queued for a seat.
    fn clear_queues(&self, seat: Seat, out: &mut Outputs) {
        out.clear(LinkId::main(seat));
        out.clear(LinkId::relay(seat));
    }

    /// Records what the last line has shown about its sender: which greeting a component understands, for later runs,
    /// or that the protocol versions of the outer conductor are not numbers.
    pub(crate) fn record_greeting(&mut self, seat: Seat, out: &mut Outputs) {
        let peer = &mut self.peers[seat.index()];
        if seat == Seat::OUTER {
            if peer.dialect.generation().is_some_and(Generation::any_version) {
                self.stages.accept_any_version();
            }
            return;
        }
        if peer.greeting_recorded {
            return;
        }
        let pinned =
            self.setup.facts.get(seat.index() - 1).is_some_and(|it| it.generation.is_some());
        let Some(proxy) = peer.dialect.proxy() else { return };
        if proxy.guess_failed() && !pinned {
            forget(&mut self.setup, seat, out);
        }
        if let Some(greeting) = proxy.understood_greeting() {
            peer.greeting_recorded = true;
            if !pinned {
                out.push(Output::RememberGreeting { seat, greeting: Some(greeting) });
            }
        }
    }

    /// Deletes the saved greeting of a component that ends before it has shown that it understands this greeting.
    pub(crate) fn forget_unconfirmed_greeting(&mut self, seat: Seat, out: &mut Outputs) {
        if seat.is_component()
            && self.peers[seat.index()].dialect.proxy().is_some_and(Proxy::is_guessing)
        {
            forget(&mut self.setup, seat, out);
        }
    }

    /// Reports to the stages that a component has ended, or is treated as ended.
    pub(crate) fn end(&mut self, seat: Seat, how: ExitCause, out: &mut Outputs) {
        self.forget_unconfirmed_greeting(seat, out);
        let peer = self.peer_mut(seat);
        let failed_greetings = peer.dialect.proxy().and_then(Proxy::attempts_summary);
        let last_output = peer.recent_output().to_vec();
        let exit = Exit { cause: how, last_output, failed_greetings };
        let can_retry = seat.is_component() && self.has_other_greetings(seat);
        self.stages.set_can_retry(seat, can_retry);
        self.apply(StageInput::Ended { seat, exit }, out);
    }

    /// Handles a component that has exceeded a timeout. If the component has answered an earlier greeting with an error,
    /// that error becomes the answer to `initialize`, and the editor may try again.
    pub(crate) fn give_up(&mut self, seat: Seat, how: ExitCause, out: &mut Outputs) {
        let has_been_up = self.router().was_initialized(seat);
        let proxy = self.peers[seat.index()].dialect.proxy_mut();
        let refused = proxy.filter(|it| !has_been_up && it.was_refused() && it.awaits_first_line());
        let answer = refused.and_then(|it| it.stop_waiting(out.queue_mut(LinkId::main(seat))));
        match answer {
            Some((toward, message)) => {
                self.apply(StageInput::Arrived { from: seat, toward, message }, out);
            }
            None => self.end(seat, how, out),
        }
    }

    /// Sends another line to components that do not react to their greeting, or kills them.
    pub(crate) fn check_greeting_timeouts(&mut self, out: &mut Outputs) {
        let deadline = self.router().handshake_deadline();
        for index in 1..self.peers.len() {
            if !self.peers[index].needs_greeting_check() {
                continue;
            }
            let (seat, now) = (Seat(index as u16), self.now);
            match self.peers[index].check_greeting(now, deadline) {
                GreetingAction::Wait => {}
                GreetingAction::SendNoop => {
                    let proxy = self.peers[index].dialect.proxy_mut();
                    proxy
                        .into_iter()
                        .for_each(|it| it.send_noop(out.queue_mut(LinkId::main(seat))));
                }
                GreetingAction::Kill => out.push(Output::Kill(seat)),
            }
        }
    }

    /// Handles a line that was part of the handshake. The dialect may now need a restart, a relay listener, or the rest
    /// of the chain.
    pub(crate) fn on_handshake(&mut self, seat: Seat, out: &mut Outputs) {
        self.record_greeting(seat, out);
        let peer = &mut self.peers[seat.index()];
        peer.reset_greeting_timer();
        if peer.dialect.proxy().is_some_and(Proxy::needs_restart) {
            // When its exit is reported, it is started again with another greeting.
            out.push(Output::Kill(seat));
        }
        if peer.dialect.proxy().is_some_and(Proxy::needs_successor) && !peer.awaits_relay {
            peer.awaits_relay = true;
            let incarnation = peer.incarnation;
            out.push(Output::OpenRelay { seat, incarnation });
        }
        if seat == Seat::OUTER
            && let Some((servers, initialize)) =
                peer.dialect.outer_mut().and_then(Outer::take_scp_servers)
        {
            self.extension = Some(initialize);
            out.push(Output::Extend(servers));
        }
    }

    /// The listener for the relay of an SCP proxy is open, or could not be opened.
    pub(crate) fn on_relay_opened(
        &mut self,
        seat: Seat,
        servers: Result<Json, String>,
        out: &mut Outputs,
    ) {
        if let Err(error) = &servers {
            self.warn(
                seat,
                format!("cannot open a listener for the relay of an SCP proxy: {error}"),
                out,
            );
        }
        let queue = out.queue_mut(LinkId::main(seat));
        let proxy = self.peers[seat.index()].dialect.proxy_mut();
        let answer = proxy.and_then(|it| it.set_successor(servers.ok(), queue));
        if let Some((toward, message)) = answer {
            self.apply(StageInput::Arrived { from: seat, toward, message }, out);
        }
    }

    /// The relay that an SCP proxy has started has connected. It becomes the second link of the seat.
    pub(crate) fn on_relay_connected(&mut self, seat: Seat) {
        let params = self.router().handshake(seat).and_then(|handshake| handshake.params.clone());
        self.peer_mut(seat).relay_connected(Dialect::Relay(Box::new(Relay::new(params))));
    }

    /// Completes the chain with the components that an SCP editor has named. The last one is the agent.
    pub(crate) fn on_extended(&mut self, setup: Result<Box<Setup>, String>, out: &mut Outputs) {
        let Some(initialize) = self.extension.take() else { return };
        match setup {
            Ok(setup) => {
                self.stages = Stages::of_setup(&setup);
                self.setup = *setup;
                self.create_peers();
                let event = StageInput::Arrived {
                    from: Seat::OUTER,
                    toward: Side::Agent,
                    message: initialize,
                };
                self.apply(event, out);
            }
            Err(why) => {
                let Message::Request { id, .. } = initialize else { return };
                let refusal = Message::response(
                    id,
                    ErrorKind::InvalidComponent.outcome(code::INVALID_PARAMS, &why),
                );
                self.write(LinkId::main(Seat::OUTER), Side::Editor, &refusal, out);
            }
        }
    }
}

/// Deletes the saved greeting of a component that did not understand it in this run.
fn forget(setup: &mut Setup, seat: Seat, out: &mut Outputs) {
    if let Some(facts) = setup.facts.get_mut(seat.index() - 1) {
        facts.greeting = None;
    }
    out.push(Output::RememberGreeting { seat, greeting: None });
}
