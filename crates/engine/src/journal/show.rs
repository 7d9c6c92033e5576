//! Formats a journal as readable text: one line for each input, output and protocol line.

use acp_wire::Message;
use bytes::Bytes;
use router::{Chain, Ending, Seat, Time};

use super::Effects;
use crate::input::{Command, Input, Line, LinkId, Observation, Output, Port};

/// Longer texts are truncated.
const MAX_LENGTH: usize = 100;

/// An input, with its time in seconds.
pub(super) fn input(chain: &Chain, at: Time, input: &Input) -> String {
    format!("{:>6}.{:03}  {}", at.0 / 1000, at.0 % 1000, describe_input(chain, input))
}

fn describe_input(chain: &Chain, input: &Input) -> String {
    let name = |seat: &Seat| chain.name(*seat);
    match input {
        Input::Line { link, line } => {
            format!("from {}: {}", link_name(chain, *link), describe_line(line))
        }
        Input::Readable { link, readable: true } => {
            format!("{} has unread output", link_name(chain, *link))
        }
        Input::Readable { link, readable: false } => {
            format!("{} has no unread output", link_name(chain, *link))
        }
        Input::OutputClosed { link, rest } => {
            let rest = rest.as_ref().map(|it| format!(" after {}", describe_line(it)));
            format!("{} closed its output{}", link_name(chain, *link), rest.unwrap_or_default())
        }
        Input::Written { link, count } => {
            format!("{count} bytes were written to {}", link_name(chain, *link))
        }
        Input::InputClosed(link) => format!("{} closed its input", link_name(chain, *link)),
        Input::NotStarted { seat, why, .. } => {
            format!("{} cannot be started: {}", name(seat), why.why)
        }
        Input::Exited { seat, incarnation, how } => {
            format!("{} (incarnation {incarnation}) exited: {how:?}", name(seat))
        }
        Input::Stderr { seat, lines, .. } => {
            format!("{} wrote on stderr: {}", name(seat), truncate(&lines.join(" | ")))
        }
        Input::RelayOpened { seat, servers, .. } => match servers {
            Ok(_) => format!("the relay of {} can connect", name(seat)),
            Err(why) => format!("the relay of {} cannot connect: {why}", name(seat)),
        },
        Input::RelayConnected { seat, .. } => format!("the relay of {} connected", name(seat)),
        Input::Extended(Ok(setup)) => {
            format!("the chain is complete: {} components", setup.chain.components.len())
        }
        Input::Extended(Err(why)) => format!("the chain cannot be completed: {why}"),
        Input::Reload(reload) => {
            let names: Vec<&str> = reload.chain.seats().map(|it| reload.chain.name(it)).collect();
            format!("another configuration: {}", names.join(", "))
        }
        Input::ClientConnected { ticket, client_id } => {
            format!("MCP client {} connected with ticket {}", client_id.0, ticket.0)
        }
        Input::ClientMessage { client_id, line } => {
            format!("from MCP client {}: {}", client_id.0, text(line))
        }
        Input::ClientDisconnected(client_id) => format!("MCP client {} disconnected", client_id.0),
        Input::EndpointOpened { ticket, endpoint } => match endpoint {
            Ok(endpoint) => format!("the endpoint for ticket {} is open: {endpoint:?}", ticket.0),
            Err(why) => format!("the endpoint for ticket {} cannot be opened: {why}", ticket.0),
        },
        Input::Configured { request, answer: Ok(_) } => {
            format!("request {request} about options is answered")
        }
        Input::Configured { request, answer: Err(why) } => {
            format!("request {request} about options is refused: {why}")
        }
        Input::Command(command) => match command {
            Command::Stop => "command: stop".to_owned(),
            Command::Restart(seat) => format!("command: restart {}", name(seat)),
            Command::Bypass(seat) => format!("command: bypass {}", name(seat)),
            Command::Hold(seat) => format!("command: hold messages for {}", name(seat)),
            Command::Release(seat) => format!("command: release messages for {}", name(seat)),
        },
        Input::DropReload => "the configuration that waits is not used".to_owned(),
        Input::Tick => "tick".to_owned(),
    }
}

/// The effects of an input, one line each.
pub(super) fn effects(chain: &Chain, effects: &Effects, lines: &mut Vec<String>) {
    const INDENT: &str = "              ";
    for output in &effects.outputs {
        lines.push(format!("{INDENT}{}", describe_output(chain, output)));
    }
    for queue in &effects.appended {
        let to = link_name(chain, queue.link);
        if queue.dropped > 0 {
            lines.push(format!("{INDENT}drop {} bytes for {to}", queue.dropped));
        }
        for line in queue.text.split_inclusive(|byte| *byte == b'\n') {
            let line = Bytes::copy_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            lines.push(format!("{INDENT}to {to}: {}", text(&line)));
        }
    }
}

fn describe_output(chain: &Chain, output: &Output) -> String {
    let name = |seat: &Seat| chain.name(*seat);
    match output {
        Output::Start { seat, incarnation } => {
            format!("start {} (incarnation {incarnation})", name(seat))
        }
        Output::Kill(seat) => format!("kill {}", name(seat)),
        Output::Discard(seat) => format!("discard {}", name(seat)),
        Output::Close(link) => format!("close the link to {}", link_name(chain, *link)),
        Output::Read { link, read: true } => format!("read from {}", link_name(chain, *link)),
        Output::Read { link, read: false } => {
            format!("pause reading from {}", link_name(chain, *link))
        }
        Output::ReadClients(true) => "read from MCP clients".to_owned(),
        Output::ReadClients(false) => "pause reading from MCP clients".to_owned(),
        Output::OpenRelay { seat, .. } => {
            format!("open a listener for the relay of {}", name(seat))
        }
        Output::Extend(_) => "complete the chain".to_owned(),
        Output::SendToClient { client_id, message } => {
            format!("to MCP client {}: {}", client_id.0, describe_message(message))
        }
        Output::DisconnectClient(client_id) => format!("disconnect MCP client {}", client_id.0),
        Output::Configure { request, seat, operation, .. } => {
            format!("request {request} about the options of {}: {operation:?}", name(seat))
        }
        Output::ApplyOptions { request } => format!("use the options of request {request}"),
        Output::DropOptions { request } => format!("forget the options of request {request}"),
        Output::OpenEndpoint { ticket, transport } => {
            format!("open an endpoint for ticket {} ({})", ticket.0, transport.name())
        }
        Output::RevokeTicket(ticket) => format!("revoke ticket {}", ticket.0),
        Output::Reloaded { problem: None } => "the configuration is used from now on".to_owned(),
        Output::Reverted { seat, why } => {
            format!("{} gets its previous configuration again: {why}", name(seat))
        }
        Output::ReloadNote(text) => text.clone(),
        Output::Reloaded { problem: Some(why) } => {
            format!("the configuration cannot be used: {why}")
        }
        Output::RememberGreeting { seat, greeting: Some(greeting) } => {
            format!("remember that {} understands {greeting:?}", name(seat))
        }
        Output::RememberGreeting { seat, greeting: None } => {
            format!("forget which greeting {} understands", name(seat))
        }
        Output::RememberPoison { seat, kind } => {
            format!("remember that {} crashes on {}", name(seat), kind.method)
        }
        Output::Report(diagnostic) => {
            format!(
                "{:?}, {}: {}",
                diagnostic.level,
                name(&diagnostic.seat),
                truncate(&diagnostic.text)
            )
        }
        Output::Tap(Observation::Arrived { seat, message, .. }) => {
            format!("tap: from {}: {}", name(seat), describe_message(message))
        }
        Output::Tap(Observation::Delivered { seat, message, .. }) => {
            format!("tap: to {}: {}", name(seat), describe_message(message))
        }
        Output::Tap(Observation::Telemetry { seat, message }) => {
            format!("telemetry of {}: {}", name(seat), describe_message(message))
        }
        Output::Tap(Observation::Ended { seat, how }) => format!("tap: {} {how}", name(seat)),
        Output::Finish(Ending::Clean) => "finish".to_owned(),
        Output::Finish(Ending::Failed(why)) => format!("finish: {}", truncate(why)),
    }
}

fn link_name(chain: &Chain, link: LinkId) -> String {
    let name = chain.name(link.seat);
    match link.port {
        Port::Main => name.to_owned(),
        Port::Relay => format!("the relay of {name}"),
    }
}

fn describe_line(line: &Line) -> String {
    match line {
        Line::Text(line) => text(line),
        Line::TooLong { length, .. } => format!("a line that is too long ({length} bytes)"),
    }
}

/// The method and id of a line. If it is not a message, its first characters.
fn text(line: &Bytes) -> String {
    match Message::parse(line) {
        Ok(message) => format!("{} ({} bytes)", describe_message(&message), line.len()),
        Err(_) => format!("{:?} ({} bytes)", truncate(&String::from_utf8_lossy(line)), line.len()),
    }
}

fn describe_message(message: &Message) -> String {
    let label = message.label();
    match message {
        Message::Request { id, call } => format!("{label}{} id {id}", inner_method(call)),
        Message::Notification(call) => format!("{label}{}", inner_method(call)),
        Message::Response { id, .. } => format!("{label} id {id}"),
    }
}

/// The method of the message in an envelope.
fn inner_method(call: &acp_wire::message::Call) -> String {
    let method = call.params.as_ref().and_then(|it| it.first_at(&["method"]));
    let method = method.as_ref().and_then(|it| it.text());
    method.map(|it| format!(" [{}]", truncate(&it))).unwrap_or_default()
}

fn truncate(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_LENGTH);
    match end < text.len() {
        true => format!("{}…", &text[..end]),
        false => text.to_owned(),
    }
}
