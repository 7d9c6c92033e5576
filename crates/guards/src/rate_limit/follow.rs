//! Follows what cancels requests, what the agent reports, and restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use acp_proxy::{Call, Json, Message, Proxy, Side};

use super::Guard;
use component_base::sessions::{is_repetition_of, text};

/// What the component knows when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// It goes on with the memory of its predecessor.
    WithMemory,
    /// It has no memory, because it is new, or because its options have changed.
    New,
    /// It has lost its memory, because its process was restarted.
    Lost,
}

impl Guard {
    pub(super) fn follow(&self, proxy: Proxy, beginning: Beginning) -> Proxy {
        let (cancel, updates, status) = (self.clone(), self.clone(), self.clone());
        let proxy = proxy
            .on_raw_notification(Side::Editor, "session/cancel", move |call, _| {
                let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
                cancel.gate.change(|limiter| limiter.cancel_session(&session));
            })
            // An observer and not a handler: updates are only counted, so what is odd in them must not keep them from
            // the editor. Some agents split an emoji between two chunks of text.
            .observe(move |from, message| {
                if from == Side::Agent {
                    updates.on_agent_message(message);
                }
            })
            .status(move || status.status());
        let proxy = ["session/close", "session/delete"].into_iter().fold(proxy, |proxy, method| {
            let guard = self.clone();
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
                let result = next.run(call).await?;
                guard.gate.change(|limiter| limiter.end_session(&session));
                Ok(result)
            })
        });
        match beginning {
            Beginning::WithMemory => proxy,
            Beginning::New => self.watch_repetitions(proxy),
            Beginning::Lost => self.follow_lost_sessions(self.watch_repetitions(proxy)),
        }
    }

    fn on_agent_message(&self, message: &Message) {
        let (Message::Notification(call) | Message::Request { call, .. }) = message else { return };
        let Some(params) = &call.params else { return };
        let is_update = call.is("session/update");
        if self.gate.limiter().has_leftovers()
            && let Some(session) = text(Some(params), "sessionId")
        {
            self.gate.change_now(|limiter, now| match is_update && is_idle(params) {
                true => limiter.on_turn_end(&session),
                false => limiter.on_activity(&session, now),
            });
        }
        if is_update && let Some((session, id)) = reported_call(params) {
            self.gate.limiter().report(&session, &id);
        }
    }

    /// The conductor repeats the requests that set up sessions for a component that it has restarted.
    fn watch_repetitions(&self, proxy: Proxy) -> Proxy {
        let (guard, mut is_first) = (self.clone(), true);
        proxy.observe(move |from, message| {
            if let (Side::Editor, Message::Request { call, .. }) = (from, message)
                && is_first
                && call.method.name().starts_with("session/")
            {
                is_first = false;
                if is_repetition_of(message) {
                    guard.gate.restart();
                }
            }
        })
    }

    /// Counts the turns that may still run in the sessions that were set up before the process was restarted.
    fn follow_lost_sessions(&self, proxy: Proxy) -> Proxy {
        const SET_UP: [&str; 4] = ["session/new", "session/load", "session/resume", "session/fork"];
        // The conductor repeats the requests before it delivers other messages. In a chain inside of another one, the
        // repeated requests have other ids.
        let is_repeated = Arc::new(AtomicBool::new(false));
        let (seen, mut is_replaying) = (is_repeated.clone(), true);
        let proxy = proxy.observe(move |from, message| {
            let (Side::Editor, Message::Request { call, .. }) = (from, message) else { return };
            let is_set_up = SET_UP.iter().any(|method| call.is(method));
            is_replaying &= is_set_up || call.is("initialize");
            seen.store(is_replaying || is_repetition_of(message), Ordering::Relaxed);
        });
        SET_UP.into_iter().fold(proxy, |proxy, method| {
            let (guard, is_repeated) = (self.clone(), is_repeated.clone());
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let is_repeated = is_repeated.load(Ordering::Relaxed);
                let asked = text(call.params.as_ref(), "sessionId");
                let asked = asked.filter(|_| method != "session/fork");
                let result = next.run(call).await?;
                let session = text(Some(&result), "sessionId").or(asked);
                if let Some(session) = session.filter(|_| is_repeated) {
                    guard.gate.change_now(|limiter, now| limiter.leave_turns(&session, now));
                }
                Ok(result)
            })
        })
    }
}

/// The session and the id of a tool call that an update reports.
fn reported_call(params: &Json) -> Option<(String, String)> {
    let update = params.member("update")?;
    let kind = update.member("sessionUpdate")?;
    let is_call = kind.text().is_some_and(|kind| kind == "tool_call" || kind == "tool_call_update");
    let id = is_call.then(|| text(Some(&update), "toolCallId")).flatten()?;
    Some((text(Some(params), "sessionId")?, id))
}

/// Whether an update says that a session is idle (ACP version 2).
fn is_idle(params: &Json) -> bool {
    let is = |key, value| {
        params.at(&["update", key]).and_then(|it| Some(it.text()? == value)).unwrap_or_default()
    };
    is("sessionUpdate", "state_update") && is("state", "idle")
}
