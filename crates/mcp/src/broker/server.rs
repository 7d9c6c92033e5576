//! A server that somebody in the chain provides.

use std::collections::BTreeSet;

use acp_wire::acp::SessionId;
use acp_wire::{Generation, Json, LinkProtocol};
use router::Seat;

use crate::declaration::{Offer, Spelling};
use crate::form::Form;

#[derive(Debug)]
pub struct Server {
    /// Who provides it.
    pub seat: Seat,
    /// How its provider calls it, without one leading `acp:`.
    pub native: String,
    /// The same as its provider spells it.
    pub spelt: String,
    /// How a stateless consumer has spelt its id.
    pub called: Option<String>,
    /// How the agent knows it.
    pub name: String,
    /// How its provider has named and spelt it.
    pub offered: String,
    pub spelling: Spelling,
    /// The order in which servers came to be known.
    pub number: u64,
    /// Its provider is away, or was started anew, and has not declared it again.
    pub missing: bool,
    /// What its provider may speak, best guess first. One that is `settled` is known.
    forms: Vec<Form>,
    /// The same before any was ruled out.
    candidates: Vec<Form>,
    pub settled: bool,
    /// Whether messages of connections are `_mcp/request` or `_mcp/message`.
    pub words: Words,
    /// What it answered to `server/discover`.
    pub discovered: Option<Json>,
    pub uses: Uses,
}

/// What is known of the messages in which a provider of M2, M3 or M3t is spoken to. All of them are
/// connected to alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Unknown,
    /// It does not know the first ones that were tried.
    Switched,
    Known,
}

/// What a server is needed for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Set-up requests that are not answered yet.
    pub pending: usize,
    pub sessions: BTreeSet<SessionId>,
}

impl Server {
    pub fn new(seat: Seat, offer: &Offer, dialect: LinkProtocol, number: u64) -> Server {
        let candidates = forms(offer.spelling, dialect);
        Server {
            seat,
            native: offer.id.clone(),
            spelt: offer.spelt.clone(),
            called: None,
            name: offer.name.clone(),
            offered: offer.name.clone(),
            spelling: offer.spelling,
            number,
            missing: false,
            forms: candidates.clone(),
            candidates,
            settled: false,
            words: Words::Unknown,
            discovered: None,
            uses: Uses::default(),
        }
    }

    /// Its provider has declared it again: to the others nothing changes.
    pub fn renew(&mut self, offer: &Offer, dialect: LinkProtocol) {
        self.native.clone_from(&offer.id);
        self.spelt.clone_from(&offer.spelt);
        self.spelling = offer.spelling;
        self.candidates = forms(offer.spelling, dialect);
        self.forms.clone_from(&self.candidates);
        self.settled = false;
        self.words = Words::Unknown;
        self.called = None;
        self.discovered = None;
        self.missing = false;
    }

    pub fn may_be(&self, form: Form) -> bool {
        self.forms.contains(&form)
    }

    /// How a message in this form addresses it: its id, or what follows `acp:` in its URL.
    pub fn address(&self, form: Form) -> &str {
        match form {
            Form::M0 | Form::M5 | Form::M6 | Form::M7 => &self.spelt,
            _ => &self.native,
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
                || form.connects() && form.talks_like(consumer)
        };
        match self.forms.iter().find(alike).filter(|_| !self.settled) {
            Some(form) => *form,
            None => self.forms[0],
        }
    }

    /// The provider does not know this form. Says which one to try next; perhaps another conversation
    /// has found that out already. Who knows none at all may be asked anew the next time.
    pub fn rule_out(&mut self, form: Form) -> Option<Form> {
        if self.forms == [form] {
            if !self.settled {
                self.forms.clone_from(&self.candidates);
            }
            return None;
        }
        self.forms.retain(|it| *it != form);
        self.forms.first().copied()
    }

    pub fn settle(&mut self, form: Form) {
        self.settled = true;
        self.forms = vec![form];
    }
}

/// What a provider may speak that declares a server in this spelling, on a link of this dialect.
fn forms(spelling: Spelling, dialect: LinkProtocol) -> Vec<Form> {
    match (spelling, dialect.generation()) {
        (Spelling::Scp, _) => vec![Form::M0],
        (Spelling::Uuid, _) => vec![Form::M4],
        (Spelling::AcpId, _) => vec![Form::M5],
        // The SDKs 2.0 to 2.2 and 3.0 to 3.6 declare alike. The newer ones pass on a connect that
        // they do not know; what the older ones make of a message without a connection is less clear.
        (Spelling::ServerId, Some(Generation::P4 | Generation::P3)) => vec![Form::M6, Form::M7],
        (Spelling::ServerId | Spelling::Nameless, _) => vec![Form::M7, Form::M6],
        (Spelling::Url, Some(Generation::P0 | Generation::P1 | Generation::P2)) => vec![Form::M1],
        (Spelling::Url, Some(Generation::P3 | Generation::P3t)) => vec![Form::M2, Form::M1],
        (Spelling::Url, _) => vec![Form::M3, Form::M1],
    }
}
