//! What `conductor config show` prints: values, each with the place where it is written.

use client::payload::text_without_secrets;
use config::chain::{Configuration, ResolvedChain, Role};
use config::file::{AsToml, Chain, Component, Entry, EntryKind, Settings, to_json};
use config::source::{Place, Placed};
use config::variables::without_values;
use serde_json::{Value, json};

use crate::commands::named_chain::words_without_secrets;

/// Sections of values.
#[derive(Debug, Default)]
pub struct Shown {
    sections: Vec<Section>,
}

/// A table of the file.
#[derive(Debug)]
struct Section {
    /// Its path of keys. The path of the whole file is empty.
    path: Vec<String>,
    /// Why the component is part of the chain or not.
    remark: Option<String>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: String,
    value: Value,
    place: Place,
}

impl Shown {
    fn add(&mut self, path: &[&str], remark: Option<String>, rows: Vec<Row>) {
        let path = path.iter().map(|it| (*it).to_owned()).collect();
        self.sections.push(Section { path, remark, rows });
    }

    /// The values as a TOML file, in which a comment behind each value is its place.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            if section.rows.is_empty() && section.remark.is_none() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            if let Some(remark) = &section.remark {
                text += &format!("# {remark}\n");
            }
            if !section.path.is_empty() {
                text += &format!(
                    "[{}]\n",
                    section.path.iter().map(|it| key(it)).collect::<Vec<_>>().join(".")
                );
            }
            for row in &section.rows {
                text += &format!("{} = {}  # {}\n", key(&row.key), inline(&row.value), row.place);
            }
        }
        text
    }

    /// The values as JSON: each is an object with `value` and `origin`.
    pub fn to_json(&self) -> Value {
        let mut root = json!({});
        for section in &self.sections {
            // A `Value::Null` at an index becomes an object with that index.
            let table = section.path.iter().fold(&mut root, |table, name| &mut table[name]);
            if table.is_null() {
                *table = json!({});
            }
            if let Some(remark) = &section.remark {
                table["remark"] = json!(remark);
            }
            for row in &section.rows {
                table[&row.key] = json!({ "value": row.value, "origin": row.place.to_string() });
            }
        }
        root
    }
}

/// All files, merged.
pub fn configuration(configuration: &Configuration) -> Shown {
    let mut shown = Shown::default();
    let default = configuration.default_chain().map(|it| row("default", it, json!(it.value)));
    shown.add(&[], None, default.into_iter().collect());
    shown.add(&["settings"], None, settings(configuration.settings()));
    for (name, component) in configuration.components() {
        shown.add(&["components", name], None, component_rows(component));
    }
    for (name, chain) in configuration.chains() {
        shown.add(&["chains", name], None, chain_rows(chain));
        shown.add(&["chains", name, "settings"], None, settings(&chain.settings));
    }
    shown
}

/// A chain in the current folder.
pub fn chain(chain: &ResolvedChain) -> Shown {
    let mut shown = Shown::default();
    let name = &chain.name.value;
    let included = |role: Role| {
        let entries = chain.components().filter(move |it| it.role == role);
        entries.map(|it| (json!(it.name), it.place.clone())).collect::<Vec<_>>()
    };
    let proxies: Vec<Value> = included(Role::Proxy).into_iter().map(|(name, _)| name).collect();
    let mut rows = vec![row("proxies", &chain.name, json!(proxies))];
    rows.extend(included(Role::Agent).into_iter().map(|(value, place)| Row {
        key: "agent".to_owned(),
        value,
        place,
    }));
    shown.add(&["chains", name], None, rows);
    shown.add(&["settings"], None, settings(&chain.settings));
    let mut seen = Vec::new();
    for entry in &chain.entries {
        if entry.role == Role::Chain || seen.contains(&&entry.name) {
            continue;
        }
        seen.push(&entry.name);
        let remark = match (entry.is_included(), entry.reason()) {
            (true, reason) => reason.map(|reason| format!("part of the chain: {reason}")),
            (false, reason) => {
                Some(format!("left out of the chain: {}", reason.unwrap_or_default()))
            }
        };
        shown.add(&["components", &entry.name], remark, component_rows(&entry.component));
    }
    shown
}

fn row<T>(key: &str, placed: &Placed<T>, value: Value) -> Row {
    Row { key: key.to_owned(), value, place: placed.place.clone() }
}

fn settings(settings: &Settings) -> Vec<Row> {
    let rows = settings.rows().into_iter();
    rows.map(|(key, value, place)| Row {
        key: key.to_owned(),
        // The text is TOML, and all values of settings are also JSON.
        value: serde_json::from_str(&value).unwrap_or(Value::String(value)),
        place: place.clone(),
    })
    .collect()
}

fn component_rows(component: &Component) -> Vec<Row> {
    let mut rows = Vec::new();
    macro_rules! add {
        ($key:literal, $field:ident, $value:expr) => {
            rows.extend(component.$field.as_ref().map(|it| row($key, it, $value(&it.value))));
        };
    }
    let text = |text: &String| json!(text_without_secrets(text));
    let texts =
        |texts: &[Placed<String>]| json!(words_without_secrets(texts.iter().map(|it| it.as_str())));
    add!("command", command, text);
    add!("args", args, |it: &Vec<Placed<String>>| texts(it));
    for (name, value) in &component.env {
        rows.push(row(&format!("env.{}", name.value), value, json!(without_values(value))));
    }
    add!("env-file", env_file, |it: &config::file::OneOrMore| texts(&it.0));
    add!("cwd", cwd, text);
    add!("dialect", dialect, |it: &config::file::Dialect| json!(it.0.name()));
    add!("guard", guard, |it: &bool| json!(it));
    add!("on-crash", on_crash, |it| json!(it));
    add!("restarts", restarts, |it: &config::file::Restarts| {
        json!(it.as_toml().trim_matches('"'))
    });
    add!("updates", updates, |it| json!(it));
    add!("when", when, |it| json!(it));
    for (name, node) in &component.options {
        let value = without_secrets(
            to_json(&[(name.clone(), node.clone())].into()).remove(&name.value).unwrap_or_default(),
        );
        rows.push(row(&format!("options.{}", name.value), node, value));
    }
    rows
}

fn without_secrets(value: Value) -> Value {
    match value {
        Value::String(text) => json!(text_without_secrets(&text)),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            json!(words_without_secrets(list.iter().filter_map(Value::as_str)))
        }
        Value::Array(list) => list.into_iter().map(without_secrets).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, without_secrets(value))).collect()
        }
        value => value,
    }
}

fn chain_rows(chain: &Chain) -> Vec<Row> {
    let entry = |entry: &Entry| match (&entry.when, entry.kind) {
        (None, EntryKind::Component) => json!(entry.name.value),
        (None, EntryKind::Chain) => json!({ "chain": entry.name.value }),
        (Some(when), EntryKind::Component) => {
            json!({ "use": entry.name.value, "when": when.value })
        }
        (Some(when), EntryKind::Chain) => json!({ "chain": entry.name.value, "when": when.value }),
    };
    let proxies = chain.proxies.as_ref();
    let proxies = proxies.map(|it| row("proxies", it, it.iter().map(entry).collect()));
    let agent = chain.agent.as_ref().map(|it| row("agent", it, json!(it.value)));
    proxies.into_iter().chain(agent).collect()
}

/// A key. A path of keys has dots.
fn key(text: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    let one = |text: &str| match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    };
    match text.split_once('.').filter(|(table, _)| ["env", "options"].contains(table)) {
        Some((table, name)) => format!("{table}.{}", one(name)),
        None => one(text),
    }
}

/// A value of TOML in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}
