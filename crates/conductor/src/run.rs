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

use bytes::Bytes;
use router::{Action, Ending, Event, Exit, How, Level, Mode, Notice, Role, Router, Seat, Time};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{debug, warn};
use wire::dialect::{Plain, Rfd};
use wire::message::salvage;
use wire::{Dialect, Id, Malformed, Message, Outcome, Rejection, Salvage, Side, code};

use crate::config::{Config, Spec};
use crate::flow;
use crate::host::process::{Ended, Process, Words, shortened};
use crate::lines::Line;
use crate::link::{Link, Reader, Writer};
use crate::log;

/// After so many rounds the task lets others run.
const ROUNDS: usize = 32;

/// A component that closed its pipes has this long to end and so to say why.
const PARTING: Duration = Duration::from_secs(1);

/// Output of an ended component that is still open belongs to a child that escaped it.
const REMAINDER: Duration = Duration::from_millis(200);

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
    shell.wind_down().await;
    ending
}

struct Shell {
    router: Router,
    config: Config,
    /// By seat: the outer pipe, then the components.
    seats: Vec<Place>,
    began: Instant,
    /// The time of this round: what is handled together happens at once.
    now: Time,
    actions: Vec<Action>,
    /// What happened while actions were performed.
    aftermath: VecDeque<Event>,
    ended: (UnboundedSender<Ended>, UnboundedReceiver<Ended>),
    alarm: Pin<Box<Sleep>>,
    ending: Option<Ending>,
}

/// A seat as the shell sees it.
struct Place {
    link: Link,
    /// As long as it runs.
    process: Option<Process>,
    words: Words,
    fate: Fate,
}

/// What points to the end of a seat's occupant.
#[derive(Default)]
struct Fate {
    /// Its process has ended.
    how: Option<How>,
    /// It has closed its output, or its input.
    closed: Option<How>,
    /// When the first of these was seen.
    since: Option<Instant>,
    left: bool,
}

impl Shell {
    fn new(config: Config, reader: Reader, writer: Writer) -> Shell {
        let router = Router::new(config.chain());
        let place = |dialect: Box<dyn Dialect>| Place {
            link: Link::new(dialect, config.limits.line),
            process: None,
            words: Words::default(),
            fate: Fate::default(),
        };
        let mut outer = place(match config.mode {
            Mode::Agent => Box::new(Plain::editor()),
            Mode::Proxy => Box::new(Rfd::outer()),
        });
        outer.link.attach(reader, writer);
        let components = router.chain().seats().map(|seat| match router.chain().role(seat) {
            Role::Agent => place(Box::new(Plain::agent())),
            Role::Proxy => place(Box::new(Rfd::proxy())),
        });
        Shell {
            seats: std::iter::once(outer).chain(components).collect(),
            router,
            began: Instant::now(),
            now: Time::default(),
            actions: Vec::new(),
            aftermath: VecDeque::new(),
            ended: unbounded_channel(),
            alarm: Box::pin(sleep_until(Instant::now())),
            ending: None,
            config,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        for _ in 0..ROUNDS {
            let mut busy = false;
            self.look_at_the_clock();
            while let Poll::Ready(Some(ended)) = self.ended.1.poll_recv(cx) {
                let place = self.place(ended.seat);
                place.process = None;
                place.fate.note(Some(ended.how), None);
                busy = true;
            }
            for seat in self.all_seats() {
                busy |= self.read(seat, cx);
            }
            self.see_off();
            for seat in self.all_seats() {
                busy |= self.write(seat, cx);
            }
            if let Some(ending) = self.ending.take() {
                return Poll::Ready(ending);
            }
            busy |= self.regulate() | self.ring(cx);
            if !busy {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn all_seats(&self) -> impl Iterator<Item = Seat> + use<> {
        (0..self.seats.len() as u16).map(Seat)
    }

    fn place(&mut self, seat: Seat) -> &mut Place {
        &mut self.seats[seat.index()]
    }

    fn look_at_the_clock(&mut self) {
        self.now = Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }

    /// Reads once from a link and handles the lines that came. Says whether anything was done.
    fn read(&mut self, seat: Seat, cx: &mut Context<'_>) -> bool {
        let link = &mut self.seats[seat.index()].link;
        // Of a peer that must wait one chunk is taken, to know that it has something to say.
        if link.paused && !link.lines.is_empty() {
            return false;
        }
        let Some(reader) = &mut link.reader else { return false };
        let filled = link.lines.poll_fill(reader, cx);
        let over = match filled {
            Poll::Pending => return false,
            Poll::Ready(Ok(count)) => count == 0,
            Poll::Ready(Err(error)) => {
                debug!(seat = self.router.chain().name(seat), %error, "cannot read");
                true
            }
        };
        if over {
            self.take_lines(seat);
            let last = self.place(seat).link.lines.last_line();
            last.into_iter().for_each(|line| self.on_line(seat, line));
            let place = self.place(seat);
            place.link.reader = None;
            place.fate.note(None, Some(How::ClosedOutput));
        } else if !self.place(seat).link.paused {
            self.take_lines(seat);
        }
        true
    }

    fn take_lines(&mut self, seat: Seat) {
        while let Some(line) = self.place(seat).link.lines.next_line() {
            self.on_line(seat, line);
        }
    }

    fn on_line(&mut self, seat: Seat, line: Line) {
        match line {
            Line::Text(line) => match self.place(seat).link.dialect().decode(&line) {
                Ok((toward, message)) => {
                    debug!(
                        seat = self.router.chain().name(seat),
                        ?toward,
                        method = %message.label(),
                        size = line.len(),
                        "arrived"
                    );
                    self.handle(Event::Arrived { from: seat, toward, message });
                }
                Err(rejection) => self.on_rejection(seat, &line, rejection),
            },
            Line::TooLong { beginning, length } => {
                let why = format!(
                    "{} sent a line of {length} bytes, and {} are allowed (--max-line)",
                    self.router.chain().describe(seat),
                    self.config.limits.line
                );
                self.on_lost_line(seat, &beginning, &why, true);
            }
        }
    }

    /// A line that is no message: noise, a broken message, or one that is not allowed.
    fn on_rejection(&mut self, seat: Seat, line: &Bytes, rejection: Rejection) {
        let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
        let why =
            format!("{} sent a bad line: {}", self.router.chain().describe(seat), rejection.why);
        let json_like = matches!(line.trim_ascii_start().first(), Some(b'{' | b'['));
        match rejection.why {
            Malformed::NotJson(_) if seat.is_component() => {
                if json_like {
                    return self.on_lost_line(seat, line, &why, false);
                }
                self.on_noise(seat, &start, &why);
            }
            Malformed::NotAMessage { .. } if seat.is_component() && !json_like => {
                self.on_noise(seat, &start, &why);
            }
            _ => {
                warn!(seat = self.router.chain().name(seat), "{why}");
                let owed = self.owed(seat, line);
                let no_json = matches!(rejection.why, Malformed::NotJson(_));
                if let Some(reply) = rejection.reply.filter(|_| no_json || owed.is_none()) {
                    self.place(seat).link.send(Side::Editor, &reply);
                }
                if let Some(id) = owed {
                    self.on_lost_answer(seat, id, &why);
                }
            }
        }
    }

    fn on_noise(&mut self, seat: Seat, start: &str, why: &str) {
        warn!(seat = self.router.chain().name(seat), "{why}; skipped: {start:?}");
        self.place(seat).words.push(format!("(on stdout) {}", shortened(start)));
    }

    /// A line of which only the beginning could be read.
    fn on_lost_line(&mut self, seat: Seat, beginning: &[u8], why: &str, tell: bool) {
        warn!(seat = self.router.chain().name(seat), "{why}");
        if let Some(id) = self.owed(seat, beginning) {
            return self.on_lost_answer(seat, id, why);
        }
        let reply = match salvage(beginning) {
            Salvage::Request(id) => Some(id),
            Salvage::Response(_) => None,
            Salvage::Unclear(_) | Salvage::Nothing => tell.then_some(Id::NULL),
        };
        if let Some(id) = reply {
            let reply = Message::response(id, Outcome::error(code::INVALID_REQUEST, why));
            self.place(seat).link.send(Side::Editor, &reply);
        }
    }

    /// The open question that a broken line was to answer, as far as can be seen.
    fn owed(&self, seat: Seat, line: &[u8]) -> Option<Id> {
        match salvage(line) {
            Salvage::Response(id) | Salvage::Unclear(id) => Some(id),
            Salvage::Request(_) | Salvage::Nothing => None,
        }
        .filter(|id| self.router.owes(seat, id))
    }

    /// Whoever waits for an answer that cannot be read must not wait for ever.
    fn on_lost_answer(&mut self, seat: Seat, id: Id, why: &str) {
        let message = Message::response(id, Outcome::error(code::INTERNAL_ERROR, why));
        self.handle(Event::Arrived { from: seat, toward: Side::Editor, message });
    }

    /// Lets the router decide, and does what it says.
    fn handle(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        self.router.handle(self.now, event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action);
        }
        self.actions = actions;
        while let Some(event) = self.aftermath.pop_front() {
            self.handle(event);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Deliver { to, toward, message } => {
                self.place(to).link.send(toward, &message);
            }
            Action::Start(seat) => {
                if let Err(error) = self.start(seat) {
                    let why = Exit::new(How::NotStarted(error));
                    self.aftermath.push_back(Event::Left { seat, why });
                }
            }
            Action::Report(Notice { level, seat, text }) => {
                let seat = self.router.chain().name(seat);
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
        let (process, stdout, stdin) =
            Process::start(spec, seat, self.config.ties, self.ended.0.clone(), aside)
                .map_err(|error| not_started(spec, &error))?;
        let place = self.place(seat);
        place.words = process.words().clone();
        place.process = Some(process);
        place.link.attach(Box::new(stdout), Box::new(stdin));
        Ok(())
    }

    /// Writes a link's queue once. Says whether anything was done.
    fn write(&mut self, seat: Seat, cx: &mut Context<'_>) -> bool {
        let place = self.place(seat);
        if place.link.idle() {
            return false;
        }
        match place.link.poll_write(cx) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(error)) => {
                place.fate.note(None, Some(How::ClosedInput));
                place.fate.left &= seat.is_component();
                debug!(seat = self.router.chain().name(seat), %error, "cannot write");
                true
            }
        }
    }

    /// Tells the router of those who are gone, once all that they said has been handled.
    fn see_off(&mut self) {
        for seat in self.all_seats() {
            let place = self.place(seat);
            let (drained, held) = (place.link.reader.is_none(), place.held());
            let fate = &mut place.fate;
            let Some(since) = fate.since.filter(|_| !fate.left) else { continue };
            let how = match (&fate.how, &fate.closed) {
                (Some(how), _) if drained || (!held && since.elapsed() >= REMAINDER) => how,
                (None, Some(how)) if seat == Seat::OUTER || since.elapsed() >= PARTING => how,
                _ => continue,
            };
            let how = how.clone();
            fate.left = true;
            let last_words = place.words.list();
            self.handle(Event::Left { seat, why: Exit { how, last_words } });
        }
    }

    /// Pauses who feeds a full queue. Says whether somebody may go on who was paused.
    fn regulate(&mut self) -> bool {
        if !self.seats.iter().any(|it| it.link.paused || it.link.is_full()) {
            return false;
        }
        let gauges: Vec<_> = self.seats.iter().map(|it| it.link.gauge()).collect();
        let verdict = flow::judge(&gauges, self.config.mode == Mode::Proxy);
        let mut released = false;
        for (index, pause) in verdict.paused.into_iter().enumerate() {
            let link = &mut self.seats[index].link;
            if std::mem::replace(&mut link.paused, pause) && !pause {
                released = true;
                self.take_lines(Seat(index as u16));
            } else if !pause && !link.lines.is_empty() {
                // Still released out of a circle: what came meanwhile is taken, too.
                self.take_lines(Seat(index as u16));
            }
        }
        if let Some(index) = verdict.stuck {
            let queued = gauges[index].queued;
            let place = &mut self.seats[index];
            place.link.hang_up();
            place.fate.note(Some(How::Stuck(queued)), None);
            place.link.reader = None;
            released = true;
        }
        released
    }

    /// Keeps the alarm at the next deadline; says whether one has come.
    fn ring(&mut self, cx: &mut Context<'_>) -> bool {
        let router = self.router.deadline().map(|time| self.began + Duration::from_millis(time.0));
        let waiting = self.seats.iter().skip(1).filter(|place| !place.held());
        let partings = waiting.filter_map(|place| place.fate.patience());
        let Some(next) = partings.chain(router).min() else { return false };
        if self.alarm.deadline() != next {
            self.alarm.as_mut().reset(next);
        }
        if self.alarm.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.look_at_the_clock();
        if router.is_some_and(|time| time <= Instant::now()) {
            let event = match self.router.overdue(self.now) {
                Some((seat, how)) => {
                    let last_words = self.place(seat).words.list();
                    Event::Left { seat, why: Exit { how, last_words } }
                }
                None => Event::Tick,
            };
            self.handle(event);
        }
        true
    }

    /// After the end: the outer pipe gets what is queued for it, then the components are ended, at
    /// first by closing their input, so that they can end their own children in good order.
    async fn wind_down(mut self) {
        let grace = self.config.limits.grace;
        let outer = &mut self.seats[0].link;
        let _ = tokio::time::timeout(grace, poll_fn(|cx| outer.poll_write(cx))).await;
        outer.hang_up();
        for place in &mut self.seats[1..] {
            if place.link.idle() {
                place.link.hang_up();
            }
        }
        if tokio::time::timeout(grace, self.gone()).await.is_ok() {
            return;
        }
        self.seats.iter().filter_map(|place| place.process.as_ref()).for_each(Process::terminate);
        if tokio::time::timeout(grace, self.gone()).await.is_ok() {
            return;
        }
        self.seats.iter().filter_map(|place| place.process.as_ref()).for_each(Process::kill);
        let _ = tokio::time::timeout(PARTING, self.gone()).await;
    }

    /// Waits until all processes have ended; what they still say goes nowhere.
    async fn gone(&mut self) {
        poll_fn(|cx| {
            while let Poll::Ready(Some(ended)) = self.ended.1.poll_recv(cx) {
                self.place(ended.seat).process = None;
            }
            for place in &mut self.seats[1..] {
                let link = &mut place.link;
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
            match self.seats.iter().all(|place| place.process.is_none()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

impl Place {
    /// There is more of what its occupant said, and it is not its turn.
    fn held(&self) -> bool {
        self.link.paused && self.link.reader.is_some()
    }
}

impl Fate {
    fn note(&mut self, how: Option<How>, closed: Option<How>) {
        self.since.get_or_insert_with(Instant::now);
        self.how = self.how.take().or(how);
        // That nobody reads us is the stronger word.
        if closed == Some(How::ClosedInput) || self.closed.is_none() {
            self.closed = closed.or(self.closed.take());
        }
    }

    /// Until when this seat's end is waited for.
    fn patience(&self) -> Option<Instant> {
        let since = self.since.filter(|_| !self.left)?;
        Some(since + if self.how.is_some() { REMAINDER } else { PARTING })
    }
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
