//! The broker: MCP clients, consumers and providers that say anything.
//!
//! The first line of a story says what is looked at. `t` is the whole core, in which whoever asks is
//! answered by whom it asked, and a chain that ends when a component leaves; `r` is one that restarts
//! its components, `b` one that leaves them out. `w` is the broker alone, to which anything may
//! happen. Then come the chain, the policy of the bridge, what the agent can do, and for each proxy its
//! dialect and the servers it declares (a byte each). Then:
//!
//! | line | what happens |
//! |---|---|
//! | `n METHOD SERVERS` | the editor sets a session up, with servers of its own |
//! | `s SEAT SIDE TEXT` | a seat says this message |
//! | `S SEAT SIDE KIND …` | a seat says a word of MCP over ACP, see `words::word` |
//! | `f SEAT WHICH` | a proxy passes on what waits there |
//! | `k SEAT WHICH OUTCOME`, `K SEAT WHICH TEXT` | a seat answers what waits there |
//! | `p SESSION`, `e SESSION` | the editor prompts, ends a session |
//! | `x SEAT WHICH` | a seat cancels what it has asked |
//! | `c TICKET`, `u CLIENT` | an MCP client calls, hangs up |
//! | `h CLIENT TEXT` | a client says this line |
//! | `H CLIENT LINE ID` | a client says a line of the documents |
//! | `q HOW WHICH` | the shell takes its time to open places, or does not, or answers one question |
//! | `w TIME`, `l SEAT`, `z` | time passes; a component leaves; there is no room for clients |
//! | `d SEAT SIDE …`, `r WHICH OUTCOME` | the broker alone: a word is delivered, a question of its own is answered |
//! | `y HOW SEAT` | the broker alone: a component parts, returns, is bypassed, a session is lost |
//!
//! What must hold: nothing panics or runs in circles. Everything that is said is a message. Only
//! clients that are there are told anything; each of their requests is answered at most once, and in
//! a chain in which everybody answers, once. Tickets are given out and revoked once. When all have
//! hung up, left, and ended their sessions, nothing is left.

mod desk;
mod ledger;
mod words;
pub mod world;

use acp_wire::{Generation, Id, Json, Message, Outcome, Side, acp};
use bytes::Bytes;
use engine::{Backoff, Fallback, Input, Restart};
use mcp::form::Direction;
use mcp::{BridgePolicy, ClientId, Ticket, Transport};
use router::{Mode, Seat};

use self::words::{ABILITIES, DECLARATIONS, SET_UPS};
use self::world::{Core, World, with_servers};
use crate::story::{self, Choices, tell};

/// In an order that the stored stories rely on.
const DIALECTS: [Generation; 7] = Generation::ALL;
const POLICIES: [BridgePolicy; 3] =
    [BridgePolicy::Auto, BridgePolicy::Only(Transport::Stdio), BridgePolicy::Only(Transport::Http)];
const CHAINS: [(Mode, usize); 5] =
    [(Mode::Agent, 1), (Mode::Agent, 2), (Mode::Agent, 0), (Mode::Proxy, 1), (Mode::Proxy, 2)];
const TIMES: [u64; 5] = [1, 200, 700, 2_500, 31_000];
const SESSIONS: [&str; 3] = ["S1", "S2", "S3"];

/// # Panics
/// If something does not hold.
pub fn check(story: &[u8]) {
    let mut lines = story::lines(story);
    let Some((first, mut choices)) = lines.next() else { return };
    let mut play = Play::new(first, &mut choices);
    for (what, choices) in lines {
        play.happen(what, choices);
        play.look();
        if play.world.finished {
            return;
        }
    }
    play.end();
}

struct Play {
    world: World,
    happened: usize,
    /// Sessions that nobody can end: they have no name.
    nameless: bool,
    /// Somebody has said what it must not: what becomes of that is its own business.
    rude: bool,
    /// What the seats have asked by themselves.
    asked: Vec<(usize, Id)>,
}

impl Play {
    fn new(first: u8, choices: &mut Choices<'_>) -> Play {
        let (mode, count) = *choices.of(&CHAINS).unwrap_or(&CHAINS[0]);
        let policy = *choices.of(&POLICIES).unwrap_or(&BridgePolicy::Auto);
        let abilities = choices.text_of(&ABILITIES);
        let proxies: Vec<(Generation, &str)> = (0..count)
            .map(|_| {
                let generation = choices.of(&DIALECTS).copied().unwrap_or(Generation::CURRENT);
                (generation, choices.text_of(&DECLARATIONS))
            })
            .collect();
        let backoff = Backoff { max_restarts: 3, ..Backoff::default() };
        let survival = match first {
            b'w' => None,
            b'r' => Some((Restart::Always, Fallback::Bypass)),
            b'b' => Some((Restart::Never, Fallback::Bypass)),
            _ => Some((Restart::Never, Fallback::Stop)),
        };
        let survival = survival.map(|(restart, fallback)| engine::ComponentPolicy {
            restart,
            fallback,
            backoff,
            named: false,
        });
        let world = World::new(mode, &proxies, policy, survival, abilities);
        Play { world, happened: 0, nameless: false, rude: false, asked: Vec::new() }
    }

    fn happen(&mut self, what: u8, mut choices: Choices<'_>) {
        self.happened += 1;
        tell(|| format!("{}{choices}", char::from(what)));
        match what {
            b'n' => {
                let (method, params) = *choices.of(&SET_UPS).unwrap_or(&SET_UPS[0]);
                let declared = [&[""], &DECLARATIONS[..]].concat();
                let declared = choices.text_of(&declared);
                let params = with_servers(&Json::trusted(params), declared);
                self.ask(0, Side::Agent, method, params);
            }
            b'p' | b'e' => {
                let method = if what == b'p' { "session/prompt" } else { "session/close" };
                let session = Json::string(choices.text_of(&SESSIONS));
                let params = Json::object([("sessionId", Some(session))]);
                self.ask(0, Side::Agent, method, params);
            }
            b's' => self.say_anything(&mut choices),
            b'S' => self.say_word(&mut choices),
            b'x' => {
                if let Some((index, id)) = choices.of(&self.asked).cloned() {
                    let toward = self.side(index, &mut choices);
                    let params = Json::object([("requestId", Some(id.json().clone()))]);
                    let message = Message::notification(acp::CANCEL_REQUEST, params);
                    self.world.send(index, toward, message);
                }
            }
            b'f' => {
                let index = choices.below(self.world.sitters.len());
                let sitter = &mut self.world.sitters[index];
                if sitter.proxy && !sitter.waiting.is_empty() {
                    let which = choices.below(sitter.waiting.len());
                    let (toward, message) = sitter.waiting.remove(which);
                    self.world.pass_on(index, toward, message);
                    self.world.pump();
                }
            }
            b'k' | b'K' => self.answer(what == b'K', choices),
            b'c' | b'h' | b'H' | b'u' => self.client_acts(what, choices),
            b'w' => {
                let time = choices.of(&TIMES).copied().unwrap_or_default();
                self.world.wait(time);
            }
            b'l' => {
                let index = choices.below(self.world.sitters.len());
                self.world.leave(index);
            }
            b'z' => self.world.set_full(choices.below(2) == 0),
            b'q' => match choices.below(4) {
                0 => self.world.slow_shell(true),
                1 => self.world.slow_shell(false),
                _ if self.world.asked_of_shell() > 0 => {
                    let which = choices.below(self.world.asked_of_shell());
                    self.world.shell_answers(which);
                }
                _ => {}
            },
            b'd' | b'r' | b'y' => self.broker_acts(what, choices),
            _ => {}
        }
    }

    /// A client calls, says a line, or hangs up.
    fn client_acts(&mut self, what: u8, mut choices: Choices<'_>) {
        match what {
            b'c' => {
                let mut tickets = self.world.tickets();
                tickets.push((Ticket(999), Transport::Stdio));
                let (ticket, kind) = tickets[choices.below(tickets.len())];
                let client_id = self.world.ledger.next(kind);
                self.world.happen(Input::ClientConnected { ticket, client_id });
            }
            b'h' | b'H' => {
                let Some(&client_id) = choices.of(&self.world.ledger.client_ids()) else { return };
                let line = match what {
                    b'H' => words::client_line(&mut choices, self.world.ledger.owed(client_id)),
                    _ => choices.rest(),
                };
                self.hear(client_id, &line);
            }
            b'u' => {
                if let Some(&client_id) = choices.of(&self.world.ledger.client_ids()) {
                    self.hang_up(client_id);
                }
            }
            _ => {}
        }
    }

    /// What can only be done to a broker without a core around it, and what becomes of a seat.
    fn broker_acts(&mut self, what: u8, mut choices: Choices<'_>) {
        match what {
            b'd' if !self.world.is_whole() => {
                let index = choices.below(self.world.sitters.len());
                let toward = [Side::Agent, Side::Editor][choices.below(2)];
                let message = self.word(index, toward, &mut choices);
                self.world.deliver(index, toward, message);
            }
            b'r' if !self.world.is_whole() && !self.world.asked.is_empty() => {
                let which = choices.below(self.world.asked.len());
                let id = self.world.asked.remove(which);
                let message = Message::response(id, words::outcome(&mut choices));
                self.world.deliver(self.world.far(), Side::Agent, message);
            }
            b'y' => {
                let how = choices.below(4);
                let seat = Seat(choices.below(self.world.sitters.len()) as u16);
                self.world.with_broker(|it, _, cx| match how {
                    0 => it.component_down(seat, cx),
                    1 => it.component_restarted(seat, cx),
                    2 => it.component_bypassed(seat, cx),
                    _ => it.session_lost(&SESSIONS[seat.index() % 3].into(), cx),
                });
            }
            _ => {}
        }
    }

    fn ask(&mut self, index: usize, toward: Side, method: &str, params: Json) {
        let id = self.world.fresh_id(index);
        self.asked.push((index, id.clone()));
        self.world.send(index, toward, Message::request(id, method, params));
    }

    /// Which way somebody can speak at all.
    fn side(&self, index: usize, choices: &mut Choices<'_>) -> Side {
        let chosen = [Side::Agent, Side::Editor][choices.below(2)];
        match (index, self.world.chain.mode) {
            (_, Mode::Proxy) => chosen,
            (0, Mode::Agent) => Side::Agent,
            (last, Mode::Agent) if last == self.world.sitters.len() - 1 => Side::Editor,
            _ => chosen,
        }
    }

    /// A seat says a text. Its requests have ids of its own, and it answers only what it was asked:
    /// dialects and the router see to that.
    fn say_anything(&mut self, choices: &mut Choices<'_>) {
        let index = choices.below(self.world.sitters.len());
        let toward = self.side(index, choices);
        let message = match Message::parse(&choices.rest()) {
            Ok(Message::Request { call, .. }) if self.world.is_whole() => {
                let id = self.world.fresh_id(index);
                self.asked.push((index, id.clone()));
                Message::Request { id, call }
            }
            Ok(Message::Response { .. }) if self.world.is_whole() => return,
            Ok(message) => message,
            Err(_) => return,
        };
        self.rude = true;
        self.world.send(index, toward, message);
    }

    fn say_word(&mut self, choices: &mut Choices<'_>) {
        let index = choices.below(self.world.sitters.len());
        let toward = self.side(index, choices);
        let message = self.word(index, toward, choices);
        // An agent that is bridged does not speak so itself.
        self.rude = true;
        self.world.send(index, toward, message);
    }

    fn word(&mut self, index: usize, toward: Side, choices: &mut Choices<'_>) -> Message {
        let asks = choices.below(2) == 0;
        let way = if toward == Side::Editor { Direction::ToServer } else { Direction::ToClient };
        let call = words::word(way, asks, choices, &self.world.connections);
        match asks {
            true => {
                let id = self.world.fresh_id(index);
                self.asked.push((index, id.clone()));
                Message::Request { id, call }
            }
            false => Message::Notification(call),
        }
    }

    fn answer(&mut self, in_its_own_words: bool, mut choices: Choices<'_>) {
        let index = choices.below(self.world.sitters.len());
        let count = self.world.sitters[index].waiting.len();
        if count == 0 {
            return;
        }
        let which = choices.below(count);
        let outcome = match in_its_own_words {
            true => match Json::parse(choices.rest()) {
                Ok(result) => Outcome::Result(result),
                Err(_) => return,
            },
            false => words::outcome(&mut choices),
        };
        if let (Message::Request { call, .. }, Outcome::Result(result)) =
            (&self.world.sitters[index].waiting[which].1, &outcome)
        {
            let name = result.member("sessionId");
            let named = name.is_some_and(|it| it.is_string());
            self.nameless |= mcp::may_carry_servers(call) && !named;
        }
        self.world.answer(index, which, outcome);
    }

    fn hear(&mut self, client_id: ClientId, line: &Bytes) {
        self.world.ledger.heard(client_id, line);
        self.world.happen(Input::ClientMessage { client_id, line: line.clone() });
    }

    fn hang_up(&mut self, client_id: ClientId) {
        self.world.ledger.gone(client_id);
        self.world.happen(Input::ClientDisconnected(client_id));
    }

    /// What can be seen at any time.
    fn look(&self) {
        let sizes = self.world.broker().sizes();
        let open = self.world.tickets().len() + self.world.asked_of_shell();
        assert_eq!(sizes[0], open, "all tickets that are good, and no others, are known");
        let all: usize = sizes.iter().sum();
        assert!(all <= 16 + 16 * self.happened, "{sizes:?} after {} lines", self.happened);
    }

    /// Everybody ends what it has begun.
    fn end(mut self) {
        self.world.slow_shell(false);
        if !self.world.is_whole() {
            return self.end_alone();
        }
        self.drain();
        if self.world.is_ending() {
            // What is open ends with the chain.
            return;
        }
        self.world.ledger.check_answered();
        self.hang_up_all();
        self.drain();
        // Those that were to be taken up again may stand, too.
        self.world.sessions.extend(SESSIONS.map(str::to_owned));
        for session in std::mem::take(&mut self.world.sessions) {
            let params = Json::object([("sessionId", Some(Json::string(&session)))]);
            self.ask(0, Side::Agent, "session/close", params);
            self.drain();
        }
        self.look();
        let Core::Whole(shell) = &self.world.core else { return };
        let sizes = shell.core().stages().sizes();
        let [questions, held, open, _, of_broker @ ..] = &sizes[..] else { return };
        let [
            tickets,
            sessions,
            clients,
            connections,
            asked,
            servers,
            waiting,
            setting_up,
            talks,
            watched,
        ] = self.world.broker().sizes();
        assert_eq!(of_broker.len(), 10);
        assert_eq!([*questions, *held, *open], [0; 3], "in the chain: {sizes:?}");
        let open = [clients, connections, asked, waiting, setting_up, watched];
        assert_eq!(open, [0; 6], "{sizes:?}");
        if !self.nameless && !self.rude {
            assert_eq!([tickets, sessions, servers, talks], [0; 4], "{sizes:?}");
        }
    }

    fn hang_up_all(&mut self) {
        for client_id in self.world.ledger.client_ids() {
            if !self.world.ledger.is_gone(client_id) {
                self.hang_up(client_id);
            }
        }
    }

    /// Everybody answers what it was asked, until nothing moves any more. Only a session can be ended;
    /// for everything else it is too late.
    fn drain(&mut self) {
        loop {
            if self.world.is_ending() {
                return;
            }
            let asked = self.world.sitters.iter().position(|it| !it.waiting.is_empty());
            if let Some(index) = asked {
                let outcome = match &self.world.sitters[index].waiting[0].1 {
                    Message::Request { call, .. } if call.is("session/close") => {
                        Outcome::Result(Json::EMPTY)
                    }
                    _ => Outcome::error(-32000, "it is late"),
                };
                self.world.answer(index, 0, outcome);
            } else if let Some((client_id, id)) = self.world.ledger.debtor() {
                let answer = Message::response(id, Outcome::error(-1, "it is late"));
                self.hear(client_id, &answer.to_line().into());
            } else if self.world.deadline().is_some() {
                self.world.wait(31_000);
            } else {
                return;
            }
        }
    }

    /// Without a router: all have hung up and left.
    fn end_alone(mut self) {
        self.hang_up_all();
        while let Some(id) = self.world.asked.pop() {
            let message = Message::response(id, Outcome::error(-32000, "it is late"));
            self.world.deliver(self.world.far(), Side::Agent, message);
        }
        for index in 0..self.world.sitters.len() {
            self.world.leave(index);
        }
        let sizes = self.world.broker().sizes();
        for (what, index) in [
            ("clients", 2),
            ("connections", 3),
            ("questions", 4),
            ("held messages", 6),
            ("set-ups", 7),
            ("conversations", 8),
            ("watched answers", 9),
        ] {
            assert_eq!(sizes[index], 0, "{what} are left: {sizes:?}");
        }
    }
}
