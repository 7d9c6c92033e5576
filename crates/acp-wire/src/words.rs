//! Finds words in texts, for remedies that depend on the reason of an error.

/// Whether a text contains one of the words as a whole word: `enotfound` is not in `filenotfounderror`. A word may contain
/// spaces and signs. Upper and lower case differ.
pub fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| contains(text, word))
}

fn contains(text: &str, word: &str) -> bool {
    let begins = word.starts_with(char::is_alphanumeric);
    let ends = word.ends_with(char::is_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let in_longer_word = (begins && before.ends_with(char::is_alphanumeric))
            || (ends && after.starts_with(char::is_alphanumeric));
        !in_longer_word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_found() {
        assert!(contains_any("getaddrinfo enotfound x", &["no", "enotfound"]));
        assert!(contains_any("set my_api_key", &["api_key"]));
        assert!(contains_any("package 'npm:x'", &["package 'npm:"]));
        assert!(contains_any("filenotfound: enotfound", &["enotfound"]));
        assert!(!contains_any("filenotfounderror: a", &["enotfound"]));
        assert!(!contains_any("error 14290", &["429"]));
        assert!(!contains_any("", &["a"]));
    }
}
