//! Tells an editor in this process when the agent's process has ended.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::tap::TapEvent;

/// Tells an editor in this process when the process of the agent has ended, and when it was started again: by then,
/// what the earlier process has asked for has arrived.
#[derive(Debug)]
pub(crate) struct AgentEnds {
    /// The name of the agent.
    agent: Option<String>,
    sender: UnboundedSender<()>,
}

impl AgentEnds {
    /// For a chain of these components, and what receives the ends.
    pub(crate) fn new(components: &[String]) -> (AgentEnds, UnboundedReceiver<()>) {
        let (sender, ends) = unbounded_channel();
        (AgentEnds { agent: components.last().cloned(), sender }, ends)
    }

    /// Handles an event of the chain.
    pub(crate) fn update(&mut self, event: &TapEvent<'_>) {
        match event {
            TapEvent::Changed { components } => {
                self.agent = components.last().map(|it| (*it).to_owned());
            }
            TapEvent::Started { seat } | TapEvent::Ended { seat, .. }
                if self.agent.as_deref() == Some(*seat) =>
            {
                // An error means that the editor has ended, and its terminals with it.
                let _ = self.sender.send(());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_and_the_end_of_the_agent_are_told() {
        let names = ["proxy", "agent"].map(str::to_owned);
        let (mut tap, mut ends) = AgentEnds::new(&names);
        tap.update(&TapEvent::Started { seat: "proxy" });
        tap.update(&TapEvent::Ended { seat: "proxy", how: "exited" });
        assert!(ends.try_recv().is_err());
        tap.update(&TapEvent::Ended { seat: "agent", how: "exited" });
        assert!(ends.try_recv().is_ok() && ends.try_recv().is_err());
        tap.update(&TapEvent::Changed { components: &["agent", "other"] });
        tap.update(&TapEvent::Ended { seat: "agent", how: "exited" });
        assert!(ends.try_recv().is_err());
        tap.update(&TapEvent::Started { seat: "other" });
        assert!(ends.try_recv().is_ok());
    }
}
