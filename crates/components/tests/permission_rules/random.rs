//! Random command lines: nothing panics or takes long, and noise never makes a decision softer.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use components::permissions::rules::Decision;

use crate::support::{Project, RULES, rules};

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }

    fn one<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }
}

const PIECES: &[&str] = &[
    "git",
    "push",
    "-f",
    "status",
    "echo",
    "cat",
    ".env",
    "src/a",
    "x",
    " ",
    " ",
    "\n",
    "\t",
    ";",
    "|",
    "&",
    "&&",
    "||",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "{ ",
    "; }",
    "$(",
    "${",
    "$((",
    "`",
    "'",
    "\"",
    "\\",
    "$'",
    "$\"",
    "<(",
    ">(",
    "<",
    ">",
    ">>",
    "<<E\n",
    "<<'E'\n",
    "\nE\n",
    "<<-",
    "<<<",
    "[[ ",
    " ]]",
    "[",
    "]",
    "*",
    "?",
    "~",
    "#",
    "!",
    "=",
    "+=",
    ",",
    "..",
    "if ",
    "then ",
    "fi",
    "for i in ",
    "do ",
    "done",
    "case x in ",
    "esac",
    ";;",
    ";&",
    "while ",
    "function ",
    "coproc ",
    "select ",
    "time ",
    "eval ",
    "sh -c ",
    "99999999999>",
    "&>",
    ">&",
    "|&",
    "\\x",
    "\\\n",
    "\r",
    "\u{0}",
    "\u{a0}",
    "\u{202e}",
    "ä",
    "🙂",
    "\u{300}",
    "@(",
    "!(",
    "%",
    "2>&1",
    "$x",
    "$@",
    "$#",
    "{1..3}",
    "{a,b}",
    "\\'",
];

/// Runs work that reports what it does next, on the small stack of a worker thread. Each step ends within a minute: only a
/// step that takes exponential time does not.
fn with_deadlines(work: impl FnOnce(&dyn Fn(&str)) + Send + 'static) {
    let (report, reports) = std::sync::mpsc::channel();
    let step = move |text: &str| report.send(text.to_owned()).expect("the test waits");
    let thread = std::thread::Builder::new().stack_size(1024 * 1024);
    let thread = thread.spawn(move || work(&step)).expect("a thread");
    let mut last = String::new();
    loop {
        match reports.recv_timeout(Duration::from_secs(60)) {
            Ok(text) => last = text,
            Err(RecvTimeoutError::Disconnected) => return thread.join().expect("no panic"),
            Err(RecvTimeoutError::Timeout) => panic!("no decision within a minute: {last:?}"),
        }
    }
}

fn random_text(random: &mut Random, pieces: usize) -> String {
    (0..pieces).map(|_| random.one(PIECES)).collect()
}

#[test]
fn random_command_lines_are_decided_without_panic_and_in_time() {
    with_deadlines(|step| {
        let project = Project::new();
        let rules = rules(RULES);
        let mut random = Random(7);
        for round in 0..600 {
            let pieces = 1 + random.below(if round % 100 == 0 { 400 } else { 40 });
            let text = random_text(&mut random, pieces);
            step(&text);
            project.run(&rules, &text);
            let words: Vec<&str> = text.split(' ').collect();
            project.argv(&rules, words[0], &words[1..]);
        }
    });
}

/// Every construct that nests, as deep as the length of a command line allows, on the small stack of a worker thread.
#[test]
fn deep_nesting_overflows_no_stack_and_takes_no_exponential_time() {
    let project = Project::new();
    let rules = rules(RULES);
    let pairs = [
        ("{ ", "; }"),
        ("(", ")"),
        ("((", "))"),
        ("((", ") )"),
        ("$(", ")"),
        ("$((", "))"),
        ("$((", ") )"),
        ("${x:-", "}"),
        ("\"$(", ")\""),
        ("`", "`"),
        ("if ", "; then :; fi"),
        ("while ", "; do :; done"),
        ("case x in x) ", ";; esac"),
        ("f() { ", "; }"),
        ("<(", ")"),
        ("{a,", "}"),
        ("@(", ")"),
        ("[", "]"),
        ("a[", "]=1"),
        ("! ", ""),
        ("coproc ", ""),
        ("time ", ""),
        ("eval '", "'"),
        ("sh -c \"", "\""),
        ("env ", ""),
        ("<<E ", "\nE"),
        ("[[ ", " ]]"),
        ("x=(", ")"),
        ("cd a;", ""),
        ("\\", ""),
        ("'", "'"),
        ("$'\\", "'"),
        (">", ""),
        ("git ", ""),
        ("xargs ", ""),
        ("$x ", ""),
        ("a[&", ""),
        ("{1..2}", ""),
        ("*", ""),
        ("?", ""),
        ("!", ""),
        ("echo $(<", ")"),
        ("<<'E'\n", "E\n"),
        ("|", ""),
    ];
    with_deadlines(move |step| {
        for (open, close) in pairs {
            for count in [17, 101, 1500] {
                for text in [
                    open.repeat(count),
                    format!("{}git push -f{}", open.repeat(count), close.repeat(count)),
                    format!("echo {}x{}", open.repeat(count), close.repeat(count)),
                ] {
                    step(&format!("{open} {count}"));
                    let verdict = project.run(&rules, &text);
                    assert!(
                        count < 3000
                            || verdict.decision != Decision::Allow
                            || !text.contains("git"),
                        "{open}"
                    );
                }
            }
        }
    });
}

#[test]
fn noise_never_makes_a_denied_command_allowed() {
    let project = Project::new();
    let rules = rules(RULES);
    let mut random = Random(11);
    let denied = [
        "git push -f",
        "git push origin main --force",
        "cat .env",
        "echo x > .git/config",
        "echo $(git push -f)",
        "git status && git push -f",
        "sh -c 'git push -f'",
        "cat <<E\n$(git push -f)\nE",
        "rm -rf .git",
    ];
    // Text before and after a command that leaves it a command of its own.
    let before = [
        "",
        "true; ",
        "git status && ",
        "ls | ",
        "x=1 ",
        "FOO=bar ",
        "( ",
        "{ ",
        "if true; then ",
        "! ",
        "time ",
        "\n",
        "# a\n",
        "echo a & ",
        "env A=1 ",
        "nohup ",
        "while ",
        "for i in 1; do ",
        "cd src; ",
        "2>/dev/null ",
        "cat <<'Q'\n$(\nQ\n",
    ];
    let after = [
        "",
        "; true",
        " && git status",
        " | cat",
        " )",
        "; }",
        "; fi",
        "\nls",
        " # a",
        " 2>&1",
        " >/dev/null",
        " &",
        " x",
        "; done",
        " --",
        " \u{200b}",
    ];
    for round in 0..500 {
        let mut text = random.one(&denied).to_owned();
        for _ in 0..1 + random.below(3) {
            text = match text.contains("<<E") {
                true => format!("{}{text}", random.one(&before)),
                false => format!("{}{text}{}", random.one(&before), random.one(&after)),
            };
        }
        let verdict = project.run(&rules, &text);
        assert_ne!(verdict.decision, Decision::Allow, "{text:?}: {}", verdict.why);
        if round % 25 == 0 {
            // Over a limit, the words are still searched.
            let long = format!("{text}\n#{}", "x".repeat(65_000));
            let decision = project.run(&rules, &long).decision;
            let words = text.contains("git push");
            assert!(
                decision == Decision::Deny || (!words && decision == Decision::Ask),
                "{text:?}"
            );
        }
    }
}

/// The fastest of several decisions about simple commands. Other work on the machine slows some of them down, but not all.
fn fastest_decision(project: &Project, text: &str) -> Duration {
    let rules = rules(text);
    let times = (0..200).map(|_| {
        let start = Instant::now();
        project.run(&rules, "git status");
        project.run(&rules, "cat src/a.rs | cat");
        start.elapsed()
    });
    times.min().expect("a time")
}

#[test]
fn a_decision_about_a_simple_command_is_fast_with_fifty_rules() {
    let project = Project::new();
    let last = "[[rule]]\ndecision = \"allow\"\nrun = [\"git status\", \"cat *\"]\n";
    let mut text = String::new();
    for index in 0..50 {
        text.push_str(&format!(
            "[[rule]]\ndecision = \"deny\"\nrun = [\"tool{index} push --force\", \"other{index} *\"]\nread = [\"secret{index}/**\"]\nwrite = [\"dir{index}/**\"]\n"
        ));
    }
    let (one, all) = (fastest_decision(&project, last), fastest_decision(&project, &(text + last)));
    // About seven times.
    assert!(all <= one * 20, "{all:?} with fifty-one rules, {one:?} with one");
}
