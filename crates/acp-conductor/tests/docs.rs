//! Every `conductor` command that the README and the guide show is run as it stands there, with
//! stand-ins for the agents and proxies it names.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::stage::{binary, directory, parse, script};

const AGENTS: [&str; 3] = ["my-agent", "claude-code-acp", "npx"];
const PROXIES: [&str; 6] = ["my-proxy", "sparkle-acp", "node", "first", "second", "third"];

/// The README and all pages of the guide.
fn pages() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let entries = std::fs::read_dir(guide).expect("the guide");
    let names = entries.map(|entry| entry.expect("a page").file_name());
    let pages = names.map(|name| format!("docs/{}", name.to_string_lossy()));
    pages.filter(|page| page.ends_with(".md")).chain(["README.md".to_owned()]).collect()
}

/// The commands in the code blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(page)).expect(page);
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside && line.starts_with("conductor ") && !line.contains("COMPONENT") {
            found.push(line.to_owned());
        }
    }
    found
}

fn stand_ins() -> std::path::PathBuf {
    let bin = directory("docs");
    let run = |program: &Path| format!("exec '{}'", program.display());
    for agent in AGENTS {
        script(&bin, agent, &run(&binary("stub_agent")));
    }
    for proxy in PROXIES {
        script(&bin, proxy, &run(&binary("transparent")));
    }
    script(&bin, "words", &run(&binary("words")));
    script(&bin, "conductor", &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_conductor")));
    bin
}

#[test]
fn every_command_of_the_guide_works() {
    let bin = stand_ins();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let mut seen = 0;
    for page in pages() {
        for line in commands(&page) {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(&line).env("PATH", &path).current_dir(&bin);
            shell.env("XDG_CACHE_HOME", &bin).env("XDG_RUNTIME_DIR", &bin);
            if line.starts_with("conductor agent") && !line.contains("--explain") {
                answers_initialize(&mut shell, &line);
            } else {
                let output = shell.stdin(Stdio::null()).output().expect("sh");
                assert!(output.status.success() && !output.stdout.is_empty(), "{page}: {line}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 10, "the pages show {seen} commands: are they found?");
}

/// The example that the guide shows is the one that is compiled, and run by the tests of `examples`.
#[test]
fn the_worked_example_is_the_one_that_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let program = read("examples/tools.rs");
    let (_, code) = program.split_once("\n\n").expect("a line of its own about it");
    assert!(read("docs/tools.md").contains(code.trim_end()), "docs/tools.md shows another program");
}

/// Every test that the table of faults names is there.
#[test]
fn every_fault_in_the_table_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = String::new();
    read_tests(&root.join("crates"), &mut tests);
    let page = std::fs::read_to_string(root.join("docs/reliability.md")).expect("the page");
    let rows: Vec<Vec<&str>> =
        page.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    // An empty cell before the first bar and one behind the last.
    let faults = rows.iter().filter(|row| row.len() == 7 && row[4].contains('`'));
    let mut seen = 0;
    for row in faults {
        for name in row[4].split(", ") {
            let name = name.trim_matches('`');
            let test = |attribute: &str, function: &str| {
                tests.contains(&format!("#[{attribute}]\n{function} {name}() {{"))
            };
            let found = test("test", "fn") || test("tokio::test", "async fn");
            assert!(found, "{}: {name}", row[1]);
        }
        seen += 1;
    }
    assert!(seen >= 30, "the table has {seen} faults: are they found?");
    let without = rows.iter().find(|row| row.len() == 7 && !row[4].contains(['`', '-', 't']));
    assert_eq!(without, None, "a fault without a test");
}

/// The text of all tests below a directory, without indentation: some are beside the code.
fn read_tests(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_tests(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            for line in std::fs::read_to_string(&path).expect("a file").lines() {
                text.push_str(line.trim_start());
                text.push('\n');
            }
        }
    }
}

fn answers_initialize(shell: &mut Command, line: &str) {
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
    let mut stdin = child.stdin.take().expect("a pipe");
    let greeting =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    writeln!(stdin, "{greeting}").expect("it reads");
    let mut answer = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut answer).expect("a line");
    assert_eq!(parse(&answer)["result"]["protocolVersion"], 1, "{line}: {answer}");
    drop(stdin);
    assert!(child.wait().expect("an end").success(), "{line}");
}
