//! Which chain runs, and how its components are started.

use super::{Setup, exists, finish, shell, stderr};

const CHAINS: &str = r#"
default = "work"

[components.agent]
command = "demo-agent"

[chains.work]
proxies = ["sparkle", { chain = "safety" }]
agent = "agent"

[chains.safety]
proxies = ["filter"]

[chains.other]
agent = "demo-agent"
"#;

#[test]
fn the_default_chain_runs_or_the_one_that_is_named() {
    let setup = Setup::with_user_file("config-chains", CHAINS);
    let work = ["sparkle", "filter", "agent"];
    assert_eq!(setup.explained(&[]), work);
    assert_eq!(setup.explained(&["--chain", "work"]), work);
    assert_eq!(setup.explained(&["work"]), work);
    assert_eq!(setup.explained(&["--chain", "other"]), ["demo-agent"]);
    // COMPONENTs are as they were before there were files.
    assert_eq!(setup.explained(&["sparkle", "demo-agent"]), ["sparkle", "demo-agent"]);
    // The folder of the file, by another variable.
    let mut command = setup.command(&["agent", "--explain", "--chain", "mine"]);
    let file = setup.write("elsewhere.toml", "[chains.mine]\nagent = \"demo-agent\"\n");
    command.env("CONDUCTOR_CONFIG", &file);
    assert!(finish(command).status.success());
}

#[test]
fn the_name_of_a_program_or_a_built_in_component_is_never_a_chain() {
    let text = "[chains.demo-agent]\nproxies = [\"sparkle\"]\nagent = \"demo-agent\"\n\
                [chains.true]\nagent = \"demo-agent\"\n";
    let setup = Setup::with_user_file("config-names", text);
    assert_eq!(setup.explained(&["demo-agent"]), ["demo-agent"]);
    let output = setup.run(&["agent", "--explain", "demo-agent"]);
    let warning = "is the name of a chain and of a built-in component";
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    assert!(stderr(&output).contains("--chain demo-agent"), "{}", stderr(&output));
    assert_eq!(setup.explained(&["--chain", "demo-agent"]), ["sparkle", "demo-agent"]);
    let output = setup.run(&["agent", "--explain", "true"]);
    assert!(stderr(&output).contains("is the name of a chain and of a program"));
    assert!(!output.status.success());
    assert_eq!(setup.explained(&["--chain", "true"]), ["demo-agent"]);
}

#[test]
fn without_a_chain_the_error_says_how_to_make_one() {
    let setup = Setup::new("config-none");
    let error = setup.refused(&["agent"], 2);
    for part in [
        "there is no COMPONENT, and no default chain",
        "FOLDER/config/conductor/conductor.toml",
        "conductor config edit",
        "[more: conductor errors unknown-chain]",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let error = setup.refused(&["agent", "--chain", "work"], 2);
    assert!(error.contains("there is no chain `work`"), "{error}");
    setup.write("config/conductor/conductor.toml", "[chains.work]\nagent = \"demo-agent\"\n");
    let error = setup.refused(&["agent"], 2);
    assert!(error.contains("--chain work") && error.contains("`default = \"work\"`"), "{error}");
    let error = setup.refused(&["agent", "wrk"], 2);
    assert!(error.contains("no chain `wrk`"), "{error}");
    assert!(error.contains("did you mean the chain `work`?"), "{error}");
    // What is like no chain is a program that is missing.
    let error = setup.refused(&["agent", "--explain", "no-such-agent"], 1);
    assert!(error.contains("command not found"), "{error}");
    let error = setup.refused(&["try", "--chain", "wrk"], 2);
    assert!(error.contains("did you mean `work`?"), "{error}");
    let error = setup.refused(&["agent", "--chain", "work", "demo-agent"], 2);
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn the_chat_runs_a_chain_that_is_named_and_else_the_demo_agent() {
    let setup = Setup::with_user_file("config-try", CHAINS);
    let prompt = ["--prompt", "Which tools do you have?", "--json"];
    let text = setup.printed(&[&["try", "--chain", "work"], &prompt[..]].concat());
    assert!(text.contains("sparkle"), "{text}");
    let text = setup.printed(&[&["try"], &prompt[..]].concat());
    assert!(!text.contains("sparkle"), "{text}");
}

/// The agent of the chain is left out, because the outer chain has one.
#[test]
fn a_chain_is_a_proxy_of_another_conductor() {
    let setup = Setup::with_user_file("config-proxy", CHAINS);
    let nested = format!("{} proxy --chain work", env!("CARGO_BIN_EXE_conductor"));
    let names = setup.explained(&[nested.as_str(), "demo-agent"]);
    assert_eq!(names.len(), 2, "{names:?}");
}

/// An agent that writes what it was started with, and ends.
fn reporting(setup: &Setup) -> String {
    let report = setup.path("report");
    let script = format!(
        "{{ printf '%s\\n' \"$@\"; pwd; env | grep '^T_' | sort; }} > {0}.new; mv {0}.new {0}",
        report.display()
    );
    shell(&script)
}

#[test]
fn a_component_gets_its_arguments_variables_and_folder() {
    let setup = Setup::new("config-launch");
    let args = reporting(&setup);
    let args = args.trim_end_matches(']');
    let text = format!(
        "[components.a]\ncommand = \"sh\"\nargs = {args}, \"sh\", \"${{T_HOME}}/x\", \"${{NOTHING:-none}}\", \"$$5\", \"${{CONDUCTOR_FOLDER}}\"]\n\
         env = {{ T_A = \"a-${{T_HOME}}\", T_B = \"inline\" }}\nenv-file = [\"one.env\", \"two.env\"]\ncwd = \"work\"\n\
         [chains.a]\nagent = \"a\"\n"
    );
    setup.write("config/conductor/conductor.toml", text);
    setup.write("config/conductor/one.env", "# comment\nexport T_B=file\nT_C='c c'\nT_D=1\n");
    setup.write("config/conductor/two.env", "T_D=\"2\"\n");
    setup.write("config/conductor/work/file", "");
    let mut command = setup.command(&["agent", "--explain", "--chain", "a"]);
    command.env("T_HOME", "/t");
    // The agent ends before it has answered.
    assert!(!finish(command).status.success());
    let folder = setup.path("config/conductor");
    let folder = folder.display();
    let expected = format!(
        "/t/x\nnone\n$5\n{folder}\n{folder}/work\nT_A=a-/t\nT_B=inline\nT_C=c c\nT_D=2\nT_HOME=/t\n"
    );
    assert_eq!(setup.read("report"), expected);
}

#[test]
fn the_settings_of_a_chain_win_over_those_of_the_file_and_the_command_line_over_both() {
    let text = "[settings]\nlog = \"debug\"\nlog-file = \"all.log\"\n[chains.a]\nagent = \"demo-agent\"\n\
                [chains.b]\nagent = \"demo-agent\"\n[chains.b.settings]\nlog-file = \"${HOME}/b.log\"\n";
    let setup = Setup::with_user_file("config-layers", text);
    let log = |name: &str| {
        let text = setup.read(name);
        let _ = std::fs::remove_file(setup.path(name));
        text.contains("DEBUG")
    };
    setup.explained(&["--chain", "a"]);
    assert!(log("config/conductor/all.log"));
    setup.explained(&["--chain", "b"]);
    assert!(log("home/b.log") && !log("config/conductor/all.log"));
    // The settings are also those of COMPONENTs.
    setup.explained(&["demo-agent"]);
    assert!(log("config/conductor/all.log"));
    let own = setup.path("own.log");
    setup.explained(&["--chain", "b", "--log-file", own.to_str().expect("UTF-8")]);
    assert!(log("own.log") && !log("home/b.log"));
    setup.explained(&["--chain", "b", "--log", "warn"]);
    assert!(!log("home/b.log"));
    // A variable of the environment is part of the command line.
    let mut command = setup.command(&["agent", "--explain", "--chain", "b"]);
    command.env("CONDUCTOR_LOG", "error");
    assert!(finish(command).status.success());
    assert!(!log("home/b.log"));
}

#[test]
fn a_component_is_part_of_a_chain_if_its_condition_holds_in_this_folder() {
    let text = "[components.rules]\ncommand = \"context\"\noptions = { text = [\"x\"] }\nwhen = { file = \"Cargo.toml\" }\n\
                [chains.a]\nproxies = [\"rules\"]\nagent = \"demo-agent\"\n";
    let setup = Setup::with_user_file("config-when", text);
    assert_eq!(setup.explained(&["--chain", "a"]), ["demo-agent"]);
    setup.write("project/Cargo.toml", "");
    assert_eq!(setup.explained(&["--chain", "a"]), ["rules", "demo-agent"]);
}

#[test]
fn the_file_of_a_project_is_merged_if_the_user_trusts_it() {
    let text = "default = \"mine\"\n[components.a]\ncommand = \"demo-agent\"\n[chains.mine]\nagent = \"a\"\n";
    let setup = Setup::with_user_file("config-project", text);
    let started = setup.path("started");
    let evil = format!(
        "default = \"theirs\"\n[components.p]\ncommand = \"sh\"\nargs = {}\n\
         [chains.theirs]\nproxies = [\"sparkle\"]\nagent = \"a\"\n[chains.evil]\nagent = \"p\"\n",
        shell(&format!("touch {}", started.display()))
    );
    setup.write("project/.conductor.toml", evil);
    assert_eq!(setup.explained(&[]), ["a"]);
    let output = setup.run(&["agent", "--explain"]);
    assert!(stderr(&output).contains("conductor trust"), "{}", stderr(&output));
    let error = setup.refused(&["agent", "--chain", "evil"], 2);
    assert!(error.contains("no chain `evil`") && error.contains("conductor trust"), "{error}");
    assert!(!exists(&started));
    setup.printed(&["trust", "--yes"]);
    assert_eq!(setup.explained(&[]), ["sparkle", "a"]);
    assert_eq!(setup.explained(&["theirs"]), ["sparkle", "a"]);
    // A command line with COMPONENTs does not read it.
    assert_eq!(setup.explained(&["demo-agent"]), ["demo-agent"]);
}
