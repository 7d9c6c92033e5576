//! Files, addresses, and imported rules.

use std::path::PathBuf;

use components::action::{CommandLine, Operation};
use components::permissions::rules::Decision::{self, Allow, Ask, Deny};

use crate::support::{Project, RULES, Wrong, rules};

fn read(path: &str) -> Operation {
    Operation::Read(PathBuf::from(path))
}

fn write(path: &str) -> Operation {
    Operation::Write(PathBuf::from(path))
}

#[test]
fn paths_are_compared_as_written_and_with_links_resolved() {
    let project = Project::new();
    let root = project.root.display().to_string();
    let rules = rules(&format!("{RULES}\n[[rule]]\ndecision = \"allow\"\nread = [\"**\"]\n"));
    #[cfg(unix)]
    for (target, link) in
        [("../other", "src/out"), ("src", "inside"), ("../.git", "src/git"), ("/", "src/root")]
    {
        std::os::unix::fs::symlink(target, project.root.join(link)).expect("a link");
    }
    let mut wrong = Wrong::default();
    let mut cases: Vec<(Operation, Decision)> = vec![
        (read("src/a.rs"), Allow),
        (read(&format!("{root}/src/a.rs")), Allow),
        (read("src/../src/a.rs"), Allow),
        (read(".env"), Deny),
        (read("src/../.env"), Deny),
        (read(&format!("{root}/.env")), Deny),
        (read("src/deep/.env"), Deny),
        (read(".env.local"), Deny),
        (read("../home/.ssh/id"), Deny),
        (read("~/.ssh/id"), Deny),
        (read("~//.ssh/id"), Deny),
        (read("~/x"), Ask),
        (read("~root/x"), Ask),
        (Operation::Fetch(format!("file://{root}/.env")), Deny),
        (Operation::Fetch(format!("FILE://localhost{root}/.env")), Deny),
        (read("../other/x"), Ask),
        (read("/etc/passwd"), Ask),
        (read("."), Ask),
        (read("/proc/self/root/etc/passwd"), Ask),
        (write("src/a.rs"), Allow),
        (write("src/new/b.rs"), Allow),
        (write("src"), Ask),
        (write("src/../a"), Ask),
        (write("a"), Ask),
        (write(".git/config"), Deny),
        (write(".git"), Deny),
        (Operation::Delete(project.root.clone()), Deny),
        (Operation::Delete(PathBuf::from(".git/config")), Deny),
        (Operation::Delete(PathBuf::from("src/a.rs")), Allow),
    ];
    if cfg!(unix) {
        cases.extend([
            (read("link"), Deny),
            (write("src/out/x"), Ask),
            (write("inside/x"), Ask),
            (write("src/git/config"), Deny),
            (write("src/root/etc/passwd"), Ask),
            (read("src/out/../.env"), Deny),
        ]);
    }
    for (operation, expected) in cases {
        wrong.check(&format!("{operation:?}"), &project.decide(&rules, operation), expected);
    }
    wrong.finish();
}

#[test]
fn a_file_that_must_not_be_read_is_not_moved() {
    let project = Project::new();
    let text = "version = 1\n[[rule]]\ndecision = \"deny\"\nread = \".env\"\n[[rule]]\ndecision = \"allow\"\nwrite = \"**\"";
    let rules = rules(text);
    let mut wrong = Wrong::default();
    for (from, expected) in [(".env", Deny), ("src/a.rs", Allow)] {
        let mut action = project.action(write("src/b.rs"));
        action.operations.insert(0, Operation::Delete(PathBuf::from(from)));
        wrong.check(from, &rules.decide(&action, &project.surroundings), expected);
    }
    wrong.finish();
}

#[cfg(unix)]
#[test]
fn a_project_that_is_reached_through_a_link_is_the_same_project() {
    let mut project = Project::new();
    let link = project.root.with_file_name("link-to-project");
    std::os::unix::fs::symlink(&project.root, &link).expect("a link");
    let real = std::mem::replace(&mut project.root, link.clone());
    project.surroundings.project = Some(link);
    let rules = rules(RULES);
    let mut wrong = Wrong::default();
    wrong.check("as the session says", &project.decide(&rules, write("src/a.rs")), Allow);
    wrong.check(
        "resolved",
        &project.decide(&rules, write(&real.join("src/a.rs").display().to_string())),
        Allow,
    );
    wrong.check(
        "denied",
        &project.decide(&rules, write(&real.join(".git/x").display().to_string())),
        Deny,
    );
    wrong.finish();
    project.root = real;
}

/// An agent chooses the working directory of a terminal.
#[test]
fn patterns_are_relative_to_the_session_and_not_to_the_terminal() {
    let project = Project::new();
    let rules = rules(RULES);
    let command = |text: &str| Operation::Run(CommandLine::Shell(text.to_owned()));
    let mut action = project.action(command("echo x > src/a"));
    action.cwd = PathBuf::from("/etc");
    assert_eq!(rules.decide(&action, &project.surroundings).decision, Ask);
    action.cwd = project.root.join(".git");
    action.operations = vec![command("echo x > config")];
    assert_eq!(rules.decide(&action, &project.surroundings).decision, Deny);
}

#[test]
fn addresses_are_compared_by_their_host() {
    let project = Project::new();
    let rules = rules(
        "[[rule]]\ndecision = \"deny\"\nurl = [\"evil.com\"]\n\
         [[rule]]\ndecision = \"allow\"\nurl = [\"*.example.com\", \"https://good.org/docs/*\"]\nrun = [\"curl *\"]\n",
    );
    let mut wrong = Wrong::default();
    for (url, expected) in [
        ("https://docs.example.com/a", Allow),
        ("https://good.org/docs/a", Allow),
        ("https://good.org/x", Ask),
        ("https://docs.example.com@evil.com/", Deny),
        ("https://www.evil.com", Deny),
        ("https://example.com.evil.org", Ask),
    ] {
        wrong.check(url, &project.decide(&rules, Operation::Fetch(url.to_owned())), expected);
    }
    wrong.check("curl", &project.run(&rules, "curl -s https://evil.com/x"), Deny);
    wrong.check("curl", &project.run(&rules, "curl -s https://docs.example.com/x"), Allow);
    wrong.check("curl", &project.run(&rules, "curl -o x https://docs.example.com/x"), Ask);
    wrong.finish();
}

#[test]
fn rules_of_claude_code_are_translated_or_named() {
    let project = Project::new();
    let settings = r#"{"permissions": {
  "defaultMode": "bypassPermissions",
  "deny": ["Bash(curl:*)", "Read(//etc/**)", "Edit(/docs/**)", "WebFetch(domain:evil.com)", "mcp__db", "Agent(Explore)"],
  "ask": ["Bash(git push)", "Skill(deploy)"],
  "allow": ["Bash(ls*)", "Bash(make)", "Read", "Bash(a && b)", "Agent(x)", "WebFetch(domain:docs.rs)", "mcp__kit__echo", "Write(x)"]
}}"#;
    std::fs::write(project.root.join(".claude/settings.json"), settings).expect("the settings");
    let local = r#"{"permissions": {"deny": ["Bash(ls -R:*)"]}}"#;
    std::fs::write(project.root.join(".claude/settings.local.json"), local)
        .expect("the local settings");
    let own = rules(
        "import = [\"claude\"]\n[[rule]]\ndecision = \"allow\"\nrun = [\"curl --version\"]\n",
    );
    let rules = own.import(&project.root).expect("the import");
    let mut wrong = Wrong::default();
    for (command, expected) in [
        ("curl --version", Allow),
        ("curl x", Deny),
        ("sudo curl x", Deny),
        ("git push", Ask),
        ("git push origin", Ask),
        ("ls", Allow),
        ("ls -la", Allow),
        ("lsof", Allow),
        ("ls -R", Deny),
        ("make", Allow),
        ("make all", Ask),
        ("cat docs/x", Deny),
    ] {
        wrong.check(command, &project.run(&rules, command), expected);
    }
    let mcp = |server: &str, tool: &str| Operation::Mcp {
        server: server.to_owned(),
        tool: tool.to_owned(),
    };
    let mut reading = project.action(read("src/a.rs"));
    reading.tool.common = "Read".to_owned();
    wrong.check("Read", &rules.decide(&reading, &project.surroundings), Allow);
    for (operation, expected) in [
        (read("/etc/passwd"), Deny),
        (write("docs/a"), Deny),
        (mcp("db", "query"), Deny),
        (mcp("kit", "echo"), Allow),
        (mcp("kit", "other"), Ask),
        (Operation::Fetch("https://docs.rs/x".to_owned()), Allow),
        (Operation::Fetch("https://evil.com".to_owned()), Deny),
    ] {
        wrong.check(&format!("{operation:?}"), &project.decide(&rules, operation), expected);
    }
    wrong.finish();
    let notes = rules.notes().join("\n");
    assert_eq!(rules.notes().len(), 5, "{notes}");
    for part in [
        "settings.json:3: `Agent(Explore)`",
        "settings.json:5: `Bash(a && b)`",
        "asked about the whole tool",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(rules.sources().len(), 3);
}

#[test]
fn settings_that_are_not_json_are_refused() {
    let project = Project::new();
    let own = rules("import = [\"claude\"]");
    assert_eq!(own.import(&project.root).expect("no settings").count(), 0);
    for (text, place) in
        [("{\n  \"permissions\":\n}", ":3: "), ("{\"permissions\": {\n\"deny\": \"x\"}}", ":2: ")]
    {
        std::fs::write(project.root.join(".claude/settings.json"), text).expect("the settings");
        let error = own.import(&project.root).expect_err(text);
        assert!(
            error.why.contains(place) && error.why.contains("correct the file"),
            "{}",
            error.why
        );
    }
    assert!(rules("").import(&project.root).is_ok(), "without `import`, the file is not read");
}
