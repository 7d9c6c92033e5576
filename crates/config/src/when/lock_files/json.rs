//! Reads JSON value by value, so that a great file does not become a great tree.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// What a text of JSON contains at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// An object begins.
    Object,
    /// A string.
    Text(&'a str),
}

/// Receives the path of an event: the names of the members, and the positions in arrays.
type OnEvent<'a> = dyn FnMut(&[String], Event<'_>) -> Result<(), String> + 'a;

/// Calls `on_event` for each object and string, in their order. An error is a clause.
pub(super) fn walk(text: &str, on_event: &mut OnEvent<'_>) -> Result<(), String> {
    let mut refused = None;
    let mut remember = |path: &[String], event: Event<'_>| {
        on_event(path, event).inspect_err(|why| refused = Some(why.clone()))
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let walk = Walk { path: &mut Vec::new(), on_event: &mut remember };
    let result = walk.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match (refused, result) {
        (Some(why), _) => Err(why),
        (None, result) => result.map_err(|error| format!("is not valid: {error}")),
    }
}

/// A value at a path.
struct Walk<'a, 'b> {
    path: &'a mut Vec<String>,
    on_event: &'a mut OnEvent<'b>,
}

impl Walk<'_, '_> {
    fn event<E: de::Error>(&mut self, event: Event<'_>) -> Result<(), E> {
        (self.on_event)(self.path, event).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.event(Event::Object)?;
        while let Some(name) = map.next_key::<String>()? {
            self.path.push(name);
            map.next_value_seed(Walk { path: self.path, on_event: self.on_event })?;
            self.path.pop();
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for position in 0_usize.. {
            self.path.push(position.to_string());
            let value = list.next_element_seed(Walk { path: self.path, on_event: self.on_event });
            self.path.pop();
            if value?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E: de::Error>(mut self, text: &str) -> Result<(), E> {
        self.event(Event::Text(text))
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
