//! A component in a thread of this process. It is connected by pipes, like a separate process.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::{ChainEvent, ChainObserver, StatusSource};

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
    /// What the conductor calls in the component that was started last.
    hooks: Arc<Mutex<Hooks>>,
    /// Makes the component before its thread starts, so that it misses no event of the chain.
    prepare: Arc<dyn Fn() + Send + Sync>,
    /// Whether the component observes the messages of the whole chain.
    observes_messages: bool,
}

/// Functions of a running component that the conductor calls.
#[derive(Default)]
struct Hooks {
    /// Describes the state of the component.
    status: Option<StatusSource>,
    /// Observes the chain.
    observer: Option<ChainObserver>,
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
        let run = Arc::new(move |reader, writer| -> RunFuture { Box::pin(run(reader, writer)) });
        InProcess { run, hooks: Arc::default(), prepare: Arc::new(|| ()), observes_messages: false }
    }

    /// A proxy or agent that uses the SDK. `make` creates a new one for each start.
    pub fn of<C: Into<acp_proxy::Component>>(
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> InProcess {
        let hooks = Arc::<Mutex<Hooks>>::default();
        let newest = hooks.clone();
        let make = Arc::new(move || {
            let component: acp_proxy::Component = make().into();
            let (status, observer) = (component.status_source(), component.chain_observer());
            observer.iter().for_each(|observer| observer(&ChainEvent::Attached));
            *newest.lock().unwrap_or_else(PoisonError::into_inner) = Hooks { status, observer };
            component
        });
        let prepared = Arc::<Mutex<Option<acp_proxy::Component>>>::default();
        let (make_now, slot) = (make.clone(), prepared.clone());
        let prepare = Arc::new(move || {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(make_now());
        });
        let in_process = InProcess::new(move |reader, writer| {
            let prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
            let component = prepared.unwrap_or_else(|| make());
            component.log_to(|line| tracing::warn!("{line}")).serve_on(reader, writer)
        });
        InProcess { hooks, prepare, ..in_process }
    }

    /// Lets the component observe the messages of the whole chain.
    #[must_use]
    pub fn observing_messages(self, observes_messages: bool) -> InProcess {
        InProcess { observes_messages, ..self }
    }

    /// Whether the component observes the messages of the whole chain.
    pub(crate) fn observes_messages(&self) -> bool {
        self.observes_messages
    }

    /// Tells the component about an event in the chain, if it observes the chain.
    pub(crate) fn observe(&self, event: &ChainEvent<'_>) {
        let observer = self.hooks().observer.clone();
        observer.iter().for_each(|observer| observer(event));
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, Hooks> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines with which the component describes its state.
    pub fn status_lines(&self) -> Vec<String> {
        let status = self.hooks().status.clone();
        status.map(|lines| lines()).unwrap_or_default()
    }

    pub(crate) fn start(
        &self,
        name: &str,
        (seat, incarnation): (Seat, u32),
        exits: UnboundedSender<ComponentExit>,
    ) -> io::Result<(ComponentThread, DuplexStream, DuplexStream)> {
        if self.observes_messages {
            // After a panic, the thread tries again and reports it.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| (self.prepare)()));
        }
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
