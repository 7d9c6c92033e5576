//! How the shell meets its peers: with which dialect, and what a dialect may want that is not
//! spelling.

use router::{Exit, How, Mode, Role, Seat};
use supervisor::Event;
use tokio::net::TcpStream;
use tracing::warn;
use wire::dialect::{Generation, Greeting, Plain, Proxy, Relay};
use wire::{Dialect, Message, Outcome, Side, code};

use crate::config::{Config, Spec};
use crate::crashes::Crashes;
use crate::host::Occupant;
use crate::link::Link;
use crate::mcp::shell::core;
use crate::memory::Memory;
use crate::place::Place;
use crate::relay::Dock;
use crate::run::Shell;

impl Shell {
    /// Gives every component of the configuration a place, with the dialect it is to be met with.
    pub(crate) fn seat_components(&mut self) {
        let chain = self.router().chain();
        let seats: Vec<Seat> = chain.seats().collect();
        if seats.iter().any(|seat| chain.role(*seat) == Role::Proxy) {
            self.memory = Memory::load();
            self.crashes = Crashes::load();
        }
        for seat in &seats {
            let spec = &self.config.components[seat.index() - 1];
            for kind in self.crashes.recall(spec) {
                self.core.spare(*seat, kind);
            }
        }
        let longest = self.config.limits.line;
        let places = seats.iter().map(|seat| Place::new(self.greet_with(*seat), longest));
        let places: Vec<Place> = places.collect();
        self.seats.truncate(1);
        self.seats.extend(places);
        for seat in seats.into_iter().chain([Seat::OUTER]) {
            let dialect = self.dialect(seat);
            self.core.set_dialect(seat, dialect);
        }
    }

    /// The dialect to meet a component with.
    fn greet_with(&self, seat: Seat) -> Dialect {
        let spec = &self.config.components[seat.index() - 1];
        if self.router().chain().role(seat) == Role::Agent {
            return Plain::agent().into();
        }
        // What runs here is built on our own SDK, which speaks them all.
        let ours = spec.resident.as_ref().map(|_| Generation::CURRENT);
        let proxy = match (spec.dialect.or(ours), self.memory.recall(spec)) {
            (Some(generation), _) => Proxy::pinned(&spec.name, generation),
            (None, Some(greeting)) => Proxy::remembered(&spec.name, greeting),
            (None, None) => Proxy::unknown(&spec.name),
        };
        proxy.with_peers(self.peers(seat)).into()
    }

    /// The names of the components behind a seat. Behind the last one of a chain in a chain are those
    /// of the conductor above us, which we do not know.
    fn peers(&self, seat: Seat) -> Option<Vec<String>> {
        let behind = &self.config.components[seat.index()..];
        let unknown = behind.is_empty() && self.config.mode == Mode::Proxy;
        (!unknown).then(|| behind.iter().map(|spec| spec.name.clone()).collect())
    }

    /// Ends what is left of the component in a seat, and makes the seat ready for the next one. That is
    /// greeted as the last one wanted to be, as long as it understands that: another program may have
    /// been put in its place on disk. If it did not, the greetings are tried anew, one for each start.
    pub(crate) fn renew(&mut self, seat: Seat) {
        let place = &self.seats[seat.index()];
        let spoken = place.link.dialect();
        let (known, probing) = match spoken.generation() {
            Some(generation) => (Some(generation), None),
            None => {
                let earlier = place.probing.clone().unwrap_or_default();
                let failed = spoken.proxy().map(Proxy::failed_greetings).unwrap_or_default();
                let failed: Vec<Greeting> = earlier.into_iter().chain(failed).collect();
                let any_left = Greeting::ALL.iter().any(|it| !failed.contains(it));
                (place.known, any_left.then_some(failed))
            }
        };
        let spec = &self.config.components[seat.index() - 1];
        let is_agent = self.router().chain().role(seat) == Role::Agent;
        let proxy = match (known, &probing) {
            _ if is_agent || spec.dialect.is_some() || spec.resident.is_some() => None,
            (_, Some(failed)) => Some(Proxy::after(&spec.name, failed.clone())),
            // These two have the same envelopes and look for their role in different places: it is
            // offered in both again.
            (Some(known), None) if [Generation::P3, Generation::P3t].contains(&known) => {
                Some(Proxy::remembered(&spec.name, Greeting::Capability))
            }
            (Some(known), None) => Some(Proxy::restarted(&spec.name, known)),
            (None, None) => None,
        };
        let dialect = match proxy {
            Some(proxy) => proxy.with_peers(self.peers(seat)).into(),
            None => self.greet_with(seat),
        };
        let life = place.life + 1;
        let mut fresh = Place::new(dialect, self.config.limits.line);
        (fresh.life, fresh.known, fresh.probing) = (life, known, probing);
        self.seats[seat.index()] = fresh;
        let dialect = self.dialect(seat);
        self.core.set_dialect(seat, dialect);
    }

    /// Notes what a line has told of its sender: the greeting that a component understood, for the
    /// next time; a conductor above us whose versions are no numbers.
    pub(crate) fn learn(&mut self, seat: Seat) {
        let place = &mut self.seats[seat.index()];
        if seat == Seat::OUTER
            && place.link.dialect().generation().is_some_and(Generation::any_version)
        {
            self.core.take_any_version();
        }
        if !place.learned && seat.is_component() {
            let spec = &self.config.components[seat.index() - 1];
            let dialect = place.link.dialect();
            if dialect.proxy().is_some_and(Proxy::guess_failed) && spec.dialect.is_none() {
                self.memory.forget(spec);
            }
            if let Some(greeting) = dialect.proxy().and_then(Proxy::understood) {
                place.learned = true;
                if spec.dialect.is_none() {
                    self.memory.learn(spec, greeting);
                }
            }
        }
    }

    /// Forgets the remembered greeting of a component that ends without having shown that it understands it.
    pub(crate) fn forget_guess(&mut self, seat: Seat) {
        let dialect = self.seats[seat.index()].link.dialect();
        if seat.is_component() && dialect.proxy().is_some_and(Proxy::is_guess) {
            self.memory.forget(&self.config.components[seat.index() - 1]);
        }
    }

    /// Tells the core that a component has ended, or is treated as if it had.
    pub(crate) fn tell_end(&mut self, seat: Seat, how: How) {
        self.forget_guess(seat);
        let last_words = self.place(seat).last_words();
        self.handle(Event::Left { seat, why: Exit { how, last_words } });
    }

    /// A component was silent for too long. If it has refused an earlier greeting with an error of its own,
    /// that error is the answer to `initialize`, and the editor may try again.
    pub(crate) fn give_up(&mut self, seat: Seat, how: How) {
        let link = &mut self.seats[seat.index()].link;
        let proxy = link.dialect().proxy();
        let refused = proxy.is_some_and(|it| it.was_refused() && it.awaits_first_word());
        let refused = refused && !self.core.router().has_stood(seat);
        let told = link.with_dialect(|dialect, out| {
            dialect.proxy_mut().filter(|_| refused)?.stop_waiting(out)
        });
        match told {
            Some((toward, message)) => self.handle(Event::Arrived { from: seat, toward, message }),
            None => self.tell_end(seat, how),
        }
    }

    /// A line was for the dialect itself. It may now want something that is not spelling.
    pub(crate) fn on_handshake(&mut self, seat: Seat) {
        self.learn(seat);
        let place = &mut self.seats[seat.index()];
        place.restart_silence();
        if place.link.dialect().proxy().is_some_and(Proxy::wants_restart) {
            // Its end is noticed like any other; then it is begun anew.
            place.occupant.iter().for_each(Occupant::kill);
        }
        if place.link.dialect().proxy().is_some_and(Proxy::wants_successor) {
            let dock = Dock::open(seat, self.joined.0.clone());
            let servers = dock
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|dock| dock.servers().map_err(|error| error.to_string()));
            if let Err(error) = &servers {
                warn!(seat = self.core.router().chain().name(seat), %error, "no relay for an SCP proxy");
            }
            place.dock = dock.ok();
            let servers = servers.ok();
            let told = place
                .link
                .with_dialect(|dialect, out| dialect.proxy_mut()?.give_successor(servers, out));
            if let Some((toward, message)) = told {
                self.handle(Event::Arrived { from: seat, toward, message });
            }
        }
        if seat == Seat::OUTER {
            self.extend_chain();
        }
    }

    /// An SCP editor has told us our successors: they complete the chain, which now has an agent.
    fn extend_chain(&mut self) {
        let taken = self
            .place(Seat::OUTER)
            .link
            .with_dialect(|dialect, _| dialect.outer_mut()?.take_chain());
        let Some((servers, initialize)) = taken else { return };
        match Spec::from_servers(servers.as_str()) {
            Ok(specs) => {
                let components = self.config.components.drain(..).chain(specs).collect();
                let config = Config::new(Mode::Agent, components);
                self.config.mode = Mode::Agent;
                self.config.components = config.components;
                self.core = core(&self.config);
                self.seat_components();
                let event =
                    Event::Arrived { from: Seat::OUTER, toward: Side::Agent, message: initialize };
                self.handle(event);
            }
            Err(why) => {
                let Message::Request { id, .. } = initialize else { return };
                let refusal = Message::response(id, Outcome::error(code::INVALID_PARAMS, &why));
                self.place(Seat::OUTER).link.send(Side::Editor, &refusal);
            }
        }
    }

    /// The relay that an SCP proxy has started is its second link.
    pub(crate) fn join(&mut self, seat: Seat, stream: TcpStream) {
        let asked = self.router().greeted(seat).and_then(|greeted| greeted.asked.clone());
        let mut relay = Link::new(Relay::new(asked).into(), self.config.limits.line);
        let (reader, writer) = stream.into_split();
        relay.attach(Box::new(reader), Box::new(writer));
        let place = self.place(seat);
        place.dock = None;
        place.relay = Some(relay);
    }
}
