//! Which files have hooks, and which of them the agent runs itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_wire::ErrorKind;

use super::Hooks;
use super::event::Contract;
use super::settings::{Acceptance, Hook, HookAction, LoadedHooks, read_file};
use component_base::OptionError;
use component_base::agents::AgentKind;
use component_base::mentions::Mentions;

/// A file with hooks.
#[derive(Debug, Clone)]
pub(crate) struct HookFile {
    pub(crate) path: PathBuf,
    pub(crate) hooks: Vec<Arc<Hook>>,
    /// Whether Claude Code merges it with other settings: it is that of the user or of the project.
    is_merged: bool,
    disables: bool,
}

/// The hooks of all sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The hooks of the options.
    pub(crate) own: Vec<Arc<Hook>>,
    pub(crate) files: Vec<HookFile>,
    /// What the log should say about the files.
    pub(crate) notes: Vec<String>,
}

impl Sources {
    /// Reads the hooks of the options and of the files that they name.
    pub(crate) fn load(options: &Hooks) -> Result<Sources, OptionError> {
        let invalid = |why| OptionError { kind: ErrorKind::InvalidOptionsFile, why };
        let own =
            LoadedHooks::of_options(&options.hooks, acceptance(options, false)).map_err(invalid)?;
        let mut sources = Sources { own: own.hooks, files: Vec::new(), notes: own.notes };
        for path in &options.settings {
            sources.add(path, Contract::Claude, acceptance(options, true)).map_err(invalid)?;
        }
        for path in &options.codex {
            sources.add(path, Contract::Codex, acceptance(options, true)).map_err(invalid)?;
        }
        let user = user_folder("CLAUDE_CONFIG_DIR", ".claude").map(|it| it.join("settings.json"));
        if let Some(path) = user.filter(|path| !options.no_user_hooks && path.is_file()) {
            // Claude Code runs all hooks of its own file. The user has not named it for this program.
            let accepted = Acceptance { notes_foreign: true, ..acceptance(options, false) };
            sources.add(&path, Contract::Claude, accepted).map_err(invalid)?;
        }
        Ok(sources)
    }

    /// Reads the hooks of a project. If the file of a project has defined the component, the user must have agreed to the bytes.
    pub(crate) fn load_project(options: &Hooks, directory: &Path) -> Result<Sources, String> {
        let mut sources = Sources::default();
        let agreed = options.agreed_files.as_ref();
        let canonical = agreed.and_then(|_| directory.canonicalize().ok());
        for (path, contract) in project_files(canonical.as_deref().unwrap_or(directory)) {
            if !path.is_file() {
                continue;
            }
            let Some(agreed) = agreed else {
                sources.add(&path, contract, acceptance(options, false))?;
                continue;
            };
            let name = path.display();
            let bytes = read_file(&path).map_err(|why| format!("{name}: {why}"))?;
            agreed.check(&path, &bytes).map_err(|why| {
                let folder = command_word(directory);
                format!(
                    "the hooks of {name} do not run, because it {why}; to see them and to allow it, run `conductor trust {folder}`, \
                     and then start the agent again in that folder"
                )
            })?;
            let accepted = acceptance(options, false);
            let loaded = LoadedHooks::of_bytes(&bytes, &path, contract, accepted)?;
            sources.keep(&path, loaded, contract == Contract::Claude);
        }
        Ok(sources)
    }

    /// What the options lead to. Files that cannot be read as hooks are texts, which may name anything.
    pub(crate) fn mentions(options: &Hooks, folders: &[&Path]) -> Mentions {
        let mut mentions = Mentions::default();
        if let Ok(own) = LoadedHooks::of_options(&options.hooks, acceptance(options, false)) {
            own.hooks.iter().for_each(|hook| mention(&mut mentions, hook));
        }
        let claude = options.settings.iter().map(|path| (path.clone(), Contract::Claude));
        let codex = options.codex.iter().map(|path| (path.clone(), Contract::Codex));
        let named: Vec<_> = claude.chain(codex).collect();
        let mut seen = BTreeSet::new();
        for folder in folders {
            let in_folder = named.iter().map(|(path, contract)| (folder.join(path), *contract));
            let project = project_files(folder);
            let project = project.into_iter().filter(|_| options.project_hooks);
            for (path, contract) in in_folder.chain(project) {
                if !seen.insert(path.clone()) {
                    continue;
                }
                let Some(bytes) = mentions.add_file(&path) else { continue };
                let accepted = Acceptance { skips_unsupported: true, ..acceptance(options, false) };
                match LoadedHooks::of_bytes(&bytes, &path, contract, accepted) {
                    Ok(loaded) => loaded.hooks.iter().for_each(|hook| mention(&mut mentions, hook)),
                    Err(_) => mentions.texts.push(String::from_utf8_lossy(&bytes).into_owned()),
                }
            }
        }
        mentions
    }

    /// Adds the hooks of a file.
    fn add(
        &mut self,
        path: &Path,
        contract: Contract,
        accepted: Acceptance<'_>,
    ) -> Result<(), String> {
        let is_named = accepted.is_named;
        let is_same = |file: &HookFile| resolved(&file.path) == resolved(path);
        if self.files.iter().any(is_same) {
            return Ok(());
        }
        let loaded = LoadedHooks::read(path, contract, accepted)?;
        if is_named && loaded.hooks.is_empty() && loaded.notes.is_empty() {
            self.notes.push(format!("{} has no hooks", path.display()));
        }
        self.keep(path, loaded, contract == Contract::Claude && !is_named);
        Ok(())
    }

    fn keep(&mut self, path: &Path, loaded: LoadedHooks, is_merged: bool) {
        let LoadedHooks { hooks, notes, disables } = loaded;
        self.notes.extend(notes);
        self.files.push(HookFile { path: path.to_owned(), hooks, is_merged, disables });
    }

    /// Whether a file disables the hooks of all settings that Claude Code merges.
    pub(crate) fn disables_merged(&self) -> bool {
        self.files.iter().any(|file| file.is_merged && file.disables)
    }

    /// The hooks that do not belong to one of these files, and perhaps not to merged settings.
    pub(crate) fn hooks_without<'a>(
        &'a self,
        skipped: &'a [PathBuf],
        without_merged: bool,
    ) -> impl Iterator<Item = &'a Arc<Hook>> {
        let is_left_out = move |file: &HookFile| {
            skipped.contains(&file.path) || (file.is_merged && without_merged)
        };
        let files = self.files.iter().filter(move |file| !is_left_out(file));
        self.own.iter().chain(files.flat_map(|file| &file.hooks))
    }

    /// The hooks of these files.
    pub(crate) fn hooks_of<'a>(
        &'a self,
        files: &'a [PathBuf],
    ) -> impl Iterator<Item = &'a Arc<Hook>> {
        self.files.iter().filter(|file| files.contains(&file.path)).flat_map(|file| &file.hooks)
    }

    /// The files that the agent runs itself.
    pub(crate) fn skipped(&self, agent: AgentKind, directory: &Path) -> Vec<PathBuf> {
        let files = self.files.iter().filter(|file| !file.hooks.is_empty());
        let files = files.filter(|file| runs_itself(agent, &file.path, directory));
        files.map(|file| file.path.clone()).collect()
    }
}

/// Adds what a hook runs.
fn mention(mentions: &mut Mentions, hook: &Hook) {
    let event = hook.event.name();
    match &hook.action {
        HookAction::Command { command, args, .. } => {
            let words: Vec<&str> =
                [command].into_iter().chain(args.iter().flatten()).map(String::as_str).collect();
            mentions.runs.push(format!("{event}: {}", words.join(" ")));
            mentions.texts.extend(words.into_iter().map(str::to_owned));
        }
        HookAction::Http { url, .. } => mentions.runs.push(format!("{event}: sends to {url}")),
    }
}

/// A folder as a word of a command line.
fn command_word(folder: &Path) -> String {
    let text = folder.display().to_string();
    let plain = |it: char| it.is_alphanumeric() || "/-_.:@+,\\".contains(it);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn acceptance(options: &Hooks, is_named: bool) -> Acceptance<'_> {
    let skips_unsupported = options.skip_unsupported;
    Acceptance {
        http_hosts: &options.allow_http,
        skips_unsupported,
        notes_foreign: false,
        is_named,
    }
}

fn project_files(directory: &Path) -> [(PathBuf, Contract); 4] {
    let (claude, codex) = (directory.join(".claude"), directory.join(".codex"));
    [
        (claude.join("settings.json"), Contract::Claude),
        (claude.join("settings.local.json"), Contract::Claude),
        (codex.join("hooks.json"), Contract::Codex),
        (codex.join("config.toml"), Contract::Codex),
    ]
}

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from)
}

pub(crate) fn home() -> Option<PathBuf> {
    folder("HOME").or_else(|| folder("USERPROFILE"))
}

/// The user's folder of an agent, which a variable may move.
fn user_folder(variable: &str, name: &str) -> Option<PathBuf> {
    folder(variable).or_else(|| home().map(|home| home.join(name)))
}

/// Whether the agent runs the hooks of this file itself.
fn runs_itself(agent: AgentKind, path: &Path, directory: &Path) -> bool {
    let (variable, folder, names): (_, _, &[&str]) = match agent {
        AgentKind::ClaudeAgent | AgentKind::ClaudeCode => {
            ("CLAUDE_CONFIG_DIR", ".claude", &["settings.json", "settings.local.json"])
        }
        AgentKind::Codex => ("CODEX_HOME", ".codex", &["hooks.json", "config.toml"]),
        AgentKind::Gemini => ("", ".gemini", &["settings.json"]),
        AgentKind::Qwen => ("", ".qwen", &["settings.json"]),
        _ => return false,
    };
    let own = Some(directory).filter(|it| !it.as_os_str().is_empty());
    let above = own.filter(|_| agent == AgentKind::Codex).map(folders_of_repository);
    let own = own.map(Path::to_owned).into_iter().chain(above.into_iter().flatten());
    let folders = user_folder(variable, folder).into_iter().chain(own.map(|it| it.join(folder)));
    let mut files = folders.flat_map(|it| names.iter().map(move |name| it.join(name)));
    let path = resolved(path);
    files.any(|file| resolved(&file) == path)
}

/// The folders above this one, up to the root of its repository. None without a repository.
fn folders_of_repository(directory: &Path) -> Vec<PathBuf> {
    let folders: Vec<&Path> = directory.ancestors().collect();
    let root = folders.iter().position(|it| it.join(".git").exists());
    folders[..root.map_or(0, |it| it + 1)].iter().map(|it| it.to_path_buf()).collect()
}

fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_runs_the_hooks_of_its_own_files_only() {
        let project = Path::new("/no/such/project");
        let settings = project.join(".claude/settings.json");
        let local = project.join(".claude/settings.local.json");
        let codex = project.join(".codex/hooks.json");
        for (agent, path, is_own) in [
            (AgentKind::ClaudeAgent, &settings, true),
            (AgentKind::ClaudeCode, &local, true),
            (AgentKind::ClaudeAgent, &codex, false),
            (AgentKind::Codex, &codex, true),
            (AgentKind::Codex, &settings, false),
            (AgentKind::Goose, &settings, false),
            (AgentKind::Kimi, &local, false),
            (AgentKind::Other, &settings, false),
            (AgentKind::Qwen, &settings, false),
        ] {
            assert_eq!(runs_itself(agent, path, project), is_own, "{agent:?} {}", path.display());
        }
        let other = Path::new("/no/such/team-hooks.json");
        assert!(!runs_itself(AgentKind::ClaudeAgent, other, project));
        // The settings of another project.
        assert!(!runs_itself(AgentKind::ClaudeAgent, &settings, Path::new("/elsewhere")));
    }

    #[test]
    fn the_hooks_of_the_user_are_skipped_if_the_agent_runs_them() {
        let Some(home) = home() else { return };
        let user = home.join(".claude/settings.json");
        assert!(runs_itself(AgentKind::ClaudeAgent, &user, Path::new("")));
        assert!(!runs_itself(AgentKind::Gemini, &user, Path::new("")));
    }
}
