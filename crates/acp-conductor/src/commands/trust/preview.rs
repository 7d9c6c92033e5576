//! What `conductor trust` shows: what the file of a project would run.

use std::path::Path;

use acp_wire::printable;
use config::chain::Configuration;
use config::file::{Chain, Component, Entry, EntryKind, File, to_json};
use config::project::ProjectFile;
use config::source::Placed;
use config::trust::{Change, Consent, CoveredFile, Evidence, FileState, Role};

/// The file of a project, and what it means together with the file of the user.
pub struct Preview {
    /// The file of the project.
    pub project: ProjectFile,
    /// Its content.
    pub file: File,
    /// The content of the user's file.
    pub user: File,
    /// Both files, merged.
    pub merged: Configuration,
    /// The names of the built-in components.
    pub built_ins: Vec<&'static str>,
    /// The files to which a consent would apply.
    pub evidence: Evidence,
    /// Whether the user has consented to them.
    pub consent: Consent,
}

impl Preview {
    /// The text for a person. It contains nothing that a terminal would obey.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_project(&mut text);
        self.write_components(&mut text);
        self.write_chains(&mut text);
        self.write_files(&mut text);
        self.write_consent(&mut text);
        text
    }

    /// How much there is to agree to. The beginning of a long text may not be on the screen any more.
    pub fn summary(&self) -> String {
        let count = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            number => format!("{number} {what}s"),
        };
        let (components, chains) = (self.file.components.len(), self.file.chains.len());
        let files = self.evidence.files().count();
        [count(components, "component"), count(chains, "chain"), count(files, "file")].join(", ")
    }

    fn write_project(&self, text: &mut String) {
        let project = &self.project;
        line(text, format_args!("Project  {}", path(&project.root)));
        line(
            text,
            format_args!("File     {}, owner: {}", path(&project.path), project.access.owner),
        );
        if let Some(target) = &project.target {
            line(text, format_args!("         a link to {}", path(target)));
        }
        if let Some(warning) = project.access.warning() {
            line(text, format_args!("Warning  {warning}"));
        }
    }

    fn write_components(&self, text: &mut String) {
        if self.file.components.is_empty() {
            line(text, format_args!("\nIt defines no component."));
        }
        for name in self.file.components.keys() {
            let note = match (self.user.components.contains_key(name), self.is_built_in(name)) {
                (true, _) => " (changes yours)",
                (false, true) => " (in place of the built-in component)",
                (false, false) => "",
            };
            line(text, format_args!("\nComponent {}{note}", quoted(name)));
            if let Some(component) = self.merged.components().get(name) {
                let mut rows = self.component_rows(component);
                let runs = self.evidence.runs(name).iter();
                rows.extend(runs.map(|it| Row::new("also runs", "", visible(it))));
                let yours = self.user.components.get(name);
                write_rows(
                    text,
                    &rows,
                    &yours.map(|it| self.component_rows(it)).unwrap_or_default(),
                );
                write_changed_variables(text, component, yours);
            }
        }
    }

    /// All keys of a component. The values of environment variables are not shown.
    fn component_rows(&self, component: &Component) -> Vec<Row> {
        // A new key of a component must be shown as well.
        let Component {
            command,
            args,
            env,
            env_file,
            cwd,
            dialect,
            guard,
            on_crash,
            restarts,
            updates,
            options,
            when,
        } = component;
        let runs = match command {
            None => "nothing: it has no command".to_owned(),
            Some(command) => {
                let args = args.iter().flat_map(|it| &it.value);
                let words = [command].into_iter().chain(args).map(|it| quoted(it));
                let built_in = match self.is_built_in(command) {
                    true => "  (built-in)",
                    false => "",
                };
                words.collect::<Vec<_>>().join(" ") + built_in
            }
        };
        let mut rows = vec![Row::new("runs", "", runs)];
        let words: Vec<&str> = command.iter().map(|it| it.value.as_str()).collect();
        let words =
            words.into_iter().chain(args.iter().flat_map(|it| &it.value).map(|it| it.as_str()));
        rows.extend(runners_in(words).into_iter().map(|it| {
            let what = format!("what files tell {it} to run; these files are not compared");
            Row::new("also runs", it, what)
        }));
        rows.extend(cwd.iter().map(|it| Row::new("in", "", quoted(it))));
        if !env.is_empty() {
            let names = env.keys().map(|it| quoted(it)).collect::<Vec<_>>().join(", ");
            rows.push(Row::new("variables", "", names));
        }
        let env_files = env_file.iter().flat_map(|it| &it.0);
        rows.extend(env_files.map(|it| Row::new("env-file", "", quoted(it))));
        for (name, value) in to_json(options) {
            let value = format!("{} = {}", quoted(&name), printable::json(&value.to_string()));
            rows.push(Row::new("option", &name, value));
        }
        rows.extend(when.iter().map(|it| Row::new("when", "", written(it))));
        rows.extend(dialect.iter().map(|it| Row::new("dialect", "", written(it))));
        rows.extend(guard.iter().map(|it| Row::new("guard", "", written(it))));
        rows.extend(on_crash.iter().map(|it| Row::new("on-crash", "", written(it))));
        rows.extend(restarts.iter().map(|it| Row::new("restarts", "", written(it))));
        rows.extend(updates.iter().map(|it| Row::new("updates", "", written(it))));
        rows
    }

    fn write_chains(&self, text: &mut String) {
        for (name, chain) in &self.file.chains {
            let yours = self.user.chains.get(name);
            let note = if yours.is_some() { " (changes yours)" } else { "" };
            line(text, format_args!("\nChain {}{note}", quoted(name)));
            write_rows(text, &chain_rows(chain), &yours.map(chain_rows).unwrap_or_default());
        }
        if let Some(default) = &self.file.default {
            let yours = self.user.default.as_ref();
            let note = match yours.filter(|it| *it != default) {
                Some(yours) => format!(" (yours: {})", quoted(yours)),
                None => String::new(),
            };
            line(text, format_args!("\nDefault chain: {}{note}", quoted(default)));
        }
        let settings = self.file.settings.rows();
        if !settings.is_empty() {
            line(text, format_args!("\nSettings of all chains"));
        }
        let yours = self.user.settings.rows();
        for (name, value, _) in settings {
            let yours = yours.iter().find(|it| it.0 == name).filter(|it| it.1 != value);
            let note = match yours {
                Some((_, yours, _)) => format!(" (yours: {})", visible(yours)),
                None => String::new(),
            };
            line(text, format_args!("  {name} = {}{note}", visible(&value)));
        }
    }

    fn write_files(&self, text: &mut String) {
        line(text, format_args!("\nIf you agree, these files must stay as they are (SHA-256):"));
        for file in self.evidence.files() {
            let state = match file.state {
                FileState::Regular { digest, .. } => digest.to_string(),
                FileState::Missing => "does not exist yet".to_owned(),
                FileState::Folder => "a folder: what is in it is not compared".to_owned(),
                FileState::Special => "a device or a pipe: it is not read".to_owned(),
            };
            line(text, format_args!("  {state:<64}  {}", self.name(file)));
        }
        line(
            text,
            format_args!(
                "Programs can read other files by themselves: what is in a folder, and what these files name. Those are not compared."
            ),
        );
    }

    fn write_consent(&self, text: &mut String) {
        match &self.consent {
            Consent::Given | Consent::Missing => {}
            Consent::Changed(changes) => {
                line(text, format_args!("\nSince you have agreed to this project:"));
                for Change { path: file, difference } in changes {
                    line(text, format_args!("  {} {difference}", self.inside(file)));
                }
            }
            Consent::Unusable(why) => {
                line(text, format_args!("\nIt is not known whether you have agreed before: {why}"));
            }
        }
    }

    /// A file, with its path from the root, and what is remarkable about it.
    fn name(&self, file: &CoveredFile) -> String {
        let name = self.inside(&file.path);
        let mut notes = Vec::new();
        if file.role == Role::EnvFile {
            notes.push("an env-file".to_owned());
        }
        if self.evidence.is_outside(file) {
            notes.push("outside of the project".to_owned());
        }
        if let Some(target) = Evidence::target(file) {
            notes.push(format!("a link to {}", path(&target)));
        }
        match notes.is_empty() {
            true => name,
            false => format!("{name} ({})", notes.join(", ")),
        }
    }

    fn inside(&self, file: &Path) -> String {
        path(file.strip_prefix(self.evidence.root()).unwrap_or(file))
    }

    /// Whether a command is a built-in component. That it is not a program on the PATH is decided when it starts.
    fn is_built_in(&self, command: &str) -> bool {
        let name = command.strip_prefix("builtin:").unwrap_or(command);
        self.built_ins.contains(&name)
    }
}

/// Programs that run what files of their folder say.
const RUNNERS: [&str; 31] = [
    "ant",
    "bazel",
    "bun",
    "bunx",
    "bundle",
    "cargo",
    "cmake",
    "deno",
    "direnv",
    "docker",
    "go",
    "gradle",
    "gradlew",
    "just",
    "make",
    "mise",
    "mvn",
    "ninja",
    "nix",
    "npm",
    "npx",
    "pdm",
    "pnpm",
    "poetry",
    "python -m",
    "rake",
    "task",
    "tox",
    "uv",
    "uvx",
    "yarn",
];

/// Programs that run what their arguments say.
const SHELLS: [&str; 10] =
    ["bash", "cmd", "dash", "env", "fish", "ksh", "powershell", "pwsh", "sh", "zsh"];

/// The programs of a command line that run what files of their folder say.
fn runners_in<'a>(mut words: impl Iterator<Item = &'a str>) -> Vec<&'static str> {
    let name = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_lowercase();
        name.split('.').next().unwrap_or_default().to_owned()
    };
    let Some(command) = words.next() else { return Vec::new() };
    let (command, arguments): (String, Vec<&str>) = (name(command), words.collect());
    let mut names = vec![command.clone()];
    if SHELLS.contains(&command.as_str()) {
        let is_end = |it: char| it.is_whitespace() || "\"'`;&|()".contains(it);
        names.extend(arguments.iter().flat_map(|it| it.split(is_end)).map(name));
    }
    let is_python = |it: &String| it.starts_with("python") || it == "py";
    if names.iter().any(is_python) && arguments.iter().any(|it| it.split(' ').any(|it| it == "-m"))
    {
        names.push("python -m".to_owned());
    }
    RUNNERS.into_iter().filter(|it| names.iter().any(|name| name == it)).collect()
}

/// A key of a component or of a chain, and its value as it is shown.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    label: &'static str,
    /// Which of several keys with the same label it is.
    name: String,
    value: String,
}

impl Row {
    fn new(label: &'static str, name: &str, value: String) -> Row {
        Row { label, name: name.to_owned(), value }
    }
}

/// Writes rows, with what the user has in the same places.
fn write_rows(text: &mut String, rows: &[Row], yours: &[Row]) {
    let is_same = |one: &Row, other: &Row| one.label == other.label && one.name == other.name;
    for group in rows.chunk_by(is_same) {
        for row in group {
            line(text, format_args!("  {:<9} {}", row.label, row.value));
        }
        let yours: Vec<&Row> = yours.iter().filter(|it| is_same(it, &group[0])).collect();
        if !yours.is_empty() && !yours.iter().copied().eq(group) {
            let yours: Vec<&str> = yours.iter().map(|it| it.value.as_str()).collect();
            line(text, format_args!("            yours: {}", yours.join(", ")));
        }
    }
}

/// Writes the names of the variables to which the user has given another value.
fn write_changed_variables(text: &mut String, component: &Component, yours: Option<&Component>) {
    let Some(yours) = yours else { return };
    let is_changed = |name: &&Placed<String>| {
        let yours = yours.env.get(*name).map(|it| &it.value);
        yours.is_some_and(|it| component.env.get(*name).is_some_and(|new| new.value != *it))
    };
    let names: Vec<String> = component.env.keys().filter(is_changed).map(|it| quoted(it)).collect();
    if !names.is_empty() {
        line(text, format_args!("  changes   the values of your variables {}", names.join(", ")));
    }
}

fn chain_rows(chain: &Chain) -> Vec<Row> {
    let Chain { proxies, agent, settings } = chain;
    let mut rows = Vec::new();
    if let Some(proxies) = proxies {
        let entries: Vec<String> = proxies.iter().map(entry).collect();
        let entries = if entries.is_empty() { "none".to_owned() } else { entries.join(", ") };
        rows.push(Row::new("proxies", "", entries));
    }
    rows.extend(agent.iter().map(|it| Row::new("agent", "", quoted(it))));
    for (name, value, _) in settings.rows() {
        let value = format!("{name} = {}", visible(&value));
        rows.push(Row::new("setting", name, value));
    }
    rows
}

fn entry(entry: &Entry) -> String {
    let name = match entry.kind {
        EntryKind::Component => quoted(&entry.name),
        EntryKind::Chain => format!("all of the chain {}", quoted(&entry.name)),
    };
    match &entry.when {
        Some(when) => format!("{name} when {}", written(when)),
        None => name,
    }
}

/// Adds a line, in which no character is invisible.
fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    for it in line.to_string().chars() {
        match is_invisible(it) {
            true => text.extend(it.escape_unicode()),
            false => text.push(it),
        }
    }
    text.push('\n');
}

/// A value as it is written in the file, in one line.
fn written<T>(value: &Placed<T>) -> String {
    let words: Vec<&str> = value.place.text().split_whitespace().collect();
    visible(&words.join(" "))
}

/// A text as a word of a command line. A text with characters that cannot be seen, or that change the order of others, is shown
/// with `\u{…}` in their places, so that it cannot look like another text.
fn quoted(text: &str) -> String {
    match text.chars().all(is_visible) {
        true => shell_words::quote(text).into_owned(),
        false => printable::plain(&format!("{text:?}")).into_owned(),
    }
}

/// Like [`quoted`], for a text that is not a word.
fn visible(text: &str) -> String {
    match text.chars().all(is_visible) {
        true => text.to_owned(),
        false => printable::plain(&format!("{text:?}")).into_owned(),
    }
}

fn is_visible(it: char) -> bool {
    matches!(it, '\'' | '"' | '\\') || it.escape_debug().len() == 1 && !is_invisible(it)
}

/// Whether a character is a letter or a mark, but has no shape: fillers, selectors of variants, and an empty pattern of Braille.
fn is_invisible(it: char) -> bool {
    matches!(
        it,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
    ) || matches!(it, '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}')
        || matches!(it, '\u{1d159}' | '\u{e0000}'..='\u{e0fff}')
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_shape_is_shown_as_a_number() {
        let shown = |it: &str| {
            let mut text = String::new();
            line(&mut text, format_args!("{}", quoted(it)));
            text
        };
        assert_eq!(shown("a b"), "'a b'\n");
        assert_eq!(shown("한글é"), "한글é\n");
        for it in
            ["\u{3164}", "\u{115f}", "\u{1160}", "\u{ffa0}", "\u{fe0f}", "\u{e0100}", "\u{2800}"]
        {
            let number = it.escape_unicode().to_string();
            assert_eq!(shown(&format!("rm{it}")), format!("\"rm{number}\"\n"));
            // The text that looks like it is another one.
            assert_eq!(shown(&format!("rm{number}")), format!("'rm{number}'\n"));
            let mut text = String::new();
            line(&mut text, format_args!("option x = \"{it}\""));
            assert!(text.contains(&number) && !text.contains(it), "{text}");
        }
    }

    #[test]
    fn a_program_that_runs_what_files_say_is_named() {
        let of = |line: &str| {
            let words = shell_words::split(line).expect("words");
            runners_in(words.iter().map(String::as_str))
        };
        assert_eq!(of("/usr/bin/npx -y pkg"), ["npx"]);
        assert_eq!(of("npm.cmd run x"), ["npm"]);
        assert_eq!(of("sh -c 'cd app && make all; (yarn x)'"), ["make", "yarn"]);
        assert_eq!(of("env -C app just x"), ["just"]);
        assert_eq!(of("python3.12 -m pkg"), ["python -m"]);
        assert_eq!(of("python3 tools/run.py"), [""; 0]);
        assert_eq!(of("my-agent --prompt 'make it so'"), [""; 0]);
        assert!(runners_in(std::iter::empty()).is_empty());
    }
}
