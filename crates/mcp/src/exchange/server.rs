//! A server that somebody in the chain provides.

use std::collections::BTreeSet;

use router::Seat;
use wire::Json;

use super::Exchange;
use crate::declaration::{Offer, Spelling};
use crate::form::{Form, bare};

#[derive(Debug)]
pub struct Server {
    /// Who provides it.
    pub seat: Seat,
    /// How its provider calls it.
    pub native: String,
    /// How the agent knows it.
    pub name: String,
    /// What its provider may speak, best guess first. One that is `settled` is known.
    forms: Vec<Form>,
    pub settled: bool,
    /// What it answered to `server/discover`.
    pub discovered: Option<Json>,
    pub uses: Uses,
}

/// What a server is needed for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Set-up requests that are not answered yet.
    pub pending: usize,
    pub sessions: BTreeSet<String>,
}

impl Server {
    pub fn new(seat: Seat, offer: &Offer, dialect: &str) -> Server {
        Server {
            seat,
            native: offer.id.clone(),
            name: offer.name.clone(),
            forms: forms(offer.spelling, dialect),
            settled: false,
            discovered: None,
            uses: Uses::default(),
        }
    }

    pub fn is_scp(&self) -> bool {
        self.forms == [Form::M0]
    }

    /// The form in which to speak to the provider: the consumer's own, if it may be.
    pub fn form_for(&self, consumer: Form) -> Form {
        let alike =
            |form: &&Form| **form == consumer || (form.talks_like(consumer) && form.connects());
        match self.forms.iter().find(alike).filter(|_| !self.settled) {
            Some(form) => *form,
            None => self.forms[0],
        }
    }

    /// The provider does not know this form. Says which one to try next.
    pub fn rule_out(&mut self, form: Form) -> Option<Form> {
        if self.settled || self.forms.len() < 2 {
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
fn forms(spelling: Spelling, dialect: &str) -> Vec<Form> {
    match (spelling, dialect) {
        (Spelling::Scp, _) => vec![Form::M0],
        (Spelling::Uuid, _) => vec![Form::M4],
        (Spelling::AcpId, _) => vec![Form::M5],
        // The SDKs 2.0 to 2.2 and 3.0 to 3.6 declare alike. The newer ones pass on a connect that
        // they do not know; what the older ones make of a message without a connection is less clear.
        (Spelling::ServerId, "P4" | "P3") => vec![Form::M6, Form::M7],
        (Spelling::ServerId | Spelling::Nameless, _) => vec![Form::M7, Form::M6],
        (Spelling::Url, "P0" | "P1" | "P2") => vec![Form::M1],
        (Spelling::Url, "P3") => vec![Form::M2, Form::M1],
        (Spelling::Url, "P3t") => vec![Form::M3t],
        (Spelling::Url, _) => vec![Form::M3, Form::M1],
    }
}

impl Exchange {
    /// Is this a server of the seat's own? Others have been seen before, when they passed their
    /// provider; and no list has the same one twice.
    pub(super) fn offers(&self, seat: Seat, offer: &Offer, seen: &[String]) -> bool {
        if offer.spelling == Spelling::Nameless {
            return false;
        }
        match self.servers.get(&offer.id) {
            Some(known) => known.seat == seat || seen.contains(&offer.id),
            None => true,
        }
    }

    /// The id under which a server of the seat's own is known to the others.
    pub(super) fn own_key(&self, seat: Seat, offer: &Offer) -> String {
        let own = |server: &Server| server.seat == seat && server.native == offer.id;
        if let Some((key, _)) = self.servers.iter().find(|(_, server)| own(server)) {
            return key.clone();
        }
        let id = match offer.spelling {
            Spelling::Scp => format!("scp:{}:{}", seat.0, offer.id),
            _ => offer.id.clone(),
        };
        let mut candidates = std::iter::once(id.clone()).chain((2..).map(|n| format!("{id}#{n}")));
        candidates.find(|it| !self.servers.contains_key(it)).unwrap_or_default()
    }

    /// The server that a consumer means. One that speaks SCP knows it by its name.
    pub(super) fn find(&self, form: Form, server: &str) -> Option<String> {
        let by_name = || {
            let named = self.servers.iter().filter(|(_, it)| it.name == server);
            named.last().map(|(key, _)| key.clone())
        };
        let server = bare(server);
        match form {
            Form::M0 => by_name(),
            _ => self.servers.contains_key(server).then(|| server.to_owned()),
        }
    }
}
