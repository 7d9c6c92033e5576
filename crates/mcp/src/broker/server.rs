//! A server that somebody in the chain provides.

use std::collections::BTreeSet;

use acp_wire::acp::SessionId;
use acp_wire::{Generation, Json, LinkProtocol};
use router::Seat;

use crate::declaration::{AcpServer, Syntax};
use crate::form::Form;

#[derive(Debug)]
pub struct Server {
    /// Who provides it.
    pub seat: Seat,
    /// How its provider calls it, without one leading `acp:`.
    pub provider_id: String,
    /// The same as its provider spells it.
    pub raw_provider_id: String,
    /// How a stateless consumer has spelt its id.
    pub consumer_raw_id: Option<String>,
    /// How the agent knows it.
    pub name: String,
    /// How its provider has named and spelt it.
    pub declared_name: String,
    pub syntax: Syntax,
    /// The order in which servers came to be known.
    pub order: u64,
    /// Its provider is away, or was started anew, and has not declared it again.
    pub missing: bool,
    /// What its provider may speak, best guess first. One that is `form_known` is known.
    forms: Vec<Form>,
    /// The same before any was ruled out.
    candidates: Vec<Form>,
    pub form_known: bool,
    /// Whether messages of connections are `_mcp/request_id` or `_mcp/message`.
    pub message_names: MessageNames,
    /// What it answered to `server/discover`.
    pub discovered: Option<Json>,
    pub uses: ServerUses,
}

/// What is known of the messages in which a provider of M2, M3 or M3t is spoken to. All of them are
/// connected to alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageNames {
    Unknown,
    /// It does not know the first ones that were tried.
    Switched,
    Known,
}

/// What a server is needed for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ServerUses {
    /// Set-up requests that are not answered yet.
    pub pending: usize,
    pub sessions: BTreeSet<SessionId>,
}

impl Server {
    pub fn new(seat: Seat, acp_server: &AcpServer, dialect: LinkProtocol, order: u64) -> Server {
        let candidates = forms(acp_server.syntax, dialect);
        Server {
            seat,
            provider_id: acp_server.id.clone(),
            raw_provider_id: acp_server.raw_id.clone(),
            consumer_raw_id: None,
            name: acp_server.name.clone(),
            declared_name: acp_server.name.clone(),
            syntax: acp_server.syntax,
            order,
            missing: false,
            forms: candidates.clone(),
            candidates,
            form_known: false,
            message_names: MessageNames::Unknown,
            discovered: None,
            uses: ServerUses::default(),
        }
    }

    /// Its provider has declared it again: to the others nothing changes.
    pub fn redeclare(&mut self, acp_server: &AcpServer, dialect: LinkProtocol) {
        self.provider_id.clone_from(&acp_server.id);
        self.raw_provider_id.clone_from(&acp_server.raw_id);
        self.syntax = acp_server.syntax;
        self.candidates = forms(acp_server.syntax, dialect);
        self.forms.clone_from(&self.candidates);
        self.form_known = false;
        self.message_names = MessageNames::Unknown;
        self.consumer_raw_id = None;
        self.discovered = None;
        self.missing = false;
    }

    pub fn may_speak(&self, form: Form) -> bool {
        self.forms.contains(&form)
    }

    /// How a message in this form addresses it: its id, or what follows `acp:` in its URL.
    pub fn address(&self, form: Form) -> &str {
        match form {
            Form::M0 | Form::M5 | Form::M6 | Form::M7 => &self.raw_provider_id,
            _ => &self.provider_id,
        }
    }

    pub fn is_scp(&self) -> bool {
        self.forms == [Form::M0]
    }

    /// The form in which to speak to the provider: the consumer's own, if it may be. (Not one in which
    /// a provider that does not know it would be told at once what it cannot read.)
    pub fn form_for(&self, consumer: Form) -> Form {
        let alike = |form: &&Form| {
            **form == consumer && consumer == Form::M7
                || form.has_connections() && form.shares_messages_with(consumer)
        };
        match self.forms.iter().find(alike).filter(|_| !self.form_known) {
            Some(form) => *form,
            None => self.forms[0],
        }
    }

    /// The provider does not know this form. Says which one to try next; perhaps another conversation
    /// has found that out already. Who knows none at all may be asked anew the next time.
    pub fn rule_out(&mut self, form: Form) -> Option<Form> {
        if self.forms == [form] {
            if !self.form_known {
                self.forms.clone_from(&self.candidates);
            }
            return None;
        }
        self.forms.retain(|it| *it != form);
        self.forms.first().copied()
    }

    pub fn set_form(&mut self, form: Form) {
        self.form_known = true;
        self.forms = vec![form];
    }
}

/// What a provider may speak that declares a server in this spelling, on a link of this dialect.
fn forms(syntax: Syntax, dialect: LinkProtocol) -> Vec<Form> {
    match (syntax, dialect.generation()) {
        (Syntax::Scp, _) => vec![Form::M0],
        (Syntax::Uuid, _) => vec![Form::M4],
        (Syntax::AcpId, _) => vec![Form::M5],
        // The SDKs 2.0 to 2.2 and 3.0 to 3.6 declare alike. The newer ones pass on a connect that
        // they do not know; what the older ones make of a message without a connection is less clear.
        (Syntax::ServerId, Some(Generation::P4 | Generation::P3)) => vec![Form::M6, Form::M7],
        (Syntax::ServerId | Syntax::MissingId, _) => vec![Form::M7, Form::M6],
        (Syntax::Url, Some(Generation::P0 | Generation::P1 | Generation::P2)) => vec![Form::M1],
        (Syntax::Url, Some(Generation::P3 | Generation::P3t)) => vec![Form::M2, Form::M1],
        (Syntax::Url, _) => vec![Form::M3, Form::M1],
    }
}
