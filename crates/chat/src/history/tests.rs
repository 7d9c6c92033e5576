use super::*;

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("chat-history-{name}-{}", std::process::id()));
    // A run before this one may have left it.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn entries_are_kept_over_runs_with_their_line_breaks() {
    let folder = folder("kept");
    let path = folder.join("state/history");
    let (history, entries) = History::open(&path).expect("a history");
    assert!(entries.is_empty());
    history.append("one").expect("a file");
    history.append("two\nlines \"quoted\"").expect("a file");
    history.append(&"x".repeat(MAX_ENTRY + 1)).expect("too long, and skipped");
    let (_, entries) = History::open(&path).expect("a history");
    assert_eq!(entries, ["one", "two\nlines \"quoted\""]);
    fs::remove_dir_all(folder).expect("an end");
}

#[test]
fn the_file_is_bounded_and_damaged_lines_are_skipped() {
    let folder = folder("bounded");
    let path = folder.join("history");
    let lines: String = (0..3 * MAX_ENTRIES).map(|it| format!("\"{it}\"\nnot JSON\n")).collect();
    fs::write(&path, lines).expect("a file");
    let (_, entries) = History::open(&path).expect("a history");
    assert_eq!(entries.len(), MAX_ENTRIES);
    assert_eq!(entries.last().map(String::as_str), Some("2999"));
    let kept = fs::read_to_string(&path).expect("a file");
    assert_eq!(kept.lines().count(), MAX_ENTRIES, "the file is rewritten");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "no other file is left");
    fs::remove_dir_all(folder).expect("an end");
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("private");
    let path = folder.join("state/history");
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    History::open(&path).expect("a history");
    assert_eq!((mode(&path), mode(&folder.join("state"))), (0o600, 0o700));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a file");
    History::open(&path).expect("a history");
    assert_eq!(mode(&path), 0o600);
    fs::remove_dir_all(folder).expect("an end");
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_or_another_kind_of_file_is_refused() {
    let folder = folder("link");
    let target = folder.join("target");
    fs::write(&target, "").expect("a file");
    std::os::unix::fs::symlink(&target, folder.join("history")).expect("a link");
    History::open(&folder.join("history")).expect_err("a link");
    assert_eq!(fs::read_to_string(&target).expect("a file"), "");
    History::open(Path::new("/dev/null")).expect_err("not a regular file");
    fs::create_dir(folder.join("directory")).expect("a folder");
    History::open(&folder.join("directory")).expect_err("a folder");
    fs::remove_dir_all(folder).expect("an end");
}
