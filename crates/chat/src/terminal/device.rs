//! The modes of the terminal: raw mode, bracketed paste, and keys that need a newer protocol.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::terminal;

/// Whether the modes are set.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The size of a terminal that does not report one.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Bracketed paste: pasted text is not taken for keys.
const PASTE: [&str; 2] = ["\x1b[?2004h", "\x1b[?2004l"];
/// Terminals with the keyboard protocol of kitty tell Shift-Enter from Enter. Other terminals ignore this.
const KEYS: [&str; 2] = ["\x1b[>1u", "\x1b[<1u"];
/// The end of a synchronized update, automatic wrap, and a visible cursor: what a frame can leave open.
const CLOSE_FRAME: &str = "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[0m";

/// The columns and rows of the terminal.
pub(crate) fn size() -> (usize, usize) {
    match terminal::size() {
        Ok((columns, rows)) => {
            let or = |value: u16, default| if value == 0 { default } else { usize::from(value) };
            (or(columns, DEFAULT_SIZE.0), or(rows, DEFAULT_SIZE.1))
        }
        Err(_) => DEFAULT_SIZE,
    }
}

/// Sets the modes. A panic restores the terminal before its message is printed.
pub(super) fn enter() -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
    });
    #[cfg(windows)]
    if !crossterm::ansi_support::supports_ansi() {
        return Err(io::Error::other("this console does not support escape sequences"));
    }
    terminal::enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    // A terminal that cannot be written is reported with the first frame.
    let _ = write(&format!("{}{}", PASTE[0], if has_keys() { KEYS[0] } else { "" }));
    Ok(())
}

/// Restores the terminal. Does nothing if the modes are not set.
pub(super) fn leave() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // Whatever fails here, the other steps are tried.
    let keys = if has_keys() { KEYS[1] } else { "" };
    let _ = write(&format!("{CLOSE_FRAME}{keys}{}", PASTE[1]));
    let _ = terminal::disable_raw_mode();
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether the terminal ignores the keyboard protocol if it does not know it. The Linux console does not.
fn has_keys() -> bool {
    cfg!(unix) && std::env::var_os("TERM").is_none_or(|term| term != "linux")
}

/// Stops the process as Ctrl-Z does, until the user continues it.
#[cfg(unix)]
pub(super) fn suspend() -> io::Result<()> {
    use std::time::{Duration, Instant};
    leave();
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
    // Another thread may take the signal. Then this one runs on for a moment, and must not set the modes before the
    // process has stopped. The clock jumps when it continues.
    let mut last = Instant::now();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        if last.elapsed() > Duration::from_millis(100) {
            break;
        }
        last = Instant::now();
    }
    enter()
}

#[cfg(not(unix))]
pub(super) fn suspend() -> io::Result<()> {
    Ok(())
}
