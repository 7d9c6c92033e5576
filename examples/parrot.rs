//! An agent that repeats each prompt. Unlike a proxy, it is the end of a chain.
//!
//! `conductor agent example-prefix example-parrot`

use acp_proxy::prelude::*;

fn main() -> std::io::Result<()> {
    Agent::new("parrot")
        .on_prompt(async |prompt, context| {
            context.say(prompt.text())?;
            Ok(PromptResponse::new(StopReason::EndTurn))
        })
        .run()
}
