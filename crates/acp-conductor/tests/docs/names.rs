//! Every path, link, command, option, crate and Rust name in the documentation exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;

/// A page of the documentation.
struct Page {
    /// Its path from the root of the repository.
    path: String,
    text: String,
}

impl Page {
    fn read(path: impl Into<String>) -> Page {
        let path = path.into();
        let text = std::fs::read_to_string(root().join(&path)).expect(&path);
        Page { path, text }
    }

    /// The lines outside and the lines inside code blocks.
    fn split(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut prose, mut code, mut inside) = (Vec::new(), Vec::new(), false);
        for line in self.text.lines() {
            match line.trim_start().starts_with("```") {
                true => inside = !inside,
                false if inside => code.push(line.trim()),
                false => prose.push(line),
            }
        }
        (prose, code)
    }

    /// The inline code: text between backticks, outside code blocks. It may span two lines.
    fn spans(&self) -> Vec<String> {
        let prose = self.split().0.join("\n").replace("``", "");
        let parts = prose.split('`').skip(1).step_by(2);
        parts.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// The inline code, and the lines of code blocks, that begin with a program.
    fn commands(&self) -> Vec<String> {
        let lines = self.split().1.into_iter().map(|line| line.trim_start_matches("$ ").to_owned());
        lines.chain(self.spans()).collect()
    }

    /// The targets of the links.
    fn links(&self) -> Vec<String> {
        let prose = self.split().0.join("\n");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.filter(|target| !target.starts_with("http")).map(str::to_owned).collect()
    }

    /// The anchors that a link to this page can name.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        let titles = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
        titles
            .map(|title| {
                let kept = title.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
                kept.map(|it| if it == ' ' { '-' } else { it }).collect()
            })
            .collect()
    }
}

/// All pages.
fn pages() -> Vec<Page> {
    let paths = ["ARCHITECTURE.md", "CHANGELOG.md"].map(str::to_owned).into_iter();
    paths.chain(super::pages()).map(Page::read).collect()
}

/// A package of the workspace.
struct Package {
    name: String,
    folder: PathBuf,
}

fn packages() -> Vec<Package> {
    let crates = std::fs::read_dir(root().join("crates")).expect("crates/");
    let folders = crates.map(|entry| entry.expect("crates/").path());
    let folders = folders.chain([root().join("examples"), root().join("xtask")]);
    let read = |folder: PathBuf| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let (_, package) = manifest.split_once("[package]").expect("a package");
        let name = package.split('"').nth(1).expect("a name").to_owned();
        Package { name, folder }
    };
    folders.map(read).collect()
}

fn package(name: &str) -> Option<Package> {
    packages().into_iter().find(|package| package.name == name)
}

/// The crates that only Conductor uses have a short name, that of their folder: `router`.
fn package_or_folder(name: &str) -> Option<Package> {
    packages().into_iter().find(|it| it.name == name || it.folder.ends_with(name))
}

/// All files with this extension in a folder.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// Every word of the Rust sources.
fn words() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for folder in ["crates", "examples", "xtask", "fuzz/fuzz_targets"] {
        for file in files(&root().join(folder), "rs") {
            let text = std::fs::read_to_string(file).expect("a source");
            let all = text.split(|it: char| !it.is_alphanumeric() && it != '_');
            words.extend(all.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    words
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expand(span: &str) -> Vec<String> {
    let parts = span.split_once('{').and_then(|(before, rest)| {
        let (inner, after) = rest.split_once('}')?;
        Some(inner.split(',').map(|one| format!("{before}{one}{after}")).collect())
    });
    parts.unwrap_or_else(|| vec![span.to_owned()])
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    for page in pages() {
        for link in page.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page.path).parent().expect("a folder");
            let target = if file.is_empty() { page.path.clone().into() } else { folder.join(file) };
            assert!(root().join(&target).exists(), "{}: {link}", page.path);
            if !anchor.is_empty() {
                let target = Page::read(target.display().to_string());
                assert!(target.anchors().contains(anchor), "{}: {link}", page.path);
            }
        }
    }
}

#[test]
fn every_path_exists() {
    let folders = ["crates/", "docs/", "examples/", "xtask/", "fuzz/", "peers/", ".ci/"];
    let sources: Vec<PathBuf> = files(&root(), "rs");
    let mut seen = 0;
    for page in pages() {
        let spans = page.spans();
        let plain = spans.iter().filter(|span| !span.contains([' ', '*', '…', ':']));
        for path in plain.flat_map(|span| expand(span)) {
            if folders.iter().any(|folder| path.starts_with(folder)) {
                assert!(root().join(&path).exists(), "{}: {path}", page.path);
                seen += 1;
            } else if path.ends_with(".rs") {
                let found = sources.iter().any(|file| file.ends_with(&path));
                assert!(found, "{}: {path}", page.path);
                seen += 1;
            }
        }
    }
    assert!(seen >= 30, "{seen} paths");
}

/// The third column of the table in ARCHITECTURE.md names the modules of each crate.
#[test]
fn the_code_map_names_every_module() {
    let text = Page::read("ARCHITECTURE.md").text;
    let (_, map) = text.split_once("## Code map").expect("the code map");
    let (map, _) = map.split_once("\n## ").expect("the next chapter");
    // A crate may have several rows.
    let mut crates = BTreeMap::<&str, BTreeSet<String>>::new();
    for row in map.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells[0].trim_matches(['|', ' ', '`']);
        // Text in parentheses explains a module.
        let parts = cells[2].split('(').map(|part| part.rsplit(')').next().unwrap_or_default());
        let modules: String = parts.collect();
        let spans = modules.split('`').skip(1).step_by(2);
        crates.entry(name).or_default().extend(spans.flat_map(expand));
    }
    for (name, named) in &crates {
        let Package { folder, .. } =
            package_or_folder(name).unwrap_or_else(|| panic!("no package {name}"));
        for module in named.iter().filter(|name| !name.contains(['*', ' '])) {
            let path = folder.join("src").join(module);
            assert!(path.is_dir() || path.with_extension("rs").is_file(), "{name}: {module}");
        }
        for entry in std::fs::read_dir(folder.join("src")).expect("sources").flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(module) = file.strip_suffix(".rs") else { continue };
            let is_named = ["lib", "main", "tests"].contains(&module)
                || named.iter().any(|name| name.split('/').next() == Some(module));
            assert!(is_named, "ARCHITECTURE.md does not name the module {module} of {name}");
        }
    }
    let seen = crates.len();
    assert!(seen >= 8, "{seen} crates");
}

#[test]
fn every_command_and_option_exists() {
    let help = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        let output = command.args(arguments).arg("--help").output().expect("conductor");
        assert!(output.status.success(), "conductor {arguments:?} --help");
        String::from_utf8(output.stdout).expect("text")
    };
    let mut options = String::new();
    for file in files(&root().join("xtask"), "rs") {
        options += &std::fs::read_to_string(file).expect("a source");
    }
    let overview = help(&[]);
    let commands: Vec<&str> = overview
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(char::is_lowercase))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"agent"), "{overview}");
    // The commands of a command, such as `conductor config show`.
    let mut nested = BTreeMap::<&str, Vec<String>>::new();
    for command in &commands {
        let text = help(&[command]);
        if let Some((_, list)) = text.split_once("\nCommands:\n") {
            let lines = list.lines().map_while(|line| line.strip_prefix("  "));
            let names = lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
            nested.insert(command, names.collect());
        }
        options += &text;
    }
    assert!(nested["config"].contains(&"show".to_owned()), "{nested:?}");
    options += &overview;
    for component in &components::catalog::ALL {
        options += &help(&["component", component.name]);
    }
    for (command, names) in &nested {
        for name in names.iter().filter(|name| *name != "help") {
            options += &help(&[command, name]);
        }
    }
    let chores = std::fs::read_to_string(root().join("xtask/src/main.rs")).expect("xtask");
    for page in pages() {
        for line in page.commands() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                // In a picture, more than a space separates two words.
                ["conductor", command, ..]
                    if command.starts_with(char::is_lowercase)
                        && !line.contains("  ")
                        && !commands.contains(command)
                        && *command != "help" =>
                {
                    // `help` fails for a command that does not exist. A hidden one is not listed.
                    help(&[command]);
                }
                ["conductor", command, name, ..]
                    if nested.contains_key(command) && name.starts_with(char::is_lowercase) =>
                {
                    let exists = nested[command].iter().any(|it| it == name);
                    assert!(exists, "{}: {line}", page.path);
                }
                ["cargo", "xtask", chore, ..] if chore.starts_with(char::is_lowercase) => {
                    assert!(chores.contains(&format!("[\"{chore}\"")), "{}: {line}", page.path);
                }
                [option, ..] if option.starts_with("--") && option.len() > 3 => {
                    let name = option.split(['=', '[']).next().expect("a name");
                    assert!(options.contains(name), "{}: {line}", page.path);
                }
                _ => {}
            }
        }
    }
}

/// docs/components.md has a table of the built-in components, and a chain of all of them in the recommended order.
#[test]
fn the_page_about_components_names_each_of_them() {
    let text = Page::read("docs/components.md").text;
    let (_, order) = text.split_once("\n## The order\n").expect("a chapter");
    let block = order.split("```").nth(1).expect("a chain");
    let words: Vec<&str> = block.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    for component in &components::catalog::ALL {
        let row = format!("\n| [{}](", component.name);
        assert!(text.contains(&row), "docs/components.md has no row for {}", component.name);
        let is_in_chain = words.contains(&component.name);
        assert!(component.agent || is_in_chain, "{} is not in the chain", component.name);
    }
}

#[test]
fn every_package_and_test_that_a_cargo_command_names_exists() {
    let mut seen = 0;
    for page in pages() {
        // `--test` of a command of xtask is another option.
        let is_cargo = |line: &&String| line.contains("cargo ") && !line.contains("cargo xtask");
        for line in page.commands().iter().filter(is_cargo) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |option: &'static str| {
                let pairs = words.windows(2).filter(move |pair| pair[0] == option);
                pairs.map(|pair| pair[1].trim_end_matches(['.', ',']))
            };
            let named: Vec<&str> = after("-p").chain(after("--package")).collect();
            for name in &named {
                assert!(package(name).is_some(), "{}: {line}", page.path);
                seen += 1;
            }
            let default = ["acp-conductor"];
            let owners = if named.is_empty() { &default } else { named.as_slice() };
            for test in after("--test") {
                let exists = owners.iter().filter_map(|name| package(name)).any(|package| {
                    let tests = package.folder.join("tests");
                    tests.join(test).join("main.rs").exists()
                        || tests.join(format!("{test}.rs")).exists()
                });
                assert!(exists, "{}: {line}", page.path);
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "{seen} packages and tests");
}

#[test]
fn every_crate_and_rust_name_exists() {
    let words = words();
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let mut seen = 0;
    for page in pages() {
        for span in page.spans() {
            if span.starts_with("acp-") && !span.contains([' ', '/', '@']) {
                assert!(package(&span).is_some(), "{}: no package {span}", page.path);
                seen += 1;
            }
            let path = span.trim_end_matches("()");
            let is_rust = path.contains("::")
                && path.chars().all(|it| it.is_alphanumeric() || it == '_' || it == ':');
            if is_rust {
                for word in path.split("::").filter(|word| !word.is_empty()) {
                    assert!(words.contains(word), "{}: {span}: {word}", page.path);
                }
                seen += 1;
            }
        }
        let prose = page.split().0.join("\n");
        for after in prose.split("crate `").skip(1) {
            let name = after.split('`').next().expect("a name");
            let locked = lock.contains(&format!("name = \"{name}\"\n"));
            let exists = locked || package_or_folder(name).is_some();
            assert!(exists, "{}: no crate {name}", page.path);
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen} names");
}

/// ARCHITECTURE.md names types, functions and modules without their path.
#[test]
fn every_identifier_in_the_architecture_exists() {
    let words = words();
    for span in Page::read("ARCHITECTURE.md").spans() {
        let name = span.trim_end_matches("()");
        let is_identifier = name.chars().all(|it| it.is_alphanumeric() || it == '_');
        if is_identifier && !name.is_empty() {
            assert!(words.contains(name), "ARCHITECTURE.md: {span}");
        }
    }
}
