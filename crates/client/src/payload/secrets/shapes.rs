//! The shapes of well-known kinds of secrets.

/// The characters of a kind of secret.
#[derive(Debug, Clone, Copy)]
enum Alphabet {
    /// Letters, digits, `_` and `-`.
    Word,
    /// Like [`Alphabet::Word`], and `.`.
    Dotted,
    /// Capital letters and digits.
    Capitals,
    /// Hexadecimal digits.
    Hex,
    /// Like [`Alphabet::Word`], and `/`.
    Path,
}

impl Alphabet {
    fn contains(self, it: char) -> bool {
        match self {
            Alphabet::Word => it.is_ascii_alphanumeric() || it == '_' || it == '-',
            Alphabet::Dotted => Alphabet::Word.contains(it) || it == '.',
            Alphabet::Capitals => it.is_ascii_uppercase() || it.is_ascii_digit(),
            Alphabet::Hex => it.is_ascii_hexdigit(),
            Alphabet::Path => Alphabet::Word.contains(it) || it == '/',
        }
    }
}

/// How each kind begins, what follows, and the minimum number of characters that follow.
const SHAPES: [(&str, Alphabet, usize); 37] = [
    ("AKIA", Alphabet::Capitals, 16),
    ("ASIA", Alphabet::Capitals, 16),
    ("ABIA", Alphabet::Capitals, 16),
    ("ACCA", Alphabet::Capitals, 16),
    ("sk-", Alphabet::Word, 20),
    ("ghp_", Alphabet::Word, 30),
    ("gho_", Alphabet::Word, 30),
    ("ghu_", Alphabet::Word, 30),
    ("ghs_", Alphabet::Word, 30),
    ("ghr_", Alphabet::Word, 30),
    ("github_pat_", Alphabet::Word, 30),
    ("AIza", Alphabet::Word, 30),
    ("glpat-", Alphabet::Word, 20),
    ("xoxa-", Alphabet::Word, 10),
    ("xoxb-", Alphabet::Word, 10),
    ("xoxe-", Alphabet::Word, 10),
    ("xoxp-", Alphabet::Word, 10),
    ("xoxr-", Alphabet::Word, 10),
    ("xoxs-", Alphabet::Word, 10),
    ("xapp-", Alphabet::Word, 10),
    ("hooks.slack.com/services/", Alphabet::Path, 10),
    ("sk_live_", Alphabet::Word, 10),
    ("sk_test_", Alphabet::Word, 10),
    ("sk_prod_", Alphabet::Word, 10),
    ("rk_live_", Alphabet::Word, 10),
    ("rk_test_", Alphabet::Word, 10),
    ("rk_prod_", Alphabet::Word, 10),
    ("npm_", Alphabet::Word, 30),
    ("pypi-", Alphabet::Word, 50),
    ("hf_", Alphabet::Word, 30),
    ("dop_v1_", Alphabet::Hex, 64),
    ("dapi", Alphabet::Hex, 32),
    ("SG.", Alphabet::Dotted, 40),
    ("hvs.", Alphabet::Word, 40),
    ("AGE-SECRET-KEY-1", Alphabet::Capitals, 40),
    ("A3-", Alphabet::Word, 30),
    ("ey", Alphabet::Dotted, 30),
];

const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";

/// The length of the secret with which a text begins.
pub(super) fn secret_length(text: &str) -> Option<usize> {
    if text.starts_with(KEY_BEGIN) {
        return private_key_length(text);
    }
    SHAPES.iter().find_map(|(prefix, alphabet, minimum)| {
        let rest = text.strip_prefix(prefix)?;
        let length = rest.len() - rest.trim_start_matches(|it| alphabet.contains(it)).len();
        // The end of a sentence is not a part of it.
        let secret = rest[..length].trim_end_matches('.');
        // A name with hyphens has no digits.
        let fits = secret.len() >= *minimum && secret.contains(|it: char| it.is_ascii_digit());
        let fits = fits && (*prefix != "ey" || is_web_token(&text[..prefix.len() + secret.len()]));
        fits.then_some(prefix.len() + secret.len())
    })
}

/// Whether this is a JSON web token: two or three parts, the first two of which are JSON objects in Base64.
fn is_web_token(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() >= 3 && parts[0].starts_with("ey") && parts[1].starts_with("ey")
}

fn private_key_length(text: &str) -> Option<usize> {
    let head = &text[KEY_BEGIN.len()..];
    let head = head.find("-----").map(|end| &head[..end])?;
    if !head.contains("PRIVATE KEY") {
        return None;
    }
    // A key that is cut off reaches to the end.
    let Some(end) = text.find(KEY_END) else { return Some(text.len()) };
    let after = &text[end + KEY_END.len()..];
    let rest = after.find("-----").map_or(after.len(), |at| at + 5);
    Some(end + KEY_END.len() + rest)
}

#[cfg(test)]
mod tests {
    use super::super::text_without_secrets;

    #[test]
    fn well_known_shapes_are_hidden_in_any_text() {
        let body = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6k";
        for secret in [
            "AKIAIOSFODNN7ABCDEFG".to_owned(),
            format!("sk-ant-api03-{body}"),
            format!("sk-proj-{body}"),
            format!("ghp_{body}"),
            format!("github_pat_{body}"),
            format!("AIza{body}"),
            format!("glpat-{body}"),
            format!("xoxb-{body}"),
            format!("sk_live_{body}"),
            format!("npm_{body}"),
            format!("pypi-{body}{body}"),
            format!("hf_{body}"),
            format!("dop_v1_{}", "0123456789abcdef".repeat(4)),
            format!("dapi{}", "0123456789abcdef".repeat(2)),
            format!("SG.{body}.{body}"),
            format!("hvs.{body}{body}"),
            format!("eyJ{body}.eyJ{body}.{body}"),
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----".to_owned(),
        ] {
            let text = format!("before {secret}, after");
            assert_eq!(text_without_secrets(&text), "before …, after", "{secret}");
            let json = acp_wire::Json::string(&text);
            assert_eq!(super::super::without_secrets(&json), "\"before …, after\"");
        }
        for text in [
            "a task-force of 20, sk-this-is-a-long-name-without-digits",
            "npm_config, hf_hub, dapifoo, eye. A key: -----BEGIN PUBLIC KEY-----",
            "AKIA",
        ] {
            assert_eq!(text_without_secrets(text), text);
        }
    }
}
