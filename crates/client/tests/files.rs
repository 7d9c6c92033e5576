//! The file methods, with real files.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use client::files::{MAX_TEXT, locate, read_text, write_text};
use testkit::test_chain::directory;

fn file(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder belongs to the test");
    path
}

fn message(error: &serde_json::Value) -> &str {
    error["message"].as_str().expect("a message")
}

#[test]
fn a_part_of_a_file_is_read_with_its_line_endings() {
    let folder = directory("client-read");
    let path = file(&folder, "a", "one\r\ntwo\n\nfour");
    let read = |line: u64, limit: u64| {
        read_text(&path, (line > 0).then_some(line), (limit > 0).then_some(limit))
    };
    for (line, limit, text) in [
        (0, 0, "one\r\ntwo\n\nfour"),
        (1, 1, "one\r\n"),
        (2, 0, "two\n\nfour"),
        (2, 2, "two\n\n"),
        (4, 9, "four"),
        (0, 2, "one\r\ntwo\n"),
    ] {
        assert_eq!(read(line, limit).as_deref(), Ok(text), "{line} {limit}");
    }
    assert_eq!(read_text(&path, Some(0), Some(0)).as_deref(), Ok(""));
    let error = read(6, 0).expect_err("too far");
    assert!(message(&error).contains("has 4 lines") && error["code"] == -32602, "{error}");
    let empty = file(&folder, "empty", "");
    assert_eq!(read_text(&empty, None, None).as_deref(), Ok(""));
    assert_eq!(read_text(&empty, Some(1), Some(5)).as_deref(), Ok(""));
}

#[test]
fn files_that_are_not_text_are_refused() {
    let folder = directory("client-odd");
    let binary = file(&folder, "binary", [0xff, 0xfe, 0]);
    let error = read_text(&binary, None, None).expect_err("not text");
    assert!(message(&error).contains("not UTF-8"), "{error}");
    let error = read_text(&folder, None, None).expect_err("a folder");
    assert!(message(&error).contains("is a directory"), "{error}");
    let error = read_text(Path::new("/dev/zero"), None, None).expect_err("a device");
    assert!(message(&error).contains("not a regular file"), "{error}");
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    // Both would wait for another process.
    assert!(read_text(&pipe, None, None).is_err() && write_text(&pipe, "x").is_err());
    assert!(write_text(&folder, "x").is_err());
    assert!(write_text(Path::new("/dev/null"), "x").is_err());
}

#[test]
fn a_huge_file_is_read_in_parts() {
    let folder = directory("client-huge");
    let line = format!("{}\n", "x".repeat(1023));
    let lines = usize::try_from(MAX_TEXT).expect("small") / 1024 + 10;
    let path = file(&folder, "huge", line.repeat(lines));
    let error = read_text(&path, None, None).expect_err("too large");
    assert!(message(&error).contains("`line` and `limit`"), "{error}");
    assert!(read_text(&path, Some(1), None).is_err());
    assert_eq!(read_text(&path, Some(100), Some(2)), Ok(line.repeat(2)));
    let path = file(&folder, "one-line", "x".repeat(usize::try_from(MAX_TEXT).expect("small") + 1));
    assert!(read_text(&path, Some(1), Some(1)).is_err());
}

#[test]
fn a_written_file_is_complete_and_keeps_its_mode() {
    let folder = directory("client-write");
    let path = file(&folder, "a", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("a mode");
    write_text(&path, "new\r\n").expect("a file");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "new\r\n");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o750);
    let deep = folder.join("b").join("c").join("d");
    write_text(&deep, "x").expect("new folders");
    assert_eq!(fs::read_to_string(deep).expect("a file"), "x");
    let names: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 2, "no temporary file is left: {names:?}");
    let error = write_text(&path.join("below"), "x").expect_err("the parent is a file");
    assert!(message(&error).contains("cannot write"), "{error}");
}

/// Root may replace the file, and does.
#[test]
fn a_file_that_cannot_be_replaced_is_overwritten() {
    let folder = directory("client-overwrite");
    let path = file(&folder, "a", "a longer text");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("a mode");
    let written = write_text(&path, "new");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("a mode");
    assert_eq!(written, Ok(()));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
}

#[test]
fn links_and_dots_do_not_lead_out_of_the_folder() {
    let folder = directory("client-links");
    let inside = folder.join("inside");
    fs::create_dir(&inside).expect("a folder");
    let secret = file(&folder, "secret", "x");
    symlink(&secret, inside.join("link")).expect("a link");
    symlink(&folder, inside.join("up")).expect("a link");
    symlink("nowhere", inside.join("dangling")).expect("a link");
    symlink(&inside, folder.join("in")).expect("a link");
    let is_inside = |path: &Path| locate(&inside, path).map(|it| it.inside);
    for path in ["a", "b/c", "./a", "b/../a"] {
        fs::create_dir_all(inside.join("b")).expect("a folder");
        assert_eq!(is_inside(&inside.join(path)), Ok(true), "{path}");
    }
    assert_eq!(is_inside(&folder.join("in").join("a")), Ok(true));
    for path in ["link", "up/secret", "up/new", "../secret", "../inside-not"] {
        assert_eq!(is_inside(&inside.join(path)), Ok(false), "{path}");
    }
    assert!(is_inside(&inside.join("dangling")).is_err());
    assert!(is_inside(&inside.join("not-there/../../secret")).is_err());
    let error = is_inside(Path::new("relative")).expect_err("relative");
    assert!(message(&error).contains("absolute"), "{error}");
}
