//! Fails, crashes and waits on request.

use std::time::Duration;

use acp_proxy::schema::StopReason;
use acp_proxy::{Error, Result};
use serde_json::json;

use super::Turn;
use crate::demo::command::Failure;
use crate::demo::methods::LOGIN_REQUIRED;

/// How long the agent waits until its last words are written.
const LAST_WORDS: Duration = Duration::from_millis(50);

impl Turn {
    pub(super) async fn fail(&self, failure: Failure) -> Result<StopReason> {
        self.say("I will fail now.").await?;
        Err(match failure {
            Failure::LoginRequired => Error::new(LOGIN_REQUIRED, "Authentication required"),
            Failure::Internal => {
                let details = "The demo agent has failed, because the prompt asked for it.";
                Error::with_data(-32603, "Internal error", &json!({ "details": details }))
            }
        })
    }

    pub(super) async fn stop(&self, reason: StopReason) -> Result<StopReason> {
        let text = match reason {
            StopReason::Refusal => "I refuse to answer this.",
            _ => "I stop here, as you wish.",
        };
        self.say(text).await?;
        Ok(reason)
    }

    pub(super) async fn crash(&self, hard: bool) -> Result<()> {
        self.say("I will crash in the middle of this").await?;
        self.context.log("crashes, because the prompt asked for it");
        tokio::time::sleep(LAST_WORDS).await;
        // In the program, a built-in component has a thread of its own. It must not abort the program.
        let is_process = std::thread::current().name() == Some("main");
        if hard && is_process {
            std::process::abort();
        }
        // Ends the process or the thread, without the message of a panic.
        std::panic::resume_unwind(Box::new("the prompt asked for a crash"));
    }

    pub(super) async fn hang(&self) -> Result<()> {
        self.say("I will not go on until you cancel this turn.").await?;
        std::future::pending().await
    }

    pub(super) async fn sleep(&self, time: Duration) -> Result<()> {
        self.say("Good night.").await?;
        tokio::time::sleep(time).await;
        self.say(&format!(" I have slept for {} seconds.", time.as_secs_f64())).await
    }
}
