//! `conductor try`: a chat with a chain.

use std::path::Path;

use acp_conductor::chat::{self, ChatEnd, WireDetail};
use acp_conductor::{Mode, Spec, log};
use tokio::sync::mpsc::UnboundedReceiver;

use super::chain::{parse_components, wait_for_signal, with_chain};
use super::output::Failure;
use crate::cli::{Color, ShowWire, TryArgs};

/// `conductor try`: runs a chain and a chat with it.
pub fn try_chain(options: &TryArgs) -> Result<(), Failure> {
    let mut components = match options.components.is_empty() {
        true => demo_chain()?,
        false => parse_components(&options.components)?,
    };
    keep_log_out_of_the_chat(&mut components, options.log_file.as_deref())?;
    let mut style = chat::view::Style::default();
    match options.color {
        Color::Auto => {}
        Color::Always => style.color = true,
        Color::Never => style.color = false,
    }
    let wire = options.show_wire.map(|which| match which {
        ShowWire::Folded => WireDetail::Folded,
        ShowWire::All => WireDetail::All,
    });
    let (prompts, yes, protocol) = (options.prompt.clone(), options.yes, options.protocol);
    let chat_options = chat::Options { prompts, yes, wire, style, protocol };
    let start_log = || log::start_file_only(&options.log, options.log_file.as_deref());
    let end = with_chain(Mode::Agent, components, &options.chain, start_log, async |config| {
        chat::run(config, chat_options, interrupt_channel(), wait_for_signal(false)).await
    })?;
    match end.map_err(Failure::run)? {
        ChatEnd::Closed => Ok(()),
        ChatEnd::AnswerFailed | ChatEnd::ChainEnded => Err(Failure { status: 1, line: None }),
        ChatEnd::Interrupted => Err(Failure { status: 130, line: None }),
    }
}

/// Lets the built-in component `log` write to the log file, or else to a file of its own, and says where it is.
fn keep_log_out_of_the_chat(specs: &mut [Spec], log_file: Option<&Path>) -> Result<(), Failure> {
    let own = log_file.is_none();
    let path = match (log_file, acp_conductor::greeting_cache::cache_directory()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(directory)) => directory.join("try-log.jsonl"),
        (None, None) => {
            std::env::temp_dir().join(format!("conductor-{}.jsonl", std::process::id()))
        }
    };
    if !acp_conductor::builtin::keep_log_off_stderr(specs, &path) {
        return Ok(());
    }
    if own {
        // The file contains the log of the latest chat.
        let failed = |why: String| Failure::run(format!("cannot write {}: {why}", path.display()));
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| failed(error.to_string()))?;
        }
        let file = components::append::open_to_read(&path).map_err(failed)?;
        file.set_len(0).map_err(|error| failed(error.to_string()))?;
    }
    log::print_error(&format!("conductor: the component log writes to {}\n", path.display()));
    Ok(())
}

/// The chain of `conductor try` without arguments: a built-in proxy and the demo agent, as processes.
fn demo_chain() -> Result<Vec<Spec>, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::run(format!("cannot find the path of the conductor program: {error}"))
    })?;
    let component = |name: &str, args: &[&str]| {
        let json = serde_json::json!({ "name": name, "command": program, "args": args });
        Spec::parse(&json.to_string()).map_err(Failure::run)
    };
    Ok(vec![
        component("sparkle", &["component", "sparkle"])?,
        component("demo-agent", &["demo-agent"])?,
    ])
}

/// A channel that receives a message for each Ctrl-C from now on.
fn interrupt_channel() -> UnboundedReceiver<()> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {}
    });
    receiver
}
