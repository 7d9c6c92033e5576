//! Counts the characters of the agent's answer, and appends a line at the end of the turn.
//!
//! `conductor agent example-count my-agent`

use acp_proxy::prelude::*;

fn main() -> std::io::Result<()> {
    Proxy::new("count")
        .on_prompt(async |prompt, next| {
            let turn = next.run_turn(prompt).await?;
            let count = turn.text().chars().count();
            next.say(format!("\n({count} characters)"))?;
            Ok(turn.response)
        })
        .run()
}
