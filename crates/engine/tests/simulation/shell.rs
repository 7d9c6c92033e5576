//! What the shell does for the core: performs outputs, writes queues, and reports what comes of it.

use acp_wire::Message;
use bytes::Bytes;
use engine::{Input, Observation, Output};
use mcp::ClientId;
use router::{ExitCause, Seat, SeatState};

use crate::agent::Agent;
use crate::bug::Bug;
use crate::greeting::Reaction;
use crate::ledger::Check;
use crate::link::{Item, Link, State};
use crate::pen::ClientDo;
use crate::provider::Provider;
use crate::proxy::{Kind, Proxy};
use crate::world::World;

/// What a component writes on its standard error before it dies.
const WORDS: &str = "panicked at a planted fault";

/// The end of a process, of which the core is told.
pub struct Exit {
    pub stamp: usize,
    pub seat: usize,
    pub life: u32,
    pub how: ExitCause,
}

impl World {
    /// Something has happened: the core is told, and what it wants is done.
    pub fn input(&mut self, input: Input) -> Check {
        if self.finished.is_some() {
            return Ok(());
        }
        self.hand_over(input)?;
        while let Some(input) = self.pending.pop_front().filter(|_| self.finished.is_none()) {
            self.hand_over(input)?;
        }
        if !self.splits() || self.finished.is_some() {
            (0..self.links.len()).try_for_each(|seat| self.write_all(seat))?;
        }
        if !self.case.has("slow") {
            while self.finished.is_none() && self.desk.next().is_some() {
                self.shell_answers()?;
            }
        }
        self.check_memory()
    }

    fn hand_over(&mut self, input: Input) -> Check {
        if !matches!(
            input,
            Input::Line { .. } | Input::ClientMessage { .. } | Input::Written { .. }
        ) {
            self.tell(|| format!("{input:?}"));
        }
        let now = self.now;
        self.journal.iter_mut().for_each(|it| it.input(now, &input));
        self.core.handle(now, input, &mut self.out);
        self.journal.iter_mut().for_each(|it| it.outputs(&self.out));
        self.ledger.ending = self.core.router().is_ending();
        for output in std::mem::take(&mut self.out.list) {
            if self.finished.is_some() {
                return Err(format!("something follows the end: {output:?}"));
            }
            if !self.bug.is_some_and(|bug| bug.drops(&output)) {
                self.perform(output)?;
            }
        }
        Ok(())
    }

    fn perform(&mut self, output: Output) -> Check {
        match &output {
            Output::Tap(_) => {}
            Output::SendToClient { client_id, message } => {
                self.tell(|| format!("    > {client_id:?} {}", message.to_line()));
            }
            output => self.tell(|| format!("{output:?}")),
        }
        match output {
            Output::Start { seat, life } => return self.start(seat.index(), life),
            Output::Kill(seat) => self.die(seat.index(), ExitCause::Signal(9)),
            Output::Discard(seat) => self.end(seat.index()),
            Output::Close(link) => {
                let link = &mut self.links[link.seat.index()];
                link.from.clear();
                link.unread = true;
            }
            Output::Read { link, read } => self.links[link.seat.index()].reading = read,
            Output::ReadClients(listen) => self.listens = listen,
            Output::OpenRelay { .. } | Output::Extend(_) => {
                return Err("no player speaks SCP".into());
            }
            Output::SendToClient { client_id, message } => {
                self.tell_client(client_id, Some(message))
            }
            Output::DisconnectClient(client_id) => self.tell_client(client_id, None),
            Output::OpenEndpoint { ticket, transport } => {
                self.stamp += 1;
                self.desk.ask(self.stamp, ticket, transport);
            }
            Output::RevokeTicket(ticket) => return self.desk.revoke(ticket),
            Output::RememberGreeting { .. } if Reaction::of(&self.case).is_some() => {}
            Output::RememberGreeting { .. } => {
                return Err("a generation that is given was learned".into());
            }
            Output::RememberPoison { .. } => {}
            Output::Report(notice) if notice.text.contains("sent a bad line") => {
                return Err(format!("the conductor refuses a line: {}", notice.text));
            }
            Output::Report(_) => {}
            Output::Tap(seen) => return self.on_seen(seen),
            Output::Finish(ending) => {
                self.finished = Some(ending);
                (1..self.links.len()).for_each(|seat| self.end(seat));
            }
        }
        Ok(())
    }

    fn on_seen(&mut self, seen: Observation) -> Check {
        match seen {
            Observation::Delivered { seat, message, .. }
                if self.links[seat.index()].state == State::NotStarted =>
            {
                Err(format!("{seat:?} was not started and is told {message:?}"))
            }
            Observation::Left { seat, how } => {
                self.tell(|| format!("{seat:?} {how}"));
                // Now everybody can know of it.
                self.struck += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub fn shell_answers(&mut self) -> Check {
        let Some((ticket, endpoint)) = self.desk.answer() else { return Ok(()) };
        if endpoint.is_err() {
            self.desk.full = false;
            self.disturb();
        }
        self.input(Input::EndpointOpened { ticket, endpoint })
    }

    /// What waits is not more than what was said.
    fn check_memory(&self) -> Check {
        let router = self.core.router();
        let held = router.chain().seats().map(|it| router.held(it));
        let (count, bytes) = held.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        match count > self.ledger.count || bytes > self.ledger.bytes + self.ledger.count * 512 {
            true => Err(format!("{count} messages with {bytes} bytes are held")),
            false => Ok(()),
        }
    }

    /// Writes what the pipe to a seat takes.
    fn write_all(&mut self, seat: usize) -> Check {
        let id = engine::Link::main(Seat(seat as u16));
        let mut queued = 0;
        while self.out.queued(id) != queued {
            queued = self.out.queued(id);
            self.write(seat, usize::MAX)?;
        }
        Ok(())
    }

    /// Writes at most so many bytes of a queue, and reports it.
    pub fn write(&mut self, seat: usize, most: usize) -> Check {
        let id = engine::Link::main(Seat(seat as u16));
        let text = self.out.queue(id).map_or(Vec::new(), |queue| {
            let (slices, count) = queue.slices();
            slices[..count].concat()
        });
        let count = text.len().min(most).min(self.room(seat));
        let link = &mut self.links[seat];
        if count == 0 || link.unread {
            return Ok(());
        }
        if !link.takes() {
            // After the end, nobody misses it.
            if self.finished.is_some() {
                return Ok(());
            }
            if link.state == State::NotStarted {
                return Err(format!("seat {seat} was not started and is written to"));
            }
            link.unread = true;
            return self.input(Input::InputClosed(id));
        }
        link.part.extend_from_slice(&text[..count]);
        while let Some(end) = self.links[seat].part.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.links[seat].part.drain(..=end).collect();
            let line = Bytes::copy_from_slice(&line[..end]);
            self.tell(|| format!("    > {seat} {}", String::from_utf8_lossy(&line)));
            self.stamp += 1;
            self.links[seat].to.push_back((self.stamp, line));
        }
        self.hand_over(Input::Written { link: id, count })
    }

    pub fn tell_client(&mut self, client_id: ClientId, message: Option<Message>) {
        self.stamp += 1;
        let stamp = self.stamp;
        if let Some(call) = self.calls.get_mut(&client_id).filter(|call| !call.gone) {
            call.to.push_back((stamp, message));
        }
    }

    fn start(&mut self, seat: usize, life: u32) -> Check {
        let link = &mut self.links[seat];
        if matches!(link.state, State::Alive | State::Stalled) {
            return Err(format!("seat {seat} is started while somebody sits there"));
        }
        let mut part = std::mem::take(&mut link.part);
        if self.bug != Some(Bug::OldBytes) {
            part.clear();
        }
        *link = Link { life, state: State::Alive, part, ..Link::new(&self.cast, seat) };
        if std::mem::take(&mut self.absent[seat]) {
            let link = &mut self.links[seat];
            (link.state, link.unread) = (State::Gone, true);
            let (seat, why) = (Seat(seat as u16), "command not found".to_owned());
            self.pending.push_back(Input::NotStarted { seat, life, why });
            self.disturb();
            return Ok(());
        }
        match self.cast.proxies.get(seat - 1) {
            Some((kind, generation)) => {
                let counts_anew = *kind == Kind::Counter;
                let toolbox = || self.toolbox.clone();
                let provider =
                    kind.has_server().then(|| Provider::new(*generation, toolbox(), counts_anew));
                self.proxies[seat] =
                    Some(Proxy::new((*kind, *generation), provider, self.disk.clone()));
            }
            None => self.agent = Agent::new(self.cast.nature, self.disk.clone()),
        }
        Ok(())
    }

    /// Nothing more is heard of the component of a seat. If it still runs, it is killed.
    fn end(&mut self, seat: usize) {
        if self.links[seat].takes() {
            self.note_exit(seat, ExitCause::Signal(9));
        }
        self.kill(seat);
        let link = &mut self.links[seat];
        link.from.clear();
        link.reading = true;
        link.waits = false;
    }

    /// The process of a seat ends. What it has written can still be read.
    fn kill(&mut self, seat: usize) {
        self.links[seat].state = State::Gone;
        self.links[seat].to.clear();
        if self.cast.editor && seat + 1 == self.links.len() {
            for client_id in self.agent.client_ids() {
                self.client_does(ClientDo::HangUp(client_id));
            }
        }
    }

    /// The process of a seat ends, and the conductor will notice it.
    pub fn die(&mut self, seat: usize, how: ExitCause) {
        if self.links[seat].takes() {
            self.kill(seat);
            self.close_output(seat, Some(how.clone()));
            self.note_exit(seat, how);
        }
    }

    /// The last that is read of a process.
    pub fn close_output(&mut self, seat: usize, how: Option<ExitCause>) {
        self.stamp += 1;
        self.links[seat].from.push_back((self.stamp, Item::End(how)));
    }

    /// The end of a process is reported by another way than the end of its output: if schedules are split, in
    /// any order; else with it.
    fn note_exit(&mut self, seat: usize, how: ExitCause) {
        if self.splits() {
            self.stamp += 1;
            let (stamp, life) = (self.stamp, self.links[seat].life);
            self.exits.push_back(Exit { stamp, seat, life, how });
        }
    }

    pub fn report_exit(&mut self) -> Check {
        let Some(Exit { seat, life, how, .. }) = self.exits.pop_front() else { return Ok(()) };
        let seat = Seat(seat as u16);
        self.input(Input::Stderr { seat, life, lines: vec![WORDS.to_owned()] })?;
        self.input(Input::Exited { seat, life, how })
    }

    /// The output of a peer is closed.
    pub fn report_end(&mut self, seat: usize, how: Option<ExitCause>) -> Check {
        let life = self.links[seat].life;
        let seat = Seat(seat as u16);
        let how = how.filter(|_| !self.splits());
        if how.is_some() {
            self.input(Input::Stderr { seat, life, lines: vec![WORDS.to_owned()] })?;
        }
        self.input(Input::OutputClosed { link: engine::Link::main(seat), rest: None })?;
        match how {
            Some(how) => self.input(Input::Exited { seat, life, how }),
            None => Ok(()),
        }
    }

    /// Tells the core which of the links that it does not read have something to say.
    pub fn report_waits(&mut self) -> Check {
        for seat in 0..self.links.len() {
            let waits = self.links[seat].must_wait();
            if self.links[seat].waits != waits {
                self.links[seat].waits = waits;
                let link = engine::Link::main(Seat(seat as u16));
                self.input(Input::Readable { link, readable: waits })?;
            }
        }
        Ok(())
    }

    pub fn has_tools(&self) -> bool {
        let provider = self.cast.proxies.iter().position(|(kind, _)| kind.has_server());
        provider.is_some_and(|at| {
            let state = self.core.router().state(Seat(at as u16 + 1));
            !matches!(state, Some(SeatState::Bypassed | SeatState::Closed))
        })
    }
}
