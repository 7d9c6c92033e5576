//! The code blocks of a Markdown page.

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The heading above the block, without its `#`.
    pub chapter: String,
    /// What follows the backticks.
    pub info: String,
    /// The number of the line with the backticks.
    pub line: usize,
    pub text: String,
}

/// The blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut chapter = String::new();
    for (number, line) in (1..).zip(page.lines()) {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let (chapter, info) = (chapter.clone(), info.trim().to_owned());
                open = Some(Block { chapter, info, line: number, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) if line.starts_with('#') => {
                line.trim_start_matches('#').trim().clone_into(&mut chapter);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The text of a chapter, without its heading.
pub fn chapter<'a>(page: &'a str, title: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("\n## {title}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Title\n\n```sh\na\nb\n```\n\n## Second\n\ntext\n\n```json\n{}\n```\n\n## Third\n";

    #[test]
    fn blocks_have_their_chapter_and_their_place() {
        let all = blocks(PAGE);
        let found: Vec<_> =
            all.iter().map(|it| (&*it.chapter, &*it.info, it.line, &*it.text)).collect();
        assert_eq!(found, [("Title", "sh", 3, "a\nb\n"), ("Second", "json", 12, "{}\n")]);
    }

    #[test]
    fn a_chapter_ends_at_the_next_one() {
        assert_eq!(chapter(PAGE, "Second"), Some("\ntext\n\n```json\n{}\n```\n"));
        assert_eq!(chapter(PAGE, "Fourth"), None);
    }
}
