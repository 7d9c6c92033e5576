//! What people read: our own log, and what the components say on stderr.
//!
//! Both are written by threads in the background, from a bounded queue, because a stderr that
//! nobody reads must not stop the chain, nor keep it from ending. What does not fit is dropped and
//! counted.

#[cfg(feature = "cli")]
mod setup;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

#[cfg(feature = "cli")]
pub use setup::{Logs, start, start_file_only};

use crate::terminal;

/// How many lines may wait to be written, and how many bytes they may have.
const MAX_LINES: usize = 4096;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How long the end waits for somebody to read the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static STDERR: OnceLock<Sink> = OnceLock::new();

/// Where the lines go that components write on their stderr.
static COMPONENT_STDERR: OnceLock<Sink> = OnceLock::new();

/// Writes the lines that components write on their stderr to `out`, each behind the name of its component. Without
/// this call, they are dropped in a program that embeds the library. Only the first call has an effect.
pub fn write_component_stderr_to(out: impl Write + Send + 'static) {
    COMPONENT_STDERR.get_or_init(|| Sink::new(out));
}

/// Passes on a line that a component wrote on its stderr: with its colours, but without anything else
/// that a terminal would obey.
pub fn component_line(name: &str, line: &str) {
    if let Some(sink) = COMPONENT_STDERR.get() {
        let name = terminal::one_line(name);
        // Each line says whose it is, so that nobody can write one in the name of another.
        let lines: String =
            line.split('\n').map(|it| format!("[{name}] {}\n", terminal::coloured(it))).collect();
        sink.push(lines.into_bytes(), false);
    }
}

/// Says something on stderr that must not be dropped, after all that was said before. The text may quote
/// a component, so control characters are removed from it.
pub fn print_error(text: &str) {
    let text = &*terminal::plain(text);
    match STDERR.get() {
        Some(stderr) => {
            stderr.push(text.into(), true);
            stderr.flush_queue();
        }
        None => {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Where lines go that a thread writes out.
#[derive(Debug, Clone)]
struct Sink(Arc<(Mutex<LogQueue>, Condvar)>);

#[derive(Debug, Default)]
struct LogQueue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: usize,
    /// The thread is about to write what it took.
    writing: bool,
}

impl Sink {
    fn new(out: impl Write + Send + 'static) -> Sink {
        let sink = Sink(Arc::default());
        let writer = sink.clone();
        std::thread::spawn(move || writer.write_loop(out));
        sink
    }

    /// Adds a line if there is room for it, or if it must not be dropped.
    fn push(&self, line: Vec<u8>, must: bool) {
        let mut queue = self.lock();
        let fits = queue.lines.len() < MAX_LINES && queue.bytes + line.len() <= MAX_BYTES;
        if must || fits {
            queue.bytes += line.len();
            queue.lines.push_back(line);
            self.0.1.notify_all();
        } else {
            queue.dropped += 1;
        }
    }

    /// Waits until all is written, or nobody has read it for too long.
    fn flush_queue(&self) {
        let busy = |queue: &mut LogQueue| queue.writing || !queue.lines.is_empty();
        drop(self.0.1.wait_timeout_while(self.lock(), FLUSH_TIMEOUT, busy));
    }

    /// The life of the thread. That nobody reads any more is nothing that could be told anybody.
    fn write_loop(&self, mut out: impl Write) {
        let mut queue = self.lock();
        loop {
            let idle = |queue: &mut LogQueue| queue.lines.is_empty();
            queue = self.0.1.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
            let mut text = Vec::with_capacity(std::mem::take(&mut queue.bytes));
            queue.lines.drain(..).for_each(|line| text.extend(line));
            let dropped = std::mem::take(&mut queue.dropped);
            if dropped > 0 {
                let note =
                    format!("conductor: {dropped} lines were dropped here, nobody read them\n");
                text.extend_from_slice(note.as_bytes());
            }
            queue.writing = true;
            drop(queue);
            let _ = out.write_all(&text).and_then(|()| out.flush());
            queue = self.lock();
            queue.writing = false;
            self.0.1.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogQueue> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody reads this.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Issue 11, item 26.
    #[test]
    fn what_nobody_reads_is_bounded_by_bytes_too() {
        let (_open, closed) = std::sync::mpsc::channel();
        let sink = Sink::new(Stuck(closed));
        sink.push(b"taken".to_vec(), true);
        // Once the thread writes, it takes no more lines and no more counts.
        while !sink.lock().writing {
            std::thread::yield_now();
        }
        for _ in 0..MAX_LINES {
            sink.push(vec![b'x'; 64 * 1024], false);
        }
        sink.push(b"important".to_vec(), true);
        let queue = sink.lock();
        let bytes: usize = queue.lines.iter().map(Vec::len).sum();
        assert_eq!(bytes, queue.bytes);
        assert!(bytes <= MAX_BYTES + 9, "{bytes}");
        assert_eq!(queue.dropped, MAX_LINES - MAX_BYTES / (64 * 1024));
        assert_eq!(queue.lines.back().map(Vec::as_slice), Some(&b"important"[..]));
    }
}
