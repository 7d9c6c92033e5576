//! A project that its user has not consented to.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn the_file_in_its_folder_is_not_used_either() {
    let setup = Setup::new("folder");
    setup.write("project/.conductor/conductor.toml", PROJECT);
    setup.assert_asks(NOT_YET);
}

#[test]
fn a_component_or_chain_with_the_name_of_the_users_is_not_used() {
    for (number, file) in [
        "[components.me]\ncommand = \"./bin/agent\"\n",
        "[components.me]\nargs = [\"x\"]\nenv = { PATH = \"bin\" }\n",
        "[components.extra]\ncommand = \"./bin/agent\"\n[chains.mine]\nproxies = [\"extra\"]\n",
        "[components.evil]\ncommand = \"./bin/agent\"\n[chains.mine]\nagent = \"evil\"\n",
        // The user's chain includes this one.
        "[components.evil]\ncommand = \"./bin/agent\"\n[chains.included]\nproxies = [\"evil\"]\n",
        // A component with the name of a built-in component.
        "[components.log]\ncommand = \"./bin/agent\"\n[chains.included]\nproxies = [\"log\"]\n",
        "[chains.evil]\nagent = \"demo-agent\"\n[chains.mine]\nproxies = [{ chain = \"evil\" }]\n",
    ]
    .into_iter()
    .enumerate()
    {
        let setup = Setup::with_project(&format!("same-name-{number}"), file);
        setup.assert_asks(NOT_YET);
    }
}

#[test]
fn settings_are_not_used() {
    let setup = Setup::new("settings");
    let log = setup.path("evil-ran").display().to_string();
    let file = format!("[settings]\nlog = \"trace\"\nlog-file = {log:?}\n");
    setup.write("project/.conductor.toml", file);
    setup.assert_asks("It only has settings.");
}

/// A condition reads files and searches commands. That of a project is not even evaluated.
#[test]
fn conditions_run_nothing() {
    let setup = Setup::with_project(
        "when",
        "[components.evil]\ncommand = \"./bin/agent\"\nwhen = { any = [{ command = \"agent\" }, { file = \"fifo\" }, \
         { crate = \"x\" }, { npm = \"x\" }, { python = \"x\" }, { env = \"X\" }] }\n\
         [chains.mine]\nagent = \"evil\"\n",
    );
    for name in
        ["Cargo.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "uv.lock", "fifo"]
    {
        setup.fifo(&format!("project/{name}"));
    }
    let path =
        format!("{}:{}", setup.path("project/bin").display(), std::env::var("PATH").unwrap());
    setup.env("PATH", path).assert_asks(NOT_YET);
}

/// A file that its user has never seen must not decide which other files conductor opens.
#[test]
fn what_the_file_names_is_not_looked_at() {
    let setup = Setup::with_project(
        "looked-at",
        "[components.evil]\ncommand = \"./huge\"\nenv-file = \"fifo\"\n[chains.mine]\nagent = \"evil\"\n",
    );
    setup.fifo("project/fifo");
    let huge = fs::File::create(setup.path("project/huge")).expect("ours");
    huge.set_len(1 << 40).expect("sparse");
    // To look at one of them would be another reason.
    setup.assert_asks(NOT_YET);
}

#[test]
fn a_chain_of_the_project_cannot_be_named() {
    let setup = Setup::with_project("named", PROJECT);
    for args in [
        &["agent", "--chain", "theirs"][..],
        &["proxy", "--chain", "theirs"],
        &["agent", "--explain", "--chain", "theirs"],
    ] {
        let run = setup.run_in("project", args);
        assert!(!setup.ran("evil-ran") && run.status != Some(0), "{args:?}: {run:?}");
        assert!(run.stderr.contains("conductor trust"), "{args:?}: {run:?}");
    }
}

#[test]
fn no_command_starts_a_component_of_the_project() {
    let setup = Setup::with_project("commands", PROJECT);
    for args in [
        &["agent", "--explain"][..],
        &["try", "--prompt", "x"],
        &["config", "show"],
        &["config", "check"],
        &["chain", "explain"],
        &["chain", "explain", "theirs"],
        &["chain", "list"],
        &["trust"],
        &["untrust"],
        &["status"],
    ] {
        let output = setup.output("project", args);
        assert!(!setup.ran("evil-ran"), "{args:?}: {output:?}");
    }
}

#[test]
fn a_file_that_is_a_link_is_not_used() {
    let setup = Setup::new("link");
    setup.write("outside/file", PROJECT);
    setup.link("../outside/file", "project/.conductor.toml");
    setup.assert_asks(NOT_YET);
    // The content of the link's target counts.
    setup.trust();
    setup.assert_used();
    setup.write("outside/file", format!("{PROJECT}\n"));
    setup.assert_asks(".conductor.toml has changed since you agreed to it");
}

/// Whatever is in the place of the file, the chain of the user runs and nothing waits.
#[test]
fn what_is_not_a_small_text_is_not_used() {
    let setup = Setup::new("special");
    let file = "project/.conductor.toml";
    setup.fifo(file);
    setup.assert_refused("it is not a regular file");
    setup.remove(file);
    for (target, why) in [
        ("/dev/zero", "not a regular file"),
        (".conductor.toml", "link"),
        ("nothing", "does not exist"),
    ] {
        setup.link(target, file);
        setup.assert_refused(why);
        setup.remove(file);
    }
    setup.write(file, format!("{PROJECT}{}", "#".repeat(1 << 20)));
    setup.assert_refused("more than 1048576 bytes");
    let huge = fs::File::create(setup.path(file)).expect("ours");
    huge.set_len(1 << 40).expect("sparse");
    setup.assert_refused("more than 1048576 bytes");
    setup.write(file, [PROJECT.as_bytes(), b"# \xff\n"].concat());
    setup.assert_refused("not UTF-8");
    for deep in ["[".repeat(500_000), "{a=".repeat(300_000), format!("a{}=1", ".a".repeat(500_000))]
    {
        setup.write(file, format!("{PROJECT}\nx = {deep}"));
        setup.assert_asks("It has an error as well");
    }
    setup.write(file, PROJECT);
    setup.write("project/.conductor/conductor.toml", PROJECT);
    setup.assert_refused("two configuration files");
}

/// A text in which keys with many parts and inline tables multiply: a parser that limits each alone builds 6400 levels.
fn nested_keys() -> String {
    let key = vec!["a"; 79].join(".");
    format!("{key}={}1{}\n", format!("{{{key}=").repeat(79), "}".repeat(79))
}

#[test]
fn nested_keys_and_tables_do_not_overflow_the_stack() {
    let setup = Setup::new("nested-keys");
    let too_deep = "nested more than 128 levels deep";
    // The file of a project, which its user has not seen yet.
    setup.write(
        "project/.conductor.toml",
        format!("{PROJECT}[components.evil.options]\n{}", nested_keys()),
    );
    setup.assert_asks("It has an error as well");
    for args in [&["config", "check"][..], &["chain", "explain"], &["trust"]] {
        let output = setup.output("project", args);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
        assert!(output.status.code().is_some(), "{args:?} ends by a signal: {text}");
        if args != ["chain", "explain"] {
            assert!(text.contains(too_deep), "{args:?}: {text}");
            assert!(text.contains(".conductor.toml:7:"), "{args:?}: {text}");
        }
    }
    setup.remove("project/.conductor.toml");
    // Lock files that a condition reads.
    let user_file = setup.path("config/conductor/conductor.toml");
    let own = fs::read_to_string(&user_file).expect("ours");
    for (condition, file, text, why) in [
        ("crate", "Cargo.lock", nested_keys(), too_deep),
        ("python", "uv.lock", format!("[[package]]\n{}", nested_keys()), too_deep),
        ("npm", "package-lock.json", "{\"a\":".repeat(100_000), "is not valid"),
    ] {
        let log =
            format!("[components.extra]\ncommand = \"log\"\nwhen = {{ {condition} = \"x\" }}\n");
        let text_of_user = own.replace("[components.extra]\ncommand = \"log\"\n", &log);
        let text_of_user = text_of_user.replace("proxies = []", "proxies = [\"extra\"]");
        setup.write("config/conductor/conductor.toml", text_of_user);
        setup.write(&format!("project/{file}"), text);
        let output = setup.output("project", &["chain", "explain"]);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
        assert!(text.contains(why) && output.status.code().is_some(), "{file}: {text}");
    }
    // Files that built-in components read.
    for (option, file, text) in [
        ("permissions --config", "rules.toml", nested_keys()),
        ("hooks --codex", "config.toml", nested_keys()),
        ("hooks --settings", "settings.json", "{\"hooks\":".repeat(100_000)),
    ] {
        setup.write(&format!("project/{file}"), text);
        let component = format!("{option} {file}");
        let output = setup.output("project", &["agent", &component, "demo-agent"]);
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.code() == Some(2) && text.contains(&format!("{file}:1")), "{text}");
    }
}

/// Neither the editor nor the terminal gets escape sequences and characters that change the order of text.
#[test]
fn names_cannot_imitate_other_text() {
    let setup = Setup::new("names");
    let evil = "a\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}b\r\nc";
    let folder = format!("project/{evil}");
    setup.write(&format!("{folder}/.conductor.toml"), PROJECT);
    let run = setup.run_in(&folder, &["agent"]);
    assert!(setup.ran("mine-ran") && !setup.ran("evil-ran"), "{run:?}");
    let args = "args = [\"\\u001B[2J\\u202Ex\\u200B\", \"\\u3164\\uFFA0\\u115F\\u1160\\uFE0F\"]\n";
    let file = PROJECT.replace("[chains", &format!("{args}[chains"));
    setup.write(&format!("{folder}/.conductor.toml"), file);
    let shown = [run.stderr, run.editor].into_iter().chain(
        [vec!["trust"], vec!["trust", "--yes"], vec!["trust", "--list"], vec!["untrust"]].map(
            |args| {
                let output = setup.output(&folder, &args);
                let text = [output.stdout, output.stderr].concat();
                String::from_utf8(text).expect("UTF-8")
            },
        ),
    );
    for text in shown {
        let wrong = |it| {
            it != '\n'
                && (char::is_control(it)
                    || "\u{202e}\u{200b}\u{3164}\u{ffa0}\u{115f}\u{1160}\u{fe0f}".contains(it))
        };
        assert!(!text.is_empty() && !text.contains(wrong), "{text:?}");
    }
}

/// A project can contain files with the form of records, and the folder of the records can be set to it by mistake.
#[test]
fn records_that_the_project_brings_along_are_no_consent() {
    let setup = Setup::with_project("forged", PROJECT);
    setup.trust();
    setup.assert_used();
    setup.rename("state", "project/state");
    setup.assert_asks(NOT_YET);
    let setup = setup.env("XDG_STATE_HOME", "state");
    setup.assert_asks("its path is relative");
    let inside = setup.path("project/state");
    let setup = setup.env("XDG_STATE_HOME", inside);
    setup.assert_asks("inside of the project");
    let output = setup.output("project", &["trust", "--yes"]);
    assert!(!output.status.success(), "{output:?}");
    // As Git makes them.
    let outside = setup.path("state");
    setup.rename("project/state", "state");
    let setup = setup.env("XDG_STATE_HOME", outside);
    setup.assert_used();
    let mode = |mode| {
        let folder = setup.path("state/conductor/trust");
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode(0o755);
    setup.assert_asks("other users can access it");
    mode(0o777);
    setup.assert_asks("other users can access it");
    mode(0o700);
    setup.assert_used();
}

#[test]
fn a_record_that_is_damaged_or_a_link_is_no_consent() {
    let setup = Setup::with_project("records", PROJECT);
    setup.trust();
    let folder = setup.path("state/conductor/trust");
    let records = fs::read_dir(&folder).expect("ours").flatten();
    let names = records.map(|it| it.file_name().into_string().expect("ASCII"));
    let name = names.into_iter().find(|it| it.ends_with(".json")).expect("a record");
    let name = format!("state/conductor/trust/{name}");
    let whole = fs::read_to_string(setup.path(&name)).expect("ours");
    setup.rename(&name, "project/record");
    setup.link(setup.path("project/record"), &name);
    setup.assert_asks("symbolic link");
    setup.remove(&name);
    setup.rename("project/record", &name);
    setup.assert_used();
    setup.write(&name, &whole[..whole.len() - 2]);
    setup.assert_asks("it is damaged");
}
