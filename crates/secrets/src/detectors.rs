//! The detectors of well-known secrets.
//!
//! A detector begins with a literal that hardly ever occurs elsewhere. Its length has a minimum and no maximum: a longer
//! token is redacted as a whole, so that no part of it remains.

use super::key::EndMarker;

/// The description of a detector. All patterns are ASCII.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    /// The name in placeholders and reports.
    pub(super) name: &'static str,
    /// Every match begins with one of these.
    pub(super) literals: &'static [&'static str],
    /// Whether the literal counts only at the beginning of a word.
    pub(super) at_word: bool,
    /// The text before the secret, which stays: `password = `. Empty if the secret begins with the literal.
    pub(super) head: &'static str,
    /// The secret.
    pub(super) body: &'static str,
    /// The secret is a private key, whose lines up to this end belong to it.
    pub(super) key_end: Option<EndMarker>,
    /// The number of bytes at the end of a match that are not part of the secret.
    pub(super) keep_end: usize,
    /// The minimum Shannon entropy of the secret, in bits per byte. Placeholders such as `xxxx` have less.
    pub(super) min_entropy: f32,
}

const TOKEN: Description = Description {
    name: "",
    literals: &[],
    at_word: false,
    head: "",
    body: "",
    key_end: None,
    keep_end: 0,
    min_entropy: 2.5,
};

/// The detectors that are always on.
pub(super) const STANDARD: [Description; 29] = [
    Description {
        name: "aws-key",
        literals: &["AKIA", "ASIA", "ABIA", "ACCA"],
        at_word: true,
        body: r"A[KSBC][IC]A[A-Z0-9]{16}(?:\b|_)",
        ..TOKEN
    },
    Description {
        name: "anthropic",
        literals: &["sk-ant-"],
        body: r"sk-ant-[a-z]{2,10}[0-9]{0,3}-[A-Za-z0-9_-]{24,}",
        ..TOKEN
    },
    Description {
        name: "openai",
        literals: &["sk-proj-", "sk-svcacct-", "sk-admin-"],
        body: r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}",
        ..TOKEN
    },
    // Keys without a kind: older keys of OpenAI, and those of many compatible services.
    Description {
        name: "openai",
        literals: &["sk-"],
        at_word: true,
        body: r"sk-(?:or-v1-)?[A-Za-z0-9]{32,}",
        min_entropy: 3.0,
        ..TOKEN
    },
    Description {
        name: "google",
        literals: &["AIza"],
        at_word: true,
        body: r"AIza[A-Za-z0-9_-]{35,}",
        min_entropy: 3.0,
        ..TOKEN
    },
    // Keys that are bound to a service account.
    Description {
        name: "google",
        literals: &["AQ."],
        at_word: true,
        body: r"AQ\.[A-Za-z0-9_-]{32,}",
        min_entropy: 3.0,
        ..TOKEN
    },
    Description {
        name: "xai",
        literals: &["xai-"],
        at_word: true,
        body: r"xai-[A-Za-z0-9]{40,}",
        min_entropy: 3.0,
        ..TOKEN
    },
    Description {
        name: "groq",
        literals: &["gsk_"],
        at_word: true,
        body: r"gsk_[A-Za-z0-9]{40,}",
        min_entropy: 3.0,
        ..TOKEN
    },
    // A token of an installation may be the number of the app and a JSON web token: `ghs_123456_eyJ….eyJ….…`.
    Description {
        name: "github",
        literals: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        body: r"gh[pousr]_(?:[0-9]{1,20}_ey[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]+){0,2}|[A-Za-z0-9_]{30,})",
        ..TOKEN
    },
    Description {
        name: "github",
        literals: &["github_pat_"],
        body: r"github_pat_[A-Za-z0-9_]{30,}",
        ..TOKEN
    },
    Description {
        name: "gitlab",
        literals: &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-"],
        body: r"gl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]+)*",
        ..TOKEN
    },
    Description {
        name: "slack",
        literals: &[
            "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xoxc-", "xoxd-",
        ],
        body: r"xox[bpaorsecd](?:\.xox[bp])?-[A-Za-z0-9%/+=-]{10,}",
        ..TOKEN
    },
    Description { name: "slack", literals: &["xapp-"], body: r"xapp-[A-Za-z0-9-]{20,}", ..TOKEN },
    Description {
        name: "slack-webhook",
        literals: &["hooks.slack.com/"],
        at_word: true,
        body: r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
        ..TOKEN
    },
    Description {
        name: "stripe",
        literals: &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"],
        at_word: true,
        body: r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
        ..TOKEN
    },
    Description {
        name: "npm",
        literals: &["npm_"],
        at_word: true,
        body: r"npm_[A-Za-z0-9]{36,}",
        ..TOKEN
    },
    Description {
        name: "pypi",
        literals: &["pypi-AgE"],
        at_word: true,
        body: r"pypi-AgE[A-Za-z0-9_-]{50,}",
        ..TOKEN
    },
    Description {
        name: "huggingface",
        literals: &["hf_"],
        at_word: true,
        body: r"hf_[A-Za-z0-9]{34,}",
        ..TOKEN
    },
    Description {
        name: "digitalocean",
        literals: &["dop_v1_", "doo_v1_", "dor_v1_"],
        at_word: true,
        body: r"do[opr]_v1_[0-9a-f]{64,}",
        ..TOKEN
    },
    Description {
        name: "databricks",
        literals: &["dapi"],
        at_word: true,
        body: r"dapi[0-9a-f]{32}(?:-[0-9]+)?(?:\b|_)",
        ..TOKEN
    },
    Description {
        name: "sendgrid",
        literals: &["SG."],
        at_word: true,
        body: r"SG\.(?:[A-Za-z0-9_=-]{16,64}\.[A-Za-z0-9_=-]{32,}|[A-Za-z0-9_=-]{66,})",
        min_entropy: 3.0,
        ..TOKEN
    },
    Description {
        name: "hashicorp",
        literals: &["hvs.", "hvb."],
        at_word: true,
        body: r"hv[sb]\.[A-Za-z0-9_-]{60,}",
        ..TOKEN
    },
    Description {
        name: "age",
        literals: &["AGE-SECRET-KEY-1"],
        at_word: true,
        body: r"AGE-SECRET-KEY-1[A-Z0-9]{58,}",
        ..TOKEN
    },
    Description {
        name: "1password",
        literals: &["A3-"],
        at_word: true,
        body: r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
        ..TOKEN
    },
    Description {
        name: "1password",
        literals: &["ops_eyJ"],
        at_word: true,
        body: r"ops_eyJ[A-Za-z0-9+/=_-]{100,}",
        ..TOKEN
    },
    Description {
        name: "jwt",
        // Base64 of `{"`, and of `{` with a space or a line break after it.
        literals: &["eyJ", "eyA", "ewo", "ew0"],
        at_word: true,
        // The first part has a maximum, because every JSON object in Base64 begins like this. `e30` is an empty object.
        body: r"(?:eyJ|eyA|ewo|ew0)[A-Za-z0-9_-]{8,1000}\.(?:(?:eyJ|eyA|ewo|ew0)[A-Za-z0-9_-]{8,}|e30)\.[A-Za-z0-9_-]{20,}",
        min_entropy: 3.0,
        ..TOKEN
    },
    Description {
        name: "private-key",
        literals: &["-----BEGIN "],
        body: r"-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----",
        key_end: Some(EndMarker { text: "-----END", close: "-----" }),
        min_entropy: 0.0,
        ..TOKEN
    },
    Description {
        name: "private-key",
        literals: &["---- BEGIN SSH2 "],
        body: r"---- BEGIN SSH2 [A-Z0-9 ]{0,24}PRIVATE KEY ----",
        key_end: Some(EndMarker { text: "---- END", close: "----" }),
        min_entropy: 0.0,
        ..TOKEN
    },
    Description {
        name: "putty-key",
        literals: &["PuTTY-User-Key-File-"],
        body: r"PuTTY-User-Key-File-[0-9]: ",
        key_end: Some(EndMarker { text: "Private-MAC: ", close: "" }),
        min_entropy: 0.0,
        ..TOKEN
    },
];

/// The rest of a secret whose beginning is not known: a long word at the very beginning of a text, and the lines of a key.
pub(super) const REST: Description = Description {
    name: "rest",
    body: r"(?:[A-Za-z0-9_+/=.~-]{13,}|(?:\s|\\[nrt])+[A-Za-z0-9+/=]{40,})(?:(?:\s|\\[nrt])+[A-Za-z0-9+/=]{40,})*(?:(?:\s|\\[nrt])+[A-Za-z0-9+/=]{0,76}(?:\s|\\[nrt])*-----END[^-]{0,60}-----)?",
    min_entropy: 0.0,
    ..TOKEN
};

/// The detectors that look at the text around a secret. They err more often, so they are off by default.
pub(super) const CONTEXT: [Description; 4] = [
    Description {
        name: "assignment",
        literals: &[
            "password",
            "PASSWORD",
            "Password",
            "passwd",
            "PASSWD",
            "secret",
            "SECRET",
            "Secret",
            "token",
            "TOKEN",
            "Token",
            "api_key",
            "API_KEY",
            "apiKey",
            "ApiKey",
            "apikey",
            "APIKEY",
            "api-key",
            "Api-Key",
            "access_key",
            "ACCESS_KEY",
            "accessKey",
            "private_key",
            "PRIVATE_KEY",
            "privateKey",
            "auth_key",
            "AUTH_KEY",
            "credential",
            "CREDENTIAL",
        ],
        head: r#"(?:[Pp]asswo?r?d|PASSWO?R?D|[Ss]ecret|SECRET|[Tt]oken|TOKEN|[Aa]pi[_-]?[Kk]ey|API[_-]?KEY|[Aa]ccess_?[Kk]ey|ACCESS_KEY|[Pp]rivate_?[Kk]ey|PRIVATE_KEY|auth_key|AUTH_KEY|credential|CREDENTIAL)[A-Za-z0-9_-]{0,20}\\?["']?[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}(?:\\?["'`])?"#,
        body: r#"[^\s"'`\\,;&<>(){}$\[\]]{8,}"#,
        min_entropy: 3.5,
        ..TOKEN
    },
    Description {
        name: "curl-user",
        literals: &["curl "],
        at_word: true,
        head: r#"curl (?:-[A-Za-z-]{1,16} ){0,4}(?:-u|--user)[ =]{1,2}["']?[^\s:"']{1,64}:"#,
        body: r#"[^\s"']{4,}"#,
        min_entropy: 2.0,
        ..TOKEN
    },
    Description {
        name: "authorization",
        literals: &["Authorization", "authorization", "AUTHORIZATION"],
        head: r#"(?i:authorization)\\?["']?[ \t]{0,4}[:=][ \t]{0,4}(?:\\?["'`])?(?:(?:Basic|Bearer|Token|basic|bearer|token)[ \t]{1,4})?"#,
        body: r"[A-Za-z0-9._~+/=-]{8,}",
        min_entropy: 2.5,
        ..TOKEN
    },
    Description {
        name: "url-password",
        literals: &["://"],
        head: r#"://[^\s/:@"'`<>]{0,64}:"#,
        body: r#"[^\s/@"'`<>$]{3,256}@"#,
        keep_end: 1,
        min_entropy: 1.5,
        ..TOKEN
    },
];

/// Parts of placeholders: a match with one of them is not a secret.
pub(super) const STOP_WORDS: [&str; 8] =
    ["example", "xxxx", "****", "....", "your_", "your-", "placeholder", "changeme"];
