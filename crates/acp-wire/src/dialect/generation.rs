//! The list of generations of the proxy protocol, and what they differ in.

use std::fmt;

use super::updates::UpdateSchema;
use super::{p0, p1, p2, p3, p3t, p4, p5};

/// A generation of the proxy protocol. All generations have the same function and differ in the names of methods
/// and members. Newer ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// SCP, whose proxies start their own successor.
    P0,
    /// The form in the text of S/ACP and P/ACP, two early documents.
    P1,
    /// The form in the examples of the same documents, which differs from their text.
    P2,
    /// P3 with the capability at another path.
    P3t,
    /// The first published generation.
    P3,
    /// P5 with an underscore before its methods.
    P4,
    /// The current generation: the ACP RFD "Proxy Chains".
    P5,
}

/// The protocol of a link, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkProtocol {
    /// ACP without the proxy protocol: an editor or an agent.
    Plain,
    /// The proxy protocol, in a generation that is not known yet.
    Unknown,
    /// The proxy protocol, in this generation.
    Generation(Generation),
}

impl LinkProtocol {
    /// The generation, if the peer speaks the proxy protocol and the generation is known.
    pub fn generation(self) -> Option<Generation> {
        match self {
            LinkProtocol::Generation(generation) => Some(generation),
            LinkProtocol::Plain | LinkProtocol::Unknown => None,
        }
    }

    /// The name for users and for the journal.
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

/// The properties of one generation: everything in which the generations differ.
#[derive(Debug)]
pub(crate) struct GenerationTable {
    /// The short name, for `--dialect` and for users.
    pub name: &'static str,
    /// The programs that use it.
    pub about: &'static str,
    /// The greeting that makes a component a proxy.
    pub greeting: Greeting,
    /// The path of the proxy capability in the params of `initialize`. Empty if the greeting has its own
    /// method.
    pub offer: &'static [&'static str],
    /// The path of the proxy capability in the result of `initialize`.
    pub acceptance: &'static [&'static str],
    /// The envelope's methods for requests and notifications that a proxy sends to its successor.
    pub sends: [&'static str; 2],
    /// The envelope's methods for requests and notifications that a proxy receives from its successor.
    pub receives: [&'static str; 2],
    /// Whether the inner message is one member, `message`, instead of the members `method` and `params`.
    pub wrapped: bool,
    /// What an envelope contains in place of missing params. `None` omits the member.
    pub no_params: Option<&'static [u8]>,
    /// Whether a proxy must accept the proxy capability in its answer.
    pub must_accept: bool,
    /// Whether any value is a valid protocol version. The documents of some generations use `"0.1.0"`.
    pub any_version: bool,
    /// The path of the capability "supports MCP over ACP" in the result of `initialize`.
    pub mcp_path: &'static [&'static str],
    /// The `session/update`s that its SDKs can read. `None` for all.
    pub updates: Option<&'static UpdateSchema>,
}

/// The request with which a conductor makes a component a proxy. Three forms exist, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Greeting {
    /// The method `proxy/initialize`.
    Proxy,
    /// The method `_proxy/initialize`.
    Underscore,
    /// The method `initialize` with a capability that offers the role of a proxy.
    Capability,
}

impl Greeting {
    /// All greetings, newest first.
    pub const ALL: [Greeting; 3] = [Greeting::Proxy, Greeting::Underscore, Greeting::Capability];

    /// The method of the greeting.
    pub fn method(self) -> &'static str {
        match self {
            Greeting::Proxy => "proxy/initialize",
            Greeting::Underscore => "_proxy/initialize",
            Greeting::Capability => "initialize",
        }
    }

    /// The greeting with this method, unless it is `initialize`. Only a conductor may send these methods.
    pub(crate) fn of_method(method: &str) -> Option<Greeting> {
        [Greeting::Proxy, Greeting::Underscore].into_iter().find(|it| it.method() == method)
    }
}

impl Generation {
    /// All generations, newest first.
    pub const ALL: [Generation; 7] = [
        Generation::P5,
        Generation::P4,
        Generation::P3,
        Generation::P3t,
        Generation::P2,
        Generation::P1,
        Generation::P0,
    ];

    /// The newest generation.
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

    /// The short name, for `--dialect` and for users.
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// The programs that use it.
    pub fn about(self) -> &'static str {
        self.table().about
    }

    /// Whether any value is a valid protocol version. The documents of some generations use `"0.1.0"`.
    pub fn any_version(self) -> bool {
        self.table().any_version
    }

    /// The `session/update`s that its SDKs can read. `None` for all.
    pub fn update_schema(self) -> Option<&'static UpdateSchema> {
        self.table().updates
    }

    pub(crate) fn greeting(self) -> Greeting {
        self.table().greeting
    }

    /// The generation with this name, in upper or lower case. `P4a` and `P4b` are names of P4, too.
    pub fn from_name(name: &str) -> Option<Generation> {
        let name = match name.to_ascii_uppercase().as_str() {
            "P4A" | "P4B" => "P4".to_owned(),
            name => name.to_owned(),
        };
        Generation::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(&name))
    }

    /// The generation of an envelope. If several generations use the same envelope, the newest one.
    pub(crate) fn of_envelope(method: &str, wrapped: bool) -> Option<Generation> {
        if method == Generation::P5.table().sends[0] {
            return Some(Generation::P5);
        }
        if let Some(rest) = method.strip_prefix("_scp/successor/") {
            // A draft between two documents. It is like P1 except for the prefix.
            return matches!(rest, "send" | "receive").then_some(Generation::P1);
        }
        if !method.starts_with("_proxy/") {
            return None;
        }
        let uses = |it: &Generation| {
            let table = it.table();
            table.sends.contains(&method) || table.receives.contains(&method)
        };
        let mut candidates = Generation::ALL.into_iter().filter(uses).peekable();
        let first = *candidates.peek()?;
        Some(candidates.find(|it| it.table().wrapped == wrapped).unwrap_or(first))
    }

    /// The generation whose proxy capability is at this path.
    pub(crate) fn of_offer(path: &[&str]) -> Option<Generation> {
        Generation::ALL.into_iter().find(|it| it.table().offer == path)
    }

    /// The path of the proxy capability in the params of `initialize`. Empty if the greeting has its own
    /// method.
    pub fn offer_path(self) -> &'static [&'static str] {
        self.table().offer
    }

    /// The path of the proxy capability in the result of `initialize`.
    pub fn acceptance_path(self) -> &'static [&'static str] {
        self.table().acceptance
    }

    /// Whether both generations have the same envelopes.
    pub(crate) fn has_same_envelopes_as(self, other: Generation) -> bool {
        let (ours, theirs) = (self.table(), other.table());
        (ours.sends, ours.wrapped) == (theirs.sends, theirs.wrapped)
    }

    /// Whether components of this generation know only ACP v1, so that the greeting must use it.
    pub(crate) fn v1_only(self) -> bool {
        self.greeting() != Greeting::Proxy
    }
}

/// Whether this is the method of an envelope in any generation. Only a proxy may send these methods, and
/// envelopes must not be nested.
pub(crate) fn is_envelope(method: &str) -> bool {
    Generation::of_envelope(method, false).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_generations_are_greater_and_are_found_by_name() {
        assert!(Generation::ALL.is_sorted_by(|newer, older| newer > older));
        let generations = Generation::ALL.map(LinkProtocol::Generation);
        for protocol in generations.into_iter().chain([LinkProtocol::Plain, LinkProtocol::Unknown])
        {
            assert_eq!(LinkProtocol::from_name(&protocol.to_string()), Some(protocol));
        }
        assert_eq!(generations.map(LinkProtocol::generation), Generation::ALL.map(Some));
        assert_eq!(
            [LinkProtocol::Plain, LinkProtocol::Unknown].map(LinkProtocol::generation),
            [None; 2]
        );
        assert!(Generation::P0.about().contains("SCP"));
    }

    #[test]
    fn some_generations_allow_protocol_versions_that_are_not_integers() {
        let any: Vec<Generation> =
            Generation::ALL.into_iter().filter(|it| it.any_version()).collect();
        assert_eq!(any, [Generation::P2, Generation::P1]);
    }

    #[test]
    fn only_p3_and_p3t_share_their_envelopes() {
        for one in Generation::ALL {
            for other in Generation::ALL {
                let p3 = |it| matches!(it, Generation::P3 | Generation::P3t);
                let alike = one == other || (p3(one) && p3(other));
                assert_eq!(one.has_same_envelopes_as(other), alike, "{one:?} {other:?}");
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
