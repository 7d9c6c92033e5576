//! Which component a chain waits for.

use std::collections::BTreeSet;

use acp_wire::{Id, Message, Side};

use crate::tap::TapEvent;

/// The maximum number of open requests that are remembered.
const MAX_OPEN: usize = 1000;

/// Finds the component that the chain waits for. A component that has passed a request on waits for its successor, so
/// it is the last component with an open request of the editor's side.
#[derive(Debug)]
pub struct Awaited {
    /// The components, in order.
    names: Vec<String>,
    /// The components that run.
    started: BTreeSet<usize>,
    /// The open requests toward the agent: the position of the component, and the id on its link.
    open: BTreeSet<(usize, Id)>,
    component: Option<usize>,
}

impl Awaited {
    /// For these components.
    pub fn new(names: &[String]) -> Awaited {
        Awaited {
            names: names.to_vec(),
            started: BTreeSet::new(),
            open: BTreeSet::new(),
            component: None,
        }
    }

    /// The component that the chain waits for.
    pub fn component(&self) -> Option<&str> {
        self.component.map(|it| self.names[it].as_str())
    }

    /// Handles an event. Returns whether the component has changed.
    pub fn update(&mut self, event: &TapEvent<'_>) -> bool {
        let position = |seat: &str| self.names.iter().position(|name| name == seat);
        match event {
            TapEvent::Started { seat } => self.started.extend(position(seat)),
            TapEvent::Ended { seat, .. } => {
                if let Some(at) = position(seat) {
                    self.started.remove(&at);
                    self.open.retain(|it| it.0 != at);
                }
            }
            TapEvent::Delivered { seat, toward: Side::Agent, message, .. } => {
                if let (Message::Request { id, .. }, Some(at)) = (message, position(seat))
                    && self.open.len() < MAX_OPEN
                {
                    self.open.insert((at, id.detached()));
                }
            }
            TapEvent::Arrived { seat, message, .. } => {
                if let (Message::Response { id, .. }, Some(at)) = (message, position(seat)) {
                    self.open.remove(&(at, id.detached()));
                }
            }
            TapEvent::Changed { components } => {
                let was_started = |name: &str| {
                    let position = self.names.iter().position(|it| it == name);
                    position.is_some_and(|at| self.started.contains(&at))
                };
                let started = components.iter().enumerate().filter(|(_, name)| was_started(name));
                self.started = started.map(|(at, _)| at).collect();
                self.names = components.iter().map(|name| (*name).to_owned()).collect();
                self.open.clear();
                self.component = self.starting();
                return true;
            }
            TapEvent::Delivered { .. } | TapEvent::Telemetry { .. } => {}
        }
        let component = self.open.last().map(|it| it.0).or_else(|| self.starting());
        std::mem::replace(&mut self.component, component) != component
    }

    /// The last component that runs, while some of the others do not.
    fn starting(&self) -> Option<usize> {
        let last = self.started.last().copied();
        last.filter(|_| self.started.len() < self.names.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_wire::LinkProtocol;

    fn message(text: &str) -> Message {
        Message::parse(&bytes::Bytes::from(text.to_owned())).expect("a message")
    }

    fn request(awaited: &mut Awaited, seat: &str, id: &str) -> bool {
        let message = message(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"m"}}"#));
        let dialect = LinkProtocol::Plain;
        awaited.update(&TapEvent::Delivered {
            seat,
            toward: Side::Agent,
            dialect,
            message: &message,
        })
    }

    fn answer(awaited: &mut Awaited, seat: &str, id: &str) -> bool {
        let message = message(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":1}}"#));
        let dialect = LinkProtocol::Plain;
        awaited.update(&TapEvent::Arrived {
            seat,
            toward: Side::Editor,
            dialect,
            message: &message,
        })
    }

    #[test]
    fn the_last_component_with_an_open_request_is_awaited() {
        let mut awaited = Awaited::new(&["proxy".to_owned(), "agent".to_owned()]);
        assert_eq!(awaited.component(), None);
        assert!(request(&mut awaited, "proxy", "1"));
        assert_eq!(awaited.component(), Some("proxy"));
        assert!(request(&mut awaited, "agent", "2"));
        assert_eq!(awaited.component(), Some("agent"));
        assert!(!request(&mut awaited, "proxy", "3"));
        assert!(answer(&mut awaited, "agent", "2"));
        assert_eq!(awaited.component(), Some("proxy"));
        answer(&mut awaited, "proxy", "1");
        answer(&mut awaited, "proxy", "3");
        assert_eq!(awaited.component(), None);
    }

    #[test]
    fn a_component_that_joins_can_be_awaited() {
        let mut awaited = Awaited::new(&["proxy".to_owned(), "agent".to_owned()]);
        for seat in ["proxy", "agent"] {
            awaited.update(&TapEvent::Started { seat });
        }
        assert!(awaited.update(&TapEvent::Changed { components: &["agent", "new", "last"] }));
        assert_eq!(awaited.component(), Some("agent"));
        for seat in ["new", "last"] {
            awaited.update(&TapEvent::Started { seat });
        }
        assert_eq!(awaited.component(), None);
        request(&mut awaited, "new", "1");
        assert_eq!(awaited.component(), Some("new"));
    }

    #[test]
    fn a_component_that_has_exited_is_not_awaited() {
        let mut awaited = Awaited::new(&["proxy".to_owned(), "agent".to_owned()]);
        awaited.update(&TapEvent::Started { seat: "proxy" });
        assert_eq!(awaited.component(), Some("proxy"));
        awaited.update(&TapEvent::Started { seat: "agent" });
        assert_eq!(awaited.component(), None);
        request(&mut awaited, "agent", "1");
        assert!(awaited.update(&TapEvent::Ended { seat: "agent", how: "exited" }));
        assert_eq!(awaited.component(), Some("proxy"));
    }
}
