//! The metrics that other components send: `_proxy/metric`.

use std::collections::{BTreeMap, BTreeSet};

use acp_proxy::{Call, Metric, MetricKind};
use acp_wire::printable::one_line;

use super::registry::{Kind, Named, Registry, has_secret};
use component_base::sessions::text;

/// From how many places of the chain metrics may come. Those of further ones are not counted.
const MAX_PLACES: usize = 64;

/// How many series the metrics from one place may have. The name with which a component names itself does not matter: it
/// can use any number of names.
const MAX_SERIES: usize = 256;

/// How many labels a metric may have.
const MAX_LABELS: usize = 8;

/// The longest name of a component, a metric or a label, in bytes.
const MAX_NAME: usize = 100;

/// What the names of metrics of other components begin with.
const PREFIX: &str = "conductor_component_";

/// Why a metric is not counted.
const OTHER_KIND: &str = "a metric of this name has another kind";

/// Metrics of built-in components that have a name without the prefix.
const OWN: [(&str, Kind, Named); 2] = [
    ("redactions", Kind::Counter, Named::Redactions),
    ("hook_duration_seconds", Kind::Histogram, Named::HookDuration),
];

/// How many series the metrics from each place of the chain have.
#[derive(Debug, Default)]
pub(super) struct Reported {
    series: BTreeMap<String, usize>,
    /// The places from which a metric was not counted.
    warned: BTreeSet<String>,
}

impl Reported {
    /// Counts a metric from a place of the chain, with the name of the component.
    ///
    /// # Errors
    /// It does not fit the limits.
    pub(super) fn add(
        &mut self,
        registry: &mut Registry,
        (place, component): (&str, &str),
        metric: &Metric,
    ) -> Result<(), &'static str> {
        let kind = match metric.kind {
            MetricKind::Counter => Kind::Counter,
            MetricKind::Gauge => Kind::Gauge,
            MetricKind::Histogram => Kind::Histogram,
        };
        // Negative observations of a histogram are invalid in OpenMetrics.
        let is_valid = metric.value.is_finite() && (kind == Kind::Gauge || metric.value >= 0.0);
        if !is_valid {
            return Err("its value is negative or not finite");
        }
        let name = name(&metric.name, kind).ok_or(
            "its name is empty, longer than 100 bytes, or has other characters than a-z, A-Z, 0-9 and _",
        )?;
        let help = metric.help.as_deref().unwrap_or_default();
        let own = OWN.iter().find(|(own, own_kind, _)| *own == name && *own_kind == kind);
        let mut labels = vec![("component", component)];
        for (name, value) in &metric.labels {
            let is_own = matches!(name.as_str(), "component" | "le" | "quantile");
            if !is_label(name) || is_own || labels.len() > MAX_LABELS {
                return Err("it has more than 8 labels, or a label with a name that is not valid");
            }
            labels.push((name, value));
        }
        let name = format!("{PREFIX}{name}");
        let known = match own {
            Some((_, _, named)) => Some(*named as usize),
            None => registry.known_family(&name, kind),
        };
        let family = match known {
            Some(family) if registry.has_series(family, &labels) => family,
            _ => {
                let count = self.series.get(place).copied();
                let is_full = count.map_or(self.series.len() >= MAX_PLACES, |it| it >= MAX_SERIES);
                let mut names = metric.labels.keys().chain([&metric.name]);
                if is_full {
                    return Err("there are too many series, or too many components");
                }
                if names.any(|name| has_secret(name)) {
                    return Err("a name in it looks like a secret");
                }
                let family = match own {
                    Some((_, _, named)) => *named as usize,
                    None => registry.family(&name, kind, help).ok_or(OTHER_KIND)?,
                };
                *self.series.entry(place.to_owned()).or_default() += 1;
                family
            }
        };
        match registry.report(family, &labels, metric.value) {
            true => Ok(()),
            false => Err("there are too many series"),
        }
    }

    /// What the user should know about a metric that was not counted. Only the first one of each place is told.
    pub(super) fn warning(&mut self, from: (&str, &str), call: &Call, why: &str) -> Option<String> {
        let (place, component) = from;
        if self.warned.contains(place) || self.warned.len() >= MAX_PLACES {
            return None;
        }
        self.warned.insert(place.to_owned());
        let name = call.params.as_ref().and_then(|it| text(Some(it), "name")).unwrap_or_default();
        let name =
            if has_secret(&name) { "…" } else { &name[..name.floor_char_boundary(MAX_NAME)] };
        Some(format!(
            "the metric `{}` of {} is not counted: {why}. Further ones are only counted in conductor_metrics_dropped_total",
            one_line(name),
            one_line(component)
        ))
    }

    /// How many series other components have in all.
    pub(super) fn series_count(&self) -> usize {
        self.series.values().sum()
    }
}

/// The name of a metric as Prometheus accepts it, without the ending that its kind gets. `None` if it is not a name.
fn name(name: &str, kind: Kind) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    for it in name.chars() {
        match it {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => text.push(it),
            '.' | '-' | '/' | ' ' | ':' => text.push('_'),
            _ => return None,
        }
    }
    let text = text.strip_prefix(PREFIX).unwrap_or(&text);
    let endings: &[&str] = match kind {
        Kind::Counter => &["_total", "_created"],
        Kind::Gauge => &["_total"],
        Kind::Histogram | Kind::Info => &["_bucket", "_sum", "_count", "_total"],
    };
    let text = endings.iter().fold(text, |text, ending| text.strip_suffix(ending).unwrap_or(text));
    (!text.is_empty() && text.len() <= MAX_NAME).then(|| text.to_owned())
}

/// Whether this is the name of a label that Prometheus accepts.
fn is_label(name: &str) -> bool {
    let begins_well = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    let is_reserved = name.starts_with("__");
    let is_name = name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    begins_well && !is_reserved && is_name && name.len() <= MAX_NAME
}
