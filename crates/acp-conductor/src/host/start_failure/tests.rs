use super::*;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("start-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new directory");
        Directory(path)
    }

    fn file(&self, name: &str, content: &str, mode: u32) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The failure of really starting a program.
fn start(program: &str, directory: Option<&str>) -> StartFailure {
    let spec = Spec {
        name: "x".into(),
        program: program.into(),
        directory: directory.map(PathBuf::from),
        ..Spec::default()
    };
    let mut command = Command::new(program);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    let error = command.spawn().expect_err("it cannot be started");
    of(&spec, &error)
}

#[test]
fn each_problem_has_its_own_reason_and_remedy() {
    let files = Directory::new("problems");
    let place = files.0.to_string_lossy().into_owned();
    let script = files.file("a.py", "print(1)\n", 0o644);
    let plain = files.file("plain", "words\n", 0o644);
    let orphan = files.file("orphan", "#!/no/such/dir/node -x\n", 0o755);
    let crlf = files.file("crlf", "#!/bin/sh\r\necho\r\n", 0o755);
    let foreign = files.file("foreign", "\u{7f}ELF\u{1}\u{1}\u{1}", 0o755);
    let bare = files.file("bare", "", 0o755);
    for (program, directory, problem, why, remedy) in [
        (
            "no-such-program",
            None,
            StartProblem::NotFound,
            "command not found",
            "install the program",
        ),
        ("./no/such/file", None, StartProblem::NotFound, "there is no file", "check the path"),
        (
            "~/no/such/file",
            None,
            StartProblem::NotFound,
            "there is no file",
            "replaced only by a shell",
        ),
        ("sparkel", None, StartProblem::NotFound, "command not found", "did you mean `sparkle`?"),
        ("my agent", None, StartProblem::NotFound, "command not found", "\"args\""),
        (&place, None, StartProblem::Directory, "is a directory", "program in it"),
        (&script, None, StartProblem::NotExecutable, "not executable", "write `python3 "),
        (&plain, None, StartProblem::NotExecutable, "not executable", "chmod +x"),
        (
            &orphan,
            None,
            StartProblem::MissingInterpreter,
            "does not exist: /no/such/dir/node",
            "install Node.js",
        ),
        (&crlf, None, StartProblem::MissingInterpreter, "does not exist: /bin/sh\\r", "line ends"),
        (
            &foreign,
            None,
            StartProblem::WrongArchitecture,
            "another system or processor",
            "install the version for",
        ),
        (
            "sh",
            Some("/no/such/directory"),
            StartProblem::MissingDirectory,
            "does not exist: /no/such/directory",
            "create the directory, or correct \"cwd\"",
        ),
        ("sh", Some(&plain), StartProblem::MissingDirectory, "not a directory", "correct \"cwd\""),
        ("no-such-program", Some("/"), StartProblem::NotFound, "command not found", "install"),
    ] {
        let found = start(program, directory);
        assert_eq!(found.problem, problem, "{program}: {found:?}");
        assert!(found.why.contains(why), "{program}: {found:?}");
        assert!(found.remedy.contains(remedy), "{program}: {found:?}");
    }
    assert_eq!(start("sh", Some(&plain)).remedy, "correct \"cwd\" of the component");
    // The system may run an empty file as a shell script, so only the description is tested.
    assert!(wrong_architecture(Path::new(&bare)).why.contains("neither a program"));
}

#[test]
fn a_missing_tool_comes_with_the_place_to_get_it() {
    for (tool, _) in TOOLS {
        let spec = Spec { program: tool.into(), ..Spec::default() };
        let found = not_found(&spec);
        assert!(found.why.contains(tool) && found.remedy.contains("https://"), "{found:?}");
    }
}
