//! Compares expected with actual lines.

/// Whether `text` matches `pattern`, in which `…` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

/// `None` if both lists match. Otherwise a diff: lines that are only expected are marked `-`, lines that are only actual
/// are marked `+`.
pub fn diff<A: AsRef<str>, B>(
    expected: &[A],
    actual: &[B],
    same: impl Fn(&A, &B) -> bool,
    show: impl Fn(&B) -> String,
) -> Option<String> {
    if expected.len() == actual.len() && expected.iter().zip(actual).all(|(a, b)| same(a, b)) {
        return None;
    }
    // The length of the longest common subsequence from each pair of positions on.
    let (rows, columns) = (expected.len(), actual.len());
    let mut agree = vec![vec![0usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            agree[row][column] = if same(&expected[row], &actual[column]) {
                agree[row + 1][column + 1] + 1
            } else {
                agree[row + 1][column].max(agree[row][column + 1])
            };
        }
    }
    let mut out = String::new();
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        if row < rows && column < columns && same(&expected[row], &actual[column]) {
            out += &format!("  {}\n", expected[row].as_ref());
            (row, column) = (row + 1, column + 1);
        } else if column == columns
            || (row < rows && agree[row + 1][column] >= agree[row][column + 1])
        {
            out += &format!("- {}\n", expected[row].as_ref());
            row += 1;
        } else {
            out += &format!("+ {}\n", show(&actual[column]));
            column += 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_match_any_text() {
        assert!(matches("a…c", "abc") && matches("a…", "a") && matches("…b…", "abc"));
        assert!(!matches("a…c", "ab") && !matches("a", "ab") && !matches("…x…", "abc"));
    }

    #[test]
    fn only_different_lines_are_marked() {
        let diff = diff(&["a", "b", "c"], &["a", "x", "c"], |a, b| a == b, |it| (*it).to_owned());
        assert_eq!(diff.as_deref(), Some("  a\n- b\n+ x\n  c\n"));
    }
}
