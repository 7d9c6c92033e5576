//! The options of a component that the conductor keeps: those of the built-in components. Requests about them
//! (`_proxy/config`) are answered here, and not by the component.

use std::collections::BTreeMap;
use std::fmt;

use acp_wire::Json;
use acp_wire::config::Operation;
use client::payload::hide_secrets;
use engine::Configured;
use router::Seat;
use serde_json::{Map, Value, json};

use crate::config::Spec;

/// Reads and changes the options of a component.
#[derive(Clone, Copy)]
pub struct ManagedOptions {
    /// The values of all options.
    pub values: fn(&Spec) -> Result<Map<String, Value>, String>,
    /// The JSON Schema of the options.
    pub schema: fn(&Spec) -> Value,
    /// The component with other values for some options. `null` stands for the default value.
    pub with_values: fn(&Spec, &Map<String, Value>) -> Result<Spec, String>,
}

/// New options that were checked, and the options before those that are in use.
#[derive(Debug, Default)]
pub(crate) struct OptionChanges {
    /// By request: options that are not in use.
    staged: BTreeMap<u64, (Seat, Spec)>,
    /// The last change of each component, and what was before it.
    previous: BTreeMap<Seat, (u64, Spec)>,
}

impl OptionChanges {
    /// Answers a request about the options of a component.
    pub(crate) fn configure(
        &mut self,
        (request, seat): (u64, Seat),
        spec: &Spec,
        operation: Operation,
        values: &Json,
    ) -> Result<Configured, String> {
        let name = &spec.name;
        let options = spec.managed.ok_or_else(|| format!("{name} takes no options"))?;
        let read = |spec: &Spec| (options.values)(spec).map(visible);
        match operation {
            Operation::Get => Ok(configured(&read(spec)?, false)),
            Operation::Schema => {
                Ok(configured(&json!({ "schema": (options.schema)(spec) }), false))
            }
            Operation::Set => {
                let values = serde_json::from_str(values.as_str())
                    .map_err(|error| format!("the values cannot be read: {error}"))?;
                let new = (options.with_values)(spec, &values)?;
                let is_changed = (options.values)(spec)? != (options.values)(&new)?;
                let answer = configured(&read(&new)?, is_changed);
                if is_changed {
                    self.staged.insert(request, (seat, new));
                }
                Ok(answer)
            }
        }
    }

    /// The component with the options of a request, to be used from now on. `current` returns the one that is in use.
    pub(crate) fn apply<'a>(
        &mut self,
        request: u64,
        current: impl FnOnce(Seat) -> Option<&'a mut Spec>,
    ) {
        if let Some((seat, new)) = self.staged.remove(&request)
            && let Some(spec) = current(seat)
        {
            self.previous.insert(seat, (request, std::mem::replace(spec, new)));
        }
    }

    /// Forgets the options of a request. If they are in use, the component gets those before them.
    pub(crate) fn drop<'a>(
        &mut self,
        request: u64,
        current: impl FnOnce(Seat) -> Option<&'a mut Spec>,
    ) {
        self.staged.remove(&request);
        let change = self.previous.iter().find(|(_, (number, _))| *number == request);
        if let Some(seat) = change.map(|(seat, _)| *seat)
            && let Some((_, old)) = self.previous.remove(&seat)
            && let Some(spec) = current(seat)
        {
            *spec = old;
        }
    }
}

/// The result of a request about values. Values that are secret are left out, and their names are in `hidden`.
fn visible(values: Map<String, Value>) -> Value {
    let mut hidden = Vec::new();
    let shown: Map<String, Value> = values
        .into_iter()
        .filter(|(name, value)| {
            let whole = json!({ name: value });
            let mut shown = whole.clone();
            hide_secrets(&mut shown);
            if shown != whole {
                hidden.push(name.clone());
            }
            shown == whole
        })
        .collect();
    match hidden.is_empty() {
        true => json!({ "values": shown }),
        false => json!({ "values": shown, "hidden": hidden }),
    }
}

fn configured(result: &Value, restart: bool) -> Configured {
    Configured { result: Json::trusted(result.to_string()), restart }
}

/// Values are equal: they belong to the same kind of component if the rest of the component is equal.
impl PartialEq for ManagedOptions {
    fn eq(&self, _: &ManagedOptions) -> bool {
        true
    }
}

impl Eq for ManagedOptions {}

impl fmt::Debug for ManagedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ManagedOptions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: ManagedOptions = ManagedOptions {
        values: |spec| Ok(spec.options.clone()),
        schema: |_| json!({ "type": "object" }),
        with_values: |spec, values| {
            let mut spec = spec.clone();
            match values.contains_key("wrong") {
                true => return Err("option `wrong`: no".to_owned()),
                false => spec.options.extend(values.clone()),
            }
            Ok(spec)
        },
    };

    fn spec(options: Value) -> Spec {
        let options = options.as_object().expect("an object").clone();
        Spec { name: "a".to_owned(), options, managed: Some(OPTIONS), ..Spec::default() }
    }

    fn configure(
        changes: &mut OptionChanges,
        request: u64,
        spec: &Spec,
        (operation, values): (Operation, &str),
    ) -> Result<(String, bool), String> {
        let values = Json::trusted(values.to_owned());
        let answer = changes.configure((request, Seat(1)), spec, operation, &values);
        answer.map(|it| (it.result.as_str().to_owned(), it.restart))
    }

    #[test]
    fn secrets_are_left_out() {
        let (mut changes, token) = (OptionChanges::default(), format!("ghp_{}", "a1B2".repeat(9)));
        let spec = spec(json!({
            "x": 1.5, "api_key": "k", "list": [format!("a {token}")], "env": { "A": "b" }, "max_tokens": 7,
        }));
        let (shown, restart) =
            configure(&mut changes, 1, &spec, (Operation::Get, "{}")).expect("values");
        assert!(!restart);
        assert_eq!(
            shown,
            r#"{"values":{"x":1.5,"max_tokens":7},"hidden":["api_key","list","env"]}"#
        );
    }

    #[test]
    fn new_options_are_used_when_they_are_applied_and_can_be_dropped() {
        let mut changes = OptionChanges::default();
        let mut spec = spec(json!({ "x": 1 }));
        let set = |changes: &mut OptionChanges, request, spec: &Spec, values: &str| {
            configure(changes, request, spec, (Operation::Set, values))
        };
        let same = set(&mut changes, 1, &spec, r#"{"x":1}"#);
        assert_eq!(same, Ok((r#"{"values":{"x":1}}"#.to_owned(), false)));
        assert!(set(&mut changes, 2, &spec, r#"{"wrong":1}"#).is_err());
        let new = set(&mut changes, 3, &spec, r#"{"x":2}"#);
        assert_eq!(new, Ok((r#"{"values":{"x":2}}"#.to_owned(), true)));
        assert_eq!(spec.options["x"], 1);
        changes.apply(3, |_| Some(&mut spec));
        assert_eq!(spec.options["x"], 2);
        changes.drop(3, |_| Some(&mut spec));
        assert_eq!(spec.options["x"], 1);
        assert!(set(&mut changes, 4, &spec, r#"{"x":4}"#).is_ok());
        changes.drop(4, |_| Some(&mut spec));
        changes.apply(4, |_| Some(&mut spec));
        assert_eq!(spec.options["x"], 1);
        assert!(changes.staged.is_empty() && changes.previous.is_empty());
    }
}
