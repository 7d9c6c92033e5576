//! The simulated shell: performs outputs, writes queues, and reports inputs.

use acp_wire::Message;
use bytes::Bytes;
use engine::{Configured, Input, Observation, Output};
use mcp::ClientId;
use router::{ExitCause, Seat, SeatState, StartFailure};

use crate::agent::Agent;
use crate::fault_injection::Fault;
use crate::greeting::Reaction;
use crate::link::{Item, Link, ProcessState};
use crate::message_log::Check;
use crate::outbox::ClientAction;
use crate::provider::Provider;
use crate::proxy::{Kind, Proxy};
use crate::world::World;

/// What a component writes to its standard error before it ends.
const STDERR_LINE: &str = "panicked at a simulated failure";

/// The exit of a process that is reported to the core.
pub struct Exit {
    pub stamp: usize,
    pub seat: usize,
    pub incarnation: u32,
    pub how: ExitCause,
}

impl World {
    /// Passes an input to the core, and performs its outputs.
    pub fn input(&mut self, input: Input) -> Check {
        if self.finished.is_some() {
            return Ok(());
        }
        self.handle(input)?;
        while let Some(input) = self.pending.pop_front().filter(|_| self.finished.is_none()) {
            self.handle(input)?;
        }
        if !self.has_split_writes() || self.finished.is_some() {
            (0..self.links.len()).try_for_each(|seat| self.write_all(seat))?;
        }
        if !self.case.has("slow") {
            while self.finished.is_none() && self.endpoints.next().is_some() {
                self.shell_answers()?;
            }
        }
        self.check_memory()
    }

    fn handle(&mut self, input: Input) -> Check {
        if !matches!(
            input,
            Input::Line { .. } | Input::ClientMessage { .. } | Input::Written { .. }
        ) {
            self.trace(|| format!("{input:?}"));
        }
        let now = self.now;
        self.journal.iter_mut().for_each(|it| it.input(now, &input));
        self.core.handle(now, input, &mut self.out);
        self.journal.iter_mut().for_each(|it| it.outputs(&self.out));
        self.log.ending = self.core.router().is_ending();
        for output in std::mem::take(&mut self.out.list) {
            if self.finished.is_some() {
                return Err(format!("there is an output after the end: {output:?}"));
            }
            if !self.fault.is_some_and(|fault| fault.drops(&output)) {
                self.perform(output)?;
            }
        }
        Ok(())
    }

    fn perform(&mut self, output: Output) -> Check {
        match &output {
            Output::Tap(_) => {}
            Output::SendToClient { client_id, message } => {
                self.trace(|| format!("    > {client_id:?} {}", message.to_line()));
            }
            output => self.trace(|| format!("{output:?}")),
        }
        match output {
            Output::Start { seat, incarnation } => return self.start(seat.index(), incarnation),
            Output::Kill(seat) => self.die(seat.index(), ExitCause::Signal(9)),
            Output::Discard(seat) => self.end(seat.index()),
            Output::Close(link) => {
                let link = &mut self.links[link.seat.index()];
                link.from.clear();
                link.input_closed = true;
            }
            Output::Read { link, read } => self.links[link.seat.index()].reading = read,
            Output::ReadClients(listen) => self.reads_clients = listen,
            Output::Reloaded { problem: None } => self.log.record_reload(),
            Output::Reloaded { .. } | Output::Reverted { .. } | Output::ReloadNote(_) => {}
            Output::OpenRelay { .. } | Output::Extend(_) => {
                return Err("no participant uses SCP".into());
            }
            Output::SendToClient { client_id, message } => {
                self.send_to_client(client_id, Some(message))
            }
            Output::DisconnectClient(client_id) => self.send_to_client(client_id, None),
            Output::OpenEndpoint { ticket, transport } => {
                self.stamp += 1;
                self.endpoints.request(self.stamp, ticket, transport);
            }
            Output::RevokeTicket(ticket) => return self.endpoints.revoke(ticket),
            Output::Configure { request, values, .. } => {
                let answer = Ok(Configured { result: values, restart: true });
                self.pending.push_back(Input::Configured { request, answer });
            }
            Output::ApplyOptions { .. } | Output::DropOptions { .. } => {}
            Output::RememberGreeting { .. } if Reaction::of(&self.case).is_some() => {}
            Output::RememberGreeting { .. } => {
                return Err("the core remembers a greeting although the generation is set".into());
            }
            Output::RememberPoison { .. } => {}
            Output::Report(diagnostic) if diagnostic.text.contains("sent a bad line") => {
                return Err(format!("the conductor refuses a line: {}", diagnostic.text));
            }
            Output::Report(_) => {}
            Output::Tap(seen) => return self.on_observation(seen),
            Output::Finish(ending) => {
                self.finished = Some(ending);
                (1..self.links.len()).for_each(|seat| self.end(seat));
            }
        }
        Ok(())
    }

    fn on_observation(&mut self, seen: Observation) -> Check {
        match seen {
            Observation::Delivered { seat, message, .. }
                if self.links[seat.index()].state == ProcessState::NotStarted =>
            {
                Err(format!("{seat:?} was not started, but gets {message:?}"))
            }
            Observation::Ended { seat, how } => {
                self.trace(|| format!("{seat:?} {how}"));
                // From now on, requests may fail because of it.
                self.failure_count += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub fn shell_answers(&mut self) -> Check {
        let Some((ticket, endpoint)) = self.endpoints.answer() else { return Ok(()) };
        if endpoint.is_err() {
            self.endpoints.fails_next = false;
            self.record_failure();
        }
        self.input(Input::EndpointOpened { ticket, endpoint })
    }

    /// Checks that no more messages are held than were sent.
    fn check_memory(&self) -> Check {
        let router = self.core.router();
        let held = router.chain().seats().map(|it| router.held(it));
        let (count, bytes) = held.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        match count > self.log.count || bytes > self.log.bytes + self.log.count * 512 {
            true => Err(format!("{count} messages with {bytes} bytes are held")),
            false => Ok(()),
        }
    }

    /// Writes as much as fits into the pipe to a seat.
    fn write_all(&mut self, seat: usize) -> Check {
        let id = engine::LinkId::main(Seat(seat as u16));
        let mut queued = 0;
        while self.out.queued(id) != queued {
            queued = self.out.queued(id);
            self.write(seat, usize::MAX)?;
        }
        Ok(())
    }

    /// Writes at most `most` bytes of a queue, and reports it.
    pub fn write(&mut self, seat: usize, most: usize) -> Check {
        let id = engine::LinkId::main(Seat(seat as u16));
        let text = self.out.queue(id).map_or(Vec::new(), |queue| {
            let (slices, count) = queue.slices();
            slices[..count].concat()
        });
        let count = text.len().min(most).min(self.free_capacity(seat));
        let link = &mut self.links[seat];
        if count == 0 || link.input_closed {
            return Ok(());
        }
        if !link.is_writable() {
            // After the end of the chain, this is fine.
            if self.finished.is_some() {
                return Ok(());
            }
            if link.state == ProcessState::NotStarted {
                return Err(format!("seat {seat} was not started, but gets bytes"));
            }
            link.input_closed = true;
            return self.input(Input::InputClosed(id));
        }
        link.part.extend_from_slice(&text[..count]);
        while let Some(end) = self.links[seat].part.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.links[seat].part.drain(..=end).collect();
            let line = Bytes::copy_from_slice(&line[..end]);
            self.trace(|| format!("    > {seat} {}", String::from_utf8_lossy(&line)));
            self.stamp += 1;
            self.links[seat].to.push_back((self.stamp, line));
        }
        self.handle(Input::Written { link: id, count })
    }

    pub fn send_to_client(&mut self, client_id: ClientId, message: Option<Message>) {
        self.stamp += 1;
        let stamp = self.stamp;
        if let Some(call) = self.client_links.get_mut(&client_id).filter(|call| !call.gone) {
            call.to.push_back((stamp, message));
        }
    }

    fn start(&mut self, seat: usize, incarnation: u32) -> Check {
        let link = &mut self.links[seat];
        if matches!(link.state, ProcessState::Running | ProcessState::Stalled) {
            return Err(format!("seat {seat} is started while its last process runs"));
        }
        let mut part = std::mem::take(&mut link.part);
        if self.fault != Some(Fault::OldBytes) {
            part.clear();
        }
        *link = Link {
            incarnation,
            state: ProcessState::Running,
            part,
            ..Link::new(&self.topology, seat)
        };
        if std::mem::take(&mut self.absent[seat]) {
            let link = &mut self.links[seat];
            (link.state, link.input_closed) = (ProcessState::Ended, true);
            let (seat, why) = (Seat(seat as u16), StartFailure::other("command not found"));
            self.pending.push_back(Input::NotStarted { seat, incarnation, why });
            self.record_failure();
            return Ok(());
        }
        match self.topology.proxies.get(seat - 1) {
            Some((kind, generation)) => {
                let reuses_ids = *kind == Kind::Counter;
                let tool_state = || self.tool_state.clone();
                let provider =
                    kind.has_server().then(|| Provider::new(*generation, tool_state(), reuses_ids));
                self.proxies[seat] =
                    Some(Proxy::new((*kind, *generation), provider, self.disk.clone()));
            }
            None => self.agent = Agent::new(self.topology.traits, self.disk.clone()),
        }
        Ok(())
    }

    /// Discards the component in a seat. If it still runs, it is killed.
    fn end(&mut self, seat: usize) {
        if self.links[seat].is_writable() {
            self.note_exit(seat, ExitCause::Signal(9));
        }
        self.kill(seat);
        let link = &mut self.links[seat];
        link.from.clear();
        link.reading = true;
        link.reported_readable = false;
    }

    /// Ends the process in a seat. Its output can still be read.
    fn kill(&mut self, seat: usize) {
        self.links[seat].state = ProcessState::Ended;
        self.links[seat].to.clear();
        if self.topology.editor && seat + 1 == self.links.len() {
            for client_id in self.agent.client_ids() {
                self.perform_client_action(ClientAction::Disconnect(client_id));
            }
        }
    }

    /// Ends the process in a seat, and reports it.
    pub fn die(&mut self, seat: usize, how: ExitCause) {
        if self.links[seat].is_writable() {
            self.kill(seat);
            self.close_output(seat, Some(how.clone()));
            self.note_exit(seat, how);
        }
    }

    /// Closes the output of a process.
    pub fn close_output(&mut self, seat: usize, how: Option<ExitCause>) {
        self.stamp += 1;
        self.links[seat].from.push_back((self.stamp, Item::End(how)));
    }

    /// Queues the report of an exit. With the option `split`, it may come before or after the end of the output.
    fn note_exit(&mut self, seat: usize, how: ExitCause) {
        if self.has_split_writes() {
            self.stamp += 1;
            let (stamp, incarnation) = (self.stamp, self.links[seat].incarnation);
            self.exits.push_back(Exit { stamp, seat, incarnation, how });
        }
    }

    pub fn report_exit(&mut self) -> Check {
        let Some(Exit { seat, incarnation, how, .. }) = self.exits.pop_front() else {
            return Ok(());
        };
        let seat = Seat(seat as u16);
        self.input(Input::Stderr { seat, incarnation, lines: vec![STDERR_LINE.to_owned()] })?;
        self.input(Input::Exited { seat, incarnation, how })
    }

    /// Reports that the output of a peer is closed.
    pub fn report_end(&mut self, seat: usize, how: Option<ExitCause>) -> Check {
        let incarnation = self.links[seat].incarnation;
        let seat = Seat(seat as u16);
        let how = how.filter(|_| !self.has_split_writes());
        if how.is_some() {
            self.input(Input::Stderr { seat, incarnation, lines: vec![STDERR_LINE.to_owned()] })?;
        }
        self.input(Input::OutputClosed { link: engine::LinkId::main(seat), rest: None })?;
        match how {
            Some(how) => self.input(Input::Exited { seat, incarnation, how }),
            None => Ok(()),
        }
    }

    /// Reports which paused links have unread bytes.
    pub fn report_readable(&mut self) -> Check {
        for seat in 0..self.links.len() {
            let waits = self.links[seat].has_unread_output();
            if self.links[seat].reported_readable != waits {
                self.links[seat].reported_readable = waits;
                let link = engine::LinkId::main(Seat(seat as u16));
                self.input(Input::Readable { link, readable: waits })?;
            }
        }
        Ok(())
    }

    pub fn has_tools(&self) -> bool {
        let provider = self.topology.proxies.iter().position(|(kind, _)| kind.has_server());
        provider.is_some_and(|at| {
            let state = self.core.router().state(Seat(at as u16 + 1));
            !matches!(state, Some(SeatState::Bypassed | SeatState::Closed))
        })
    }
}
