//! What an agent says to the editor, in fewer words.
//!
//! ```no_run
//! use sdk::Proxy;
//! use sdk::schema::{NewSessionRequest, NewSessionResponse, PromptResponse, StopReason};
//!
//! # async fn agent() -> std::io::Result<()> {
//! Proxy::agent("parrot")
//!     .on(async |_: sdk::Typed<NewSessionRequest>, _| Ok(NewSessionResponse::new("only").into()))
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

use crate::context::Peer;
use crate::error::Result;
use crate::handler::{Ask, Spoken};
use crate::typed::Typed;

impl Peer {
    /// Tells what happens in a session.
    pub fn update(&self, session: &str, update: SessionUpdate) -> Result<()> {
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
    pub async fn request<T: Spoken>(&self, request: T) -> Result<Typed<T::Answer>> {
        let call = Typed::from(request).into_call()?;
        Typed::<T>::read_answer(self.ask_raw(call).await?)
    }
}

fn chunk(text: impl Into<String>) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text.into()))
}
