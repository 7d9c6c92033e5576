//! `conductor config show` and `check`.

use serde_json::{Value, json};

use super::Setup;

const USER: &str = r#"default = "work"
[settings]
grace = 5
[components.x]
command = "my program"
args = ["--token=sk-abcdefghijklmnopqrstuvwxyz0123456789", "b"]
env = { KEY = "hidden", REF = "pre-${HOME}" }
on-crash = "restart,stop"
[components.f]
command = "filter"
options = { notice = true, toward_agent = "block" }
when = { os = "linux" }
[chains.work]
proxies = ["x", { use = "f", when = { env = "NOTHING" } }]
agent = "demo-agent"
[chains.work.settings]
grace = 1
"#;

#[test]
fn each_value_is_shown_with_its_place_and_secrets_are_hidden() {
    let text = USER.replace("my program", "my-program");
    let setup = Setup::with_user_file("config-show", &text);
    let shown = setup.printed(&["config", "show"]);
    let shown =
        shown.replace(&setup.path("config/conductor/conductor.toml").display().to_string(), "C");
    for line in [
        "default = \"work\"  # C:1:11",
        "[settings]",
        "grace = 5  # C:3:9",
        "[components.x]",
        "command = \"my-program\"  # C:5:11",
        "env.KEY = \"…\"  # C:7:15",
        "env.REF = \"…${HOME}\"  # C:7:31",
        "on-crash = \"restart,stop\"  # C:8:12",
        "options.notice = true  # C:11:22",
        "when = { os = \"linux\" }  # C:12:8",
        "[chains.work]",
        "proxies = [\"x\", { use = \"f\", when = { env = \"NOTHING\" } }]  # C:14:11",
        "[chains.work.settings]",
        "grace = 1  # C:17:9",
    ] {
        assert!(shown.lines().any(|it| it == line), "{line}: {shown}");
    }
    assert!(!shown.contains("hidden") && !shown.contains("sk-abc"), "{shown}");
    let json: Value =
        serde_json::from_str(&setup.printed(&["config", "show", "--json"])).expect("JSON");
    assert_eq!(json["components"]["f"]["options.toward_agent"]["value"], json!("block"));
    assert_eq!(json["components"]["x"]["env.KEY"]["value"], json!("…"));
    let origin = json["default"]["origin"].as_str().expect("a place");
    assert!(origin.ends_with("conductor.toml:1:11"), "{origin}");
    let chain = setup.printed(&["config", "show", "work"]);
    assert!(chain.contains("proxies = [\"x\"]  #") && chain.contains("grace = 1  #"), "{chain}");
    assert!(
        chain.contains("# left out of the chain: NOTHING is not set\n[components.f]"),
        "{chain}"
    );
}

#[test]
fn secrets_in_pairs_of_arguments_are_hidden() {
    let setup = Setup::with_user_file(
        "config-show-pairs",
        "default = \"a\"\n[components.x]\ncommand = \"x\"\nargs = [\"--api-key\", \"hunter1\", \"--token\", \"hunter2\", \
         \"-H\", \"Authorization: Bearer hunter3\", \"--password\", \"p${PASSWORD}hunter4\", \"--token\", \"--plain\", \"shown\"]\n\
         [chains.a]\nagent = \"x\"\n",
    );
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["config", "show", "a"],
        &["chain", "list", "--json"],
    ] {
        let printed = setup.printed(arguments);
        assert!(!printed.contains("hunter"), "{arguments:?}: {printed}");
        for part in ["--api-key", "--token", "${PASSWORD}", "--plain", "shown"] {
            assert!(printed.contains(part), "{arguments:?}: {part}: {printed}");
        }
    }
}

#[test]
fn values_of_two_files_have_the_places_of_their_files() {
    let setup = Setup::with_user_file(
        "config-show-two",
        "[components.x]\ncommand = \"x\"\nargs = [\"1\"]\n",
    );
    setup.write("project/.conductor.toml", "[components.x]\nargs = [\"2\"]\n");
    let args = |setup: &Setup| {
        let json: Value =
            serde_json::from_str(&setup.printed(&["config", "show", "--json"])).expect("JSON");
        let args = &json["components"]["x"]["args"];
        (args["value"].clone(), args["origin"].as_str().expect("a place").to_owned())
    };
    let (value, place) = args(&setup);
    assert!(value == json!(["1"]) && place.ends_with("conductor/conductor.toml:3:8"), "{place}");
    setup.printed(&["trust", "--yes"]);
    let (value, place) = args(&setup);
    assert!(value == json!(["2"]) && place.ends_with("project/.conductor.toml:2:8"), "{place}");
}

#[test]
fn check_finds_every_kind_of_mistake_without_starting_anything() {
    let text = "default = \"nothing\"\n[components.f]\ncommand = \"filter\"\noptions = { notce = true }\n\
                [chains.a]\nproxies = [\"lgo\"]\n[chains.b]\nagent = \"unknown-agent\"\n";
    let setup = Setup::with_user_file("config-check", text);
    let errors = setup.refused(&["config", "check"], 1);
    for part in [
        "no chain `nothing`",
        "no option `notce`",
        "no component `lgo`",
        "no component `unknown-agent`",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    setup.write(
        "config/conductor/conductor.toml",
        "default = \"a\"\n[chains.a]\nagent = \"demo-agent\"\n",
    );
    assert!(setup.printed(&["config", "check"]).contains("is valid: 0 components, 1 chain"));
    // The file of a project is checked as well, whether it is trusted or not.
    setup.write("project/.conductor.toml", "[chains.b]\nproxies = [{ chain = \"c\" }]\n");
    let errors = setup.refused(&["config", "check"], 1);
    assert!(errors.contains("project/.conductor.toml:2:22"), "{errors}");
    setup.write("project/.conductor.toml", "[chains.b]\nproxies = [{ chain = \"a\" }]\n");
    assert!(setup.printed(&["config", "check"]).contains("project/.conductor.toml is valid"));
}

/// What only a start has found before: each of these files is refused by both, with the same words.
#[test]
fn check_refuses_what_no_chain_can_start_with() {
    for (text, place, part) in [
        ("[components.x]\ncommand = \"filter\"\n[chains.a]\nagent = \"x\"\n", "4:9", "is a proxy"),
        (
            "[components.x]\ncommand = \"demo-agent\"\n[chains.a]\nproxies = [\"x\"]\nagent = \"demo-agent\"\n",
            "4:12",
            "is an agent",
        ),
        (
            "[components.x]\ncommand = \"builtin:filtr\"\n[chains.a]\nproxies = [\"x\"]\nagent = \"demo-agent\"\n",
            "2:11",
            "`filter`?",
        ),
        (
            "[components.x]\ncommand = \"cat\"\ndialect = \"P3\"\n[chains.a]\nagent = \"x\"\n",
            "3:11",
            "only proxies have a dialect",
        ),
        (
            "[components.x]\ncommand = \"cat\"\noptions = { a = 1 }\n[chains.a]\nagent = \"x\"\n",
            "3:13",
            "is a program",
        ),
        (
            "[components.x]\ncommand = \"filter\"\ncwd = \"/\"\n[chains.a]\nproxies = [\"x\"]\nagent = \"demo-agent\"\n",
            "3:7",
            "runs inside conductor",
        ),
        ("default = \"a\"\n[chains.a]\nproxies = [\"log\"]\n", "2:9", "has no agent"),
    ] {
        let setup = Setup::with_user_file("config-check-start", text);
        let at = format!(" --> FOLDER/config/conductor/conductor.toml:{place}\n");
        for (arguments, status) in [(&["config", "check"][..], 1), (&["agent", "--chain", "a"], 2)]
        {
            let error = setup.refused(arguments, status);
            assert!(error.contains(&at) && error.contains(part), "{arguments:?}: {text}{error}");
        }
    }
}

/// What is missing on this machine is said, but the file is valid: it may be for other machines.
#[test]
fn check_says_what_is_missing_here() {
    let text = "[components.x]\ncommand = \"no-such-program\"\n[components.y]\ncommand = \"./none\"\n\
                [components.z]\ncommand = \"cat\"\nargs = [\"${NOTHING}\"]\n\
                [chains.a]\nproxies = [\"x\", \"y\", \"z\"]\nagent = \"demo-agent\"\n";
    let setup = Setup::with_user_file("config-check-here", text);
    let output = setup.run(&["config", "check"]);
    let stderr = super::stderr(&output);
    assert!(output.status.success(), "{stderr}");
    for part in ["toml:2:11: command not found", "there is no file", "NOTHING is not set"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(stderr.matches("warning: a chain cannot start here: ").count(), 3, "{stderr}");
    // The file of a project decides nothing before its user has agreed to it.
    setup.write("config/conductor/conductor.toml", "");
    setup.write("project/.conductor.toml", text);
    let warnings = || super::stderr(&setup.run(&["config", "check"])).matches("warning").count();
    assert_eq!(warnings(), 0);
    setup.printed(&["trust", "--yes"]);
    assert_eq!(warnings(), 3);
}
