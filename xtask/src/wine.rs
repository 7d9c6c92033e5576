//! A smoke test of the Windows program under Wine: it starts, answers a prompt, restarts a killed proxy, and leaves no
//! process behind, even if it is killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::time::Duration;
use std::{env, fs};

use crate::cache::CachedBuilds;
use crate::editor::Editor;
use crate::platforms::WINDOWS;
use crate::tool::{at, built_program, cargo, ensure_installed, expect, output_of, run, wait_until};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// Built from C: a library that Wine 8 lacks, and a program that starts another one.
const LIBRARY: (&str, &str) = ("process_prng.c", "bcryptprimitives.dll");
const LAUNCHER: (&str, &str) = ("launcher.c", "launcher.exe");

/// The conductor, the launcher and its two children, the inner conductor and its child, the agent.
const PROCESSES: usize = 7;

/// How long processes may take to start or exit. It is long, so that the test does not fail on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Installs Wine and a C compiler for Windows.
pub fn install() -> Result<(), String> {
    ensure_installed(COMPILER, &["--version"], "gcc-mingw-w64-x86-64")?;
    if program("wine64").is_err() && program("wine").is_err() {
        ensure_installed("/usr/lib/wine/wine64", &["--version"], "wine64")?;
    }
    Ok(())
}

/// One of Wine's programs. Debian's `wine64` does not put them on the path.
fn program(name: &str) -> Result<PathBuf, String> {
    let mut places = vec![PathBuf::from(name), Path::new("/usr/lib/wine").join(name)];
    places.retain(|it| output_of(Command::new(it).arg("--version")).is_ok());
    places.into_iter().next().ok_or_else(|| format!("there is no {name}: install wine64"))
}

pub fn smoke_test() -> Result<(), String> {
    let stage = WineTest::new()?;
    let tried = stage.run_all();
    stage.clear();
    tried
}

/// A Wine installation in its own folder.
struct WineTest {
    /// The folder. Its name is in the command line of each process.
    folder: PathBuf,
    wine: PathBuf,
    /// The Windows path of the folder.
    windows: String,
}

impl WineTest {
    fn new() -> Result<WineTest, String> {
        let folder = env::temp_dir().join(format!("conductor-wine-{}", id()));
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        build(&folder)?;
        let wine = program("wine64").or_else(|_| program("wine"))?;
        let windows = format!("Z:{}", folder.display().to_string().replace('/', "\\"));
        Ok(WineTest { folder, wine, windows })
    }

    fn run_all(&self) -> Result<(), String> {
        println!("--version");
        let version = self.output(&["--version"])?;
        expect(&version, "conductor ")?;
        println!("try --prompt");
        let answer = self.output(&["try", "--prompt", "hello"])?;
        expect(&answer, "Hello!")?;
        println!("a chain whose proxy is killed");
        self.killed_proxy()?;
        println!("a conductor that is killed");
        self.killed_conductor()
    }

    /// The Windows path of a program in the folder.
    fn path(&self, name: &str) -> String {
        format!("{}\\{name}", self.windows)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.wine);
        command
            .arg(self.path("conductor.exe"))
            .env("WINEPREFIX", self.folder.join("prefix"))
            // No messages of Wine, no window, and no offer to install .NET and a browser.
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
            .env_remove("DISPLAY")
            .stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &[&str]) -> Result<String, String> {
        output_of(self.command().args(arguments))
    }

    /// Starts a chain of two proxies and an agent, and sends a prompt. The first proxy has a child that does not exit by itself. The second
    /// proxy is a conductor with its own proxy.
    fn chain(&self) -> Result<Editor, String> {
        let (conductor, launcher) = (&self.path("conductor.exe"), self.path("launcher.exe"));
        let inner = serde_json::json!({
            "command": conductor,
            "args": ["proxy", format!("{conductor} component context")],
            "name": "inner",
        });
        let components = [
            format!("{launcher} {conductor} component log"),
            inner.to_string(),
            format!("{conductor} demo-agent"),
        ];
        let mut editor = Editor::start(self.command().arg("agent").args(components), true)?;
        editor.open("C:\\")?;
        editor.prompt("hello")?;
        let all = self.processes();
        match all.len() {
            PROCESSES => Ok(editor),
            _ => Err(format!("not all processes: {all:?}")),
        }
    }

    fn killed_proxy(&self) -> Result<(), String> {
        let mut editor = self.chain()?;
        let children = ["conductor.exe component log", "conductor.exe component context"];
        for (words, child) in ["launcher.exe Z:", "conductor.exe proxy"].into_iter().zip(children) {
            let mut killed = vec![self.find(words)?, self.find(child)?];
            // The process without arguments.
            let all = self.processes();
            let sleeping = all.iter().filter(|it| it.line == self.path("launcher.exe"));
            killed.extend(sleeping.map(|it| it.number).filter(|_| words.starts_with("launcher")));
            kill(killed[0])?;
            self.wait_until(&format!("`{words}` is another process"), |all| {
                !all.iter().any(|it| killed.contains(&it.number)) && self.find(words).is_ok()
            })?;
            editor.prompt("hello")?;
        }
        editor.close()?;
        self.wait_until("the chain is gone", <[Process]>::is_empty)
    }

    fn killed_conductor(&self) -> Result<(), String> {
        // It stays connected, so that only the end of the conductor ends the chain.
        let _editor = self.chain()?;
        kill(self.find("conductor.exe agent")?)?;
        self.wait_until("the chain is gone", <[Process]>::is_empty)
    }

    /// The process id of the program in the folder whose command line begins with `words`.
    fn find(&self, words: &str) -> Result<i32, String> {
        let all = self.processes();
        let start = self.path(words);
        let mut found = all.iter().filter(|it| it.line.starts_with(&start));
        let number = found.next().map(|it| it.number);
        number.ok_or_else(|| format!("no process `{words}` among {all:?}"))
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&[Process]) -> bool) -> Result<(), String> {
        wait_until(TIMEOUT, || {
            let all = self.processes();
            Ok((!holds(&all)).then(|| format!("{what}; the processes are {all:?}")))
        })
    }

    /// The processes of programs in the folder. Under Wine, they are also Linux processes.
    fn processes(&self) -> Vec<Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse().ok());
        numbers.filter_map(|number: i32| Process::read(number, &self.windows)).collect()
    }

    /// Ends the processes of Wine and removes the folder.
    fn clear(&self) {
        for word in ["-k", "-w"] {
            if let Ok(server) = program("wineserver") {
                let prefix = self.folder.join("prefix");
                let _ = Command::new(server).arg(word).env("WINEPREFIX", prefix).status();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Debug)]
struct Process {
    number: i32,
    line: String,
}

impl Process {
    fn read(number: i32, folder: &str) -> Option<Process> {
        let words = fs::read(format!("/proc/{number}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
        line.starts_with(folder).then_some(Process { number, line })
    }
}

/// Builds the Windows program and what it needs into `folder`.
fn build(folder: &Path) -> Result<(), String> {
    let kept = CachedBuilds::open()?;
    let mut cargo = Command::new(cargo());
    cargo.args(["build", "--target", WINDOWS, "--package", "acp-conductor", "--bin", "conductor"]);
    let program = built_program(kept.apply(&mut cargo))?;
    fs::copy(&program, folder.join("conductor.exe")).map_err(at(&program))?;
    compile(folder, LIBRARY, &["-shared", "-ladvapi32"])?;
    compile(folder, LAUNCHER, &[])
}

fn compile(folder: &Path, (source, made): (&str, &str), options: &[&str]) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wine").join(source);
    let mut compiler = Command::new(COMPILER);
    run(compiler.arg("-o").arg(folder.join(made)).arg(source).args(options))
}

fn kill(number: i32) -> Result<(), String> {
    run(Command::new("sh").args(["-c", &format!("kill -KILL {number}")]))
}
