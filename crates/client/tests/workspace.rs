//! The requests of an agent, with real files.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;

use client::{Reply, Workspace};
use serde_json::json;
use testkit::test_chain::directory;

#[test]
fn a_permission_for_a_file_is_not_one_for_the_new_target_of_a_link() {
    let folder = directory("client-allowed");
    let inside = folder.join("inside");
    fs::create_dir(&inside).expect("a folder");
    let link = inside.join("link");
    for name in ["a", "b"] {
        fs::write(folder.join(name), name).expect("a file");
    }
    symlink(folder.join("a"), &link).expect("a link");
    let mut workspace = Workspace::new(&inside, Vec::new());
    let params = json!({ "sessionId": "s", "path": link });
    let asked = match workspace.handle("fs/read_text_file", &params) {
        Some(Reply::Outside(file)) => file.path,
        other => panic!("the user is asked: {other:?}"),
    };
    assert!(asked.ends_with("a"), "{asked:?}");
    let allowed = workspace.handle_allowed("fs/read_text_file", &params, &asked);
    assert!(matches!(allowed, Reply::Pending(_)), "{allowed:?}");
    fs::remove_file(&link).expect("a link");
    symlink(folder.join("b"), &link).expect("a link");
    match workspace.handle_allowed("fs/read_text_file", &params, &asked) {
        Reply::Outside(file) => assert!(file.path.ends_with("b"), "{file:?}"),
        other => panic!("the user is asked again: {other:?}"),
    }
}

#[test]
fn a_command_runs_inside_of_the_folder_unless_the_user_allows_another_one() {
    let folder = directory("client-terminal");
    let inside = folder.join("inside");
    let outside = folder.join("outside");
    fs::create_dir_all(inside.join("sub")).expect("a folder");
    fs::create_dir(&outside).expect("a folder");
    symlink(&outside, inside.join("link")).expect("a link");
    let mut workspace = Workspace::new(&inside, Vec::new());
    let create = |cwd: &std::path::Path| json!({ "sessionId": "s", "command": "true", "cwd": cwd });
    for cwd in [inside.clone(), inside.join("sub")] {
        let reply = workspace.handle("terminal/create", &create(&cwd));
        assert!(matches!(reply, Some(Reply::Ready(Ok(_)))), "{cwd:?}: {reply:?}");
    }
    for cwd in [outside.clone(), inside.join("link"), inside.join("../outside")] {
        let params = create(&cwd);
        let Some(Reply::Outside(asked)) = workspace.handle("terminal/create", &params) else {
            panic!("{cwd:?} is outside");
        };
        assert!(asked.path.ends_with("outside"), "{asked:?}");
        let other = workspace.handle_allowed("terminal/create", &params, &inside);
        assert!(matches!(other, Reply::Outside(_)), "another folder was allowed");
        let allowed = workspace.handle_allowed("terminal/create", &params, &asked.path);
        assert!(matches!(allowed, Reply::Ready(Ok(_))), "{allowed:?}");
    }
    let missing = workspace.handle("terminal/create", &create(&folder.join("missing")));
    assert!(matches!(missing, Some(Reply::Ready(Err(_)))), "{missing:?}");
}
