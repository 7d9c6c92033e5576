//! Keeps a word from the agent: in prompts it is replaced, and in what the agent says it is put back.
//!
//! `conductor agent --guard example-redact 'example-redact Ada' my-agent`
//!
//! The word is replaced in the text of prompts and of the resources that are embedded in them. A request or
//! notification to the agent that contains the word anywhere else, as a file name, in `_meta` or in the
//! name of a member, is refused. Not covered: what the agent reads by itself (files, terminals, MCP tools,
//! answers to its own questions), the word in another spelling or case, split or encoded, in images or audio,
//! and numbers.

use acp_proxy::schema::{ContentBlock, EmbeddedResourceResource};
use acp_proxy::{Call, Error, Json, Proxy, Side};

const STAND_IN: &str = "[somebody]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let Some(secret) = std::env::args().nth(1).filter(|word| !word.is_empty()) else {
        eprintln!("usage: example-redact WORD");
        std::process::exit(2);
    };
    let (word, kept) = (secret.clone(), secret.clone());
    Proxy::new("redact")
        // A prompt that cannot be read could hold the word.
        .strict()
        .on_prompt(async move |mut prompt, next| {
            prompt.edit_text(|text| *text = text.replace(&secret, STAND_IN));
            for block in &mut prompt.prompt {
                if let ContentBlock::Resource(embedded) = block
                    && let EmbeddedResourceResource::TextResourceContents(resource) =
                        &mut embedded.resource
                {
                    resource.text = resource.text.replace(&secret, STAND_IN);
                }
            }
            next.run(prompt).await
        })
        // After that the word must not be left, wherever it stands.
        .check(Side::Agent, move |call: &Call| match call.any_string(|it| it.contains(&kept)) {
            false => Ok(()),
            true => Err(Error::invalid_params(
                "redact refuses this, because it contains the word that is kept from the agent, in a place \
                 where it is not replaced. Send it without the word",
            )),
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
