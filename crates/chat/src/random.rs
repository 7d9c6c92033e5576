//! Random texts and numbers for tests.

/// A generator of random numbers. The same seed gives the same numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    /// A text of Markdown, Unicode and control characters.
    pub(crate) fn text(&mut self) -> String {
        const PARTS: [&str; 62] = [
            "word",
            " ",
            " ",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "12) ",
            "> ",
            ">> ",
            "```",
            "```rust\n",
            "`",
            "*",
            "**",
            "_",
            "~~",
            "# ",
            "### ",
            "---\n",
            "| a | b |\n",
            "|---|:-:|\n",
            "| longer cell | x |\n",
            "[text]",
            "(https://example.org/a/b?c=d)",
            "![alt]",
            "<br>",
            "<div>\n",
            "</div>",
            "&amp;",
            "&#27;",
            "&#x202e;",
            "&#10;",
            "&#9;",
            "\t",
            "    ",
            "漢字",
            "カタカナ",
            "e\u{301}",
            "👩‍👩‍👧",
            "🇩🇪",
            "\u{200d}",
            "\u{fe0f}",
            "\u{202e}",
            "\x1b[31m",
            "\x1b]0;t\x07",
            "\u{9b}2J",
            "\r",
            "\x00",
            "\x7f",
            "\\",
            "[ ] ",
            "[x] ",
            "- [ ] ",
            "a very long word",
            "Donaudampfschifffahrt",
            "https://example.org/",
            "==\n",
            "  - ",
            "   ",
            "\u{ad}",
            "ﷺ",
        ];
        let count = self.below(40);
        (0..count).map(|_| PARTS[self.below(PARTS.len())]).collect()
    }
}
