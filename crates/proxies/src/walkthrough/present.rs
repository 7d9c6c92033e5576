//! Shows a walkthrough, waits for the user's answers, and removes it.

use std::path::Path;
use std::time::Duration;

use acp_proxy::scp::{Capabilities, Range, ShowComment, ShowPanel};
use acp_proxy::{Context, IntoToolOutput, Result, ToolContext, ToolOutput};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at, sleep, timeout};
use web::project::file_url;

use super::ids::Subject;
use super::input::{Tour, check_title};
use super::places::{self, FoundPlace};
use super::show::{self, Answers, Widgets};
use super::tours::{Ending, Reply};
use super::{TOOL, Walkthrough};
use crate::turn_ends::TurnEnd;

/// How long the editor may take to show something.
const EDITOR_TIMEOUT: Duration = Duration::from_secs(30);

const LATE: &str = "the editor has not answered within 30 seconds";

/// How often the MCP client learns that the tool still waits.
const PROGRESS: Duration = Duration::from_secs(10);

/// How many characters of a question are repeated in a text for the next prompt.
const MAX_QUESTION: usize = 200;

/// What the editor shows of a walkthrough.
#[derive(Debug, Clone, Copy)]
struct Surface {
    panel: bool,
    /// Whether the user can answer in the panel, and reply to comments.
    events: bool,
    /// Comments of SCP 1.0 have no text, and cannot be removed. They show where something is said.
    comments: bool,
}

impl Surface {
    fn of(editor: &Capabilities) -> Surface {
        let events = editor.has_additions();
        Surface { panel: editor.html_panel, events, comments: editor.file_comment }
    }
}

/// A walkthrough that is being shown.
struct Presentation<'a> {
    tour: &'a Tour,
    /// The folder of the session.
    folder: &'a Path,
    places: &'a [FoundPlace],
    session: &'a str,
    /// The id of the panel.
    id: String,
    context: &'a ToolContext,
}

impl Presentation<'_> {
    /// Shows the panel and the comments, as far as the editor can. Returns what it could not show. After an answer that
    /// does not come, the editor is asked for nothing more.
    async fn show(
        &self,
        surface: &mut Surface,
        mut comments: Vec<ShowComment>,
        widgets: Widgets,
    ) -> Result<Option<String>> {
        let mut problems = Vec::new();
        if surface.panel {
            let html = show::html(self.tour, self.folder, self.places, &Answers::new(), widgets);
            let title = self.tour.title.trim();
            let panel = ShowPanel::new(&self.id, title, html).in_session(self.session);
            let answer = answered(self.context.show_panel(panel)).await;
            surface.panel = matches!(answer, Some(Ok(())));
            match answer {
                Some(Ok(())) => {}
                Some(Err(why)) => {
                    let why = why.message();
                    problems.push(format!("the editor could not show the panel: {why}"));
                }
                None => {
                    problems.push(format!("the editor has not shown the panel: {LATE}"));
                    surface.comments = false;
                    comments.clear();
                }
            }
        }
        if !surface.panel {
            let text = show::markdown(self.tour, self.places);
            self.context.editor().say(self.session, text)?;
        }
        let count = comments.len();
        let mut refused = 0;
        for (index, comment) in comments.into_iter().enumerate() {
            match answered(self.context.show_comment(comment)).await {
                Some(Ok(())) => {}
                Some(Err(why)) => {
                    refused += 1;
                    if refused == 1 {
                        let why = why.message();
                        problems.push(format!("the editor could not show a comment: {why}"));
                    }
                }
                None => {
                    let missing = count - index;
                    refused += missing;
                    problems.push(format!("{missing} comments are not shown: {LATE}"));
                    break;
                }
            }
        }
        surface.comments &= refused < count;
        Ok((!problems.is_empty()).then(|| problems.join("; ")))
    }

    /// Shows the answers in the panel, in place of the questions.
    async fn show_answers(&self, answers: &Answers) {
        let html = show::html(self.tour, self.folder, self.places, answers, Widgets::Ask);
        let panel = ShowPanel::update(&self.id).contents(html).in_session(self.session);
        // The answers are what matters.
        drop(answered(self.context.show_panel(panel)).await);
    }
}

impl Walkthrough {
    pub(super) async fn present(
        &self,
        tour: Tour,
        session: &str,
        context: &ToolContext,
    ) -> Result<ToolOutput> {
        tour.check()?;
        let folder = self.tours.0.cwd(session);
        let places = places::find(&folder, tour.places())?;
        let mut surface = Surface::of(&context.editor_capabilities());
        let title = tour.title.trim();
        let comments = match surface.comments {
            true => comments(session, title, &places, surface.events),
            false => Vec::new(),
        };
        let questions = tour.questions().map(|it| it.text.chars().take(MAX_QUESTION).collect());
        let ids = comments.iter().map(|it| it.id.clone()).collect();
        let mut end = self.turn_ends.begin(session, TOOL);
        let can_answer = surface.panel && surface.events;
        let old = self.tours.add(session, title, questions.collect(), ids, can_answer)?;
        let has_questions = tour.questions().next().is_some();
        let waits = tour.wait.unwrap_or(has_questions)
            && !self.wait.0.is_zero()
            && (can_answer || !has_questions && surface.events && !comments.is_empty());
        let widgets = match (can_answer, waits) {
            (true, true) => Widgets::AskAndWait,
            (true, false) => Widgets::Ask,
            (false, _) => Widgets::None,
        };
        // The wait begins first, so that no answer comes before it.
        let reply = waits.then(|| self.tours.wait(session, title));
        let id = Subject::panel(session, title).id();
        let presentation =
            Presentation { tour: &tour, folder: &folder, places: &places, session, id, context };
        let showing = async {
            match clear_comments(context, old).await {
                Ok(()) => presentation.show(&mut surface, comments, widgets).await,
                Err(late) => Err(late.into()),
            }
        };
        let outcome = tokio::select! {
            biased;
            shown = showing => Some(shown),
            () = context.cancelled() => None,
            () = end.wait() => None,
        };
        let problem = match outcome {
            Some(Ok(problem)) => problem,
            failed => {
                self.tours.end_wait(session, title, Ending::Cancelled);
                if let Some(reply) = reply
                    && let Ok(Reply { answers, comments, .. }) = reply.await
                {
                    self.tours.keep_unread(session, title, answers, comments);
                    self.announce(session, context);
                }
                let cancelled = "the call was cancelled before the whole walkthrough was shown";
                return Err(failed.and_then(Result::err).unwrap_or_else(|| cancelled.into()));
            }
        };
        if !surface.panel {
            self.tours.has_no_panel(session, title);
        }
        let is_answerable = surface.events && (surface.panel || !has_questions && surface.comments);
        let Some(reply) = reply.filter(|_| is_answerable) else {
            return shown(&tour, surface, problem.as_deref());
        };
        let reply = self.wait_for(reply, &presentation, &mut end).await;
        let is_over = reply.ending == Ending::Answered && surface.panel && has_questions;
        if is_over {
            presentation.show_answers(&reply.answers).await;
        }
        if reply.ending == Ending::Cancelled {
            let Reply { answers, comments, .. } = reply;
            self.tours.keep_unread(session, title, answers, comments);
            self.announce(session, context);
            return Err("the walkthrough is shown, but the wait for the user was cancelled".into());
        }
        self.result(&tour, reply, problem.as_deref())
    }

    /// Waits until the user has answered, the call or the turn is over, or the time is over.
    async fn wait_for(
        &self,
        mut reply: tokio::sync::oneshot::Receiver<Reply>,
        shown: &Presentation<'_>,
        end: &mut TurnEnd,
    ) -> Reply {
        let (session, title, context) = (shown.session, shown.tour.title.trim(), shown.context);
        let timeout = sleep(self.wait.0);
        let mut progress = interval_at(Instant::now() + PROGRESS, PROGRESS);
        tokio::pin!(timeout);
        let mut ticks = 0.0;
        let ending = loop {
            tokio::select! {
                // An answer that is there counts, also if the call is cancelled now.
                biased;
                reply = &mut reply => return reply.unwrap_or_else(|_| unanswered()),
                () = context.cancelled() => break Ending::Cancelled,
                () = end.wait() => break Ending::Cancelled,
                () = &mut timeout => break Ending::TimedOut,
                _ = progress.tick() => {
                    ticks += 1.0;
                    // It is for clients that give up on silent tools.
                    drop(context.progress(ticks, None, Some("waiting for the user")));
                }
            }
        };
        self.tours.end_wait(session, title, ending);
        reply.await.unwrap_or_else(|_| unanswered())
    }

    /// The result of a tool call that has waited.
    fn result(&self, tour: &Tour, reply: Reply, problem: Option<&str>) -> Result<ToolOutput> {
        let Reply { ending, answers, comments } = reply;
        let (status, first) = match ending {
            Ending::Answered if answers.is_empty() && comments.is_empty() => {
                ("answered", "The user has read the walkthrough.".to_owned())
            }
            Ending::Answered => ("answered", "The user has answered.".to_owned()),
            Ending::Closed => ("closed", "The user has closed the walkthrough.".to_owned()),
            _ => (
                "timeout",
                format!(
                    "The user has not finished within {}. What the user answers later is added to the next prompt.",
                    self.wait
                ),
            ),
        };
        let mut lines = vec![first];
        for (number, question) in (1..).zip(tour.questions()) {
            let answer = answers.get(&number).map_or("(no answer)", String::as_str);
            lines.push(format!("{number}. {}\n   Answer: {answer}", question.text.trim()));
        }
        for (place, text) in &comments {
            lines.push(format!("The user replied to your comment on {place}: {text}"));
        }
        lines.extend(problem.map(|it| format!("Note: {it}.")));
        let question = |(number, it): (usize, &super::input::Question)| json!({ "question": it.text, "answer": answers.get(&number) });
        let questions: Vec<Value> = (1..).zip(tour.questions()).map(question).collect();
        let replies: Vec<Value> =
            comments.iter().map(|(place, text)| json!({ "place": place, "text": text })).collect();
        output(
            lines.join("\n"),
            json!({ "status": status, "answers": questions, "replies": replies }),
        )
    }

    /// Removes a walkthrough.
    pub(super) async fn close(
        &self,
        title: &str,
        session: &str,
        context: &ToolContext,
    ) -> Result<String> {
        check_title(title)?;
        let title = title.trim();
        let comments = self.tours.remove(session, title);
        let is_known = comments.is_some();
        let surface = Surface::of(&context.editor_capabilities());
        clear_comments(context, comments.unwrap_or_default()).await?;
        if surface.panel {
            // Also if the component does not know it any more, after a restart.
            let cleared = answered(context.clear_panel(Subject::panel(session, title).id())).await;
            cleared.unwrap_or_else(|| Err(LATE.into()))?;
        }
        let can_remove = surface.panel || surface.comments && surface.events;
        Ok(match (is_known, can_remove) {
            (_, false) => "The walkthrough was shown in the chat, where it stays.".to_owned(),
            (true, true) => format!("The walkthrough \"{title}\" is closed."),
            (false, true) => format!("There is no walkthrough \"{title}\" any more."),
        })
    }
}

fn unanswered() -> Reply {
    Reply { ending: Ending::Cancelled, answers: Answers::new(), comments: Vec::new() }
}

/// Waits for an answer of the editor, but not for ever. `None` if it has not come in time.
async fn answered<T>(request: impl Future<Output = Result<T>>) -> Option<Result<T>> {
    timeout(EDITOR_TIMEOUT, request).await.ok()
}

/// Removes comments. Stops if the editor does not answer. It may have removed them already, so its errors do not count.
pub(super) async fn clear_comments(
    context: &Context,
    ids: Vec<String>,
) -> Result<(), &'static str> {
    for id in ids {
        answered(context.clear_comment(id)).await.map(drop).ok_or(LATE)?;
    }
    Ok(())
}

/// A result for the model. Some agents give the model only the structured content, so that has the text as well.
fn output(text: String, mut structured: Value) -> Result<ToolOutput> {
    structured["message"] = text.as_str().into();
    text.into_tool_output()?.with_structured(&structured)
}

/// The comments of the places. Places with the same lines are one comment.
fn comments(
    session: &str,
    title: &str,
    places: &[FoundPlace],
    can_reply: bool,
) -> Vec<ShowComment> {
    let mut comments: Vec<ShowComment> = Vec::new();
    for place in places {
        let Some(text) = &place.comment else { continue };
        let id = Subject::comment(session, title, &place.name()).id();
        if let Some(same) = comments.iter_mut().find(|it| it.id == id) {
            same.contents.iter_mut().for_each(|it| it.push_str(&format!("\n\n{text}")));
            continue;
        }
        let range = match place.first == place.last {
            true => Range::line(place.first),
            false => Range::lines(place.first, place.last),
        };
        let comment = ShowComment::new(id, file_url(&place.file), range, text);
        let comment = ShowComment { can_reply, ..comment };
        comments.push(comment.in_session(session));
    }
    comments
}

/// The result of a tool call that does not wait.
fn shown(tour: &Tour, surface: Surface, problem: Option<&str>) -> Result<ToolOutput> {
    let has_questions = tour.questions().next().is_some();
    let place =
        match (surface.panel, surface.comments && tour.places().any(|it| it.comment.is_some())) {
            (true, true) => "in a panel and as comments on the code",
            (true, false) => "in a panel",
            (false, true) => "in the chat, and as comments on the code",
            (false, false) => "in the chat",
        };
    let can_answer = surface.panel && surface.events;
    let rest = match (can_answer, has_questions) {
        (false, true) => {
            " The user answers the questions in the chat: end your turn, and read the next prompt."
        }
        (true, true) => " What the user answers is added to the next prompt.",
        (_, false) => " What the user replies is added to the next prompt.",
    };
    let problem = problem.map(|it| format!(" Note: {it}.")).unwrap_or_default();
    let status = if surface.panel { "shown" } else { "in_chat" };
    let text = format!("The walkthrough is shown {place}.{rest}{problem}");
    output(text, json!({ "status": status, "answers": [], "replies": [] }))
}
