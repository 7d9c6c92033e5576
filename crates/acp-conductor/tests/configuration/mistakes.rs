//! Wrong files, and exactly what is printed.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::test_chain::with_timeout;

use super::{Setup, finish, stderr};

#[test]
fn a_mistake_is_printed_with_its_place_underlined() {
    let setup = Setup::with_user_file("config-mistake", "[components.a]\ncomand = \"x\"\n");
    let expected = "\
conductor: unknown key `comand`
 --> FOLDER/config/conductor/conductor.toml:2:1
  |
2 | comand = \"x\"
  | ^^^^^^
  |
  = help: did you mean `command`? [more: conductor errors invalid-configuration]
";
    for arguments in [&["agent"][..], &["agent", "demo-agent"], &["try"], &["proxy"]] {
        assert_eq!(setup.refused(arguments, 2), expected, "{arguments:?}");
    }
    assert_eq!(setup.refused(&["config", "check"], 1), expected);
    assert_eq!(setup.refused(&["config", "show"], 1), expected);
}

/// What is wrong in a chain is found when it is started, at the place in the file.
#[test]
fn an_error_in_a_chain_points_at_its_place() {
    let agent = "[chains.a]\nproxies = [\"p\"]\nagent = \"demo-agent\"\n";
    for (component, place, parts) in [
        (
            "command = \"filter\"\noptions = { notce = true }",
            "3:13",
            &["`filter` has no option `notce`", "`notice`?"][..],
        ),
        (
            "command = \"filter\"\noptions = { toward-agent = \"block\" }",
            "3:13",
            &["`toward_agent`?"],
        ),
        (
            "command = \"filter\"\noptions = { towardAgent = \"block\" }",
            "3:13",
            &["`toward_agent`?"],
        ),
        ("command = \"filter\"\noptions = { notice = \"yes\" }", "3:22", &["expected a boolean"]),
        (
            "command = \"filter\"\noptions = { toward_agent = \"blok\" }",
            "3:28",
            &["`blok`", "`block`?"],
        ),
        ("command = \"filter\"\n[components.p.options]\npattern = [{ regx = \"x\" }]", "4:", &[]),
        (
            "command = \"budget\"\noptions = { tokens_per_day = \"1M\", keep = \"1h\" }",
            "3:43",
            &["--keep"],
        ),
        ("command = \"context\"\noptions = { file = [\"/nowhere/x\"] }", "3:20", &["/nowhere/x"]),
        ("command = \"builtin:filtr\"", "2:11", &["no built-in component 'filtr'", "`filter`?"]),
        ("command = \"demo-agent\"", "7:12", &["is an agent"]),
        ("command = \"filter\"\nenv = { A = \"secret\" }", "3:9", &["runs inside conductor"]),
        ("command = \"filter\"\ncwd = \"/\"", "3:7", &["runs inside conductor"]),
        ("command = \"cat\"\noptions = { a = 1 }", "3:13", &["is a program", "`args`"]),
        (
            "command = \"cat\"\nargs = [\"${NOTHING}\"]",
            "3:10",
            &["NOTHING is not set", "${NOTHING:-default}"],
        ),
        ("command = \"cat\"\nenv = { A = \"secret ${NOTHING}\" }", "3:21", &["NOTHING is not set"]),
        ("command = \"cat\"\nenv-file = \"none.env\"", "3:12", &["none.env", "does not exist"]),
        ("command = \"cat\"\nguard = true\nupdates = \"known\"", "4:11", &["is a guard"]),
        ("command = \"cat\"\nwhen = { fil = \"x\" }", "3:10", &["'file'?"]),
    ] {
        let lines = component.lines().count();
        let place = place.replace("7:12", &format!("{}:12", lines + 3));
        let setup = Setup::with_user_file(
            "config-places",
            &format!("[components.p]\n{component}\n{agent}"),
        );
        let error = setup.refused(&["agent", "--chain", "a"], 2);
        let at = format!(" --> FOLDER/config/conductor/conductor.toml:{place}");
        assert!(error.contains(&at), "{component}: {error}");
        for part in parts {
            assert!(error.contains(part), "{component}: {part}: {error}");
        }
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn what_an_agent_cannot_have_is_an_error_at_its_place() {
    for (line, part) in [
        ("dialect = \"P3\"", "only proxies have a dialect"),
        ("guard = true", "only proxies can be guards"),
        ("updates = \"all\"", "only proxies"),
        ("on-crash = \"bypass\"", "cannot be bypassed"),
    ] {
        let text =
            format!("[components.x]\ncommand = \"cat\"\n{line}\n[chains.a]\nagent = \"x\"\n");
        let setup = Setup::with_user_file("config-agent", &text);
        let error = setup.refused(&["agent", "--chain", "a"], 2);
        assert!(error.contains("conductor.toml:3:") && error.contains(part), "{line}: {error}");
    }
    let setup = Setup::with_user_file("config-no-agent", "[chains.a]\nproxies = [\"log\"]\n");
    let error = setup.refused(&["agent", "--chain", "a"], 2);
    assert!(error.contains("has no agent") && error.contains("agent = \"NAME\""), "{error}");
}

#[test]
fn an_env_file_with_a_mistake_shows_no_value() {
    let text =
        "[components.x]\ncommand = \"cat\"\nenv-file = \"x.env\"\n[chains.a]\nagent = \"x\"\n";
    let setup = Setup::with_user_file("config-env-file", text);
    setup.write("config/conductor/x.env", "A=hidden\nB='hidden\n");
    let error = setup.refused(&["agent", "--chain", "a"], 2);
    assert!(error.contains("x.env:2:1") && error.contains("not closed"), "{error}");
    assert!(!error.contains("hidden"), "{error}");
}

#[test]
fn a_file_that_is_no_text_of_a_reasonable_size_is_an_error() {
    let setup = Setup::new("config-hostile");
    let deep = format!("a = {}", "[".repeat(200_000));
    let tables = format!("[{}a]\n", "a.".repeat(100_000));
    for (bytes, part) in [
        ("#".repeat(2 << 20).into_bytes(), "it has more than 1048576 bytes"),
        (b"default = \"\xff\"".to_vec(), "conductor.toml:1:12"),
        (b"\xff\xfed\0".to_vec(), "save it as UTF-8"),
        (deep.into_bytes(), "invalid-configuration"),
        (tables.into_bytes(), "invalid-configuration"),
        (b"a = \"\x1b[2J\x07\"".to_vec(), "conductor.toml:1:"),
    ] {
        setup.write("config/conductor/conductor.toml", bytes);
        let error = setup.refused(&["agent", "demo-agent"], 2);
        assert!(error.contains(part) && error.len() < 4000, "{error}");
        assert!(!error.contains(['\x1b', '\x07']), "{error:?}");
    }
    // A folder and a pipe are not read, and nothing waits for a pipe.
    let file = setup.path("config/conductor/conductor.toml");
    std::fs::remove_file(&file).expect("ours");
    let made = std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo");
    assert!(made.success());
    let error = setup.refused(&["agent", "demo-agent"], 2);
    assert!(error.contains("it is not a regular file"), "{error}");
    std::fs::remove_file(&file).expect("ours");
    // A file that is not there is no error, unless it is named.
    let mut command = setup.command(&["agent", "--explain", "demo-agent"]);
    assert!(
        finish(std::mem::replace(&mut command, setup.command(&["agent", "x"]))).status.success()
    );
    command.env("CONDUCTOR_CONFIG", setup.path("nowhere.toml"));
    let output = finish(command);
    assert!(stderr(&output).contains("correct the environment variable"), "{}", stderr(&output));
}

/// An editor shows the error of its first request, and often not what is on standard error.
#[test]
fn the_editor_learns_that_a_file_of_the_run_cannot_be_written() {
    let text = "[chains.a]\nagent = \"demo-agent\"\n[chains.b]\nagent = \"demo-agent\"\n[chains.b.settings]\nlog-file = \"/nowhere/b.log\"\n";
    let setup = Setup::with_user_file("config-unwritable", text);
    for arguments in [
        &["agent", "--chain", "a", "--log-file", "/nowhere/a.log"][..],
        &["agent", "--chain", "b"],
        &["agent", "--journal", "/nowhere/run.jsonl", "demo-agent"],
        &["proxy", "--log-file", "/nowhere/a.log"],
    ] {
        let mut command = setup.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = with_timeout("the editor gets an answer", move || {
            let mut child = command.spawn().expect("the program starts");
            let mut stdin = child.stdin.take().expect("a pipe");
            let request =
                json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {} });
            writeln!(stdin, "{request}").expect("it reads");
            child.wait_with_output().expect("it ends")
        });
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
        assert_eq!(answer["error"]["data"]["code"], "unwritable-file", "{answer}");
        let message = answer["error"]["message"].as_str().expect("a text");
        assert!(message.contains("/nowhere/"), "{message}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stderr(&output).matches("/nowhere/").count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn chains_that_include_themselves_are_errors() {
    let text = "[chains.a]\nproxies = [{ chain = \"b\" }]\nagent = \"demo-agent\"\n\
                [chains.b]\nproxies = [\"log\", { chain = \"a\" }]\n";
    let setup = Setup::with_user_file("config-cycle", text);
    for arguments in [&["agent", "--chain", "a"][..], &["config", "check"]] {
        let status = if arguments[0] == "agent" { 2 } else { 1 };
        let error = setup.refused(arguments, status);
        assert!(error.contains("the chain `a` includes itself"), "{error}");
        assert!(error.contains("conductor.toml:5:19") && error.contains("a → b → a"), "{error}");
    }
}
