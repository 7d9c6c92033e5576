//! Options of a component that can be read and changed while it runs: the request `_proxy/config`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy_core::{Call, Json, Side};
use acp_wire::config::{CONFIG, ConfigRequest, Operation, without_secrets};
use acp_wire::suggestion;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::component::Component;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::typed::to_json;

/// Why a component refuses new options, in a sentence for the user.
pub type Refusal = String;

/// The options of a component.
struct Options<F> {
    component: String,
    initial: Map<String, Value>,
    current: Map<String, Value>,
    schema: Value,
    /// Reads all values and calls the function of the author.
    change: F,
}

impl Component {
    /// Adds options.
    ///
    /// # Panics
    /// If the options are not an object in JSON.
    #[track_caller]
    pub(crate) fn add_options<T, F>(&mut self, initial: &T, mut on_change: F)
    where
        T: Serialize + DeserializeOwned + JsonSchema + 'static,
        F: FnMut(T, &Context) -> std::result::Result<(), Refusal> + Send + 'static,
    {
        let initial = members_of(initial).unwrap_or_else(|why| panic!("options: {why}"));
        let change = move |all: &Map<String, Value>, context: Option<&Context>| {
            let options: T = serde_json::from_value(Value::Object(all.clone()))
                .map_err(|error| error.to_string())?;
            let read = members_of(&options)?;
            if let Some(context) = context {
                on_change(options, context)?;
            }
            Ok(read)
        };
        let options = Arc::new(Mutex::new(Options {
            component: self.name.clone(),
            current: initial.clone(),
            initial,
            schema: schemars::schema_for!(T).to_value(),
            change,
        }));
        self.add_raw_request(Some(Side::Editor), CONFIG, None, move |call: Call, next| {
            let options = options.clone();
            async move {
                // A request for a component inside of a nested conductor is not for this component.
                match ConfigRequest::of(&call).filter(|it| it.here && it.component.is_none()) {
                    Some(request) => {
                        let mut options = options.lock().unwrap_or_else(PoisonError::into_inner);
                        options.answer(&request, next.context())
                    }
                    None => next.run(call).await,
                }
            }
        });
    }
}

impl<F> Options<F>
where
    F: FnMut(
        &Map<String, Value>,
        Option<&Context>,
    ) -> std::result::Result<Map<String, Value>, Refusal>,
{
    fn answer(&mut self, request: &ConfigRequest, context: &Context) -> Result<Json> {
        match request.operation {
            Operation::Get => Ok(without_secrets(&to_json(&json!({ "values": self.current }))?)),
            Operation::Schema => to_json(&json!({ "schema": self.schema })),
            Operation::Set => {
                let values = request.values.as_ref().ok_or_else(|| {
                    Error::invalid_params(format!("{}: `values` is missing", self.component))
                })?;
                let values: Map<String, Value> = serde_json::from_slice(values.as_bytes())
                    .map_err(|error| self.invalid(&format!("the values are invalid: {error}")))?;
                self.current = self.set(values, context)?;
                let answer = json!({ "values": self.current, "applied": "now" });
                Ok(without_secrets(&to_json(&answer)?))
            }
        }
    }

    /// The values after this change. Nothing is changed if any of them is wrong.
    fn set(&mut self, values: Map<String, Value>, context: &Context) -> Result<Map<String, Value>> {
        self.check_names(&values)?;
        let mut all = self.current.clone();
        for (name, value) in &values {
            self.put(&mut all, name, value);
        }
        (self.change)(&all, None).map_err(|why| {
            let wrong = values.iter().find_map(|(name, value)| {
                let mut alone = self.current.clone();
                self.put(&mut alone, name, value);
                Some((name, (self.change)(&alone, None).err()?))
            });
            match wrong {
                Some((name, why)) => self.invalid(&format!("option `{name}`: {}", hinted(&why))),
                None => self.invalid(&hinted(&why)),
            }
        })?;
        (self.change)(&all, Some(context)).map_err(|why| self.invalid(&why))
    }

    /// `null` stands for the initial value.
    fn put(&self, all: &mut Map<String, Value>, name: &str, value: &Value) {
        let initial = self.initial.get(name);
        match value.is_null() {
            false => drop(all.insert(name.to_owned(), value.clone())),
            true => match initial {
                Some(initial) => drop(all.insert(name.to_owned(), initial.clone())),
                None => drop(all.remove(name)),
            },
        }
    }

    /// Types ignore members that they do not know, unless their author forbids that.
    fn check_names(&self, values: &Map<String, Value>) -> Result<()> {
        let is_open = self.schema.get("additionalProperties").is_some_and(|it| *it != false);
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let names: BTreeSet<&str> = properties
            .into_iter()
            .flat_map(Map::keys)
            .chain(self.initial.keys())
            .map(String::as_str)
            .collect();
        let Some(name) = values.keys().find(|name| !is_open && !names.contains(name.as_str()))
        else {
            return Ok(());
        };
        let hint = suggestion::closest(name, names.iter().copied());
        let hint = hint.map(|it| format!("did you mean `{it}`? ")).unwrap_or_default();
        let all = names.into_iter().collect::<Vec<_>>().join(", ");
        Err(self.invalid(&format!("there is no option `{name}`; {hint}The options are {all}")))
    }

    fn invalid(&self, why: &str) -> Error {
        Error::invalid_params(format!("{}: {why}", self.component))
    }
}

/// An error of serde, with a hint if it is about an unknown name.
fn hinted(why: &str) -> String {
    let mut quoted = why.split('`').skip(1).step_by(2);
    let hint = match why.starts_with("unknown ") {
        true => quoted.next().and_then(|name| suggestion::closest(name, quoted)),
        false => None,
    };
    hint.map_or_else(|| why.to_owned(), |hint| format!("{why}; did you mean `{hint}`?"))
}

fn members_of<T: Serialize>(options: &T) -> std::result::Result<Map<String, Value>, String> {
    match serde_json::to_value(options).map_err(|error| error.to_string())? {
        Value::Object(members) => Ok(members),
        _ => Err("the type must be a struct with named fields".to_owned()),
    }
}

/// The options of another component, from [`Context::options_of`].
#[derive(Debug, Clone)]
pub struct ComponentOptions {
    context: Context,
    component: String,
}

impl ComponentOptions {
    /// The values as they are. Secret values are left out.
    ///
    /// # Errors
    /// The error of the component, or of the conductor if it takes no options.
    pub async fn values(&self) -> Result<Map<String, Value>> {
        match self.ask("get").await?.get("values") {
            Some(Value::Object(values)) => Ok(values.clone()),
            _ => Err(Error::internal(format!("{} answers without `values`", self.component))),
        }
    }

    /// The values as a type. Give the fields defaults, because secret values are left out.
    ///
    /// # Errors
    /// As [`values`](ComponentOptions::values), or the values do not fit the type.
    pub async fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let values = Value::Object(self.values().await?);
        serde_json::from_value(values).map_err(|error| Error::internal(error.to_string()))
    }

    /// The JSON Schema of the options.
    ///
    /// # Errors
    /// As [`values`](ComponentOptions::values).
    pub async fn schema(&self) -> Result<Value> {
        let answer = self.ask("schema").await?;
        let missing = || Error::internal(format!("{} answers without `schema`", self.component));
        answer.get("schema").cloned().ok_or_else(missing)
    }

    async fn ask(&self, operation: &str) -> Result<Value> {
        let params = json!({ "component": self.component, "op": operation });
        let answer = self.context.agent().request_raw(CONFIG, params).await?;
        serde_json::from_slice(answer.as_bytes())
            .map_err(|error| Error::internal(format!("{}: {error}", self.component)))
    }
}

impl Context {
    /// The options of a component behind this one: its name in the chain, `nested/name` for a component inside of a
    /// nested conductor, or `conductor`. Only the editor can set options.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    ///
    /// let proxy = Proxy::new("curious").on_prompt(async |prompt, next| {
    ///     if let Ok(options) = next.options_of("filter").values().await {
    ///         next.log(format!("filter has {} options", options.len()));
    ///     }
    ///     next.run(prompt).await
    /// });
    /// ```
    pub fn options_of(&self, component: impl Into<String>) -> ComponentOptions {
        ComponentOptions { context: self.clone(), component: component.into() }
    }
}
