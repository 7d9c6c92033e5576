//! `conductor trust` and `conductor untrust`.

use testkit::terminal::Terminal;

use super::*;

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn trust_shows_what_would_run() {
    let setup = Setup::with_project(
        "shown",
        "default = \"theirs\"\n[settings]\ngrace = 3\n\
         [components.me]\nargs = [\"--x\", \"a b\"]\n\
         [components.evil]\ncommand = \"./bin/agent\"\nargs = [\"${HOME}/y\"]\nenv = { TOKEN = \"hunter2\" }\n\
         env-file = [\".env\", \"../outside\"]\ncwd = \"sub\"\nwhen = { file = \"Cargo.toml\" }\n\
         [components.log]\ncommand = \"builtin:filter\"\noptions = { rules = \"rules.toml\" }\n\
         [chains.mine]\nproxies = [\"log\", { chain = \"theirs\", when = { os = \"linux\" } }]\n\
         [chains.theirs]\nagent = \"evil\"\n[chains.theirs.settings]\ngrace = 4\n",
    );
    setup.write("rules", "");
    setup.link("../rules", "project/rules.toml");
    setup.write("outside", "A=1");
    let output = setup.output("project", &["trust"]);
    assert_eq!(output.status.code(), Some(1));
    let (shown, error) = text(&output);
    let root = setup.path("project").display().to_string();
    let agent = setup.path("bin/agent").display().to_string();
    let lines = [
        &format!("Project  {root}"),
        &format!("File     {root}/.conductor.toml, owner: you"),
        "Component evil",
        "  runs      ./bin/agent '${HOME}/y'",
        "  in        sub",
        "  variables TOKEN",
        "  env-file  .env",
        "  env-file  ../outside",
        "  when      { file = \"Cargo.toml\" }",
        "Component log (in place of the built-in component)",
        "  runs      builtin:filter  (built-in)",
        "  option    rules = \"rules.toml\"",
        "Component me (changes yours)",
        &format!("  runs      {agent} --x 'a b'"),
        "Chain mine (changes yours)",
        "  proxies   log, all of the chain theirs when { os = \"linux\" }",
        "Chain theirs",
        "  agent     evil",
        "  setting   grace = 4",
        "Default chain: theirs (yours: mine)",
        "Settings of all chains",
        "  grace = 3",
    ];
    let mut rest = shown.lines();
    for line in lines {
        assert!(rest.any(|it| it == line), "{line:?} is not in its place in\n{shown}");
    }
    let files: Vec<&str> = rest.collect();
    let link = format!("rules.toml (a link to {})", setup.path("rules").display());
    for name in [&link, "bin/agent", ".conductor.toml"] {
        let path = setup.path("project").join(name.split(' ').next().expect("a name"));
        let sum = Command::new("sha256sum").arg(path).output().expect("sha256sum");
        let sum = String::from_utf8(sum.stdout).expect("ASCII")[..64].to_owned();
        assert!(files.contains(&format!("  {sum}  {name}").as_str()), "{name}: {files:#?}");
    }
    let missing = format!("  {:<64}  .env (an env-file)", "does not exist yet");
    assert!(files.contains(&missing.as_str()), "{files:#?}");
    assert!(
        files.iter().any(|it| it.ends_with("../outside (an env-file, outside of the project)")),
        "{files:#?}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(error.contains(&format!("conductor trust --yes {root}")), "{error}");
    assert!(error.contains("[more: conductor errors untrusted-project]"), "{error}");
    assert!(!setup.ran("evil-ran"));
}

#[test]
fn trust_says_what_has_changed() {
    let setup = Setup::with_project("differences", PROJECT);
    setup.trust();
    let (shown, _) = text(&setup.output("project", &["trust"]));
    assert!(shown.ends_with("You trust this project already.\n"), "{shown}");
    setup.write("project/.conductor.toml", PROJECT.replace("./bin/agent", "./new"));
    setup.write("project/new", "");
    let output = setup.output("project", &["trust"]);
    let (shown, _) = text(&output);
    let changes =
        "Since you have agreed to this project:\n  .conductor.toml has changed\n  new is new\n";
    assert!(shown.contains(changes) && output.status.code() == Some(1), "{shown}");
}

#[test]
fn the_question_is_answered_on_the_terminal() {
    let setup = Setup::with_project("question", PROJECT);
    for (answer, agrees) in [("\r", false), ("n\r", false), ("yess\r", false), ("y\r", true)] {
        let mut terminal = Terminal::start(&mut setup.conductor("project", &["trust"]), None);
        terminal.wait_for("Component evil");
        terminal.wait_for("[y/N] ");
        terminal.press(answer);
        assert_eq!(terminal.wait().success(), agrees, "{answer:?}");
        match agrees {
            true => setup.assert_used(),
            false => drop(setup.assert_asks(NOT_YET)),
        }
    }
}

/// The file changes between the question and the answer. What the person has seen is what is trusted.
#[test]
fn consent_is_given_to_what_was_shown() {
    let setup = Setup::with_project(
        "reading",
        "default = \"mine\"\n[components.evil]\ncommand = \"./bin/agent\"\n",
    );
    let mut terminal = Terminal::start(&mut setup.conductor("project", &["trust"]), None);
    terminal.wait_for("[y/N] ");
    setup.write("project/.conductor.toml", PROJECT);
    terminal.press("y\r");
    assert!(terminal.wait().success());
    setup.assert_asks(".conductor.toml has changed since you agreed to it");
}

#[test]
fn projects_are_listed_and_forgotten() {
    let setup = Setup::with_project("listed", PROJECT);
    let list = |args: &[&str]| text(&setup.output("project", args)).0;
    assert_eq!(list(&["trust", "--list"]), "You trust no project.\n");
    assert_eq!(parse(&list(&["trust", "--list", "--json"])), json!([]));
    setup.trust();
    setup.write("other/.conductor.toml", "");
    setup.write("other/sub/file", "");
    assert!(setup.output("other", &["trust", "-y", "sub"]).status.success());
    let root = |name| setup.path(name).display().to_string();
    let shown = list(&["trust", "--list"]);
    let ends = [format!("  {}, 1 file", root("other")), format!("  {}, 2 files", root("project"))];
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines.len() == 2 && lines.iter().zip(&ends).all(|(line, end)| line.ends_with(end)),
        "{shown}"
    );
    let records = parse(&list(&["trust", "--list", "--json"]));
    assert_eq!(records[1]["root"], root("project"));
    assert_eq!(records[1]["config"], ".conductor.toml");
    assert!(
        records[1]["files"]["bin/agent"].as_str().is_some_and(|it| it.len() == 64),
        "{records}"
    );
    assert!(records[1]["given"].as_str().is_some_and(|it| it.ends_with('Z')), "{records}");
    // A project that is gone can be forgotten.
    fs::remove_dir_all(setup.path("other")).expect("ours");
    assert!(list(&["trust", "--list"]).contains("which does not exist any more"));
    let gone = root("other");
    assert_eq!(list(&["untrust", &gone]), format!("You do not trust {gone} any more.\n"));
    assert_eq!(list(&["untrust", &gone]), format!("You did not trust {gone}.\n"));
    setup.assert_used();
    assert_eq!(list(&["untrust", "--all"]), "You do not trust the project any more.\n");
    assert_eq!(list(&["untrust", "--all"]), "You trusted no project.\n");
    setup.assert_asks(NOT_YET);
}

#[test]
fn what_cannot_be_trusted_is_an_error() {
    let setup = Setup::new("errors");
    let error = |args: &[&str]| {
        let output = setup.output("project", args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        text(&output).1
    };
    let why = error(&["trust"]);
    assert!(
        why.contains("there is no .conductor.toml and no .conductor/conductor.toml in"),
        "{why}"
    );
    assert!(error(&["trust", "nothing"]).contains("the folder nothing cannot be used"));
    setup.write("project/.conductor.toml", "[components.evil]\ncomand = \"x\"\n");
    let why = error(&["trust", "--yes"]);
    assert!(why.contains(".conductor.toml:2:1") && why.contains("`command`"), "{why}");
    setup.write(
        "project/.conductor.toml",
        "[components.evil]\ncommand = \"x\"\nenv-file = \"fifo\"\n",
    );
    setup.fifo("project/fifo");
    let why = error(&["trust", "--yes"]);
    assert!(why.contains("fifo") && why.contains("it is not a regular file"), "{why}");
    // The user's own file is not the file of a project.
    let own = setup.path("config/conductor/conductor.toml");
    setup.remove("project/.conductor.toml");
    let setup =
        setup.env("CONDUCTOR_CONFIG", own.parent().expect("a folder").join(".conductor.toml"));
    setup.rename("config/conductor/conductor.toml", "config/conductor/.conductor.toml");
    let output = setup.output("config/conductor", &["trust", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let usage = setup.output("project", &["trust", "--json"]);
    assert_eq!(usage.status.code(), Some(2));
}

/// Every key is shown, and the values of the user beside those that the project changes.
#[test]
fn trust_shows_what_would_change() {
    let setup = Setup::new("changes");
    let own = setup.path("config/conductor/conductor.toml");
    fs::write(
        &own,
        "default = \"mine\"\n[settings]\ngrace = 5\n\
         [components.f]\ncommand = \"filter\"\nguard = true\non-crash = \"stop\"\nenv = { A = \"hunter2\" }\n\
         options = { toward_agent = \"block\", notice = true }\n\
         [chains.mine]\nproxies = [\"f\"]\nagent = \"demo-agent\"\n",
    )
    .expect("ours");
    setup.write(
        "project/.conductor.toml",
        "[settings]\ngrace = 1\n\
         [components.f]\nguard = false\non-crash = \"bypass\"\nrestarts = \"1/2\"\nupdates = \"known\"\ndialect = \"P3\"\n\
         env = { A = \"hunter3\" }\noptions = { toward_agent = \"redact\" }\n\
         [chains.mine]\nproxies = []\n",
    );
    let (shown, _) = text(&setup.output("project", &["trust"]));
    let expected = "\nComponent f (changes yours)\n  runs      filter  (built-in)\n  variables A\n\
                    \x20 option    notice = true\n\
                    \x20 option    toward_agent = \"redact\"\n            yours: toward_agent = \"block\"\n\
                    \x20 dialect   \"P3\"\n  guard     false\n            yours: true\n\
                    \x20 on-crash  \"bypass\"\n            yours: \"stop\"\n  restarts  \"1/2\"\n  updates   \"known\"\n\
                    \x20 changes   the values of your variables A\n\
                    \nChain mine (changes yours)\n  proxies   none\n            yours: f\n\
                    \nSettings of all chains\n  grace = 1 (yours: 5)\n";
    assert!(shown.contains(expected), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
}
