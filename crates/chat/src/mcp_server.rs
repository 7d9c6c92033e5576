//! The MCP servers of a session, as the user writes them.

use std::path::Path;

use serde_json::{Value, json};

/// Parses an MCP server: a JSON object as in ACP, `NAME=URL`, or `NAME=COMMAND LINE`. Returns the declaration of ACP
/// version 1.
///
/// # Errors
/// What is wrong. The error does not repeat the text, which may contain a secret.
pub fn parse(text: &str) -> Result<Value, String> {
    if text.trim_start().starts_with('{') {
        let server =
            serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?;
        return complete(server);
    }
    let (name, rest) = text
        .split_once('=')
        .filter(|(name, rest)| !name.trim().is_empty() && !rest.trim().is_empty())
        .ok_or("write NAME=COMMAND, NAME=URL or a JSON object")?;
    let (name, rest) = (name.trim(), rest.trim());
    if rest.starts_with("http://") || rest.starts_with("https://") {
        return Ok(json!({ "type": "http", "name": name, "url": rest, "headers": [] }));
    }
    let mut words = shell_words::split(rest).map_err(|error| error.to_string())?.into_iter();
    let mut env = Vec::new();
    for word in words.by_ref() {
        match word.split_once('=') {
            Some((variable, value)) if is_variable(variable) => {
                env.push(json!({ "name": variable, "value": value }));
            }
            _ => {
                let args: Vec<String> = words.collect();
                return Ok(json!({
                    "name": name, "command": find_program(&word), "args": args, "env": env,
                }));
            }
        }
    }
    Err("the command is missing".to_owned())
}

fn is_variable(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && characters.all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Adds the members that ACP requires.
fn complete(mut server: Value) -> Result<Value, String> {
    if server["name"].as_str().is_none_or(str::is_empty) {
        return Err("the member \"name\" is missing".to_owned());
    }
    match (server["command"].as_str(), server["url"].is_string(), server["type"].as_str()) {
        (Some(command), _, _) => {
            server["command"] = find_program(command).into();
            if server["args"].is_null() {
                server["args"] = json!([]);
            }
            let is_list =
                server["args"].as_array().is_some_and(|it| it.iter().all(Value::is_string));
            if !is_list {
                return Err(
                    "\"args\" must be a list of texts, as in [\"--root\", \"/\"]".to_owned()
                );
            }
            server["env"] = environment(server["env"].take())?;
        }
        (None, true, kind) => {
            if kind.is_none() {
                server["type"] = "http".into();
            }
            if server["headers"].is_null() {
                server["headers"] = json!([]);
            }
        }
        (None, false, Some("acp")) => {}
        (None, false, _) => {
            return Err("the member \"command\" or \"url\" is missing".to_owned());
        }
    }
    Ok(server)
}

/// The environment variables as ACP declares them: a list of names and values. An object is accepted, too.
fn environment(env: Value) -> Result<Value, String> {
    let variables: Value = match env {
        Value::Null => json!([]),
        Value::Object(env) => {
            env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
        }
        other => other,
    };
    let is_pair = |it: &Value| it["name"].is_string() && it["value"].is_string();
    match variables.as_array().is_some_and(|it| it.iter().all(is_pair)) {
        true => Ok(variables),
        false => Err("\"env\" must be an object of texts, as in {\"NAME\": \"value\"}".to_owned()),
    }
}

/// The absolute path of a program, as ACP requires it. The name itself if the program is not found.
fn find_program(program: &str) -> String {
    if Path::new(program).components().count() > 1 {
        let absolute = std::path::absolute(program).ok().filter(|it| it.exists());
        return absolute.map_or(program.to_owned(), |it| it.display().to_string());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found
        .into_iter()
        .find(|it| it.is_file())
        .map_or(program.to_owned(), |it| it.display().to_string())
}

/// The declaration in a version of ACP.
pub(crate) fn for_version(server: &Value, version: u64) -> Value {
    let mut server = server.clone();
    if version >= 2 && server["command"].is_string() && server["type"].is_null() {
        server["type"] = "stdio".into();
    } else if version < 2 && server["type"] == "stdio" {
        server.as_object_mut().map(|it| it.remove("type"));
    }
    server
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_command_line_a_url_or_json() {
        let server = parse("files=A=b /bin/mcp --root 'a b'").expect("valid");
        assert_eq!(
            server,
            json!({ "name": "files", "command": "/bin/mcp", "args": ["--root", "a b"],
            "env": [{ "name": "A", "value": "b" }] })
        );
        let server = parse("web=http://127.0.0.1:1/mcp?a=b").expect("valid");
        assert_eq!(
            (&server["type"], &server["url"]),
            (&json!("http"), &json!("http://127.0.0.1:1/mcp?a=b"))
        );
        let server = parse(r#"{"name":"x","command":"/x","env":{"A":"b"}}"#).expect("valid");
        assert_eq!(
            server,
            json!({ "name": "x", "command": "/x", "args": [], "env": [{ "name": "A", "value": "b" }] })
        );
        let server = parse(r#"{"name":"x","url":"https://x"}"#).expect("valid");
        assert_eq!(
            server,
            json!({ "name": "x", "type": "http", "url": "https://x", "headers": [] })
        );
        for invalid in
            ["", "x", "=x", "x=", "x=A=b", "x='", "{", r#"{"name":"x"}"#, r#"{"command":"x"}"#]
        {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
        for (member, value) in
            [("args", "\"a\""), ("args", "[5]"), ("env", "[\"A=b\"]"), ("env", "{\"A\":5}")]
        {
            let server = format!(r#"{{"name":"x","command":"/x","{member}":{value}}}"#);
            let error = parse(&server).expect_err("a wrong type");
            assert!(error.contains(member), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_program_is_found_in_the_path() {
        assert!(
            parse("x=sh -c x").expect("valid")["command"]
                .as_str()
                .expect("a text")
                .starts_with('/')
        );
        assert_eq!(parse("x=/no/such").expect("valid")["command"], "/no/such");
    }

    #[test]
    fn each_version_has_its_own_form_of_a_command() {
        let server = parse("x=/bin/mcp").expect("valid");
        assert_eq!(for_version(&server, 1), server);
        assert_eq!(for_version(&server, 2)["type"], "stdio");
        assert_eq!(for_version(&for_version(&server, 2), 1), server);
    }
}
