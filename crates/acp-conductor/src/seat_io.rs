//! What the shell has for a seat: pipes and a process.

use engine::Port;

use crate::host::RunningComponent;
use crate::host::process::StderrTail;
use crate::link::{Link, Reader, Writer};
use crate::relay::RelayListener;

#[derive(Debug)]
pub struct SeatIo {
    pub link: Link,
    pub relay: Option<Link>,
    pub relay_listener: Option<RelayListener>,
    /// The process or the resident, as long as it runs.
    pub component: Option<RunningComponent>,
    pub stderr: StderrTail,
    /// How many components this seat has had before.
    pub life: u32,
}

impl SeatIo {
    pub fn new(longest_line: usize) -> SeatIo {
        SeatIo {
            link: Link::new(longest_line),
            relay: None,
            relay_listener: None,
            component: None,
            stderr: StderrTail::default(),
            life: 0,
        }
    }

    pub fn port(&mut self, port: Port) -> Option<&mut Link> {
        match port {
            Port::Main => Some(&mut self.link),
            Port::Relay => self.relay.as_mut(),
        }
    }

    pub fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        std::iter::once(&mut self.link).chain(&mut self.relay)
    }

    /// A component was started here.
    pub fn attach(&mut self, component: RunningComponent, reader: Reader, writer: Writer) {
        self.stderr = component.stderr().clone();
        self.component = Some(component);
        (self.relay, self.relay_listener) = (None, None);
        (self.link.read, self.link.waits) = (true, false);
        self.link.attach(reader, writer);
    }
}
