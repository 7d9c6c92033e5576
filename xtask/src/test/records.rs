//! What has passed before on this machine.
//!
//! A step or a test program is not run again if all its inputs have the same content as when it passed. Its inputs are
//! files of the project, programs, and this machine. What passes only in its second run leaves no record.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io};

use super::checkout;
use crate::cache::cache;
use crate::tool::{at, output_of};

/// Records that are kept of one step or program: those of several branches.
const KEPT: usize = 20;

/// One of so many steps and programs with a record runs all the same.
const SAMPLE: u64 = 10;

/// Set to run everything.
pub const ALL: &str = "CONDUCTOR_TEST_ALL";

/// The records of this machine.
#[derive(Debug)]
pub struct Records {
    folder: PathBuf,
    /// The commit that is tested. It chooses what runs although there is a record.
    commit: String,
    all: bool,
}

/// Why something is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub commit: String,
    /// Seconds since 1970.
    pub at: u64,
    pub took: Duration,
}

impl Records {
    /// Those of this project. With `all`, everything runs.
    pub fn open(all: bool) -> Records {
        let commit = output_of(Command::new("git").args(["rev-parse", "HEAD"])).unwrap_or_default();
        Records {
            folder: cache().join("records"),
            commit: commit.trim().to_owned(),
            all: all || env::var_os(ALL).is_some(),
        }
    }

    /// Records in a folder, of which none is chosen to run all the same.
    #[cfg(test)]
    pub fn of_test(folder: &Path) -> Records {
        Records { folder: folder.to_owned(), commit: String::new(), all: false }
    }

    /// The record of an earlier run with the same inputs. `None`: it must run.
    pub fn find(&self, name: &str, inputs: u64) -> Option<Record> {
        // Without a commit, there is nothing to choose by.
        let chosen = !self.commit.is_empty() && hash(&(&self.commit, name)).is_multiple_of(SAMPLE);
        if self.all || chosen {
            return None;
        }
        self.read(name).into_iter().find(|(of, _)| *of == inputs).map(|(_, record)| record)
    }

    /// How long it took when it passed the last time.
    pub fn last_time(&self, name: &str) -> Option<Duration> {
        self.read(name).last().map(|(_, record)| record.took)
    }

    /// Remembers that it has passed.
    pub fn passed(&self, name: &str, inputs: u64, took: Duration) -> Result<(), String> {
        let mut all = self.read(name);
        all.retain(|(of, _)| *of != inputs);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        all.push((inputs, Record { commit: self.commit.clone(), at: now, took }));
        self.write(name, &all[all.len().saturating_sub(KEPT)..])
    }

    /// Forgets that it has ever passed with these inputs.
    pub fn failed(&self, name: &str, inputs: u64) -> Result<(), String> {
        let mut all = self.read(name);
        all.retain(|(of, _)| *of != inputs);
        self.write(name, &all)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name.replace(['/', ':'], "-"))
    }

    fn read(&self, name: &str) -> Vec<(u64, Record)> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        let record = |line: &str| {
            let mut words = line.split(' ');
            let inputs = u64::from_str_radix(words.next()?, 16).ok()?;
            let at = words.next()?.parse().ok()?;
            let took = Duration::from_millis(words.next()?.parse().ok()?);
            Some((inputs, Record { commit: words.next()?.to_owned(), at, took }))
        };
        text.lines().filter_map(record).collect()
    }

    fn write(&self, name: &str, records: &[(u64, Record)]) -> Result<(), String> {
        let path = self.path(name);
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        let lines = records.iter().map(|(inputs, Record { commit, at, took })| {
            format!("{inputs:016x} {at} {} {commit}\n", took.as_millis())
        });
        // Renamed after writing: a run that is killed leaves no half of a record.
        let fresh = path.with_extension(format!("new-{}", std::process::id()));
        fs::write(&fresh, lines.collect::<String>()).map_err(at(&fresh))?;
        fs::rename(&fresh, &path).map_err(at(&path))
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let commit: String = self.commit.chars().take(12).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let minutes = now.saturating_sub(self.at) / 60;
        write!(f, "the same inputs passed {minutes} minutes ago, in commit {commit}")
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Collects inputs.
#[derive(Debug, Clone)]
pub struct Inputs(DefaultHasher);

impl Inputs {
    /// This machine: its system, its processor, its compiler, and the variables that change what a build or a test does.
    pub fn of_this_machine() -> Inputs {
        // Reading the versions starts programs.
        static MACHINE: OnceLock<Inputs> = OnceLock::new();
        MACHINE.get_or_init(Inputs::read_machine).clone()
    }

    fn read_machine() -> Inputs {
        let mut inputs = Inputs(DefaultHasher::new());
        for path in ["/etc/os-release", "/proc/sys/kernel/osrelease"] {
            inputs.add(&fs::read(path).unwrap_or_default());
        }
        for (program, argument) in [("rustc", "-vV"), ("cargo", "--version")] {
            inputs.add(&output_of(Command::new(program).arg(argument)).unwrap_or_default());
        }
        inputs.add(&(env::consts::ARCH, std::thread::available_parallelism().ok()));
        let changes = |name: &str| {
            ["RUST", "CARGO_PROFILE_", "CARGO_BUILD_", "CONDUCTOR_", "NODE_", "LC_"]
                .iter()
                .any(|it| name.starts_with(it))
                || ["LANG", "TZ", "HOME", "USER"].contains(&name)
        };
        // Those of this command differ from run to run, or name folders.
        let own = |name: &str| {
            name.starts_with("CONDUCTOR_TEST") || name.starts_with("CONDUCTOR_CHECKOUT")
        };
        let mut variables: Vec<_> = env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|it| changes(it) && !own(it)))
            .collect();
        variables.sort();
        inputs.add(&variables);
        inputs
    }

    pub fn add(&mut self, value: &impl Hash) {
        value.hash(&mut self.0);
    }

    /// Adds the content of a file that is built, such as a program.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        self.add(&hash_file(path).map_err(at(path))?);
        Ok(())
    }

    /// Adds an installed program: where it is, and the size and the age of its file.
    pub fn add_program(&mut self, name: &str) {
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut places = env::split_paths(&folders).map(|it| it.join(name));
        let found = places.find_map(|it| it.canonicalize().ok());
        let about = found.as_ref().and_then(|it| it.metadata().ok());
        self.add(&(name, &found, about.map(|it| (it.len(), it.modified().ok()))));
    }

    pub fn sum(&self) -> u64 {
        self.0.finish()
    }
}

fn hash_file(path: &Path) -> io::Result<u64> {
    let mut file = fs::File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hasher.finish()),
            read => hasher.write(&part[..read]),
        }
    }
}

/// The content of all files of the project.
#[derive(Debug)]
pub struct Project(BTreeMap<PathBuf, u64>);

impl Project {
    pub fn read(root: &Path) -> Result<Project, String> {
        let content = |name: PathBuf| {
            let path = root.join(&name);
            let executable = path.metadata().map(|it| is_executable(&it)).unwrap_or_default();
            let content = match path.read_link() {
                Ok(link) => hash(&link),
                Err(_) => hash_file(&path).map_err(at(&path))?,
            };
            Ok((name, hash(&(content, executable))))
        };
        checkout::files(root)?.into_iter().map(content).collect::<Result<_, String>>().map(Project)
    }

    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Adds the files of a folder that the compiler does not read. What it reads is in the program.
    pub fn add_data_to(&self, inputs: &mut Inputs, folder: &Path) {
        let is_data = |name: &Path| name.extension().is_none_or(|it| it != "rs");
        for (name, content) in self.0.iter().filter(|(it, _)| it.starts_with(folder) && is_data(it))
        {
            inputs.add(&(name, content));
        }
    }

    /// Adds the files below these paths, and their names. An empty path is the whole project. A path after `!` is left
    /// out.
    pub fn add_to(&self, inputs: &mut Inputs, paths: &[&str]) {
        for (name, content) in self.0.iter().filter(|(name, _)| is_below(name, paths)) {
            inputs.add(&(name, content));
        }
    }
}

/// Whether a file is below one of these paths, and not below one after `!`. A `*` in a path is any one name.
pub fn is_below(name: &Path, paths: &[&str]) -> bool {
    let below = |path: &str| {
        let mut names = name.components();
        let mut wanted = Path::new(path).components();
        wanted.all(|it| names.next().is_some_and(|name| name == it || it.as_os_str() == "*"))
    };
    let (without, with): (Vec<&str>, Vec<&str>) = paths.iter().partition(|it| it.starts_with('!'));
    with.iter().any(|it| below(it)) && !without.iter().any(|it| below(&it[1..]))
}

#[cfg(unix)]
fn is_executable(about: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(commit: &str, all: bool) -> Records {
        let name = format!("xtask-records-{}-{commit}", std::process::id());
        Records { folder: env::temp_dir().join(name), commit: commit.to_owned(), all }
    }

    const TOOK: Duration = Duration::from_secs(3);

    #[test]
    fn a_record_is_found_for_the_same_inputs_only_and_not_after_a_failure() {
        let records = records("c", false);
        // A name that the commit does not choose.
        let name = (0..).map(|it| format!("step-{it}"));
        let mut names =
            name.filter(|it| !hash(&(&records.commit, it.as_str())).is_multiple_of(SAMPLE));
        let name = names.next().expect("one");
        assert_eq!(records.find(&name, 1), None);
        records.passed(&name, 1, TOOK).expect("written");
        records.passed(&name, 2, TOOK).expect("written");
        assert!(records.find(&name, 1).is_some() && records.find(&name, 2).is_some());
        assert_eq!(records.find(&name, 3), None);
        assert_eq!(records.find("other", 1), None);
        assert_eq!(records.last_time(&name), Some(TOOK));
        records.failed(&name, 1).expect("written");
        assert_eq!(records.find(&name, 1), None);
        assert!(records.find(&name, 2).is_some());
        let all = Records { all: true, ..Records { folder: records.folder.clone(), ..records } };
        assert_eq!(all.find(&name, 2), None);
        fs::remove_dir_all(all.folder).expect("removed");
    }

    #[test]
    fn one_in_ten_runs_all_the_same_and_each_commit_chooses_others() {
        let names: Vec<String> = (0..300).map(|it| format!("program-{it}")).collect();
        let chosen = |commit: &str| {
            let records = records(commit, false);
            for name in &names {
                records.passed(name, 1, TOOK).expect("written");
            }
            let run: Vec<&String> =
                names.iter().filter(|it| records.find(it, 1).is_none()).collect();
            fs::remove_dir_all(&records.folder).expect("removed");
            run
        };
        let (first, second) = (chosen("a"), chosen("b"));
        assert!((10..60).contains(&first.len()), "{}", first.len());
        assert_ne!(first, second);
    }

    #[test]
    fn each_kind_of_input_changes_the_sum() {
        let machine = Inputs::of_this_machine();
        assert_eq!(machine.sum(), Inputs::of_this_machine().sum());
        let with = |name: &str| {
            let mut inputs = machine.clone();
            inputs.add_program(name);
            inputs.sum()
        };
        assert_eq!(with("git"), with("git"));
        assert_ne!(with("git"), with("cargo"));
        assert_ne!(with("git"), with("no-such-program"));
        let of = |files: &[(&str, u64)], paths: &[&str]| {
            let files = files.iter().map(|(name, content)| (PathBuf::from(name), *content));
            let mut inputs = machine.clone();
            Project(files.collect()).add_to(&mut inputs, paths);
            inputs.sum()
        };
        let now = [("docs/a.md", 1), ("web/a.ts", 2), ("web/test/a.mjs", 3)];
        let paths = ["web", "!web/test"];
        assert_eq!(of(&now, &paths), of(&now[1..2], &paths));
        assert_ne!(of(&now, &paths), of(&[("web/a.ts", 4)], &paths), "another content");
        assert_ne!(of(&now, &paths), of(&[("web/b.ts", 2)], &paths), "another name");
        assert_ne!(of(&now, &paths), of(&now, &["web"]), "one more file");
        assert_ne!(of(&now, &paths), of(&now, &[""]), "the whole project");
    }
}
