//! The component `demo-agent`: a scripted agent, for trying out chains without installing a real agent.
//!
//! - `command`: reads the command of a prompt
//! - `client`: what the client supports; `version`: converts messages to ACP version 2
//! - `session`: the sessions; `options`: modes, options, slash commands and the login
//! - `methods`: answers all requests but prompts
//! - `turn`: answers a prompt, with one module for each group of commands
//! - `samples` and `texts`: what the agent shows and says
//! - `mcp`: calls the tools of the session's MCP servers

mod client;
mod command;
mod mcp;
mod methods;
mod options;
mod samples;
mod session;
mod texts;
mod turn;
mod version;

use std::time::Duration;

use acp_proxy::Agent;
use acp_proxy::schema::{PromptResponse, StopReason};
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use component_base::BuiltIn;
use session::Sessions;
use turn::Turn;

/// A scripted agent: answers without a model, a network or an account.
///
/// Use it to try out chains, proxies and editors, and in tests. It streams its answers word by word. The prompt
/// `help` lists what it can do: it shows every kind of update, asks for permission, edits and reads files and
/// runs commands through the editor, calls the tools of MCP servers, fails, and crashes.
///
/// It takes its command from the last text block of a prompt. It keeps its sessions in memory and
/// replays them when they are loaded. After a restart it resumes any session, without its history.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DemoAgent {
    /// The pause between two words, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "15")]
    pace: u64,

    /// Refuse new sessions until the user has logged in. The login needs no account.
    #[arg(long)]
    require_login: bool,
}

impl Default for DemoAgent {
    fn default() -> DemoAgent {
        DemoAgent::parse_from([DemoAgent::NAME])
    }
}

impl BuiltIn for DemoAgent {
    const NAME: &'static str = "demo-agent";
    const AGENT: bool = true;

    fn build(&self) -> acp_proxy::Component {
        let pace = Duration::from_millis(self.pace);
        let sessions = Sessions::default();
        let agent = methods::add(Agent::new("demo-agent"), &sessions, self.require_login);
        agent
            .on_prompt(async move |prompt, context| {
                let turn = Turn::new(&context, &sessions, &prompt, pace)?;
                let stop_reason = tokio::select! {
                    biased;
                    () = context.cancelled() => {
                        turn.cancel().await?;
                        StopReason::Cancelled
                    }
                    done = turn.run() => done?,
                };
                Ok(PromptResponse::new(stop_reason))
            })
            .into()
    }
}
