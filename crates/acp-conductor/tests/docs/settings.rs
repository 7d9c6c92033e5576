//! The settings that the documentation prints: each JSON block is valid, and each block with the settings of an editor
//! starts a chain, with the command, the arguments and the environment as printed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use testkit::test_chain::{directory, parse, with_timeout};

use super::blocks::{self, Block};
use super::commands::{programs, set_environment};
use super::{pages, read};

fn blocks_in(language: &str) -> Vec<Block> {
    let all = pages().into_iter().flat_map(|page| blocks::of_page(&page));
    all.filter(|block| block.language() == language).collect()
}

/// The values of a JSON block: one value, or one value a line.
fn values(block: &Block) -> Vec<Value> {
    let parsed: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&block.text).into_iter().collect();
    parsed.unwrap_or_else(|error| panic!("{}: {error}\n{}", block.place(), block.text))
}

/// The command of an agent in the settings of an editor.
#[derive(Debug, PartialEq)]
struct Server {
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

/// The agents in settings: Zed and JetBrains have `agent_servers`, and VS Code has `acp.agents`.
fn servers(settings: &Value) -> Vec<Server> {
    let tables = ["agent_servers", "acp.agents"].iter().filter_map(|name| settings.get(name));
    let agents = tables.filter_map(Value::as_object).flat_map(|table| table.values());
    let string = |value: &Value| value.as_str().expect("a string").to_owned();
    let read = |agent: &Value| {
        let arguments = agent["args"].as_array().into_iter().flatten().map(string);
        let environment = agent["env"].as_object().into_iter().flatten();
        Server {
            words: std::iter::once(string(&agent["command"])).chain(arguments).collect(),
            environment: environment.map(|(name, value)| (name.clone(), string(value))).collect(),
        }
    };
    agents.map(read).collect()
}

/// The list of strings in Lua or Lisp that begins with `"conductor"`.
fn list_of_strings(code: &str) -> Server {
    let (_, list) = code.split_once("\"conductor\"").expect("a list with conductor");
    let end = list.find(['}', ')']).expect("the end of the list");
    let words = list[..end].split('"').skip(1).step_by(2).map(str::to_owned);
    let words = std::iter::once("conductor".to_owned()).chain(words).collect();
    Server { words, environment: Vec::new() }
}

/// Starts the agent as an editor does, and runs a turn.
fn run_turn(server: &Server, bin: &Path) -> Vec<Value> {
    let mut command = Command::new(&server.words[0]);
    set_environment(&mut command, bin, &directory("docs-editor"));
    command.args(&server.words[1..]).envs(server.environment.iter().cloned());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("conductor");
    let mut editor = Editor::new(&mut child);
    let mut answers = vec![editor.request("initialize", &json!({ "protocolVersion": 1 }))];
    let cwd = directory("docs-project");
    answers.push(editor.request("session/new", &json!({ "cwd": cwd, "mcpServers": [] })));
    let session = &answers[1]["result"]["sessionId"];
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hello" }] });
    answers.push(editor.request("session/prompt", &prompt));
    drop(editor);
    assert!(child.wait().expect("conductor exits").success(), "{server:?}");
    answers
}

struct Editor {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Editor {
    fn new(child: &mut Child) -> Editor {
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Editor { stdin: stdin.expect("a pipe"), stdout: BufReader::new(stdout.expect("a pipe")) }
    }

    /// Sends a request, and returns its answer. Skips notifications.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        writeln!(self.stdin, "{request}").expect("conductor reads");
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("a line");
            let message = parse(&line);
            if message["id"] == method {
                return message;
            }
        }
    }
}

#[test]
fn every_json_block_is_valid() {
    let blocks = blocks_in("json");
    assert!(blocks.len() >= 5, "the pages have {} JSON blocks", blocks.len());
    for block in blocks {
        assert!(!values(&block).is_empty(), "{}", block.place());
    }
}

#[test]
fn the_settings_of_every_editor_start_a_chain() {
    let mut found = Vec::new();
    for block in blocks_in("json") {
        let servers = values(&block).iter().flat_map(servers).collect::<Vec<_>>();
        found.extend(servers.into_iter().map(|server| (block.place(), server)));
    }
    for block in ["lua", "elisp"].into_iter().flat_map(blocks_in) {
        found.push((block.place(), list_of_strings(&block.text)));
    }
    assert!(found.len() >= 5, "settings of editors: {found:?}");
    for (place, server) in found {
        let bin = programs(false);
        let answers = with_timeout(&place.clone(), move || run_turn(&server, &bin));
        assert_eq!(answers[0]["result"]["protocolVersion"], 1, "{place}: {answers:?}");
        assert_eq!(answers[2]["result"]["stopReason"], "end_turn", "{place}: {answers:?}");
    }
}

#[test]
fn the_agents_in_settings_are_found() {
    let settings =
        json!({ "agent_servers": { "A": { "command": "x", "args": ["y"], "env": { "K": "v" } } } });
    let words = ["x", "y"].map(str::to_owned).to_vec();
    let environment = vec![("K".to_owned(), "v".to_owned())];
    assert_eq!(servers(&settings), [Server { words, environment }]);
    let lisp = list_of_strings("(setq it '(\"conductor\" \"agent\" \"my-agent\"))");
    assert_eq!(lisp.words, ["conductor", "agent", "my-agent"]);
}

/// `cargo xtask test --only package` compiles the Rust programs of a page with its dependencies. On other pages, TOML is
/// in files of the user: options and rules.
#[test]
fn every_toml_block_beside_rust_programs_has_dependencies() {
    let has_programs = |page: &str| blocks_in("rust").iter().any(|block| block.page == page);
    for block in blocks_in("toml").iter().filter(|block| has_programs(&block.page)) {
        assert!(block.text.starts_with("[dependencies]\n"), "{}", block.place());
    }
}

/// The interop tests run these files in real chains.
#[test]
fn every_script_in_the_documentation_is_a_file_in_examples() {
    for (language, extension) in [("python", "py"), ("javascript", "mjs")] {
        // The interop tests also insert the fragment.
        for block in blocks_in(language).iter().filter(|block| !block.info.ends_with(" fragment")) {
            let file = block.attribute("file").unwrap_or_else(|| {
                panic!("{}: write ```{language} file=examples/NAME.{extension}", block.place())
            });
            assert_eq!(block.text, read(file), "{} and {file} differ", block.place());
        }
    }
}
