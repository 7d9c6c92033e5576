//! `conductor try`: a chat in the terminal, through a chain in the same process.
//!
//! To the chain, the chat is an ordinary editor at the other end of a pipe. The chat itself is the crate
//! `acp-conductor-chat`.
//!
//! # Layout
//! - [`awaited`]: which component the chain waits for
//! - [`wire_log`]: the messages on each hop, for `--show-wire`

pub mod awaited;
pub mod wire_log;

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chat::Input;
use chat::json_view::JsonView;
use chat::view::SharedView;
use chat::{plain, terminal};
use router::Ending;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::agent_ends::AgentEnds;
use crate::config::Config;
use crate::host::leftovers;
use crate::run::run as run_chain;
use crate::tap::Tap;
use awaited::Awaited;
use wire_log::WireLog;

pub use chat::{ChatEnd, FirstSession, mcp_server};

/// The capacity of the pipe between the chat and the chain.
const PIPE: usize = 1024 * 1024;

/// How long the components may take to exit after the user has interrupted the chat.
const INTERRUPT_GRACE: Duration = Duration::from_millis(300);

/// The options of `conductor try`.
#[derive(Debug, Default)]
pub struct Options {
    /// The options of the chat. The chain is filled in.
    pub chat: chat::Options,
    /// The prompts to send. If empty, prompts are read from standard input.
    pub prompts: Vec<String>,
    /// Show the messages on each hop.
    pub wire: Option<WireDetail>,
    /// How the chat is shown.
    pub display: Display,
    /// Whether to use colors.
    pub color: bool,
    /// The file with the prompts of earlier chats.
    pub history: Option<PathBuf>,
}

/// How a chat is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Display {
    /// In a terminal, with a line editor.
    Terminal,
    /// As plain text.
    #[default]
    Plain,
    /// As JSON.
    Json,
}

/// Which messages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireDetail {
    /// Only the first chunk of a streamed text. The others are counted.
    Folded,
    /// All messages.
    All,
}

/// Runs a chain and a chat with it. `interrupts` receives a message for each Ctrl-C, and `stop` ends the chain.
///
/// # Errors
/// The chain failed, or standard output cannot be written.
pub async fn run(
    mut config: Config,
    mut options: Options,
    mut interrupts: UnboundedReceiver<()>,
    stop: impl Future<Output = ()>,
) -> Result<ChatEnd, String> {
    let names: Vec<String> = config.components.iter().map(|spec| spec.name.clone()).collect();
    options.chat.chain.clone_from(&names);
    if let Some(agent) = config.components.last() {
        options.chat.agent_command = agent.command_line();
        options.chat.agent_environment.clone_from(&agent.env);
        options.chat.agent_folder.clone_from(&agent.directory);
    }
    // Finds the processes of a terminal that have left their group.
    let tag = config.cleanup.tag.map(|tag| leftovers::variable(&format!("{tag}.terminal;")));
    options.chat.environment =
        tag.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let (view, input) = start_view(&options)?;
    let shown = view.clone();
    options.chat.wire.store(options.wire.is_some(), Ordering::Relaxed);
    let (ends, mut agent_ends) = AgentEnds::new(&names);
    config.tap = Some(tap(&names, &options, &view, ends));
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(theirs);
    let mut chain = pin!(run_chain(config, (Box::new(reader), Box::new(writer)), stop));
    let signals = chat::Signals { interrupts: &mut interrupts, agent_ends: &mut agent_ends };
    let chat = chat::run(options.chat, tokio::io::split(ours), view, input, signals);
    let mut chat = pin!(chat);
    let mut chain_end = None;
    let chat_end = loop {
        tokio::select! {
            end = &mut chat => break end,
            end = &mut chain, if chain_end.is_none() => chain_end = Some(end),
        }
    };
    let ending = match (chain_end, &chat_end) {
        (Some(ending), _) => ending,
        // The components that have not exited by then are killed.
        (None, Ok(ChatEnd::Interrupted)) => {
            tokio::time::timeout(INTERRUPT_GRACE, chain).await.unwrap_or(Ending::Clean)
        }
        (None, _) => chain.await,
    };
    let end = match (ending, chat_end) {
        (_, Ok(ChatEnd::ChainEnded)) => Ok(ChatEnd::ChainEnded),
        (_, Ok(ChatEnd::Interrupted)) => Ok(ChatEnd::Interrupted),
        // The failure of the chain is the cause of all other errors.
        (Ending::Failed(line), _) => Err(line),
        (Ending::Clean, chat_end) => chat_end,
    };
    // The caller prints it on standard error, which the reader of JSON does not read.
    if let (Err(why), Display::Json) = (&end, options.display) {
        shown.lock().error(why);
    }
    end
}

/// Starts the view, and finds the source of input.
fn start_view(options: &Options) -> Result<(SharedView, Input), String> {
    let given = || match options.prompts.is_empty() {
        true => Input::lines(),
        false => Input::Prompts(VecDeque::from(options.prompts.clone())),
    };
    match options.display {
        Display::Json => Ok((SharedView::new(JsonView::stdout()), given())),
        Display::Plain => {
            let columns = std::env::var("COLUMNS").ok().and_then(|it| it.parse().ok());
            let output_terminal = io::stdout().is_terminal();
            let (view, input) = plain::start(plain::Options {
                terminal: output_terminal,
                input_terminal: io::stdin().is_terminal(),
                read_input: options.chat.interactive,
                color: options.color,
                width: columns.filter(|_| !output_terminal).unwrap_or(0),
                folder: options.chat.folder.clone(),
            });
            Ok((view, if options.chat.interactive { Input::Person(input) } else { given() }))
        }
        Display::Terminal => {
            let started = terminal::start(terminal::Options {
                color: options.color,
                history: options.history.clone(),
                chain: options.chat.chain.clone(),
                folder: options.chat.folder.clone(),
            });
            let (view, input) = started
                .map_err(|error| format!("cannot use the terminal: {error}; try --plain"))?;
            Ok((view, Input::Person(input)))
        }
    }
}

/// A tap that tells the view about messages and about the component that is awaited.
fn tap(names: &[String], options: &Options, view: &SharedView, ends: AgentEnds) -> Tap {
    let (view, shown) = (view.clone(), Arc::clone(&options.chat.wire));
    // A person can show the messages later. The numbers of requests are then those since the start.
    let detail = options.wire.or(options.chat.interactive.then_some(WireDetail::Folded));
    let wire = detail.map(|detail| WireLog::new(names, detail));
    let state = Mutex::new((Awaited::new(names), wire, ends));
    Tap::new(move |event| {
        let (awaited, wire, ends) = &mut *state.lock().unwrap_or_else(PoisonError::into_inner);
        ends.update(event);
        let mut view = view.lock();
        if let Some(wire) = wire {
            let rows = wire.rows(event);
            if shown.load(Ordering::Relaxed) {
                rows.iter().for_each(|row| view.wire(row));
            }
        }
        if awaited.update(event) {
            view.awaited(awaited.component());
        }
    })
}
