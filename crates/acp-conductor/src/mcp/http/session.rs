//! One HTTP client: which of its open responses gets what is said to it.
//!
//! - An answer goes to the POST that carried the request, and progress of that request, too.
//! - A request of the server is most likely about an open request of the client: it goes to the
//!   latest POST, else to the GET stream. (There are clients that refuse it on the GET stream.)
//! - Other notifications go to the GET stream, else to the latest POST.
//! - What finds no stream is kept until one comes.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use acp_wire::{Call, Id, Message, Outcome, code};
use bytes::Bytes;
use mcp::{ClientId, Ticket};

use crate::mcp::Said;

/// How much is kept for a client that has nothing open to hear it on.
const MOST_KEPT: usize = 1000;
const MOST_BYTES_KEPT: usize = 8 * 1024 * 1024;

const PROGRESS: &str = "notifications/progress";

pub(super) struct Session {
    pub client_id: ClientId,
    pub ticket: Ticket,
    state: Mutex<State>,
}

/// How long a client stays.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stay {
    /// As long as its one POST.
    OnePost,
    /// It has asked for a session; once it has read the answer it stays.
    Asked,
    /// Until it says that it leaves.
    Session,
}

struct State {
    said: Said,
    stay: Stay,
    /// By the order in which they were opened.
    streams: BTreeMap<u64, Stream>,
    opened: u64,
    kept: VecDeque<Saying>,
    bytes_kept: usize,
    has_lost: bool,
    /// The client has left.
    left: bool,
    /// Nothing more will be said.
    over: bool,
    attendant: Option<Waker>,
    /// Whom to wake as soon as the lock is free.
    awake: Vec<Waker>,
}

/// What one response still has to carry.
struct Stream {
    kind: Kind,
    sayings: VecDeque<Saying>,
    /// Ends when it has carried this.
    complete: bool,
    reader: Option<Waker>,
}

enum Kind {
    Get,
    Post { requests: Vec<Request>, only_answers: bool },
}

/// A request that waits for its answer.
pub(super) struct Request {
    pub id: Id,
    token: Option<Id>,
}

impl Request {
    pub fn new(id: &Id, call: &Call) -> Request {
        let token = call.params.as_ref().and_then(|it| it.at(&["_meta", "progressToken"]));
        Request { id: id.detached(), token: token.and_then(|it| Id::new(it.detached())) }
    }
}

/// One message to the client.
pub(super) struct Saying {
    pub line: Bytes,
    pub sort: Sort,
    /// It came from the conductor, who counts what is unread.
    counts: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sort {
    Result,
    /// With its code.
    Error(i64),
    Request,
    /// A notification.
    Other,
}

impl Session {
    pub fn new(client_id: ClientId, ticket: Ticket, said: Said, stay: Stay) -> Arc<Session> {
        let state = State {
            said,
            stay,
            streams: BTreeMap::new(),
            opened: 0,
            kept: VecDeque::new(),
            bytes_kept: 0,
            has_lost: false,
            left: false,
            over: false,
            attendant: None,
            awake: Vec::new(),
        };
        Arc::new(Session { client_id, ticket, state: Mutex::new(state) })
    }

    /// The response to a POST with these requests. One that can carry `only_answers` gets nothing else.
    pub fn open_post(self: &Arc<Session>, requests: Vec<Request>, only_answers: bool) -> Reader {
        let kind = Kind::Post { requests, only_answers };
        Reader { number: self.change(|state| state.open(kind)), session: self.clone() }
    }

    /// The response to a GET. It takes the place of an earlier one, which may be broken without our
    /// knowing, and gets what that one has not carried.
    pub fn open_get(self: &Arc<Session>) -> Reader {
        let number = self.change(|state| {
            let mut sayings = VecDeque::new();
            for stream in state.streams.values_mut() {
                if matches!(stream.kind, Kind::Get) {
                    sayings.append(&mut stream.sayings);
                    stream.complete = true;
                    state.awake.extend(stream.reader.take());
                }
            }
            let number = state.open(Kind::Get);
            if let Some(stream) = state.streams.get_mut(&number) {
                sayings.append(&mut stream.sayings);
                stream.sayings = sayings;
            }
            number
        });
        Reader { session: self.clone(), number }
    }

    /// The client says that it leaves.
    pub fn leave(&self) {
        self.change(State::leave);
    }

    /// Takes what is said to the client to where it belongs. Ready when the call is over, be it that
    /// the client has left or that nothing more will be said.
    pub fn poll_attend(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.change(|state| {
            while !state.left {
                let next = pin!(state.said.next()).poll(cx);
                match next {
                    Poll::Ready(Some(line)) => state.say(line),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        state.attendant = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(())
        })
    }

    /// The call is over: whatever is still open is answered and ends.
    pub fn end(&self) {
        self.change(|state| {
            state.over = true;
            for stream in state.streams.values_mut() {
                stream.end();
                state.awake.extend(stream.reader.take());
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let awake = std::mem::take(&mut state.awake);
        drop(state);
        awake.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    fn open(&mut self, kind: Kind) -> u64 {
        let number = self.opened;
        self.opened += 1;
        let mut stream = Stream { kind, sayings: VecDeque::new(), complete: false, reader: None };
        if stream.takes_anything() {
            self.bytes_kept = 0;
            self.has_lost = false;
            stream.sayings.append(&mut self.kept);
        }
        if self.over {
            stream.end();
        }
        self.streams.insert(number, stream);
        number
    }

    fn say(&mut self, line: Bytes) {
        match Message::parse(&line) {
            Ok(Message::Response { id, outcome, .. }) if !id.is_null() => {
                let sort = match &outcome {
                    Outcome::Result(_) => Sort::Result,
                    Outcome::Error(_) => Sort::Error(outcome.error_code().unwrap_or_default()),
                };
                match self.stream(|request| request.id == id) {
                    Some(stream) => {
                        stream.close_request(&id);
                        stream.sayings.push_back(Saying { line, sort, counts: true });
                        let reader = stream.reader.take();
                        self.awake.extend(reader);
                    }
                    None => {
                        tracing::debug!("an MCP client does not wait for its answer any more");
                        self.said.was_read(line.len());
                    }
                }
            }
            Ok(Message::Notification(call)) if call.is(PROGRESS) => {
                let token = call.params.and_then(|it| it.member("progressToken")).and_then(Id::new);
                match self.stream(|request| token.is_some() && request.token == token) {
                    Some(stream) if stream.takes_anything() => {
                        stream.sayings.push_back(Saying { line, sort: Sort::Other, counts: true });
                        let reader = stream.reader.take();
                        self.awake.extend(reader);
                    }
                    // It wants the bare answer.
                    Some(_) => self.said.was_read(line.len()),
                    None => self.say_anywhere(line, Sort::Other),
                }
            }
            Ok(Message::Request { .. }) => self.say_anywhere(line, Sort::Request),
            Ok(_) => self.say_anywhere(line, Sort::Other),
            Err(error) => {
                tracing::warn!("what was to be said to an MCP client is not a message: {error}");
                self.said.was_read(line.len());
            }
        }
    }

    /// Says what belongs to no request of the client, as far as we know.
    fn say_anywhere(&mut self, line: Bytes, sort: Sort) {
        let open = || self.streams.iter().rev().filter(|(_, stream)| stream.takes_anything());
        let wanted = |stream: &Stream| matches!(stream.kind, Kind::Get) == (sort == Sort::Other);
        let best = open().find(|(_, stream)| wanted(stream)).or_else(|| open().next());
        let number = best.map(|(number, _)| *number);
        let saying = Saying { line, sort, counts: true };
        match number.and_then(|number| self.streams.get_mut(&number)) {
            Some(stream) => {
                stream.sayings.push_back(saying);
                self.awake.extend(stream.reader.take());
            }
            None => self.keep(saying),
        }
    }

    fn keep(&mut self, saying: Saying) {
        self.bytes_kept += saying.line.len();
        self.kept.push_back(saying);
        while self.kept.len() > MOST_KEPT || self.bytes_kept > MOST_BYTES_KEPT {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes_kept -= oldest.line.len();
            self.said.was_read(oldest.line.len());
            if !std::mem::replace(&mut self.has_lost, true) {
                tracing::warn!(
                    "an MCP client on HTTP has no stream open for messages from the server: those \
                     beyond the last {MOST_KEPT} or {MOST_BYTES_KEPT} bytes are lost"
                );
            }
        }
    }

    /// The open stream with such a request. The oldest, should a client use an id twice.
    fn stream(&mut self, is_it: impl Fn(&Request) -> bool) -> Option<&mut Stream> {
        self.streams.values_mut().find(|stream| match &stream.kind {
            Kind::Post { requests, .. } => requests.iter().any(&is_it),
            Kind::Get => false,
        })
    }

    fn leave(&mut self) {
        self.left = true;
        self.awake.extend(self.attendant.take());
    }
}

impl Stream {
    /// Can it carry what belongs to no request of its own?
    fn takes_anything(&self) -> bool {
        !self.complete && !matches!(self.kind, Kind::Post { only_answers: true, .. })
    }

    fn close_request(&mut self, id: &Id) {
        if let Kind::Post { requests, .. } = &mut self.kind {
            if let Some(at) = requests.iter().position(|request| request.id == *id) {
                requests.remove(at);
            }
            self.complete = requests.is_empty();
        }
    }

    fn end(&mut self) {
        self.complete = true;
        let Kind::Post { requests, .. } = &mut self.kind else { return };
        for request in requests.drain(..) {
            let words = "the connection to the MCP server has ended";
            let answer = Message::response(request.id, Outcome::error(code::INTERNAL_ERROR, words));
            let sort = Sort::Error(code::INTERNAL_ERROR);
            self.sayings.push_back(Saying { line: answer.to_line().into(), sort, counts: false });
        }
    }
}

/// One response as it is written. Dropping it means that the client does not read it any more.
pub(super) struct Reader {
    session: Arc<Session>,
    number: u64,
}

impl Reader {
    /// The next message, `None` at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Saying>> {
        self.session.change(|state| {
            let Some(stream) = state.streams.get_mut(&self.number) else {
                return Poll::Ready(None);
            };
            match stream.sayings.pop_front() {
                Some(saying) => {
                    if saying.counts {
                        state.said.was_read(saying.line.len());
                    }
                    if state.stay == Stay::Asked && saying.sort == Sort::Result {
                        state.stay = Stay::Session;
                    }
                    Poll::Ready(Some(saying))
                }
                None if stream.complete => Poll::Ready(None),
                None => {
                    stream.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    pub async fn next(&mut self) -> Option<Saying> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.session.change(|state| {
            let Some(stream) = state.streams.remove(&self.number) else { return };
            for saying in stream.sayings {
                match saying.sort {
                    // Another stream can still carry it.
                    Sort::Request | Sort::Other => state.say_anywhere(saying.line, saying.sort),
                    _ if saying.counts => state.said.was_read(saying.line.len()),
                    _ => {}
                }
            }
            if state.stay != Stay::Session {
                state.leave();
            }
        });
    }
}
