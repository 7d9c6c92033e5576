//! The layout of a payload.

use acp_wire::Json;

/// The maximum nesting depth that is laid out. Deeper values are shown on one line.
const MAX_DEPTH: usize = 64;

/// The texts of a prompt or of a piece of a streamed text, in quotes; the state and title of a tool call; a stop
/// reason. `None` for other payloads.
pub(super) fn summary(json: &str) -> Option<String> {
    let json = Json::parse(json.to_owned()).ok()?;
    let text = |block: &Json| {
        let keys = block.keys();
        let is_text = keys.iter().all(|key| key == "type" || key == "text");
        block.member("text").filter(|it| is_text && it.is_string())
    };
    let members = json.members();
    // A message id does not matter here.
    let content = members.iter().filter(|(name, _)| name != "messageId").collect::<Vec<_>>();
    if json.member("toolCallId").is_some() {
        let string = |name: &str| json.member(name).filter(Json::is_string);
        let [status, title] = ["status", "title"].map(string);
        let status = status.map(|it| it.as_str().trim_matches('"').to_owned());
        let title = title.map(|it| it.as_str().to_owned());
        let parts: Vec<String> = status.into_iter().chain(title).collect();
        return (!parts.is_empty()).then(|| parts.join(" "));
    }
    match &content[..] {
        [(name, reason)] if name == "stopReason" => reason.text().map(|it| it.into_owned()),
        [(name, block)] if name == "content" => text(block).map(|it| it.as_str().to_owned()),
        [(name, blocks)] if name == "prompt" => {
            let texts: Option<Vec<Json>> = blocks.elements().iter().map(text).collect();
            let texts = texts.filter(|texts| !texts.is_empty())?;
            let texts: Vec<&str> = texts.iter().map(Json::as_str).collect();
            Some(texts.join(" "))
        }
        _ => None,
    }
}

/// A payload in lines that fit into this width where possible. Numbers, texts and the order of members stay as they
/// are.
pub(super) fn pretty(json: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    match Json::parse(json.to_owned()) {
        Ok(json) => push(&json, "", "", (0, room), &mut lines),
        Err(_) if json.is_empty() => {}
        Err(_) => lines.push(json.to_owned()),
    }
    lines
}

/// Adds the lines of a value that stands behind `before` and before `after`.
fn push(
    json: &Json,
    before: &str,
    after: &str,
    (depth, room): (usize, usize),
    lines: &mut Vec<String>,
) {
    let indent = "  ".repeat(depth);
    let whole = format!("{indent}{before}{}{after}", json.as_str());
    let is_container = json.is_object() || json.is_array();
    if !is_container || crate::text::width(&whole) <= room || depth >= MAX_DEPTH {
        return lines.push(whole);
    }
    let parts: Vec<(String, Json)> = match json.is_object() {
        true => {
            let members = json.members().into_iter();
            members.map(|(name, it)| (format!("{}: ", Json::string(&name).as_str()), it)).collect()
        }
        false => json.elements().into_iter().map(|it| (String::new(), it)).collect(),
    };
    let (open, close) = if json.is_object() { ('{', '}') } else { ('[', ']') };
    lines.push(format!("{indent}{before}{open}"));
    let count = parts.len();
    for (number, (name, value)) in (1..).zip(parts) {
        let comma = if number == count { "" } else { "," };
        push(&value, &name, comma, (depth + 1, room), lines);
    }
    lines.push(format!("{indent}{close}{after}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_summarised() {
        for (json, expected) in [
            (r#"{"content":{"type":"text","text":"The "}}"#, Some(r#""The ""#)),
            (r#"{"content":{"type":"text","text":"a"},"messageId":"m"}"#, Some(r#""a""#)),
            (
                r#"{"prompt":[{"type":"text","text":"Be brief."},{"type":"text","text":"a\nb"}]}"#,
                Some(r#""Be brief." "a\nb""#),
            ),
            (r#"{"prompt":[{"type":"image"}]}"#, None),
            (r#"{"prompt":[]}"#, None),
            (r#"{"stopReason":"end_turn"}"#, Some("end_turn")),
            (
                r#"{"toolCallId":"t","status":"pending","title":"Edit a.txt","kind":"edit"}"#,
                Some(r#"pending "Edit a.txt""#),
            ),
            (r#"{"toolCallId":"t","kind":"edit"}"#, None),
            ("", None),
        ] {
            assert_eq!(summary(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn a_payload_keeps_its_numbers_and_order() {
        let json = r#"{"b":1.10,"a":{"big":123456789012345678901234567890,"x":[1,2]},"c":[]}"#;
        assert_eq!(pretty(json, 100), [json]);
        let expected = [
            "{",
            r#"  "b": 1.10,"#,
            r#"  "a": {"#,
            r#"    "big": 123456789012345678901234567890,"#,
            r#"    "x": [1,2]"#,
            "  },",
            r#"  "c": []"#,
            "}",
        ];
        assert_eq!(pretty(json, 30), expected);
        assert!(pretty("", 30).is_empty());
    }
}
