//! What a command reads: here-documents, and the output of the commands before it.

use super::{Parts, SimpleCommand, aliases, name_of};
use crate::permissions::command::words::{Unit, Word};
use crate::permissions::command::{Script, programs};

/// The most words that are put into the places of a command.
const MAX_FILLED: usize = 20;
/// The most names of such places.
const MAX_PLACES: usize = 8;
/// The most names of programs in a command whose arguments are read.
const MAX_PROGRAMS: usize = 8;
/// Long options of `xargs` whose value may be the next word.
const LONG_WITH_VALUE: [&str; 7] = [
    "--arg-file",
    "--delimiter",
    "--eof",
    "--max-args",
    "--max-chars",
    "--max-lines",
    "--max-procs",
];

impl Parts {
    /// Adds what a command reads as a script, as code, or as arguments.
    pub(super) fn open_input(
        &mut self,
        commands: &[SimpleCommand],
        command: &SimpleCommand,
        level: usize,
    ) {
        let names: Vec<String> = command.words.iter().filter_map(name_of).collect();
        let reads_code = names.iter().any(|it| programs::reads_code(it));
        let runs = reads_code || names.iter().any(|it| programs::is_shell(it));
        let source =
            ["source", ".", "xargs", "parallel", "at", "batch", "ssh", "eval", "read", "crontab"];
        let may_run =
            |it: &String| programs::is_shell(it) || it != "xargs" && source.contains(&it.as_str());
        // The words of code in another language are searched. If it is more than data, its paths are judged, too.
        let named =
            command.words.iter().enumerate().filter_map(|(at, it)| Some((at, name_of(it)?)));
        let mut named = named.filter(|(_, name)| programs::reads_code(name));
        let takes_code = named
            .by_ref()
            .take(MAX_PROGRAMS)
            .any(|(at, name)| programs::takes_code_from_input(&name, &command.words[at + 1..]))
            || named.next().is_some()
            || names.iter().any(may_run);
        let open = |parts: &mut Parts, text: &str| match (reads_code, takes_code) {
            (true, true) => parts.search_input(text),
            (true, false) => parts.search(text),
            (false, _) => parts.open_script(text, level + 1, true),
        };
        for text in command.here.iter().map(Word::script_text) {
            open(self, &text);
        }
        if !runs && !names.iter().any(|it| source.contains(&it.as_str())) {
            return;
        }
        let adds_words = names.iter().any(|it| it == "xargs" || it == "parallel");
        let feeding = commands.get(command.fed_by.clone()).unwrap_or_default();
        let mut fed: Vec<Word> = Vec::new();
        let mut feed = |text: &str| {
            if adds_words {
                fed.extend(text.split_whitespace().map(Word::of_text));
            }
        };
        command.here.iter().map(Word::script_text).for_each(|it| feed(&it));
        for feeding in feeding {
            // A command can be fed by all commands before it: without a limit, the work is the square of the length.
            if !self.check_budget(true) || !self.spend_letters(letters(feeding)) {
                break;
            }
            let texts = feeding.words.iter().skip(1).chain(&feeding.here).map(Word::script_text);
            let text =
                texts.collect::<Vec<_>>().join(" ").replace("\\n", "\n").replace("\\t", "\t");
            open(self, &text);
            feed(&text);
        }
        if adds_words {
            self.fill(command, &fed, level);
            if !fed.is_empty() {
                self.add_fed(command, fed);
            }
            if !self.spent.is_over() && aliases::reads_unknown(command, feeding) {
                self.add_fed(command, vec![Word::unknown()]);
            }
        }
    }

    /// Adds the command of `xargs -I{}` or `parallel` with the words that it reads in the places for them. The command may be
    /// a script: `sh -c 'cat {}'`.
    fn fill(&mut self, command: &SimpleCommand, fed: &[Word], level: usize) {
        let Some((places, rest)) = places(&command.words) else { return };
        let count_in =
            |it: &str| places.iter().map(|p| it.matches(p.as_str()).count()).sum::<usize>();
        let count: usize = rest.iter().flat_map(Word::known_texts).map(count_in).sum();
        if count == 0 {
            return;
        }
        let length: usize = rest.iter().map(letters_of).sum();
        let values = fed.iter().take(MAX_FILLED).map(|it| it.units.clone());
        // A value may have several words, and there may be more of them.
        for units in values.chain([vec![Unit::Unknown]]) {
            let value = Word { units, ..Word::default() };
            if !self.spend_letters(length + count * letters_of(&value)) {
                return;
            }
            let words = rest.iter().map(|it| filled(it, &places, &value.units));
            let words: Vec<Word> = std::iter::once(Word::of_text("command")).chain(words).collect();
            if !self.has_room("", level + 1) || !self.spend_words(&words) {
                return;
            }
            let command = SimpleCommand { words, ..SimpleCommand::default() };
            let script = Script { commands: vec![command], ..Script::default() };
            self.add(script, true, true, level + 1);
        }
    }

    /// Adds a command with the words that it reads as its last arguments.
    fn add_fed(&mut self, command: &SimpleCommand, fed: Vec<Word>) {
        if self.spend_letters(command.words.len()) {
            self.push(command.words.iter().cloned().chain(fed).collect());
        }
    }
}

/// The places for input in the command of `xargs` or `parallel`, and this command. `None` if there are none.
fn places(words: &[Word]) -> Option<(Vec<String>, &[Word])> {
    let is = |it: &Word, name: &str| name_of(it).as_deref() == Some(name);
    if let Some(at) = words.iter().position(|it| is(it, "parallel")) {
        let places = ["{}", "{.}", "{/}", "{//}", "{/.}", "{1}"].map(str::to_owned);
        return Some((places.to_vec(), &words[at + 1..]));
    }
    let at = words.iter().position(|it| is(it, "xargs"))?;
    let mut places = Vec::new();
    let mut words = words[at + 1..].iter();
    while let Some(word) = words.clone().next() {
        let text = word.text().unwrap_or_default();
        if !text.starts_with('-') || places.len() == MAX_PLACES {
            break;
        }
        words.next();
        let mut next = || words.next().map(|it| it.text().unwrap_or_default());
        let (name, value) =
            text.split_once('=').map_or((text, None), |(name, it)| (name, Some(it)));
        if text.starts_with("--") {
            match name {
                "--replace" => places.push(value.unwrap_or_default()),
                _ if value.is_none() && LONG_WITH_VALUE.contains(&name) => drop(next()),
                _ => {}
            }
            continue;
        }
        // The first letter with a value ends the cluster.
        let Some(at) = text.find(|it| "IJinPdLsaERS".contains(it)) else { continue };
        let attached = Some(&text[at + 1..]).filter(|it| !it.is_empty());
        match &text[at..=at] {
            "i" => places.push(attached.unwrap_or_default()),
            "I" | "J" => places.extend(attached.or_else(next)),
            _ if attached.is_none() => drop(next()),
            _ => {}
        }
    }
    let places = places.into_iter().map(|it| if it.is_empty() { "{}" } else { it }.to_owned());
    let places: Vec<String> = places.collect();
    (!places.is_empty()).then_some((places, words.as_slice()))
}

/// The word with these pieces in the places for them.
fn filled(word: &Word, places: &[String], value: &[Unit]) -> Word {
    let empty = || Word { units: Vec::new(), tilde: word.tilde, splits: word.splits };
    let mut filled = word.clone();
    for place in places {
        for unit in std::mem::replace(&mut filled, empty()).units {
            let Unit::Text(text) = unit else {
                filled.push(unit);
                continue;
            };
            for (index, part) in text.split(place.as_str()).enumerate() {
                if index > 0 {
                    value.iter().for_each(|it| filled.push(it.clone()));
                }
                if !part.is_empty() {
                    filled.push_text(part);
                }
            }
        }
    }
    filled
}

/// The work to read the words and the here-documents of a command.
fn letters(command: &SimpleCommand) -> usize {
    1 + command.words.iter().chain(&command.here).map(letters_of).sum::<usize>()
}

fn letters_of(word: &Word) -> usize {
    let of_unit = |it: &Unit| if let Unit::Text(text) = it { text.len() } else { 2 };
    1 + word.units.iter().map(of_unit).sum::<usize>()
}
