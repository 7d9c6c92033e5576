//! The walkthroughs that are shown, and what the user has answered.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use super::ids::Subject;
use super::show::Answers;
use component_base::sessions::{Origin, Sessions};

/// How many walkthroughs a session has at once in panels that the user can close.
const MAX_TOURS: usize = 16;

/// How many others are remembered, for their comments. The oldest ones are forgotten.
const MAX_OTHERS: usize = 64;

/// How many texts of a session wait for its next prompt. The oldest ones are dropped.
const MAX_TEXTS: usize = 32;

/// The maximum length of an answer of the user, in bytes.
const MAX_ANSWER: usize = 16 * 1024;

/// How many turns answers may start in a session without a prompt of the user between them.
const MAX_TURNS: u32 = 10;

/// What is known of a session.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    tours: Vec<ShownTour>,
    /// Texts for the next prompt.
    texts: Vec<String>,
    /// Whether the user knows that they wait.
    is_announced: bool,
    /// How many turns answers have started since the last prompt of the user.
    turns: u32,
}

/// A walkthrough that is shown.
#[derive(Debug, Default)]
struct ShownTour {
    title: String,
    /// The texts of the questions, shortened.
    questions: Vec<String>,
    comments: Vec<ShownComment>,
    /// Whether it is in a panel that the user can close, and is not closed.
    is_open: bool,
    waiting: Option<Waiting>,
}

/// A comment on the code.
#[derive(Debug)]
struct ShownComment {
    id: String,
    has_replies: bool,
}

/// A tool call that waits for the user.
#[derive(Debug)]
struct Waiting {
    end: oneshot::Sender<Reply>,
    answers: BTreeMap<usize, Answer>,
    comments: Vec<(String, String)>,
}

/// What the user answers to a question: a choice, a text, or both.
#[derive(Debug, Default)]
struct Answer {
    choice: Option<String>,
    text: Option<String>,
}

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKind {
    Choice,
    Text,
}

/// How a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The user has answered all questions, or has clicked the button.
    Answered,
    /// The user has closed the panel.
    Closed,
    /// The call or the turn is over, or the walkthrough was replaced.
    Cancelled,
    /// The user has not answered in time.
    TimedOut,
}

/// What the user has answered to a tool call that waits.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) ending: Ending,
    pub(super) answers: Answers,
    /// The replies to comments: the place and the text.
    pub(super) comments: Vec<(String, String)>,
}

/// What happens to answers of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There are none.
    Nothing,
    /// A tool call waits for them.
    ByTool,
    /// They are kept for the next prompt.
    ForPrompt,
}

/// All walkthroughs. It is a handle: clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tours(pub(super) Sessions<SessionState>);

impl Tours {
    fn with<R>(&self, session: &str, act: impl FnOnce(&mut SessionState) -> R) -> R {
        self.0.with(session, |it| act(&mut it.state))
    }

    /// A walkthrough is about to be shown, in a panel that the user can close or elsewhere. Returns the ids of the comments
    /// of one with the same title and of forgotten ones, which are no longer needed.
    pub(super) fn add(
        &self,
        session: &str,
        title: &str,
        questions: Vec<String>,
        comments: Vec<String>,
        is_open: bool,
    ) -> Result<Vec<String>, String> {
        self.with(session, |state| {
            let known = state.tours.iter().position(|it| it.title == title);
            let is_open_now = known.is_some_and(|index| state.tours[index].is_open);
            let open = state.tours.iter().filter(|it| it.is_open).count();
            if is_open && !is_open_now && open >= MAX_TOURS {
                return Err(format!(
                    "there are {MAX_TOURS} walkthroughs in this session; use the title of one of them to replace it, or close one with close_walkthrough"
                ));
            }
            let old = known.map(|index| state.tours.remove(index)).unwrap_or_default();
            if let Some(waiting) = old.waiting {
                waiting.end(Ending::Cancelled);
            }
            let gone = old.comments.iter().map(|it| &it.id).filter(|it| !comments.contains(it));
            let mut gone: Vec<String> = gone.cloned().collect();
            let title = title.to_owned();
            let has_replies = |id: &String| old.comments.iter().any(|it| it.id == *id && it.has_replies);
            let comments = comments.into_iter().map(|id| ShownComment { has_replies: has_replies(&id), id });
            let comments = comments.collect();
            state.tours.push(ShownTour { title, questions, comments, is_open, waiting: None });
            gone.extend(state.forget_oldest());
            Ok(gone)
        })
    }

    /// A walkthrough is not in a panel: the editor could not show it.
    pub(super) fn has_no_panel(&self, session: &str, title: &str) {
        self.0.with_known(session, |it| it.state.find(title).map(|it| it.is_open = false));
    }

    /// Forgets a walkthrough. Returns the ids of its comments, if it is known.
    pub(super) fn remove(&self, session: &str, title: &str) -> Option<Vec<String>> {
        self.with(session, |state| {
            let index = state.tours.iter().position(|it| it.title == title)?;
            let tour = state.tours.remove(index);
            tour.waiting.into_iter().for_each(|it| it.end(Ending::Cancelled));
            Some(tour.comments.into_iter().map(|it| it.id).collect())
        })
    }

    /// A tool call begins to wait for the user.
    pub(super) fn wait(&self, session: &str, title: &str) -> oneshot::Receiver<Reply> {
        let (end, receiver) = oneshot::channel();
        self.with(session, |state| {
            let waiting = Waiting { end, answers: BTreeMap::new(), comments: Vec::new() };
            if let Some(tour) = state.find(title) {
                tour.waiting = Some(waiting);
            }
        });
        receiver
    }

    /// Ends the wait of a walkthrough. Returns whether there was one.
    pub(super) fn end_wait(&self, session: &str, title: &str, ending: Ending) -> bool {
        let ended = self.0.with_known(session, |it| {
            let waiting = it.state.find(title).and_then(ShownTour::take_waiting);
            waiting.map(|it| it.end(ending))
        });
        ended.flatten().is_some()
    }

    /// The component was restarted, so no tool call waits any more. What the user has answered to them is kept for the next
    /// prompts.
    pub(super) fn release(&self) {
        let mut unread = Vec::new();
        self.0.for_each(|session, it| {
            for tour in &mut it.state.tours {
                let waiting = tour.waiting.take();
                unread.extend(waiting.map(|it| (session.to_owned(), tour.title.clone(), it)));
            }
        });
        for (session, title, waiting) in unread {
            let answers = written(waiting.answers);
            self.keep_unread(&session, &title, answers, waiting.comments);
        }
    }

    /// Keeps answers for the next prompt that a tool call does not return.
    pub(super) fn keep_unread(
        &self,
        session: &str,
        title: &str,
        answers: Answers,
        comments: Vec<(String, String)>,
    ) {
        let answers = answers.into_iter().map(|(number, it)| (number, AnswerKind::Text, it));
        self.answer_all(session, title, answers.collect());
        for (place, text) in comments {
            self.reply(session, title, &place, &text);
        }
    }

    /// The user has answered questions, all with one event. The first answer of the event may be the last one that is
    /// missing, so the wait ends after all of them.
    pub(super) fn answer_all(
        &self,
        session: &str,
        title: &str,
        answers: Vec<(usize, AnswerKind, String)>,
    ) -> Taken {
        if answers.is_empty() {
            return Taken::Nothing;
        }
        self.with(session, |state| {
            let tour = state.find(title);
            let questions = tour.as_ref().map(|it| it.questions.clone()).unwrap_or_default();
            if let Some(tour) = tour
                && let Some(mut waiting) = tour.take_waiting()
            {
                for (number, kind, answer) in answers {
                    let given = waiting.answers.entry(number).or_default();
                    match kind {
                        AnswerKind::Choice => given.choice = Some(shortened(&answer)),
                        AnswerKind::Text => given.text = Some(shortened(&answer)),
                    }
                }
                match waiting.answers.len() >= tour.questions.len() {
                    true => waiting.end(Ending::Answered),
                    false => tour.waiting = Some(waiting),
                }
                return Taken::ByTool;
            }
            for (number, _, answer) in answers {
                let question = questions.get(number - 1).map(|it| format!(" ({it})"));
                let (question, answer) = (question.unwrap_or_default(), shortened(&answer));
                state.keep(format!(
                    "The user answered question {number}{question} of your walkthrough \"{title}\": {answer}"
                ));
            }
            Taken::ForPrompt
        })
    }

    /// The user has replied to a comment.
    pub(super) fn reply(&self, session: &str, title: &str, place: &str, text: &str) -> Taken {
        let text = shortened(text);
        let id = Subject::comment(session, title, place).id();
        self.with(session, |state| {
            let comments = state.find(title).map(|it| &mut it.comments);
            comments
                .into_iter()
                .flatten()
                .filter(|it| it.id == id)
                .for_each(|it| it.has_replies = true);
            if let Some(tour) = state.find(title)
                && let Some(mut waiting) = tour.take_waiting()
            {
                if waiting.comments.len() < MAX_TEXTS {
                    waiting.comments.push((place.to_owned(), text));
                }
                // Without a question, the reply is what the agent waits for.
                match tour.questions.is_empty() {
                    true => waiting.end(Ending::Answered),
                    false => tour.waiting = Some(waiting),
                }
                return Taken::ByTool;
            }
            state.keep(format!("The user replied to your comment on {place}: {text}"))
        })
    }

    /// The user has closed the panel: the walkthrough is over. Returns the ids of its comments without replies, which are
    /// no longer needed. Those with replies stay until the agent removes them.
    pub(super) fn close(&self, session: &str, title: &str) -> Vec<String> {
        self.end_wait(session, title, Ending::Closed);
        let gone = self.0.with_known(session, |it| {
            let tour = it.state.find(title)?;
            tour.is_open = false;
            let comments = std::mem::take(&mut tour.comments).into_iter();
            let (kept, gone): (Vec<_>, Vec<_>) = comments.partition(|it| it.has_replies);
            tour.comments = kept;
            it.state.tours.retain(|it| it.is_open || it.title != title || !it.comments.is_empty());
            Some(gone.into_iter().map(|it| it.id).collect())
        });
        gone.flatten().unwrap_or_default()
    }

    /// The user prompts the agent. Returns the texts for this prompt.
    pub(super) fn on_prompt(&self, session: &str) -> Vec<String> {
        let texts = self.0.with_known(session, |it| {
            it.state.turns = 0;
            it.state.is_announced = false;
            std::mem::take(&mut it.state.texts)
        });
        texts.unwrap_or_default()
    }

    /// The texts for a turn that the component starts. `None` if there are none, or too many turns were started.
    pub(super) fn take_for_turn(&self, session: &str) -> Option<Vec<String>> {
        self.0.with_known(session, |it| {
            let state = &mut it.state;
            if state.texts.is_empty() || state.turns >= MAX_TURNS {
                return None;
            }
            state.turns += 1;
            state.is_announced = false;
            Some(std::mem::take(&mut state.texts))
        })?
    }

    /// Whether the user has to be told that texts wait for the next prompt. It is so once for each prompt. A session that
    /// the component has not seen may not exist any more.
    pub(super) fn begin_announcement(&self, session: &str) -> bool {
        let is_due = self.0.with_known(session, |it| {
            let state = &mut it.state;
            let is_due = it.origin != Origin::Unknown && !state.texts.is_empty();
            is_due && !std::mem::replace(&mut state.is_announced, true)
        });
        is_due.unwrap_or_default()
    }

    /// The turn has failed: the texts wait for the next prompt.
    pub(super) fn put_back(&self, session: &str, texts: Vec<String>) {
        self.with(session, |state| {
            let newer = std::mem::replace(&mut state.texts, texts);
            state.texts.extend(newer);
        });
    }

    /// How many walkthroughs are shown, and how many answers wait.
    pub(super) fn count(&self) -> (usize, usize) {
        let (mut tours, mut texts) = (0, 0);
        self.0.for_each(|_, it| {
            tours +=
                it.state.tours.iter().filter(|it| it.is_open || !it.comments.is_empty()).count();
            texts += it.state.texts.len();
        });
        (tours, texts)
    }
}

impl SessionState {
    fn find(&mut self, title: &str) -> Option<&mut ShownTour> {
        self.tours.iter_mut().find(|it| it.title == title)
    }

    /// Forgets the oldest walkthroughs that are in no panel. Returns the ids of their comments without replies.
    fn forget_oldest(&mut self) -> Vec<String> {
        let others = self.tours.iter().filter(|it| !it.is_open).count();
        let mut surplus = others.saturating_sub(MAX_OTHERS);
        let mut gone = Vec::new();
        self.tours.retain_mut(|tour| {
            let is_kept = tour.is_open || surplus == 0;
            if !is_kept {
                surplus -= 1;
                let comments = std::mem::take(&mut tour.comments).into_iter();
                gone.extend(comments.filter(|it| !it.has_replies).map(|it| it.id));
            }
            is_kept
        });
        gone
    }

    fn keep(&mut self, text: String) -> Taken {
        if self.texts.len() >= MAX_TEXTS {
            self.texts.remove(0);
        }
        self.texts.push(text);
        Taken::ForPrompt
    }
}

impl ShownTour {
    /// The tool call that waits, unless it has ended without an answer, as with a restart.
    fn take_waiting(&mut self) -> Option<Waiting> {
        self.waiting.take().filter(|it| !it.end.is_closed())
    }
}

impl Waiting {
    fn end(self, ending: Ending) {
        let Waiting { end, answers, comments, .. } = self;
        // If the call has just ended, nobody reads the answer.
        drop(end.send(Reply { ending, answers: written(answers), comments }));
    }
}

/// The answers as texts. A text does not replace a choice.
fn written(answers: BTreeMap<usize, Answer>) -> Answers {
    let text = |it: Answer| it.choice.into_iter().chain(it.text).collect::<Vec<_>>().join("; ");
    answers.into_iter().map(|(number, it)| (number, text(it))).collect()
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    let mut end = MAX_ANSWER.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let more = if end < text.len() { "…" } else { "" };
    format!("{}{more}", &text[..end])
}
