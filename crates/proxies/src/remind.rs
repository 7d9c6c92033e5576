//! The component `remind`: a tool with which the agent reminds the user, or itself, of something later.

mod clock;
mod reminders;

use std::sync::Arc;
use std::time::Duration;

use acp_proxy::{
    Call, Context, JsonSchema, LateUpdates, Message, NoInput, Proxy, Side, ToolContext, schemars,
};
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

pub use clock::Clock;
use clock::ClockHandle;
use component_base::BuiltIn;
use reminders::{Due, Reminders, describe, parse_duration};

/// Gives the agent a tool to remind the user of something later.
///
/// The tool `remind_me` takes a time, such as 10m, and a text. When the reminder is due, the text is shown to the user:
/// at once if the agent is idle, or else after its turn. With --start-turn, the agent also gets the text as a prompt and
/// acts on it.
///
/// Reminders live as long as the chain. Some editors show nothing outside of a turn. They get the text at the beginning
/// of the next turn.
#[derive(Debug, Clone, Default, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Remind {
    /// Prompt the agent with each reminder that is due, as soon as the session is idle.
    #[arg(long)]
    start_turn: bool,

    /// What happens outside of a turn. auto: by the name of the editor; send: show the text at once; hold: show it at
    /// the beginning of the next turn.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    late_updates: Late,

    /// They survive a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    reminders: Reminders,

    #[arg(skip)]
    #[serde(skip)]
    clock: ClockHandle,
}

/// What happens to a reminder outside of a turn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Late {
    /// It depends on the name of the editor.
    #[default]
    Auto,
    /// It is shown at once.
    Send,
    /// It is shown at the beginning of the next turn.
    Hold,
}

/// The input of `remind_me`.
#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The time until the reminder, such as 30s, 10m, 2h, 1h30m or 1d.
    #[serde(rename = "in")]
    time: String,
    /// The text of the reminder.
    text: String,
}

/// The input of `cancel_reminder`.
#[derive(Deserialize, JsonSchema)]
struct Number {
    /// The number of the reminder.
    number: u64,
}

/// How long the clock is trusted: a computer that was asleep notices its reminders after this time.
const MAX_SLEEP: Duration = Duration::from_secs(30);

impl Remind {
    /// The component with another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Remind {
        self.clock = ClockHandle(clock);
        self
    }

    fn add_tools(&self, proxy: Proxy) -> Proxy {
        let (set, list, cancel) = (self.clone(), self.clone(), self.clone());
        let session = |context: &ToolContext| {
            let missing = "the session is not open yet; call the tool again in a moment";
            context.session().ok_or(missing)
        };
        let about = "Reminds the user of something later. The text is shown to the user when the time has passed";
        proxy
            .tool_with("remind_me", about, async move |input: Input, context| {
                let session = session(&context)?;
                let time = parse_duration(&input.time)?;
                let number = set.reminders.add(&session, time, &input.text, set.clock.now())?;
                Ok(format!("Reminder {number} is set. It is due in {}.", describe(time)))
            })
            .tool_with(
                "list_reminders",
                "Lists the reminders of this session",
                async move |_: NoInput, context| {
                    Ok(list.reminders.list(&session(&context)?, list.clock.now()))
                },
            )
            .tool_with(
                "cancel_reminder",
                "Cancels a reminder of this session",
                async move |input: Number, context| {
                    cancel.reminders.cancel(&session(&context)?, input.number)?;
                    Ok(format!("Reminder {} is cancelled.", input.number))
                },
            )
    }

    /// Waits for reminders and shows them.
    async fn watch(self, context: Context) {
        loop {
            let (due, next) = self.reminders.take_due(self.clock.now());
            due.into_iter().for_each(|due| self.show(due, &context));
            let changed = self.reminders.changed();
            match next {
                Some(next) => tokio::select! {
                    () = changed.notified() => {}
                    () = self.clock.sleep(next.min(MAX_SLEEP)) => {}
                },
                None => changed.notified().await,
            }
        }
    }

    fn show(&self, due: Due, context: &Context) {
        let Due { number, session, text, set_before } = due;
        let shown = format!("\n\nReminder: {text}\n\n");
        let prompt =
            format!("This is the reminder that was set {} ago: {text}", describe(set_before));
        let starts_turn = self.start_turn
            && context.shows_late_updates()
            && self.reminders.may_start_turn(&session);
        if self.start_turn
            && !starts_turn
            && !self.reminders.keep_for_prompt(number, &session, prompt.clone())
        {
            context.log("a reminder is shown, but the agent does not get it: too many wait for the next prompt");
        }
        let (context, reminders) = (context.clone(), self.reminders.clone());
        context.clone().spawn(async move {
            if !context.announce_and_wait(&session, shown).await {
                return;
            }
            reminders.remove(number);
            if !starts_turn {
                return;
            }
            if let Err(why) = context.start_turn(&session, prompt).await {
                // The text may quote the conversation.
                let code = why.code().unwrap_or_default();
                context.log(format!("the turn of a reminder failed with error {code}"));
            }
        });
    }
}

impl BuiltIn for Remind {
    const NAME: &'static str = "remind";

    fn build(&self) -> acp_proxy::Component {
        self.reminders.release(None);
        let late_updates = match self.late_updates {
            Late::Auto => LateUpdates::Auto,
            Late::Send => LateUpdates::Send,
            Late::Hold => LateUpdates::Hold,
        };
        let mut proxy = self.add_tools(Proxy::new(Self::NAME).late_updates(late_updates));
        for method in ["session/close", "session/delete"] {
            let reminders = self.reminders.clone();
            proxy = proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let session = next.session().unwrap_or_default();
                let answer = next.run(call).await;
                match answer.is_ok() {
                    true => reminders.forget(&session),
                    // The session is still open, but the texts that have waited for the end of a turn are lost.
                    false => reminders.release(Some(&session)),
                }
                answer
            });
        }
        if self.start_turn {
            let reminders = self.reminders.clone();
            proxy = proxy.on_prompt(async move |mut prompt, next| {
                for text in reminders.on_prompt(prompt.session()) {
                    prompt.add_context(text);
                }
                next.run(prompt).await
            });
        }
        let (watcher, reporter) = (self.clone(), self.clone());
        let greeted = Arc::new(Notify::new());
        let answered = greeted.clone();
        proxy
            .observe(move |from, message| {
                // The first answer of the agent is that to `initialize`.
                if from == Side::Agent && matches!(message, Message::Response { .. }) {
                    answered.notify_one();
                }
            })
            .on_start(async move |context| {
                // Nothing is shown before that. Reminders may be due already, after a restart.
                greeted.notified().await;
                watcher.watch(context).await;
            })
            .status(move || reporter.reminders.status(reporter.clock.now()))
            .into()
    }
}
