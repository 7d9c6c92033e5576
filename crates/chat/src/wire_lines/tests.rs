use super::*;

const HOP: usize = 20;

fn row(kind: RowKind, json: &str) -> Row {
    Row {
        time: Duration::from_millis(1214),
        from: "sparkle".into(),
        to: "demo-agent".into(),
        toward: Side::Agent,
        hop_width: HOP,
        kind,
        number: None,
        took: None,
        json: json.into(),
        payload: PayloadLayout::Shortened,
    }
}

fn shown(row: &Row, width: usize) -> Vec<String> {
    let shown = lines(row, Layout { width, color: false, linear: false });
    if row.payload != PayloadLayout::OneLine {
        for line in &shown {
            assert!(line.width() <= width, "{width}: {}", line.text());
        }
    }
    shown.iter().map(Line::text).collect()
}

fn prompt() -> Row {
    let json = r#"{"prompt":[{"type":"text","text":"Please use the embody_sparkle tool to load patterns."}]}"#;
    Row { number: Some(5), ..row(RowKind::Request("session/prompt".into()), json) }
}

#[test]
fn a_request_has_a_time_a_hop_a_method_and_a_number() {
    assert_eq!(
        shown(&prompt(), 160),
        [
            r#"│  1.214 sparkle → demo-agent  session/prompt #5 "Please use the embody_sparkle tool to load patterns.""#
        ]
    );
    assert_eq!(
        shown(&prompt(), 80),
        [r#"│  1.214 sparkle → demo-agent  session/prompt #5 "Please use the embody_sparkle…"#]
    );
    assert_eq!(
        shown(&prompt(), 40),
        ["│  1.214 sparkle → demo-agent", r#"│   session/prompt #5 "Please use the e…"#]
    );
}

#[test]
fn an_answer_has_the_number_of_its_request_and_a_duration() {
    let answer = Row {
        number: Some(5),
        took: Some(Duration::from_millis(1240)),
        toward: Side::Editor,
        ..row(RowKind::Answer("session/prompt".into()), r#"{"stopReason":"end_turn"}"#)
    };
    assert_eq!(
        shown(&answer, 80),
        [r#"│  1.214 sparkle → demo-agent  ✓ session/prompt #5 1.2 s end_turn"#]
    );
    assert_eq!(
        shown(&answer, 40),
        ["│  1.214 sparkle → demo-agent", r#"│   ✓ session/prompt #5 1.2 s end_turn"#]
    );
}

#[test]
fn an_error_shows_its_code_and_message() {
    let kind = RowKind::Failure {
        method: "session/prompt".into(),
        code: Some(-32603),
        message: "Internal\nerror".into(),
    };
    let failure = Row { number: Some(7), took: Some(Duration::from_micros(10)), ..row(kind, "{}") };
    assert_eq!(
        shown(&failure, 100),
        ["│  1.214 sparkle → demo-agent  ✗ session/prompt #7 <1 ms -32603 Internal error {}"]
    );
    assert_eq!(shown(&failure, 40)[1], "│   ✗ session/prompt #7 <1 ms -32603 In…");
}

#[test]
fn a_piece_of_text_shows_the_text() {
    let kind = RowKind::Notification("session/update agent_message_chunk".into());
    let chunk = row(kind, r#"{"content":{"type":"text","text":"The "}}"#);
    assert_eq!(
        shown(&chunk, 80),
        [r#"│  1.214 sparkle → demo-agent  session/update agent_message_chunk "The ""#]
    );
    assert_eq!(shown(&chunk, 40)[1], r#"│   agent_message_chunk "The ""#);
    let more = row(RowKind::More("session/update agent_message_chunk".into(), 42), "");
    assert_eq!(shown(&more, 40)[1], "│   agent_message_chunk … 42 more");
}

#[test]
fn the_start_and_the_end_of_a_component_are_rows() {
    let started = Row { to: String::new(), ..row(RowKind::Started, "") };
    assert_eq!(shown(&started, 80), ["│  1.214 sparkle               started"]);
    let ended = RowKind::Ended("exited with status 101".into());
    let ended = Row { to: String::new(), ..row(ended, "") };
    assert_eq!(shown(&ended, 40), ["│  1.214 sparkle", "│   exited with status 101"]);
}

#[test]
fn in_a_pipe_a_row_is_one_line_with_its_whole_payload() {
    let whole = Row { payload: PayloadLayout::OneLine, ..prompt() };
    let line = &shown(&whole, 40)[..];
    assert_eq!(line, [format!("│  1.214 sparkle → demo-agent  session/prompt #5 {}", whole.json)]);
}

#[test]
fn a_whole_payload_is_wrapped_below_its_row() {
    let whole = Row { payload: PayloadLayout::Wrapped, ..prompt() };
    let text = r#"│       "text": "Please use the embody_sparkle tool to load patterns.""#;
    assert_eq!(
        shown(&whole, 80),
        [
            "│  1.214 sparkle → demo-agent  session/prompt #5",
            "│   {",
            r#"│     "prompt": ["#,
            r#"│       {"#,
            r#"│         "type": "text","#,
            &text.replace("       ", "         "),
            r#"│       }"#,
            r#"│     ]"#,
            "│   }",
        ]
    );
    let narrow = shown(&whole, 40);
    assert_eq!(narrow[..2], ["│  1.214 sparkle → demo-agent", "│   session/prompt #5"]);
    let joined: String = narrow.iter().flat_map(|it| it.split_whitespace()).collect();
    assert!(joined.contains("embody_sparkle") && joined.contains("patterns."), "{narrow:?}");
    // A short payload stays on its line.
    let short = Row { json: "{}".into(), ..whole };
    assert_eq!(shown(&short, 80), ["│  1.214 sparkle → demo-agent  session/prompt #5 {}"]);
}

#[test]
fn control_characters_are_not_shown() {
    let hostile = "\u{1b}[2J\u{202e}\r";
    let kind = RowKind::Failure { method: hostile.into(), code: None, message: hostile.into() };
    for payload in [PayloadLayout::Shortened, PayloadLayout::OneLine, PayloadLayout::Wrapped] {
        let json = format!("\"{hostile}\"");
        let row = Row { from: hostile.into(), payload, ..row(kind.clone(), &json) };
        for width in [1, 10, 40, 80] {
            let text = lines(&row, Layout { width, color: false, linear: false });
            let text: String = text.iter().map(Line::text).collect();
            assert!(!text.contains(|it: char| it.is_control() || it == '\u{202e}'), "{text:?}");
        }
    }
}

#[test]
fn durations_are_short() {
    for (milliseconds, expected) in
        [(0, "<1 ms"), (3, "3 ms"), (999, "999 ms"), (1240, "1.2 s"), (125_000, "2 min 5 s")]
    {
        assert_eq!(format_duration(Duration::from_millis(milliseconds)), expected);
    }
    assert_eq!(format_time(Duration::from_millis(123_456)), "123.456");
}
