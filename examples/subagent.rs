//! Before each prompt, a session of the proxy's own asks the agent what could be misunderstood in it,
//! and adds the answer. The editor sees nothing of that session.
//!
//! `conductor agent example-subagent my-agent`

use acp_proxy::Proxy;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    Proxy::new("subagent")
        .on_prompt(async |mut prompt, next| {
            let session = next.cx().agent().new_session("/").await?;
            let question = format!("What could be misunderstood in this? {}", prompt.text());
            let turn = session.prompt(question).await?;
            prompt.append_text(format!("Keep in mind: {}", turn.text()));
            next.run(prompt).await
        })
        .serve_stdio()
        .await
}
