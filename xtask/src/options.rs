//! The options of the commands.

/// The parsed arguments of a command.
#[derive(Debug)]
pub struct Options<'a> {
    usage: &'a str,
    /// The options in order. Those without a value have an empty one.
    given: Vec<(&'a str, &'a str)>,
    /// The arguments that are no options.
    pub words: Vec<&'a str>,
}

/// Parses the arguments of a command whose options are `flags`, and `valued` with a value each.
pub fn parse<'a>(
    arguments: &'a [String],
    usage: &'a str,
    flags: &[&str],
    valued: &[&str],
) -> Result<Options<'a>, String> {
    let mut options = Options { usage, given: Vec::new(), words: Vec::new() };
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if flags.contains(&word) {
            options.given.push((word, ""));
        } else if valued.contains(&word) {
            let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
            options.given.push((word, value));
        } else if word.starts_with('-') {
            return Err(options.wrong(word));
        } else {
            options.words.push(word);
        }
    }
    Ok(options)
}

impl<'a> Options<'a> {
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(it, _)| *it == name)
    }

    /// All values of an option.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.given.iter().filter(move |(it, _)| *it == name).map(|(_, value)| *value)
    }

    /// The last value of an option.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.values(name).last()
    }

    pub fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let value =
            self.value(name).map(|it| it.parse().map_err(|_| format!("{name} {it}: no number")));
        value.unwrap_or(Ok(default))
    }

    /// Refuses arguments that are no options.
    pub fn no_words(&self) -> Result<(), String> {
        self.words.first().map_or(Ok(()), |word| Err(self.wrong(word)))
    }

    /// The error about an unknown argument.
    pub fn wrong(&self, word: &str) -> String {
        format!("unknown: {word}\nusage: cargo xtask {}", self.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_flags_values_and_words() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let given = words("a --n 1 --fast --n 2 b");
        let options = parse(&given, "x", &["--fast"], &["--n"]).expect("valid");
        assert!(options.has("--fast") && !options.has("--slow"));
        assert_eq!(options.values("--n").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((options.number("--n", 5), options.number("--m", 5)), (Ok(2), Ok(5)));
        assert_eq!(options.words, ["a", "b"]);
        assert!(options.no_words().is_err_and(|it| it == "unknown: a\nusage: cargo xtask x"));
        let parse =
            |text: &str| parse(&words(text), "x", &[], &["--n"]).map(|it| it.number("--n", 1));
        assert!(parse("--n").is_err() && parse("--m").is_err());
        assert_eq!(parse("--n x"), Ok(Err("--n x: no number".to_owned())));
    }
}
