//! Changes the strings of a JSON text. The rest of the text stays as it is: numbers of any size, any depth, and halves of
//! surrogate pairs.

/// A copy of a JSON text. `change` gets each string, and the name of its member: `None` if the string is a name itself,
/// and an empty name for the elements of lists. It returns the new string, or `None` if nothing changes.
pub(super) fn map_strings(
    json: &str,
    mut change: impl FnMut(Option<&str>, &str) -> Option<String>,
) -> String {
    let mut out = String::with_capacity(json.len());
    // For each open object or list: whether it is an object.
    let mut open: Vec<bool> = Vec::new();
    let (mut name, mut is_name) = (String::new(), false);
    let mut rest = json;
    while let Some(at) = rest.find(['"', '{', '}', '[', ']', ',', ':']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = if from.starts_with('"') { string_length(from) } else { 1 };
        let (token, after) = from.split_at(length);
        rest = after;
        match token {
            "{" | "[" => {
                open.push(token == "{");
                is_name = token == "{";
                name.clear();
            }
            "}" | "]" => drop(open.pop()),
            "," => {
                is_name = open.last() == Some(&true);
                name.clear();
            }
            ":" => is_name = false,
            _ => {
                let text = unescape(token);
                let member = (!is_name).then_some(name.as_str());
                let changed = text.as_deref().and_then(|text| change(member, text));
                if is_name {
                    name = text.unwrap_or_default();
                }
                if let Some(changed) = changed {
                    out.push_str(&serde_json::Value::String(changed).to_string());
                    continue;
                }
            }
        }
        out.push_str(token);
    }
    out.push_str(rest);
    out
}

/// The length of the string at the beginning of a JSON text, with its quotes.
fn string_length(json: &str) -> usize {
    let bytes = json.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// The text of a JSON string. `None` if it has half of a surrogate pair.
fn unescape(token: &str) -> Option<String> {
    match token.contains('\\') {
        true => serde_json::from_str(token).ok(),
        false => Some(token.trim_matches('"').to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_changed_and_everything_else_stays() {
        let json = r#" {"a": "x", "l":["x", {"b":"x"}, "\ud83d x"] , "x" : 123456789012345678901234567890, "e\"":"x\n", "f":1.0,"":{}} "#;
        let mut seen = Vec::new();
        let changed = map_strings(json, |name, text| {
            seen.push((name.map(str::to_owned), text.to_owned()));
            text.contains('x').then(|| text.replace('x', "\"y"))
        });
        let expected = r#" {"a": "\"y", "l":["\"y", {"b":"\"y"}, "\ud83d x"] , "\"y" : 123456789012345678901234567890, "e\"":"\"y\n", "f":1.0,"":{}} "#;
        assert_eq!(changed, expected);
        let values = seen.iter().filter_map(|(name, text)| Some((name.as_deref()?, text.as_str())));
        let expected = [("a", "x"), ("", "x"), ("b", "x"), ("e\"", "x\n")];
        assert_eq!(values.collect::<Vec<_>>(), expected);
        let deep = format!("{}\"x\"{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(map_strings(&deep, |_, _| Some("z".to_owned())), deep.replace('x', "z"));
    }
}
