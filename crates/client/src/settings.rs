//! The settings of a session that the agent offers: modes, models and other options, of ACP version 1 and 2.

use acp_wire::printable::one_line;
use serde_json::{Value, json};

/// How a setting is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With `session/set_mode`.
    Mode,
    /// With `session/set_model`, which is not stable.
    Model,
    /// With `session/set_config_option`.
    Option,
}

/// A setting with its possible values.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// How it is changed.
    pub kind: Kind,
    /// The id of the option.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// `mode`, `model` or another category.
    pub category: String,
    /// The current value.
    pub current: Value,
    /// The possible values.
    pub values: Vec<SettingValue>,
}

/// A possible value.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingValue {
    /// The value on the wire.
    pub value: Value,
    /// The name for people.
    pub name: String,
    /// More about it; may be empty.
    pub description: String,
}

fn text(value: &Value) -> String {
    one_line(value.as_str().unwrap_or_default())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The settings in the answer to `session/new`, `session/load` or `session/resume`.
pub fn of_session(answer: &Value) -> Vec<Setting> {
    let mut settings = options(&answer["configOptions"]);
    let old = [
        (Kind::Mode, "mode", &answer["modes"], "currentModeId", "availableModes", "id"),
        (Kind::Model, "model", &answer["models"], "currentModelId", "availableModels", "modelId"),
    ];
    for (kind, category, state, current, available, id) in old {
        let values: Vec<SettingValue> = list(&state[available])
            .iter()
            .map(|it| SettingValue {
                value: it[id].clone(),
                name: text(&it["name"]),
                description: text(&it["description"]),
            })
            .collect();
        // A config option replaces the older form.
        let replaced = settings.iter().any(|it| it.category == category);
        if !values.is_empty() && !replaced {
            settings.push(Setting {
                kind,
                id: category.to_owned(),
                name: category.to_owned(),
                category: category.to_owned(),
                current: state[current].clone(),
                values,
            });
        }
    }
    settings
}

/// The settings in a list of config options.
pub fn options(options: &Value) -> Vec<Setting> {
    list(options).iter().filter_map(option).collect()
}

fn option(option: &Value) -> Option<Setting> {
    // Version 1 and version 2.
    let id = option["id"].as_str().or(option["configId"].as_str())?;
    let values = match option["type"].as_str() {
        Some("boolean") => [(true, "on"), (false, "off")]
            .map(|(value, name)| SettingValue {
                value: value.into(),
                name: name.to_owned(),
                description: String::new(),
            })
            .to_vec(),
        _ => {
            let options = list(&option["options"]).iter();
            // An element may be a group of options.
            let options = options.flat_map(|it| match it["options"].as_array() {
                Some(group) => group.iter().collect(),
                None => vec![it],
            });
            let value = |it: &Value| SettingValue {
                value: it["value"].clone(),
                name: text(&it["name"]),
                description: text(&it["description"]),
            };
            options.map(value).collect()
        }
    };
    Some(Setting {
        kind: Kind::Option,
        id: id.to_owned(),
        name: text(&option["name"]),
        category: text(&option["category"]),
        current: option["currentValue"].clone(),
        values,
    })
}

impl Setting {
    /// The request that sets a value.
    pub fn request(&self, session: &str, value: &Value, version: u64) -> (&'static str, Value) {
        match self.kind {
            Kind::Mode => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
            Kind::Model => ("session/set_model", json!({ "sessionId": session, "modelId": value })),
            Kind::Option => {
                let mut params =
                    json!({ "sessionId": session, "configId": self.id, "value": value });
                match (value.is_boolean(), version) {
                    (true, _) => params["type"] = "boolean".into(),
                    (false, 2..) => params["type"] = "id".into(),
                    (false, _) => {}
                }
                ("session/set_config_option", params)
            }
        }
    }

    /// The value with this number in the list, id, name, or unique start of an id or name.
    pub fn find(&self, wanted: &str) -> Option<&SettingValue> {
        let wanted = wanted.trim().to_lowercase();
        let id = |it: &SettingValue| match &it.value {
            Value::String(id) => id.to_lowercase(),
            other => other.to_string(),
        };
        let name = |it: &SettingValue| it.name.to_lowercase();
        let exact = self.values.iter().find(|it| id(it) == wanted || name(it) == wanted);
        let number = || self.values.get(wanted.parse::<usize>().ok()?.checked_sub(1)?);
        let start = || {
            let begins =
                |it: &&SettingValue| id(it).starts_with(&wanted) || name(it).starts_with(&wanted);
            let mut fitting = self.values.iter().filter(begins);
            match (fitting.next(), fitting.next()) {
                (Some(value), None) if !wanted.is_empty() => Some(value),
                _ => None,
            }
        };
        exact.or_else(number).or_else(start)
    }

    /// The name of the current value.
    pub fn current_name(&self) -> String {
        let current = self.values.iter().find(|it| it.value == self.current);
        current.map(SettingValue::label).unwrap_or_else(|| match &self.current {
            Value::String(id) => one_line(id),
            Value::Null => "not set".to_owned(),
            other => one_line(&other.to_string()),
        })
    }

    /// The name of the current value, without its id.
    pub fn current_short_name(&self) -> String {
        let current = self.values.iter().find(|it| it.value == self.current);
        match current.filter(|it| !it.name.is_empty()) {
            Some(value) => value.name.clone(),
            None => self.current_name(),
        }
    }

    /// The values as a numbered list, with the current one marked.
    pub fn list(&self) -> String {
        let row = |(number, it): (usize, &SettingValue)| {
            let mark = if it.value == self.current { "*" } else { " " };
            let description = match it.description.as_str() {
                "" => String::new(),
                description => format!("  {description}"),
            };
            format!("{mark} {number} {}{description}", it.label())
        };
        (1..).zip(&self.values).map(row).collect::<Vec<_>>().join("\n")
    }
}

impl SettingValue {
    /// The name, with the id if it is different.
    pub fn label(&self) -> String {
        let id = self.value.as_str().map(one_line).unwrap_or_default();
        match (self.name.is_empty(), self.name.eq_ignore_ascii_case(&id) || id.is_empty()) {
            (true, _) => id,
            (false, true) => self.name.clone(),
            (false, false) => format!("{} ({id})", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Vec<Setting> {
        of_session(&json!({
            "modes": { "currentModeId": "ask", "availableModes": [
                { "id": "ask", "name": "Ask", "description": "Asks first" }, { "id": "code", "name": "Code" }] },
            "models": { "currentModelId": "m1", "availableModels": [{ "modelId": "m1", "name": "Large" }] },
            "configOptions": [
                { "id": "effort", "name": "Effort", "type": "select", "category": "thought_level", "currentValue": "low",
                  "options": [{ "group": "g", "name": "G", "options": [{ "value": "low", "name": "Low" }, { "value": "high", "name": "High" }] }] },
                { "configId": "fast", "name": "Fast", "type": "boolean", "currentValue": true }] }))
    }

    #[test]
    fn every_form_of_a_setting_is_read() {
        let settings = session();
        let names: Vec<_> = settings
            .iter()
            .map(|it| (it.id.as_str(), it.current_name(), it.values.len()))
            .collect();
        let expected = [
            ("effort", "Low", 2),
            ("fast", "on", 2),
            ("mode", "Ask", 2),
            ("model", "Large (m1)", 1),
        ];
        assert_eq!(names, expected.map(|(id, name, count)| (id, name.to_owned(), count)));
        assert_eq!(settings[2].list(), "* 1 Ask  Asks first\n  2 Code");
    }

    #[test]
    fn a_value_is_found_by_number_id_name_or_unique_start() {
        let mode = &session()[2];
        let find = |text: &str| mode.find(text).map(|it| it.value.clone());
        for text in ["2", "code", "CODE", "co"] {
            assert_eq!(find(text), Some(json!("code")), "{text}");
        }
        assert!(["", "0", "3", "x"].iter().all(|it| find(it).is_none()));
    }

    #[test]
    fn each_kind_is_set_with_its_own_request() {
        let settings = session();
        let request =
            |at: usize, value: Value, version: u64| settings[at].request("s", &value, version);
        assert_eq!(
            request(2, json!("code"), 1),
            ("session/set_mode", json!({ "sessionId": "s", "modeId": "code" }))
        );
        assert_eq!(
            request(3, json!("m1"), 1),
            ("session/set_model", json!({ "sessionId": "s", "modelId": "m1" }))
        );
        let (method, params) = request(0, json!("high"), 1);
        assert_eq!(
            (method, &params),
            (
                "session/set_config_option",
                &json!({ "sessionId": "s", "configId": "effort", "value": "high" })
            )
        );
        assert_eq!(request(0, json!("high"), 2).1["type"], "id");
        assert_eq!(request(1, json!(false), 1).1["type"], "boolean");
    }
}
