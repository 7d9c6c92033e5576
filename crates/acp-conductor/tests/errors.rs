//! What people read when something fails: in the editor, in the terminal, and on the error page.

#![cfg(unix)]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use acp_wire::ErrorKind;
use serde_json::{Value, json};
use testkit::test_chain::{directory, parse, with_timeout};

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;

/// Files of a test, removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        Files(directory(name))
    }

    /// A file with this content and mode. Returns its path.
    fn add(&self, name: &str, content: &str, mode: u32) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
        path.to_string_lossy().into_owned()
    }

    fn conductor(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", &self.0).env("XDG_RUNTIME_DIR", &self.0);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.conductor(args).output().expect("the conductor starts")
    }

    /// The answer to `initialize`, and what the terminal shows. The editor stays connected until the chain ends.
    fn initialize(&self, args: &[&str]) -> (Value, String) {
        self.first_answer(args, 1)
    }

    /// The same, for a chain that ends with this exit status.
    fn first_answer(&self, args: &[&str], status: i32) -> (Value, String) {
        let mut command = self.conductor(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the conductor starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{INITIALIZE}").expect("the conductor reads");
        let output =
            with_timeout("the end of the chain", move || child.wait_with_output().expect("an end"));
        drop(stdin);
        let answer = String::from_utf8(output.stdout).expect("UTF-8");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        (parse(answer.lines().next().expect("an answer")), stderr)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The reference at the end of an error.
fn reference(kind: ErrorKind) -> String {
    format!("[more: conductor errors {}]", kind.code())
}

/// The last line on standard error.
fn last_line(stderr: &str) -> &str {
    stderr.trim_end().lines().last().unwrap_or_default()
}

#[test]
fn the_editor_and_the_terminal_show_the_same_reason_and_remedy() {
    let files = Files::new("errors-start");
    let plain = files.add("plain.py", "print(1)\n", 0o644);
    let orphan = files.add("orphan", "#!/no/such/node\n", 0o755);
    let foreign = files.add("foreign", "\u{7f}ELF\u{1}\u{1}\u{1}", 0o755);
    let crash = "echo 'Error: Cannot find module \"x\"' >&2; echo '    at main (/app/a.js:1:2)' >&2; \
                 echo >&2; echo 'Node.js v22.1.0' >&2; exit 1";
    let crash = files.add("crash", &format!("#!/bin/sh\n{crash}\n"), 0o755);
    let silent = files.add("silent", "#!/bin/sh\nexec sleep 100\n", 0o755);
    let here = files.0.to_string_lossy().into_owned();
    let nowhere = json!({"command": "sh", "cwd": "/no/such/directory"}).to_string();
    let no_path = "PATH=/nowhere npx -y agent";
    let cases: [(&[&str], ErrorKind, &[&str]); 11] = [
        (&["no-such-agent"], ErrorKind::CommandNotFound, &["command not found", "full path"]),
        (&["sparkel", "demo-agent"], ErrorKind::CommandNotFound, &["did you mean `sparkle`?"]),
        (&[no_path], ErrorKind::CommandNotFound, &["npx is not installed", "https://nodejs.org"]),
        (&[&plain], ErrorKind::NotExecutable, &["write `python3 ", "chmod +x"]),
        (&[&here], ErrorKind::CommandIsDirectory, &["is a directory"]),
        (&[&orphan], ErrorKind::MissingInterpreter, &["/no/such/node", "install Node.js"]),
        (&[&foreign], ErrorKind::WrongArchitecture, &["another system or processor"]),
        (&[&nowhere], ErrorKind::MissingDirectory, &["/no/such/directory", "\"cwd\""]),
        (
            &[&crash],
            ErrorKind::ExitedAtStart,
            &["Error: Cannot find module \"x\" (/app/a.js:1:2)", "install the dependencies"],
        ),
        (
            &["--init-timeout", "0.5", &silent],
            ErrorKind::InitializeTimeout,
            &["speaks ACP", "--init-timeout"],
        ),
        (&["demo-agent --pace 0", "demo-agent"], ErrorKind::MisusedBuiltIn, &["write it last"]),
    ];
    for (args, kind, parts) in cases {
        let args: Vec<&str> = ["agent"].into_iter().chain(args.iter().copied()).collect();
        if kind == ErrorKind::MisusedBuiltIn {
            let (answer, stderr) = files.first_answer(&args, 2);
            assert_eq!(answer["error"]["data"]["code"], kind.code(), "{answer}");
            assert!(stderr.contains(parts[0]) && stderr.contains(&reference(kind)), "{stderr}");
            continue;
        }
        let (answer, stderr) = files.initialize(&args);
        let error = &answer["error"];
        let message = error["message"].as_str().unwrap_or_else(|| panic!("{args:?}: {answer}"));
        assert_eq!(error["data"]["code"], kind.code(), "{answer}");
        for shown in [message, last_line(&stderr)] {
            for part in parts {
                assert!(shown.contains(part), "{args:?}: {part:?} is not in {shown:?}");
            }
            assert!(shown.ends_with(&reference(kind)), "{shown}");
            let remedy = error["data"]["remedy"].as_str().expect("a remedy");
            assert_eq!(shown.matches(remedy).count(), 1, "{shown}");
            assert!(!shown.contains("Node.js v22"), "{shown}");
        }
    }
}

/// Errors of the command line end the conductor before a component starts.
#[test]
fn a_wrong_command_line_is_explained_with_its_remedy() {
    let files = Files::new("errors-usage");
    let folder = files.0.join("folder");
    std::fs::create_dir(&folder).expect("a directory");
    let folder = folder.to_string_lossy().into_owned();
    let (log, journal) = (format!("{folder}/no/log"), format!("{folder}/no/journal"));
    let env = json!({"command": "sh", "env": ["A=secret"]}).to_string();
    let args = json!({"command": "sh", "args": "--acp"}).to_string();
    let cases: [(&[&str], ErrorKind, &str); 15] = [
        (&["agent", &env], ErrorKind::InvalidComponent, r#"{"NAME": "value"}"#),
        (&["agent", &args], ErrorKind::InvalidComponent, "`args` must be a list"),
        (&["agent", "'"], ErrorKind::InvalidComponent, "unclosed"),
        (&["agent", "builtin:sparkel", "x"], ErrorKind::UnknownBuiltIn, "did you mean `sparkle`?"),
        (&["component", "contxt"], ErrorKind::UnknownBuiltIn, "did you mean `context`?"),
        (&["agent", "sparkle"], ErrorKind::MisusedBuiltIn, "add an agent after it"),
        (&["agent", "log --nonsense", "demo-agent"], ErrorKind::MisusedBuiltIn, "--nonsense"),
        (
            &["agent", "--guard", "x", "demo-agent"],
            ErrorKind::InvalidOption,
            "there is no component",
        ),
        (&["agent", "--log", "=", "demo-agent"], ErrorKind::InvalidOption, "--log"),
        (
            &["agent", "context --file /no/such/file", "demo-agent"],
            ErrorKind::UnreadableFile,
            "/no/such/file",
        ),
        (
            &["component", "context", "--file", "/no/such/file"],
            ErrorKind::UnreadableFile,
            "/no/such/file",
        ),
        (
            &["agent", "log --file /no/such/folder/log", "demo-agent"],
            ErrorKind::UnwritableFile,
            "/no/such/folder/log cannot be written: its directory does not exist. Create",
        ),
        (&["agent", "--log-file", &log, "demo-agent"], ErrorKind::UnwritableFile, "/no/log"),
        (&["agent", "--journal", &journal, "demo-agent"], ErrorKind::UnwritableFile, "/no/journal"),
        (
            &["try", "--cwd", "/no/such/folder", "demo-agent"],
            ErrorKind::MissingDirectory,
            "/no/such/folder",
        ),
    ];
    for (args, kind, part) in cases {
        let output = files.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(stderr.starts_with("conductor: ") && stderr.contains(part), "{args:?}: {stderr}");
        assert!(stderr.trim_end().ends_with(&reference(kind)), "{args:?}: {stderr}");
        assert!(!stderr.contains("secret"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

/// A relative path belongs to the directory of the session.
#[test]
fn a_session_does_not_start_without_its_context() {
    let files = Files::new("errors-context");
    let output = files.run(&["try", "context --file GUIDE.md", "demo-agent", "--prompt", "hello"]);
    let shown = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("cannot read GUIDE.md"), "{shown}");
    assert!(shown.contains("conductor errors unreadable-file"), "{shown}");
    files.add("GUIDE.md", "Be kind.", 0o644);
    let output = files.run(&["try", "context --file GUIDE.md", "demo-agent", "--prompt", "hello"]);
    assert!(output.status.success(), "{output:?}");
}

/// `--explain` shows the whole error of an agent, and how to log in.
#[test]
fn explain_shows_the_reason_of_an_agent_and_its_login() {
    let files = Files::new("errors-explain");
    let agent = |answer: &str| {
        format!(
            "#!/bin/sh\nread line\nprintf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":\"c:1\",{answer}}}'\nread line\n"
        )
    };
    let refusing = r#""error":{"code":-32603,"message":"Internal error","data":{"details":"no provider\nset one"}}"#;
    let refusing = files.add("refusing", &agent(refusing), 0o755);
    let output = files.run(&["agent", "--explain", &refusing]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in [
        "agent 'refusing' answered initialize with an error",
        "no provider",
        "set one",
        &reference(ErrorKind::AgentError),
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!String::from_utf8_lossy(&output.stdout).contains("the chain failed to start: "));
    let login = r#""result":{"protocolVersion":1,"authMethods":[{"id":"a","name":"Subscription","type":"terminal","args":["login"]}]}"#;
    let login = files.add("login", &agent(login), 0o755);
    let output = files.run(&["agent", "--explain", &login]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout
            .contains(&format!("login of login: Subscription: run `{login} login` in a terminal")),
        "{stdout}"
    );
}

#[test]
fn each_error_is_explained_by_a_command() {
    let files = Files::new("errors-page");
    let list = String::from_utf8(files.run(&["errors"]).stdout).expect("UTF-8");
    for kind in ErrorKind::ALL {
        let output = files.run(&["errors", kind.code()]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && text.starts_with(kind.code()), "{text}");
        assert!(list.contains(kind.code()), "{list}");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for kind in ErrorKind::ALL {
        assert!(page.contains(&format!("\n### {}\n", kind.code())), "{}", kind.code());
    }
    let unknown = files.run(&["errors", "crash"]);
    let stderr = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr.contains("crashed"), "{stderr}");
}

/// An error is pasted into reports of bugs.
#[test]
fn a_secret_in_a_command_line_is_not_part_of_an_error() {
    let files = Files::new("errors-secret");
    let command = "/no/such/agent --api-key hunter2 --token=hunter2 --acp";
    let (answer, stderr) = files.initialize(&["agent", command]);
    for shown in [answer.to_string(), stderr] {
        assert!(shown.contains("/no/such/agent --api-key …"), "{shown}");
        assert!(shown.contains("--acp") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn the_message_of_an_error_has_no_control_characters() {
    let files = Files::new("errors-control");
    let command = json!({"command": "/no/such/\u{1b}[31magent\u{7}"}).to_string();
    let (answer, stderr) = files.initialize(&["agent", &command]);
    let message = answer["error"]["message"].as_str().expect("a message");
    for shown in [message, stderr.trim_end()] {
        assert!(shown.contains("there is no file /no/such/agent"), "{shown:?}");
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}

#[test]
fn a_mistake_in_the_options_names_its_section() {
    let files = Files::new("errors-options");
    let mistakes = [
        (&["agent", "--init-timeout", "soon", "a"][..], ErrorKind::InvalidOption),
        (&["agent"], ErrorKind::UnknownChain),
        (&["try", "--nonsense"], ErrorKind::InvalidOption),
    ];
    for (args, kind) in mistakes {
        let output = files.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(last_line(&stderr).ends_with(&reference(kind)), "{args:?}: {stderr}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_of_every_command() {
    let files = Files::new("errors-full");
    let commands: [&[&str]; 10] = [
        &["components"],
        &["errors"],
        &["errors", "crashed"],
        &["status"],
        &["status", "--json"],
        &["man"],
        &["completions", "bash"],
        &["--version"],
        &["agent", "--explain", "demo-agent"],
        &["component", "log", "--help"],
    ];
    for args in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
        let output = files.conductor(args).stdout(full).stderr(Stdio::piped()).output();
        let output = output.expect("the conductor starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(&reference(ErrorKind::OutputFailed)), "{args:?}: {stderr}");
    }
}
