//! Limits per turn, session and day, and what happens when they are reached.

use acp_proxy::script::play;
use clap::Parser;
use components::budget::Budget;
use serde_json::json;

use crate::chain::{Chain, DAY, Folder, TestClock, noon};

/// The whole conversation, as the editor and the agent see it.
#[test]
fn the_turn_that_reaches_a_limit_ends_and_the_next_prompt_is_refused() {
    let folder = Folder::new();
    let ledger = folder.path().to_str().expect("UTF-8");
    let words = ["budget", "--ledger", ledger, "--tokens-per-day", "100"];
    let budget = Budget::parse_from(words).build_with(noon().clock());
    play(
        budget,
        r#"
        editor > {"id":0,"method":"initialize","params":{"protocolVersion":1}}
        agent  < {"id":0,"method":"initialize","params":{"protocolVersion":1}}
        agent  > {"id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"codex-acp","version":"2.6.0"}}}
        editor < {"id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"codex-acp","version":"2.6.0"}}}
        editor > {"id":1,"method":"session/new","params":{"cwd":"/"}}
        agent  < {"id":1,"method":"session/new","params":{"cwd":"/"}}
        agent  > {"id":1,"result":{"sessionId":"s"}}
        editor < {"id":1,"result":{"sessionId":"s"}}
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  > {"id":2,"result":{"stopReason":"end_turn","usage":{"totalTokens":85,"inputTokens":80,"outputTokens":5}}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\n[budget] 85 of 100 tokens today (85 %)\n"}}}}
        editor < {"id":2,"result":{"stopReason":"end_turn","usage":{"totalTokens":85,"inputTokens":80,"outputTokens":5}}}
        editor > {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  < {"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  > {"id":3,"result":{"stopReason":"end_turn","usage":{"totalTokens":35,"inputTokens":30,"outputTokens":5}}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\n[budget] 120 of 100 tokens today (120 %). The next prompt is refused\n"}}}}
        editor < {"id":3,"result":{"stopReason":"end_turn","usage":{"totalTokens":35,"inputTokens":30,"outputTokens":5}}}
        editor > {"id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        editor < {"id":4,"error":{"code":-32603,"message":"budget: the budget tokens_per_day is spent: 120 of 100 tokens today (120 %). Wait until 2026-11-17 00:00 CET, or raise the limit [more: conductor errors budget-spent]","data":{"component":"budget","code":"budget-spent","budget":"tokens_per_day","spent":120,"limit":100,"unit":"tokens","resetsAt":"2026-11-16T23:00:00Z"}}}
    "#,
    );
    let events = ["day", "open", "spent", "end", "open", "spent", "end"];
    assert_eq!(folder.events(DAY), events);
    let lines = folder.lines(DAY);
    assert_eq!(lines[2]["tokens"], json!({ "input": 80, "output": 5 }));
    assert_eq!(lines[2]["tokens_are"], "exact");
    assert_eq!(lines[2]["agent"], "codex-acp 2.6.0");
    assert_eq!(
        (&lines[1]["turn"], &lines[1]["time"]),
        (&lines[3]["turn"], &json!("2026-11-16T11:00:00.000Z"))
    );
}

#[test]
fn the_day_is_that_of_the_users_time_zone_and_a_turn_belongs_to_the_day_on_which_it_begins() {
    let folder = Folder::new();
    let clock = TestClock::new("2026-11-16T23:59:00-05:00[America/New_York]");
    let mut chain = Chain::at(&folder, "--tokens-per-day 100", "codex", &clock);
    chain.prompt("s");
    clock.set("2026-11-17T00:01:00-05:00[America/New_York]");
    chain.answer(json!({ "stopReason": "end_turn", "usage": { "totalTokens": 500 } }));
    assert_eq!(chain.rest_of_turn().notices, "", "the new day has its own budget");
    assert_eq!(folder.events("2026-11-16"), ["day", "open", "spent", "end"]);
    assert_eq!(chain.turn("s", 100).end["result"]["stopReason"], "end_turn");
    let error = chain.refused("s");
    assert_eq!(error["data"]["resetsAt"], "2026-11-18T05:00:00Z");
    clock.set("2026-11-18T00:00:00-05:00[America/New_York]");
    chain.turn("s", 1);
}

/// On 25 October 2026 the day in Berlin has 25 hours.
#[test]
fn a_day_ends_at_midnight_also_when_the_clocks_change() {
    let folder = Folder::new();
    let clock = TestClock::new("2026-10-25T12:00:00+01:00[Europe/Berlin]");
    let mut chain = Chain::at(&folder, "--tokens-per-day 1", "codex", &clock);
    chain.turn("s", 1);
    assert_eq!(chain.refused("s")["data"]["resetsAt"], "2026-10-25T23:00:00Z");
}

#[test]
fn sessions_that_run_at_the_same_time_share_the_day_and_have_limits_of_their_own() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-session 60 --tokens-per-day 150", "codex");
    chain.new_session("t");
    chain.prompt("s");
    let first = chain.agent();
    chain.prompt("t");
    let second = chain.agent();
    chain.agent_answers(
        &second,
        json!({ "stopReason": "end_turn", "usage": { "totalTokens": 50 } }),
    );
    assert!(chain.rest_of_turn().notices.contains("50 of 60 tokens in this session (83 %)"));
    chain
        .agent_answers(&first, json!({ "stopReason": "end_turn", "usage": { "totalTokens": 60 } }));
    let notices = chain.rest_of_turn().notices;
    assert!(
        notices.contains("60 of 60 tokens in this session (100 %). The next prompt is refused"),
        "{notices}"
    );
    assert_eq!(chain.refused("s")["data"]["budget"], "tokens_per_session");
    let notices = chain.turn("t", 40).notices;
    assert!(notices.contains("150 of 150 tokens today"), "{notices}");
    // The longest period is named.
    let error = chain.refused("t");
    assert_eq!(error["data"]["budget"], "tokens_per_day");
    chain.new_session("u");
    assert_eq!(chain.refused("u")["data"]["spent"], 150);
}

#[test]
fn after_a_turn_above_the_limit_of_a_turn_a_prompt_is_refused_once() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-turn 50", "codex");
    assert_eq!(chain.turn("s", 49).notices, "");
    let notices = chain.turn("s", 70).notices;
    assert!(notices.contains("70 of 50 tokens in this turn (140 %)"), "{notices}");
    let error = chain.refused("s");
    assert_eq!(error["data"]["resetsAt"], json!(null));
    let message = error["message"].as_str().expect("a text");
    assert!(
        message.contains("in the last turn") && message.contains("Send the prompt again"),
        "{message}"
    );
    assert_eq!(chain.turn("s", 10).notices, "");
    chain.turn("s", 10);
}

#[test]
fn with_now_the_running_turn_is_cancelled_as_soon_as_the_agent_reports_enough() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-turn 100 --when-spent now", "qwen-code");
    let call = |tokens: u64| {
        json!({
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "" },
            "_meta": { "usage": { "inputTokens": tokens, "outputTokens": 0, "totalTokens": tokens } },
        })
    };
    chain.prompt("s");
    let prompt = chain.agent();
    chain.update("s", call(60));
    let update =
        json!({ "method": "session/update", "params": { "sessionId": "s", "update": call(60) } });
    chain.agent_sends(&update);
    let cancel = chain.agent();
    assert_eq!(
        (&cancel["method"], &cancel["params"]),
        (&json!("session/cancel"), &json!({ "sessionId": "s" }))
    );
    // The turn is cancelled once.
    chain.agent_sends(&update);
    chain.agent_answers(&prompt, json!({ "stopReason": "cancelled" }));
    let turn = chain.rest_of_turn();
    assert!(
        turn.notices.contains("120 of 100 tokens in this turn (120 %). The turn is cancelled"),
        "{}",
        turn.notices
    );
    assert_eq!(turn.end["result"]["stopReason"], "cancelled");
    assert_eq!(chain.refused("s")["data"]["spent"], 180);
}

#[test]
fn with_warn_the_user_is_told_and_no_prompt_is_refused() {
    let folder = Folder::new();
    let options = "--cost-per-day 1 --when-spent warn --warn-at 50";
    let mut chain = Chain::new(&folder, options, "claude-agent-acp");
    let mut notices = Vec::new();
    for sum in [0.3, 0.6, 0.9, 1.2, 1.5] {
        chain.prompt("s");
        let prompt = chain.agent();
        chain.cost("s", sum);
        chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
        notices.push(chain.rest_of_turn().notices);
    }
    let expected = [
        "",
        "\n\n[budget] 0.60 of 1.00 USD today (60 %)\n",
        "",
        "\n\n[budget] 1.20 of 1.00 USD today (120 %)\n",
        "",
    ];
    assert_eq!(notices, expected);
}

#[test]
fn with_ask_the_user_decides_about_each_further_prompt() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 10 --when-spent ask", "codex");
    let notices = chain.turn("s", 10).notices;
    assert!(notices.contains("You are asked before the next prompt"), "{notices}");
    let choose = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    // Not this prompt.
    chain.prompt("s");
    let question = chain.editor();
    assert_eq!(question["method"], "session/request_permission");
    let params = &question["params"];
    assert_eq!(
        params["toolCall"]["title"],
        "Budget spent: 10 of 10 tokens today (100 %). Send the prompt?"
    );
    let kinds: Vec<_> =
        params["options"].as_array().expect("options").iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    chain.editor_answers(&question, choose("budget-stop"));
    chain.question_ends(&question, "failed");
    assert_eq!(chain.editor()["error"]["data"]["code"], "budget-spent");
    // This one.
    chain.prompt("s");
    let question = chain.editor();
    chain.editor_answers(&question, choose("budget-once"));
    chain.question_ends(&question, "completed");
    chain.answer(json!({ "stopReason": "end_turn" }));
    chain.rest_of_turn();
    // The user cancels.
    chain.prompt("s");
    let question = chain.editor();
    chain.editor_answers(&question, json!({ "outcome": { "outcome": "cancelled" } }));
    chain.question_ends(&question, "failed");
    assert_eq!(chain.editor()["result"]["stopReason"], "cancelled");
    // An option that was not offered.
    chain.prompt("s");
    let question = chain.editor();
    chain.editor_answers(&question, choose("other"));
    chain.question_ends(&question, "failed");
    assert_eq!(chain.editor()["error"]["data"]["code"], "budget-spent");
    // No more questions in this session.
    chain.prompt("s");
    let question = chain.editor();
    chain.editor_answers(&question, choose("budget-session"));
    chain.question_ends(&question, "completed");
    chain.answer(json!({ "stopReason": "end_turn" }));
    chain.rest_of_turn();
    chain.turn("s", 1);
    // But in others.
    chain.new_session("t");
    chain.prompt("t");
    assert_eq!(chain.editor()["method"], "session/request_permission");
}

#[test]
fn a_turn_that_is_cancelled_while_the_user_is_asked_ends() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 10 --when-spent ask", "codex");
    chain.turn("s", 10);
    chain.prompt("s");
    let question = chain.editor();
    assert_eq!(question["method"], "session/request_permission");
    for session in ["t", "s"] {
        chain.cancel(session);
        assert_eq!(chain.agent()["params"]["sessionId"], session);
    }
    assert_eq!(chain.editor()["method"], "$/cancel_request");
    chain.question_ends(&question, "failed");
    assert_eq!(chain.editor()["result"]["stopReason"], "cancelled");
}

#[test]
fn a_question_that_nobody_answers_in_time_is_a_refusal() {
    let folder = Folder::new();
    let mut chain =
        Chain::new(&folder, "--tokens-per-day 10 --when-spent ask --ask-timeout 1ms", "codex");
    chain.turn("s", 10);
    chain.prompt("s");
    let question = chain.editor();
    assert_eq!(question["method"], "session/request_permission");
    assert_eq!(chain.editor()["method"], "$/cancel_request");
    chain.question_ends(&question, "failed");
    assert_eq!(chain.editor()["error"]["data"]["code"], "budget-spent");
}

#[test]
fn turns_that_fail_or_are_cancelled_end_in_the_ledger() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 10", "codex");
    chain.prompt("s");
    chain.fail();
    assert_eq!(chain.editor()["error"]["message"], "overloaded");
    chain.turn_with("s", json!({ "stopReason": "cancelled", "usage": { "totalTokens": 3 } }));
    let ends: Vec<_> = folder
        .lines(DAY)
        .iter()
        .filter(|it| it["event"] == "end")
        .map(|it| it["why"].clone())
        .collect();
    assert_eq!(ends, ["error", "cancelled"]);
}

#[test]
fn a_prompt_without_a_session_is_refused() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 10", "codex");
    chain.send("session/prompt", json!({ "prompt": [] }));
    assert_eq!(chain.editor()["error"]["code"], -32602);
}

#[test]
fn options_are_checked_before_the_chain_starts() {
    let folder = Folder::new();
    let prices = folder.path().join("prices.toml");
    std::fs::write(&prices, "[model.x]\ninput = 1\noutput = -1\n").expect("written");
    let euro = folder.path().join("euro.toml");
    std::fs::write(&euro, "currency = \"EUR\"\n[model.x]\ninput = 1\noutput = 1\n")
        .expect("written");
    let file = folder.path().join("budget.toml");
    std::fs::write(&file, "when_spent = \"stop\"\n\ntokens_per_day = \"lots\"\n").expect("written");
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").expect("written");
    let ledger = format!("--ledger {}", folder.path().join("ledger").display());
    let cases = [
        (ledger.clone(), "it has no limit; set one, such as --tokens-per-day 1M"),
        (format!("{ledger} --tokens-per-day lots"), "write one such as 50000, 50k or 1.5M"),
        (format!("{ledger} --cost-per-day free"), "write one such as 5, 2.50 USD or 100 credits"),
        (format!("{ledger} --cost-per-day 5 --warn-at 120"), "between 1 and 100"),
        (format!("{ledger} --cost-per-day 5 --keep 5h"), "at least 1d"),
        (
            format!("{ledger} --cost-per-day 5 --prices {}", prices.display()),
            "prices.toml:3: the price -1 is not valid",
        ),
        (
            format!("{ledger} --cost-per-day 5 --prices {}", euro.display()),
            "has prices in EUR, but no limit is in EUR",
        ),
        (format!("{ledger} --cost-per-day 5 --prices nowhere.toml"), "cannot read nowhere.toml"),
        (
            format!("{ledger} --config {}", file.display()),
            "budget.toml:3: `lots` is not a number of tokens",
        ),
        (format!("--tokens-per-day 5 --ledger {}/x", blocked.display()), "cannot be written"),
        (
            format!("{ledger} --tokens-per-day 5 --ask-timeout 5m"),
            "--ask-timeout is only for --when-spent ask",
        ),
    ];
    let entry = components::find("budget").expect("a built-in");
    assert!(entry.guard);
    for (options, part) in cases {
        let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        let why = entry
            .parse(&words, &serde_json::Map::new())
            .err()
            .unwrap_or_else(|| panic!("{options} is valid"));
        assert!(why.starts_with("budget: ") && why.contains(part), "{options}: {why}");
    }
    // The same options in a file and as JSON.
    std::fs::write(
        &file,
        "tokens_per_day = \"1M\"\ncost_per_day = 5\nwhen_spent = \"ask\"\nask_timeout = \"5m\"\n",
    )
    .expect("written");
    let words: Vec<String> = format!("{ledger} --config {}", file.display())
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let members = json!({ "cost_per_turn": "0.50 EUR", "warn_at": 90 });
    entry.parse(&words, members.as_object().expect("an object")).map(drop).expect("valid");
}
