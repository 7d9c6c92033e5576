//! Writes metrics in the text formats of Prometheus and OpenMetrics.

use std::fmt::Write;

use super::registry::{Family, Kind, Series};

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// The content type of a response in this format.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that an `Accept` header prefers. Prometheus text, if it does not say otherwise.
    pub(super) fn accepted(header: &str) -> Format {
        let (mut text, mut open) = (0.0, 0.0);
        for range in header.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let quality = parts.find_map(|it| it.strip_prefix("q=")?.parse::<f64>().ok());
            let quality = quality.unwrap_or(1.0);
            match name.as_str() {
                "application/openmetrics-text" => open = quality,
                "text/plain" | "text/*" | "*/*" => text = f64::max(text, quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Format::OpenMetrics } else { Format::Prometheus }
    }
}

/// The metrics as text.
pub(super) fn write(families: &[Family], format: Format) -> String {
    let mut out = String::new();
    for family in families {
        write_family(family, format, &mut out);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn write_family(family: &Family, format: Format, out: &mut String) {
    let (name, kind) = match (format, family.kind) {
        (Format::Prometheus, Kind::Counter) => (format!("{}_total", family.name), "counter"),
        (Format::Prometheus, Kind::Info) => (format!("{}_info", family.name), "gauge"),
        (Format::OpenMetrics, Kind::Info) => (family.name.clone(), "info"),
        (Format::OpenMetrics, Kind::Counter) => (family.name.clone(), "counter"),
        (_, Kind::Gauge) => (family.name.clone(), "gauge"),
        (_, Kind::Histogram) => (family.name.clone(), "histogram"),
    };
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    let help = match format {
        Format::Prometheus => help,
        Format::OpenMetrics => help.replace('"', "\\\""),
    };
    // Writing to a string does not fail.
    if !help.is_empty() {
        let _ = writeln!(out, "# HELP {name} {help}");
    }
    let _ = writeln!(out, "# TYPE {name} {kind}");
    let mut series: Vec<&Series> = family.series.iter().collect();
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    for series in series {
        let labels = &series.labels;
        match family.kind {
            Kind::Counter => {
                sample(out, &family.name, "_total", labels, series.value / family.scale);
            }
            Kind::Gauge => sample(out, &family.name, "", labels, series.value),
            Kind::Info => sample(out, &family.name, "_info", labels, series.value),
            Kind::Histogram => write_histogram(family, series, out),
        }
    }
}

fn write_histogram(family: &Family, series: &Series, out: &mut String) {
    let comma = if series.labels.is_empty() { "" } else { "," };
    let mut sum = 0;
    let limits = family.buckets.iter().map(|limit| format!("{limit:?}"));
    for (limit, count) in limits.chain(["+Inf".to_owned()]).zip(&series.counts) {
        sum += count;
        let labels = format!("{}{comma}le=\"{limit}\"", series.labels);
        sample(out, &family.name, "_bucket", &labels, sum as f64);
    }
    sample(out, &family.name, "_sum", &series.labels, series.value);
    sample(out, &family.name, "_count", &series.labels, sum as f64);
}

fn sample(out: &mut String, name: &str, ending: &str, labels: &str, value: f64) {
    // Writing to a string does not fail.
    let _ = match labels.is_empty() {
        true => writeln!(out, "{name}{ending} {value}"),
        false => writeln!(out, "{name}{ending}{{{labels}}} {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_accept_header_prefers() {
        for (header, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            // The header of Prometheus 3.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            ("text/plain;q=0.9, application/openmetrics-text; q=0.5", Format::Prometheus),
            ("application/openmetrics-text;q=0, */*", Format::Prometheus),
            ("application/json", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(header), format, "{header}");
        }
    }
}
