//! Log messages and metrics that a component sends to the rest of the chain.

use std::collections::BTreeMap;

use acp_proxy_core::Side;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::message_type::Notification;

/// How important a log message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something has failed.
    Error,
    /// Something is wrong, and the component continues.
    Warn,
    /// What the component does. Messages without a level, or with an unknown one, count as this.
    #[default]
    Info,
    /// Details for people who look for an error.
    Debug,
    /// More details. `_scp/log` has no such level, so there it is sent as `debug`.
    Trace,
}

impl LogLevel {
    /// The level of this name, in upper or lower case. Also knows the names of other logging systems, such as
    /// `warning`. An unknown name counts as `info`.
    pub fn from_name(name: &str) -> LogLevel {
        match name.to_ascii_lowercase().as_str() {
            "error" | "critical" | "fatal" | "alert" | "emergency" => LogLevel::Error,
            "warn" | "warning" => LogLevel::Warn,
            "debug" => LogLevel::Debug,
            "trace" => LogLevel::Trace,
            _ => LogLevel::Info,
        }
    }

    /// The name: `error`, `warn`, `info`, `debug` or `trace`.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

impl<'de> Deserialize<'de> for LogLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LogLevel, D::Error> {
        let name = Value::deserialize(deserializer)?;
        Ok(LogLevel::from_name(name.as_str().unwrap_or_default()))
    }
}

/// A log message of a component: the notification `_proxy/log`. [`Context::send_log`] sends one.
///
/// ```
/// use acp_proxy::prelude::*;
/// use acp_proxy::LogMessage;
///
/// let proxy = Proxy::new("quiet").on_notification(|log: &mut LogMessage, _: &Context| {
///     if log.level > LogLevel::Warn { Delivery::Drop } else { Delivery::Forward }
/// });
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogMessage {
    /// How important the message is.
    pub level: LogLevel,
    /// The text.
    pub message: String,
    /// Details for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The name of the component that has sent the message. [`Context::send_log`] sets it if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
}

impl Notification for LogMessage {
    const METHOD: &'static str = "_proxy/log";
    const SENDER: Option<Side> = Some(Side::Agent);
}

/// A log message of a component in SCP: the notification `_scp/log`. [`Context::send_scp_log`] sends one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScpLogMessage {
    /// How important the message is. SCP has no `trace`.
    pub level: LogLevel,
    /// The text.
    pub message: String,
    /// Details for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Notification for ScpLogMessage {
    const METHOD: &'static str = "_scp/log";
    const SENDER: Option<Side> = Some(Side::Agent);
}

/// What a [`Metric`] measures, and what its value means. Its name may be in upper or lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// A number of events that only grows. The value is added to it.
    #[default]
    Counter,
    /// A quantity that goes up and down. The value replaces the previous one.
    Gauge,
    /// A distribution, such as that of durations in seconds. The value is one observation.
    Histogram,
}

impl<'de> Deserialize<'de> for MetricKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MetricKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.to_ascii_lowercase().as_str() {
            "counter" => Ok(MetricKind::Counter),
            "gauge" => Ok(MetricKind::Gauge),
            "histogram" => Ok(MetricKind::Histogram),
            _ => Err(D::Error::unknown_variant(&name, &["counter", "gauge", "histogram"])),
        }
    }
}

/// A measured value: the notification `_proxy/metric`. [`Context::send_metric`] sends one, and the built-in component
/// `metrics` collects them for Prometheus.
///
/// ```
/// use acp_proxy::prelude::*;
///
/// let proxy = Proxy::new("cache").on_prompt(async |prompt, next| {
///     next.send_metric(Metric::counter("lookups").label("result", "miss"));
///     next.run(prompt).await
/// });
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The name: letters, digits and underscores. End it with the unit, such as `_seconds` or `_bytes`.
    pub name: String,
    /// What the value means. A metric without a kind is a counter.
    #[serde(default)]
    pub kind: MetricKind,
    /// The value. It is 1 if it is absent.
    #[serde(default = "one")]
    pub value: f64,
    /// Names and values that divide the metric. Use few different values: each combination is a separate series. In JSON, a
    /// value may also be a number or a boolean.
    #[serde(default, deserialize_with = "labels", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// A description in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The name of the component that has sent the metric. [`Context::send_metric`] sets it if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
}

fn one() -> f64 {
    1.0
}

fn labels<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let labels = BTreeMap::<String, Value>::deserialize(deserializer)?;
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(_) | Value::Bool(_) => Ok((name, value.to_string())),
        _ => Err(D::Error::custom("a label is a text, a number or a boolean")),
    };
    labels.into_iter().map(text).collect()
}

impl Metric {
    /// An event that is counted.
    pub fn counter(name: impl Into<String>) -> Metric {
        Metric::new(name, MetricKind::Counter, 1.0)
    }

    /// The new value of a quantity.
    pub fn gauge(name: impl Into<String>, value: f64) -> Metric {
        Metric::new(name, MetricKind::Gauge, value)
    }

    /// An observation, such as a duration in seconds or a size in bytes.
    pub fn observation(name: impl Into<String>, value: f64) -> Metric {
        Metric::new(name, MetricKind::Histogram, value)
    }

    fn new(name: impl Into<String>, kind: MetricKind, value: f64) -> Metric {
        let (name, labels) = (name.into(), BTreeMap::new());
        Metric { name, kind, value, labels, help: None, component: None }
    }

    /// Counts several events at once.
    #[must_use]
    pub fn by(mut self, count: f64) -> Metric {
        self.value = count;
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Metric {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Adds a description in one sentence.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Metric {
        self.help = Some(text.into());
        self
    }
}

impl Notification for Metric {
    const METHOD: &'static str = "_proxy/metric";
    const SENDER: Option<Side> = Some(Side::Agent);
}

/// Telemetry goes to the components on the editor's side.
impl Context {
    /// Sends a log message: `_proxy/log`. Conductor writes it to its own log, the component `log` writes it to its
    /// file. If `log` is in the chain, an editor gets the message only if it asks for it.
    ///
    /// [`log`](Context::log) writes a line to standard error instead.
    pub fn send_log(&self, level: LogLevel, message: impl Into<String>) {
        self.send_log_message(LogMessage { level, message: message.into(), ..Default::default() });
    }

    /// Sends a log message with details for programs: `_proxy/log` with the member `data`.
    pub fn send_log_with(&self, level: LogLevel, message: impl Into<String>, data: Value) {
        let message = message.into();
        self.send_log_message(LogMessage { level, message, data: Some(data), component: None });
    }

    fn send_log_message(&self, mut log: LogMessage) {
        log.component.get_or_insert_with(|| self.shared.name.clone());
        self.send_telemetry(log);
    }

    /// Sends a log message of SCP: `_scp/log`. For components that also run under other conductors for SCP editors.
    /// Elsewhere use [`send_log`](Context::send_log), which Conductor translates for SCP editors.
    pub fn send_scp_log(&self, level: LogLevel, message: impl Into<String>, data: Option<Value>) {
        let level = level.min(LogLevel::Debug);
        self.send_telemetry(ScpLogMessage { level, message: message.into(), data });
    }

    /// Sends a measured value: `_proxy/metric`. The component `metrics` collects it. A value that is not finite is
    /// not sent.
    pub fn send_metric(&self, mut metric: Metric) {
        if metric.value.is_finite() {
            metric.component.get_or_insert_with(|| self.shared.name.clone());
            self.send_telemetry(metric);
        }
    }

    fn send_telemetry(&self, notification: impl Notification) {
        let sent = self.editor().notify(notification);
        debug_assert!(sent.is_ok(), "strings and finite numbers can be written as JSON");
    }
}
