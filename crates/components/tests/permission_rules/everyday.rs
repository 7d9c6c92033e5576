//! Ordinary commands that rules about files must not stop.

use components::permissions::rules::Decision::{self, Allow, Ask, Deny};

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

const EVERYDAY: &[&str] = &[
    "git status",
    "git commit -m 'x: y'",
    "cargo test -- --nocapture",
    "ls -la",
    "npm run build -- --watch",
    "npm test",
    "sed -n 1,5p src/main.rs",
    "rg foo | head -20",
    "cat a.txt | sort | uniq -c",
    "find . -name '*.rs' | wc -l",
];

#[test]
fn everyday_commands_are_not_stopped_by_rules_about_files() {
    let grep = ("grep -rn foo src", Allow);
    let rows = EVERYDAY.iter().map(|it| (*it, Allow));
    check(GUIDE, &rows.clone().collect::<Vec<Row>>());
    let text = "[[rule]]\ndecision = \"deny\"\nwrite = [\"build/**\", \"test/**\", \"dist\"]\n";
    check(text, &rows.clone().chain([grep]).collect::<Vec<Row>>());
    let text = "[[rule]]\ndecision = \"deny\"\nwrite = [\"**\"]\n";
    check(text, &rows.chain([grep]).collect::<Vec<Row>>());
}

#[rustfmt::skip] // one line per command
const PIPES: &[Row] = &[
    // What a program reads is data if its code stands in an argument.
    ("nl -ba .github/workflows/ci.yml | sed -n 1,40p", Allow),
    ("cat .github/workflows/ci.yml | sed -n 1,40p -", Allow),
    ("cat .github/workflows/ci.yml | sed -E 's/name/type/; s/a|b/be/g'", Allow),
    ("cat .github/workflows/ci.yml | awk '{print $1}'", Allow),
    ("cat .github/workflows/ci.yml | awk -F: '/name|on/ {print $2}'", Allow),
    ("cat .github/workflows/ci.yml | perl -ne 'print if /on/'", Allow),
    ("cat package-lock.json | python3 -m json.tool", Allow),
    ("cat package-lock.json | python3 -c 'import json, sys; print(json.load(sys.stdin))'", Allow),
    ("cat package-lock.json | python3 src/a.py", Allow),
    ("cat package-lock.json | node -e 'f(JSON.parse(x))'", Allow),
    ("sed -n 1p <<'E'\n.github/workflows/ci.yml\nE", Allow),
    // Code is judged.
    ("bash <<E\nrm .git/config\nE", Deny),
    ("echo 'rm .git/config' | sh", Deny),
    ("python3 - <<'E'\nopen('.github/workflows/ci.yml', 'w')\nE", Deny),
    ("echo \"open('.git/config', 'w')\" | python3", Deny),
    ("echo \"open('.git/config', 'w')\" | python3 -W ignore", Deny),
    ("echo \"open('.git/config', 'w')\" | python3 -c 'exec(input())'", Deny),
    ("echo \"open('.git/config', 'w')\" | python3 -m code", Deny),
    ("echo \"open('.git/config', 'w')\" | sudo python3 /dev/stdin", Deny),
    ("echo 'w .git/config' | sed -nf - src/a.rs", Deny),
    ("echo 'print > \".git/config\"' | awk -f /dev/stdin src/a.rs", Deny),
    ("echo 'rm .git/config' | sed e", Deny),
    ("echo 'rm .git/config' | sh -s sed 1p", Deny),
    ("echo 'rm .git/config' | . /dev/stdin sed 1p", Deny),
    ("echo 'rm .git/config' | awk '{system($0)}'", Deny),
    ("cat .env | sed -n 1p", Deny),
    ("echo 'git push -f' | sed -n 1p", Deny),
];

#[test]
fn a_pipe_into_a_program_that_only_reads_data_is_no_code() {
    check(GUIDE, PIPES);
}

#[test]
fn a_subcommand_is_not_a_file_that_is_written() {
    let text = "[[rule]]\ndecision = \"deny\"\nwrite = [\"build/**\", \"test/**\", \"dist\"]\n";
    check(
        text,
        &[
            ("npm run build -- --watch", Allow),
            ("npm run dist", Allow),
            ("npm test", Allow),
            ("cargo test", Allow),
            ("make build", Allow),
            ("prettier --write build/a.js", Ask),
            ("rimraf ./build", Ask),
            ("rm -r build", Deny),
        ],
    );
}

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
