//! The JSON of a settings file, with the places of its parts.

use std::collections::BTreeMap;

use acp_wire::printable;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(super) struct RawSettings<'a> {
    #[serde(borrow, default)]
    pub(super) hooks: Option<RawMembers<'a>>,
    #[serde(rename = "disableAllHooks", default)]
    pub(super) disable_all_hooks: bool,
}

/// Hooks by event, or the members of a group. A name that occurs twice is an error: the first hooks would not run.
#[derive(Default)]
pub(super) struct RawMembers<'a>(pub(super) BTreeMap<String, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawMembers<'a>, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<RawMembers<'de>, A::Error> {
                let mut events = RawMembers::default();
                while let Some((name, groups)) = map.next_entry::<String, &'de RawValue>()? {
                    if events.0.insert(name.clone(), groups).is_some() {
                        return Err(serde::de::Error::custom(format!(
                            "{} occurs twice",
                            printable::one_line(&name)
                        )));
                    }
                }
                Ok(events)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// The line of a part of a text.
pub(super) fn line_of(text: &str, part: &RawValue) -> usize {
    let offset = (part.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

pub(super) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(why, _)| why.to_owned())
}
