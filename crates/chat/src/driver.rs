//! Connects a conversation with the agent, the user and the clock.

use std::io;
use std::time::Duration;

use acp_wire::ErrorKind;
use client::{Connection, Incoming};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::conversation::{ChatEnd, Conversation, Options, TaskResult, TerminalLogin};
use crate::input::Input;
use crate::view::{SharedView, UserInput};

/// How often the output of running terminals is shown.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// The maximum number of messages that wait until a login in the terminal has ended. More are read afterwards.
const MAX_WAITING: usize = 1000;
/// How long the last messages may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

enum Event {
    Message(Option<Incoming>),
    Input(UserInput),
    Interrupt,
    AgentEnd,
    Task(TaskResult),
    Tick,
}

/// What a chat is told, beside the messages of the agent and the input.
#[derive(Debug)]
pub struct Signals<'a> {
    /// Receives a message for each Ctrl-C that is not part of the input.
    pub interrupts: &'a mut UnboundedReceiver<()>,
    /// The process of the agent has ended. It may be started again.
    pub agent_ends: &'a mut UnboundedReceiver<()>,
}

/// Runs a chat with the agent at the other end of these streams.
///
/// # Errors
/// The session could not be opened, or the output cannot be written.
pub async fn run(
    options: Options,
    (reader, writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    view: SharedView,
    mut input: Input,
    Signals { interrupts, agent_ends }: Signals<'_>,
) -> Result<ChatEnd, String> {
    let mut connection = Connection::new(reader, writer);
    let mut conversation = Conversation::new(options, view.clone());
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(TERMINAL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = loop {
        conversation.tasks.drain(..).for_each(|task| drop(tasks.spawn(task)));
        // A person does not wait for messages, which may arrive all the time.
        let event = match input.waiting() {
            Some(input) => Event::Input(input),
            None => tokio::select! {
                biased;
                Some(()) = interrupts.recv() => Event::Interrupt,
                Some(()) = agent_ends.recv() => Event::AgentEnd,
                _ = ticks.tick(), if conversation.has_terminals() => Event::Tick,
                // Before other input: an answer is shown completely before the next prompt is sent.
                incoming = connection.next(&mut conversation.outgoing) => Event::Message(incoming),
                Some(Ok(done)) = tasks.join_next() => Event::Task(done),
                input = input.next(), if conversation.wants_input() => Event::Input(input),
            },
        };
        match event {
            Event::Message(incoming) => conversation.on_message(incoming),
            Event::Input(input) => conversation.on_input(input),
            Event::Interrupt => {
                // The remaining prompts are not sent.
                input.discard_rest();
                conversation.on_interrupt();
            }
            Event::AgentEnd => conversation.on_agent_end(),
            Event::Task(done) => conversation.on_task(done),
            Event::Tick => conversation.show_terminals(),
        }
        if let Some(login) = conversation.terminal_login.take() {
            let (ended, messages) =
                run_in_terminal(&login, &view, &mut connection, &mut conversation).await;
            // The program has handled Ctrl-C itself.
            while interrupts.try_recv().is_ok() {}
            conversation.on_terminal_login(&login, ended);
            messages.into_iter().for_each(|message| conversation.on_message(message));
        }
        if let Some(end) = conversation.take_end() {
            break end;
        }
        match view.lock().write_error() {
            None => {}
            // The reader closed the pipe early, as `head` does.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => break Ok(ChatEnd::Closed),
            Some(error) => break Err(output_failed(&error)),
        }
    };
    if end.is_ok() {
        conversation.say_goodbye();
    }
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, connection.flush(&mut conversation.outgoing)).await;
    view.lock().finish();
    match (end, view.lock().write_error()) {
        (Ok(ChatEnd::Closed), Some(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(output_failed(&error))
        }
        (end, _) => end,
    }
}

fn output_failed(error: &io::Error) -> String {
    ErrorKind::OutputFailed.tag(format!("cannot write to standard output: {error}"))
}

/// Runs a login in the terminal of the chat. Returns how it ended (`None` if the view cannot hand the terminal over), and
/// the messages that have arrived in the meantime.
async fn run_in_terminal(
    login: &TerminalLogin,
    view: &SharedView,
    connection: &mut Connection<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    conversation: &mut Conversation,
) -> (Option<Result<(), String>>, Vec<Option<Incoming>>) {
    let mut messages = Vec::new();
    if !cfg!(unix) {
        return (None, messages);
    }
    view.lock().note(&format!("$ {}", login.command));
    if !view.lock().pause(true) {
        return (None, messages);
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &login.command]).kill_on_drop(true);
    command.envs(login.environment.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &login.folder {
        command.current_dir(folder);
    }
    let ended = match command.spawn() {
        Err(error) => Err(error.to_string()),
        Ok(mut child) => loop {
            tokio::select! {
                status = child.wait() => break match status {
                    Ok(status) if status.success() => Ok(()),
                    Ok(status) => Err(status.to_string()),
                    Err(error) => Err(error.to_string()),
                },
                message = connection.next(&mut conversation.outgoing), if messages.len() < MAX_WAITING => {
                    let closed = message.is_none();
                    messages.push(message);
                    if closed {
                        break Err("the chain has ended".to_owned());
                    }
                }
            }
        },
    };
    view.lock().pause(false);
    (Some(ended), messages)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;
    use tokio::sync::mpsc;

    use super::*;
    use crate::json_view::JsonView;

    /// An agent that sends the same notification again and again.
    struct Flood;

    impl AsyncRead for Flood {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}\n";
            if buffer.remaining() >= line.len() {
                buffer.put_slice(line);
            }
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn ctrl_c_ends_the_chat_while_the_agent_sends_messages_all_the_time() {
        let (result, ended) = std::sync::mpsc::channel();
        // Without the rule, the chat never returns to the runtime, so that only another thread can see it.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (keyboard, inputs) = mpsc::channel(1);
            let (_interrupts, mut no_interrupts) = mpsc::unbounded_channel();
            keyboard.try_send(UserInput::Interrupt).expect("there is space");
            let options = Options { interactive: true, ..Options::default() };
            let view = SharedView::new(JsonView::<Vec<u8>>::default());
            let streams = (Flood, tokio::io::sink());
            let input = Input::Person(inputs);
            let (_ends, mut no_ends) = mpsc::unbounded_channel();
            let signals = Signals { interrupts: &mut no_interrupts, agent_ends: &mut no_ends };
            let chat = run(options, streams, view, input, signals);
            let _ = result.send(runtime.expect("a runtime").block_on(chat));
        });
        let end = ended.recv_timeout(Duration::from_secs(60)).expect("the chat ends");
        assert_eq!(end, Ok(ChatEnd::Interrupted));
    }
}
