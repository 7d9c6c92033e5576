//! Imports the permission rules of Claude Code: `permissions` in `.claude/settings.json` and
//! `.claude/settings.local.json` of a project.

use std::path::Path;

use acp_wire::ErrorKind;
use serde_json::Value;

use super::command::braces;
use super::command::pattern::RunPattern;
use super::paths::PathPattern;
use super::rules::url::UrlPattern;
use super::rules::{Decision, Rule, RuleRef, Source};
use component_base::OptionError;
use component_base::file::{ReadError, ReadLimits};

pub(crate) const FILES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];
const MAX_FILE: usize = 1024 * 1024;

/// The rules of Claude Code, in our form.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// The rules: first all that deny, then all that ask, then all that allow.
    pub(crate) rules: Vec<Rule>,
    /// The files.
    pub(crate) sources: Vec<Source>,
    /// What is not imported: each with file, line and reason.
    pub(crate) notes: Vec<String>,
}

/// A settings file.
struct Settings {
    name: &'static str,
    text: String,
    value: Value,
}

/// Reads the settings of a project. Files that do not exist are left out.
///
/// # Errors
/// A file cannot be read, or is not JSON.
pub(crate) fn read(project: &Path) -> Result<Imported, OptionError> {
    let mut imported = Imported::default();
    let mut files = Vec::new();
    for name in FILES {
        let limits = ReadLimits { max_bytes: MAX_FILE, outside: false };
        let fail = |kind, why: String| OptionError { kind, why };
        let path = project.join(name);
        let start = match component_base::file::read(project, Path::new(name), limits) {
            Ok(start) if start.truncated => {
                let why = format!("cannot read {}: it has more than 1 MiB", path.display());
                return Err(fail(ErrorKind::UnreadableFile, why));
            }
            Ok(start) => start,
            Err(ReadError::Missing) => continue,
            Err(error) => {
                let why = format!("cannot read {}: {error}", path.display());
                return Err(fail(ErrorKind::UnreadableFile, why));
            }
        };
        // Some editors put a byte order mark before the text.
        let text = start.text.strip_prefix('\u{feff}').unwrap_or(&start.text).to_owned();
        let value = serde_json::from_str(&text).map_err(|error| {
            let why = format!(
                "{}:{}: {error}; correct the file, or leave out `import`",
                path.display(),
                error.line()
            );
            fail(ErrorKind::InvalidOptionsFile, why)
        })?;
        imported.sources.push(Source::of(&path, start.text.as_bytes()));
        files.push(Settings { name, text, value });
    }
    for (list, decision) in
        [("deny", Decision::Deny), ("ask", Decision::Ask), ("allow", Decision::Allow)]
    {
        for settings in &files {
            import_list(project, settings, list, decision, &mut imported)?;
        }
    }
    Ok(imported)
}

fn import_list(
    project: &Path,
    settings: &Settings,
    list: &str,
    decision: Decision,
    imported: &mut Imported,
) -> Result<(), OptionError> {
    let file = project.join(settings.name);
    let Some(rules) = settings.value.pointer(&format!("/permissions/{list}")) else {
        return Ok(());
    };
    let fail = |line: usize| {
        let why = format!(
            "{}:{line}: `permissions.{list}` is not a list of texts; correct the file",
            file.display()
        );
        OptionError { kind: ErrorKind::InvalidOptionsFile, why }
    };
    let list_line = line_of(&settings.text, list, 0).0;
    let mut from = line_of(&settings.text, list, 0).1;
    for rule in rules.as_array().ok_or_else(|| fail(list_line))? {
        let text = rule.as_str().ok_or_else(|| fail(list_line))?;
        let (line, end) = line_of(&settings.text, text, from);
        from = end;
        let reference =
            RuleRef { name: Some(text.to_owned()), file: file.clone(), line, message: None };
        match translate(text, Rule::new(reference.clone(), decision), project) {
            Ok(rule) => imported.rules.push(rule),
            Err(why) => {
                let place = format!("{}:{line}: `{text}`", file.display());
                match whole_tool(text, reference, decision) {
                    Some(rule) => {
                        imported.rules.push(rule);
                        imported.notes.push(format!(
                            "{place} {why}; the user is asked about the whole tool instead"
                        ));
                    }
                    None => imported.notes.push(format!("{place} {why}; it is left out")),
                }
            }
        }
    }
    Ok(())
}

/// The line of a text in a JSON file, and the position behind it.
fn line_of(json: &str, text: &str, from: usize) -> (usize, usize) {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let found = json[from..].find(&quoted).map(|at| from + at).or_else(|| json.find(&quoted));
    let at = found.unwrap_or(from);
    let end = if found.is_some() { at + quoted.len() } else { at };
    (json[..at].matches('\n').count() + 1, end)
}

/// A rule that cannot be translated: the user is asked about the whole tool. A rule that allows is left out.
fn whole_tool(text: &str, reference: RuleRef, decision: Decision) -> Option<Rule> {
    if decision == Decision::Allow {
        return None;
    }
    let (tool, _) = split(text);
    let mut rule = Rule::new(reference, Decision::Ask);
    rule.tool = tools(tool, decision);
    Some(rule)
}

/// The tool of a rule, and the text in its parentheses.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.trim().split_once('(') {
        Some((tool, rest)) => (tool.trim(), Some(rest.strip_suffix(')').unwrap_or(rest).trim())),
        None => (text.trim(), None),
    }
}

/// The tools that the name of a tool in a rule stands for.
fn tools(tool: &str, decision: Decision) -> Vec<String> {
    let names: &[&str] = match tool {
        "Edit" => &["Edit", "Write", "MultiEdit", "NotebookEdit"],
        "Read" if decision != Decision::Allow => &["Read", "Grep", "Glob", "LS", "NotebookRead"],
        "Task" | "Agent" => &["Task", "Agent"],
        _ if tool.starts_with("mcp__") && tool.matches("__").count() == 1 => {
            return vec![tool.to_owned(), format!("{tool}__*")];
        }
        _ => return vec![tool.to_owned()],
    };
    names.iter().map(|it| (*it).to_owned()).collect()
}

/// Translates a rule.
fn translate(text: &str, mut rule: Rule, project: &Path) -> Result<Rule, String> {
    let (tool, specifier) = split(text);
    let plain = |it: char| it.is_ascii_alphanumeric() || "_-*.".contains(it);
    if tool.is_empty() || !tool.chars().all(plain) {
        return Err("is not a rule of Claude Code".to_owned());
    }
    let Some(specifier) = specifier.filter(|it| !it.is_empty() && *it != "*") else {
        rule.tool = tools(tool, rule.decision);
        return Ok(rule);
    };
    if !text.trim().ends_with(')') {
        return Err("has no closing parenthesis".to_owned());
    }
    match tool {
        "Bash" => rule.run = vec![command(specifier)?],
        "Read" => rule.read = paths(specifier, project, rule.decision)?,
        "Edit" => {
            rule.write = paths(specifier, project, rule.decision)?;
            if rule.decision == Decision::Deny {
                rule.read = rule.write.clone();
            }
        }
        // Claude Code takes these rules and does not use them.
        "Write" | "MultiEdit" | "NotebookEdit" if rule.decision != Decision::Allow => {
            rule.write = paths(specifier, project, rule.decision)?;
        }
        "WebFetch" => match specifier.strip_prefix("domain:") {
            Some(domain) => rule.url = vec![UrlPattern::parse(domain.trim())?],
            None => return Err("has no domain".to_owned()),
        },
        _ => return Err("has a form that the rules of conductor do not have".to_owned()),
    }
    Ok(rule)
}

/// `x:*` is a prefix of words, `x*` a prefix of text, anything else the whole command.
fn command(specifier: &str) -> Result<RunPattern, String> {
    if let Some(prefix) = specifier.strip_suffix(":*") {
        return Ok(RunPattern::parse(prefix)?.with_rest());
    }
    let pattern = RunPattern::parse(specifier)?;
    match specifier.ends_with('*') {
        true => Ok(pattern.with_rest()),
        false => Ok(pattern.exactly()),
    }
}

/// The paths of a rule. `{a,b}` in a rule that denies or asks is two paths. It is not certain that Claude Code reads it
/// like that, so a rule that allows is left out.
fn paths(specifier: &str, project: &Path, decision: Decision) -> Result<Vec<PathPattern>, String> {
    let expanded = match decision {
        Decision::Allow => None,
        _ => braces::of_pattern(specifier),
    };
    let specifiers = expanded.unwrap_or_else(|| vec![specifier.to_owned()]);
    specifiers.iter().map(|it| path(it, project)).collect()
}

/// `//x` is absolute, `~/x` in the home folder, `/x` in the project, `x` and `./x` in the folder of the session.
fn path(specifier: &str, project: &Path) -> Result<PathPattern, String> {
    if let Some(absolute) = specifier.strip_prefix("//") {
        return PathPattern::parse(&format!("/{absolute}"));
    }
    match specifier.strip_prefix('/') {
        Some(inside) => Ok(PathPattern::parse(&format!("./{inside}"))?.in_folder(project)),
        None => PathPattern::parse(specifier),
    }
}
