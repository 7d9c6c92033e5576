//! Keeps a word from the agent: in prompts it is replaced, and in what the agent says it is put back.
//!
//! `conductor agent --guard example-redact 'example-redact Ada' my-agent`

use sdk::{Call, Json, Proxy, Side};

const STAND_IN: &str = "[somebody]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let Some(secret) = std::env::args().nth(1) else {
        eprintln!("usage: example-redact WORD");
        std::process::exit(2);
    };
    let word = secret.clone();
    Proxy::new("redact")
        // A prompt that cannot be read could hold the word.
        .strict()
        .on_prompt(async move |mut prompt, next| {
            prompt.edit_text(|text| *text = text.replace(&secret, STAND_IN));
            next.run(prompt).await
        })
        // Read without the types of the schema, so that updates of every kind pass. Chunks come as the agent
        // makes them; a stand-in that is cut in two stays as it is.
        .on_notification(Side::Agent, "session/update", move |call: &mut Call, _| {
            let path = ["update", "content", "text"];
            let text = call.params.as_ref().and_then(|params| params.at(&path));
            if let (Some(params), Some(text)) = (&call.params, text.as_ref().and_then(Json::text)) {
                let text = Json::string(&text.replace(STAND_IN, &word));
                call.params = Some(params.with_at(&path, Some(&text)));
            }
        })
        .serve_stdio()
        .await
}
