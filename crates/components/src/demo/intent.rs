//! Parses a prompt into an [`Intent`].

use serde_json::Value;

/// The maximum number of characters of a prompt that an answer repeats.
const MAX_TOPIC: usize = 60;

/// What a prompt asks the demo agent to do.
#[derive(Debug, PartialEq)]
pub(super) enum Intent {
    /// List what the agent can do.
    Help,
    /// List the tools.
    Tools,
    /// Call a tool. Without a server, the first server that has the tool.
    Use { server: Option<String>, tool: String, arguments: Value },
    /// Call a tool, but the arguments are not valid JSON. The text is the error.
    InvalidArguments(String),
    /// Show a plan.
    Plan,
    /// Pretend to edit a file.
    Edit,
    /// Stream a long answer.
    Story,
    /// Anything else.
    Chat,
}

impl Intent {
    pub(super) fn parse(text: &str) -> Intent {
        let text = text.trim();
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split(|it: char| !it.is_alphanumeric()).collect();
        let mentions = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
        if matches!(lower.trim_start_matches('/'), "help" | "?") {
            return Intent::Help;
        }
        if let Some(intent) = Intent::parse_command(text).or_else(|| Intent::parse_sentence(text)) {
            return intent;
        }
        if mentions(&["tools"]) {
            Intent::Tools
        } else if mentions(&["plan"]) {
            Intent::Plan
        } else if mentions(&["edit", "write", "file"]) {
            Intent::Edit
        } else if mentions(&["story", "long"]) {
            Intent::Story
        } else {
            Intent::Chat
        }
    }

    /// Parses `use TOOL {json}` and `call SERVER TOOL {json}`. The JSON is optional, but no other text may follow the
    /// tool: "use a plan, please" is not a command.
    fn parse_command(text: &str) -> Option<Intent> {
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
            Ok(arguments) => Intent::Use { server, tool: tool.to_owned(), arguments },
            Err(error) => Intent::InvalidArguments(error.to_string()),
        })
    }

    /// Parses a sentence such as "Please use the embody_sparkle tool to …".
    fn parse_sentence(text: &str) -> Option<Intent> {
        let mut words =
            text.split_whitespace().skip_while(|word| !word.eq_ignore_ascii_case("use"));
        let (_, the, tool, noun) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let fits = the.eq_ignore_ascii_case("the") && noun.trim_end_matches(['.', ',']) == "tool";
        let tool = tool.trim_matches(['`', '"', '\'']).to_owned();
        fits.then(|| Intent::Use {
            server: None,
            tool,
            arguments: Value::Object(Default::default()),
        })
    }
}

/// The beginning of a prompt, in one line.
pub(super) fn topic(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    let mut topic: String = line.chars().take(MAX_TOPIC).collect();
    if topic.len() < line.len() {
        topic = format!("{}…", topic.trim_end());
    }
    topic
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn uses(server: Option<&str>, tool: &str, arguments: Value) -> Intent {
        Intent::Use { server: server.map(str::to_owned), tool: tool.to_owned(), arguments }
    }

    #[test]
    fn commands_are_distinguished_from_chat() {
        assert_eq!(Intent::parse(" Help "), Intent::Help);
        assert_eq!(Intent::parse("which tools do you have?"), Intent::Tools);
        assert_eq!(Intent::parse("make a plan for the file"), Intent::Plan);
        assert_eq!(Intent::parse("Edit main.rs"), Intent::Edit);
        assert_eq!(Intent::parse("a long story"), Intent::Story);
        assert_eq!(Intent::parse("profile, explanation"), Intent::Chat);
        assert_eq!(Intent::parse(""), Intent::Chat);
        assert_eq!(Intent::parse("use"), Intent::Chat);
        assert_eq!(Intent::parse("call me"), Intent::Chat);
        assert_eq!(Intent::parse("use your head, please"), Intent::Chat);
    }

    #[test]
    fn a_tool_is_called_by_a_command_or_by_a_sentence() {
        assert_eq!(Intent::parse("use echo"), uses(None, "echo", json!({})));
        assert_eq!(Intent::parse("use echo{\"a\": 1}"), uses(None, "echo", json!({ "a": 1 })));
        assert_eq!(
            Intent::parse("call sparkle echo {\"a\": \"b c\"}"),
            uses(Some("sparkle"), "echo", json!({ "a": "b c" }))
        );
        let sentence = "Please use the embody_sparkle tool to load your collaborative patterns.";
        assert_eq!(Intent::parse(sentence), uses(None, "embody_sparkle", json!({})));
        assert!(matches!(Intent::parse("use echo {a}"), Intent::InvalidArguments(_)));
    }

    #[test]
    fn a_topic_is_one_line_of_limited_length() {
        assert_eq!(topic("\n  hello \nworld"), "hello");
        assert_eq!(topic(""), "nothing");
        assert_eq!(topic(&"ä ".repeat(50)).chars().count(), MAX_TOPIC);
    }
}
