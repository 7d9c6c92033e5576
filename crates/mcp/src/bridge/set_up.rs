//! Set-up requests for the agent: each server of the chain is declared in a syntax that the agent
//! understands. A bridged server needs an endpoint, which the shell has to open first.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Outcome, acp, code};

use super::refusal::is_about_servers;
use super::{Bridge, missing_id_error};
use crate::broker::Context;
use crate::capability::NativeSupport;
use crate::declaration::{AcpServer, DeclareAs, ServerList, Syntax};
use crate::endpoint::{Endpoint, Ticket, Transport};

/// A set-up request that was sent to the agent.
#[derive(Debug)]
pub(crate) struct SetUp {
    /// The original request, for another attempt.
    original: Call,
    session: Option<SessionId>,
    tickets: Vec<Ticket>,
    transport: Option<Transport>,
    /// The error of the first attempt, if this is the second one.
    refused: Option<Outcome>,
}

/// A set-up request for the agent. Some of its endpoints may not be open yet.
#[derive(Debug)]
pub(crate) struct SetUpDraft {
    set_up: SetUp,
    servers: ServerList,
    edited: bool,
    endpoints: Vec<RequestedEndpoint>,
}

/// A requested endpoint for the server with this index, and the answer of the shell.
#[derive(Debug)]
struct RequestedEndpoint {
    index: usize,
    ticket: Ticket,
    answer: Option<Result<Endpoint, String>>,
}

/// What to do with the answer to a set-up request.
pub(crate) enum SetUpDecision {
    /// Pass this answer on.
    Answer(Outcome),
    /// Send the request again, with another transport.
    Retry(Box<SetUpDraft>),
}

impl SetUpDraft {
    /// Whether the shell has answered for all endpoints.
    pub(crate) fn is_complete(&self) -> bool {
        self.endpoints.iter().all(|requested| requested.answer.is_some())
    }

    /// The shell has answered for an endpoint, which may belong to this request.
    pub(crate) fn endpoint_opened(&mut self, ticket: Ticket, answer: &Result<Endpoint, String>) {
        let requested = self.endpoints.iter_mut().find(|requested| requested.ticket == ticket);
        requested.into_iter().for_each(|requested| requested.answer = Some(answer.clone()));
    }

    pub(crate) fn tickets(&self) -> &[Ticket] {
        &self.set_up.tickets
    }
}

impl Bridge {
    /// Rewrites the servers of a set-up request for the agent. `scp` tells which servers were
    /// declared as SCP servers.
    pub(crate) fn draft_set_up(
        &mut self,
        call: &Call,
        servers: ServerList,
        scp: impl Fn(&str) -> bool,
        cx: &mut Context<'_>,
    ) -> Result<SetUpDraft, Outcome> {
        let session = call.params.as_ref().and_then(acp::session_of);
        let set_up = SetUp {
            original: call.detached(),
            session,
            tickets: Vec::new(),
            transport: None,
            refused: None,
        };
        self.declare(set_up, servers, scp, None, cx)
    }

    fn declare(
        &mut self,
        set_up: SetUp,
        servers: ServerList,
        scp: impl Fn(&str) -> bool,
        transport: Option<Transport>,
        cx: &mut Context<'_>,
    ) -> Result<SetUpDraft, Outcome> {
        let rewrites = self.choose_declarations(&servers, scp, transport)?;
        let mut draft = SetUpDraft { set_up, servers, edited: false, endpoints: Vec::new() };
        for (index, declare_as) in rewrites {
            let entry = &mut draft.servers.entries_mut()[index];
            let Some(acp_server) = entry.acp_server.clone() else { continue };
            match declare_as {
                Rewrite::Declare(declare_as) => {
                    entry.rewrite(&acp_server.name, &acp_server.id, &declare_as);
                    draft.edited = true;
                }
                Rewrite::Bridge(transport) => {
                    let ticket = Ticket(self.ids.next_number());
                    self.tickets.request_endpoint(
                        ticket,
                        transport,
                        (&acp_server.id, &acp_server.name),
                        cx,
                    );
                    draft.set_up.transport = Some(transport);
                    draft.set_up.tickets.push(ticket);
                    draft.endpoints.push(RequestedEndpoint { index, ticket, answer: None });
                }
            }
        }
        Ok(draft)
    }

    /// How each server is declared to the agent. Servers that stay unchanged are left out.
    fn choose_declarations(
        &self,
        servers: &ServerList,
        scp: impl Fn(&str) -> bool,
        transport: Option<Transport>,
    ) -> Result<Vec<(usize, Rewrite)>, Outcome> {
        let declare_as = |acp_server: &AcpServer| {
            Ok(Some(match (self.native(), acp_server.syntax) {
                _ if self.agent.accepts_scp() && scp(&acp_server.id) => {
                    Rewrite::Declare(DeclareAs::Scp)
                }
                (None, Syntax::MissingId) => return Err(missing_id_error(&acp_server.name)),
                (
                    Some(NativeSupport::Current),
                    Syntax::ServerId | Syntax::AcpId | Syntax::MissingId,
                )
                | (Some(NativeSupport::Older), Syntax::Url | Syntax::Uuid | Syntax::MissingId) => {
                    return Ok(None);
                }
                (Some(NativeSupport::Current), _) => Rewrite::Declare(DeclareAs::BothIds),
                (Some(NativeSupport::Older), _) => Rewrite::Declare(DeclareAs::Url),
                (None, _) => Rewrite::Bridge(transport.map_or_else(|| self.agent.choose(), Ok)?),
            }))
        };
        let acp_servers = servers.entries().iter().enumerate();
        let acp_servers =
            acp_servers.filter_map(|(index, entry)| Some((index, entry.acp_server.as_ref()?)));
        let declared = acp_servers.filter_map(|(index, acp_server)| {
            declare_as(acp_server).map(|it| it.map(|it| (index, it))).transpose()
        });
        declared.collect()
    }

    /// Finishes a set-up request when the shell has answered for all endpoints. Returns the request
    /// for the agent, or an error if an endpoint could not be opened. Servers that are gone in the
    /// meantime are removed.
    pub(crate) fn finish_set_up(
        &mut self,
        draft: SetUpDraft,
        cx: &mut Context<'_>,
    ) -> Result<(Call, SetUp), Outcome> {
        let SetUpDraft { mut set_up, mut servers, mut edited, endpoints } = draft;
        let v2 = self.agent.is_v2();
        let mut gone = Vec::new();
        for RequestedEndpoint { index, ticket, answer } in endpoints {
            let entry = &mut servers.entries_mut()[index];
            let Some(acp_server) = entry.acp_server.clone() else { continue };
            edited = true;
            match answer.filter(|_| self.tickets.get(ticket).is_some()) {
                Some(Ok(endpoint)) => {
                    entry.rewrite(
                        &acp_server.name,
                        &acp_server.id,
                        &DeclareAs::Bridged { endpoint, v2 },
                    );
                }
                Some(Err(why)) => {
                    self.release(&set_up.tickets, cx);
                    let why = format!(
                        "the MCP server '{}' cannot be offered to {}: {why}",
                        acp_server.name,
                        self.agent.name()
                    );
                    let error = || Outcome::error(code::INTERNAL_ERROR, &why);
                    return Err(set_up.refused.take().unwrap_or_else(error));
                }
                None => gone.push(index),
            }
        }
        servers.remove_indexes(&gone);
        if let (Some(transport), Some(_)) = (set_up.transport, &set_up.refused) {
            let text = format!(
                "{} refused a session with MCP servers over {}; trying {}",
                self.agent.name(),
                transport.other().name(),
                transport.name()
            );
            self.report(text, cx);
        }
        let mut call = set_up.original.clone();
        if edited {
            call.params = call.params.as_ref().map(|params| servers.write(params));
        }
        Ok((call, set_up))
    }

    /// Handles the answer of the agent to a set-up request.
    pub(crate) fn on_set_up_answer(
        &mut self,
        mut set_up: SetUp,
        outcome: Outcome,
        scp: impl Fn(&str) -> bool,
        cx: &mut Context<'_>,
    ) -> SetUpDecision {
        let Outcome::Result(result) = &outcome else {
            let declared = set_up.tickets.iter().filter_map(|ticket| self.tickets.get(*ticket));
            let names: Vec<String> = declared.map(|declared| declared.name.clone()).collect();
            self.release(&set_up.tickets, cx);
            let because = |transport: &Transport| {
                set_up.refused.is_none() && is_about_servers(&outcome, *transport, &names)
            };
            let other = set_up
                .transport
                .filter(because)
                .and_then(|transport| self.agent.alternative(transport));
            let servers = set_up.original.params.as_ref().and_then(ServerList::find);
            if let (Some(other), Some(servers)) = (other, servers) {
                let again = SetUp { refused: Some(outcome.clone()), tickets: Vec::new(), ..set_up };
                return match self.declare(again, servers, scp, Some(other), cx) {
                    Ok(draft) => SetUpDecision::Retry(Box::new(draft)),
                    Err(_) => SetUpDecision::Answer(outcome),
                };
            }
            return SetUpDecision::Answer(set_up.refused.take().unwrap_or(outcome));
        };
        if set_up.refused.is_some() {
            self.agent.set_fallback(set_up.transport);
        }
        let session = acp::session_of(result).or(set_up.session);
        match (session, set_up.transport) {
            (Some(session), Some(transport)) => {
                let before = self.sessions.begin(session, set_up.tickets, transport);
                self.release(&before, cx);
            }
            (Some(session), None) => self.end_session(&session, cx),
            // A session without an id cannot be closed, so it ends with the chain.
            (None, _) => {}
        }
        SetUpDecision::Answer(outcome)
    }
}

/// How the declaration of a server is rewritten for the agent.
enum Rewrite {
    /// In another syntax.
    Declare(DeclareAs),
    /// As an endpoint with this transport.
    Bridge(Transport),
}
