//! How a session is opened.

/// How a session is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// A new session.
    New,
    /// An earlier session with this id. The agent repeats its messages.
    Load(String),
    /// An earlier session with this id, without its messages.
    Resume(String),
}

impl Opening {
    /// The method, for requests and error messages.
    pub fn method(&self) -> &'static str {
        match self {
            Opening::New => "session/new",
            Opening::Load(_) => "session/load",
            Opening::Resume(_) => "session/resume",
        }
    }
}
