//! Before each prompt, asks the agent in a separate session what could be misunderstood in the prompt, and adds the
//! answer to the prompt. The editor does not see that session.
//!
//! `conductor agent example-subagent my-agent`

use acp_proxy::prelude::*;

fn main() -> std::io::Result<()> {
    Proxy::new("subagent")
        .on_prompt(async |mut prompt, next| {
            let session = next.agent().new_session("/").await?;
            let question = format!("What could be misunderstood in this? {}", prompt.text());
            let turn = session.prompt(question).await?;
            prompt.append_text(format!("Keep in mind: {}", turn.text()));
            next.run(prompt).await
        })
        .run()
}
