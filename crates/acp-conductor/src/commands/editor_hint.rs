//! The hint of `conductor agent` and `conductor proxy` on a terminal: they wait for an editor, not for a person.

use std::io::{IsTerminal, stdin};

use acp_conductor::{Mode, Spec, log};

/// Prints the hint on standard error if standard input is a terminal. `arguments` is the command line.
pub fn print(
    mode: Mode,
    specs: &[Spec],
    components: &[String],
    chain: Option<&str>,
    arguments: &[String],
) {
    if stdin().is_terminal() {
        log::print_error(&text(mode, specs, components, chain, arguments));
    }
}

/// `named` is the name of the chain, if it is one of a configuration file.
fn text(
    mode: Mode,
    specs: &[Spec],
    components: &[String],
    named: Option<&str>,
    arguments: &[String],
) -> String {
    let peer = match mode {
        Mode::Agent => "an editor",
        Mode::Proxy => "another conductor",
    };
    let agent = match mode {
        Mode::Agent => "",
        Mode::Proxy => " demo-agent",
    };
    // A variable may be a secret. It must not be printed.
    let chain = match specs.iter().any(|spec| !spec.env.is_empty()) {
        true => " …the same components…".to_owned(),
        false => components.iter().map(|it| format!(" {}", shell_words::quote(it))).collect(),
    };
    let options: String = chain_options(components, arguments)
        .iter()
        .map(|option| format!(" {}", shell_words::quote(option)))
        .collect();
    let chain = match named {
        // `conductor try` has no default chain, and its agent is that of the chain.
        Some(_) if arguments.iter().any(|it| it == "--chain" || it.starts_with("--chain=")) => {
            String::new()
        }
        Some(name) => format!(" --chain {}", shell_words::quote(name)),
        None => format!(" --{chain}{agent}"),
    };
    format!(
        "conductor: waiting for ACP messages from {peer} on standard input\n\
         To chat with this chain in the terminal, press Ctrl-C and run:\n  \
         conductor try{options}{chain}\n"
    )
}

/// The options on a command line. `conductor try` has all of them.
fn chain_options(components: &[String], arguments: &[String]) -> Vec<String> {
    // The program and the command are no options.
    let mut options: Vec<&String> = arguments.iter().skip(2).collect();
    for component in components.iter().rev() {
        if let Some(at) = options.iter().rposition(|option| *option == component) {
            options.remove(at);
        }
    }
    options.into_iter().filter(|option| *option != "--").cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(mode: Mode, arguments: &[&str], components: &[&str]) -> String {
        let specs: Vec<Spec> = components.iter().map(|it| Spec::parse(it).unwrap()).collect();
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let arguments = [words(&["conductor", "agent"]), words(arguments)].concat();
        let text = text(mode, &specs, &words(components), None, &arguments);
        text.lines().last().unwrap_or_default().trim().to_owned()
    }

    #[test]
    fn the_command_can_be_pasted() {
        let agent = |arguments, components| hint(Mode::Agent, arguments, components);
        assert_eq!(agent(&["a"], &["a"]), "conductor try -- a");
        assert_eq!(
            agent(&["--guard", "log", "--", "log", "my \"it's\""], &["log", "my \"it's\""]),
            r#"conductor try --guard log -- log 'my "it'\''s"'"#
        );
        assert_eq!(
            agent(&["--journal", "j", "a", "b --x", "--grace=1"], &["a", "b --x"]),
            "conductor try --journal j '--grace=1' -- a 'b --x'"
        );
        assert_eq!(hint(Mode::Proxy, &["a"], &["a"]), "conductor try -- a demo-agent");
        assert_eq!(hint(Mode::Proxy, &[], &[]), "conductor try -- demo-agent");
    }

    #[test]
    fn the_options_of_a_chain_are_options_of_the_chat() {
        let command = crate::cli::command();
        let options = |name: &str| {
            let command = command.find_subcommand(name).expect("a command");
            let long = command.get_arguments().filter_map(|it| it.get_long());
            long.map(str::to_owned).collect::<Vec<String>>()
        };
        let chat = options("try");
        for option in [options("agent"), options("proxy")].concat() {
            // `--explain` does not wait for an editor.
            assert!(chat.contains(&option) || option == "explain", "{option}");
        }
    }

    #[test]
    fn the_environment_of_a_component_is_not_shown() {
        for secret in ["TOKEN=hunter2 a", r#"{"command":"a","env":{"TOKEN":"hunter2"}}"#] {
            let shown = hint(Mode::Agent, &[secret], &[secret]);
            assert_eq!(shown, "conductor try -- …the same components…");
        }
    }
}
