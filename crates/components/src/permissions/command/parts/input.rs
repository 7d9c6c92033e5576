//! What a command reads: here-documents, and the output of the commands before it.

use super::{Parts, SimpleCommand, aliases, name_of};
use crate::permissions::command::programs;
use crate::permissions::command::words::{Unit, Word};

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
        for text in command.here.iter().map(Word::script_text) {
            match reads_code {
                true => self.search_input(&text),
                false => self.open_script(&text, level + 1, true),
            }
        }
        let source =
            ["source", ".", "xargs", "parallel", "at", "batch", "ssh", "eval", "read", "crontab"];
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
            match reads_code {
                true => self.search_input(&text),
                false => self.open_script(&text, level + 1, true),
            }
            feed(&text);
        }
        if adds_words {
            if !fed.is_empty() {
                self.add_fed(command, fed);
            }
            if !self.spent.is_over() && aliases::reads_unknown(command, feeding) {
                self.add_fed(command, vec![Word::unknown()]);
            }
        }
    }

    /// Adds a command with the words that it reads as its last arguments.
    fn add_fed(&mut self, command: &SimpleCommand, fed: Vec<Word>) {
        if self.spend_letters(command.words.len()) {
            self.push(command.words.iter().cloned().chain(fed).collect());
        }
    }
}

/// The work to read the words and the here-documents of a command.
fn letters(command: &SimpleCommand) -> usize {
    let of_unit = |it: &Unit| if let Unit::Text(text) = it { text.len() } else { 2 };
    let of_word = |it: &Word| 1 + it.units.iter().map(of_unit).sum::<usize>();
    1 + command.words.iter().chain(&command.here).map(of_word).sum::<usize>()
}
