//! The operations of a tool call: what it runs, reads, writes, deletes and fetches.

use std::path::{Path, PathBuf};

use acp_proxy::schema::ToolKind;
use serde_json::{Map, Value};

use super::input::{Diff, FILE_KEYS};
use super::{CommandLine, Operation};

/// What a tool does, by its name and by the kind that the agent reports. Both count: neither hides the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Class {
    runs: bool,
    reads: bool,
    writes: bool,
    deletes: bool,
    moves: bool,
    fetches: bool,
    searches: bool,
}

impl Class {
    pub(super) fn of(tool: Option<&str>, kind: Option<ToolKind>) -> Class {
        let is = |name: &[&str]| tool.is_some_and(|tool| name.contains(&tool));
        let of_kind = |it: ToolKind| kind == Some(it);
        Class {
            runs: is(&["Bash"]) || of_kind(ToolKind::Execute),
            reads: is(&["Read"]) || of_kind(ToolKind::Read),
            writes: is(&["Write", "Edit", "MultiEdit", "NotebookEdit"]) || of_kind(ToolKind::Edit),
            deletes: of_kind(ToolKind::Delete),
            moves: of_kind(ToolKind::Move),
            fetches: is(&["WebFetch"]) || of_kind(ToolKind::Fetch) && !is(&["WebSearch"]),
            searches: is(&["Grep", "Glob", "LS"]) || of_kind(ToolKind::Search),
        }
    }

    /// Whether it is known what the tool does.
    pub(super) fn is_known(self) -> bool {
        self != Class::default()
    }

    /// Whether the tool only runs commands.
    pub(super) fn only_runs(self) -> bool {
        self == Class { runs: true, ..Class::default() }
    }
}

/// The operations of a tool call, collected from everything that describes it.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) list: Vec<Operation>,
    /// Whether an argument could not be read.
    pub(super) has_unreadable: bool,
}

impl Operations {
    pub(super) fn add(&mut self, operation: Operation) {
        if !self.list.contains(&operation) {
            self.list.push(operation);
        }
    }

    /// The operation of the tool on a file.
    pub(super) fn add_path(&mut self, class: Class, path: &Path) {
        let path = path.to_path_buf();
        let is_unknown = !class.is_known();
        if class.writes || class.moves || is_unknown {
            self.add(Operation::Write(path.clone()));
        }
        if class.deletes || class.moves {
            self.add(Operation::Delete(path.clone()));
        }
        if class.reads || class.searches || is_unknown {
            self.add(Operation::Read(path));
        }
    }

    /// The operations in the arguments of the tool.
    pub(super) fn add_arguments(&mut self, class: Class, arguments: &Map<String, Value>) {
        if self.add_editor_command(arguments) {
            return;
        }
        self.add_command(arguments);
        let urls = ["url", "urls"].iter().filter_map(|key| arguments.get(*key));
        for url in urls.flat_map(texts) {
            self.add(Operation::Fetch(url.to_owned()));
        }
        if class.only_runs() {
            return;
        }
        let class = match class.is_known() {
            true => class,
            // The arguments of an unknown tool have the text of a file: it writes.
            false if has_content(arguments) => Class { writes: true, ..Class::default() },
            false => class,
        };
        let keys = FILE_KEYS.iter().chain(&["paths", "files", "file_paths", "include"]);
        for path in keys.filter_map(|key| arguments.get(*key)).flat_map(texts) {
            self.add_path(class, Path::new(path));
        }
        if class.moves || class.writes {
            self.add_source_and_destination(arguments);
        }
        self.add_patch(arguments);
        if class.searches {
            self.add_pattern(arguments);
        }
    }

    /// The command in the arguments.
    pub(super) fn add_command(&mut self, arguments: &Map<String, Value>) {
        for key in ["command", "cmd"] {
            match arguments.get(key) {
                None | Some(Value::Null) => {}
                Some(value) => match command_line(value, arguments.get("args")) {
                    Some(command) => self.add(Operation::Run(command)),
                    None => self.has_unreadable = true,
                },
            }
        }
    }

    /// The files that the content and the locations of a tool call name.
    pub(super) fn add_files(&mut self, class: Class, diffs: &[Diff], locations: &[PathBuf]) {
        for diff in diffs {
            self.add(Operation::Write(diff.path.clone()));
        }
        if class.moves && locations.len() > 1 {
            self.add(Operation::Delete(locations[0].clone()));
            locations[1..].iter().for_each(|it| self.add(Operation::Write(it.clone())));
        } else if class.is_known() && !class.only_runs() {
            locations.iter().for_each(|it| self.add_path(class, it));
        }
    }

    /// Whether there is an operation of each sort that the tool has.
    pub(super) fn covers(&self, class: Class) -> bool {
        let any = |test: fn(&Operation) -> bool| self.list.iter().any(test);
        let writes = any(|it| matches!(it, Operation::Write(_) | Operation::Delete(_)));
        !self.has_unreadable
            && !self.list.is_empty()
            && class.is_known()
            && (!class.runs || any(|it| matches!(it, Operation::Run(_))))
            && (!class.reads && !class.searches || any(|it| matches!(it, Operation::Read(_))))
            && (!class.writes && !class.moves || writes)
            && (!class.deletes || any(|it| matches!(it, Operation::Delete(_))))
            && (!class.fetches || any(|it| matches!(it, Operation::Fetch(_))))
    }

    /// Editors of some agents have a subcommand in `command`: `{"command": "view", "path": …}`.
    fn add_editor_command(&mut self, arguments: &Map<String, Value>) -> bool {
        const WRITING: [&str; 6] =
            ["create", "write", "str_replace", "insert", "undo_edit", "edit"];
        let path = arguments.get("path").and_then(Value::as_str);
        let command = arguments.get("command").and_then(Value::as_str);
        let (Some(path), Some(command)) = (path, command) else { return false };
        let operation = match command {
            "view" => Operation::Read(path.into()),
            it if WRITING.contains(&it) => Operation::Write(path.into()),
            _ => return false,
        };
        self.add(operation);
        true
    }

    fn add_source_and_destination(&mut self, arguments: &Map<String, Value>) {
        let find = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(*key)?.as_str());
        if let Some(from) = find(&["source", "from", "old_path", "oldPath", "source_path"]) {
            self.add(Operation::Delete(from.into()));
        }
        if let Some(to) = find(&["destination", "to", "new_path", "newPath", "destination_path"]) {
            self.add(Operation::Write(to.into()));
        }
    }

    /// The files of a patch: `changes` by path, or a text with a line for each file.
    fn add_patch(&mut self, arguments: &Map<String, Value>) {
        if let Some(Value::Object(changes)) = arguments.get("changes") {
            for (path, change) in changes {
                self.add(Operation::Write(path.into()));
                let deletes = change.get("type").and_then(Value::as_str) == Some("delete");
                if deletes || change.get("delete").is_some() {
                    self.add(Operation::Delete(path.into()));
                }
                let moved = change.get("move_path").or_else(|| change.pointer("/update/move_path"));
                if let Some(path) = moved.and_then(Value::as_str) {
                    self.add(Operation::Write(path.into()));
                }
            }
        }
        let text = ["patch", "input", "diff"].iter().find_map(|key| arguments.get(*key)?.as_str());
        for (path, deletes) in files_of_patch(text.unwrap_or_default()) {
            self.add(match deletes {
                true => Operation::Delete(path.into()),
                false => Operation::Write(path.into()),
            });
        }
    }

    /// A search without a path searches the working directory. A pattern may leave it.
    fn add_pattern(&mut self, arguments: &Map<String, Value>) {
        let text = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(*key)?.as_str());
        let pattern = text(&["pattern", "glob"]);
        let is_path = |it: &&str| it.starts_with(['/', '~']) || it.contains("..");
        if let Some(pattern) = pattern.filter(is_path) {
            let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
            let fixed = fixed.rsplit_once('/').map_or(fixed, |(folder, _)| folder);
            self.add(Operation::Read(if fixed.is_empty() { "/" } else { fixed }.into()));
        }
        if !self.list.iter().any(|it| matches!(it, Operation::Read(_))) {
            self.add(Operation::Read(".".into()));
        }
        // A glob selects files in the folder of the search.
        if let Some(glob) = text(&["glob", "include"]).filter(|it| !it.starts_with('!')) {
            let folder = text(&FILE_KEYS).unwrap_or(".");
            self.add(Operation::Read(Path::new(folder).join(glob)));
        }
    }
}

/// The files that a patch of Codex names, and whether it deletes them.
pub fn files_of_patch(text: &str) -> Vec<(&str, bool)> {
    const LINES: [(&str, bool); 4] = [
        ("*** Add File: ", false),
        ("*** Update File: ", false),
        ("*** Move to: ", false),
        ("*** Delete File: ", true),
    ];
    let file = |line| {
        let of = |(prefix, deletes): &(&str, bool)| {
            Some((str::strip_prefix(line, prefix)?.trim(), *deletes))
        };
        LINES.iter().find_map(of)
    };
    match text.contains("*** Begin Patch") {
        true => text.lines().filter_map(file).collect(),
        false => Vec::new(),
    }
}

/// Whether the arguments have the text of a file.
fn has_content(arguments: &Map<String, Value>) -> bool {
    let keys =
        ["content", "file_text", "new_string", "new_str", "old_string", "old_str", "diff", "patch"];
    keys.iter().any(|key| arguments.contains_key(*key))
}

/// A text, the texts of a list, or the paths of a list of objects.
fn texts(value: &Value) -> Vec<&str> {
    fn path(value: &Value) -> Option<&str> {
        value.as_str().or_else(|| value.get("path")?.as_str())
    }
    match value {
        Value::Array(list) => list.iter().filter_map(path).collect(),
        Value::String(text) => vec![text],
        _ => Vec::new(),
    }
}

/// A command: a text for a shell, a list of words, or a program with a list of arguments.
fn command_line(command: &Value, args: Option<&Value>) -> Option<CommandLine> {
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let args = match args {
        None | Some(Value::Null) => Vec::new(),
        Some(args) => words(args)?,
    };
    match command {
        Value::String(text) if args.is_empty() => Some(CommandLine::Shell(text.clone())),
        Value::String(program) => Some(CommandLine::Program { program: program.clone(), args }),
        list => {
            let mut words = words(list)?.into_iter().chain(args);
            Some(CommandLine::Program { program: words.next()?, args: words.collect() })
        }
    }
}
