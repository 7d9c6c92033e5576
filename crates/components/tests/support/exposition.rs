//! A strict parser of the text formats of Prometheus and OpenMetrics, for tests.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of a text, by name and labels: `name{a="b"}`. The labels are sorted.
pub(crate) type Samples = BTreeMap<String, f64>;

/// Reads a text in the format of Prometheus, or in that of OpenMetrics if it ends with `# EOF`.
///
/// # Panics
/// If the text breaks a rule of the format.
pub(crate) fn read(text: &str) -> Samples {
    let is_open = text.ends_with("# EOF\n");
    parse(text, is_open).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    /// Sorted labels and values of buckets, by the labels without `le`.
    buckets: BTreeMap<String, Vec<(f64, f64)>>,
    counts: BTreeMap<String, f64>,
    sums: BTreeSet<String>,
}

fn parse(text: &str, is_open: bool) -> Result<Samples, String> {
    let (mut samples, mut names) = (Samples::new(), BTreeSet::new());
    let mut family: Option<Family> = None;
    let mut help: Option<String> = None;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line has no line break".into());
    }
    let mut lines: Vec<&str> = text.lines().collect();
    if is_open && lines.pop() != Some("# EOF") {
        return Err("the last line is not # EOF".into());
    }
    for line in lines {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').ok_or(wrong("no text"))?;
            check_escapes(text, is_open).map_err(|why| wrong(&why))?;
            if help.replace(name.to_owned()).is_some() {
                return Err(wrong("two HELP lines"));
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or(wrong("no type"))?;
            if help.take().is_some_and(|it| it != name) || !is_name(name, true) {
                return Err(wrong("another or an invalid name"));
            }
            let kinds = ["counter", "gauge", "histogram", "info"];
            if !kinds[..if is_open { 4 } else { 3 }].contains(&kind) {
                return Err(wrong("unknown type"));
            }
            if kind == "counter" && name.ends_with("_total") == is_open {
                return Err(wrong("the name of a counter"));
            }
            if !names.insert(name.to_owned()) {
                return Err(wrong("the metric occurs twice"));
            }
            family.as_ref().map_or(Ok(()), finish)?;
            let (name, kind) = (name.to_owned(), kind.to_owned());
            family = Some(Family { name, kind, ..Family::default() });
        } else {
            if help.is_some() {
                return Err(wrong("a TYPE line is missing"));
            }
            let family = family.as_mut().ok_or(wrong("a TYPE line is missing"))?;
            sample(line, family, is_open, &mut samples).map_err(|why| wrong(&why))?;
        }
    }
    family.as_ref().map_or(Ok(()), finish)?;
    Ok(samples)
}

/// Checks a line with a value.
fn sample(
    line: &str,
    family: &mut Family,
    is_open: bool,
    samples: &mut Samples,
) -> Result<(), String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value: f64 = value.parse().map_err(|_| "the value is not a number")?;
    let ending = name.strip_prefix(family.name.as_str()).ok_or("a sample of another metric")?;
    let fits = match (family.kind.as_str(), is_open) {
        ("counter", true) => ending == "_total",
        ("counter" | "gauge", _) => ending.is_empty(),
        ("info", _) => ending == "_info" && value == 1.0,
        _ => ["_bucket", "_sum", "_count"].contains(&ending),
    };
    if !fits || !is_name(name, true) {
        return Err("the name of the sample does not fit the type".into());
    }
    if family.kind == "counter" && (value < 0.0 || value.is_nan()) {
        return Err("a counter is negative".into());
    }
    let mut plain: Vec<_> = labels.iter().filter(|(name, _)| name != "le").cloned().collect();
    plain.sort();
    let key = format!("{plain:?}");
    match ending {
        "_bucket" => {
            let le = labels.iter().find(|(name, _)| name == "le").ok_or("no le")?.1.clone();
            if is_open && le != "+Inf" && !le.contains('.') {
                return Err("le is not a canonical number".into());
            }
            let le = if le == "+Inf" { f64::INFINITY } else { le.parse().map_err(|_| "le")? };
            family.buckets.entry(key).or_default().push((le, value));
        }
        "_count" => drop(family.counts.insert(key, value)),
        "_sum" => drop(family.sums.insert(key)),
        _ => {}
    }
    let mut labels = labels;
    labels.sort();
    let text: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    let key = match text.is_empty() {
        true => name.to_owned(),
        false => format!("{name}{{{}}}", text.join(",")),
    };
    match samples.insert(key, value) {
        Some(_) => Err("the sample occurs twice".into()),
        None => Ok(()),
    }
}

type Labels = Vec<(String, String)>;

/// Reads labels up to the closing bracket.
fn labels(mut text: &str) -> Result<(Labels, &str), String> {
    let mut found = Labels::new();
    loop {
        let (name, rest) = text.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name, false) || found.iter().any(|(it, _)| it == name) {
            return Err(format!("the label {name:?} is invalid or occurs twice"));
        }
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().ok_or("a label does not end")? {
                (at, '"') => break at,
                (_, '\\') => match chars.next() {
                    Some((_, it @ ('\\' | '"'))) => value.push(it),
                    Some((_, 'n')) => value.push('\n'),
                    _ => return Err("an invalid escape".into()),
                },
                (_, it) => value.push(it),
            }
        };
        found.push((name.to_owned(), value));
        text = &rest[end + 1..];
        match text.as_bytes().first() {
            Some(b',') => text = &text[1..],
            Some(b'}') => return Ok((found, &text[1..])),
            _ => return Err("a label is followed by neither a comma nor a bracket".into()),
        }
    }
}

fn is_name(name: &str, is_metric: bool) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || is_metric && it == ':';
    !name.is_empty() && name.chars().all(fits) && !name.starts_with(|it: char| it.is_ascii_digit())
}

fn check_escapes(text: &str, is_open: bool) -> Result<(), String> {
    let mut chars = text.chars();
    while let Some(it) = chars.next() {
        match it {
            '\\' => match chars.next() {
                Some('\\' | 'n') => {}
                Some('"') if is_open => {}
                _ => return Err("an invalid escape".into()),
            },
            '"' if is_open => return Err("a quotation mark is not escaped".into()),
            _ => {}
        }
    }
    Ok(())
}

/// Checks a whole metric.
fn finish(family: &Family) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{why}: {}", family.name));
    for (labels, buckets) in &family.buckets {
        if !buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1) {
            return wrong("the buckets do not grow");
        }
        let last = buckets.last().copied();
        if last.map(|it| it.0) != Some(f64::INFINITY) {
            return wrong("the bucket +Inf is missing");
        }
        if last.map(|it| it.1) != family.counts.get(labels).copied()
            || !family.sums.contains(labels)
        {
            return wrong("the count is not that of the last bucket, or the sum is missing");
        }
    }
    match family.counts.len() == family.buckets.len() {
        true => Ok(()),
        false => wrong("a series without buckets"),
    }
}
