//! Adds a sentence before each prompt.
//!
//! `conductor agent 'example-prefix Answer in one sentence.' my-agent`

use acp_proxy::prelude::*;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let prefix = words.join(" ");
    Proxy::new("prefix")
        .on_prompt(async move |mut prompt, next| {
            prompt.prepend_text(&prefix);
            next.run(prompt).await
        })
        .run()
}
