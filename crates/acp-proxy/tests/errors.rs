//! `?` in handlers, on errors of every kind.

use acp_proxy::prelude::*;
use acp_proxy::script::play;
use anyhow::Context as _;

fn with_anyhow(text: &str) -> anyhow::Result<u32> {
    text.parse().with_context(|| format!("{text} is no limit"))
}

fn with_box(text: &str) -> std::result::Result<u32, Box<dyn std::error::Error>> {
    Ok(text.parse()?)
}

#[test]
fn question_mark_works_on_anyhow_standard_boxed_and_text_errors() {
    let proxy = Proxy::new("fails").on_prompt(async |prompt, next| {
        match prompt.text().as_str() {
            "anyhow" => drop(with_anyhow("x")?),
            "standard" => drop("x".parse::<u32>()?),
            "boxed" => drop(with_box("x")?),
            "text" => Err("just text")?,
            "own" => return Err(Error::new(7, "my own")),
            _ => {}
        }
        next.run(prompt).await
    });
    let mut script = String::new();
    let invalid = "invalid digit found in string";
    for (id, (text, code, message)) in (1..).zip([
        ("anyhow", -32603, format!("x is no limit: {invalid}")),
        ("standard", -32603, invalid.to_owned()),
        ("boxed", -32603, invalid.to_owned()),
        ("text", -32603, "just text".to_owned()),
        ("own", 7, "my own".to_owned()),
    ]) {
        let prompt = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }] });
        let request = json!({ "id": id, "method": "session/prompt", "params": prompt });
        let answer = json!({ "id": id, "error": { "code": code, "message": message } });
        script.push_str(&format!("editor > {request}\neditor < {answer}\n"));
    }
    play(proxy, &script);
}

#[test]
fn an_error_of_the_sdk_becomes_an_anyhow_error_with_its_message() {
    let fails = || -> Result<()> { Err(Error::invalid_params("wrong")) };
    let convert = || -> anyhow::Result<()> { fails().map_err(anyhow::Error::msg) };
    assert_eq!(convert().unwrap_err().to_string(), "wrong");
}
