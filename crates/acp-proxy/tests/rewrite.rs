//! Rewriting every message, and sending something before it.

use acp_proxy::prelude::*;
use acp_proxy::{Ahead, Call, Json, Message, Outcome, script};

/// Replaces `secret` in every message. Refuses `forbidden`, drops notifications with `noise`, and says `before` before each
/// answer of the agent.
fn proxy() -> Proxy {
    Proxy::new("rewriter").rewrite(|from, message: &mut Message, ahead: &mut Ahead<'_, '_>| {
        let text = message.to_line();
        if text.contains("forbidden") {
            return Err(Error::new(-32000, "refused"));
        }
        let replace = |json: &mut Json| {
            *json = Json::parse(json.as_str().replace("secret", "***")).expect("JSON");
        };
        match message {
            Message::Request { call, .. } | Message::Notification(call) => {
                call.params.iter_mut().for_each(replace);
            }
            Message::Response { outcome: Outcome::Result(json) | Outcome::Error(json), .. } => {
                if from == Side::Agent {
                    ahead.notify(Side::Editor, Call::new("_x/before", Json::TRUE));
                }
                replace(json);
            }
        }
        Ok(if text.contains("noise") { Delivery::Drop } else { Delivery::Forward })
    })
}

#[test]
fn every_message_is_rewritten_answers_included() {
    script::play(
        proxy(),
        r#"
        editor > {"id":1,"method":"_x/y","params":{"a":"secret"}}
        agent  < {"id":7,"method":"_x/y","params":{"a":"***"}}
        agent  > {"method":"_x/note","params":{"b":"secret"}}
        editor < {"method":"_x/note","params":{"b":"***"}}
        agent  > {"id":7,"result":{"c":"secret"}}
        editor < {"method":"_x/before","params":true}
        editor < {"id":1,"result":{"c":"***"}}
        agent  > {"id":2,"method":"fs/read_text_file","params":{}}
        editor < {"id":8,"method":"fs/read_text_file","params":{}}
        editor > {"id":8,"error":{"code":-1,"message":"secret"}}
        agent  < {"id":2,"error":{"code":-1,"message":"***"}}
        "#,
    );
}

#[test]
fn a_refused_request_is_answered_and_a_refused_answer_becomes_the_error() {
    script::play(
        proxy(),
        r#"
        editor > {"id":1,"method":"_x/y","params":{"a":"forbidden"}}
        editor < {"id":1,"error":{"code":-32000,"message":"refused"}}
        agent  > {"method":"_x/note","params":{"b":"forbidden"}}
        agent  > {"method":"_x/note","params":{"b":"noise"}}
        agent  > {"id":2,"method":"fs/read_text_file","params":{}}
        editor < {"id":8,"method":"fs/read_text_file","params":{}}
        editor > {"id":8,"result":{"content":"forbidden"}}
        agent  < {"id":2,"error":{"code":-32000,"message":"refused"}}
        editor > {"id":3,"method":"_x/noise","params":{}}
        agent  < {"id":9,"method":"_x/noise","params":{}}
        agent  > {"id":9,"result":"noise"}
        editor < {"method":"_x/before","params":true}
        editor < {"id":3,"result":"noise"}
        "#,
    );
}

#[test]
fn handlers_see_the_rewritten_message_and_their_answers_too() {
    let proxy = proxy().on_raw_request(Side::Editor, "_x/y", async |call, next| {
        assert_eq!(call.params.as_ref().map(Json::as_str), Some(r#"["***"]"#));
        let answer = next.run(call).await?;
        assert_eq!(answer.as_str(), "\"***\"");
        Ok(answer)
    });
    script::play(
        proxy,
        r#"
        editor > {"id":1,"method":"_x/y","params":["secret"]}
        agent  < {"id":7,"method":"_x/y","params":["***"]}
        agent  > {"id":7,"result":"secret"}
        editor < {"method":"_x/before","params":true}
        editor < {"id":1,"result":"***"}
        "#,
    );
}
