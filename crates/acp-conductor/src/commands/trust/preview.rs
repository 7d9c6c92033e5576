//! What `conductor trust` shows: what the file of a project would run.

use std::fmt::Write;
use std::path::Path;

use acp_wire::printable;
use config::chain::Configuration;
use config::file::{Chain, Component, Entry, EntryKind, File, to_json};
use config::project::ProjectFile;
use config::source::Placed;
use config::trust::{Change, Consent, CoveredFile, Difference, Evidence, FileState, Role};

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
                self.write_component(text, component);
            }
        }
    }

    fn write_component(&self, text: &mut String, component: &Component) {
        let mut row = |name: &str, value: String| line(text, format_args!("  {name:<9} {value}"));
        match &component.command {
            None => row("runs", "nothing: it has no command".to_owned()),
            Some(command) => {
                let args = component.args.iter().flat_map(|it| &it.value);
                let words = [command].into_iter().chain(args).map(|it| quoted(it));
                let built_in = match self.is_built_in(command) {
                    true => "  (built-in)",
                    false => "",
                };
                row("runs", words.collect::<Vec<_>>().join(" ") + built_in);
            }
        }
        if let Some(directory) = &component.cwd {
            row("in", quoted(directory));
        }
        if !component.env.is_empty() {
            let names = component.env.keys().map(|it| quoted(it));
            row("variables", names.collect::<Vec<_>>().join(", "));
        }
        for file in component.env_file.iter().flat_map(|it| &it.0) {
            row("env-file", quoted(file));
        }
        for (name, value) in to_json(&component.options) {
            row("option", format!("{} = {}", quoted(&name), printable::json(&value.to_string())));
        }
        if let Some(when) = &component.when {
            row("when", written(when));
        }
    }

    fn write_chains(&self, text: &mut String) {
        let changes = |yours| if yours { " (changes yours)" } else { "" };
        for (name, chain) in &self.file.chains {
            let note = changes(self.user.chains.contains_key(name));
            line(text, format_args!("\nChain {}{note}", quoted(name)));
            write_chain(text, chain);
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
        for (name, value, _) in settings {
            line(text, format_args!("  {name} = {}", printable::one_line(&value)));
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
            format_args!("Programs can read other files by themselves. Those are not compared."),
        );
    }

    fn write_consent(&self, text: &mut String) {
        match &self.consent {
            Consent::Given | Consent::Missing => {}
            Consent::Changed(changes) => {
                line(text, format_args!("\nSince you have agreed to this project:"));
                for Change { path: file, difference } in changes {
                    let what = match difference {
                        Difference::Changed => "has changed",
                        Difference::Appeared => "is new",
                        Difference::Vanished => "does not exist any more",
                    };
                    line(text, format_args!("  {} {what}", self.inside(file)));
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

fn write_chain(text: &mut String, chain: &Chain) {
    let mut row = |name: &str, value: &str| line(text, format_args!("  {name:<9} {value}"));
    if let Some(proxies) = &chain.proxies {
        let entries: Vec<String> = proxies.iter().map(entry).collect();
        row("proxies", &entries.join(", "));
    }
    if let Some(agent) = &chain.agent {
        row("agent", &quoted(agent));
    }
    for (name, value, _) in chain.settings.rows() {
        row("setting", &format!("{name} = {}", printable::one_line(&value)));
    }
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

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}

/// A value as it is written in the file, in one line.
fn written<T>(value: &Placed<T>) -> String {
    let words: Vec<&str> = value.place.text().split_whitespace().collect();
    printable::one_line(&words.join(" "))
}

/// A text as a word of a command line. A text with control characters is shown with `\u` in their places, so that it cannot look
/// like another text.
fn quoted(text: &str) -> String {
    match text.chars().all(|it| printable::is_printable(it) && it != '\n' && it != '\t') {
        true => shell_words::quote(text).into_owned(),
        false => printable::json(&serde_json::Value::from(text).to_string()).into_owned(),
    }
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}
