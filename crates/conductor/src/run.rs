//! The loop that everything goes through.
//!
//! One task owns the router and all links, so there is one order of events and one writer per link.
//! Each round it reads what the links have, lets the router decide line by line, appends what is to
//! be sent to the queues, and then writes each queue once: the more there is to do, the more goes
//! into one write. It never waits for anybody; who does not read makes others wait (see `flow`).

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use router::{Ending, Exit, How, Level, Mode, Notice, Router, Seat, SeatState, Time};
use supervisor::{Action, Event, Supervisor};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{debug, warn};
use wire::dialect::{Outer, Plain, Spoken};
use wire::{Message, Side};

use crate::config::{Config, Spec};
use crate::crashes::Crashes;
use crate::flow::{self, Gauge};
use crate::host::Occupant;
use crate::host::process::{Ended, Process};
use crate::host::strays::{self, Mark};
use crate::lines::Line;
use crate::link::{Link, Reader, Writer};
use crate::log;
use crate::mcp::shell::{Clients, core};
use crate::memory::Memory;
use crate::place::{Place, Port};
use crate::status::Desk;
use crate::tap::Sighting;

/// After so many rounds the task lets others run.
const ROUNDS: usize = 32;

/// How long to look for more before going to sleep.
const LINGER: Duration = Duration::from_micros(50);

/// How often an editor that must wait is looked after.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long the last of the components may take to be reaped once they are killed.
const BURIAL: Duration = Duration::from_secs(1);

/// Runs a chain over the streams of whoever started us, until it ends or `stop` is ready.
pub async fn run(
    config: Config,
    (reader, writer): (Reader, Writer),
    stop: impl Future<Output = ()>,
) -> Ending {
    let mut shell = Shell::new(config, reader, writer);
    let mut stop = pin!(stop);
    let mut stopped = false;
    let ending = poll_fn(|cx| {
        if !stopped && stop.as_mut().poll(cx).is_ready() {
            stopped = true;
            shell.look_at_the_clock();
            shell.handle(Event::Stop);
        }
        shell.poll(cx)
    })
    .await;
    match (ending, shell.wind_down().await) {
        (Ending::Clean, Err(line)) => Ending::Failed(line),
        (ending, _) => ending,
    }
}

type Channel<T> = (UnboundedSender<T>, UnboundedReceiver<T>);

pub(crate) struct Shell {
    pub(crate) core: Supervisor,
    pub(crate) config: Config,
    /// By seat: the outer pipe, then the components.
    pub(crate) seats: Vec<Place>,
    pub(crate) began: Instant,
    /// The time of this round: what is handled together happens at once.
    pub(crate) now: Time,
    actions: Vec<Action>,
    /// What happened while actions were performed.
    pub(crate) aftermath: VecDeque<Event>,
    /// MCP clients that have called.
    pub(crate) clients: Clients,
    ended: Channel<Ended>,
    /// Relays of SCP proxies that have connected.
    pub(crate) joined: Channel<(Seat, TcpStream)>,
    pub(crate) memory: Memory,
    pub(crate) crashes: Crashes,
    /// Where people ask how we are.
    pub(crate) desk: Option<Desk>,
    alarm: Pin<Box<Sleep>>,
    /// When to look whether an editor that must wait has left.
    look_again: Option<Instant>,
    /// When there was something to do the last time.
    last_busy: Instant,
    several_cpus: bool,
    ending: Option<Ending>,
    /// Why nothing can be written to the editor, which is still there.
    unwritable: Option<String>,
}

impl Shell {
    pub(crate) fn new(mut config: Config, reader: Reader, writer: Writer) -> Shell {
        config.ties.mark.get_or_insert_with(Mark::fresh);
        let mut outer = Place::new(
            match config.mode {
                Mode::Agent => Plain::editor().into(),
                Mode::Proxy => Outer::unknown().into(),
            },
            config.limits.line,
        );
        outer.link.attach(reader, writer);
        let clients = Clients::new(config.limits.line);
        let mut shell = Shell {
            core: core(&config),
            seats: vec![outer],
            began: Instant::now(),
            now: Time::default(),
            actions: Vec::new(),
            aftermath: VecDeque::new(),
            clients,
            ended: unbounded_channel(),
            joined: unbounded_channel(),
            memory: Memory::default(),
            crashes: Crashes::default(),
            desk: config.status.then(Desk::open).flatten(),
            alarm: Box::pin(sleep_until(Instant::now())),
            look_again: None,
            last_busy: Instant::now(),
            several_cpus: std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
            ending: None,
            unwritable: None,
            config,
        };
        shell.seat_components();
        shell
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        for _ in 0..ROUNDS {
            let mut busy = false;
            self.look_at_the_clock();
            while let Poll::Ready(Some(ended)) = self.ended.1.poll_recv(cx) {
                let place = self.place(ended.seat);
                if place.life == ended.life {
                    place.occupant = None;
                    place.fate.ended(ended.how);
                    busy = true;
                }
            }
            while let Poll::Ready(Some((seat, stream))) = self.joined.1.poll_recv(cx) {
                self.join(seat, stream);
                busy = true;
            }
            for seat in self.all_seats() {
                busy |= self.read(seat, Port::Main, cx) | self.read(seat, Port::Relay, cx);
            }
            busy |= self.hear(cx);
            self.show_status(cx);
            self.see_off();
            for seat in self.all_seats() {
                busy |= self.write(seat, cx);
            }
            if let Some(ending) = self.ending.take() {
                return Poll::Ready(ending);
            }
            busy |= self.regulate() | self.ring(cx);
            if busy {
                self.last_busy = Instant::now();
            } else {
                return self.linger(cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Nothing is left to do. What comes next often comes at once, and to be woken up costs more than
    /// to look again for a moment. Where there is but one CPU, that moment belongs to the others.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.several_cpus && self.last_busy.elapsed() < LINGER {
            // Comes back after one look at the pipes; never ready at the first poll.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Pending
    }

    pub(crate) fn router(&self) -> &Router {
        self.core.router()
    }

    /// What the occupant of a seat speaks, for people.
    pub(crate) fn dialect(&self, seat: Seat) -> Spoken {
        self.seats[seat.index()].link.dialect().spoken()
    }

    pub(crate) fn all_seats(&self) -> impl Iterator<Item = Seat> + use<> {
        (0..self.seats.len() as u16).map(Seat)
    }

    pub(crate) fn place(&mut self, seat: Seat) -> &mut Place {
        &mut self.seats[seat.index()]
    }

    fn look_at_the_clock(&mut self) {
        self.now = Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }

    /// Reads once from a link and handles the lines that came. Says whether anything was done.
    fn read(&mut self, seat: Seat, port: Port, cx: &mut Context<'_>) -> bool {
        let Some(link) = self.place(seat).port(port) else { return false };
        // Of a peer that must wait one chunk is taken, to know that it has something to say.
        if link.paused && !link.lines.is_empty() {
            return false;
        }
        let Some(reader) = &mut link.reader else { return false };
        let filled = link.lines.poll_fill(reader, cx);
        let paused = link.paused;
        let over = match filled {
            Poll::Pending => return false,
            Poll::Ready(Ok(count)) => count == 0,
            Poll::Ready(Err(error)) => {
                debug!(seat = self.router().chain().name(seat), %error, "cannot read");
                true
            }
        };
        if over {
            self.take_lines(seat, port);
            // Somebody else may sit there after the last line: it is noted before who has ended.
            let place = self.place(seat);
            let last = place.port(port).and_then(|link| link.lines.last_line());
            if let Some(link) = place.port(port) {
                link.reader = None;
            }
            match port {
                Port::Main => place.fate.closed(How::ClosedOutput),
                Port::Relay => place.lose_relay(),
            }
            // Half a message of one who died over it says nothing that its end does not say better.
            let half = |line: &Line| {
                matches!(line, Line::Text(text)
                    if text.starts_with(b"{") && Message::parse(text).is_err())
            };
            let last = last.filter(|line| !(seat.is_component() && half(line)));
            last.into_iter().for_each(|line| self.on_line(seat, port, line));
        } else if !paused {
            self.take_lines(seat, port);
        }
        true
    }

    fn take_lines(&mut self, seat: Seat, port: Port) {
        while let Some(line) = self.place(seat).port(port).and_then(|link| link.lines.next_line()) {
            self.on_line(seat, port, line);
        }
    }

    pub(crate) fn on_line(&mut self, seat: Seat, port: Port, line: Line) {
        match line {
            Line::Text(line) => {
                let Some(link) = self.place(seat).port(port) else { return };
                let decoded = link.decode(&line);
                let dialect = self.dialect(seat);
                self.core.set_dialect(seat, dialect);
                match decoded {
                    Ok(Some((toward, message))) => {
                        debug!(
                            seat = self.router().chain().name(seat),
                            ?toward,
                            method = %message.label(),
                            size = line.len(),
                            "arrived"
                        );
                        self.learn(seat);
                        if let Message::Response { id, outcome, .. } = &message {
                            self.on_answer(seat, id, outcome);
                        }
                        if let Some(tap) = &self.config.tap {
                            let dialect = self.seats[seat.index()].link.dialect().spoken();
                            let name = self.router().chain().name(seat);
                            let message = &message;
                            tap.see(&Sighting::Arrived { seat: name, toward, dialect, message });
                        }
                        self.handle(Event::Arrived { from: seat, toward, message });
                    }
                    Ok(None) => self.on_handshake(seat),
                    Err(rejection) => self.on_rejection(seat, port, &line, rejection),
                }
            }
            Line::TooLong { scan, length } => {
                self.on_long_line(seat, port, &scan, length);
            }
        }
        self.settle_lost(seat, port);
    }

    /// Something has happened: the core decides, and what it says is done.
    pub(crate) fn handle(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next {
            if let (Some(tap), Event::Left { seat, why }) = (&self.config.tap, &event) {
                let how = why.what();
                tap.see(&Sighting::Left { seat: self.router().chain().name(*seat), how: &how });
            }
            let mut actions = std::mem::take(&mut self.actions);
            self.core.handle(self.now, event, &mut actions);
            for action in actions.drain(..) {
                self.perform(action);
            }
            self.actions = actions;
            next = self.aftermath.pop_front();
        }
    }

    /// Queues a message for a seat.
    pub(crate) fn send(&mut self, to: Seat, toward: Side, message: &Message) {
        if let Some(tap) = &self.config.tap {
            let dialect = self.seats[to.index()].link.dialect().spoken();
            let seat = self.router().chain().name(to);
            tap.see(&Sighting::Delivered { seat, toward, dialect, message });
        }
        let place = self.place(to);
        place.doubt.on_sent(message);
        place.toward(toward).send(toward, message);
        // The first answer that an SCP proxy gets from its successor is that to `initialize`.
        if place.relay.is_some() && toward == Side::Editor {
            let told =
                place.link.with_dialect(|dialect, out| dialect.proxy_mut()?.successor_stands(out));
            let from = to;
            self.aftermath.extend(told.map(|(toward, message)| Event::Arrived {
                from,
                toward,
                message,
            }));
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Deliver { to, toward, message } => self.send(to, toward, &message),
            Action::Start(seat) => {
                if let Err(error) = self.start(seat) {
                    let why = Exit::new(How::NotStarted(error));
                    self.aftermath.push_back(Event::Left { seat, why });
                }
            }
            Action::End(seat) => self.renew(seat),
            Action::Tell { caller, message } => self.tell_client(caller, &message),
            Action::HangUp(caller) => self.clients.hang_up(caller),
            Action::Admit { ticket, kind } => {
                let place = self.clients.listeners.admit(kind, ticket);
                self.aftermath.push_back(Event::Admitted { ticket, place });
            }
            Action::Revoke(ticket) => self.clients.listeners.revoke(ticket),
            Action::Spare { seat, kind } => {
                self.crashes.learn(&self.config.components[seat.index() - 1], kind);
            }
            Action::Report(Notice { level, seat, text }) => {
                let seat = self.router().chain().name(seat);
                match level {
                    Level::Warn => warn!(seat, "{text}"),
                    Level::Debug => debug!(seat, "{text}"),
                }
            }
            Action::Finish(ending) => self.ending = Some(ending),
        }
    }

    fn start(&mut self, seat: Seat) -> Result<(), String> {
        let spec = &self.config.components[seat.index() - 1];
        let name = spec.name.clone();
        let aside = move |line: &str| log::aside(&name, line);
        let life = self.seats[seat.index()].life;
        let ended = self.ended.0.clone();
        let (occupant, reader, writer): (Occupant, Reader, Writer) = match &spec.resident {
            Some(resident) => {
                let (guest, from, to) = resident
                    .start(&spec.name, (seat, life), ended)
                    .map_err(|error| error.to_string())?;
                (Occupant::Guest(guest), Box::new(from), Box::new(to))
            }
            None => {
                let (process, stdout, stdin) =
                    Process::start(spec, (seat, life), self.config.ties, ended, aside)
                        .map_err(|error| not_started(spec, &error))?;
                (Occupant::Process(process), Box::new(stdout), Box::new(stdin))
            }
        };
        self.place(seat).occupy(occupant, reader, writer);
        if let Some(tap) = &self.config.tap {
            tap.see(&Sighting::Started { seat: self.router().chain().name(seat) });
        }
        Ok(())
    }

    /// Writes a seat's queues once. Says whether anything was done.
    fn write(&mut self, seat: Seat, cx: &mut Context<'_>) -> bool {
        let place = &mut self.seats[seat.index()];
        let (mut busy, mut failed) = (false, None);
        for port in [Port::Main, Port::Relay] {
            let Some(link) = place.port(port).filter(|link| !link.idle()) else { continue };
            match link.poll_write(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => busy = true,
                Poll::Ready(Err(error)) => {
                    match port {
                        Port::Main => {
                            place.fate.closed(How::ClosedInput);
                            place.fate.left &= seat.is_component();
                        }
                        Port::Relay => place.lose_relay(),
                    }
                    failed = Some(error);
                    busy = true;
                }
            }
        }
        failed.into_iter().for_each(|error| self.cannot_write(seat, &error));
        busy
    }

    fn cannot_write(&mut self, seat: Seat, error: &std::io::Error) {
        let chain = self.core.router().chain();
        debug!(seat = chain.name(seat), %error, "cannot write");
        if seat == Seat::OUTER && is_full(error) {
            let line = format!("cannot write to {}: {error}", chain.describe(seat));
            self.unwritable.get_or_insert(line);
        }
    }

    /// Tells the router of those who are gone, once all that they said has been handled; but a
    /// component that did not survive our greeting is begun anew with another one.
    fn see_off(&mut self) {
        for seat in self.all_seats() {
            let longest = self.config.limits.line;
            let stood = self.router().has_stood(seat);
            let place = self.place(seat);
            let Some(how) = place.departed(seat == Seat::OUTER) else { continue };
            // After a restart, a greeting that fails counts as a failure (see `renew`).
            if !stood && place.link.begin_again(longest) {
                place.vacate(how);
                self.learn(seat);
                self.handle(Event::Again(seat));
                self.perform(Action::Start(seat));
                continue;
            }
            place.fate.left = true;
            self.tell_end(seat, how);
        }
        if let Some(event) = self.aftermath.pop_front() {
            self.handle(event);
        }
    }

    /// How full the queue of a seat is, with what waits for its next occupant. While that one learns,
    /// those around it are listened to for longer: it may need an answer of theirs.
    pub(crate) fn gauge(&self, seat: Seat) -> Gauge {
        let gauge = self.seats[seat.index()].gauge();
        let (_, held) = self.router().held(seat);
        let most = if self.router().learns(seat) { flow::CAP / 4 } else { flow::HIGH };
        Gauge { queued: gauge.queued + held, full: gauge.full || held > most, ..gauge }
    }

    /// Pauses who feeds a full queue. Says whether somebody may go on who was paused.
    fn regulate(&mut self) -> bool {
        if !self.all_seats().any(|seat| self.place(seat).link.paused || self.gauge(seat).full) {
            return false;
        }
        // Who is left out feeds nobody: its neighbours are neighbours.
        let there = |seat: &Seat| !matches!(self.router().state(*seat), Some(SeatState::Bypassed));
        let seats: Vec<Seat> = self.all_seats().filter(there).collect();
        let gauges: Vec<_> = seats.iter().map(|seat| self.gauge(*seat)).collect();
        let verdict = flow::judge(&gauges, self.config.mode == Mode::Proxy);
        let mut released = false;
        for (&seat, pause) in seats.iter().zip(verdict.paused) {
            let was_paused = self.place(seat).link.paused;
            if was_paused {
                self.core.restart_barrier_limit(self.now, seat);
            }
            self.place(seat).links().for_each(|link| link.paused = pause);
            if !pause {
                // Taken are also the lines of one that was released out of a circle before.
                released |= was_paused;
                self.take_lines(seat, Port::Main);
                self.take_lines(seat, Port::Relay);
            }
        }
        if let Some(index) = verdict.stuck {
            let queued = gauges[index].queued;
            let place = self.place(seats[index]);
            place.link.hang_up();
            place.fate.ended(How::Stuck(queued));
            place.link.reader = None;
            released = true;
        }
        released
    }

    /// An editor that must wait may have left: its end is behind what we do not read. Says when to
    /// look again.
    fn hang_up_check(&mut self) -> Option<Instant> {
        let outer = &mut self.seats[0];
        if !outer.link.paused || outer.link.reader.is_none() {
            self.look_again = None;
            return None;
        }
        let due = *self.look_again.get_or_insert_with(|| Instant::now() + LOOK_AGAIN);
        if due <= Instant::now() {
            self.look_again = None;
            if self.config.hung_up.is_some_and(|hung_up| hung_up()) {
                outer.link.reader = None;
                outer.fate.closed(How::ClosedOutput);
            }
        }
        Some(due)
    }

    /// Keeps the alarm at the next deadline; says whether one has come.
    fn ring(&mut self, cx: &mut Context<'_>) -> bool {
        let instant = |time: Time| self.began + Duration::from_millis(time.0);
        let core = self.core.deadline().map(instant);
        let greeting = self.router().greeting_deadline().map(instant);
        let stuck = self.hang_up_check();
        let minded = self.seats.iter_mut().skip(1).filter_map(|place| {
            [place.mind_silence(greeting), place.patience()].into_iter().flatten().min()
        });
        let next = minded.chain(core).chain(stuck).min();
        let Some(next) = next else { return false };
        if self.alarm.deadline() != next {
            self.alarm.as_mut().reset(next);
        }
        if self.alarm.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.look_at_the_clock();
        if core.is_some_and(|time| time <= Instant::now()) {
            for _ in 0..self.seats.len() {
                let Some((seat, how)) = self.core.overdue(self.now) else { break };
                self.give_up(seat, how);
            }
            self.excuse_the_silent();
            self.handle(Event::Tick);
        }
        true
    }

    /// A component cannot act while its output is not read or its input is not written.
    fn excuse_the_silent(&mut self) {
        for seat in self.all_seats() {
            let waits = |link: &mut Link| link.paused || link.queued() > 0;
            if self.place(seat).links().any(waits) {
                self.core.restart_barrier_limit(self.now, seat);
            }
        }
    }

    /// After the end: the outer pipe gets what is queued for it, then the components are ended, at
    /// first by closing their input, so that they can end their own children in good order. All of
    /// it takes one grace period at most: editors wait about that long before they kill us.
    ///
    /// # Errors
    /// Not all could be written to the outer pipe: there is no room for it.
    pub(crate) async fn wind_down(mut self) -> Result<(), String> {
        self.all_seats().for_each(|seat| self.forget_guess(seat));
        self.end_components().await;
        // Those of the last lives have been looked after when these ended, and a guard does it for all.
        if let (Some(mark), None) = (self.config.ties.mark, self.config.ties.guard)
            && self.seats.iter().any(|place| place.life > 0)
        {
            strays::sweep(&mark.to_string());
        }
        self.unwritable.map_or(Ok(()), Err)
    }

    async fn end_components(&mut self) {
        let grace = self.config.limits.grace;
        let outer = &mut self.seats[0].link;
        let written = tokio::time::timeout(grace, poll_fn(|cx| outer.poll_write(cx))).await;
        outer.hang_up();
        if let Ok(Err(error)) = written {
            self.cannot_write(Seat::OUTER, &error);
        }
        for link in self.seats[1..].iter_mut().flat_map(Place::links) {
            if link.idle() {
                link.hang_up();
            }
        }
        if tokio::time::timeout(grace / 2, self.gone()).await.is_ok() {
            return;
        }
        self.seats.iter().filter_map(|place| place.occupant.as_ref()).for_each(Occupant::terminate);
        if tokio::time::timeout(grace / 2, self.gone()).await.is_ok() {
            return;
        }
        self.seats.iter().filter_map(|place| place.occupant.as_ref()).for_each(Occupant::kill);
        let _ = tokio::time::timeout(BURIAL, self.gone()).await;
    }

    /// Waits until all processes have ended; what they still say goes nowhere.
    async fn gone(&mut self) {
        poll_fn(|cx| {
            self.show_status(cx);
            while let Poll::Ready(Some(ended)) = self.ended.1.poll_recv(cx) {
                if self.place(ended.seat).life == ended.life {
                    self.place(ended.seat).occupant = None;
                }
            }
            for link in self.seats[1..].iter_mut().flat_map(Place::links) {
                if !link.idle() && link.poll_write(cx).is_ready() {
                    link.hang_up();
                }
                while let Some(reader) = &mut link.reader {
                    match link.lines.poll_fill(reader, cx) {
                        Poll::Ready(Ok(1..)) => while link.lines.next_line().is_some() {},
                        Poll::Ready(Ok(0) | Err(_)) => link.reader = None,
                        Poll::Pending => break,
                    }
                }
            }
            match self.seats.iter().all(|place| place.occupant.is_none()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Is there no room for what was written? Other errors mean that nobody reads any more.
fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}

fn not_started(spec: &Spec, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound if spec.directory.as_ref().is_some_and(|it| !it.is_dir()) => {
            "its directory does not exist".into()
        }
        std::io::ErrorKind::NotFound => "command not found".into(),
        std::io::ErrorKind::PermissionDenied => "the command is not executable".into(),
        _ => error.to_string(),
    }
}
