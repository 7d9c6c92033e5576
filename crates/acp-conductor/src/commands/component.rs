//! `conductor component`: a built-in component as a separate process.

use std::io;

use acp_wire::ErrorKind;
use serde_json::Map;

use super::output::{Failure, print, write_error};

/// `conductor component`: runs a built-in component as a separate process.
pub fn component(name: &str, options: &[String]) -> Result<(), Failure> {
    let Some(entry) = components::find(name) else {
        return Err(Failure::usage(acp_conductor::builtin::unknown(name)));
    };
    if options.iter().any(|option| option == "--help" || option == "-h") {
        return print(|out| out.write_all(entry.help().as_bytes()));
    }
    if let Some(report) = entry.report(options).map_err(Failure::usage)? {
        return print(|out| out.write_all(report.as_bytes()));
    }
    let factory = entry.parse(options, &Map::new()).map_err(Failure::usage)?;
    let component = factory();
    serve(if entry.guard { component.declared_as_guard() } else { component })
}

/// Runs a proxy, or an agent, on standard input and output.
pub fn serve(component: acp_proxy::Component) -> Result<(), Failure> {
    let name = component.name().to_owned();
    component.run().map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => Failure::run(write_error(&error)),
        _ => Failure::of(ErrorKind::SystemError, format!("{name}: {error}")),
    })
}
