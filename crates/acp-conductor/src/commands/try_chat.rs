//! `conductor try`: a chat with a chain.

use std::io::{self, IsTerminal};
use std::path::{Component, Path, PathBuf};

use acp_conductor::chat::{self, ChatEnd, Display, FirstSession, WireDetail};
use acp_conductor::configuration::{Request, Run};
use acp_conductor::{Config, JournalFile, Mode, Spec, log};
use acp_wire::ErrorKind;
use tokio::sync::mpsc::UnboundedReceiver;

use super::chain::{request, resolve, wait_for_signal, with_chain};
use super::output::Failure;
use crate::cli::{Color, ShowWire, TryArgs};

/// What to log if nothing is set.
const DEFAULT_LOG: &str = "info";

/// Shown after the first answer of the demo agent.
const NEXT_STEP: &str = "\
Now with a proxy, which adds a tool to the agent:
  conductor try -- sparkle demo-agent
Then with an agent of your own:
  conductor try -- sparkle 'npx -y @agentclientprotocol/claude-agent-acp'";

/// `conductor try`: runs a chain and a chat with it.
pub fn try_chain(options: &TryArgs) -> Result<(), Failure> {
    let demo = vec![demo_agent()?];
    let run = options.chain.run(&options.components, || Run::Specs(demo));
    let chain_options = options.chain.options(options.log.as_ref(), options.log_file.as_ref());
    let terminal_log = own_log_file();
    // The check of the component `log` needs the folder of its file. An error is told below, if the chain has a log.
    let _ = terminal_log.parent().map(std::fs::create_dir_all);
    let request = Request {
        terminal_log: Some(terminal_log.clone()),
        ..request(Mode::Agent, run, chain_options, options.cwd.as_deref())?
    };
    let resolved = resolve(&request)?;
    if resolved.logs_to_file {
        keep_log_out_of_the_chat(resolved.log_file.as_deref(), &terminal_log)?;
    }
    let mut chat_options = chat_options(options)?;
    let start_log = |level: Option<&str>, file: Option<&Path>| {
        log::start_file_only(level.unwrap_or(DEFAULT_LOG), file)
    };
    // The journal is created after the reaper was forked, which would keep its lock.
    let end = with_chain(resolved, start_log, async |mut config: Config| {
        config.report_wait = Some(log::progress::show);
        let journal = options.journal.as_deref().map(JournalFile::create).transpose();
        config.journal = journal.map_err(|why| Failure::invalid(ErrorKind::UnwritableFile, why))?;
        let chat_options = std::mem::take(&mut chat_options);
        let chat = chat::run(config, chat_options, interrupt_channel(), wait_for_signal(false));
        chat.await.map_err(Failure::run)
    })?;
    match end? {
        ChatEnd::Closed => Ok(()),
        ChatEnd::AnswerFailed | ChatEnd::ChainEnded => Err(Failure { status: 1, line: None }),
        ChatEnd::Interrupted => Err(Failure { status: 130, line: None }),
    }
}

fn chat_options(options: &TryArgs) -> Result<chat::Options, Failure> {
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let interactive = terminal && options.prompt.is_empty() && !options.json;
    let dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
    let display = match (options.json, interactive && !options.plain && !dumb) {
        (true, _) => Display::Json,
        (false, true) => Display::Terminal,
        (false, false) => Display::Plain,
    };
    let set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
    let color = match options.color {
        Color::Auto => io::stdout().is_terminal() && !dumb && !set("NO_COLOR"),
        Color::Always => true,
        Color::Never => false,
    };
    let history = if options.no_history { None } else { history_file() };
    let wire = options.show_wire.map(|which| match which {
        ShowWire::Folded => WireDetail::Folded,
        ShowWire::All => WireDetail::All,
    });
    if options.prompt.iter().any(|it| it.trim().is_empty()) {
        let why = "--prompt is empty; write the text of the prompt after it";
        return Err(Failure::invalid(ErrorKind::InvalidOption, why.to_owned()));
    }
    let mcp_servers = options.mcp_server.iter().map(|text| {
        chat::mcp_server::parse(text).map_err(|why| {
            let why = format!("--mcp-server is invalid: {why}");
            Failure::invalid(ErrorKind::InvalidOption, why)
        })
    });
    let session = match (&options.load, &options.resume) {
        (Some(id), _) => FirstSession::Load(id.clone()),
        (None, Some(id)) => FirstSession::Resume(id.clone()),
        (None, None) => FirstSession::New,
    };
    let is_demo = options.components.is_empty() && options.chain.chain.is_none();
    let chat = ::chat::Options {
        interactive,
        yes: options.yes,
        protocol: options.protocol,
        folder: folder(options.cwd.as_deref())?,
        mcp_servers: mcp_servers.collect::<Result<_, _>>()?,
        session,
        next_step: if is_demo { NEXT_STEP.to_owned() } else { String::new() },
        // The components may contain secrets.
        resume_command: match (is_demo, &options.chain.chain) {
            (true, _) => "conductor try --resume ID".to_owned(),
            (false, Some(chain)) => format!("conductor try --chain {chain} --resume ID"),
            (false, None) => "conductor try --resume ID -- …".to_owned(),
        },
        ..::chat::Options::default()
    };
    Ok(chat::Options { chat, prompts: options.prompt.clone(), wire, display, color, history })
}

/// The file with the prompts of earlier chats.
fn history_file() -> Option<PathBuf> {
    Some(components::state_folder::path()?.join("try-history"))
}

/// The file to which the built-in component `log` writes if there is no log file.
fn own_log_file() -> PathBuf {
    match components::state_folder::path() {
        Some(folder) => folder.join("try-log.jsonl"),
        None => std::env::temp_dir().join(format!("conductor-{}.jsonl", std::process::id())),
    }
}

/// Says where the built-in component `log` writes: to the log file, or to a file of its own, which is emptied.
fn keep_log_out_of_the_chat(log_file: Option<&Path>, own: &Path) -> Result<(), Failure> {
    let path = log_file.unwrap_or(own);
    if log_file.is_none() {
        // The file contains the log of the latest chat.
        let failed = |why: String| {
            let why = format!("cannot write {}: {why}", path.display());
            Failure::of(ErrorKind::UnwritableFile, why)
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        }
        let file = components::append::open_to_read(path).map_err(failed)?;
        file.set_len(0).map_err(|error| failed(error.to_string()))?;
    }
    log::print_error(&format!("conductor: the component log writes to {}\n", path.display()));
    Ok(())
}

/// The folder of the session: an absolute path.
pub fn folder(cwd: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(folder) = cwd else {
        return Ok(std::env::current_dir().unwrap_or_else(|_| "/".into()));
    };
    let absolute = match folder.components().any(|it| it == Component::ParentDir) {
        true => folder.canonicalize(),
        false => std::path::absolute(folder),
    };
    let found = absolute.and_then(|path| match path.metadata()?.is_dir() {
        true => Ok(path),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    found.map_err(|error| {
        let why = format!("cannot use the folder {} of --cwd: {error}", folder.display());
        Failure::invalid(ErrorKind::MissingDirectory, why)
    })
}

/// The chain without arguments: the demo agent, as a process.
pub fn demo_agent() -> Result<Spec, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        let why = format!("cannot find the path of the conductor program: {error}");
        Failure::of(ErrorKind::SystemError, why)
    })?;
    let json =
        serde_json::json!({ "name": "demo-agent", "command": program, "args": ["demo-agent"] });
    Spec::parse(&json.to_string()).map_err(Failure::run)
}

/// A channel that receives a message for each Ctrl-C from now on.
fn interrupt_channel() -> UnboundedReceiver<()> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {}
    });
    receiver
}
