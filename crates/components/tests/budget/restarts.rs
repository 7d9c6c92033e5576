//! The component is restarted, or the whole conductor: the ledger has what was spent.

use components::budget::report::{self, Days};
use serde_json::json;

use crate::chain::{Chain, DAY, Folder, TestClock, budget, noon};

/// A component that the conductor has restarted: it gets the set-up of the session again.
fn restarted(folder: &Folder, options: &str, agent: &str) -> Chain {
    let mut chain = Chain::without_session(folder, options, &noon());
    chain.initialize(1, agent);
    chain.replay_session("s");
    chain
}

#[test]
fn a_restarted_component_refuses_what_it_would_have_refused_before() {
    for options in ["--tokens-per-turn 10", "--tokens-per-session 10", "--tokens-per-day 10"] {
        let folder = Folder::new();
        let mut chain = Chain::new(&folder, options, "codex");
        chain.turn("s", 10);
        drop(chain);
        let mut chain = restarted(&folder, options, "codex");
        assert_eq!(chain.refused("s")["data"]["spent"], 10, "{options}");
    }
}

#[test]
fn a_turn_without_an_end_is_lost_and_not_zero() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100", "qwen-code");
    chain.prompt("s");
    chain.agent();
    let call = json!({
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "" },
        "_meta": { "usage": { "inputTokens": 60, "outputTokens": 0, "totalTokens": 60 } },
    });
    chain.update("s", call.clone());
    // The component is killed in the middle of the turn. What the agent has reported is in the ledger.
    drop(chain);
    assert_eq!(folder.events(DAY), ["day", "open", "spent"]);
    let mut chain = restarted(&folder, "--tokens-per-day 100", "qwen-code");
    assert_eq!(folder.events(DAY), ["day", "open", "spent", "lost"]);
    let lines = folder.lines(DAY);
    assert_eq!(lines[3]["turn"], lines[1]["turn"]);
    // The agent goes on, and reports for the turn that was lost.
    chain.update("s", call);
    assert_eq!(folder.lines(DAY)[4]["turn"], lines[1]["turn"]);
    assert_eq!(chain.refused("s")["data"]["spent"], 120);
}

#[test]
fn sums_of_a_session_are_compared_with_those_before_the_restart() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--cost-per-day 10", "claude-agent-acp");
    chain.cost("s", 4.0);
    drop(chain);
    let mut chain = restarted(&folder, "--cost-per-day 10", "claude-agent-acp");
    chain.cost("s", 4.5);
    drop(chain);
    // The editor loads the session in another run, on another day.
    let clock = TestClock::new("2026-11-20T12:00:00+01:00[Europe/Berlin]");
    let mut chain = Chain::without_session(&folder, "--cost-per-session 10", &clock);
    chain.initialize(1, "claude-agent-acp");
    chain.ask("session/load", json!({ "sessionId": "s", "cwd": "/" }), json!({}));
    chain.cost("s", 6.0);
    let spent: Vec<_> = ["2026-11-16", "2026-11-20"]
        .iter()
        .flat_map(|day| folder.lines(day))
        .filter(|line| line["event"] == "spent")
        .map(|line| line["cost"]["micros"].as_u64().expect("a number"))
        .collect();
    assert_eq!(spent, [4_000_000, 500_000, 1_500_000]);
    chain.cost("s", 10.0);
    assert_eq!(chain.refused("s")["data"]["spent"], 10.0, "the session over all runs");
}

#[test]
fn a_new_session_with_the_id_of_an_old_one_begins_with_zero() {
    let folder = Folder::new();
    for _ in 0..2 {
        let mut chain =
            Chain::new(&folder, "--tokens-per-session 10 --cost-per-session 5", "my-agent");
        chain.turn("s", 6);
        chain.cost("s", 3.0);
        drop(chain);
    }
    let costs: Vec<_> =
        folder.lines(DAY).iter().filter_map(|it| it["cost"]["micros"].as_u64()).collect();
    assert_eq!(costs, [3_000_000, 3_000_000]);
    // A restart in the second session: the first one does not count.
    let mut chain = restarted(&folder, "--tokens-per-session 10", "my-agent");
    chain.turn("s", 4);
    assert_eq!(chain.refused("s")["data"]["spent"], 10);
}

#[test]
fn a_session_that_an_earlier_version_or_another_folder_has_recorded_begins_with_its_first_report() {
    let folder = Folder::new();
    let mut chain = Chain::without_session(&folder, "--cost-per-day 10", &noon());
    chain.initialize(1, "claude-agent-acp");
    chain.ask("session/resume", json!({ "sessionId": "s", "cwd": "/" }), json!({}));
    chain.cost("s", 50.0);
    chain.cost("s", 51.0);
    let lines = folder.lines(DAY);
    assert_eq!(
        (&lines[1]["cost"]["micros"], &lines[1]["cost_is"]),
        (&json!(0), &json!("at-least"))
    );
    assert_eq!(lines[2]["cost"]["micros"], 1_000_000);
}

#[test]
fn several_chains_share_the_limits_of_a_day() {
    let folder = Folder::new();
    let mut one = Chain::new(&folder, "--tokens-per-day 100", "codex");
    let mut other = Chain::new(&folder, "--tokens-per-day 100", "codex");
    one.turn("s", 50);
    let notices = other.turn("s", 50).notices;
    assert!(notices.contains("100 of 100 tokens today"), "{notices}");
    assert_eq!(one.refused("s")["data"]["spent"], 100);
}

/// Many agents number their sessions.
#[test]
fn sessions_of_different_chains_with_the_same_id_are_counted_apart() {
    let folder = Folder::new();
    let options = "--tokens-per-session 100";
    let mut one = Chain::new(&folder, options, "codex");
    one.turn("s", 60);
    let mut other = Chain::new(&folder, options, "codex");
    let notices = other.turn("s", 60).notices;
    assert_eq!(notices, "");
    let notices = one.turn("s", 40).notices;
    assert!(notices.contains("100 of 100 tokens in this session"), "60 + 40: {notices}");
    assert_eq!(one.refused("s")["data"]["spent"], 100);
    other.turn("s", 40);
    assert_eq!(other.refused("s")["data"]["spent"], 100);
    // The day is common to both. `conductor spent` shows two sessions.
    for only in [None, Some("s")] {
        let days = report::read(folder.path(), Days::Last(1), only).expect("read");
        assert_eq!((days[0].spent.total_tokens, days[0].spent.turns), (200, 4));
        let sessions = days[0].sessions.iter().map(|it| (&*it.session, it.spent.total_tokens));
        assert_eq!(sessions.collect::<Vec<_>>(), [("s", 100), ("s", 100)]);
    }
}

#[test]
fn a_later_run_goes_on_with_the_session_of_its_own_agent() {
    let folder = Folder::new();
    let options = "--tokens-per-session 100";
    Chain::new(&folder, options, "codex").turn("s", 70);
    Chain::new(&folder, options, "my-agent").turn("s", 5);
    let load = |agent: &str| {
        let mut chain = Chain::without_session(&folder, options, &noon());
        chain.initialize(1, agent);
        chain.ask("session/load", json!({ "sessionId": "s", "cwd": "/" }), json!({}));
        chain
    };
    load("codex").turn("s", 20);
    let mut chain = load("codex");
    chain.turn("s", 10);
    assert_eq!(chain.refused("s")["data"]["spent"], 100, "70 + 20 + 10");
    let mut chain = load("my-agent");
    chain.turn("s", 95);
    assert_eq!(chain.refused("s")["data"]["spent"], 100, "5 + 95");
    // An agent that has never had such a session.
    let notices = load("goose").turn("s", 99).notices;
    assert!(notices.contains("99 of 100 tokens"), "{notices}");
}

/// Another chain has begun a session with the same id since.
#[test]
fn a_restarted_component_goes_on_with_the_session_of_its_own_chain() {
    let folder = Folder::new();
    let budget = budget(&folder, "--tokens-per-session 100");
    let mut chain = Chain::of(&budget, &noon());
    chain.initialize(1, "codex");
    chain.new_session("s");
    chain.turn("s", 60);
    drop(chain);
    let mut other = Chain::new(&folder, "--tokens-per-session 100", "codex");
    other.turn("s", 5);
    let mut chain = Chain::of(&budget, &noon());
    chain.initialize(1, "codex");
    chain.replay_session("s");
    chain.turn("s", 40);
    assert_eq!(chain.refused("s")["data"]["spent"], 100);
    let notices = other.turn("s", 94).notices;
    assert!(notices.contains("99 of 100 tokens"), "{notices}");
}

/// A ledger of an earlier version.
#[test]
fn a_session_without_the_mark_of_a_run_goes_on() {
    let folder = Folder::new();
    Chain::new(&folder, "--tokens-per-session 100", "codex").turn("s", 70);
    let path = folder.path().join(format!("{DAY}.jsonl"));
    let lines = folder.lines(DAY).into_iter().map(|mut line| {
        line.as_object_mut().expect("an object").remove("run");
        format!("{line}\n")
    });
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    let mut chain = Chain::without_session(&folder, "--tokens-per-session 100", &noon());
    chain.initialize(1, "codex");
    chain.ask("session/load", json!({ "sessionId": "s", "cwd": "/" }), json!({}));
    chain.turn("s", 30);
    assert_eq!(chain.refused("s")["data"]["spent"], 100);
}

#[test]
fn a_session_that_was_forgotten_among_many_others_is_counted() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 1000", "copilot");
    chain.new_session("used");
    chain.turn("used", 100);
    for number in 0..10_001 {
        chain.new_session(&number.to_string());
    }
    chain.turn("used", 300);
    let notices = chain.turn("s", 500).notices;
    assert!(notices.contains("800 of 1,000 tokens today"), "100 + 200 + 500: {notices}");
}

/// Some agents go on with the sums of the parent in a fork, and others begin with zero.
#[test]
fn what_a_forked_session_consumes_is_counted() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--cost-per-day 10", "claude-agent-acp");
    let turn = |chain: &mut Chain, session: &str, cost: f64| {
        chain.prompt(session);
        let prompt = chain.agent();
        chain.cost(session, cost);
        chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
        chain.rest_of_turn()
    };
    let fork = |chain: &mut Chain, from: &str, to: &str| {
        let params = json!({ "sessionId": from, "cwd": "/" });
        chain.ask("session/fork", params, json!({ "sessionId": to }));
    };
    turn(&mut chain, "s", 3.0);
    fork(&mut chain, "s", "goes-on");
    turn(&mut chain, "goes-on", 5.0);
    fork(&mut chain, "s", "begins");
    turn(&mut chain, "begins", 1.5);
    let notices = turn(&mut chain, "begins", 4.5).notices;
    assert!(notices.contains("9.50 of 10.00 USD today"), "3 + (5 - 3) + 4.5: {notices}");
    // A restarted component reads the sums of the parent in the ledger.
    let mut chain = Chain::without_session(&folder, "--cost-per-day 10", &noon());
    chain.initialize(1, "claude-agent-acp");
    fork(&mut chain, "s", "later");
    let notices = turn(&mut chain, "later", 3.25).notices;
    assert!(notices.contains("9.75 of 10.00 USD today"), "{notices}");
}
