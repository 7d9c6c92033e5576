//! The JSON Schema in the repository is that of the types, and says the same as the parser.

use serde_json::Value;

use super::Setup;
use super::validator::Validator;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conductor.schema.json");

/// `UPDATE_SCHEMA=1 cargo test -p acp-conductor --test configuration schema` writes it anew.
#[test]
fn the_schema_in_the_repository_is_that_of_the_types() {
    let printed = Setup::new("config-schema").printed(&["config", "schema"]);
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(FILE, &printed).expect("written");
    }
    let stored = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        stored == printed,
        "write it anew: conductor config schema >docs/conductor.schema.json"
    );
    let home = std::env::var("HOME").unwrap_or_default();
    assert!(home.len() < 4 || !printed.contains(&home), "it contains a path of this machine");
}

/// A TOML file as JSON.
fn json(text: &str) -> Value {
    toml::from_str(text).expect(text)
}

#[test]
fn the_schema_and_the_parser_agree() {
    let setup = Setup::new("config-schema-agrees");
    let schema: Value = serde_json::from_str(&setup.printed(&["config", "schema"])).expect("JSON");
    let validator = Validator { root: &schema };
    let check = |text: &str| {
        let file = setup.write("file.toml", text);
        let output = setup.run(&["config", "check", file.to_str().expect("UTF-8")]);
        (validator.check(&json(text), &schema).is_ok(), output.status.success())
    };
    for right in [
        "",
        "default = \"a\"\n[chains.a]\nagent = \"demo-agent\"\n",
        "[settings]\nmcp-bridge = \"off\"\non-crash = \"restart,stop\"\nupdates = \"all\"\nrestarts = \"5/60\"\nrestart-delay = \"0.1..10\"\n\
         answer-limit = \"off\"\nprompt-limit = 30\ncancel-limit = 0.5\nnotices = true\ninit-timeout = 60\ngrace = 2\nstatus = false\n\
         max-line = \"256M\"\nlog = \"warn\"\nlog-file = \"x\"\n",
        "[components.a]\ncommand = \"x\"\nargs = [\"y\"]\nenv = { A = \"b\" }\nenv-file = \".env\"\ncwd = \"z\"\ndialect = \"P3\"\nguard = true\n\
         on-crash = \"bypass\"\nrestarts = \"1/2\"\nupdates = \"known\"\nwhen = { file = \"Cargo.toml\" }\n",
        "[components.a]\ncommand = \"x\"\nenv-file = [\".env\", \"b\"]\nwhen = [{ crate = \"tokio >=1\" }, { not = { os = \"linux\" } }]\n",
        "[components.a]\ncommand = \"filter\"\noptions = { notice = true, toward_agent = \"block\", pattern = [\"tok-[0-9]+\", { regex = \"key-[a-z]+\" }] }\n",
        "[components.a]\ncommand = \"budget\"\noptions = { tokens_per_day = \"1M\" }\n",
        "[chains.a]\nproxies = [\"log\", { use = \"log\", when = { env = \"CI\" } }, { chain = \"b\" }]\n[chains.b]\n[chains.b.settings]\ngrace = 1\n",
    ] {
        assert_eq!(check(right), (true, true), "{right}");
    }
    for wrong in [
        "defalt = \"a\"\n",
        "[settings]\nmcp-bridge = \"on\"\n",
        "[settings]\nnotices = \"on\"\n",
        "[settings]\nanswer-limit = \"on\"\n",
        "[settings]\nprompt-limit = 0\n",
        "[settings]\nrestarts = 5\n",
        "[settings]\njournal = \"x\"\n",
        "[components.a]\ncomand = \"x\"\n",
        "[components.a]\nargs = \"x\"\n",
        "[components.a]\nenv = { A = 1 }\n",
        "[components.a]\non-crash = \"restart, stop\"\n",
        "[components.a]\ndialect = \"P9\"\n",
        "[components.a]\nwhen = { fil = \"x\" }\n",
        "[components.a]\ncommand = \"filter\"\noptions = { notce = true }\n",
        "[components.a]\ncommand = \"filter\"\noptions = { toward_agent = \"blok\" }\n",
        "[components.a]\ncommand = \"builtin:filter\"\noptions = { notice = 1 }\n",
        "[chains.a]\nproxies = [{ us = \"log\" }]\n",
        "[chains.a]\nproxies = [5]\n",
    ] {
        assert_eq!(check(wrong), (false, false), "{wrong}");
    }
}

/// The examples of the guide fit the schema.
#[test]
fn the_examples_of_the_guide_are_valid() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let guide = std::fs::read_to_string(guide).expect("the page");
    let setup = Setup::new("config-schema-guide");
    let schema: Value = serde_json::from_str(&setup.printed(&["config", "schema"])).expect("JSON");
    let validator = Validator { root: &schema };
    let mut blocks: Vec<&str> =
        guide.split("```toml\n").skip(1).filter_map(|it| it.split("```").next()).collect();
    blocks.extend(guide.split("<<'END'\n").skip(1).filter_map(|it| it.split("\nEND").next()));
    assert!(blocks.len() >= 3, "{}", blocks.len());
    for block in blocks {
        let checked = validator.check(&json(block), &schema);
        assert!(checked.is_ok(), "{block}: {checked:?}");
    }
}
