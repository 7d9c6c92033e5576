//! The metrics and their values.

use std::borrow::Cow;
use std::collections::HashMap;

use acp_wire::printable;

use secrets::Secrets;

/// How many series a metric may have. Events of further ones are dropped and counted.
const MAX_SERIES: usize = 2000;

/// The longest value of a label, in bytes.
const MAX_VALUE: usize = 100;

/// How much of a longer value is searched for secrets, in bytes. A secret at the limit is recognised by what follows.
const MAX_SEARCHED: usize = 4 * MAX_VALUE;

/// The longest description of a metric, in bytes.
const MAX_HELP: usize = 200;

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A sum that only grows.
    Counter,
    /// A quantity that goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
    /// Facts in the form of labels. The value is 1.
    Info,
}

/// Durations of requests and tool calls.
const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

/// Durations of turns.
const LONG_SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1200.0, 1800.0, 3600.0,
];

/// Numbers of tokens, as in the conventions of OpenTelemetry: powers of 4.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Sizes: powers of 4 from 64 on.
const BYTES: &[f64] = TOKENS.split_at(3).1;

/// Observations without a known unit.
const NUMBERS: &[f64] = &[
    0.001,
    0.01,
    0.1,
    1.0,
    3.0,
    10.0,
    30.0,
    100.0,
    300.0,
    1000.0,
    10_000.0,
    100_000.0,
    1_000_000.0,
];

/// The buckets of a histogram, by the unit at the end of its name.
pub(super) fn buckets(name: &str) -> &'static [f64] {
    match name.rsplit('_').next() {
        Some("seconds") => SECONDS,
        Some("bytes") => BYTES,
        Some("tokens") => TOKENS,
        _ => NUMBERS,
    }
}

macro_rules! named {
    ($($variant:ident $name:literal $kind:ident $buckets:expr, $help:literal;)*) => {
        /// The metrics that the component itself measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Named { $($variant),* }

        pub(super) const NAMED: &[(&str, Kind, &[f64], &str)] = &[$(($name, Kind::$kind, $buckets, $help)),*];
    };
}

named! {
    Messages "conductor_messages" Counter &[], "Messages that were delivered to a component.";
    MessageBytes "conductor_message_bytes" Histogram BYTES, "Sizes of the payloads of messages.";
    RequestDuration "conductor_request_duration_seconds" Histogram SECONDS, "Time until a component answers a request, with the time of the components behind it.";
    TurnDuration "conductor_turn_duration_seconds" Histogram LONG_SECONDS, "Durations of turns.";
    TurnFirstText "conductor_turn_first_text_seconds" Histogram LONG_SECONDS, "Time from a prompt to the first text of the agent.";
    ToolCalls "conductor_tool_calls" Counter &[], "Tool calls that have ended.";
    ToolCallDuration "conductor_tool_call_duration_seconds" Histogram SECONDS, "Durations of tool calls.";
    PermissionRequests "conductor_permission_requests" Counter &[], "Permission requests that were answered.";
    PermissionWait "conductor_permission_wait_seconds" Histogram SECONDS, "Time until a permission request is answered.";
    Tokens "conductor_tokens" Counter &[], "Tokens that the agent reports as consumed.";
    Cost "conductor_cost" Counter &[], "Money that the agent reports as spent.";
    ContextUsed "conductor_context_used_ratio" Gauge &[], "The fullest context window of the open sessions.";
    Sessions "conductor_sessions" Gauge &[], "Open sessions.";
    Restarts "conductor_component_restarts" Counter &[], "Restarts of components.";
    Redactions "conductor_redactions" Counter &[], "Secrets that were redacted.";
    HookDuration "conductor_hook_duration_seconds" Histogram SECONDS, "Durations of hooks.";
    Dropped "conductor_metrics_dropped" Counter &[], "Metrics and events that were not counted, because a limit was reached or they were invalid.";
    Build "conductor_build" Info &[], "The version of the program.";
}

/// A metric and its series.
#[derive(Debug, Clone)]
pub(super) struct Family {
    /// The name, without the `_total` of counters and the `_info` of facts.
    pub(super) name: String,
    pub(super) help: String,
    pub(super) kind: Kind,
    /// The upper limits of the buckets of a histogram.
    pub(super) buckets: &'static [f64],
    /// Counters are whole numbers of 1/scale.
    pub(super) scale: f64,
    pub(super) series: Vec<Series>,
    /// The positions of the series, by their labels.
    index: HashMap<String, usize>,
}

/// The values for one combination of labels.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// The labels in the text format: `a="b",c="d"`.
    pub(super) labels: String,
    /// The value of a counter or a gauge, or the sum of the observations.
    pub(super) value: f64,
    /// How many observations each bucket has, without those of the smaller ones. The last bucket has no upper limit.
    pub(super) counts: Vec<u64>,
}

/// The position of a series in the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesId {
    family: usize,
    series: usize,
}

/// All metrics.
#[derive(Debug)]
pub(super) struct Registry {
    families: Vec<Family>,
    /// The positions of the metrics, by the names of their samples.
    names: HashMap<String, usize>,
}

impl Default for Registry {
    fn default() -> Registry {
        let mut registry = Registry { families: Vec::new(), names: HashMap::new() };
        for &(name, kind, buckets, help) in NAMED {
            registry.add_family(Family::new(name.to_owned(), help.to_owned(), kind, buckets));
        }
        registry.families[Named::Cost as usize].scale = 1e6;
        for metric in [Named::Sessions, Named::Dropped] {
            registry.series(metric, &[]);
        }
        let build = registry.series(Named::Build, &[("version", env!("CARGO_PKG_VERSION"))]);
        build.into_iter().for_each(|series| registry.set(series, 1.0));
        registry
    }
}

impl Family {
    fn new(name: String, help: String, kind: Kind, buckets: &'static [f64]) -> Family {
        Family { name, help, kind, buckets, scale: 1.0, series: Vec::new(), index: HashMap::new() }
    }

    /// The names of the samples of this metric, all of which no other metric may use.
    fn sample_names(&self) -> Vec<String> {
        let endings: &[&str] = match self.kind {
            Kind::Counter => &["", "_total", "_created"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
            Kind::Info => &["", "_info"],
        };
        endings.iter().map(|ending| format!("{}{ending}", self.name)).collect()
    }

    /// The position of the series with these labels, or the text of the labels for a new series. Only that text is
    /// searched for secrets, so most values cost nothing.
    fn find(&self, labels: &[(&str, &str)]) -> Result<usize, String> {
        let text = label_text(labels, |value| value.into());
        if let Some(series) = self.index.get(&text) {
            return Ok(*series);
        }
        let text = label_text(labels, |value| {
            Secrets::standard().redact(&value[..value.floor_char_boundary(MAX_SEARCHED)])
        });
        self.index.get(&text).copied().ok_or(text)
    }
}

impl Registry {
    /// The series of a metric with these labels. `None` if there are too many; the loss is counted.
    pub(super) fn series(&mut self, metric: Named, labels: &[(&str, &str)]) -> Option<SeriesId> {
        let found = self.series_of(metric as usize, labels);
        if found.is_none() {
            self.count_dropped();
        }
        found
    }

    fn series_of(&mut self, family: usize, labels: &[(&str, &str)]) -> Option<SeriesId> {
        let found = &mut self.families[family];
        let labels = match found.find(labels) {
            Ok(series) => return Some(SeriesId { family, series }),
            Err(labels) => labels,
        };
        let series = found.series.len();
        if series >= MAX_SERIES {
            return None;
        }
        let counts = if found.kind == Kind::Histogram { found.buckets.len() + 1 } else { 0 };
        found.index.insert(labels.clone(), series);
        found.series.push(Series { labels, value: 0.0, counts: vec![0; counts] });
        Some(SeriesId { family, series })
    }

    /// Adds to a counter.
    pub(super) fn add(&mut self, id: SeriesId, value: f64) {
        self.families[id.family].series[id.series].value += value;
    }

    /// Sets a gauge.
    pub(super) fn set(&mut self, id: SeriesId, value: f64) {
        self.families[id.family].series[id.series].value = value;
    }

    /// Adds an observation to a histogram.
    pub(super) fn observe(&mut self, id: SeriesId, value: f64) {
        let family = &mut self.families[id.family];
        let bucket = family.buckets.partition_point(|limit| *limit < value);
        let series = &mut family.series[id.series];
        series.counts[bucket] += 1;
        series.value += value;
    }

    /// Adds to the counter with these labels.
    pub(super) fn count(&mut self, metric: Named, labels: &[(&str, &str)], value: f64) {
        if let Some(series) = self.series(metric, labels) {
            self.add(series, value);
        }
    }

    /// Adds an observation to the histogram with these labels.
    pub(super) fn record(&mut self, metric: Named, labels: &[(&str, &str)], value: f64) {
        if let Some(series) = self.series(metric, labels) {
            self.observe(series, value);
        }
    }

    /// Sets the gauge with these labels.
    pub(super) fn gauge(&mut self, metric: Named, labels: &[(&str, &str)], value: f64) {
        if let Some(series) = self.series(metric, labels) {
            self.set(series, value);
        }
    }

    /// Counts something that was not measured.
    pub(super) fn count_dropped(&mut self) {
        let dropped = SeriesId { family: Named::Dropped as usize, series: 0 };
        self.add(dropped, 1.0);
    }

    fn add_family(&mut self, family: Family) -> usize {
        let number = self.families.len();
        self.names.extend(family.sample_names().into_iter().map(|name| (name, number)));
        self.families.push(family);
        number
    }

    /// The metric of another component with this name and kind, which is added if it does not exist. `None` if the name
    /// is in use for something else.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) -> Option<usize> {
        if self.names.contains_key(name) {
            let known = self.known_family(name, kind)?;
            if self.families[known].help.is_empty() {
                self.families[known].help = help_text(help);
            }
            return Some(known);
        }
        let buckets = if kind == Kind::Histogram { buckets(name) } else { &[] };
        let family = Family::new(name.to_owned(), help_text(help), kind, buckets);
        let is_in_use = family.sample_names().iter().any(|name| self.names.contains_key(name));
        (!is_in_use).then(|| self.add_family(family))
    }

    /// The metric of another component with this name and kind, if it exists.
    pub(super) fn known_family(&self, name: &str, kind: Kind) -> Option<usize> {
        // Other components do not change the metrics of this one.
        let known = *self.names.get(name).filter(|known| **known >= NAMED.len())?;
        let family = &self.families[known];
        (family.name == name && family.kind == kind).then_some(known)
    }

    /// Whether a metric has a series with these labels.
    pub(super) fn has_series(&self, family: usize, labels: &[(&str, &str)]) -> bool {
        self.families[family].find(labels).is_ok()
    }

    /// Forgets all series of a gauge.
    pub(super) fn clear(&mut self, metric: Named) {
        let family = &mut self.families[metric as usize];
        family.series.clear();
        family.index.clear();
    }

    /// Adds a value to a series of another component's metric.
    pub(super) fn report(&mut self, family: usize, labels: &[(&str, &str)], value: f64) -> bool {
        let Some(series) = self.series_of(family, labels) else { return false };
        match self.families[family].kind {
            Kind::Counter => self.add(series, value),
            Kind::Gauge | Kind::Info => self.set(series, value),
            Kind::Histogram => self.observe(series, value),
        }
        true
    }

    /// A copy of all metrics, to be written.
    pub(super) fn snapshot(&self) -> Vec<Family> {
        let filled = self.families.iter().filter(|family| !family.series.is_empty());
        let copy = |family: &Family| Family {
            name: family.name.clone(),
            help: family.help.clone(),
            series: family.series.clone(),
            index: HashMap::new(),
            ..*family
        };
        filled.map(copy).collect()
    }

    /// The sum of a counter over all series whose labels contain this text.
    pub(super) fn sum(&self, metric: Named, label: &str) -> f64 {
        let family = &self.families[metric as usize];
        let series = family.series.iter().filter(|series| series.labels.contains(label));
        series.fold(0.0, |sum, series| sum + series.value) / family.scale
    }

    /// How many observations a histogram has.
    pub(super) fn observations(&self, metric: Named) -> u64 {
        let series = self.families[metric as usize].series.iter();
        series.map(|series| series.counts.iter().sum::<u64>()).sum()
    }

    /// The sum of the costs in each currency.
    pub(super) fn costs(&self) -> Vec<String> {
        let family = &self.families[Named::Cost as usize];
        let mut sums = std::collections::BTreeMap::<&str, f64>::new();
        for series in &family.series {
            let currency = series.labels.rsplit("currency=").next().unwrap_or_default();
            *sums.entry(currency.trim_matches('"')).or_default() += series.value / family.scale;
        }
        sums.iter().map(|(currency, sum)| format!("cost: {sum} {currency}")).collect()
    }

    /// How many series there are in all.
    #[cfg(test)]
    pub(super) fn series_count(&self) -> usize {
        self.families.iter().map(|family| family.series.len()).sum()
    }
}

/// The description of a metric of another component. It is cut after its secrets are redacted, so that no part of one
/// remains.
fn help_text(help: &str) -> String {
    let searched = &help[..help.floor_char_boundary(4 * MAX_HELP)];
    let redacted = Secrets::standard().redact(searched);
    printable::one_line(&redacted[..redacted.floor_char_boundary(MAX_HELP)])
}

/// Whether a name contains a secret of a well-known shape.
pub(super) fn has_secret(name: &str) -> bool {
    Secrets::standard().redact(name) != name
}

/// Labels in the text format. `prepare` gets each value, which is then made printable and not longer than the limit.
fn label_text<'a>(labels: &[(&str, &'a str)], prepare: impl Fn(&'a str) -> Cow<'a, str>) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        let value = prepare(value);
        let value = &value[..value.floor_char_boundary(MAX_VALUE)];
        for it in value.chars() {
            match it {
                '\\' | '"' => text.extend(['\\', it]),
                '\n' => text.push_str("\\n"),
                it if printable::is_printable(it) => text.push(it),
                _ => text.push('\u{fffd}'),
            }
        }
        text.push('"');
    }
    text
}
