//! Numbered lines, for tests of flow control: all lines must arrive whole, once and in order.

/// Writes notifications of one size, each with a number.
#[derive(Debug)]
pub struct NumberedLines {
    line: Vec<u8>,
}

const START: &[u8] = br#"{"jsonrpc":"2.0","method":"_count","params":{"n":""#;
const DIGITS: usize = 10;
const FILLER: &[u8] = br#"","filler":""#;
const END: &[u8] = b"\"}}\n";

impl NumberedLines {
    /// The length of the shortest line, newline included.
    pub const SHORTEST: usize = START.len() + DIGITS + FILLER.len() + END.len();

    /// Lines of `size` bytes, newline included.
    pub fn new(size: usize) -> NumberedLines {
        let filler = vec![b'.'; size.saturating_sub(Self::SHORTEST)];
        NumberedLines { line: [START, &[b'0'; DIGITS], FILLER, &filler, END].concat() }
    }

    /// The line of this number, newline included.
    pub fn line(&mut self, number: u64) -> &[u8] {
        let mut rest = number;
        for digit in self.line[START.len()..START.len() + DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.line
    }

    /// Whether this line, without its newline, is a numbered one.
    pub fn is(line: &[u8]) -> bool {
        line.starts_with(START)
    }
}

/// Checks that numbered lines arrive in order and unchanged.
#[derive(Debug, Default)]
pub struct SequenceCheck {
    expected: Option<NumberedLines>,
    /// The number of lines so far.
    pub count: u64,
    /// The first line that was not the expected one.
    pub wrong: Option<String>,
}

impl SequenceCheck {
    /// Checks the next line, without its newline.
    pub fn line(&mut self, line: &[u8]) {
        let expected = self.expected.get_or_insert_with(|| NumberedLines::new(line.len() + 1));
        let expected = expected.line(self.count);
        if self.wrong.is_none() && &expected[..expected.len() - 1] != line {
            let start = &line[..line.len().min(200)];
            self.wrong = Some(format!("after {}: {}", self.count, start.escape_ascii()));
        }
        self.count += 1;
    }
}
