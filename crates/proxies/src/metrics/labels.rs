//! Values of labels: short, and from bounded sets.

use std::collections::HashMap;

use acp_proxy::{Call, Json, Outcome, Side};
use acp_wire::code;

use component_base::sessions::session_key;

/// How many methods are distinguished. Further ones are `other`.
const MAX_METHODS: usize = 64;

/// The longest name of a method, in bytes. Longer ones are `other`.
const MAX_NAME: usize = 100;

/// The number of a method.
pub(super) type MethodNumber = u16;

/// The methods that have been seen.
#[derive(Debug)]
pub(super) struct Methods {
    numbers: HashMap<Box<str>, MethodNumber>,
    names: Vec<Box<str>>,
}

/// The method of answers to unknown requests, and of those beyond the limit.
pub(super) const OTHER: MethodNumber = 0;

impl Default for Methods {
    fn default() -> Methods {
        Methods { numbers: HashMap::new(), names: vec!["other".into()] }
    }
}

impl Methods {
    /// The number of the method of a call.
    pub(super) fn number(&mut self, call: &Call) -> MethodNumber {
        let name = call.method.name();
        if let Some(number) = self.numbers.get(&*name) {
            return *number;
        }
        if self.names.len() > MAX_METHODS || name.len() > MAX_NAME {
            return OTHER;
        }
        let number = self.names.len() as MethodNumber;
        self.numbers.insert(name.as_ref().into(), number);
        self.names.push(name.as_ref().into());
        number
    }

    /// The name of a method.
    pub(super) fn name(&self, number: MethodNumber) -> &str {
        self.names.get(usize::from(number)).map_or("other", |name| name)
    }
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    Notification,
    Result,
    Error,
}

impl MessageKind {
    pub(super) fn of(outcome: &Outcome) -> MessageKind {
        match outcome {
            Outcome::Result(_) => MessageKind::Result,
            Outcome::Error(_) => MessageKind::Error,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            MessageKind::Request => "request",
            MessageKind::Notification => "notification",
            MessageKind::Result => "result",
            MessageKind::Error => "error",
        }
    }
}

pub(super) fn side(side: Side) -> &'static str {
    match side {
        Side::Editor => "editor",
        Side::Agent => "agent",
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Ok,
    Error,
    Cancelled,
    /// The component ended before it answered.
    Crashed,
}

impl Ending {
    pub(super) fn of(outcome: &Outcome) -> Ending {
        match outcome {
            Outcome::Result(_) => Ending::Ok,
            Outcome::Error(_) if outcome.error_code() == Some(code::CANCELLED) => Ending::Cancelled,
            Outcome::Error(_) => Ending::Error,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Ending::Ok => "ok",
            Ending::Error => "error",
            Ending::Cancelled => "cancelled",
            Ending::Crashed => "crashed",
        }
    }
}

/// The value, if it is in the list. `other` if it is not.
pub(super) fn one_of(value: &str, values: &[&'static str]) -> &'static str {
    values.iter().find(|it| **it == value).copied().unwrap_or("other")
}

/// A permission request: what it is about, on all its hops, and the kinds of its options.
#[derive(Debug)]
pub(super) struct PermissionRequest {
    /// The session and the tool call. Several requests may have the same.
    pub(super) key: String,
    options: Vec<(String, &'static str)>,
}

impl PermissionRequest {
    pub(super) fn read(call: &Call) -> Option<PermissionRequest> {
        const KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];
        let params = call.params.as_ref()?;
        let text =
            |json: Option<Json>| json.as_ref().and_then(Json::text).map(|it| it.into_owned());
        let paths = [&["toolCall", "toolCallId"][..], &["subject", "toolCall", "toolCallId"]];
        let call = paths.iter().find_map(|path| text(params.at(path))).unwrap_or_default();
        let session = text(params.member("sessionId")).unwrap_or_default();
        let options = params.member("options").map(|it| it.elements()).unwrap_or_default();
        let options = options.iter().take(32).filter_map(|option| {
            let kind = text(option.member("kind")).unwrap_or_default();
            Some((text(option.member("optionId"))?, one_of(&kind, &KINDS)))
        });
        let key = format!("{}\n{}", session_key(&session), session_key(&call));
        Some(PermissionRequest { key, options: options.collect() })
    }

    /// The decision in an answer: the kind of the chosen option.
    pub(super) fn decision(&self, outcome: &Outcome) -> &'static str {
        let Outcome::Result(result) = outcome else { return "error" };
        match result.at(&["outcome", "optionId"]).as_ref().and_then(Json::text) {
            Some(id) => {
                let chosen = self.options.iter().find(|(option, _)| *option == id);
                chosen.map_or("other", |(_, kind)| kind)
            }
            None => "cancelled",
        }
    }
}
