//! Requests for permission, of ACP version 1 and 2, with everything that is known of the tool call.

use acp_proxy_core::{Call, Json};
use agent_client_protocol_schema::v1::{PermissionOption, PermissionOptionKind, ToolKind};

use crate::calls::Subject;
use crate::error::{Error, Result};
use crate::handler::Ask;

const METHOD: &str = "session/request_permission";

/// The agent asks whether it may do something.
///
/// The request itself often says little about the tool call: the agent has described it in an earlier
/// `session/update`. This has both. Where neither says something, or readers could understand it
/// differently, it is absent, and must not be taken for harmless.
#[derive(Debug, Clone)]
pub struct Permission {
    params: Json,
    session: String,
    call: Option<Json>,
    options: Vec<PermissionOption>,
}

impl Permission {
    pub(crate) fn read(params: &Json, subject: Option<Subject>) -> Result<Permission> {
        let missing = |what: &str| Error::invalid_params(format!("it has no {what}"));
        let session = params.member("sessionId");
        let session = session.as_ref().and_then(Json::text).ok_or_else(|| missing("sessionId"))?;
        let options = params.member("options").filter(Json::is_array);
        let options = options.ok_or_else(|| missing("options"))?.elements();
        // An option that the schema does not know cannot be chosen here.
        let options = options.iter().filter_map(|it| serde_json::from_slice(it.as_bytes()).ok());
        Ok(Permission {
            params: params.clone(),
            session: session.into_owned(),
            call: subject.map(|it| it.call),
            options: options.collect(),
        })
    }

    /// The id of the session it belongs to.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// What is known of the tool call, as the schema spells it.
    pub fn tool_call(&self) -> Option<&Json> {
        self.call.as_ref()
    }

    /// What the tool does. `None` if it is not known, and [`ToolKind::Other`] if the schema does not know
    /// the kind; neither may be allowed without asking.
    pub fn kind(&self) -> Option<ToolKind> {
        let kind = self.call.as_ref()?.member("kind").filter(Json::is_string)?;
        serde_json::from_slice(kind.as_bytes()).ok()
    }

    /// How the tool call is called.
    pub fn title(&self) -> Option<String> {
        let title = self.call.as_ref().and_then(|call| call.member("title"));
        let title = title.or_else(|| self.params.member("title"))?;
        title.text().map(|title| title.into_owned())
    }

    /// The answers that the agent offers.
    pub fn options(&self) -> &[PermissionOption] {
        &self.options
    }

    /// The answer that allows it once, if the agent offers that.
    pub fn allow(&self) -> Option<Json> {
        self.pick(PermissionOptionKind::AllowOnce)
    }

    /// The answer that refuses it. Where the agent offers no such option, no option is chosen.
    pub fn reject(&self) -> Json {
        let cancelled = || Json::trusted(r#"{"outcome":{"outcome":"cancelled"}}"#);
        self.pick(PermissionOptionKind::RejectOnce)
            .or_else(|| self.pick(PermissionOptionKind::RejectAlways))
            .unwrap_or_else(cancelled)
    }

    /// The answer that picks the first option of this kind, if there is one.
    pub fn pick(&self, kind: PermissionOptionKind) -> Option<Json> {
        let option = self.options.iter().find(|option| option.kind == kind)?;
        let outcome = Json::object([
            ("outcome", Some(Json::string("selected"))),
            ("optionId", Some(Json::string(&option.option_id.0))),
        ]);
        Some(Json::object([("outcome", Some(outcome))]))
    }
}

/// It goes on as it came.
impl Ask for Permission {
    type Answer = Json;

    fn into_call(self) -> Result<Call> {
        Ok(Call::new(METHOD, self.params))
    }

    fn read_answer(json: Json) -> Result<Json> {
        Ok(json)
    }
}
