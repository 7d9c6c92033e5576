//! A server that a component of the chain provides.

use std::collections::BTreeSet;

use acp_wire::acp::SessionId;
use acp_wire::{Generation, Json, LinkProtocol};
use router::Seat;

use crate::declaration::{AcpServer, Syntax};
use crate::form::Form;

/// A server, and what is known about its provider.
#[derive(Debug)]
pub(super) struct Server {
    /// The seat of the provider.
    pub seat: Seat,
    /// The id that the provider uses, without one leading `acp:`.
    pub provider_id: String,
    /// The id exactly as the provider writes it.
    pub raw_provider_id: String,
    /// The id exactly as a stateless consumer writes it.
    pub consumer_raw_id: Option<String>,
    /// The name that the agent sees.
    pub name: String,
    /// The name in the declaration of the provider.
    pub declared_name: String,
    /// The syntax of that declaration.
    pub syntax: Syntax,
    /// The position of the server in the order of declarations.
    pub order: u64,
    /// The provider is down, or was restarted and has not declared the server again.
    pub missing: bool,
    /// The forms that the provider may use, most likely first. There is only one if `form_known` is
    /// set.
    forms: Vec<Form>,
    /// All forms that the declaration allows.
    candidates: Vec<Form>,
    /// The form of the provider is known.
    pub form_known: bool,
    /// What is known about the names of the provider's messages.
    pub message_names: MessageNames,
    /// The answer of the server to `server/discover`.
    pub discovered: Option<Json>,
    /// The requests and sessions that need the server.
    pub uses: ServerUses,
}

/// What is known about the method names that a provider of M2, M3 or M3t understands. Connects of
/// these forms do not differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageNames {
    /// The provider has neither accepted nor refused a name yet.
    Unknown,
    /// The provider has refused the first name. The broker uses the other one.
    Switched,
    /// The provider has accepted a name.
    Known,
}

/// The requests and sessions that need a server. A server without any is removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerUses {
    /// The number of set-up requests that are not answered yet.
    pub pending: usize,
    /// The sessions that declare the server.
    pub sessions: BTreeSet<SessionId>,
}

impl Server {
    /// A server that was just declared.
    pub(super) fn new(
        seat: Seat,
        acp_server: &AcpServer,
        protocol: LinkProtocol,
        order: u64,
    ) -> Server {
        let candidates = forms(acp_server.syntax, protocol);
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

    /// Takes over the declaration of a restarted provider. Nothing changes for the other
    /// components.
    pub(super) fn redeclare(&mut self, acp_server: &AcpServer, protocol: LinkProtocol) {
        self.provider_id.clone_from(&acp_server.id);
        self.raw_provider_id.clone_from(&acp_server.raw_id);
        self.syntax = acp_server.syntax;
        self.candidates = forms(acp_server.syntax, protocol);
        self.forms.clone_from(&self.candidates);
        self.form_known = false;
        self.message_names = MessageNames::Unknown;
        self.consumer_raw_id = None;
        self.discovered = None;
        self.missing = false;
    }

    /// Whether the provider may use this form.
    pub(super) fn may_use(&self, form: Form) -> bool {
        self.forms.contains(&form)
    }

    /// The id by which a message in this form addresses the server.
    pub(super) fn address(&self, form: Form) -> &str {
        match form {
            Form::M0 | Form::M5 | Form::M6 | Form::M7 => &self.raw_provider_id,
            _ => &self.provider_id,
        }
    }

    /// Whether the server is an SCP server.
    pub(super) fn is_scp(&self) -> bool {
        self.forms == [Form::M0]
    }

    /// The form for messages to the provider. It is the consumer's form, if the provider may use
    /// that form and can refuse it: M7, or a form with connections. Otherwise it is the most likely
    /// form.
    pub(super) fn form_for(&self, consumer: Form) -> Form {
        let alike = |form: &&Form| {
            **form == consumer && consumer == Form::M7
                || form.has_connections() && form.shares_messages_with(consumer)
        };
        match self.forms.iter().find(alike).filter(|_| !self.form_known) {
            Some(form) => *form,
            None => self.forms[0],
        }
    }

    /// Excludes a form that the provider does not know. Returns the form to try next: the known form,
    /// if another connection has found it, or the next likely one. If no form is left, returns `None`,
    /// and later connections try all forms again.
    pub(super) fn exclude_form(&mut self, form: Form) -> Option<Form> {
        if self.forms == [form] {
            if !self.form_known {
                self.forms.clone_from(&self.candidates);
            }
            return None;
        }
        self.forms.retain(|it| *it != form);
        self.forms.first().copied()
    }

    /// Records the form of the provider.
    pub(super) fn set_form(&mut self, form: Form) {
        self.form_known = true;
        self.forms = vec![form];
    }
}

/// The forms that a provider may use, if it declares a server in this syntax on a link with this
/// protocol.
fn forms(syntax: Syntax, protocol: LinkProtocol) -> Vec<Form> {
    match (syntax, protocol.generation()) {
        (Syntax::Scp, _) => vec![Form::M0],
        (Syntax::Uuid, _) => vec![Form::M4],
        (Syntax::AcpId, _) => vec![Form::M5],
        // The SDKs 2.0 to 2.2 and 3.0 to 3.6 use the same syntax. The newer ones pass on a connect
        // that they do not know. It is less clear how the older ones treat a message without a
        // connection.
        (Syntax::ServerId, Some(Generation::P4 | Generation::P3)) => vec![Form::M6, Form::M7],
        (Syntax::ServerId | Syntax::MissingId, _) => vec![Form::M7, Form::M6],
        (Syntax::Url, Some(Generation::P0 | Generation::P1 | Generation::P2)) => vec![Form::M1],
        (Syntax::Url, Some(Generation::P3 | Generation::P3t)) => vec![Form::M2, Form::M1],
        (Syntax::Url, _) => vec![Form::M3, Form::M1],
    }
}
