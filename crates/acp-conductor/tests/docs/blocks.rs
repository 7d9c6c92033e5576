//! The code blocks of a Markdown page.

use super::{pages, read};

/// The languages of code blocks, and how each of them is tested.
const LANGUAGES: [(&str, &str); 10] = [
    ("sh", "runs as printed (`commands`)"),
    ("shell", "runs on a bare Debian system (`cargo xtask test --only dist`)"),
    (
        "text",
        "is not run; as `text output` it is compared with the output of the commands above it",
    ),
    ("json", "is parsed; the settings of an editor start a chain (`settings`)"),
    ("toml", "has dependencies, which `cargo xtask test --only package` uses"),
    ("rust", "is compiled by rustdoc and by `cargo xtask test --only package`"),
    ("python", "is a file in examples/ (`settings`)"),
    ("javascript", "is a file in examples/ (`settings`)"),
    ("lua", "starts a chain (`settings`)"),
    ("elisp", "starts a chain (`settings`)"),
];

/// A code block.
#[derive(Debug, Clone)]
pub struct Block {
    pub page: String,
    /// The number of its first line.
    pub line: usize,
    /// The words after the backticks.
    pub info: String,
    pub text: String,
}

impl Block {
    /// The first word of `info`, without the attributes of rustdoc.
    pub fn language(&self) -> &str {
        self.info.split([' ', ',']).next().unwrap_or_default()
    }

    /// The value of the word `NAME=value` in `info`.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.info.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The place of the block, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

/// The blocks of a page, in order. A block in a list is indented; the indentation is removed.
pub fn of_page(page: &str) -> Vec<Block> {
    let text = read(page);
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let indentation = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let (page, info) = (page.to_owned(), info.trim().to_owned());
                open = Some((Block { page, line: number, info, text: String::new() }, indentation));
            }
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
            (None, Some((block, indentation))) => {
                block.text += line.get(*indentation..).unwrap_or_default();
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a code block does not end");
    blocks
}

/// A command in a block of text is not run. So only synopses, and tables of commands and their meaning, may be in one.
#[test]
fn a_command_of_conductor_is_in_a_block_that_is_run() {
    for block in pages().iter().flat_map(|page| of_page(page)).filter(|it| it.info == "text") {
        for line in block.text.lines().filter_map(|line| line.strip_prefix("conductor ")) {
            let is_command = line.starts_with(char::is_lowercase) && !line.contains(['[', ':']);
            let has_meaning = line.contains("  ");
            assert!(!is_command || has_meaning, "{}: write ```sh: {line}", block.place());
        }
    }
}

#[test]
fn every_block_names_its_language() {
    let mut seen = 0;
    for block in pages().iter().flat_map(|page| of_page(page)) {
        let known = LANGUAGES.iter().any(|(name, _)| *name == block.language());
        assert!(
            known,
            "{}: write ```sh for commands that a test can run, and ```text for output; \
             these languages are tested: {LANGUAGES:#?}",
            block.place()
        );
        seen += 1;
    }
    assert!(seen >= 50, "the pages have {seen} blocks: are they found?");
}
