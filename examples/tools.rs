//! Offers the agent two MCP tools.
//!
//! `conductor agent example-tools my-agent`

use acp_proxy::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "acp_proxy::serde")]
struct Text {
    /// The text whose words are counted.
    text: String,
}

fn main() -> std::io::Result<()> {
    Proxy::new("words")
        .instructions("Counts words, and knows the session.")
        .tool("count", "Counts the words of a text", async |input: Text| {
            Ok(format!("{} words", input.text.split_whitespace().count()))
        })
        .tool_with("whereabouts", "The session of this call", async |_: NoInput, context| {
            Ok(context.session().unwrap_or_else(|| "a session without an id yet".into()))
        })
        .run()
}
