//! Writes the log and the stderr lines of components.
//!
//! Background threads write both from a bounded queue, because a reader that is blocked must not stop the chain or
//! delay its end. Lines that do not fit into the queue are dropped and counted.

#[cfg(feature = "cli")]
pub mod progress;
#[cfg(feature = "cli")]
mod setup;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

#[cfg(feature = "cli")]
pub use setup::{Logs, check, start, start_file_only};

use acp_wire::printable;

/// The capacity of a queue, in lines and in bytes.
const MAX_LINES: usize = 4096;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How long to wait at the end for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static STDERR: OnceLock<BackgroundWriter> = OnceLock::new();

/// Writes the stderr lines of components.
static COMPONENT_STDERR: OnceLock<BackgroundWriter> = OnceLock::new();

/// Writes the stderr lines of components to `out`, each prefixed with the name of its component. A program that embeds
/// the library must call this, or the lines are dropped. Only the first call has an effect.
pub fn write_component_stderr_to(out: impl Write + Send + 'static) {
    COMPONENT_STDERR.get_or_init(|| BackgroundWriter::new(out));
}

/// Writes a stderr line of a component. Keeps colors, but removes all other escape sequences.
pub fn component_line(name: &str, line: &str) {
    if let Some(writer) = COMPONENT_STDERR.get() {
        let name = printable::one_line(name);
        // Every line has the prefix, so that a component cannot imitate another one.
        let lines: String = line
            .split('\n')
            .map(|it| format!("[{name}] {}\n", printable::with_colors(it)))
            .collect();
        writer.push(lines.into_bytes(), false);
    }
}

/// Prints an error message on stderr after all queued lines. The message is never dropped. Control characters are
/// removed, because it may quote a component.
pub fn print_error(text: &str) {
    let text = &*printable::plain(text);
    match STDERR.get() {
        Some(stderr) => {
            stderr.push(text.into(), true);
            stderr.flush_queue();
        }
        None => {
            #[cfg(feature = "cli")]
            progress::clear();
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

/// A bounded queue of lines, and the thread that writes them.
#[derive(Debug, Clone)]
struct BackgroundWriter(Arc<(Mutex<LogQueue>, Condvar)>);

/// The queue of a [`BackgroundWriter`].
#[derive(Debug, Default)]
struct LogQueue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: usize,
    /// Whether the thread is writing lines that it has taken from the queue.
    writing: bool,
}

impl BackgroundWriter {
    fn new(out: impl Write + Send + 'static) -> BackgroundWriter {
        let writer = BackgroundWriter(Arc::default());
        let thread_writer = writer.clone();
        std::thread::spawn(move || thread_writer.write_loop(out));
        writer
    }

    /// Adds a line. If the queue is full, drops the line unless `keep` is set.
    fn push(&self, line: Vec<u8>, keep: bool) {
        let mut queue = self.lock();
        let fits = queue.lines.len() < MAX_LINES && queue.bytes + line.len() <= MAX_BYTES;
        if keep || fits {
            queue.bytes += line.len();
            queue.lines.push_back(line);
            self.0.1.notify_all();
        } else {
            queue.dropped += 1;
        }
    }

    /// Waits until the queue is written, or until the timeout.
    fn flush_queue(&self) {
        let busy = |queue: &mut LogQueue| queue.writing || !queue.lines.is_empty();
        drop(self.0.1.wait_timeout_while(self.lock(), FLUSH_TIMEOUT, busy));
    }

    /// The loop of the thread. Write errors are ignored, because there is no place to report them.
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
                    format!("conductor: dropped {dropped} lines because stderr was not read\n");
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

    /// A writer that blocks until the test ends.
    struct BlockedWriter(std::sync::mpsc::Receiver<()>);

    impl Write for BlockedWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unread_lines_are_also_limited_by_size() {
        let (_open, closed) = std::sync::mpsc::channel();
        let writer = BackgroundWriter::new(BlockedWriter(closed));
        writer.push(b"taken".to_vec(), true);
        // The thread is now blocked and takes no more lines from the queue.
        while !writer.lock().writing {
            std::thread::yield_now();
        }
        for _ in 0..MAX_LINES {
            writer.push(vec![b'x'; 64 * 1024], false);
        }
        writer.push(b"important".to_vec(), true);
        let queue = writer.lock();
        let bytes: usize = queue.lines.iter().map(Vec::len).sum();
        assert_eq!(bytes, queue.bytes);
        assert!(bytes <= MAX_BYTES + 9, "{bytes}");
        assert_eq!(queue.dropped, MAX_LINES - MAX_BYTES / (64 * 1024));
        assert_eq!(queue.lines.back().map(Vec::as_slice), Some(&b"important"[..]));
    }
}
