//! What handlers are given: a message, and a way to let it go on.

use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Side};
use agent_client_protocol_schema::v1::{
    AuthenticateRequest, AuthenticateResponse, CloseSessionRequest, CloseSessionResponse,
    ContentBlock, CreateTerminalRequest, CreateTerminalResponse, InitializeRequest,
    InitializeResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ReadTextFileRequest, ReadTextFileResponse,
    RequestPermissionRequest, RequestPermissionResponse, SetSessionModeRequest,
    SetSessionModeResponse, WriteTextFileRequest, WriteTextFileResponse,
};
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

    /// It is the proxy's own, and not what the request at hand asks for.
    fn is_own(&self) -> bool {
        false
    }
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
pub trait LinkProtocol: Serialize + DeserializeOwned + 'static {
    const METHOD: &'static str;
    const FROM: Side;
    type Answer: Serialize + DeserializeOwned + 'static;
}

macro_rules! spoken {
    ($($request:ty => $answer:ty, $from:ident $method:literal;)*) => {$(
        impl LinkProtocol for $request {
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

impl<T: LinkProtocol> Ask for Typed<T> {
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
pub struct Prompt {
    request: Typed<PromptRequest>,
    /// It is the proxy's own.
    own: bool,
}

impl Prompt {
    pub(crate) fn read(json: &Json) -> Result<Prompt> {
        Ok(Prompt { request: Typed::read(json)?, own: false })
    }

    /// The id of the session it belongs to.
    pub fn session(&self) -> &str {
        &self.request.session_id.0
    }

    /// What it says: all its text, blocks joined with line breaks.
    pub fn text(&self) -> String {
        let texts = self.request.prompt.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    pub fn prepend_text(&mut self, text: impl Into<String>) {
        self.request.prompt.insert(0, ContentBlock::from(text.into()));
    }

    pub fn append_text(&mut self, text: impl Into<String>) {
        self.request.prompt.push(ContentBlock::from(text.into()));
    }

    /// Says something else in each of its text blocks.
    pub fn edit_text(&mut self, mut edit: impl FnMut(&mut String)) {
        for block in &mut self.request.prompt {
            if let ContentBlock::Text(text) = block {
                edit(&mut text.text);
            }
        }
    }

    /// Another prompt for the same session, with this text only. It is the proxy's own: see
    /// [`Next::run_own`].
    pub fn instead(&self, text: impl Into<String>) -> Prompt {
        let blocks = vec![ContentBlock::from(text.into())];
        let request = PromptRequest::new(self.request.session_id.clone(), blocks).into();
        Prompt { request, own: true }
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

impl Ask for Prompt {
    type Answer = Typed<PromptResponse>;

    fn into_call(self) -> Result<Call> {
        self.request.into_call()
    }

    fn read_answer(json: Json) -> Result<Typed<PromptResponse>> {
        read_end(&json)
    }

    fn is_own(&self) -> bool {
        self.own
    }
}

/// Reads how a turn ended. A reason that the schema does not know is kept, and read as the end of the turn.
pub(crate) fn read_end(json: &Json) -> Result<Typed<PromptResponse>> {
    let known = json.with_at(&["stopReason"], Some(&Json::trusted(r#""end_turn""#)));
    Typed::read(json).or_else(|why| {
        match json.member("stopReason").is_some_and(|it| it.is_string()) {
            true => Typed::read_with(json, &known),
            false => Err(why),
        }
    })
}

/// Where in a message a reader failed. That is what is logged: the rest of the error may quote the message.
pub(crate) fn place_of(why: &Error) -> String {
    let text = why.message();
    let place = text.rsplit_once(" at line ").map(|(_, place)| place);
    let numbers = place.and_then(|place| place.split_once(" column "));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match numbers.filter(|(line, column)| is_number(line) && is_number(column)) {
        Some((line, column)) => {
            format!("it is not what the schema says, at line {line} column {column}")
        }
        None => "it is not what the schema says".to_owned(),
    }
}

/// Lets a request go on: to the next handler, and at last to the other side. May be used never, once
/// or more than once.
pub struct Next<T> {
    pub(crate) cx: Cx,
    pub(crate) toward: Side,
    /// The handlers that come next.
    pub(crate) rest: Arc<[Handler]>,
    /// What is sent is the proxy's own.
    pub(crate) own: bool,
    pub(crate) kind: PhantomData<fn(T)>,
}

impl<T: Ask> Next<T> {
    /// Sends the request on, changed or not, and waits for its answer; for a prompt, for the end of the turn.
    pub async fn run(&self, request: T) -> Result<T::Answer> {
        let own = self.own || request.is_own();
        self.send(request, own).await
    }

    /// The same with a request of the proxy's own, such as a prompt that is to be answered before the user's.
    /// In ACP version 2, the editor's prompt is accepted when one that is not the proxy's own is.
    pub async fn run_own(&self, request: T) -> Result<T::Answer> {
        self.send(request, true).await
    }

    async fn send(&self, request: T, own: bool) -> Result<T::Answer> {
        let call = request.into_call()?;
        let method = call.method.clone();
        let answer = self.pass(call, own).await?;
        T::read_answer(answer).map_err(|why| {
            let name = &self.cx.shared.name;
            Error::internal(format!("{name} cannot read the answer to {}: {why}", method.name()))
        })
    }

    pub(crate) async fn pass(&self, call: Call, own: bool) -> Result<Json> {
        match self.rest.split_first() {
            Some((handler, rest)) => {
                let next = Next {
                    cx: self.cx.clone(),
                    toward: self.toward,
                    rest: rest.into(),
                    own,
                    kind: PhantomData,
                };
                handler(call, next).await
            }
            None => {
                let of = self.cx.of.as_ref().map(|(id, _)| id.clone());
                self.cx.shared.pass_on(self.toward, call, of, own).await
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
        match shared.unread(&method, &place_of(&why)) {
            Verdict::Drop => Err(shared.refusal(&method, &why.message())),
            Verdict::Pass => self.pass(call, self.own).await,
        }
    }

    /// For everything else.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    pub(crate) fn kind<U>(self) -> Next<U> {
        let Next { cx, toward, rest, own, .. } = self;
        Next { cx, toward, rest, own, kind: PhantomData }
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
