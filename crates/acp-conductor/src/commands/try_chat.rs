//! `conductor try`: a chat with a chain.

use acp_conductor::chat::{self, ChatEnd, WireDetail};
use acp_conductor::{Mode, Spec, log};
use tokio::sync::mpsc::UnboundedReceiver;

use super::chain::{parse_components, wait_for_signal, with_chain};
use super::output::Failure;
use crate::cli::{Color, ShowWire, TryArgs};

/// `conductor try`: runs a chain and a chat with it.
pub fn try_chain(options: &TryArgs) -> Result<(), Failure> {
    let components = match options.components.is_empty() {
        true => demo_chain()?,
        false => parse_components(&options.components)?,
    };
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
