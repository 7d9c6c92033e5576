//! The I/O of a seat: its links and the running component.

use engine::Port;

use crate::host::RunningComponent;
use crate::host::process::StderrTail;
use crate::link::{Link, Reader, Writer};
use crate::relay::RelayListener;

/// The links of a seat and its component.
#[derive(Debug)]
pub struct SeatIo {
    /// The main link.
    pub link: Link,
    /// The second link of an SCP proxy.
    pub relay: Option<Link>,
    /// Accepts the relay of an SCP proxy.
    pub relay_listener: Option<RelayListener>,
    /// The component, while it runs.
    pub component: Option<RunningComponent>,
    /// The stderr lines that were not passed to the core yet.
    pub stderr: StderrTail,
    /// How many components the seat has had before.
    pub incarnation: u32,
}

impl SeatIo {
    /// An empty seat.
    pub fn new(max_line: usize) -> SeatIo {
        SeatIo {
            link: Link::new(max_line),
            relay: None,
            relay_listener: None,
            component: None,
            stderr: StderrTail::default(),
            incarnation: 0,
        }
    }

    /// The link behind a port, if it exists.
    pub fn port(&mut self, port: Port) -> Option<&mut Link> {
        match port {
            Port::Main => Some(&mut self.link),
            Port::Relay => self.relay.as_mut(),
        }
    }

    /// Whether its process has exited and its exit will be reported soon.
    pub fn is_exiting(&self) -> bool {
        self.component.as_ref().is_some_and(RunningComponent::is_exiting)
    }

    /// All links of the seat.
    pub fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        std::iter::once(&mut self.link).chain(&mut self.relay)
    }

    /// Connects a component that was just started.
    pub fn attach(&mut self, component: RunningComponent, reader: Reader, writer: Writer) {
        self.stderr = component.stderr().clone();
        self.component = Some(component);
        (self.relay, self.relay_listener) = (None, None);
        (self.link.reading, self.link.reported_waiting) = (true, false);
        self.link.attach(reader, writer);
    }
}
