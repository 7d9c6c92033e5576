//! What an agent says to the editor, in fewer words.
//!
//! ```no_run
//! use acp_proxy::Proxy;
//! use acp_proxy::schema::{NewSessionRequest, NewSessionResponse, PromptResponse, StopReason};
//!
//! # async fn agent() -> std::io::Result<()> {
//! Proxy::agent("parrot")
//!     .on(async |_: acp_proxy::Typed<NewSessionRequest>, _| Ok(NewSessionResponse::new("only").into()))
//!     .on_prompt(async |prompt, next| {
//!         next.cx().editor().say(prompt.session(), prompt.text())?;
//!         Ok(PromptResponse::new(StopReason::EndTurn).into())
//!     })
//!     .serve_stdio()
//!     .await
//! # }
//! ```
//!
//! A turn that takes its time ends when [`Cx::cancelled`](crate::Cx::cancelled) is ready.

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, SessionId, SessionNotification, SessionUpdate,
};

use acp_proxy_core::Json;

use crate::context::Peer;
use crate::error::Result;
use crate::handler::{Ask, LinkProtocol};
use crate::turn::update_call;
use crate::typed::{Typed, to_json};

impl Peer {
    /// Tells what happens in a session. In ACP version 2, messages get ids.
    pub fn update(&self, session: &str, update: SessionUpdate) -> Result<()> {
        let shared = &self.cx.shared;
        if shared.is_v2() {
            let update = shared.in_v2(session, &to_json(&update)?);
            self.notify_raw(update_call(session, update));
            return Ok(());
        }
        let session = SessionId::new(session);
        self.notify("session/update", SessionNotification::new(session, update))
    }

    /// Tells a piece of the answer. Pieces are joined as they are.
    pub fn say(&self, session: &str, text: impl Into<String>) -> Result<()> {
        self.update(session, SessionUpdate::AgentMessageChunk(chunk(text)))
    }

    /// Tells a piece of what the agent thinks.
    pub fn think(&self, session: &str, text: impl Into<String>) -> Result<()> {
        self.update(session, SessionUpdate::AgentThoughtChunk(chunk(text)))
    }

    /// Asks something that the schema knows, such as
    /// [`RequestPermissionRequest`](crate::schema::RequestPermissionRequest).
    pub async fn request<T: LinkProtocol>(&self, request: T) -> Result<Typed<T::Answer>> {
        let mut call = Typed::from(request).into_call()?;
        if self.cx.shared.is_v2() && T::METHOD == "session/request_permission" {
            call.params = call.params.as_ref().map(permission_in_v2);
        }
        Typed::<T>::read_answer(self.ask_raw(call).await?)
    }
}

/// A request for permission as ACP version 2 spells it.
fn permission_in_v2(params: &Json) -> Json {
    let call = params.member("toolCall");
    let title = call.as_ref().and_then(|call| call.member("title"));
    let subject =
        Json::object([("type", Some(Json::string("tool_call"))), ("toolCall", call.clone())]);
    Json::object([
        ("sessionId", params.member("sessionId")),
        ("title", Some(title.unwrap_or_else(|| Json::string("Use a tool")))),
        ("subject", Some(subject)),
        ("options", params.member("options")),
    ])
}

fn chunk(text: impl Into<String>) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text.into()))
}
