//! Completion in real shells: each one loads its script as the help of `conductor completions` says.
//!
//! `cargo xtask test` installs the shells. PowerShell is not in the package registries that the tests use, so its script
//! is only parsed.

#![cfg(unix)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use testkit::terminal::Terminal;
use testkit::test_chain::{TestChain, directory, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_conductor");

/// The key that writes the line to a file.
const WRITE_LINE: &str = "\x14";
/// The key that deletes the line.
const DELETE_LINE: &str = "\x15";

/// What is typed before Tab, and the line after it. `FOLDER` stands for a directory with the file `only-one`.
const CASES: [(&str, &str); 14] = [
    ("conductor stat", "conductor status"),
    ("conductor rela", "conductor rela"),
    ("conductor agent spark", "conductor agent sparkle"),
    ("conductor try -- context demo-", "conductor try -- context demo-agent"),
    ("conductor agent builtin:spark", "conductor agent builtin:sparkle"),
    ("conductor agent 'sparkle --hi", "conductor agent 'sparkle --hide'"),
    ("conductor agent 'log --level deb", "conductor agent 'log --level debug'"),
    ("conductor agent --mcp-bridge st", "conductor agent --mcp-bridge stdio"),
    ("conductor agent --mcp-bridge=st", "conductor agent --mcp-bridge=stdio"),
    ("conductor agent log --on-crash log=by", "conductor agent log --on-crash log=bypass"),
    ("conductor agent --log-file FOLDER/on", "conductor agent --log-file FOLDER/only-one"),
    ("conductor component log --level tr", "conductor component log --level trace"),
    ("conductor completions zs", "conductor completions zsh"),
    ("conductor man sta", "conductor man status"),
];

/// The files of one test, and the environment of its shell.
struct Setup {
    folder: PathBuf,
}

impl Setup {
    fn new(shell: &str) -> Setup {
        let setup = Setup { folder: directory(&format!("shell-{shell}")) };
        for name in ["files", "run", "bin"] {
            fs::create_dir(setup.folder.join(name)).expect("a folder");
        }
        fs::write(setup.folder.join("files/only-one"), "").expect("a file");
        std::os::unix::fs::symlink(PROGRAM, setup.folder.join("bin/conductor")).expect("a link");
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A shell with conductor on its PATH, and with no settings of the user.
    fn shell(&self, program: &str) -> Command {
        let path = std::env::var("PATH").expect("a PATH");
        let mut command = Command::new(program);
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("HOME", &self.folder).env("LC_ALL", "C.UTF-8").current_dir(&self.folder);
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command.env("XDG_RUNTIME_DIR", self.path("run")).env("TMPDIR", self.path("run"));
        command.env("LINE", self.path("line"));
        command
    }

    fn in_folder(&self, text: &str) -> String {
        text.replace("FOLDER", self.path("files").to_str().expect("UTF-8"))
    }

    /// Types each case, presses Tab, and compares the line of the shell.
    fn check(&self, terminal: &mut Terminal) {
        for (typed, expected) in CASES {
            let line = self.complete(terminal, &self.in_folder(typed));
            assert_eq!(line.trim_end(), self.in_folder(expected), "{typed}");
        }
        let chain = TestChain::builder(PROGRAM)
            .env("XDG_RUNTIME_DIR", self.path("run").to_str().expect("UTF-8"))
            .run_named(&["agent"]);
        let pid = chain.conductor.pid();
        let socket = self.path("run").join(format!("conductor/{pid}.sock"));
        wait_until("the conductor listens", || socket.exists().then_some(()));
        let line = self.complete(terminal, "conductor status ");
        assert_eq!(line.trim_end(), format!("conductor status {pid}"));
    }

    fn complete(&self, terminal: &mut Terminal, typed: &str) -> String {
        terminal.press(&format!("{typed}\t{WRITE_LINE}"));
        let path = self.path("line");
        let line = wait_until(typed, || fs::read_to_string(&path).ok());
        fs::remove_file(&path).expect("the line");
        terminal.press(DELETE_LINE);
        line
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn script(shell: &str) -> String {
    let output = Command::new(PROGRAM).args(["completions", shell]).output().expect("it starts");
    assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn bash_completes_commands_components_and_values() {
    let setup = Setup::new("bash");
    setup.write("conductor.bash", &script("bash"));
    setup.write(
        "rc",
        r#"
source ./conductor.bash
write_line() { printf %s "$READLINE_LINE" > "$LINE.new"; mv "$LINE.new" "$LINE"; }
bind -x '"\C-t": write_line'
PS1='ready> '
"#,
    );
    let mut bash = setup.shell("bash");
    let mut terminal = Terminal::start(bash.args(["--noprofile", "--rcfile", "rc", "-i"]), None);
    terminal.wait_for("ready> ");
    setup.check(&mut terminal);
    // An escaped space is kept.
    let line = setup.complete(&mut terminal, r"conductor agent sparkle\ --hi");
    assert_eq!(line.trim_end(), r"conductor agent sparkle\ --hide");
}

#[test]
fn zsh_completes_commands_components_and_values() {
    let setup = Setup::new("zsh");
    setup.write("functions/_conductor", &script("zsh"));
    setup.write(
        ".zshrc",
        r#"
fpath=(~/functions $fpath)
autoload -Uz compinit
compinit -u -D
write_line() { print -rn -- "$BUFFER" > "$LINE.new"; mv "$LINE.new" "$LINE" }
zle -N write_line
bindkey '^T' write_line
PS1='ready> '
"#,
    );
    let mut terminal =
        Terminal::start(setup.shell("zsh").env("ZDOTDIR", &setup.folder).arg("-i"), None);
    terminal.wait_for("ready> ");
    setup.check(&mut terminal);
}

#[test]
fn zsh_can_also_source_the_script() {
    let setup = Setup::new("zsh-source");
    setup.write(
        ".zshrc",
        "autoload -Uz compinit\ncompinit -u -D\nsource <(conductor completions zsh)\nPS1='ready> '\n",
    );
    let mut terminal =
        Terminal::start(setup.shell("zsh").env("ZDOTDIR", &setup.folder).arg("-i"), None);
    terminal.wait_for("ready> ");
    terminal.press("conductor agent spark\t");
    terminal.wait_for("sparkle");
}

/// The candidates that fish offers for a line, with their descriptions.
fn fish_candidates(setup: &Setup, line: &str) -> String {
    let mut fish = setup.shell("fish");
    fish.args(["-c", "complete -C $argv[1]", line]).stdin(Stdio::null());
    let output = fish.output().expect("fish is installed");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn fish_completes_commands_components_and_values() {
    let setup = Setup::new("fish");
    setup.write("config/fish/completions/conductor.fish", &script("fish"));
    for (typed, expected) in CASES {
        let (typed, expected) = (setup.in_folder(typed), setup.in_folder(expected));
        let offered = fish_candidates(&setup, &typed);
        // Fish offers the last word, without its quotes.
        let values: Vec<&str> =
            offered.lines().filter_map(|line| line.split('\t').next()).collect();
        match typed == expected {
            true => assert_eq!(values, [""; 0], "{typed}"),
            false => {
                let wanted = expected.trim_end_matches('\'');
                assert!(values.iter().any(|it| wanted.ends_with(it)), "{typed}: {offered}");
            }
        }
    }
    let components = fish_candidates(&setup, "conductor agent ");
    assert!(components.starts_with("sparkle\tBefore the first prompt"), "{components}");
    assert_eq!(components.lines().count(), components::catalog::ALL.len(), "{components}");
}

#[test]
fn elvish_completes_components() {
    let setup = Setup::new("elvish");
    let call = "$edit:completion:arg-completer[conductor] conductor agent sp | each {|it| print $it[stem] } > $E:LINE.new";
    let rc = format!("{}\n{call}\ne:mv $E:LINE.new $E:LINE\n", script("elvish"));
    setup.write("config/elvish/rc.elv", &rc);
    let _terminal = Terminal::start(&mut setup.shell("elvish"), None);
    let line = wait_until("elvish", || fs::read_to_string(setup.path("line")).ok());
    assert!(line.starts_with("sparkle"), "{line}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_powershell_script_is_valid() {
    let script = script("powershell");
    let mut parser = parser::Parser::new();
    parser.set_language(&powershell_grammar::LANGUAGE.into()).expect("the grammar");
    let parsed = parser.parse(&script, None).expect("a tree");
    assert!(!parsed.root_node().has_error(), "{}", parsed.root_node().to_sexp());
    // The program that the script calls, as PowerShell passes its arguments.
    let complete = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let output = command.args(["complete", "powershell", "--"]).args(words).output();
        String::from_utf8(output.expect("it starts").stdout).expect("UTF-8")
    };
    assert!(complete(&["conductor", "="]).starts_with("try\t"));
    assert_eq!(
        complete(&["conductor", "agent", "='sparkle --hi"]).split('\t').next(),
        Some("'sparkle --hide'")
    );
}
