//! The names of tools: those of agents, of MCP servers, and of Claude Code.

use acp_proxy::Json;
use acp_proxy::schema::ToolKind;

/// The names that agents have for the tools of Claude Code, in lower case.
const TOOLS: [(&str, &[&str]); 12] = [
    (
        "Bash",
        &[
            "bash",
            "shell",
            "terminal",
            "exec_command",
            "run_shell_command",
            "execute_command",
            "run_command",
            "run_terminal_cmd",
            "local_shell",
        ],
    ),
    ("Write", &["write", "write_file", "create", "create_file", "write_text_file"]),
    (
        "Edit",
        &[
            "edit",
            "edit_file",
            "replace",
            "str_replace",
            "search_replace",
            "apply_patch",
            "patch",
            "str_replace_editor",
            "text_editor",
        ],
    ),
    ("MultiEdit", &["multiedit", "multi_edit"]),
    ("NotebookEdit", &["notebookedit", "notebook_edit"]),
    ("Read", &["read", "read_file", "view", "read_many_files", "read_text_file"]),
    ("Grep", &["grep", "grep_search", "search_file_content", "search_files"]),
    ("Glob", &["glob", "find_files"]),
    ("LS", &["ls", "list_directory", "list_dir"]),
    ("WebFetch", &["webfetch", "web_fetch"]),
    ("WebSearch", &["websearch", "web_search", "google_web_search"]),
    ("TodoWrite", &["todowrite", "todo_write", "write_todos"]),
];

/// The name in Claude Code of an agent's own tool.
pub(super) fn common(native: &str) -> Option<&'static str> {
    let native = native.to_ascii_lowercase();
    // The tools of goose's extension `developer`, and those that claude-code-acp offers through its own MCP server.
    let native = native.strip_prefix("developer__").unwrap_or(&native);
    let native = native.strip_prefix("mcp__acp__").unwrap_or(native);
    TOOLS.iter().find(|(_, names)| names.contains(&native)).map(|(common, _)| *common)
}

/// The name of a tool for which only the kind is known.
pub(super) fn of_kind(kind: Option<ToolKind>) -> Option<&'static str> {
    match kind? {
        ToolKind::Read => Some("Read"),
        ToolKind::Edit => Some("Edit"),
        ToolKind::Delete | ToolKind::Move | ToolKind::Execute => Some("Bash"),
        ToolKind::Search => Some("Grep"),
        ToolKind::Fetch => Some("WebFetch"),
        _ => None,
    }
}

/// The name that the agent gives the tool in a member for it.
pub(super) fn native(call: &Json) -> Option<String> {
    const PLACES: [&[&str]; 5] = [
        &["name"],
        &["_meta", "claudeCode", "toolName"],
        &["_meta", "toolName"],
        &["_meta", "goose", "toolCall", "toolName"],
        &["_meta", "tool_name"],
    ];
    PLACES.iter().find_map(|place| nonempty(&call.at(place)?))
}

/// A text, unless it is empty.
pub(super) fn nonempty(json: &Json) -> Option<String> {
    json.text().filter(|text| !text.is_empty()).map(|text| text.into_owned())
}

/// The part of a tool call id that is the name of the tool, in the ids of Gemini CLI: `name__…` and `name-TIME-COUNT`.
pub(super) fn in_id(id: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let before_number = |text| {
        let (name, number) = str::rsplit_once(text, '-')?;
        is_number(number).then_some(name)
    };
    let name = match id.split_once("__") {
        // `mcp__server__tool` is a name itself.
        Some((name, _)) if name != "mcp" => name,
        _ => before_number(before_number(id)?)?,
    };
    (!name.is_empty()).then_some(name)
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct McpName {
    pub(super) server: String,
    pub(super) tool: String,
}

impl McpName {
    pub(super) fn new(server: impl Into<String>, tool: impl Into<String>) -> McpName {
        McpName { server: server.into(), tool: tool.into() }
    }

    /// The name of the tool in Claude Code.
    pub(super) fn common(&self) -> String {
        format!("mcp__{}__{}", in_name(&self.server), in_name(&self.tool))
    }
}

/// The characters that names of tools may have. Agents replace the others.
fn in_name(text: &str) -> String {
    let is_legal = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    text.chars().map(|it| if is_legal(it) { it } else { '_' }).collect()
}

/// Finds the MCP server and tool in a name, such as `mcp__kit__echo`, `mcp_kit_echo`, `kit__echo`, `kit-echo`. A name
/// cannot be split without knowing the servers, because both parts may contain the separator.
pub(super) fn mcp(name: &str, servers: &[String]) -> Option<McpName> {
    let prefixes = ["mcp__", "mcp_", "mcp.", ""];
    for rest in prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix)) {
        let found = servers.iter().filter_map(|server| {
            let normalised = in_name(server);
            let rest =
                rest.strip_prefix(server.as_str()).or_else(|| rest.strip_prefix(&normalised));
            let separators = ["__", "_", "-", ".", "/", ": ", ":"];
            let tool = separators.iter().find_map(|separator| rest?.strip_prefix(separator))?;
            (!tool.is_empty()).then(|| McpName::new(server, tool))
        });
        if let Some(longest) = found.max_by_key(|it| it.server.len()) {
            return Some(longest);
        }
    }
    // A server of the agent's own configuration. Only Claude's form says where the name of the server ends.
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then(|| McpName::new(server, tool))
}

/// The MCP server and tool in a title of Gemini CLI: `echo (kit MCP Server)`.
pub(super) fn mcp_in_title(title: &str) -> Option<McpName> {
    let (tool, rest) = title.split_once(" (")?;
    let server = rest.strip_suffix(" MCP Server)")?;
    (!tool.is_empty() && !server.is_empty()).then(|| McpName::new(server, tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mcp_tools_are_split_by_the_servers_of_the_session() {
        let servers = ["kit", "kit_box", "my server"].map(str::to_owned);
        for (name, server, tool) in [
            ("mcp__kit__echo", "kit", "echo"),
            ("mcp_kit_echo", "kit", "echo"),
            ("mcp_kit.echo", "kit", "echo"),
            ("mcp.kit.echo", "kit", "echo"),
            ("kit_echo", "kit", "echo"),
            ("kit__echo", "kit", "echo"),
            ("kit-echo", "kit", "echo"),
            ("kit: echo", "kit", "echo"),
            ("kit_box_open", "kit_box", "open"),
            ("mcp__kit_box__open_all", "kit_box", "open_all"),
            ("mcp__my_server__go", "my server", "go"),
            ("mcp__unknown__a__b", "unknown", "a__b"),
        ] {
            assert_eq!(mcp(name, &servers), Some(McpName::new(server, tool)), "{name}");
        }
        for name in
            ["echo", "kit", "kit_", "kitchen_sink", "mcp_other_echo", "mcp__x", "write_file"]
        {
            assert_eq!(mcp(name, &servers), None, "{name}");
        }
        assert_eq!(McpName::new("my server", "go").common(), "mcp__my_server__go");
    }

    #[test]
    fn ids_and_titles_of_gemini_have_the_name_of_the_tool() {
        assert_eq!(in_id("run_shell_command__1763200000000_3"), Some("run_shell_command"));
        assert_eq!(in_id("mcp_kit_echo-1763200000000-3"), Some("mcp_kit_echo"));
        for id in ["toolu_1", "mcp__kit__echo", "edit-approval-1", "__1", "-1-2"] {
            assert_eq!(in_id(id), None, "{id}");
        }
        assert_eq!(mcp_in_title("echo (kit MCP Server)"), Some(McpName::new("kit", "echo")));
        assert_eq!(mcp_in_title("echo (kit)"), None);
    }
}
