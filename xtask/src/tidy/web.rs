//! The rules for the web pages: no text becomes HTML, no file is too long, and the lock file fits every registry.

use std::path::Path;

/// The folders with TypeScript, each with its own lock file.
const FOLDERS: [&str; 4] = ["web", "clients", "editors", "scenarios"];

pub fn is_lock(name: &Path) -> bool {
    name.file_name().is_some_and(|it| it == "package-lock.json")
}

/// Made from the Rust types.
const GENERATED: &str = "clients/typescript/src/link/types.ts";

/// What puts text into a page as HTML or as a style. The headers of the pages forbid it, too.
const UNSAFE: [&str; 6] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "dangerouslySetInnerHTML",
    "style=\"",
];

/// The only code that may do so: it runs in frames that can reach nothing.
const FRAME: &str = "web/src/panel-frame/";

/// Whether a file, named from the root of the project, is checked by these rules.
pub fn is_source(name: &Path) -> bool {
    let kinds = ["ts", "tsx", "mjs", "css", "html"];
    FOLDERS.iter().any(|folder| name.starts_with(folder))
        && (is_lock(name)
            || name.extension().is_some_and(|it| kinds.iter().any(|kind| it == *kind)))
}

pub fn check(name: &str, text: &str, complaints: &mut Vec<String>) {
    if is_lock(Path::new(name)) {
        for (number, line) in (1..).zip(text.lines()) {
            if line.contains("\"resolved\"") {
                complaints.push(format!(
                    "{name}:{number}: the lock file must not name a registry: \
                     run `npm install --ignore-scripts --omit-lockfile-registry-resolved` in its folder"
                ));
            }
        }
        return;
    }
    if name != GENERATED {
        super::check_length(name, text, complaints);
    }
    // A test may have such a text to try it on a page.
    let page = name.starts_with("web/src/") || name.ends_with(".html");
    if !page || name.starts_with(FRAME) {
        return;
    }
    for (number, line) in (1..).zip(text.lines()) {
        for word in UNSAFE.iter().filter(|word| line.contains(**word)) {
            complaints.push(format!("{name}:{number}: a page must not use {word}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, text: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        check(name, text, &mut complaints);
        complaints
    }

    #[test]
    fn each_rule_finds_its_violations() {
        let html = "a.innerHTML = text;";
        assert_eq!(
            complaints("web/src/a.tsx", html),
            ["web/src/a.tsx:1: a page must not use innerHTML"]
        );
        assert_eq!(complaints("web/studio.html", "<p style=\"color:red\">").len(), 1);
        assert_eq!(complaints("web/src/panel-frame/frame.ts", html).len(), 0);
        assert_eq!(complaints("web/test/a.test.mjs", html).len(), 0);
        assert_eq!(complaints("web/test/a.test.mjs", &"\n".repeat(601)).len(), 1);
        let lock = "\"resolved\": \"https://registry.example/a.tgz\",";
        assert_eq!(complaints("web/package-lock.json", lock).len(), 1);
    }

    #[test]
    fn the_sources_of_the_pages_are_checked() {
        for (name, checked) in [
            ("web/src/a.tsx", true),
            ("web/studio.html", true),
            ("web/package-lock.json", true),
            ("clients/typescript/src/editor.ts", true),
            ("editors/vscode/package-lock.json", true),
            ("peers/typescript/editor.mjs", false),
            ("web/a.png", false),
        ] {
            assert_eq!(is_source(Path::new(name)), checked, "{name}");
        }
    }
}
