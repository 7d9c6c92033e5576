//! The form of the rules: what is refused, and the conditions of a rule.

use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_proxy::schema::ToolKind;
use components::action::{Operation, ToolName};
use components::permissions::rules::Decision::{Allow, Ask, Deny};
use components::permissions::rules::{AskLimit, Mode, Rules};

use crate::support::{Project, RULES, Wrong, rules};

#[test]
fn wrong_rules_are_refused_with_file_line_and_hint() {
    let rule = |text: &str| format!("\n[[rule]]\ndecision = \"deny\"\n{text}\n");
    let cases = [
        ("version = 2".to_owned(), "rules.toml:1: ", "write `version = 1`"),
        ("\ndefalt = \"ask\"".to_owned(), "rules.toml:2: ", "did you mean `default`?"),
        ("default = \"never\"".to_owned(), "rules.toml:1: ", "`allow`"),
        ("mode = \"enforced\"".to_owned(), "rules.toml:1: ", "did you mean `enforce`?"),
        ("unattended = { after = \"soon\" }".to_owned(), "rules.toml:1: ", "500ms, 30s, 5m"),
        (
            "unattended = { after = \"5m\", then = \"allow\" }".to_owned(),
            "rules.toml:1: ",
            "write `then = \"deny\"`",
        ),
        ("import = [\n  \"cursor\",\n]".to_owned(), "rules.toml:2: ", "only `claude`"),
        ("[[rule]]\nrun = [\"ls\"]".to_owned(), "rules.toml:1: ", "missing field `decision`"),
        (rule(""), "rules.toml:2: ", "use `default`"),
        (rule("rnu = [\"ls\"]"), "rules.toml:4: ", "did you mean `run`?"),
        (rule("run = [\n  \"ls\",\n  \"ls; rm\",\n]"), "rules.toml:6: ", "a pattern of its own"),
        (rule("run = [\"\"]"), "rules.toml:4: ", "such as `git push --force`"),
        (rule("run = \"ls; rm\""), "rules.toml:4: ", "a pattern of its own"),
        (rule("run = \"ls\"\nkind = \"exec\""), "rules.toml:5: ", "execute"),
        (rule("run = 3"), "rules.toml:4: ", "a text or a list of texts"),
        (rule("read = [\"../x\"]"), "rules.toml:4: ", "without it"),
        (rule("read = [\"[ab]\"]"), "rules.toml:4: ", "wildcards"),
        (rule("write = [\"!x\"]"), "rules.toml:4: ", "another decision"),
        (rule("url = [\"http://a b\"]"), "rules.toml:4: ", "`*.example.com`"),
        (rule("kind = [\"exec\"]"), "rules.toml:4: ", "execute"),
        (rule("tool = [\"\"]"), "rules.toml:4: ", "`*` for any"),
        (rule("run = [\"ls\"]\nhours = \"8 to 6\""), "rules.toml:5: ", "`08:00-18:00`"),
        (
            rule("run = [\"ls\"]\nask = { after = \"1m\" }"),
            "rules.toml:5: ",
            "`decision = \"ask\"`",
        ),
        (
            rule("run = [\"git push\"]\nexamples = { match = [\"git pull\"] }"),
            "rules.toml:5: ",
            "change the rule or the example",
        ),
        (
            rule("run = [\"git push\"]\nexamples = { no_match = [\"sudo git push\"] }"),
            "rules.toml:5: ",
            "change the rule or the example",
        ),
    ];
    for (text, place, hint) in cases {
        let error = Rules::parse(Path::new("rules.toml"), &text).expect_err(&text);
        assert!(error.why.starts_with(place) && error.why.contains(hint), "{text}\n{}", error.why);
    }
    let missing = Rules::load(Path::new("no/such/rules.toml")).expect_err("no file");
    assert!(missing.why.contains("no/such/rules.toml"), "{}", missing.why);
}

#[test]
fn a_rule_file_is_read_as_it_is_written() {
    let rules = rules(RULES);
    assert_eq!((rules.mode(), rules.default_decision(), rules.count()), (Mode::Enforce, Ask, 4));
    let limit = AskLimit { after: Duration::from_secs(300), then: Deny };
    assert_eq!(rules.unattended(), Some(limit));
    assert_eq!(rules.sources().len(), 1);
    assert_eq!(rules.sources()[0].sha256.len(), 64);
    assert!(!rules.imports());
    let verdict = Project::new().run(&rules, "git push -f");
    let rule = verdict.rule.expect("a rule");
    assert_eq!((rule.name.as_deref(), rule.line), (Some("no force push"), 6));
    assert_eq!(rule.message.as_deref(), Some("No force pushes here. Push to a branch."));
    assert!(
        verdict.why.contains("git push -f") && verdict.why.contains("rules.toml:6"),
        "{}",
        verdict.why
    );
}

#[test]
fn the_first_rule_that_matches_wins_and_the_strictest_part_decides() {
    let project = Project::new();
    let rules = rules(
        "default = \"deny\"\n\
         [[rule]]\ndecision = \"allow\"\nrun = [\"git push origin wip\"]\n\
         [[rule]]\ndecision = \"ask\"\nask = { after = \"30s\", then = \"allow\" }\nrun = [\"git push\"]\n\
         [[rule]]\ndecision = \"deny\"\nrun = [\"git push\", \"rm\"]\n",
    );
    let mut wrong = Wrong::default();
    for (command, expected) in [
        ("git push origin wip", Allow),
        ("git push origin main", Ask),
        ("git push origin wip && git push", Ask),
        ("git push && rm x", Deny),
        ("ls", Deny),
    ] {
        wrong.check(command, &project.run(&rules, command), expected);
    }
    wrong.finish();
    let limit = AskLimit { after: Duration::from_secs(30), then: Allow };
    assert_eq!(project.run(&rules, "git push").ask, Some(limit));
    // What no rule can allow is not allowed by a time limit either.
    assert_eq!(project.run(&rules, "git push \u{200b}").ask, None);
}

#[test]
fn what_nobody_understands_is_never_allowed() {
    let project = Project::new();
    let rules = rules("default = \"allow\"\n[[rule]]\ndecision = \"allow\"\ntool = [\"*\"]\n");
    for command in ["echo 'a", "ls \u{a0}", "(", "ls\r", &"x".repeat(70_000)] {
        let verdict = project.run(&rules, command);
        assert_eq!(verdict.decision, Ask, "{command:.20}: {}", verdict.why);
    }
    assert_eq!(project.run(&rules, "anything at all").decision, Allow);
    let mut action = project.action(Operation::Read(PathBuf::from("a")));
    assert_eq!(rules.decide(&action, &project.surroundings).decision, Allow);
    action.opaque = true;
    assert_eq!(rules.decide(&action, &project.surroundings).decision, Ask);
    action.operations.clear();
    action.opaque = false;
    assert_eq!(rules.decide(&action, &project.surroundings).decision, Ask, "no operation is known");
    let mut windows = project.surroundings.clone();
    windows.windows_shell = true;
    let run = Operation::Run(components::action::CommandLine::Shell("dir".to_owned()));
    assert_eq!(rules.decide(&project.action(run), &windows).decision, Ask);
}

#[test]
fn a_windows_shell_is_searched_for_denied_words() {
    let mut project = Project::new();
    project.surroundings.windows_shell = true;
    let rules = rules(RULES);
    for (command, expected) in
        [("git status", Ask), ("git.exe push -f", Deny), ("cmd /c \"git push -f\"", Deny)]
    {
        assert_eq!(project.run(&rules, command).decision, expected, "{command}");
    }
}

#[test]
fn conditions_narrow_a_rule() {
    let project = Project::new();
    let decide = |condition: &str| {
        let text = format!("default = \"allow\"\n[[rule]]\ndecision = \"deny\"\n{condition}\n");
        let mut action = project.action(Operation::Read(PathBuf::from("src/a.rs")));
        action.tool = ToolName { native: Some("view".to_owned()), common: "Read".to_owned() };
        action.kind = Some(ToolKind::Read);
        rules(&text).decide(&action, &project.surroundings).decision
    };
    for (condition, expected) in [
        ("agent = [\"goose\"]", Deny),
        ("agent = [\"GO*\"]", Deny),
        ("agent = [\"codex\"]", Allow),
        ("session = [\"s*\"]", Deny),
        ("session = [\"t*\"]", Allow),
        ("kind = [\"read\"]", Deny),
        ("kind = [\"delete\"]", Allow),
        ("tool = [\"Read\"]", Deny),
        ("tool = [\"view\"]", Deny),
        ("tool = [\"Write\"]", Allow),
        ("hours = \"11:00-13:00\"\ntool = [\"*\"]", Deny),
        ("hours = \"13:00-14:00\"\ntool = [\"*\"]", Allow),
        ("hours = \"Tue 11:00-13:00\"", Allow),
        ("read = [\"src/**\"]\nagent = [\"codex\"]", Allow),
        ("read = [\"src/**\"]\ntool = [\"Read\"]", Deny),
        ("read = \"src/**\"", Deny),
        ("write = [\"src/**\"]", Allow),
    ] {
        assert_eq!(decide(condition), expected, "{condition}");
    }
}

#[test]
fn an_agent_cannot_rename_what_it_does() {
    let project = Project::new();
    let rules = rules(
        "[[rule]]\ndecision = \"deny\"\ntool = [\"mcp__github__*\"]\n\
         [[rule]]\ndecision = \"allow\"\nkind = [\"read\"]\n",
    );
    let mcp = Operation::Mcp { server: "github".to_owned(), tool: "push".to_owned() };
    assert_eq!(project.decide(&rules, mcp).decision, Deny);
    let mut action = project.action(Operation::Read(PathBuf::from("a")));
    action.kind = Some(ToolKind::Read);
    assert_eq!(rules.decide(&action, &project.surroundings).decision, Allow);
    action.operations =
        vec![Operation::Run(components::action::CommandLine::Shell("rm x".to_owned()))];
    assert_eq!(
        rules.decide(&action, &project.surroundings).decision,
        Ask,
        "a command is not a read"
    );
}

#[test]
fn the_rules_of_the_user_guide_are_valid() {
    let page = include_str!("../../../../docs/permission-rules.md");
    let start = page.find("```toml\n").expect("an example") + "```toml\n".len();
    let length = page[start..].find("```").expect("its end");
    let rules = rules(&page[start..start + length]);
    assert_eq!((rules.count(), rules.imports()), (4, true));
}
