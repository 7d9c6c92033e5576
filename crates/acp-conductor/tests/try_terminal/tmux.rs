//! A terminal for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use testkit::test_chain::{directory, wait_until};

/// The timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two looks at a condition.
const POLL: Duration = Duration::from_millis(20);

/// A terminal with a shell command in it. It has its own server, which ends with it.
pub(crate) struct Tmux {
    folder: PathBuf,
}

impl Tmux {
    /// Runs `conductor try` with these arguments. When it ends, the terminal shows its exit status and echoes input.
    pub(crate) fn new(name: &str, (columns, rows): (usize, usize), arguments: &str) -> Tmux {
        Tmux::with_environment(name, (columns, rows), "", arguments)
    }

    /// Like [`Tmux::new`], with environment variables such as `A=b`.
    pub(crate) fn with_environment(
        name: &str,
        size: (usize, usize),
        environment: &str,
        arguments: &str,
    ) -> Tmux {
        let folder = directory(name);
        let tmux = Tmux { folder };
        tmux.start(size, environment, arguments);
        tmux
    }

    /// Runs `conductor try` in an interactive shell, which has job control.
    pub(crate) fn shell(name: &str, size: (usize, usize), arguments: &str) -> Tmux {
        let tmux = Tmux { folder: directory(name) };
        tmux.start_script(size, "PS1='$ ' exec bash --norc --noprofile");
        tmux.see("$");
        tmux.enter_chat(arguments);
        tmux
    }

    /// Runs `conductor try` in the shell.
    pub(crate) fn enter_chat(&self, arguments: &str) {
        self.enter(&self.command("", arguments));
    }

    /// Runs `conductor try` again, in the same folder.
    pub(crate) fn restart(self, size: (usize, usize), arguments: &str) -> Tmux {
        self.stop();
        self.start(size, "", arguments);
        self
    }

    fn start(&self, size: (usize, usize), environment: &str, arguments: &str) {
        let script = self.command(environment, arguments);
        self.start_script(size, &format!("{script}; echo \"status $?\"; exec cat"));
    }

    /// A shell command that runs the chat.
    fn command(&self, environment: &str, arguments: &str) -> String {
        let exe = env!("CARGO_BIN_EXE_conductor");
        let [state, home] = [self.state(), self.folder.clone()].map(|it| it.display().to_string());
        format!(
            "env -u NO_COLOR -u COLUMNS XDG_STATE_HOME='{state}' HOME='{home}' {environment} '{exe}' try {arguments}"
        )
    }

    fn start_script(&self, (columns, rows): (usize, usize), script: &str) {
        let work = self.work();
        std::fs::create_dir_all(&work).expect("a folder");
        let [work, columns, rows] =
            [work.display().to_string(), columns.to_string(), rows.to_string()];
        let arguments = [
            &[
                "-f",
                "/dev/null",
                "-u",
                "new-session",
                "-d",
                "-c",
                &work,
                "-x",
                &columns,
                "-y",
                &rows,
            ][..],
            &["sh", "-c", script],
        ]
        .concat();
        // A server that has just ended may still have its socket.
        wait_until("tmux starts", || self.tmux(&arguments).status.success().then_some(()));
    }

    fn stop(&self) {
        // The server may have ended already.
        let _ = self.tmux(&["kill-server"]);
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.join("socket")).args(arguments);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        command.output().expect("tmux is installed: cargo xtask test does that")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.tmux(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The folder in which the chat runs.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// The folder with the state of the program, such as the history.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Presses keys, by the names of tmux: `Enter`, `C-c`, `Up`. Other texts are typed.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Types a text.
    pub(crate) fn write(&self, text: &str) {
        self.run(&["send-keys", "-l", text]);
    }

    /// Types a text and Enter.
    pub(crate) fn enter(&self, text: &str) {
        self.write(text);
        self.press(&["Enter"]);
    }

    /// Pastes a text, as a terminal with bracketed paste does.
    pub(crate) fn paste(&self, text: &str) {
        self.run(&["set-buffer", text]);
        self.run(&["paste-buffer", "-p"]);
    }

    pub(crate) fn resize(&self, columns: usize, rows: usize) {
        let size = [columns.to_string(), rows.to_string()];
        self.run(&["resize-window", "-x", &size[0], "-y", &size[1]]);
    }

    /// The process of the chat: the child of the shell in the terminal.
    pub(crate) fn chat_process(&self) -> u32 {
        let shell = self.run(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let children = children.expect("the shell is running");
        children.trim().parse().expect("the shell has one child")
    }

    /// The rows of the screen.
    pub(crate) fn screen(&self) -> String {
        trimmed(&self.run(&["capture-pane", "-p"]))
    }

    /// The scrollback and the screen.
    pub(crate) fn all(&self) -> String {
        trimmed(&self.run(&["capture-pane", "-p", "-S", "-"]))
    }

    /// The screen with its colors.
    pub(crate) fn colors(&self) -> String {
        self.run(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen fulfils a condition. Returns the screen.
    pub(crate) fn wait(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        let mut before = String::new();
        loop {
            let screen = self.screen();
            // tmux may have drawn a part of a frame. The next look shows the rest.
            let seen = masked(&screen);
            if is_there(&screen) && seen == before {
                return screen;
            }
            before = seen;
            // Timing: what the terminal shows is not an event, and only a bug reaches the deadline.
            assert!(began.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?} in:\n{screen}");
            // Timing: as above.
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the screen contains a text. Returns the screen.
    pub(crate) fn see(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Waits until the chat waits for a prompt: the last row is an empty input line, and the status has facts.
    pub(crate) fn idle(&self) -> String {
        self.wait("an empty input line", |screen| {
            let busy = ["waiting for", "starting", "cancelling"];
            let mut rows = screen.lines().rev();
            let input = rows.next() == Some(">");
            let idle =
                |status: &str| !status.is_empty() && !busy.iter().any(|it| status.contains(it));
            input && rows.next().is_some_and(idle)
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The text without spaces at the ends of lines, and without empty lines at its end.
fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Compares a capture with the one that is kept.
pub(crate) fn compare(name: &str, capture: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/try_terminal/captures");
    let path = folder.join(format!("{name}.txt"));
    let capture = format!("{}\n", masked(capture));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(&path, &capture).expect("a file");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == capture, "{} is:\n{kept}\nThe terminal shows:\n{capture}", path.display());
}

/// Replaces times and the pictures of the spinner.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let line: String =
            line.chars().map(|it| if ('⠀'..='⣿').contains(&it) { '⠿' } else { it }).collect();
        let words: Vec<&str> = line.split(' ').collect();
        let shown: Vec<&str> = words
            .iter()
            .enumerate()
            .map(|(index, word)| {
                let unit = matches!(words.get(index + 1), Some(&"s" | &"s)" | &"ms" | &"min"));
                let number = !word.is_empty() && word.chars().all(|it| it.is_ascii_digit());
                if unit && number { "N" } else { word }
            })
            .collect();
        masked.push_str(&shown.join(" "));
        masked.push('\n');
    }
    masked.trim_end().to_owned()
}
