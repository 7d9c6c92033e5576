//! Method names.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::json::{Json, Span};

/// A method name, with the spelling that it had in its line.
#[derive(Clone)]
pub struct Method(Name);

#[derive(Clone)]
enum Name {
    /// A well-known name, spelled without escapes. It is cheap to read, copy and compare.
    WellKnown(&'static WellKnown),
    Other(Box<Json>),
}

struct WellKnown {
    name: &'static str,
    json: Json,
}

macro_rules! well_known {
    ($($name:literal)*) => {
        static WELL_KNOWN: [WellKnown; [$($name),*].len()] = [$(WellKnown {
            name: $name,
            json: Json::from_static(concat!("\"", $name, "\"")),
        }),*];
    };
}

// The most frequent names come first. A name that is not in this list works the same, but costs more.
well_known! {
    "session/update"
    "proxy/successor"
    "_proxy/successor"
    "session/prompt"
    "session/request_permission"
    "fs/read_text_file"
    "fs/write_text_file"
    "terminal/create"
    "terminal/output"
    "terminal/wait_for_exit"
    "terminal/release"
    "terminal/kill"
    "session/cancel"
    "$/cancel_request"
    "mcp/message"
    "_mcp/message"
    "mcp/connect"
    "_mcp/connect"
    "mcp/disconnect"
    "_mcp/disconnect"
    "session/new"
    "session/load"
    "session/resume"
    "session/close"
    "session/set_mode"
    "session/set_model"
    "session/set_config_option"
    "initialize"
    "authenticate"
}

fn find(test: impl Fn(&WellKnown) -> bool) -> Option<&'static WellKnown> {
    WELL_KNOWN.iter().find(|known| test(known))
}

impl Method {
    /// The method in this range of a line, which must be a JSON string.
    pub(crate) fn slice_of(line: &Bytes, span: Span) -> Method {
        let spelling = span.of(line);
        Method(match find(|known| known.json.as_bytes() == spelling) {
            Some(known) => Name::WellKnown(known),
            None => Name::Other(Box::new(Json::slice_of(line, span))),
        })
    }

    /// The unescaped name.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.0 {
            Name::WellKnown(known) => Cow::Borrowed(known.name),
            Name::Other(json) => json.text().unwrap_or_default(),
        }
    }

    /// The name as a JSON string.
    pub fn json(&self) -> &Json {
        match &self.0 {
            Name::WellKnown(known) => &known.json,
            Name::Other(json) => json,
        }
    }

    /// A copy that does not share the memory of its line.
    pub(crate) fn detached(&self) -> Method {
        Method(match &self.0 {
            Name::WellKnown(known) => Name::WellKnown(known),
            Name::Other(json) => Name::Other(Box::new(json.detached())),
        })
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Method {
        Method(match find(|known| known.name == name) {
            Some(known) => Name::WellKnown(known),
            None => Name::Other(Box::new(Json::string(name))),
        })
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, name: &str) -> bool {
        match &self.0 {
            Name::WellKnown(known) => known.name == name,
            Name::Other(json) => json.equals_text(name),
        }
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Method) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_a_name_are_equal() {
        let read = |text: &'static str| {
            let line = Bytes::from_static(text.as_bytes());
            Method::slice_of(&line, Span { start: 0, end: text.len() })
        };
        for known in &WELL_KNOWN {
            let method = Method::from(known.name);
            assert!(method == *known.name && method.name() == known.name);
            assert_eq!(method.json().text().unwrap(), known.name);
            assert!(matches!(method.0, Name::WellKnown(_)));
        }
        let spelling = read(r#""session\/update""#);
        assert_eq!(spelling.json().as_str(), r#""session\/update""#);
        assert!(spelling == *"session/update" && spelling == read(r#""session/update""#));
        assert!(read(r#""session/updat""#) != *"session/update");
        assert_eq!(read(r#""_x/y""#).name(), "_x/y");
        assert_eq!(Method::from("a\"b").json().as_str(), r#""a\"b""#);
    }
}
