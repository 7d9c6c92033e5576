//! Why a program could not be started, and what the user can do about it.
//!
//! The operating system reports many different problems as "not found": a missing program, a missing working directory,
//! and a script whose interpreter is missing. This module looks at the files to tell them apart.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use router::{ExitCause, StartFailure, StartProblem};

use crate::config::Spec;
use acp_wire::suggestion;

/// Programs that users often do not have, and what to install.
const TOOLS: [(&str, &str); 18] = [
    ("npx", "install Node.js, which contains npx: https://nodejs.org"),
    ("npm", "install Node.js, which contains npm: https://nodejs.org"),
    ("node", "install Node.js: https://nodejs.org"),
    ("uvx", "install uv, which contains uvx: https://docs.astral.sh/uv"),
    ("uv", "install uv: https://docs.astral.sh/uv"),
    ("bunx", "install Bun, which contains bunx: https://bun.sh"),
    ("bun", "install Bun: https://bun.sh"),
    ("deno", "install Deno: https://deno.com"),
    ("pipx", "install pipx: https://pipx.pypa.io"),
    ("pnpm", "install pnpm: https://pnpm.io"),
    ("yarn", "install Yarn: https://yarnpkg.com"),
    ("python", "install Python (https://www.python.org), or write python3"),
    ("python3", "install Python: https://www.python.org"),
    ("docker", "install Docker: https://docs.docker.com"),
    ("podman", "install Podman: https://podman.io"),
    ("cargo", "install Rust, which contains cargo: https://rustup.rs"),
    ("go", "install Go: https://go.dev"),
    ("java", "install Java, for example from https://adoptium.net"),
];

/// Describes why the program of `spec` could not be started.
pub(crate) fn of(spec: &Spec, error: &io::Error) -> StartFailure {
    if let Some(failure) = missing_directory(spec, error) {
        return failure;
    }
    let path = program_path(spec);
    match error.kind() {
        ErrorKind::NotFound => match path.filter(|it| it.exists()) {
            Some(path) => missing_interpreter(&path),
            None => not_found(spec),
        },
        ErrorKind::PermissionDenied => not_executable(&path.unwrap_or_default()),
        ErrorKind::IsADirectory => is_directory(&path.unwrap_or_default()),
        _ if is_exec_format_error(error) => wrong_architecture(&path.unwrap_or_default()),
        _ => StartFailure::other(error.to_string()),
    }
}

/// Why the program of `spec` could not be started: it is missing. Starts nothing.
#[cfg(feature = "cli")]
pub(crate) fn missing(spec: &Spec) -> Option<StartFailure> {
    // Other systems add an extension.
    let is_missing = cfg!(unix) && program_path(spec).is_none_or(|it| !it.exists());
    is_missing.then(|| not_found(spec))
}

fn failure(
    problem: StartProblem,
    why: impl Into<String>,
    remedy: impl Into<String>,
) -> StartFailure {
    StartFailure { problem, why: why.into(), remedy: remedy.into() }
}

fn missing_directory(spec: &Spec, error: &io::Error) -> Option<StartFailure> {
    let is_fitting = matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
    );
    let Some(directory) = spec.directory.as_ref().filter(|_| is_fitting) else {
        // The working directory of the conductor was deleted.
        return std::env::current_dir().is_err().then(|| {
            failure(
                StartProblem::MissingDirectory,
                "the current working directory does not exist any more",
                "start the conductor in a directory that exists",
            )
        });
    };
    let shown = directory.display();
    let correct = "correct \"cwd\" of the component";
    let mut remedy = correct.to_owned();
    let why = match directory.metadata() {
        Err(problem) if problem.kind() == ErrorKind::NotFound => {
            remedy = format!("create the directory, or {correct}");
            format!("its working directory does not exist: {shown}")
        }
        Err(problem) => format!("its working directory {shown} cannot be used: {problem}"),
        Ok(metadata) if !metadata.is_dir() => {
            format!("its working directory is not a directory: {shown}")
        }
        Ok(_) if !can_enter(directory) => {
            format!("its working directory cannot be entered: {shown}")
        }
        Ok(_) => return None,
    };
    Some(failure(StartProblem::MissingDirectory, why, remedy))
}

#[cfg(unix)]
fn can_enter(directory: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(directory, Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn can_enter(_: &Path) -> bool {
    true
}

/// The file of the program. Relative paths belong to the working directory of the component.
fn program_path(spec: &Spec) -> Option<PathBuf> {
    let program = Path::new(&spec.program);
    if program.components().count() < 2 {
        let own = spec.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.into());
        return search(&spec.program, own.or_else(|| std::env::var_os("PATH"))?);
    }
    match &spec.directory {
        Some(directory) => Some(directory.join(program)),
        None => Some(program.to_owned()),
    }
}

/// The first file with this name on the PATH, executable or not.
fn search(name: &str, path: std::ffi::OsString) -> Option<PathBuf> {
    let mut files = std::env::split_paths(&path).map(|directory| directory.join(name));
    files.find(|file| file.is_file())
}

fn not_found(spec: &Spec) -> StartFailure {
    let program = spec.program.as_str();
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or(program);
    let is_path = Path::new(program).components().count() > 1;
    if is_path {
        let remedy = match program.starts_with("~/") {
            true => "write the full path; `~` is replaced only by a shell".to_owned(),
            false => {
                "check the path of the program; a relative path begins at the working directory"
                    .to_owned()
            }
        };
        let why = format!("command not found: there is no file {program}");
        return failure(StartProblem::NotFound, why, remedy);
    }
    if let Some((_, remedy)) = TOOLS.iter().find(|(tool, _)| *tool == name) {
        let why = format!("command not found: {name} is not installed, or not on the PATH");
        return failure(StartProblem::NotFound, why, *remedy);
    }
    if program.contains(char::is_whitespace) {
        let remedy = "\"command\" is only the program; write the arguments into \"args\"";
        return failure(StartProblem::NotFound, "command not found", remedy);
    }
    let tools = TOOLS.iter().map(|(tool, _)| *tool);
    let remedy = match suggestion::closest(program, built_in_names().chain(tools)) {
        Some(known) => format!("did you mean `{known}`? `conductor components` lists the built-in components"),
        None if Path::new(program).is_file() => {
            format!("to run the file in the current directory, write ./{program}")
        }
        None => "install the program, or write its full path; a program that your shell finds may be missing \
                 on the PATH of your editor"
            .to_owned(),
    };
    failure(StartProblem::NotFound, "command not found", remedy)
}

/// The names of the built-in components, which only the program `conductor` has.
fn built_in_names() -> impl Iterator<Item = &'static str> {
    #[cfg(feature = "cli")]
    return components::catalog::ALL.iter().map(|it| it.name);
    #[cfg(not(feature = "cli"))]
    return std::iter::empty();
}

fn missing_interpreter(path: &Path) -> StartFailure {
    let interpreter = interpreter(path);
    let shown = path.display();
    let why = match &interpreter {
        Some(interpreter) => {
            format!("the interpreter of {shown} does not exist: {interpreter}")
        }
        None => format!("the loader of {shown}, or a library that it needs, does not exist"),
    };
    let remedy = match interpreter {
        Some(interpreter) if interpreter.ends_with('\r') || interpreter.contains("\\r") => {
            "convert the line ends of the script to LF".to_owned()
        }
        Some(interpreter) => {
            let program = interpreter.split('/').next_back().unwrap_or_default();
            let tool = TOOLS.iter().find(|(tool, _)| *tool == program);
            let install = tool.map_or("install the interpreter", |(_, remedy)| remedy);
            format!("{install}; or correct the first line of the script")
        }
        None => "install a version of the program for this system".to_owned(),
    };
    failure(StartProblem::MissingInterpreter, why, remedy)
}

/// The interpreter in the first line of a script.
fn interpreter(path: &Path) -> Option<String> {
    let line = first_line(path)?;
    let line = line.strip_prefix("#!")?.trim_start();
    let word = line.split([' ', '\t']).next().unwrap_or_default();
    Some(word.replace('\r', "\\r"))
}

fn first_bytes(path: &Path) -> Option<Vec<u8>> {
    let file =
        std::fs::File::open(path).ok().filter(|it| it.metadata().is_ok_and(|it| it.is_file()))?;
    let mut bytes = Vec::new();
    file.take(256).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn first_line(path: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&first_bytes(path)?).into_owned();
    text.split('\n').next().map(str::to_owned)
}

fn not_executable(path: &Path) -> StartFailure {
    if path.is_dir() {
        return is_directory(path);
    }
    let shown = path.display();
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let runner = match extension {
        "js" | "mjs" | "cjs" => Some("node"),
        "ts" | "mts" => Some("npx tsx"),
        "py" => Some("python3"),
        "sh" => Some("sh"),
        "jar" => Some("java -jar"),
        _ => None,
    };
    let remedy = match runner {
        Some(runner) => {
            format!("write `{runner} {shown}`, or make the file executable with chmod +x")
        }
        None => format!("make the file executable: chmod +x {shown}"),
    };
    failure(StartProblem::NotExecutable, "the command is not executable", remedy)
}

fn is_directory(path: &Path) -> StartFailure {
    let why = format!("the command is a directory: {}", path.display());
    failure(StartProblem::Directory, why, "write the path of a program in it")
}

#[cfg(unix)]
fn is_exec_format_error(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NOEXEC)
}

/// Describes the end of a program that is not for this system. If the system cannot execute a file, the C library runs it as a
/// shell script, which fails with one of these statuses.
pub(crate) fn after_exit(spec: &Spec, how: &ExitCause) -> Option<StartFailure> {
    let is_fitting = matches!(how, ExitCause::Status(2 | 126 | 127));
    let path = program_path(spec).filter(|path| is_fitting && is_foreign(path))?;
    Some(wrong_architecture(&path))
}

/// Whether a file is a program for another system or processor.
fn is_foreign(path: &Path) -> bool {
    /// The numbers of processors in an ELF file.
    const MACHINES: [(&str, u8); 5] =
        [("x86_64", 62), ("aarch64", 183), ("x86", 3), ("arm", 40), ("riscv64", 243)];
    /// The first bytes of programs for Windows and macOS.
    const OTHERS: [&[u8]; 4] =
        [b"MZ", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
    let start = first_bytes(path).unwrap_or_default();
    if start.starts_with(b"\x7fELF") {
        let own = MACHINES.iter().find(|(name, _)| *name == std::env::consts::ARCH);
        let fits = own.is_none_or(|(_, number)| start.get(18) == Some(number));
        return !fits || cfg!(target_os = "macos");
    }
    OTHERS.iter().any(|it| start.starts_with(it)) && !cfg!(target_os = "macos")
}

/// `ERROR_BAD_EXE_FORMAT`
#[cfg(not(unix))]
fn is_exec_format_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(193)
}

fn wrong_architecture(path: &Path) -> StartFailure {
    let is_binary = is_foreign(path);
    match is_binary {
        true => failure(
            StartProblem::WrongArchitecture,
            "the program is for another system or processor",
            format!(
                "install the version for {} on {}",
                std::env::consts::OS,
                std::env::consts::ARCH
            ),
        ),
        false => failure(
            StartProblem::WrongArchitecture,
            "the file is neither a program for this system nor a script with an interpreter in its first line",
            "write the interpreter before it, for example `sh FILE`, or add a first line such as #!/bin/sh",
        ),
    }
}

#[cfg(all(test, unix))]
mod tests;
