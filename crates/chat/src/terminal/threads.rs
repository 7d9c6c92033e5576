//! The keyboard and the clock.

use std::io::Stdout;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::device;
use super::keys::Action;
use super::screen::Screen;
use super::state::State;
use crate::history::History;
use crate::view::UserInput;

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(25);

/// The time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// How often the keyboard thread checks whether the chat has ended.
const KEYBOARD: Duration = Duration::from_millis(200);

/// How long to wait for events that have arrived already. It cannot be zero.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The maximum number of inputs that the conversation has not read.
const INPUTS: usize = 64;

/// The state, and its picture on the screen.
struct Core {
    state: State,
    screen: Screen<Stdout>,
    /// Whether the picture is older than the state.
    changed: bool,
    drawn: Instant,
    /// Whether another program uses the terminal.
    paused: bool,
    /// Whether the keyboard thread knows that.
    keyboard_paused: bool,
    finished: bool,
}

/// What the conversation, the keyboard and the clock share.
pub(super) struct Shared {
    core: Mutex<Core>,
    wake: Condvar,
}

/// Starts the threads.
pub(super) fn start(
    state: State,
    history: Option<History>,
    color: bool,
) -> (Arc<Shared>, Receiver<UserInput>) {
    let core = Core {
        state,
        screen: Screen::new(std::io::stdout(), color),
        changed: true,
        drawn: Instant::now(),
        paused: false,
        keyboard_paused: false,
        finished: false,
    };
    let shared = Arc::new(Shared { core: Mutex::new(core), wake: Condvar::new() });
    shared.lock().draw();
    let (sender, receiver) = channel(INPUTS);
    let drawing = Arc::clone(&shared);
    std::thread::spawn(move || drawing.draw_until_finished());
    let reading = Arc::clone(&shared);
    std::thread::spawn(move || reading.read_keyboard(&sender, history.as_ref()));
    (shared, receiver)
}

impl Core {
    fn draw(&mut self) {
        if self.finished || self.paused {
            return;
        }
        let now = Instant::now();
        // Not the size that the last event told: what is drawn for another size leaves a part of a frame on the screen.
        let (columns, rows) = device::size();
        self.state.resize(columns, rows);
        let lines = std::mem::take(&mut self.state.finished);
        let frame = self.state.frame(now);
        self.screen.draw(&lines, &frame, self.state.layout.width);
        self.state.drawn(now);
        self.changed = false;
        self.drawn = now;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. The picture follows soon.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut core = self.lock();
        change(&mut core.state);
        core.changed = true;
        drop(core);
        self.wake.notify_all();
    }

    /// Hands the terminal over to another program, or takes it back.
    pub(super) fn pause(&self, paused: bool) {
        let mut core = self.lock();
        if core.finished || core.paused == paused {
            return;
        }
        if paused {
            core.draw();
            let width = core.state.layout.width;
            core.screen.clear(width);
            device::leave();
            (core.paused, core.keyboard_paused) = (true, false);
            // Otherwise the keyboard thread would read what is meant for the program. It is late if the conversation
            // has not read its input.
            let waits = |core: &mut Core| !core.keyboard_paused && !core.finished;
            let waited = self.wake.wait_timeout_while(core, 4 * KEYBOARD, waits);
            core = waited.unwrap_or_else(PoisonError::into_inner).0;
        } else {
            core.paused = false;
            // If the modes cannot be set again, the chat goes on without them.
            let _ = device::enter();
            let (columns, rows) = device::size();
            core.state.resize(columns, rows);
            core.draw();
        }
        drop(core);
        self.wake.notify_all();
    }

    /// Prints what is pending, and restores the terminal.
    pub(super) fn finish(&self) {
        let mut core = self.lock();
        if core.finished {
            return;
        }
        core.state.end_turn();
        core.draw();
        let width = core.state.layout.width;
        core.screen.clear(width);
        core.finished = true;
        device::leave();
        drop(core);
        self.wake.notify_all();
    }

    pub(super) fn write_error(&self) -> Option<std::io::Error> {
        self.lock().screen.take_error()
    }

    /// Draws frames until the chat ends.
    fn draw_until_finished(&self) {
        let mut core = self.lock();
        while !core.finished {
            if core.paused {
                core = self.wake.wait(core).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let since = core.drawn.elapsed();
            if core.changed && since >= FRAME {
                core.draw();
                continue;
            }
            let wait = match core.changed {
                true => FRAME.saturating_sub(since),
                false if core.state.is_animated() => TICK.saturating_sub(since),
                false => {
                    core = self.wake.wait(core).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            let waited = self.wake.wait_timeout(core, wait);
            core = waited.unwrap_or_else(PoisonError::into_inner).0;
            // The spinner turns.
            core.changed = core.changed || core.drawn.elapsed() >= TICK;
        }
    }

    /// Reads the keyboard until the chat ends.
    fn read_keyboard(&self, sender: &Sender<UserInput>, history: Option<&History>) {
        // Before raw mode, the terminal has sent Enter as a line feed, which is Ctrl-J now.
        let mut typed_ahead = true;
        loop {
            let (finished, failed) = {
                let mut core = self.lock();
                while core.paused && !core.finished {
                    core.keyboard_paused = true;
                    self.wake.notify_all();
                    core = self.wake.wait(core).unwrap_or_else(PoisonError::into_inner);
                }
                (core.finished, core.screen.has_failed())
            };
            if finished || sender.is_closed() {
                return;
            }
            if failed {
                // The conversation notices the error when it handles this. The receiver may be gone.
                let _ = sender.blocking_send(UserInput::End);
                return;
            }
            let wait = if typed_ahead { AT_ONCE } else { KEYBOARD };
            let event = match event::poll(wait) {
                Ok(true) => event::read(),
                Ok(false) => {
                    typed_ahead = false;
                    self.check_size();
                    continue;
                }
                Err(error) => Err(error),
            };
            let Ok(first) = event else {
                // There is no keyboard any more. The receiver may be gone, too.
                let _ = sender.blocking_send(UserInput::End);
                return;
            };
            for action in self.events(first, typed_ahead) {
                match action {
                    Action::Send(input) => {
                        if sender.blocking_send(input).is_err() {
                            return;
                        }
                    }
                    Action::Remember(text) => {
                        // The chat goes on without a history that cannot be written.
                        let _ = history.map(|history| history.append(&text));
                    }
                    Action::Suspend => self.suspend(),
                    Action::ClearScreen => {
                        let mut core = self.lock();
                        core.screen.clear_screen();
                        core.draw();
                    }
                }
            }
        }
    }

    /// Draws again if the terminal has another size. Not every terminal reports a change of its size.
    fn check_size(&self) {
        let mut core = self.lock();
        if (core.state.layout.width, core.state.height) != device::size() {
            core.draw();
        }
    }

    /// Handles an event and those that have arrived with it, and draws the result.
    fn events(&self, first: Event, typed_ahead: bool) -> Vec<Action> {
        let mut core = self.lock();
        let mut actions = Vec::new();
        let mut next = Some(first);
        while let Some(event) = next {
            match event {
                Event::Key(mut key) if key.kind != KeyEventKind::Release => {
                    let line_feed = KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL);
                    if typed_ahead && key == line_feed {
                        key = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
                    }
                    actions.extend(core.state.key(key, Instant::now()));
                }
                Event::Paste(text) => core.state.paste(&text),
                _ => {}
            }
            let more = event::poll(AT_ONCE).unwrap_or(false);
            next = if more { event::read().ok() } else { None };
        }
        core.draw();
        actions
    }

    /// Stops the process until the user continues it.
    fn suspend(&self) {
        let mut core = self.lock();
        let width = core.state.layout.width;
        core.screen.clear(width);
        // If the modes cannot be set again, the chat goes on without them.
        let _ = device::suspend();
        core.draw();
    }
}
