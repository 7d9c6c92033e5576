//! The ids of panels and comments. They say what they belong to, so that an answer of the user can be passed on even if
//! the component was restarted and has forgotten the walkthrough.

/// What a panel or a comment belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) session: String,
    pub(super) title: String,
    /// The place of a comment: its path and lines. `None` for the panel.
    pub(super) place: Option<String>,
}

const PREFIX: &str = "walkthrough";
const SEPARATOR: char = '|';

impl Subject {
    pub(super) fn panel(session: &str, title: &str) -> Subject {
        Subject { session: session.to_owned(), title: title.to_owned(), place: None }
    }

    pub(super) fn comment(session: &str, title: &str, place: &str) -> Subject {
        Subject { place: Some(place.to_owned()), ..Subject::panel(session, title) }
    }

    pub(super) fn id(&self) -> String {
        let parts = [PREFIX, &self.session, &self.title].into_iter().chain(self.place.as_deref());
        parts.map(escape).collect::<Vec<_>>().join("|")
    }

    /// The subject of an id. `None` if the id is not one of this component.
    pub(super) fn read(id: &str) -> Option<Subject> {
        let mut parts = id.split(SEPARATOR).map(unescape);
        if parts.next()? != PREFIX {
            return None;
        }
        let (session, title, place) = (parts.next()?, parts.next()?, parts.next());
        parts.next().is_none().then_some(Subject { session, title, place })
    }
}

fn escape(part: &str) -> String {
    part.replace('%', "%25").replace(SEPARATOR, "%7C")
}

fn unescape(part: &str) -> String {
    part.replace("%7C", "|").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_read_again() {
        for title in ["A tour", "a|b", "100%", "%7C|%25", "ä"] {
            let panel = Subject::panel("s|1", title);
            assert_eq!(Subject::read(&panel.id()), Some(panel));
            let comment = Subject::comment("s%", title, "src/a|b.rs:1-2");
            assert_eq!(Subject::read(&comment.id()), Some(comment));
        }
        for id in ["", "walkthrough", "walkthrough|s", "other|s|t", "walkthrough|s|t|p|more"] {
            assert_eq!(Subject::read(id), None, "{id}");
        }
    }
}
