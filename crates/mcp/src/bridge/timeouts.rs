//! Timeouts of the requests of MCP clients.
//!
//! A timeout starts when the client sends the request. It includes the time for the connect and for
//! the server's `initialize`. `initialize` and `server/discover` of a client have no timeout here,
//! because the bridge answers them itself after two seconds.

use std::collections::BTreeMap;

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Message, Outcome, code};
use router::Time;

use super::client::ClientState;
use super::requests::AnswerStatus;
use super::{Bridge, cancel_notification};
use crate::broker::{ANSWER_TIMEOUT, Action, Context, timeout_error};
use crate::deadlines::Deadlines;
use crate::endpoint::ClientId;

/// The most open requests with a timeout that a client may have.
pub(super) const MAX_OPEN_REQUESTS: usize = 1000;

/// The requests of one client that have a timeout.
#[derive(Debug, Default)]
pub(super) struct Timeouts {
    /// The method of each request, by its id.
    open: BTreeMap<Id, String>,
    deadlines: Deadlines<Id>,
}

impl Timeouts {
    pub(super) fn insert(&mut self, id: &Id, call: &Call, now: Time) {
        let id = id.detached();
        self.open.insert(id.clone(), call.method.name().into_owned());
        self.deadlines.insert(id, now.plus(ANSWER_TIMEOUT));
    }

    pub(super) fn remove(&mut self, id: &Id) {
        self.open.remove(id);
        self.deadlines.remove(id);
    }

    pub(super) fn first(&self) -> Option<Time> {
        self.deadlines.first()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN_REQUESTS
    }

    fn take_due(&mut self, now: Time) -> BTreeMap<Id, String> {
        let due = self.deadlines.take_due(now).into_iter();
        due.filter_map(|id| self.open.remove(&id).map(|method| (id, method))).collect()
    }
}

impl Bridge {
    /// Answers the requests that have timed out. `provider` names the provider of a server.
    pub(super) fn time_out(
        &mut self,
        provider: impl Fn(&str) -> Option<String>,
        cx: &mut Context<'_>,
    ) {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= cx.now);
        for client_id in self.clients.client_ids(|client| is_due(client.timeouts.first())) {
            let Some(client) = self.clients.get_mut(client_id) else { continue };
            let expired = client.timeouts.take_due(cx.now);
            let is_expired =
                |waits: &Option<Id>| waits.as_ref().is_some_and(|id| expired.contains_key(id));
            client.deferred.retain(|(id, _)| !is_expired(id));
            if let ClientState::Connecting(queued) = &mut client.state {
                queued.retain(|(id, _)| !is_expired(id));
            }
            client.count_queued();
            let provider = provider(&client.server).unwrap_or_else(|| "its provider".into());
            let server = client.name.clone();
            for (id, method) in expired {
                let error = timeout_error(&provider, &method, &server);
                self.cancel_requests(client_id, &id, AnswerStatus::Discarded, cx);
                let message = Message::response(id, Outcome::Error(error));
                cx.out.push(Action::SendToClient { client_id, message });
            }
        }
    }

    /// Cancels the requests of a client with this id that were sent to the server, and records why
    /// their answers are not needed any more.
    pub(super) fn cancel_requests(
        &mut self,
        client_id: ClientId,
        id: &Id,
        reason: AnswerStatus,
        cx: &mut Context<'_>,
    ) {
        for number in self.requests.stop_awaiting(client_id, id, reason) {
            self.inject(cancel_notification(&self.request_id(number)), cx);
        }
    }

    /// Cancels all requests of a client that were sent to the server.
    pub(super) fn cancel_all_requests(&mut self, client_id: ClientId, cx: &mut Context<'_>) {
        for number in self.requests.stop_awaiting_all(client_id) {
            self.inject(cancel_notification(&self.request_id(number)), cx);
        }
    }

    /// Refuses a request of a client that has reached a limit of open requests.
    pub(super) fn refuse_excess_request(
        &self,
        client_id: ClientId,
        id: Id,
        limit: usize,
        cx: &mut Context<'_>,
    ) {
        let server = self.clients.get(client_id).map_or("", |client| &client.name);
        let why = format!(
            "{limit} requests wait for the MCP server '{server}', which does not answer; send the \
             request again later"
        );
        let error = error_object(code::INTERNAL_ERROR, &why, None);
        let message = Message::response(id, Outcome::Error(error));
        cx.out.push(Action::SendToClient { client_id, message });
    }
}
