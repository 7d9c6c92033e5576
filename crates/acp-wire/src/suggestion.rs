//! Finds the known name that a misspelt name probably means.

/// The known name that is closest to `name`, if it is close enough to be a misspelling.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let limit = match length {
        0..=2 => return None,
        3..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    let distances = known.into_iter().map(|it| (distance(&name, &it.to_lowercase()), it));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= limit && distance < known.chars().count()).then_some(known)
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn one word into another.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (i, 0) => i,
                (0, j) => j,
                _ => {
                    let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised_and_another_name_is_not() {
        let known = ["sparkle", "context", "log", "demo-agent", "npx", "node"];
        let closest = |name: &str| closest(name, known);
        for (name, expected) in [
            ("sparkel", "sparkle"),
            ("Sparkle", "sparkle"),
            ("sparkles", "sparkle"),
            ("contxt", "context"),
            ("demoagent", "demo-agent"),
            ("demo_agent", "demo-agent"),
            ("lgo", "log"),
            ("logs", "log"),
            ("nox", "npx"),
        ] {
            assert_eq!(closest(name), Some(expected), "{name}");
        }
        for name in ["my-agent", "cat", "ls", "", "claude", "agent", "gemini"] {
            assert_eq!(closest(name), None, "{name}");
        }
    }
}
