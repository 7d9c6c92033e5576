//! Shapes of tokens that are easily found in part only, and short private keys.

use super::*;

/// Tests a text as a whole and in pieces of many sizes.
#[track_caller]
fn check(text: &str, expected: &str) {
    let secrets = Secrets::standard();
    assert_eq!(secrets.redact(text), expected, "{text}");
    for size in 1..=24 {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(in_pieces(secrets, &pieces).0, expected, "{text:?} in pieces of {size}");
    }
}

#[test]
fn no_part_of_a_token_of_an_installation_remains() {
    let token = format!("ghs_1234567_{}", installation_token());
    for (before, after) in [("", ""), ("a ", ". b"), ("https://x-access-token:", "@github.com/a/b")]
    {
        check(&format!("{before}{token}{after}"), &format!("{before}[redacted:github]{after}"));
    }
    // A part of it that was cut off at the end.
    for end in [60, 80, token.len() - 1] {
        check(&token[..end], "[redacted:github]");
    }
    check(&format!("ghs_{}. b", &BODY[..36]), "[redacted:github]. b");
    let text = "ghs_123_eyes ghs_12_eyJ0 ghs_1234567_example ghs_";
    check(text, text);
}

#[test]
fn keys_of_aws_may_have_any_digit() {
    for key in ["AKIA0189IOSF0DN7ABCD", "ASIA1890OSFODNN7ABCD"] {
        check(&format!("a {key}, b {key}_c"), "a [redacted:aws-key], b [redacted:aws-key]c");
    }
    let text =
        "AKIA0189IOSF0DN7ABC AKIA0189IOSF0DN7ABCDE AKIA0189iosf0dn7abcd AKIA0000000000000000";
    check(text, text);
}

#[test]
fn keys_of_model_providers_are_found() {
    for (key, name) in [
        (format!("xai-{BODY}{BODY}"), "xai"),
        (format!("gsk_{BODY}{}", &BODY[..12]), "groq"),
        (format!("AQ.Ab8RN6{BODY}_-"), "google"),
    ] {
        check(&format!("KEY={key}\n"), &format!("KEY=[redacted:{name}]\n"));
        check(&format!("\"{key}\""), &format!("\"[redacted:{name}]\""));
        // Within a word, and too short.
        for text in [format!("M{key}"), key[..30].to_owned()] {
            check(&text, &text);
        }
    }
    let text = "npm i xai-sdk-for-node-with-a-long-name-and-more-words, gsk_config_of_the_project, see AQ. \
                The FAQ.aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6 AQ.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    check(text, text);
}

#[test]
fn short_private_keys_are_found_however_their_lines_end() {
    let ed25519 = ["MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF"];
    let ec = [
        "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY/PuoAoGCCqGSM49",
        "AwEHoUQDQgAEPR3tU2Fta9ktY+6P9G0cWO+0kETA6SFs38GecTyudlHz6xvCdz8q",
        "EKTcWGekdmdDPsHloRNtsiCa697B2O9IFA==",
    ];
    let openssh = [
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
        "QyNTUxOQAAACCzPq7zfqLffKoBDe/eo04kH2XxtSmk9D7RQyf1xUqrYgAAAJgAIAxdACAM",
        "XQAAAAtzc2gtZWQyNTUxOQAAACCzPq7zfqLffKoBDe/eo04kH2XxtSmk9D7RQyf1xUqrYg==",
    ];
    for (kind, lines) in [("", &ed25519[..]), ("EC ", &ec), ("OPENSSH ", &openssh)] {
        for end in ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", " ", ""] {
            let begin = format!("-----BEGIN {kind}PRIVATE KEY-----");
            let close = format!("-----END {kind}PRIVATE KEY-----");
            let key = [&[begin.as_str()], lines, &[close.as_str()]].concat().join(end);
            check(
                &format!("{{\"key\":\"{key}{end}\"}}"),
                &format!("{{\"key\":\"[redacted:private-key]{end}\"}}"),
            );
            // Without its end, no line with a part of the key remains.
            let cut = &key[..key.len() - close.len()];
            let redacted = Secrets::standard().redact(cut);
            assert!(redacted.len() < "[redacted:private-key]".len() + 8, "{end:?}: {redacted}");
        }
    }
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----";
    check(public, public);
}

#[test]
fn text_beside_a_token_does_not_hide_it() {
    let github = format!("ghp_{}", &BODY[..36]);
    for (secret, name) in [
        (format!("{github}_example"), "github"),
        (format!("{github}{}", "_".repeat(200)), "github"),
        (format!("sk-proj-{BODY}T3BlbkFJ{BODY}{}", "-".repeat(200)), "openai"),
        ("xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOp/example".to_owned(), "slack"),
        ("glpat-aB3dE6gH9jK2mN5pQ8s-".to_owned(), "gitlab"),
        ("glpat-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7.01.aB3dE6gH9".to_owned(), "gitlab"),
        (format!("SG.{}", &format!("{BODY}{BODY}")[..66]), "sendgrid"),
        (format!("eyAiYWxnIjogIkhTMjU2IiB9.eyAic3ViIjogIjEifQ.{BODY}"), "jwt"),
        (format!("ewogICJhbGciOiAiSFMyNTYiCn0.ew0KICAic3ViIjogIjEi.{BODY}"), "jwt"),
        (format!("eyJhbGciOiJIUzI1NiJ9{}.eyJzdWIiOiIxIn0.{BODY}", BODY.repeat(20)), "jwt"),
    ] {
        let text = format!("a {secret}. b");
        assert_eq!(
            Secrets::standard().redact(&text),
            format!("a [redacted:{name}]. b"),
            "{secret}"
        );
    }
}
