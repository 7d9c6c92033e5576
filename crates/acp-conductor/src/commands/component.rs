//! `conductor component`: a built-in component as a separate process.

use super::output::{Failure, print};

/// `conductor component`: runs a built-in component as a separate process.
pub fn component(name: &str, options: &[String]) -> Result<(), Failure> {
    let Some(entry) = components::find(name) else {
        let why =
            format!("there is no built-in component '{name}'; `conductor components` lists them");
        return Err(Failure::usage(why));
    };
    if options.iter().any(|option| option == "--help" || option == "-h") {
        return print(|out| out.write_all(entry.help().as_bytes()));
    }
    let factory = entry.parse(options).map_err(Failure::usage)?;
    serve(factory())
}

/// Runs a proxy, or an agent, on standard input and output.
pub fn serve(component: acp_proxy::Component) -> Result<(), Failure> {
    let name = component.name().to_owned();
    component.run().map_err(|error| Failure::run(format!("{name}: {error}")))
}
