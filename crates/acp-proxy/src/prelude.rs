//! The names that most proxies use: `use acp_proxy::prelude::*;`

#[doc(no_inline)]
pub use crate::schema::{
    ContentBlock, PermissionOptionKind, PromptResponse, SessionUpdate, StopReason, ToolKind,
};
#[doc(no_inline)]
pub use crate::{
    Agent, Call, Context, Delivery, Error, Json, JsonSchema, LateUpdates, LogLevel, Metric, Next,
    NoInput, Notification, Peer, Permission, PermissionAnswer, Prompt, Proxy, Request, Result,
    Side, ToolContext, to_json,
};
#[doc(no_inline)]
pub use serde::{Deserialize, Serialize};
#[doc(no_inline)]
pub use serde_json::json;

// `#[derive(JsonSchema)]` writes paths that begin with `schemars::`.
#[doc(no_inline)]
pub use schemars;
