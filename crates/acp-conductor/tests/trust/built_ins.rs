//! Built-in components of a project that run commands of other files.

use super::*;

/// The hooks of the project's own files.
const PROJECT_HOOKS: &str = "default = \"theirs\"\n[components.h]\ncommand = \"hooks\"\noptions = { project_hooks = true }\n\
                             [components.evil]\ncommand = \"./bin/agent\"\n[chains.theirs]\nproxies = [\"h\"]\nagent = \"evil\"\n";

impl Setup {
    /// Writes settings of Claude Code with a hook that runs a command when a session starts.
    fn write_hook(&self, file: &str, command: &str) {
        let hooks = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
        self.write(file, json!({ "hooks": { "SessionStart": hooks } }).to_string());
    }

    fn touch(&self, marker: &str) -> String {
        format!(": >'{}'", self.path(marker).display())
    }

    /// The default chain, in a session in the project.
    fn run_in_project(&self) -> Run {
        self.run_session("project", &["agent"], self.path("project"))
    }

    fn assert_hook_asks(&self, why: &str) {
        self.assert_asks(why);
        assert!(!self.ran("hook-ran"), "a hook has run");
    }

    fn assert_hook_runs(&self) {
        let run = self.run_in_project();
        assert!(self.ran("hook-ran") && self.ran("evil-ran"), "{run:?}");
        self.remove("hook-ran");
        self.remove("evil-ran");
    }
}

#[test]
fn the_hooks_of_a_project_are_part_of_the_consent() {
    let setup = Setup::with_project("project-hooks", PROJECT_HOOKS);
    setup.write_hook("project/.claude/settings.json", &setup.touch("hook-ran"));
    let output = setup.output("project", &["trust", "--yes"]);
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    let row = format!("  also runs SessionStart: {}\n", setup.touch("hook-ran"));
    assert!(shown.contains(&row) && shown.contains("  .claude/settings.json\n"), "{shown}");
    setup.assert_hook_runs();
    setup.write_hook("project/.claude/settings.json", &setup.touch("other"));
    setup.assert_hook_asks(".claude/settings.json has changed since you agreed to it");
    setup.trust();
    setup.write_hook("project/.claude/settings.local.json", &setup.touch("other"));
    setup.assert_hook_asks(".claude/settings.local.json is new since you agreed to it");
    assert!(!setup.ran("other"));
}

/// The project only adds the option to the component of the user.
#[test]
fn a_project_cannot_add_its_hooks_to_a_component_of_the_user() {
    let setup = Setup::new("add-hooks");
    let own = setup.path("config/conductor/conductor.toml");
    let text = fs::read_to_string(&own).expect("ours");
    let text = text.replace("proxies = [{ chain", "proxies = [\"hk\", { chain");
    fs::write(&own, format!("{text}[components.hk]\ncommand = \"hooks\"\n")).expect("ours");
    setup.write("project/.conductor.toml", "[components.hk]\noptions = { project_hooks = true }\n");
    setup.trust();
    setup.write_hook("project/.claude/settings.json", &setup.touch("hook-ran"));
    let run = setup.run_in_project();
    assert!(!setup.ran("hook-ran") && setup.ran("mine-ran"), "{run:?}");
    assert!(run.editor.contains(".claude/settings.json is new since you agreed to it"), "{run:?}");
}

#[test]
fn a_script_that_a_hook_runs_is_part_of_the_consent() {
    for (number, (option, file)) in [
        ("project_hooks = true", "project/.claude/settings.json"),
        ("settings = [\"hooks.json\"]", "project/hooks.json"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = PROJECT_HOOKS.replace("project_hooks = true", option);
        let setup = Setup::with_project(&format!("hook-script-{number}"), &text);
        setup.write_hook(file, "\"$CLAUDE_PROJECT_DIR\"/guard.sh");
        let write = |marker: &str| {
            setup.write("project/guard.sh", format!("#!/bin/sh\n{}\n", setup.touch(marker)));
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(setup.path("project/guard.sh"), mode).expect("ours");
        };
        write("hook-ran");
        setup.trust();
        setup.assert_hook_runs();
        write("other");
        setup.assert_hook_asks("guard.sh has changed since you agreed to it");
        assert!(!setup.ran("other"));
    }
}

/// The consent is about one project, but a session can be in any folder, and can begin at any time.
#[test]
fn the_hooks_of_another_project_do_not_run() {
    let setup = Setup::with_project("other-hooks", PROJECT_HOOKS);
    setup.trust();
    setup.write_hook("other/.claude/settings.json", &setup.touch("hook-ran"));
    let mut command = setup.conductor("project", &["agent"]);
    let mut editor = Editor::start(&mut command);
    editor.request("initialize", json!({ "protocolVersion": 1 }));
    let answer =
        editor.request("session/new", json!({ "cwd": setup.path("other"), "mcpServers": [] }));
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("is not part of the project to which you agreed"), "{answer}");
    assert!(why.contains("conductor trust"), "{answer}");
    // The file is new since the chain has started.
    setup.write_hook("project/.claude/settings.json", &setup.touch("hook-ran"));
    let answer =
        editor.request("session/new", json!({ "cwd": setup.path("project"), "mcpServers": [] }));
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        why.contains("settings.json do not run, because it is new since you agreed"),
        "{answer}"
    );
    assert!(!setup.ran("hook-ran"));
}

/// `conductor component` is not a way around the consent.
#[test]
fn a_built_in_component_that_runs_as_a_process_is_looked_into() {
    let conductor = env!("CARGO_BIN_EXE_conductor");
    let text = PROJECT_HOOKS.replace(
        "command = \"hooks\"\noptions = { project_hooks = true }",
        &format!("command = {conductor:?}\nargs = [\"component\", \"hooks\", \"--project-hooks\"]"),
    );
    let setup = Setup::with_project("process-hooks", &text);
    setup.write_hook("project/.claude/settings.json", &setup.touch("hook-ran"));
    setup.trust();
    setup.assert_hook_runs();
    setup.write_hook("project/.claude/settings.json", &setup.touch("other"));
    setup.assert_hook_asks(".claude/settings.json has changed since you agreed to it");
}

/// A script that changes while its component runs does not replace it after a crash.
#[test]
fn a_component_is_not_restarted_with_a_changed_script() {
    let script = |setup: &Setup, marker: &str| {
        let text = format!(
            "#!/bin/sh\necho $$ >'{}'\n{}\nexec '{}' component sparkle\n",
            setup.path("pid").display(),
            setup.touch(marker),
            env!("CARGO_BIN_EXE_conductor"),
        );
        setup.write("project/proxy.sh", text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(setup.path("project/proxy.sh"), mode).expect("ours");
    };
    let text = "default = \"theirs\"\n[components.p]\ncommand = \"./proxy.sh\"\n[components.evil]\ncommand = \"./bin/agent\"\n\
                [chains.theirs]\nproxies = [\"p\"]\nagent = \"evil\"\n";
    let setup = Setup::with_project("restart", text);
    script(&setup, "good-ran");
    setup.trust();
    let mut command = setup.conductor("project", &["agent"]);
    let mut editor = Editor::start(&mut command);
    editor.request("initialize", json!({ "protocolVersion": 1 }));
    editor.request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
    assert!(setup.ran("good-ran"));
    script(&setup, "other");
    let pid = fs::read_to_string(setup.path("pid")).expect("written");
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().expect("kill").success());
    // The proxy is not a guard, so the chain goes on without it.
    let prompt = json!({ "sessionId": "s", "prompt": [] });
    let mut answer = editor.request("session/prompt", prompt.clone());
    if answer["error"]["data"]["signal"] == 9 {
        // It had reached the proxy.
        answer = editor.request("session/prompt", prompt);
    }
    assert!(answer["result"].is_object(), "{answer}");
    let (_, stderr) = editor.end();
    assert!(!setup.ran("other"));
    assert!(stderr.contains("proxy.sh has changed since you agreed to it"), "{stderr}");
    assert!(stderr.contains("`conductor trust "), "{stderr}");
}
