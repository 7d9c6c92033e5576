//! Collects log messages and metrics of other components: `_proxy/log`, `_proxy/metric` and `_scp/log`.
//!
//! Inside Conductor, a collector gets them from the whole chain and passes on those that it meets: Conductor decides
//! what the editor gets. In a separate process, a collector gets those that pass it, and itself keeps them from
//! an editor that has not asked for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::{Call, ChainEvent, Delivery, Message, Proxy, Side};
use acp_wire::telemetry::{self, Telemetry, Wanted};

/// Collects telemetry. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    /// Whether the component runs inside Conductor.
    is_attached: Arc<AtomicBool>,
    /// What the editor has asked for.
    wanted: Arc<Mutex<Wanted>>,
}

impl Collector {
    /// Reads an event of the chain. Returns telemetry, with the place in the chain from which it comes.
    pub fn on_event<'a>(&self, event: &ChainEvent<'a>) -> Option<(&'a str, &'a Call)> {
        match event {
            ChainEvent::Attached => {
                self.is_attached.store(true, Ordering::Relaxed);
                None
            }
            // In a chain that is a proxy itself, the outer pipe also leads to the next component.
            ChainEvent::Telemetry { component: "outer", call } => Some(("successor", *call)),
            ChainEvent::Telemetry { component, call } => Some((*component, *call)),
            _ => None,
        }
    }

    /// Adds handlers to a proxy for telemetry with these methods that passes it. `collect` gets the messages, with the
    /// names that their senders give themselves, unless the proxy gets them as events of the chain.
    pub fn watch(
        &self,
        proxy: Proxy,
        methods: &[&str],
        collect: impl Fn(Option<String>, &Call) + Clone + Send + 'static,
    ) -> Proxy {
        let wanted = self.wanted.clone();
        let proxy = proxy.observe(move |from, message| {
            if let Message::Request { call, .. } = message
                && from == Side::Editor
                && call.is("initialize")
            {
                let params = call.params.as_ref();
                *wanted.lock().unwrap_or_else(PoisonError::into_inner) =
                    params.map(Wanted::of_initialize).unwrap_or_default();
            }
        });
        methods.iter().fold(proxy, |proxy, method| {
            let (collector, collect) = (self.clone(), collect.clone());
            proxy.on_raw_notification(Side::Agent, method, move |call, _| {
                if collector.is_attached.load(Ordering::Relaxed) {
                    return Delivery::Forward;
                }
                collect(name(call), call);
                collector.deliver(call)
            })
        })
    }

    /// Passes a message on if the editor has asked for it.
    fn deliver(&self, call: &mut Call) -> Delivery {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        match Telemetry::of(call).and_then(|kind| wanted.translate(kind, call)) {
            Some(translated) => {
                *call = translated;
                Delivery::Forward
            }
            None => Delivery::Drop,
        }
    }
}

/// The name of the component that has sent a message.
fn name(call: &Call) -> Option<String> {
    call.params.as_ref().and_then(telemetry::component)
}
