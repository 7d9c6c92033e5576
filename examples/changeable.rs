//! Adds a sentence before each prompt. The sentence can be changed while the chain runs.
//!
//! `conductor agent 'example-changeable Answer in one sentence.' my-agent`

use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::prelude::*;

/// What can be changed.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "acp_proxy::serde")]
struct Options {
    /// The sentence that is added before each prompt.
    prefix: String,
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options { prefix: words.join(" ") };
    let current = Arc::new(Mutex::new(options.clone()));
    let changed = current.clone();
    Proxy::new("changeable")
        .options(options, move |new: Options, context| {
            if new.prefix.len() > 1000 {
                return Err("the sentence is longer than 1000 bytes".into());
            }
            context.log(format!("the sentence is now {:?}", new.prefix));
            *changed.lock().unwrap_or_else(PoisonError::into_inner) = new;
            Ok(())
        })
        .on_prompt(async move |mut prompt, next| {
            let prefix = current.lock().unwrap_or_else(PoisonError::into_inner).prefix.clone();
            prompt.prepend_text(prefix);
            next.run(prompt).await
        })
        .run()
}
