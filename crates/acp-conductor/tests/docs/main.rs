//! Keeps the documentation true.
//!
//! Every `conductor` command in README.md, CONTRIBUTING.md and the guide runs as printed, with stub programs in place
//! of the agents and proxies that it names. Every fault of docs/reliability.md has a test (`faults`). Every
//! path, command, option and crate that the documentation names exists (`names`).

mod faults;
mod names;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::test_chain::{binary, directory, parse, write_script};

const AGENTS: [&str; 3] = ["my-agent", "claude-agent-acp", "npx"];
const PROXIES: [&str; 6] = ["cargo", "my-proxy", "node", "first", "second", "third"];

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md, CONTRIBUTING.md and all pages of the guide.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).expect("docs/ is readable");
    let names = entries.map(|entry| entry.expect("docs/ is readable").file_name());
    let guide = names.map(|name| format!("docs/{}", name.to_string_lossy()));
    let guide = guide.filter(|page| page.ends_with(".md"));
    guide.chain(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]).collect()
}

/// The commands in the code blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).expect(page);
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

/// A directory with a stub program for each agent and proxy that the documentation names.
fn stubs() -> PathBuf {
    let bin = directory("docs");
    let run = |program: &Path| format!("exec '{}'", program.display());
    for agent in AGENTS {
        write_script(&bin, agent, &run(&binary("stub_agent")));
    }
    for proxy in PROXIES {
        write_script(&bin, proxy, &run(&binary("transparent")));
    }
    write_script(&bin, "words", &run(&binary("word_count_proxy")));
    write_script(&bin, "conductor", &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_conductor")));
    bin
}

#[test]
fn every_command_in_the_documentation_works() {
    let bin = stubs();
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

/// The tests of the package `examples` run that program.
#[test]
fn the_example_in_tools_md_is_the_example_program() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let program = read("examples/tools.rs");
    let (_, code) = program.split_once("\n\n").expect("a comment before the code");
    assert!(
        read("docs/tools.md").contains(code.trim_end()),
        "docs/tools.md and examples/tools.rs differ"
    );
}

fn answers_initialize(shell: &mut Command, line: &str) {
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
    let mut stdin = child.stdin.take().expect("a pipe");
    let greeting =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    writeln!(stdin, "{greeting}").expect("conductor reads");
    let mut answer = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut answer).expect("a line");
    assert_eq!(parse(&answer)["result"]["protocolVersion"], 1, "{line}: {answer}");
    drop(stdin);
    assert!(child.wait().expect("conductor exits").success(), "{line}");
}
