use std::path::Path;

use crate::source::Source;
use crate::when::Surroundings;

use super::*;

fn no_mentions(_: &str, _: &[String], _: &Map<String, Value>, _: &[&Path]) -> Mentions {
    Mentions::default()
}

const BUILT_INS: [BuiltIn; 3] = [
    BuiltIn { name: "log", agent: false, mentions: no_mentions },
    BuiltIn { name: "filter", agent: false, mentions: no_mentions },
    BuiltIn { name: "demo-agent", agent: true, mentions: no_mentions },
];

fn source(path: &str, text: &str) -> Source {
    Source::from_bytes(Path::new(path), text.into()).expect("text")
}

fn configuration(files: &[(&str, &str)]) -> Result<Configuration, Diagnostic> {
    Configuration::load(files.iter().map(|(path, text)| source(path, text)), BUILT_INS)
}

fn surroundings() -> Surroundings {
    Surroundings::new("/tmp", [("HOME", "/home/me"), ("CI", "true")], "linux")
}

fn names(text: &str, chain: &str) -> Result<Vec<String>, Diagnostic> {
    let chain = configuration(&[("/u/c.toml", text)])?.chain(chain, &surroundings())?;
    Ok(chain.components().map(|it| it.name.clone()).collect())
}

#[test]
fn layers_are_merged_key_by_key_and_values_know_their_file() {
    let user = "default = \"a\"\n[settings]\ngrace = 1\nlog = \"info\"\n[components.x]\ncommand = \"x\"\n\
                args = [\"1\", \"2\"]\nenv = { A = \"1\", B = \"2\" }\n[components.x.options]\nt = { p = 1, q = 2 }\nl = [1, 2]\n\
                [chains.a]\nproxies = [\"x\"]\nagent = \"demo-agent\"\n[chains.a.settings]\ngrace = 5\n";
    let project = "[settings]\ngrace = 2\n[components.x]\nargs = [\"3\"]\nenv = { B = \"3\" }\n\
                   [components.x.options]\nt = { q = 3 }\nl = [3]\n[chains.a]\nproxies = [\"x\", \"log\"]\n\
                   [chains.b]\nagent = \"demo-agent\"\n";
    let merged = configuration(&[("/u/c.toml", user), ("/p/c.toml", project)]).expect("valid");
    assert_eq!(merged.default_chain().expect("set").value, "a");
    let chain = merged.chain("a", &surroundings()).expect("a chain");
    let rows: Vec<String> = chain
        .settings
        .rows()
        .into_iter()
        .map(|(name, value, place)| format!("{name} {value} {place}"))
        .collect();
    assert_eq!(rows, ["grace 5 /u/c.toml:16:9", "log \"info\" /u/c.toml:4:7"]);
    let b = merged.chain("b", &surroundings()).expect("a chain");
    assert_eq!(b.settings.grace.expect("set").place.to_string(), "/p/c.toml:2:9");
    let entries: Vec<&str> = chain.entries.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(entries, ["x", "log", "demo-agent"]);
    assert_eq!(chain.entries[1].place.to_string(), "/p/c.toml:10:17");
    let launch = merged.launch(&chain.entries[0], &surroundings()).expect("complete");
    assert_eq!(launch.command.place.to_string(), "/u/c.toml:6:11");
    assert_eq!(launch.args.iter().map(|it| it.value.as_str()).collect::<Vec<_>>(), ["3"]);
    assert_eq!(launch.env, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "3".to_owned())]);
    let options = serde_json::Value::Object(crate::file::to_json(&launch.options));
    assert_eq!(options, serde_json::json!({ "t": { "p": 1, "q": 3 }, "l": [3] }));
}

#[test]
fn a_chain_contains_the_proxies_of_the_chains_that_it_includes() {
    let text = "[components.x]\ncommand = \"x\"\n\
                [chains.a]\nproxies = [\"x\", { chain = \"b\" }, { use = \"log\" }]\n\
                [chains.b]\nproxies = [\"filter\", { chain = \"c\" }]\nagent = \"demo-agent\"\n\
                [chains.c]\nproxies = [\"log\"]\nagent = \"x\"\n";
    assert_eq!(names(text, "a").expect("a chain"), ["x", "filter", "log", "log", "demo-agent"]);
    assert_eq!(names(text, "c").expect("a chain"), ["log", "x"]);
    let chain = configuration(&[("c.toml", text)]).expect("valid");
    let chain = chain.chain("a", &surroundings()).expect("a chain");
    assert_eq!(chain.entries[2].through, ["b", "c"]);
}

#[test]
fn a_component_is_left_out_if_a_condition_does_not_hold() {
    let text = "[components.x]\ncommand = \"x\"\nwhen = { env = \"CI\" }\n\
                [components.y]\ncommand = \"y\"\nwhen = { env = \"NOTHING\" }\n\
                [chains.a]\nproxies = [\"x\", \"y\", { use = \"x\", when = { os = \"windows\" } }, \
                { chain = \"b\", when = { os = \"macos\" } }, { chain = \"b\", when = { os = \"linux\" } }]\nagent = \"y\"\n\
                [chains.b]\nproxies = [\"log\", \"y\"]\n";
    let chain = configuration(&[("c.toml", text)]).expect("valid");
    let chain = chain.chain("a", &surroundings()).expect("a chain");
    let shown: Vec<_> =
        chain.entries.iter().map(|it| (it.name.as_str(), it.is_included())).collect();
    assert_eq!(
        shown,
        [
            ("x", true),
            ("y", false),
            ("x", false),
            ("b", false),
            ("log", true),
            ("y", false),
            ("y", false)
        ]
    );
    assert_eq!(chain.entries[1].reason().expect("a reason"), "NOTHING is not set");
    assert_eq!(chain.entries[3].role, Role::Chain);
    assert!(chain.agent().is_none());
    let error = chain.missing_agent().to_string();
    assert!(error.contains("`y` is left out") && error.contains("NOTHING is not set"), "{error}");
}

#[test]
fn a_wrong_name_or_a_cycle_is_an_error_at_its_place() {
    for (text, place, parts) in [
        (
            "[chains.a]\nproxies = [\"lgo\"]\n",
            "2:12",
            &["there is no component `lgo`", "`log`?"][..],
        ),
        ("[chains.a]\nproxies = [\"demo-agent\"]\n", "2:12", &["is an agent", "`agent`"]),
        ("[chains.a]\nagent = \"log\"\n", "2:9", &["is a proxy", "`proxies`"]),
        ("[chains.a]\nagent = \"claude-acp\"\n", "2:9", &["[components.claude-acp]"]),
        ("[chains.a]\nproxies = [\"b\"]\n[chains.b]\n", "2:12", &["{ chain = \"b\" }"]),
        ("[chains.a]\nproxies = [{ chain = \"bb\" }]\n[chains.bbb]\n", "2:22", &["no chain `bb`"]),
        ("[chains.a]\nproxies = [{ chain = \"a\" }]\n", "2:12", &["`a` includes itself"]),
        (
            "[chains.a]\nproxies = [{ chain = \"b\" }]\n[chains.b]\nproxies = [\"log\", { chain = \"a\" }]\n",
            "4:19",
            &["`a` includes itself"],
        ),
        (
            "[components.x]\nargs = []\n[chains.a]\nproxies = [\"x\"]\n",
            "1:13",
            &["has no `command`"],
        ),
    ] {
        let error = names(text, "a").expect_err(text).to_string();
        assert!(error.starts_with(&format!("/u/c.toml:{place}: ")), "{error}");
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
        let checked = configuration(&[("/u/c.toml", text)]).expect("valid").check();
        assert!(checked.is_err(), "{text}");
    }
    let error = names("[chains.abc]\n", "abd").expect_err("unknown").to_string();
    assert!(error.contains("there is no chain `abd`; did you mean `abc`?"), "{error}");
    let error = configuration(&[("c.toml", "default = \"b\"\n")]).expect("valid").check();
    assert!(
        error.expect_err("unknown")[0].to_string().starts_with("c.toml:1:11: there is no chain")
    );
}

/// Neither a deep nor a wide nesting of chains takes long.
#[test]
fn the_size_of_a_chain_is_limited() {
    let deep: String = (0..20)
        .map(|it| format!("[chains.c{it}]\nproxies = [{{ chain = \"c{}\" }}]\n", it + 1))
        .collect();
    let error = names(&format!("{deep}[chains.c20]\n"), "c0").expect_err("deep").to_string();
    assert!(error.contains("more than 16 times"), "{error}");
    let wide: String = (0..15)
        .map(|it| {
            let entry = format!("{{ chain = \"c{}\" }}, ", it + 1).repeat(10);
            format!("[chains.c{it}]\nproxies = [{entry}]\n")
        })
        .collect();
    let error = names(&format!("{wide}[chains.c15]\n"), "c0").expect_err("wide").to_string();
    assert!(error.contains("includes more than 200 chains"), "{error}");
    let long = format!("[chains.a]\nproxies = [{}]\n", "\"log\", ".repeat(201));
    let error = names(&long, "a").expect_err("long").to_string();
    assert!(error.contains("more than 200 components"), "{error}");
}

#[test]
fn paths_begin_at_the_folder_of_their_file() {
    let user = "[components.x]\ncommand = \"./bin/x\"\ncwd = \"w\"\n[components.y]\ncommand = \"y\"\n\
                args = [\"${CONDUCTOR_FOLDER}/f\", \"f\"]\n[chains.a]\nproxies = [\"x\", \"y\"]\n";
    let sources =
        [source("/u/c.toml", user), source("/p/.c/c.toml", "[components.x]\ncwd = \"v\"\n")];
    let [user, project] = sources;
    let all = [user, project.in_folder(Path::new("/p"))];
    let merged = Configuration::load(all, BUILT_INS).expect("valid");
    let chain = merged.chain("a", &surroundings()).expect("a chain");
    let launch = |index: usize| merged.launch(&chain.entries[index], &surroundings()).expect("ok");
    assert_eq!(Path::new(&launch(0).command.value), Path::new("/u/./bin/x"));
    assert_eq!(launch(0).cwd.expect("set").value, Path::new("/p/v"));
    assert_eq!(launch(1).command.value, "y");
    assert_eq!(launch(1).args[0].value, "/u/f");
}

#[test]
fn what_cannot_be_started_is_an_error_at_its_place() {
    for (component, place, part) in [
        ("args = [\"a\", \"x ${NOTHING}\"]", "3:17", "NOTHING is not set"),
        ("env = { A = \"secret-${NOTHING}\" }", "3:21", "NOTHING is not set"),
        ("env-file = \"/nowhere/.env\"", "3:12", "cannot read /nowhere/.env"),
        ("options = { a = [\"${NOTHING}\"] }", "3:19", "NOTHING is not set"),
        ("cwd = \"$HOME\"", "3:8", "needs braces"),
    ] {
        let text = format!(
            "[components.x]\ncommand = \"x\"\n{component}\n[chains.a]\nproxies = [\"x\"]\n"
        );
        let merged = configuration(&[("c.toml", &text)]).expect("valid");
        let chain = merged.chain("a", &surroundings()).expect("a chain");
        let error = merged.launch(&chain.entries[0], &surroundings()).expect_err(component);
        assert!(error.to_string().starts_with(&format!("c.toml:{place}: ")), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(!error.render(false).contains("secret"), "{}", error.render(false));
    }
}

/// Each file is read once, and its hash is that of the bytes that are used.
#[test]
fn an_env_file_of_several_components_is_listed_once() {
    let text = "[components.x]\ncommand = \"x\"\nenv-file = [\"b\", \"./b\"]\n[components.y]\ncommand = \"y\"\nenv-file = \"b\"\n";
    let merged = configuration(&[("/u/c.toml", text)]).expect("valid");
    let files = merged.env_files_of(&merged.sources()[0].clone(), &surroundings());
    assert_eq!(files.into_iter().collect::<Vec<_>>(), [Path::new("/u/b")]);
}

#[test]
fn an_env_file_that_was_read_before_is_not_read_again() {
    let text = "[components.x]\ncommand = \"x\"\nenv-file = [\"${HOME}/nothing\", \"b\"]\nenv = { B = \"env\" }\n\
                [chains.a]\nproxies = [\"x\"]\n";
    let mut merged = configuration(&[("/u/c.toml", text)]).expect("valid");
    let files = merged.env_files_of(&merged.sources()[0].clone(), &surroundings());
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    assert_eq!(files, [Path::new("/home/me/nothing"), Path::new("/u/b")]);
    merged.add_env_file(source("/home/me/nothing", "A=1\nB=1\nC=1\n"));
    merged.add_env_file(source("/u/b", "C=2\n"));
    let chain = merged.chain("a", &surroundings()).expect("a chain");
    let launch = merged.launch(&chain.entries[0], &surroundings()).expect("complete");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(launch.env, [pair("A", "1"), pair("B", "env"), pair("C", "2")]);
}
