//! The condition `if` of a hook: a permission rule such as `Bash(git *)` or `Edit(*.ts)`.

use std::path::Path;

use globset::GlobBuilder;

use component_base::action::Action;

/// Whether a tool call may match a rule. Hooks guard things, so a rule that cannot be decided matches.
pub(crate) fn may_match(rule: &str, action: &Action) -> bool {
    let rule = rule.trim();
    let (tool, specifier) = match rule.split_once('(') {
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(specifier) => (tool.trim(), Some(specifier.trim())),
            None => return true,
        },
        None => (rule, None),
    };
    let name = action.tool.common.as_str();
    let is_tool = match tool.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        // A rule for edits covers all tools that write files.
        None => {
            name == tool
                || tool == "Edit" && matches!(name, "Write" | "MultiEdit" | "NotebookEdit")
                || tool.starts_with("mcp__") && name.starts_with(&format!("{tool}__"))
        }
    };
    if !is_tool {
        return false;
    }
    let Some(specifier) = specifier.filter(|it| !it.is_empty() && *it != "*") else { return true };
    match name {
        "Bash" => {
            let input = super::occasion::tool_input(action);
            input["command"].as_str().is_none_or(|command| may_run(specifier, command))
        }
        "Read" | "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => {
            let path = action.input["file_path"].as_str();
            path.is_none_or(|path| is_path(specifier, Path::new(path), &action.cwd))
        }
        _ => true,
    }
}

/// Whether a command line may run a command that matches a pattern such as `git *` or `npm run test:*`.
fn may_run(pattern: &str, command: &str) -> bool {
    match crate::permissions::may_run(pattern.strip_suffix(":*").unwrap_or(pattern), command) {
        Some(may_run) => may_run || has_text(pattern, command),
        // What a shell replaces is not known.
        None => command.contains(['$', '`', '(', '\\']) || has_text(pattern, command),
    }
}

/// Whether a part of the text of a command line matches a pattern.
fn has_text(pattern: &str, command: &str) -> bool {
    let pattern = pattern.strip_suffix(":*").map_or(pattern.to_owned(), |it| format!("{it} *"));
    let parts = command.split(['\n', ';', '|', '&']).map(str::trim).filter(|it| !it.is_empty());
    let is_setting = |word: &&str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|it| it.is_alphanumeric() || it == '_'))
    };
    parts.into_iter().any(|part| {
        let words: Vec<&str> = part.split_whitespace().skip_while(is_setting).collect();
        let line = words.join(" ");
        let base = line.strip_suffix(" *").unwrap_or(&line);
        wildcard(&pattern, &line) || pattern.strip_suffix(" *").is_some_and(|it| it == base)
    })
}

/// Whether a text matches a pattern in which `*` stands for any text.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

fn is_path(pattern: &str, path: &Path, directory: &Path) -> bool {
    let home = super::sources::home();
    // The names of folders may have characters that a pattern gives a meaning.
    let below = |folder: &Path, text: &str| {
        let folder = globset::escape(&folder.to_string_lossy());
        format!("{}/{text}", folder.trim_end_matches('/'))
    };
    let base = |text: &str| below(directory, text);
    let absolute = match (pattern.strip_prefix("//"), pattern.strip_prefix("~/"), home) {
        (Some(rest), _, _) => format!("/{rest}"),
        (_, Some(rest), Some(home)) => below(&home, rest),
        _ if !pattern.trim_start_matches('/').contains('/') => {
            base(&format!("**/{}", pattern.trim_start_matches('/')))
        }
        _ => base(pattern.trim_start_matches("./").trim_start_matches('/')),
    };
    let glob = GlobBuilder::new(&absolute).literal_separator(true).build();
    let Ok(glob) = glob else { return true };
    let (glob, path) = (glob.compile_matcher(), directory.join(path));
    // The file may be a symbolic link.
    glob.is_match(crate::permissions::lexical(&path))
        || path.canonicalize().is_ok_and(|path| glob.is_match(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::action::{At, ToolName};

    fn action(tool: &str, input: serde_json::Value) -> Action {
        Action {
            session: "s".into(),
            at: At::PermissionRequest,
            call: None,
            tool: ToolName { native: None, common: tool.into() },
            kind: None,
            input,
            operations: Vec::new(),
            opaque: true,
            cwd: "/project".into(),
        }
    }

    #[test]
    fn a_rule_for_commands_is_compared_with_each_part_of_a_command_line() {
        let runs = |rule: &str, command: &str| {
            may_match(rule, &action("Bash", serde_json::json!({ "command": command })))
        };
        assert!(runs("Bash", "ls") && runs("Bash(*)", "ls") && runs("Bash(git *)", "git push"));
        assert!(runs("Bash(git *)", "cd x && git push") && runs("Bash(git *)", "A=1 git push"));
        assert!(runs("Bash(git:*)", "git") && runs("Bash(npm run test:*)", "npm run test -- -v"));
        assert!(!runs("Bash(git *)", "ls") && !runs("Bash(npm run test:*)", "npm run test2"));
        assert!(!runs("Edit", "ls") && !runs("Bash(git commit *)", "git push"));
        assert!(runs("Bash(git *)", "$(echo git) push"), "what is not known may match");
        assert!(runs("Bash(git * main)", "git push origin main"));
        for command in [
            "\"git\" push",
            "g''it push",
            "/usr/bin/git push",
            "env git push",
            "sh -c 'git push'",
            "true; { git push; }",
            "echo $(git push)",
            "$X push",
        ] {
            assert!(runs("Bash(git *)", command) && runs("Bash(git push:*)", command), "{command}");
        }
        assert!(!runs("Bash(git *)", "echo \"$HOME\""), "another program");
    }

    #[test]
    fn a_rule_for_files_is_compared_with_the_path() {
        let edits = |rule: &str, path: &str| {
            may_match(rule, &action("Write", serde_json::json!({ "file_path": path })))
        };
        assert!(edits("Edit(*.ts)", "/project/src/a.ts") && !edits("Edit(*.ts)", "/project/a.rs"));
        assert!(edits("Write(src/**)", "/project/src/a.ts") && edits("Edit(/src/**)", "src/b"));
        assert!(
            !edits("Edit(/src/**)", "/project/docs/a") && !edits("Read(*.ts)", "/project/a.ts")
        );
        assert!(edits("Edit(//etc/**)", "/etc/passwd") && edits("Edit(//etc/**)", "../etc/passwd"));
        assert!(edits("Edit([)", "/project/a"), "a rule that cannot be decided matches");
        let mut odd = action("Write", serde_json::json!({ "file_path": "/a[x]/{b}/c.ts" }));
        odd.cwd = "/a[x]/{b}".into();
        for rule in ["Edit(*.ts)", "Edit(/c.*)", "Edit(./c.ts)"] {
            assert!(may_match(rule, &odd), "a project with characters of patterns: {rule}");
        }
    }

    #[test]
    fn a_rule_for_an_mcp_server_covers_its_tools() {
        let call = action("mcp__kit__echo", serde_json::json!({}));
        assert!(may_match("mcp__kit", &call) && may_match("mcp__kit__*", &call));
        assert!(!may_match("mcp__kit2", &call) && !may_match("mcp__kit__add", &call));
    }
}
