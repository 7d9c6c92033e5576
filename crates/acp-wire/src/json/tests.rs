use super::*;

fn assert_agrees_with_serde(text: &str) {
    let ours = Json::parse(text.to_owned()).is_ok();
    let theirs = serde_json::from_str::<Box<serde_json::value::RawValue>>(text).is_ok();
    assert_eq!(ours, theirs, "{text}");
}

#[test]
fn the_parser_accepts_and_refuses_the_same_texts_as_serde_json() {
    for text in [
        "",
        " ",
        "0",
        "-0",
        "01",
        "-",
        "1.",
        "1.5",
        ".5",
        "1e5",
        "1e",
        "1E+5",
        "1e-",
        "--1",
        "+1",
        "null",
        "nul",
        "nulll",
        "true",
        "false",
        "\"\"",
        "\"a",
        "\"\\\"",
        "\"\\u12\"",
        "\"\\u12aF\"",
        "\"\\x\"",
        "\"\u{1}\"",
        "\"é\u{1F600}\"",
        "[]",
        "[ ]",
        "[1,]",
        "[,]",
        "[1 2]",
        "[1,2]",
        "{}",
        "{ }",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{\"a\":[{\"b\":[[]]}]}",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "1 1",
        "[]]",
        "{\"a\":1}{",
        "1e400",
        "123456789012345678901234567890",
        "\"\\ud800\"",
        "[\"12345678\",\"1234567\\n\",\"1234567\\\\\"]",
    ] {
        assert_agrees_with_serde(text);
    }
}

#[test]
fn the_parser_agrees_with_serde_json_on_random_mutations() {
    let seed = br#"{"a":[1,2.5e-3,"x\u00e9\"\\",{"b":null,"c":[true,false]}],"long text":"0123456789abcdef"}"#;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..20_000 {
        let mut text = seed.to_vec();
        for _ in 0..=random(3) {
            let at = random(text.len());
            match random(3) {
                0 => text[at] = b" \"\\{}[],:0123456789eE+-.tfn\x01x"[random(29)],
                1 => drop(text.remove(at)),
                _ => text.insert(at, b"\"\\{}[],:1"[random(9)]),
            }
        }
        assert_agrees_with_serde(std::str::from_utf8(&text).unwrap());
    }
}

#[test]
fn any_depth_is_parsed_without_recursion() {
    for depth in [63, 64, 65, 128, 1_000_000] {
        let text = "[{\"a\":".repeat(depth / 2) + "1" + &"}]".repeat(depth / 2);
        assert!(Json::parse(text.clone()).is_ok(), "{depth}");
        assert!(Json::parse(text.clone() + "]").is_err());
        assert!(Json::parse(text[..text.len() - 1].to_owned() + "}").is_err());
    }
}

#[test]
fn strings_are_unescaped() {
    let say = |text: &'static str| Json::parse(text).unwrap().text().unwrap().into_owned();
    assert_eq!(say(r#""a\/b\n\u0041\ud83d\ude00""#), "a/b\nA\u{1F600}");
    assert_eq!(say(r#""\ud800x""#), "\u{FFFD}x");
    assert_eq!(say(r#""\ud800\u0041""#), "\u{FFFD}A");
    let awkward = "q\"b\\n\nt\tc\u{1}é";
    assert_eq!(Json::string(awkward).text().unwrap(), awkward);
    assert_eq!(Json::parse("12").unwrap().text(), None);
}

#[test]
fn values_are_set_and_removed_at_a_path() {
    let json = |text: &'static str| Json::parse(text).unwrap();
    let put = |text, path: &[&str]| json(text).with_at(path, Some(&Json::TRUE)).to_string();
    let take = |text, path: &[&str]| json(text).with_at(path, None).to_string();
    assert_eq!(put("{}", &["a", "b"]), r#"{"a":{"b":true}}"#);
    assert_eq!(put(r#"{ "x" : 1.0 }"#, &["a"]), r#"{ "x" : 1.0,"a":true}"#);
    assert_eq!(
        put(r#"{"a":{ "b": 1e3, "c":[ ] }}"#, &["a", "b"]),
        r#"{"a":{ "b": true, "c":[ ] }}"#
    );
    assert_eq!(put(r#"{"a":null}"#, &["a", "b"]), r#"{"a":{"b":true}}"#);
    assert_eq!(put("[]", &["a"]), "[]");
    assert_eq!(
        take(r#"{"a":{ "b": 1, "c": 1.10 }, "d":2}"#, &["a", "b"]),
        r#"{"a":{"c": 1.10}, "d":2}"#
    );
    assert_eq!(take(r#"{"a":{"b":1}}"#, &["a", "x", "y"]), r#"{"a":{"b":1}}"#);
    assert_eq!(take(r#"{"a":1}"#, &["a"]), "{}");
}

#[test]
fn members_are_found_and_replaced_in_place() {
    let json = Json::parse(r#" { "a" : 1.10 , "b":{"a":2}, "\u0063":[ 3 ] } "#).unwrap();
    assert_eq!(json.member("a").unwrap().as_str(), "1.10");
    assert_eq!(json.at(&["b", "a"]).unwrap().as_str(), "2");
    assert_eq!(json.member("c").unwrap().as_str(), "[ 3 ]");
    assert_eq!(json.member("d"), None);
    let other = json.with_member("a", &Json::NULL);
    assert_eq!(other.as_str(), r#"{ "a" : null , "b":{"a":2}, "\u0063":[ 3 ] }"#);
    assert_eq!(json.with_member("d", &Json::NULL), json);
}

#[test]
fn arrays_and_objects_keep_the_spelling_of_their_parts() {
    let list = Json::trusted(r#"[ 1.10 , {"a": [2]},"x,]", [] ]"#);
    let elements = list.elements();
    assert_eq!(
        elements.iter().map(Json::as_str).collect::<Vec<_>>(),
        ["1.10", r#"{"a": [2]}"#, r#""x,]""#, "[]"]
    );
    assert_eq!(Json::array(&elements).as_str(), r#"[1.10,{"a": [2]},"x,]",[]]"#);
    assert!(Json::trusted("[]").elements().is_empty());
    assert!(Json::NULL.elements().is_empty());
    let object = Json::object([("a", Some(Json::TRUE)), ("b", None), ("c\"", Some(Json::NULL))]);
    assert_eq!(object.as_str(), r#"{"a":true,"c\"":null}"#);
    assert_eq!(object.members().len(), 2);
}

#[test]
fn a_value_with_more_members_extends_one_with_fewer() {
    let extends = |more: &str, less: &str| {
        Json::trusted(more.to_owned()).extends(&Json::trusted(less.to_owned()))
    };
    let prompt = r#"{"sessionId":"s","prompt":[{"type":"text","text":"hé"}],"_meta":null}"#;
    assert!(extends(prompt, prompt));
    let added =
        r#"{"prompt": [{"text":"more"}, {"text":"h\u00e9","type":"text"}], "sessionId":"s"}"#;
    assert!(extends(added, prompt));
    assert!(!extends(prompt, added));
    assert!(!extends(
        r#"{"sessionId":"s","prompt":[{"type":"text","text":"be Sparkle"}]}"#,
        prompt
    ));
    assert!(!extends(r#"[2,1]"#, r#"[1,2]"#) && extends("[0,1,2]", "[1,2]"));
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(9000), "]".repeat(9000));
    assert!(!extends(&deep("1"), &deep("2")));
    // The last of several equal keys counts.
    assert!(
        extends(r#"{"a":1,"a":2}"#, r#"{"a":2}"#) && !extends(r#"{"a":2,"a":1}"#, r#"{"a":2}"#)
    );
}

/// Each of these takes minutes if every member is searched from the beginning.
#[test]
fn comparing_large_values_takes_linear_work() {
    let object = |count: usize, more: &str| {
        let members = (0..count).map(|it| format!(r#""key {it}":{it}"#));
        format!("{{{more}{}}}", members.collect::<Vec<_>>().join(","))
    };
    let (less, more) = (object(200_000, ""), object(200_000, r#""more":1,"#));
    let (less, more) = (Json::trusted(less), Json::trusted(more));
    assert!(more.extends(&less) && !less.extends(&more));
    // A long element, and many short ones that it is compared with.
    let short = Json::trusted(format!("[{}]", vec!["{}"; 200_000].join(",")));
    let long = Json::trusted(format!("[{}]", object(100_000, "")));
    assert!(!short.extends(&long));
    // No more work than the budget allows.
    let mut work = 100;
    assert!(!more.extends_within_budget(&less, &mut work) && work == 100);
    assert!(less.extends_within_budget(&less, &mut work) && work == 100);
}

#[test]
fn the_first_member_of_a_path_is_found_without_parsing_the_rest() {
    let json = Json::parse(r#"{"a":{"x":[{"c":0}],"b":"1","b":"2"},"a":{"b":"3"},"d":4}"#).unwrap();
    let first = |path: &[&str]| json.first_at(path).map(|it| it.to_string());
    assert_eq!(first(&["a", "b"]).as_deref(), Some(r#""1""#));
    assert_eq!(first(&["d"]).as_deref(), Some("4"));
    assert_eq!(first(&[]), Some(json.to_string()));
    for path in [&["c"][..], &["a", "c"], &["d", "b"], &["a", "b", "c"]] {
        assert_eq!(first(path), None, "{path:?}");
    }
}

#[test]
fn every_string_is_tested_without_escapes() {
    let json = Json::parse(
        r#"{"a":["\\","x\"y",{"k\u0065y":{"deep":"Ad\u0061"}}],"b":1,"c":"\ud800z","c":"first"}"#,
    )
    .unwrap();
    let mut all = Vec::new();
    assert!(!json.any_string(|it| {
        all.push(it.to_owned());
        false
    }));
    let expected = ["a", "\\", "x\"y", "key", "deep", "Ada", "b", "c", "\u{fffd}z", "c", "first"];
    assert_eq!(all, expected);
    assert!(json.any_string(|it| it == "Ada"));
    assert!(!Json::parse("[1,true,null,{}]").unwrap().any_string(|_| true));
    let deep = format!("{}\"x\"{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Json::trusted(deep).any_string(|it| it == "x"));
}
