//! A channel for one value between two tasks of the same thread.
//!
//! The receiver is ready as soon as the value is there. Channels of a runtime may delay it, and the order of
//! messages depends on it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
    is_closed: bool,
    has_receiver: bool,
}

pub(crate) struct Sender<T>(Rc<RefCell<Slot<T>>>);
pub(crate) struct Receiver<T>(Rc<RefCell<Slot<T>>>);

pub(crate) fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new(Slot {
        value: None,
        waker: None,
        is_closed: false,
        has_receiver: true,
    }));
    (Sender(slot.clone()), Receiver(slot))
}

impl<T> Sender<T> {
    /// Whether the receiver still waits.
    pub(crate) fn has_receiver(&self) -> bool {
        self.0.borrow().has_receiver
    }

    pub(crate) fn send(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

/// Wakes the receiver, whether a value was sent or not.
impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut slot = self.0.borrow_mut();
        slot.is_closed = true;
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.borrow_mut().has_receiver = false;
    }
}

impl<T> Receiver<T> {
    /// Waits for the value. `None` if the sender was dropped without sending one.
    pub(crate) async fn receive(&self) -> Option<T> {
        poll_fn(|cx| {
            let mut slot = self.0.borrow_mut();
            if let Some(value) = slot.value.take() {
                return Poll::Ready(Some(value));
            }
            if slot.is_closed {
                return Poll::Ready(None);
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
