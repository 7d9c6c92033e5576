//! Hides a word from the agent. The word is replaced in prompts, and put back in the agent's answers.
//!
//! `conductor agent --guard example-redact 'example-redact Ada' my-agent`
//!
//! The word is replaced in the text of prompts and of embedded resources. A request or notification to the agent that
//! contains the word anywhere else, such as in a file name, in `_meta` or in the name of a member, is refused. Not
//! covered: files, terminals and MCP tools that the agent uses, answers to the agent's requests, the word in another
//! spelling or case, split or encoded, in images or audio, and numbers.

use acp_proxy::prelude::*;
use acp_proxy::schema::EmbeddedResourceResource;

const STAND_IN: &str = "[somebody]";

fn main() -> std::io::Result<()> {
    let Some(secret) = std::env::args().nth(1).filter(|word| !word.is_empty()) else {
        eprintln!("usage: example-redact WORD");
        std::process::exit(2);
    };
    let (word, forbidden) = (secret.clone(), secret.clone());
    Proxy::new("redact")
        // A prompt that the handler cannot read may contain the word.
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
        // Refuses every message to the agent that still contains the word.
        .check(Side::Agent, move |call| match call.any_string(|it| it.contains(&forbidden)) {
            false => Ok(()),
            true => Err(Error::invalid_params(
                "redact refuses this, because it contains the word that is kept from the agent, in a place \
                 where it is not replaced. Send it without the word",
            )),
        })
        // Without a type, so that updates of every kind pass. A stand-in that the agent cuts in two chunks stays.
        .on_raw_notification(Side::Agent, "session/update", move |call, _| {
            let path = ["update", "content", "text"];
            let text = call.params.as_ref().and_then(|params| params.at(&path));
            if let (Some(params), Some(text)) = (&call.params, text.as_ref().and_then(Json::text)) {
                let text = Json::string(&text.replace(STAND_IN, &word));
                call.params = Some(params.with_at(&path, Some(&text)));
            }
        })
        .run()
}
