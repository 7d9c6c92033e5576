//! Answers the agent's requests for permission itself: what only reads is allowed, what deletes is not,
//! and the user is asked about the rest.
//!
//! `conductor agent example-gate my-agent`

use sdk::schema::{
    PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, ToolKind,
};
use sdk::{Proxy, Typed};

/// The answer that picks the first option of one of these kinds, if there is one.
fn pick(
    request: &RequestPermissionRequest,
    kinds: &[PermissionOptionKind],
) -> Option<Typed<RequestPermissionResponse>> {
    let option = request.options.iter().find(|option| kinds.contains(&option.kind))?;
    let picked = SelectedPermissionOutcome::new(option.option_id.clone());
    Some(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(picked)).into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    Proxy::new("gate")
        .on::<RequestPermissionRequest, _>(async |request, next| {
            let decided = match request.tool_call.fields.kind {
                Some(ToolKind::Read | ToolKind::Search) => {
                    pick(&request, &[AllowOnce, AllowAlways])
                }
                Some(ToolKind::Delete) => pick(&request, &[RejectOnce, RejectAlways]),
                _ => None,
            };
            match decided {
                Some(answer) => Ok(answer),
                None => next.run(request).await,
            }
        })
        .serve_stdio()
        .await
}
