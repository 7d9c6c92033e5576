//! The tool uses of a turn: what hooks have decided about each, so that a hook runs once for a tool call.
//!
//! An agent may ask for permission, then write a file or create a terminal for the same call. The later request has no
//! id of the call. It belongs to the call if it does what hooks have seen: the same command, or the same path.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use acp_wire::ErrorKind;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::occasion::tool_input;
use super::reply::Decision;
use super::settings::Hook;
use component_base::action::{Action, At, CommandLine};

/// How many uses of a turn are remembered.
const MAX_USES: usize = 128;

/// The directories of the shells of a system.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// What the scripts of hooks see of an action, to recognise it. An agent may describe more than they see. That does not
/// count, because no hook has decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    tool: String,
    /// The hash of all arguments.
    input: [u8; 32],
    directory: PathBuf,
    /// The command line of a terminal.
    command: Option<String>,
    /// The file of a tool that reads or writes one.
    path: Option<PathBuf>,
    /// Whether the path is relative to the directory.
    is_relative: bool,
    /// The hash of the content of a file that is written.
    content: Option<[u8; 32]>,
}

impl Subject {
    pub(crate) fn of(action: &Action) -> Subject {
        let input = tool_input(action);
        let tool = action.tool.common.as_str();
        let is_file = matches!(tool, "Read" | "Write" | "Edit" | "MultiEdit");
        let text = |name: &str| input[name].as_str();
        let path = text("file_path").filter(|_| is_file);
        Subject {
            command: text("command").filter(|_| tool == "Bash").map(|it| it.trim().to_owned()),
            path: path.map(|it| resolved(&action.cwd.join(it))),
            is_relative: path.is_some_and(|it| Path::new(it).is_relative()),
            content: text("content").filter(|_| is_file).map(|it| hash(it.as_bytes())),
            directory: resolved(&action.cwd),
            input: hash(input.to_string().as_bytes()),
            tool: tool.to_owned(),
        }
    }

    /// Whether the tool writes a file.
    fn writes(&self) -> bool {
        matches!(self.tool.as_str(), "Write" | "Edit" | "MultiEdit")
    }

    /// Whether a request at this place does what this subject says.
    fn covers(&self, at: At, request: &Subject) -> bool {
        let is_same_path = self.path.is_some()
            && self.path == request.path
            && (!self.is_relative || self.directory == request.directory);
        match at {
            At::CreateTerminal => self.command.is_some() && self.command == request.command,
            At::ReadTextFile => is_same_path,
            At::WriteTextFile => {
                is_same_path
                    && self.writes()
                    && (self.content.is_none() || self.content == request.content)
            }
            At::McpCall => self.tool == request.tool && self.input == request.input,
            At::PermissionRequest => self == request,
        }
    }
}

/// The script in a command such as `bash -lc SCRIPT`. A program of another directory that is called like a shell may
/// do anything.
pub(crate) fn script(command: &CommandLine) -> Option<&str> {
    let CommandLine::Program { program, args } = command else { return None };
    let path = Path::new(program);
    let directory = path.parent()?.to_str()?;
    let is_of_system = directory.is_empty() || SYSTEM_DIRECTORIES.contains(&directory);
    let name = path.file_name()?.to_str()?;
    let is_shell = is_of_system && matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh");
    match args.as_slice() {
        [option, script] if is_shell && matches!(option.as_str(), "-c" | "-lc" | "-ec") => {
            Some(script)
        }
        _ => None,
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The path in a form that can be compared. `..` after a symbolic link leads elsewhere than the text says, so such a path
/// is looked up. If that fails, the path is equal only to itself.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let path: PathBuf = path.components().filter(|it| *it != Component::CurDir).collect();
    if !path.components().any(|it| it == Component::ParentDir) {
        return path;
    }
    let (folder, name) = (path.parent().and_then(|it| it.canonicalize().ok()), path.file_name());
    match (folder, name) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.canonicalize().unwrap_or(path),
    }
}

/// What hooks have decided about a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decided {
    pub(crate) decision: Option<Decision>,
    pub(crate) reason: String,
    /// The kind of the error, if it is a denial.
    pub(crate) kind: ErrorKind,
}

impl Default for Decided {
    fn default() -> Decided {
        Decided { decision: None, reason: String::new(), kind: ErrorKind::BlockedByHook }
    }
}

impl Decided {
    pub(crate) fn denied(reason: impl Into<String>) -> Decided {
        let reason = reason.into();
        Decided { decision: Some(Decision::Deny), reason, ..Decided::default() }
    }

    fn is_denied(&self) -> bool {
        self.decision == Some(Decision::Deny)
    }
}

/// A part of a tool call, and the hooks that have run for it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) subject: Subject,
    pub(crate) ran: Vec<Arc<Hook>>,
}

impl Part {
    /// Whether all these hooks have run.
    fn has_run(&self, hooks: &[Arc<Hook>]) -> bool {
        hooks.iter().all(|hook| self.ran.iter().any(|it| Arc::ptr_eq(it, hook)))
    }
}

/// A tool call of the current turn.
#[derive(Debug, Clone)]
pub(crate) struct ToolUse {
    pub(crate) id: String,
    parts: Vec<Part>,
    decided: Option<Decided>,
    /// Whether the call was allowed, by a hook or by the user. Until then, and after the user has rejected it, hooks
    /// run again if the agent nevertheless goes on.
    is_allowed: bool,
    /// The files that the call has written, if hooks have not seen their content before.
    written: Vec<PathBuf>,
    /// The arguments that a hook wants instead.
    pub(crate) updated_input: Option<Value>,
    /// Whether these arguments were used.
    pub(crate) is_updated: bool,
    /// Whether the hooks that run after the call have run.
    pub(crate) is_reported: bool,
    /// When the call was first seen.
    pub(crate) started: Instant,
}

impl ToolUse {
    fn new(id: &str, now: Instant) -> ToolUse {
        ToolUse {
            id: id.to_owned(),
            parts: Vec::new(),
            decided: None,
            is_allowed: false,
            written: Vec::new(),
            updated_input: None,
            is_updated: false,
            is_reported: false,
            started: now,
        }
    }

    fn is_about(&self, subjects: &[Subject]) -> bool {
        self.parts.iter().map(|it| &it.subject).eq(subjects)
    }

    fn is_denied(&self) -> bool {
        self.decided.as_ref().is_some_and(Decided::is_denied)
    }
}

/// The tool calls of the current turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolUses(VecDeque<ToolUse>);

impl ToolUses {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The call with this id. It is added if it is not known.
    pub(crate) fn announce(
        &mut self,
        id: &str,
        subject: Option<Subject>,
        now: Instant,
    ) -> &mut ToolUse {
        let index = match self.0.iter().position(|it| it.id == id) {
            Some(index) => index,
            None => {
                if self.0.len() == MAX_USES {
                    self.0.pop_front();
                }
                self.0.push_back(ToolUse::new(id, now));
                self.0.len() - 1
            }
        };
        let found = &mut self.0[index];
        // What hooks have decided about stays as they have seen it.
        if let Some(subject) = subject.filter(|_| found.decided.is_none()) {
            found.parts = vec![Part { subject, ran: Vec::new() }];
        }
        found
    }

    /// What hooks have decided about the call with this id, if it still does the same.
    pub(crate) fn decided(&self, id: &str, subjects: &[Subject]) -> Option<Decided> {
        let found = self.0.iter().find(|it| it.id == id)?;
        found.decided.clone().filter(|_| found.is_about(subjects))
    }

    /// Remembers what hooks have decided about a call. Unless they have denied it, the decision is used after
    /// [`ToolUses::answer`].
    pub(crate) fn decide(
        &mut self,
        id: &str,
        parts: Vec<Part>,
        decided: Decided,
        updated_input: Option<Value>,
    ) {
        let found = self.announce(id, None, Instant::now());
        found.parts = parts;
        found.decided = Some(decided);
        found.is_allowed = false;
        found.updated_input = updated_input;
        found.is_updated = false;
    }

    /// The permission request about a call was answered. The call may do something else by now: then this is not the
    /// answer for it.
    pub(crate) fn answer(&mut self, id: &str, subjects: &[Subject], is_allowed: bool) {
        if let Some(found) = self.0.iter_mut().find(|it| it.id == id && it.is_about(subjects)) {
            found.is_allowed = is_allowed;
        }
    }

    /// A hook wants other arguments for the call with this id.
    pub(crate) fn update(&mut self, id: &str, input: Option<Value>) {
        if let Some(found) = self.0.iter_mut().find(|it| it.id == id) {
            found.updated_input = input.or(found.updated_input.take());
        }
    }

    /// The arguments that a hook wants for the call with this id.
    pub(crate) fn updated_input(&self, id: &str) -> Option<Value> {
        self.0.iter().find(|it| it.id == id)?.updated_input.clone()
    }

    /// The tool of the last call that a request may belong to.
    pub(crate) fn tool_of(&self, at: At, request: &Subject) -> Option<String> {
        let mut parts = self.0.iter().rev().flat_map(|it| &it.parts);
        parts.find(|it| it.subject.covers(at, request)).map(|it| it.subject.tool.clone())
    }

    /// The call that a request belongs to: one that hooks have decided about, or else one that the agent has
    /// announced. `hooks` are those that would run for the request.
    pub(crate) fn find(
        &mut self,
        at: At,
        request: &Subject,
        hooks: &[Arc<Hook>],
    ) -> Option<FoundUse> {
        let mut fitting = Vec::new();
        for (index, known) in self.0.iter().enumerate() {
            let parts = known.parts.iter().enumerate();
            let parts = parts.filter(|(_, part)| part.subject.covers(at, request));
            fitting.extend(parts.map(|(part, _)| (index, part)));
        }
        let Some((index, part)) = self.decided_among(&fitting, at, request, hooks) else {
            let (index, _) = fitting.last()?;
            let id = self.0[*index].id.clone();
            return Some(FoundUse { id, decided: None, updated_input: None });
        };
        let found = &mut self.0[index];
        let decided = found.decided.clone();
        // A call that writes a file may read it before. The arguments are not for that.
        let is_same_tool = found.parts[part].subject.tool == request.tool;
        let updated_input = found.updated_input.clone().filter(|_| is_same_tool);
        found.is_updated |= updated_input.is_some();
        match at {
            _ if found.is_denied() => {}
            // Each terminal needs a decision of its own.
            At::CreateTerminal => {
                found.parts.remove(part);
                if found.parts.is_empty() {
                    (found.decided, found.updated_input) = (None, None);
                }
            }
            // So does each content that hooks have not seen.
            At::WriteTextFile if found.parts[part].subject.content.is_none() => {
                found.written.extend(request.path.clone());
            }
            _ => {}
        }
        Some(FoundUse { id: found.id.clone(), decided, updated_input })
    }

    /// The part of a call that decides about a request: of the last call if hooks have denied it, or else of the first
    /// call that they have not denied. Calls with the same content decide before calls whose content is not known.
    fn decided_among(
        &self,
        fitting: &[(usize, usize)],
        at: At,
        request: &Subject,
        hooks: &[Arc<Hook>],
    ) -> Option<(usize, usize)> {
        let is_written = |it: &ToolUse| request.path.iter().any(|path| it.written.contains(path));
        let is_decided = |&(index, part): &(usize, usize)| {
            let (known, part) = (&self.0[index], &self.0[index].parts[part]);
            let is_same_place =
                at != At::CreateTerminal || part.subject.directory == request.directory;
            let is_new_content = at == At::WriteTextFile && is_written(known);
            // A denial holds for every tool that does the same. To pass, the hooks of this tool must have run.
            let has_passed = || {
                known.decided.is_some()
                    && known.is_allowed
                    && part.has_run(hooks)
                    && !is_new_content
            };
            is_same_place && (known.is_denied() || has_passed())
        };
        let mut decided: Vec<_> = fitting.iter().copied().filter(is_decided).collect();
        let is_exact =
            |&(index, part): &(usize, usize)| self.0[index].parts[part].subject.content.is_some();
        if at == At::WriteTextFile && decided.iter().any(is_exact) {
            decided.retain(is_exact);
        }
        let last = *decided.last()?;
        match self.0[last.0].is_denied() {
            true => Some(last),
            false => decided.into_iter().find(|(index, _)| !self.0[*index].is_denied()),
        }
    }

    /// Whether the call with this id writes files.
    pub(crate) fn is_write(&self, id: &str) -> bool {
        let mut uses = self.0.iter().filter(|it| it.id == id);
        uses.any(|it| it.parts.iter().any(|part| part.subject.writes()))
    }

    /// Whether hooks have denied the call with this id, so that it does not run.
    pub(crate) fn is_denied(&self, id: &str) -> bool {
        self.0.iter().any(|it| it.id == id && it.is_denied())
    }

    /// Marks that the hooks after the call with this id have run, or will run. Returns whether they have not run before.
    pub(crate) fn report(&mut self, id: &str) -> bool {
        match self.0.iter_mut().find(|it| it.id == id) {
            Some(found) => !std::mem::replace(&mut found.is_reported, true),
            None => true,
        }
    }
}

/// The call that a request belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FoundUse {
    pub(crate) id: String,
    pub(crate) decided: Option<Decided>,
    pub(crate) updated_input: Option<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use component_base::action::{Operation, ToolName};

    fn action(at: At, tool: &str, input: Value) -> Action {
        Action {
            session: "s".into(),
            at,
            call: None,
            tool: ToolName { native: None, common: tool.into() },
            kind: None,
            input,
            operations: Vec::new(),
            opaque: false,
            cwd: "/project".into(),
        }
    }

    fn subject(tool: &str, input: Value) -> Subject {
        Subject::of(&action(At::PermissionRequest, tool, input))
    }

    fn run(command: &str) -> Subject {
        subject("Bash", json!({ "command": command }))
    }

    fn passed() -> Decided {
        Decided::default()
    }

    impl ToolUses {
        /// Hooks have let a call pass that has this part, and the user has allowed it.
        fn pass(&mut self, id: &str, subject: &Subject) {
            self.decide_with(id, subject, passed());
            self.answer(id, std::slice::from_ref(subject), true);
        }

        fn decide_with(&mut self, id: &str, subject: &Subject, decided: Decided) {
            let part = Part { subject: subject.clone(), ran: Vec::new() };
            self.decide(id, vec![part], decided, None);
        }

        fn decision(&mut self, at: At, request: &Subject) -> Option<Decided> {
            self.find(at, request, &[])?.decided
        }
    }

    #[test]
    fn a_terminal_belongs_to_the_call_with_its_command_once() {
        let mut uses = ToolUses::default();
        uses.pass("t1", &run("git status"));
        assert_eq!(uses.find(At::CreateTerminal, &run("git push"), &[]), None);
        let args = vec!["-lc".to_owned(), "git status".to_owned()];
        let shell = CommandLine::Program { program: "/bin/bash".into(), args };
        let mut same = action(At::CreateTerminal, "Bash", json!({ "command": shell.to_string() }));
        same.operations = vec![Operation::Run(shell)];
        let same = Subject::of(&same);
        let found = uses.find(At::CreateTerminal, &same, &[]).expect("the same command");
        assert_eq!((found.id.as_str(), found.decided), ("t1", Some(passed())));
        let again = uses.find(At::CreateTerminal, &same, &[]);
        assert_eq!(again, None, "the second time it is a new call");
    }

    #[test]
    fn only_the_shells_of_the_system_are_opened() {
        let opened = |program: &str| {
            let args = vec!["-c".to_owned(), "ls".to_owned()];
            script(&CommandLine::Program { program: program.into(), args }).is_some()
        };
        assert!(opened("bash") && opened("/bin/sh") && opened("/usr/bin/zsh"));
        assert!(!opened("./bash") && !opened("evil/bash") && !opened("/tmp/sh") && !opened("ls"));
    }

    #[test]
    fn a_file_belongs_to_the_call_with_its_path_and_content() {
        let write = |path: &str, text: &str| {
            subject("Write", json!({ "file_path": path, "content": text }))
        };
        let read = |path: &str| subject("Read", json!({ "file_path": path }));
        let mut uses = ToolUses::default();
        uses.pass("t1", &write("src/a.rs", "x"));
        for (path, content, fits) in [
            ("/project/src/a.rs", "x", true),
            ("/project/./src/a.rs", "x", true),
            ("/project/src/b.rs", "x", false),
            ("/project/src/a.rs", "y", false),
            // `src` may be a link.
            ("/project/src/../src/a.rs", "x", false),
        ] {
            let found = uses.find(At::WriteTextFile, &write(path, content), &[]);
            assert_eq!(found.is_some(), fits, "{path} {content}");
        }
        assert!(uses.find(At::ReadTextFile, &read("/project/src/a.rs"), &[]).is_some());
        assert!(uses.find(At::ReadTextFile, &read("/project/.env"), &[]).is_none());
        assert!(uses.is_write("t1"));
    }

    #[test]
    fn a_path_with_two_dots_is_compared_after_a_look_at_the_links() {
        let folder = std::env::temp_dir().canonicalize().unwrap();
        let inside = folder.join(format!("uses-{}", std::process::id()));
        std::fs::create_dir_all(&inside).unwrap();
        let name = inside.file_name().unwrap();
        assert_eq!(resolved(&inside.join("../a")), folder.join("a"));
        assert_eq!(resolved(&folder.join(name).join("../").join(name)), inside);
        std::fs::remove_dir(&inside).unwrap();
    }

    #[test]
    fn a_file_that_a_call_deletes_is_not_a_file_that_it_writes() {
        let mut uses = ToolUses::default();
        uses.pass("t1", &run("rm -- /project/a"));
        let write = subject("Write", json!({ "file_path": "/project/a", "content": "x" }));
        assert_eq!(uses.find(At::WriteTextFile, &write, &[]), None);
    }

    #[test]
    fn a_terminal_in_another_directory_is_not_decided() {
        let mut uses = ToolUses::default();
        uses.pass("t1", &run("rm -r *"));
        let mut elsewhere = action(At::CreateTerminal, "Bash", json!({ "command": "rm -r *" }));
        elsewhere.cwd = "/".into();
        let found = uses.find(At::CreateTerminal, &Subject::of(&elsewhere), &[]);
        assert_eq!(found.map(|it| (it.id, it.decided)), Some(("t1".to_owned(), None)));
    }

    #[test]
    fn a_later_decision_about_the_same_command_wins() {
        let same = run("git push");
        let mut uses = ToolUses::default();
        uses.decide_with("t1", &same, Decided::denied("no"));
        uses.pass("t2", &same);
        assert_eq!(uses.decision(At::CreateTerminal, &same), Some(passed()));
        let mut uses = ToolUses::default();
        uses.pass("t1", &same);
        uses.decide_with("t2", &same, Decided::denied("no"));
        assert_eq!(uses.decision(At::CreateTerminal, &same), Some(Decided::denied("no")));
    }

    #[test]
    fn a_call_that_was_not_allowed_is_not_decided() {
        let mut uses = ToolUses::default();
        let asked = run("ls");
        uses.decide_with("t1", &asked, passed());
        assert_eq!(uses.decision(At::CreateTerminal, &asked), None, "the user is still asked");
        uses.answer("t1", &[run("other")], true);
        assert_eq!(uses.decision(At::CreateTerminal, &asked), None, "the answer is for another");
        uses.answer("t1", std::slice::from_ref(&asked), false);
        assert_eq!(uses.decision(At::CreateTerminal, &asked), None, "the user has rejected it");
        uses.answer("t1", std::slice::from_ref(&asked), true);
        assert_eq!(uses.decision(At::CreateTerminal, &asked), Some(passed()));
    }

    #[test]
    fn a_second_content_of_an_edited_file_is_not_decided() {
        let mut uses = ToolUses::default();
        let edit = json!({ "file_path": "a.rs", "old_string": "x", "new_string": "y" });
        uses.pass("t1", &subject("Edit", edit));
        let mut decided = |content: &str| {
            let request = json!({ "file_path": "/project/a.rs", "content": content });
            let request = subject("Write", request);
            uses.find(At::WriteTextFile, &request, &[]).expect("the same file").decided
        };
        assert_eq!(decided("the whole file"), Some(passed()));
        assert_eq!(decided("another content"), None);
    }

    #[test]
    fn a_call_that_asks_again_for_something_else_is_not_decided() {
        let mut uses = ToolUses::default();
        let fetch = |url: &str| [subject("WebFetch", json!({ "url": url }))];
        let [first] = fetch("http://a");
        uses.pass("t1", &first);
        assert_eq!(uses.decided("t1", &fetch("http://a")), Some(passed()));
        assert_eq!(uses.decided("t1", &fetch("http://b")), None);
    }

    #[test]
    fn the_memory_for_tool_uses_is_bounded() {
        let mut uses = ToolUses::default();
        for number in 0..10 * MAX_USES {
            uses.announce(&number.to_string(), None, Instant::now());
        }
        assert_eq!(uses.0.len(), MAX_USES);
    }
}
