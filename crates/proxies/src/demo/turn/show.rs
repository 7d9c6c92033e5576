//! Shows samples of updates.

use acp_proxy::Result;
use serde_json::Value;

use super::Turn;
use crate::demo::samples::{NAMES, NotShown, Setting};

impl Turn {
    pub(super) async fn show(&self, names: &[&str]) -> Result<()> {
        let prefix = self.message_id();
        let setting = Setting {
            client: &self.client,
            options: &self.options,
            session: &self.session,
            directory: &self.directory,
            prefix: &prefix,
        };
        let (mut not_announced, mut other_version) = (Vec::new(), Vec::new());
        // Editors join the texts of a message, unless they show something between them.
        let mut space = "";
        for name in names {
            let updates = match setting.sample(name) {
                Ok(updates) => updates,
                Err(NotShown::NotAnnounced) => {
                    not_announced.push(*name);
                    continue;
                }
                Err(NotShown::OtherVersion) => {
                    other_version.push(*name);
                    continue;
                }
            };
            if names.len() > 1 {
                let after = if updates.first().is_some_and(is_text) { "\n\n" } else { "" };
                self.say(&format!("{space}Next: `{name}`{after}")).await?;
                space = "\n\n";
            }
            for update in updates {
                self.show_update(update).await?;
            }
        }
        let mut remarks = Vec::new();
        if names.len() > 1 {
            remarks.push("That was all.".to_owned());
        }
        if !not_announced.is_empty() {
            remarks.push(format!(
                "I have not shown {}, because the editor has not announced that it accepts them.",
                not_announced.join(", ")
            ));
        }
        if !other_version.is_empty() {
            remarks.push(format!(
                "Version {} of ACP does not have {}.",
                self.client.version,
                other_version.join(", ")
            ));
        }
        match remarks.is_empty() {
            true => Ok(()),
            false => self.say(&format!("{space}{}", remarks.join(" "))).await,
        }
    }

    /// Sends an update. A long text is streamed.
    async fn show_update(&self, update: Value) -> Result<()> {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match (kind, update["content"]["text"].as_str()) {
            ("agent_message_chunk", Some(text)) => self.say(text).await,
            ("agent_thought_chunk", Some(text)) => self.think(text).await,
            _ => {
                self.sessions.record(&self.session, &update);
                self.send(update)?;
                self.pause().await;
                Ok(())
            }
        }
    }

    pub(super) async fn list_samples(&self, unknown: Option<&str>) -> Result<()> {
        let names: Vec<String> = NAMES.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        let answer = match unknown {
            Some(unknown) => format!("I cannot show “{unknown}”. I can show {names}, and `all`."),
            None => format!("I can show {names}, and `all`."),
        };
        self.say(&answer).await
    }
}

/// Whether an update is a text of the agent's message.
fn is_text(update: &Value) -> bool {
    update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"].is_string()
}
