//! What a rewriter of messages can send before the message that it rewrites.

use acp_proxy_core::{Call, Outbox, Side};

use crate::context::Context;
use crate::dispatch::Dispatcher;

/// Sends notifications that leave before the message that is being rewritten. See [`Proxy::rewrite`](crate::Proxy::rewrite).
pub struct Ahead<'a, 'b> {
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) out: &'a mut Outbox<'b>,
}

impl Ahead<'_, '_> {
    /// Sends a notification. It leaves before the message, in the order of these calls.
    pub fn notify(&mut self, toward: Side, call: Call) {
        self.dispatcher.notify(toward, call, self.out);
    }

    /// Access to the log, and to messages that leave after the message.
    pub fn context(&self) -> Context {
        Context::new(self.dispatcher.shared.clone())
    }
}

impl std::fmt::Debug for Ahead<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ahead").finish_non_exhaustive()
    }
}
