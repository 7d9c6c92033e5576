//! The terminal methods of a client: `terminal/create`, `terminal/output`, `terminal/wait_for_exit`, `terminal/kill`
//! and `terminal/release`.
//!
//! A terminal is a command in its own process group, whose output is kept. The command has no input and no terminal
//! device, so programs do not ask questions. When a terminal is released, all of its processes are killed.

mod output;
mod process;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::rpc_error;
use output::SharedOutput;
pub use process::ExitStatus;
use process::Process;

/// The maximum number of terminals that are not released.
const MAX_TERMINALS: usize = 64;
/// How much output is kept if the agent sets no limit.
const DEFAULT_LIMIT: usize = 8 * 1024 * 1024;
/// How long to wait for the end of the output after the command has exited. The timeout is reached only if a process
/// in the background keeps the output open.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a command that is asked to exit may take before it is killed.
const KILL_DELAY: Duration = Duration::from_millis(500);

/// Words at the start of a command that only a shell understands.
const SHELL_WORDS: [&str; 20] = [
    "cd", "export", "source", ".", "for", "while", "until", "if", "case", "set", "unset", "eval",
    "exec", "alias", "type", "ulimit", "{", "(", "!", "[[",
];

/// The terminals of an agent. Dropping them kills their processes.
#[derive(Debug, Default)]
pub struct Terminals {
    /// Set for each command, in addition to the variables of the request.
    environment: Vec<(OsString, OsString)>,
    last_id: u64,
    terminals: BTreeMap<String, Terminal>,
    /// Changes that were not returned by [`Terminals::changed`], of released terminals.
    unreported: Vec<Change>,
}

/// The output of a terminal so far, and how its command has exited.
pub type Change = (String, String, Option<ExitStatus>);

#[derive(Debug)]
struct Terminal {
    process: Process,
    output: SharedOutput,
    exit: watch::Receiver<Option<ExitStatus>>,
    /// The number of bytes, and whether the command had exited, when the output was last reported.
    reported: (u64, bool),
    /// Dropped when the terminal is released. Until then the process id of the command is not reused.
    _release: mpsc::Sender<()>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The command is not reaped yet, so its process group cannot be another one.
        self.process.kill();
    }
}

impl Terminal {
    /// The output and the exit status, if they have changed since the last call.
    fn change(&mut self, id: &str) -> Option<Change> {
        let exit = *self.exit.borrow();
        let now = (self.output.total(), exit.is_some());
        let changed = std::mem::replace(&mut self.reported, now) != now;
        changed.then(|| (id.to_owned(), self.output.text().0, exit))
    }
}

impl Terminals {
    /// No terminals. Their commands will have these environment variables.
    pub fn new(environment: Vec<(OsString, OsString)>) -> Terminals {
        Terminals { environment, ..Terminals::default() }
    }

    /// Starts a command, for `terminal/create`. Without `cwd`, it runs in this folder.
    ///
    /// # Errors
    /// A JSON-RPC error: the parameters are invalid, or the command cannot be started.
    pub fn create(&mut self, folder: &Path, params: &Value) -> Result<Value, Value> {
        if self.terminals.len() >= MAX_TERMINALS {
            let why = format!("{MAX_TERMINALS} terminals are open; release one of them first");
            return Err(rpc_error::internal(&why));
        }
        let line = CommandLine::parse(folder, params)?;
        let terminal = start(&line, &self.environment).map_err(|error| {
            let why =
                format!("cannot run `{}` in {}: {error}", line.program, line.folder.display());
            rpc_error::internal(&why)
        })?;
        self.last_id += 1;
        let id = format!("terminal-{}", self.last_id);
        self.terminals.insert(id.clone(), terminal);
        Ok(json!({ "terminalId": id }))
    }

    /// The output and the exit status, for `terminal/output`.
    ///
    /// # Errors
    /// A JSON-RPC error: there is no such terminal.
    pub fn output(&self, params: &Value) -> Result<Value, Value> {
        let terminal = self.find(params)?;
        let exit = *terminal.exit.borrow();
        let (output, truncated) = terminal.output.text();
        let mut result = json!({ "output": output, "truncated": truncated });
        if let Some(exit) = exit {
            result["exitStatus"] = exit.to_json();
        }
        Ok(result)
    }

    /// Waits for the exit of the command, for `terminal/wait_for_exit`.
    ///
    /// # Errors
    /// A JSON-RPC error: there is no such terminal.
    pub fn wait_for_exit(
        &self,
        params: &Value,
    ) -> Result<impl Future<Output = Value> + Send + use<>, Value> {
        let mut exit = self.find(params)?.exit.clone();
        Ok(async move {
            match exit.wait_for(Option::is_some).await {
                Ok(exit) => exit.unwrap_or_default().to_json(),
                Err(_) => ExitStatus::default().to_json(),
            }
        })
    }

    /// Ends the command, for `terminal/kill`. Its output is kept.
    ///
    /// # Errors
    /// A JSON-RPC error: there is no such terminal.
    pub fn kill(&self, params: &Value) -> Result<Value, Value> {
        let terminal = self.find(params)?;
        if terminal.exit.borrow().is_some() {
            return Ok(json!({}));
        }
        terminal.process.terminate();
        let (process, mut exit) = (terminal.process.clone(), terminal.exit.clone());
        // Ends when the command has exited. The command is not reaped before the terminal is released, and a released
        // terminal is killed at once.
        tokio::spawn(async move {
            let exited = tokio::time::timeout(KILL_DELAY, exit.wait_for(Option::is_some));
            if exited.await.is_err() {
                process.kill();
            }
        });
        Ok(json!({}))
    }

    /// Kills all processes of the terminal and forgets it, for `terminal/release`.
    ///
    /// # Errors
    /// A JSON-RPC error: there is no such terminal.
    pub fn release(&mut self, params: &Value) -> Result<Value, Value> {
        self.find(params)?;
        self.remove(id_of(params));
        Ok(json!({}))
    }

    /// Kills all processes of all terminals and forgets them: nobody will release them.
    pub fn release_all(&mut self) {
        while let Some(id) = self.terminals.keys().next().cloned() {
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) {
        let Some(mut terminal) = self.terminals.remove(id) else { return };
        let change = match terminal.exit.borrow().is_some() {
            true => None,
            // It is killed when it is dropped.
            false => Some((id.to_owned(), terminal.output.text().0, Some(ExitStatus::killed()))),
        };
        self.unreported.extend(change.or_else(|| terminal.change(id)));
    }

    /// Whether there is a terminal with this id that is not released.
    pub fn is_open(&self, id: &str) -> bool {
        self.terminals.contains_key(id)
    }

    /// Whether [`Terminals::changed`] may have something new later: a command has not exited, or its last output was not
    /// reported.
    pub fn may_change(&self) -> bool {
        self.terminals.values().any(|it| !it.reported.1)
    }

    /// The terminals whose output or exit status has changed since the last call.
    pub fn changed(&mut self) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.unreported);
        changes.extend(self.terminals.iter_mut().filter_map(|(id, it)| it.change(id)));
        changes
    }

    fn find(&self, params: &Value) -> Result<&Terminal, Value> {
        self.terminals.get(id_of(params)).ok_or_else(|| {
            rpc_error::invalid_params(&format!("there is no terminal `{}`", id_of(params)))
        })
    }
}

fn id_of(params: &Value) -> &str {
    params["terminalId"].as_str().unwrap_or_default()
}

/// The command of a terminal.
#[derive(Debug, PartialEq, Eq)]
struct CommandLine {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
    limit: usize,
}

impl CommandLine {
    fn parse(folder: &Path, params: &Value) -> Result<CommandLine, Value> {
        let Some(command) = params["command"].as_str().filter(|it| !it.trim().is_empty()) else {
            return Err(rpc_error::invalid_params("`command` is missing"));
        };
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let arguments: Vec<String> = array(&params["args"]).iter().map(text).collect();
        let environment = array(&params["env"]);
        let environment = environment.iter().map(|it| (text(&it["name"]), text(&it["value"])));
        let folder = match params["cwd"].as_str() {
            None => folder.to_owned(),
            Some(cwd) if Path::new(cwd).is_absolute() => PathBuf::from(cwd),
            Some(cwd) => {
                return Err(rpc_error::invalid_params(&format!("`cwd` must be absolute: {cwd}")));
            }
        };
        if !folder.is_dir() {
            let why = format!("`cwd` is not a folder: {}", folder.display());
            return Err(rpc_error::invalid_params(&why));
        }
        let limit = params["outputByteLimit"].as_u64().and_then(|it| usize::try_from(it).ok());
        let (program, arguments) = with_shell(command, arguments);
        Ok(CommandLine {
            program,
            arguments,
            environment: environment.filter(|(name, _)| is_variable(name)).collect(),
            folder,
            limit: limit.unwrap_or(DEFAULT_LIMIT).min(DEFAULT_LIMIT),
        })
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Many agents send a command line for a shell as the command, without arguments. Some split it at its spaces, so that
/// the command is a word of the shell. A program whose path contains a space is run as it is.
fn with_shell(command: &str, arguments: Vec<String>) -> (String, Vec<String>) {
    let is_syntax = |it: char| it.is_whitespace() || "|&;<>()$`\"'*?~#".contains(it);
    let line = match arguments.is_empty() {
        true if command.contains(is_syntax) && !Path::new(command).is_file() => command.to_owned(),
        _ if SHELL_WORDS.contains(&command) => std::iter::once(command)
            .chain(arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" "),
        _ => return (command.to_owned(), arguments),
    };
    let (shell, option) = match (cfg!(windows), Path::new("/bin/bash").exists()) {
        (true, _) => ("cmd", "/C"),
        (false, true) => ("/bin/bash", "-c"),
        (false, false) => ("/bin/sh", "-c"),
    };
    (shell.to_owned(), vec![option.to_owned(), line])
}

/// The command of `terminal/create` as one writes it in a shell, with its environment variables: exactly what runs.
pub fn shown_command(params: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let command = text(&params["command"]);
    let arguments: Vec<String> =
        params["args"].as_array().into_iter().flatten().map(text).collect();
    let environment = params["env"].as_array().into_iter().flatten();
    let environment: Vec<(String, String)> = environment
        .map(|it| (text(&it["name"]), text(&it["value"])))
        .filter(|(name, _)| is_variable(name))
        .collect();
    let (program, words) = with_shell(&command, arguments.clone());
    match words.last().filter(|_| program != command || words != arguments) {
        Some(line) => with_variables(&environment, line, true),
        None => {
            let words = std::iter::once(command.as_str()).chain(words.iter().map(String::as_str));
            with_variables(&environment, &quoted_words(words), false)
        }
    }
}

/// A command with its environment variables. In front of a line, they are exported: they hold for all of its commands.
pub fn with_variables(variables: &[(String, String)], command: &str, is_line: bool) -> String {
    if variables.is_empty() {
        return command.to_owned();
    }
    let variables = variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    let variables = variables.collect::<Vec<_>>().join(" ");
    match is_line {
        true => format!("export {variables}; {command}"),
        false => format!("{variables} {command}"),
    }
}

/// Words as one writes them in a shell.
pub fn quoted_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_@%+=:,./-".contains(it);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn start(line: &CommandLine, environment: &[(OsString, OsString)]) -> io::Result<Terminal> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(&line.program);
    command.args(&line.arguments).current_dir(&line.folder);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.envs(line.environment.iter().map(|(name, value)| (name, value)));
    // One pipe for both, so that lines of both keep their order.
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let process = Process::start(&mut command)?;
    // The command still has the writing end of the pipe.
    drop(command);
    let output = SharedOutput::new(line.limit);
    let (output_ended, has_ended) = mpsc::channel::<()>();
    let shared = output.clone();
    std::thread::spawn(move || {
        shared.read(reader);
        drop(output_ended);
    });
    let (release, released) = mpsc::channel::<()>();
    let (sender, exit) = watch::channel(None);
    let waiting = process.clone();
    std::thread::spawn(move || {
        let status = waiting.wait();
        // An error means that the output has ended, or the timeout.
        let _ = has_ended.recv_timeout(OUTPUT_TIMEOUT);
        let _ = sender.send(Some(status));
        // An error means that the terminal is released.
        let _ = released.recv();
        waiting.reap();
    });
    Ok(Terminal { process, output, exit, reported: (0, false), _release: release })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_without_arguments_runs_in_a_shell() {
        let shell = |command: &str, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            with_shell(command, arguments.clone()) != (command.to_owned(), arguments)
        };
        assert!(shell("cargo test | head", &[]) && shell("ls *", &[]));
        assert!(shell("cd", &["sub", "&&", "ls"]));
        assert!(!shell("ls", &[]) && !shell("my program", &["a"]));
    }

    #[test]
    fn a_command_is_shown_as_it_runs() {
        let shown = |params: Value| shown_command(&params);
        assert_eq!(
            shown(json!({ "command": "rm", "args": ["-rf", "a b", "", "it's"] })),
            r"rm -rf 'a b' '' 'it'\''s'"
        );
        assert_eq!(
            shown(json!({ "command": "sh", "args": ["-c", "ls; rm x"] })),
            "sh -c 'ls; rm x'"
        );
        assert_eq!(shown(json!({ "command": "make && ls" })), "make && ls");
        assert_eq!(shown(json!({ "command": "cd", "args": ["sub", "&&", "ls"] })), "cd sub && ls");
        let env = json!([{ "name": "A", "value": "b c" }, { "name": "", "value": "x" }]);
        assert_eq!(shown(json!({ "command": "ls", "env": env })), "A='b c' ls");
        assert_eq!(shown(json!({ "command": "ls | wc", "env": env })), "export A='b c'; ls | wc");
    }

    #[test]
    fn parameters_of_a_command_are_checked() {
        let folder = std::env::temp_dir();
        let parse = |params: Value| CommandLine::parse(&folder, &params);
        assert!(parse(json!({})).is_err() && parse(json!({ "command": " " })).is_err());
        assert!(parse(json!({ "command": "ls", "cwd": "relative" })).is_err());
        assert!(parse(json!({ "command": "ls", "cwd": "/not/there" })).is_err());
        let env = json!([{ "name": "A", "value": "b" }, { "name": "", "value": "" }]);
        let line = parse(json!({ "command": "ls", "args": ["-l"], "env": env })).expect("valid");
        assert_eq!((line.program.as_str(), line.arguments.len()), ("ls", 1));
        assert_eq!(line.environment, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(line.folder, folder);
    }
}
