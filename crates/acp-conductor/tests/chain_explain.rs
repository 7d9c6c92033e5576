//! Chains that follow the project: `conductor chain`, and the chain that starts (issue 18, item 2).

#![cfg(unix)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::test_chain::{directory, with_timeout, write_script};

const CARGO_LOCK: &str = include_str!("../../config/src/when/lock_files/samples/Cargo-v4.lock");
const PACKAGE_LOCK: &str =
    include_str!("../../config/src/when/lock_files/samples/package-lock-v3.json");

const CONFIGURATION: &str = r#"default = "work"

[components.rust]
command = "context"
options = { text = ["Run cargo clippy."] }
when = { crate = "serde_json >=1.0.100, <2" }

[components.web]
command = "context"
options = { text = ["Run npm test."] }
when = { file = "package.json", npm = "react ^18" }

[chains.work]
proxies = ["log", "rust", "web", { chain = "ci", when = { env = "CI" } }, "log"]
agent = "demo-agent"

[chains.ci]
proxies = [{ use = "rate-limit", when = { command = "tool" } }]
"#;

/// A user with a configuration file, and projects.
struct Setup {
    root: PathBuf,
}

impl Setup {
    /// Two projects: `rust`, which is a workspace with a member, and `web`.
    fn new(name: &str) -> Setup {
        let root = directory(&format!("chain-explain-{name}")).canonicalize().expect("it exists");
        let setup = Setup { root };
        for folder in ["home", "config", "state", "bin", "none"] {
            fs::create_dir(setup.root.join(folder)).expect("a folder");
        }
        setup.write("config/conductor/conductor.toml", CONFIGURATION);
        setup.write("rust/Cargo.lock", CARGO_LOCK);
        setup.write("rust/member/src/lib.rs", "");
        setup.write("web/package.json", "{}");
        setup.write("web/package-lock.json", PACKAGE_LOCK);
        setup
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn conductor(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        command.args(args).current_dir(self.root.join(folder)).stdin(Stdio::null());
        let home = ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"];
        command.envs(home.map(|name| (name, self.root.join("home"))));
        command.env("XDG_CONFIG_HOME", self.root.join("config"));
        command.env("XDG_STATE_HOME", self.root.join("state"));
        command.env("PATH", self.root.join("bin"));
        for name in ["CI", "CONDUCTOR_CONFIG", "CONDUCTOR_LOG"] {
            command.env_remove(name);
        }
        command
    }

    fn output(&self, folder: &str, args: &[&str]) -> Output {
        output(self.conductor(folder, args))
    }

    /// What the conductor prints for valid arguments.
    fn printed(&self, folder: &str, args: &[&str]) -> String {
        printed(self.conductor(folder, args))
    }

    fn explained(&self, folder: &str, args: &[&str]) -> Value {
        let args = [&["chain", "explain", "--json"], args].concat();
        serde_json::from_str(&self.printed(folder, &args)).expect("JSON")
    }

    /// The names of the components with which the default chain starts in a folder.
    fn started(&self, folder: &str) -> Value {
        let report = self.printed(folder, &["agent", "--explain", "--json"]);
        let report: Value = serde_json::from_str(&report).expect("JSON");
        report["components"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|it| it["name"].clone())
            .collect()
    }
}

fn output(mut command: Command) -> Output {
    let what = format!("{command:?}");
    with_timeout(&what, move || command.output().expect("the conductor starts"))
}

fn printed(command: Command) -> String {
    let output = output(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The names of the entries that are part of the chain.
fn included(explained: &Value) -> Value {
    let entries = explained["entries"].as_array().expect("a list").iter();
    entries.filter(|it| it["included"] == true).map(|it| it["name"].clone()).collect()
}

#[test]
fn the_chain_that_is_explained_is_the_chain_that_starts() {
    let setup = Setup::new("starts");
    for (folder, expected) in [
        ("rust", json!(["log", "rust", "log#2", "demo-agent"])),
        ("rust/member/src", json!(["log", "rust", "log#2", "demo-agent"])),
        ("web", json!(["log", "web", "log#2", "demo-agent"])),
        ("none", json!(["log", "log#2", "demo-agent"])),
    ] {
        assert_eq!(included(&setup.explained(folder, &[])), expected, "{folder}");
        assert_eq!(setup.started(folder), expected, "{folder}");
        let elsewhere = setup.explained("none", &["work", "--cwd", &setup.path(folder)]);
        assert_eq!(included(&elsewhere), expected, "{folder}");
        assert_eq!(elsewhere["folder"], setup.path(folder));
    }
}

#[test]
fn each_entry_has_its_place_and_its_reason() {
    let setup = Setup::new("reasons");
    let file = setup.path("config/conductor/conductor.toml");
    let text = setup.printed("rust", &["chain", "explain"]);
    let expected = format!(
        "\
The chain work in {}:

1  in   log         proxy  {file}:14:12
2  in   rust        proxy  {file}:14:19  Cargo.lock has serde_json 1.0.100, which matches >=1.0.100, <2
-  out  web         proxy  {file}:14:27  package.json does not exist
-  out  ci          chain  {file}:14:34  CI is not set
3  in   log#2       proxy  {file}:14:75
4  in   demo-agent  agent  {file}:15:9

Conditions are about this folder. They are evaluated when the chain starts.
",
        setup.path("rust")
    );
    assert_eq!(text, expected);

    write_script(&setup.root.join("bin"), "tool", ": >\"$0-ran\"");
    let mut command = setup.conductor("web", &["chain", "explain", "--json"]);
    command.env("CI", "true");
    let explained: Value = serde_json::from_str(&printed(command)).expect("JSON");
    assert_eq!(explained["name"], "work");
    assert_eq!(
        explained["entries"][3],
        json!({
            "position": 3, "name": "rate-limit", "role": "proxy", "included": true, "through": ["ci"],
            "reason": format!("CI is set; tool is {}", setup.path("bin/tool")),
            "conditions": [
                { "holds": true, "reason": "CI is set" },
                { "holds": true, "reason": format!("tool is {}", setup.path("bin/tool")) },
            ],
            "file": file, "line": 18, "column": 12,
        })
    );
    assert_eq!(
        explained["entries"][2]["reason"],
        "package.json exists; package-lock.json has react 18.2.0, which matches ^18"
    );
    // A condition looks for a program, and does not run it.
    assert!(!setup.root.join("bin/tool-ran").exists());
}

#[test]
fn chains_are_listed_for_people_and_for_editors() {
    let setup = Setup::new("list");
    let file = setup.path("config/conductor/conductor.toml");
    setup.write(
        "config/conductor/conductor.toml",
        &format!(
            "{CONFIGURATION}\n[components.mine]\ncommand = \"npx\"\nargs = [\"-y\", \"my agent\", \"--key\", \"${{KEY}}\"]\n\
             [chains.other]\nagent = \"mine\"\n[chains.wrong]\nproxies = [\"lgo\"]\n"
        ),
    );
    assert_eq!(
        setup.printed("rust", &["chain", "list"]),
        format!(
            "   ci     {file}:17:9  (no agent)\n   \
                other  {file}:23:9  mine\n\
             *  work   {file}:13:9  log → rust → log#2 → demo-agent\n   \
                wrong  {file}:25:9  error: {file}:26:12: there is no component `lgo`; did you mean `log`?\n"
        )
    );
    let list = setup.printed("web", &["chain", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["default"], "work");
    assert_eq!(list["project"], Value::Null);
    assert_eq!(
        list["chains"][1],
        json!({
            "name": "other", "default": false, "file": file, "line": 23, "column": 9, "components": ["mine"],
            "agent": "mine", "agentCommand": "npx -y 'my agent' --key '${KEY}'",
        })
    );
    assert_eq!(list["chains"][2]["components"], json!(["log", "web", "log#2", "demo-agent"]));
    assert!(list["chains"][3]["error"].as_str().expect("an error").contains("did you mean"));

    setup.write("config/conductor/conductor.toml", "");
    let none = setup.printed("none", &["chain", "list"]);
    assert_eq!(none, "There are no chains. To define one, run conductor config edit.\n");
}

#[test]
fn a_project_without_trust_is_said_and_not_used() {
    let setup = Setup::new("trust");
    let project =
        "[chains.work]\nproxies = [\"filter\"]\n[chains.theirs]\nagent = \"demo-agent\"\n";
    setup.write("web/.conductor.toml", project);
    let file = setup.path("web/.conductor.toml");
    let text = setup.printed("web", &["chain", "explain"]);
    assert!(text.contains("1  in   log "), "{text}");
    assert!(text.contains(&format!("\n{file} is not used, because you do not trust")), "{text}");
    let explained = setup.explained("web", &[]);
    assert_eq!(
        (&explained["project"]["file"], &explained["project"]["used"]),
        (&json!(file), &json!(false))
    );
    let listed = setup.output("web", &["chain", "list"]);
    let stderr = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success() && stderr.contains("is not used"), "{listed:?}");
    let unknown = setup.output("web", &["chain", "explain", "theirs"]);
    let stderr = String::from_utf8_lossy(&unknown.stderr);
    assert!(unknown.status.code() == Some(1) && stderr.contains("is not used"), "{stderr}");

    setup.printed("web", &["trust", "--yes"]);
    let text = setup.printed("web", &["chain", "explain"]);
    assert!(text.contains(&format!("  proxy  {file}:2:12")), "{text}");
    assert!(text.ends_with(&format!("\n{file} is used, because you trust it.\n")), "{text}");
    assert_eq!(setup.started("web"), json!(["filter", "demo-agent"]));
}

#[test]
fn wrong_arguments_are_errors() {
    let setup = Setup::new("wrong");
    for (args, status, expected) in [
        (&["explain", "wrk"][..], 1, "there is no chain `wrk`"),
        (
            &["explain", "--cwd", "nothing"],
            1,
            "nothing: it is not a folder [more: conductor errors missing-directory]",
        ),
        (&["list", "--cwd", "rust/Cargo.lock"], 1, "Cargo.lock: it is not a folder"),
        (&["list", "work"], 2, "unexpected argument 'work'"),
        (&[], 2, "Usage: conductor chain <COMMAND>"),
    ] {
        let output = setup.output(".", &[&["chain"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(status) && stderr.contains(expected),
            "{args:?}: {stderr}"
        );
    }
    setup.write(
        "config/conductor/conductor.toml",
        "[components.x]\ncommand = \"x\"\nwhen = { fil = \"a\" }\n",
    );
    let output = setup.output(".", &["chain", "list"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("conductor.toml:3:10"), "{stderr}");
    assert!(stderr.contains("did you mean 'file'?"), "{stderr}");
}

#[test]
fn a_hostile_project_neither_hangs_nor_fails() {
    let setup = Setup::new("hostile");
    let reason =
        |position: usize| setup.explained("hostile", &[])["entries"][position]["reason"].clone();
    fs::create_dir(setup.root.join("hostile")).expect("a folder");
    let made = Command::new("mkfifo").arg(setup.root.join("hostile/Cargo.lock")).status();
    assert!(made.expect("mkfifo").success());
    setup.write("hostile/package.json", "{}");
    setup.write("hostile/package-lock.json", &"[".repeat(1 << 20));
    assert_eq!(reason(1), "Cargo.lock is not a regular file");
    assert!(
        reason(2)
            .as_str()
            .expect("text")
            .starts_with("package-lock.json is not valid: recursion limit")
    );
    fs::remove_file(setup.root.join("hostile/Cargo.lock")).expect("ours");
    std::os::unix::fs::symlink("/dev/zero", setup.root.join("hostile/Cargo.lock")).expect("a link");
    assert_eq!(reason(1), "Cargo.lock is not a regular file");
    assert_eq!(setup.started("hostile"), json!(["log", "log#2", "demo-agent"]));
}
