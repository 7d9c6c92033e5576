//! What people read: our own log, and what the components say on stderr.
//!
//! Both go through one background thread with a bounded queue, because a stderr that nobody reads
//! must not stop the chain. What does not fit is dropped and counted.

use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

static STDERR: OnceLock<NonBlocking> = OnceLock::new();

/// Ends the log's threads when dropped, after they have written what they hold.
#[derive(Debug)]
pub struct Logs {
    _workers: Vec<WorkerGuard>,
}

/// Starts logging. `filter` is a level, or a filter as `tracing` knows it.
pub fn start(filter: &str, file: Option<&Path>) -> Result<Logs, String> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| format!("--log {filter:?} is not a level or filter: {error}"))?;
    let (stderr, worker) = background(io::stderr());
    let mut workers = vec![worker];
    let writer = match file {
        None => stderr.clone(),
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| {
                format!("cannot write the log file {}: {error}", path.display())
            })?;
            let (writer, worker) = background(file);
            workers.push(worker);
            writer
        }
    };
    let _ = STDERR.set(stderr);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(writer)
        .try_init()
        .map_err(|error| error.to_string())?;
    Ok(Logs { _workers: workers })
}

fn background(out: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default().buffered_lines_limit(4096).lossy(true).finish(out)
}

/// Passes on a line that a component wrote on its stderr.
pub fn aside(name: &str, line: &str) {
    if let Some(stderr) = STDERR.get() {
        let _ = stderr.clone().write_all(format!("[{name}] {line}\n").as_bytes());
    }
}
