//! `cargo xtask picture`: draws the output of `conductor try` for the README.
//!
//! It runs a short conversation with the real program and draws the coloured output as an SVG. The picture does not
//! depend on the machine, so it changes only with the program.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::tool::release;

/// The command as the picture shows it.
const ARGUMENTS: [&str; 4] = ["try", "--show-wire", "--prompt", "hello"];

/// The number of characters in a line.
const COLUMNS: usize = 100;

/// The pause of the agent between two words, in milliseconds. It is long, so that the order of the output does not
/// change.
const PACE: &str = "150";

/// The picture shows a run that two runs agree on. This is the maximum number of runs.
const MAX_RUNS: usize = 10;

const CELL: f64 = 8.0;
const LINE: f64 = 18.0;
const MARGIN: f64 = 18.0;
const BAR: f64 = 30.0;
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d7dae0";

/// The path of the picture.
pub const PLACE: &str = "docs/try.svg";

pub fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let place = root.join(PLACE);
    std::fs::write(&place, make()?).map_err(|error| format!("{}: {error}", place.display()))
}

/// Draws the picture without writing the file.
pub fn make() -> Result<String, String> {
    let program = release()?.join("conductor").display().to_string();
    let mut seen = Vec::new();
    for _ in 0..MAX_RUNS {
        let shown = record(&program)?;
        if seen.contains(&shown) {
            let command = format!("\x1b[1m$ conductor {}\x1b[0m\n", ARGUMENTS.join(" "));
            return Ok(draw(&(command + &shown)));
        }
        seen.push(shown);
    }
    Err(format!("of {MAX_RUNS} runs, no two have the same output"))
}

fn record(program: &str) -> Result<String, String> {
    let component = |name: &str, arguments: &[&str]| {
        serde_json::json!({ "name": name, "command": program, "args": arguments }).to_string()
    };
    let output = Command::new(program)
        .args(ARGUMENTS)
        .args(["--color", "always", "--"])
        // No configured chain, so the default one runs.
        .arg(component("sparkle", &["component", "sparkle"]))
        .arg(component("demo-agent", &["demo-agent", "--pace", PACE]))
        .env("COLUMNS", COLUMNS.to_string())
        // The picture must not show the user's environment.
        .current_dir("/")
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let shown = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    Ok(without_paths(&shown))
}

/// Removes the folder of the program from the output.
fn without_paths(shown: &str) -> String {
    const COMMAND: &str = "\"command\":\"";
    let line = |line: &str| match line.split_once(COMMAND) {
        Some((before, after)) => {
            let end = after.find(['…', '"']).unwrap_or(after.len());
            let rest = after[end..].trim_start_matches('…');
            format!("{before}{COMMAND}…{rest}\n")
        }
        None => format!("{line}\n"),
    };
    shown.lines().map(line).collect()
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
            Ok(colour @ 30..=37) => self.colour = Some(colour - 30),
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
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="A chat with the demo agent in the terminal, and every message of the chain">"#
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
    fn paths_are_removed() {
        let shown = "{\"command\":\"/home/m…\x1b[0m\nb\n";
        assert_eq!(without_paths(shown), "{\"command\":\"…\x1b[0m\nb\n");
    }

    #[test]
    fn the_picture_has_the_output_as_escaped_text() {
        let svg = draw("> a < b & c\n\n\x1b[31m  x\x1b[0m\n");
        assert!(svg.contains(">&gt; a &lt; b &amp; c</text>"), "{svg}");
        assert!(svg.contains(r##"x="34" y="79" textLength="8" fill="#f2777a">x</text>"##), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
