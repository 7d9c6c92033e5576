//! Help, version and manual.

use std::process::Command;

use testkit::test_chain::directory;

use super::{assert_mentions, conductor, printed};

const OPTIONS: [&str; 7] =
    ["--init-timeout", "--grace", "--max-line", "--status", "--log", "--log-file", "--journal"];
const COMMANDS: [&str; 18] = [
    "try",
    "studio",
    "agent",
    "proxy",
    "component",
    "config",
    "chain",
    "trust",
    "status",
    "reload",
    "spent",
    "audit",
    "components",
    "errors",
    // These have no description in the list.
    "demo-agent",
    "untrust",
    "completions",
    "man",
];
/// Commands that only other programs run.
const INTERNAL: [&str; 3] = ["relay", "mcp", "complete"];

#[test]
fn help_mentions_every_command_and_option_and_gives_examples() {
    for mode in ["agent", "proxy"] {
        let help = printed(&[mode, "--help"]);
        assert_mentions(&help, &OPTIONS);
        assert_mentions(&help, &["COMPONENT", "CONDUCTOR_LOG", "    conductor agent "]);
    }
    assert_mentions(&printed(&["agent", "--help"]), &["NAME=value", "JSON", "Exit status: 0"]);
    for command in COMMANDS.iter().filter(|command| **command != "component") {
        let help = printed(&["help", command]);
        assert!(help.contains(&format!("Usage: conductor {command}")), "{help}");
    }
}

#[test]
fn the_list_of_commands_fits_on_one_screen() {
    let help = printed(&["--help"]);
    assert_eq!(printed(&["-h"]), help);
    assert_eq!(printed(&["help"]), help);
    assert!(
        help.lines().count() < 24 && help.lines().all(|line| line.chars().count() < 80),
        "{help}"
    );
    let words: Vec<&str> = help.split_whitespace().collect();
    let (described, others) = COMMANDS.split_at(14);
    for command in described {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    let also = format!("\nAlso: {}. Options: ", others.join(", "));
    assert!(help.contains(&also), "{help}");
    for command in INTERNAL {
        assert!(!words.contains(&command), "{command}: {help}");
        // It still has a help text of its own.
        assert!(printed(&[command, "--help"]).contains("Usage: "), "{command}");
    }
}

#[test]
fn without_a_command_the_next_steps_are_shown() {
    let text = printed(&[]);
    assert_mentions(&text, &["conductor try\n", "conductor agent sparkle '", "docs/proxies.md"]);
    assert!(text.lines().count() < 24, "{text}");
}

#[test]
fn the_version_is_printed() {
    let version = format!("conductor {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(&["--version"]), version);
    assert_eq!(printed(&["-V"]), version);
    let verbose = printed(&["--version", "--verbose"]);
    assert_eq!(printed(&["-Vv"]), verbose);
    let rows = verbose.strip_prefix(&version).expect("the version comes first");
    let rows: Vec<(&str, &str)> = rows.lines().filter_map(|row| row.split_once(": ")).collect();
    let row = |name: &str| {
        let found = rows.iter().find(|(it, _)| *it == name);
        found.unwrap_or_else(|| panic!("no row {name}: {verbose}")).1
    };
    assert!(!row("commit").is_empty());
    assert!(row("target").contains(std::env::consts::ARCH), "{verbose}");
    assert!(row("compiler").starts_with("rustc 1."), "{verbose}");
    assert_eq!(row("ACP versions"), "1, 2");
    assert!(row("ACP schema").starts_with("1."), "{verbose}");
    assert_eq!(row("proxy protocol"), "P5 (current), P4, P3, P3t, P2, P1, P0 (SCP)");
    assert_eq!(conductor(&["--verbose"]).status.code(), Some(2));
}

#[test]
fn the_manual_is_one_page_with_every_command_and_option() {
    // Roff escapes hyphens.
    let page = printed(&["man"]).replace("\\-", "-");
    assert!(page.starts_with(".TH conductor 1"), "{page}");
    for command in COMMANDS {
        assert_mentions(&page, &[&format!("conductor {command}")]);
    }
    assert_mentions(&page, &OPTIONS);
    assert!(!page.contains("conductor-agent(1)"), "a reference to a page that does not exist");
    for command in INTERNAL {
        assert!(!page.contains(&format!("CONDUCTOR {}", command.to_uppercase())), "{command}");
    }
}

#[test]
fn the_manual_pages_are_valid_and_their_synopsis_has_values() {
    let place = directory("man");
    let folder = place.join("man1");
    assert_eq!(printed(&["man", "--dir", folder.to_str().expect("UTF-8")]), "");
    let entries = std::fs::read_dir(&folder).expect("the pages");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a page").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut expected: Vec<String> = COMMANDS.iter().map(|it| format!("conductor-{it}.1")).collect();
    expected.push("conductor.1".into());
    expected.sort();
    assert_eq!(names, expected);
    for name in names {
        let path = folder.join(&name);
        let output =
            Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&path).output();
        let lint = String::from_utf8(output.expect("mandoc is installed").stdout).expect("UTF-8");
        // The pages have no date, so that each build writes the same pages.
        let known = ["missing date", "skipping paragraph macro"];
        let problems: Vec<&str> =
            lint.lines().filter(|line| !known.iter().any(|it| line.contains(it))).collect();
        assert_eq!(problems, [""; 0], "{name}");
    }
    let page = printed(&["man", "agent"]);
    assert_eq!(page, std::fs::read_to_string(folder.join("conductor-agent.1")).expect("a page"));
    let synopsis =
        page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "");
    assert_mentions(
        &synopsis,
        &["\n[--on-crash [COMPONENT=]WHAT]...\n", "\n[--grace SECONDS]\n", "\n[COMPONENT]...\n"],
    );
    let wrong = conductor(&["man", "relay"]);
    assert_eq!(wrong.status.code(), Some(2));
    std::fs::remove_dir_all(place).expect("the directory is ours");
}
