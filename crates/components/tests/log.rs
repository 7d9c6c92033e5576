//! What `log` writes.

use acp_proxy::script::play;
use clap::Parser;
use components::BuiltIn;
use components::log::Log;
use serde_json::Value;

/// Runs a script with these options and returns the lines of the log.
fn lines(name: &str, options: &[&str], script: &str) -> Vec<Value> {
    let path = std::env::temp_dir().join(format!("log-{name}-{}.jsonl", std::process::id()));
    let file = path.to_str().unwrap().to_owned();
    let words = ["log", "--file", &file].into_iter().chain(options.iter().copied());
    play(Log::parse_from(words).build(), script);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

const TALK: &str = r#"
    editor > {"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[{"name":"x","env":[{"name":"A","value":"sesame"}]}]}}
    agent  < {"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[{"name":"x","env":[{"name":"A","value":"sesame"}]}]}}
    agent  > {"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/p"}}
    editor < {"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/p"}}
    agent  > {"id":1,"result":{"sessionId":"s"}}
    editor < {"id":1,"result":{"sessionId":"s"}}
    editor > {"id":1,"error":{"code":-32000,"message":"no","data":{"token":"sesame"}}}
    agent  < {"id":1,"error":{"code":-32000,"message":"no","data":{"token":"sesame"}}}
    agent  > {"method":"session/update","params":{"sessionId":"s"}}
    editor < {"method":"session/update","params":{"sessionId":"s"}}
    agent  > {"method":"_proxy/log","params":{"level":"warn","message":"careful","data":{"n":1}}}
    agent  > {"method":"_scp/log","params":{"level":"debug","message":"details"}}
"#;

#[test]
fn each_line_has_level_side_kind_and_method_and_answers_have_a_time() {
    let lines = lines("info", &[], TALK);
    let summaries: Vec<_> = lines
        .iter()
        .map(|line| {
            format!("{} {} {} {}", line["level"], line["from"], line["kind"], line["method"])
                .replace('"', "")
        })
        .collect();
    assert_eq!(
        summaries,
        [
            "info editor request session/new",
            "info agent request fs/read_text_file",
            "info agent result session/new",
            "warn editor error fs/read_text_file",
            "warn null log null",
        ]
    );
    assert!(lines[2]["milliseconds"].is_number() && lines[2]["session"] == "s");
    assert_eq!((&lines[4]["message"], &lines[4]["data"]["n"]), (&"careful".into(), &1.into()));
    assert!(lines.iter().all(|line| !line.to_string().contains("sesame")), "no secret is written");
}

#[test]
fn a_higher_level_logs_more() {
    assert_eq!(lines("error", &["--level", "error"], TALK).len(), 0);
    assert_eq!(lines("warn", &["--level", "warn"], TALK).len(), 2);
    assert_eq!(lines("debug", &["--level", "debug"], TALK).len(), 7);
    let trace = lines("trace", &["--level", "trace", "--redact", "path"], TALK);
    assert_eq!(trace.len(), 7);
    assert_eq!(trace[0]["says"]["mcpServers"][0]["env"][0]["value"], "[redacted]");
    assert_eq!(trace[1]["says"]["path"], "[redacted]");
    assert!(trace.iter().all(|line| !line.to_string().contains("sesame")));
}

/// Agents and components may put a secret where a name is expected.
#[test]
fn a_secret_in_a_name_or_an_id_is_not_written() {
    const TOKEN: &str = "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";
    let script = r#"
        editor > {"id":"TOKEN","method":"_x/TOKEN","params":{"sessionId":"TOKEN","TOKEN":1,"x":{"TOKEN":[{"a TOKEN":2}],"TOKEN ":"x"}}}
        agent  < {"id":"TOKEN","method":"_x/TOKEN","params":{"sessionId":"TOKEN","TOKEN":1,"x":{"TOKEN":[{"a TOKEN":2}],"TOKEN ":"x"}}}
        agent  > {"id":"TOKEN","result":{"sessionId":"TOKEN"}}
        editor < {"id":"TOKEN","result":{"sessionId":"TOKEN"}}
        agent  > {"method":"_proxy/log","params":{"level":"warn","message":"is TOKEN","component":"of TOKEN","data":{"TOKEN":1,"k":{"TOKEN":"TOKEN"}}}}
        agent  > {"method":"_x/y","params":{}}
        editor < {"method":"_x/y","params":{}}
    "#;
    let lines = lines("names", &["--level", "trace"], &script.replace("TOKEN", TOKEN));
    assert_eq!(lines.len(), 4, "{lines:?}");
    let text = serde_json::json!(lines).to_string();
    assert!(!text.contains("aB3dE6"), "{text}");
    assert_eq!(lines[0]["method"], "_x/[redacted:github]");
    assert_eq!((&lines[0]["id"], &lines[0]["session"]), (&lines[1]["id"], &lines[1]["session"]));
    // Members whose names have become equal are all there.
    assert_eq!(lines[0]["says"]["x"]["[redacted:github] "], "x");
    assert_eq!(lines[0]["says"]["x"]["[redacted:github]"][0]["a [redacted:github]"], 2);
    assert_eq!(lines[2]["component"], "of [redacted:github]");
}

/// All other editors do not get them.
#[test]
fn an_editor_that_supports_log_messages_gets_them() {
    let script = r#"
        editor > {"id":1,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0"}}}}
        agent  < {"id":1,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0"}}}}
        agent  > {"method":"_scp/log","params":{"level":"info","message":"ready"}}
        editor < {"method":"_scp/log","params":{"level":"info","message":"ready"}}
    "#;
    assert_eq!(lines("scp", &[], script).len(), 2);
    let script = r#"
        editor > {"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"_proxy/log":true}}}}
        agent  < {"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"_proxy/log":true}}}}
        agent  > {"method":"_proxy/log","params":{"level":"warning","message":"a","component":"cache"}}
        editor < {"method":"_proxy/log","params":{"level":"warning","message":"a","component":"cache"}}
        agent  > {"method":"_scp/log","params":{"message":"b"}}
        editor < {"method":"_proxy/log","params":{"message":"b"}}
    "#;
    let lines = lines("wanted", &[], script);
    assert_eq!((&lines[1]["level"], &lines[1]["component"]), (&"warn".into(), &"cache".into()));
    assert_eq!(lines.len(), 3);
}
