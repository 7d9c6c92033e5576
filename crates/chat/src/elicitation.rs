//! The request `elicitation/create`: a question of the agent with a small form, or a page to visit.
//!
//! The chat offers choices. A form with a text field, or with several required fields, is declined.

use acp_wire::printable::one_line;
use client::rpc_error;
use serde_json::{Value, json};

use crate::view::{Choice, Question};

/// A form that the chat can show as one question.
#[derive(Debug, PartialEq)]
pub(crate) struct Form {
    message: String,
    /// The values to choose from: the name and the content of the answer.
    choices: Vec<(String, Option<Value>)>,
}

/// Parses the params of `elicitation/create`.
///
/// # Errors
/// A JSON-RPC error: the mode is unknown.
pub(crate) fn parse(params: &Value) -> Result<Form, Value> {
    let message = one_line(params["message"].as_str().unwrap_or("The agent has a question."));
    match params["mode"].as_str() {
        Some("url") => {
            let url = one_line(params["url"].as_str().unwrap_or_default());
            let message = format!("{message} Visit {url}");
            Ok(Form { message, choices: vec![("Done".to_owned(), None)] })
        }
        Some("form") | None => {
            let choices = choices(&params["requestedSchema"]);
            Ok(Form { message, choices })
        }
        Some(_) => Err(rpc_error::invalid_params("this mode of elicitation is not supported")),
    }
}

/// The choices of a form, or none if it is not a single choice.
fn choices(schema: &Value) -> Vec<(String, Option<Value>)> {
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|it| it == name);
    let mut wanted: Vec<_> = properties.iter().filter(|(name, _)| is_required(name)).collect();
    if wanted.is_empty() {
        wanted = properties.iter().collect();
    }
    let [(name, property)] = wanted.as_slice() else { return Vec::new() };
    let content = |value: &Value| {
        let mut content = json!({});
        content[name.as_str()] = value.clone();
        Some(content)
    };
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match property["type"].as_str() {
        Some("boolean") => vec![
            ("Yes".to_owned(), content(&json!(true))),
            ("No".to_owned(), content(&json!(false))),
        ],
        Some("string") if property["oneOf"].is_array() => list(&property["oneOf"])
            .iter()
            .map(|it| (text(&it["title"]), content(&it["const"])))
            .collect(),
        Some("string") => {
            list(&property["enum"]).iter().map(|it| (text(it), content(it))).collect()
        }
        _ => Vec::new(),
    }
}

impl Form {
    /// The question for the user. The last choice declines.
    pub(crate) fn question(&self) -> Question {
        let choice = |(name, _): &(String, Option<Value>)| Choice {
            id: name.clone(),
            name: name.clone(),
            kind: "allow_once".to_owned(),
        };
        let mut options: Vec<Choice> = self.choices.iter().map(choice).collect();
        options.push(Choice {
            id: "decline".to_owned(),
            name: "Decline".to_owned(),
            kind: "reject_once".to_owned(),
        });
        Question { title: self.message.clone(), tool_call: None, options }
    }

    /// The answer for a choice. `None` means that the user has cancelled.
    pub(crate) fn answer(&self, choice: Option<usize>) -> Value {
        match choice.map(|it| self.choices.get(it)) {
            None => json!({ "action": "cancel" }),
            Some(None) => json!({ "action": "decline" }),
            Some(Some((_, None))) => json!({ "action": "accept" }),
            Some(Some((_, Some(content)))) => json!({ "action": "accept", "content": content }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: Value) -> Form {
        parse(&json!({ "mode": "form", "message": "Which?", "requestedSchema": schema }))
            .expect("valid")
    }

    #[test]
    fn a_single_choice_is_a_question() {
        let form = form(
            json!({ "properties": { "color": { "type": "string", "enum": ["red", "blue"] } } }),
        );
        let names: Vec<String> = form.question().options.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["red", "blue", "Decline"]);
        assert_eq!(
            form.answer(Some(1)),
            json!({ "action": "accept", "content": { "color": "blue" } })
        );
        assert_eq!(form.answer(Some(2)), json!({ "action": "decline" }));
        assert_eq!(form.answer(None), json!({ "action": "cancel" }));
    }

    #[test]
    fn other_forms_can_only_be_declined() {
        for schema in [json!({}), json!({ "properties": { "name": { "type": "string" } } })] {
            assert_eq!(form(schema).question().options.len(), 1);
        }
        let url = parse(&json!({ "mode": "url", "message": "Log in.", "url": "https://x" }))
            .expect("valid");
        assert_eq!(url.question().title, "Log in. Visit https://x");
        assert_eq!(url.answer(Some(0)), json!({ "action": "accept" }));
        assert!(parse(&json!({ "mode": "new" })).is_err());
    }
}
