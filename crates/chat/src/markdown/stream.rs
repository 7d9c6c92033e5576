//! Finds the complete blocks of a Markdown text that is still arriving.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::options;

/// The maximum length of a block that is not complete. A longer block is split at a space.
const MAX_PENDING: usize = 32 * 1024;

/// A complete block, or a complete part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The Markdown of the block.
    pub markdown: String,
    /// Whether the block continues the one before it: the next item of a list, or the next line of code.
    pub continues: bool,
}

/// A Markdown text that is still arriving.
#[derive(Debug, Default)]
pub struct MarkdownStream {
    /// The text after the last complete block.
    pending: String,
    /// Whether the pending text continues the last complete block.
    continues: bool,
    /// The length of the pending text when complete blocks were last searched for.
    searched: usize,
}

impl MarkdownStream {
    /// Appends text, and returns the blocks that are complete now.
    pub fn push(&mut self, text: &str) -> Vec<Block> {
        self.pending.push_str(text);
        let mut blocks = Vec::new();
        // Only a line break completes anything.
        while self.pending[self.searched..].contains('\n') || self.pending.len() > MAX_PENDING {
            match self.cut() {
                Some(block) if block.markdown.trim().is_empty() => {}
                Some(block) => blocks.push(block),
                None => break,
            }
        }
        blocks
    }

    /// The text that is not complete.
    pub fn pending(&self) -> Block {
        Block { markdown: self.pending.clone(), continues: self.continues }
    }

    /// Ends the text, and returns its last block.
    pub fn finish(&mut self) -> Option<Block> {
        let stream = std::mem::take(self);
        let block = Block { markdown: stream.pending, continues: stream.continues };
        (!block.markdown.trim().is_empty()).then_some(block)
    }

    /// Takes complete blocks from the pending text.
    fn cut(&mut self) -> Option<Block> {
        let complete = self.pending.rfind('\n').map_or(0, |at| at + 1);
        let cut = find_cut(&self.pending[..complete]).or_else(|| self.forced_cut());
        let Some(Cut { at, continues, reopen }) = cut else {
            self.searched = complete;
            return None;
        };
        let rest = format!("{reopen}{}", &self.pending[at..]);
        let mut markdown = std::mem::replace(&mut self.pending, rest);
        markdown.truncate(at);
        let block = Block { markdown, continues: self.continues };
        self.continues = continues;
        // An open code block is searched again only after its next line.
        self.searched = if reopen.is_empty() { 0 } else { reopen.len() };
        Some(block)
    }

    /// Where to split a block that is too long.
    fn forced_cut(&self) -> Option<Cut> {
        if self.pending.len() <= MAX_PENDING {
            return None;
        }
        let limit = self.pending.floor_char_boundary(MAX_PENDING);
        let at = self.pending[..limit].rfind([' ', '\n']).map_or(limit, |at| at + 1);
        Some(Cut { at, continues: true, reopen: String::new() })
    }
}

/// Where complete blocks end.
struct Cut {
    at: usize,
    /// Whether the text after it continues the block before it.
    continues: bool,
    /// What to put before the rest: the first line of an open code block.
    reopen: String,
}

/// Finds the end of the complete blocks in a text that ends with a line break.
fn find_cut(text: &str) -> Option<Cut> {
    let mut depth = 0_usize;
    // The last block, whether it is code, and whether an empty line ends it.
    let mut last: Option<(Range<usize>, bool, bool)> = None;
    // The last item, if the last block is a list.
    let mut item: Option<usize> = None;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    let fenced = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)));
                    let ends = matches!(
                        tag,
                        Tag::Paragraph | Tag::Heading { .. } | Tag::BlockQuote(_) | Tag::Table(_)
                    );
                    last = Some((range, fenced, ends));
                    item = None;
                } else if depth == 1 && matches!(tag, Tag::Item) {
                    item = Some(range.start);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => {
                last = Some((range, false, true));
                item = None;
            }
            _ => {}
        }
    }
    let (range, fenced, ends) = last?;
    if ends && text.lines().next_back().is_some_and(|line| line.trim().is_empty()) {
        return Some(Cut { at: text.len(), continues: false, reopen: String::new() });
    }
    let line_start = |at: usize| text[..at].rfind('\n').map_or(0, |before| before + 1);
    let start = line_start(range.start);
    if fenced && let Some(cut) = cut_code(text, start) {
        return Some(cut);
    }
    if let Some(item) = item.map(line_start).filter(|item| *item > start) {
        return Some(Cut { at: item, continues: true, reopen: String::new() });
    }
    (start > 0).then(|| Cut { at: start, continues: false, reopen: String::new() })
}

/// A code block is complete line by line. `start` is the start of its first line.
fn cut_code(text: &str, start: usize) -> Option<Cut> {
    let mut lines = text[start..].split_inclusive('\n');
    let opening = lines.next()?;
    let fence: String = {
        let sign = opening.trim_start().chars().next()?;
        opening.trim_start().chars().take_while(|it| *it == sign).collect()
    };
    let mut at = start + opening.len();
    let mut has_code = false;
    for line in lines {
        at += line.len();
        let trimmed = line.trim();
        let closes = trimmed.len() >= fence.len()
            && trimmed.chars().all(|it| fence.starts_with(it))
            && line.len() - line.trim_start().len() < 4;
        if closes {
            return Some(Cut { at, continues: false, reopen: String::new() });
        }
        has_code = true;
    }
    has_code.then(|| Cut { at, continues: true, reopen: opening.to_owned() })
}
