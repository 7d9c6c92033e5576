//! A component in a thread of this process, behind a pipe like any other: the conductor cannot tell
//! it from a program.

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

use crate::host::process::{Ended, StderrTail};

/// How much a pipe holds.
const PIPE_SIZE: usize = 512 * 1024;

type RunFuture = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// How to run a component here. It may be run more than once.
#[derive(Clone)]
pub struct InProcess {
    run: Arc<dyn Fn(DuplexStream, DuplexStream) -> RunFuture + Send + Sync>,
}

/// One that runs. Dropping it ends it.
#[derive(Debug)]
pub struct ComponentThread {
    stderr: StderrTail,
    _stop: oneshot::Sender<()>,
}

impl InProcess {
    /// `run` is called in a thread of its own, with what the conductor says and a place for answers.
    pub fn new<F, R>(run: F) -> InProcess
    where
        F: Fn(DuplexStream, DuplexStream) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<()>> + 'static,
    {
        InProcess { run: Arc::new(move |reader, writer| Box::pin(run(reader, writer))) }
    }

    /// A proxy, or an agent, of the SDK: `make` gives a fresh one each time it is started.
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
        (seat, life): (Seat, u32),
        ended: UnboundedSender<Ended>,
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
            // What it has started must not keep its thread.
            runtime.shutdown_background();
            // Nobody listens any more when the chain is over.
            let _ = ended.send(Ended { seat, life, how });
        })?;
        Ok((ComponentThread { stderr, _stop: stop }, from, to))
    }
}

impl ComponentThread {
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

/// Two are the same if they were made as one.
impl PartialEq for InProcess {
    fn eq(&self, other: &InProcess) -> bool {
        Arc::ptr_eq(&self.run, &other.run)
    }
}

impl Eq for InProcess {}
