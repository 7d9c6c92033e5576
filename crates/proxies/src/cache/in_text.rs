//! Finds paths and ids inside of texts. The time does not depend on the number of ids.

use std::cmp::Reverse;
use std::collections::HashMap;

/// Shorter ids are replaced only where they are a whole value.
const MIN_ID: usize = 16;

/// The end of an id, by which it is found.
type Ending = [u8; MIN_ID];

/// The values that are replaced inside of texts.
#[derive(Debug, Clone, Default)]
pub(super) struct InText {
    /// The longest come first. There are few.
    paths: Vec<Value>,
    /// An id in a text is followed by the end of a word, so it is looked up there, by its last bytes.
    ids: HashMap<Ending, Vec<Value>>,
}

/// A value with its placeholder.
#[derive(Debug, Clone)]
struct Value {
    text: String,
    placeholder: String,
}

impl InText {
    pub(super) fn forget_path(&mut self, placeholder: &str) {
        self.paths.retain(|it| it.placeholder != placeholder);
    }

    /// Adds a path. If two placeholders have the same path, `preferred` is used.
    pub(super) fn add_path(&mut self, path: &str, placeholder: &str, preferred: &str) {
        if self.paths.iter().any(|it| it.text == path && it.placeholder == placeholder) {
            return;
        }
        self.paths.push(Value { text: path.to_owned(), placeholder: placeholder.to_owned() });
        self.paths.sort_by_key(|it| (Reverse(it.text.len()), it.placeholder != preferred));
    }

    /// Adds an id, if it is long enough.
    pub(super) fn add_id(&mut self, id: &str, placeholder: &str) {
        let Some(ending) = id.as_bytes().last_chunk::<MIN_ID>() else { return };
        let same = self.ids.entry(*ending).or_default();
        if !same.iter().any(|it| it.text == id) {
            same.push(Value { text: id.to_owned(), placeholder: placeholder.to_owned() });
        }
    }

    /// What is found in a text: where each value begins, its length and its placeholder, in the order of the text.
    pub(super) fn find(&self, text: &str) -> Vec<(usize, usize, &str)> {
        let paths: Vec<&Value> = self.paths.iter().filter(|it| text.contains(&it.text)).collect();
        let ids = self.ids_in(text);
        if paths.is_empty() && ids.is_empty() {
            return Vec::new();
        }
        let mut ids = ids.into_iter().peekable();
        let mut found = Vec::new();
        let (mut before, mut end) = (None, 0);
        for (at, first) in text.char_indices() {
            let previous = before.replace(first);
            let mut here = None;
            while let Some((_, id)) = ids.next_if(|(start, _)| *start <= at) {
                here = here.or(Some(id));
            }
            if at < end {
                continue;
            }
            let here = here.filter(|_| previous != Some('$'));
            let path = paths.iter().find(|it| {
                let after = text[at..].strip_prefix(&*it.text);
                after.is_some_and(|after| is_whole_path(previous, after.chars()))
            });
            let longest = [here, path.copied()].into_iter().flatten();
            // Of two with the same length, the path wins.
            if let Some(value) = longest.max_by_key(|it| it.text.len()) {
                found.push((at, value.text.len(), &*value.placeholder));
                end = at + value.text.len();
            }
        }
        found
    }

    /// The ids in a text, with their starts. Of those with the same start, the longest comes first.
    fn ids_in(&self, text: &str) -> Vec<(usize, &Value)> {
        let mut found = Vec::new();
        if self.ids.is_empty() || text.len() < MIN_ID {
            return found;
        }
        let ends = text.char_indices().filter(|(_, it)| !is_word(*it)).map(|(at, _)| at);
        for end in ends.chain([text.len()]) {
            let before = &text.as_bytes()[..end];
            let ending = before.last_chunk::<MIN_ID>();
            let same = ending.and_then(|it| self.ids.get(it)).into_iter().flatten();
            let whole = same.filter(|it| before.ends_with(it.text.as_bytes()));
            found.extend(whole.map(|it| (end - it.text.len(), it)));
        }
        found.sort_by_key(|(start, it)| (*start, Reverse(it.text.len())));
        found
    }
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == '-'
}

/// Whether a path in a text is not a part of a longer name. It may be followed by a separator.
fn is_whole_path(before: Option<char>, mut after: std::str::Chars<'_>) -> bool {
    let begins = before.is_none_or(|it| it != '$' && !is_word(it) && it != '.');
    let ends = match after.next() {
        None => true,
        // The end of a sentence, or an extension.
        Some('.') => after.next().is_none_or(|it| !is_word(it)),
        Some(it) => !is_word(it),
    };
    begins && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks for each value at each place.
    fn slow<'a>(values: &'a [(String, String)], text: &str) -> Vec<(usize, usize, &'a str)> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let before = text[..at].chars().next_back();
            let fits = |(value, placeholder): &&(String, String)| {
                let Some(after) = text[at..].strip_prefix(value.as_str()) else { return false };
                match placeholder.contains(':') {
                    true => {
                        before != Some('$') && after.chars().next().is_none_or(|it| !is_word(it))
                    }
                    false => is_whole_path(before, after.chars()),
                }
            };
            match values.iter().find(fits) {
                Some((value, placeholder)) => {
                    found.push((at, value.len(), placeholder.as_str()));
                    at += value.len();
                }
                None => at += first.len_utf8(),
            }
        }
        found
    }

    #[test]
    fn the_same_is_found_as_by_a_search_for_each_value() {
        let (mut fast, mut values) = (InText::default(), Vec::new());
        for (path, name) in [("/home/me/app", "CWD"), ("/home/me", "HOME")] {
            fast.add_path(path, name, "CWD");
            values.push((path.to_owned(), name.to_owned()));
        }
        // Ids that end or begin like others, with other characters than those of words.
        let ids = [
            "0199-aaaa-bbbb-cccc",
            "x0199-aaaa-bbbb-cccc",
            "0199-aaaa-bbbb-cccc-dddd-eeee",
            "ü-ünfzehn-bytes-ü",
            "a/b c.d:e$f;g,hhh",
            "/home/me/app/0199-aaaa-bbbb-cccc",
            "tooshort",
        ];
        for (number, id) in ids.iter().enumerate() {
            fast.add_id(id, &format!("session:{number}"));
            if id.len() >= MIN_ID {
                values.push(((*id).to_owned(), format!("session:{number}")));
            }
        }
        values.sort_by_key(|(value, _)| Reverse(value.len()));
        let between = ["", " ", "/", "$", "-", ".", "é", "x", "\n"];
        let words: Vec<&str> = values.iter().map(|(value, _)| value.as_str()).collect();
        let mut random = 7_u64;
        let mut next = |count: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % count
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..next(5) + 1 {
                text += words[next(words.len())];
                text += between[next(between.len())];
                text += between[next(between.len())];
            }
            let expected = slow(&values, &text);
            found += expected.len();
            assert_eq!(fast.find(&text), expected, "{text}");
        }
        assert!(found > 20_000, "{found}");
    }
}
