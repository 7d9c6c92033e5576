//! Limits per minute and at once, in each session and in all, with `--when-reached refuse`.

use std::num::NonZeroU32;
use std::time::Duration;

use components::rate_limit::bucket::Rate;
use components::rate_limit::limiter::{Decision, Kind, Limiter, Limits, Progress, Rules};
use components::sessions::{Origin, Sessions};
use components::{BuiltIn, find};
use serde_json::{Map, Value, json};

use super::{Chain, options};

#[test]
fn prompts_over_the_limit_per_minute_are_refused_with_the_time_to_wait() {
    let mut chain = Chain::new("--prompts-per-minute 2 --when-reached refuse");
    chain.turn("s");
    chain.turn("t");
    let id = chain.prompt("s");
    let data = chain.refused("editor", id);
    let expected = json!({
        "component": "rate-limit", "code": "rate-limited", "limit": "prompts_per_minute", "scope": "all",
        "maximum": 2, "retryAfterSeconds": 30,
    });
    assert_eq!(data, expected);
    chain.clock.advance(10);
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 20);
    chain.clock.advance(20);
    chain.turn("s");
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 30);
    // After a pause, the whole burst is there again, and not more.
    chain.clock.advance(1000);
    chain.turn("s");
    chain.turn("s");
    let id = chain.prompt("s");
    chain.refused("editor", id);
    chain.nothing_else("agent");
}

#[test]
fn a_limit_of_a_session_leaves_other_sessions_alone() {
    let mut chain = Chain::new("--session-prompts-per-minute 1 --when-reached refuse");
    chain.turn("s");
    let id = chain.prompt("s");
    let data = chain.refused("editor", id);
    assert_eq!(
        (&data["limit"], &data["scope"]),
        (&json!("session_prompts_per_minute"), &json!("session"))
    );
    chain.turn("t");
}

/// A request that one limit refuses does not count for the other.
#[test]
fn a_refused_request_uses_nothing_of_another_limit() {
    let mut chain =
        Chain::new("--session-prompts-per-minute 1 --prompts-per-minute 2 --when-reached refuse");
    chain.turn("s");
    for _ in 0..5 {
        let id = chain.prompt("s");
        chain.refused("editor", id);
    }
    chain.turn("t");
}

#[test]
fn the_burst_can_be_smaller_than_the_limit() {
    let mut chain = Chain::new("--prompts-per-minute 60 --burst 2 --when-reached refuse");
    chain.turn("s");
    chain.turn("s");
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 1);
    chain.clock.advance(1);
    chain.turn("s");
}

#[test]
fn prompts_at_once_are_limited_until_one_ends() {
    let mut chain = Chain::new("--prompts-at-once 1 --when-reached refuse");
    let first = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    let second = chain.prompt("t");
    let data = chain.refused("editor", second);
    assert_eq!(
        (&data["limit"], &data["retryAfterSeconds"]),
        (&json!("prompts_at_once"), &json!(1))
    );
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", first);
    chain.turn("t");
    // An error ends a prompt as well.
    let id = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    let error = json!({ "id": request["id"], "error": { "code": -32603, "message": "no" } });
    chain.talk.send("agent", &error.to_string());
    assert_eq!(chain.answered("editor", id)["error"]["message"], "no");
    chain.turn("s");
}

#[test]
fn other_messages_pass_unchanged() {
    let mut chain =
        Chain::new("--prompts-per-minute 1 --tool-calls-per-minute 1 --when-reached refuse");
    chain.turn("s");
    for _ in 0..10 {
        chain.nothing_else("agent");
        chain.nothing_else("editor");
        let update = json!({ "sessionId": "s", "update": { "sessionUpdate": "tool_call", "toolCallId": "x", "title": "t" } });
        chain.notify("agent", "session/update", update.clone());
        assert_eq!(chain.passes("editor", "session/update")["params"], update);
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let entry = find("rate-limit").expect("a component");
    assert!(entry.guard);
    let why = |words: &str, members: Value| {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let members: Map<String, Value> = members.as_object().cloned().unwrap_or_default();
        entry.parse(&words, &members).err().expect("refused")
    };
    assert!(why("", json!({})).contains("set one, such as --prompts-per-minute 10"));
    assert!(why("--prompts-per-minute 0", json!({})).contains("--prompts-per-minute"));
    assert!(why("", json!({ "prompts_per_minute": 0 })).contains("at least 1"));
    let typo = why("", json!({ "prompt_per_minute": 1 }));
    assert!(typo.contains("did you mean `prompts_per_minute`?"), "{typo}");
    assert!(why("--prompts-at-once 1 --max-wait soon", json!({})).contains("not a duration"));
    assert!(why("--prompts-at-once 1 --audit /nowhere/a,on_failure=x", json!({})).contains("deny"));
    let file = std::env::temp_dir().join(format!("rate-limit-{}.toml", std::process::id()));
    std::fs::write(&file, "prompts_at_once = 1\n\nsession_prompts_at_once = \"two\"\n")
        .expect("written");
    let wrong = why(&format!("--config {}", file.display()), json!({}));
    assert!(wrong.contains(".toml:3: ") && wrong.contains("invalid type"), "{wrong}");
    std::fs::remove_file(file).expect("ours");
    assert!(options("--prompts-at-once 1").check().is_ok());
}

// The limiter itself.

fn rate(per_minute: u32) -> Option<Rate> {
    let per_minute = NonZeroU32::new(per_minute)?;
    Some(Rate { per_minute, burst: per_minute })
}

fn rules(session: Limits, all: Limits) -> Rules {
    Rules {
        prompts: [session, all],
        tool_calls: [Limits::default(); 2],
        max_wait: Some(Duration::from_secs(10_000_000)),
        max_waiting: 1000,
    }
}

#[test]
fn a_burst_above_all_limits_is_refused() {
    for words in ["--prompts-per-minute 2 --burst 10", "--prompts-at-once 2 --burst 1"] {
        let why = options(words).check().expect_err(words).why;
        assert!(why.contains("is more than each limit per minute"), "{words}: {why}");
    }
    let several = "--prompts-per-minute 2 --tool-calls-per-minute 10 --burst 10";
    assert_eq!(options(several).check(), Ok(()));
}

#[test]
fn the_memory_for_sessions_is_bounded() {
    let sessions = Sessions::default();
    let limits = Limits { rate: rate(1), at_once: None };
    let mut limiter =
        Limiter::new(rules(limits, Limits::default()), sessions.clone(), Duration::ZERO);
    for number in 0..12_000 {
        let session = format!("session-{number}");
        sessions.open(&session, std::path::Path::new("/"), Origin::New);
        let Decision::Pass(ticket) = limiter.arrive(Kind::Prompt, &session, Duration::ZERO) else {
            panic!("{session} does not pass");
        };
        for call in 0..70 {
            limiter.report(&session, &call.to_string());
        }
        limiter.end(ticket);
        assert_eq!(limiter.begin_terminal(&session, "t", ticket), number < 10_000);
    }
    assert!(sessions.count() <= 10_000);
    assert_eq!(limiter.waiting(Kind::Prompt), 0);
}

#[test]
fn a_session_whose_beginning_was_not_seen_has_no_burst() {
    let sessions = Sessions::default();
    let limits = Limits { rate: rate(3), at_once: None };
    let mut limiter =
        Limiter::new(rules(limits, Limits::default()), sessions.clone(), Duration::ZERO);
    let mut passes = |session: &str| {
        let now = Duration::ZERO;
        let mut arrive = || limiter.arrive(Kind::Prompt, session, now);
        (0..5).filter(|_| matches!(arrive(), Decision::Pass(_))).count()
    };
    sessions.open("new", std::path::Path::new("/"), Origin::New);
    sessions.open("loaded", std::path::Path::new("/"), Origin::Load);
    assert_eq!((passes("new"), passes("loaded"), passes("unknown")), (3, 1, 1));
    // A session that is closed and loaded again does not get its burst back.
    sessions.close("new");
    sessions.open("new", std::path::Path::new("/"), Origin::Load);
    assert!(passes("new") <= 1);
}

/// Random arrivals and ends. All limits hold at every moment, requests of a session pass in order, and none is lost.
#[test]
fn all_limits_hold_for_random_requests() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    for round in 0..40 {
        let number = |it: u64| NonZeroU32::new(it as u32 + 1);
        let session = Limits { rate: rate(next(20) as u32), at_once: number(next(3)) };
        let all = Limits { rate: rate(next(40) as u32), at_once: number(next(5)) };
        let sessions = Sessions::default();
        let mut limiter = Limiter::new(rules(session, all), sessions.clone(), Duration::ZERO);
        let (mut now, mut waiting, mut running) = (Duration::ZERO, Vec::new(), Vec::new());
        // When each request passed, by session.
        let mut passed: Vec<(Duration, String, u64)> = Vec::new();
        let mut arrived = 0;
        for id in ["a", "b", "c"] {
            sessions.open(id, std::path::Path::new("/"), Origin::New);
        }
        for _ in 0..300 {
            now += Duration::from_millis(next(3000));
            let id = ["a", "b", "c"][next(3) as usize];
            match next(3) {
                0 if arrived < 60 => {
                    arrived += 1;
                    match limiter.arrive(Kind::Prompt, id, now) {
                        Decision::Pass(ticket) => {
                            passed.push((now, id.to_owned(), arrived));
                            running.push((ticket, id.to_owned()));
                        }
                        Decision::Wait(ticket, _) => waiting.push((ticket, id.to_owned(), arrived)),
                        Decision::Refuse(..) => panic!("round {round}: a request was refused"),
                    }
                }
                1 if !running.is_empty() => {
                    let (ticket, _) = running.swap_remove(next(running.len() as u64) as usize);
                    limiter.end(ticket);
                }
                _ => {}
            }
            waiting.retain(|(ticket, id, number)| match limiter.progress(*ticket, now) {
                Progress::Pass => {
                    passed.push((now, id.clone(), *number));
                    running.push((*ticket, id.clone()));
                    false
                }
                Progress::Cancelled => panic!("round {round}: a request was cancelled"),
                Progress::Wait(_) => true,
            });
            let of = |id: &str| running.iter().filter(|it| it.1 == id).count() as u32;
            assert!(all.at_once.is_none_or(|most| running.len() as u32 <= most.get()));
            assert!(
                ["a", "b", "c"]
                    .iter()
                    .all(|id| session.at_once.is_none_or(|most| of(id) <= most.get()))
            );
        }
        let check = |times: &[Duration], rate: Option<Rate>| {
            let Some(rate) = rate else { return };
            for (index, start) in times.iter().enumerate() {
                let minute =
                    times[index..].iter().take_while(|it| **it < *start + Duration::from_secs(60));
                let most = rate.burst.get() + rate.per_minute.get();
                assert!(minute.count() as u32 <= most, "round {round}");
            }
        };
        check(&passed.iter().map(|it| it.0).collect::<Vec<_>>(), all.rate);
        for id in ["a", "b", "c"] {
            let of: Vec<_> = passed.iter().filter(|it| it.1 == id).collect();
            check(&of.iter().map(|it| it.0).collect::<Vec<_>>(), session.rate);
            assert!(of.is_sorted_by_key(|it| it.2), "round {round}: the order of {id} was changed");
        }
        // Everything that still waits passes in the end.
        while !waiting.is_empty() {
            now += Duration::from_secs(60);
            let before = waiting.len();
            running.drain(..).for_each(|(ticket, _)| limiter.end(ticket));
            waiting.retain(|(ticket, id, _)| {
                let has_passed = limiter.progress(*ticket, now) == Progress::Pass;
                if has_passed {
                    running.push((*ticket, id.clone()));
                }
                !has_passed
            });
            assert!(waiting.len() < before, "round {round}: {waiting:?}");
        }
        assert_eq!(limiter.count(Kind::Prompt).passed, arrived);
    }
}

/// An agent may name any session.
#[test]
fn tool_calls_of_unknown_sessions_are_not_remembered() {
    let sessions = Sessions::default();
    let mut limiter =
        Limiter::new(rules(Limits::default(), Limits::default()), sessions.clone(), Duration::ZERO);
    limiter.report("unknown", "call");
    assert_eq!((limiter.reported(), sessions.count()), (0, 0));
    sessions.with("known", |_| {});
    let long = "c".repeat(200_000);
    for call in ["call", &long, "call", &long] {
        limiter.report("known", call);
    }
    assert_eq!(limiter.reported(), 2);
}
