//! Starts components, and connects the relays of SCP proxies.

use engine::Input;
use router::{Seat, StartFailure};
use tokio::net::TcpStream;

use super::Shell;
use crate::config::{Config, Spec};
use crate::host::RunningComponent;
use crate::host::process::Process;
use crate::host::start_check::StartCheck;
use crate::host::start_failure;
use crate::link::{Link, Reader, Writer};
use crate::log;
use crate::relay::RelayListener;

impl Shell {
    /// Opens a listener for the relay of an SCP proxy.
    pub(super) fn open_relay(&mut self, seat: Seat, incarnation: u32) {
        let relay_listener = RelayListener::open((seat, incarnation), self.relays.0.clone());
        let servers =
            relay_listener.as_ref().map_err(ToString::to_string).and_then(|relay_listener| {
                relay_listener.scp_proxy_params().map_err(|error| error.to_string())
            });
        self.seat_io(seat).relay_listener = relay_listener.ok();
        self.inputs.push_back(Input::RelayOpened { seat, incarnation, servers });
    }

    /// Attaches the connection of a relay as the second link of an SCP proxy.
    pub(super) fn attach_relay(&mut self, seat: Seat, incarnation: u32, stream: TcpStream) {
        let mut relay = Link::new(self.config.limits.max_line);
        let (reader, writer) = stream.into_split();
        relay.attach(Box::new(reader), Box::new(writer));
        let io = self.seat_io(seat);
        if io.incarnation == incarnation {
            io.relay_listener = None;
            io.relay = Some(relay);
            self.handle(Input::RelayConnected { seat, incarnation });
        }
    }

    /// Adds the components that an SCP editor has sent. Returns the new set-up.
    pub(super) fn extend(&mut self, servers: &str) -> Result<engine::Setup, String> {
        let specs = Spec::from_servers(servers)?;
        let components = self.config.components.drain(..).chain(specs).collect();
        let config = Config::new(router::Mode::Agent, components);
        self.config.mode = router::Mode::Agent;
        self.config.components = config.components;
        self.create_seats();
        Ok(self.config.setup(&self.greetings, &self.crashes))
    }

    /// Starts the component of a seat.
    pub(super) fn start(&mut self, seat: Seat, incarnation: u32) -> Result<(), StartFailure> {
        let spec = &self.config.components[seat.index() - 1];
        spec.before_start.as_ref().map_or(Ok(()), StartCheck::check)?;
        let name = spec.name.clone();
        let on_stderr = move |line: &str| log::component_line(&name, line);
        let exits = self.exits.0.clone();
        let (component, reader, writer): (RunningComponent, Reader, Writer) = match &spec.in_process
        {
            Some(in_process) => {
                let (thread, from, to) = in_process
                    .start(&spec.name, (seat, incarnation), exits)
                    .map_err(|error| StartFailure::other(error.to_string()))?;
                (RunningComponent::Thread(thread), Box::new(from), Box::new(to))
            }
            None => {
                let (process, stdout, stdin) = Process::start(
                    spec,
                    (seat, incarnation),
                    self.config.cleanup,
                    exits,
                    on_stderr,
                )
                .map_err(|error| start_failure::of(spec, &error))?;
                (RunningComponent::Process(process), Box::new(stdout), Box::new(stdin))
            }
        };
        self.seat_io(seat).attach(component, reader, writer);
        Ok(())
    }
}
