//! Permission requests of the agent, in ACP version 1 and 2.

use std::borrow::Cow;
use std::collections::BTreeMap;

use acp_proxy_core::{Call, Json};
use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest, ToolKind,
};

use crate::error::{Error, Result};
use crate::known_calls::PermissionSubject;
use crate::message_type::Request;
use crate::next::{Forward, sealed};
use crate::tool_call::ToolCall;
use crate::typed::Origin;

/// A request of the agent for permission, with everything that is known about the tool call.
///
/// The request often has only the id of the tool call, because the agent has described the call in an earlier
/// `session/update`. This type has both. A detail that is unknown, or that programs may read differently, is
/// `None`. Do not treat it as harmless.
///
/// ```
/// use acp_proxy::prelude::*;
///
/// let proxy = Proxy::new("gate").strict().on_permission(async |permission, next| {
///     match permission.kind() {
///         Some(ToolKind::Read | ToolKind::Search) => Ok(permission.allow()),
///         Some(ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => Ok(permission.deny()),
///         _ => next.run(permission).await, // ask the user
///     }
/// });
/// ```
#[derive(Debug, Clone)]
pub struct Permission {
    params: Json,
    session: String,
    call: Option<ToolCall>,
    earlier: Option<ToolCall>,
    options: Vec<PermissionOption>,
}

impl Permission {
    pub(crate) fn read(params: &Json, subject: Option<PermissionSubject>) -> Result<Permission> {
        let missing = |what: &str| Error::invalid_params(format!("it has no {what}"));
        let session = params.member("sessionId");
        let session = session.as_ref().and_then(Json::text).ok_or_else(|| missing("sessionId"))?;
        let session = session.into_owned();
        let options = params.member("options").filter(Json::is_array);
        let options = options.ok_or_else(|| missing("options"))?.elements();
        // An option that the schema does not know cannot be chosen here, nor one whose id is not unique.
        let ids: Vec<_> = options.iter().map(|it| it.member("optionId")).collect();
        let ids: Vec<_> = ids.iter().map(|id| id.as_ref().and_then(Json::text)).collect();
        let mut counts = BTreeMap::<&str, usize>::new();
        ids.iter().flatten().for_each(|id| *counts.entry(id).or_default() += 1);
        let is_unique =
            |id: &Option<Cow<'_, str>>| id.as_ref().is_some_and(|id| counts[&**id] == 1);
        let options = options.iter().zip(&ids).filter(|(_, id)| is_unique(id));
        let options =
            options.filter_map(|(it, _)| serde_json::from_slice(it.as_bytes()).ok()).collect();
        let (call, earlier) = subject.map(|it| (it.call, it.earlier)).unzip();
        let of_session = |call| ToolCall::new(session.clone(), call);
        Ok(Permission {
            params: params.clone(),
            call: call.map(of_session),
            earlier: earlier.flatten().map(of_session),
            session,
            options,
        })
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The tool call: the details of this request and of the earlier updates. `None` if the request names no tool
    /// call.
    pub fn tool_call(&self) -> Option<&ToolCall> {
        self.call.as_ref()
    }

    /// What the agent has reported about the tool call in updates before this request. `None` if it has reported
    /// nothing.
    pub fn earlier(&self) -> Option<&ToolCall> {
        self.earlier.as_ref()
    }

    /// The parameters of the request, as the agent has sent them.
    pub fn json(&self) -> &Json {
        &self.params
    }

    /// The kind of the tool call. `None` if it is unknown, and [`ToolKind::Other`] if the schema does not know the
    /// kind. Do not allow either without asking the user.
    pub fn kind(&self) -> Option<ToolKind> {
        self.call.as_ref()?.kind()
    }

    /// The title of the tool call, or of the request.
    pub fn title(&self) -> Option<String> {
        let title = self.call.as_ref().and_then(ToolCall::title);
        title.or_else(|| self.params.member("title")?.text().map(|title| title.into_owned()))
    }

    /// The files that the agent has named for the tool call ([`ToolCall::paths`]).
    pub fn paths(&self) -> Vec<std::path::PathBuf> {
        self.call.as_ref().map(ToolCall::paths).unwrap_or_default()
    }

    /// The arguments of the tool, if the agent has sent them.
    pub fn raw_input(&self) -> Option<serde_json::Value> {
        self.call.as_ref()?.raw_input()
    }

    /// The options that the agent offers, without those that the schema does not know and those with the same id.
    pub fn options(&self) -> &[PermissionOption] {
        &self.options
    }

    /// Allows the tool call once. If the agent does not offer an option that allows it once, the user is asked: this
    /// never chooses an option that allows it for ever.
    pub fn allow(&self) -> PermissionAnswer {
        self.choose(PermissionOptionKind::AllowOnce).unwrap_or_else(PermissionAnswer::ask_user)
    }

    /// Denies the tool call once. If the agent does not offer an option that denies it once, the answer is
    /// `cancelled`, which chooses no option.
    pub fn deny(&self) -> PermissionAnswer {
        self.choose(PermissionOptionKind::RejectOnce).unwrap_or_else(PermissionAnswer::cancelled)
    }

    /// Chooses the first option of this kind. `None` if the agent does not offer one.
    pub fn choose(&self, kind: PermissionOptionKind) -> Option<PermissionAnswer> {
        let option = self.options.iter().find(|option| option.kind == kind)?;
        let outcome = Json::object([
            ("outcome", Some(Json::string("selected"))),
            ("optionId", Some(Json::string(&option.option_id.0))),
        ]);
        Some(PermissionAnswer::of(Json::object([("outcome", Some(outcome))])))
    }
}

/// The answer that chooses no option.
pub(crate) const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

/// The answer to a permission request. [`Permission::allow`], [`Permission::deny`] and [`Permission::choose`] make
/// one, and so does the user whom `next.run(permission)` asks.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionAnswer {
    /// `None`: the user is asked.
    answer: Option<Json>,
}

impl PermissionAnswer {
    fn of(answer: Json) -> PermissionAnswer {
        PermissionAnswer { answer: Some(answer) }
    }

    /// The user is asked, as with `next.run(permission)`.
    pub fn ask_user() -> PermissionAnswer {
        PermissionAnswer { answer: None }
    }

    /// No option is chosen, because the turn was cancelled.
    pub fn cancelled() -> PermissionAnswer {
        PermissionAnswer::of(Json::trusted(CANCELLED))
    }

    /// The id of the chosen option. `None` if no option is chosen, or not yet.
    pub fn option_id(&self) -> Option<String> {
        let id = self.answer.as_ref()?.at(&["outcome", "optionId"])?;
        id.text().map(|id| id.into_owned())
    }

    /// Adds a member to the metadata of the answer (`_meta`). An answer that asks the user has none.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn with_meta(
        mut self,
        key: &str,
        value: impl serde::Serialize,
    ) -> Result<PermissionAnswer> {
        let value = crate::typed::to_json(&value)?;
        self.answer = self.answer.map(|answer| answer.with_at(&["_meta", key], Some(&value)));
        Ok(self)
    }

    pub(crate) fn into_json(self) -> Option<Json> {
        self.answer
    }
}

impl sealed::Sealed for Permission {}

/// The request is forwarded unchanged.
impl Forward for Permission {
    type Answer = PermissionAnswer;

    fn into_call(self, _: Option<&Origin>) -> Result<Call> {
        Ok(Call::new(RequestPermissionRequest::METHOD, self.params))
    }

    fn read_answer(json: Json) -> Result<(PermissionAnswer, Option<Origin>)> {
        Ok((PermissionAnswer::of(json), None))
    }
}
