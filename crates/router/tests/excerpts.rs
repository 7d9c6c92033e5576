//! The excerpts of the outputs of real tools. Each file in `tests/outputs` is an output, after a line with the excerpt.

use std::path::Path;

use router::excerpt::{excerpt, remedy};

/// The line between the expected excerpt and the output.
const SEPARATOR: &str = "----\n";

#[test]
fn the_excerpt_of_an_output_is_the_reason_of_the_failure() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let (expected, output) = text.split_once(SEPARATOR).expect("an excerpt and an output");
        let output: Vec<String> = output.lines().map(str::to_owned).collect();
        let found = excerpt(&output);
        if found != expected.trim() {
            wrong.push(format!(
                "{}\n  expected {}\n  found    {found}",
                path.display(),
                expected.trim()
            ));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "{count}");
}

#[test]
fn an_output_without_a_known_error_is_quoted_by_its_last_lines() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(excerpt(&[]), "");
    assert_eq!(excerpt(&lines("one\n\ntwo\nthree\nfour\n---\n")), "two | three | four");
    assert_eq!(excerpt(&lines("cannot log in\none\ntwo\nthree")), "cannot log in | two | three");
    assert_eq!(excerpt(&lines("\u{1b}[31mred\u{1b}[0m\u{7}")), "red");
    let long = "x".repeat(5000);
    assert!(excerpt(&[long]).len() < 700);
}

/// A program that has reported an error and went on has failed for another reason.
#[test]
fn an_error_that_is_followed_by_much_other_output_is_not_the_reason() {
    let mut lines: Vec<String> =
        ["Traceback (most recent call last):", "  File \"a.py\", line 1", "ValueError: early"]
            .map(str::to_owned)
            .to_vec();
    lines.push("retrying".to_owned());
    assert_eq!(excerpt(&lines), "ValueError: early retrying (a.py:1)");
    lines.extend((0..20).map(|number| format!("request {number}")));
    assert_eq!(excerpt(&lines), "request 17 | request 18 | request 19");
}

/// An agent runs compilers for its user, and may copy their output to its own.
#[test]
fn an_error_of_a_compiler_is_not_the_reason_if_the_program_went_on() {
    let mut lines = vec!["a.c:3:5: error: expected ';'".to_owned()];
    assert_eq!(excerpt(&lines), "a.c:3:5: error: expected ';'");
    lines.extend((0..9).map(|number| format!("request {number}")));
    lines.extend(["panic: lost", "", "goroutine 1 [running]:"].map(str::to_owned));
    assert_eq!(excerpt(&lines), "panic: lost");
}

/// The last line is often the message. Lines of a log before it may be long.
#[test]
fn the_last_line_is_complete_in_an_excerpt_that_is_too_long() {
    let mut lines: Vec<String> = (0..3).map(|_| format!("INFO {}", "x".repeat(1000))).collect();
    lines.push("The licence has expired.".to_owned());
    let excerpt = excerpt(&lines);
    assert!(excerpt.ends_with("… | The licence has expired."), "{excerpt}");
    assert!(excerpt.len() < 600, "{excerpt}");
}

#[test]
fn common_reasons_have_a_remedy() {
    for (reason, part) in [
        (
            "npm error E404: '@x/y@*' is not in this registry.",
            "name and the version of the package",
        ),
        ("npm error: could not determine executable to run", "no such program"),
        ("ModuleNotFoundError: No module named 'x' (a.py:1)", "dependencies"),
        ("Error: connect ECONNREFUSED 127.0.0.1:1", "network"),
        ("Fatal: you are not logged in", "log in"),
        ("error: unexpected argument '--x' found", "options"),
        ("agent: error: unrecognized arguments: --acp", "options"),
        ("./start.sh: line 12: agent: command not found", "missing program"),
        ("bash: line 1: ./x: Permission denied", "permissions"),
    ] {
        assert!(
            remedy(reason).is_some_and(|it| it.contains(part)),
            "{reason}: {:?}",
            remedy(reason)
        );
    }
    assert_eq!(remedy("the end"), None);
    // Words are whole: ENOTFOUND is a reason, and a part of these names.
    assert_eq!(remedy("FileNotFoundError: [Errno 2] No such file or directory: 'a.toml'"), None);
    assert_eq!(remedy("java.io.FileNotFoundException: conf.yml"), None);
}
