//! What `context` adds to prompts.

use acp_proxy::script::play;
use clap::Parser;
use components::BuiltIn;
use components::context::Context;

/// A directory with these files.
fn directory(name: &str, files: &[(&str, &str)]) -> String {
    let path = std::env::temp_dir().join(format!("context-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    for (name, text) in files {
        std::fs::write(path.join(name), text).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

fn context(options: &[&str]) -> acp_proxy::Component {
    Context::parse_from(std::iter::once(&"context").chain(options)).build()
}

fn script(directory: &str, script: &str) -> String {
    let opening = r#"
        editor > {"id":1,"method":"session/new","params":{"cwd":"DIRECTORY","mcpServers":[]}}
        agent  < {"id":1,"method":"session/new","params":{"cwd":"DIRECTORY","mcpServers":[]}}
        agent  > {"id":1,"result":{"sessionId":"s"}}
        editor < {"id":1,"result":{"sessionId":"s"}}
    "#;
    format!("{opening}{script}").replace("DIRECTORY", directory)
}

#[test]
fn files_and_texts_are_added_to_the_first_prompt_only() {
    let here = directory("first", &[("AGENTS.md", "Use tabs."), ("OTHER.md", "unread")]);
    let script = script(
        &here,
        r#"
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi","odd":1}]}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"Be brief."},{"type":"text","text":"From AGENTS.md:\n\nUse tabs."},{"type":"text","text":"hi","odd":1}]}}
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        editor < {"id":2,"result":{"stopReason":"end_turn"}}
        editor > {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"again"}]}}
        agent  < {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"again"}]}}
        "#,
    );
    play(context(&["--text", "Be brief."]), &script);
    std::fs::remove_dir_all(here).unwrap();
}

/// An agent looks for a command at the beginning of a prompt.
#[test]
fn a_command_stays_at_the_beginning() {
    let here = directory("command", &[("AGENTS.md", "Use tabs.")]);
    let script = script(
        &here,
        r#"
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"/compact now"},{"type":"text","text":"more"}]}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"/compact now"},{"type":"text","text":"more"},{"type":"text","text":"Be brief."},{"type":"text","text":"From AGENTS.md:\n\nUse tabs."}]}}
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        editor < {"id":2,"result":{"stopReason":"end_turn"}}
        "#,
    );
    play(context(&["--text", "Be brief."]), &script);
    std::fs::remove_dir_all(here).unwrap();
}

#[test]
fn after_a_failed_or_refused_prompt_files_are_added_again_and_long_files_are_truncated() {
    let here = directory("again", &[("X.md", "abcdef")]);
    let added = r#"{"sessionId":"s","prompt":[{"type":"text","text":"From X.md:\n\nabc\n[… the rest is left out]"},{"type":"text","text":"hi"}]}"#;
    let script = script(
        &here,
        r#"
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}
        agent  < {"id":2,"method":"session/prompt","params":ADDED}
        agent  > {"id":2,"error":{"code":-32000,"message":"log in"}}
        editor < {"id":2,"error":{"code":-32000,"message":"log in"}}
        editor > {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}
        agent  < {"id":3,"method":"session/prompt","params":ADDED}
        agent  > {"id":3,"result":{"stopReason":"refusal"}}
        editor < {"id":3,"result":{"stopReason":"refusal"}}
        editor > {"id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}
        agent  < {"id":4,"method":"session/prompt","params":ADDED}
        "#,
    );
    let options = ["--file", "X.md", "--optional", "missing.md", "--most", "3"];
    play(context(&options), &script.replace("ADDED", added));
    std::fs::remove_dir_all(here).unwrap();
}

#[test]
fn with_each_texts_are_added_to_every_prompt_and_after_a_load_to_none() {
    let prompt = |id: u8, before: &str| {
        format!(
            r#"
            editor > {{"id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[]}}}}
            agent  < {{"id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{before}]}}}}
            agent  > {{"id":{id},"result":{{"stopReason":"end_turn"}}}}
            editor < {{"id":{id},"result":{{"stopReason":"end_turn"}}}}
            "#
        )
    };
    let block = r#"{"type":"text","text":"x"}"#;
    let twice = format!("{}{}", prompt(2, block), prompt(3, block));
    play(context(&["--text", "x", "--each"]), &script("/nowhere", &twice));
    let load = r#"
        editor > {"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}
        agent  < {"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}
        agent  > {"id":1,"result":null}
        editor < {"id":1,"result":null}
    "#;
    play(context(&["--text", "x"]), &format!("{load}{}", prompt(2, "")));
}

/// A hostile repository may have anything under the default file names.
#[cfg(unix)]
#[test]
fn only_regular_files_inside_the_directory_are_read() {
    let outside = directory("outside", &[("private", "key")]);
    let here = directory("hostile", &[]);
    let path = std::path::Path::new(&here);
    std::os::unix::fs::symlink("/dev/zero", path.join("AGENTS.md")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path.join("CONTEXT.md")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink(format!("{outside}/private"), path.join("CONTEXT")).unwrap();
    let prompted = |block: &str| {
        format!(
            r#"
        editor > {{"id":2,"method":"session/prompt","params":{{"sessionId":"s","prompt":[]}}}}
        agent  < {{"id":2,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{block}]}}}}
        "#
        )
    };
    play(context(&[]), &script(&here, &prompted("")));
    let key = r#"{"type":"text","text":"From CONTEXT:\n\nkey"}"#;
    play(context(&["--outside"]), &script(&here, &prompted(key)));
    std::fs::remove_dir_all(here).unwrap();
    std::fs::remove_dir_all(outside).unwrap();
}

#[test]
fn a_session_is_refused_if_a_file_is_missing() {
    let here = directory("missing", &[("X.md", "abc")]);
    let script = r#"
        editor > {"id":1,"method":"session/new","params":{"cwd":"DIRECTORY","mcpServers":[]}}
        editor < {"id":1,"error":{"code":-32603,"message":"context: cannot read Y.md in DIRECTORY: it does not exist; correct --file, or use --optional [more: conductor errors unreadable-file]","data":{"code":"unreadable-file","component":"context"}}}
    "#;
    play(context(&["--file", "X.md", "--file", "Y.md"]), &script.replace("DIRECTORY", &here));
    std::fs::remove_dir_all(here).unwrap();
}

#[test]
fn an_absolute_path_that_cannot_be_read_is_an_error_at_the_start() {
    let entry = components::find("context").expect("a component");
    let parse = |path: &str| {
        entry.parse(&["--file".to_owned(), path.to_owned()], &serde_json::Map::new()).map(drop)
    };
    let why = parse("/nowhere/X.md").expect_err("it is missing");
    assert!(why.starts_with("context: cannot read /nowhere/X.md: it does not exist"), "{why}");
    assert!(why.ends_with("[more: conductor errors unreadable-file]"), "{why}");
    assert!(parse("/").expect_err("a directory").contains("not a regular file"));
    assert!(parse("X.md").is_ok());
}
