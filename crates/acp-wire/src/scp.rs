//! The messages of SCP about panels and comments, and the ids in them.
//!
//! A component shows a panel or a comment under an id that it has chosen. The editor reports with the same id what a
//! person does with it, and this message must reach the component that owns the id. Two components may choose the same
//! id. So a conductor [marks](Marks) the ids inside its chain with their owner.
//!
//! ```json
//! {"method":"_scp/html_panel/show","params":{"id":"plan","label":"Plan","contents":"<p>…</p>"}}
//! {"method":"_scp/html_panel/event","params":{"id":"plan","widget":"go","kind":"click"}}
//! ```

use crate::json::Json;
use crate::message::{Call, Side};

/// What an id names. A panel and a comment may have the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `_scp/html_panel/…`
    Panel,
    /// `_scp/file_comment/…`
    Comment,
}

/// What a message does with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `show`: creates or updates it. Travels toward the editor.
    Show,
    /// `get`: reads it. Travels toward the editor.
    Get,
    /// `clear`: removes it. Travels toward the editor.
    Clear,
    /// `event`, `closed` or `reply`: a person has used it. Travels toward the agent, to the owner of the id.
    Use,
}

/// What a message toward this side does, and with what. `None` for every message that has no owner: all other methods,
/// and these methods in the wrong direction.
pub fn classify(toward: Side, call: &Call) -> Option<(Kind, Action)> {
    let name = call.method.name();
    let name = name.strip_prefix("_scp/")?;
    Some(match (toward, name) {
        (Side::Editor, "html_panel/show") => (Kind::Panel, Action::Show),
        (Side::Editor, "html_panel/get") => (Kind::Panel, Action::Get),
        (Side::Editor, "html_panel/clear") => (Kind::Panel, Action::Clear),
        (Side::Editor, "file_comment/show") => (Kind::Comment, Action::Show),
        (Side::Editor, "file_comment/clear") => (Kind::Comment, Action::Clear),
        (Side::Agent, "html_panel/event" | "html_panel/closed") => (Kind::Panel, Action::Use),
        (Side::Agent, "file_comment/reply") => (Kind::Comment, Action::Use),
        _ => return None,
    })
}

/// The id of the panel or comment in a message. `None` if it is missing or is not a string.
pub fn id(call: &Call) -> Option<Json> {
    call.params.as_ref()?.member("id").filter(Json::is_string)
}

/// Replaces the id of the panel or comment in a message. The rest of the params stays byte for byte.
pub fn set_id(call: &mut Call, id: &Json) {
    call.params = call.params.as_ref().map(|params| params.with_member("id", id));
}

/// Adds the owner to ids inside one chain, and removes it again.
///
/// The id `plan` of the owner 2 becomes `conductor.8f3a.2.plan`, where `8f3a` identifies the chain. The mark consists of
/// characters that no encoder escapes. So it survives a component that writes the text anew, and an id without its
/// mark has the spelling that its owner has used.
#[derive(Debug, Clone)]
pub struct Marks {
    prefix: String,
}

impl Marks {
    /// The marks of the chain with this number. Chains that contain each other need different numbers.
    pub fn new(chain: u64) -> Marks {
        Marks { prefix: format!("conductor.{chain:x}.") }
    }

    /// The id with its owner. `id` is a JSON string.
    pub fn add(&self, owner: u16, id: &Json) -> Json {
        let inner = inner(id);
        let mut text = format!("\"{}{owner}.", self.prefix);
        text.reserve(inner.len() + 1);
        text.push_str(inner);
        text.push('"');
        Json::trusted(text)
    }

    /// The owner in a marked id, and the id without the mark. `None` if the id has no mark of this chain.
    pub fn split(&self, id: &Json) -> Option<(u16, Json)> {
        let spelling = inner(id);
        if let Some((owner, rest)) = self.split_text(spelling) {
            return Some((owner, Json::trusted(format!("\"{rest}\""))));
        }
        // A component has written the mark with escapes.
        let text = id.text().filter(|_| spelling.contains('\\'))?;
        let (owner, rest) = self.split_text(&text)?;
        Some((owner, Json::string(rest)))
    }

    fn split_text<'a>(&self, text: &'a str) -> Option<(u16, &'a str)> {
        let (owner, rest) = text.strip_prefix(self.prefix.as_str())?.split_once('.')?;
        let number: u16 = owner.parse().ok()?;
        // Each owner has one spelling.
        (number.to_string() == owner).then_some((number, rest))
    }
}

/// The text between the quotes of a JSON string, with its escapes.
fn inner(id: &Json) -> &str {
    let text = id.as_str();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_with_an_owner_are_classified() {
        let of = |toward, method: &str| classify(toward, &Call::new(method, None));
        for (method, kind, action) in [
            ("_scp/html_panel/show", Kind::Panel, Action::Show),
            ("_scp/html_panel/get", Kind::Panel, Action::Get),
            ("_scp/html_panel/clear", Kind::Panel, Action::Clear),
            ("_scp/file_comment/show", Kind::Comment, Action::Show),
            ("_scp/file_comment/clear", Kind::Comment, Action::Clear),
        ] {
            assert_eq!(of(Side::Editor, method), Some((kind, action)), "{method}");
            assert_eq!(of(Side::Agent, method), None, "{method}");
        }
        for (method, kind) in [
            ("_scp/html_panel/event", Kind::Panel),
            ("_scp/html_panel/closed", Kind::Panel),
            ("_scp/file_comment/reply", Kind::Comment),
        ] {
            assert_eq!(of(Side::Agent, method), Some((kind, Action::Use)), "{method}");
            assert_eq!(of(Side::Editor, method), None, "{method}");
        }
        for method in ["session/update", "_scp/log", "_scp/mcp", "_scp/ide_operation/open-file"] {
            assert_eq!((of(Side::Editor, method), of(Side::Agent, method)), (None, None));
        }
    }

    #[test]
    fn a_mark_keeps_the_spelling_of_the_id() {
        let marks = Marks::new(0x8f3a);
        for (id, marked) in [
            (r#""plan""#, r#""conductor.8f3a.2.plan""#),
            (r#""""#, r#""conductor.8f3a.2.""#),
            (r#""a\u0041\"\ud800 ü.7.""#, r#""conductor.8f3a.2.a\u0041\"\ud800 ü.7.""#),
            // An id that looks like one with a mark.
            (r#""conductor.8f3a.3.x""#, r#""conductor.8f3a.2.conductor.8f3a.3.x""#),
        ] {
            let id = Json::trusted(id.to_owned());
            assert_eq!(marks.add(2, &id).as_str(), marked);
            assert_eq!(marks.split(&marks.add(2, &id)), Some((2, id)));
        }
        let long = Json::string(&"x".repeat(100_000));
        assert_eq!(marks.split(&marks.add(65_535, &long)), Some((65_535, long)));
    }

    #[test]
    fn a_mark_may_be_written_with_escapes() {
        let marks = Marks::new(1);
        let id = Json::trusted(r#""\u0063onductor.1.2.a\n""#);
        assert_eq!(marks.split(&id), Some((2, Json::trusted(r#""a\n""#))));
    }

    #[test]
    fn an_id_without_a_mark_of_this_chain_is_not_split() {
        let marks = Marks::new(1);
        for id in [
            "plan",
            "conductor.1",
            "conductor.1.",
            "conductor.1.x",
            "conductor.1..x",
            "conductor.1.02.x",
            "conductor.1.+2.x",
            "conductor.1.65536.x",
            "conductor.2.1.x",
            "conductor.11.1.x",
        ] {
            assert_eq!(marks.split(&Json::string(id)), None, "{id}");
        }
        assert_eq!(Marks::new(2).split(&marks.add(1, &Json::string("x"))), None);
    }

    #[test]
    fn only_the_id_of_a_message_changes() {
        let params = r#"{"x": 1.10, "id" : "a","contents":"<p>\u0041</p>"}"#;
        let mut call = Call::new("_scp/html_panel/show", Json::trusted(params));
        assert_eq!(id(&call), Some(Json::trusted(r#""a""#)));
        set_id(&mut call, &Json::string("b"));
        let expected = r#"{"x": 1.10, "id" : "b","contents":"<p>\u0041</p>"}"#;
        assert_eq!(call.params.unwrap().as_str(), expected);
        for params in ["{}", r#"{"id":7}"#, r#"{"id":null}"#, "[]", r#""id""#] {
            let call = Call::new("_scp/html_panel/show", Json::trusted(params));
            assert_eq!(id(&call), None, "{params}");
        }
        assert_eq!(id(&Call::new("_scp/html_panel/show", None)), None);
    }
}
