//! Keeps a word from the agent: in prompts it is replaced, and in what the agent says it is put back.
//!
//! `conductor agent 'example-redact Ada' my-agent`

use sdk::Proxy;
use sdk::schema::{ContentBlock, SessionUpdate};

const STAND_IN: &str = "[somebody]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let Some(secret) = std::env::args().nth(1) else {
        eprintln!("usage: example-redact WORD");
        std::process::exit(2);
    };
    let word = secret.clone();
    Proxy::new("redact")
        .on_prompt(async move |mut prompt, next| {
            prompt.edit_text(|text| *text = text.replace(&secret, STAND_IN));
            next.run(prompt).await
        })
        // Chunks come as the agent makes them; a stand-in that is cut in two stays as it is.
        .on_update(move |update, _| {
            if let SessionUpdate::AgentMessageChunk(chunk) = &mut update.update
                && let ContentBlock::Text(text) = &mut chunk.content
            {
                text.text = text.text.replace(STAND_IN, &word);
            }
        })
        .serve_stdio()
        .await
}
