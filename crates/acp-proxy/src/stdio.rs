//! The standard input and output of the process, as streams for [`Component::serve`](crate::Component::serve).
//!
//! Reading through a thread, as [`tokio::io::stdin`] does, costs two thread switches for each message. So pipes
//! are polled on Linux. The parent process and its other children share the file descriptions behind our
//! standard streams, and switching those to non-blocking mode would switch them for all. So a pipe is opened
//! again, through `/proc`. Terminals, files, sockets, and all streams on other systems go through tokio's
//! threads.

#[cfg(target_os = "linux")]
use std::os::unix::fs::FileTypeExt;

use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(target_os = "linux")]
use tokio::net::unix::pipe;

pub(crate) type Reader = Box<dyn AsyncRead + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Unpin>;

/// Opens standard input and output.
///
/// # Panics
/// Outside of a tokio runtime, and in a runtime whose I/O is not enabled.
pub(crate) fn open() -> (Reader, Writer) {
    (
        input_pipe().unwrap_or_else(|| Box::new(tokio::io::stdin())),
        output_pipe().unwrap_or_else(|| Box::new(tokio::io::stdout())),
    )
}

/// Standard input, if it is a pipe that can be opened again.
#[cfg(target_os = "linux")]
fn input_pipe() -> Option<Reader> {
    let path = pipe_path(0)?;
    Some(Box::new(pipe::OpenOptions::new().open_receiver(path).ok()?))
}

/// Standard output, if it is a pipe that can be opened again.
#[cfg(target_os = "linux")]
fn output_pipe() -> Option<Writer> {
    let path = pipe_path(1)?;
    Some(Box::new(pipe::OpenOptions::new().open_sender(path).ok()?))
}

/// The path of an open descriptor, if it is a pipe. To open a terminal again could have side effects.
#[cfg(target_os = "linux")]
fn pipe_path(descriptor: u32) -> Option<String> {
    let path = format!("/proc/self/fd/{descriptor}");
    std::fs::metadata(&path).ok().filter(|it| it.file_type().is_fifo()).map(|_| path)
}

#[cfg(not(target_os = "linux"))]
fn input_pipe() -> Option<Reader> {
    None
}

#[cfg(not(target_os = "linux"))]
fn output_pipe() -> Option<Writer> {
    None
}
