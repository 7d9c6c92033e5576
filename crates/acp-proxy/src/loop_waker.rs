//! Wakes the event loop, but not while it runs.
//!
//! Handling a message wakes handlers, and the loop runs them at once. If each wake-up went to the runtime, the
//! runtime would poll the loop a second time for each message, after a system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The waker of all handlers.
pub(crate) struct LoopWaker {
    /// Wakes the task of the loop.
    task: Mutex<Waker>,
    is_running: AtomicBool,
    was_woken: AtomicBool,
}

impl LoopWaker {
    pub(crate) fn new() -> Arc<LoopWaker> {
        Arc::new(LoopWaker {
            task: Mutex::new(Waker::noop().clone()),
            is_running: AtomicBool::new(true),
            was_woken: AtomicBool::new(false),
        })
    }

    /// The loop is about to run all handlers that were woken. From now on wake-ups are only noted.
    pub(crate) fn run(&self) {
        self.is_running.store(true, Ordering::SeqCst);
        self.was_woken.store(false, Ordering::SeqCst);
    }

    /// The loop is about to wait. From now on wake-ups go to its task. Returns whether a handler was woken since
    /// [`run`](LoopWaker::run).
    pub(crate) fn pause(&self, task: &Waker) -> bool {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(task);
        self.is_running.store(false, Ordering::SeqCst);
        self.was_woken.load(Ordering::SeqCst)
    }
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_woken.store(true, Ordering::SeqCst);
        if !self.is_running.load(Ordering::SeqCst) {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_task_is_woken_only_while_the_loop_waits() {
        let count = Arc::new(Count::default());
        let (task, gate) = (Waker::from(count.clone()), LoopWaker::new());
        let waker = Waker::from(gate.clone());
        gate.run();
        waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        assert!(gate.pause(&task), "the wake-up must not be lost");
        gate.run();
        assert!(!gate.pause(&task));
        waker.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
