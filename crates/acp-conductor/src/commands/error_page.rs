//! `conductor errors`: the sections of the error page.

/// The page `docs/errors.md`. A test compares the two files.
const PAGE: &str = include_str!("../../errors.md");

/// The section about an error, or the list of all errors.
pub fn text(code: Option<&str>) -> String {
    match code {
        Some(code) => section(code).unwrap_or_default(),
        None => list(),
    }
}

/// The section with this heading, without the marks of Markdown.
fn section(code: &str) -> Option<String> {
    let start = PAGE.find(&format!("\n### {code}\n"))?;
    let text = PAGE[start..].trim_start_matches(['\n', '#', ' ']);
    let end = ["\n## ", "\n### "].iter().filter_map(|it| text.find(it)).min();
    let text = text[..end.unwrap_or(text.len())].trim_end();
    let lines = text.lines().filter(|line| !line.starts_with("```")).map(without_links);
    Some(lines.map(|line| line + "\n").collect())
}

/// Replaces links by their text. The target of a link to another section is a code, which the text has already.
fn without_links(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(text, rest)| {
            let (target, rest) = rest.split_once(')')?;
            Some((text, target, rest))
        });
        out.push_str(before);
        match link {
            Some((text, target, next)) => {
                let target = if target.starts_with('#') {
                    String::new()
                } else {
                    format!(" (docs/{target})")
                };
                out.push_str(&format!("{text}{target}"));
                rest = next;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

/// All codes under the headings of the page, each with the first sentence of its section.
fn list() -> String {
    let mut out = String::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(code) = line.strip_prefix("### ") {
            let paragraph = lines.clone().skip_while(|it| it.is_empty());
            let paragraph: Vec<&str> = paragraph.take_while(|it| !it.is_empty()).collect();
            let about = without_links(&paragraph.join(" "));
            let about = shortened(about.split_inclusive(". ").next().unwrap_or_default());
            out.push_str(&format!("  {code:<26} {}\n", about.trim_end()));
        } else if let Some(title) = line.strip_prefix("## ") {
            out.push_str(&format!("{}{title}:\n", if out.is_empty() { "" } else { "\n" }));
        }
    }
    out + "\n`conductor errors CODE` explains an error. docs/errors.md has all of them.\n"
}

/// A sentence that fits into one line of the list.
fn shortened(sentence: &str) -> String {
    const LONGEST: usize = 90;
    match sentence.char_indices().nth(LONGEST) {
        None => sentence.to_owned(),
        Some((end, _)) => {
            let end = sentence[..end].rfind(' ').unwrap_or(end);
            format!("{} …", sentence[..end].trim_end_matches(','))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use acp_wire::ErrorKind;

    #[test]
    fn every_kind_of_error_has_a_section_and_every_section_a_kind() {
        let codes: Vec<&str> = ErrorKind::ALL.iter().map(|it| it.code()).collect();
        let sections: Vec<&str> =
            PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        assert_eq!(sections, codes, "the sections are in the order of `ErrorKind`");
        for code in codes {
            let section = section(code).expect(code);
            assert!(section.starts_with(code) && section.lines().count() > 2, "{section}");
            assert!(!section.contains("](") && !section.contains("##"), "{section}");
            assert!(list().contains(&format!("  {code} ")), "{code}");
        }
    }

    #[test]
    fn the_list_fits_into_a_terminal() {
        let long: Vec<String> =
            list().lines().filter(|it| it.chars().count() > 120).map(str::to_owned).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    /// The copy in this package exists because a package contains only its own files.
    #[test]
    fn the_page_is_the_one_in_the_guide() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        if let Ok(text) = std::fs::read_to_string(path) {
            assert_eq!(text, PAGE, "copy docs/errors.md to crates/acp-conductor/errors.md");
        }
    }
}
