//! What a prompt asks of the demo agent.

use serde_json::Value;

/// How much of a prompt is repeated in an answer.
const TOPIC: usize = 60;

#[derive(Debug, PartialEq)]
pub enum Wish {
    Help,
    /// Which tools are there?
    Tools,
    /// Use a tool; of any server that has it, where none is named.
    Use {
        server: Option<String>,
        tool: String,
        arguments: Value,
    },
    /// The same, with arguments that cannot be read.
    Unreadable(String),
    Plan,
    Edit,
    /// Something that takes a while.
    Story,
    Talk,
}

impl Wish {
    pub fn read(text: &str) -> Wish {
        let text = text.trim();
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split(|it: char| !it.is_alphanumeric()).collect();
        let says = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
        if matches!(lower.trim_start_matches('/'), "help" | "?") {
            return Wish::Help;
        }
        if let Some(wish) = Wish::command(text).or_else(|| Wish::sentence(text)) {
            return wish;
        }
        if says(&["tools"]) {
            Wish::Tools
        } else if says(&["plan"]) {
            Wish::Plan
        } else if says(&["edit", "write", "file"]) {
            Wish::Edit
        } else if says(&["story", "long"]) {
            Wish::Story
        } else {
            Wish::Talk
        }
    }

    /// `use TOOL {json}`, `call SERVER TOOL {json}`; without the JSON if nothing else follows, so that
    /// "use a plan, please" is talk.
    fn command(text: &str) -> Option<Wish> {
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
            Ok(arguments) => Wish::Use { server, tool: tool.to_owned(), arguments },
            Err(error) => Wish::Unreadable(error.to_string()),
        })
    }

    /// "Please use the embody_sparkle tool to …"
    fn sentence(text: &str) -> Option<Wish> {
        let mut words =
            text.split_whitespace().skip_while(|word| !word.eq_ignore_ascii_case("use"));
        let (_, the, tool, noun) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let fits = the.eq_ignore_ascii_case("the") && noun.trim_end_matches(['.', ',']) == "tool";
        let tool = tool.trim_matches(['`', '"', '\'']).to_owned();
        fits.then(|| Wish::Use { server: None, tool, arguments: Value::Object(Default::default()) })
    }
}

/// What a prompt is about: its beginning, in one line.
pub fn topic(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    let mut topic: String = line.chars().take(TOPIC).collect();
    if topic.len() < line.len() {
        topic = format!("{}…", topic.trim_end());
    }
    topic
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn uses(server: Option<&str>, tool: &str, arguments: Value) -> Wish {
        Wish::Use { server: server.map(str::to_owned), tool: tool.to_owned(), arguments }
    }

    #[test]
    fn commands_are_told_from_talk() {
        assert_eq!(Wish::read(" Help "), Wish::Help);
        assert_eq!(Wish::read("which tools do you have?"), Wish::Tools);
        assert_eq!(Wish::read("make a plan for the file"), Wish::Plan);
        assert_eq!(Wish::read("Edit main.rs"), Wish::Edit);
        assert_eq!(Wish::read("a long story"), Wish::Story);
        assert_eq!(Wish::read("profile, explanation"), Wish::Talk);
        assert_eq!(Wish::read(""), Wish::Talk);
        assert_eq!(Wish::read("use"), Wish::Talk);
        assert_eq!(Wish::read("call me"), Wish::Talk);
        assert_eq!(Wish::read("use your head, please"), Wish::Talk);
    }

    #[test]
    fn tools_are_called_by_command_or_sentence() {
        assert_eq!(Wish::read("use echo"), uses(None, "echo", json!({})));
        assert_eq!(Wish::read("use echo{\"a\": 1}"), uses(None, "echo", json!({ "a": 1 })));
        assert_eq!(
            Wish::read("call sparkle echo {\"a\": \"b c\"}"),
            uses(Some("sparkle"), "echo", json!({ "a": "b c" }))
        );
        let sentence = "Please use the embody_sparkle tool to load your collaborative patterns.";
        assert_eq!(Wish::read(sentence), uses(None, "embody_sparkle", json!({})));
        assert!(matches!(Wish::read("use echo {a}"), Wish::Unreadable(_)));
    }

    #[test]
    fn a_topic_is_short() {
        assert_eq!(topic("\n  hello \nworld"), "hello");
        assert_eq!(topic(""), "nothing");
        assert_eq!(topic(&"ä ".repeat(50)).chars().count(), TOPIC);
    }
}
