//! What the generations of the proxy protocol differ in, and the list of them.

use std::fmt;

use super::updates::UpdateSchema;
use super::{p0, p1, p2, p3, p3t, p4, p5};

/// One generation of the proxy protocol, oldest first. All of them do the same; they spell it differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    P0,
    P1,
    P2,
    P3t,
    P3,
    P4,
    P5,
}

/// What is spoken on a link, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkProtocol {
    /// ACP without the proxy protocol: an editor or an agent.
    Plain,
    /// The proxy protocol, in a generation that is not known yet.
    Unknown,
    Generation(Generation),
}

impl LinkProtocol {
    pub fn generation(self) -> Option<Generation> {
        match self {
            LinkProtocol::Generation(generation) => Some(generation),
            LinkProtocol::Plain | LinkProtocol::Unknown => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            LinkProtocol::Plain => "plain",
            LinkProtocol::Unknown => "unknown",
            LinkProtocol::Generation(generation) => generation.name(),
        }
    }

    /// The inverse of [`name`](LinkProtocol::name).
    pub fn from_name(name: &str) -> Option<LinkProtocol> {
        match name {
            "plain" => Some(LinkProtocol::Plain),
            "unknown" => Some(LinkProtocol::Unknown),
            name => Generation::from_name(name).map(LinkProtocol::Generation),
        }
    }
}

impl From<Option<Generation>> for LinkProtocol {
    fn from(generation: Option<Generation>) -> LinkProtocol {
        generation.map_or(LinkProtocol::Unknown, LinkProtocol::Generation)
    }
}

impl fmt::Display for LinkProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the generations differ in.
#[derive(Debug)]
pub(crate) struct GenerationTable {
    /// The short name, for `--dialect` and for people.
    pub name: &'static str,
    /// Who speaks it.
    pub about: &'static str,
    /// With what a conductor makes a component its proxy.
    pub greeting: Greeting,
    /// Where the capability stands in `initialize` and in its result, for generations that are
    /// greeted with it.
    pub offer: &'static [&'static str],
    pub acceptance: &'static [&'static str],
    /// The envelope's method: for a request, for a notification.
    pub sends: [&'static str; 2],
    pub receives: [&'static str; 2],
    /// The inner message is a `message` of its own, not two members of the envelope.
    pub wrapped: bool,
    /// What to write in an envelope where there are no params.
    pub no_params: Option<&'static [u8]>,
    /// A proxy that is offered its role must accept it in its answer.
    pub must_accept: bool,
    /// Protocol versions may be anything: its documents have `"0.1.0"`.
    pub any_version: bool,
    /// Its word for "takes MCP servers over ACP", in the result of `initialize`.
    pub mcp_path: &'static [&'static str],
    /// Which `session/update`s its SDKs can read; `None`: all.
    pub updates: Option<&'static UpdateSchema>,
}

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

impl Generation {
    /// Newest first.
    pub const ALL: [Generation; 7] = [
        Generation::P5,
        Generation::P4,
        Generation::P3,
        Generation::P3t,
        Generation::P2,
        Generation::P1,
        Generation::P0,
    ];

    /// The newest one.
    pub const CURRENT: Generation = Generation::P5;

    pub(crate) fn table(self) -> &'static GenerationTable {
        match self {
            Generation::P0 => &p0::P0,
            Generation::P1 => &p1::P1,
            Generation::P2 => &p2::P2,
            Generation::P3t => &p3t::P3T,
            Generation::P3 => &p3::P3,
            Generation::P4 => &p4::P4,
            Generation::P5 => &p5::P5,
        }
    }

    /// The short name, for `--dialect` and for people.
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// Which programs speak it.
    pub fn about(self) -> &'static str {
        self.table().about
    }

    /// Protocol versions may be anything: its documents have `"0.1.0"`.
    pub fn any_version(self) -> bool {
        self.table().any_version
    }

    /// Which `session/update`s its SDKs can read; `None`: all.
    pub fn updates(self) -> Option<&'static UpdateSchema> {
        self.table().updates
    }

    pub(crate) fn greeting(self) -> Greeting {
        self.table().greeting
    }

    /// Finds a generation by its name, in whatever case.
    pub fn from_name(name: &str) -> Option<Generation> {
        let name = match name.to_ascii_uppercase().as_str() {
            "P4A" | "P4B" => "P4".to_owned(),
            name => name.to_owned(),
        };
        Generation::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(&name))
    }

    /// The generation that uses this envelope. Several share one; then the name is that of the
    /// youngest.
    pub(crate) fn of_envelope(method: &str, wrapped: bool) -> Option<Generation> {
        if method == Generation::P5.table().sends[0] {
            return Some(Generation::P5);
        }
        if let Some(rest) = method.strip_prefix("_scp/successor/") {
            // A draft between two documents, like P1 in all but the first word.
            return matches!(rest, "send" | "receive").then_some(Generation::P1);
        }
        if !method.starts_with("_proxy/") {
            return None;
        }
        let uses = |it: &Generation| {
            let table = it.table();
            table.sends.contains(&method) || table.receives.contains(&method)
        };
        let mut speakers = Generation::ALL.into_iter().filter(uses).peekable();
        let first = *speakers.peek()?;
        Some(speakers.find(|it| it.table().wrapped == wrapped).unwrap_or(first))
    }

    /// The generation that is offered its role at this path.
    pub(crate) fn of_offer(path: &[&str]) -> Option<Generation> {
        Generation::ALL.into_iter().find(|it| it.table().offer == path)
    }

    /// Where a proxy of this generation finds its role in `initialize`; empty if it is greeted otherwise.
    pub fn offer_path(self) -> &'static [&'static str] {
        self.table().offer
    }

    /// Where it accepts its role in the result.
    pub fn acceptance_path(self) -> &'static [&'static str] {
        self.table().acceptance
    }

    /// Do both write and read envelopes in the same way?
    pub(crate) fn spells_like(self, other: Generation) -> bool {
        let (ours, theirs) = (self.table(), other.table());
        (ours.sends, ours.wrapped) == (theirs.sends, theirs.wrapped)
    }

    /// Does its greeting stay within ACP v1? Components of old never heard of another.
    pub(crate) fn v1_only(self) -> bool {
        self.greeting() != Greeting::Proxy
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
    fn newer_generations_are_greater_and_names_lead_back() {
        assert!(Generation::ALL.is_sorted_by(|newer, older| newer > older));
        let generations = Generation::ALL.map(LinkProtocol::Generation);
        for spoken in generations.into_iter().chain([LinkProtocol::Plain, LinkProtocol::Unknown]) {
            assert_eq!(LinkProtocol::from_name(&spoken.to_string()), Some(spoken));
        }
        assert_eq!(generations.map(LinkProtocol::generation), Generation::ALL.map(Some));
        assert_eq!(
            [LinkProtocol::Plain, LinkProtocol::Unknown].map(LinkProtocol::generation),
            [None; 2]
        );
        assert!(Generation::P0.about().contains("SCP"));
    }

    #[test]
    fn some_documents_have_protocol_versions_that_are_no_numbers() {
        let any: Vec<Generation> =
            Generation::ALL.into_iter().filter(|it| it.any_version()).collect();
        assert_eq!(any, [Generation::P2, Generation::P1]);
    }

    #[test]
    fn envelopes_are_alike_only_in_p3_and_p3t() {
        for one in Generation::ALL {
            for other in Generation::ALL {
                let p3 = |it| matches!(it, Generation::P3 | Generation::P3t);
                let alike = one == other || (p3(one) && p3(other));
                assert_eq!(one.spells_like(other), alike, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn generations_are_found_by_name_and_by_envelope() {
        assert_eq!(Generation::from_name("p3T").unwrap().name(), "P3t");
        assert_eq!(Generation::from_name("P4b").unwrap().name(), "P4");
        assert!(Generation::from_name("P6").is_none());
        let of = |method, wrapped| Generation::of_envelope(method, wrapped).map(|it| it.name());
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
