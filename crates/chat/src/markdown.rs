//! Markdown as lines of styled text.
//!
//! - `stream`: finds the complete blocks of a text that is still arriving
//! - `table`: the layout of tables

mod stream;
mod table;

pub use stream::{Block, MarkdownStream};

use acp_wire::printable::one_line;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::text::{Color, Line, Style, clean, width, wrap};
use table::Table;

/// The maximum depth of lists and quotes that is indented. Deeper ones are shown at this depth.
const MAX_DEPTH: usize = 12;

/// A line of this width was probably wrapped: its line break is not shown.
const WRAPPED: usize = 60;

/// How to lay out text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The width in columns.
    pub width: usize,
    /// Whether styles are shown. Otherwise Markdown keeps the signs that mark emphasis, code and headings.
    pub color: bool,
    /// Whether a screen reader reads the text: there are no tables and no drawn lines.
    pub linear: bool,
}

impl Layout {
    /// The same layout with fewer columns.
    #[must_use]
    pub fn narrower(self, columns: usize) -> Layout {
        Layout { width: self.width.saturating_sub(columns).max(1), ..self }
    }
}

/// The extensions of Markdown that agents use.
fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Renders Markdown. The text must be clean.
pub fn render(markdown: &str, layout: Layout) -> Vec<Line> {
    rendered(markdown, None, layout)
}

/// Renders a block of a text that is arriving.
pub fn render_block(block: &Block, layout: Layout) -> Vec<Line> {
    rendered(&block.markdown, block.number, layout)
}

/// Renders Markdown. `number` replaces the number of its first item.
fn rendered(markdown: &str, number: Option<u64>, layout: Layout) -> Vec<Line> {
    let mut renderer = Renderer { number, ..Renderer::new(layout) };
    for event in Parser::new_ext(markdown, options()) {
        renderer.event(event);
    }
    renderer.flush();
    renderer.lines
}

/// A list item or quote around the current block.
struct Container {
    /// The indentation of its first line.
    first: Line,
    /// The indentation of the other lines.
    next: Line,
    /// Whether it has a line already.
    used: bool,
    /// Whether it is a list item.
    item: bool,
}

/// A link or image whose text is being read.
struct Link {
    url: String,
    /// Where its text starts in the inline text.
    start: usize,
    image: bool,
}

struct Renderer {
    layout: Layout,
    lines: Vec<Line>,
    containers: Vec<Container>,
    /// The number of the next item of each open list. `None` for a list without numbers.
    lists: Vec<Option<u64>>,
    /// The number of the first item, if it is not the one in the text.
    number: Option<u64>,
    /// The text of the current paragraph, heading or cell.
    inline: Line,
    /// The width of the text since the last line break.
    line_width: usize,
    styles: Vec<Style>,
    links: Vec<Link>,
    /// The text of the current code block.
    code: Option<String>,
    table: Option<Table>,
}

impl Renderer {
    fn new(layout: Layout) -> Renderer {
        Renderer {
            layout,
            lines: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            number: None,
            inline: Line::new(),
            line_width: 0,
            styles: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => {
                // An entity such as `&#27;` can be any character.
                let text = clean(&text);
                match &mut self.code {
                    Some(code) => code.push_str(&text),
                    None => self.push(&text),
                }
            }
            Event::Code(code) => self.inline_code(&code),
            Event::Html(html) => self.push(&html),
            Event::InlineHtml(html) => match &*html {
                "<br>" | "<br/>" | "<br />" => self.push("\n"),
                html => self.push(html),
            },
            // Agents break short lines on purpose. Long lines were wrapped.
            Event::SoftBreak if self.line_width >= WRAPPED => self.push(" "),
            Event::SoftBreak => self.push("\n"),
            Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.separate();
                let rule = match self.layout.linear {
                    true => "---".to_owned(),
                    false => "─".repeat(self.room().min(40)),
                };
                self.emit(&Line::styled(rule, Style::DIM));
            }
            Event::TaskListMarker(done) => self.push(if done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => self.start_heading(level),
            Tag::BlockQuote(_) => {
                self.begin_block();
                let sign = if self.layout.linear { "> " } else { "│ " };
                let gutter = Line::styled(sign, Style::DIM);
                self.open(gutter.clone(), gutter, false);
            }
            Tag::CodeBlock(_) => {
                self.begin_block();
                self.code = Some(String::new());
            }
            Tag::List(start) => {
                self.flush();
                if !self.containers.last().is_some_and(|it| it.item) {
                    self.separate();
                }
                self.lists.push(start.map(|start| self.number.take().unwrap_or(start)));
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(&alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.start_row();
                }
            }
            Tag::TableCell => self.inline = Line::new(),
            Tag::Emphasis => self.mark("*", Style { italic: true, ..Style::PLAIN }),
            Tag::Strong => self.mark("**", Style::BOLD),
            Tag::Strikethrough => self.mark("~~", Style { strike: true, ..Style::PLAIN }),
            Tag::Link { dest_url, .. } => self.open_link(&dest_url, false),
            Tag::Image { dest_url, .. } => self.open_link(&dest_url, true),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                // An empty item is shown, too.
                if self.containers.last().is_some_and(|it| !it.used) {
                    self.emit(&Line::new());
                }
                self.containers.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.render(self.room(), self.layout.linear);
                    lines.iter().for_each(|line| self.emit(line));
                }
            }
            TagEnd::Emphasis => self.end_mark("*"),
            TagEnd::Strong => self.end_mark("**"),
            TagEnd::Strikethrough => self.end_mark("~~"),
            TagEnd::Link | TagEnd::Image => self.close_link(),
            _ => {}
        }
    }

    fn start_heading(&mut self, level: HeadingLevel) {
        self.begin_block();
        let top = level == HeadingLevel::H1;
        self.styles.push(Style { underline: top, ..Style::BOLD });
        if !self.layout.color {
            let signs = "#".repeat(level as usize);
            self.inline.push(format!("{signs} "), Style::BOLD);
        }
    }

    fn start_item(&mut self) {
        self.flush();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ if self.layout.linear => "- ".to_owned(),
            _ => "• ".to_owned(),
        };
        let next = Line::from(" ".repeat(width(&marker)).as_str());
        self.open(Line::from(marker.as_str()), next, true);
    }

    fn open(&mut self, first: Line, next: Line, item: bool) {
        let (first, next) = match self.containers.len() < MAX_DEPTH {
            true => (first, next),
            false => (Line::new(), Line::new()),
        };
        self.containers.push(Container { first, next, used: false, item });
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take().filter(|code| !code.is_empty()) else { return };
        let code = code.strip_suffix('\n').unwrap_or(&code);
        let style = Style::color(Color::Cyan);
        let [first, next] = ["  ", "    "].map(Line::from);
        for line in code.split('\n') {
            let room = self.room();
            for row in wrap(&Line::styled(line, style), room, &first, &next) {
                self.emit(&row);
            }
        }
    }

    fn style(&self) -> Style {
        self.styles.iter().fold(Style::PLAIN, |all, style| style.and(all))
    }

    fn push(&mut self, text: &str) {
        let style = self.style();
        self.inline.push(text, style);
        match text.rsplit_once('\n') {
            Some((_, rest)) => self.line_width = width(rest),
            None => self.line_width += width(text),
        }
    }

    fn inline_code(&mut self, code: &str) {
        let style = Style::color(Color::Cyan).and(self.style());
        self.line_width += width(code);
        match self.layout.color {
            true => self.inline.push(code, style),
            false => self.inline.push(format!("`{code}`"), style),
        }
    }

    /// Starts emphasis. Without styles, its sign is shown.
    fn mark(&mut self, sign: &str, style: Style) {
        if !self.layout.color {
            self.push(sign);
        }
        self.styles.push(style);
    }

    fn end_mark(&mut self, sign: &str) {
        self.styles.pop();
        if !self.layout.color {
            self.push(sign);
        }
    }

    fn open_link(&mut self, url: &str, image: bool) {
        if image {
            self.push("[image: ");
        } else {
            self.styles.push(Style { underline: true, ..Style::PLAIN });
        }
        let start = self.inline.text().len();
        self.links.push(Link { url: one_line(url), start, image });
    }

    fn close_link(&mut self) {
        let Some(link) = self.links.pop() else { return };
        let inline = self.inline.text();
        let text = inline.get(link.start..).unwrap_or_default().trim();
        let same = text == link.url || link.url.strip_prefix("mailto:") == Some(text);
        let url = match () {
            () if same || link.url.is_empty() => String::new(),
            () if text.is_empty() => link.url.clone(),
            () => format!(" ({})", link.url),
        };
        if link.image {
            self.push(&format!("{url}]"));
        } else {
            self.styles.pop();
            let style = self.style().and(Style::DIM);
            self.inline.push(url, style);
        }
    }

    /// Shows the text that is pending, and starts a new block.
    fn begin_block(&mut self) {
        self.flush();
        self.separate();
    }

    /// Shows the current paragraph.
    fn flush(&mut self) {
        self.line_width = 0;
        if self.inline.is_blank() {
            self.inline = Line::new();
            return;
        }
        let mut inline = std::mem::take(&mut self.inline);
        if let Some(last) = inline.spans.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
        let (first, next) = self.indentation();
        self.lines.extend(wrap(&inline, self.layout.width, &first, &next));
    }

    /// Inserts an empty line, unless the next block is the first one.
    fn separate(&mut self) {
        let first_of_item = self.containers.last().is_some_and(|it| !it.used);
        if self.lines.is_empty() || first_of_item {
            return;
        }
        let mut blank = Line::new();
        self.containers.iter().for_each(|it| blank.append(&it.next));
        self.lines.push(crate::text::shorten_line(&blank, self.layout.width));
    }

    /// The columns that lists and quotes leave.
    fn room(&self) -> usize {
        let taken: usize = self.containers.iter().map(|it| it.next.width()).sum();
        let left = self.layout.width.saturating_sub(taken);
        if left < 2 { self.layout.width } else { left }
    }

    /// The indentation of the first line and of the others.
    fn indentation(&mut self) -> (Line, Line) {
        let (mut first, mut next) = (Line::new(), Line::new());
        for container in &mut self.containers {
            first.append(if container.used { &container.next } else { &container.first });
            next.append(&container.next);
            container.used = true;
        }
        (first, next)
    }

    /// Shows a line that fits.
    fn emit(&mut self, line: &Line) {
        let (first, next) = self.indentation();
        self.lines.extend(crate::text::break_line(line, self.layout.width, &first, &next));
    }
}

#[cfg(test)]
mod tests;
