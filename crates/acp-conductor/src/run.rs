//! The main loop of a chain.
//!
//! A single task owns the core and all links, so all events have one order and every link has one writer.
//! In each round the task reads from all links, passes the lines to the core, performs the outputs of the
//! core, and writes each queue once. Under load, one write carries many messages. The task never waits for a
//! peer. The core (crate `engine`) makes all decisions.

mod options;
mod start;
mod timer;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use acp_proxy::ChainEvent;
use acp_wire::{ErrorKind, LinkProtocol, Message, Outcome};
use engine::queue::Queue;
use engine::{Command, Core, Input, Line, Observation, Output, Outputs, Port};
use router::{Diagnostic, Ending, ExitCause, Level, Router, Seat, Time};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{debug, warn};

use crate::config::Config;
use crate::crash_cache::CrashCache;
use crate::greeting_cache::GreetingCache;
use crate::host::RunningComponent;
use crate::host::leftovers::ProcessTag;
use crate::host::process::ComponentExit;
use crate::host::start_failure;
use crate::journal::Journal;
use crate::lines;
use crate::link::{Link, Reader, Writer};
use crate::managed_options::OptionChanges;
use crate::mcp::clients::Clients;
use crate::reload::Reloads;
use crate::seat_io::SeatIo;
use crate::status::StatusServer;
use crate::tap::TapEvent;
use crate::telemetry;
use crate::wait_report::WaitReport;

/// The task yields to other tasks after this many rounds.
const MAX_ROUNDS: usize = 32;

/// How long the task polls for more input before it sleeps.
const SPIN_TIME: Duration = Duration::from_micros(50);

/// Runs a chain over the streams of an editor, until the chain ends or `stop` completes.
pub async fn run(
    config: Config,
    (reader, writer): (Reader, Writer),
    stop: impl Future<Output = ()>,
) -> Ending {
    let mut shell = Shell::new(config, reader, writer);
    let mut stop = pin!(stop);
    let mut stopped = false;
    let mut wait: Option<WaitReport> = None;
    let ending = poll_fn(|cx| {
        if !stopped && stop.as_mut().poll(cx).is_ready() {
            stopped = true;
            shell.update_time();
            shell.handle(Input::Command(Command::Stop));
        }
        let polled = shell.poll(cx);
        if polled.is_pending() && shell.router().is_ending() {
            let wait = wait.get_or_insert_with(|| WaitReport::new(shell.config.report_wait));
            wait.poll(cx, || shell.open_requests_of());
        }
        polled
    })
    .await;
    match (ending, shell.shut_down().await) {
        (Ending::Clean, Err(line)) => Ending::Failed(line),
        (ending, _) => ending,
    }
}

type Channel<T> = (UnboundedSender<T>, UnboundedReceiver<T>);

/// The state of a running chain: the core, and everything that performs its outputs.
pub(crate) struct Shell {
    pub(crate) core: Core,
    /// The outputs of the core, including the queues of the links.
    pub(crate) out: Outputs,
    journal: Option<Journal>,
    pub(crate) config: Config,
    /// The I/O of each seat: the outer pipe, then the components.
    pub(crate) seats: Vec<SeatIo>,
    pub(crate) started: Instant,
    /// The time of the current round. All events of a round have the same time.
    pub(crate) now: Time,
    /// Inputs that resulted from performing outputs, such as a failed start.
    pub(crate) inputs: VecDeque<Input>,
    /// The connected MCP clients, and their listeners.
    pub(crate) clients: Clients,
    pub(crate) exits: Channel<ComponentExit>,
    /// Connected relays of SCP proxies, each with the seat and incarnation of its proxy.
    relays: Channel<((Seat, u32), TcpStream)>,
    /// New options of built-in components.
    option_changes: OptionChanges,
    pub(crate) greetings: GreetingCache,
    pub(crate) crashes: CrashCache,
    /// Performs `conductor reload`.
    pub(crate) reloads: Reloads,
    /// Answers `conductor status`.
    pub(crate) status_server: Option<StatusServer>,
    timer: Pin<Box<Sleep>>,
    /// When to check whether a paused editor has closed its connection.
    next_hang_up_check: Option<Instant>,
    /// When the task last did any work.
    last_busy: Instant,
    several_cpus: bool,
    ending: Option<Ending>,
    /// The error of a failed write to the editor, if the editor has not closed its connection.
    pub(crate) write_error: Option<String>,
}

impl Shell {
    pub(crate) fn new(mut config: Config, reader: Reader, writer: Writer) -> Shell {
        config.cleanup.tag.get_or_insert_with(ProcessTag::random);
        let (greetings, crashes) = match config.has_proxies() {
            true => (GreetingCache::load(), CrashCache::load()),
            false => (GreetingCache::default(), CrashCache::default()),
        };
        let clients = Clients::new(config.limits.max_line);
        let setup = config.setup(&greetings, &crashes);
        let mut shell = Shell {
            journal: Journal::begin(config.journal.as_ref(), &setup),
            core: Core::new(setup),
            out: Outputs::default(),
            seats: Vec::new(),
            started: Instant::now(),
            now: Time::default(),
            inputs: VecDeque::new(),
            clients,
            exits: unbounded_channel(),
            relays: unbounded_channel(),
            option_changes: OptionChanges::default(),
            greetings,
            crashes,
            reloads: Reloads::new(&config),
            status_server: config.status.then(StatusServer::open).flatten(),
            timer: Box::pin(sleep_until(Instant::now())),
            next_hang_up_check: None,
            last_busy: Instant::now(),
            several_cpus: std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
            ending: None,
            write_error: None,
            config,
        };
        shell.create_seats();
        shell.seats[0].link.attach(reader, writer);
        shell
    }

    /// Creates the I/O of every seat in the configuration.
    pub(crate) fn create_seats(&mut self) {
        let max_line = self.config.limits.max_line;
        self.seats.resize_with(self.config.components.len() + 1, || SeatIo::new(max_line));
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        for _ in 0..MAX_ROUNDS {
            let mut busy = false;
            self.update_time();
            while let Poll::Ready(Some(exit)) = self.exits.1.poll_recv(cx) {
                self.on_exit(exit);
                busy = true;
            }
            while let Poll::Ready(Some(((seat, incarnation), stream))) = self.relays.1.poll_recv(cx)
            {
                self.attach_relay(seat, incarnation, stream);
                busy = true;
            }
            self.report_stderr();
            for seat in self.all_seats() {
                busy |= self.read(seat, Port::Main, cx) | self.read(seat, Port::Relay, cx);
            }
            busy |= self.poll_clients(cx);
            self.answer_status_requests(cx);
            busy |= self.poll_reloads(cx);
            for seat in self.all_seats() {
                busy |= self.write(seat, Port::Main, cx) | self.write(seat, Port::Relay, cx);
            }
            if let Some(ending) = self.ending.take() {
                return Poll::Ready(ending);
            }
            busy |= self.poll_timer(cx);
            self.journal.take_if(|journal| !journal.flush());
            if busy {
                self.last_busy = Instant::now();
            } else {
                return self.spin(cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Polls again for a short time before sleeping. The next message often arrives immediately, and waking
    /// up costs more than polling. With a single CPU this would only slow down the components.
    fn spin(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.several_cpus && self.last_busy.elapsed() < SPIN_TIME {
            // `yield_now` is never ready at the first poll. It wakes the task after the runtime has polled the pipes.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Pending
    }

    pub(crate) fn router(&self) -> &Router {
        self.core.router()
    }

    /// The protocol of a link, for reports.
    pub(crate) fn dialect(&self, seat: Seat) -> LinkProtocol {
        self.core.dialect(seat)
    }

    pub(crate) fn all_seats(&self) -> impl Iterator<Item = Seat> + use<> {
        (0..self.seats.len() as u16).map(Seat)
    }

    pub(crate) fn seat_io(&mut self, seat: Seat) -> &mut SeatIo {
        &mut self.seats[seat.index()]
    }

    /// Passes an input to the core, performs the outputs, and records both in the journal.
    pub(crate) fn handle(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            if let Some(journal) = &mut self.journal {
                journal.input(self.now, &input);
            }
            self.core.handle(self.now, input, &mut self.out);
            if let Some(journal) = &mut self.journal {
                journal.outputs(&self.out);
            }
            let mut list = std::mem::take(&mut self.out.list);
            for output in list.drain(..) {
                self.perform(output);
            }
            self.out.list = list;
            next = self.inputs.pop_front();
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Start { seat, incarnation } => {
                self.seat_io(seat).incarnation = incarnation;
                match self.start(seat, incarnation) {
                    Ok(()) => {
                        let seat = self.name(seat);
                        self.emit(&TapEvent::Started { seat });
                        self.show(&ChainEvent::Started { component: seat, restarts: incarnation });
                    }
                    Err(why) => self.inputs.push_back(Input::NotStarted { seat, incarnation, why }),
                }
            }
            Output::Kill(seat) => {
                self.seat_io(seat).component.iter().for_each(RunningComponent::kill)
            }
            Output::Discard(seat) => {
                // The core increments its incarnation as well. Late events of the old component have the old number.
                let incarnation = self.seat_io(seat).incarnation + 1;
                *self.seat_io(seat) =
                    SeatIo { incarnation, ..SeatIo::new(self.config.limits.max_line) };
            }
            Output::Close(link) => {
                self.seat_io(link.seat).port(link.port).into_iter().for_each(Link::close);
            }
            Output::Read { link, read } => self.set_reading(link, read),
            Output::ReadClients(read) => self.clients.set_reading(read),
            Output::OpenRelay { seat, incarnation } => self.open_relay(seat, incarnation),
            Output::Extend(servers) => {
                let setup = self.extend(servers.as_str());
                self.inputs.push_back(Input::Extended(setup.map(Box::new)));
            }
            Output::SendToClient { client_id, message } => self.send_to_client(client_id, &message),
            Output::DisconnectClient(client_id) => self.clients.disconnect(client_id),
            Output::OpenEndpoint { ticket, transport } => {
                let endpoint = self.clients.listeners.open_endpoint(transport, ticket);
                self.inputs.push_back(Input::EndpointOpened { ticket, endpoint });
            }
            Output::Configure { request, seat, operation, values } => {
                self.configure(request, seat, operation, &values);
            }
            Output::ApplyOptions { request } => self.apply_options(request),
            Output::DropOptions { request } => self.drop_options(request),
            Output::RevokeTicket(ticket) => self.clients.listeners.revoke(ticket),
            Output::RememberGreeting { seat, greeting } => {
                let spec = &self.config.components[seat.index() - 1];
                match greeting {
                    Some(greeting) => self.greetings.store(spec, greeting),
                    None => self.greetings.remove(spec),
                }
            }
            Output::RememberPoison { seat, kind } => {
                self.crashes.store(&self.config.components[seat.index() - 1], kind);
            }
            Output::Report(Diagnostic { level, seat, text }) => {
                let text = self.with_name(seat, text);
                match level {
                    Level::Warn => warn!("{text}"),
                    Level::Debug => debug!("{text}"),
                }
            }
            Output::Tap(observation) => self.on_observation(&observation),
            Output::Reloaded { problem } => self.on_reloaded(problem),
            Output::Reverted { seat, why } => self.on_reverted(seat, &why),
            Output::ReloadNote(text) => self.on_reload_note(text),
            Output::Finish(ending) => self.ending = Some(ending),
        }
    }

    /// A text about a component that begins with its name, unless the text contains the name already.
    fn with_name(&self, seat: Seat, text: String) -> String {
        let description = self.router().chain().describe(seat);
        match text.contains(&description) || text.contains(&format!("'{}'", self.name(seat))) {
            true => text,
            false => format!("{description}: {text}"),
        }
    }

    fn name(&self, seat: Seat) -> &str {
        self.router().chain().name(seat)
    }

    pub(crate) fn emit(&self, event: &TapEvent<'_>) {
        self.config.tap.iter().for_each(|tap| tap.emit(event));
    }

    /// Shows an event to the components that observe the chain.
    fn show(&self, event: &ChainEvent<'_>) {
        self.config.in_process().for_each(|component| component.observe(event));
    }

    /// Shows a message to the components that observe all messages.
    fn show_message(&self, event: &ChainEvent<'_>) {
        let observing = self.config.in_process().filter(|it| it.observes_messages());
        observing.for_each(|component| component.observe(event));
    }

    fn on_observation(&self, observation: &Observation) {
        match observation {
            Observation::Arrived { seat, toward, dialect, message } => {
                let (seat, toward) = (self.name(*seat), *toward);
                debug!(seat, ?toward, method = %message.label(), size = message.size(), "arrived");
                if let Message::Response { outcome: Outcome::Error(error), .. } = message {
                    debug!(
                        seat,
                        "error: {}",
                        client::error::one_line(&client::payload::read(error))
                    );
                }
                self.emit(&TapEvent::Arrived { seat, toward, dialect: *dialect, message });
                self.show_message(&ChainEvent::Arrived { component: seat, toward, message });
            }
            Observation::Delivered { seat, toward, dialect, message } => {
                let (seat, toward) = (self.name(*seat), *toward);
                self.emit(&TapEvent::Delivered { seat, toward, dialect: *dialect, message });
                self.show_message(&ChainEvent::Delivered { component: seat, toward, message });
            }
            Observation::Telemetry { seat, message } => {
                let Message::Notification(call) = message else { return };
                let (is_ours, seat) = (seat.is_component(), self.name(*seat));
                if is_ours {
                    telemetry::log(seat, call);
                }
                self.emit(&TapEvent::Telemetry { seat, call });
                self.show(&ChainEvent::Telemetry { component: seat, call });
            }
            Observation::Ended { seat, how } => {
                let seat = self.name(*seat);
                self.emit(&TapEvent::Ended { seat, how });
                self.show(&ChainEvent::Ended { component: seat });
            }
        }
    }

    fn set_reading(&mut self, link: engine::LinkId, read: bool) {
        if let Some(pipe) = self.seat_io(link.seat).port(link.port) {
            pipe.reading = read;
        }
        if !read {
            self.report_waiting(link.seat, link.port);
        }
    }

    /// Reads once from a link and handles the complete lines. Returns whether it did any work.
    fn read(&mut self, seat: Seat, port: Port, cx: &mut Context<'_>) -> bool {
        let Some(link) = self.seats[seat.index()].port(port) else { return false };
        // Lines that were read while the link was paused.
        let busy = link.reading && link.reported_waiting;
        if busy {
            self.handle_lines(seat, port);
        }
        busy | self.read_chunk(seat, port, cx)
    }

    /// Reads one chunk from a link and handles the complete lines.
    fn read_chunk(&mut self, seat: Seat, port: Port, cx: &mut Context<'_>) -> bool {
        let Some(link) = self.seats[seat.index()].port(port) else { return false };
        // One chunk of a paused link is read, to tell the core that data is waiting.
        if !link.reading && !link.lines.is_empty() {
            return false;
        }
        let Some(reader) = &mut link.reader else { return false };
        let closed = match link.lines.poll_fill(reader, cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(count)) => count == 0,
            Poll::Ready(Err(error)) => {
                debug!(seat = self.name(seat), %error, "reading failed");
                true
            }
        };
        if closed {
            self.on_output_closed(seat, port);
        } else {
            self.handle_lines(seat, port);
        }
        true
    }

    /// Handles the end of a link's input. Lines that were read before are handled first, even if the link is
    /// paused.
    fn on_output_closed(&mut self, seat: Seat, port: Port) {
        let incarnation = self.seat_io(seat).incarnation;
        if let Some(link) = self.seat_io(seat).port(port) {
            link.reader = None;
            link.reading = true;
        }
        self.handle_lines(seat, port);
        if self.seat_io(seat).incarnation != incarnation {
            return;
        }
        let rest = self.seat_io(seat).port(port).and_then(|link| link.lines.last_line());
        self.report_stderr();
        let link = engine::LinkId { seat, port };
        self.handle(Input::OutputClosed { link, rest: rest.map(core_line) });
    }

    /// Passes the complete lines of a link to the core, until the core pauses the link.
    fn handle_lines(&mut self, seat: Seat, port: Port) {
        let next = |shell: &mut Shell| {
            shell.seat_io(seat).port(port).filter(|link| link.reading)?.lines.next_line()
        };
        while let Some(found) = next(self) {
            let link = engine::LinkId { seat, port };
            self.handle(Input::Line { link, line: core_line(found) });
        }
        self.report_waiting(seat, port);
        self.drain_inputs();
    }

    /// Tells the core if data starts or stops waiting on a paused link.
    fn report_waiting(&mut self, seat: Seat, port: Port) {
        let Some(link) = self.seat_io(seat).port(port) else { return };
        let waits = !link.lines.is_empty() && !link.reading;
        if link.reported_waiting != waits {
            link.reported_waiting = waits;
            self.inputs.push_back(Input::Readable {
                link: engine::LinkId { seat, port },
                readable: waits,
            });
        }
    }

    /// Handles the inputs that resulted from performing outputs.
    fn drain_inputs(&mut self) {
        if let Some(input) = self.inputs.pop_front() {
            self.handle(input);
        }
    }

    /// Passes new stderr lines of the components to the core.
    pub(crate) fn report_stderr(&mut self) {
        for seat in self.all_seats() {
            let io = &self.seats[seat.index()];
            let (incarnation, lines) = (io.incarnation, io.stderr.take());
            if !lines.is_empty() {
                self.handle(Input::Stderr { seat, incarnation, lines });
            }
        }
    }

    fn on_exit(&mut self, ComponentExit { seat, incarnation, how }: ComponentExit) {
        if self.seat_io(seat).incarnation == incarnation {
            self.seat_io(seat).component = None;
            self.report_stderr();
            let spec = &self.config.components[seat.index() - 1];
            let starting = !self.router().was_initialized(seat) && spec.in_process.is_none();
            let how = match start_failure::after_exit(spec, &how).filter(|_| starting) {
                Some(failure) => ExitCause::NotStarted(failure),
                None => how,
            };
            self.handle(Input::Exited { seat, incarnation, how });
        }
    }

    /// Writes the queue of a link. Returns whether it did any work.
    pub(crate) fn write(&mut self, seat: Seat, port: Port, cx: &mut Context<'_>) -> bool {
        let mut busy = false;
        loop {
            let link = engine::LinkId { seat, port };
            let Some(pipe) = self.seats[seat.index()].port(port) else { return busy };
            let queue = self.out.queue(link);
            if pipe.is_idle(queue.map_or(0, Queue::len)) {
                return busy;
            }
            match pipe.poll_write(queue, cx) {
                Poll::Pending => return busy,
                Poll::Ready(Ok(0)) => return true,
                Poll::Ready(Ok(count)) => self.handle(Input::Written { link, count }),
                Poll::Ready(Err(error)) => {
                    self.on_write_error(seat, &error);
                    self.report_stderr();
                    self.handle(Input::InputClosed(link));
                }
            }
            busy = true;
        }
    }

    fn on_write_error(&mut self, seat: Seat, error: &std::io::Error) {
        let chain = self.core.chain();
        debug!(seat = chain.name(seat), %error, "writing failed");
        if seat == Seat::OUTER && is_disk_full(error) {
            let line = format!("cannot write to {}: {error}", chain.describe(seat));
            self.write_error.get_or_insert(ErrorKind::OutputFailed.tag(line));
        }
    }
}

/// Converts a line to the core's type.
fn core_line(line: lines::Line) -> Line {
    match line {
        lines::Line::Text(text) => Line::Text(text),
        lines::Line::TooLong { scan, length } => {
            Line::TooLong { found: Box::new(scan.result()), length }
        }
    }
}

/// Whether a write failed for lack of space. Other errors mean that the peer has closed the pipe.
fn is_disk_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}
