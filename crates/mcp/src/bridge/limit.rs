//! Requests of MCP clients that are answered with an error when their server stays silent.
//!
//! The limit runs from the moment the client asks, however much of that time is spent on connecting
//! and on the server's `initialize`. (`initialize` and `server/discover` of a client have no limit:
//! the bridge answers them itself after two seconds.)

use router::Time;
use wire::{Id, Message, Outcome};

use super::client::State;
use super::{Asked, Bridge, cancel};
use crate::exchange::{Step, silence};
use crate::ports::Caller;

impl Bridge {
    /// Answers the requests whose time is over. `provider` names the provider of a server.
    pub(super) fn give_up(
        &mut self,
        now: Time,
        provider: impl Fn(&str) -> Option<String>,
        steps: &mut Vec<Step>,
    ) {
        let mut over: Vec<(Caller, Id, String)> = Vec::new();
        for (caller, client) in &mut self.clients {
            let due = client.limits.extract_if(.., |(_, _, until)| *until <= now);
            over.extend(due.map(|(id, method, _)| (*caller, id, method)));
        }
        for (caller, id, method) in over {
            let Some(client) = self.clients.get_mut(&caller) else { continue };
            let is_meant = |(waits, _): &mut (Option<Id>, _)| waits.as_ref() == Some(&id);
            client.early.retain_mut(|it| !is_meant(it));
            if let State::Connecting(waiting) = &mut client.state {
                waiting.retain_mut(|it| !is_meant(it));
            }
            client.count_waiting();
            let provider = provider(&client.server).unwrap_or_else(|| "its provider".into());
            let error = silence(&provider, &method, &client.name);
            let mut sent = Vec::new();
            for (number, asked) in &mut self.asked {
                if let Asked::Call { caller: whose, id: theirs, wanted } = asked
                    && *whose == caller
                    && *theirs == id
                    && wanted.is_open()
                {
                    *wanted = super::Wanted::No;
                    sent.push(*number);
                }
            }
            for number in sent {
                self.arrive(cancel(&self.our_id(number)), steps);
            }
            let message = Message::response(id, Outcome::Error(error));
            steps.push(Step::Tell { caller, message });
        }
    }
}
