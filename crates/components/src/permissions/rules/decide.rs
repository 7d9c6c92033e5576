//! Compares actions with rules.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::url::UrlPattern;
use super::{AskLimit, Decision, Rule, Rules, Surroundings, Verdict};
use crate::action::{Action, CommandLine, Operation};
use crate::permissions::command::files::{self, FileUse};
use crate::permissions::command::parts::{Part, Parts, is_unknown};
use crate::permissions::command::pattern::{Fit, Machine, RunPattern};
use crate::permissions::command::words::{Word, glob};
use crate::permissions::paths::{Base, PathPattern, Place, Relation};

/// The longest part of a command line in a reason.
const MAX_SHOWN: usize = 120;
/// The most paths of a command line whose links are resolved.
const MAX_LOOKUPS: usize = 300;
/// The most working directories that a command line may have.
const MAX_FOLDERS: usize = 8;

/// Decides about an action.
pub(super) fn decide(rules: &Rules, action: &Action, surroundings: &Surroundings) -> Verdict {
    let applicable: Vec<&Rule> = rules
        .rules
        .iter()
        .filter(|rule| rule.applies(action, surroundings))
        .map(AsRef::as_ref)
        .collect();
    let session = surroundings.project.as_deref().unwrap_or(&action.cwd);
    let mut base = Base::new(session, surroundings.home.as_deref());
    base.cwd.clone_from(&action.cwd);
    let mut judge = Judge {
        rules: applicable,
        default: rules.default,
        machine: Machine {
            case_blind: surroundings.case_blind,
            search_path: &surroundings.search_path,
        },
        base,
        folders: vec![action.cwd.clone()],
        unknown_folder: false,
        lookups: 0,
        seen: HashSet::new(),
        findings: Vec::new(),
    };
    for operation in &action.operations {
        judge.operation(operation, surroundings);
    }
    judge.moved(&action.operations);
    if action.operations.is_empty() {
        judge.whole(&action.tool.common);
    }
    let is_described = !action.operations.is_empty() || judge.names_the_tool(action);
    if action.opaque || !is_described {
        judge.doubt("the agent has not described the action completely");
    }
    judge.verdict()
}

/// Whether a rule matches an example: a command, a path, an address or the name of a tool.
pub(super) fn example_matches(rule: &Rule, example: &str, folder: &Path) -> bool {
    let surroundings = Surroundings::of_system(Vec::new());
    let machine =
        Machine { case_blind: surroundings.case_blind, search_path: &surroundings.search_path };
    let base = Base::new(folder, surroundings.home.as_deref());
    let path = |patterns: &[PathPattern]| {
        let place = Place::of_word(&example_path(example), &base.cwd, base.home.as_ref(), true);
        place.is_some_and(|place| {
            path_fit(rule.decision, patterns, &place, &base, Depth::Path, machine) == Fit::Yes
        })
    };
    if !rule.run.is_empty() {
        let parts = Parts::of(&CommandLine::Shell(example.to_owned()), false);
        let fits = |part: &Part| run_fit(rule, part, machine) == Fit::Yes;
        let raw =
            |words: &Vec<Word>| rule.run.iter().any(|it| it.wide(words, true, machine) == Fit::Yes);
        return match rule.decision {
            Decision::Allow => {
                let mut outer = parts.commands.iter().filter(|it| !it.inner).peekable();
                parts.doubts.is_empty() && outer.peek().is_some() && outer.all(fits)
            }
            _ => parts.commands.iter().any(fits) || parts.raw.iter().any(raw),
        };
    }
    if !rule.read.is_empty() || !rule.write.is_empty() {
        return path(&rule.read) || path(&rule.write);
    }
    if !rule.url.is_empty() {
        return url_fit(rule, example) == Fit::Yes;
    }
    rule.tool
        .iter()
        .chain(&rule.kind)
        .chain(&rule.agent)
        .chain(&rule.session)
        .any(|it| glob(it, example))
}

fn example_path(text: &str) -> Word {
    Word { tilde: text == "~" || text.starts_with("~/"), ..Word::of_text(text) }
}

/// What was found out about a part of an action.
struct Finding<'r> {
    decision: Decision,
    rule: Option<&'r Rule>,
    why: String,
    ask: Option<AskLimit>,
}

struct Judge<'r> {
    rules: Vec<&'r Rule>,
    default: Decision,
    machine: Machine<'r>,
    base: Base,
    /// The working directories that the current command may have.
    folders: Vec<PathBuf>,
    /// Whether the working directory is not known.
    unknown_folder: bool,
    /// How many paths of command lines were looked up.
    lookups: usize,
    /// The paths that were judged, each with the kind of its use.
    seen: HashSet<(Word, bool, bool, usize)>,
    findings: Vec<Finding<'r>>,
}

impl<'r> Judge<'r> {
    fn operation(&mut self, operation: &Operation, surroundings: &Surroundings) {
        match operation {
            Operation::Run(command) => {
                let parts = Parts::of(command, surroundings.windows_shell);
                self.run(&parts);
            }
            Operation::Read(path) => self.file(path, false, path_is_folder(&self.base.cwd, path)),
            Operation::Write(path) => self.file(path, true, false),
            Operation::Delete(path) => self.file(path, true, true),
            Operation::Fetch(url) => {
                let fit = |rule: &Rule| url_fit(rule, url);
                let found = self.judge(&fit, false, || format!("the address `{}`", shown(url)));
                self.findings.extend(found);
                self.local_address(url);
            }
            Operation::Mcp { server, tool } => self.whole(&format!("mcp__{server}__{tool}")),
        }
    }

    /// A file that is moved can be read afterwards: rules that deny or ask about reading it count.
    fn moved(&mut self, operations: &[Operation]) {
        if !operations.iter().any(|it| matches!(it, Operation::Write(_))) {
            return;
        }
        for operation in operations {
            if let Operation::Delete(path) = operation {
                let path = Word::of_text(path.to_string_lossy());
                self.path(&path, false, true, true, true);
            }
        }
    }

    /// An address such as `file:///etc/passwd` is a file.
    fn local_address(&mut self, url: &str) {
        let Some((scheme, rest)) = url.trim().split_once(':') else { return };
        if !scheme.eq_ignore_ascii_case("file") {
            return;
        }
        let path = rest.trim_start_matches('/');
        let path = path.strip_prefix("localhost/").unwrap_or(path);
        match path.contains(['%', '?', '#', '\\']) {
            true => self.doubt("it reads a file by its address"),
            false => self.file(&Path::new("/").join(path), false, false),
        }
    }

    /// Judges an action of which only the tool is known.
    fn whole(&mut self, tool: &str) {
        let fit = |rule: &Rule| if rule.has_targets() { Fit::No } else { Fit::Yes };
        let found = self.judge(&fit, false, || format!("the tool `{}`", shown(tool)));
        self.findings.extend(found);
    }

    /// Whether the last part was decided by a rule that has the name of the tool, and not only a pattern.
    fn names_the_tool(&self, action: &Action) -> bool {
        let rule = self.findings.last().and_then(|it| it.rule);
        let names = [Some(&action.tool.common), action.tool.native.as_ref()];
        rule.is_some_and(|rule| names.into_iter().flatten().any(|it| rule.tool.contains(it)))
    }

    fn file(&mut self, path: &Path, writes: bool, recursive: bool) {
        // Many agents take a tilde for the home folder, and others for a name.
        if let Some(rest) = path.to_str().and_then(|it| it.strip_prefix('~')) {
            match (&self.base.home, rest.strip_prefix(['/', '\\'])) {
                (Some(home), Some(rest)) => {
                    self.one_file(&home.path.join(rest.trim_start_matches('/')), writes, recursive)
                }
                (Some(home), None) if rest.is_empty() => {
                    self.one_file(&home.path.clone(), writes, recursive);
                }
                _ => self.doubt("its path begins with a tilde"),
            }
        }
        self.one_file(path, writes, recursive);
    }

    fn one_file(&mut self, path: &Path, writes: bool, recursive: bool) {
        let place = Place::of_path(path, &self.base.cwd);
        let depth = Depth::of(recursive, writes);
        let fit = |rule: &Rule| match rule.has_targets() {
            true => {
                path_fit(rule.decision, rule.paths(writes), &place, &self.base, depth, self.machine)
            }
            false => Fit::Yes,
        };
        let verb = if writes { "writing" } else { "reading" };
        let found =
            self.judge(&fit, false, || format!("{verb} `{}`", shown(&path.to_string_lossy())));
        self.findings.extend(found);
        if let Some(doubt) = place.doubt {
            self.doubt(doubt);
        }
    }

    fn run(&mut self, parts: &Parts) {
        for doubt in &parts.doubts {
            self.doubt(doubt);
        }
        for words in &parts.raw {
            let machine = self.machine;
            let fit = |rule: &Rule| match (rule.decision, rule.has_targets()) {
                (Decision::Allow, _) | (_, false) => Fit::No,
                _ => widest(&rule.run, words, true, machine),
            };
            let found = self.judge(&fit, true, || format!("the command `{}`", shown_words(words)));
            self.findings.extend(found);
        }
        self.change_folders(parts);
        let mut decided = false;
        for part in &parts.commands {
            let words = &part.command.words;
            if !words.is_empty() {
                decided |= !part.inner;
                let machine = self.machine;
                let fit = |rule: &Rule| run_fit(rule, part, machine);
                let found = self
                    .judge(&fit, part.inner, || format!("the command `{}`", shown_words(words)));
                self.findings.extend(found);
            }
            self.redirections(part);
            self.arguments(part);
            decided |= part.command.redirections.iter().any(|it| it.writes);
        }
        if !decided {
            // Nothing runs: an empty command line, or only assignments. Or it is not known what runs: then a rule about
            // the tool, or the default, can still deny it.
            self.whole("Bash");
        }
    }

    fn redirections(&mut self, part: &Part) {
        for redirection in &part.command.redirections {
            if is_device(&redirection.target) {
                continue;
            }
            if redirection.writes {
                self.path(&redirection.target, true, false, true, part.inner);
            }
            if redirection.reads {
                self.path(&redirection.target, false, false, true, true);
            }
        }
    }

    /// Files and addresses in the arguments of a command. They can only make the decision stricter.
    fn arguments(&mut self, part: &Part) {
        let paths = self.rules.iter().any(|it| !it.read.is_empty() || !it.write.is_empty());
        let urls = self.rules.iter().any(|it| !it.url.is_empty());
        if paths {
            self.paths(&part.command.words, part.opens);
        }
        if urls && part.opens {
            for text in part.command.words.iter().skip(1).flat_map(Word::known_texts) {
                if text.contains("://") {
                    let fit = |rule: &Rule| {
                        if rule.url.is_empty() { Fit::No } else { url_fit(rule, text) }
                    };
                    let found = self.judge(&fit, true, || format!("the address `{}`", shown(text)));
                    self.findings.extend(found);
                }
            }
        }
    }

    /// The paths in the arguments of a command. Options such as `-C` may change the folder for this command.
    fn paths(&mut self, words: &[Word], opens: bool) {
        let folders = files::folder_options(words);
        let outer = (!folders.is_empty())
            .then(|| (self.folders.clone(), self.unknown_folder, std::mem::take(&mut self.seen)));
        folders.iter().for_each(|it| self.enter(Some(it)));
        for FileUse { path, writes, recursive, certain } in files::used(words, opens) {
            self.path(&path, writes, recursive, certain, true);
        }
        if let Some(outer) = outer {
            (self.folders, self.unknown_folder, self.seen) = outer;
        }
    }

    /// Judges a path in a command line.
    fn path(
        &mut self,
        word: &Word,
        writes: bool,
        recursive: bool,
        certain: bool,
        only_stricter: bool,
    ) {
        let key = (word.clone(), writes, recursive, self.folders.len());
        if only_stricter && !self.seen.insert(key) {
            return;
        }
        let relative = !(word.starts_with('/') || word.tilde);
        self.lookups += 1;
        if self.lookups == MAX_LOOKUPS {
            self.doubt("it names too many paths");
        }
        let links = self.lookups < MAX_LOOKUPS;
        let folders = if relative { self.folders.as_slice() } else { &self.folders[..1] };
        let place = |folder: &PathBuf| Place::of_word(word, folder, self.base.home.as_ref(), links);
        let mut places: Vec<Option<Place>> = folders.iter().map(place).collect();
        if relative && self.unknown_folder {
            places.push(None);
        }
        let verb = if writes { "writing" } else { "reading" };
        let depth = Depth::of(recursive, writes);
        for place in places {
            let fit = |rule: &Rule| match (&place, rule.has_targets()) {
                (_, false) if only_stricter => Fit::No,
                (_, false) => Fit::Yes,
                (Some(place), true) => path_fit(
                    rule.decision,
                    rule.paths(writes),
                    place,
                    &self.base,
                    depth,
                    self.machine,
                ),
                // Any path is possible.
                (None, true) if rule.paths(writes).is_empty() || !certain => Fit::No,
                (None, true) => Fit::May,
            };
            let found =
                self.judge(&fit, only_stricter, || format!("{verb} `{}`", shown_word(word)));
            self.findings.extend(found);
            if let Some(doubt) = place.and_then(|it| it.doubt).filter(|_| certain) {
                self.doubt(doubt);
            }
        }
    }

    /// Adds the folders that the commands of a line may change to. All commands may run in all of them: a function or a
    /// trap runs later than it is written.
    fn change_folders(&mut self, parts: &Parts) {
        let targets: Vec<Option<Word>> =
            parts.commands.iter().flat_map(|it| files::changes_folder(&it.command.words)).collect();
        for target in &targets {
            self.enter(target.as_ref());
        }
        // A relative path leads to a further folder each time.
        let is_relative = |it: &Word| !(it.starts_with('/') || it.tilde);
        self.unknown_folder |= parts.repeats && targets.iter().flatten().any(is_relative);
    }

    /// Adds a folder that commands may run in. `None` if it is not known.
    fn enter(&mut self, target: Option<&Word>) {
        let home = self.base.home.as_ref().map(|it| it.path.clone());
        let target = target.and_then(|word| match (word.text()?, word.tilde) {
            (text, true) => home.map(|it| it.join(text.trim_start_matches(['~', '/']))),
            (text, false) => Some(PathBuf::from(text)),
        });
        let Some(target) = target.filter(|_| self.folders.len() < MAX_FOLDERS) else {
            self.unknown_folder = true;
            return;
        };
        for index in 0..self.folders.len() {
            let folder = self.folders[index].join(&target);
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
    }

    /// Finds the first rule that matches a part. A part that can only make the decision stricter needs no rule.
    fn judge(
        &self,
        fit: &dyn Fn(&Rule) -> Fit,
        only_stricter: bool,
        what: impl Fn() -> String,
    ) -> Vec<Finding<'r>> {
        let mut findings = Vec::new();
        let mut found = None;
        for rule in &self.rules {
            match (fit(rule), rule.decision) {
                (Fit::No, _) | (Fit::May, Decision::Allow) => {}
                (Fit::Yes, _) => {
                    found = Some(*rule);
                    break;
                }
                (Fit::May, _) => {
                    let why = format!(
                        "{} may match the {}, because a part of it is not known",
                        what(),
                        rule.label()
                    );
                    findings.push(Finding {
                        decision: Decision::Ask,
                        rule: Some(rule),
                        why,
                        ask: None,
                    });
                }
            }
        }
        match found {
            Some(rule) if only_stricter && rule.decision == Decision::Allow => {}
            Some(rule) => {
                let why = format!("{} matches the {}", what(), rule.label());
                findings.push(Finding {
                    decision: rule.decision,
                    rule: Some(rule),
                    why,
                    ask: rule.ask,
                });
            }
            None if only_stricter => {}
            None => {
                let why = format!("no rule matches {}", what());
                findings.push(Finding { decision: self.default, rule: None, why, ask: None });
            }
        }
        findings
    }

    /// Notes a reason why the action must not be allowed.
    fn doubt(&mut self, why: &str) {
        let why = format!("no rule can allow it: {why}");
        self.findings.push(Finding { decision: Decision::Ask, rule: None, why, ask: None });
    }

    fn verdict(self) -> Verdict {
        let strictest = self.findings.iter().map(|it| it.decision).max().unwrap_or(self.default);
        let mut deciding = self.findings.iter().filter(|it| it.decision == strictest);
        // A reason with a rule says more than one without.
        let best = deciding.clone().find(|it| it.rule.is_some()).or_else(|| deciding.next());
        let asks = self.findings.iter().filter(|it| it.decision == Decision::Ask).map(|it| it.ask);
        let ask = asks.reduce(|first, second| {
            let (first, second) = (first?, second?);
            Some(AskLimit {
                after: first.after.min(second.after),
                then: first.then.max(second.then),
            })
        });
        Verdict {
            decision: strictest,
            rule: best.and_then(|it| it.rule).map(|it| it.reference.clone()),
            why: best.map_or_else(|| "no rule matches".to_owned(), |it| it.why.clone()),
            ask: ask.flatten().filter(|_| strictest == Decision::Ask),
        }
    }
}

fn path_is_folder(cwd: &Path, path: &Path) -> bool {
    cwd.join(path).is_dir()
}

/// Whether a redirection goes to a device that keeps nothing.
fn is_device(word: &Word) -> bool {
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin"]
        .contains(&word.text().unwrap_or_default())
}

/// How well a command fits a rule.
fn run_fit(rule: &Rule, part: &Part, machine: Machine<'_>) -> Fit {
    match rule.decision {
        _ if !rule.has_targets() && part.inner => Fit::No,
        _ if !rule.has_targets() => Fit::Yes,
        Decision::Allow => {
            let allows = |pattern: &RunPattern| pattern.narrow(&part.command, machine).is_ok();
            if rule.run.iter().any(allows) { Fit::Yes } else { Fit::No }
        }
        _ => widest(&rule.run, &part.command.words, part.opens, machine),
    }
}

fn widest(patterns: &[RunPattern], words: &[Word], opens: bool, machine: Machine<'_>) -> Fit {
    patterns.iter().map(|it| it.wide(words, opens, machine)).max().unwrap_or(Fit::No)
}

/// Whether an access concerns everything inside of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Only the path itself.
    Path,
    /// Everything inside is read.
    Reads,
    /// Everything inside is changed or deleted.
    Changes,
}

impl Depth {
    fn of(recursive: bool, writes: bool) -> Depth {
        match (recursive, writes) {
            (false, _) => Depth::Path,
            (true, false) => Depth::Reads,
            (true, true) => Depth::Changes,
        }
    }
}

/// How well a path fits patterns.
fn path_fit(
    decision: Decision,
    patterns: &[PathPattern],
    place: &Place,
    base: &Base,
    depth: Depth,
    machine: Machine<'_>,
) -> Fit {
    if decision == Decision::Allow {
        let allows = |it: &PathPattern| it.narrow(place, base, machine.case_blind);
        return if patterns.iter().any(allows) { Fit::Yes } else { Fit::No };
    }
    let relation = patterns.iter().map(|it| it.wide(place, base, machine.case_blind)).max();
    match (relation.unwrap_or(Relation::Apart), depth) {
        (Relation::Matches, _) | (Relation::Inside, Depth::Changes) => Fit::Yes,
        (Relation::MaybeInside, Depth::Changes) | (Relation::Inside, Depth::Reads) => Fit::May,
        _ => Fit::No,
    }
}

fn url_fit(rule: &Rule, url: &str) -> Fit {
    let fits = |it: &UrlPattern| match rule.decision {
        Decision::Allow => it.narrow(url),
        _ => it.wide(url),
    };
    match rule.has_targets() {
        true if rule.url.iter().any(fits) => Fit::Yes,
        true => Fit::No,
        false => Fit::Yes,
    }
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn shown_word(word: &Word) -> String {
    match word.text() {
        Some(text) => shown(text),
        None if is_unknown(word) => "an unknown path".to_owned(),
        None => word.known_texts().collect::<Vec<_>>().join("*"),
    }
}

fn shown_words(words: &[Word]) -> String {
    let texts: Vec<&str> = words.iter().take(20).map(|it| it.text().unwrap_or("…")).collect();
    shown(&texts.join(" "))
}
