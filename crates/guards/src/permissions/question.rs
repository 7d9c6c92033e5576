//! Asks the user, with a time limit.

use std::future::Future;
use std::time::{Duration, Instant};

use acp_proxy::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use acp_proxy::{Context, Result};
use acp_wire::printable::one_line;
use tokio::sync::Notify;

use super::records::{NAME, rule_name, shown};
use super::rules::{AskLimit, Verdict};
use component_base::action::{Action, Operation};

/// How long the editor has to answer its questions after the user has cancelled the turn.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How a question ended.
#[derive(Debug)]
pub(super) enum Ending<T> {
    /// The editor has answered.
    Answered(T),
    /// The time is over.
    TimedOut(AskLimit),
    /// The turn was cancelled, and the editor has not answered.
    Cancelled,
}

/// Waits for the answer to a question. Returns how it ended, and how long it took.
pub(super) async fn wait<T>(
    question: impl Future<Output = T>,
    limit: Option<AskLimit>,
    cancelled: &Notify,
) -> (Ending<T>, Duration) {
    let started = Instant::now();
    let time_is_over = async {
        match limit {
            Some(limit) => {
                tokio::time::sleep(limit.after).await;
                limit
            }
            None => std::future::pending().await,
        }
    };
    let turn_is_over = async {
        cancelled.notified().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    let ending = tokio::select! {
        biased;
        answer = question => Ending::Answered(answer),
        () = turn_is_over => Ending::Cancelled,
        limit = time_is_over => Ending::TimedOut(limit),
    };
    (ending, started.elapsed())
}

/// What the user answers to a question of this component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Once,
    Session,
    No,
}

impl Choice {
    const ALL: [Choice; 3] = [Choice::Once, Choice::Session, Choice::No];

    pub(super) fn id(self) -> &'static str {
        match self {
            Choice::Once => "conductor-allow-once",
            Choice::Session => "conductor-allow-session",
            Choice::No => "conductor-reject-once",
        }
    }

    fn option(self) -> PermissionOption {
        let (name, kind) = match self {
            Choice::Once => ("Allow once", PermissionOptionKind::AllowOnce),
            Choice::Session => ("Allow this for the session", PermissionOptionKind::AllowAlways),
            Choice::No => ("Deny", PermissionOptionKind::RejectOnce),
        };
        PermissionOption::new(self.id(), name, kind)
    }
}

/// Why the user is asked, and in which folder the action happens.
fn explanation(action: &Action, verdict: &Verdict) -> String {
    let folder = action.cwd.to_string_lossy();
    let mut text = format!("Folder: {}\n\nWhy: {}", one_line(&folder), one_line(&verdict.why));
    if let Some(rule) = &verdict.rule {
        let message = rule.message.as_ref().map(|it| format!(": {}", one_line(it)));
        text.push_str(&format!(
            "\n\nAsked by the {}{}",
            rule_name(rule),
            message.unwrap_or_default()
        ));
    }
    text
}

/// Asks the user about an action at a request that has no question of its own: files, terminals, MCP calls.
pub(super) async fn ask(
    context: &Context,
    action: &Action,
    verdict: &Verdict,
    id: &str,
) -> Result<Choice> {
    let path = action.operations.iter().find_map(|it| match it {
        Operation::Read(path) | Operation::Write(path) | Operation::Delete(path) => Some(path),
        _ => None,
    });
    let mut fields = ToolCallUpdateFields::new()
        .title(format!("{NAME}: may the agent {}?", shown(action)))
        .status(ToolCallStatus::Pending)
        .content(vec![explanation(action, verdict).into()])
        .raw_input(action.input.clone());
    if let Some(kind) = action.kind {
        fields = fields.kind(kind);
    }
    if let Some(path) = path {
        fields = fields.locations(vec![ToolCallLocation::new(action.cwd.join(path))]);
    }
    let call = ToolCallUpdate::new(id.to_owned(), fields);
    let options = Choice::ALL.map(Choice::option).to_vec();
    let request = RequestPermissionRequest::new(action.session.clone(), call, options);
    let answer = context.editor().request(request).await?;
    Ok(match answer.outcome {
        RequestPermissionOutcome::Selected(selected) => {
            let chosen = Choice::ALL.into_iter().find(|it| it.id() == &*selected.option_id.0);
            chosen.unwrap_or(Choice::No)
        }
        _ => Choice::No,
    })
}
