//! How components are greeted: with which dialect, and what a dialect needs that is not spelling.

use acp_wire::dialect::{Generation, Greeting, Outer, Plain, Proxy, Relay};
use acp_wire::{Dialect, Json, Message, Outcome, Side, code};
use router::{Exit, ExitCause, Mode, Role, Seat};

use crate::core::{Core, make_stages};
use crate::input::{Facts, Link, Output, Outputs, Setup};
use crate::peer::{GreetingAction, Peer};
use crate::stage_io::StageInput;

impl Core {
    /// The peers of a chain that has not begun.
    pub(crate) fn create_peers(&mut self) {
        let chain = self.chain();
        let outer = match chain.mode {
            Mode::Agent => Dialect::Plain(Plain::editor()),
            Mode::Proxy => Dialect::Outer(Box::new(Outer::unknown())),
        };
        let seats: Vec<Seat> = chain.seats().collect();
        if self.peers.is_empty() {
            let mut outer = Peer::new(outer);
            outer.opened();
            self.peers.push(outer);
        }
        self.peers.truncate(1);
        for seat in &seats {
            let facts = self.facts(*seat);
            for kind in facts.poison {
                self.stages.spare(*seat, kind);
            }
            let peer = Peer::new(self.initial_dialect(*seat));
            self.peers.push(peer);
        }
        for seat in seats.into_iter().chain([Seat::OUTER]) {
            self.publish_dialect(seat);
        }
    }

    fn facts(&self, seat: Seat) -> Facts {
        self.setup.facts.get(seat.index() - 1).cloned().unwrap_or_default()
    }

    pub(crate) fn publish_dialect(&mut self, seat: Seat) {
        let spoken = self.peers[seat.index()].dialect.protocol();
        self.stages.set_dialect(seat, spoken);
    }

    /// The dialect to greet a component with.
    fn initial_dialect(&self, seat: Seat) -> Dialect {
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

    /// The names of the components behind a seat. Behind the last component of a chain in a chain are those
    /// of the outer conductor, which are not known.
    fn names_behind(&self, seat: Seat) -> Option<Vec<String>> {
        let chain = self.chain();
        let behind = &chain.components[seat.index()..];
        let unknown = behind.is_empty() && chain.mode == Mode::Proxy;
        (!unknown).then(|| behind.iter().map(|it| it.name.clone()).collect())
    }

    /// Ends what is left of the component in a seat, and makes the seat ready for the next component. The next
    /// component gets the greeting that the last one understood. If the last one did not understand its greeting
    /// (another program may have replaced it on disk), the other greetings are tried, one for each start.
    pub(crate) fn reset_seat(&mut self, seat: Seat, out: &mut Outputs) {
        let peer = &self.peers[seat.index()];
        let spoken = &peer.dialect;
        let (known, probing) = match spoken.proxy().and_then(Proxy::understood_greeting) {
            Some(_) => (spoken.generation(), None),
            None => {
                let earlier = peer.probing.clone().unwrap_or_default();
                let failed: Vec<Greeting> = earlier
                    .into_iter()
                    .chain(spoken.proxy().into_iter().flat_map(Proxy::failed_greetings))
                    .collect();
                let any_left = Greeting::ALL.iter().any(|it| !failed.contains(it));
                (peer.known, any_left.then_some(failed))
            }
        };
        let chain = self.chain();
        let name = chain.name(seat);
        let is_agent = chain.role(seat) == Role::Agent;
        let proxy = match (known, &probing) {
            _ if is_agent || self.facts(seat).generation.is_some() => None,
            (_, Some(failed)) => Some(Proxy::after_failures(name, failed.clone())),
            // These two have the same envelopes and look for their role in different places: it is
            // offered in both again.
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
        (fresh.life, fresh.known, fresh.probing) = (peer.life + 1, known, probing);
        self.peers[seat.index()] = fresh;
        self.end_links(seat, out);
        out.push(Output::Discard(seat));
        self.publish_dialect(seat);
    }

    /// Nothing that is queued for the component of a seat is written any more.
    fn end_links(&self, seat: Seat, out: &mut Outputs) {
        out.clear(Link::main(seat));
        out.clear(Link::relay(seat));
    }

    /// Notes what a line has told of its sender: the greeting that a component understood, for the
    /// next run; an outer conductor whose protocol versions are no numbers.
    pub(crate) fn record_greeting(&mut self, seat: Seat, out: &mut Outputs) {
        let peer = &mut self.peers[seat.index()];
        if seat == Seat::OUTER {
            if peer.dialect.generation().is_some_and(Generation::any_version) {
                self.stages.take_any_version();
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

    /// Forgets the remembered greeting of a component that ends without having shown that it understands it.
    pub(crate) fn forget_unconfirmed_greeting(&mut self, seat: Seat, out: &mut Outputs) {
        if seat.is_component()
            && self.peers[seat.index()].dialect.proxy().is_some_and(Proxy::is_guessing)
        {
            forget(&mut self.setup, seat, out);
        }
    }

    /// A component has ended, or is treated as if it had.
    pub(crate) fn end(&mut self, seat: Seat, how: ExitCause, out: &mut Outputs) {
        self.forget_unconfirmed_greeting(seat, out);
        let last_words = self.peer_mut(seat).last_words();
        self.apply(
            StageInput::Left { seat, why: Exit { cause: how, last_output: last_words } },
            out,
        );
    }

    /// A component was silent for too long. If it has refused an earlier greeting with an error of its own,
    /// that error is the answer to `initialize`, and the editor may try again.
    pub(crate) fn give_up(&mut self, seat: Seat, how: ExitCause, out: &mut Outputs) {
        let stood = self.router().was_initialized(seat);
        let proxy = self.peers[seat.index()].dialect.proxy_mut();
        let refused = proxy.filter(|it| !stood && it.was_refused() && it.awaits_first_line());
        let told = refused.and_then(|it| it.stop_waiting(out.queue_mut(Link::main(seat))));
        match told {
            Some((toward, message)) => {
                self.apply(StageInput::Arrived { from: seat, toward, message }, out);
            }
            None => self.end(seat, how, out),
        }
    }

    /// Pokes or kills components that do not react to their greeting.
    pub(crate) fn check_greeting_timeouts(&mut self, out: &mut Outputs) {
        let deadline = self.router().handshake_deadline();
        for index in 1..self.peers.len() {
            if !self.peers[index].has_greeting_timer() {
                continue;
            }
            let (seat, now) = (Seat(index as u16), self.now);
            match self.peers[index].silence(now, deadline) {
                GreetingAction::Wait => {}
                GreetingAction::Poke => {
                    let proxy = self.peers[index].dialect.proxy_mut();
                    proxy.into_iter().for_each(|it| it.send_noop(out.queue_mut(Link::main(seat))));
                }
                GreetingAction::Kill => out.push(Output::Kill(seat)),
            }
        }
    }

    /// A line was for the dialect itself, which may now need something that is not spelling.
    pub(crate) fn on_handshake(&mut self, seat: Seat, out: &mut Outputs) {
        self.record_greeting(seat, out);
        let peer = &mut self.peers[seat.index()];
        peer.reset_greeting_timer();
        if peer.dialect.proxy().is_some_and(Proxy::needs_restart) {
            // Its end is handled like any other; then it is restarted with another greeting.
            out.push(Output::Kill(seat));
        }
        if peer.dialect.proxy().is_some_and(Proxy::needs_successor) && !peer.awaits_relay {
            peer.awaits_relay = true;
            let life = peer.life;
            out.push(Output::OpenRelay { seat, life });
        }
        if seat == Seat::OUTER
            && let Some((servers, initialize)) =
                peer.dialect.outer_mut().and_then(Outer::take_chain)
        {
            self.extension = Some(initialize);
            out.push(Output::Extend(servers));
        }
    }

    /// A place is open where the relay of an SCP proxy may connect.
    pub(crate) fn on_relay_opened(
        &mut self,
        seat: Seat,
        servers: Result<Json, String>,
        out: &mut Outputs,
    ) {
        if let Err(error) = &servers {
            self.warn(seat, format!("no relay for an SCP proxy: {error}"), out);
        }
        let queue = out.queue_mut(Link::main(seat));
        let proxy = self.peers[seat.index()].dialect.proxy_mut();
        let told = proxy.and_then(|it| it.set_successor(servers.ok(), queue));
        if let Some((toward, message)) = told {
            self.apply(StageInput::Arrived { from: seat, toward, message }, out);
        }
    }

    /// The relay that an SCP proxy has started is its second link.
    pub(crate) fn on_relay_joined(&mut self, seat: Seat) {
        let asked = self.router().handshake(seat).and_then(|greeted| greeted.params.clone());
        self.peer_mut(seat).joined(Dialect::Relay(Box::new(Relay::new(asked))));
    }

    /// An SCP editor has named the successors of this chain: they complete it, and the last one is its agent.
    pub(crate) fn on_extended(&mut self, setup: Result<Box<Setup>, String>, out: &mut Outputs) {
        let Some(initialize) = self.extension.take() else { return };
        match setup {
            Ok(setup) => {
                self.stages = make_stages(&setup);
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
                let refusal = Message::response(id, Outcome::error(code::INVALID_PARAMS, &why));
                self.write(Link::main(Seat::OUTER), Side::Editor, &refusal, out);
            }
        }
    }
}

/// Forgets the greeting that a component understood in an earlier run: it did not understand it in this one.
fn forget(setup: &mut Setup, seat: Seat, out: &mut Outputs) {
    if let Some(facts) = setup.facts.get_mut(seat.index() - 1) {
        facts.greeting = None;
    }
    out.push(Output::RememberGreeting { seat, greeting: None });
}
