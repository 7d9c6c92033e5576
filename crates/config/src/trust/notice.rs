//! What the user is told about a project that is not trusted.

use std::path::Path;

use acp_wire::{ErrorKind, printable};

use super::store::{Change, Consent};
use crate::file::File;
use crate::project::ProjectFile;

/// The maximum number of names that are listed.
const MAX_NAMES: usize = 8;

impl Consent {
    /// What the user is told: that the file of a project is not used, why, what it would have done, and how to allow it. `None` if
    /// the user has consented. `folder` is where the chain starts.
    pub fn notice(&self, project: &ProjectFile, folder: &Path) -> Option<String> {
        let why = match self {
            Consent::Given => return None,
            Consent::Missing => "you do not trust this project yet".to_owned(),
            Consent::Changed(changes) => changed(&project.root, changes),
            Consent::Unusable(why) => why.clone(),
        };
        let (path, command) = (shown(&project.path), trust_command(folder));
        let text = format!(
            "{path} is not used, because {why}. {} Your own configuration is used. To see what the file would run and to allow \
             it, run `{command}`, and then `conductor reload`, or start the agent again.",
            left_out(project)
        );
        Some(ErrorKind::UntrustedProject.tag(text))
    }

    /// Why a running chain does not leave the file of a project, although the file is not used any more: the user has not withdrawn
    /// the consent, but a file has changed. Components that guard the project must not vanish because of that.
    pub fn refusal(&self, project: &ProjectFile, folder: &Path) -> Option<String> {
        let why = match self {
            Consent::Given | Consent::Missing => return None,
            Consent::Changed(changes) => changed(&project.root, changes),
            Consent::Unusable(why) => why.clone(),
        };
        let command = trust_command(folder);
        Some(ErrorKind::UntrustedProject.tag(format!(
            "{why}. The chain goes on as it is. To see what the file of the project would run and to allow it, run `{command}`, and then \
             `conductor reload`."
        )))
    }
}

/// The command that shows the file of the project of a folder, and asks for consent. In the folder in which a chain starts, relative
/// names lead to the same files as in the chain.
pub fn trust_command(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    format!("conductor trust {}", command_word(&folder))
}

/// What the file would have done.
fn left_out(project: &ProjectFile) -> String {
    let Ok(file) = File::parse(&project.source) else {
        return "It has an error as well.".to_owned();
    };
    let components = file.components.keys().map(|it| it.value.as_str());
    let chains = file.chains.keys().map(|it| it.value.as_str());
    let parts = [names("component", components), names("chain", chains)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "It only has settings.".to_owned(),
        false => format!("It has {}.", parts.join(" and ")),
    }
}

/// `the components a, b and 3 more`. The names have no special characters: [`File::parse`] has checked them.
fn names<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let (listed, rest) = names.split_at(names.len().min(MAX_NAMES));
    let listed = listed.join(", ");
    match (names.len(), rest.len()) {
        (0, _) => None,
        (1, _) => Some(format!("the {what} {listed}")),
        (_, 0) => Some(format!("the {what}s {listed}")),
        (_, rest) => Some(format!("the {what}s {listed} and {rest} more")),
    }
}

/// `run.sh has changed since you agreed to it`.
fn changed(root: &Path, changes: &[Change]) -> String {
    let Some(Change { path, difference }) = changes.first() else {
        return "it has changed".to_owned();
    };
    let name = shown(path.strip_prefix(root).unwrap_or(path));
    let more = match changes.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    format!("{name} {difference} since you agreed to it{more}")
}

/// A path as a word of a command line.
fn command_word(path: &Path) -> String {
    let text = shown(path);
    let plain = |it: char| it.is_alphanumeric() || "/-_.:@+,\\".contains(it);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn shown(path: &Path) -> String {
    printable::one_line(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{self, tests::TestFolder};
    use crate::trust::Difference;

    fn notice(folder: &TestFolder, name: &str, consent: &Consent) -> String {
        let project = project::find(&folder.path(name), None).expect("readable").expect("found");
        let notice = consent.notice(&project, &project.root).expect("no consent");
        assert!(notice.chars().all(|it| printable::is_printable(it) && it != '\n'), "{notice:?}");
        let notice = notice.replace(&project.root.display().to_string(), "ROOT");
        notice.strip_suffix(" [more: conductor errors untrusted-project]").expect("a kind").into()
    }

    #[test]
    fn the_notice_says_what_is_left_out_why_and_how_to_allow_it() {
        let folder = TestFolder::new("notice");
        let components: String =
            (0..9).map(|it| format!("[components.c{it}]\ncommand = \"x\"\n")).collect();
        folder.write("a/.conductor.toml", format!("{components}[chains.work]\n"));
        let end = "Your own configuration is used. To see what the file would run and to allow it, run `conductor trust ROOT`, \
                   and then `conductor reload`, or start the agent again.";
        assert_eq!(
            notice(&folder, "a", &Consent::Missing),
            format!(
                "ROOT/.conductor.toml is not used, because you do not trust this project yet. It has the components c0, c1, c2, \
                 c3, c4, c5, c6, c7 and 1 more and the chain work. {end}"
            )
        );
        folder.write("b 'c'/.conductor.toml", "nonsense");
        let change =
            |name: &str, difference| Change { path: folder.path("b 'c'").join(name), difference };
        let changes =
            vec![change("a\u{1b}[2J.sh", Difference::Changed), change("b", Difference::Vanished)];
        let told = notice(&folder, "b 'c'", &Consent::Changed(changes));
        assert!(
            told.contains(
                "because a.sh has changed since you agreed to it (and 1 more). It has an error"
            ),
            "{told}"
        );
        assert!(told.contains(r"/b '\''c'\'''"), "{told}");
    }
}
