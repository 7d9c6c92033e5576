//! Every command block of the documentation runs as printed.
//!
//! The blocks of a page run in order, in one directory. `conductor` is the real program. Agents that need an account are
//! the demo agent, and other proxies pass everything on. `cargo`, `git` and `npm` check their arguments only, because they
//! need a network: `cargo xtask walk` runs the commands of the README with the real ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use testkit::test_chain::{all_is_built, binary, directory, with_timeout, write_script};

use super::blocks::{self, Block};
use super::{pages, root};

/// Agents of others, by the names of their commands.
const AGENTS: [&str; 16] = [
    "my-agent",
    "npx",
    "uvx",
    "claude-agent-acp",
    "codex-acp",
    "gemini",
    "opencode",
    "qwen",
    "goose",
    "copilot",
    "kimi",
    "vibe-acp",
    "hermes-acp",
    "openhands",
    "deepagents-acp",
    "elizacp",
];

/// Proxies of others.
const PROXIES: [&str; 6] = ["my-proxy", "node", "python3", "first", "second", "third"];

/// Runs `conductor`. If the command is `conductor agent`, it also acts as the editor: it sends `initialize`, prints the
/// answer and disconnects. `conductor studio` is ended when it has printed its address.
const EDITOR: &str = r#"
if [ "$1" = studio ]; then
    pipes=$(mktemp -d)
    mkfifo "$pipes/out"
    "$REAL" "$@" >"$pipes/out" &
    exec 4<"$pipes/out"
    rm -r "$pipes"
    read -r address <&4
    kill -TERM $!
    wait $! || exit
    printf '%s\n' "$address"
    exit
fi
# A chain can be a component of another one.
if [ "$1" != agent ] || [ -n "$IN_A_CHAIN" ]; then export IN_A_CHAIN=1; exec "$REAL" "$@"; fi
for word; do case "$word" in --explain | --help) exec "$REAL" "$@" ;; esac; done
pipes=$(mktemp -d)
mkfifo "$pipes/in" "$pipes/out"
"$REAL" "$@" <"$pipes/in" >"$pipes/out" &
exec 3>"$pipes/in" 4<"$pipes/out"
rm -r "$pipes"
echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}' >&3
read -r answer <&4
exec 3>&-
wait $! || exit
printf '%s\n' "$answer"
case "$answer" in *'"result":{'*) ;; *) exit 1 ;; esac
"#;

const CARGO: &str = r#"
case "$1" in
    run)
        while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
        # Without `--`, the command starts the proxy that the reader of the README writes.
        [ "$1" = -- ] || exec brief
        shift
        exec conductor "$@" ;;
    new) mkdir -p "$2/src"; touch "$2/Cargo.toml" ;;
    add | build | install | test | xtask | bench) echo "cargo $*" ;;
    *) echo "the test does not know cargo $1" >&2; exit 1 ;;
esac
"#;

const GIT: &str = r#"
[ "$1" = clone ] || { echo "the test does not know git $1" >&2; exit 1; }
mkdir -p "$(basename "$2" .git)"
"#;

const NPM: &str = r#"[ "$1 $2" = "install -g" ] && echo "installed $3""#;

/// The directory of the programs of the package `examples`, built on first use.
fn examples() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let directory = binary("transparent").parent().expect("a directory").to_owned();
        if all_is_built() {
            return directory;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "examples", "--bins", "--target-dir"]);
        cargo.arg(directory.parent().expect("the target directory")).current_dir(root());
        assert!(cargo.status().expect("cargo").success(), "the examples cannot be built");
        directory
    };
    BUILT.get_or_init(build).clone()
}

/// A directory with the programs that the documentation names. In `editor`, `conductor agent` runs as under an editor.
pub fn programs(editor: bool) -> PathBuf {
    let bin = directory("docs-programs");
    let real = env!("CARGO_BIN_EXE_conductor");
    for agent in AGENTS {
        write_script(&bin, agent, &format!("exec '{real}' demo-agent --pace 0"));
    }
    let run = |program: &Path| format!("exec '{}'", program.display());
    for proxy in PROXIES {
        write_script(&bin, proxy, &run(&binary("transparent")));
    }
    write_script(&bin, "words", &run(&binary("word_count_proxy")));
    for example in ["example-gate", "example-now"] {
        write_script(&bin, example, &run(&examples().join(example)));
    }
    let prefix = run(&examples().join("example-prefix"));
    write_script(&bin, "brief", &format!("{prefix} 'Answer in one sentence.'"));
    for (name, script) in [("cargo", CARGO), ("git", GIT), ("npm", NPM)] {
        write_script(&bin, name, script);
    }
    let script = if editor { EDITOR } else { r#"exec "$REAL" "$@""# };
    write_script(&bin, "conductor", &format!("REAL='{real}'\n{script}"));
    bin
}

/// Sets the environment of a person who has only the programs in `bin`, and a home directory of their own.
pub fn set_environment(command: &mut Command, bin: &Path, home: &Path) {
    let path = std::env::var("PATH").expect("a PATH");
    command.env("PATH", format!("{}:{path}", bin.display())).current_dir(home);
    for name in ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        command.env(name, home);
    }
    command
        .env("TMPDIR", home)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .env_remove("CONDUCTOR_LOG")
        .env_remove("CONDUCTOR_CONFIG")
        .env_remove("XDG_CONFIG_HOME");
}

/// The variable that a block exports is set in the next blocks of the page, as in a terminal.
const KEEP_VARIABLES: &str = r#"if [ -f "$HOME/.variables" ]; then . "$HOME/.variables"; fi
trap 'export -p | grep " CONDUCTOR_CONFIG=" >"$HOME/.variables" || true' EXIT"#;

/// Runs a block, and returns what it prints.
fn run(block: &Block, bin: &Path, home: &Path) -> String {
    let mut shell = Command::new("bash");
    // Both streams go to one pipe, as to a terminal.
    let text = format!("exec 2>&1\n{KEEP_VARIABLES}\n{}", block.text);
    shell.args(["-e", "-o", "pipefail", "-c", &text]);
    set_environment(&mut shell, bin, home);
    shell.stdin(Stdio::null());
    let output = with_timeout(&block.place(), move || shell.output().expect("bash"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = block.attribute("status").map_or(0, |status| status.parse().expect("a status"));
    let place = block.place();
    assert_eq!(output.status.code(), Some(expected), "{place}:\n{}\n{text}", block.text);
    text
}

/// Checks that each line of `expected` is in `actual`, in order. `…` stands for any text.
fn assert_output(expected: &Block, actual: &str) {
    let mut rest = actual.lines();
    for wanted in expected.text.lines().filter(|line| !line.trim().is_empty()) {
        let found = rest.any(|line| matches(wanted.trim_end(), line.trim_end()));
        assert!(found, "{}: no line {wanted:?} in its place in\n{actual}", expected.place());
    }
}

/// Whether a line matches a pattern, in which `…` stands for any text.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn every_command_block_runs_as_printed() {
    let mut seen = 0;
    for page in pages() {
        let (bin, home) = (programs(true), directory("docs-home"));
        let blocks = blocks::of_page(&page);
        seen += blocks.iter().filter(|block| block.language() == "sh").count();
        let mut output = String::new();
        for block in blocks {
            match block.info.as_str() {
                "text output" => assert_output(&block, &output),
                _ if block.language() == "sh" => output = run(&block, &bin, &home),
                _ => {}
            }
        }
    }
    assert!(seen >= 40, "the pages have {seen} command blocks: are they found?");
}

/// A recipe is a chapter with a command to paste.
#[test]
fn there_are_ten_recipes() {
    let page = super::read("docs/recipes.md");
    let chapters: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!(chapters.len() >= 10, "{} recipes", chapters.len());
    for chapter in chapters {
        assert!(chapter.contains("\n```sh"), "a recipe without a command: {chapter}");
    }
}

#[test]
fn an_ellipsis_in_printed_output_stands_for_any_text() {
    assert!(matches("a … c … e", "a b c d e") && matches("…", "") && matches("a", "a"));
    assert!(!matches("a … c", "a b d") && !matches("a", "a b") && !matches("… c … b", "a b c"));
}
