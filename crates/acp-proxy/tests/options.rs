//! Options that can be read and changed while a component runs: `_proxy/config`.

use std::sync::{Arc, Mutex};

use acp_proxy::prelude::*;
use acp_proxy::script::{Conversation, play};
use acp_proxy::{Component, Refusal};

/// All changes that were not refused.
type Changes = Arc<Mutex<Vec<Options>>>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct Options {
    /// What is added before each prompt.
    prefix: String,
    limit: u32,
    mode: Mode,
    api_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Careful,
}

fn initial() -> Options {
    Options { prefix: "a".into(), limit: 1, mode: Mode::Fast, api_key: None }
}

/// Adds options whose changes are collected. The limit 13 is refused.
fn collector() -> (Changes, impl FnMut(Options, &Context) -> Result<(), Refusal>) {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let all = changes.clone();
    let on_change = move |new: Options, _: &Context| {
        if new.limit == 13 {
            return Err("13 brings bad luck".to_owned());
        }
        all.lock().unwrap().push(new);
        Ok(())
    };
    (changes, on_change)
}

fn proxy() -> Component {
    Proxy::new("prefix").options(initial(), collector().1).into()
}

#[test]
fn values_are_read_changed_and_reset() {
    let (changes, on_change) = collector();
    play(
        Proxy::new("prefix").options(initial(), on_change),
        r#"
        editor > {"id":1,"method":"_proxy/config","params":{"op":"get","here":true,"route":"1.1"}}
        editor < {"id":1,"result":{"values":{"prefix":"a","limit":1,"mode":"fast"},"hidden":["api_key"]}}
        editor > {"id":2,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"limit":7,"mode":"careful"}}}
        editor < {"id":2,"result":{"values":{"prefix":"a","limit":7,"mode":"careful"},"applied":"now","hidden":["api_key"]}}
        editor > {"id":3,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"api_key":"k","limit":null}}}
        editor < {"id":3,"result":{"values":{"prefix":"a","limit":1,"mode":"careful"},"applied":"now","hidden":["api_key"]}}
        "#
        .replace("api_key", "api-key")
        .as_str(),
    );
    let all = changes.lock().unwrap();
    let first = Options { limit: 7, mode: Mode::Careful, ..initial() };
    let second = Options { limit: 1, api_key: Some("k".into()), ..first.clone() };
    assert_eq!(*all, [first, second]);
}

#[test]
fn a_wrong_value_changes_nothing_and_the_error_names_the_option() {
    play(
        proxy(),
        r#"
        editor > {"id":1,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"limit":7,"perfix":"b"}}}
        editor < {"id":1,"error":{"code":-32602,"message":"prefix: there is no option `perfix`; did you mean `prefix`? The options are api-key, limit, mode, prefix"}}
        editor > {"id":2,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"prefix":"b","limit":"7"}}}
        editor < {"id":2,"error":{"code":-32602,"message":"prefix: option `limit`: invalid type: string \"7\", expected u32"}}
        editor > {"id":3,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"mode":"carefull"}}}
        editor < {"id":3,"error":{"code":-32602,"message":"prefix: option `mode`: unknown variant `carefull`, expected `fast` or `careful`; did you mean `careful`?"}}
        editor > {"id":4,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"prefix":"b","limit":13}}}
        editor < {"id":4,"error":{"code":-32602,"message":"prefix: 13 brings bad luck"}}
        editor > {"id":5,"method":"_proxy/config","params":{"op":"set","here":true}}
        editor < {"id":5,"error":{"code":-32602,"message":"prefix: `values` is missing"}}
        editor > {"id":6,"method":"_proxy/config","params":{"op":"get","here":true}}
        editor < {"id":6,"result":{"values":{"prefix":"a","limit":1,"mode":"fast"},"hidden":["api-key"]}}
        "#,
    );
}

#[test]
fn a_request_for_another_component_passes_unchanged() {
    play(
        proxy(),
        r#"
        editor > {"id":1,"method":"_proxy/config","params":{"component":"prefix","op":"get","route":"1.1","x":1.10}}
        agent  < {"id":7,"method":"_proxy/config","params":{"component":"prefix","op":"get","route":"1.1","x":1.10}}
        agent  > {"id":7,"error":{"code":-32601,"message":"no"}}
        editor < {"id":1,"error":{"code":-32601,"message":"no"}}
        # Of another shape, and for a component inside of a nested conductor.
        editor > {"id":2,"method":"_proxy/config","params":{"here":true}}
        agent  < {"id":8,"method":"_proxy/config","params":{"here":true}}
        editor > {"id":3,"method":"_proxy/config","params":{"component":"x","op":"get","here":true}}
        agent  < {"id":9,"method":"_proxy/config","params":{"component":"x","op":"get","here":true}}
        # Toward the editor.
        agent  > {"id":4,"method":"_proxy/config","params":{"op":"get","here":true}}
        editor < {"id":10,"method":"_proxy/config","params":{"op":"get","here":true}}
        "#,
    );
}

#[test]
fn the_schema_describes_the_type() {
    let mut conversation = Conversation::new(proxy());
    let request = r#"{"id":1,"method":"_proxy/config","params":{"op":"schema","here":true}}"#;
    conversation.send("editor", request);
    let answer = conversation.receive("editor");
    let properties = &answer["result"]["schema"]["properties"];
    assert_eq!(properties["prefix"]["description"], "What is added before each prompt.");
    assert_eq!(properties["limit"]["type"], "integer");
}

#[test]
fn an_agent_takes_options_as_well() {
    play(
        Agent::new("parrot").options(initial(), collector().1),
        r#"
        editor > {"id":1,"method":"_proxy/config","params":{"op":"set","here":true,"values":{"limit":2}}}
        editor < {"id":1,"result":{"values":{"prefix":"a","limit":2,"mode":"fast"},"applied":"now","hidden":["api-key"]}}
        editor > {"id":2,"method":"_proxy/config","params":{"op":"get"}}
        editor < {"id":2,"error":{"code":-32601,"message":"method not found: _proxy/config"}}
        "#,
    );
}

#[test]
fn a_component_asks_for_the_options_of_another_one() {
    let proxy = Proxy::new("curious").on_prompt(async |_, next| {
        let options = next.options_of("nested/prefix");
        let read: Options = options.read().await?;
        assert_eq!(read.limit, 7);
        assert_eq!(options.schema().await?["type"], "object");
        let why = options.values().await.expect_err("an error");
        Err(why)
    });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  < {"id":7,"method":"_proxy/config","params":{"component":"nested/prefix","op":"get"}}
        agent  > {"id":7,"result":{"values":{"prefix":"a","limit":7,"mode":"fast"}}}
        agent  < {"id":8,"method":"_proxy/config","params":{"component":"nested/prefix","op":"schema"}}
        agent  > {"id":8,"result":{"schema":{"type":"object"}}}
        agent  < {"id":9,"method":"_proxy/config","params":{"component":"nested/prefix","op":"get"}}
        agent  > {"id":9,"error":{"code":-32602,"message":"gone"}}
        editor < {"id":1,"error":{"code":-32602,"message":"gone"}}
        "#,
    );
}
