//! Builds an [`Action`] from the message that asks for it.

use std::path::{Path, PathBuf};

use acp_proxy::schema::ToolKind;
use acp_proxy::{Call, Json, Permission, ToolCall};
use serde_json::{Map, Value, json};

use super::input::{self, Arguments};
use super::names::{self, McpName, nonempty};
use super::operations::{Class, Operations};
use super::{Action, At, CommandLine, Operation, SessionFacts, ToolName};
use crate::agents::AgentKind;

impl Action {
    /// The action that a permission request is about. The request is joined with what the agent has reported about
    /// the tool call before.
    pub fn of_permission(permission: &Permission, facts: &SessionFacts<'_>) -> Action {
        let params = permission.json();
        let subject = params.member("subject");
        let call = params.member("toolCall");
        let call = call.or_else(|| subject.as_ref()?.member("toolCall")).unwrap_or(Json::NULL);
        // The SDK has no tool call for a request that programs may read in several ways.
        let described = Described {
            session: permission.session(),
            call: if permission.tool_call().is_some() { &call } else { &Json::NULL },
            earlier: permission.earlier().map(ToolCall::json),
            kind: permission.kind(),
            id: permission.tool_call().and_then(ToolCall::id),
        };
        let is_command = |it: &&Json| it.member("type").is_some_and(|it| it.equals_text("command"));
        match subject.as_ref().filter(is_command).filter(|_| permission.tool_call().is_some()) {
            Some(command) => described.command(command, facts),
            None if permission.tool_call().is_none() => described.ambiguous(params, facts),
            None => described.action(At::PermissionRequest, facts),
        }
    }

    /// The action of a tool call that the agent reports.
    pub fn of_tool_call(call: &ToolCall, facts: &SessionFacts<'_>) -> Action {
        let (kind, id, session) = (call.kind(), call.id(), call.session());
        let described = Described { session, call: call.json(), earlier: None, kind, id };
        described.action(At::PermissionRequest, facts)
    }

    /// The action of a request to read or write a file, or to create a terminal. `None` if it is another request, or
    /// if it lacks a member that it must have.
    pub fn of_call(call: &Call, facts: &SessionFacts<'_>) -> Option<Action> {
        let params = call.params.as_ref()?;
        let at = [At::ReadTextFile, At::WriteTextFile, At::CreateTerminal];
        let at = at.into_iter().find(|at| call.is(at.method()))?;
        let session = params.member("sessionId")?.text()?.into_owned();
        match at {
            At::CreateTerminal => of_terminal(session, params, facts),
            _ => of_file(session, at, params, facts),
        }
    }

    /// The action of a call of an MCP tool.
    pub fn of_mcp_call(
        session: &str,
        server: &str,
        tool: &str,
        arguments: Value,
        facts: &SessionFacts<'_>,
    ) -> Action {
        let common = McpName::new(server, tool).common();
        Action {
            session: session.to_owned(),
            at: At::McpCall,
            call: None,
            tool: ToolName { native: Some(tool.to_owned()), common },
            kind: None,
            input: arguments,
            operations: vec![Operation::Mcp { server: server.into(), tool: tool.into() }],
            opaque: false,
            cwd: facts.cwd.to_path_buf(),
        }
    }
}

fn of_file(session: String, at: At, params: &Json, facts: &SessionFacts<'_>) -> Option<Action> {
    let path = nonempty(&params.member("path")?)?;
    let value = |key: &str| -> Option<Value> {
        serde_json::from_slice(params.member(key)?.as_bytes())
            .ok()
            .filter(|it: &Value| !it.is_null())
    };
    let mut input = Map::from_iter([("file_path".to_owned(), json!(path))]);
    let mut add = |key: &str, value: Option<Value>| {
        value.into_iter().for_each(|value| drop(input.insert(key.to_owned(), value)));
    };
    let (name, kind, operation) = match at {
        At::WriteTextFile => {
            add("content", value("content"));
            ("Write", ToolKind::Edit, Operation::Write(path.into()))
        }
        _ => {
            add("offset", value("line"));
            add("limit", value("limit"));
            ("Read", ToolKind::Read, Operation::Read(path.into()))
        }
    };
    Some(Action {
        session,
        at,
        call: None,
        tool: ToolName { native: None, common: name.to_owned() },
        kind: Some(kind),
        input: Value::Object(input),
        operations: vec![operation],
        opaque: false,
        cwd: facts.cwd.to_path_buf(),
    })
}

fn of_terminal(session: String, params: &Json, facts: &SessionFacts<'_>) -> Option<Action> {
    let program = nonempty(&params.member("command")?)?;
    let args = params.member("args").filter(|it| !it.is_null());
    let args: Vec<String> = match args {
        Some(args) => serde_json::from_slice(args.as_bytes()).ok()?,
        None => Vec::new(),
    };
    // Agents send whole command lines in `command`, and editors run them with a shell.
    let command = match args.is_empty() {
        true => CommandLine::Shell(program),
        false => CommandLine::Program { program, args },
    };
    let mut input = Map::from_iter([("command".to_owned(), json!(command.to_string()))]);
    let variables = params.member("env").filter(|it| !it.is_null());
    if variables.as_ref().is_some_and(|it| !it.is_array()) {
        return None;
    }
    let mut environment = Map::new();
    for variable in variables.unwrap_or(Json::NULL).elements() {
        let text = |key: &str| Some(variable.member(key)?.text()?.into_owned());
        environment.insert(text("name")?, json!(text("value").unwrap_or_default()));
    }
    if !environment.is_empty() {
        input.insert("env".into(), Value::Object(environment));
    }
    let cwd = params.member("cwd").filter(|it| !it.is_null());
    let cwd = match cwd {
        Some(cwd) => facts.cwd.join(nonempty(&cwd)?),
        None => facts.cwd.to_path_buf(),
    };
    Some(Action {
        session,
        at: At::CreateTerminal,
        call: None,
        tool: ToolName { native: None, common: "Bash".into() },
        kind: Some(ToolKind::Execute),
        input: Value::Object(input),
        operations: vec![Operation::Run(command)],
        opaque: false,
        cwd,
    })
}

/// The descriptions of a tool call: that of the request, and that of the updates before it.
struct Described<'a> {
    session: &'a str,
    call: &'a Json,
    earlier: Option<&'a Json>,
    kind: Option<ToolKind>,
    id: Option<String>,
}

/// The name of the tool of a tool call.
struct Named {
    native: Option<String>,
    /// The name in Claude Code. `None` if it has no such tool.
    common: Option<&'static str>,
    mcp: Option<McpName>,
    /// Whether the agent gives the name in a member for it. The title may be written by the model.
    is_certain: bool,
}

impl Described<'_> {
    fn both(&self) -> impl Iterator<Item = &Json> {
        std::iter::once(self.call).chain(self.earlier)
    }

    fn titles(&self) -> Vec<String> {
        self.both().filter_map(|it| nonempty(&it.member("title")?)).collect()
    }

    /// A permission request of ACP version 2 about a command.
    fn command(&self, subject: &Json, facts: &SessionFacts<'_>) -> Action {
        let mut action = self.action(At::PermissionRequest, facts);
        let command = subject.member("command").as_ref().and_then(nonempty);
        let cwd = subject.member("cwd").as_ref().and_then(nonempty);
        action.cwd = cwd.map_or(action.cwd, |cwd| facts.cwd.join(cwd));
        action.tool.common = "Bash".into();
        action.opaque = command.is_none();
        if let Some(command) = command {
            action.input = json!({ "command": command });
            let run = Operation::Run(CommandLine::Shell(command));
            // The tool call may run the command in another form, such as a list of words.
            action.operations.retain(|it| *it != run);
            action.operations.insert(0, run);
        }
        action
    }

    /// A permission request that programs may read in several ways. The action has the operations of all of them, so
    /// that a rule can deny it. It stays opaque: no rule can allow it.
    fn ambiguous(&self, params: &Json, facts: &SessionFacts<'_>) -> Action {
        let mut action = self.action(At::PermissionRequest, facts);
        let named = |json: &Json, name: &str| -> Vec<Json> {
            let members = json.members().into_iter().filter(|(it, _)| it == name);
            members.map(|(_, value)| value).collect()
        };
        let subjects = named(params, "subject");
        let mut calls = named(params, "toolCall");
        calls.extend(subjects.iter().flat_map(|it| named(it, "toolCall")));
        for call in &calls {
            let kind =
                call.member("kind").and_then(|it| serde_json::from_slice(it.as_bytes()).ok());
            let id = call.member("toolCallId").as_ref().and_then(nonempty);
            let described = Described { session: self.session, call, earlier: None, kind, id };
            let read = described.action(At::PermissionRequest, facts);
            if action.operations.is_empty() {
                action = read;
            } else {
                action.operations.extend(read.operations);
            }
        }
        let commands = subjects.iter().flat_map(|it| named(it, "command"));
        let commands = commands.filter_map(|it| nonempty(&it)).map(CommandLine::Shell);
        action.operations.extend(commands.map(Operation::Run));
        action.opaque = true;
        action
    }

    fn action(&self, at: At, facts: &SessionFacts<'_>) -> Action {
        let arguments = self.arguments();
        let named = self.name(&arguments, facts);
        let cwd = facts.cwd.to_path_buf();
        let first = arguments.first().map(|it| it.members.clone()).unwrap_or_default();
        let mut action = Action {
            session: self.session.to_owned(),
            at,
            call: self.id.clone(),
            tool: ToolName { native: named.native.clone(), common: String::new() },
            kind: self.kind,
            input: Value::Object(first),
            operations: Vec::new(),
            opaque: true,
            cwd,
        };
        if let Some(mcp) = &named.mcp {
            action.tool.common = mcp.common();
            let McpName { server, tool } = mcp.clone();
            action.operations.push(Operation::Mcp { server, tool });
            if named.is_certain {
                action.opaque = false;
                return action;
            }
        }
        self.add_operations(&mut action, &named, &arguments, facts);
        action
    }

    /// The arguments in all places, the ones that count most first.
    fn arguments(&self) -> Vec<Arguments> {
        let is_command = self.kind == Some(ToolKind::Execute);
        let mut all: Vec<_> =
            self.both().flat_map(|call| input::raw_input(call, is_command)).collect();
        if all.is_empty() {
            // The content of the request is often a question, so that of the call counts more.
            let contents = self.earlier.into_iter().chain(std::iter::once(self.call));
            all.extend(contents.flat_map(input::in_content));
        }
        all
    }

    fn name(&self, arguments: &[Arguments], facts: &SessionFacts<'_>) -> Named {
        let certain = self.both().find_map(names::native);
        let certain = certain.or_else(|| arguments.iter().find_map(|it| it.tool.clone()));
        let titles = self.titles();
        let beside = arguments.iter().find_map(|it| it.mcp.clone());
        // Codex: `{server, tool, arguments}`, with a title that repeats them.
        let beside = beside.filter(|it| {
            let title = format!("mcp.{}.{}", it.server, it.tool);
            facts.agent == AgentKind::Codex || titles.contains(&title)
        });
        if let Some(mcp) = beside {
            let native = Some(format!("mcp.{}.{}", mcp.server, mcp.tool));
            return Named { native, common: None, mcp: Some(mcp), is_certain: true };
        }
        if let Some(name) = certain {
            // A session may have an MCP server `acp` of its own.
            let is_own_server =
                name.starts_with("mcp__acp__") && facts.servers.iter().any(|it| it == "acp");
            let common = names::common(&name).filter(|_| !is_own_server);
            let mcp = match common {
                Some(_) => None,
                None => self.declared_server(&name).or_else(|| names::mcp(&name, facts.servers)),
            };
            return Named { native: Some(name), common, mcp, is_certain: true };
        }
        self.uncertain_name(&titles, facts)
    }

    /// The MCP server that claude-agent-acp names beside the tool.
    fn declared_server(&self, name: &str) -> Option<McpName> {
        let server = self
            .both()
            .find_map(|it| nonempty(&it.at(&["_meta", "claudeCode", "mcpServer", "name"])?))?;
        names::mcp(name, std::slice::from_ref(&server)).filter(|it| it.server == server)
    }

    /// The name in a title or in the id of the tool call.
    fn uncertain_name(&self, titles: &[String], facts: &SessionFacts<'_>) -> Named {
        let in_id = self.id.as_deref().and_then(names::in_id).map(str::to_owned);
        let candidates: Vec<&String> = titles.iter().chain(&in_id).collect();
        // A title may also be a command that is called like a tool, such as `ls`.
        let of_kind = Class::of(None, self.kind);
        let fits = |name| !of_kind.is_known() || of_kind == Class::of(Some(name), None);
        let known = candidates
            .iter()
            .find_map(|it| Some((*it, names::common(it).filter(|name| fits(*name))?)));
        // Only a tool of no other kind may be that of an MCP server.
        let may_be_mcp = matches!(self.kind, None | Some(ToolKind::Other));
        let mcp = || {
            let mut in_titles = titles.iter().filter_map(|it| names::mcp_in_title(it));
            let in_title = in_titles.find(|_| facts.agent == AgentKind::Gemini);
            let by_server = || candidates.iter().find_map(|it| names::mcp(it, facts.servers));
            in_title.or_else(by_server)
        };
        let mcp = if may_be_mcp && known.is_none() { mcp() } else { None };
        let native = known.map(|(name, _)| name.clone()).or_else(|| in_id.clone());
        Named { native, common: known.map(|(_, common)| common), mcp, is_certain: false }
    }

    fn add_operations(
        &self,
        action: &mut Action,
        named: &Named,
        arguments: &[Arguments],
        facts: &SessionFacts<'_>,
    ) {
        let class = Class::of(named.common, self.kind);
        let diffs: Vec<_> = self.both().flat_map(input::diffs).collect();
        let locations: Vec<_> = self.both().flat_map(input::locations).collect();
        let mut operations =
            Operations { list: std::mem::take(&mut action.operations), ..Default::default() };
        for arguments in arguments {
            match named.mcp {
                // The title may be text of the model, but a command is a command.
                Some(_) => operations.add_command(&arguments.members),
                None => operations.add_arguments(class, &arguments.members),
            }
        }
        operations.add_files(class, &diffs, &locations);
        let mut is_described = true;
        let runs = |list: &[Operation]| list.iter().any(|it| matches!(it, Operation::Run(_)));
        if self.kind == Some(ToolKind::Execute) && arguments.is_empty() && !runs(&operations.list) {
            is_described = self.add_title(&mut operations, action, facts);
        }
        let trusts_text = matches!(facts.agent, AgentKind::Kimi | AgentKind::Gemini);
        let is_from_text = arguments.iter().any(|it| it.from_text) && !trusts_text;
        let is_mcp = named.mcp.is_some() && !class.is_known();
        // A tool that only its name describes.
        let is_named = named.is_certain
            && !class.is_known()
            && operations.list.is_empty()
            && !operations.has_unreadable;
        let is_covered = operations.covers(class) || is_mcp || is_named;
        action.opaque = is_from_text || !is_described || !is_covered;
        if let Some(cwd) = arguments.iter().find_map(|it| input::directory(&it.members)) {
            action.cwd = facts.cwd.join(cwd);
        }
        action.operations = operations.list;
        if named.mcp.is_none() {
            self.set_tool(action, named, &diffs, &locations);
        }
    }

    /// The title is the command: always for Gemini CLI, and perhaps for other agents. Returns whether it is.
    fn add_title(
        &self,
        operations: &mut Operations,
        action: &mut Action,
        facts: &SessionFacts<'_>,
    ) -> bool {
        let Some(title) = self.titles().into_iter().next() else { return false };
        action.input = json!({ "command": title });
        operations.add(Operation::Run(CommandLine::Shell(title)));
        match input::directory_in_content(self.call) {
            Ok(Some(cwd)) if facts.agent == AgentKind::Gemini => action.cwd = facts.cwd.join(cwd),
            Ok(_) => {}
            Err(()) => return false,
        }
        facts.agent == AgentKind::Gemini
    }

    /// Sets the name of the tool and its arguments to those of Claude Code.
    fn set_tool(
        &self,
        action: &mut Action,
        named: &Named,
        diffs: &[input::Diff],
        locations: &[PathBuf],
    ) {
        let by_kind = names::of_kind(self.kind).filter(|_| named.native.is_none());
        let common = named.common.or(by_kind);
        // A diff without an old text creates the file.
        let creates = !diffs.is_empty() && diffs.iter().all(input::Diff::creates);
        let is_patch = named.native.as_deref().is_none_or(|it| it == "apply_patch");
        let common =
            common.map(|it| if it == "Edit" && creates && is_patch { "Write" } else { it });
        let kind_name =
            self.kind.map(|kind| json!(kind)).and_then(|it| it.as_str().map(str::to_owned));
        let name = common.map(str::to_owned).or_else(|| named.native.clone()).or(kind_name);
        action.tool.common = name.unwrap_or_else(|| "unknown".to_owned());
        let program = match self.kind {
            Some(ToolKind::Delete) => Some("rm"),
            Some(ToolKind::Move) => Some("mv"),
            _ => None,
        };
        let input = action.input.as_object().cloned().unwrap_or_default();
        let paths: Vec<PathBuf> = match locations.is_empty() {
            true => paths(&action.operations),
            false => locations.to_vec(),
        };
        action.input =
            match program.filter(|_| named.common.is_none() && !input.contains_key("command")) {
                Some(program) => input::file_command(program, &paths),
                None => input::normalised(&action.tool.common, &input, diffs),
            };
        let needs_path = matches!(action.tool.common.as_str(), "Read" | "Write" | "Edit");
        let has_path = action.input.get("file_path").is_some();
        if let Some(path) = paths.first().filter(|_| needs_path && !has_path) {
            action.input["file_path"] = json!(path);
        }
    }
}

/// The paths of operations on files, each one once.
fn paths(operations: &[Operation]) -> Vec<PathBuf> {
    let mut paths = Vec::<PathBuf>::new();
    for operation in operations {
        let path: Option<&Path> = match operation {
            Operation::Read(path) | Operation::Write(path) | Operation::Delete(path) => Some(path),
            _ => None,
        };
        if let Some(path) = path.filter(|path| !paths.iter().any(|it| it == path)) {
            paths.push(path.to_path_buf());
        }
    }
    paths
}
