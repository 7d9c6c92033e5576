//! The messages about HTML panels.

use std::collections::BTreeMap;

use acp_proxy_core::Side;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Done;
use crate::message_type::{Notification, Request};

/// Shows a panel with HTML, or changes it and brings it to the front: `_scp/html_panel/show`.
///
/// A new panel needs a label and contents. For a panel that exists, what is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShowPanel {
    /// The id of the panel. Ids of different components never mix.
    pub id: String,
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The HTML. The editor keeps only the elements and classes that it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// The session that the panel belongs to.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

impl ShowPanel {
    /// A new panel, or new contents for one that exists.
    pub fn new(
        id: impl Into<String>,
        label: impl Into<String>,
        contents: impl Into<String>,
    ) -> ShowPanel {
        ShowPanel::update(id).label(label).contents(contents)
    }

    /// A change of a panel that exists. Without a label and contents, it only brings the panel to the front.
    pub fn update(id: impl Into<String>) -> ShowPanel {
        ShowPanel { id: id.into(), ..ShowPanel::default() }
    }

    /// Sets the title.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> ShowPanel {
        self.label = Some(label.into());
        self
    }

    /// Sets the HTML.
    #[must_use]
    pub fn contents(mut self, contents: impl Into<String>) -> ShowPanel {
        self.contents = Some(contents.into());
        self
    }

    /// Sets the session. [`Context::show_panel`](crate::Context::show_panel) sets that of the message that is being
    /// handled, if there is one.
    #[must_use]
    pub fn in_session(mut self, session: impl Into<String>) -> ShowPanel {
        self.session_id = Some(session.into());
        self
    }
}

impl Request for ShowPanel {
    const METHOD: &'static str = "_scp/html_panel/show";
    const SENDER: Option<Side> = Some(Side::Agent);
    type Response = Done;
}

/// Removes a panel: `_scp/html_panel/clear`. It is no error if there is no such panel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClearPanel {
    /// The id of the panel.
    pub id: String,
}

impl Request for ClearPanel {
    const METHOD: &'static str = "_scp/html_panel/clear";
    const SENDER: Option<Side> = Some(Side::Agent);
    type Response = Done;
}

/// Returns the contents of a panel: `_scp/html_panel/get`. `None` if there is no such panel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GetPanel {
    /// The id of the panel.
    pub id: String,
}

impl Request for GetPanel {
    const METHOD: &'static str = "_scp/html_panel/get";
    const SENDER: Option<Side> = Some(Side::Agent);
    type Response = Option<String>;
}

/// The user has used a widget of a panel: `_scp/html_panel/event`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PanelEvent {
    /// The id of the panel.
    pub id: String,
    /// The name of the widget: its attribute `data-widget`.
    pub widget: String,
    /// What the user has done.
    pub kind: PanelEventKind,
    /// What the user has chosen or entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The texts that a button with `data-submit` has sent along, by the name of their input. Empty texts are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// The session that the panel belongs to.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

impl PanelEvent {
    /// The value as a text. Empty if there is none.
    pub fn text(&self) -> String {
        match &self.value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        }
    }
}

impl Notification for PanelEvent {
    const METHOD: &'static str = "_scp/html_panel/event";
    const SENDER: Option<Side> = Some(Side::Editor);
}

/// What the user has done with a widget.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PanelEventKind {
    /// Clicked a button.
    Click,
    /// Chosen an option.
    Choice,
    /// Entered a text.
    Input,
    /// Opened or closed a part that can be folded. The value is `true` or `false`.
    Toggle,
    /// Something that this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// The user has closed a panel: `_scp/html_panel/closed`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PanelClosed {
    /// The id of the panel.
    pub id: String,
    /// The session that the panel belongs to.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

impl Notification for PanelClosed {
    const METHOD: &'static str = "_scp/html_panel/closed";
    const SENDER: Option<Side> = Some(Side::Editor);
}
