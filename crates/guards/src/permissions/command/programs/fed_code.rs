//! Which programs take their code from standard input. For the others, it is only data.

use super::sed;
use crate::permissions::command::words::Word;

/// Names of standard input.
const INPUT: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
/// Modules of Python that read code.
const READING_MODULES: [&str; 7] =
    ["IPython", "asyncio", "bpython", "code", "pdb", "ptpython", "sqlite3"];

/// Whether a program that reads code takes code from standard input, with these arguments.
pub(crate) fn takes_code_from_input(name: &str, arguments: &[Word]) -> bool {
    let stem = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    let texts = || arguments.iter().filter_map(Word::text);
    let interpreter = |code, plain| Interpreter { stem, code, plain }.takes_input(arguments);
    let has_file = |letters: &[char], long| has_input_file(arguments, letters, long);
    match stem {
        "sed" | "gsed" => {
            has_file(&['f'], "--file")
                || sed::scripts(arguments).iter().any(|it| sed::runs_input(it))
        }
        "awk" | "gawk" | "mawk" | "nawk" => {
            has_file(&['f', 'E'], "--file") || texts().any(awk_runs_input)
        }
        "make" | "gmake" => has_file(&['f'], "--makefile") || has_file(&['f'], "--file"),
        "just" | "npx" | "pnpx" => false,
        "python" | "pypy" => interpreter("cm", "bBdEIOPqsSuvx"),
        "perl" => interpreter("eE", "aclnpstTUwWX0123456789"),
        "ruby" => interpreter("e", "aclnpsvwS"),
        "node" | "nodejs" | "tsx" | "ts-node" => interpreter("ep", ""),
        "php" => interpreter("rR", "nq"),
        "lua" | "luajit" => interpreter("e", "EWv"),
        // Their arguments may be other things than scripts.
        _ => true,
    }
}

/// Whether a file of code is standard input, or is not known: `-f -`.
fn has_input_file(arguments: &[Word], letters: &[char], long: &str) -> bool {
    let is_input = |it: Option<&str>| it.is_none_or(|it| INPUT.contains(&it));
    arguments.iter().enumerate().any(|(at, word)| {
        let next = || arguments.get(at + 1).is_some_and(|it| is_input(it.text()));
        let Some(text) = word.text() else { return false };
        match text.split_once('=') {
            Some((option, value)) if super::is_flag(option, long) => is_input(Some(value)),
            _ if text.starts_with("--") => super::is_flag(text, long) && next(),
            _ => match text.strip_prefix('-').and_then(|it| it.split_once(letters)) {
                Some((_, "")) => next(),
                Some((_, value)) => is_input(Some(value)),
                None => false,
            },
        }
    })
}

/// Whether a script of `awk` gives what it reads to a shell.
fn awk_runs_input(script: &str) -> bool {
    let mut pipes = script.split('|').skip(1);
    script.contains("system") || pipes.any(|it| it.trim_start().starts_with('"'))
}

/// A program whose first argument is the name of a script.
struct Interpreter<'a> {
    stem: &'a str,
    /// Short options whose value is code.
    code: &'a str,
    /// Short options without a value.
    plain: &'a str,
}

impl Interpreter<'_> {
    fn takes_input(&self, arguments: &[Word]) -> bool {
        let mut may_be_value = false;
        for (at, word) in arguments.iter().enumerate() {
            let Some(text) = word.text().filter(|it| !INPUT.contains(it)) else { return true };
            let rest = &arguments[at + 1..];
            if let Some(long) = text.strip_prefix("--") {
                let (name, value) = long.split_once('=').unwrap_or((long, ""));
                match name {
                    "eval" | "print" => return Self::code_runs_input(None, value, rest),
                    "interactive" => return true,
                    _ => may_be_value = !name.is_empty() && !long.contains('='),
                }
                continue;
            }
            let Some(letters) = text.strip_prefix('-') else {
                if !may_be_value {
                    // A debugger reads its commands.
                    return self.code == "ep" && text == "inspect";
                }
                may_be_value = false;
                continue;
            };
            may_be_value = false;
            for (at, letter) in letters.char_indices() {
                if self.code.contains(letter) {
                    let attached = &letters[at + letter.len_utf8()..];
                    return Self::code_runs_input(Some(letter), attached, rest);
                }
                match letter {
                    // The ending of copies.
                    'i' if ["perl", "ruby"].contains(&self.stem) => break,
                    'i' => return true,
                    _ if self.plain.contains(letter) => {}
                    _ => {
                        may_be_value = at + letter.len_utf8() == letters.len();
                        break;
                    }
                }
            }
        }
        true
    }

    /// Whether the code in an option runs what it reads.
    fn code_runs_input(letter: Option<char>, attached: &str, rest: &[Word]) -> bool {
        let is_missing = attached.is_empty() && rest.is_empty();
        let first = Some(attached).filter(|it| !it.is_empty());
        let first = first.or_else(|| rest.first().and_then(Word::text));
        if letter == Some('m') {
            let is_input = |it: &Word| it.text().is_some_and(|it| INPUT[1..].contains(&it));
            return first.is_none_or(|it| READING_MODULES.contains(&it))
                || rest.iter().any(is_input);
        }
        let mut texts = rest.iter().flat_map(Word::known_texts).chain([attached]);
        is_missing || texts.any(|it| it.contains("eval") || it.contains("exec"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(line: &str) -> bool {
        let mut words = line.split(' ');
        let name = words.next().expect("a program");
        let arguments: Vec<Word> =
            words.map(|it| if it == "$x" { Word::unknown() } else { Word::of_text(it) }).collect();
        takes_code_from_input(name, &arguments)
    }

    #[test]
    fn input_is_data_if_the_code_stands_in_an_argument() {
        for line in [
            "sed -n 1,40p",
            "sed -n 1,40p -",
            "sed -E s/a/b/ src/f",
            "sed -nE -e s/name/type/ -e s/a/be/g",
            "sed -f a.sed",
            "awk {print$1}",
            "awk -F| /a|b/||$1==\"x\"{print}",
            "awk -f a.awk -",
            "make -j4 all",
            "npx prettier --check",
            "python3 -m json.tool",
            "python3.12 -um json.tool",
            "python3 -c print(input())",
            "python3 a.py",
            "python3 -u a.py -",
            "python3 -W ignore a.py",
            "perl -pe s/a/b/",
            "perl -i.bak -lane print",
            "perl a.pl",
            "ruby -ne puts",
            "node -e f(JSON.parse(x))",
            "node --eval f(x)",
            "node --import tsx a.ts",
            "node a.js -",
            "php a.php",
            "lua a.lua",
        ] {
            assert!(!takes(line), "{line}");
        }
    }

    #[test]
    fn input_is_code_if_no_argument_is_code() {
        for line in [
            "sed -f -",
            "sed -nf -",
            "sed -Ef -",
            "sed -nEf-",
            "sed --file=/dev/stdin",
            "sed e",
            "sed 1e",
            "sed s/x/y/e",
            "awk -f /dev/stdin",
            "awk -f- src/a",
            "awk -E -",
            "gawk --file -",
            "awk {system($0)}",
            "awk {print|\"sh\"}",
            "make -f -",
            "make --makefile=-",
            "python3",
            "python3 -",
            "python3 - a.py",
            "python3 -u -",
            "python3 -W ignore",
            "python3 -W ignore -",
            "python3 -i a.py",
            "python3 -m code",
            "python3 -m pdb a.py",
            "python3 -m cProfile /dev/stdin",
            "python3 -c exec(input())",
            "python3 -c",
            "python3 $x",
            "python3 /dev/stdin",
            "perl -w",
            "perl -ne eval",
            "node",
            "node -r x",
            "node --require x",
            "node -i",
            "node inspect a.js",
            "node -e eval(x)",
            "php",
            "ed a.txt",
            "sqlite3 a.db",
            "vim -es a.txt",
        ] {
            assert!(takes(line), "{line}");
        }
    }
}
