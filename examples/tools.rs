//! Offers two MCP tools to whatever agent stands behind it.
//!
//! `conductor agent example-tools my-agent`

use acp_proxy::{JsonSchema, NoInput, Proxy};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Text {
    /// The text whose words are counted.
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    Proxy::new("words")
        .instructions("Counts words, and knows where it is.")
        .tool("count", "The number of words in a text", async |input: Text| {
            Ok(format!("{} words", input.text.split_whitespace().count()))
        })
        .tool_with("whereabouts", "The session this is used in", async |_: NoInput, cx| {
            Ok(cx.session().unwrap_or_else(|| "a session without a name yet".into()))
        })
        .serve_stdio()
        .await
}
