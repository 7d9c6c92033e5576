//! The files of the ledger: several processes, torn lines, limits of size.

use std::io::Write;
use std::time::Duration;

use components::budget::entry::{Entry, Event};
use components::budget::evidence::Evidence;
use components::budget::ledger::{Ledger, days_in, path_of, totals_of};
use components::usage::{Certainty, Tokens};
use serde_json::json;

use crate::chain::{Chain, DAY, Folder, TestClock, noon};

fn ledger(folder: &Folder) -> Ledger {
    Ledger::new(folder.path().to_owned(), noon().clock())
}

fn spent(session: &str, turn: &str, tokens: u64) -> Entry {
    Entry {
        event: Event::Spent,
        session: session.to_owned(),
        turn: turn.to_owned(),
        tokens: Some(Tokens { input: tokens, ..Tokens::default() }),
        tokens_are: Some(Certainty::Exact),
        ..Entry::default()
    }
}

#[test]
fn the_lines_of_many_writers_are_all_read() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let mut ledger = ledger(&folder);
            scope.spawn(move || {
                for turn in 0..50 {
                    let entry = spent(&format!("s{writer}"), &format!("{writer}-{turn}"), 1);
                    // It is written later if another writer has the lock.
                    let _ = ledger.append(ledger.today(), entry);
                }
                while let Err(error) = ledger.refresh() {
                    assert!(error.is_locked, "{error:?}");
                    std::thread::yield_now();
                }
            });
        }
    });
    let mut reader = ledger(&folder);
    reader.refresh().expect("read");
    assert_eq!(reader.totals().sum.tokens.total(), 400);
    assert_eq!(reader.session("s3").sum.tokens.total(), 50);
    assert_eq!(folder.events(DAY).iter().filter(|it| *it == "day").count(), 1);
}

#[test]
fn a_line_that_a_crash_has_cut_off_is_ignored() {
    let folder = Folder::new();
    let mut one = ledger(&folder);
    one.append(one.today(), spent("s", "1", 5)).expect("written");
    let path = path_of(folder.path(), one.today());
    let mut file = std::fs::File::options().append(true).open(&path).expect("a file");
    file.write_all(br#"{"v":1,"event":"spent","session":"s","tokens":{"inp"#).expect("written");
    one.refresh().expect("read");
    one.append(one.today(), spent("s", "2", 7)).expect("written");
    // Lines of other programs and versions.
    file.write_all(
        b"\xff\xfe garbage\n{}\n{\"v\":9,\"event\":\"spent\",\"tokens\":{\"input\":1000}}\n",
    )
    .expect("written");
    one.refresh().expect("read");
    assert_eq!(one.totals().sum.tokens.total(), 12);
    assert_eq!(totals_of(&path, 10).expect("read").sum.tokens.total(), 12);
}

#[test]
fn numbers_of_a_changed_file_do_not_overflow() {
    let folder = Folder::new();
    let mut ledger = ledger(&folder);
    let sum = Entry {
        event: Event::Sum,
        turns: u64::MAX,
        lost: u64::MAX,
        evidence: Some(Evidence { reports: u64::MAX, ..Evidence::default() }),
        ..spent("s", "", u64::MAX)
    };
    for entry in [sum.clone(), sum, spent("s", "1", 1)] {
        ledger.append(ledger.today(), entry).expect("written");
    }
    for event in [Event::End, Event::Lost] {
        let entry = Entry { event, ..spent("s", "1", 1) };
        ledger.append(ledger.today(), entry).expect("written");
    }
    ledger.refresh().expect("read");
    let session = ledger.session("s");
    assert_eq!(
        (session.turns, session.lost, session.evidence.reports),
        (u64::MAX, u64::MAX, u64::MAX)
    );
    assert_eq!((ledger.totals().turns, ledger.totals().lost), (u64::MAX, u64::MAX));
    assert_eq!(ledger.totals().sum.tokens.total(), u64::MAX);
}

#[test]
fn a_clock_or_time_zone_that_goes_back_counts_nothing_twice_and_forgets_nothing() {
    let folder = Folder::new();
    let clock = TestClock::new("2026-11-16T23:00:00+01:00[Europe/Berlin]");
    let mut ledger = Ledger::new(folder.path().to_owned(), clock.clock());
    let first = Entry { event: Event::Open, first: true, turn: "1".into(), ..spent("s", "1", 0) };
    ledger.append(ledger.today(), first).expect("written");
    ledger.append(ledger.today(), spent("s", "1", 5)).expect("written");
    let check = |ledger: &mut Ledger, today| {
        ledger.refresh().expect("read");
        assert_eq!(ledger.totals().sum.tokens.total(), today);
        assert_eq!(ledger.session("s").sum.tokens.total(), 12);
    };
    clock.set("2026-11-17T01:00:00[Europe/Berlin]");
    ledger.append(ledger.today(), spent("s", "2", 7)).expect("written");
    check(&mut ledger, 7);
    clock.set("2026-11-16T19:00:00[America/New_York]");
    check(&mut ledger, 5);
    clock.set("2026-11-17T02:00:00[Europe/Berlin]");
    check(&mut ledger, 7);
}

#[cfg(unix)]
#[test]
fn the_files_are_private_and_links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let sub = folder.path().join("new").join("ledger");
    Ledger::check(&sub).expect("created");
    let mut ledger = Ledger::new(sub.clone(), noon().clock());
    ledger.append(ledger.today(), spent("s", "1", 5)).expect("written");
    let mode =
        |path: &std::path::Path| path.metadata().expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&sub), mode(&path_of(&sub, ledger.today()))), (0o700, 0o600));
    let target = folder.path().join("target");
    std::fs::write(&target, "").expect("written");
    std::fs::remove_file(path_of(&sub, ledger.today())).expect("ours");
    symlink(&target, path_of(&sub, ledger.today())).expect("a link");
    assert!(ledger.append(ledger.today(), spent("s", "2", 5)).is_err());
    assert!(ledger.refresh().is_err());
    assert_eq!(std::fs::read(&target).expect("a file"), b"");
}

#[test]
fn no_prompt_is_sent_without_a_ledger_and_what_was_spent_is_written_later() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100", "codex");
    chain.prompt("s");
    let prompt = chain.agent();
    // The file becomes a folder, which cannot be written, also by root.
    let path = folder.path().join(format!("{DAY}.jsonl"));
    let kept = folder.path().join("kept");
    std::fs::rename(&path, &kept).expect("ours");
    std::fs::create_dir(&path).expect("a folder");
    chain.agent_answers(
        &prompt,
        json!({ "stopReason": "end_turn", "usage": { "totalTokens": 99 } }),
    );
    chain.rest_of_turn();
    let error = chain.refused("s");
    assert_eq!(error["data"]["code"], "unwritable-file");
    assert!(
        error["message"].as_str().expect("a text").contains("No prompt is sent without a ledger")
    );
    std::fs::remove_dir(&path).expect("ours");
    std::fs::rename(&kept, &path).expect("ours");
    chain.turn("s", 1);
    assert_eq!(chain.refused("s")["data"]["spent"], 100);
    assert_eq!(folder.events(DAY), ["day", "open", "spent", "end", "open", "spent", "end"]);
}

/// A process that hangs with the lock.
#[test]
fn a_lock_that_is_kept_delays_prompts_but_no_other_message() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--cost-per-day 10", "claude-agent-acp");
    chain.prompt("s");
    let prompt = chain.agent();
    let lock = std::fs::File::open(folder.path().join("lock")).expect("a file");
    lock.lock().expect("locked");
    chain.cost("s", 1.0);
    chain.cost("s", 2.0);
    chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
    chain.rest_of_turn();
    assert_eq!(folder.events(DAY), ["day", "open"]);
    chain.prompt("s");
    chain.cost("s", 3.0);
    lock.unlock().expect("unlocked");
    let prompt = chain.agent();
    assert_eq!(folder.events(DAY), ["day", "open", "spent", "spent", "end", "spent", "open"]);
    chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
    chain.rest_of_turn();
}

#[test]
fn the_lines_of_a_big_file_are_replaced_by_sums() {
    let folder = Folder::new();
    let mut writer = ledger(&folder);
    let mut reader = ledger(&folder);
    writer
        .append(
            writer.today(),
            Entry {
                event: Event::Open,
                turn: "open".into(),
                session: "s".into(),
                ..Entry::default()
            },
        )
        .expect("written");
    writer.append(writer.today(), spent("s", "open", 5)).expect("written");
    // A turn because of which a prompt was refused once.
    for (event, why) in [(Event::Open, ""), (Event::End, "end_turn"), (Event::Refused, "")] {
        let entry = Entry { event, why: why.into(), ..spent("u", "ended", 7) };
        writer.append(writer.today(), entry).expect("written");
    }
    writer.append(writer.today(), spent("u", "ended", 7)).expect("written");
    reader.refresh().expect("read");
    let path = path_of(folder.path(), writer.today());
    let mut file = std::fs::File::options().append(true).open(&path).expect("a file");
    let line = Entry { v: 1, why: "x".repeat(10_000), ..spent("t", "2", 1) }.line();
    file.write_all(line.repeat(1_800).as_bytes()).expect("written");
    writer.append(writer.today(), spent("s", "open", 6)).expect("written");
    assert!(path.metadata().expect("a file").len() < 10_000);
    for ledger in [&mut reader, &mut writer] {
        ledger.refresh().expect("read");
        assert_eq!(ledger.totals().sum.tokens.total(), 1_818);
        let running = ledger.session("s");
        assert_eq!((running.sum.tokens.total(), running.last.sum.tokens.total()), (11, 11));
        assert_eq!((&*running.last.turn, running.evidence.reports), ("open", 2));
        let ended = ledger.session("u");
        assert_eq!((&*ended.last.turn, ended.last.sum.tokens.total()), ("ended", 7));
        assert!(ended.last.is_refused && ended.evidence.answered == 1, "{ended:?}");
        assert_eq!(ledger.totals().open.keys().collect::<Vec<_>>(), ["open"]);
    }
    assert_eq!(days_in(folder.path()).len(), 1, "no other file is left");
}

#[test]
fn old_days_are_deleted_and_earlier_days_belong_to_their_sessions() {
    let folder = Folder::new();
    let clock = TestClock::new("2026-08-01T12:00:00+02:00[Europe/Berlin]");
    let mut ledger = Ledger::new(folder.path().to_owned(), clock.clock());
    for time in ["2026-08-01", "2026-11-01", "2026-11-15", "2026-11-16"] {
        clock.set(&format!("{time}T12:00:00[Europe/Paris]"));
        ledger.append(ledger.today(), spent("s \"1\"", time, 10)).expect("written");
    }
    assert_eq!(days_in(folder.path()).len(), 4);
    ledger.prune(Duration::from_secs(90 * 86_400));
    assert_eq!(
        days_in(folder.path()).iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["2026-11-01", "2026-11-15", "2026-11-16"]
    );
    let mut other = Ledger::new(folder.path().to_owned(), clock.clock());
    other.refresh().expect("read");
    assert_eq!(other.totals().sum.tokens.total(), 10);
    assert_eq!(other.session("s \"1\"").sum.tokens.total(), 30);
}

#[test]
fn the_user_starts_again_by_deleting_the_file() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100 --tokens-per-session 100", "codex");
    chain.turn("s", 100);
    chain.refused("s");
    std::fs::remove_file(folder.path().join(format!("{DAY}.jsonl"))).expect("ours");
    chain.turn("s", 50);
    chain.turn("s", 50);
    assert_eq!(chain.refused("s")["data"]["spent"], 100);
}

#[test]
fn the_memory_of_ten_thousand_sessions_is_bounded_and_forgotten_ones_are_found_in_the_file() {
    let folder = Folder::new();
    let mut writer = ledger(&folder);
    writer.append(writer.today(), spent("first", "1", 7)).expect("written");
    let path = path_of(folder.path(), writer.today());
    let mut text = String::new();
    for number in 0..25_000 {
        text += &Entry { v: 1, ..spent(&format!("s{number}"), &number.to_string(), 1) }.line();
        text += &Entry {
            v: 1,
            event: Event::Open,
            session: format!("s{number}"),
            turn: format!("o{number}"),
            ..Entry::default()
        }
        .line();
    }
    std::fs::File::options()
        .append(true)
        .open(&path)
        .expect("a file")
        .write_all(text.as_bytes())
        .expect("written");
    writer.refresh().expect("read");
    let totals = writer.totals();
    assert_eq!(totals.sum.tokens.total(), 25_007);
    assert!(totals.sessions.count() <= 10_000 && totals.open.len() <= 10_000);
    assert_eq!(totals.open.len() as u64 + totals.lost, 25_000);
    assert_eq!(writer.session("first").sum.tokens.total(), 7);
    writer.append(writer.today(), spent("s1", "x", 1)).expect("written");
    writer.refresh().expect("read");
    assert_eq!(writer.session("s1").sum.tokens.total(), 2);
}
