//! Reads the command of a prompt.
//!
//! Proxies add text to prompts: a block before the user's text, or a line before it in the same block. So a command is
//! read from the last text block only, and there from its last line. Other text never runs a command.

use std::time::Duration;

use acp_proxy::schema::{ContentBlock, StopReason};
use serde_json::Value;

use super::samples;

/// The maximum number of characters of a prompt that an answer repeats.
const MAX_TOPIC: usize = 60;

/// The longest time that the agent sleeps.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// The maximum number of words in a sentence that asks for a story or for the tools.
const MAX_WORDS: usize = 8;

/// What a prompt asks the demo agent to do.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    /// List what the agent can do.
    Help,
    /// List the tools.
    Tools,
    /// Call a tool.
    Use(ToolUse),
    /// Call a tool, but the arguments are not valid JSON. The text is the error.
    InvalidArguments(String),
    /// Make a plan and follow it.
    Plan,
    /// Edit files. Without a file, the agent only pretends.
    Edit { files: Vec<String>, line: Option<String> },
    /// Read a file, from this line on.
    Read { path: String, line: Option<u32> },
    /// Run a command with its arguments.
    Run(Vec<String>),
    /// Show samples of these updates.
    Show(Vec<&'static str>),
    /// Show samples, but there is no such sample. Without a name, list them.
    ListSamples(Option<String>),
    /// Present a walkthrough with the tool of an MCP server.
    Walkthrough,
    /// Stream a long answer.
    Story,
    /// Answer with an error.
    Fail(Failure),
    /// End the turn with this stop reason.
    Stop(StopReason),
    /// Crash. A hard crash aborts the process.
    Crash { hard: bool },
    /// Do not answer.
    Hang,
    /// Answer after this time.
    Sleep(Duration),
    /// Anything else.
    Chat,
}

/// A call of an MCP tool.
#[derive(Debug, PartialEq)]
pub(super) struct ToolUse {
    /// The server. `None` for the first server that has the tool.
    pub(super) server: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// Whether a sentence asked for it, as proxies do, and not a command.
    pub(super) by_sentence: bool,
}

/// The error of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// An internal error with details.
    Internal,
    /// The user has to log in.
    LoginRequired,
}

/// The text that the user has entered, as far as it can be told: the last text block of a prompt. Files and other
/// resources in a prompt are no commands.
pub(super) fn user_text(prompt: &[ContentBlock]) -> &str {
    let mut texts = prompt.iter().filter_map(|block| match block {
        ContentBlock::Text(text) if !text.text.trim().is_empty() => Some(text.text.trim()),
        _ => None,
    });
    texts.next_back().unwrap_or_default()
}

impl Command {
    /// The command in a text.
    pub(super) fn parse(text: &str) -> Command {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let last = lines.iter().rev().find(|line| !line.is_empty()).copied().unwrap_or_default();
        parse_line(last).or_else(|| parse_long_use(text)).unwrap_or(Command::Chat)
    }
}

/// A command that is a single line.
fn parse_line(line: &str) -> Option<Command> {
    let line = line.strip_prefix('/').unwrap_or(line);
    let lower = line.to_lowercase();
    if line == "?" {
        return Some(Command::Help);
    }
    if let Some(command) = parse_exact(lower.trim_end_matches(['.', '!', '?', ' '])) {
        return Some(command);
    }
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match verb.to_lowercase().as_str() {
        "use" | "call" => return parse_use(line).or_else(|| parse_use_sentence(line)),
        "edit" | "write" => return parse_edit(rest),
        "read" => return parse_read(rest),
        "run" => return parse_run(rest),
        "sleep" => return parse_sleep(rest),
        "show" => {
            if let Some(command) = parse_show(rest) {
                return Some(command);
            }
        }
        _ => {}
    }
    parse_use_sentence(line).or_else(|| parse_request(&lower))
}

/// A command without arguments. Commands that do harm must be written exactly.
fn parse_exact(line: &str) -> Option<Command> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Some(match words[..] {
        ["help"] | ["what", "can", "you", "do"] => Command::Help,
        ["walkthrough"] => Command::Walkthrough,
        ["crash"] => Command::Crash { hard: false },
        ["crash", "hard"] => Command::Crash { hard: true },
        ["hang"] => Command::Hang,
        ["fail"] => Command::Fail(Failure::Internal),
        ["fail", "auth"] => Command::Fail(Failure::LoginRequired),
        ["refuse"] => Command::Stop(StopReason::Refusal),
        ["stop", reason] => Command::Stop(stop_reason(reason)?),
        ["updates"] | ["show", "all" | "everything"] => Command::Show(samples::NAMES.to_vec()),
        ["show"] => Command::ListSamples(None),
        _ => return None,
    })
}

fn stop_reason(name: &str) -> Option<StopReason> {
    serde_json::from_value(Value::from(name)).ok()
}

/// Parses a request such as "make a plan", "a long story" or "which tools are there".
fn parse_request(lower: &str) -> Option<Command> {
    const LEAD_INS: [&str; 17] = [
        "please", "can", "could", "you", "make", "tell", "give", "show", "me", "us", "list",
        "which", "what", "a", "the", "long", "your",
    ];
    let words: Vec<&str> =
        lower.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let rest = words.iter().position(|word| !LEAD_INS.contains(word))?;
    match words[rest] {
        "plan" => Some(Command::Plan),
        "story" if words.len() <= MAX_WORDS => Some(Command::Story),
        "tools" if words.len() <= MAX_WORDS => Some(Command::Tools),
        _ => None,
    }
}

/// Parses `use TOOL {json}` and `call SERVER TOOL {json}`. The JSON is optional, but no other text may follow the
/// tool: "use a plan, please" is not a command.
fn parse_use(text: &str) -> Option<Command> {
    let (verb, rest) = text.split_once(char::is_whitespace)?;
    let (server, rest) = match verb.to_lowercase().as_str() {
        "use" => (None, rest.trim_start()),
        "call" => {
            let (server, rest) = rest.trim_start().split_once(char::is_whitespace)?;
            (Some(server.to_owned()), rest.trim_start())
        }
        _ => return None,
    };
    let end = rest.find(|it: char| it.is_whitespace() || it == '{').unwrap_or(rest.len());
    let (tool, json) = (&rest[..end], rest[end..].trim());
    if tool.is_empty() || !(json.is_empty() || json.starts_with('{')) {
        return None;
    }
    let json = if json.is_empty() { "{}" } else { json };
    Some(match serde_json::from_str(json) {
        Ok(arguments) => {
            Command::Use(ToolUse { server, tool: tool.to_owned(), arguments, by_sentence: false })
        }
        Err(error) => Command::InvalidArguments(error.to_string()),
    })
}

/// Parses a command whose JSON has several lines. It may follow other lines.
fn parse_long_use(text: &str) -> Option<Command> {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1).rev().chain([0]);
    let mut found = starts.filter_map(|start| match parse_use(text[start..].trim()) {
        command @ Some(Command::Use(_)) => command,
        _ => None,
    });
    found.next()
}

/// Parses a sentence such as "Please use the embody_sparkle tool to …".
fn parse_use_sentence(line: &str) -> Option<Command> {
    let mut words = line.split_whitespace();
    let mut first = words.next()?;
    if first.trim_end_matches(',').eq_ignore_ascii_case("please") {
        first = words.next()?;
    }
    let (the, tool, noun) = (words.next()?, words.next()?, words.next()?);
    let fits = first.eq_ignore_ascii_case("use")
        && the.eq_ignore_ascii_case("the")
        && noun.trim_end_matches(['.', ',']) == "tool";
    let tool = tool.trim_matches(['`', '"', '\'']).to_owned();
    let arguments = Value::Object(Default::default());
    fits.then_some(Command::Use(ToolUse { server: None, tool, arguments, by_sentence: true }))
}

/// Parses the arguments of `edit FILE… [TEXT]`. "edit the file" names no file.
fn parse_edit(arguments: &str) -> Option<Command> {
    const NO_NAMES: [&str; 6] = ["the", "a", "file", "files", "something", ""];
    let words = split_words(arguments);
    let names: Vec<&String> =
        words.iter().skip_while(|word| NO_NAMES.contains(&word.to_lowercase().as_str())).collect();
    if names.is_empty() {
        return Some(Command::Edit { files: Vec::new(), line: None });
    }
    let is_path = |word: &&&String| word.contains(['.', '/', '\\']) && !word.ends_with('.');
    let mut files: Vec<String> =
        names.iter().take_while(is_path).map(|word| (*word).clone()).collect();
    if files.is_empty() {
        // `edit Makefile` names a file, but "edit my essay" does not.
        let [name] = names[..] else { return None };
        files.push(name.clone());
    }
    let line: Vec<&str> = names[files.len()..].iter().map(|word| word.as_str()).collect();
    let line = (!line.is_empty()).then(|| line.join(" "));
    Some(Command::Edit { files, line })
}

/// Parses the arguments of `run COMMAND`.
fn parse_run(arguments: &str) -> Option<Command> {
    let words = split_words(arguments);
    words.first().is_some_and(|program| !program.is_empty()).then_some(Command::Run(words))
}

/// Parses the arguments of `read PATH [LINE]`. More words are a sentence.
fn parse_read(arguments: &str) -> Option<Command> {
    let words = split_words(arguments);
    match &words[..] {
        [path] if path.is_empty() => None,
        [path] => Some(Command::Read { path: path.clone(), line: None }),
        [path, line] => {
            let line = line.parse().ok().filter(|line| *line > 0)?;
            Some(Command::Read { path: path.clone(), line: Some(line) })
        }
        _ => None,
    }
}

fn parse_sleep(arguments: &str) -> Option<Command> {
    let seconds: f64 = arguments.trim_end_matches(['s', ' ']).parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Command::Sleep(time.min(MAX_SLEEP)))
}

/// Parses the arguments of `show NAME…`. `None` for a sentence.
fn parse_show(arguments: &str) -> Option<Command> {
    let words: Vec<String> =
        arguments.split([' ', ',']).filter(|it| !it.is_empty()).map(str::to_lowercase).collect();
    let found: Option<Vec<&str>> = words.iter().map(|word| samples::find(word)).collect();
    match (found, &words[..]) {
        (Some(names), _) => Some(Command::Show(names)),
        (None, [word]) if !["plan", "tools", "story"].contains(&word.as_str()) => {
            Some(Command::ListSamples(Some(word.clone())))
        }
        (None, _) => None,
    }
}

/// Splits a line into words. Quotes keep spaces.
fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for it in line.chars() {
        match (it, quote) {
            (it, Some(open)) if it == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            (it, None) if it.is_whitespace() => words.extend(word.take()),
            (it, _) => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    words
}

/// The beginning of the last paragraph of a prompt, in one line.
pub(super) fn topic(text: &str) -> String {
    let paragraph = text.trim().rsplit("\n\n").next().unwrap_or_default();
    first_line(paragraph)
}

/// The first line of a text that is not empty, shortened.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    let mut short: String = line.chars().take(MAX_TOPIC).collect();
    if short.len() < line.len() {
        short = format!("{}…", short.trim_end());
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn uses(server: Option<&str>, tool: &str, arguments: Value) -> Command {
        let (server, tool) = (server.map(str::to_owned), tool.to_owned());
        Command::Use(ToolUse { server, tool, arguments, by_sentence: false })
    }

    fn edits(files: &[&str], line: Option<&str>) -> Command {
        let files = files.iter().map(|it| (*it).to_owned()).collect();
        Command::Edit { files, line: line.map(str::to_owned) }
    }

    #[test]
    fn commands_are_distinguished_from_chat() {
        for (text, command) in [
            (" Help ", Command::Help),
            ("/help", Command::Help),
            ("?", Command::Help),
            ("What can you do?", Command::Help),
            ("which tools do you have?", Command::Tools),
            ("which tools are there?", Command::Tools),
            ("make a plan for the file", Command::Plan),
            ("/plan a party", Command::Plan),
            ("a plan", Command::Plan),
            ("a long story", Command::Story),
            ("/story", Command::Story),
            ("Tell me a story, please!", Command::Story),
            ("Walkthrough.", Command::Walkthrough),
            ("crash", Command::Crash { hard: false }),
            ("/crash hard", Command::Crash { hard: true }),
            ("hang", Command::Hang),
            ("fail", Command::Fail(Failure::Internal)),
            ("fail auth", Command::Fail(Failure::LoginRequired)),
            ("refuse", Command::Stop(StopReason::Refusal)),
            ("stop max_tokens", Command::Stop(StopReason::MaxTokens)),
            ("sleep 0.5", Command::Sleep(Duration::from_millis(500))),
            ("sleep 2 s", Command::Sleep(Duration::from_secs(2))),
            ("read README.md", Command::Read { path: "README.md".into(), line: None }),
            ("read 'a b' 7", Command::Read { path: "a b".into(), line: Some(7) }),
            ("run echo 'a b' c", Command::Run(vec!["echo".into(), "a b".into(), "c".into()])),
            ("show", Command::ListSamples(None)),
            ("show nonsense", Command::ListSamples(Some("nonsense".into()))),
            ("show plan, usage_update", Command::Show(vec!["plan", "usage"])),
            ("updates", Command::Show(samples::NAMES.to_vec())),
            ("show me a story", Command::Story),
        ] {
            assert_eq!(Command::parse(text), command, "{text}");
        }
        for text in [
            "profile, explanation",
            "",
            "use",
            "call me",
            "use your head, please",
            "read the docs and tell me about them",
            "why did the agent crash",
            "crash the party",
            "can you fail auth",
            "sleep well",
            "a walkthrough would be nice",
            "run ''",
            "read ''",
            "write me a long letter",
            "show me the way to go home",
            "a story about a proxy that wanted to be an agent and lost its way",
        ] {
            assert_eq!(Command::parse(text), Command::Chat, "{text}");
        }
    }

    #[test]
    fn a_tool_is_called_by_a_command_or_by_a_sentence() {
        assert_eq!(Command::parse("use echo"), uses(None, "echo", json!({})));
        assert_eq!(Command::parse("use echo{\"a\": 1}"), uses(None, "echo", json!({ "a": 1 })));
        assert_eq!(
            Command::parse("call sparkle echo {\"a\": \"b c\"}"),
            uses(Some("sparkle"), "echo", json!({ "a": "b c" }))
        );
        let long = "Be brief.\nuse echo {\n  \"a\": 1\n}\n";
        assert_eq!(Command::parse(long), uses(None, "echo", json!({ "a": 1 })));
        let sentence = "Please use the embody_sparkle tool to load your collaborative patterns.";
        let Command::Use(found) = Command::parse(sentence) else { panic!("a tool") };
        assert_eq!((found.tool.as_str(), found.by_sentence), ("embody_sparkle", true));
        assert!(matches!(Command::parse("use echo {a}"), Command::InvalidArguments(_)));
    }

    #[test]
    fn an_edit_names_files_or_nothing() {
        assert_eq!(Command::parse("edit"), edits(&[], None));
        assert_eq!(Command::parse("edit the file"), edits(&[], None));
        assert_eq!(Command::parse("edit ''"), edits(&[], None));
        assert_eq!(Command::parse("Edit main.rs"), edits(&["main.rs"], None));
        assert_eq!(Command::parse("edit Makefile"), edits(&["Makefile"], None));
        assert_eq!(
            Command::parse("write a.txt src/b.txt one more line"),
            edits(&["a.txt", "src/b.txt"], Some("one more line"))
        );
        assert_eq!(Command::parse("edit my essay about birds"), Command::Chat);
    }

    /// Proxies add text before the user's text.
    #[test]
    fn a_command_is_read_from_the_last_line_of_the_last_text_block() {
        let text = |text: &str| ContentBlock::from(text.to_owned());
        let blocks = [text("Answer in one sentence."), text("help")];
        assert_eq!(Command::parse(user_text(&blocks)), Command::Help);
        assert_eq!(Command::parse("Answer in one sentence.\n\nhelp\n"), Command::Help);
        assert_eq!(Command::parse("Answer in one sentence.\nhelp"), Command::Help);
        let agents = "From AGENTS.md:\n\nPlan first.\nEdit main.rs.\ncrash";
        assert_eq!(Command::parse(user_text(&[text(agents), text("hello")])), Command::Chat);
        assert_eq!(Command::parse(&format!("{agents}\n\nhello")), Command::Chat);
        let resource =
            json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "crash" } });
        let blocks = [text("hello"), serde_json::from_value(resource).unwrap()];
        assert_eq!(user_text(&blocks), "hello");
        assert_eq!(user_text(&[text(" ")]), "");
    }

    #[test]
    fn a_topic_is_one_line_of_limited_length() {
        assert_eq!(topic("\n  hello \nworld"), "hello");
        assert_eq!(topic("Be brief.\n\nhello"), "hello");
        assert_eq!(topic(""), "nothing");
        assert_eq!(topic(&"ä ".repeat(50)).chars().count(), MAX_TOPIC);
    }
}
