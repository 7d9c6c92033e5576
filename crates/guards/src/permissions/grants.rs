//! What was decided in a session, so that nobody is asked twice about the same action.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::command::parts::script_of_shell;
use super::command::programs::is_dangerous_variable;
use super::paths::resolve;
use component_base::action::{Action, CommandLine, Operation};

/// How many decisions are remembered for a session.
const MAX: usize = 64;

/// An operation that can be compared: paths are absolute, and a shell that only runs a command line is taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    operation: Operation,
    /// The working directory of a command.
    cwd: PathBuf,
    /// The variables of a command that decide which programs run.
    environment: Vec<(String, String)>,
    /// The SHA-256 of the arguments of an MCP tool.
    arguments: Option<[u8; 32]>,
}

impl Key {
    fn new(operation: &Operation, action: &Action) -> Key {
        let cwd = action.cwd.as_path();
        let absolute = |path: &Path| plain(&cwd.join(path));
        let (operation, cwd) = match operation {
            Operation::Run(command) => (Operation::Run(unwrapped(command)), plain(cwd)),
            Operation::Read(path) => (Operation::Read(absolute(path)), PathBuf::new()),
            Operation::Write(path) => (Operation::Write(absolute(path)), PathBuf::new()),
            Operation::Delete(path) => (Operation::Delete(absolute(path)), PathBuf::new()),
            other => (other.clone(), PathBuf::new()),
        };
        let mut environment = match operation {
            Operation::Run(_) => action.environment(),
            _ => Vec::new(),
        };
        environment.retain(|(name, _)| is_dangerous_variable(name));
        environment.sort();
        let arguments = match operation {
            Operation::Mcp { .. } => Some(hash(&action.input)),
            _ => None,
        };
        Key { operation, cwd, environment, arguments }
    }

    /// The key of the same operation with any arguments.
    fn with_any_arguments(self) -> Key {
        Key { arguments: None, ..self }
    }

    /// Whether a permission for this operation is used up by one use. A file may be read and written until its tool call
    /// ends.
    fn is_for_one_use(&self) -> bool {
        match self.operation {
            Operation::Run(_) | Operation::Fetch(_) | Operation::Mcp { .. } => true,
            Operation::Read(_) | Operation::Write(_) | Operation::Delete(_) => false,
        }
    }

    /// Whether the operation is on a file in this folder. Commands and addresses differ too much: only the same one counts.
    fn is_inside(&self, folder: &Path) -> bool {
        match &self.operation {
            Operation::Read(path) | Operation::Write(path) | Operation::Delete(path) => {
                resolve(path).starts_with(resolve(folder))
            }
            Operation::Mcp { .. } => true,
            Operation::Run(_) | Operation::Fetch(_) => false,
        }
    }
}

/// The SHA-256 of a JSON value. The order of members does not matter.
fn hash(value: &Value) -> [u8; 32] {
    fn add(value: &Value, digest: &mut Sha256) {
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(name, _)| name.as_str());
                digest.update(format!("object {} ", members.len()));
                for (name, value) in members {
                    digest.update(format!("{} {name}", name.len()));
                    add(value, digest);
                }
            }
            Value::Array(values) => {
                digest.update(format!("array {} ", values.len()));
                values.iter().for_each(|it| add(it, digest));
            }
            other => {
                let text = other.to_string();
                digest.update(format!("{} {text}", text.len()));
            }
        }
    }
    let mut digest = Sha256::new();
    match value {
        // No arguments.
        Value::Null => add(&Value::Object(Map::new()), &mut digest),
        value => add(value, &mut digest),
    }
    digest.finalize().into()
}

/// The path without `.`. A path with `..` is left as it is: without the file system it cannot be resolved.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|it| *it != Component::CurDir).collect()
}

/// The command line that a shell of the system runs: `ls` for `/bin/bash -c ls`.
fn unwrapped(command: &CommandLine) -> CommandLine {
    let CommandLine::Program { program, args } = command else { return command.clone() };
    match script_of_shell(program, args) {
        Some(line) => CommandLine::Shell(line.to_owned()),
        None => CommandLine::Shell(command.to_string()),
    }
}

/// What was allowed in a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants {
    granted: VecDeque<Grant>,
    /// The operations that were judged in this turn, whatever the decision.
    judged: VecDeque<Key>,
    /// The tools that the user has allowed for ever, by their common names.
    for_ever: Vec<String>,
    /// The operations that the user has allowed for the session.
    for_session: VecDeque<Key>,
    /// The tool calls about which a decision was made, and whether they were denied.
    calls: VecDeque<(String, bool)>,
    /// The tool calls that have ended in this turn.
    ended: VecDeque<String>,
}

#[derive(Debug, Clone)]
struct Grant {
    call: Option<String>,
    keys: Vec<Key>,
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == MAX {
        list.pop_front();
    }
    list.push_back(item);
}

fn keys(action: &Action) -> Vec<Key> {
    action.operations.iter().map(|it| Key::new(it, action)).collect()
}

impl Grants {
    /// A new turn begins: what was allowed once is over.
    pub(super) fn begin_turn(&mut self) {
        self.granted.clear();
        self.judged.clear();
        self.calls.clear();
        self.ended.clear();
    }

    /// A decision was made about an action.
    pub(super) fn judged(&mut self, action: &Action, is_denied: bool) {
        for key in keys(action) {
            push(&mut self.judged, key.with_any_arguments());
        }
        if let Some(call) = &action.call {
            self.goes_on(call);
            self.calls.retain(|(it, _)| it != call);
            push(&mut self.calls, (call.clone(), is_denied));
        }
    }

    /// An action was allowed once, at its permission request.
    pub(super) fn allowed(&mut self, action: &Action) {
        let grant = Grant { call: action.call.clone(), keys: keys(action) };
        push(&mut self.granted, grant);
    }

    /// The user has allowed the tool of an action for ever.
    pub(super) fn allowed_for_ever(&mut self, action: &Action) {
        let tool = &action.tool.common;
        if !self.for_ever.contains(tool) && self.for_ever.len() < MAX {
            self.for_ever.push(tool.clone());
        }
        self.allowed_for_session(action);
    }

    /// The user has allowed the operations of an action for the session.
    pub(super) fn allowed_for_session(&mut self, action: &Action) {
        for key in keys(action) {
            push(&mut self.for_session, key);
        }
    }

    /// A tool call goes on. Its id may be that of a call that has ended.
    pub(super) fn goes_on(&mut self, call: &str) {
        self.ended.retain(|it| it != call);
    }

    /// A tool call has ended: what was allowed for it is over. Returns false if the agent repeats it.
    pub(super) fn ended(&mut self, call: &str) -> bool {
        self.granted.retain(|it| it.call.as_deref() != Some(call));
        let is_new = !self.ended.iter().any(|it| it == call);
        if is_new {
            push(&mut self.ended, call.to_owned());
        }
        is_new
    }

    /// Whether a decision was made about a tool call: denied or not. `None` if nobody was asked about it.
    pub(super) fn decision(&self, call: &str) -> Option<bool> {
        self.calls.iter().find(|(it, _)| it == call).map(|(_, is_denied)| *is_denied)
    }

    /// Whether all operations of an action were judged in this turn.
    pub(super) fn was_judged(&self, action: &Action) -> bool {
        // A report about a tool call need not repeat the arguments.
        let mut keys = keys(action).into_iter().map(Key::with_any_arguments).peekable();
        keys.peek().is_some() && keys.all(|key| self.judged.contains(&key))
    }

    /// Whether the user need not be asked about an action, because it was allowed before. `by_default`: no rule asks
    /// for it. A command or a call of an MCP tool that was allowed once runs once. What was allowed for ever holds inside the session's folder.
    pub(super) fn cover(&mut self, action: &Action, by_default: bool) -> bool {
        let keys = keys(action);
        if keys.is_empty() || action.opaque {
            return false;
        }
        if keys.iter().all(|key| self.for_session.contains(key)) {
            return true;
        }
        let is_for_ever = self.for_ever.contains(&action.tool.common);
        if by_default && is_for_ever && keys.iter().all(|key| key.is_inside(&action.cwd)) {
            return true;
        }
        let Some(index) = self.granted.iter().position(|grant| grant.covers(&keys, by_default))
        else {
            return false;
        };
        let grant = &mut self.granted[index];
        grant.keys.retain(|key| !(key.is_for_one_use() && keys.contains(key)));
        true
    }
}

impl Grant {
    fn covers(&self, keys: &[Key], by_default: bool) -> bool {
        keys.iter().all(|key| {
            // To change a file, the agent reads it.
            let written = match &key.operation {
                Operation::Read(path) if by_default => Some(Operation::Write(path.clone())),
                _ => None,
            };
            let is_written = |it: &Key| written.as_ref() == Some(&it.operation);
            self.keys.iter().any(|it| it == key || is_written(it))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::action::{At, ToolName};

    fn action(tool: &str, operations: &[Operation]) -> Action {
        Action {
            session: "s".into(),
            at: At::PermissionRequest,
            call: Some("t".into()),
            tool: ToolName { native: None, common: tool.into() },
            kind: None,
            input: Value::Null,
            operations: operations.to_vec(),
            opaque: false,
            cwd: "/project".into(),
        }
    }

    fn run(line: &str) -> Operation {
        Operation::Run(CommandLine::Shell(line.into()))
    }

    fn program(program: &str, args: &[&str]) -> Operation {
        let args = args.iter().map(|it| (*it).to_owned()).collect();
        Operation::Run(CommandLine::Program { program: program.into(), args })
    }

    #[test]
    fn a_command_that_was_allowed_once_runs_once_in_any_form() {
        let mut grants = Grants::default();
        grants.allowed(&action("Bash", &[run("ls -l")]));
        assert!(!grants.cover(&action("Bash", &[run("ls")]), true));
        assert!(grants.cover(&action("Bash", &[program("/bin/bash", &["-lc", "ls -l"])]), true));
        assert!(!grants.cover(&action("Bash", &[run("ls -l")]), true), "once");
        grants.allowed(&action("Bash", &[run("ls -l")]));
        assert!(grants.cover(&action("Bash", &[program("ls", &["-l"])]), true));
        grants.allowed(&action("Bash", &[run("ls")]));
        let elsewhere = Action { cwd: "/other".into(), ..action("Bash", &[run("ls")]) };
        assert!(!grants.cover(&elsewhere, true), "another directory is another command");
        let fake = program("/tmp/bash", &["-c", "ls"]);
        assert!(!grants.cover(&action("Bash", &[fake]), true), "not a shell of the system");
        for env in [
            serde_json::json!({ "PATH": "/tmp" }),
            serde_json::json!([{ "name": "LD_PRELOAD", "value": "/tmp/x" }]),
            serde_json::json!(["GIT_SSH_COMMAND=x"]),
        ] {
            let input = serde_json::json!({ "command": "ls", "env": env });
            let other = Action { input, ..action("Bash", &[run("ls")]) };
            assert!(!grants.cover(&other, true), "a variable decides which programs run");
        }
        assert!(!grants.cover(&Action { opaque: true, ..action("Bash", &[run("ls")]) }, true));
    }

    #[test]
    fn a_call_of_an_mcp_tool_that_was_allowed_once_runs_once_with_the_same_arguments() {
        let call = |input: Value| {
            let operation = Operation::Mcp { server: "kit".into(), tool: "send".into() };
            Action { input, ..action("mcp__kit__send", &[operation]) }
        };
        let first = call(serde_json::json!({ "to": "a", "list": [1, 2] }));
        let same = call(serde_json::json!({ "list": [1, 2], "to": "a" }));
        let mut grants = Grants::default();
        grants.allowed(&first);
        for other in [
            serde_json::json!({ "to": "b", "list": [1, 2] }),
            serde_json::json!({ "to": "a", "list": [2, 1] }),
            serde_json::json!({ "to": "a" }),
            serde_json::json!({}),
            Value::Null,
        ] {
            assert!(!grants.cover(&call(other.clone()), true), "{other}");
        }
        assert!(grants.cover(&same, true));
        assert!(!grants.cover(&same, true), "once");
        grants.allowed_for_session(&first);
        assert!(grants.cover(&same, false) && grants.cover(&same, false));
        assert!(!grants.cover(&call(serde_json::json!({ "to": "b" })), true));
        // A report about the call may have no arguments.
        grants.judged(&first, false);
        assert!(grants.was_judged(&call(Value::Null)));
    }

    #[test]
    fn a_file_that_may_be_written_may_be_read_until_the_call_ends() {
        let mut grants = Grants::default();
        grants.allowed(&action("Edit", &[Operation::Write("a".into())]));
        let read = action("Read", &[Operation::Read("/project/./a".into())]);
        assert!(grants.cover(&read, true));
        assert!(!grants.cover(&read, false), "a rule asks for it");
        let write = action("Write", &[Operation::Write("/project/a".into())]);
        assert!(grants.cover(&write, false) && grants.cover(&write, false));
        assert!(!grants.cover(&action("Write", &[Operation::Write("/project/b".into())]), true));
        grants.ended("t");
        assert!(!grants.cover(&write, true));
        grants.allowed(&write);
        grants.begin_turn();
        assert!(!grants.cover(&write, true));
    }

    #[test]
    fn a_tool_that_the_user_allows_for_ever_is_asked_about_only_by_rules_and_for_commands() {
        let mut grants = Grants::default();
        grants.allowed_for_ever(&action("Write", &[Operation::Write("a".into())]));
        grants.begin_turn();
        let other = action("Write", &[Operation::Write("b".into())]);
        assert!(grants.cover(&other, true));
        assert!(!grants.cover(&other, false));
        assert!(grants.cover(&action("Write", &[Operation::Write("a".into())]), false));
        for outside in ["/etc/passwd", "/project/../etc/passwd", "/projects/a"] {
            let other = action("Write", &[Operation::Write(outside.into())]);
            assert!(!grants.cover(&other, true), "{outside} is not in the session's folder");
        }
        grants.allowed_for_ever(&action("Bash", &[run("ls")]));
        assert!(grants.cover(&action("Bash", &[run("ls")]), true));
        assert!(!grants.cover(&action("Bash", &[run("rm -rf /")]), true));
    }

    #[test]
    fn the_memory_of_a_session_is_bounded() {
        let mut grants = Grants::default();
        for number in 0..1000 {
            let action = Action {
                call: Some(format!("t{number}")),
                ..action(&format!("T{number}"), &[run(&format!("echo {number}"))])
            };
            grants.judged(&action, false);
            grants.allowed(&action);
            grants.allowed_for_ever(&action);
        }
        assert_eq!(grants.granted.len(), MAX);
        let calls = grants.calls.len();
        (0..1000).for_each(|number| assert!(grants.ended(&format!("t{number}"))));
        let Grants { granted, judged, for_ever, for_session, calls: _, ended } = grants;
        let sizes = [judged.len(), for_ever.len(), for_session.len(), calls, ended.len()];
        assert_eq!((sizes, granted.len()), ([MAX; 5], 0));
    }
}
