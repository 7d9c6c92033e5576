//! Killed writers, torn lines, a second writer, and a full disk, with real processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use components::audit::{Audit, AuditOptions, OnFailure, verify as verify_log};

use super::{Folder, allowed, denied, lines, records, verify_good, write};

/// What a writer process does, from its environment. In an ordinary run of the tests it does nothing.
#[test]
fn writer_process() {
    let Ok(options) = std::env::var("AUDIT_TEST") else { return };
    let options: AuditOptions = options.parse().expect("options");
    let count =
        std::env::var("AUDIT_COUNT").ok().and_then(|it| it.parse().ok()).unwrap_or(u64::MAX);
    let mut output = fs::File::options().write(true).open("/dev/fd/1").expect("standard output");
    let audit = Audit::open(&options).expect("opened");
    for number in 0..count {
        let command = format!("command {number} {}", "x".repeat(number as usize % 500));
        let record = if number % 5 == 0 { denied(&command) } else { allowed(&command) };
        let written = audit.record(record);
        // One line for each record that the log has accepted or refused.
        let line = match written {
            Ok(()) => format!("written {number}\n"),
            Err(error) => format!("refused {number} {error}\n"),
        };
        if output.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

/// Starts a writer process. `before` is a shell command that runs in the process first.
fn start(options: &str, count: Option<u64>, before: &str) -> Child {
    let test = std::env::current_exe().expect("the test");
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{before} exec \"$0\" --exact crashes::writer_process --nocapture"));
    command.arg(test).env("AUDIT_TEST", options).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(count) = count {
        command.env("AUDIT_COUNT", count.to_string());
    }
    command.spawn().expect("started")
}

/// Lines of the writer, without those of the test program.
fn reports(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let words = ["written ", "refused "];
    // The test program prints the name of the test without a line break before the first line.
    output.lines().map_while(Result::ok).filter_map(move |line| {
        let at = words.iter().find_map(|word| line.find(word))?;
        Some(line[at..].to_owned())
    })
}

#[test]
fn a_killed_writer_loses_no_record_that_it_has_acknowledged() {
    let folder = Folder::new();
    let options = format!("{},max_bytes=9000", folder.log().display());
    let mut acknowledged = 0;
    for round in 0..12_usize {
        let mut child = start(&options, None, "");
        let mut reports = reports(&mut child);
        // The kill comes at a different moment of the work in each round.
        for _ in 0..=round * 7 {
            let report = reports.next().expect("the writer runs");
            assert!(report.starts_with("written "), "{report}");
            acknowledged += 1;
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
        acknowledged += reports.count();
        let report = verify_good(&folder.log());
        let all: usize = report
            .files
            .iter()
            .map(|(path, _)| decisions(&fs::read_to_string(path).expect("a log")))
            .sum();
        assert!(all >= acknowledged, "{all} records, {acknowledged} acknowledged");
        // At most one record was written and not acknowledged.
        assert!(all <= acknowledged + round + 1);
    }
    write(&options.parse().expect("options"), &["the end"]);
    let report = verify_good(&folder.log());
    assert!(report.files.len() > 3, "{report:?}");
}

/// How many whole decisions a file has.
fn decisions(text: &str) -> usize {
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n') && line.contains("\"event\":\"decision\""))
        .count()
}

#[test]
fn a_line_that_is_torn_at_any_byte_is_kept_in_a_record() {
    let folder = Folder::new();
    write(&folder.options(), &["one", "two"]);
    let (log, head) = (folder.log(), folder.0.join("audit.head"));
    let whole = fs::read(&log).expect("a log");
    let start = whole[..whole.len() - 1].iter().rposition(|it| *it == b'\n').expect("lines") + 1;
    for end in start + 1..whole.len() {
        fs::write(&log, &whole[..end]).expect("written");
        fs::remove_file(&head).expect("ours");
        let report = verify_good(&log);
        assert!(
            report.notes.iter().any(|note| note.contains("in the middle of a line")),
            "{report:?}"
        );
        write(&folder.options(), &["later"]);
        let report = verify_good(&log);
        assert!(
            report.notes.iter().any(|note| note.contains("while it wrote a record")),
            "{report:?}"
        );
        let recovered = &records(&log)[3];
        assert_eq!((&recovered["event"], &recovered["seq"]), (&"recovered".into(), &4.into()));
        assert_eq!(recovered["details"]["torn"]["length"], end - start);
        let text = String::from_utf8_lossy(&whole[start..end]).into_owned();
        assert_eq!(recovered["details"]["text"], text);
    }
    // The only line of a file.
    fs::write(&log, "{\"v\":1").expect("written");
    fs::remove_file(&head).expect("ours");
    write(&folder.options(), &["later"]);
    assert_eq!(records(&log)[1]["details"]["text"], "{\"v\":1");
    verify_good(&log);
}

#[test]
fn a_second_run_at_the_same_time_has_a_file_of_its_own() {
    let folder = Folder::new();
    let mut child = start(&folder.log().display().to_string(), None, "");
    let mut first = reports(&mut child);
    first.next().expect("the first run writes");
    let audit = Audit::open(&folder.options()).expect("opened");
    assert_eq!(audit.path(), folder.0.join("audit.2.jsonl"));
    audit.record(denied("x")).expect("written");
    drop(audit);
    child.kill().expect("ours");
    child.wait().expect("ours");
    let reports = verify_log(&folder.log(), &[], None).expect("logs");
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|report| report.problem.is_none()), "{reports:?}");
    let found =
        components::audit::show(&folder.log(), &Default::default(), 1_000_000).expect("logs");
    let times: Vec<&str> = found.records.iter().filter_map(|it| it["time"].as_str()).collect();
    assert!(times.is_sorted());
    assert!(found.records.iter().any(|it| it["what"]["command"] == "x"));
    // The first file is free again.
    let audit = Audit::open(&folder.options()).expect("opened");
    assert_eq!(audit.path(), folder.log());
}

/// The limit of the file size stands for a full disk: the last write that succeeds is a partial one.
#[test]
fn a_full_disk_denies_or_warns_and_leaves_whole_lines() {
    for (policy, refused) in [("deny", true), ("warn", false)] {
        let folder = Folder::new();
        let options = format!("{},on_failure={policy}", folder.log().display());
        let mut child = start(&options, Some(200), "trap '' XFSZ; ulimit -f 16;");
        let reports: Vec<String> = reports(&mut child).collect();
        child.wait().expect("ours");
        assert_eq!(reports.len(), 200);
        let refusals = reports.iter().filter(|it| it.starts_with("refused")).count();
        assert_eq!(refusals > 100, refused, "{refusals}");
        if refused {
            let why = reports.last().expect("reports");
            assert!(why.contains("audit.jsonl cannot be written: File too large"), "{why}");
        }
        // What was written is whole, and the log can be continued when there is room.
        verify_good(&folder.log());
        let count = lines(&folder.log()).len();
        assert!(count > 10 && decisions(&fs::read_to_string(folder.log()).expect("a log")) < 200);
        write(&folder.options(), &["later"]);
        assert!(verify_good(&folder.log()).records() > count as u64);
    }
}

#[test]
fn records_that_were_lost_are_counted_in_the_next_record() {
    let folder = Folder::new();
    let options =
        AuditOptions { on_failure: Some(OnFailure::Warn), max_bytes: 700, ..folder.options() };
    let audit = Audit::open(&options).expect("opened");
    audit.record(allowed("one")).expect("written");
    // The next record needs a new file, which cannot be made.
    fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o500))
        .expect("ours");
    let is_root = fs::write(folder.0.join("probe"), "").is_ok();
    if is_root {
        // Permissions do not stop root. A folder with the name of the next file does.
        fs::create_dir(folder.0.join("audit-000001.jsonl")).expect("a folder");
    }
    audit.record(allowed("lost")).expect("a warning");
    let status = audit.status().join("\n");
    fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("ours");
    if is_root {
        fs::remove_dir(folder.0.join("audit-000001.jsonl")).expect("ours");
    }
    audit.record(allowed("three")).expect("written");
    drop(audit);
    let report = verify_good(&folder.log());
    if status.contains("1 records lost") {
        assert!(
            report.notes.iter().any(|note| note.contains("1 records could not be written")),
            "{report:?}"
        );
    }
}

#[test]
fn nothing_is_left_behind_when_the_reader_of_the_head_is_slow() {
    let folder = Folder::new();
    let options = AuditOptions { head_command: Some("cat >/dev/null".into()), ..folder.options() };
    for _ in 0..5 {
        write(&options, &["ls"]);
    }
    verify_good(&folder.log());
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&folder.0).expect("ours") {
        names.push(entry.expect("an entry").file_name().to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, ["audit.head", "audit.jsonl", "audit.lock"]);
    let mut head = String::new();
    fs::File::open(folder.0.join("audit.head"))
        .expect("a head")
        .read_to_string(&mut head)
        .expect("text");
    assert!(head.ends_with("}\n"), "{head}");
}
