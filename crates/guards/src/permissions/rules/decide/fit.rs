//! How well commands, paths and addresses fit a rule.

use crate::permissions::command::files::Inside;
use crate::permissions::command::parts::Part;
use crate::permissions::command::pattern::{Fit, Machine, RunPattern};
use crate::permissions::command::words::Word;
use crate::permissions::paths::{Base, Contents, PathPattern, Place, Relation};
use crate::permissions::rules::url::UrlPattern;
use crate::permissions::rules::{Decision, Rule};

/// How well a command fits a rule.
pub(super) fn run_fit(rule: &Rule, part: &Part, machine: Machine<'_>) -> Fit {
    match rule.decision {
        _ if !rule.has_targets() && part.inner => Fit::No,
        _ if !rule.has_targets() => Fit::Yes,
        Decision::Allow => {
            let allows = |pattern: &RunPattern| pattern.narrow(&part.command, machine).is_ok();
            if rule.run.iter().any(allows) { Fit::Yes } else { Fit::No }
        }
        _ => widest(&rule.run, &part.command.words, part.opens, machine),
    }
}

pub(super) fn widest(
    patterns: &[RunPattern],
    words: &[Word],
    opens: bool,
    machine: Machine<'_>,
) -> Fit {
    patterns.iter().map(|it| it.wide(words, opens, machine)).max().unwrap_or(Fit::No)
}

/// What an access to a path concerns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    inside: Inside,
    writes: bool,
    /// Whether there is nothing at the path.
    is_missing: bool,
}

impl Reach {
    /// Only the path itself.
    pub(super) const PATH: Reach =
        Reach { inside: Inside::Nothing, writes: false, is_missing: false };

    pub(super) fn of(inside: Inside, writes: bool, place: &Place) -> Reach {
        if matches!(inside, Inside::Nothing | Inside::Doubtful) {
            return Reach { inside, writes, ..Reach::PATH };
        }
        match place.contents() {
            Contents::Nothing => Reach { writes, ..Reach::PATH },
            contents => Reach { inside, writes, is_missing: contents == Contents::Missing },
        }
    }
}

/// How well a path fits patterns.
pub(super) fn path_fit(
    decision: Decision,
    patterns: &[PathPattern],
    place: &Place,
    base: &Base,
    reach: Reach,
    machine: Machine<'_>,
) -> Fit {
    if decision == Decision::Allow {
        let allows = |it: &PathPattern| it.narrow(place, base, machine.case_blind);
        return if patterns.iter().any(allows) { Fit::Yes } else { Fit::No };
    }
    let relation = |it: &PathPattern| match it.wide(place, base, machine.case_blind) {
        Relation::MaybeInside if reach.is_missing => Relation::Apart,
        Relation::MaybeInside | Relation::Inside
            if reach.inside == Inside::Visible && it.is_hidden() =>
        {
            Relation::Apart
        }
        relation => relation,
    };
    let relation = patterns.iter().map(relation).max().unwrap_or(Relation::Apart);
    match relation {
        Relation::Matches if reach.inside == Inside::Doubtful => Fit::May,
        Relation::Matches => Fit::Yes,
        Relation::Apart => Fit::No,
        _ if matches!(reach.inside, Inside::Nothing | Inside::Doubtful) => Fit::No,
        Relation::Inside if reach.writes && reach.inside != Inside::Selected => Fit::Yes,
        _ => Fit::May,
    }
}

pub(super) fn url_fit(rule: &Rule, url: &str) -> Fit {
    let fits = |it: &UrlPattern| match rule.decision {
        Decision::Allow => it.narrow(url),
        _ => it.wide(url),
    };
    match rule.has_targets() {
        true if rule.url.iter().any(fits) => Fit::Yes,
        true => Fit::No,
        false => Fit::Yes,
    }
}

/// How well an argument of a command that may be a host fits a rule. An argument that is a host for certain fits patterns
/// such as `*`, too.
pub(super) fn host_fit(rule: &Rule, text: &str, is_host: bool) -> Fit {
    let with_scheme = format!("http://{text}");
    let fits = |it: &UrlPattern| match rule.decision {
        Decision::Allow => it.narrow(text) || it.narrow(&with_scheme),
        _ => (is_host || it.names_a_host()) && it.wide(text),
    };
    if rule.url.iter().any(fits) { Fit::Yes } else { Fit::No }
}
