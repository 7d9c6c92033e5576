//! Words that the project does not use any more. Most were metaphors for things that have a usual name.

/// Each word or phrase in lower case, and what to write instead.
pub const WORDS: [(&str, &str); 40] = [
    ("asker", "requester"),
    ("askers", "requesters"),
    ("desk", "status server"),
    ("dock", "relay listener"),
    ("giver", "sender"),
    ("guest", "in-process component"),
    ("hears", "receives"),
    ("how manieth", "how often"),
    ("lesson", "session replay"),
    ("lessons", "session replay"),
    ("manners", "options"),
    ("meddler", "fault injector"),
    ("mortal", "crash_once_proxy"),
    ("mouth", "client sender"),
    ("obituaries", "crash reports"),
    ("obituary", "crash report"),
    ("occupant", "component"),
    ("occupants", "components"),
    ("parcel", "held answer"),
    ("parcels", "held answers"),
    ("parted", "is down"),
    ("picky", "crashing_proxy"),
    ("puppet", "scripted component"),
    ("puppets", "scripted components"),
    ("saboteur", "fault injector"),
    ("see off", "finish"),
    ("sighting", "tap event"),
    ("sightings", "tap events"),
    ("sitter", "component"),
    ("sitters", "components"),
    ("sounding", "barrier"),
    ("soundings", "barriers"),
    ("stranger", "unauthenticated connection"),
    ("strangers", "unauthenticated connections"),
    ("strays", "leftover processes"),
    ("taker", "receiver"),
    ("tamper", "fault injection"),
    ("telling", "notices"),
    ("whoever", "the component, the client or the user"),
    ("wonders", "is_probing"),
];

/// The retired words in a line, with their replacements. Identifiers are split into words: `with_puppet` and `PuppetName`
/// both contain `puppet`.
pub fn in_line(line: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let contains = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        words.windows(phrase.len()).any(|window| window == phrase)
    };
    WORDS.into_iter().filter(|(word, _)| contains(word)).collect()
}

/// The words of a line in lower case.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_lower_case = false;
    for character in line.chars() {
        let begins = character.is_uppercase() && after_lower_case;
        if (begins || !character.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
        after_lower_case = character.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(
            words("fn with_puppet(a: HeldAnswer)"),
            ["fn", "with", "puppet", "a", "held", "answer"]
        );
    }

    #[test]
    fn a_retired_word_is_found_with_its_replacement() {
        assert_eq!(in_line("let x = PuppetName;"), [("puppet", "scripted component")]);
        assert_eq!(in_line("core.see_off(seat)"), [("see off", "finish")]);
        assert_eq!(in_line("a puppeteer, and the sea off the coast"), []);
    }
}
