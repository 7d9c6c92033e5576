//! Connects a conversation with the agent, the user and the clock.

use std::io;
use std::time::Duration;

use client::{Connection, Incoming};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::conversation::{ChatEnd, Conversation, Options, TaskResult};
use crate::input::Input;
use crate::view::{SharedView, UserInput};

/// How often the output of running terminals is shown.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// How long the last messages may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

enum Event {
    Message(Option<Incoming>),
    Input(UserInput),
    Interrupt,
    Task(TaskResult),
    Tick,
}

/// Runs a chat with the agent at the other end of these streams. `interrupts` receives a message for each Ctrl-C that
/// is not part of the input.
///
/// # Errors
/// The session could not be opened, or the output cannot be written.
pub async fn run(
    options: Options,
    (reader, writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    view: SharedView,
    mut input: Input,
    interrupts: &mut UnboundedReceiver<()>,
) -> Result<ChatEnd, String> {
    let mut connection = Connection::new(reader, writer);
    let mut conversation = Conversation::new(options, view.clone());
    let mut tasks = JoinSet::new();
    let end = loop {
        conversation.tasks.drain(..).for_each(|task| drop(tasks.spawn(task)));
        let event = tokio::select! {
            biased;
            Some(()) = interrupts.recv() => Event::Interrupt,
            // Messages first: an answer is shown completely before the next prompt is sent.
            incoming = connection.next(&mut conversation.outgoing) => Event::Message(incoming),
            Some(Ok(done)) = tasks.join_next() => Event::Task(done),
            input = input.next(), if conversation.wants_input() => Event::Input(input),
            () = tokio::time::sleep(TERMINAL_INTERVAL), if conversation.has_terminals() => Event::Tick,
        };
        match event {
            Event::Message(incoming) => conversation.on_message(incoming),
            Event::Input(input) => conversation.on_input(input),
            Event::Interrupt => {
                // The remaining prompts are not sent.
                input.discard_rest();
                conversation.on_interrupt();
            }
            Event::Task(done) => conversation.on_task(done),
            Event::Tick => conversation.show_terminals(),
        }
        if let Some(end) = conversation.take_end() {
            break end;
        }
        match view.lock().write_error() {
            None => {}
            // The reader closed the pipe early, as `head` does.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => break Ok(ChatEnd::Closed),
            Some(error) => break Err(format!("cannot write to standard output: {error}")),
        }
    };
    if end.is_ok() {
        conversation.say_goodbye();
    }
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, connection.flush(&mut conversation.outgoing)).await;
    view.lock().finish();
    match (end, view.lock().write_error()) {
        (Ok(ChatEnd::Closed), Some(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        (end, _) => end,
    }
}
