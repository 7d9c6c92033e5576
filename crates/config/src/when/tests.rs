use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use super::*;

/// A new folder, which is removed at the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conductor-conditions-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(super) fn with(self, file: &str, text: &str) -> Self {
        self.write(file, text);
        self
    }

    pub(super) fn write(&self, file: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn surroundings(&self) -> Surroundings {
        let variables = [("CI", "true"), ("EMPTY", ""), ("LEVEL", "secret-value")];
        Surroundings::new(&self.0, variables, "linux")
    }

    pub(super) fn evaluate(&self, condition: &str) -> Verdict {
        read(condition).evaluate(&self.surroundings())
    }

    /// The verdict as a line: `yes: …` or `no: …`.
    pub(super) fn line(&self, condition: &str) -> String {
        let Verdict { holds, reason } = self.evaluate(condition);
        format!("{}: {reason}", if holds { "yes" } else { "no" })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug, Deserialize)]
struct File {
    when: Condition,
}

pub(super) fn try_read(condition: &str) -> Result<Condition, toml::de::Error> {
    toml::from_str::<File>(&format!("when = {condition}")).map(|it| it.when)
}

pub(super) fn read(condition: &str) -> Condition {
    try_read(condition).unwrap_or_else(|error| panic!("{condition}: {error}"))
}

#[test]
fn keys_of_a_table_must_all_hold_and_one_of_a_list() {
    let folder = Folder::new().with("Cargo.toml", "").with("src/main.rs", "");
    for (condition, expected) in [
        (r#"{ file = "Cargo.toml" }"#, "yes: Cargo.toml exists"),
        (r#"{ file = "src/" }"#, "yes: src/ exists"),
        (r#"{ file = "./src/main.rs" }"#, "yes: ./src/main.rs exists"),
        (r#"{ file = "Cargo.toml/" }"#, "no: Cargo.toml/ is not a folder"),
        (r#"{ file = "package.json" }"#, "no: package.json does not exist"),
        (r#"{ file = ["package.json", "Cargo.toml"] }"#, "yes: Cargo.toml exists"),
        (r#"{ file = ["a", "b"] }"#, "no: a does not exist; b does not exist"),
        (
            r#"{ file = "Cargo.toml", os = "linux" }"#,
            "yes: the operating system is linux; Cargo.toml exists",
        ),
        (r#"{ file = "Cargo.toml", os = "macos" }"#, "no: the operating system is linux"),
        (r#"{ os = ["macos", "unix"] }"#, "yes: the operating system is linux"),
        (r#"[{ file = "a" }, { env = "CI" }]"#, "yes: CI is set"),
        (r#"{ not = { file = "a" } }"#, "yes: a does not exist"),
        (r#"{ not = [{ file = "a" }, { env = "CI" }] }"#, "no: CI is set"),
        (r#"{ any = [{ file = "a" }, { env = "CI" }] }"#, "yes: CI is set"),
        (r#"{ all = [{ file = "a" }, { env = "CI" }] }"#, "no: a does not exist"),
        (
            r#"{ all = [{ env = "CI" }, { os = "unix" }], not.os = "windows" }"#,
            "yes: CI is set; the operating system is linux",
        ),
        (r#"{ env = "EMPTY" }"#, "no: EMPTY is empty"),
        (r#"{ env = ["NONE", "CI"] }"#, "yes: CI is set"),
        (r#"{ env = { CI = "true" } }"#, "yes: CI is 'true'"),
        (r#"{ env = { CI = ["1", "true"] } }"#, "yes: CI is 'true'"),
        (r#"{ env = { CI = "true", NONE = "1" } }"#, "no: NONE is not set"),
        // The value of the variable is not shown.
        (r#"{ env = { LEVEL = "debug" } }"#, "no: LEVEL is not 'debug'"),
        (
            r#"{ file = ["a", "b", "c", "d", "e", "f", "g"] }"#,
            "no: a does not exist; b does not exist; c does not exist; d does not exist; e does not exist; and 2 more",
        ),
    ] {
        assert_eq!(folder.line(condition), expected, "{condition}");
    }
}

#[test]
fn a_wrong_condition_is_an_error_at_its_place() {
    for (condition, place, expected) in [
        ("{}", "{}", "this condition is empty: write a table such as { file = \"Cargo.toml\" }"),
        ("[]", "[]", "this list is empty, so the condition can never hold: remove it"),
        ("{ any = [] }", "[]", "this list is empty, so the condition can never hold: remove it"),
        ("{ fil = \"a\" }", "fil", "unknown key 'fil' in a condition; did you mean 'file'?"),
        ("{ comand = \"a\" }", "comand", "did you mean 'command'?"),
        ("{ hostname = \"a\" }", "hostname", "known: file, "),
        ("{ not = { flie = \"a\" } }", "flie", "did you mean 'file'?"),
        (
            "{ os = \"beos\" }",
            "\"beos\"",
            "unknown operating system 'beos'; known: linux, macos, windows, unix",
        ),
        ("{ os = \"Darwin\" }", "\"Darwin\"", "write 'macos'"),
        ("{ os = [\"unix\", \"linnux\"] }", "\"linnux\"", "did you mean 'linux'?"),
        ("{ file = 1 }", "1", "invalid type: integer `1`, expected a string or a list of strings"),
        ("{ file = [\"a\", true] }", "true", "invalid type: boolean `true`, expected a string"),
        (
            "\"Cargo.toml\"",
            "\"Cargo.toml\"",
            "expected a condition, which is a table or a list of tables",
        ),
        (
            "{ all = { os = \"linux\" } }",
            "{ os = \"linux\" }",
            "expected a list of conditions, such as",
        ),
        (
            "{ file = \"../a\" }",
            "\"../a\"",
            "'../a' leads out of the folder in which the chain starts",
        ),
        (
            "{ file = \"{a,..}/b\" }",
            "\"{a,..}/b\"",
            "leads out of the folder in which the chain starts",
        ),
        (
            "{ file = 'a\\..\\b' }",
            "'a\\..\\b'",
            "leads out of the folder in which the chain starts",
        ),
        ("{ file = \"/etc/passwd\" }", "\"/etc/passwd\"", "'/etc/passwd' is not relative"),
        ("{ file = 'C:\\a' }", "'C:\\a'", "is not relative"),
        ("{ file = \"~/a\" }", "\"~/a\"", "is not relative"),
        ("{ file = \"a[\" }", "\"a[\"", "'a[' is not a valid glob: unclosed character class"),
        ("{ file = \" \" }", "\" \"", "the path is empty"),
        ("{ command = \"./run.sh\" }", "\"./run.sh\"", "not the path './run.sh'"),
        ("{ command = \"\" }", "\"\"", "the name of the command is empty"),
        ("{ env = \"$CI\" }", "\"$CI\"", "'$CI' is not the name of an environment variable"),
        ("{ env = \"CI=true\" }", "\"CI=true\"", "write a name such as \"CI\", or a table"),
        ("{ env = { CI = true } }", "true", "expected a string or a list of strings"),
        ("{ env = {} }", "{}", "this table is empty"),
    ] {
        let error = try_read(condition).expect_err(condition);
        assert!(error.message().contains(expected), "{condition}: {}", error.message());
        let text = format!("when = {condition}");
        assert_eq!(error.span().map(|it| &text[it]), Some(place), "{condition}");
    }
}

#[test]
fn conditions_are_nested_to_a_limit() {
    let nested = |depth: usize| {
        let (open, close) = ("{ not = ".repeat(depth - 1), " }".repeat(depth - 1));
        try_read(&format!("{open}{{ os = \"linux\" }}{close}"))
    };
    assert_eq!(nested(MAX_DEPTH).unwrap().depth(), MAX_DEPTH);
    let error = nested(MAX_DEPTH + 1).unwrap_err();
    assert_eq!(error.message(), "conditions are nested more than 16 levels deep");
    assert!(nested(5000).is_err());
    let long = format!("{{ file = \"{}\" }}", "{a,".repeat(300));
    assert!(try_read(&long).is_err());
}

#[test]
fn a_condition_is_written_as_it_was_read() {
    for condition in [
        r#"{"file":"a"}"#,
        r#"{"file":["a","*.rs"],"env":{"CI":["1","true"]},"command":"docker","os":"macos"}"#,
        r#"[{"env":["A","B"]},{"all":[{"os":["linux","unix"]}],"any":[{"file":"b"}],"not":{"file":"c"}}]"#,
    ] {
        let read: Condition = serde_json::from_str(condition).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), condition);
    }
}

#[test]
fn the_schema_describes_every_key() {
    let schema = schemars::schema_for!(Condition);
    let text = serde_json::to_string(&schema).unwrap();
    for key in read::KEYS {
        assert!(text.contains(&format!("\"{key}\":{{")), "{key} in {text}");
    }
    assert!(text.contains("\"additionalProperties\":false"), "{text}");
    assert!(text.contains("\"minProperties\":1"), "{text}");
}

#[test]
fn names_of_variables_have_no_case_on_windows() {
    let condition = read(r#"{ env = "path" }"#);
    let on = |os| condition.evaluate(&Surroundings::new("/", [("Path", "x")], os)).holds;
    assert!(on("windows"));
    assert!(!on("linux"));
}
