//! `cargo xtask picture`: draws a chat with `conductor try` for the guide.
//!
//! It runs a short conversation with the real program in a real terminal (tmux), and draws what the terminal shows as an
//! SVG. The picture does not depend on the machine, so it changes only with the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::time::Duration;
use std::{env, fs};

use crate::tool::{
    at, ensure_installed, output_of, release, root, run as run_command, wait_until, write,
};

/// The command as the picture shows it.
const COMMAND: &str = "conductor try context demo-agent";

/// What the user enters, and the last text that the chat then shows.
const CONVERSATION: [(&str, &str); 3] = [
    ("", "Ctrl-D leaves"),
    ("hello", "what I can do."),
    ("edit notes.txt", "Press a key to answer."),
];

/// The size of the terminal.
const COLUMNS: usize = 84;
const ROWS: usize = 32;

/// How long the chat may take to show a text.
const TIMEOUT: Duration = Duration::from_secs(60);

const CELL: f64 = 8.0;
const LINE: f64 = 18.0;
const MARGIN: f64 = 18.0;
const BAR: f64 = 30.0;
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d7dae0";

const HEAD: &str = r#" role="img" aria-label="A chat with the demo agent in the terminal: it asks for permission to edit a file, and shows the change">"#;
const CIRCLES: &str = r##"<circle cx="22" cy="15" r="5" fill="#f2777a"/>
<circle cx="40" cy="15" r="5" fill="#f3c969"/>
<circle cx="58" cy="15" r="5" fill="#8fd18b"/>
"##;

/// Writes the picture of a program; by default of the release build.
pub fn run(program: Option<&str>) -> Result<(), String> {
    let picture = match program {
        Some(program) => draw_chat(&fs::canonicalize(program).map_err(at(Path::new(program)))?)?,
        None => make()?,
    };
    write(&root().join("docs/try.svg"), picture)
}

/// Draws the picture of the release build without writing the file.
pub fn make() -> Result<String, String> {
    draw_chat(&release()?.join("conductor"))
}

fn draw_chat(program: &Path) -> Result<String, String> {
    ensure_installed("tmux", &["-V"], "tmux")?;
    let screen = Terminal::start(program)?.chat()?;
    Ok(draw(&format!("\x1b[1m$ {COMMAND}\x1b[0m\n\n{}\n", screen.trim_end())))
}

/// A terminal that runs the chat, in a project of its own.
struct Terminal {
    folder: PathBuf,
    /// The name of tmux's socket.
    socket: String,
}

impl Terminal {
    fn start(program: &Path) -> Result<Terminal, String> {
        let folder = env::temp_dir().join(format!("conductor-picture-{}", id()));
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let terminal = Terminal { folder, socket: format!("conductor-picture-{}", id()) };
        let words = COMMAND.strip_prefix("conductor").unwrap_or_default();
        let command = format!("'{}'{words}", program.display());
        let (columns, rows) = (COLUMNS.to_string(), ROWS.to_string());
        let mut start =
            terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &command]);
        // The picture must not show the user's environment.
        start.current_dir(&terminal.folder).env("HOME", &terminal.folder).env_remove("NO_COLOR");
        for name in ["XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
            start.env(name, &terminal.folder);
        }
        run_command(&mut start)?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(arguments);
        command
    }

    /// Runs the conversation. Returns the screen, with colours.
    fn chat(&self) -> Result<String, String> {
        for (entered, shown) in CONVERSATION {
            if !entered.is_empty() {
                run_command(&mut self.tmux(&["send-keys", "-l", entered]))?;
                run_command(&mut self.tmux(&["send-keys", "Enter"]))?;
            }
            self.wait_for(shown)?;
        }
        let screen = output_of(&mut self.tmux(&["capture-pane", "-p", "-e"]))?;
        Ok(screen.replace(&self.folder.display().to_string(), "~/project"))
    }

    fn wait_for(&self, shown: &str) -> Result<(), String> {
        wait_until(TIMEOUT, || {
            let screen = output_of(&mut self.tmux(&["capture-pane", "-p"]))?;
            // A text may be wrapped.
            let words: Vec<&str> = screen.split_whitespace().collect();
            let there = words.join(" ").contains(shown);
            Ok((!there).then(|| format!("the chat does not show {shown:?}, but:\n{screen}")))
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors are ignored: the chat may have exited already.
        let _ = self.tmux(&["kill-server"]).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Style {
    bold: bool,
    dim: bool,
    colour: Option<u8>,
}

impl Style {
    fn apply(&mut self, code: &str) {
        match code.parse::<u8>() {
            Ok(1) => self.bold = true,
            Ok(2) => self.dim = true,
            Ok(22) => (self.bold, self.dim) = (false, false),
            Ok(colour @ 30..=37) => self.colour = Some(colour - 30),
            Ok(39) => self.colour = None,
            // The picture has no backgrounds.
            Ok(40..=49) => {}
            _ => *self = Style::default(),
        }
    }

    fn fill(self) -> &'static str {
        match self.colour {
            Some(1) => "#f2777a",
            Some(2) => "#8fd18b",
            Some(3) => "#f3c969",
            Some(4) => "#8ab4f8",
            Some(5) => "#d4a5ff",
            Some(6) => "#6fd3cf",
            _ if self.dim => "#8b919d",
            _ if self.bold => "#ffffff",
            _ => FOREGROUND,
        }
    }
}

/// Draws a coloured text. The terminal has wrapped it already.
fn draw(text: &str) -> String {
    let width = COLUMNS as f64 * CELL + 2.0 * MARGIN;
    let height = BAR + text.lines().count() as f64 * LINE + MARGIN;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"{HEAD}
<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>
{CIRCLES}<g font-family="{FONT}" font-size="13" fill="{FOREGROUND}" xml:space="preserve">
"#
    );
    let mut style = Style::default();
    for (number, line) in text.lines().enumerate() {
        let y = BAR + (number as f64 + 1.0) * LINE - 5.0;
        let mut column = 0;
        for (index, piece) in line.split("\x1b[").enumerate() {
            // All pieces but the first begin with the codes of a style.
            let (codes, shown) = piece.split_once('m').filter(|_| index > 0).unwrap_or(("", piece));
            codes.split(';').filter(|_| index > 0).for_each(|code| style.apply(code));
            if !shown.trim().is_empty() {
                svg += &drawn(shown, style, column, y);
            }
            column += shown.chars().count();
        }
    }
    svg + "</g>\n</svg>\n"
}

/// Draws a text of one style. `textLength` keeps it in its columns with any font.
fn drawn(shown: &str, style: Style, column: usize, y: f64) -> String {
    let leading = shown.chars().take_while(|it| *it == ' ').count();
    let text = shown.trim_matches(' ');
    let x = MARGIN + (column + leading) as f64 * CELL;
    let wide = text.chars().count() as f64 * CELL;
    let mut element = format!(r#"<text x="{x}" y="{y}" textLength="{wide}""#);
    let fill = style.fill();
    if fill != FOREGROUND {
        // Writing to a string cannot fail.
        let _ = write!(element, r#" fill="{fill}""#);
    }
    if style.bold {
        element.push_str(r#" font-weight="bold""#);
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("{element}>{text}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_styles_of_tmux_are_drawn() {
        let svg =
            draw("\x1b[0;1m\x1b[39m\x1b[49ma\x1b[0m\x1b[33m\x1b[49mb\x1b[39mc\n\x1b[2;36md\x1b[0m");
        for text in [
            r##"<text x="18" y="43" textLength="8" fill="#ffffff" font-weight="bold">a</text>"##,
            r##"<text x="26" y="43" textLength="8" fill="#f3c969">b</text>"##,
            r##"<text x="34" y="43" textLength="8">c</text>"##,
            r##"<text x="18" y="61" textLength="8" fill="#6fd3cf">d</text>"##,
        ] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn the_picture_has_the_output_as_escaped_text() {
        let svg = draw("> a < b & c\n\n\x1b[31m  x\x1b[0m\n");
        assert!(svg.contains(">&gt; a &lt; b &amp; c</text>"), "{svg}");
        assert!(svg.contains(r##"x="34" y="79" textLength="8" fill="#f2777a">x</text>"##), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
