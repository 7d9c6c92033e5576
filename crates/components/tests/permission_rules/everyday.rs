//! Ordinary commands that rules about files must not stop.

use components::permissions::rules::Decision::{self, Allow, Deny};

use crate::support::{Project, Wrong, rules};

const ANY: &str = "[[rule]]\ndecision = \"allow\"\ntool = [\"Bash\"]\n";

type Row = (&'static str, Decision);

/// The rules of the user guide.
const GUIDE: &str = r#"
[[rule]]
decision = "deny"
run = ["git push --force", "git push -f", "git push --force-with-lease", "git push +*"]
[[rule]]
decision = "deny"
read = [".env", ".env.*", "~/.ssh/**", "~/.aws/**"]
write = ["**/.git/**", ".github/workflows/**", ".claude/**", "~/.*", "package-lock.json"]
"#;

#[rustfmt::skip] // one line per command
const SED: &[Row] = &[
    ("sed -n 1,5p docker.env", Allow),
    ("sed -n 1,5p -- server.env", Allow),
    ("sed -e 1d -e 2d server.env", Allow),
    ("sed -i 's/a/b/' server.env", Allow),
    ("sed -i \"s/$a/b/\" server.env", Allow),
    ("sed -n 1,5p .env", Deny),
    ("sed 'r .env' server.env", Deny),
    ("sed -n -e p -e 'r.env' src/a.rs", Deny),
    ("sed -i '' 'r .env' src/a.rs", Deny),
    ("sed -l 5 'w .git/config' src/a.rs", Deny),
    ("sed -- 'w .git/config' src/a.rs", Deny),
];

#[test]
fn a_file_that_sed_reads_is_not_its_script() {
    check(GUIDE, SED);
}

fn check(text: &str, rows: &[Row]) {
    let project = Project::new();
    let rules = rules(&format!("{text}{ANY}"));
    let mut wrong = Wrong::default();
    for (command, expected) in rows {
        wrong.check(command, &project.run(&rules, command), *expected);
    }
    wrong.finish();
}
