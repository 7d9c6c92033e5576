//! Connects an editor with the chain, the page and the clock.

use std::time::Duration;

use client::Connection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use web::server::ActionReceiver;
use web::surface::ToOwner;

use crate::editor::Editor;

/// How often the output of running terminals is shown.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);

/// What an editor is told, beside the messages of the chain.
#[derive(Debug)]
pub struct Inputs {
    /// What the person does.
    pub actions: ActionReceiver,
    /// What the person has done with panels and comments.
    pub events: mpsc::Receiver<ToOwner>,
    /// The process of the agent has ended. It may be started again.
    pub agent_ends: mpsc::UnboundedReceiver<()>,
}

/// Runs an editor until the chain has closed the connection.
pub async fn run(
    editor: &mut Editor,
    (reader, writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    inputs: &mut Inputs,
) {
    let Inputs { actions, events, agent_ends } = inputs;
    let mut connection = Connection::new(reader, writer);
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(TERMINAL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        editor.tasks.drain(..).for_each(|task| drop(tasks.spawn(task)));
        tokio::select! {
            biased;
            Some(action) = actions.recv() => editor.on_action(action),
            Some(event) = events.recv() => editor.on_event(&event),
            Some(()) = agent_ends.recv() => editor.on_agent_end(),
            _ = ticks.tick(), if editor.has_terminals() => editor.show_terminals(),
            message = connection.next(&mut editor.outgoing) => match message {
                Some(message) => editor.on_message(message),
                None => break,
            },
            Some(Ok(done)) = tasks.join_next() => editor.on_task(done),
        }
    }
}

/// Serves the page after the chain has ended: files and conversations can still be read.
pub async fn serve_ended(editor: &mut Editor, actions: &mut ActionReceiver) {
    let mut tasks = JoinSet::new();
    loop {
        editor.tasks.drain(..).for_each(|task| drop(tasks.spawn(task)));
        tokio::select! {
            action = actions.recv() => match action {
                Some(action) => editor.on_action(action),
                None => break,
            },
            Some(Ok(_)) = tasks.join_next() => {}
        }
    }
}
