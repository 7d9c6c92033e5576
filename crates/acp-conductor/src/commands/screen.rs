//! The whole terminal, for a display that is refreshed.

use std::io::{self, IsTerminal, Write, stdin, stdout};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The alternate screen of the terminal. Dropping it restores the terminal.
#[derive(Debug)]
pub struct Screen {
    /// `None` if standard input is not a terminal.
    events: Option<UnboundedReceiver<ScreenEvent>>,
}

/// What a [`Screen`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenEvent {
    /// The user has pressed q, Esc, Ctrl-C or Ctrl-D.
    Quit,
    /// The terminal has a new size.
    Resized,
}

impl Screen {
    /// Switches to the alternate screen and starts to read keys.
    pub fn open() -> io::Result<Screen> {
        let mut screen = Screen { events: None };
        if stdin().is_terminal() {
            enable_raw_mode()?;
            screen.events = Some(read_events());
        }
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Replaces the text on the screen. Lines that do not fit are cut off.
    pub fn draw(&self, text: &str, footer: &str) -> io::Result<()> {
        let (width, height) = size().map_or((80, 24), |(w, h)| (usize::from(w), usize::from(h)));
        let lines: Vec<&str> = text.lines().collect();
        let room = height.saturating_sub(1);
        let cut = |line: &str| chat::text::shorten(line, width);
        let mut out = Vec::new();
        for row in 0..room {
            let line = match lines.get(row) {
                Some(_) if row + 1 == room && lines.len() > room => {
                    cut(&format!("… {} more lines", lines.len() - row))
                }
                Some(line) => cut(line),
                None => String::new(),
            };
            queue!(out, MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
            write!(out, "{line}")?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, MoveTo(0, u16::try_from(room).unwrap_or(u16::MAX)))?;
        write!(out, "{}", cut(footer))?;
        queue!(out, Clear(ClearType::UntilNewLine))?;
        let mut terminal = stdout().lock();
        terminal.write_all(&out)?;
        terminal.flush()
    }

    /// The next event: a key that quits, or a new size of the terminal.
    pub async fn event(&mut self) -> ScreenEvent {
        match &mut self.events {
            // The terminal is gone if no more events come.
            Some(events) => events.recv().await.unwrap_or(ScreenEvent::Quit),
            None => std::future::pending().await,
        }
    }
}

/// Reads the keyboard in a thread until the program ends.
fn read_events() -> UnboundedReceiver<ScreenEvent> {
    let (sender, events) = unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let event = match event {
                Event::Resize(..) => ScreenEvent::Resized,
                event if is_quit_key(&event) => ScreenEvent::Quit,
                _ => continue,
            };
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    events
}

fn is_quit_key(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
            KeyCode::Char('c' | 'd') => control,
            _ => false,
        }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), Show, LeaveAlternateScreen);
        if self.events.is_some() {
            let _ = disable_raw_mode();
        }
    }
}
