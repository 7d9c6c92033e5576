//! What the generations of the proxy protocol differ in, and the list of them.

use super::updates::Updates;
use super::{p0, p1, p2, p3, p3t, p4, p5};

/// One generation. All of them do the same; they spell it differently.
#[derive(Debug)]
pub struct Generation {
    /// The short name, for `--dialect` and for people.
    pub name: &'static str,
    /// Who speaks it.
    pub about: &'static str,
    /// With what a conductor makes a component its proxy.
    pub(crate) greeting: Greeting,
    /// Where the capability stands in `initialize` and in its result, for generations that are
    /// greeted with it.
    pub(crate) offer: &'static [&'static str],
    pub(crate) acceptance: &'static [&'static str],
    /// The envelope's method: for a request, for a notification.
    pub(crate) sends: [&'static str; 2],
    pub(crate) receives: [&'static str; 2],
    /// The inner message is a `message` of its own, not two members of the envelope.
    pub(crate) wrapped: bool,
    /// What to write in an envelope where there are no params.
    pub(crate) no_params: Option<&'static [u8]>,
    /// A proxy that is offered its role must accept it in its answer.
    pub(crate) must_accept: bool,
    /// Protocol versions may be anything: its documents have `"0.1.0"`.
    pub any_version: bool,
    /// Its word for "takes MCP servers over ACP", in the result of `initialize`.
    pub(crate) mcp_word: &'static [&'static str],
    /// Which `session/update`s its SDKs can read; `None`: all.
    pub updates: Option<&'static Updates>,
}

/// There is one value of each generation.
impl PartialEq for Generation {
    fn eq(&self, other: &Generation) -> bool {
        self.name == other.name
    }
}

impl Eq for Generation {}

/// The three handshakes there ever were, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Greeting {
    /// `proxy/initialize`
    Proxy,
    /// `_proxy/initialize`
    Underscore,
    /// `initialize`, with a capability that says what the receiver is to be.
    Capability,
}

impl Greeting {
    pub const ALL: [Greeting; 3] = [Greeting::Proxy, Greeting::Underscore, Greeting::Capability];

    pub fn method(self) -> &'static str {
        match self {
            Greeting::Proxy => "proxy/initialize",
            Greeting::Underscore => "_proxy/initialize",
            Greeting::Capability => "initialize",
        }
    }

    /// The handshake that has a method of its own, so that nobody but a conductor may send it.
    pub(crate) fn of_method(method: &str) -> Option<Greeting> {
        [Greeting::Proxy, Greeting::Underscore].into_iter().find(|it| it.method() == method)
    }
}

/// Newest first.
pub static ALL: [&Generation; 7] =
    [&p5::P5, &p4::P4, &p3::P3, &p3t::P3T, &p2::P2, &p1::P1, &p0::P0];

impl Generation {
    /// Finds a generation by its name, in whatever case.
    pub fn named(name: &str) -> Option<&'static Generation> {
        let name = match name.to_ascii_uppercase().as_str() {
            "P4A" | "P4B" => "P4".to_owned(),
            name => name.to_owned(),
        };
        ALL.into_iter().find(|it| it.name.eq_ignore_ascii_case(&name))
    }

    /// The generation that uses this envelope. Several share one; then the name is that of the
    /// youngest.
    pub(crate) fn of_envelope(method: &str, wrapped: bool) -> Option<&'static Generation> {
        if method == p5::P5.sends[0] {
            return Some(&p5::P5);
        }
        if let Some(rest) = method.strip_prefix("_scp/successor/") {
            // A draft between two documents, like P1 in all but the first word.
            return matches!(rest, "send" | "receive").then_some(&p1::P1);
        }
        if !method.starts_with("proxy/") && !method.starts_with("_proxy/") {
            return None;
        }
        let uses = |it: &&&Generation| it.sends.contains(&method) || it.receives.contains(&method);
        let mut speakers = ALL.iter().filter(uses).peekable();
        let first = *speakers.peek()?;
        Some(speakers.find(|it| it.wrapped == wrapped).unwrap_or(first))
    }

    /// The generation that is offered its role at this place.
    pub(crate) fn of_offer(place: &[&str]) -> Option<&'static Generation> {
        ALL.into_iter().find(|it| it.offer == place)
    }

    /// Where a proxy of this generation finds its role in `initialize`; empty if it is greeted otherwise.
    pub fn offer_place(&self) -> &'static [&'static str] {
        self.offer
    }

    /// Where it accepts its role in the result.
    pub fn acceptance_place(&self) -> &'static [&'static str] {
        self.acceptance
    }

    /// Do both write and read envelopes in the same way?
    pub(crate) fn spells_like(&self, other: &Generation) -> bool {
        (self.sends, self.wrapped) == (other.sends, other.wrapped)
    }

    /// Does its greeting stay within ACP v1? Components of old never heard of another.
    pub(crate) fn v1_only(&self) -> bool {
        self.greeting != Greeting::Proxy
    }
}

/// The method names that mean an envelope in any generation. Whoever is not a proxy may send none
/// of them, and none may be inside another.
pub(crate) fn is_envelope(method: &str) -> bool {
    Generation::of_envelope(method, false).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_found_by_name_and_by_envelope() {
        assert_eq!(Generation::named("p3T").unwrap().name, "P3t");
        assert_eq!(Generation::named("P4b").unwrap().name, "P4");
        assert!(Generation::named("P6").is_none());
        let of = |method, wrapped| Generation::of_envelope(method, wrapped).map(|it| it.name);
        assert_eq!(of("proxy/successor", false), Some("P5"));
        assert_eq!(of("_proxy/successor", false), Some("P4"));
        assert_eq!(of("_proxy/successor/request", false), Some("P3"));
        assert_eq!(of("_proxy/successor/notification", true), Some("P2"));
        assert_eq!(of("_proxy/successor/send/request", true), Some("P1"));
        assert_eq!(of("_proxy/successor/receive/notification", false), Some("P1"));
        assert_eq!(of("_scp/successor/send", true), Some("P1"));
        assert_eq!(of("_proxy/successors", false), None);
        assert_eq!(of("proxy/initialize", false), None);
        assert_eq!(of("session/prompt", false), None);
    }
}
