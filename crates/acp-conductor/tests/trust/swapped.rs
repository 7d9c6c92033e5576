//! A project that changes after its user has consented to it.

use super::*;

/// The env-file decides which program runs, and what it loads.
const WITH_ENV_FILE: &str = "default = \"theirs\"\n[components.evil]\ncommand = \"agent\"\nenv-file = \"FILE\"\n\
                             [chains.theirs]\nagent = \"evil\"\n";

impl Setup {
    /// A project that the user trusts. Its env-file leads to the program of the user.
    fn with_env_file(name: &str, path: &str) -> Setup {
        let setup = Setup::with_project(name, &WITH_ENV_FILE.replace("FILE", path));
        setup.write("outside/safe", setup.search_path("bin"));
        setup.write("outside/evil", setup.search_path("project/bin"));
        setup
    }

    fn search_path(&self, folder: &str) -> String {
        format!("PATH={}:/usr/bin:/bin\n", self.path(folder).display())
    }

    /// The project uses the program of the user, as its user has seen it.
    fn assert_safe(&self) {
        let run = self.run();
        assert!(!self.ran("evil-ran") && self.ran("mine-ran"), "{run:?}");
        assert_eq!(run.stderr, "");
        self.remove("mine-ran");
    }
}

#[test]
fn a_changed_file_asks_again() {
    let setup = Setup::with_project("changed", "[chains.theirs]\nagent = \"demo-agent\"\n");
    setup.trust();
    setup.write("project/.conductor.toml", PROJECT);
    setup.assert_asks(".conductor.toml has changed since you agreed to it");
    setup.trust();
    setup.assert_used();
}

#[test]
fn a_changed_env_file_asks_again() {
    let setup = Setup::with_env_file("env-file", ".env");
    setup.rename("outside/safe", "project/.env");
    setup.trust();
    setup.assert_safe();
    setup.rename("outside/evil", "project/.env");
    setup.assert_asks(".env has changed since you agreed to it");
    setup.remove("project/.env");
    setup.assert_asks(".env does not exist any more since you agreed to it");
    setup.fifo("project/.env");
    setup.assert_asks("it is not a regular file");
}

#[test]
fn an_env_file_that_appears_asks_again() {
    let setup = Setup::with_env_file("env-file-new", ".env");
    setup.trust();
    setup.rename("outside/evil", "project/.env");
    setup.assert_asks(".env is new since you agreed to it");
}

#[test]
fn an_env_file_that_is_a_link_is_compared_where_it_leads_to() {
    let setup = Setup::with_env_file("env-link", ".env");
    setup.link("../outside/safe", "project/.env");
    setup.trust();
    setup.assert_safe();
    setup.remove("project/.env");
    setup.link("../outside/evil", "project/.env");
    setup.assert_asks(".env has changed since you agreed to it");
    setup.remove("project/.env");
    setup.link("/dev/zero", "project/.env");
    setup.assert_asks("it is not a regular file");
}

#[test]
fn an_env_file_outside_of_the_project_is_compared() {
    let setup = Setup::with_env_file("env-outside", "../outside/safe");
    setup.trust();
    setup.assert_safe();
    setup.rename("outside/evil", "outside/safe");
    setup.assert_asks("outside/safe has changed since you agreed to it");
}

/// The environment of the conductor decides where the consents are. That of a component does not.
#[test]
fn an_env_file_does_not_move_the_consents() {
    let setup = Setup::with_project("env-state", &WITH_ENV_FILE.replace("FILE", ".env"));
    let state = setup.path("project/state").display().to_string();
    let text = format!("{}XDG_STATE_HOME={state}\nHOME={state}\n", setup.search_path("bin"));
    setup.write("project/.env", &text);
    setup.trust();
    setup.assert_safe();
    // The project brings along a consent to its next state.
    setup.write(
        "project/.env",
        text.replace(&setup.search_path("bin"), &setup.search_path("project/bin")),
    );
    let forged = setup.path("forged");
    let other = Setup { root: setup.root.clone(), env: vec![("XDG_STATE_HOME".into(), forged)] };
    other.trust();
    setup.rename("forged", "project/state");
    setup.assert_asks(".env has changed since you agreed to it");
}

/// Scripts that the command, the arguments and the variables name.
#[test]
fn a_changed_script_asks_again() {
    let command = |text: &str| {
        format!(
            "default = \"theirs\"\n[components.evil]\n{text}\n[chains.theirs]\nagent = \"evil\"\n"
        )
    };
    for (number, (text, name)) in [
        ("command = \"./run.sh\"", "run.sh"),
        ("command = \"sh\"\nargs = [\"run.sh\"]", "run.sh"),
        ("command = \"sh\"\nargs = [\"-c\", \"exec ./run.sh --x\"]", "run.sh"),
        ("command = \"sh\"\nargs = [\"run.sh\"]\ncwd = \"sub\"", "sub/run.sh"),
        (
            "command = \"sh\"\nargs = [\"-c\", \". ${CONDUCTOR_FOLDER}/sub/../run.sh\"]",
            "sub/../run.sh",
        ),
        ("command = \"run.sh\"\nenv = { PATH = \"${CONDUCTOR_FOLDER}:/usr/bin:/bin\" }", "run.sh"),
        (
            "command = \"sh\"\nargs = [\"-c\", \"exec ./node_modules/@scope/run.sh\"]",
            "node_modules/@scope/run.sh",
        ),
        ("command = \"sh\"\nargs = [\"-c\", \"exec './my tools/run.sh'\"]", "my tools/run.sh"),
        ("command = \"sh\"\nargs = [\"-c\", \"exec \\\"$${PWD}\\\"/run.sh\"]", "run.sh"),
        ("command = \"sh\"\nargs = [\"-c\", \"cd sub && exec ./run.sh\"]", "sub/run.sh"),
        ("command = \"sh\"\nargs = [\"-c\", \"cd sub; exec ../run.sh\"]", "sub/../run.sh"),
        ("command = \"env\"\nargs = [\"-C\", \"sub\", \"./run.sh\"]", "sub/run.sh"),
        ("command = \"env\"\nargs = [\"--chdir=sub\", \"sh\", \"run.sh\"]", "sub/run.sh"),
        (
            "command = \"bash\"\nargs = [\"-c\", \"exit 1\"]\nenv = { BASH_ENV = \"run.sh\" }",
            "run.sh",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let setup = Setup::with_project(&format!("script-{number}"), &command(text));
        let script = |program: &str| {
            let path = setup.path("project").join(name);
            setup.write("project/sub/file", "");
            setup.write(
                &format!("project/{name}"),
                format!("#!/bin/sh\nexec '{}'\n", setup.path(program).display()),
            );
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path, mode).expect("ours");
        };
        script("bin/agent");
        setup.trust();
        setup.assert_safe();
        script("project/bin/agent");
        setup.assert_asks(&format!("{name} has changed since you agreed to it"));
    }
}

/// The component is restarted, so that a restart after a crash compares the script with what its user has agreed to last.
#[test]
fn a_script_that_is_agreed_to_again_runs_after_a_reload() {
    let setup = Setup::with_project("agreed-again", PROJECT);
    setup.trust();
    let mut editor =
        Editor::start(&mut setup.conductor("project", &["agent", "--chain", "theirs"]));
    let greeting = editor.request("initialize", json!({ "protocolVersion": 1 }));
    assert!(greeting["result"].is_object(), "{greeting}");
    setup.remove("evil-ran");
    let reload = || {
        let pid = editor.child.id().to_string();
        let output = setup.output("project", &["reload", &pid, "--json"]);
        let reports: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        reports[0]["report"].clone()
    };
    assert_eq!(reload()["restarted"], json!([]));
    // The shell that runs goes on with its own file.
    let (script, changed) = (setup.path("project/bin/agent"), setup.path("project/bin/changed"));
    fs::copy(&script, &changed).expect("ours");
    let text = fs::read_to_string(&script).expect("ours");
    fs::write(&changed, text + "# changed\n").expect("ours");
    setup.rename("project/bin/changed", "project/bin/agent");
    // The chain of the project seems to be missing, but this is the reason.
    let error = reload()["error"].clone();
    let why = "agent has changed since you agreed to it. The chain goes on as it is.";
    assert!(error.as_str().is_some_and(|it| it.contains(why)), "{error}");
    setup.trust();
    assert_eq!(reload()["restarted"], json!(["evil"]));
    assert!(setup.ran("evil-ran"), "it was not started again");
    let (status, stderr) = editor.end();
    assert_eq!(status, Some(0), "{stderr}");
}

#[test]
fn a_script_that_appears_where_it_is_found_first_asks_again() {
    let setup = Setup::with_project(
        "first",
        "default = \"theirs\"\n[components.evil]\ncommand = \"sh\"\nargs = [\"-c\", \"cd sub; exec ./agent\"]\n\
         [chains.theirs]\nagent = \"evil\"\n",
    );
    // There is no such program, so nothing bad can happen yet.
    setup.trust();
    setup.rename("project/bin", "project/sub");
    setup.rename("project/sub/agent", "project/agent");
    setup.assert_asks("agent is new since you agreed to it");
}

/// A folder that is replaced by a link, or by another folder.
#[test]
fn a_folder_that_is_replaced_asks_again() {
    let setup = Setup::with_project(
        "replaced",
        "default = \"theirs\"\n[components.evil]\ncommand = \"./tools/agent\"\n[chains.theirs]\nagent = \"evil\"\n",
    );
    setup.link(setup.path("bin"), "project/tools");
    setup.trust();
    setup.assert_safe();
    setup.remove("project/tools");
    setup.link("bin", "project/tools");
    setup.assert_asks("tools/agent has changed since you agreed to it");
    setup.remove("project/tools");
    setup.rename("project/bin", "project/tools");
    setup.assert_asks("tools/agent has changed since you agreed to it");
}

#[test]
fn a_variable_in_a_path_asks_again_when_it_leads_to_another_file() {
    let setup = Setup::with_project(
        "variable",
        "default = \"theirs\"\n[components.evil]\ncommand = \"./${TOOLS:-tools}/agent\"\n[chains.theirs]\nagent = \"evil\"\n",
    );
    setup.link(setup.path("bin"), "project/tools");
    setup.trust();
    setup.assert_safe();
    setup.env("TOOLS", "bin").assert_asks("bin/agent is new since you agreed to it");
}

#[test]
fn a_nearer_file_asks_again() {
    let setup = Setup::with_project("nearer", "[settings]\ngrace = 1\n");
    setup.trust();
    setup.write("project/sub/.conductor.toml", PROJECT.replace("./bin", "../bin"));
    let run = setup.run_in("project/sub", &["agent"]);
    assert!(!setup.ran("evil-ran") && setup.ran("mine-ran"), "{run:?}");
    assert!(run.stderr.contains(NOT_YET) && run.editor.contains(NOT_YET), "{run:?}");
    // A file in the other place of the same folder.
    setup.write("project/.conductor/conductor.toml", PROJECT);
    setup.assert_refused("two configuration files");
    setup.remove("project/.conductor.toml");
    setup.assert_asks("conductor.toml is new since you agreed to it");
}

#[test]
fn a_moved_or_copied_project_asks_again() {
    let setup = Setup::with_project("moved", PROJECT);
    setup.trust();
    setup.assert_used();
    setup.rename("project", "moved");
    let run = setup.run_in("moved", &["agent"]);
    assert!(!setup.ran("evil-ran") && run.stderr.contains(NOT_YET), "{run:?}");
    setup.rename("moved", "project");
    // Another name of the same folder is the same project.
    setup.link("project", "alias");
    let run = setup.run_in("alias", &["agent"]);
    assert!(setup.ran("evil-ran"), "{run:?}");
}
