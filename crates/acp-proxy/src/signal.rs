//! An answer that comes later, for one task. Unlike those of a runtime it is ready as soon as it is
//! there, which is what the order of messages depends on.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
    given_up: bool,
}

pub struct Giver<T>(Rc<RefCell<Slot<T>>>);
pub struct Taker<T>(Rc<RefCell<Slot<T>>>);

pub fn signal<T>() -> (Giver<T>, Taker<T>) {
    let slot = Rc::new(RefCell::new(Slot { value: None, waker: None, given_up: false }));
    (Giver(slot.clone()), Taker(slot))
}

impl<T> Giver<T> {
    pub fn give(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

/// Whoever waits must not wait for ever.
impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        let mut slot = self.0.borrow_mut();
        slot.given_up = true;
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Taker<T> {
    /// `None` if nothing will ever come.
    pub async fn take(self) -> Option<T> {
        poll_fn(|cx| {
            let mut slot = self.0.borrow_mut();
            if let Some(value) = slot.value.take() {
                return Poll::Ready(Some(value));
            }
            if slot.given_up {
                return Poll::Ready(None);
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
