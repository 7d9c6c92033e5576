//! What the shell has for a seat: pipes and a process.

use engine::Port;

use crate::host::Occupant;
use crate::host::process::Words;
use crate::link::{Link, Reader, Writer};
use crate::relay::Dock;

#[derive(Debug)]
pub struct Place {
    pub link: Link,
    pub relay: Option<Link>,
    pub dock: Option<Dock>,
    /// The process or the resident, as long as it runs.
    pub occupant: Option<Occupant>,
    pub words: Words,
    /// How many components this seat has had before.
    pub life: u32,
}

impl Place {
    pub fn new(longest_line: usize) -> Place {
        Place {
            link: Link::new(longest_line),
            relay: None,
            dock: None,
            occupant: None,
            words: Words::default(),
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
    pub fn occupy(&mut self, occupant: Occupant, reader: Reader, writer: Writer) {
        self.words = occupant.words().clone();
        self.occupant = Some(occupant);
        (self.relay, self.dock) = (None, None);
        (self.link.read, self.link.waits) = (true, false);
        self.link.attach(reader, writer);
    }
}
