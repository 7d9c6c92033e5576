//! Shows the difference between two JSON values, line by line.

use std::fmt::Write;

use serde_json::Value;

/// The lines of both values. A line that only `expected` has begins with `-`, one that only `received` has with `+`.
pub(super) fn diff(expected: &Value, received: &Value) -> String {
    let (expected, received) = (pretty(expected), pretty(received));
    let (expected, received): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), received.lines().collect());
    // common[i][j]: how many lines expected[i..] and received[j..] have in common.
    let mut common = vec![vec![0_usize; received.len() + 1]; expected.len() + 1];
    for i in (0..expected.len()).rev() {
        for j in (0..received.len()).rev() {
            common[i][j] = match expected[i] == received[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    let mut add = |mark: char, line: &str| {
        let _ = writeln!(text, "{mark} {line}");
    };
    while i < expected.len() || j < received.len() {
        if i < expected.len() && j < received.len() && expected[i] == received[j] {
            add(' ', expected[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == received.len() || i < expected.len() && common[i + 1][j] >= common[i][j + 1]
        {
            add('-', expected[i]);
            i += 1;
        } else {
            add('+', received[j]);
            j += 1;
        }
    }
    text
}

/// The value on many lines, with sorted keys.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(&sorted(value)).unwrap_or_default()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(elements) => elements.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changed_lines_are_marked_and_the_order_of_keys_does_not_matter() {
        let expected = json!({ "b": [1, 2], "a": "same" });
        let received = json!({ "a": "same", "b": [1, 3, 4] });
        let lines = [
            "  {",
            "    \"a\": \"same\",",
            "    \"b\": [",
            "      1,",
            "-     2",
            "+     3,",
            "+     4",
            "    ]",
            "  }",
        ];
        assert_eq!(diff(&expected, &received).lines().collect::<Vec<_>>(), lines);
    }
}
