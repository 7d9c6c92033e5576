//! The links of Markdown pages: each relative one leads to a file that exists, pictures included.

use std::path::Path;

/// Checks the links of a page with this name, in the repository at `root`.
pub fn check(root: &Path, name: &str, text: &str, complaints: &mut Vec<String>) {
    let folder = root.join(name);
    let folder = folder.parent().unwrap_or(root);
    for (number, target) in targets(text) {
        let file = target.split(['#', '?']).next().unwrap_or_default().replace("%20", " ");
        if !file.is_empty() && !folder.join(&file).exists() {
            complaints.push(format!("{name}:{number}: there is no file {file}"));
        }
    }
}

/// The relative targets of links and pictures, each with the number of its line. Code has no links.
fn targets(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            // Every second part is inline code. A part of a link can be code, but its target cannot.
            let is_link = |(at, part): &(usize, &str)| at % 2 == 0 && part.contains("](");
            let parts = line.split('`').enumerate().filter(is_link);
            let links = parts.flat_map(|(_, part)| part.split("](").skip(1));
            let links = links.filter_map(|rest| rest.split([')', ' ']).next());
            let relative = |it: &&str| !it.contains(':') && !it.starts_with('/');
            found.extend(links.filter(relative).map(|it| (number, it)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pictures_outside_of_code_are_found() {
        let page = "A [link](a.md#part) and ![a picture](pictures/b.png \"Title\"), [`code`](c.md).\n\
                    [web](https://example.org/x) [here](#part) `[no](d.md)`\n```\n[no](e.md)\n```\n[last](f/)";
        let found = [(1, "a.md#part"), (1, "pictures/b.png"), (1, "c.md"), (2, "#part"), (6, "f/")];
        assert_eq!(targets(page), found);
    }

    #[test]
    fn a_file_that_is_missing_is_a_violation() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut complaints = Vec::new();
        let page = "[a](../Cargo.toml) [b](../src/main.rs#x) [c](#d)\n![e](missing.png)";
        check(root, "src/page.md", page, &mut complaints);
        assert_eq!(complaints, ["src/page.md:2: there is no file missing.png"]);
    }
}
