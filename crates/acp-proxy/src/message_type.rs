//! Types for requests and notifications: those of the ACP schema, and your own.

use acp_proxy_core::{Call, Json, Side};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::typed::{read_or_empty, to_json};

/// A type of request. Implement it for your own types to use them with
/// [`Proxy::on_request`](crate::Proxy::on_request) and [`Peer::request`](crate::Peer::request).
///
/// Every request type of the ACP schema implements it.
///
/// ```
/// use acp_proxy::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(crate = "acp_proxy::serde")]
/// struct Search {
///     words: String,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(crate = "acp_proxy::serde")]
/// struct Hits {
///     files: Vec<String>,
/// }
///
/// impl Request for Search {
///     const METHOD: &'static str = "_example/search";
///     type Response = Hits;
/// }
///
/// let proxy = Proxy::new("search")
///     // Answers requests from either side.
///     .on_request(async |search: Search, _next| Ok(Hits { files: vec![search.words] }))
///     // Sends a request to the agent.
///     .on_prompt(async |mut prompt, next| {
///         let hits = next.agent().request(Search { words: prompt.text() }).await?;
///         prompt.append_text(format!("See {}", hits.files.join(", ")));
///         next.run(prompt).await
///     });
/// ```
pub trait Request: Serialize + DeserializeOwned + 'static {
    /// The JSON-RPC method. Names of your own begin with an underscore.
    const METHOD: &'static str;

    /// The side that sends this request. `None`, the default, means either side.
    const SENDER: Option<Side> = None;

    /// The ACP version that this type belongs to. `None`, the default, means every version.
    ///
    /// A handler of a version 2 type runs only on connections of version 2, and there it replaces the handlers
    /// of version 1 types with the same method.
    const VERSION: Option<u16> = None;

    /// The type of the answer.
    type Response: Serialize + DeserializeOwned + 'static;

    /// Reads a call. `None` if the call has another method.
    ///
    /// # Errors
    /// If the method is the same and the parameters do not fit this type.
    fn from_call(call: &Call) -> Result<Option<Self>> {
        read_call(Self::METHOD, call)
    }

    /// Writes this value to a call that it was read from. Members that this type does not know stay.
    ///
    /// # Errors
    /// If the call has another method, or does not fit this type.
    fn update_call(&self, call: &mut Call) -> Result<()> {
        update_call(Self::METHOD, self, call)
    }
}

/// A type of notification. Implement it for your own types to use them with
/// [`Proxy::on_notification`](crate::Proxy::on_notification) and [`Peer::notify`](crate::Peer::notify).
///
/// Every notification type of the ACP schema implements it.
///
/// ```
/// use acp_proxy::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(crate = "acp_proxy::serde")]
/// struct Progress {
///     percent: u8,
/// }
///
/// impl Notification for Progress {
///     const METHOD: &'static str = "_example/progress";
/// }
///
/// let proxy = Proxy::new("progress").on_notification(|progress: &mut Progress, context| {
///     context.log(format!("{} %", progress.percent));
///     progress.percent = progress.percent.min(100);
/// });
/// ```
pub trait Notification: Serialize + DeserializeOwned + 'static {
    /// The JSON-RPC method. Names of your own begin with an underscore.
    const METHOD: &'static str;

    /// The side that sends this notification. `None`, the default, means either side.
    const SENDER: Option<Side> = None;

    /// The ACP version that this type belongs to. `None`, the default, means every version. See
    /// [`Request::VERSION`].
    const VERSION: Option<u16> = None;

    /// Reads a call. `None` if the call has another method.
    ///
    /// # Errors
    /// If the method is the same and the parameters do not fit this type.
    fn from_call(call: &Call) -> Result<Option<Self>> {
        read_call(Self::METHOD, call)
    }

    /// Writes this value to a call that it was read from. Members that this type does not know stay.
    ///
    /// # Errors
    /// If the call has another method, or does not fit this type.
    fn update_call(&self, call: &mut Call) -> Result<()> {
        update_call(Self::METHOD, self, call)
    }
}

/// The parameters of a call. `null` if there are none.
pub(crate) fn params(call: &Call) -> Json {
    call.params.clone().unwrap_or(Json::NULL)
}

/// A call with these parameters. Parameters that were absent stay absent.
pub(crate) fn call_with(method: &str, params: Json) -> Call {
    match params.is_null() {
        true => Call { params: None, ..Call::new(method, Json::EMPTY_OBJECT) },
        false => Call::new(method, params),
    }
}

pub(crate) fn to_call(method: &str, value: &impl Serialize) -> Result<Call> {
    Ok(Call::new(method, to_json(value)?))
}

fn read_call<T: Serialize + DeserializeOwned>(method: &str, call: &Call) -> Result<Option<T>> {
    match call.is(method) {
        true => Ok(Some(read_or_empty(&params(call))?.0)),
        false => Ok(None),
    }
}

fn update_call<T: Serialize + DeserializeOwned>(
    method: &str,
    value: &T,
    call: &mut Call,
) -> Result<()> {
    if !call.is(method) {
        let other = call.method.name();
        return Err(Error::internal(format!("a {method} cannot be written to a {other}")));
    }
    let (_, origin) = read_or_empty::<T>(&params(call))?;
    let written = origin.write(value)?;
    call.params = if written.is_null() { None } else { Some(written) };
    Ok(())
}
