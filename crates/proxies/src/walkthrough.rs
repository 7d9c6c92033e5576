//! The component `walkthrough`: a tool with which the agent presents a tour through code, and gets the user's answers.
//!
//! - `input`: the arguments of the tools
//! - `places`: checks the places in the code
//! - `show` and `markdown`: the tour as HTML, and as Markdown for the chat
//! - `ids`: the ids of panels and comments
//! - `tours`: the tours that are shown, and what the user has answered
//! - `present`: shows a tour and waits for answers

mod ids;
mod input;
mod markdown;
mod places;
mod present;
mod show;
mod tours;

use std::time::Duration;

use acp_proxy::scp::{CommentReply, PanelClosed, PanelEvent, PanelEventKind};
use acp_proxy::{Context, Proxy, Result, ToolContext};
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::turn_ends::TurnEnds;
use component_base::BuiltIn;
use component_base::options::Interval;
use component_base::sessions::was_read;
use ids::Subject;
use input::{Title, Tour};
use tours::{AnswerKind, Ending, Taken, Tours};

/// Gives the agent a tool to present a walkthrough: a panel with text, code, diagrams and questions, and comments on code.
///
/// The tool `present_walkthrough` shows a panel and comments in editors that support them (SCP capabilities `html_panel`
/// and `file_comment`). In other editors, the walkthrough is shown in the chat. The user's answers and replies go back to
/// the agent: as the result of the tool if it waits, or else with the next prompt.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Walkthrough {
    /// How long the tool waits for the user's answers. 0s: it does not wait.
    #[arg(long, value_name = "TIME", default_value_t = DEFAULT_WAIT)]
    wait: Interval,

    /// Prompt the agent with an answer that no tool call waits for, as soon as the session is idle. Otherwise the answer
    /// is added to the next prompt.
    #[arg(long)]
    start_turn: bool,

    /// They survive a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    tours: Tours,

    #[arg(skip)]
    #[serde(skip)]
    turn_ends: TurnEnds,
}

const TOOL: &str = "present_walkthrough";

const DEFAULT_WAIT: Interval = Interval(Duration::from_secs(600));

impl Default for Walkthrough {
    fn default() -> Walkthrough {
        Walkthrough::parse_from([Walkthrough::NAME])
    }
}

const PRESENT: &str = "Presents a walkthrough to the user: a panel with text, code, diffs, diagrams and questions, and \
comments on the code that the user can reply to. Use it to explain code or a change, and to ask about it. Returns the user's \
answers if the walkthrough has a question. A walkthrough with the same title replaces the earlier one";

const INSTRUCTIONS: &str = "Use present_walkthrough to explain code, a design or a change step by step. Name existing files \
and lines. Ask questions in it when the user should decide something.";

fn session_of(context: &ToolContext) -> Result<String, &'static str> {
    context.session().ok_or("the session is not open yet; call the tool again in a moment")
}

impl BuiltIn for Walkthrough {
    const NAME: &'static str = "walkthrough";

    fn build(&self) -> acp_proxy::Component {
        self.tours.release();
        let (present, close, prompts) = (self.clone(), self.clone(), self.tours.clone());
        let proxy = self.turn_ends.watch(Proxy::new(Self::NAME), &[TOOL]);
        let proxy = self.tours.0.watch(proxy);
        let proxy = proxy
            .instructions(INSTRUCTIONS)
            .tool_with(TOOL, PRESENT, async move |tour: Tour, context| {
                let session = session_of(&context)?;
                present.present(tour, &session, &context).await
            })
            .tool_with(
                "close_walkthrough",
                "Removes a walkthrough: its panel and its comments",
                async move |input: Title, context| {
                    let session = session_of(&context)?;
                    close.close(&input.title, &session, &context).await
                },
            )
            .on_prompt(async move |mut prompt, next| {
                let session = prompt.session().to_owned();
                let texts = prompts.on_prompt(&session);
                texts.iter().for_each(|text| prompt.add_context(text.as_str()));
                let answer = next.run(prompt).await;
                if !was_read(&answer) {
                    prompts.put_back(&session, texts);
                }
                answer
            });
        let counted = self.tours.clone();
        self.add_events(proxy)
            .status(move || {
                let (tours, texts) = counted.count();
                vec![format!("{tours} walkthroughs, {texts} answers for the next prompts")]
            })
            .into()
    }
}

/// The answers that an event has: one choice, one text, or the texts that the user has written when he clicks the button.
fn answers_in(event: &PanelEvent) -> Vec<(usize, AnswerKind, String)> {
    let own = match event.kind {
        PanelEventKind::Choice => Some((AnswerKind::Choice, event.text())),
        PanelEventKind::Input => Some((AnswerKind::Text, event.text())),
        _ => None,
    };
    let own = own.into_iter().map(|(kind, text)| (event.widget.as_str(), kind, text));
    let sent = event.inputs.iter().map(|(name, it)| (name.as_str(), AnswerKind::Text, it.clone()));
    let all = own.chain(sent).filter(|(.., text)| !text.trim().is_empty());
    all.filter_map(|(name, kind, text)| Some((show::question_of(name)?, kind, text))).collect()
}

impl Walkthrough {
    /// The events about panels and comments of this component.
    fn add_events(&self, proxy: Proxy) -> Proxy {
        let (answers, replies, closed) = (self.clone(), self.clone(), self.tours.clone());
        proxy
            .on_panel_event(move |event: &PanelEvent, context: &Context| {
                let Some(Subject { session, title, place: None }) = Subject::read(&event.id) else {
                    return false;
                };
                let taken = answers.tours.answer_all(&session, &title, answers_in(event));
                answers.on_taken(taken, session.clone(), context);
                if event.widget == show::DONE {
                    answers.tours.end_wait(&session, &title, Ending::Answered);
                }
                true
            })
            .on_comment_reply(move |reply: &CommentReply, context: &Context| {
                let Some(Subject { session, title, place: Some(place) }) = Subject::read(&reply.id)
                else {
                    return false;
                };
                if !reply.contents.trim().is_empty() {
                    let taken = replies.tours.reply(&session, &title, &place, &reply.contents);
                    replies.on_taken(taken, session, context);
                }
                true
            })
            .on_panel_closed(move |panel: &PanelClosed, context: &Context| {
                let Some(Subject { session, title, place: None }) = Subject::read(&panel.id) else {
                    return false;
                };
                let (comments, context) = (closed.close(&session, &title), context.clone());
                context.clone().spawn(async move {
                    let _ = present::clear_comments(&context, comments).await;
                });
                true
            })
    }

    /// Starts a turn with answers, if they are kept and the options ask for it. Answers that come while a turn runs become
    /// one turn. Otherwise the user is told that the answer waits.
    fn on_taken(&self, taken: Taken, session: String, context: &Context) {
        if taken != Taken::ForPrompt {
            return;
        }
        if !self.start_turn || !context.shows_late_updates() {
            self.announce(&session, context);
            return;
        }
        let (walkthrough, context) = (self.clone(), context.clone());
        context.clone().spawn(async move {
            context.wait_until_idle(&session).await;
            let Some(texts) = walkthrough.tours.take_for_turn(&session) else {
                walkthrough.announce(&session, &context);
                return;
            };
            if let Err(why) = context.start_turn(&session, texts.join("\n\n")).await {
                walkthrough.tours.put_back(&session, texts);
                walkthrough.announce(&session, &context);
                // The text may quote the conversation.
                let code = why.code().unwrap_or_default();
                context.log(format!("the turn of an answer failed with error {code}"));
            }
        });
    }

    /// Says once before each prompt that answers of the user wait for it.
    fn announce(&self, session: &str, context: &Context) {
        if !self.tours.begin_announcement(session) {
            return;
        }
        // An editor that shows nothing outside of a turn shows it when the next turn begins.
        let text = match context.shows_late_updates() {
            true => "Your answer goes to the agent with your next prompt.",
            false => "What you have answered before goes to the agent with this prompt.",
        };
        context.announce(session, format!("\n\n{text}\n\n"));
    }
}
