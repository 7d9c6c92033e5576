//! `cargo xtask walk`: follows the README as a new reader does, and measures how long that takes.
//!
//! It takes every command, the settings and the program from README.md. It clones and installs Conductor, tries it, starts the
//! chain of the settings as Zed does, writes the first proxy, and uses it in the same settings. The reader has an empty home
//! directory. Git fetches a snapshot of this working copy instead of the published repository, and a stub stands in for
//! the agent, which needs an account.

use std::env;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cache::CachedBuilds;
use crate::editor::Editor;
use crate::markdown::{Block, blocks, chapter};
use crate::options;
use crate::tool::{
    at, cargo_home, copy, copy_project, enter_root, list, read, release, run, text, write,
    write_program,
};

pub const USAGE: &str = "\
walk [--fresh | --built]
                   follow README.md from the installation to a first proxy in an editor, and print the time
                   of each step. --fresh compiles everything, as on a machine that has never built the
                   conductor. --built uses the program in target/release instead of installing it";

/// What is compiled during the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Everything.
    Fresh,
    /// Crates of this project; their dependencies are compiled once.
    Cached,
    /// Only the reader's proxy and the SDK.
    Built,
}

/// The whole walk must take less time than this.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// How fast the reader reads.
const WORDS_PER_MINUTE: usize = 200;

/// How long it takes to copy a block and to paste it.
const PASTE: Duration = Duration::from_secs(10);

/// The agent in the settings of the README.
const AGENT: &str = "-y @agentclientprotocol/claude-agent-acp";

pub fn run_walk(arguments: &[String]) -> Result<(), String> {
    let options = options::parse(arguments, USAGE, &["--fresh", "--built"], &[])?;
    options.no_words()?;
    let mode = match (options.has("--fresh"), options.has("--built")) {
        (true, _) => Mode::Fresh,
        (_, true) => Mode::Built,
        _ => Mode::Cached,
    };
    enter_root()?;
    let builds = (mode != Mode::Fresh).then(CachedBuilds::open).transpose()?;
    let target = builds.as_ref().map(|it| it.target().to_owned());
    let mut walk = Walk::prepare(target)?;
    if mode == Mode::Built {
        copy(&release()?.join("conductor"), &walk.folder.join("cargo/bin/conductor"))?;
    }
    let done = walk.follow(mode);
    println!("{}", walk.table());
    done?;
    let total = walk.total();
    if total > LIMIT {
        return Err(format!("the walk takes {}, more than {}", time(total), time(LIMIT)));
    }
    // A failed walk stays, so that it can be inspected.
    fs::remove_dir_all(&walk.folder).map_err(at(&walk.folder))
}

/// A part of the walk.
struct Step {
    name: &'static str,
    /// How long the reader reads and pastes. It is estimated.
    reading: Duration,
    /// How long the commands take. It is measured.
    waiting: Duration,
    /// How much processor time the commands take.
    processor: Duration,
}

impl Step {
    /// The time of the step on a machine that does nothing else. On a busy machine, the commands wait for a processor, and
    /// take longer than their processor time.
    fn time(&self) -> Duration {
        self.reading + self.waiting.min(self.processor.max(Duration::from_secs(1)))
    }
}

struct Walk {
    /// The folder with everything that the walk creates.
    folder: PathBuf,
    /// The text of README.md.
    page: String,
    /// Where the commands build; `None` for Cargo's usual folders, which are empty.
    target: Option<PathBuf>,
    /// The current directory of the reader's shell.
    directory: PathBuf,
    /// The processor time of all commands so far.
    processor: Duration,
    steps: Vec<Step>,
}

impl Walk {
    fn prepare(target: Option<PathBuf>) -> Result<Walk, String> {
        let folder = env::temp_dir().join(format!("conductor-walk-{}", std::process::id()));
        let page = read("README.md")?;
        let directory = folder.join("home");
        for path in [&directory, &folder.join("bin"), &folder.join("cargo")] {
            fs::create_dir_all(path).map_err(at(path))?;
        }
        let (processor, steps) = (Duration::ZERO, Vec::new());
        let walk = Walk { folder, page, target, directory, processor, steps };
        walk.take_snapshot()?;
        walk.create_cargo_home()?;
        walk.create_agent()?;
        Ok(walk)
    }

    /// Makes a repository of the files of this working copy, also of those that are not committed.
    fn take_snapshot(&self) -> Result<(), String> {
        let snapshot = self.folder.join("snapshot");
        copy_project(&snapshot)?;
        let git = |arguments: &[&str]| {
            let author = ["-c", "user.name=walk", "-c", "user.email=walk@localhost"];
            run(Command::new("git").args(author).args(arguments).current_dir(&snapshot))
        };
        git(&["init", "--quiet"])?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message", "A snapshot of the working copy"])?;
        let url = published_repository(&self.page)?;
        let config = format!("[url \"file://{}\"]\n\tinsteadOf = {url}\n", snapshot.display());
        write(&self.folder.join("gitconfig"), &config)
    }

    /// Cargo's home: empty, but for the registry, so that no crate is downloaded twice.
    fn create_cargo_home(&self) -> Result<(), String> {
        let real = cargo_home()?;
        for name in ["registry", "config.toml", "config", "credentials.toml"] {
            let (from, to) = (real.join(name), self.folder.join("cargo").join(name));
            if from.exists() {
                symlink(&from, &to).map_err(at(&to))?;
            }
        }
        Ok(())
    }

    /// The command of the agent: the demo agent. It records what the agent is told.
    fn create_agent(&self) -> Result<(), String> {
        let told = self.told().display().to_string();
        let script = format!(
            "#!/bin/sh\n[ \"$*\" = '{AGENT}' ] || {{ echo \"npx $*\" >&2; exit 1; }}\n\
             tee -a '{told}' | conductor demo-agent --pace 0\n"
        );
        write_program(&self.folder.join("bin/npx"), &script)
    }

    /// The file with what the agent has been told.
    fn told(&self) -> PathBuf {
        self.folder.join("told.jsonl")
    }

    fn follow(&mut self, mode: Mode) -> Result<(), String> {
        let first = |blocks: Vec<Block>| blocks.into_iter().next().ok_or("no block");
        if mode != Mode::Built {
            self.step("install from a clone", "Install", |walk| {
                walk.run(&first(walk.commands("Install"))?, "")
            })?;
        }
        self.step("the four uses", "Four uses", |walk| {
            walk.commands("Four uses").iter().try_for_each(|block| walk.run(block, ""))
        })?;
        self.step("the first chat", "", |walk| {
            let chat = walk.commands("Install").pop().ok_or("no block")?;
            walk.run(&chat, "help\n")
        })?;
        self.step("the chain in Zed", "Use it in your editor", |walk| {
            let settings = walk.blocks("Use it in your editor", "json");
            write(&walk.settings(), &first(settings)?.text)?;
            write(&walk.directory.join("AGENTS.md"), "Use tabs.\n")?;
            walk.open_thread("Use tabs.")
        })?;
        self.step("write the first proxy", "Your first proxy", |walk| {
            let chapter = "Your first proxy";
            walk.run(&first(walk.commands(chapter))?, "")?;
            // The same versions of all other crates, so that the outcome does not change from day to day.
            copy(Path::new("Cargo.lock"), &walk.directory.join("Cargo.lock"))?;
            let program = first(walk.blocks(chapter, "rust"))?;
            write(&walk.directory.join("src/main.rs"), &program.text)?;
            walk.run(walk.commands(chapter).get(1).ok_or("no command that tries the proxy")?, "")
        })?;
        self.step("the first proxy in Zed", "", |walk| {
            walk.run(walk.commands("Your first proxy").get(2).ok_or("no installation")?, "")?;
            let settings = read(walk.settings())?.replacen("\"context\"", "\"brief\"", 1);
            write(&walk.settings(), settings)?;
            walk.open_thread("Answer in one sentence.")
        })
    }

    /// Runs a step, and measures it. Its reading time is that of a chapter; without one, it is that of a paste.
    fn step(
        &mut self,
        name: &'static str,
        title: &str,
        work: impl FnOnce(&mut Walk) -> Result<(), String>,
    ) -> Result<(), String> {
        eprintln!("{name} …");
        let reading = match title {
            "" => PASTE,
            _ => reading_time(chapter(&self.page, title).ok_or(format!("no chapter {title}"))?),
        };
        let (began, before) = (Instant::now(), self.processor);
        let done = work(self).map_err(|error| format!("{name}: {error}"));
        let (waiting, processor) = (began.elapsed(), self.processor - before);
        self.steps.push(Step { name, reading, waiting, processor });
        done
    }

    fn blocks(&self, chapter: &str, language: &str) -> Vec<Block> {
        let all = blocks(&self.page).into_iter().filter(|block| block.chapter == chapter);
        all.filter(|it| it.info.split([' ', ',']).next() == Some(language)).collect()
    }

    fn commands(&self, chapter: &str) -> Vec<Block> {
        self.blocks(chapter, "sh")
    }

    /// Runs the commands of a block in the reader's shell. What the reader types comes from standard input.
    fn run(&mut self, block: &Block, typed: &str) -> Result<(), String> {
        eprint!("{}", block.text);
        let [input, place, times] = ["typed", "directory", "times"].map(|it| self.folder.join(it));
        write(&input, typed)?;
        let mut shell = Command::new("bash");
        let (text, before) = (&block.text, format!("trap 'times >\"{}\"' EXIT", times.display()));
        shell.args(["-e", "-c", &format!("{before}\n{text}\npwd >'{}'", place.display())]);
        let input = fs::File::open(&input).map_err(at(&input))?;
        let status =
            self.set_environment(&mut shell).stdin(input).stdout(std::io::stderr()).status();
        let status = status.map_err(|error| format!("bash: {error}"))?;
        let expected = block.info.split(' ').find_map(|word| word.strip_prefix("status="));
        if status.code() != Some(expected.map_or(Ok(0), str::parse).map_err(|it| format!("{it}"))?)
        {
            return Err(format!("README.md:{}: {status}", block.line));
        }
        let times = read(&times)?;
        self.processor += processor_time(&times).ok_or(format!("the times of bash: {times}"))?;
        // A block that is expected to fail does not reach `pwd`.
        if let Ok(directory) = fs::read_to_string(&place) {
            self.directory = directory.trim_end().into();
        }
        Ok(())
    }

    /// Sets the environment of a reader who has Rust, Git and nothing else.
    fn set_environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let (cargo, home) = (self.folder.join("cargo"), self.folder.join("home"));
        let path = env::var("PATH").unwrap_or_default();
        let bin = self.folder.join("bin");
        let path = format!("{}:{}:{path}", cargo.join("bin").display(), bin.display());
        let own = |name: &String| {
            ["CARGO", "RUST", "XDG_", "CONDUCTOR"].iter().any(|prefix| name.starts_with(prefix))
        };
        let kept = ["RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
        for name in env::vars().map(|(name, _)| name).filter(own) {
            if !kept.contains(&name.as_str()) {
                command.env_remove(name);
            }
        }
        if let (None, Some(home)) = (env::var_os("RUSTUP_HOME"), env::var_os("HOME")) {
            command.env("RUSTUP_HOME", Path::new(&home).join(".rustup"));
        }
        command.envs(self.target.as_ref().map(|path| ("CARGO_TARGET_DIR", path)));
        command
            .env("PATH", path)
            .env("HOME", home)
            .env("CARGO_HOME", cargo)
            .env("CARGO_NET_GIT_FETCH_WITH_CLI", "true")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_GLOBAL", self.folder.join("gitconfig"))
            .current_dir(&self.directory)
    }

    /// Zed's settings.
    fn settings(&self) -> PathBuf {
        self.folder.join("home/.config/zed/settings.json")
    }

    /// Starts each agent of the settings as Zed does, sends a prompt, and checks that the agent was told a sentence.
    fn open_thread(&mut self, sentence: &str) -> Result<(), String> {
        let settings: Value = serde_json::from_str(&read(self.settings())?)
            .map_err(|error| format!("Zed's settings: {error}"))?;
        let servers = settings["agent_servers"].as_object().ok_or("no agent_servers")?;
        for (name, server) in servers {
            eprintln!("a thread with {name}: {server}");
            let mut command = Command::new(text(&server["command"]));
            self.set_environment(&mut command);
            command.args(list(&server["args"]).map(text)).stderr(Stdio::inherit());
            let variables = server["env"].as_object().into_iter().flatten();
            command.envs(variables.map(|(name, value)| (name, text(value))));
            let _ = fs::remove_file(self.told());
            let mut editor = Editor::start(&mut command, false)?;
            editor.open(&self.directory.display().to_string())?;
            editor.prompt("hello")?;
            editor.close()?;
            let told = read(self.told())?;
            if !told.contains(sentence) {
                return Err(format!("the agent was not told {sentence:?}, but:\n{told}"));
            }
        }
        if servers.is_empty() { Err("no agent_servers".to_owned()) } else { Ok(()) }
    }

    fn total(&self) -> Duration {
        self.steps.iter().map(Step::time).sum()
    }

    fn table(&self) -> String {
        let mut table = String::from(
            "\n| step | reading and pasting | waiting | processor time |\n|---|---:|---:|---:|\n",
        );
        let mut row = |name: &str, times: [Duration; 3]| {
            let [reading, waiting, processor] = times.map(time);
            writeln!(table, "| {name} | {reading} | {waiting} | {processor} |").expect("a String");
        };
        for Step { name, reading, waiting, processor } in &self.steps {
            row(name, [*reading, *waiting, *processor]);
        }
        let sum = |part: fn(&Step) -> Duration| self.steps.iter().map(part).sum();
        let sums = [sum(|it| it.reading), sum(|it| it.waiting), sum(|it| it.processor)];
        row(&format!("**sum: {}**", time(self.total())), sums);
        table
    }
}

/// The processor time in the output of the shell's `times`: of the shell and of its children, in user and system mode.
fn processor_time(times: &str) -> Option<Duration> {
    let parse = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let seconds: Option<Vec<f64>> = times.split_whitespace().map(parse).collect();
    seconds.filter(|it| it.len() == 4).map(|it| Duration::from_secs_f64(it.iter().sum()))
}

/// The address that the README clones.
fn published_repository(page: &str) -> Result<&str, String> {
    let (_, rest) = page.split_once("git clone ").ok_or("README.md has no git clone")?;
    rest.split_whitespace().next().ok_or_else(|| "README.md clones nothing".to_owned())
}

/// The time to read a text, and to paste its blocks.
fn reading_time(text: &str) -> Duration {
    let words = text.split_whitespace().count();
    let pasted = blocks(text).iter().filter(|block| !block.info.starts_with("text")).count();
    let pasted = u32::try_from(pasted).unwrap_or(u32::MAX);
    Duration::from_secs((words * 60 / WORDS_PER_MINUTE) as u64) + PASTE * pasted
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_what_the_walk_needs() {
        let page = read(crate::tool::root().join("README.md")).expect("README.md");
        let blocks = blocks(&page);
        let count = |chapter: &str, language: &str| {
            let here = blocks.iter().filter(|block| block.chapter == chapter);
            here.filter(|block| block.info.split([' ', ',']).next() == Some(language)).count()
        };
        assert_eq!((count("Four uses", "sh"), count("Install", "sh")), (4, 4));
        assert_eq!(count("Use it in your editor", "json"), 1);
        assert_eq!((count("Your first proxy", "sh"), count("Your first proxy", "rust")), (3, 1));
        assert!(page.contains(&format!("npx {AGENT}\"]")), "the agent in Zed's settings");
        assert!(published_repository(&page).is_ok_and(|url| url.starts_with("https://")));
    }

    #[test]
    fn the_processor_time_is_that_of_the_shell_and_its_children() {
        let times = processor_time("0m0.500s 0m0.250s\n2m1.000s 0m0.250s\n");
        assert_eq!(times, Some(Duration::from_secs(122)));
        assert_eq!(processor_time("1 2 3 4"), None);
    }

    #[test]
    fn reading_and_pasting_take_time() {
        let text = format!("{}\n```sh\na\n```\n```text\n```\n", "word ".repeat(195));
        assert_eq!(reading_time(&text), Duration::from_secs(60) + PASTE);
    }
}
