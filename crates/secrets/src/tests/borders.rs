//! What stands beside a secret, and keys and tokens of uncommon forms.

use super::*;

/// Markdown has underscores around a word, and names of variables before one.
#[test]
fn an_underscore_beside_a_secret_does_not_hide_it() {
    for (name, secret) in samples().into_iter().filter(|it| it.0 != "private-key") {
        for before in ["MY_", "_", "__"] {
            let redacted =
                Secrets::standard().redact(&format!("a {before}{secret} b")).into_owned();
            assert_eq!(redacted, format!("a {before}[redacted:{name}] b"), "{before}{secret}");
        }
        let redacted = Secrets::standard().redact(&format!("a _{secret}_ b")).into_owned();
        assert!(redacted.starts_with(&format!("a _[redacted:{name}]")), "{redacted}");
    }
}

#[test]
fn a_key_of_ssh2_and_a_token_without_claims_are_redacted() {
    let key = private_key().replace(
        "-----BEGIN RSA PRIVATE KEY-----",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: \"a key of mine here\"",
    );
    let key =
        key.replace("-----END RSA PRIVATE KEY-----", "---- END SSH2 ENCRYPTED PRIVATE KEY ----");
    let token = format!("eyJhbGciOiJIUzI1NiJ9.e30.{BODY}");
    let text = format!("a {key} b {token} c");
    let expected = "a [redacted:private-key] b [redacted:jwt] c";
    assert_eq!(Secrets::standard().redact(&text), expected);
    let (out, _) = in_pieces(Secrets::standard(), &text.as_bytes().chunks(7).collect::<Vec<_>>());
    assert_eq!(out, expected);
}
