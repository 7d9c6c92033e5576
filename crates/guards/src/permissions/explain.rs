//! Tells what the rules decide about an action, without an agent.

use std::fmt::Write;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use acp_wire::{ErrorKind, printable};
use serde_json::json;

use super::records::shown;
use super::rules::{Decision, Rules, Surroundings, Verdict};
use component_base::OptionError;
use component_base::action::{Action, At, CommandLine, Operation, ToolName};
use component_base::options::Interval;

/// The most lines of standard input.
const MAX_LINES: usize = 100_000;

/// The decision about an action, or about each action on standard input.
pub(super) fn report(
    rules: &Rules,
    what: &str,
    cwd: &Path,
    agent: String,
) -> Result<String, OptionError> {
    let rules = &rules.import(cwd)?;
    let mut surroundings = Surroundings::of_system(vec![agent]);
    surroundings.project = Some(cwd.to_path_buf());
    if what != "-" {
        let verdict = rules.decide(&action(what, cwd), &surroundings);
        return Ok(in_full(rules, &verdict));
    }
    let mut report = String::new();
    let unreadable = |why: String| OptionError {
        kind: ErrorKind::UnreadableFile,
        why: format!("cannot read standard input: {why}"),
    };
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        if index == MAX_LINES {
            return Err(unreadable(format!("it has more than {MAX_LINES} lines")));
        }
        let line = line.map_err(|error| unreadable(error.to_string()))?;
        if !line.trim().is_empty() {
            let action = action(&line, cwd);
            let verdict = rules.decide(&action, &surroundings);
            let _ = writeln!(report, "{}", in_one_line(&action, &verdict));
        }
    }
    Ok(report)
}

/// The action that a text describes. Without a prefix it is a command line.
fn action(text: &str, cwd: &Path) -> Action {
    let prefixes = ["run", "read", "write", "delete", "fetch", "tool"];
    let known = text.split_once(':').filter(|(prefix, _)| prefixes.contains(prefix));
    let (prefix, rest) = known.unwrap_or(("run", text));
    let (operation, tool) = match prefix {
        "read" => (Operation::Read(rest.into()), "Read"),
        "write" => (Operation::Write(rest.into()), "Write"),
        "delete" => (Operation::Delete(rest.into()), "Bash"),
        "fetch" => (Operation::Fetch(rest.into()), "WebFetch"),
        "tool" => (mcp(rest), rest),
        _ => (Operation::Run(CommandLine::Shell(rest.into())), "Bash"),
    };
    let is_tool = matches!(&operation, Operation::Mcp { tool, .. } if tool.is_empty());
    Action {
        session: String::new(),
        at: At::PermissionRequest,
        call: None,
        tool: ToolName { native: Some(tool.to_owned()), common: tool.to_owned() },
        kind: None,
        input: json!({}),
        operations: if is_tool { Vec::new() } else { vec![operation] },
        opaque: false,
        cwd: PathBuf::from(cwd),
    }
}

/// The operation of a tool: that of an MCP tool, if its name is one.
fn mcp(name: &str) -> Operation {
    let parts = name.strip_prefix("mcp__").and_then(|it| it.split_once("__"));
    let (server, tool) = parts.unwrap_or((name, ""));
    Operation::Mcp { server: server.to_owned(), tool: tool.to_owned() }
}

fn decision(rules: &Rules, verdict: &Verdict) -> String {
    let limit = verdict.ask.or(rules.unattended());
    match (verdict.decision, limit) {
        (Decision::Ask, Some(limit)) => {
            format!("ask (after {}: {})", Interval(limit.after), limit.then.name())
        }
        (decision, _) => decision.name().to_owned(),
    }
}

fn place(verdict: &Verdict) -> String {
    match &verdict.rule {
        Some(rule) => format!("{}:{}", rule.file.display(), rule.line),
        None => "no rule".to_owned(),
    }
}

fn in_full(rules: &Rules, verdict: &Verdict) -> String {
    let mut text = format!("{}\n", decision(rules, verdict));
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<8} {}", printable::one_line(value));
    };
    line("rule", &place(verdict));
    if let Some(rule) = &verdict.rule {
        rule.name.iter().for_each(|name| line("name", name));
        rule.message.iter().for_each(|message| line("message", message));
    }
    line("why", &verdict.why);
    text
}

fn in_one_line(action: &Action, verdict: &Verdict) -> String {
    let decision = verdict.decision.name();
    format!("{decision:<5}  {:<20}  {}", place(verdict), shown(action))
}
