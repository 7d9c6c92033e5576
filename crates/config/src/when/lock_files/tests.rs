//! Lock files as the programs wrote them (the hashes are shortened), and hostile ones.

use std::fs;

use super::super::Surroundings;
use super::super::tests::{Folder, read};
use super::*;

/// The packages of a text, in one line each: `name version, version`.
fn listed(language: Language, file: &str, text: &str) -> String {
    let format = language.formats().iter().find(|it| it.file == file).expect("a format");
    let packages =
        (format.read.expect("a text"))(text).unwrap_or_else(|error| panic!("{file} {error}"));
    let lines = packages.by_name.iter().map(|(name, versions)| {
        let versions = versions.iter().map(|it| it.as_deref().unwrap_or("-"));
        format!("{name} {}", versions.collect::<Vec<_>>().join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What the project of the samples depends on. `odd-alias` is another version of `is-number`.
const JAVASCRIPT: &str = "\
@types/node 18.0.0
is-number 4.0.0, 6.0.0, 7.0.0
is-odd 2.0.0, 3.0.1
js-tokens 4.0.0
loose-envify 1.4.0
react 18.2.0
use-sync-external-store 1.2.0";

#[test]
fn every_lock_file_of_javascript_is_read() {
    let with = |more: &str| {
        let mut lines: Vec<&str> = JAVASCRIPT.lines().chain(more.lines()).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let member = with("member -");
    let versioned = with("member 2.5.0");
    let root = with("member -\nroot -");
    let none = with("");
    for (file, text, expected) in [
        ("package-lock.json", include_str!("samples/package-lock-v1.json"), &member),
        ("package-lock.json", include_str!("samples/package-lock-v2.json"), &versioned),
        ("package-lock.json", include_str!("samples/package-lock-v3.json"), &versioned),
        ("npm-shrinkwrap.json", include_str!("samples/package-lock-v3.json"), &versioned),
        ("pnpm-lock.yaml", include_str!("samples/pnpm-lock-5.2.yaml"), &none),
        ("pnpm-lock.yaml", include_str!("samples/pnpm-lock-5.4.yaml"), &none),
        ("pnpm-lock.yaml", include_str!("samples/pnpm-lock-6.0.yaml"), &none),
        ("pnpm-lock.yaml", include_str!("samples/pnpm-lock-9.0.yaml"), &none),
        ("yarn.lock", include_str!("samples/yarn-1.lock"), &none),
        ("yarn.lock", include_str!("samples/yarn-4.lock"), &root),
        ("bun.lock", include_str!("samples/bun.lock"), &member),
    ] {
        assert_eq!(&listed(Language::JavaScript, file, text), expected, "{file}");
        // A file that was written on Windows.
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(&listed(Language::JavaScript, file, &crlf), expected, "{file} with CR LF");
    }
}

#[test]
fn unusual_entries_of_javascript_are_read() {
    let pnpm = "\
lockfileVersion: '9.0'

importers:
  .:
    configDependencies: {}

packages:

  '@pnpm/exe@11.0.3':
    resolution: {integrity: sha512-0000}
---
lockfileVersion: '9.0'

packages:

  # a comment
  ? a-very-long-name@1.0.0
  : resolution: {integrity: sha512-0000}

  is-odd@3.0.1: {}

  local@file:../local.tgz:
    resolution: {tarball: file:../local.tgz}
    version: 2.0.0

  github.com/me/fork/0000:
    resolution: {tarball: https://codeload.github.com/me/fork/tar.gz/0000}
    name: fork
    version: 3.0.0-rc.1

snapshots:

  other@1.0.0: {}
";
    let expected = "a-very-long-name 1.0.0\nfork 3.0.0-rc.1\nis-odd 3.0.1\nlocal 2.0.0";
    assert_eq!(listed(Language::JavaScript, "pnpm-lock.yaml", pnpm), expected);

    let yarn = r#"# yarn lockfile v1

"string-width-cjs@npm:string-width@^4.2.0", "string-width@^1.0.2 || 2 || 3 || 4", string-width@^4.1.0:
  version "4.2.3"

"@me/fork@git+https://example.com/fork.git":
  version "1.0.0"
"#;
    let expected = "@me/fork 1.0.0\nstring-width 4.2.3";
    assert_eq!(listed(Language::JavaScript, "yarn.lock", yarn), expected);

    let berry = r#"__metadata:
  version: 8

"typescript@npm:^5.0.0, typescript@npm:^5.1":
  version: 5.1.6
  resolution: "typescript@npm:5.1.6"

"typescript@patch:typescript@npm%3A^5.0.0#optional!builtin<compat/typescript>":
  version: 5.0.4
  resolution: "typescript@patch:typescript@npm%3A5.0.4#optional!builtin<compat/typescript>::version=5.0.4"
"#;
    assert_eq!(listed(Language::JavaScript, "yarn.lock", berry), "typescript 5.0.4, 5.1.6");

    let bun = r#"{
  // written by hand
  "packages": { /* none, */
    "a,]": ["a@1.0.0-beta.1", "https://example.com//a", { "x": "\",}" },], // the end,
    "g": ["g@github:me/g#abc", {}, "x",],
  },
}"#;
    assert_eq!(listed(Language::JavaScript, "bun.lock", bun), "a 1.0.0-beta.1\ng -");
}

#[test]
fn every_lock_file_of_python_is_read() {
    let uv = listed(Language::Python, "uv.lock", include_str!("samples/uv.lock"));
    assert!(uv.contains("\ndemo 0.1.0\nflask 3.0.3\n"), "{uv}");
    let without_demo: Vec<&str> = uv.lines().filter(|it| !it.starts_with("demo ")).collect();
    let expected = without_demo.join("\n");
    assert_eq!(without_demo.len(), 9, "{expected}");
    for (file, text) in [
        ("pylock.toml", include_str!("samples/pylock.toml")),
        ("requirements.txt", include_str!("samples/requirements.txt")),
        ("Pipfile.lock", include_str!("samples/Pipfile.lock")),
    ] {
        let listed = listed(Language::Python, file, text);
        // pip leaves out what the processor does not need.
        let expected = expected.lines().filter(|it| listed.contains(*it) || !it.contains("clib"));
        assert_eq!(listed, expected.collect::<Vec<_>>().join("\n"), "{file}");
    }
}

#[test]
fn unusual_entries_of_python_are_read() {
    let poetry = r#"
[[package]]
name = "Django"
version = "4.2.7"
optional = false
python-versions = ">=3.8"
files = [{file = "Django-4.2.7.whl", hash = "sha256:0000"}]

[package.dependencies]
asgiref = ">=3.6.0,<4"

[[package]]
name = "asgiref"
version = "3.7.2"

[package.source]
type = "git"

[metadata]
lock-version = "2.0"
"#;
    for file in ["poetry.lock", "pdm.lock"] {
        let listed = listed(Language::Python, file, poetry);
        assert_eq!(listed, "asgiref 3.7.2\ndjango 4.2.7", "{file}");
    }
    // An editable project of uv has no version.
    let uv = "[[package]]\nname = \"demo\"\nsource = { editable = \".\" }\n";
    assert_eq!(listed(Language::Python, "uv.lock", uv), "demo -");

    let pipfile = r#"{"_meta": {"hash": {"version": "1"}}, "default": {"a": {"git": "https://x", "ref": "1"},
        "B_c": {"version": "==1.0"}}, "develop": {"d": {"editable": true}}, "docs": {"e": {"version": "==2"}}}"#;
    assert_eq!(listed(Language::Python, "Pipfile.lock", pipfile), "a -\nb-c 1.0\nd -\ne 2");

    let requirements = "\
-r base.txt
--index-url https://example.com/simple
# a comment==1
Django[argon2,bcrypt] == 4.2.7 ; python_version >= '3.8'  # why
requests>=2.0
numpy
ruamel.yaml===0.18.6 --hash=sha256:0000
wild==1.*
several ==1.0,<2
old (==3.1)
exact==1.0+cu118
zope_interface @ https://example.com/zope.whl
./local/path.whl
https://example.com/x.whl
dir/file.whl
";
    assert_eq!(
        listed(Language::Python, "requirements.txt", requirements),
        "django 4.2.7\nexact 1.0+cu118\nnumpy -\nold 3.1\nrequests -\nruamel-yaml 0.18.6\nseveral -\nwild -\nzope-interface -"
    );
}

#[test]
fn every_version_of_cargo_lock_is_read() {
    let listed = |text: &str| listed(Language::Rust, "Cargo.lock", text);
    let v4 = listed(include_str!("samples/Cargo-v4.lock"));
    assert!(v4.starts_with("itoa 0.4.8, 1.0.11\nmember 0.2.0\n"), "{v4}");
    let v3 = include_str!("samples/Cargo-v4.lock").replace("version = 4", "version = 3");
    assert_eq!(listed(&v3), v4);
    let v1 = r#"[root]
name = "demo"
version = "0.1.0"
dependencies = ["libc 0.2.80 (registry+https://github.com/rust-lang/crates.io-index)"]

[[package]]
name = "libc"
version = "0.2.80"
source = "registry+https://github.com/rust-lang/crates.io-index"

[metadata]
"checksum libc 0.2.80 (registry+https://github.com/rust-lang/crates.io-index)" = "0000"
"#;
    assert_eq!(listed(v1), "demo 0.1.0\nlibc 0.2.80");
    let v2 =
        "[[package]]\nname = \"proc_macro_x\"\nversion = \"1.0.0+build\"\nchecksum = \"0000\"\n";
    assert_eq!(listed(v2), "proc-macro-x 1.0.0+build");
    assert_eq!(listed(""), "");
}

#[test]
fn the_nearest_folder_with_a_lock_file_counts() {
    let lock = |version| format!("[[package]]\nname = \"tokio\"\nversion = \"{version}\"\n");
    let folder = Folder::new().with("Cargo.lock", &lock("1.43.0")).with("member/src/lib.rs", "");
    let evaluate = |below: &str| {
        let surroundings = Surroundings::new(folder.path().join(below), [("", ""); 0], "linux");
        read(r#"{ crate = "tokio >=1.30" }"#).evaluate(&surroundings)
    };
    assert_eq!(evaluate("").reason, "Cargo.lock has tokio 1.43.0, which matches >=1.30");
    let path = folder.path().join("Cargo.lock");
    let expected = format!("{} has tokio 1.43.0, which matches >=1.30", path.display());
    assert_eq!(evaluate("member").reason, expected);
    assert_eq!(evaluate("member/src").reason, expected);
    // A folder that does not exist has parents, too.
    assert!(evaluate("member/new").holds);
    folder.write("member/Cargo.toml", "");
    assert!(evaluate("member/src").holds, "the lock file of the workspace");
    folder.write("member/Cargo.lock", lock("0.2.25"));
    assert!(
        evaluate("member/src").reason.ends_with("has tokio 0.2.25, which does not match >=1.30")
    );
}

#[test]
fn a_missing_lock_file_is_said() {
    let folder = Folder::new();
    let line = |condition| folder.line(condition);
    let (krate, npm, python) = (r#"{ crate = "a" }"#, r#"{ npm = "a" }"#, r#"{ python = "a" }"#);
    assert_eq!(line(krate), "no: there is no lock file of Rust");
    folder.write("Cargo.toml", "");
    assert_eq!(line(krate), "no: Cargo.toml has no lock file: run `cargo generate-lockfile`");
    folder.write("package.json", "{}");
    assert_eq!(line(npm), "no: package.json has no lock file: run `npm install`");
    folder.write("pyproject.toml", "");
    assert!(line(python).starts_with("no: pyproject.toml has no lock file: run `uv lock`, or"));
    folder.write("bun.lockb", b"#!/usr/bin/env bun\nbun-lockfile-format-v0\n\0\xff");
    assert_eq!(
        line(npm),
        "no: bun.lockb is binary: run `bun install --save-text-lockfile` for a bun.lock"
    );
    // All lock files of the folder are read.
    folder.write("bun.lock", r#"{"packages": {"a": ["a@1.0.0"]}}"#);
    assert_eq!(line(npm), "yes: bun.lock has a 1.0.0");
    folder.write("yarn.lock", "# yarn lockfile v1\n\nb@1:\n  version \"1.2.0\"\n");
    assert_eq!(line(npm), "yes: bun.lock has a 1.0.0");
    assert_eq!(
        line(r#"{ npm = "b ^2" }"#),
        "no: yarn.lock has b 1.2.0, which does not match ^2; bun.lock has no b; bun.lockb is binary: run `bun \
         install --save-text-lockfile` for a bun.lock"
    );
}

#[test]
fn each_file_is_read_once() {
    let folder =
        Folder::new().with("Cargo.lock", "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n");
    let surroundings = folder.surroundings();
    let condition = read(r#"{ crate = "a" }"#);
    assert!(condition.evaluate(&surroundings).holds);
    folder.write("Cargo.lock", "");
    assert!(condition.evaluate(&surroundings).holds);
    assert!(!condition.evaluate(&folder.surroundings()).holds);
}

/// A lock file of a language, and what is said of it.
fn reason(language: &str, file: &str, content: &[u8]) -> String {
    let folder = Folder::new();
    folder.write(file, content);
    let line = folder.line(&format!("{{ {language} = \"a\" }}"));
    line.strip_prefix("no: ").unwrap_or_else(|| panic!("{file}: {line}")).to_owned()
}

#[test]
fn invalid_files_are_reported() {
    for (language, file, content, expected) in [
        ("crate", "Cargo.lock", "[[package]]\nname", "Cargo.lock is not valid: line 2: "),
        (
            "crate",
            "Cargo.lock",
            "\n\npackage = 7\n",
            "Cargo.lock is not valid: line 3: invalid type: integer `7`",
        ),
        (
            "crate",
            "Cargo.lock",
            "[[package]]\nname = 'b'\n[[package]]\nname = 7\n",
            "Cargo.lock is not valid: line 4: invalid type",
        ),
        ("crate", "Cargo.lock", "[package.metadata\n", "Cargo.lock has no a"),
        (
            "npm",
            "package-lock.json",
            "{",
            "package-lock.json is not valid: EOF while parsing an object at line 1",
        ),
        ("npm", "package-lock.json", "[]", "package-lock.json has no a"),
        (
            "npm",
            "package-lock.json",
            r#"{"packages": {"node_modules/a": 7}}"#,
            "package-lock.json has no a",
        ),
        (
            "npm",
            "package-lock.json",
            r#"{"packages": 7, "dependencies": ["a"]}"#,
            "package-lock.json has no a",
        ),
        (
            "npm",
            "yarn.lock",
            "a@1:\n",
            "yarn.lock is not valid: it has neither `# yarn lockfile v1` nor",
        ),
        (
            "npm",
            "pnpm-lock.yaml",
            "packages:\n\n  a@1: {}\n",
            "pnpm-lock.yaml is not valid: it has no lockfileVersion",
        ),
        ("npm", "bun.lock", "{\"packages\": {\"a\": \"a@1\"}} /* no end", "bun.lock has no a"),
        ("npm", "bun.lock", "\"\\", "bun.lock is not valid: EOF while parsing a string"),
        ("python", "Pipfile.lock", "{} {}", "Pipfile.lock is not valid: trailing characters"),
        ("python", "uv.lock", "package = [1]", "uv.lock is not valid: line 1: invalid type"),
        ("python", "requirements.txt", "\u{1b}[31m==1\n", "requirements.txt has no a"),
    ] {
        let reason = reason(language, file, content.as_bytes());
        assert!(reason.starts_with(expected), "{file}: {reason}");
    }
    let long = format!("[[package]]\nname = 'a'\ndescription = '{}'\n", "x".repeat(1 << 20));
    let long = reason("crate", "Cargo.lock", long.as_bytes());
    assert_eq!(long, "Cargo.lock is not valid: line 1: this table has more than 1 MiB");
    let reason = reason("crate", "Cargo.lock", b"\xff\xff");
    assert_eq!(reason, "Cargo.lock is not UTF-8");
}

#[test]
fn hostile_texts_neither_panic_nor_hang() {
    const SIZE: usize = 1 << 16;
    let many = |part: &str| part.repeat(SIZE / part.len());
    let texts = [
        many("["),
        many("{"),
        many("{\"a\":"),
        many("{\"packages\":"),
        many("{\"dependencies\":{\"a\":"),
        format!("a = {}", many("[")),
        format!("a = {}", many("{a = ")),
        format!("{} = 1", many("a.").trim_end_matches('.')),
        format!("[{}]", many("a.").trim_end_matches('.')),
        many("[[package]]\n"),
        many("[a]\n"),
        format!("package = [{}", many("{},")),
        many("lockfileVersion:\npackages:\n  a:\n    version: \n"),
        many("  ? ? ? @ / @/ ' \" \n"),
        format!(
            "lockfileVersion: 9\npackages:\n{}",
            many("  '@':\n  /@a:\n  @/:\n  a/(:\n  '':\n")
        ),
        format!(
            "# yarn lockfile v1\n{}",
            many("@, @@, é@é, \"@:\n  version \"\n  resolution: @é\n")
        ),
        many("é\u{202e}\u{0}[é]==é\n"),
        many("a[b\na]==1\na==\na===;\n"),
        many("/*/"),
        many("//\n,]"),
        many("\"\\"),
        "\u{feff}".into(),
    ];
    for language in [Language::Rust, Language::JavaScript, Language::Python] {
        for read in language.formats().iter().filter_map(|it| it.read) {
            for text in &texts {
                let _ = read(text);
            }
        }
    }
}

#[test]
fn the_number_of_packages_is_limited() {
    let mut text = String::from("lockfileVersion: 9\npackages:\n");
    for number in 0..=MAX_PACKAGES {
        text += &format!("  a{number}@1.0.0: {{}}\n");
    }
    assert_eq!(pnpm::read(&text).unwrap_err(), "has more than 200000 packages");
    let members = (0..=MAX_PACKAGES).map(|it| format!("\"node_modules/a{it}\":{{}}"));
    let text = format!("{{\"packages\":{{{}}}}}", members.collect::<Vec<_>>().join(","));
    let read = Language::JavaScript.formats()[1].read.expect("a text");
    assert_eq!(read(&text).unwrap_err(), "has more than 200000 packages");
}

#[test]
fn what_a_lock_file_says_is_safe_to_print() {
    let text = "[[package]]\nname = \"a\"\nversion = \"1\\u001b]0;x\\u0007\\n\\u202e2\"\n";
    let folder = Folder::new().with("Cargo.lock", text);
    assert_eq!(folder.line(r#"{ crate = "a" }"#), "yes: Cargo.lock has a 1 2");
    assert!(!folder.evaluate(r#"{ crate = "a *" }"#).holds);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_read() {
    use std::os::unix::fs::symlink;

    let with = |make: &dyn Fn(&std::path::Path)| {
        let folder = Folder::new();
        make(&folder.path().join("Cargo.lock"));
        folder.line(r#"{ crate = "a" }"#)
    };
    let fifo = |path: &std::path::Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let not_regular = "no: Cargo.lock is not a regular file";
    assert_eq!(with(&fifo), not_regular);
    assert_eq!(with(&|path| fs::create_dir(path).unwrap()), not_regular);
    assert_eq!(with(&|path| symlink("/dev/zero", path).unwrap()), not_regular);
    assert_eq!(
        with(&|path| symlink("nothing", path).unwrap()),
        "no: Cargo.lock is a link to nothing"
    );
    let circle = with(&|path| symlink("Cargo.lock", path).unwrap());
    assert!(circle.starts_with("no: Cargo.lock cannot be read: "), "{circle}");
    let huge = |path: &std::path::Path| {
        let file = fs::File::create(path).unwrap();
        file.set_len(1 << 40).unwrap();
    };
    assert_eq!(with(&huge), "no: Cargo.lock has more than 64 MiB");
}
