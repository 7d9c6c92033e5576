//! `conductor config edit` and `conductor config path`.

use testkit::test_chain::write_script;

use super::{Setup, finish, stderr};

#[test]
fn the_editor_gets_a_file_that_is_checked_afterwards() {
    let setup = Setup::new("config-edit");
    let path = setup.path("config/conductor/conductor.toml");
    assert_eq!(setup.printed(&["config", "path"]).trim(), path.to_str().expect("UTF-8"));
    let look = write_script(&setup.folder, "look", "cat \"$1\"");
    let edit = |editor: &str, arguments: &[&str]| {
        let mut command = setup.command(&[&["config", "edit"], arguments].concat());
        finish(std::mem::replace(command.env("EDITOR", editor), setup.command(&[])))
    };
    let output = edit(look.to_str().expect("UTF-8"), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.starts_with("#:schema https://") && text.contains("conductor.schema.json"),
        "{text}"
    );
    assert!(text.contains("is valid: 0 components, 0 chains"), "{text}");
    // Without the comment signs, the examples are a valid file.
    let examples: String = setup
        .read("config/conductor/conductor.toml")
        .lines()
        .skip(2)
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") || rest.starts_with('[') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let file = setup.write("examples.toml", examples);
    let printed = setup.printed(&["config", "check", file.to_str().expect("UTF-8")]);
    assert!(printed.contains("3 components, 1 chain"), "{printed}");
    // A wrong file stays as it was saved, and an existing file is not replaced.
    let breaks = write_script(&setup.folder, "breaks", "echo 'defalt = \"x\"' >>\"$2\"");
    let output = edit(&format!("{} --flag", breaks.display()), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("did you mean `default`?"), "{}", stderr(&output));
    let text = setup.read("config/conductor/conductor.toml");
    assert!(text.starts_with("#:schema") && text.ends_with("defalt = \"x\"\n"), "{text}");
    for editor in ["/nowhere/editor", "false"] {
        let output = edit(editor, &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("the editor '"), "{}", stderr(&output));
    }
    assert_eq!(setup.read("config/conductor/conductor.toml"), text);
}

#[test]
fn the_file_of_a_project_is_found_upward_or_created_here() {
    let setup = Setup::new("config-edit-project");
    let error = setup.refused(&["config", "path", "--project"], 1);
    assert!(error.contains("conductor config edit --project"), "{error}");
    let mut command = setup.command(&["config", "edit", "--project"]);
    command.env("VISUAL", "true");
    let output = finish(command);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("conductor trust"));
    let path = setup.path("project/.conductor.toml");
    assert_eq!(
        setup.printed(&["config", "path", "--project"]).trim(),
        path.to_str().expect("UTF-8")
    );
    // A file to which the user has agreed is used if the editor leaves it as it is.
    setup.printed(&["trust", "--yes"]);
    let mut command = setup.command(&["config", "edit", "--project"]);
    command.env("VISUAL", "true");
    let printed = String::from_utf8_lossy(&finish(command).stdout).into_owned();
    assert!(printed.contains("It is used"), "{printed}");
    std::fs::create_dir_all(setup.path("project/a/b")).expect("a folder");
    let mut command = setup.command(&["config", "path", "--project"]);
    command.current_dir(setup.path("project/a/b"));
    let output = finish(command);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), path.to_str().expect("UTF-8"));
}
