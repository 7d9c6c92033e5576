//! `Next`: how a handler sends a request on.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Side};
use serde::Serialize;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::message_type::{Request, call_with, to_call};
use crate::typed::{Origin, read_or_empty, to_json};

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Json>>>>;
pub(crate) type Handler = Arc<dyn Fn(Call, Next<Call>) -> HandlerFuture + Send + Sync>;

/// How many answers are remembered to write the handler's answer with as few changes as possible.
const MAX_ANSWERS: usize = 8;

/// A request that [`Next::run`] can send: every [`Request`], [`Prompt`](crate::Prompt),
/// [`Permission`](crate::Permission), and [`Call`] for requests of any method. Other types cannot implement it.
pub trait Forward: sealed::Sealed + Sized {
    /// The type of the answer.
    type Answer;

    #[doc(hidden)]
    fn into_call(self, received: Option<&Origin>) -> Result<Call>;

    #[doc(hidden)]
    fn read_answer(json: Json) -> Result<(Self::Answer, Option<Origin>)>;

    /// Whether this is a request that the proxy sends in addition to the one that it handles.
    #[doc(hidden)]
    fn is_extra(&self) -> bool {
        false
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl<T: crate::Request> Sealed for T {}
    impl Sealed for acp_proxy_core::Call {}
}

impl<T: Request> Forward for T {
    type Answer = T::Response;

    fn into_call(self, received: Option<&Origin>) -> Result<Call> {
        match received {
            Some(origin) => Ok(call_with(T::METHOD, origin.write(&self)?)),
            None => to_call(T::METHOD, &self),
        }
    }

    fn read_answer(json: Json) -> Result<(T::Response, Option<Origin>)> {
        read_or_empty(&json).map(|(answer, origin)| (answer, Some(origin)))
    }
}

impl Forward for Call {
    type Answer = Json;

    fn into_call(self, _: Option<&Origin>) -> Result<Call> {
        Ok(self)
    }

    fn read_answer(json: Json) -> Result<(Json, Option<Origin>)> {
        Ok((json, None))
    }
}

/// The answers that a handler has received, so that the answer that it returns keeps unknown members.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedAnswers(Rc<RefCell<Vec<Origin>>>);

impl ReceivedAnswers {
    fn push(&self, origin: Origin) {
        let mut origins = self.0.borrow_mut();
        if origins.len() == MAX_ANSWERS {
            origins.remove(0);
        }
        origins.push(origin);
    }

    /// Writes the answer that a handler returns. It belongs to the received answer that it is equal to, or else
    /// to the last one.
    pub(crate) fn write(&self, answer: &impl Serialize) -> Result<Json> {
        let origins = self.0.borrow();
        let json = to_json(answer)?;
        let same = origins.iter().rev().find(|origin| origin.is_unchanged(&json));
        match same.or(origins.last()) {
            Some(origin) => origin.write(answer),
            None => Ok(json),
        }
    }
}

/// Sends the request that a handler got to the next handler, and finally to the other side.
///
/// A handler may call [`run`](Next::run) once, several times, or not at all. `Next` dereferences to [`Context`], so
/// `next.say(…)`, `next.editor()` and `next.agent()` work.
pub struct Next<T> {
    pub(crate) context: Context,
    pub(crate) toward: Side,
    /// The handlers of the request, and how many of them have run.
    pub(crate) handlers: Arc<[Handler]>,
    pub(crate) position: usize,
    /// Whether requests that are sent on are extra ones.
    pub(crate) is_extra: bool,
    /// The text of the request that the handler got.
    pub(crate) received: Option<Origin>,
    pub(crate) answers: ReceivedAnswers,
    pub(crate) kind: PhantomData<fn(T)>,
}

impl<T: Forward> Next<T> {
    /// Sends the request on, changed or not, and waits for the answer. For a prompt it waits for the end of the
    /// turn, in ACP version 1 and 2.
    ///
    /// Members that the type does not know are kept in both directions: in the request, and in the answer that the
    /// handler returns. So a handler that builds a new answer after `run` still returns the unknown members of the
    /// received answer. To return only what you build, use a handler without a type.
    ///
    /// # Errors
    /// The error that the other side answers with, or an error if the answer does not fit its type.
    pub async fn run(&self, request: T) -> Result<T::Answer> {
        let is_extra = self.is_extra || request.is_extra();
        self.send(request, is_extra).await
    }

    /// Sends an additional request of the same type, such as a prompt before the user's prompt.
    ///
    /// In ACP version 2 the editor learns that its prompt is accepted when a prompt is accepted that is not an
    /// additional one.
    ///
    /// # Errors
    /// As [`run`](Next::run).
    pub async fn run_extra(&self, request: T) -> Result<T::Answer> {
        self.send(request, true).await
    }

    async fn send(&self, request: T, is_extra: bool) -> Result<T::Answer> {
        let call = request.into_call(self.received.as_ref())?;
        let method = call.method.clone();
        let answer = self.pass(call, is_extra).await?;
        let (answer, origin) = T::read_answer(answer).map_err(|why| {
            let name = &self.context.shared.name;
            Error::internal(format!("{name} cannot read the answer to {}: {why}", method.name()))
        })?;
        if let Some(origin) = origin {
            self.answers.push(origin);
        }
        Ok(answer)
    }
}

impl<T> Next<T> {
    /// The side that has sent the request.
    pub fn sender(&self) -> Side {
        self.toward.opposite()
    }

    /// The context of the request, for tasks that outlive the handler.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) async fn pass(&self, call: Call, is_extra: bool) -> Result<Json> {
        let Some(handler) = self.handlers.get(self.position) else {
            let parent = self.context.request_id();
            return self.context.shared.forward(self.toward, call, parent, is_extra).await;
        };
        let next = Next {
            context: self.context.clone(),
            toward: self.toward,
            handlers: self.handlers.clone(),
            position: self.position + 1,
            is_extra,
            received: None,
            answers: ReceivedAnswers::default(),
            kind: PhantomData,
        };
        handler(call, next).await
    }

    /// Handles a request that does not fit the type of its handler. A proxy forwards it unless the proxy is
    /// strict. An agent refuses it.
    pub(crate) async fn pass_unreadable(&self, call: Call, why: Error) -> Result<Json> {
        let shared = &self.context.shared;
        if shared.is_agent {
            return Err(why);
        }
        let method = call.method.name().into_owned();
        match shared.report_unreadable(&method, &position_of(&why)) {
            Delivery::Drop => Err(shared.refusal(&method, &why.message())),
            Delivery::Forward => self.pass(call, self.is_extra).await,
        }
    }

    /// A copy, to send the request on after its handler has returned.
    pub(crate) fn again(&self) -> Next<T> {
        Next {
            context: self.context.clone(),
            toward: self.toward,
            handlers: self.handlers.clone(),
            position: self.position,
            is_extra: self.is_extra,
            received: self.received.clone(),
            answers: self.answers.clone(),
            kind: PhantomData,
        }
    }

    pub(crate) fn of_type<U>(self, received: Option<Origin>) -> Next<U> {
        let Next { context, toward, handlers, position, is_extra, answers, .. } = self;
        let kind = PhantomData;
        Next { context, toward, handlers, position, is_extra, received, answers, kind }
    }
}

impl<T> Deref for Next<T> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl<T> std::fmt::Debug for Next<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").field("toward", &self.toward).finish_non_exhaustive()
    }
}

/// The position in a message at which reading failed. Only this is logged, because the rest of the error may
/// quote the message.
pub(crate) fn position_of(why: &Error) -> String {
    let text = why.message();
    let place = text.rsplit_once(" at line ").map(|(_, place)| place);
    let numbers = place.and_then(|place| place.split_once(" column "));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match numbers.filter(|(line, column)| is_number(line) && is_number(column)) {
        Some((line, column)) => {
            format!("it does not fit the schema, at line {line} column {column}")
        }
        None => "it does not fit the schema".to_owned(),
    }
}

/// What happens to a notification after its handler: a handler that returns nothing forwards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The notification goes to the next handler, and finally to the other side.
    Forward,
    /// The notification is dropped.
    Drop,
}

impl From<()> for Delivery {
    fn from((): ()) -> Delivery {
        Delivery::Forward
    }
}
