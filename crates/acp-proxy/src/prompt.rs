//! The user's prompt.

use std::ops::{Deref, DerefMut};

use acp_proxy_core::{Call, Json};
use agent_client_protocol_schema::v1::{ContentBlock, PromptRequest, PromptResponse};

use crate::error::Result;
use crate::message_type::{Request, call_with, to_call};
use crate::next::{Forward, Next, sealed};
use crate::session::Turn;
use crate::typed::{Origin, read, read_with};

/// A prompt of the user, in ACP version 1 and 2. It dereferences to
/// [`PromptRequest`](crate::schema::PromptRequest).
#[derive(Debug, Clone)]
pub struct Prompt {
    request: PromptRequest,
    origin: Option<Origin>,
    is_extra: bool,
    /// How many texts for the agent are before the blocks of the user.
    added: usize,
}

impl Prompt {
    pub(crate) fn read(params: &Json) -> Result<Prompt> {
        let (request, origin) = read(params)?;
        Ok(Prompt { request, origin: Some(origin), is_extra: false, added: 0 })
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        &self.request.session_id.0
    }

    /// The text of the prompt. Several text blocks are joined with line breaks.
    pub fn text(&self) -> String {
        let texts = self.request.prompt.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Adds a text block for the agent, such as notes or files: before the user's blocks, and behind the blocks that were added
    /// in this way before. If the user's text is a [command](Prompt::is_command), the block is added at the end, because
    /// agents look for a command only at the beginning.
    pub fn add_context(&mut self, text: impl Into<String>) {
        let block = ContentBlock::from(text.into());
        if self.added == 0 && self.is_command() {
            self.request.prompt.push(block);
            return;
        }
        let index = self.added.min(self.request.prompt.len());
        self.request.prompt.insert(index, block);
        self.added = index + 1;
    }

    /// Whether the first text begins with a slash, as `/compact` does.
    pub fn is_command(&self) -> bool {
        let first = self.request.prompt.iter().find_map(|block| match block {
            ContentBlock::Text(text) => Some(&text.text),
            _ => None,
        });
        first.is_some_and(|text| text.starts_with('/'))
    }

    /// Adds a text block at the beginning. Agents then do not find a command of the user, such as `/compact`. See
    /// [`add_context`](Prompt::add_context).
    pub fn prepend_text(&mut self, text: impl Into<String>) {
        self.request.prompt.insert(0, ContentBlock::from(text.into()));
    }

    /// Adds a text block at the end.
    pub fn append_text(&mut self, text: impl Into<String>) {
        self.request.prompt.push(ContentBlock::from(text.into()));
    }

    /// Edits each text block.
    pub fn edit_text(&mut self, mut edit: impl FnMut(&mut String)) {
        for block in &mut self.request.prompt {
            if let ContentBlock::Text(text) = block {
                edit(&mut text.text);
            }
        }
    }

    /// An additional prompt for the same session, with this text only. Send it with [`Next::run`] before or after
    /// the user's prompt.
    pub fn extra(&self, text: impl Into<String>) -> Prompt {
        let blocks = vec![ContentBlock::from(text.into())];
        let request = PromptRequest::new(self.request.session_id.clone(), blocks);
        Prompt { request, origin: None, is_extra: true, added: 0 }
    }
}

impl Deref for Prompt {
    type Target = PromptRequest;

    fn deref(&self) -> &PromptRequest {
        &self.request
    }
}

impl DerefMut for Prompt {
    fn deref_mut(&mut self) -> &mut PromptRequest {
        &mut self.request
    }
}

impl sealed::Sealed for Prompt {}

impl Forward for Prompt {
    type Answer = PromptResponse;

    fn into_call(self, _: Option<&Origin>) -> Result<Call> {
        match &self.origin {
            Some(origin) => Ok(call_with(PromptRequest::METHOD, origin.write(&self.request)?)),
            None => to_call(PromptRequest::METHOD, &self.request),
        }
    }

    fn read_answer(json: Json) -> Result<(PromptResponse, Option<Origin>)> {
        read_end_of_turn(&json).map(|(answer, origin)| (answer, Some(origin)))
    }

    fn is_extra(&self) -> bool {
        self.is_extra
    }
}

impl Next<Prompt> {
    /// Sends the prompt on, waits for the end of the turn, and collects the agent's updates. The updates still go
    /// to the editor as they come.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    ///
    /// let proxy = Proxy::new("count").on_prompt(async |prompt, next| {
    ///     let turn = next.run_turn(prompt).await?;
    ///     next.say(format!("\n({} characters)", turn.text().chars().count()))?;
    ///     Ok(turn.response)
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`run`](Next::run).
    pub async fn run_turn(&self, prompt: Prompt) -> Result<Turn> {
        let shared = self.context.shared.clone();
        let collected = shared.updates.collect(prompt.session());
        let response = self.run(prompt).await?;
        Ok(Turn { response, updates: collected.take() })
    }
}

/// Reads how a turn ended. An unknown stop reason is kept in the text and read as `end_turn`.
pub(crate) fn read_end_of_turn(json: &Json) -> Result<(PromptResponse, Origin)> {
    let known = json.with_at(&["stopReason"], Some(&Json::trusted(r#""end_turn""#)));
    read(json).or_else(|why| match json.member("stopReason").is_some_and(|it| it.is_string()) {
        true => read_with(json, &known),
        false => Err(why),
    })
}
