//! What handlers are given: a message, and a way to let it go on.

use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    AuthenticateRequest, AuthenticateResponse, CloseSessionRequest, CloseSessionResponse,
    ContentBlock, CreateTerminalRequest, CreateTerminalResponse, InitializeRequest,
    InitializeResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ReadTextFileRequest, ReadTextFileResponse,
    RequestPermissionRequest, RequestPermissionResponse, SetSessionModeRequest,
    SetSessionModeResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use driver::{Call, Json, Side};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Cx;
use crate::error::{Error, Result};
use crate::typed::Typed;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Json>>>>;
pub(crate) type Handler = Arc<dyn Fn(Call, Next<Call>) -> Answering + Send + Sync>;

/// A request as a handler sees it.
pub trait Ask: Sized {
    type Answer;

    fn into_call(self) -> Result<Call>;
    fn read_answer(json: Json) -> Result<Self::Answer>;
}

/// Untyped: any method, anything.
impl Ask for Call {
    type Answer = Json;

    fn into_call(self) -> Result<Call> {
        Ok(self)
    }

    fn read_answer(json: Json) -> Result<Json> {
        Ok(json)
    }
}

/// A request of the ACP schema: its method, from which side it comes, and its answer.
pub trait Spoken: Serialize + DeserializeOwned + 'static {
    const METHOD: &'static str;
    const FROM: Side;
    type Answer: Serialize + DeserializeOwned + 'static;
}

macro_rules! spoken {
    ($($request:ty => $answer:ty, $from:ident $method:literal;)*) => {$(
        impl Spoken for $request {
            const METHOD: &'static str = $method;
            const FROM: Side = Side::$from;
            type Answer = $answer;
        }
    )*};
}

spoken! {
    InitializeRequest => InitializeResponse, Editor "initialize";
    AuthenticateRequest => AuthenticateResponse, Editor "authenticate";
    NewSessionRequest => NewSessionResponse, Editor "session/new";
    LoadSessionRequest => LoadSessionResponse, Editor "session/load";
    CloseSessionRequest => CloseSessionResponse, Editor "session/close";
    PromptRequest => PromptResponse, Editor "session/prompt";
    SetSessionModeRequest => SetSessionModeResponse, Editor "session/set_mode";
    RequestPermissionRequest => RequestPermissionResponse, Agent "session/request_permission";
    ReadTextFileRequest => ReadTextFileResponse, Agent "fs/read_text_file";
    WriteTextFileRequest => WriteTextFileResponse, Agent "fs/write_text_file";
    CreateTerminalRequest => CreateTerminalResponse, Agent "terminal/create";
}

impl<T: Spoken> Ask for Typed<T> {
    type Answer = Typed<T::Answer>;

    fn into_call(self) -> Result<Call> {
        Ok(Call::new(T::METHOD, self.write()?))
    }

    fn read_answer(json: Json) -> Result<Typed<T::Answer>> {
        Typed::read(&json)
    }
}

/// A prompt of the user: a [`PromptRequest`] with what one does most with it.
#[derive(Debug, Clone)]
pub struct Prompt(Typed<PromptRequest>);

impl Prompt {
    pub(crate) fn read(json: &Json) -> Result<Prompt> {
        Ok(Prompt(Typed::read(json)?))
    }

    /// The id of the session it belongs to.
    pub fn session(&self) -> &str {
        &self.0.session_id.0
    }

    /// What it says: all its text, blocks joined with line breaks.
    pub fn text(&self) -> String {
        let texts = self.0.prompt.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    pub fn prepend_text(&mut self, text: impl Into<String>) {
        self.0.prompt.insert(0, ContentBlock::from(text.into()));
    }

    pub fn append_text(&mut self, text: impl Into<String>) {
        self.0.prompt.push(ContentBlock::from(text.into()));
    }

    /// Says something else in each of its text blocks.
    pub fn edit_text(&mut self, mut edit: impl FnMut(&mut String)) {
        for block in &mut self.0.prompt {
            if let ContentBlock::Text(text) = block {
                edit(&mut text.text);
            }
        }
    }

    /// Another prompt for the same session, with this text only.
    pub fn instead(&self, text: impl Into<String>) -> Prompt {
        let blocks = vec![ContentBlock::from(text.into())];
        Prompt(PromptRequest::new(self.0.session_id.clone(), blocks).into())
    }
}

impl Deref for Prompt {
    type Target = PromptRequest;

    fn deref(&self) -> &PromptRequest {
        &self.0
    }
}

impl DerefMut for Prompt {
    fn deref_mut(&mut self) -> &mut PromptRequest {
        &mut self.0
    }
}

impl Ask for Prompt {
    type Answer = Typed<PromptResponse>;

    fn into_call(self) -> Result<Call> {
        self.0.into_call()
    }

    fn read_answer(json: Json) -> Result<Typed<PromptResponse>> {
        Typed::read(&json)
    }
}

/// Lets a request go on: to the next handler, and at last to the other side. May be used never, once
/// or more than once.
pub struct Next<T> {
    pub(crate) cx: Cx,
    pub(crate) toward: Side,
    /// The handlers that come next.
    pub(crate) rest: Arc<[Handler]>,
    pub(crate) kind: PhantomData<fn(T)>,
}

impl<T: Ask> Next<T> {
    /// Sends the request on, changed or not, and waits for its answer.
    pub async fn run(&self, request: T) -> Result<T::Answer> {
        let call = request.into_call()?;
        let method = call.method.clone();
        let answer = self.pass(call).await?;
        T::read_answer(answer).map_err(|why| {
            let name = &self.cx.shared.name;
            Error::internal(format!("{name} cannot read the answer to {}: {why}", method.name()))
        })
    }

    pub(crate) async fn pass(&self, call: Call) -> Result<Json> {
        match self.rest.split_first() {
            Some((handler, rest)) => {
                let next = Next {
                    cx: self.cx.clone(),
                    toward: self.toward,
                    rest: rest.into(),
                    kind: PhantomData,
                };
                handler(call, next).await
            }
            None => {
                let of = self.cx.of.as_ref().map(|(id, _)| id.clone());
                self.cx.shared.pass_on(self.toward, call, of).await
            }
        }
    }

    /// What to do with a request that its type cannot read. A proxy passes it on unless it is strict; an
    /// agent refuses it.
    pub(crate) async fn unread(&self, call: Call, why: Error) -> Result<Json> {
        let shared = &self.cx.shared;
        if shared.last {
            return Err(why);
        }
        let method = call.method.name().into_owned();
        match shared.unread(&method, &why.message()) {
            Verdict::Drop => Err(shared.refusal(&method, &why.message())),
            Verdict::Pass => self.pass(call).await,
        }
    }

    /// For everything else.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    pub(crate) fn kind<U>(self) -> Next<U> {
        Next { cx: self.cx, toward: self.toward, rest: self.rest, kind: PhantomData }
    }
}

impl<T> std::fmt::Debug for Next<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").field("toward", &self.toward).finish_non_exhaustive()
    }
}

/// What becomes of a notification after a handler has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It ends here.
    Drop,
}

impl From<()> for Verdict {
    fn from((): ()) -> Verdict {
        Verdict::Pass
    }
}
