//! Answers the agent's requests for permission itself: what only reads is allowed, what deletes is refused,
//! and the user is asked about everything else, also about what is not known.
//!
//! `conductor agent --guard example-gate example-gate my-agent`

use acp_proxy::Proxy;
use acp_proxy::schema::ToolKind;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    Proxy::new("gate")
        // What the gate cannot read does not pass.
        .strict()
        .on_permission(async |permission, next| {
            let decided = match permission.kind() {
                Some(ToolKind::Read | ToolKind::Search) => permission.allow(),
                Some(ToolKind::Delete) => Some(permission.reject()),
                // Anything else, and a tool call of which nothing is known.
                _ => None,
            };
            match decided {
                Some(answer) => Ok(answer),
                None => next.run(permission).await,
            }
        })
        .serve_stdio()
        .await
}
