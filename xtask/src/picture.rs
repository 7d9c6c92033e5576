//! `cargo xtask picture`: draws a chat with `conductor try` for the guide.
//!
//! It runs a short conversation with the real program in a real terminal (tmux), and draws what the terminal shows as an
//! SVG. The picture does not depend on the machine, so it changes only with the program.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::tool::{at, ensure_installed, output_of, release, run as run_command};

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

/// How often the terminal is read.
const INTERVAL: Duration = Duration::from_millis(100);

const CELL: f64 = 8.0;
const LINE: f64 = 18.0;
const MARGIN: f64 = 18.0;
const BAR: f64 = 30.0;
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d7dae0";

/// The path of the picture.
pub const PLACE: &str = "docs/try.svg";

/// Writes the picture of a program; by default of the release build.
pub fn run(program: Option<&str>) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let place = root.join(PLACE);
    let picture = match program {
        Some(program) => draw_chat(&fs::canonicalize(program).map_err(at(Path::new(program)))?)?,
        None => make()?,
    };
    fs::write(&place, picture).map_err(at(&place))
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
        let began = Instant::now();
        loop {
            let screen = output_of(&mut self.tmux(&["capture-pane", "-p"]))?;
            // A text may be wrapped.
            let words: Vec<&str> = screen.split_whitespace().collect();
            if words.join(" ").contains(shown) {
                return Ok(());
            }
            if began.elapsed() > TIMEOUT {
                return Err(format!("the chat does not show {shown:?}, but:\n{screen}"));
            }
            thread::sleep(INTERVAL);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors are ignored: the chat may have exited already.
        let _ = self.tmux(&["kill-server"]).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Characters of one style.
#[derive(Debug, Clone, Default, PartialEq)]
struct Span {
    text: String,
    style: Style,
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

/// The lines of a coloured text, wrapped to the width of the picture.
fn lines(text: &str) -> Vec<Vec<Span>> {
    let mut style = Style::default();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut cells = Vec::new();
        let mut rest = line;
        while let Some(start) = rest.find("\x1b[") {
            cells.extend(rest[..start].chars().map(|it| (it, style)));
            let (codes, after) = rest[start + 2..].split_once('m').unwrap_or(("", ""));
            codes.split(';').for_each(|code| style.apply(code));
            rest = after;
        }
        cells.extend(rest.chars().map(|it| (it, style)));
        while cells.len() > COLUMNS {
            let blank = cells[..COLUMNS].iter().rposition(|(it, _)| *it == ' ');
            let more = cells.split_off(blank.map_or(COLUMNS, |at| at + 1));
            lines.push(spans(&cells));
            cells = more;
        }
        lines.push(spans(&cells));
    }
    lines
}

fn spans(cells: &[(char, Style)]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (character, style) in cells {
        match spans.last_mut() {
            Some(span) if span.style == *style => span.text.push(*character),
            _ => spans.push(Span { text: character.to_string(), style: *style }),
        }
    }
    spans
}

fn draw(text: &str) -> String {
    let lines = lines(text);
    let width = COLUMNS as f64 * CELL + 2.0 * MARGIN;
    let height = BAR + lines.len() as f64 * LINE + MARGIN;
    let mut svg = String::new();
    let mut put = |line: &str| {
        svg.push_str(line);
        svg.push('\n');
    };
    put(&format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="A chat with the demo agent in the terminal: it asks for permission to edit a file, and shows the change">"#
    ));
    put(&format!(r#"<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>"#));
    for (number, colour) in ["#f2777a", "#f3c969", "#8fd18b"].iter().enumerate() {
        let x = MARGIN + 4.0 + number as f64 * 18.0;
        put(&format!(r#"<circle cx="{x}" cy="15" r="5" fill="{colour}"/>"#));
    }
    put(&format!(
        r#"<g font-family="{FONT}" font-size="13" fill="{FOREGROUND}" xml:space="preserve">"#
    ));
    for (number, line) in lines.iter().enumerate() {
        let y = BAR + (number as f64 + 1.0) * LINE - 5.0;
        let mut column = 0;
        for span in line {
            let length = span.text.chars().count();
            let blank = span.text.chars().all(|it| it == ' ');
            if !blank {
                put(&drawn(span, column, length, y));
            }
            column += length;
        }
    }
    put("</g>");
    put("</svg>");
    svg
}

/// Draws a span. `textLength` keeps it in its columns with any font.
fn drawn(span: &Span, column: usize, length: usize, y: f64) -> String {
    let leading = span.text.chars().take_while(|it| *it == ' ').count();
    let text = span.text.trim_matches(' ');
    let trailing = length - leading - text.chars().count();
    let x = MARGIN + (column + leading) as f64 * CELL;
    let wide = (length - leading - trailing) as f64 * CELL;
    let mut element = format!(r#"<text x="{x}" y="{y}" textLength="{wide}""#);
    let fill = span.style.fill();
    if fill != FOREGROUND {
        // Writing to a string cannot fail.
        let _ = write!(element, r#" fill="{fill}""#);
    }
    if span.style.bold {
        element.push_str(r#" font-weight="bold""#);
    }
    element.push('>');
    element.push_str(&text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"));
    element.push_str("</text>");
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_spans_and_long_lines_are_wrapped() {
        let shown = lines("\x1b[1ma\x1b[0m b\n\x1b[2;36mc\x1b[0m");
        assert_eq!(shown[0][0].text, "a");
        assert!(shown[0][0].style.bold && !shown[0][1].style.bold);
        assert_eq!((shown[0][1].text.as_str(), shown[1][0].style.colour), (" b", Some(6)));
        let long = lines(&"word ".repeat(COLUMNS / 5 + 1));
        assert_eq!(long.len(), 2);
        assert_eq!(long[1][0].text, "word ");
    }

    #[test]
    fn the_styles_of_tmux_are_understood() {
        let shown = lines("\x1b[0;1m\x1b[39m\x1b[49ma\x1b[0m\x1b[33m\x1b[49mb\x1b[39mc");
        let styles: Vec<(bool, Option<u8>)> =
            shown[0].iter().map(|span| (span.style.bold, span.style.colour)).collect();
        assert_eq!(styles, [(true, None), (false, Some(3)), (false, None)]);
    }

    #[test]
    fn the_picture_has_the_output_as_escaped_text() {
        let svg = draw("> a < b & c\n\n\x1b[31m  x\x1b[0m\n");
        assert!(svg.contains(">&gt; a &lt; b &amp; c</text>"), "{svg}");
        assert!(svg.contains(r##"x="34" y="79" textLength="8" fill="#f2777a">x</text>"##), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
