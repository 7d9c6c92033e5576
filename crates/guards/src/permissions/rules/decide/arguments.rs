//! Files, addresses and redirections of a command line.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::path::PathBuf;

use super::fit::{Reach, host_fit, path_fit};
use super::{Judge, MAX_GUESSES, MAX_LOOKUPS, MAX_MENTIONS, MAX_PATHS, shown, shown_word};
use crate::permissions::command::files::{self, FileUse, Inside};
use crate::permissions::command::hosts::{self, Host};
use crate::permissions::command::parts::{Part, Parts, name_of};
use crate::permissions::command::pattern::Fit;
use crate::permissions::command::programs::is_flag;
use crate::permissions::command::words::Word;
use crate::permissions::paths::{MAX_NAMES, Place};
use crate::permissions::rules::{Decision, Rule};

/// How many letters of a path count as one more path.
const LETTERS: usize = 128;

impl Judge<'_> {
    pub(super) fn redirections(&mut self, part: &Part) {
        for redirection in &part.command.redirections {
            if is_device(&redirection.target) {
                continue;
            }
            if redirection.writes {
                self.path(&redirection.target, true, Inside::Nothing, true, part.inner);
            }
            if redirection.reads {
                self.path(&redirection.target, false, Inside::Nothing, true, true);
            }
        }
    }

    /// Files and addresses in the arguments of a command. They can only make the decision stricter.
    pub(super) fn arguments(&mut self, part: &Part) {
        if self.has_paths() {
            self.paths(part);
        }
        if self.rules.iter().any(|it| !it.url.is_empty()) && part.opens {
            self.hosts(&part.command.words);
        }
    }

    /// Whether a rule is about files.
    pub(super) fn has_paths(&self) -> bool {
        self.rules.iter().any(|it| !it.read.is_empty() || !it.write.is_empty())
    }

    /// A link that a command line makes leads to another file in a later command of the same line.
    pub(super) fn links(&mut self, parts: &Parts) {
        let makes_link = |part: &Part| {
            let ln = part.command.words.iter().position(|it| name_of(it).as_deref() == Some("ln"));
            let rest =
                ln.filter(|at| *at == 0 || part.opens).map(|at| &part.command.words[at + 1..]);
            rest.unwrap_or_default().iter().any(|word| match word.text() {
                Some(text) => is_flag(text, "-s") || is_flag(text, "--symbolic"),
                None => true,
            })
        };
        let others = parts.commands.iter().filter(|it| !it.inner && !it.command.words.is_empty());
        if self.has_paths() && others.count() > 1 && parts.commands.iter().any(makes_link) {
            self.doubt("it makes a link that its other commands may use");
        }
    }

    /// The hosts and addresses in the arguments of a command.
    fn hosts(&mut self, words: &[Word]) {
        for Host { word, is_host } in hosts::named(words, &mut self.hosts) {
            let mut is_known = false;
            for text in word.known_texts() {
                is_known = true;
                if is_host && hosts::is_several(text) {
                    self.doubt("its address stands for several addresses");
                }
                let fit = |rule: &Rule| host_fit(rule, text, is_host);
                let found = self.judge(&fit, true, || format!("the address `{}`", shown(text)));
                self.findings.extend(found);
            }
            if !is_known && is_host {
                let fit = |rule: &Rule| match rule.decision {
                    Decision::Allow => Fit::No,
                    _ if rule.url.is_empty() => Fit::No,
                    _ => Fit::May,
                };
                let found = self.judge(&fit, true, || "an unknown address".to_owned());
                self.findings.extend(found);
            }
        }
    }

    /// The paths in the arguments of a command. Options such as `-C` may change the folder for this command.
    fn paths(&mut self, part: &Part) {
        let words = part.command.words.as_slice();
        let folders = files::folder_options(words);
        let outer = (!folders.is_empty())
            .then(|| (self.folders.clone(), self.unknown_folder, std::mem::take(&mut self.seen)));
        folders.iter().for_each(|it| self.enter(Some(it)));
        let used = files::used(words, part.opens, &mut self.looks).into_iter();
        let plain = LazyCell::new(|| files::plain(words));
        for FileUse { path, writes, inside, certain } in used.chain(files::patched(&part.command)) {
            let may_be_none = !certain || inside == Inside::Selected;
            let is_guess = || inside == Inside::Doubtful || may_be_none && !plain.contains(&path);
            if self.guesses <= MAX_PATHS || !is_guess() {
                self.path(&path, writes, inside, certain, true);
            }
        }
        if let Some(outer) = outer {
            (self.folders, self.unknown_folder, self.seen) = outer;
        }
    }

    /// Notes why not all files of the commands are known, if there is a reason.
    pub(super) fn note_unseen(&mut self) {
        if let Some(doubt) = self.looks.doubt.take() {
            self.doubt(doubt);
        }
    }

    /// Files that are named in code which an interpreter reads as its input. The code may read and write them.
    pub(super) fn named_in_code(&mut self, parts: &Parts) {
        if !self.has_paths() {
            return;
        }
        let mut seen = HashSet::new();
        let words = parts.code.iter().filter(|it| files::looks_like_path(it));
        for word in words.filter(|it| seen.insert(*it)) {
            if self.mentions == MAX_MENTIONS {
                self.doubt("it names too many paths");
                return;
            }
            self.mentions += 1;
            for writes in [false, true] {
                self.path(word, writes, Inside::Nothing, false, true);
            }
        }
    }

    /// Judges a path in a command line.
    pub(super) fn path(
        &mut self,
        word: &Word,
        writes: bool,
        inside: Inside,
        certain: bool,
        only_stricter: bool,
    ) {
        let key = (word.clone(), writes, inside, certain, self.folders.len());
        if only_stricter && !self.seen.insert(key) {
            return;
        }
        let names = word.known_texts().map(|it| it.matches('/').count()).sum::<usize>();
        if names > MAX_NAMES {
            self.doubt("a path is too long");
        }
        let relative = !(word.starts_with('/') || word.tilde);
        let length: usize = word.known_texts().map(str::len).sum();
        let (count, most) = match certain && inside != Inside::Doubtful {
            true => (&mut self.lookups, MAX_LOOKUPS),
            false => (&mut self.guesses, MAX_GUESSES),
        };
        let before = *count;
        *count += 1 + length / LETTERS;
        let links = *count < most;
        if before < most && !links {
            self.doubt("it names too many paths");
        }
        let folders = if relative { self.folders.as_slice() } else { &self.folders[..1] };
        let place = |folder: &PathBuf| Place::of_word(word, folder, self.base.home.as_ref(), links);
        let mut places: Vec<Option<Place>> = folders.iter().map(place).collect();
        if relative && self.unknown_folder {
            places.push(None);
        }
        let verb = if writes { "writing" } else { "reading" };
        for place in places {
            let reach = place.as_ref().map(|it| Reach::of(inside, writes, it));
            let fit = |rule: &Rule| match (&place, reach, rule.has_targets()) {
                (.., false) if only_stricter => Fit::No,
                (.., false) => Fit::Yes,
                (Some(place), Some(reach), true) => path_fit(
                    rule.decision,
                    rule.paths(writes),
                    place,
                    &self.base,
                    reach,
                    self.machine,
                ),
                // Any path is possible.
                _ if rule.paths(writes).is_empty() || !certain => Fit::No,
                _ => Fit::May,
            };
            let found =
                self.judge(&fit, only_stricter, || format!("{verb} `{}`", shown_word(word)));
            self.findings.extend(found);
            if let Some(doubt) = place.and_then(|it| it.doubt).filter(|_| certain) {
                self.doubt(doubt);
            }
        }
    }
}

/// Whether a redirection goes to a device that keeps nothing.
fn is_device(word: &Word) -> bool {
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin"]
        .contains(&word.text().unwrap_or_default())
}
