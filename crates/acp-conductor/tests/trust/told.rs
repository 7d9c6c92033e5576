//! What the editor and its user are told about a project that is not trusted.

use super::*;

const INITIALIZE: &str = "initialize";

impl Setup {
    fn user_file(&self, change: impl FnOnce(String) -> String) {
        let own = self.path("config/conductor/conductor.toml");
        let text = fs::read_to_string(&own).expect("ours");
        fs::write(own, change(text)).expect("ours");
    }

    fn editor(&self, folder: &str, args: &[&str]) -> Editor {
        Editor::start(&mut self.conductor(folder, args))
    }

    /// The answer to `initialize` of a command that does not start a chain, and what it wrote to standard error.
    fn refused(&self, args: &[&str]) -> (Value, String) {
        let mut editor = self.editor("project", args);
        let answer = editor.request(INITIALIZE, json!({ "protocolVersion": 1 }));
        let (status, stderr) = editor.end();
        assert_eq!(status, Some(2), "{answer} {stderr}");
        assert!(!self.ran("evil-ran") && !self.ran("mine-ran"));
        (answer, stderr)
    }
}

#[test]
fn the_editor_is_told_why_there_is_no_chain() {
    let setup = Setup::with_project("no-chain", PROJECT);
    let told = |args: &[&str], parts: [&str; 2]| {
        let (answer, stderr) = setup.refused(args);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        for part in parts {
            assert!(message.contains(part) && stderr.contains(part), "{args:?}: {answer} {stderr}");
        }
        assert!(!message.contains('\n'), "{message}");
        answer["error"]["data"]["code"].as_str().unwrap_or_default().to_owned()
    };
    let command = format!("conductor trust {}", setup.path("project").display());
    for args in
        [&["agent", "theirs"][..], &["agent", "--chain", "theirs"], &["proxy", "--chain", "theirs"]]
    {
        assert_eq!(told(args, ["there is no chain `theirs`", &command]), "unknown-chain");
    }
    setup.user_file(|text| text.replace("default = \"mine\"\n", ""));
    assert_eq!(told(&["agent"], ["no default chain", &command]), "unknown-chain");
    setup.user_file(|text| text.replace("command = ", "comand = "));
    let code = told(&["agent"], ["unknown key `comand`", "conductor.toml:4:1"]);
    assert_eq!(code, "invalid-configuration");
}

/// The setting is about components that fail.
#[test]
fn a_user_without_notices_is_told_that_the_project_is_not_used() {
    let setup = Setup::with_project("no-notices", PROJECT);
    setup.user_file(|text| format!("{text}[settings]\nnotices = false\n"));
    setup.assert_asks(NOT_YET);
}

/// A relative name means two files there. Consent in the root does not apply to the second one.
#[test]
fn the_notice_in_a_folder_of_the_project_names_a_command_that_helps() {
    let text = "default = \"theirs\"\n[components.evil]\ncommand = \"sh\"\nargs = [\"agent\"]\n[chains.theirs]\nagent = \"evil\"\n";
    let setup = Setup::with_project("folder-of-project", text);
    setup.write_agent("project", "evil-ran");
    setup.write_agent("project/sub", "evil-ran");
    setup.trust();
    let run = setup.run_in("project/sub", &["agent"]);
    let folder = setup.path("project/sub").display().to_string();
    let command = format!("conductor trust {folder}");
    assert!(run.editor.contains("sub/agent is new") && run.editor.contains(&command), "{run:?}");
    assert!(!setup.ran("evil-ran"));
    setup.remove("mine-ran");
    let output = setup.output("home", &["trust", "--yes", &folder]);
    assert!(output.status.success(), "{output:?}");
    let run = setup.run_in("project/sub", &["agent"]);
    assert!(setup.ran("evil-ran") && !run.editor.contains("trust"), "{run:?}");
    setup.remove("evil-ran");
    setup.assert_used();
}

/// A change without consent does not take the components of a project away that guard it.
#[test]
fn a_reload_keeps_the_chain_of_a_project_that_has_changed() {
    let text = PROJECT.replace("agent = \"evil\"", "proxies = [\"filter\"]\nagent = \"evil\"");
    let setup = Setup::with_project("kept", &text);
    setup.trust();
    let mut editor = setup.editor("project", &["agent"]);
    editor.request(INITIALIZE, json!({ "protocolVersion": 1 }));
    setup.write("project/.conductor.toml", text.replace("[\"filter\"]", "[]"));
    // Other tests have chains, too.
    let pid = editor.child.id().to_string();
    let components = || {
        let status = setup.output("home", &["status", &pid, "--json"]);
        let status = parse(&String::from_utf8(status.stdout).expect("UTF-8"));
        status[0]["components"].as_array().map(Vec::len)
    };
    let output = setup.output("home", &["reload", &pid]);
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains(
            ".conductor.toml has changed since you agreed to it. The chain goes on as it is."
        ),
        "{told}"
    );
    assert!(
        told.contains(&format!("conductor trust {}", setup.path("project").display())),
        "{told}"
    );
    assert_eq!(components(), Some(2));
    setup.trust();
    assert!(setup.output("home", &["reload", &pid]).status.success());
    assert_eq!(components(), Some(1));
    editor.end();
}

/// There, conductor is the editor: the project is that of the session.
#[test]
fn try_uses_the_configuration_of_the_folder_of_its_session() {
    let text = PROJECT
        .replace("[chains", "args = [\"x\"]\nwhen = { file = \".conductor.toml\" }\n[chains");
    let setup = Setup::with_project("try-cwd", &text);
    setup.write("project/bin/agent", "#!/bin/sh\npwd >../where\n");
    setup.trust();
    let args = ["try", "--cwd", "../project", "--chain", "theirs", "--prompt", "x"];
    let output = setup.output("home", &args);
    let folder = fs::read_to_string(setup.path("where")).unwrap_or_default();
    assert_eq!(Path::new(folder.trim_end()), setup.path("project"), "{output:?}");
}

#[test]
fn a_program_with_the_name_of_a_chain_of_the_project_runs_with_a_warning() {
    let setup = Setup::with_project("same-name-program", "[chains.true]\nagent = \"demo-agent\"\n");
    setup.trust();
    let mut editor = setup.editor("project", &["agent", "true"]);
    editor.request(INITIALIZE, json!({ "protocolVersion": 1 }));
    let (_, stderr) = editor.end();
    assert!(stderr.contains("'true' is the name of a chain and of a program"), "{stderr}");
}
