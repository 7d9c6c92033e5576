//! The metrics that other components send: `_proxy/metric`.

use std::collections::BTreeMap;

use acp_proxy::{Metric, MetricKind};

use super::registry::{Kind, Named, Registry, has_secret};

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

/// Metrics of built-in components that have a name without the prefix.
const OWN: [(&str, Kind, Named); 2] = [
    ("redactions", Kind::Counter, Named::Redactions),
    ("hook_duration_seconds", Kind::Histogram, Named::HookDuration),
];

/// How many series the metrics from each place of the chain have.
#[derive(Debug, Default)]
pub(super) struct Reported {
    series: BTreeMap<String, usize>,
}

impl Reported {
    /// Counts a metric from a place of the chain, with the name of the component. What does not fit the limits is counted as dropped.
    pub(super) fn add(&mut self, registry: &mut Registry, from: (&str, &str), metric: &Metric) {
        if self.try_add(registry, from, metric).is_none() {
            registry.count_dropped();
        }
    }

    fn try_add(
        &mut self,
        registry: &mut Registry,
        (place, component): (&str, &str),
        metric: &Metric,
    ) -> Option<()> {
        let kind = match metric.kind {
            MetricKind::Counter => Kind::Counter,
            MetricKind::Gauge => Kind::Gauge,
            MetricKind::Histogram => Kind::Histogram,
        };
        // Negative observations of a histogram are invalid in OpenMetrics.
        let is_valid = metric.value.is_finite() && (kind == Kind::Gauge || metric.value >= 0.0);
        let name = name(&metric.name, kind).filter(|_| is_valid)?;
        let help = metric.help.as_deref().unwrap_or_default();
        let help = &help[..help.floor_char_boundary(200)];
        let own = OWN.iter().find(|(own, own_kind, _)| *own == name && *own_kind == kind);
        let mut labels = vec![("component", component)];
        for (name, value) in &metric.labels {
            let is_own = matches!(name.as_str(), "component" | "le" | "quantile");
            if !is_label(name) || is_own || labels.len() > MAX_LABELS {
                return None;
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
                if is_full || names.any(|name| has_secret(name)) {
                    return None;
                }
                let family = match own {
                    Some((_, _, named)) => *named as usize,
                    None => registry.family(&name, kind, help)?,
                };
                *self.series.entry(place.to_owned()).or_default() += 1;
                family
            }
        };
        registry.report(family, &labels, metric.value).then_some(())
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
