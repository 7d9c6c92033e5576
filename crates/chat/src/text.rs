//! Styled text, its width in a terminal, and word wrap.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// A color of the terminal's own palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// Failures and removed lines.
    Red,
    /// Success and added lines.
    Green,
    /// Questions and warnings.
    Yellow,
    /// Messages toward the editor.
    Blue,
    /// Links.
    Magenta,
    /// Code.
    Cyan,
}

/// The look of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// The foreground color. `None` is the terminal's own.
    pub color: Option<Color>,
    /// Bold.
    pub bold: bool,
    /// Dimmed.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Struck through.
    pub strike: bool,
}

impl Style {
    /// The normal look.
    pub const PLAIN: Style = Style {
        color: None,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
    };
    /// Bold.
    pub const BOLD: Style = Style { bold: true, ..Style::PLAIN };
    /// Dimmed.
    pub const DIM: Style = Style { dim: true, ..Style::PLAIN };

    /// A color.
    pub const fn color(color: Color) -> Style {
        Style { color: Some(color), ..Style::PLAIN }
    }

    /// Both looks together. The color of `self` wins.
    #[must_use]
    pub fn and(self, other: Style) -> Style {
        Style {
            color: self.color.or(other.color),
            bold: self.bold || other.bold,
            dim: self.dim || other.dim,
            italic: self.italic || other.italic,
            underline: self.underline || other.underline,
            strike: self.strike || other.strike,
        }
    }

    /// The SGR parameters.
    fn codes(self) -> String {
        let mut codes = String::new();
        let color = match self.color {
            Some(Color::Red) => "31",
            Some(Color::Green) => "32",
            Some(Color::Yellow) => "33",
            Some(Color::Blue) => "34",
            Some(Color::Magenta) => "35",
            Some(Color::Cyan) => "36",
            None => "",
        };
        for (set, code) in [
            (self.bold, "1"),
            (self.dim, "2"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.strike, "9"),
            (self.color.is_some(), color),
        ] {
            if set {
                let separator = if codes.is_empty() { "" } else { ";" };
                let _ = write!(codes, "{separator}{code}");
            }
        }
        codes
    }
}

/// A text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// Its style.
    pub style: Style,
}

/// A line of styled text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The parts of the line.
    pub spans: Vec<Span>,
}

impl Line {
    /// An empty line.
    pub fn new() -> Line {
        Line::default()
    }

    /// A line in one style.
    pub fn styled(text: impl Into<String>, style: Style) -> Line {
        Line::new().with(text, style)
    }

    /// The line with another part.
    #[must_use]
    pub fn with(mut self, text: impl Into<String>, style: Style) -> Line {
        self.push(text, style);
        self
    }

    /// Appends a part.
    pub fn push(&mut self, text: impl Into<String>, style: Style) {
        let text = text.into();
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.spans.push(Span { text, style }),
        }
    }

    /// Appends another line.
    pub fn append(&mut self, other: &Line) {
        for span in &other.spans {
            self.push(span.text.as_str(), span.style);
        }
    }

    /// The width in columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// Whether the line shows nothing.
    pub fn is_blank(&self) -> bool {
        self.spans.iter().all(|span| span.text.trim().is_empty())
    }

    /// The text without styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// The text for the output.
    pub fn painted(&self, color: bool) -> String {
        let mut painted = String::new();
        for span in &self.spans {
            let codes = if color { span.style.codes() } else { String::new() };
            match codes.is_empty() {
                true => painted.push_str(&span.text),
                false => {
                    let _ = write!(painted, "\x1b[{codes}m{}\x1b[0m", span.text);
                }
            }
        }
        painted
    }

    /// The line without the spaces at its end.
    #[must_use]
    pub fn trimmed(mut self) -> Line {
        while let Some(last) = self.spans.last_mut() {
            last.text.truncate(last.text.trim_end().len());
            if !last.text.is_empty() {
                break;
            }
            self.spans.pop();
        }
        self
    }

    /// The line with every style combined with this one.
    #[must_use]
    pub fn restyled(mut self, style: Style) -> Line {
        self.spans.iter_mut().for_each(|span| span.style = span.style.and(style));
        self
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Line {
        Line::styled(text, Style::PLAIN)
    }
}

/// The width of a text in columns.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(grapheme_width).sum() }
}

/// The width of a grapheme in columns. No grapheme is wider than two columns.
pub fn grapheme_width(grapheme: &str) -> usize {
    // An ASCII character stays narrow, whatever combines with it.
    match grapheme.as_bytes().first() {
        Some(first) if first.is_ascii() => 1,
        _ => UnicodeWidthStr::width(grapheme).min(2),
    }
}

/// The text, cut to a width, with an ellipsis if something is missing.
pub fn shorten(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let columns = grapheme_width(grapheme);
        if used + columns + 1 > room {
            break;
        }
        used += columns;
        short.push_str(grapheme);
    }
    if room > 0 {
        short.push('…');
    }
    short
}

/// The line, cut to a width, with an ellipsis if something is missing.
pub fn shorten_line(line: &Line, room: usize) -> Line {
    if line.width() <= room {
        return line.clone();
    }
    let mut short = Line::new();
    for span in &line.spans {
        let left = room.saturating_sub(short.width());
        if width(&span.text) < left {
            short.push(span.text.as_str(), span.style);
        } else {
            // The ellipsis is needed also if this part fits exactly, because another part follows.
            short.push(shorten(&format!("{} ", span.text), left), span.style);
            break;
        }
    }
    short
}

/// Text safe for layout: without control characters, and with spaces for tabs.
pub fn clean(text: &str) -> String {
    acp_wire::printable::plain(text).replace('\t', "    ")
}

/// A grapheme with its style, for the word wrap.
struct Cell<'a> {
    text: &'a str,
    style: Style,
    columns: usize,
}

impl Cell<'_> {
    fn is_space(&self) -> bool {
        self.text == " "
    }
}

/// Wraps a line at spaces. Words that are too long are broken. `first` and `next` are the indentations of the first
/// line and of the others. They are dropped if they leave no room.
pub fn wrap(line: &Line, columns: usize, first: &Line, next: &Line) -> Vec<Line> {
    let columns = columns.max(1);
    let widest = first.width().max(next.width());
    // Two columns are the least room in which any grapheme fits.
    let nothing = Line::new();
    let (first, next) = if widest + 2 > columns { (&nothing, &nothing) } else { (first, next) };
    let cells: Vec<Cell<'_>> = line
        .spans
        .iter()
        .flat_map(|span| span.text.graphemes(true).map(|text| (text, span.style)))
        .map(|(text, style)| Cell { text, style, columns: grapheme_width(text) })
        .filter(|cell| cell.columns <= columns)
        .collect();
    let mut lines = Vec::new();
    let mut rest = &cells[..];
    loop {
        let indent = if lines.is_empty() { first } else { next };
        let (taken, skipped) = fit(rest, columns - indent.width());
        let mut wrapped = indent.clone();
        for cell in &rest[..taken] {
            wrapped.push(cell.text, cell.style);
        }
        lines.push(wrapped);
        rest = &rest[taken + skipped..];
        if rest.is_empty() {
            return lines;
        }
    }
}

/// How many cells fit into a row, and how many spaces or line breaks to skip after them.
fn fit(cells: &[Cell<'_>], room: usize) -> (usize, usize) {
    let mut used = 0;
    // Where the row can end: the cells before it, and the cells to skip.
    let mut end = None;
    for (index, cell) in cells.iter().enumerate() {
        if cell.text == "\n" {
            return (index, 1);
        }
        if cell.is_space() {
            end = Some((index, 1));
        } else if index > 0 && (cell.columns == 2 || cells[index - 1].columns == 2) {
            // Wide characters, such as Chinese, are broken anywhere, but not before punctuation.
            let punctuation =
                matches!(cell.text, "。" | "、" | "，" | "．" | "）" | "」" | "！" | "？");
            if !punctuation && !cells[index - 1].is_space() {
                end = Some((index, 0));
            }
        }
        if used + cell.columns > room {
            let (taken, skipped) = match end {
                Some((taken, skipped)) if taken > 0 => (taken, skipped),
                // A word that is too long is broken. A row has at least one cell.
                _ => (index.max(1), 0),
            };
            let spaces = cells[taken + skipped..].iter().take_while(|it| it.is_space()).count();
            // Spaces at the end of a row are dropped, but not those that indent it.
            let words = cells[..taken].iter().rposition(|it| !it.is_space()).map(|at| at + 1);
            let kept = words.unwrap_or(taken);
            return (kept, taken - kept + skipped + spaces);
        }
        used += cell.columns;
    }
    (cells.len(), 0)
}

/// Breaks a line at the width, without regard to words. For code.
pub fn break_line(line: &Line, columns: usize, first: &Line, next: &Line) -> Vec<Line> {
    let columns = columns.max(1);
    let nothing = Line::new();
    let widest = first.width().max(next.width());
    let (first, next) = if widest + 2 > columns { (&nothing, &nothing) } else { (first, next) };
    let mut lines = vec![first.clone()];
    let mut used = first.width();
    for span in &line.spans {
        for grapheme in span.text.graphemes(true) {
            let wide = grapheme_width(grapheme);
            if wide > columns || grapheme == "\n" {
                continue;
            }
            if used + wide > columns {
                lines.push(next.clone());
                used = next.width();
            }
            used += wide;
            if let Some(last) = lines.last_mut() {
                last.push(grapheme, span.style);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        let indent = Line::new();
        wrap(&Line::from(text), columns, &indent, &indent).iter().map(Line::text).collect()
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrapped("the quick brown fox", 9), ["the quick", "brown fox"]);
        assert_eq!(wrapped("a  b", 2), ["a", "b"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("one\ntwo", 20), ["one", "two"]);
        assert_eq!(wrapped("one\n\ntwo\n", 20), ["one", "", "two"]);
    }

    #[test]
    fn a_word_that_is_too_long_is_broken() {
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("abc", 1), ["a", "b", "c"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_break_anywhere() {
        assert_eq!(width("漢字"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("👩‍👩‍👧"), 2);
        assert_eq!(wrapped("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrapped("漢字。漢", 4), ["漢", "字。", "漢"]);
        // A wide character does not fit into one column at all.
        assert_eq!(wrapped("a漢b", 1), ["a", "b"]);
    }

    #[test]
    fn wrapped_lines_are_indented() {
        let lines = wrap(&Line::from("one two"), 5, &Line::from("- "), &Line::from("  "));
        let texts: Vec<String> = lines.iter().map(Line::text).collect();
        assert_eq!(texts, ["- one", "  two"]);
        let narrow = wrap(&Line::from("one"), 3, &Line::from("- "), &Line::from("  "));
        assert_eq!(narrow[0].text(), "one");
    }

    #[test]
    fn styles_are_painted_only_with_colors() {
        let line = Line::styled("a", Style::BOLD).with("b ", Style::color(Color::Red));
        assert_eq!(line.painted(true), "\x1b[1ma\x1b[0m\x1b[31mb \x1b[0m");
        assert_eq!(line.trimmed().painted(false), "ab");
        assert_eq!(Line::styled("  ", Style::DIM).trimmed().painted(true), "");
    }

    #[test]
    fn shortened_text_fits_and_ends_with_an_ellipsis() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
        assert_eq!(shorten("漢字漢", 4), "漢…");
        assert_eq!(shorten("a", 0), "");
        let line = Line::from("abc").with("def", Style::BOLD);
        assert_eq!(shorten_line(&line, 6).text(), "abcdef");
        assert_eq!(shorten_line(&line, 3).text(), "ab…");
        assert_eq!(shorten_line(&line, 5).text(), "abcd…");
    }

    #[test]
    fn code_breaks_at_the_width() {
        let lines = break_line(&Line::from("abcdef"), 5, &Line::from("| "), &Line::from("| "));
        let texts: Vec<String> = lines.iter().map(Line::text).collect();
        assert_eq!(texts, ["| abc", "| def"]);
    }
}
