//! The step `licences`: the licences and the sources of all dependencies are those that `deny.toml` allows.
//!
//! `cargo deny check` reads the same file and also knows the advisories, which it takes from the network. It takes minutes
//! to compile, so this step asks `cargo metadata` instead.

use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::Value;

use crate::tool::{list, metadata, read, root, text};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check() -> Result<(), String> {
    let deny = read(root().join("deny.toml"))?;
    let (_, licences) = deny.split_once("\nallow = [").ok_or("deny.toml has no list `allow`")?;
    let licences = licences.split(']').next().unwrap_or_default();
    let allowed: Vec<&str> = licences.split('"').skip(1).step_by(2).collect();
    let metadata = metadata(&["--all-features", "--locked", "--offline"])?;
    let packages: Vec<&Value> = list(&metadata["packages"]).collect();
    let complaints: Vec<String> = packages.iter().filter_map(|it| refuse(it, &allowed)).collect();
    eprintln!("{} packages, {} licences are allowed", packages.len(), allowed.len());
    match complaints.is_empty() && !packages.is_empty() && !allowed.is_empty() {
        true => Ok(()),
        false => Err(format!("deny.toml does not allow:\n{}", complaints.join("\n"))),
    }
}

/// Why a package is not allowed.
fn refuse(package: &Value, allowed: &[&str]) -> Option<String> {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let source = package["source"].as_str().unwrap_or(CRATES_IO);
    let licence = text(&package["license"]);
    // A dependency on a crate of this project may have no version.
    let is_wildcard = |it: &&Value| it["req"] == "*" && it["path"].is_null();
    let reason = if source != CRATES_IO {
        format!("the source {source}")
    } else if !allows(allowed, licence) {
        format!("the licence {licence:?}")
    } else {
        let dependency = list(&package["dependencies"]).find(is_wildcard)?;
        format!("any version of {}", text(&dependency["name"]))
    };
    Some(format!("{name} {version}: {reason}"))
}

/// Whether the list allows an SPDX expression: one side of each `OR`, and both sides of each `AND`.
fn allows(allowed: &[&str], expression: &str) -> bool {
    // `/` is an old form of `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = words.into_iter().peekable();
    either(allowed, &mut words) == Some(true) && words.next().is_none()
}

type Words<'a> = Peekable<IntoIter<&'a str>>;

fn either(allowed: &[&str], words: &mut Words<'_>) -> Option<bool> {
    let mut holds = both(allowed, words)?;
    while words.next_if_eq(&"OR").is_some() {
        holds |= both(allowed, words)?;
    }
    Some(holds)
}

fn both(allowed: &[&str], words: &mut Words<'_>) -> Option<bool> {
    let mut holds = one(allowed, words)?;
    while words.next_if_eq(&"AND").is_some() {
        holds &= one(allowed, words)?;
    }
    Some(holds)
}

fn one(allowed: &[&str], words: &mut Words<'_>) -> Option<bool> {
    if words.next_if_eq(&"(").is_some() {
        let holds = either(allowed, words)?;
        return words.next_if_eq(&")").map(|_| holds);
    }
    let mut name = words.next()?.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next()?);
    }
    Some(allowed.contains(&&*name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_is_allowed_if_its_licences_are() {
        let allows = |text| allows(&["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"], text);
        for allowed in
            ["MIT", "GPL-3.0/MIT", "MIT AND (GPL-3.0 OR Zlib)", "Apache-2.0 WITH LLVM-exception"]
        {
            assert!(allows(allowed), "{allowed}");
        }
        for refused in
            ["", "Apache-2.0", "GPL-3.0 OR MIT AND X", "(MIT", "MIT)", "MIT Zlib", "MIT AND"]
        {
            assert!(!allows(refused), "{refused}");
        }
    }

    #[test]
    fn wrong_licences_sources_and_requirements_are_refused() {
        let refuse = |change: fn(&mut Value)| {
            let mut package = json!({ "name": "a", "version": "1.0.0", "license": "MIT",
                "source": CRATES_IO, "dependencies": [
                    { "name": "ours", "req": "*", "path": "/p" },
                    { "name": "b", "req": "^1", "path": null },
                ] });
            change(&mut package);
            refuse(&package, &["MIT"]).unwrap_or_default()
        };
        assert_eq!(refuse(|_| {}), "");
        assert_eq!(refuse(|it| it["source"] = Value::Null), "");
        assert_eq!(
            refuse(|it| it["license"] = json!("GPL-3.0")),
            "a 1.0.0: the licence \"GPL-3.0\""
        );
        assert_eq!(refuse(|it| it["license"] = Value::Null), "a 1.0.0: the licence \"\"");
        let git = refuse(|it| it["source"] = json!("git+https://example.org/a"));
        assert_eq!(git, "a 1.0.0: the source git+https://example.org/a");
        let wildcard = refuse(|it| it["dependencies"][1]["req"] = json!("*"));
        assert_eq!(wildcard, "a 1.0.0: any version of b");
    }
}
