//! Approves tool calls that read, and denies tool calls that write. The user decides about all others, also about tool
//! calls of an unknown kind.
//!
//! `conductor agent --guard example-gate example-gate my-agent`

use acp_proxy::prelude::*;

fn main() -> std::io::Result<()> {
    Proxy::new("gate")
        // A request that the handler cannot read does not pass.
        .strict()
        .on_permission(async |permission, next| match permission.kind() {
            Some(ToolKind::Read | ToolKind::Search) => Ok(permission.allow()),
            Some(ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => Ok(permission.deny()),
            _ => next.run(permission).await,
        })
        .run()
}
