//! The notes in a Markdown file. Each entry is one line: `- [k7q2] 2026-11-18: Likes small commits.` Other lines belong to
//! the user, and stay as they are.

/// How many entries a file has.
pub(super) const MAX_ENTRIES: usize = 500;

/// The maximum number of characters of an entry.
const MAX_CHARACTERS: usize = 1000;

/// The letters of ids: those that are hard to confuse.
const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
const ID_LENGTH: usize = 4;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) date: String,
    pub(super) text: String,
}

impl Entry {
    /// Reads a line of a file.
    fn read(line: &str) -> Option<Entry> {
        let rest = line.trim().strip_prefix(['-', '*'])?.trim_start().strip_prefix('[')?;
        let (id, rest) = rest.split_once(']')?;
        let (date, text) = rest.trim_start().split_once(':')?;
        let is_date = date.len() == 10 && date.bytes().all(|it| it.is_ascii_digit() || it == b'-');
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|it| LETTERS.contains(&it));
        let [id, date, text] = [id, date, text].map(|it| it.trim().to_owned());
        (is_id && is_date).then_some(Entry { id, date, text })
    }

    fn line(&self) -> String {
        let Entry { id, date, text } = self;
        format!("- [{id}] {date}: {text}")
    }
}

/// The entries of a file.
pub(super) fn entries(file: &str) -> Vec<Entry> {
    file.lines().filter_map(Entry::read).collect()
}

/// What the user has written into a file: headings, list items and paragraphs, each as one line.
pub(super) fn own_texts(file: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    // Whether the next line may belong to the last text.
    let mut is_open = false;
    for line in file.lines().map(str::trim) {
        let is_heading = line.starts_with('#');
        if line.is_empty()
            || line == ABOUT
            || line.starts_with(HEADING)
            || Entry::read(line).is_some()
        {
            is_open = false;
        } else if is_open && !is_heading && !is_item(line) {
            let last = texts.last_mut().expect("it is open");
            last.push(' ');
            last.push_str(line);
        } else {
            texts.push(line.to_owned());
            is_open = !is_heading;
        }
    }
    texts
}

/// Whether a line is the beginning of a list item.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|it: char| it.is_ascii_digit());
    let is_numbered = number.len() < line.len() && number.starts_with([')', '.']);
    line.starts_with("- ") || line.starts_with("* ") || line.starts_with("+ ") || is_numbered
}

/// A text in one line, without control characters.
pub(super) fn checked(text: &str) -> Result<String, String> {
    // Emoji have these behind them. They change nothing else.
    let text = text.replace(['\u{fe0e}', '\u{fe0f}'], "");
    let words = text.split(|it: char| it.is_whitespace() || it.is_control());
    let text = words.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    match text.chars().count() {
        0 => Err("the text is empty; write one sentence".to_owned()),
        count if count > MAX_CHARACTERS => Err(format!(
            "the text has {count} characters, and at most {MAX_CHARACTERS} are kept; write it shorter"
        )),
        // The user sees the text in the chat, and must see all of it.
        _ if text.chars().any(is_invisible) => {
            Err("the text has invisible characters; write it without them".to_owned())
        }
        _ if text.contains("<!--") => {
            Err("the text has an HTML comment, which the user would not see; write it without"
                .to_owned())
        }
        _ => Ok(text),
    }
}

/// Whether a character is not shown: joiners, marks of direction, fillers, variation selectors, tags and the like.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Adds an entry at the end. A new file gets a heading about the subject.
pub(super) fn added(file: &str, subject: &str, entry: &Entry) -> Result<String, String> {
    if entries(file).len() >= MAX_ENTRIES {
        return Err(format!(
            "there are {MAX_ENTRIES} entries, which is the most; forget or revise one first"
        ));
    }
    let mut file = match file.is_empty() {
        true => format!("{HEADING}{subject}\n\n{ABOUT}\n\n"),
        false => file.to_owned(),
    };
    let end = line_end(&file);
    if !file.ends_with('\n') {
        file.push_str(end);
    }
    file.push_str(&entry.line());
    file.push_str(end);
    Ok(file)
}

const HEADING: &str = "# What the agent remembers about ";

const ABOUT: &str = "Conductor's component `collaborator` writes this file. Each entry is one line. You can edit and \
delete lines, and write your own. The agent reads the file at the beginning of each session.";

/// Replaces the text and the date of an entry. `None` if there is no such entry.
pub(super) fn revised(file: &str, entry: &Entry) -> Option<String> {
    change(file, &entry.id, |_| Some(entry.line()))
}

/// Removes an entry. `None` if there is no such entry.
pub(super) fn without(file: &str, id: &str) -> Option<String> {
    change(file, id, |_| None)
}

/// Changes the first line with this id. All other lines stay byte for byte.
fn change(file: &str, id: &str, act: impl Fn(&Entry) -> Option<String>) -> Option<String> {
    let mut changed = String::with_capacity(file.len());
    let mut is_found = false;
    for line in file.split_inclusive('\n') {
        let entry = Entry::read(line).filter(|it| it.id == id && !is_found);
        let Some(entry) = entry else {
            changed.push_str(line);
            continue;
        };
        is_found = true;
        if let Some(text) = act(&entry) {
            let end = &line[line.trim_end_matches(['\r', '\n']).len()..];
            changed.push_str(&text);
            changed.push_str(end);
        }
    }
    is_found.then_some(changed)
}

fn line_end(file: &str) -> &'static str {
    if file.contains("\r\n") { "\r\n" } else { "\n" }
}

/// A new id that the file does not have.
pub(super) fn new_id(files: &[&str]) -> Result<String, String> {
    let is_used = |id: &str| files.iter().any(|file| file.contains(&format!("[{id}]")));
    for _ in 0..100 {
        let mut random = [0; ID_LENGTH];
        getrandom::fill(&mut random).map_err(|why| format!("there is no random number: {why}"))?;
        let letter = |it: &u8| char::from(LETTERS[usize::from(*it) % LETTERS.len()]);
        let id: String = random.iter().map(letter).collect();
        if !is_used(&id) {
            return Ok(id);
        }
    }
    Err("no new id was found; forget an entry first".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, text: &str) -> Entry {
        Entry { id: id.to_owned(), date: "2026-11-18".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_text_that_the_user_would_not_see_is_refused() {
        for text in ["a\u{200b}b", "a\u{e0041}", "a <!-- b --> c", "\u{202e}abc"] {
            assert!(checked(text).is_err(), "{text:?}");
        }
        let characters =
            "\u{34f}\u{61c}\u{115f}\u{1160}\u{180e}\u{2800}\u{3164}\u{fe00}\u{ffa0}\u{e0100}";
        for character in characters.chars() {
            assert!(checked(&format!("a{character}b")).is_err(), "{character:?}");
        }
        assert_eq!(checked("likes ❤\u{fe0f}").as_deref(), Ok("likes ❤"));
        assert!(checked("uses Vec<String> and naïve names").is_ok());
    }

    #[test]
    fn lines_of_the_user_stay_byte_for_byte() {
        let hand_made =
            "My notes\r\n\t- tea \r\n- [k7q2] 2026-11-01: Likes  tea.\r\n\r\n* [ab] x\r\nend";
        assert_eq!(entries(hand_made).len(), 1);
        assert_eq!(own_texts(hand_made), ["My notes", "- tea", "* [ab] x end"]);
        let revised = revised(hand_made, &entry("k7q2", "Likes coffee.")).expect("it is there");
        assert_eq!(
            revised,
            hand_made.replace("2026-11-01: Likes  tea.", "2026-11-18: Likes coffee.")
        );
        let without = without(hand_made, "k7q2").expect("it is there");
        assert_eq!(without, hand_made.replace("- [k7q2] 2026-11-01: Likes  tea.\r\n", ""));
        let added = added(hand_made, "x", &entry("bbbb", "New")).expect("there is room");
        assert_eq!(added, format!("{hand_made}\r\n- [bbbb] 2026-11-18: New\r\n"));
        assert_eq!(super::without(hand_made, "none"), None);
    }

    #[test]
    fn headings_paragraphs_and_lists_of_the_user_are_texts() {
        let file = added("", "the person", &entry("k7q2", "Likes tea.")).expect("there is room");
        assert_eq!(own_texts(&file), Vec::<String>::new(), "all of it is ours");
        let file = format!(
            "{file}A paragraph of\ntwo lines.\n\n## Tools\nUse `just`.\n1. one\n   more\n2) two\n+ three\n\nv1.2 only\n"
        );
        assert_eq!(
            own_texts(&file),
            [
                "A paragraph of two lines.",
                "## Tools",
                "Use `just`.",
                "1. one more",
                "2) two",
                "+ three",
                "v1.2 only"
            ]
        );
    }

    #[test]
    fn a_text_is_one_line() {
        assert_eq!(checked(" a\n- [x] b\u{1b}[0m\r\tc ").as_deref(), Ok("a - [x] b [0m c"));
        assert!(checked(" \n ").is_err() && checked(&"x".repeat(1001)).is_err());
        let mut file = String::new();
        for number in 0..MAX_ENTRIES {
            file = added(&file, "Notes", &entry("aaaa", &number.to_string()))
                .expect("below the limit");
        }
        assert!(added(&file, "Notes", &entry("aaaa", "x")).unwrap_err().contains("forget"));
        assert_eq!(new_id(&[&file]).expect("an id").len(), ID_LENGTH);
    }
}
