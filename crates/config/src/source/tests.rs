use std::path::Path;

use crate::file::File;

use super::*;

fn source(text: &str) -> Source {
    Source::from_bytes(Path::new("c.toml"), text.into()).expect("text")
}

fn rendered(text: &str) -> String {
    let error = File::parse(&source(text)).expect_err(text);
    error.render(false)
}

/// Each mistake, and exactly what is printed.
#[test]
fn a_mistake_is_underlined_and_has_a_remedy() {
    for (text, expected) in [
        (
            "[components.a]\ncomand = \"x\"\n",
            "unknown key `comand`
 --> c.toml:2:1
  |
2 | comand = \"x\"
  | ^^^^^^
  |
  = help: did you mean `command`? [more: conductor errors invalid-configuration]",
        ),
        // Text that is hidden does not change the column.
        (
            "[components]\na = { command = \"x\", env = { A = \"secret\" }, on_crash = \"stop\" }\n",
            "unknown key `on_crash`
 --> c.toml:2:46
  |
2 | a = { command = \"x\", env = { A = \"…\" }, on_crash = \"stop\" }
  |                                         ^^^^^^^^
  |
  = help: did you mean `on-crash`? [more: conductor errors invalid-configuration]",
        ),
        (
            "default = work\n",
            "string values must be quoted, expected literal string
 --> c.toml:1:11
  |
1 | default = work
  |           ^^^^ [more: conductor errors invalid-configuration]",
        ),
    ] {
        assert_eq!(rendered(text), expected);
    }
}

#[test]
fn each_mistake_names_its_place_and_a_remedy() {
    for (text, place, parts) in [
        ("[component.a]\n", "1:2", &["unknown key `component`", "`components`?"][..]),
        ("[components.a]\nonCrash = 1\n", "2:1", &["did you mean `on-crash`?"]),
        ("[components.a]\ncmd = 1\n", "2:1", &["did you mean `command`?"]),
        ("[components.a]\nenvironment = 1\n", "2:1", &["did you mean `env`?"]),
        ("[components.a]\ncolour = 1\n", "2:1", &["the keys here are command, args,"]),
        ("[components.a]\non-crash = \"restat\"\n", "2:12", &["`restat`", "`restart`?"]),
        ("[components.a]\nrestarts = 5\n", "2:12", &["COUNT/SECONDS"]),
        ("[components.a]\nrestarts = \"5\"\n", "2:12", &["COUNT/SECONDS"]),
        ("[components.a]\ndialect = \"P9\"\n", "2:11", &["P5, P4"]),
        ("[components.a]\nguard = \"yes\"\n", "2:9", &["expected true or false, not a string"]),
        ("[components.a]\nargs = \"--x\"\n", "2:8", &["expected a list, not a string"]),
        ("[components.a]\nargs = [\"a\", 5]\n", "2:14", &["expected a string", "quotation marks"]),
        ("[components.a]\nenv = \"secret\"\n", "2:7", &["expected a table, not a string"]),
        ("[components.a]\nenv = { A = 555 }\n", "2:13", &["expected a string, not an integer"]),
        ("[components.a]\nenv = { \"A=B\" = \"x\" }\n", "2:9", &["the name of a variable"]),
        ("[components.a]\ncommand = \"npx -y a\"\n", "2:11", &["args = [\"-y\", \"a\"]"]),
        (
            "[components.a]\ncommand = \"npx -y @scope/pkg\"\n",
            "2:11",
            &["command = \"npx\"", "args = [\"-y\", \"@scope/pkg\"]", "begins with `./`"],
        ),
        ("[components.a]\ncommand = \"~/bin/x\"\n", "2:11", &["`~`", "${HOME}/bin/x"]),
        ("[components.a]\ncwd = \"~\"\n", "2:7", &["`${HOME}`"]),
        ("[components.a]\nenv-file = [\"a\", \"~/.env\"]\n", "2:18", &["${HOME}/.env"]),
        ("[chains.a.settings]\nlog-file = \"~/x.log\"\n", "2:12", &["${HOME}/x.log"]),
        ("[components.a]\ncommand = \" \"\n", "2:11", &["is empty"]),
        ("[components.a]\nwhen = { fil = \"x\" }\n", "2:10", &["did you mean 'file'?"]),
        ("[components.\"a b\"]\n", "1:13", &["the name of a component may only contain"]),
        ("[components.5]\n", "1:13", &["must not be a number"]),
        ("[chains.\"\"]\n", "1:9", &["is empty"]),
        ("[chains.a]\nproxies = [{ use = \"a\", chain = \"b\" }]\n", "2:12", &["both"]),
        ("[chains.a]\nproxies = [{}]\n", "2:12", &["needs `use` or `chain`"]),
        ("[chains.a]\nproxies = [{ usee = \"a\" }]\n", "2:14", &["did you mean `use`?"]),
        ("[chains.a]\nproxies = [5]\n", "2:12", &["the name of a component, or a table"]),
        ("[chains.a]\nwhen = { os = \"linux\" }\n", "2:1", &["unknown key `when`"]),
        ("[settings]\nanswer-limit = \"of\"\n", "2:16", &["seconds", "\"off\""]),
        ("[settings]\nanswer-limit = 0\n", "2:16", &["above 0", "\"off\""]),
        ("[settings]\ngrace = -1\n", "2:9", &["a number of seconds"]),
        ("[settings]\nmax-line = \"256X\"\n", "2:12", &["\"256M\""]),
        ("[settings]\nrestart-delay = \"10..1\"\n", "2:17", &["FIRST..LONGEST"]),
        ("[settings]\nmcpBridge = \"auto\"\n", "2:1", &["did you mean `mcp-bridge`?"]),
        ("[settings]\njournal = \"x\"\n", "2:1", &["unknown key `journal`"]),
        ("a = 1\na = 2\n", "2:1", &["duplicate key"]),
        ("default = \"a\n", "1:13", &["invalid basic string"]),
    ] {
        let error = rendered(text);
        assert!(error.contains(&format!(" c.toml:{place}\n")), "{text}{error}");
        for part in parts {
            assert!(error.contains(part), "{text}{error}");
        }
        assert!(!error.contains("secret") && !error.contains("555"), "{text}{error}");
    }
}

#[test]
fn a_file_is_text_of_a_limited_size() {
    let read = |bytes: &[u8]| Source::from_bytes(Path::new("c.toml"), bytes.to_owned());
    let error = read(b"# fine\na = '\xff'\n").expect_err("not UTF-8").render(false);
    assert!(error.contains("is not UTF-8") && error.contains("c.toml:2:6\n"), "{error}");
    let error = read(b"\xff\xfea\0").expect_err("UTF-16").render(false);
    assert!(error.contains("UTF-16; save it as UTF-8"), "{error}");
    let error = read(&vec![b'#'; 1 << 21]).expect_err("large").render(false);
    assert!(error.contains("cannot read c.toml: it has more than"), "{error}");
    // A byte order mark and Windows line ends are fine.
    let source = read(b"\xef\xbb\xbf[components.a]\r\ncomand = 1\r\n").expect("text");
    assert!(source.bytes().starts_with(b"\xef\xbb\xbf"));
    let error = File::parse(&source).expect_err("unknown").render(false);
    assert!(error.contains("c.toml:2:1\n") && error.contains("| comand = 1\n"), "{error}");
}

/// Neither the parser nor the printer takes long, or overflows the stack.
#[test]
fn a_hostile_file_is_an_error() {
    for text in [
        format!("a = {}", "[".repeat(200_000)),
        format!("a = {}", "{ a = ".repeat(100_000)),
        format!("[{}a]", "a.".repeat(200_000)),
        format!("[components.a.options]\na = {}1{}", "[".repeat(79), "]".repeat(79)),
        format!(
            "[components.a.options]\n{0} = {1}1{2}",
            "a.".repeat(40) + "a",
            "[".repeat(79),
            "]".repeat(79)
        ),
        format!("[components.a.options]\n{}1", format!("{}a = {{ ", "a.".repeat(78)).repeat(79)),
        format!("[components.a]\nwhen = {}", "{ not = ".repeat(70)),
        format!("{} = 1", "a".repeat(900_000)),
        format!("[components.a]\nargs = [{}5]", "\"x\", ".repeat(100_000)),
    ] {
        let error = match File::parse(&source(&text)) {
            Ok(_) => continue,
            Err(error) => error.render(false),
        };
        assert!(error.len() < 4000, "{}", error.len());
    }
}

#[test]
fn a_text_with_too_many_levels_is_refused_at_its_place() {
    let error = rendered(&format!("# x\na = {}", "[".repeat(129)));
    assert!(error.contains(" c.toml:2:133\n") && error.contains("128 levels deep"), "{error}");
    assert!(error.contains("= help: nest them less deeply"), "{error}");
}

#[test]
fn an_error_about_an_escape_says_how_to_write_a_path_of_windows() {
    for path in ["C:\\Users\\me\\x.log", "C:\\tools\\my.exe", "C:\\x", "\\\\server\\share"] {
        let error = rendered(&format!("[settings]\nlog-file = \"{path}\"\n"));
        assert!(error.contains(" c.toml:2:"), "{error}");
        let help = "in single quotation marks, it is itself: 'C:\\Users\\me'";
        assert!(error.contains(help), "{error}");
    }
}

#[test]
fn a_path_with_spaces_is_a_program() {
    for command in ["/opt/my tools/run", "./my tools/run", "${HOME}/my tools/run", "~x"] {
        let file = File::parse(&source(&format!("[components.a]\ncommand = {command:?}\n")));
        assert!(file.is_ok(), "{command}: {file:?}");
    }
}

#[test]
fn control_characters_of_a_file_are_not_printed() {
    let text = "\"a\\u001b[2J\u{202e}b\" = \"\u{9b}x\" # \u{2028}\n";
    for color in [true, false] {
        let error = File::parse(&source(text)).expect_err("unknown");
        let shown = error.render(color).replace("\u{1b}[0m", "").replace("\u{1b}[", "");
        assert!(shown.chars().all(acp_wire::printable::is_printable), "{shown:?}");
        assert!(error.one_line().chars().all(acp_wire::printable::is_printable), "{error}");
    }
    // A tab is one column, and the underlining is below its text.
    let error = rendered("[components.a]\n\t\tcomand = 1\n");
    assert!(error.contains(" c.toml:2:3\n") && error.contains("        ^^^^^^"), "{error}");
}

#[test]
fn a_value_knows_its_place() {
    let text =
        "[components.a]\ncommand = \"x\"\n\n[components.a.options]\nlist = [\"b\", { c = 1 }]\n";
    let file = File::parse(&source(text)).expect("valid");
    let component = &file.components["a"];
    let place = |place: &Place| place.to_string();
    assert_eq!(place(&component.command.as_ref().expect("set").place), "c.toml:2:11");
    assert_eq!(component.command.as_ref().expect("set").place.text(), "\"x\"");
    let (name, node) = component.options.iter().next().expect("an option");
    assert_eq!(
        (place(&name.place), place(&node.place)),
        ("c.toml:5:1".into(), "c.toml:5:8".into())
    );
    let texts = crate::file::Node::texts(node);
    assert_eq!(place(&texts[0].place), "c.toml:5:9");
}
