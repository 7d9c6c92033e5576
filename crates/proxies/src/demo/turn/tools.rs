//! Lists and calls MCP tools.

use acp_proxy::Result;
use serde_json::json;

use super::Turn;
use super::basics::text_content;
use crate::demo::command::{ToolUse, first_line};

impl Turn {
    pub(super) async fn list_tools(&self) -> Result<()> {
        let servers = self.servers.list().await;
        if servers.is_empty() {
            return self.say("This session has no MCP servers, so I have no tools.").await;
        }
        for (server, tools) in servers {
            match tools {
                Ok(tools) => {
                    self.say(&format!("The server {server} has these tools:\n\n")).await?;
                    for tool in tools {
                        let about = tool.description.lines().next().unwrap_or_default();
                        self.say(&format!("- `{}`: {about}\n", tool.name)).await?;
                    }
                    self.say("\n").await?;
                }
                Err(why) => self.say(&format!("The server {server} has none: {why}.\n\n")).await?,
            }
        }
        self.say("Say `use TOOL {json}` and I will call one.").await
    }

    pub(super) async fn use_tool(&self, used: &ToolUse) -> Result<()> {
        let ToolUse { server, tool, arguments, by_sentence } = used;
        let call = json!({ "title": tool, "kind": "other", "rawInput": arguments });
        let id = self.announce(call)?;
        self.pause().await;
        self.mark_in_progress(&id)?;
        self.pause().await;
        let result = self.servers.call(server.as_deref(), tool, arguments).await;
        let (status, text) = match &result {
            Ok(result) if !result.failed => ("completed", &result.text),
            Ok(result) => ("failed", &result.text),
            Err(why) => ("failed", why),
        };
        self.finish(&id, status, json!({ "content": text_content(text) }))?;
        self.pause().await;
        let first = first_line(text);
        let summary = match result {
            Ok(result) if result.failed => {
                format!("The tool {tool} of {} failed: {first}", result.server)
            }
            Ok(result) => format!("The tool {tool} of {} says: {first}", result.server),
            Err(why) => format!("I could not use {tool}: {why}."),
        };
        self.say(&summary).await?;
        if *by_sentence && self.number == 1 {
            // A proxy has asked for it before the user's first prompt, and the answer to that follows.
            self.say("\n\n").await?;
        }
        Ok(())
    }
}
