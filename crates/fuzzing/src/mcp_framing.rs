//! The MCP broker, with MCP clients, consumers and providers that send any messages.
//!
//! The first byte of a scenario chooses the system under test. `t`, `r` and `b` are the whole core with a chain that
//! stops when a component exits, restarts it, or bypasses it. `w` is the broker alone, whose inputs may come in any
//! order. The next bytes choose the chain, the policy of the bridge, the agent's answer to `initialize`, and for each
//! proxy its generation and the servers that it declares. Then:
//!
//! | line | step |
//! |---|---|
//! | `n METHOD SERVERS` | the editor sets up a session, with its own servers |
//! | `s SEAT SIDE TEXT` | a peer sends this message |
//! | `S SEAT SIDE KIND …` | a peer sends a message of MCP over ACP, see `messages::mcp_message` |
//! | `f SEAT WHICH` | a proxy passes on a waiting message |
//! | `k SEAT WHICH OUTCOME`, `K SEAT WHICH TEXT` | a peer answers a waiting request |
//! | `p SESSION`, `e SESSION` | the editor sends a prompt, closes a session |
//! | `x SEAT WHICH` | a peer cancels its own request |
//! | `c TICKET`, `u CLIENT` | an MCP client connects, disconnects |
//! | `h CLIENT TEXT` | a client sends this line |
//! | `H CLIENT LINE ID` | a client sends a line from a template |
//! | `q HOW WHICH` | the shell opens endpoints later, or at once, or opens one |
//! | `w TIME`, `l SEAT`, `z` | time passes; a component exits; endpoints cannot be opened |
//! | `d SEAT SIDE …`, `r WHICH OUTCOME` | the broker alone: a message is delivered, its own request is answered |
//! | `y HOW SEAT` | the broker alone: a component is down, is restarted, is bypassed, a session is lost |
//!
//! Invariants: nothing panics or loops. Every line is a message. Only connected clients get messages. Each request of a
//! client is answered at most once, and exactly once if all components answer. Each ticket is issued and revoked once.
//! When all clients have disconnected, all components have exited and all sessions are closed, all tables are empty.

mod client_log;
mod endpoints;
mod messages;
pub mod simulation;

use acp_wire::{Generation, Id, Json, Message, Outcome, Side, acp};
use bytes::Bytes;
use engine::{Backoff, Fallback, Input, Restart};
use mcp::form::Direction;
use mcp::{BridgePolicy, ClientId, Ticket, Transport};
use router::{Mode, Seat};

use self::messages::{DECLARATIONS, INITIALIZE_RESULTS, SET_UPS};
use self::simulation::{Simulation, System, with_servers};
use crate::scenario::{self, Choices, trace};

/// The stored scenarios depend on this order.
const DIALECTS: [Generation; 7] = Generation::ALL;
const POLICIES: [BridgePolicy; 3] =
    [BridgePolicy::Auto, BridgePolicy::Only(Transport::Stdio), BridgePolicy::Only(Transport::Http)];
const CHAINS: [(Mode, usize); 5] =
    [(Mode::Agent, 1), (Mode::Agent, 2), (Mode::Agent, 0), (Mode::Proxy, 1), (Mode::Proxy, 2)];
const TIMES: [u64; 5] = [1, 200, 700, 2_500, 31_000];
const SESSIONS: [&str; 3] = ["S1", "S2", "S3"];

/// # Panics
/// If something does not hold.
pub fn check(scenario: &[u8]) {
    let mut lines = scenario::steps(scenario);
    let Some((first, mut choices)) = lines.next() else { return };
    let mut run = Scenario::new(first, &mut choices);
    for (what, choices) in lines {
        run.step(what, choices);
        run.check_invariants();
        if run.simulation.finished {
            return;
        }
    }
    run.end();
}

struct Scenario {
    simulation: Simulation,
    happened: usize,
    /// A session has no id, so it cannot be closed.
    has_unnamed_session: bool,
    /// A peer has sent a message that the protocol forbids, so tables may keep entries.
    breaks_rules: bool,
    /// Requests that the peers have sent.
    asked: Vec<(usize, Id)>,
}

impl Scenario {
    fn new(first: u8, choices: &mut Choices<'_>) -> Scenario {
        let (mode, count) = *choices.of(&CHAINS).unwrap_or(&CHAINS[0]);
        let policy = *choices.of(&POLICIES).unwrap_or(&BridgePolicy::Auto);
        let initialize_result = choices.text_of(&INITIALIZE_RESULTS);
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
        let simulation = Simulation::new(mode, &proxies, policy, survival, initialize_result);
        Scenario {
            simulation,
            happened: 0,
            has_unnamed_session: false,
            breaks_rules: false,
            asked: Vec::new(),
        }
    }

    fn step(&mut self, what: u8, mut choices: Choices<'_>) {
        self.happened += 1;
        trace(|| format!("{}{choices}", char::from(what)));
        match what {
            b'n' => {
                let (method, params) = *choices.of(&SET_UPS).unwrap_or(&SET_UPS[0]);
                let declared = [&[""], &DECLARATIONS[..]].concat();
                let declared = choices.text_of(&declared);
                let params = with_servers(&Json::trusted(params), declared);
                self.send_request(0, Side::Agent, method, params);
            }
            b'p' | b'e' => {
                let method = if what == b'p' { "session/prompt" } else { "session/close" };
                let session = Json::string(choices.text_of(&SESSIONS));
                let params = Json::object([("sessionId", Some(session))]);
                self.send_request(0, Side::Agent, method, params);
            }
            b's' => self.send_any_message(&mut choices),
            b'S' => self.send_mcp_message(&mut choices),
            b'x' => {
                if let Some((index, id)) = choices.of(&self.asked).cloned() {
                    let toward = self.side(index, &mut choices);
                    let params = Json::object([("requestId", Some(id.json().clone()))]);
                    let message = Message::notification(acp::CANCEL_REQUEST, params);
                    self.simulation.send(index, toward, message);
                }
            }
            b'f' => {
                let index = choices.below(self.simulation.peers.len());
                let peer = &mut self.simulation.peers[index];
                if peer.proxy && !peer.waiting.is_empty() {
                    let which = choices.below(peer.waiting.len());
                    let (toward, message) = peer.waiting.remove(which);
                    self.simulation.pass_on(index, toward, message);
                    self.simulation.process_inboxes();
                }
            }
            b'k' | b'K' => self.answer(what == b'K', choices),
            b'c' | b'h' | b'H' | b'u' => self.step_client(what, choices),
            b'w' => {
                let time = choices.of(&TIMES).copied().unwrap_or_default();
                self.simulation.wait(time);
            }
            b'l' => {
                let index = choices.below(self.simulation.peers.len());
                self.simulation.exit(index);
            }
            b'z' => self.simulation.set_full(choices.below(2) == 0),
            b'q' => match choices.below(4) {
                0 => self.simulation.set_slow_shell(true),
                1 => self.simulation.set_slow_shell(false),
                _ if self.simulation.open_endpoint_requests() > 0 => {
                    let which = choices.below(self.simulation.open_endpoint_requests());
                    self.simulation.answer_endpoint_request(which);
                }
                _ => {}
            },
            b'd' | b'r' | b'y' => self.step_broker(what, choices),
            _ => {}
        }
    }

    /// A client connects, sends a line, or disconnects.
    fn step_client(&mut self, what: u8, mut choices: Choices<'_>) {
        match what {
            b'c' => {
                let mut tickets = self.simulation.tickets();
                tickets.push((Ticket(999), Transport::Stdio));
                let (ticket, kind) = tickets[choices.below(tickets.len())];
                let client_id = self.simulation.clients.next(kind);
                self.simulation.handle_input(Input::ClientConnected { ticket, client_id });
            }
            b'h' | b'H' => {
                let Some(&client_id) = choices.of(&self.simulation.clients.client_ids()) else {
                    return;
                };
                let line = match what {
                    b'H' => messages::client_line(
                        &mut choices,
                        self.simulation.clients.open_request(client_id),
                    ),
                    _ => choices.rest(),
                };
                self.client_sends(client_id, &line);
            }
            b'u' => {
                if let Some(&client_id) = choices.of(&self.simulation.clients.client_ids()) {
                    self.disconnect(client_id);
                }
            }
            _ => {}
        }
    }

    /// Inputs of the broker, for a broker without a core.
    fn step_broker(&mut self, what: u8, mut choices: Choices<'_>) {
        match what {
            b'd' if !self.simulation.has_core() => {
                let index = choices.below(self.simulation.peers.len());
                let toward = [Side::Agent, Side::Editor][choices.below(2)];
                let message = self.mcp_message(index, toward, &mut choices);
                self.simulation.deliver(index, toward, message);
            }
            b'r' if !self.simulation.has_core() && !self.simulation.asked.is_empty() => {
                let which = choices.below(self.simulation.asked.len());
                let id = self.simulation.asked.remove(which);
                let message = Message::response(id, messages::outcome(&mut choices));
                self.simulation.deliver(self.simulation.last_peer(), Side::Agent, message);
            }
            b'y' => {
                let how = choices.below(4);
                let seat = Seat(choices.below(self.simulation.peers.len()) as u16);
                self.simulation.with_broker(|it, _, cx| match how {
                    0 => it.component_down(seat, cx),
                    1 => it.component_restarted(seat, cx),
                    2 => it.component_bypassed(seat, cx),
                    _ => it.session_lost(&SESSIONS[seat.index() % 3].into(), cx),
                });
            }
            _ => {}
        }
    }

    fn send_request(&mut self, index: usize, toward: Side, method: &str, params: Json) {
        let id = self.simulation.fresh_id(index);
        self.asked.push((index, id.clone()));
        self.simulation.send(index, toward, Message::request(id, method, params));
    }

    /// A side toward which this peer can send.
    fn side(&self, index: usize, choices: &mut Choices<'_>) -> Side {
        let chosen = [Side::Agent, Side::Editor][choices.below(2)];
        match (index, self.simulation.chain.mode) {
            (_, Mode::Proxy) => chosen,
            (0, Mode::Agent) => Side::Agent,
            (last, Mode::Agent) if last == self.simulation.peers.len() - 1 => Side::Editor,
            _ => chosen,
        }
    }

    /// A peer sends any message. With a core, its requests get new ids, and answers are left out: dialects and the
    /// router enforce both.
    fn send_any_message(&mut self, choices: &mut Choices<'_>) {
        let index = choices.below(self.simulation.peers.len());
        let toward = self.side(index, choices);
        let message = match Message::parse(&choices.rest()) {
            Ok(Message::Request { call, .. }) if self.simulation.has_core() => {
                let id = self.simulation.fresh_id(index);
                self.asked.push((index, id.clone()));
                Message::Request { id, call }
            }
            Ok(Message::Response { .. }) if self.simulation.has_core() => return,
            Ok(message) => message,
            Err(_) => return,
        };
        self.breaks_rules = true;
        self.simulation.send(index, toward, message);
    }

    fn send_mcp_message(&mut self, choices: &mut Choices<'_>) {
        let index = choices.below(self.simulation.peers.len());
        let toward = self.side(index, choices);
        let message = self.mcp_message(index, toward, choices);
        // A bridged agent must not send such messages.
        self.breaks_rules = true;
        self.simulation.send(index, toward, message);
    }

    fn mcp_message(&mut self, index: usize, toward: Side, choices: &mut Choices<'_>) -> Message {
        let asks = choices.below(2) == 0;
        let way = if toward == Side::Editor { Direction::ToServer } else { Direction::ToClient };
        let call = messages::mcp_message(way, asks, choices, &self.simulation.connections);
        match asks {
            true => {
                let id = self.simulation.fresh_id(index);
                self.asked.push((index, id.clone()));
                Message::Request { id, call }
            }
            false => Message::Notification(call),
        }
    }

    fn answer(&mut self, in_its_own_words: bool, mut choices: Choices<'_>) {
        let index = choices.below(self.simulation.peers.len());
        let count = self.simulation.peers[index].waiting.len();
        if count == 0 {
            return;
        }
        let which = choices.below(count);
        let outcome = match in_its_own_words {
            true => match Json::parse(choices.rest()) {
                Ok(result) => Outcome::Result(result),
                Err(_) => return,
            },
            false => messages::outcome(&mut choices),
        };
        if let (Message::Request { call, .. }, Outcome::Result(result)) =
            (&self.simulation.peers[index].waiting[which].1, &outcome)
        {
            let name = result.member("sessionId");
            let named = name.is_some_and(|it| it.is_string());
            self.has_unnamed_session |= mcp::may_carry_servers(call) && !named;
        }
        self.simulation.answer(index, which, outcome);
    }

    fn client_sends(&mut self, client_id: ClientId, line: &Bytes) {
        self.simulation.clients.record_sent(client_id, line);
        self.simulation.handle_input(Input::ClientMessage { client_id, line: line.clone() });
    }

    fn disconnect(&mut self, client_id: ClientId) {
        self.simulation.clients.disconnect(client_id);
        self.simulation.handle_input(Input::ClientDisconnected(client_id));
    }

    /// Checks the invariants that hold at any time.
    fn check_invariants(&self) {
        let sizes = self.simulation.broker().sizes();
        let open = self.simulation.tickets().len() + self.simulation.open_endpoint_requests();
        assert_eq!(sizes[0], open, "the broker knows exactly the valid tickets");
        let all: usize = sizes.iter().sum();
        assert!(all <= 16 + 16 * self.happened, "{sizes:?} after {} lines", self.happened);
    }

    /// Ends all requests, connections and sessions, and checks that nothing is left.
    fn end(mut self) {
        self.simulation.set_slow_shell(false);
        if !self.simulation.has_core() {
            return self.end_broker();
        }
        self.drain();
        if self.simulation.is_ending() {
            // Open requests end with the chain.
            return;
        }
        self.simulation.clients.check_answered();
        self.disconnect_all();
        self.drain();
        // Sessions that were to be resumed may exist, too.
        self.simulation.sessions.extend(SESSIONS.map(str::to_owned));
        for session in std::mem::take(&mut self.simulation.sessions) {
            let params = Json::object([("sessionId", Some(Json::string(&session)))]);
            self.send_request(0, Side::Agent, "session/close", params);
            self.drain();
        }
        self.check_invariants();
        let System::Core(shell) = &self.simulation.system else { return };
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
        ] = self.simulation.broker().sizes();
        assert_eq!(of_broker.len(), 10);
        assert_eq!([*questions, *held, *open], [0; 3], "in the chain: {sizes:?}");
        let open = [clients, connections, asked, waiting, setting_up, watched];
        assert_eq!(open, [0; 6], "{sizes:?}");
        if !self.has_unnamed_session && !self.breaks_rules {
            assert_eq!([tickets, sessions, servers, talks], [0; 4], "{sizes:?}");
        }
    }

    fn disconnect_all(&mut self) {
        for client_id in self.simulation.clients.client_ids() {
            if !self.simulation.clients.is_disconnected(client_id) {
                self.disconnect(client_id);
            }
        }
    }

    /// All peers and clients answer their open requests, until no request is open. `session/close` succeeds, all other
    /// requests fail.
    fn drain(&mut self) {
        loop {
            if self.simulation.is_ending() {
                return;
            }
            let asked = self.simulation.peers.iter().position(|it| !it.waiting.is_empty());
            if let Some(index) = asked {
                let outcome = match &self.simulation.peers[index].waiting[0].1 {
                    Message::Request { call, .. } if call.is("session/close") => {
                        Outcome::Result(Json::EMPTY_OBJECT)
                    }
                    _ => Outcome::error(-32000, "it is late"),
                };
                self.simulation.answer(index, 0, outcome);
            } else if let Some((client_id, id)) = self.simulation.clients.client_with_open_request()
            {
                let answer = Message::response(id, Outcome::error(-1, "it is late"));
                self.client_sends(client_id, &answer.to_line().into());
            } else if self.simulation.deadline().is_some() {
                self.simulation.wait(31_000);
            } else {
                return;
            }
        }
    }

    /// Without a core: disconnects all clients, ends all components, and checks that nothing is left.
    fn end_broker(mut self) {
        self.disconnect_all();
        while let Some(id) = self.simulation.asked.pop() {
            let message = Message::response(id, Outcome::error(-32000, "it is late"));
            self.simulation.deliver(self.simulation.last_peer(), Side::Agent, message);
        }
        for index in 0..self.simulation.peers.len() {
            self.simulation.exit(index);
        }
        let sizes = self.simulation.broker().sizes();
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
