//! What components do with SCP: show panels and comments, and handle the events about them.

use acp_proxy_core::Json;

use super::{
    Capabilities, ClearComment, ClearPanel, CommentReply, GetPanel, PanelClosed, PanelEvent,
    ShowComment, ShowPanel,
};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::message_type::Notification;
use crate::next::Delivery;
use crate::proxy::Proxy;
use crate::shared::Shared;

/// Panels and comments, as [`scp`](crate::scp) describes them.
impl Context {
    /// What the editor offers: panels, comments and operations. Nothing before `initialize`. A component that is
    /// restarted gets the same `initialize` again.
    pub fn editor_capabilities(&self) -> Capabilities {
        self.shared.editor_capabilities.borrow().clone()
    }

    /// Shows a panel, or changes it.
    ///
    /// # Errors
    /// If the editor does not show panels, or the error that it answers with.
    pub async fn show_panel(&self, mut panel: ShowPanel) -> Result<()> {
        self.require(|it| it.html_panel, "html_panel")?;
        panel.session_id = panel.session_id.or_else(|| self.session());
        self.editor().request(panel).await.map(drop)
    }

    /// Removes a panel. It is no error if there is no such panel.
    ///
    /// # Errors
    /// As [`show_panel`](Context::show_panel).
    pub async fn clear_panel(&self, id: impl Into<String>) -> Result<()> {
        self.require(|it| it.html_panel, "html_panel")?;
        self.editor().request(ClearPanel { id: id.into() }).await.map(drop)
    }

    /// The contents of a panel. `None` if there is no such panel.
    ///
    /// # Errors
    /// As [`show_panel`](Context::show_panel).
    pub async fn get_panel(&self, id: impl Into<String>) -> Result<Option<String>> {
        self.require(|it| it.html_panel, "html_panel")?;
        self.editor().request(GetPanel { id: id.into() }).await
    }

    /// Shows a comment on a file, or replaces it. An editor of SCP 1.0 shows where the comment is, without its text.
    ///
    /// # Errors
    /// If the editor does not show comments, or the error that it answers with.
    pub async fn show_comment(&self, mut comment: ShowComment) -> Result<()> {
        self.require(|it| it.file_comment, "file_comment")?;
        comment.session_id = comment.session_id.or_else(|| self.session());
        self.editor().request(comment).await.map(drop)
    }

    /// Removes a comment. It is no error if there is no such comment.
    ///
    /// # Errors
    /// As [`show_comment`](Context::show_comment). An editor of SCP 1.0 cannot remove comments.
    pub async fn clear_comment(&self, id: impl Into<String>) -> Result<()> {
        self.require(|it| it.file_comment && it.has_additions(), "file_comment of version 1.1")?;
        self.editor().request(ClearComment { id: id.into() }).await.map(drop)
    }

    fn require(&self, has: impl Fn(&Capabilities) -> bool, name: &str) -> Result<()> {
        match has(&self.shared.editor_capabilities.borrow()) {
            true => Ok(()),
            false => Err(Error::internal(format!(
                "the editor does not have the SCP capability `{name}`; show the text in the chat instead"
            ))),
        }
    }
}

/// Events about panels and comments. An event reaches the component that has shown the panel or comment. It may pass
/// other components on its way, so each handler returns whether the event is its own. An event that no handler takes
/// passes on.
impl Proxy {
    /// Handles each use of a widget in a panel. The handler returns whether the panel is its own. It cannot wait: use
    /// [`Context::spawn`].
    #[must_use]
    pub fn on_panel_event<F>(self, handler: F) -> Proxy
    where
        F: FnMut(&PanelEvent, &Context) -> bool + Send + 'static,
    {
        self.on_own(handler)
    }

    /// Handles each panel that the user closes. The handler returns whether the panel is its own.
    #[must_use]
    pub fn on_panel_closed<F>(self, handler: F) -> Proxy
    where
        F: FnMut(&PanelClosed, &Context) -> bool + Send + 'static,
    {
        self.on_own(handler)
    }

    /// Handles each reply of the user to a comment. The handler returns whether the comment is its own.
    #[must_use]
    pub fn on_comment_reply<F>(self, handler: F) -> Proxy
    where
        F: FnMut(&CommentReply, &Context) -> bool + Send + 'static,
    {
        self.on_own(handler)
    }

    fn on_own<T: Notification>(
        self,
        mut handler: impl FnMut(&T, &Context) -> bool + Send + 'static,
    ) -> Proxy {
        self.on_notification(move |event: &mut T, context: &Context| {
            match handler(event, context) {
                true => Delivery::Drop,
                false => Delivery::Forward,
            }
        })
    }
}

impl Shared {
    /// The editor says what it offers, in the parameters of `initialize`.
    pub(crate) fn remember_capabilities(&self, params: Option<&Json>) {
        let capabilities = params.map(Capabilities::of).unwrap_or_default();
        self.editor_capabilities.replace(capabilities);
    }
}
