//! Paths of files, and the patterns of paths in rules.
//!
//! A path is compared twice: as it is written, and with its symbolic links resolved. Hard links, and links that change
//! between the decision and the access, cannot be seen.

use std::path::{Component, Path, PathBuf};

use super::command::{Unit, Word};

/// The most links that are followed for one path.
const MAX_LINKS: usize = 40;
/// The longest path that is compared.
const MAX_PATH: usize = 4096;
/// The most names of a path that is compared: a longer path cannot be opened, and there is a doubt about it.
pub(crate) const MAX_NAMES: usize = MAX_PATH / 2;

/// The names of a path, from the root on. A name may have unknown parts.
pub(crate) type Names = Vec<Vec<Unit>>;

/// A place in the file system that a command or a tool uses.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The path as it is written, made absolute.
    pub(crate) written: Names,
    /// The path with its symbolic links resolved, as far as it exists.
    pub(crate) resolved: Names,
    /// Whether the whole path is known, without globs.
    pub(crate) exact: bool,
    /// Why the path must not be allowed, if there is a reason.
    pub(crate) doubt: Option<&'static str>,
    /// The path in the file system, if it is known and its links are resolved.
    real: Option<PathBuf>,
}

/// What there is inside of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The place is a file.
    Nothing,
    /// There is nothing at this place.
    Missing,
    /// The place is a folder, or it is not known.
    Unknown,
}

/// A folder that paths are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Its path.
    pub(crate) path: PathBuf,
    written: Names,
    resolved: Names,
}

impl Folder {
    /// The folder with this path. Its links are resolved now.
    pub(crate) fn new(path: &Path) -> Folder {
        Folder {
            path: path.to_owned(),
            written: names(&lexical(path)),
            resolved: names(&resolve(path)),
        }
    }
}

/// What paths and patterns are relative to.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    /// The folder of the session. Patterns are relative to it.
    pub(crate) session: Folder,
    /// The working directory of the command. Paths are relative to it.
    pub(crate) cwd: PathBuf,
    /// The home folder.
    pub(crate) home: Option<Folder>,
}

impl Base {
    /// Paths and patterns are relative to the same folder.
    pub(crate) fn new(cwd: &Path, home: Option<&Path>) -> Base {
        Base { session: Folder::new(cwd), cwd: cwd.to_owned(), home: home.map(Folder::new) }
    }
}

impl Place {
    /// The place of a path.
    pub(crate) fn of_path(path: &Path, cwd: &Path) -> Place {
        let absolute = cwd.join(path);
        let real = resolve(&absolute);
        Place {
            written: names(&lexical(&absolute)),
            resolved: names(&real),
            exact: true,
            doubt: doubt(&absolute.to_string_lossy()),
            real: Some(real),
        }
    }

    /// What there is inside of the place, now.
    pub(crate) fn contents(&self) -> Contents {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let Some(real) = &self.real else { return Contents::Unknown };
        match std::fs::symlink_metadata(real) {
            Ok(metadata) if metadata.is_file() => Contents::Nothing,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Contents::Missing,
            _ => Contents::Unknown,
        }
    }

    fn unresolved(path: &Path, cwd: &Path) -> Place {
        let written = names(&lexical(&cwd.join(path)));
        Place { resolved: written.clone(), written, exact: true, doubt: None, real: None }
    }

    /// The place that a word of a command line names. `None` if the path is not known. Without `links`, symbolic links are
    /// not resolved.
    pub(crate) fn of_word(
        word: &Word,
        cwd: &Path,
        home: Option<&Folder>,
        links: bool,
    ) -> Option<Place> {
        if word.units.contains(&Unit::Unknown) {
            return None;
        }
        if let Some(text) = word.text() {
            let path = match text.strip_prefix('~').filter(|_| word.tilde) {
                Some(rest) => PathBuf::from(format!("{}{rest}", home?.path.display())),
                None => PathBuf::from(text),
            };
            return Some(match links {
                true => Place::of_path(&path, cwd),
                false => Place::unresolved(&path, cwd),
            });
        }
        // A glob: the folders before it are known, the rest is compared as a pattern.
        let mut known = String::new();
        let mut rest: Vec<Unit> = word.units.clone();
        if let Some(Unit::Text(first)) = word.units.first() {
            let split = first.rfind('/').map_or(0, |it| it + 1);
            known = first[..split].to_owned();
            rest[0] = Unit::Text(first[split..].to_owned());
        }
        if word.tilde {
            known = format!("{}{}", home?.path.display(), known.strip_prefix('~')?);
        }
        let folder = cwd.join(&known);
        let mut written = names(&lexical(&folder));
        let mut resolved = if links { names(&resolve(&folder)) } else { written.clone() };
        let rest = split_names(&rest);
        if rest.iter().any(|it| it.as_slice() == [Unit::Text("..".to_owned())]) {
            return None;
        }
        written.extend(rest.clone());
        resolved.extend(rest);
        let doubt = doubt(&folder.to_string_lossy());
        Some(Place { written, resolved, exact: false, doubt, real: None })
    }
}

/// Why a path must not be allowed, if there is a reason.
fn doubt(path: &str) -> Option<&'static str> {
    if path.len() > MAX_PATH {
        return Some("its path is too long");
    }
    let names: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
    let process = names.first() == Some(&"proc") && names.len() > 2;
    if process && names.iter().any(|it| ["root", "cwd", "fd", "task", "map_files"].contains(it)) {
        return Some("its path leads through another process");
    }
    if names.starts_with(&["dev", "tcp"]) || names.starts_with(&["dev", "udp"]) {
        return Some("bash opens a connection for its path");
    }
    if names.starts_with(&["dev", "fd"]) {
        return Some("its path is an open file");
    }
    if path.contains(|it: char| it.is_control()) {
        return Some("its path contains a control character");
    }
    // File systems of macOS take a letter with a separate accent for the accented letter.
    let accent = |it: char| ('\u{300}'..='\u{36f}').contains(&it);
    path.contains(accent).then_some("its path contains separate accents")
}

/// The names of an absolute path.
fn names(path: &Path) -> Names {
    path.components()
        .filter_map(|it| match it {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            Component::Prefix(prefix) => Some(prefix.as_os_str().to_string_lossy().into_owned()),
            _ => None,
        })
        .map(|name| vec![Unit::Text(name)])
        .take(MAX_NAMES)
        .collect()
}

/// Splits pieces at slashes.
fn split_names(units: &[Unit]) -> Names {
    let mut names: Names = vec![Vec::new()];
    for unit in units {
        match unit {
            Unit::Text(text) => {
                for (index, part) in text.split('/').enumerate() {
                    if index > 0 {
                        names.push(Vec::new());
                    }
                    if let Some(last) = names.last_mut()
                        && !part.is_empty()
                    {
                        last.push(Unit::Text(part.to_owned()));
                    }
                }
            }
            unit => {
                if let Some(last) = names.last_mut() {
                    last.push(unit.clone());
                }
            }
        }
    }
    names.retain(|it| !it.is_empty() && it.as_slice() != [Unit::Text(".".to_owned())]);
    names.truncate(MAX_NAMES);
    names
}

/// The path without `.` and `..`, as if there were no links.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            component => result.push(component),
        }
    }
    result
}

/// The path with its symbolic links resolved. Names that do not exist are kept.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    if path.as_os_str().len() > MAX_PATH {
        // No program can open it, and there is a doubt about it.
        return lexical(path);
    }
    let mut result = PathBuf::new();
    let mut waiting: Vec<PathBuf> = vec![path.to_owned()];
    let mut links = 0;
    while let Some(part) = waiting.pop() {
        let mut components = part.components();
        let Some(component) = components.next() else { continue };
        let rest = components.as_path().to_owned();
        if !rest.as_os_str().is_empty() {
            waiting.push(rest);
        }
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            Component::Normal(name) => {
                let next = result.join(name);
                match std::fs::read_link(&next) {
                    Ok(target) if links < MAX_LINKS => {
                        links += 1;
                        waiting.push(target);
                    }
                    _ => result = next,
                }
            }
            root => result.push(root),
        }
    }
    result
}

/// The names of a path, and those of the folder that a pattern is relative to.
type Pair<'p> = (&'p [Vec<Unit>], &'p [Vec<Unit>]);

/// A name of a pattern of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// A name, in which `*` and `?` are wildcards.
    Glob(Vec<Unit>),
    /// `**`: any number of names.
    Any,
}

/// What a pattern of paths is relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Anchor {
    /// The folder of the session.
    Session,
    /// The home folder.
    Home,
    /// This folder.
    Folder(Folder),
}

/// A pattern of paths in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathPattern {
    anchor: Anchor,
    names: Vec<Name>,
    /// Whether it is a single name. A rule that denies or asks then matches it in every folder.
    single: bool,
}

/// How a pattern relates to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// Not at all.
    Apart,
    /// The pattern may match something deep inside of the place.
    MaybeInside,
    /// The pattern matches something inside of the place.
    Inside,
    /// The pattern matches the place, or a folder around it.
    Matches,
}

impl PathPattern {
    /// Reads a pattern. Paths without a leading slash or `~/` are relative to the folder of the session.
    ///
    /// # Errors
    /// What is wrong, and a hint.
    pub(crate) fn parse(text: &str) -> Result<PathPattern, String> {
        if text.is_empty() {
            return Err("a path is empty; write a path such as `src/**`".to_owned());
        }
        if text.starts_with('!') {
            return Err(format!(
                "`{text}` begins with `!`; write a rule with another decision before this one"
            ));
        }
        if text.contains(['[', ']', '{', '}']) {
            return Err(format!(
                "`{text}` contains a bracket; only `*`, `?` and `**` are wildcards"
            ));
        }
        let (anchor, rest) = match text {
            _ if text == "~" => (Anchor::Home, ""),
            _ if text.starts_with("~/") => (Anchor::Home, &text[2..]),
            _ if text.starts_with('~') => {
                return Err(format!(
                    "`{text}` names the home folder of another user; write the whole path"
                ));
            }
            _ if Path::new(text).is_absolute() || text.starts_with('/') => {
                let (folder, rest) = literal_folder(text);
                (Anchor::Folder(Folder::new(Path::new(folder))), rest)
            }
            _ => (Anchor::Session, text),
        };
        if rest.split('/').any(|it| it == "..") {
            return Err(format!(
                "`{text}` contains `..`; write the path without it, absolute if need be"
            ));
        }
        let separators: &[char] = if cfg!(windows) { &['/', '\\'] } else { &['/'] };
        let single = anchor == Anchor::Session
            && !rest.trim_end_matches('/').contains('/')
            && rest != "**"
            && rest != ".";
        Ok(PathPattern { anchor, names: pattern_names(rest, separators), single })
    }

    /// The same pattern, relative to a folder instead of the session's.
    pub(crate) fn in_folder(mut self, folder: &Path) -> PathPattern {
        if self.anchor == Anchor::Session {
            self.anchor = Anchor::Folder(Folder::new(folder));
        }
        self
    }

    /// How the pattern relates to a place, for a rule that denies or asks: either form of the path is enough.
    pub(crate) fn wide(&self, place: &Place, base: &Base, case_blind: bool) -> Relation {
        // A single name matches in every folder.
        let mut relation = if self.single { Relation::MaybeInside } else { Relation::Apart };
        for (names, anchor) in self.pairs(place, base).into_iter().flatten() {
            if self.single
                && names.iter().any(|name| self.fits_single(name, !place.exact, case_blind))
            {
                return Relation::Matches;
            }
            if let Some(below) = strip(names, anchor, case_blind) {
                relation = relation.max(relate(&self.names, below, !place.exact, case_blind));
            } else if strip(anchor, names, case_blind).is_some() {
                relation = relation.max(Relation::Inside);
            }
        }
        relation
    }

    /// Whether the pattern matches only names that begin with a dot, or files in folders with such a name.
    pub(crate) fn is_hidden(&self) -> bool {
        let is_hidden = |it: &Name| match it {
            Name::Glob(units) => {
                matches!(units.first(), Some(Unit::Text(text)) if text.starts_with('.'))
            }
            Name::Any => false,
        };
        self.names.iter().any(is_hidden)
    }

    fn fits_single(&self, name: &[Unit], shell: bool, case_blind: bool) -> bool {
        match self.names.as_slice() {
            [Name::Glob(pattern)] => can_be_equal(pattern, name, case_blind, shell),
            _ => false,
        }
    }

    /// Whether the pattern matches a place, for a rule that allows: both forms of the path must match.
    pub(crate) fn narrow(&self, place: &Place, base: &Base, case_blind: bool) -> bool {
        let Some([written, resolved, crossed]) = self.pairs(place, base) else { return false };
        let fits = |(names, anchor): Pair<'_>| {
            let below = strip(names, anchor, case_blind);
            below.is_some_and(|below| matches_exactly(&self.names, below, case_blind))
        };
        place.exact && place.doubt.is_none() && fits(resolved) && (fits(written) || fits(crossed))
    }

    /// Both forms of the path of a place, each with the names of the folder that the pattern is relative to: as written,
    /// resolved, and as written with the folder resolved. `None` if the folder is not known.
    fn pairs<'p>(&'p self, place: &'p Place, base: &'p Base) -> Option<[Pair<'p>; 3]> {
        let folder = match &self.anchor {
            Anchor::Session => &base.session,
            Anchor::Home => base.home.as_ref()?,
            Anchor::Folder(folder) => folder,
        };
        Some([
            (&place.written, &folder.written),
            (&place.resolved, &folder.resolved),
            (&place.written, &folder.resolved),
        ])
    }
}

/// The folder at the beginning of an absolute pattern that has no wildcards, and the rest.
fn literal_folder(text: &str) -> (&str, &str) {
    let wildcard = text.find(['*', '?']).unwrap_or(text.trim_end_matches('/').len());
    let slash = text[..wildcard].rfind('/').map_or(0, |it| it + 1);
    text.split_at(slash)
}

fn pattern_names(text: &str, separators: &[char]) -> Vec<Name> {
    let names = text.split(separators).filter(|it| !it.is_empty() && *it != ".");
    names
        .map(|name| match name {
            "**" => Name::Any,
            _ => Name::Glob(units_of_name(name)),
        })
        .collect()
}

fn units_of_name(name: &str) -> Vec<Unit> {
    let mut word = Word::default();
    for character in name.chars() {
        match character {
            '*' => word.push(Unit::Many),
            '?' => word.push(Unit::One),
            _ => word.push_text(character.encode_utf8(&mut [0; 4])),
        }
    }
    word.units
}

/// The names after these first names.
fn strip<'n>(
    names: &'n [Vec<Unit>],
    first: &[Vec<Unit>],
    case_blind: bool,
) -> Option<&'n [Vec<Unit>]> {
    let fits = names.len() >= first.len()
        && first.iter().zip(names).all(|(a, b)| can_be_equal(a, b, case_blind, true));
    fits.then(|| &names[first.len()..])
}

/// How a pattern relates to names. A pattern also matches everything inside of what it matches.
fn relate(pattern: &[Name], names: &[Vec<Unit>], shell: bool, case_blind: bool) -> Relation {
    match (pattern, names) {
        ([], _) => Relation::Matches,
        ([Name::Any], _) => Relation::Matches,
        ([_, ..], []) => Relation::Inside,
        ([Name::Any, rest @ ..], [_, below @ ..]) => {
            let here = relate(rest, names, shell, case_blind);
            let deeper = match relate(pattern, below, shell, case_blind) {
                Relation::Inside => Relation::MaybeInside,
                relation => relation,
            };
            here.max(deeper)
        }
        ([Name::Glob(glob), rest @ ..], [name, below @ ..]) => {
            match can_be_equal(glob, name, case_blind, shell) {
                true => relate(rest, below, shell, case_blind),
                false => Relation::Apart,
            }
        }
    }
}

/// Whether a pattern matches exactly these names.
fn matches_exactly(pattern: &[Name], names: &[Vec<Unit>], case_blind: bool) -> bool {
    match (pattern, names) {
        ([], []) => true,
        ([Name::Any], [_, ..]) => true,
        ([Name::Any, rest @ ..], _) if !rest.is_empty() => {
            matches_exactly(rest, names, case_blind)
                || names
                    .split_first()
                    .is_some_and(|(_, below)| matches_exactly(pattern, below, case_blind))
        }
        ([Name::Glob(glob), rest @ ..], [name, below @ ..]) => {
            can_be_equal(glob, name, case_blind, false) && matches_exactly(rest, below, case_blind)
        }
        _ => false,
    }
}

/// Whether two patterns of text have a text in common. With `shell`, a wildcard at the beginning of the second one is
/// not a dot, as in a shell.
pub(crate) fn can_be_equal(first: &[Unit], second: &[Unit], case_blind: bool, shell: bool) -> bool {
    if let ([Unit::Text(first)], [Unit::Text(second)]) = (first, second) {
        return match case_blind {
            true => first == second || first.to_lowercase() == second.to_lowercase(),
            false => first == second,
        };
    }
    let (first, second) = (atoms(first, case_blind), atoms(second, case_blind));
    // Which positions of the second pattern are reachable, for each position of the first one.
    let width = second.len() + 1;
    let mut reachable = vec![false; (first.len() + 1) * width];
    reachable[0] = true;
    for i in 0..=first.len() {
        for j in 0..=second.len() {
            if !reachable[i * width + j] {
                continue;
            }
            let (a, b) = (first.get(i), second.get(j));
            if a == Some(&Atom::Any) {
                reachable[(i + 1) * width + j] = true;
            }
            if b == Some(&Atom::Any) {
                reachable[i * width + j + 1] = true;
            }
            let dot = shell && j == 0 && i == 0;
            match (a, b) {
                (Some(Atom::Character(a)), Some(Atom::Character(b))) if a == b => {
                    reachable[(i + 1) * width + j + 1] = true;
                }
                (Some(Atom::Character(a)), Some(Atom::One)) if !(dot && *a == '.') => {
                    reachable[(i + 1) * width + j + 1] = true;
                }
                (Some(Atom::One), Some(Atom::Character(_) | Atom::One)) => {
                    reachable[(i + 1) * width + j + 1] = true;
                }
                (Some(Atom::Character(a)), Some(Atom::Any)) if !(dot && *a == '.') => {
                    reachable[(i + 1) * width + j] = true;
                }
                (Some(Atom::One), Some(Atom::Any)) => reachable[(i + 1) * width + j] = true,
                (Some(Atom::Any), Some(Atom::Character(_) | Atom::One)) => {
                    reachable[i * width + j + 1] = true;
                }
                _ => {}
            }
        }
    }
    reachable[first.len() * width + second.len()]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    Character(char),
    One,
    Any,
}

fn atoms(units: &[Unit], case_blind: bool) -> Vec<Atom> {
    let mut atoms = Vec::new();
    for unit in units {
        match unit {
            Unit::Text(text) if case_blind => {
                atoms.extend(text.chars().flat_map(char::to_lowercase).map(Atom::Character));
            }
            Unit::Text(text) => atoms.extend(text.chars().map(Atom::Character)),
            Unit::One => atoms.push(Atom::One),
            Unit::Many | Unit::Unknown => atoms.push(Atom::Any),
        }
    }
    atoms
}
