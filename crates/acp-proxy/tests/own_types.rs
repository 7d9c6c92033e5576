//! Request and notification types of another crate: this file is one.

use acp_proxy::prelude::*;
use acp_proxy::schema::{LogoutRequest, NewSessionRequest};
use acp_proxy::script::{Conversation, play};

#[derive(Serialize, Deserialize)]
#[serde(crate = "acp_proxy::serde")]
struct Search {
    words: String,
}

#[derive(Serialize, Deserialize)]
#[serde(crate = "acp_proxy::serde")]
struct Hits {
    count: u32,
}

impl Request for Search {
    const METHOD: &'static str = "_example/search";
    type Response = Hits;
}

#[derive(Serialize, Deserialize)]
#[serde(crate = "acp_proxy::serde")]
struct Progress {
    percent: u8,
}

impl Notification for Progress {
    const METHOD: &'static str = "_example/progress";
    const SENDER: Option<Side> = Some(Side::Agent);
}

#[test]
fn a_handler_of_an_own_request_type_handles_requests_from_both_sides() {
    let proxy = Proxy::new("search").on_request(async |mut search: Search, next| {
        if search.words.is_empty() {
            return Ok(Hits { count: 0 });
        }
        search.words.make_ascii_lowercase();
        let mut hits = next.run(search).await?;
        hits.count += 1;
        Ok(hits)
    });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"_example/search","params":{"words":"A","more":1.0}}
        agent  < {"id":1,"method":"_example/search","params":{"words":"a","more":1.0}}
        agent  > {"id":1,"result":{"count":4,"other":[]}}
        editor < {"id":1,"result":{"count":5,"other":[]}}
        agent  > {"id":2,"method":"_example/search","params":{"words":""}}
        agent  < {"id":2,"result":{"count":0}}
        agent  > {"id":3,"method":"_example/search","params":{"words":"B"}}
        editor < {"id":3,"method":"_example/search","params":{"words":"b"}}
        editor > {"id":3,"error":{"code":1,"message":"no"}}
        agent  < {"id":3,"error":{"code":1,"message":"no"}}
        "#,
    );
}

#[test]
fn own_requests_and_notifications_are_sent_to_either_side() {
    let proxy = Proxy::new("search").on_prompt(async |mut prompt, next| {
        let hits = next.agent().request(Search { words: prompt.text() }).await?;
        prompt.append_text(format!("{} hits", hits.count));
        next.editor().notify(Progress { percent: 50 })?;
        next.run(prompt).await
    });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"}]}}
        agent  < {"id":1,"method":"_example/search","params":{"words":"q"}}
        agent  > {"id":1,"result":{"count":2}}
        editor < {"method":"_example/progress","params":{"percent":50}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"q"},{"type":"text","text":"2 hits"}]}}
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
}

#[test]
fn a_handler_of_an_own_notification_type_changes_or_drops_it() {
    let proxy = Proxy::new("progress").on_notification(|progress: &mut Progress, _| {
        progress.percent += 1;
        if progress.percent > 100 { Delivery::Drop } else { Delivery::Forward }
    });
    play(
        proxy,
        r#"
        agent  > {"method":"_example/progress","params":{"percent":1,"more":1.50}}
        agent  > {"method":"_example/progress","params":{"percent":100}}
        agent  > {"method":"_example/progress","params":{"percent":2}}
        editor < {"method":"_example/progress","params":{"percent":2,"more":1.50}}
        editor < {"method":"_example/progress","params":{"percent":3}}
        # The type says that only the agent sends it.
        editor > {"method":"_example/progress","params":{"percent":1}}
        agent  < {"method":"_example/progress","params":{"percent":1}}
        "#,
    );
}

#[test]
fn handlers_of_any_method_run_first_and_read_messages_as_types_by_choice() {
    let proxy = Proxy::new("all")
        .on_request(async |mut request: NewSessionRequest, next| {
            request.cwd.push("inner");
            next.run(request).await
        })
        .on_any_request(async |mut call, next| {
            if let Some(mut request) = NewSessionRequest::from_call(&call)? {
                request.cwd.push("any");
                request.update_call(&mut call)?;
            }
            if call.is("_refused") {
                return Err(Error::new(-32001, format!("{:?} may not", next.sender())));
            }
            next.run(call).await
        })
        .on_any_notification(|sender, call, _| {
            if let Ok(Some(mut progress)) = Progress::from_call(call) {
                progress.percent = 0;
                assert!(progress.update_call(call).is_ok());
            }
            match sender == Side::Editor && call.is("_dropped") {
                true => Delivery::Drop,
                false => Delivery::Forward,
            }
        });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[],"more":1}}
        agent  < {"id":1,"method":"session/new","params":{"cwd":"/any/inner","mcpServers":[],"more":1}}
        agent  > {"id":1,"result":{"sessionId":"s"}}
        editor < {"id":1,"result":{"sessionId":"s"}}
        agent  > {"id":1,"method":"_refused"}
        agent  < {"id":1,"error":{"code":-32001,"message":"Agent may not"}}
        editor > {"id":2,"method":"_other","params":[1]}
        agent  < {"id":2,"method":"_other","params":[1]}
        agent  > {"id":2,"result":null}
        editor < {"id":2,"result":null}
        editor > {"method":"_dropped"}
        agent  > {"method":"_dropped"}
        editor < {"method":"_dropped"}
        editor > {"method":"_example/progress","params":{"percent":9,"more":1}}
        agent  < {"method":"_example/progress","params":{"percent":0,"more":1}}
        "#,
    );
}

#[test]
fn absent_params_and_null_results_stay_as_they_are() {
    let proxy = Proxy::new("logout")
        .on_request(async |request: LogoutRequest, next| next.run(request).await);
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"logout"}
        agent  < {"id":1,"method":"logout"}
        agent  > {"id":1,"result":null}
        editor < {"id":1,"result":null}
        "#,
    );
}

#[test]
fn an_agent_answers_own_requests_and_has_default_answers() {
    let agent = Agent::new("parrot")
        .on_request(async |search: Search, _| Ok(Hits { count: search.words.len() as u32 }))
        .on_other_request(async |call, _| to_json(&json!({ "method": call.method.name() })));
    let mut conversation = Conversation::new(agent);
    let mut ask = |id: u8, method: &str, params: &str| {
        let request = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
        conversation.send("editor", &request);
        conversation.receive("editor")["result"].clone()
    };
    assert_eq!(ask(1, "initialize", r#"{"protocolVersion":1}"#)["protocolVersion"], 1);
    let session = ask(2, "session/new", "{}")["sessionId"].clone();
    assert!(session.as_str().is_some_and(|id| id.starts_with("parrot-")), "{session}");
    assert_ne!(ask(3, "session/new", "{}")["sessionId"], session);
    assert_eq!(ask(4, "_example/search", r#"{"words":"abc"}"#)["count"], 3);
    assert_eq!(ask(5, "_unknown", "{}")["method"], "_unknown");
}
