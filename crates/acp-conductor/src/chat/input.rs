//! The input of the chat: prompts of the command line, lines of standard input, or the keyboard.

use std::collections::VecDeque;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::sync::mpsc;
#[cfg(unix)]
use std::time::{Duration, Instant};

use rustyline::error::ReadlineError;
use rustyline::{Config, Editor, ExternalPrinter, history::MemHistory};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::mpsc::UnboundedReceiver;

use super::SharedView;

/// How long the line editor may take to change the terminal modes.
#[cfg(unix)]
const EDITOR_START_TIMEOUT: Duration = Duration::from_millis(500);

/// Input of the user.
#[derive(Debug)]
pub(crate) enum UserInput {
    /// A line.
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    /// The end of the input.
    End,
}

/// The source of input.
pub(crate) struct Input {
    source: Source,
    /// Whether a line was requested and has not been read yet.
    requested: bool,
    view: SharedView,
}

enum Source {
    /// The prompts of the command line.
    Prompts(VecDeque<String>),
    /// Standard input that is not a terminal.
    Lines(Lines<BufReader<Stdin>>),
    /// The keyboard of a terminal.
    Keyboard(Keyboard),
}

impl Input {
    /// Uses the prompts if there are any, or else standard input.
    pub(crate) fn new(prompts: Vec<String>, view: &SharedView) -> Input {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let source = match (prompts.is_empty(), terminal) {
            (false, _) => Source::Prompts(prompts.into()),
            (true, true) => Keyboard::start().map_or_else(|_| Source::lines(), Source::Keyboard),
            (true, false) => Source::lines(),
        };
        Input { source, requested: false, view: view.clone() }
    }

    /// Whether the chat is interactive.
    pub(crate) fn is_keyboard(&self) -> bool {
        matches!(self.source, Source::Keyboard(_))
    }

    /// Requests a line and shows the prompt. With `remember`, the line is added to the history. Does nothing if a line
    /// was already requested.
    pub(crate) fn request_line(&mut self, prompt: &str, remember: bool) {
        if std::mem::replace(&mut self.requested, true) {
            return;
        }
        if let Source::Keyboard(keyboard) = &self.source {
            let mut view = self.view.lock();
            view.finish_text();
            view.above_prompt(Some(keyboard.above.clone()));
            // An error means that the thread has ended, which `next` reports.
            let _ = keyboard.prompts.send((prompt.to_owned(), remember));
        }
    }

    /// The requested line. Cancel safe.
    pub(crate) async fn next(&mut self) -> UserInput {
        if !self.requested {
            return pending().await;
        }
        let typed = match &mut self.source {
            Source::Prompts(prompts) => prompts.pop_front().map(UserInput::Line),
            Source::Lines(lines) => lines.next_line().await.ok().flatten().map(UserInput::Line),
            Source::Keyboard(keyboard) => keyboard.typed.recv().await,
        };
        self.requested = false;
        typed.unwrap_or(UserInput::End)
    }

    /// Discards the remaining input, unless the chat is interactive.
    pub(crate) fn discard_rest(&mut self) {
        if !self.is_keyboard() {
            self.source = Source::Prompts(VecDeque::new());
        }
    }
}

impl Source {
    fn lines() -> Source {
        Source::Lines(BufReader::new(tokio::io::stdin()).lines())
    }
}

/// The line editor. It blocks, so it runs in a separate thread.
struct Keyboard {
    /// The prompt for each line, and whether the line is added to the history.
    prompts: mpsc::Sender<(String, bool)>,
    typed: UnboundedReceiver<UserInput>,
    /// Text to write above the line that is being edited.
    above: mpsc::Sender<String>,
    modes: TerminalModes,
}

impl Keyboard {
    fn start() -> rustyline::Result<Keyboard> {
        let modes = TerminalModes::save();
        let config = Config::builder().history_ignore_dups(true)?.build();
        let mut editor = Editor::<(), MemHistory>::with_history(config, MemHistory::new())?;
        // Not supported by simple terminals.
        let mut printer = editor.create_external_printer().ok();
        let (above, lines) = mpsc::channel::<String>();
        // In a separate thread, because printing may wait for the line editor.
        std::thread::spawn(move || {
            lines.into_iter().try_for_each(|line| match &mut printer {
                Some(printer) => printer.print(line).ok(),
                None => io::Write::write_all(&mut io::stdout(), line.as_bytes()).ok(),
            })
        });
        let (prompts, requested) = mpsc::channel::<(String, bool)>();
        let (sender, typed) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for (prompt, remember) in requested {
                let line = match editor.readline(&prompt) {
                    Ok(line) => {
                        if remember && !line.trim().is_empty() {
                            // The history is optional.
                            let _ = editor.add_history_entry(&line);
                        }
                        UserInput::Line(line)
                    }
                    Err(ReadlineError::Interrupted) => UserInput::Interrupt,
                    Err(_) => UserInput::End,
                };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Keyboard { prompts, typed, above, modes })
    }
}

/// Restores the terminal if the chat ends while the line editor waits for a line. The line editor cannot be stopped.
impl Drop for Input {
    fn drop(&mut self) {
        if let Source::Keyboard(keyboard) = &self.source
            && self.requested
        {
            keyboard.modes.restore();
        }
    }
}

/// The terminal modes before the chat.
#[cfg(unix)]
struct TerminalModes(Option<rustix::termios::Termios>);

#[cfg(unix)]
impl TerminalModes {
    fn save() -> TerminalModes {
        TerminalModes(rustix::termios::tcgetattr(rustix::stdio::stdin()).ok())
    }

    /// Restores the modes.
    fn restore(&self) {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let Some(modes) = &self.0 else { return };
        let input = rustix::stdio::stdin();
        let edited =
            || tcgetattr(input).is_ok_and(|now| !now.local_modes.contains(LocalModes::ICANON));
        // The line editor may just be starting. Wait until it has changed the modes.
        let began = Instant::now();
        while !edited() && began.elapsed() < EDITOR_START_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Fails if the terminal was closed.
        let _ = tcsetattr(input, OptionalActions::Now, modes);
        let _ = io::Write::write_all(&mut io::stdout(), b"\x1b[?2004l\r\n");
    }
}

#[cfg(not(unix))]
struct TerminalModes;

#[cfg(not(unix))]
impl TerminalModes {
    fn save() -> TerminalModes {
        TerminalModes
    }

    fn restore(&self) {}
}
