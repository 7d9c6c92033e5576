//! Finds the complete blocks of a Markdown text that is still arriving.

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
    /// The number of its first item, if the block continues a list with numbers. Markdown ignores the number of every
    /// item but the first.
    pub number: Option<u64>,
}

/// A Markdown text that is still arriving.
#[derive(Debug, Default)]
pub struct MarkdownStream {
    /// The text after the last complete block.
    pending: String,
    /// Whether the pending text continues the last complete block.
    continues: bool,
    /// The number of the first pending item, if the pending text continues a list with numbers.
    number: Option<u64>,
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
        Block { markdown: self.pending.clone(), continues: self.continues, number: self.number }
    }

    /// Ends the text, and returns its last block.
    pub fn finish(&mut self) -> Option<Block> {
        let stream = std::mem::take(self);
        let MarkdownStream { pending: markdown, continues, number, .. } = stream;
        let block = Block { markdown, continues, number };
        (!block.markdown.trim().is_empty()).then_some(block)
    }

    /// Takes complete blocks from the pending text.
    fn cut(&mut self) -> Option<Block> {
        let complete = self.pending.rfind('\n').map_or(0, |at| at + 1);
        let cut = find_cut(&self.pending[..complete], self.number).or_else(|| self.forced_cut());
        let Some(Cut { at, continues, reopen, number }) = cut else {
            self.searched = complete;
            return None;
        };
        let rest = format!("{reopen}{}", &self.pending[at..]);
        let mut markdown = std::mem::replace(&mut self.pending, rest);
        markdown.truncate(at);
        let block = Block { markdown, continues: self.continues, number: self.number };
        (self.continues, self.number) = (continues, number);
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
        let space = self.pending[..limit].rfind([' ', '\n']).map(|at| at + 1);
        let at = space.filter(|at| *at > MAX_PENDING / 2).unwrap_or(limit);
        let text = &self.pending[..at];
        // The rest of an open code block is code, too.
        let code = last_block(text).filter(|last| last.fenced);
        let cut = code.and_then(|last| cut_code(text, last.start));
        Some(cut.unwrap_or(Cut { at, continues: true, reopen: String::new(), number: None }))
    }
}

/// Where complete blocks end.
struct Cut {
    at: usize,
    /// Whether the text after it continues the block before it.
    continues: bool,
    /// What to put before the rest: the fence of an open code block.
    reopen: String,
    /// The number of the next item, if a list with numbers continues.
    number: Option<u64>,
}

/// The last block of a text.
struct LastBlock {
    /// The start of its first line.
    start: usize,
    /// Whether it is a code block with a fence.
    fenced: bool,
    /// Whether an empty line ends it.
    ends: bool,
    /// The start of the line with its last item, if it is a list.
    item: Option<usize>,
    /// The number of items in it, if it is a list.
    items: u64,
    /// The number of its first item, if it is a list with numbers.
    number: Option<u64>,
}

impl LastBlock {
    fn new(start: usize, tag: Option<&Tag<'_>>) -> LastBlock {
        LastBlock {
            start,
            fenced: matches!(tag, Some(Tag::CodeBlock(CodeBlockKind::Fenced(_)))),
            ends: matches!(
                tag,
                None | Some(
                    Tag::Paragraph | Tag::Heading { .. } | Tag::BlockQuote(_) | Tag::Table(_)
                )
            ),
            item: None,
            items: 0,
            number: match tag {
                Some(Tag::List(number)) => *number,
                _ => None,
            },
        }
    }
}

/// Finds the last block of a text.
fn last_block(text: &str) -> Option<LastBlock> {
    let line_start = |at: usize| text[..at].rfind('\n').map_or(0, |before| before + 1);
    let mut depth = 0_usize;
    let mut last: Option<LastBlock> = None;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                match &mut last {
                    _ if depth == 0 => {
                        last = Some(LastBlock::new(line_start(range.start), Some(&tag)));
                    }
                    Some(last) if depth == 1 && matches!(tag, Tag::Item) => {
                        last.item = Some(line_start(range.start));
                        last.items += 1;
                    }
                    _ => {}
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => last = Some(LastBlock::new(line_start(range.start), None)),
            _ => {}
        }
    }
    last
}

/// Finds the end of the complete blocks in a text that ends with a line break. `number` is the number of the text's first
/// item, if the text continues a list with numbers.
fn find_cut(text: &str, number: Option<u64>) -> Option<Cut> {
    let last = last_block(text)?;
    let cut = |at, continues| Cut { at, continues, reopen: String::new(), number: None };
    if last.ends && text.lines().next_back().is_some_and(|line| line.trim().is_empty()) {
        return Some(cut(text.len(), false));
    }
    if last.fenced
        && let Some(cut) = cut_code(text, last.start)
    {
        return Some(cut);
    }
    if let Some(item) = last.item.filter(|item| *item > last.start) {
        let continued = number.filter(|_| last.start == 0);
        let first = last.number.map(|first| continued.unwrap_or(first));
        let number = first.map(|first| first.saturating_add(last.items - 1));
        return Some(Cut { number, ..cut(item, true) });
    }
    (last.start > 0).then(|| cut(last.start, false))
}

/// A code block is complete line by line. `start` is the start of its first line.
fn cut_code(text: &str, start: usize) -> Option<Cut> {
    let mut lines = text[start..].split_inclusive('\n');
    let opening = lines.next()?;
    let indentation = opening.len() - opening.trim_start().len();
    let sign = opening[indentation..].chars().next()?;
    let fence = opening[indentation..].trim_start_matches(sign);
    let fence = &opening[indentation..opening.len() - fence.len()];
    let mut at = start + opening.len();
    let mut has_code = false;
    for line in lines {
        at += line.len();
        let trimmed = line.trim();
        let closes = trimmed.len() >= fence.len()
            && trimmed.chars().all(|it| fence.starts_with(it))
            && line.len() - line.trim_start().len() < 4;
        if closes {
            return Some(Cut { at, continues: false, reopen: String::new(), number: None });
        }
        has_code = true;
    }
    let reopen = format!("{}{fence}\n", &opening[..indentation]);
    has_code.then_some(Cut { at, continues: true, reopen, number: None })
}
