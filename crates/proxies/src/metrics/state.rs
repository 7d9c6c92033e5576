//! The state of the component, which outlives its restarts inside Conductor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acp_proxy::{Call, ChainEvent, Message, Metric, Notification, Side};
use acp_wire::telemetry::{self, METRIC};

use super::conversation::Conversation;
use super::exposition::{self, Format};
use super::hops::Hops;
use super::labels::Methods;
use super::registry::{Named, Registry};
use super::reported::Reported;
use crate::telemetry::Collector;
use component_base::BuiltIn;

/// Everything that is measured. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    registry: Registry,
    methods: Methods,
    conversation: Conversation,
    hops: Hops,
    reported: Reported,
}

impl Measured {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The component has started again: it has lost its connections, and keeps what it has counted.
    pub(super) fn restart(&self) {
        let mut state = self.state();
        state.conversation = std::mem::take(&mut state.conversation).restarted();
        state.conversation.counts_permissions = !state.hops.is_attached;
    }

    /// Measures a message that passes the component.
    pub(super) fn pass(&self, from: Side, message: &Message, now: Instant) {
        let State { registry, methods, conversation, hops, .. } = &mut *self.state();
        let passed = conversation.pass(registry, methods, from, message, now);
        // Inside Conductor, the messages of all components are counted.
        if !hops.is_attached {
            hops.passed(registry, methods, super::Metrics::NAME, (from, message), &passed, now);
        }
    }

    /// Measures an event of the chain. Returns what the user should know.
    pub(super) fn on_event(
        &self,
        collector: &Collector,
        event: &ChainEvent<'_>,
        now: Instant,
    ) -> Option<String> {
        if let Some((place, call)) = collector.on_event(event) {
            return self.report(place, &telemetry::sender(place, call.params.as_ref()), call);
        }
        let State { registry, methods, conversation, hops, .. } = &mut *self.state();
        match event {
            ChainEvent::Attached => {
                hops.is_attached = true;
                conversation.counts_permissions = false;
            }
            ChainEvent::Started { component, restarts } => {
                hops.started(registry, component, *restarts);
            }
            ChainEvent::Ended { component } => hops.ended(registry, methods, component, now),
            ChainEvent::Arrived { component, toward, message } => {
                hops.arrived(registry, methods, (component, *toward), message, now);
            }
            ChainEvent::Delivered { component, toward, message } => {
                hops.delivered(registry, methods, (component, *toward), message, now);
            }
            _ => {}
        }
        None
    }

    /// Counts a metric that another component has sent. `place` is where it comes from, and has the limits. Returns what
    /// the user should know.
    pub(super) fn report(&self, place: &str, component: &str, call: &Call) -> Option<String> {
        if !call.is(METRIC) {
            return None;
        }
        let State { registry, reported, .. } = &mut *self.state();
        let from = (place, component);
        let added = match Metric::from_call(call) {
            Ok(Some(metric)) => reported.add(registry, from, &metric),
            _ => Err("it has no name, its value is not a number, or its kind is not known"),
        };
        let why = added.err()?;
        registry.count_dropped();
        reported.warning(from, call, why)
    }

    /// The metrics as text.
    pub(super) fn text(&self, format: Format) -> String {
        let mut state = self.state();
        let State { registry, conversation, .. } = &mut *state;
        conversation.update_gauges(registry);
        let families = registry.snapshot();
        drop(state);
        exposition::write(&families, format)
    }

    /// The essentials, for `conductor status`.
    pub(super) fn summary(&self) -> Vec<String> {
        let state = self.state();
        let registry = &state.registry;
        let turns = registry.observations(Named::TurnDuration);
        let tools = registry.sum(Named::ToolCalls, "");
        let tokens = registry.sum(Named::Tokens, "");
        let restarts = registry.sum(Named::Restarts, "");
        let sessions = state.conversation.session_count();
        let mut lines = vec![format!(
            "sessions: {sessions}, turns: {turns}, tool calls: {tools}, tokens: {tokens}, restarts: {restarts}"
        )];
        lines.extend(registry.costs());
        let (series, dropped) = (state.reported.series_count(), registry.sum(Named::Dropped, ""));
        if series > 0 || dropped > 0.0 {
            lines.push(format!("series of other components: {series}, dropped: {dropped}"));
        }
        lines
    }

    /// How much is kept: open requests, sessions and series, for tests.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        let state = self.state();
        let open = state.conversation.open() + state.hops.open();
        [open, state.conversation.session_count(), state.registry.series_count()]
    }
}
