//! Compares actions with rules.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use self::fit::{Reach, path_fit, run_fit, url_fit, widest};
use super::url::{LocalFile, local_file};
use super::{AskLimit, Decision, Rule, Rules, Surroundings, Verdict};
use crate::permissions::command::SimpleCommand;
use crate::permissions::command::files::{self, Inside, Looks};
use crate::permissions::command::hosts::Host;
use crate::permissions::command::parts::{Part, Parts, is_unknown};
use crate::permissions::command::pattern::{Fit, Machine};
use crate::permissions::command::words::{Word, glob};
use crate::permissions::paths::{Base, PathPattern, Place, resolve};
use component_base::action::{Action, CommandLine, Operation};

mod arguments;
mod fit;
mod mcp;

/// The longest part of a command line in a reason.
const MAX_SHOWN: usize = 120;
/// The most paths of a command line whose links are resolved.
const MAX_LOOKUPS: usize = 300;
/// The most words and parts of words whose links are resolved, because they may be paths.
const MAX_GUESSES: usize = 1500;
/// The most paths in code that an interpreter reads as its input.
const MAX_MENTIONS: usize = 140;
/// The most words behind which parts of words are still compared with rules, because they may be paths. There is a doubt
/// long before. Whole words are always compared.
const MAX_PATHS: usize = 20_000;
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
        guesses: 0,
        looks: Looks::default(),
        mentions: 0,
        seen: HashSet::new(),
        hosts: HashSet::new(),
        findings: Vec::new(),
    };
    for operation in &action.operations {
        judge.operation(operation, action, surroundings);
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
            path_fit(rule.decision, patterns, &place, &base, Reach::PATH, machine) == Fit::Yes
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
    /// How many words and parts of words were looked up, because they may be paths.
    guesses: usize,
    /// How much of the command lines was searched for paths.
    looks: Looks,
    /// How many paths were found in code that an interpreter reads as its input.
    mentions: usize,
    /// The paths that were judged, each with the kind of its use.
    seen: HashSet<(Word, bool, Inside, bool, usize)>,
    /// The hosts that were judged.
    hosts: HashSet<Host>,
    findings: Vec<Finding<'r>>,
}

impl<'r> Judge<'r> {
    fn operation(&mut self, operation: &Operation, action: &Action, surroundings: &Surroundings) {
        match operation {
            Operation::Run(command) => {
                let parts = Parts::of(command, surroundings.windows_shell);
                self.other_folder();
                self.run(&parts);
            }
            Operation::Read(path) => {
                let inside = match self.base.cwd.join(path).is_dir() {
                    true => Inside::Everything,
                    false => Inside::Nothing,
                };
                self.file(path, false, inside);
            }
            Operation::Write(path) => self.file(path, true, Inside::Nothing),
            Operation::Delete(path) => self.file(path, true, Inside::Everything),
            Operation::Fetch(url) => {
                let fit = |rule: &Rule| url_fit(rule, url);
                let found = self.judge(&fit, false, || format!("the address `{}`", shown(url)));
                self.findings.extend(found);
                self.local_address(url);
            }
            Operation::Mcp { server, tool } => {
                self.whole(&format!("mcp__{server}__{tool}"));
                self.arguments_of_mcp(tool, &action.input, surroundings);
            }
        }
    }

    /// A program may run what it finds in its working directory, such as `.git/config` or `package.json`. So a command in
    /// another folder than the session's is judged like one behind `cd FOLDER`.
    fn other_folder(&mut self) {
        let cwd = self.base.cwd.clone();
        if cwd == self.base.session.path || resolve(&cwd) == resolve(&self.base.session.path) {
            return;
        }
        let words = vec![Word::of_text("cd"), Word::of_text(cwd.to_string_lossy())];
        let command = SimpleCommand { words, ..SimpleCommand::default() };
        let part = Part { command, inner: false, opens: false };
        let machine = self.machine;
        let fit = |rule: &Rule| run_fit(rule, &part, machine);
        let found = self.judge(&fit, false, || {
            format!("the working directory `{}`", shown(&cwd.to_string_lossy()))
        });
        self.findings.extend(found);
    }

    /// Whether a command changes to the folder of the session, where every command begins. It needs no rule that allows it.
    fn stays_in_project(&self, command: &SimpleCommand) -> bool {
        let [program, target] = command.words.as_slice() else { return false };
        let Some(target) = target.text().filter(|_| program.text() == Some("cd")) else {
            return false;
        };
        let is_plain = command.assignments.is_empty() && command.redirections.is_empty();
        is_plain
            && target.starts_with('/')
            && resolve(Path::new(target)) == resolve(&self.base.session.path)
    }

    /// A file that is moved can be read afterwards: rules that deny or ask about reading it count.
    fn moved(&mut self, operations: &[Operation]) {
        if !operations.iter().any(|it| matches!(it, Operation::Write(_))) {
            return;
        }
        for operation in operations {
            if let Operation::Delete(path) = operation {
                let path = Word::of_text(path.to_string_lossy());
                self.path(&path, false, Inside::Everything, true, true);
            }
        }
    }

    /// An address such as `file:///etc/passwd` is a file.
    fn local_address(&mut self, url: &str) {
        if let Some(LocalFile { path, is_clear }) = local_file(url) {
            if !is_clear {
                self.doubt("it reads a file by its address");
            }
            self.file(Path::new(&path), false, Inside::Nothing);
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

    fn file(&mut self, path: &Path, writes: bool, inside: Inside) {
        // Many agents take a tilde for the home folder, and others for a name.
        if let Some(rest) = path.to_str().and_then(|it| it.strip_prefix('~')) {
            match (&self.base.home, rest.strip_prefix(['/', '\\'])) {
                (Some(home), Some(rest)) => {
                    self.one_file(&home.path.join(rest.trim_start_matches('/')), writes, inside)
                }
                (Some(home), None) if rest.is_empty() => {
                    self.one_file(&home.path.clone(), writes, inside);
                }
                _ => self.doubt("its path begins with a tilde"),
            }
        }
        self.one_file(path, writes, inside);
    }

    fn one_file(&mut self, path: &Path, writes: bool, inside: Inside) {
        let place = Place::of_path(path, &self.base.cwd);
        let reach = Reach::of(inside, writes, &place);
        let fit = |rule: &Rule| match rule.has_targets() {
            true => {
                path_fit(rule.decision, rule.paths(writes), &place, &self.base, reach, self.machine)
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

    /// Searches text that is not parsed for words that a rule denies or asks about.
    fn raw(&mut self, texts: &[Vec<Word>]) {
        for words in texts {
            let machine = self.machine;
            let fit = |rule: &Rule| match (rule.decision, rule.has_targets()) {
                (Decision::Allow, _) | (_, false) => Fit::No,
                _ => widest(&rule.run, words, true, machine),
            };
            let found = self.judge(&fit, true, || format!("the command `{}`", shown_words(words)));
            self.findings.extend(found);
        }
    }

    fn run(&mut self, parts: &Parts) {
        for doubt in &parts.doubts {
            self.doubt(doubt);
        }
        self.raw(&parts.raw);
        self.change_folders(parts);
        self.named_in_code(parts);
        self.links(parts);
        let mut decided = false;
        for part in &parts.commands {
            let words = &part.command.words;
            if !words.is_empty() {
                decided |= !part.inner;
                let machine = self.machine;
                let fit = |rule: &Rule| run_fit(rule, part, machine);
                let only_stricter = part.inner || self.stays_in_project(&part.command);
                let found = self
                    .judge(&fit, only_stricter, || format!("the command `{}`", shown_words(words)));
                self.findings.extend(found);
            }
            self.redirections(part);
            self.arguments(part);
            decided |= part.command.redirections.iter().any(|it| it.writes);
        }
        self.note_unseen();
        if !decided {
            // Nothing runs: an empty command line, or only assignments. Or it is not known what runs: then a rule about
            // the tool, or the default, can still deny it.
            self.whole("Bash");
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
