//! Turns messages of ACP into entries of the page.

use std::path::Path;

use acp_wire::printable::one_line;
use serde_json::{Value, json};
use web::project::Project;
use web::protocol::{Attachment, Block, Command, FileDiff, Place, Select, SelectValue, Step, Tool};

use client::settings::{Kind, Setting};
use client::terminals::{quoted_words, with_variables};

/// The longest text of one content of a tool call, in bytes. The rest is left out.
const MAX_TEXT: usize = 256 * 1024;
/// The most commands, contents, places or steps that are shown.
const MAX_ITEMS: usize = 500;
/// The largest file that is embedded in a prompt. Larger ones are only named.
const MAX_EMBEDDED: u64 = 256 * 1024;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MAX_ITEMS)
}

fn text(value: &Value) -> String {
    shorten(value.as_str().unwrap_or_default())
}

/// A text of at most [`MAX_TEXT`] bytes.
fn shorten(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n… {} more bytes", &text[..end], text.len() - end)
}

/// A content block.
pub fn block(content: &Value) -> Block {
    match content["type"].as_str() {
        Some("text") => Block::Text { text: text(&content["text"]) },
        Some("image") => Block::Image {
            mime: text(&content["mimeType"]),
            data: content["data"].as_str().unwrap_or_default().to_owned(),
        },
        Some("resource") => {
            let resource = &content["resource"];
            let uri = text(&resource["uri"]);
            let name = uri.rsplit('/').next().unwrap_or(&uri).to_owned();
            Block::Resource { uri, name, text: resource["text"].as_str().map(shorten) }
        }
        Some("resource_link") => {
            Block::Resource { uri: text(&content["uri"]), name: text(&content["name"]), text: None }
        }
        other => Block::Other {
            about: match content["mimeType"].as_str() {
                Some(mime) => format!("{} ({mime})", other.unwrap_or("content")),
                None => other.unwrap_or("content").to_owned(),
            },
        },
    }
}

/// The name of an attachment of a message that the agent repeats.
pub fn name(content: &Value) -> String {
    let last = |uri: &Value| {
        let uri = uri.as_str().unwrap_or_default();
        uri.rsplit('/').next().unwrap_or(uri).to_owned()
    };
    let name = match content["type"].as_str() {
        Some("resource") => last(&content["resource"]["uri"]),
        Some("resource_link") => match content["name"].as_str() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => last(&content["uri"]),
        },
        _ => last(&content["uri"]),
    };
    match one_line(&name) {
        name if name.is_empty() => content["type"].as_str().unwrap_or("content").to_owned(),
        name => name,
    }
}

/// A tool call with everything that is known about it. The times are those of the entry.
pub fn tool(call: &Value, project: &Project, time: u64, ms: Option<u64>) -> Tool {
    let shown = |path: &Value| project.shown(Path::new(path.as_str().unwrap_or_default()));
    let mut tool = Tool {
        title: one_line(call["title"].as_str().unwrap_or("Tool call")),
        tool: call["kind"].as_str().unwrap_or("other").to_owned(),
        status: call["status"].as_str().unwrap_or("pending").to_owned(),
        time,
        ms,
        input: limited(&call["rawInput"]),
        output: limited(&call["rawOutput"]),
        ..Tool::default()
    };
    for content in list(&call["content"]) {
        match content["type"].as_str() {
            Some("diff") => tool.diffs.push(FileDiff {
                path: shown(&content["path"]),
                old: content["oldText"].as_str().map(shorten),
                new: text(&content["newText"]),
            }),
            Some("terminal") => tool.terminals.push(text(&content["terminalId"])),
            _ => tool.blocks.push(block(&content["content"])),
        }
    }
    tool.places = list(&call["locations"])
        .map(|it| Place { path: shown(&it["path"]), line: it["line"].as_u64() })
        .collect();
    tool
}

/// A value that is not too long to show.
fn limited(value: &Value) -> Value {
    let length = serde_json::to_vec(value).map_or(0, |it| it.len());
    match length <= MAX_TEXT {
        true => value.clone(),
        false => json!(shorten(&value.to_string())),
    }
}

/// The command line that a tool call would run, quoted for a shell, if it is known.
pub fn command_line(call: &Value) -> Option<String> {
    let input = &call["rawInput"];
    let command = ["command", "cmd", "script"].into_iter().map(|name| &input[name]);
    let command = command.into_iter().find(|it| it.is_string() || it.is_array())?;
    let word = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let words = |list: &Value| list.as_array().into_iter().flatten().map(word).collect::<Vec<_>>();
    let arguments = words(&input["args"]);
    let (line, is_line) = match command {
        Value::String(line) if arguments.is_empty() => (line.clone(), true),
        _ => {
            let first = command.as_str().map(str::to_owned);
            let all: Vec<String> =
                first.into_iter().chain(words(command)).chain(arguments).collect();
            (quoted_words(all.iter().map(String::as_str)), false)
        }
    };
    let variables = variables(&input["env"]);
    Some(with_variables(&variables, &line, is_line)).filter(|_| !line.is_empty())
}

/// Environment variables: an object, or a list of `name` and `value`.
fn variables(env: &Value) -> Vec<(String, String)> {
    let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    match env {
        Value::Object(members) => {
            let all = members.iter().map(|(name, value)| (name.clone(), text(value)));
            all.collect::<std::collections::BTreeMap<_, _>>().into_iter().collect()
        }
        _ => list(env)
            .filter_map(|it| Some((it["name"].as_str()?.to_owned(), text(&it["value"]))))
            .collect(),
    }
}

/// The folder in which a tool call would run its command, if that is known and is not the folder of the project.
pub fn command_folder(call: &Value, project: &Project) -> Option<String> {
    let input = &call["rawInput"];
    let names = ["cwd", "workdir", "working_directory", "workingDirectory"];
    let folder = names.into_iter().find_map(|name| input[name].as_str())?;
    other_folder(folder, project)
}

/// A folder as the page shows it, if it is not the folder of the project.
pub fn other_folder(folder: &str, project: &Project) -> Option<String> {
    let is_same = ["", ".", "./"].contains(&folder) || Path::new(folder) == project.folder();
    (!is_same).then(|| project.shown(Path::new(folder)))
}

/// The steps of a plan.
pub fn steps(entries: &Value) -> Vec<Step> {
    let step = |it: &Value| Step {
        text: one_line(it["content"].as_str().unwrap_or_default()),
        status: it["status"].as_str().unwrap_or("pending").to_owned(),
        priority: it["priority"].as_str().unwrap_or("medium").to_owned(),
    };
    list(entries).map(step).collect()
}

/// The commands of the agent.
pub fn commands(commands: &Value) -> Vec<Command> {
    let line = |value: &Value| one_line(value.as_str().unwrap_or_default().trim());
    let command = |it: &Value| Command {
        name: line(&it["name"]).trim_start_matches('/').to_owned(),
        about: line(&it["description"]),
        hint: line(&it["input"]["hint"]),
    };
    list(commands).map(command).filter(|it| !it.name.is_empty()).collect()
}

/// The id of a setting on the page.
pub fn select_id(setting: &Setting) -> String {
    match (setting.kind, setting.category.as_str()) {
        (Kind::Mode, _) | (Kind::Option, "mode") => "mode".to_owned(),
        (Kind::Model, _) | (Kind::Option, "model") => "model".to_owned(),
        (Kind::Option, _) => format!("option:{}", setting.id),
    }
}

/// The id of a value of a setting on the page.
pub fn value_id(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A setting as the page shows it.
pub fn select(setting: &Setting) -> Select {
    let name = match setting.name.as_str() {
        "" => setting.id.clone(),
        "mode" => "Mode".to_owned(),
        "model" => "Model".to_owned(),
        name => name.to_owned(),
    };
    let value = |it: &client::settings::SettingValue| SelectValue {
        id: value_id(&it.value),
        name: if it.name.is_empty() { value_id(&it.value) } else { it.name.clone() },
        about: it.description.clone(),
    };
    Select {
        id: select_id(setting),
        name,
        current: value_id(&setting.current),
        values: setting.values.iter().map(value).collect(),
    }
}

/// How much of the context is used.
pub fn usage(update: &Value) -> Option<String> {
    let (used, size) = (update["used"].as_u64()?, update["size"].as_u64().filter(|it| *it > 0)?);
    let percent = used.saturating_mul(100) / size;
    Some(format!("{} of {} tokens ({percent} %)", grouped(used), grouped(size)))
}

/// A number with separators: `12,400`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A prompt as content blocks, and the names of what is attached.
///
/// # Errors
/// A file cannot be read, or the agent does not accept images.
pub fn prompt(
    text: &str,
    attachments: &[Attachment],
    project: &Project,
    capabilities: &Value,
) -> Result<(Vec<Value>, Vec<String>), String> {
    let embeds = capabilities["embeddedContext"] == true;
    let mut blocks = Vec::new();
    let mut names = Vec::new();
    if !text.is_empty() {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    for attachment in attachments {
        match attachment {
            Attachment::File { path } => {
                let file = project.locate(path)?;
                let uri = project.url(&file);
                let name = project.shown(&file);
                let Ok(metadata) = file.metadata() else {
                    return Err(format!("the file {path} does not exist"));
                };
                let is_small = metadata.is_file() && metadata.len() <= MAX_EMBEDDED;
                let content = match embeds && is_small {
                    true => client::files::read_text(&file, None, None).ok(),
                    false => None,
                };
                blocks.push(match content {
                    Some(content) => {
                        json!({ "type": "resource", "resource": { "uri": uri, "text": content } })
                    }
                    None => json!({ "type": "resource_link", "uri": uri, "name": name }),
                });
                names.push(name);
            }
            Attachment::Image { name, mime, data } => {
                if capabilities["image"] != true {
                    return Err(format!("the agent does not accept images; remove {name}"));
                }
                blocks.push(json!({ "type": "image", "mimeType": mime, "data": data }));
                names.push(name.clone());
            }
            Attachment::Text { name, text } => {
                blocks.push(match embeds {
                    true => {
                        let uri = format!("attachment:{name}");
                        json!({ "type": "resource", "resource": { "uri": uri, "text": text } })
                    }
                    false => json!({ "type": "text", "text": format!("{name}:\n\n{text}") }),
                });
                names.push(name.clone());
            }
        }
    }
    match blocks.is_empty() {
        true => Err("write a message, or attach a file".to_owned()),
        false => Ok((blocks, names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_has_its_contents_in_their_places() {
        let project = Project::new(Path::new("/"));
        let call = json!({ "title": "Edit\n", "kind": "edit", "status": "completed",
            "content": [
                { "type": "content", "content": { "type": "text", "text": "t" } },
                { "type": "diff", "path": "/x/a", "oldText": null, "newText": "n" },
                { "type": "terminal", "terminalId": "terminal-1" },
                { "type": "content", "content": { "type": "audio", "mimeType": "audio/wav" } },
            ],
            "locations": [{ "path": "/x/a", "line": 3 }], "rawInput": { "command": ["ls", "-l"] } });
        let tool = tool(&call, &project, 1, Some(2));
        assert_eq!((tool.blocks.len(), tool.diffs.len(), tool.terminals.len()), (2, 1, 1));
        assert_eq!(tool.diffs[0].old, None);
        assert_eq!(tool.places, [Place { path: "x/a".to_owned(), line: Some(3) }]);
        assert_eq!(command_line(&call).as_deref(), Some("ls -l"));
        let line = |input: Value| command_line(&json!({ "rawInput": input }));
        assert_eq!(
            line(json!({ "command": ["sh", "-c", "rm -r x; ls"] })).as_deref(),
            Some("sh -c 'rm -r x; ls'")
        );
        assert_eq!(
            line(json!({ "command": "rm", "args": ["a b"], "env": { "A": "1" } })).as_deref(),
            Some("A=1 rm 'a b'")
        );
        assert_eq!(line(json!({ "command": "a && b" })).as_deref(), Some("a && b"));
        assert_eq!(line(json!({ "command": "" })), None);
        let folder = |cwd: &str| command_folder(&json!({ "rawInput": { "cwd": cwd } }), &project);
        assert_eq!(
            (folder("/"), folder("."), folder("/etc").as_deref()),
            (None, None, Some("etc"))
        );
        assert_eq!(tool.blocks[1], Block::Other { about: "audio (audio/wav)".to_owned() });
    }

    #[test]
    fn a_prompt_has_what_the_agent_accepts() {
        let folder = std::env::temp_dir().join(format!("studio-prompt-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("created");
        std::fs::write(folder.join("a.rs"), "fn a() {}").expect("written");
        let project = Project::new(&folder);
        let file = [Attachment::File { path: "a.rs".to_owned() }];
        let (blocks, names) = prompt("t", &file, &project, &json!({})).expect("valid");
        assert_eq!(
            (blocks[1]["type"].as_str(), names),
            (Some("resource_link"), vec!["a.rs".to_owned()])
        );
        let embeds = json!({ "embeddedContext": true });
        let (blocks, _) = prompt("", &file, &project, &embeds).expect("valid");
        assert_eq!(blocks[0]["resource"]["text"], "fn a() {}");
        let image =
            Attachment::Image { name: "i".into(), mime: "image/png".into(), data: String::new() };
        assert!(prompt("", &[image], &project, &embeds).expect_err("refused").contains("images"));
        for path in ["../x", "missing"] {
            let file = [Attachment::File { path: path.to_owned() }];
            assert!(prompt("t", &file, &project, &embeds).is_err(), "{path}");
        }
        assert!(prompt("", &[], &project, &embeds).is_err());
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn usage_is_shown_with_separators() {
        let update = json!({ "used": 12_400, "size": 200_000 });
        assert_eq!(usage(&update).as_deref(), Some("12,400 of 200,000 tokens (6 %)"));
        assert_eq!(usage(&json!({ "used": 1, "size": 0 })), None);
    }
}
