//! Converts Markdown to the HTML of a panel. HTML in the Markdown is shown as text.

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use web::project::path_of_url;

use super::places;

/// Converts a text. Links to files in the folder become links to files.
pub(super) fn to_html(markdown: &str, folder: &Path) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        folder,
        html: String::new(),
        code: None,
        is_in_table_head: false,
        links: Vec::new(),
        images: 0,
    };
    Parser::new_ext(markdown, options).for_each(|event| writer.write(event));
    writer.html
}

/// Escapes a text for HTML, also for the value of an attribute in double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(it),
        }
    }
    escaped
}

/// A block of code. The language `mermaid` is a diagram, and `diff` is shown as one.
pub(super) fn code_block(language: &str, code: &str) -> String {
    let code = escape(code);
    match language {
        "mermaid" => format!("<pre class=\"c-mermaid\"><code>{code}</code></pre>\n"),
        "diff" => format!("<pre class=\"c-diff\"><code>{code}</code></pre>\n"),
        "" => format!("<pre class=\"c-code\"><code>{code}</code></pre>\n"),
        _ => {
            let language = escape(language);
            format!(
                "<pre class=\"c-code\" data-language=\"{language}\"><code>{code}</code></pre>\n"
            )
        }
    }
}

struct Writer<'a> {
    /// The folder of the session.
    folder: &'a Path,
    html: String,
    /// The language and the text of the block of code that is open.
    code: Option<(String, String)>,
    is_in_table_head: bool,
    /// Whether each open link is written as a link.
    links: Vec<bool>,
    /// How many images are open. Only their texts are shown.
    images: usize,
}

impl Writer<'_> {
    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::Code(text) => self.push(&format!("<code>{}</code>", escape(&text))),
            Event::SoftBreak => self.push("\n"),
            Event::HardBreak => self.push("<br>\n"),
            Event::Rule => self.push("<hr>\n"),
            Event::TaskListMarker(done) => self.push(if done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
        }
    }

    fn push(&mut self, html: &str) {
        self.html.push_str(html);
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some((_, code)) => code.push_str(text),
            None => self.html.push_str(&escape(text)),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.push("<p>"),
            Tag::Heading { level, .. } => self.push(&format!("<{level}>")),
            Tag::BlockQuote(_) => self.push("<blockquote>\n"),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(None) => self.push("<ul>\n"),
            Tag::List(Some(1)) => self.push("<ol>\n"),
            Tag::List(Some(start)) => self.push(&format!("<ol start=\"{start}\">\n")),
            Tag::Item => self.push("<li>"),
            Tag::Table(_) => self.push("<table>\n"),
            Tag::TableHead => {
                self.is_in_table_head = true;
                self.push("<thead><tr>");
            }
            Tag::TableRow => self.push("<tr>"),
            Tag::TableCell => self.push(if self.is_in_table_head { "<th>" } else { "<td>" }),
            Tag::Emphasis => self.push("<em>"),
            Tag::Strong => self.push("<strong>"),
            Tag::Strikethrough => self.push("<del>"),
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            Tag::Image { .. } => self.images += 1,
            _ => {}
        }
    }

    /// Links to web pages and to files of the project are links. All others are text.
    fn start_link(&mut self, url: &str) {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let file = if is_web { None } else { file_of(url, self.folder) };
        if is_web {
            self.push(&format!("<a href=\"{}\">", escape(url)));
        } else if let Some((path, line)) = &file {
            self.push(&file_link(path, *line));
        }
        self.links.push(is_web || file.is_some());
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.push("</p>\n"),
            TagEnd::Heading(level) => self.push(&format!("</{level}>\n")),
            TagEnd::BlockQuote(_) => self.push("</blockquote>\n"),
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    self.push(&code_block(&language, code.strip_suffix('\n').unwrap_or(&code)));
                }
            }
            TagEnd::List(false) => self.push("</ul>\n"),
            TagEnd::List(true) => self.push("</ol>\n"),
            TagEnd::Item => self.push("</li>\n"),
            TagEnd::Table => self.push("</tbody></table>\n"),
            TagEnd::TableHead => {
                self.is_in_table_head = false;
                self.push("</tr></thead>\n<tbody>\n");
            }
            TagEnd::TableRow => self.push("</tr>\n"),
            TagEnd::TableCell => self.push(if self.is_in_table_head { "</th>" } else { "</td>" }),
            TagEnd::Emphasis => self.push("</em>"),
            TagEnd::Strong => self.push("</strong>"),
            TagEnd::Strikethrough => self.push("</del>"),
            TagEnd::Link => {
                let is_link = self.links.pop() == Some(true);
                self.push(if is_link { "</a>" } else { "" });
            }
            TagEnd::Image => self.images = self.images.saturating_sub(1),
            _ => {}
        }
    }
}

/// The path in the folder and the line of a link such as `src/a.rs#L2-L3`, `src/a.rs:2` or `file:///project/src/a.rs`.
/// `None` if it is no link to a file of the folder.
fn file_of(url: &str, folder: &Path) -> Option<(String, Option<u32>)> {
    let (path, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (path, line) = match fragment.strip_prefix('L').and_then(first_number) {
        Some(line) => (path, Some(line)),
        None => split_line(path),
    };
    let is_other = path.is_empty() || path.starts_with(['\\', '?']) || path.starts_with("//");
    let path = match path.starts_with("file://") {
        true => path_of_url(path)?,
        // Another scheme, or the name of another machine.
        false if is_other || path.split('/').next().is_some_and(|it| it.contains(':')) => {
            return None;
        }
        false => decoded(path),
    };
    let inside = places::relative(folder, &path)?;
    let path = places::shown(&inside);
    (!path.is_empty()).then_some((path, line))
}

/// The number at the start of a text: 2 for `2-L3`. Lines begin with 1.
fn first_number(text: &str) -> Option<u32> {
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().filter(|line| *line > 0)
}

/// Splits the line from a path such as `a.rs:2`, `a.rs:2-3` or `a.rs:2:5`.
fn split_line(path: &str) -> (&str, Option<u32>) {
    let is_place = |it: &str| {
        it.starts_with(|it: char| it.is_ascii_digit())
            && it.bytes().all(|it| it.is_ascii_digit() || it == b'-' || it == b':')
    };
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    match path[name..].split_once(':') {
        Some((file, place)) if !file.is_empty() && is_place(place) => {
            (&path[..name + file.len()], first_number(place))
        }
        _ => (path, None),
    }
}

/// A path without percent-encoding. What is not valid stays as it is.
fn decoded(path: &str) -> PathBuf {
    let is_absolute = path.starts_with('/');
    let decoded = path_of_url(&format!("file://{}{path}", if is_absolute { "" } else { "/" }));
    match decoded {
        Some(decoded) if is_absolute => decoded,
        Some(decoded) => decoded.strip_prefix("/").map(Path::to_owned).unwrap_or(decoded),
        None => PathBuf::from(path),
    }
}

/// The beginning of a link to a file of the project.
pub(super) fn file_link(path: &str, line: Option<u32>) -> String {
    let line = line.map(|line| format!(" data-line=\"{line}\"")).unwrap_or_default();
    format!("<a class=\"c-file\" data-file=\"{}\"{line}>", escape(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_the_html_of_a_panel() {
        for (markdown, html) in [
            (
                "a **b** *c* ~~d~~ `e<f`",
                "<p>a <strong>b</strong> <em>c</em> <del>d</del> <code>e&lt;f</code></p>\n",
            ),
            ("# A\n\n- [x] b\n- c", "<h1>A</h1>\n<ul>\n<li>☑ b</li>\n<li>c</li>\n</ul>\n"),
            ("3. a\n4. b", "<ol start=\"3\">\n<li>a</li>\n<li>b</li>\n</ol>\n"),
            (
                "```rust,no_run\nlet a = \"<\";\n```",
                "<pre class=\"c-code\" data-language=\"rust\"><code>let a = &quot;&lt;&quot;;</code></pre>\n",
            ),
            (
                "```mermaid\ngraph TD; A-->B\n```",
                "<pre class=\"c-mermaid\"><code>graph TD; A--&gt;B</code></pre>\n",
            ),
            (
                "|a|b|\n|-|-|\n|1|2|",
                "<table>\n<thead><tr><th>a</th><th>b</th></tr></thead>\n<tbody>\n<tr><td>1</td><td>2</td></tr>\n</tbody></table>\n",
            ),
            (
                "[a](src/a.rs#L12) [b](b.rs)",
                "<p><a class=\"c-file\" data-file=\"src/a.rs\" data-line=\"12\">a</a> <a class=\"c-file\" data-file=\"b.rs\">b</a></p>\n",
            ),
            (
                "[a](https://a.example/?b&c)",
                "<p><a href=\"https://a.example/?b&amp;c\">a</a></p>\n",
            ),
            ("![picture](https://a.example/x.png)", "<p>picture</p>\n"),
        ] {
            assert_eq!(to_html(markdown, Path::new("/p")), html, "{markdown}");
        }
    }

    #[test]
    fn links_to_files_of_the_folder_have_a_path_and_a_line() {
        for (link, path, line) in [
            ("src/a.rs#L2-L3", "src/a.rs", Some(2)),
            ("src/a.rs#L2-3", "src/a.rs", Some(2)),
            ("src/a.rs#L2C5", "src/a.rs", Some(2)),
            ("src/a.rs:2", "src/a.rs", Some(2)),
            ("a.rs:2", "a.rs", Some(2)),
            ("src/a.rs:2:5", "src/a.rs", Some(2)),
            ("src/a.rs:2-3", "src/a.rs", Some(2)),
            ("src/a.rs#L0", "src/a.rs", None),
            ("src/a.rs#part", "src/a.rs", None),
            ("./src/../a.rs", "a.rs", None),
            ("my%20file%23.rs#L2", "my file#.rs", Some(2)),
            ("100%.rs", "100%.rs", None),
            ("/p/src/a.rs:2", "src/a.rs", Some(2)),
            ("file:///p/src/my%20a.rs#L2", "src/my a.rs", Some(2)),
            ("<src/my a.rs>", "src/my a.rs", None),
        ] {
            let line = line.map(|it| format!(" data-line=\"{it}\"")).unwrap_or_default();
            let html = format!("<p><a class=\"c-file\" data-file=\"{path}\"{line}>x</a></p>\n");
            assert_eq!(to_html(&format!("[x]({link})"), Path::new("/p")), html, "{link}");
        }
        for link in [
            "/etc/passwd:2",
            "../a.rs",
            "%2e%2e/a.rs",
            "//host/a.rs",
            "file://host/p/a.rs",
            "file:///etc/passwd",
            "vscode://file/p/a.rs:2",
            "mailto:a@b.example",
            "#L2",
            ".",
        ] {
            assert_eq!(to_html(&format!("[x]({link})"), Path::new("/p")), "<p>x</p>\n", "{link}");
        }
    }

    #[test]
    fn html_and_strange_links_are_text() {
        for (markdown, html) in [
            ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
            ("a <b onclick=\"x\">c</b>", "<p>a &lt;b onclick=&quot;x&quot;&gt;c&lt;/b&gt;</p>\n"),
            ("[a](javascript:alert(1))", "<p>a</p>\n"),
            ("[a](JaVaScRiPt:alert(1))", "<p>a</p>\n"),
            ("[a](data:text/html,x)", "<p>a</p>\n"),
            ("[a](/etc/passwd) [b](#c)", "<p>a b</p>\n"),
            (
                "[a](<x\" onclick=\"y>)",
                "<p><a class=\"c-file\" data-file=\"x&quot; onclick=&quot;y\">a</a></p>\n",
            ),
            (
                "```\"><script>\nx\n```",
                "<pre class=\"c-code\" data-language=\"&quot;&gt;&lt;script&gt;\"><code>x</code></pre>\n",
            ),
        ] {
            assert_eq!(to_html(markdown, Path::new("/p")), html, "{markdown}");
        }
    }
}
