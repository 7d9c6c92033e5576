mod borders;
mod ranges;
mod shapes;

use super::*;

const BODY: &str = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6kL9n";
const HEX: &str = "0123456789abcdef0123456789abcdef";

/// A secret of each standard detector, and the name of the detector.
fn samples() -> Vec<(&'static str, String)> {
    vec![
        ("aws-key", "AKIAIOSFODNN7ABCDEFG".to_owned()),
        ("anthropic", format!("sk-ant-api03-{BODY}{BODY}AA")),
        ("anthropic", format!("sk-ant-oat01-{BODY}")),
        ("openai", format!("sk-proj-{BODY}T3BlbkFJ{BODY}")),
        ("openai", format!("sk-{BODY}")),
        ("openai", format!("sk-or-v1-{HEX}{HEX}")),
        ("google", format!("AIza{}", &BODY[..35])),
        ("github", format!("ghp_{}", &BODY[..36])),
        ("github", format!("ghs_1234567_{}", installation_token())),
        ("google", format!("AQ.Ab8RN6{BODY}_-")),
        ("xai", format!("xai-{BODY}{BODY}")),
        ("groq", format!("gsk_{BODY}{}", &BODY[..12])),
        ("github", format!("github_pat_{BODY}_{BODY}")),
        ("gitlab", format!("glpat-{}", &BODY[..20])),
        ("slack", "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOp".to_owned()),
        ("slack", format!("xapp-1-A0123-{BODY}")),
        ("slack-webhook", format!("hooks.slack.com/services/T0123/B0123/{BODY}")),
        ("stripe", format!("sk_live_{}", &BODY[..24])),
        ("npm", format!("npm_{}", &BODY[..36])),
        ("pypi", format!("pypi-AgEIcHlwaS5vcmc{BODY}{BODY}")),
        ("huggingface", format!("hf_{}", &BODY[..34])),
        ("digitalocean", format!("dop_v1_{HEX}{HEX}")),
        ("databricks", format!("dapi{HEX}")),
        ("sendgrid", format!("SG.{}.{BODY}", &BODY[..22])),
        ("hashicorp", format!("hvs.{BODY}{BODY}{BODY}")),
        (
            "age",
            format!(
                "AGE-SECRET-KEY-1{}{}",
                "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", "QPZRY9X8GF2TVDW0S3JN54KHCE"
            ),
        ),
        ("1password", "A3-ABCDEF-GHIJKL-MNOP1-QRST2-UVWX3-YZAB4".to_owned()),
        ("jwt", format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{BODY}")),
        ("private-key", private_key()),
    ]
}

/// A JSON web token.
fn installation_token() -> String {
    format!("eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiIxMjM0NTY3In0.{BODY}-_{BODY}")
}

fn private_key() -> String {
    let lines = format!("{BODY}+/{BODY}=\n").repeat(40);
    format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}-----END RSA PRIVATE KEY-----")
}

#[test]
fn every_kind_of_secret_is_replaced_by_its_name() {
    for (name, secret) in samples() {
        let text = format!("before {secret}, after");
        let expected = format!("before [redacted:{name}], after");
        assert_eq!(Secrets::standard().redact(&text), expected, "{secret}");
        let quoted = format!("{{\"key\":\"{secret}\"}}\n{secret}");
        let expected = format!("{{\"key\":\"[redacted:{name}]\"}}\n[redacted:{name}]");
        assert_eq!(Secrets::standard().redact(&quoted), expected, "{secret}");
    }
    for name in Secrets::standard_names() {
        assert!(samples().iter().any(|it| it.0 == name) || name == "putty-key", "{name}");
    }
}

#[test]
fn a_secret_begins_a_word_also_after_an_escape() {
    let escapes = ["\\n", "\\t", "%3D", "=", "\"", "/", "é", "\\u0022", "\\x3d", "_"];
    let colours = ["\x1b[32m", "\x1b[01;31m\x1b[K", "\x1b(B", "\\u001b[0;1m", "\\033[1m", "\\e[m"];
    for before in escapes.into_iter().chain(colours) {
        let text = format!("a{before}npm_{}", &BODY[..36]);
        let expected = format!("a{before}[redacted:npm]");
        assert_eq!(Secrets::standard().redact(&text), expected);
        let (mut stream, mut out) = (SecretStream::default(), Vec::new());
        for byte in text.bytes() {
            stream.push(Secrets::standard(), &[byte], &mut out, &mut Findings::default());
        }
        stream.finish(Secrets::standard(), &mut out, &mut Findings::default());
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
    for before in ["m", "[32m", "u0022", "x3d"] {
        let text = format!("a{before}npm_{}", &BODY[..36]);
        assert_eq!(Secrets::standard().redact(&text), text);
    }
}

#[test]
fn ordinary_text_and_placeholders_of_documentation_stay() {
    for text in [
        "a task-force of 20, sk-this-is-a-long-name-without-digits, ask-me-anything-about-this",
        "npm_config_registry, hf_hub_download, dapifoo, eyes. -----BEGIN PUBLIC KEY-----",
        "AKIA, AKIAIOSFODNN7EXAMPLE, XAKIAIOSFODNN7ABCDEFG",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ghp_short",
        "export TOKEN=$GITHUB_TOKEN ${SECRET} {{ secret }} password = hunter2hunter2",
        "A key begins with `-----BEGIN PRIVATE KEY-----` and ends with `-----END PRIVATE KEY-----`.",
        "data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXX0=",
        "Ünïcödé 😀 text, sk",
        "",
    ] {
        assert_eq!(Secrets::standard().redact(text), text);
        assert!(matches!(Secrets::standard().redact(text), Cow::Borrowed(_)));
    }
}

#[test]
fn the_rest_of_a_token_that_is_longer_than_usual_is_redacted_too() {
    for length in [36, 37, 100, 4095, 4096, 4097, 20_000] {
        let body: String =
            BODY.chars().filter(|it| it.is_ascii_alphanumeric()).cycle().take(length).collect();
        let text = format!("a ghp_{body} b");
        assert_eq!(Secrets::standard().redact(&text), "a [redacted:github] b", "{length}");
    }
}

#[test]
fn a_private_key_without_its_end_reaches_to_the_end_of_the_text() {
    let key = private_key();
    let cut = &key[..key.len() - 40];
    assert_eq!(Secrets::standard().redact(&format!("a {cut}")), "a [redacted:private-key]");
    let two = format!("{key}\nand\n{key}!");
    let expected = "[redacted:private-key]\nand\n[redacted:private-key]!";
    assert_eq!(Secrets::standard().redact(&two), expected);
    let escaped = key.replace('\n', "\\n");
    assert_eq!(Secrets::standard().redact(&format!("\"{escaped}\"")), "\"[redacted:private-key]\"");
    let numbered: String = key
        .lines()
        .enumerate()
        .map(|(number, line)| format!("{:>6}→{line}\n", number + 1))
        .collect();
    assert_eq!(Secrets::standard().redact(&numbered), "     1→[redacted:private-key]\n");
}

fn own() -> Secrets {
    Secrets::builder()
        .standard(|_| true)
        .context(|_| true)
        .value("deploy-password", "correct horse \"battery\" staple")
        .unwrap()
        .value("sk-like", "sk-mine-1234")
        .unwrap()
        .pattern("employee", r"EMP-[0-9]{6}", None)
        .unwrap()
        .pattern("phone", r"\+?[0-9]{3}-[0-9]{4}(?-u:\b)", Some(16))
        .unwrap()
        .allow("EMP-000000")
        .build()
}

#[test]
fn values_and_patterns_of_the_user_are_redacted() {
    let secrets = own();
    for (text, expected) in [
        ("a correct horse \"battery\" staple b", "a [redacted:deploy-password] b"),
        (r#"{"p":"correct horse \"battery\" staple"}"#, r#"{"p":"[redacted:deploy-password]"}"#),
        ("x=correct%20horse%20%22battery%22%20staple&", "x=[redacted:deploy-password]&"),
        ("sk-mine-1234 sk-mine-123", "[redacted:sk-like] sk-mine-123"),
        ("EMP-123456 EMP-12345 EMP-000000", "[redacted:employee] EMP-12345 EMP-000000"),
        ("call 555-1234 or +555-1234. 1-2", "call [redacted:phone] or [redacted:phone]. 1-2"),
        ("password = \"k3Jd9xQ2mZ7p\"", "password = \"[redacted:assignment]\""),
        (
            "API_KEY=k3Jd9xQ2mZ7p; password: secret",
            "API_KEY=[redacted:assignment]; password: secret",
        ),
        ("curl -u me:k3Jd9x https://h", "curl -u me:[redacted:curl-user] https://h"),
        ("Authorization: Bearer k3Jd9xQ2mZ7p", "Authorization: Bearer [redacted:authorization]"),
        ("postgres://me:k3Jd9x@host/db", "postgres://me:[redacted:url-password]@host/db"),
        ("token = $TOKEN, secret: ${SECRET_VALUE_1}", "token = $TOKEN, secret: ${SECRET_VALUE_1}"),
    ] {
        assert_eq!(secrets.redact(text), expected);
    }
}

#[test]
fn patterns_that_cannot_be_used_are_refused_with_a_remedy() {
    let pattern = |pattern, max| Secrets::builder().pattern("x", pattern, max).unwrap_err();
    assert!(pattern("[0-9]{6}", None).contains("add max = N"));
    assert!(pattern("[0-9]{6}", Some(5000)).contains("1 to 1024"));
    assert!(pattern("(", None).contains("unclosed group"));
    assert!(pattern("a*", Some(8)).contains("empty"));
    assert!(Secrets::builder().value("x", "short").unwrap_err().contains("fewer than 8"));
}

/// The output for a text in these pieces.
fn in_pieces(secrets: &Secrets, pieces: &[&[u8]]) -> (String, Findings) {
    let (mut stream, mut out, mut findings) =
        (SecretStream::default(), Vec::new(), Findings::default());
    for piece in pieces {
        stream.push(secrets, piece, &mut out, &mut findings);
        assert!(stream.size() <= machine::MAX_CANDIDATE + 8, "{} bytes", stream.size());
    }
    stream.finish(secrets, &mut out, &mut findings);
    (String::from_utf8(out).unwrap(), findings)
}

/// A small random number generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Parts of any text.
fn parts() -> Vec<String> {
    let mut parts: Vec<String> = samples().into_iter().map(|it| it.1).collect();
    parts.pop();
    let words = [
        "sk-",
        "ghp_",
        "task",
        "key ",
        "ey",
        "eyJ",
        "AKIA",
        "-----BEGIN ",
        "é😀",
        "\n",
        "\\n",
        " ",
        "a",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1 -----END RSA PRIVATE KEY-----",
        "EMP-12",
        "EMP-123456",
        "555-1234",
        "correct horse ",
        "correct horse \"battery\" staple",
        "sk-mine-1234",
        "password = ",
        "://",
        "me:",
        "@",
        "Authorization: ",
        "curl -u ",
        "x",
        "1",
        "_",
        ".",
    ];
    parts.extend(words.iter().map(|it| (*it).to_owned()));
    parts
}

/// Parts of private keys and of what may stand around them.
fn parts_of_keys() -> Vec<String> {
    let parts = [
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEAx1aB3dE6gH9",
        "four words of prose ",
        "kL9n==",
        "-----END RSA PRIVATE KEY-----",
        "-----",
        "\n",
        "\\n",
        "\n\n\n",
        "app-1 | ",
        "(cut)",
        "Comment: a key of my own machine",
    ];
    parts.map(str::to_owned).to_vec()
}

fn random_text(random: &mut Random, parts: &[String]) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(8) {
        let part = &parts[random.below(parts.len())];
        let end = match random.below(3) {
            0 => (0..=random.below(part.len() + 1)).rev().find(|it| part.is_char_boundary(*it)),
            _ => None,
        };
        text.push_str(&part[..end.unwrap_or(part.len())]);
    }
    text
}

#[test]
fn the_output_does_not_depend_on_how_a_text_is_cut() {
    let secrets = own();
    let mut random = Random(7);
    let (any, keys) = (parts(), parts_of_keys());
    for round in 0..200 {
        let text = random_text(&mut random, if round < 60 { &any } else { &keys });
        let bytes = text.as_bytes();
        let whole = in_pieces(&secrets, &[bytes]);
        assert_eq!(secrets.redact(&text), whole.0, "round {round}");
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(in_pieces(&secrets, &[left, right]), whole, "{text:?} cut at {cut}");
        }
        for size in [1, 2, 3, 5, 8] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(in_pieces(&secrets, &pieces), whole, "{text:?} in pieces of {size}");
        }
        let (mut rest, mut pieces) = (bytes, Vec::new());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(1 + random.below(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        assert_eq!(in_pieces(&secrets, &pieces), whole, "{text:?}");
    }
}

#[test]
fn long_secrets_are_the_same_in_pieces_of_any_size() {
    let secrets = Secrets::standard();
    let long = format!("a ghp_{} b {} c", "aB3dE6gH9jK2".repeat(1000), private_key().repeat(3));
    let whole = in_pieces(secrets, &[long.as_bytes()]);
    assert!(whole.0.starts_with("a [redacted:github] b [redacted:private-key]"), "{}", whole.0);
    for size in [1, 7, 1000, 4096, 4097] {
        let pieces: Vec<&[u8]> = long.as_bytes().chunks(size).collect();
        assert_eq!(in_pieces(secrets, &pieces), whole, "pieces of {size}");
    }
}

#[test]
fn ordinary_text_is_not_held_back() {
    let secrets = Secrets::standard();
    let (mut stream, mut out, mut findings) =
        (SecretStream::default(), Vec::new(), Findings::default());
    for piece in ["This ", "one", " word", " and mapped", "p", " a fad", ".", "%3", "d"] {
        stream.push(secrets, piece.as_bytes(), &mut out, &mut findings);
        assert!(!stream.is_holding(), "after {piece:?}");
    }
    stream.push(secrets, b" g", &mut out, &mut findings);
    assert!(stream.is_holding());
    stream.push(secrets, b"o", &mut out, &mut findings);
    assert!(!stream.is_holding());
}

#[test]
fn only_the_end_of_a_word_is_released() {
    let secrets = own();
    let released = |text: &str| {
        let (mut stream, mut out) = (SecretStream::default(), Vec::new());
        stream.push(&secrets, text.as_bytes(), &mut out, &mut Findings::default());
        stream.release(&secrets, &mut out);
        String::from_utf8(out).unwrap()
    };
    for (text, shown) in [("waiting", "waiting"), ("a high", "a high"), ("a g", "a "), ("gh", "")] {
        assert_eq!(released(text), shown);
    }
    // Nothing of a value of the user.
    assert_eq!(released("arc"), "ar");
}

/// Whatever is interrupted at whatever position: never more than four characters of a secret are shown.
#[test]
fn an_interrupted_secret_shows_at_most_four_of_its_characters() {
    for (name, secret) in samples() {
        let literal =
            STANDARD.iter().flat_map(|it| it.literals).filter(|it| secret.starts_with(**it));
        let literal = literal.map(|it| it.len()).max().unwrap();
        for cut in 1..secret.len().min(300) {
            let (mut stream, mut out, mut findings) =
                (SecretStream::default(), Vec::new(), Findings::default());
            let secrets = Secrets::standard();
            stream.push(secrets, b"a ", &mut out, &mut findings);
            stream.push(secrets, &secret.as_bytes()[..cut], &mut out, &mut findings);
            stream.interrupt(secrets, &mut out, &mut findings);
            assert!(!stream.is_holding());
            stream.push(secrets, &secret.as_bytes()[cut..], &mut out, &mut findings);
            stream.push(secrets, b" b", &mut out, &mut findings);
            stream.finish(secrets, &mut out, &mut findings);
            let out = String::from_utf8(out).unwrap();
            assert_eq!(findings.total(), 1, "{name} at {cut}: {out}");
            let shown = out.split("[redacted:").next().unwrap();
            assert!(shown.len() <= 2 + literal + 4, "{name} at {cut}: {out}");
            assert!(out.ends_with("] b") && out.starts_with("a "), "{name} at {cut}: {out}");
        }
    }
}

#[test]
fn no_part_of_an_exact_value_beyond_four_characters_is_shown() {
    let secrets = own();
    let value = "correct horse \"battery\" staple";
    for cut in 1..value.len() {
        let (mut stream, mut out, mut findings) =
            (SecretStream::default(), Vec::new(), Findings::default());
        stream.push(&secrets, &value.as_bytes()[..cut], &mut out, &mut findings);
        stream.interrupt(&secrets, &mut out, &mut findings);
        stream.push(&secrets, &value.as_bytes()[cut..], &mut out, &mut findings);
        stream.finish(&secrets, &mut out, &mut findings);
        let out = String::from_utf8(out).unwrap();
        let expected =
            format!("{}[redacted:deploy-password]", if cut <= 4 { &value[..cut] } else { "" });
        assert_eq!(out, expected, "at {cut}");
    }
}

#[test]
fn a_text_that_may_go_on_hides_a_secret_that_is_cut_off() {
    let secrets = Secrets::standard();
    let unfinished = |text: &str| {
        let redacted = secrets.redact_unfinished(text.as_bytes(), &mut Findings::default());
        redacted.map_or(text.to_owned(), |it| String::from_utf8(it).unwrap())
    };
    assert_eq!(unfinished("a ghp_aB3dE6gH9jK2mN5p"), "a [redacted:github]");
    assert_eq!(unfinished("a ghp_aB3d"), "a ghp_aB3d");
    assert_eq!(unfinished("a gh"), "a gh");
    assert_eq!(secrets.redact("a ghp_aB3dE6gH9jK2mN5p"), "a ghp_aB3dE6gH9jK2mN5p");
}

#[test]
fn a_megabyte_of_beginnings_takes_linear_time() {
    let header = "-----BEGIN PRIVATE KEY-----";
    let key = format!("{header}MIIEowIBAAKCAQEAx1aB-----END PRIVATE KEY-----");
    for text in ["eyJ", "-----BEGIN ", header, &key, "sk-", "ghp_ghp_", "ghp_aaaaaaa "] {
        let text = text.repeat((1 << 20) / text.len());
        let redacted = Secrets::standard().redact(&text);
        assert!(!redacted.is_empty());
    }
}

#[test]
fn the_rest_of_a_secret_is_redacted_in_a_text_whose_beginning_was_lost() {
    let secrets = Secrets::standard();
    let redacted = |text: &str, size: usize| {
        let (mut stream, mut out, mut findings) =
            (SecretStream::resumed(), Vec::new(), Findings::default());
        for piece in text.as_bytes().chunks(size) {
            stream.push(secrets, piece, &mut out, &mut findings);
        }
        stream.finish(secrets, &mut out, &mut findings);
        String::from_utf8(out).unwrap()
    };
    let key = private_key();
    let rest_of_key = format!("{}. Done", &key[500..]);
    for size in [1, 7, 5000] {
        for (text, expected) in [
            (
                "H9jK2mN5pQ8sT1vW4yZ7 and more H9jK2mN5pQ8sT1vW4yZ7",
                "[redacted:rest] and more H9jK2mN5pQ8sT1vW4yZ7",
            ),
            ("ing the file internationalization", "ing the file internationalization"),
            ("", ""),
            ("é", "é"),
            (rest_of_key.as_str(), "[redacted:rest]. Done"),
        ] {
            assert_eq!(redacted(text, size), expected, "pieces of {size}");
        }
    }
    let lines = &key[key.find("\n").unwrap()..];
    assert_eq!(redacted(lines, 5000), "[redacted:rest]");
}

#[test]
fn json_without_a_literal_has_no_secret() {
    let secrets = Secrets::standard();
    assert!(!secrets.may_be_in_json(br#"{"a":"plain \n text \"x\""}"#));
    assert!(secrets.may_be_in_json(br#"{"a":"ghp_"}"#));
    assert!(secrets.may_be_in_json(br#"{"a":"\u0067hp_"}"#));
    assert!(own().may_be_in_json(b"{}"), "a pattern without a literal may match anywhere");
    let quoted = Secrets::builder().pattern("q", "a\"[0-9]+", None).unwrap().build();
    assert!(quoted.may_be_in_json(br#"{"a":"a\"1"}"#) && !quoted.may_be_in_json(b"{}"));
}

/// Some patterns are fixed text, or so short that a match is complete at once.
#[test]
fn short_patterns_and_fixed_text_are_redacted_however_they_are_cut() {
    let secrets = Secrets::builder()
        .standard(|_| true)
        .pattern("word", "hunter2", None)
        .and_then(|it| it.pattern("name", "BLUEBIRD", None))
        .and_then(|it| it.pattern("employee", "EMP-[0-9]{4}", None))
        .and_then(|it| it.pattern("pin", r"#[0-9]{3,4}", Some(5)))
        .unwrap()
        .build();
    let text = "my hunter2. BLUEBIRD EMP-1234 and #1234";
    let expected = "my [redacted:word]. [redacted:name] [redacted:employee] and [redacted:pin]";
    for first in 0..text.len() {
        for second in first..text.len() {
            let pieces = [&text[..first], &text[first..second], &text[second..]].map(str::as_bytes);
            assert_eq!(in_pieces(&secrets, &pieces).0, expected, "{first} {second}");
        }
    }
    // A complete match is hidden when another message follows, and in a text that may go on.
    for end in 1..=text.len() {
        let unfinished =
            secrets.redact_unfinished(&text.as_bytes()[..end], &mut Findings::default());
        let shown = unfinished.map_or(text[..end].to_owned(), |it| String::from_utf8(it).unwrap());
        for secret in ["hunter2", "BLUEBIRD", "EMP-1234", "#123"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(!["hunte", "BLUEB", "EMP-1"].iter().any(|it| shown.ends_with(it)), "{shown}");
    }
}

#[test]
fn an_interruption_does_not_hide_what_is_allowed_or_a_placeholder() {
    let token = format!("ghp_{}", &BODY[..36]);
    let secrets = Secrets::builder().standard(|_| true).context(|_| true).allow(&token).build();
    let unfinished = |text: &str| {
        let redacted = secrets.redact_unfinished(text.as_bytes(), &mut Findings::default());
        redacted.map_or(text.to_owned(), |it| String::from_utf8(it).unwrap())
    };
    let placeholder = format!("ghp_{}", "x".repeat(36));
    for text in [&token, &placeholder, "Authorization: Bearer ", "Authorization: Bearer k3J"] {
        assert_eq!(unfinished(text), text);
    }
    assert_eq!(unfinished(&format!("{token}9")), "[redacted:github]");
    let hidden = "Authorization: Bearer [redacted:authorization]";
    assert_eq!(unfinished("Authorization: Bearer k3Jd9xQ2"), hidden);
    // A candidate within another one.
    assert_eq!(unfinished("token-ghp_aB3dE6gH9jK"), "[redacted:github]");
}

/// Tools print a prefix before each line.
#[test]
fn a_private_key_is_found_behind_the_prefixes_of_its_lines() {
    let key = format!("{}\nkL9n==", &private_key()[..private_key().len() - 30]);
    let key = format!("{key}\n-----END RSA PRIVATE KEY-----");
    for prefix in
        ["app-1  | ", "key.pem:", "2026-01-01T00:00:00Z stdout F ", "+ ", "> ", "    12\t"]
    {
        let text: String = key.lines().map(|line| format!("{prefix}{line}\n")).collect();
        let expected = format!("{prefix}[redacted:private-key]\nprompt $");
        let text = format!("{text}prompt $");
        assert_eq!(Secrets::standard().redact(&text), expected);
        for size in [1, 3, 50] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(in_pieces(Secrets::standard(), &pieces).0, expected, "pieces of {size}");
        }
    }
}

#[test]
fn a_key_that_was_cut_off_does_not_hide_the_text_after_it() {
    let begin = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1aB3d\n";
    for after in [
        "...\n\nThis is an RSA key. Now I go on.",
        "```\nThe key is cut off here, as you see.",
        "$ ls\n$ pwd\n/home\n$ id\nme\n$ cat x\n$ exit\n",
    ] {
        let text = format!("a {begin}{after}");
        let expected = format!("a [redacted:private-key]\n{after}");
        assert_eq!(Secrets::standard().redact(&text), expected);
        for size in [1, 3, 10] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(in_pieces(Secrets::standard(), &pieces).0, expected, "pieces of {size}");
        }
    }
    // The short last line of a key is a part of it.
    let text = format!("{begin}kL9n==");
    assert_eq!(Secrets::standard().redact(&text), "[redacted:private-key]");
    // A header alone is documentation.
    for text in [
        "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "const HEADER: &str = \"-----BEGIN PRIVATE KEY-----\";\n\nfn parsePrivateKeyFromText(text: &str) {\n}\n",
    ] {
        assert_eq!(Secrets::standard().redact(text), text);
    }
    let putty = "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nComment: a key of my own machine\nPublic-Lines: 1\nAAAAB3NzaC1yc2EAAAABJQAAAQEAiPVUpONjGeVrwgRPOqy3Ym6kF9f8\nPrivate-Lines: 1\nAAABAQCAPVUpONjGeVrwgRPOqy3Ym6kF9f8\nPrivate-MAC: 0123456789abcdef\nend";
    assert_eq!(Secrets::standard().redact(putty), "[redacted:putty-key]\nend");
}

#[test]
fn long_texts_and_many_values_take_linear_time() {
    let slow = Secrets::builder().pattern("slow", "[a-z]{1,1023}X", Some(1024)).unwrap().build();
    let text = "a".repeat(1 << 20);
    assert_eq!(slow.redact(&text), text);
    let redacted = slow.redact(&format!("{text}X{text}")).into_owned();
    assert_eq!(redacted.len(), 2 * text.len() - 1023 + "[redacted:slow]".len());
    let mut many = Secrets::builder();
    for number in 0..10_000 {
        many = many.value("many", &format!("value-number-{number:06}")).unwrap();
    }
    assert_eq!(many.build().redact("a value-number-009999 b"), "a [redacted:many] b");
}
