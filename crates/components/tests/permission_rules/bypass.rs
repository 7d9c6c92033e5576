//! Ways to hide a command from a rule, each by every route that a command takes.

use components::permissions::rules::Decision;
use components::permissions::rules::Decision::{Allow, Ask, Deny};

use crate::support::{CLAUDE, Project, RULES, Wrong, rules};

/// Command lines, and what the rules of the user guide decide.
const TABLE: &[(&str, Decision)] = &[
    ("git push --force", Deny),
    ("git push origin main -f", Deny),
    ("git push -uf origin main", Deny),
    ("git push --force-w", Deny),
    ("git push origin +main", Deny),
    ("git -C sub push --force", Deny),
    ("git -c alias.p='push --force' p", Deny),
    ("git p", Ask),
    ("git status && git push --force", Deny),
    ("git status; git log", Allow),
    ("git status | sh", Ask),
    ("echo $(git push --force)", Deny),
    ("echo `git push -f`", Deny),
    ("echo \"${x:-$(git push -f)}\"", Deny),
    ("cat <(git push -f)", Deny),
    ("cat <<E\n$(git push -f)\nE", Deny),
    ("cat <<'E'\n$(git push -f)\nE", Allow),
    ("(git push -f)", Deny),
    ("{ git push -f; }", Deny),
    ("if true; then git push -f; fi", Deny),
    ("git push -f &", Deny),
    ("f(){ git push -f; }; f", Deny),
    ("echo a\ngit push -f", Deny),
    ("git \\\npush -f", Deny),
    ("g\\it push -f", Deny),
    ("g\"i\"t push -f", Deny),
    ("$'\\x67it' push -f", Deny),
    ("/usr/bin/git push -f", Deny),
    ("./git push -f", Deny),
    ("./git status", Ask),
    ("GIT_SSH_COMMAND=evil git status", Ask),
    ("FOO=1 git status", Allow),
    ("env -S 'git push -f'", Deny),
    ("command git push -f", Deny),
    ("timeout 5 git push -f", Deny),
    ("sh -c 'git push -f'", Deny),
    ("bash -lc \"git push -f\"", Deny),
    ("eval 'git push -f'", Deny),
    ("sudo git status", Ask),
    ("mywrap git push -f", Deny),
    ("echo git push -f", Allow),
    ("echo main | xargs git push -f", Deny),
    ("find . -exec git push -f \\;", Deny),
    ("find . -delete", Ask),
    ("find . -fprintf src/x %p", Ask),
    ("x=push; git $x -f", Deny),
    ("git $x", Ask),
    ("$g push --force", Ask),
    ("ls $(echo src)", Ask),
    ("ls *", Ask),
    ("git{,} push -f", Deny),
    ("{git,push,-f}", Deny),
    ("python3 -c 'import os; os.system(\"git push -f\")'", Deny),
    ("python3 -c 'print(1)'", Ask),
    ("cat .env", Deny),
    ("cat ./src/../.env", Deny),
    ("head -1 <.env", Deny),
    #[cfg(unix)]
    ("cat link", Deny),
    ("cat .e*", Deny),
    ("cat .en?", Deny),
    ("echo x > .git/hooks/pre-commit", Deny),
    ("tee .git/config", Deny),
    ("echo x > src/a.rs", Allow),
    ("echo x > ../other/a", Ask),
    ("git status\u{a0}", Ask),
    ("git status \u{202e}", Ask),
    ("echo 'unterminated", Ask),
    ("npm run test:evil", Ask),
    ("npm run test -- --x", Allow),
];

/// Rows that are too long to write down.
fn long_rows() -> [(String, Decision); 2] {
    [(format!("{}git push -f", "true;".repeat(600)), Deny), ("{ ".repeat(5000), Ask)]
}

fn rows() -> Vec<(String, Decision)> {
    let short = TABLE.iter().map(|(command, expected)| ((*command).to_owned(), *expected));
    short.chain(long_rows()).collect()
}

#[test]
fn a_command_line_cannot_get_around_the_rules() {
    let project = Project::new();
    let rules = rules(RULES);
    let mut wrong = Wrong::default();
    for (command, expected) in rows() {
        wrong.check(&command, &project.run(&rules, &command), expected);
    }
    wrong.finish();
}

#[test]
fn a_shell_with_a_script_is_opened_when_it_comes_as_program_and_arguments() {
    let project = Project::new();
    let rules = rules(RULES);
    let mut wrong = Wrong::default();
    for (command, expected) in rows() {
        for (program, flag) in [("/bin/bash", "-c"), ("bash", "-lc"), ("/bin/sh", "-c")] {
            wrong.check(&command, &project.argv(&rules, program, &[flag, &command]), expected);
        }
        // The whole line as the program: a client may give it to a shell.
        wrong.check(&command, &project.argv(&rules, &command, &[]), expected);
        // Any other shell is not one that only runs the script: nothing is allowed.
        let strict = if expected == Allow { Ask } else { expected };
        wrong.check(&command, &project.argv(&rules, "./bash", &["-c", &command]), strict);
        wrong.check(
            &command,
            &project.argv(&rules, "/bin/bash", &["--rcfile", "x", "-c", &command]),
            strict,
        );
    }
    wrong.finish();
}

#[test]
fn plain_words_are_decided_alike_as_program_and_arguments() {
    let project = Project::new();
    let rules = rules(RULES);
    let mut wrong = Wrong::default();
    for (command, expected) in rows() {
        if command.contains(|it: char| "$`'\"\\|&;<>(){}*?\n=~".contains(it)) {
            continue;
        }
        let words: Vec<&str> = command.split(' ').collect();
        wrong.check(&command, &project.argv(&rules, words[0], &words[1..]), expected);
    }
    wrong.finish();
}

#[test]
fn imported_rules_of_claude_code_cannot_be_got_around_either() {
    let project = Project::new();
    std::fs::write(project.root.join(".claude/settings.json"), CLAUDE).expect("the settings");
    let rules = rules("import = [\"claude\"]").import(&project.root).expect("the import");
    assert_eq!(rules.count(), 19);
    let mut wrong = Wrong::default();
    for (command, expected) in rows() {
        wrong.check(&command, &project.run(&rules, &command), expected);
        wrong.check(&command, &project.argv(&rules, "/bin/bash", &["-c", &command]), expected);
    }
    wrong.finish();
}

#[test]
fn a_disk_that_ignores_case_hides_nothing() {
    let mut project = Project::new();
    project.surroundings.case_blind = true;
    let rules = rules(RULES);
    let mut wrong = Wrong::default();
    for command in
        ["cat .ENV", "GIT push -f", "echo x > .Git/config", "cat .E*", "Git.exe push --force"]
    {
        wrong.check(command, &project.run(&rules, command), Deny);
    }
    wrong.finish();
}

/// Editors of some systems begin a file with a byte order mark, and users write braces for several names.
#[test]
fn imported_rules_may_have_a_byte_order_mark_and_braces() {
    let project = Project::new();
    let text = "\u{feff}{\"permissions\":{\"deny\":[\"Read(./secret/{a,b}/**)\",\"Edit(/{x,y}.lock)\"],\
                \"allow\":[\"Bash(cat *)\",\"Edit(src/{a,b})\",\"Edit(**/*.lock)\"]}}";
    std::fs::write(project.root.join(".claude/settings.json"), text).expect("the settings");
    let rules = rules("version = 1\nimport = [\"claude\"]\n").import(&project.root).expect("rules");
    let mut wrong = Wrong::default();
    for (command, expected) in [
        ("cat secret/a/x", Deny),
        ("cat secret/b/x", Deny),
        ("cat secret/c/x", Allow),
        ("cat src/a > x.lock", Deny),
        ("cat src/a > y.lock", Deny),
        ("cat src/a > z.lock", Allow),
        // A rule that allows is not widened.
        ("cat x > src/a", Ask),
    ] {
        wrong.check(command, &project.run(&rules, command), expected);
    }
    wrong.finish();
    assert_eq!(rules.notes().len(), 1, "{:?}", rules.notes());
}
