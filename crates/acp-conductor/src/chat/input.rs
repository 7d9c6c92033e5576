//! What the user types, or what stands in for it.

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

/// How long the editor may take to begin.
#[cfg(unix)]
const EDITOR_START_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub enum UserInput {
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    /// There will be nothing more.
    End,
}

pub struct Input {
    source: Source,
    /// A line is wanted and has not come yet.
    wanted: bool,
    view: SharedView,
}

enum Source {
    /// What was said on the command line.
    Given(VecDeque<String>),
    /// Standard input, which is no terminal.
    Lines(Lines<BufReader<Stdin>>),
    Keyboard(Keyboard),
}

impl Input {
    pub fn new(prompts: Vec<String>, view: &SharedView) -> Input {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let source = match (prompts.is_empty(), terminal) {
            (false, _) => Source::Given(prompts.into()),
            (true, true) => Keyboard::start().map_or_else(|_| Source::lines(), Source::Keyboard),
            (true, false) => Source::lines(),
        };
        Input { source, wanted: false, view: view.clone() }
    }

    /// Is there somebody who can be asked?
    pub fn is_keyboard(&self) -> bool {
        matches!(self.source, Source::Keyboard(_))
    }

    /// Wants a line, and says so. Nothing happens if one is wanted already.
    pub fn want(&mut self, prompt: &str, remember: bool) {
        if std::mem::replace(&mut self.wanted, true) {
            return;
        }
        if let Source::Keyboard(keyboard) = &self.source {
            let mut view = self.view.lock();
            view.finish_text();
            view.above_prompt(Some(keyboard.above.clone()));
            // If its thread has ended, `next` tells.
            let _ = keyboard.prompts.send((prompt.to_owned(), remember));
        }
    }

    /// The line that is wanted. May be dropped while it waits.
    pub async fn next(&mut self) -> UserInput {
        if !self.wanted {
            return pending().await;
        }
        let typed = match &mut self.source {
            Source::Given(prompts) => prompts.pop_front().map(UserInput::Line),
            Source::Lines(lines) => lines.next_line().await.ok().flatten().map(UserInput::Line),
            Source::Keyboard(keyboard) => keyboard.typed.recv().await,
        };
        self.wanted = false;
        typed.unwrap_or(UserInput::End)
    }

    /// What is left to say is not said any more.
    pub fn forget(&mut self) {
        if !self.is_keyboard() {
            self.source = Source::Given(VecDeque::new());
        }
    }
}

impl Source {
    fn lines() -> Source {
        Source::Lines(BufReader::new(tokio::io::stdin()).lines())
    }
}

/// The line editor, in a thread of its own because it waits.
struct Keyboard {
    /// What to ask, and whether the answer is worth remembering.
    prompts: mpsc::Sender<(String, bool)>,
    typed: UnboundedReceiver<UserInput>,
    /// What is to be written above the line that is being edited.
    above: mpsc::Sender<String>,
    modes: TerminalModes,
}

impl Keyboard {
    fn start() -> rustyline::Result<Keyboard> {
        let modes = TerminalModes::save();
        let config = Config::builder().history_ignore_dups(true)?.build();
        let mut editor = Editor::<(), MemHistory>::with_history(config, MemHistory::new())?;
        // A simple terminal has nothing above the line.
        let mut printer = editor.create_external_printer().ok();
        let (above, lines) = mpsc::channel::<String>();
        // Apart from everything else: it waits for the editor, which may not be there just now.
        std::thread::spawn(move || {
            lines.into_iter().try_for_each(|line| match &mut printer {
                Some(printer) => printer.print(line).ok(),
                None => io::Write::write_all(&mut io::stdout(), line.as_bytes()).ok(),
            })
        });
        let (prompts, wanted) = mpsc::channel::<(String, bool)>();
        let (sender, typed) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for (prompt, remember) in wanted {
                let line = match editor.readline(&prompt) {
                    Ok(line) => {
                        if remember && !line.trim().is_empty() {
                            // Without a memory it is an editor all the same.
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

/// The chat may end while the editor waits for a line, and nothing ends the editor.
impl Drop for Input {
    fn drop(&mut self) {
        if let Source::Keyboard(keyboard) = &self.source
            && self.wanted
        {
            keyboard.modes.restore();
        }
    }
}

/// How the terminal was.
#[cfg(unix)]
struct TerminalModes(Option<rustix::termios::Termios>);

#[cfg(unix)]
impl TerminalModes {
    fn save() -> TerminalModes {
        TerminalModes(rustix::termios::tcgetattr(rustix::stdio::stdin()).ok())
    }

    /// Puts the terminal back from what the editor makes of it.
    fn restore(&self) {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let Some(modes) = &self.0 else { return };
        let input = rustix::stdio::stdin();
        let edited =
            || tcgetattr(input).is_ok_and(|now| !now.local_modes.contains(LocalModes::ICANON));
        // The editor may have been asked just now: what it is about to do cannot be undone before.
        let began = Instant::now();
        while !edited() && began.elapsed() < EDITOR_START_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
        // If the terminal is gone, there is nothing to put back.
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
