//! Options and rules that are refused before the chain starts, and `--explain`.

use components::find;
use serde_json::Map;

use crate::{Folder, RULES};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| (*it).to_owned()).collect()
}

fn refused(options: &[&str]) -> String {
    let entry = find("permissions").expect("built in");
    entry.parse(&words(options), &Map::new()).err().expect("refused")
}

#[test]
fn wrong_options_and_rules_are_refused_with_file_line_and_hint() {
    let folder = Folder::new();
    assert!(refused(&[]).contains("--rules FILE"));
    let missing = folder.path("missing.toml");
    assert!(refused(&["--rules", &missing]).contains("missing.toml"));
    for (text, line, hint) in [
        ("default = \"ask\"\n\n[[rule]]\ndecision = \"denny\"\n", 4, "deny"),
        ("[[rule]]\ndecision = \"deny\"\nrnu = [\"x\"]\n", 3, "did you mean `run`"),
        ("version = 1\nunattended = { after = \"soon\" }\n", 2, "5m"),
    ] {
        let rules = folder.file("rules.toml", text);
        let why = refused(&["--rules", &rules]);
        assert!(why.starts_with(&format!("permissions: {rules}:{line}: ")), "{why}");
        assert!(why.contains(hint), "{why}");
    }
    let rules = folder.file("rules.toml", RULES);
    for options in [["--mode", "observe"], ["--unattended", "5"], ["--tell", "me"], ["--audit", ""]]
    {
        let why = refused(&["--rules", &rules, options[0], options[1]]);
        assert!(why.contains(options[0]), "{why}");
    }
    let project = folder.path("project");
    assert!(refused(&["--rules", &rules, "--audit", &project]).contains("audit log"));
    assert!(refused(&["--rules", &rules, "--explain", "ls"]).contains("conductor component"));
}

#[test]
fn explain_tells_the_decision_and_the_rule() {
    let folder = Folder::new();
    let rules = folder.file("rules.toml", RULES);
    let project = folder.path("project");
    let entry = find("permissions").expect("built in");
    let report = |what: &str| {
        let options = ["--rules", &rules, "--explain", what, "--explain-in", &project];
        entry.report(&words(&options)).expect("valid").expect("a report")
    };
    let denied = report("git push -f");
    assert!(denied.starts_with("deny\n"), "{denied}");
    for part in ["rules.toml:5", "no force push", "No force pushes here."] {
        assert!(denied.contains(part), "{denied}");
    }
    for (what, decision, place) in [
        ("git status", "allow", "rules.toml:20"),
        ("make", "ask", "no rule"),
        ("read:.env", "deny", "rules.toml:11"),
        ("write:src/a.rs", "allow", "rules.toml:20"),
        ("write:a.rs", "ask", "no rule"),
        ("tool:mcp__kit__echo", "allow", "rules.toml:26"),
        ("tool:mcp__kit__drop", "deny", "rules.toml:16"),
    ] {
        let text = report(what);
        assert!(text.starts_with(decision) && text.contains(place), "{what}: {text}");
    }
    let without = entry.report(&words(&["--rules", &rules]));
    assert_eq!(without, Ok(None));
}
