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
    let allowed = workspace.handle_allowed_file("fs/read_text_file", &params, &asked);
    assert!(matches!(allowed, Reply::Pending(_)), "{allowed:?}");
    fs::remove_file(&link).expect("a link");
    symlink(folder.join("b"), &link).expect("a link");
    match workspace.handle_allowed_file("fs/read_text_file", &params, &asked) {
        Reply::Outside(file) => assert!(file.path.ends_with("b"), "{file:?}"),
        other => panic!("the user is asked again: {other:?}"),
    }
}
