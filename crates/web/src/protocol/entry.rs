//! The entries of topics.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An entry of a topic. All times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Entry {
    /// Topic `chain`, id `chain`: the state of the chain.
    Chain(Chain),
    /// Topic `chain`, id `log:N`: a log message of a component.
    Log {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The component, if it is known.
        component: Option<String>,
        /// The message.
        text: String,
        /// When it came.
        #[cfg_attr(test, ts(type = "number"))]
        time: u64,
    },
    /// Topic `sessions`: a session of the agent. The id is that of ACP.
    Session(Session),
    /// Topic `session/ID`: a message of the user.
    User {
        /// The text.
        text: String,
        /// What is attached, by name.
        attachments: Vec<String>,
        /// Whether it still waits for the end of the turn.
        queued: bool,
        /// When it was sent.
        #[cfg_attr(test, ts(type = "number"))]
        time: u64,
    },
    /// Topic `session/ID`: text of the agent, Markdown. It grows by `append`.
    Agent {
        /// The text.
        text: String,
        /// Whether more may come.
        open: bool,
        /// When it began.
        #[cfg_attr(test, ts(type = "number"))]
        time: u64,
        /// Images, audio and resources that the agent has sent after the text.
        blocks: Vec<Block>,
    },
    /// Topic `session/ID`: a thought of the agent, Markdown. It grows by `append`.
    Thought {
        /// The text.
        text: String,
        /// Whether more may come.
        open: bool,
        /// When it began.
        #[cfg_attr(test, ts(type = "number"))]
        time: u64,
        /// How long it took, when it is not open any more.
        #[cfg_attr(test, ts(type = "number | null"))]
        ms: Option<u64>,
    },
    /// Topic `session/ID`: a tool call of the agent.
    Tool(Tool),
    /// Topic `session/ID`, id `terminal:ID`: the output of a terminal. The text grows by `append`.
    Terminal {
        /// The command line, quoted for a shell.
        command: String,
        /// The folder in which it runs, if that is not the folder of the session.
        folder: Option<String>,
        /// The output, with escape sequences.
        text: String,
        /// How the command ended. Null while it runs.
        exit: Option<Exit>,
        /// Whether the beginning of the output is missing.
        cut: bool,
    },
    /// Topic `session/ID`, id `plan:TURN`: the plan of the agent in a turn.
    Plan {
        /// The steps.
        steps: Vec<Step>,
    },
    /// Topic `session/ID`: a question that the user answers: a permission, or the use of a file outside of the folder.
    Question(Question),
    /// Topic `session/ID`: a remark of Conductor.
    Note {
        /// The text.
        text: String,
    },
    /// Topic `session/ID`: something failed.
    Error {
        /// What failed, why, and the remedy.
        text: String,
        /// The error as it came, for a bug report.
        details: String,
        /// The text of the prompt that failed, to try it again.
        prompt: Option<String>,
        /// What was attached to the prompt, by name.
        attachments: Vec<String>,
    },
    /// Topic `session/ID`, id `turn`: what the session is doing.
    Turn {
        /// The activity.
        state: Activity,
        /// Since when.
        #[cfg_attr(test, ts(type = "number"))]
        since: u64,
        /// The component that the chain waits for, if it is known.
        awaits: Option<String>,
        /// Why the last turn ended, such as `end_turn` or `cancelled`.
        ended: Option<String>,
    },
    /// Topic `session/ID`, id `settings`: modes, models and commands of the agent.
    Settings(Settings),
    /// Topic `session/ID`, id `draft`: what the user has written and not sent.
    Draft {
        /// The text.
        text: String,
    },
    /// Topic `panels`: a panel. The id is that of SCP.
    Panel {
        /// The label of its tab.
        label: String,
        /// The HTML as it came. Only the panel frame may show it.
        contents: String,
        /// Grows when the panel is brought to the front. The panel with the highest value is in front.
        #[cfg_attr(test, ts(type = "number"))]
        front: u64,
    },
    /// Topic `comments`: a thread on lines of a file. The id is that of SCP.
    Thread(Thread),
    /// Topic `edits`: an edit that a component proposes.
    Edit {
        /// What it is for.
        label: String,
        /// The files before and after.
        files: Vec<FileDiff>,
        /// `open`, `accepted`, `rejected` or `failed`.
        state: String,
    },
    /// Topic `files`: a file that was written since the page was opened. The id is the path.
    Changed {
        /// How many times.
        #[cfg_attr(test, ts(type = "number"))]
        version: u64,
    },
    /// Topic `files`, id `/open`, which is no path in the folder: a component asks the page to open a file.
    OpenFile {
        /// The path, relative to the folder.
        path: String,
        /// The line, from 1.
        #[cfg_attr(test, ts(type = "number | null"))]
        line: Option<u64>,
        /// Grows with each request.
        #[cfg_attr(test, ts(type = "number"))]
        version: u64,
    },
}

/// The state of the chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// `starting`, `running`, `login` (the agent needs a log-in) or `ended`.
    pub state: String,
    /// The names of the components, the agent last.
    pub components: Vec<String>,
    /// The agent with its version, when it is known.
    pub agent: Option<String>,
    /// Why the chain has ended or did not start, with the remedy.
    pub error: Option<String>,
    /// Whether an earlier session can be loaded or resumed.
    pub can_load: bool,
    /// Whether images can be attached.
    pub images: bool,
    /// The ways to log in.
    pub logins: Vec<Login>,
}

/// A way to log in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Login {
    /// The id on the wire.
    pub id: String,
    /// What the user reads.
    pub name: String,
    /// More about it.
    pub about: String,
    /// The command to run in a terminal, if that is needed. The page cannot do it.
    pub command: Option<String>,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Session {
    /// The title.
    pub title: String,
    /// The folder.
    pub cwd: String,
    /// `saved` (not loaded yet), `loading`, `idle`, `running`, `asks` or `failed`.
    pub state: String,
    /// When it was last used.
    #[cfg_attr(test, ts(type = "number"))]
    pub time: u64,
}

/// Content that is not text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "block", rename_all = "camelCase")]
pub enum Block {
    /// A text.
    Text {
        /// Markdown.
        text: String,
    },
    /// An image.
    Image {
        /// The type, such as `image/png`.
        mime: String,
        /// The image in base64. Empty if the agent named only an address.
        data: String,
    },
    /// A resource, embedded or linked.
    Resource {
        /// The address.
        uri: String,
        /// Its name.
        name: String,
        /// Its text, if it is embedded.
        text: Option<String>,
    },
    /// Something that a page cannot show.
    Other {
        /// What it is, such as `audio (audio/wav)`.
        about: String,
    },
}

/// A tool call. Members of later updates replace those of earlier ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The title.
    pub title: String,
    /// `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch` or another kind.
    pub tool: String,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: String,
    /// Text, images and resources.
    pub blocks: Vec<Block>,
    /// Changes of files.
    pub diffs: Vec<FileDiff>,
    /// The ids of terminals. Their entries are `terminal:ID`.
    pub terminals: Vec<String>,
    /// The places that it is about.
    pub places: Vec<Place>,
    /// The input of the tool.
    #[cfg_attr(test, ts(type = "unknown"))]
    pub input: Value,
    /// The output of the tool.
    #[cfg_attr(test, ts(type = "unknown"))]
    pub output: Value,
    /// When it began.
    #[cfg_attr(test, ts(type = "number"))]
    pub time: u64,
    /// How long it took, when it has ended.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub ms: Option<u64>,
}

/// A place in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Place {
    /// The path, relative to the folder if it is inside.
    pub path: String,
    /// The line, from 1.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub line: Option<u64>,
}

/// A file before and after a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FileDiff {
    /// The path, relative to the folder if it is inside.
    pub path: String,
    /// The text before; null for a new file.
    pub old: Option<String>,
    /// The text after.
    pub new: String,
}

/// How a command ended. Without a code and a signal, it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that killed it, such as `SIGKILL`.
    pub signal: Option<String>,
}

/// A step of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Step {
    /// What is done.
    pub text: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
}

/// A question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Question {
    /// What is asked.
    pub title: String,
    /// The tool call that it is about, with everything known. The entry of the call may come later or never.
    pub tool: Option<Tool>,
    /// The command line that would run, quoted for a shell, if it is known.
    pub command: Option<String>,
    /// The folder in which the command would run, if that is known and is not the folder of the session.
    pub folder: Option<String>,
    /// The answers to choose from.
    pub choices: Vec<Choice>,
    /// The chosen answer, or `cancelled`. Null while the question is open.
    pub answer: Option<String>,
}

/// An answer to choose from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Choice {
    /// The id on the wire.
    pub id: String,
    /// What the user reads.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or `other`.
    pub effect: String,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Activity {
    /// The session is being opened.
    Loading,
    /// It waits for a prompt.
    Idle,
    /// The agent works on a prompt.
    Running,
    /// The user has cancelled the turn, and the agent has not ended it yet.
    Cancelling,
    /// It cannot be used.
    Failed,
}

/// Modes, models, options and commands of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Settings {
    /// What can be chosen: the mode, the model and others, in the order to show them.
    pub selects: Vec<Select>,
    /// The slash commands of the agent.
    pub commands: Vec<Command>,
    /// What the session has used so far, such as `12,400 of 200,000 tokens`.
    pub usage: Option<String>,
}

/// Something that can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Select {
    /// `mode`, `model`, or `option:ID`.
    pub id: String,
    /// What the user reads.
    pub name: String,
    /// The id of the current value.
    pub current: String,
    /// The values.
    pub values: Vec<SelectValue>,
}

/// A value of a [`Select`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SelectValue {
    /// The id on the wire.
    pub id: String,
    /// What the user reads.
    pub name: String,
    /// More about it.
    pub about: String,
}

/// A slash command of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Command {
    /// The name, without the slash.
    pub name: String,
    /// What it does.
    pub about: String,
    /// What to write after it. Empty if it takes nothing.
    pub hint: String,
}

/// A thread on lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// The path, relative to the folder if it is inside.
    pub path: String,
    /// The first line, from 1.
    #[cfg_attr(test, ts(type = "number"))]
    pub line: u64,
    /// The first column, from 1, if the comment begins inside of the line.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub column: Option<u64>,
    /// The last line.
    #[cfg_attr(test, ts(type = "number"))]
    pub end_line: u64,
    /// The column after the last character, if the comment ends inside of the line.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub end_column: Option<u64>,
    /// The comment, Markdown. May be empty.
    pub text: String,
    /// Whether a person can reply.
    pub can_reply: bool,
    /// The replies of the person.
    pub replies: Vec<Reply>,
}

/// A reply of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Reply {
    /// The text, Markdown.
    pub text: String,
    /// When it was written.
    #[cfg_attr(test, ts(type = "number"))]
    pub time: u64,
}

impl Entry {
    /// The text that grows by `append`.
    pub(crate) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Entry::User { text, .. }
            | Entry::Agent { text, .. }
            | Entry::Thought { text, .. }
            | Entry::Terminal { text, .. }
            | Entry::Note { text }
            | Entry::Draft { text } => Some(text),
            _ => None,
        }
    }
}
