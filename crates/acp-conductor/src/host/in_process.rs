//! A component in a thread of this process. It is connected by pipes, like a separate process.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use router::{ExitCause, Seat};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::host::process::{ComponentExit, StderrTail};

/// The capacity of a pipe.
const PIPE_SIZE: usize = 512 * 1024;

type RunFuture = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// Runs a component in a thread of this process. It can be started several times.
#[derive(Clone)]
pub struct InProcess {
    run: Arc<dyn Fn(DuplexStream, DuplexStream) -> RunFuture + Send + Sync>,
}

/// A running in-process component. Dropping it stops the component.
#[derive(Debug)]
pub struct ComponentThread {
    stderr: StderrTail,
    _stop: oneshot::Sender<()>,
}

impl InProcess {
    /// A component that runs this function in a separate thread. Its streams are the input and the output of
    /// the component.
    pub fn new<F, R>(run: F) -> InProcess
    where
        F: Fn(DuplexStream, DuplexStream) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<()>> + 'static,
    {
        InProcess { run: Arc::new(move |reader, writer| Box::pin(run(reader, writer))) }
    }

    /// A proxy or agent that uses the SDK. `make` creates a new one for each start.
    pub fn of<C: Into<acp_proxy::Component>>(
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> InProcess {
        InProcess::new(move |reader, writer| {
            make().into().log_to(|line| tracing::warn!("{line}")).serve_on(reader, writer)
        })
    }

    pub(crate) fn start(
        &self,
        name: &str,
        (seat, incarnation): (Seat, u32),
        exits: UnboundedSender<ComponentExit>,
    ) -> io::Result<(ComponentThread, DuplexStream, DuplexStream)> {
        let (to, reader) = tokio::io::duplex(PIPE_SIZE);
        let (writer, from) = tokio::io::duplex(PIPE_SIZE);
        let (stop, stopped) = oneshot::channel::<()>();
        let stderr = StderrTail::default();
        let run = self.run.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let running = AssertUnwindSafe(|| {
                runtime.block_on(async {
                    tokio::select! {
                        ended = run(reader, writer) => ended,
                        _ = stopped => Ok(()),
                    }
                })
            });
            let how = match std::panic::catch_unwind(running) {
                Ok(Ok(())) => ExitCause::Status(0),
                Ok(Err(error)) => ExitCause::Ended(error.to_string()),
                Err(panic) => ExitCause::Ended(format!("it panicked: {}", panic_message(&*panic))),
            };
            // Background work of the component must not keep its thread alive.
            runtime.shutdown_background();
            // Fails if the chain has ended.
            let _ = exits.send(ComponentExit { seat, incarnation, how });
        })?;
        Ok((ComponentThread { stderr, _stop: stop }, from, to))
    }
}

impl ComponentThread {
    /// Always empty: the component shares the stderr of the conductor.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

/// Values are equal if they are clones of the same value.
impl PartialEq for InProcess {
    fn eq(&self, other: &InProcess) -> bool {
        Arc::ptr_eq(&self.run, &other.run)
    }
}

impl Eq for InProcess {}
