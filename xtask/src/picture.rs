//! `cargo xtask picture`: what `conductor try` shows, as a picture for the README.
//!
//! A short conversation is run through the real program; its coloured output becomes an SVG. Nothing of
//! this machine is in it, so it stays the same until the program changes.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::tool::release;

/// What is run, as it stands in the picture.
const ARGUMENTS: [&str; 4] = ["try", "--show-wire", "--prompt", "hello"];

/// How many characters a line has.
const COLUMNS: usize = 100;

/// The agent speaks so slowly, in milliseconds for each word, that nothing overtakes anything.
const PACE: &str = "150";

/// If something does all the same, the picture is the run that two agree on.
const MOST_RUNS: usize = 10;

const CELL: f64 = 8.0;
const LINE: f64 = 18.0;
const MARGIN: f64 = 18.0;
const BAR: f64 = 30.0;
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d7dae0";

/// Where the picture belongs.
pub const PLACE: &str = "docs/try.svg";

pub fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let place = root.join(PLACE);
    std::fs::write(&place, make()?).map_err(|error| format!("{}: {error}", place.display()))
}

/// Makes the picture without keeping it.
pub fn make() -> Result<String, String> {
    let program = release()?.join("conductor").display().to_string();
    let mut seen = Vec::new();
    for _ in 0..MOST_RUNS {
        let shown = record(&program)?;
        if seen.contains(&shown) {
            let command = format!("\x1b[1m$ conductor {}\x1b[0m\n", ARGUMENTS.join(" "));
            return Ok(draw(&(command + &shown)));
        }
        seen.push(shown);
    }
    Err(format!("of {MOST_RUNS} runs, no two show the same"))
}

fn record(program: &str) -> Result<String, String> {
    let component = |name: &str, arguments: &[&str]| {
        serde_json::json!({ "name": name, "command": program, "args": arguments }).to_string()
    };
    let output = Command::new(program)
        .args(ARGUMENTS)
        .args(["--color", "always", "--"])
        // The chain that there is without any.
        .arg(component("sparkle", &["component", "sparkle"]))
        .arg(component("demo-agent", &["demo-agent", "--pace", PACE]))
        .env("COLUMNS", COLUMNS.to_string())
        // Nothing of whoever makes the picture is to be seen in it.
        .current_dir("/")
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let shown = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    Ok(without_paths(&shown))
}

/// Where the program is on this machine is left out, as far as it is seen.
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

/// Characters of one look.
#[derive(Debug, Clone, Default, PartialEq)]
struct Span {
    text: String,
    look: Look,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Look {
    bold: bool,
    dim: bool,
    colour: Option<u8>,
}

impl Look {
    fn apply(&mut self, code: &str) {
        match code.parse::<u8>() {
            Ok(1) => self.bold = true,
            Ok(2) => self.dim = true,
            Ok(colour @ 30..=37) => self.colour = Some(colour - 30),
            _ => *self = Look::default(),
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

/// The lines of a coloured text, none longer than the picture is wide.
fn lines(text: &str) -> Vec<Vec<Span>> {
    let mut look = Look::default();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut cells = Vec::new();
        let mut rest = line;
        while let Some(start) = rest.find("\x1b[") {
            cells.extend(rest[..start].chars().map(|it| (it, look)));
            let (codes, after) = rest[start + 2..].split_once('m').unwrap_or(("", ""));
            codes.split(';').for_each(|code| look.apply(code));
            rest = after;
        }
        cells.extend(rest.chars().map(|it| (it, look)));
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

fn spans(cells: &[(char, Look)]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (character, look) in cells {
        match spans.last_mut() {
            Some(span) if span.look == *look => span.text.push(*character),
            _ => spans.push(Span { text: character.to_string(), look: *look }),
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

/// One span, held to its columns whatever the font is.
fn drawn(span: &Span, column: usize, length: usize, y: f64) -> String {
    let leading = span.text.chars().take_while(|it| *it == ' ').count();
    let text = span.text.trim_matches(' ');
    let trailing = length - leading - text.chars().count();
    let x = MARGIN + (column + leading) as f64 * CELL;
    let wide = (length - leading - trailing) as f64 * CELL;
    let mut element = format!(r#"<text x="{x}" y="{y}" textLength="{wide}""#);
    let fill = span.look.fill();
    if fill != FOREGROUND {
        // Writing to a string cannot fail.
        let _ = write!(element, r#" fill="{fill}""#);
    }
    if span.look.bold {
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
    fn colours_become_spans_and_long_lines_are_broken_between_words() {
        let shown = lines("\x1b[1ma\x1b[0m b\n\x1b[2;36mc\x1b[0m");
        assert_eq!(shown[0][0].text, "a");
        assert!(shown[0][0].look.bold && !shown[0][1].look.bold);
        assert_eq!((shown[0][1].text.as_str(), shown[1][0].look.colour), (" b", Some(6)));
        let long = lines(&"word ".repeat(COLUMNS / 5 + 1));
        assert_eq!(long.len(), 2);
        assert_eq!(long[1][0].text, "word ");
    }

    #[test]
    fn paths_are_left_out() {
        let shown = "{\"command\":\"/home/m…\x1b[0m\nb\n";
        assert_eq!(without_paths(shown), "{\"command\":\"…\x1b[0m\nb\n");
    }

    #[test]
    fn the_picture_says_what_was_shown_and_nothing_breaks_it() {
        let svg = draw("> a < b & c\n\n\x1b[31m  x\x1b[0m\n");
        assert!(svg.contains(">&gt; a &lt; b &amp; c</text>"), "{svg}");
        assert!(svg.contains(r##"x="34" y="79" textLength="8" fill="#f2777a">x</text>"##), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
