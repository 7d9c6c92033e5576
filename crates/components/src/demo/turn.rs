//! One turn of the demo agent: its answer to a prompt.

use std::cell::RefCell;
use std::time::Duration;

use acp_proxy::schema::{
    Content, ContentBlock, ContentChunk, Diff, PermissionOption, PermissionOptionKind, Plan,
    PlanEntry, PlanEntryPriority, PlanEntryStatus, RequestPermissionOutcome,
    RequestPermissionRequest, SessionUpdate, StopReason, ToolCall, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use acp_proxy::{Peer, Result};
use serde_json::Value;

use super::intent::{Intent, topic};
use super::mcp::Servers;
use super::{AUTO, Sessions};

const HELP: &str = "\
I am an agent with a script: no model, no network. I can show you what agents do:

  plan …                 make a plan and follow it
  edit …, write …        ask for permission and pretend to edit a file
  tools                  list the tools of the MCP servers of this session
  use TOOL {json}        call a tool of any MCP server
  call SERVER TOOL {json}
                         call a tool of this MCP server
  a long story           talk for a while: try to interrupt me
  help                   show this list

To anything else I say something friendly.";

const STORY: &str = "\
Once upon a time there was an editor that spoke to one agent only. Whatever the agent did not know, \
nobody could teach it: it was a monolith, and it was proud of it. One day a proxy came along and sat \
down between the two. It said nothing at first; it only listened, and passed on every word as it was. \
Then it began to add a word here and to leave one out there, and the editor was pleased, and the agent \
did not notice. Soon there came a second proxy, and a third, and each did one small thing well. They \
needed somebody to keep them in time, so they asked a conductor, who knew no music at all but could \
count. And because nothing was lost, and nothing came twice, and nobody waited for anybody longer \
than needed, they played on, and if nobody has interrupted them, they are playing still.";

/// The file that the demo agent pretends to edit.
const FILE: &str = "demo.txt";

/// A turn that is being answered.
pub(super) struct Turn {
    editor: Peer,
    sessions: Sessions,
    session: String,
    servers: Servers,
    pace: Duration,
    /// The tool call that is not finished.
    tool: RefCell<Option<String>>,
}

impl Turn {
    pub(super) fn new(
        editor: Peer,
        sessions: Sessions,
        session: String,
        servers: Servers,
        pace: Duration,
    ) -> Turn {
        Turn { editor, sessions, session, servers, pace, tool: RefCell::default() }
    }

    /// Answers a prompt. The future may be dropped; [`cancel`](Self::cancel) must follow then.
    pub(super) async fn run(&self, text: &str) -> Result<StopReason> {
        self.pause().await;
        match Intent::parse(text) {
            Intent::Help => self.say(HELP).await?,
            Intent::Tools => self.list_tools().await?,
            Intent::Use { server, tool, arguments } => {
                self.use_tool(server.as_deref(), &tool, &arguments).await?;
            }
            Intent::InvalidArguments(why) => {
                self.say(&format!("The arguments of the tool are not valid JSON: {why}.")).await?;
            }
            Intent::Plan => self.follow_a_plan(text).await?,
            Intent::Edit => return self.edit(text).await,
            Intent::Story => self.say(STORY).await?,
            Intent::Chat => self.chat(text).await?,
        }
        Ok(StopReason::EndTurn)
    }

    /// Ends the open tool call after the user has cancelled the turn.
    pub(super) async fn cancel(&self) -> Result<()> {
        self.servers.cancel_open_call().await;
        let open = self.tool.borrow_mut().take();
        match open {
            Some(id) => self.finish(&id, ToolCallStatus::Failed, Vec::new()),
            None => Ok(()),
        }
    }

    async fn chat(&self, text: &str) -> Result<()> {
        let topic = topic(text);
        if topic.ends_with('?') {
            self.think("A question. There is one answer in my script that fits.").await?;
        }
        let greets = ["hello", "hi", "hey", "good morning"];
        let lower = topic.to_lowercase();
        let answer = if greets.iter().any(|greeting| lower.starts_with(greeting)) {
            format!("Hello! You said “{topic}”, and your words came to me through the whole chain.")
        } else if topic.ends_with('?') {
            format!(
                "“{topic}” A good question, and I would love to know. But I only have a script."
            )
        } else {
            format!("“{topic}” sounds interesting. I only have a script, so I leave it at that.")
        };
        self.say(&answer).await?;
        self.say(" Say `help` and I will tell you what I can do.").await
    }

    async fn list_tools(&self) -> Result<()> {
        let servers = self.servers.list().await;
        if servers.is_empty() {
            return self.say("This session has no MCP servers, so I have no tools.").await;
        }
        for (server, tools) in servers {
            match tools {
                Ok(tools) => {
                    self.say(&format!("The server {server} has these tools:\n")).await?;
                    for tool in tools {
                        let about = tool.description.lines().next().unwrap_or_default();
                        self.say(&format!("- {}: {about}\n", tool.name)).await?;
                    }
                }
                Err(why) => self.say(&format!("The server {server} has none: {why}.\n")).await?,
            }
        }
        self.say("Say `use TOOL {json}` and I will call one.").await
    }

    async fn use_tool(&self, server: Option<&str>, tool: &str, arguments: &Value) -> Result<()> {
        let call = ToolCall::new("", tool).kind(ToolKind::Other).raw_input(arguments.clone());
        let id = self.announce(call)?;
        self.pause().await;
        self.mark_in_progress(&id)?;
        self.pause().await;
        let result = self.servers.call(server, tool, arguments).await;
        let (status, text) = match &result {
            Ok(result) if !result.failed => (ToolCallStatus::Completed, &result.text),
            Ok(result) => (ToolCallStatus::Failed, &result.text),
            Err(why) => (ToolCallStatus::Failed, why),
        };
        let content = Content::new(ContentBlock::from(text.clone()));
        self.finish(&id, status, vec![ToolCallContent::Content(content)])?;
        self.pause().await;
        let first = topic(text);
        let summary = match result {
            Ok(result) if result.failed => {
                format!("The tool {tool} of {} failed: {first}", result.server)
            }
            Ok(result) => format!("The tool {tool} of {} says: {first}", result.server),
            Err(why) => format!("I could not use {tool}: {why}."),
        };
        // Ends the paragraph: the answer to the user's prompt may follow, if a proxy has requested this tool call.
        self.say(&format!("{summary}\n\n")).await
    }

    async fn follow_a_plan(&self, text: &str) -> Result<()> {
        const STEPS: [&str; 3] = ["Read what you want", "Pretend to do it", "Tell you about it"];
        let plan = |done: usize| {
            let entry = |(number, step): (usize, &&str)| {
                let status = match number.cmp(&done) {
                    std::cmp::Ordering::Less => PlanEntryStatus::Completed,
                    std::cmp::Ordering::Equal => PlanEntryStatus::InProgress,
                    std::cmp::Ordering::Greater => PlanEntryStatus::Pending,
                };
                PlanEntry::new(*step, PlanEntryPriority::Medium, status)
            };
            SessionUpdate::Plan(Plan::new(STEPS.iter().enumerate().map(entry).collect()))
        };
        self.think("They want a plan. I have one.").await?;
        self.update(plan(0))?;
        self.say(&format!("You want this: “{}”. ", topic(text))).await?;
        self.say("I have read it, and done nothing about it. ").await?;
        self.update(plan(STEPS.len()))?;
        self.say("That was the whole plan.").await
    }

    async fn edit(&self, text: &str) -> Result<StopReason> {
        let new = format!("{}\n", topic(text));
        let diff = ToolCallContent::Diff(Diff::new(FILE, new).old_text(String::new()));
        let call = ToolCall::new("", format!("Edit {FILE}"))
            .kind(ToolKind::Edit)
            .content(vec![diff.clone()]);
        let id = self.announce(call)?;
        if !self.sessions.with(&self.session, |session| session.mode == AUTO)? {
            match self.permission(&id).await {
                Ok(Some(true)) => {}
                Ok(Some(false)) => {
                    self.finish(&id, ToolCallStatus::Failed, Vec::new())?;
                    self.say(&format!("As you wish: I leave {FILE} alone.")).await?;
                    return Ok(StopReason::EndTurn);
                }
                Ok(None) => {
                    self.cancel().await?;
                    return Ok(StopReason::Cancelled);
                }
                Err(why) => {
                    self.finish(&id, ToolCallStatus::Failed, Vec::new())?;
                    self.say(&format!("I cannot ask for permission: {why}. So I do not.")).await?;
                    return Ok(StopReason::EndTurn);
                }
            }
        }
        self.mark_in_progress(&id)?;
        self.pause().await;
        self.finish(&id, ToolCallStatus::Completed, vec![diff])?;
        self.pause().await;
        self.say(&format!("Done, or rather not: I only pretend to edit {FILE}.")).await?;
        Ok(StopReason::EndTurn)
    }

    /// Asks the user for permission to edit. `None`: the user has cancelled the turn.
    async fn permission(&self, tool: &str) -> Result<Option<bool>> {
        let fields = ToolCallUpdateFields::new().title(format!("Edit {FILE}"));
        let call = ToolCallUpdate::new(tool.to_owned(), fields);
        let options = vec![
            PermissionOption::new("allow", "Allow once", PermissionOptionKind::AllowOnce),
            PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce),
        ];
        let question = RequestPermissionRequest::new(self.session.clone(), call, options);
        let answer = self.editor.request(question).await?;
        Ok(match &answer.outcome {
            RequestPermissionOutcome::Selected(selected) => Some(&*selected.option_id.0 == "allow"),
            _ => None,
        })
    }

    /// Announces a tool call to the editor. Returns its id.
    fn announce(&self, mut call: ToolCall) -> Result<String> {
        // Ids are unique in the session, not only in the turn.
        let count = self.sessions.with(&self.session, |session| {
            session.tool_calls += 1;
            session.tool_calls
        })?;
        let id = format!("tool-{count}");
        call.tool_call_id = id.clone().into();
        *self.tool.borrow_mut() = Some(id.clone());
        self.update(SessionUpdate::ToolCall(call))?;
        Ok(id)
    }

    fn mark_in_progress(&self, id: &str) -> Result<()> {
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
        self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields)))
    }

    fn finish(&self, id: &str, status: ToolCallStatus, shown: Vec<ToolCallContent>) -> Result<()> {
        self.tool.borrow_mut().take();
        let mut fields = ToolCallUpdateFields::new().status(status);
        if !shown.is_empty() {
            fields = fields.content(shown);
        }
        self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields)))
    }

    async fn say(&self, text: &str) -> Result<()> {
        self.stream(text, SessionUpdate::AgentMessageChunk).await
    }

    async fn think(&self, text: &str) -> Result<()> {
        self.stream(text, SessionUpdate::AgentThoughtChunk).await
    }

    /// Sends a text word by word, with pauses.
    async fn stream(&self, text: &str, kind: fn(ContentChunk) -> SessionUpdate) -> Result<()> {
        for word in text.split_inclusive(char::is_whitespace) {
            self.update(kind(ContentChunk::new(ContentBlock::from(word.to_owned()))))?;
            self.pause().await;
        }
        Ok(())
    }

    async fn pause(&self) {
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
    }

    fn update(&self, update: SessionUpdate) -> Result<()> {
        self.sessions.record(&self.session, update.clone());
        self.editor.update(&self.session, update)
    }
}
