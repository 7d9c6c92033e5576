//! One turn of the demo agent: its answer to a prompt.
//!
//! - `basics`: sends updates, texts and tool calls
//! - `files`: edits and reads files; `terminal`: runs commands
//! - `tools`: MCP tools; `walkthrough`: a walkthrough with such a tool; `show`: samples; `failures`: errors and crashes

mod basics;
mod failures;
mod files;
mod show;
mod terminal;
mod tools;
mod walkthrough;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use acp_proxy::schema::{ContentBlock, StopReason};
use acp_proxy::{Context, Peer, Prompt, Result};
use serde_json::json;

use super::client::Client;
use super::command::{Command, topic, user_text};
use super::mcp::Servers;
use super::options::Options;
use super::samples;
use super::session::Sessions;
use super::texts::{HELP, STORY};

/// A turn that is being answered.
pub(super) struct Turn {
    context: Context,
    editor: Peer,
    client: Client,
    sessions: Sessions,
    session: String,
    /// The number of the prompt in its session.
    number: u64,
    /// The text that the user has entered.
    text: String,
    /// What the prompt contains besides text, such as "an image".
    attachments: Vec<&'static str>,
    options: Options,
    directory: PathBuf,
    servers: Servers,
    pace: Duration,
    /// Whether the agent does not know the history of the session.
    is_forgotten: bool,
    /// The tool call that is not finished.
    tool: RefCell<Option<String>>,
    /// The terminal that is not released.
    terminal: RefCell<Option<String>>,
}

impl Turn {
    pub(super) fn new(
        context: &Context,
        sessions: &Sessions,
        prompt: &Prompt,
        pace: Duration,
    ) -> Result<Turn> {
        let id = prompt.session().to_owned();
        let text = user_text(&prompt.prompt).to_owned();
        let client = sessions.client();
        let turn = sessions.with(&id, |session| {
            session.prompts += 1;
            session.title.get_or_insert_with(|| topic(&text));
            Turn {
                context: context.clone(),
                editor: context.editor(),
                client,
                sessions: sessions.clone(),
                session: id.clone(),
                number: session.prompts,
                attachments: prompt.prompt.iter().filter_map(attachment).collect(),
                options: session.options.clone(),
                directory: session.directory.clone(),
                servers: session.servers.clone(),
                pace,
                is_forgotten: std::mem::take(&mut session.is_forgotten),
                tool: RefCell::default(),
                terminal: RefCell::default(),
                text,
            }
        })?;
        for block in &prompt.prompt {
            let update = json!({ "sessionUpdate": "user_message_chunk", "content": block });
            turn.record(update);
        }
        Ok(turn)
    }

    /// Answers the prompt. The future may be dropped; [`cancel`](Self::cancel) must follow then.
    pub(super) async fn run(&self) -> Result<StopReason> {
        self.pause().await;
        if self.is_forgotten {
            self.think("I was restarted, so I do not know what we have talked about.").await?;
        }
        match Command::parse(&self.text) {
            Command::Help => self.say(HELP).await?,
            Command::Tools => self.list_tools().await?,
            Command::Use(tool) => self.use_tool(&tool).await?,
            Command::InvalidArguments(why) => {
                self.say(&format!("The arguments of the tool are not valid JSON: {why}.")).await?;
            }
            Command::Plan => self.follow_a_plan().await?,
            Command::Edit { files, line } => return self.edit(&files, line.as_deref()).await,
            Command::Read { path, line } => self.read(&path, line).await?,
            Command::Run(words) => return self.run_command(&words).await,
            Command::Show(names) => self.show(&names).await?,
            Command::ListSamples(unknown) => self.list_samples(unknown.as_deref()).await?,
            Command::Walkthrough => self.present_walkthrough().await?,
            Command::Story => self.say(STORY).await?,
            Command::Fail(failure) => return self.fail(failure).await,
            Command::Stop(reason) => return self.stop(reason).await,
            Command::Crash { hard } => self.crash(hard).await?,
            Command::Hang => self.hang().await?,
            Command::Sleep(time) => self.sleep(time).await?,
            Command::Chat => self.chat().await?,
        }
        Ok(StopReason::EndTurn)
    }

    /// Ends the open tool call after the user has cancelled the turn.
    pub(super) async fn cancel(&self) -> Result<()> {
        self.servers.cancel_open_call().await;
        self.release_terminal(true);
        let open = self.tool.borrow_mut().take();
        match open {
            Some(id) => {
                let status = if self.client.is_v2() { "cancelled" } else { "failed" };
                self.finish(&id, status, json!({}))
            }
            None => Ok(()),
        }
    }

    async fn chat(&self) -> Result<()> {
        let topic = topic(&self.text);
        if topic.ends_with('?') {
            self.think("A question. There is one answer in my script that fits.").await?;
        }
        let greets = ["hello", "hi", "hey", "good morning"];
        let lower = topic.to_lowercase();
        let greeting = |greeting: &&str| {
            let rest = lower.strip_prefix(greeting);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        };
        let answer = if greets.iter().any(greeting) {
            format!("Hello! You said “{topic}”, and your words came to me through the whole chain.")
        } else if self.text.is_empty() && !self.attachments.is_empty() {
            "You have sent no text.".to_owned()
        } else if topic.ends_with('?') {
            format!(
                "“{topic}” A good question, and I would love to know. But I only have a script."
            )
        } else {
            format!("“{topic}” sounds interesting. I only have a script, so I leave it at that.")
        };
        self.say(&answer).await?;
        if !self.attachments.is_empty() {
            self.say(&format!(" I have received {}.", self.attachments.join(" and "))).await?;
        }
        self.say(" Say `help` and I will tell you what I can do.").await
    }

    async fn follow_a_plan(&self) -> Result<()> {
        self.think("They want a plan. I have one.").await?;
        self.update(samples::plan(0))?;
        self.say(&format!("You want this: “{}”. ", topic(&self.text))).await?;
        self.update(samples::plan(1))?;
        self.say("I have read it, and done nothing about it. ").await?;
        self.update(samples::plan(2))?;
        self.say("That was the whole plan.").await?;
        self.update(samples::plan(samples::PLAN_STEPS))
    }
}

/// What a block of a prompt attaches to its text.
fn attachment(block: &ContentBlock) -> Option<&'static str> {
    match block {
        ContentBlock::Image(_) => Some("an image"),
        ContentBlock::Audio(_) => Some("a sound"),
        ContentBlock::ResourceLink(_) => Some("a link to a resource"),
        ContentBlock::Resource(_) => Some("a resource"),
        _ => None,
    }
}
