//! Method names.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::json::{Json, Span};

/// A method name, as the JSON string that it was spelt as.
#[derive(Clone)]
pub struct Method(Name);

#[derive(Clone)]
enum Name {
    /// A well-known one, spelt without escapes. To read, copy and compare it costs next to nothing.
    Known(&'static Known),
    Other(Box<Json>),
}

struct Known {
    name: &'static str,
    json: Json,
}

macro_rules! known {
    ($($name:literal)*) => {
        static KNOWN: [Known; [$($name),*].len()] = [$(Known {
            name: $name,
            json: Json::from_static(concat!("\"", $name, "\"")),
        }),*];
    };
}

// The most frequent ones first. A name that is missing here costs more and works all the same.
known! {
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

fn find(test: impl Fn(&Known) -> bool) -> Option<&'static Known> {
    KNOWN.iter().find(|known| test(known))
}

impl Method {
    /// The method in this part of a line, which is a JSON string.
    pub(crate) fn slice_of(line: &Bytes, span: Span) -> Method {
        let spelt = span.of(line);
        Method(match find(|known| known.json.as_bytes() == spelt) {
            Some(known) => Name::Known(known),
            None => Name::Other(Box::new(Json::slice_of(line, span))),
        })
    }

    pub fn name(&self) -> Cow<'_, str> {
        match &self.0 {
            Name::Known(known) => Cow::Borrowed(known.name),
            Name::Other(json) => json.text().unwrap_or_default(),
        }
    }

    pub fn json(&self) -> &Json {
        match &self.0 {
            Name::Known(known) => &known.json,
            Name::Other(json) => json,
        }
    }

    /// A copy that does not keep the line it was cut from alive.
    pub(crate) fn detached(&self) -> Method {
        Method(match &self.0 {
            Name::Known(known) => Name::Known(known),
            Name::Other(json) => Name::Other(Box::new(json.detached())),
        })
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Method {
        Method(match find(|known| known.name == name) {
            Some(known) => Name::Known(known),
            None => Name::Other(Box::new(Json::string(name))),
        })
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, name: &str) -> bool {
        match &self.0 {
            Name::Known(known) => known.name == name,
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
    fn a_name_is_the_same_however_it_is_spelt() {
        let read = |text: &'static str| {
            let line = Bytes::from_static(text.as_bytes());
            Method::slice_of(&line, Span { start: 0, end: text.len() })
        };
        for known in &KNOWN {
            let method = Method::from(known.name);
            assert!(method == *known.name && method.name() == known.name);
            assert_eq!(method.json().text().unwrap(), known.name);
            assert!(matches!(method.0, Name::Known(_)));
        }
        let spelt = read(r#""session\/update""#);
        assert_eq!(spelt.json().as_str(), r#""session\/update""#);
        assert!(spelt == *"session/update" && spelt == read(r#""session/update""#));
        assert!(read(r#""session/updat""#) != *"session/update");
        assert_eq!(read(r#""_x/y""#).name(), "_x/y");
        assert_eq!(Method::from("a\"b").json().as_str(), r#""a\"b""#);
    }
}
