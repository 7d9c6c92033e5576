use super::*;
use crate::random::Random;

fn rendered(markdown: &str, width: usize) -> String {
    shown(&render(markdown, Layout { width, color: true, linear: false }))
}

fn shown(lines: &[Line]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| line.clone().trimmed().text()).collect();
    lines.join("\n")
}

#[test]
fn paragraphs_are_wrapped_and_separated() {
    assert_eq!(rendered("one two three\n\nfour", 9), "one two\nthree\n\nfour");
    assert_eq!(rendered("one  \ntwo\\\nthree<br>four", 20), "one\ntwo\nthree\nfour");
}

/// A short line was broken on purpose. A long line was wrapped by its author.
#[test]
fn line_breaks_after_short_lines_stay() {
    assert_eq!(rendered("Name: a\nAge: b", 40), "Name: a\nAge: b");
    let long = "word ".repeat(14);
    assert_eq!(rendered(&format!("{}\nlast", long.trim()), 80), format!("{long}last"));
}

#[test]
fn without_styles_the_signs_of_emphasis_and_code_stay() {
    let plain =
        |markdown| shown(&render(markdown, Layout { width: 40, color: false, linear: false }));
    assert_eq!(plain("## A *b* **c** `d` ~~e~~"), "## A *b* **c** `d` ~~e~~");
    assert_eq!(rendered("## A *b* **c** `d` ~~e~~", 40), "A b c d e");
    let lines = render("**b** `c`", Layout { width: 40, color: true, linear: false });
    assert_eq!(lines[0].painted(true), "\x1b[1mb\x1b[0m \x1b[36mc\x1b[0m");
}

#[test]
fn lists_are_indented() {
    let list = "- one\n- two three four\n  - nested\n\n    more\n- [x] done\n";
    assert_eq!(
        rendered(list, 12),
        "• one\n• two three\n  four\n  • nested\n\n    more\n• [x] done"
    );
    assert_eq!(rendered("9. a\n10. b\n    - c", 20), "9. a\n10. b\n    • c");
    assert_eq!(rendered("- \n- a", 20), "•\n• a");
    assert_eq!(rendered("text\n\n- a\n\n- b", 20), "text\n\n• a\n• b");
}

#[test]
fn quotes_have_a_gutter() {
    assert_eq!(
        rendered("> one two\n>\n> three\n>> four", 8),
        "│ one\n│ two\n│\n│ three\n│\n│ │ four"
    );
}

#[test]
fn code_keeps_its_lines() {
    assert_eq!(rendered("```rust\nfn a() {\n\n    b\n}\n```", 40), "  fn a() {\n\n      b\n  }");
    assert_eq!(rendered("a\n\n    indented", 40), "a\n\n  indented");
    assert_eq!(rendered("```\nlet abc = def\n```", 12), "  let abc =\n    def");
    assert_eq!(rendered("- a\n  ```\n  b\n  ```", 12), "• a\n\n    b");
}

#[test]
fn links_and_images_show_their_addresses() {
    assert_eq!(rendered("[a](https://b.org)", 40), "a (https://b.org)");
    assert_eq!(rendered("<https://b.org>", 40), "https://b.org");
    assert_eq!(rendered("<me@b.org>", 40), "me@b.org");
    assert_eq!(rendered("[](https://b.org)", 40), "https://b.org");
    assert_eq!(rendered("![a cat](c.png)", 40), "[image: a cat (c.png)]");
    assert_eq!(rendered("[![a](b.png)](c)", 40), "[image: a (b.png)] (c)");
}

#[test]
fn tables_fit_into_the_width() {
    let table = "| Name | Number |\n|:--|--:|\n| one | 1 |\n| something long | 22 |\n";
    assert_eq!(
        rendered(table, 40),
        "Name           │ Number\n───────────────┼───────\none            │      1\nsomething long │     22"
    );
    assert_eq!(
        rendered(table, 20),
        "Name        │ Number\n────────────┼───────\none         │      1\nsomething   │     22\nlong        │"
    );
    assert_eq!(
        rendered(table, 12),
        "• Name: one\n  Number: 1\n• Name:\n    somethin\n    g long\n  Number: 22"
    );
}

#[test]
fn a_table_whose_words_do_not_fit_is_shown_as_a_list() {
    let table = "| Name | Description | Default |\n|--|--|--|\n| width | The number of columns | everything |\n";
    assert_eq!(
        rendered(table, 34),
        "Name  │ Description   │ Default\n──────┼───────────────┼───────────\nwidth │ The number of │ everything\n      │ columns       │"
    );
    assert_eq!(
        rendered(table, 30),
        "• Name: width\n  Description: The number of\n    columns\n  Default: everything"
    );
}

/// An entity can stand for a control character, or for one that reverses the text.
#[test]
fn entities_are_not_a_way_around_the_removal_of_control_characters() {
    let text = "a&#27;[31mb&#x1b;]0;title&#7;c&#8;d&#x202e;e&#155;f";
    assert_eq!(rendered(text, 60), "a[31mb]0;titlecdef");
    assert_eq!(rendered("[a&#27;b](https://c.org/&#27;[32m)", 60), "ab (https://c.org/)");
    assert_eq!(rendered("![a](b&#x202e;c)", 60), "[image: a (bc)]");
    assert_eq!(rendered("| a&#27; |\n|--|\n| b&#9;c |", 60), "a\n──────\nb    c");
}

#[test]
fn a_screen_reader_gets_neither_tables_nor_drawn_lines() {
    let text = "- one\n\n---\n\n> two\n\n| A | B |\n|--|--|\n| 1 | 2 |\n";
    let lines = render(text, Layout { width: 40, color: false, linear: true });
    assert_eq!(shown(&lines), "- one\n\n---\n\n> two\n\n• A: 1\n  B: 2".replace('•', "-"));
}

#[test]
fn rules_and_html_are_shown() {
    assert_eq!(rendered("a\n\n---\n\nb", 10), "a\n\n──────────\n\nb");
    assert_eq!(rendered("<b>x</b> &lt;", 40), "<b>x</b> <");
}

/// Pushes a text in parts of random length. Returns the blocks.
fn streamed(text: &str, random: &mut Random) -> Vec<Block> {
    let mut stream = MarkdownStream::default();
    let mut blocks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.ceil_char_boundary(1 + random.below(10));
        blocks.extend(stream.push(&rest[..at]));
        rest = &rest[at..];
    }
    blocks.extend(stream.finish());
    blocks
}

fn joined(blocks: &[Block], layout: Layout) -> Vec<Line> {
    let mut lines = Vec::new();
    for block in blocks {
        let rendered = render_block(block, layout);
        if !lines.is_empty() && !rendered.is_empty() && !block.continues {
            lines.push(Line::new());
        }
        lines.extend(rendered);
    }
    lines
}

#[test]
fn a_text_that_arrives_in_parts_looks_like_the_whole_text() {
    let text = "# Title\n\nA paragraph\nof two lines.\n\n- one\n- two\n  - nested\n- three\n\n1. a\n1. b\n1. c\n\n\
        ```rust\nfn main() {\n\n    one();\n}\n```\n\n> quote\n> more\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n---\n\n~~~\n\
        ```\n~~~\n#hashtag\n\nlast";
    let layout = Layout { width: 30, color: true, linear: false };
    let whole = shown(&render(text, layout));
    for seed in 0..200 {
        let blocks = streamed(text, &mut Random::new(seed));
        assert_eq!(shown(&joined(&blocks, layout)), whole, "seed {seed}");
    }
    assert!(streamed(text, &mut Random::new(1)).len() > 12, "blocks are complete early");
}

#[test]
fn the_lines_of_a_list_and_of_code_are_complete_before_their_end() {
    let mut stream = MarkdownStream::default();
    assert!(stream.push("- one\n- tw").is_empty());
    let blocks = stream.push("o\n");
    assert_eq!((blocks.len(), blocks[0].markdown.as_str()), (1, "- one\n"));
    assert!(stream.pending().continues);
    let mut stream = MarkdownStream::default();
    assert!(stream.push("```\n").is_empty());
    assert_eq!(stream.push("a\nb").len(), 1);
    assert_eq!(stream.pending().markdown, "```\nb");
    assert_eq!(stream.push("\n```\n").len(), 1);
}

#[test]
fn a_paragraph_without_end_is_split() {
    let mut stream = MarkdownStream::default();
    let blocks: usize = (0..20_000).map(|_| stream.push("word ").len()).sum();
    assert!(blocks >= 2 && stream.pending().markdown.len() < 40_000, "{blocks}");
    let mut stream = MarkdownStream::default();
    assert!(!stream.push(&"x".repeat(100_000)).is_empty());
}

/// Otherwise the end of the code block would begin another one.
#[test]
fn a_long_line_of_code_that_arrives_in_parts_stays_code() {
    let mut stream = MarkdownStream::default();
    let mut blocks = stream.push("```json\n");
    for _ in 0..1000 {
        blocks.extend(stream.push(&"x".repeat(100)));
    }
    blocks.extend(stream.push("\n```\n\nThe *end*.\n"));
    blocks.extend(stream.finish());
    let layout = Layout { width: 80, color: true, linear: false };
    let shown = shown(&joined(&blocks, layout));
    assert!(shown.ends_with("xxx\n\nThe end."), "{}", &shown[shown.len() - 100..]);
    assert_eq!(shown.matches('x').count(), 100_000);
    assert!(shown.lines().rev().skip(2).all(|line| line.starts_with("  ")));
}

/// Random texts, whole and in parts: no panic, no line that is too wide, no control character.
#[test]
fn random_markdown_fits_into_every_width() {
    let mut random = Random::new(3);
    for _ in 0..1500 {
        let text = crate::text::clean(&random.text());
        let layout =
            Layout { width: 1 + random.below(60), color: random.below(2) == 0, linear: false };
        let blocks = streamed(&text, &mut random);
        for line in render(&text, layout).iter().chain(&joined(&blocks, layout)) {
            assert!(
                line.width() <= layout.width,
                "{} columns: {:?} of {text:?}",
                layout.width,
                line.text()
            );
            assert!(!line.text().contains(char::is_control), "{:?}", line.text());
        }
    }
}
