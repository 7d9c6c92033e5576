//! Reads the Rust examples of a Markdown page, and the dependencies that it prints, as rustdoc reads them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::{Block, blocks};
use crate::tool::at;

/// A page of the guide.
#[derive(Debug)]
pub struct Page {
    /// All blocks that begin with `[dependencies]`, together. `None` if there are none.
    pub dependencies: Option<String>,
    pub examples: Vec<Example>,
}

/// A Rust example, as a whole program.
#[derive(Debug)]
pub struct Example {
    pub path: PathBuf,
    /// Where the block begins.
    pub line: usize,
    pub program: String,
}

impl Example {
    /// A name that leads back to the example.
    pub fn file_name(&self) -> String {
        let page = self.path.file_stem().unwrap_or_default().display().to_string();
        format!("{}_line_{}.rs", page.to_lowercase().replace('-', "_"), self.line)
    }
}

impl Page {
    pub fn read(path: &Path) -> Result<Page, String> {
        let text = fs::read_to_string(path).map_err(at(path))?;
        Page::parse(path, &text).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(path: &Path, text: &str) -> Result<Page, String> {
        let mut page = Page { dependencies: None, examples: Vec::new() };
        for block in blocks(text) {
            if block.info == "toml" && block.text.trim_start().starts_with("[dependencies]") {
                let (_, lines) = block.text.split_once("[dependencies]").unwrap_or_default();
                let all = page.dependencies.get_or_insert_with(|| "[dependencies]\n".to_owned());
                all.push_str(lines.trim_start());
            } else if is_whole_rust(&block)? {
                let (line, program) = (block.line, program(&block.text));
                page.examples.push(Example { path: path.to_owned(), line, program });
            }
        }
        Ok(page)
    }
}

/// Whether rustdoc compiles the block and expects success. A fragment is marked `ignore` on the page.
fn is_whole_rust(block: &Block) -> Result<bool, String> {
    let mut is_rust = false;
    for word in block.info.split(',').map(str::trim) {
        match word {
            "rust" => is_rust = true,
            "no_run" | "should_panic" => {}
            "ignore" | "compile_fail" => return Ok(false),
            other if is_rust => {
                return Err(format!("line {}: unknown mark {other}", block.line));
            }
            _ => return Ok(false),
        }
    }
    Ok(is_rust)
}

/// The program that rustdoc makes of an example: with its hidden lines, and with a `main` around it.
fn program(example: &str) -> String {
    let lines = example.lines().map(|line| {
        let trimmed = line.trim_start();
        match trimmed.strip_prefix("# ") {
            Some(hidden) => hidden,
            None if trimmed == "#" => "",
            None => line.strip_prefix('#').filter(|it| it.starts_with('#')).unwrap_or(line),
        }
    });
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let allow = "#![allow(unused)]\n";
    if code.contains("fn main()") {
        return format!("{allow}{code}");
    }
    match code.trim_end().ends_with("(())") {
        true => format!(
            "{allow}fn main() {{\nfn run() -> Result<(), impl std::fmt::Debug> {{\n{code}}}\nrun().unwrap()\n}}\n"
        ),
        false => format!("{allow}fn main() {{\n{code}}}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Page, String> {
        Page::parse(Path::new("docs/a-page.md"), text)
    }

    #[test]
    fn an_example_becomes_the_program_that_rustdoc_compiles() {
        let page =
            parse("One:\n\n```rust,no_run\n# fn hidden() {}\n#\nlet a = [1];\n```\n").unwrap();
        let [example] = &page.examples[..] else { panic!("{page:?}") };
        assert_eq!(example.file_name(), "a_page_line_3.rs");
        let program = "#![allow(unused)]\nfn main() {\nfn hidden() {}\n\nlet a = [1];\n}\n";
        assert_eq!(example.program, program);
    }

    #[test]
    fn a_whole_program_stays_as_it_is() {
        let page = parse("```rust\n#[tokio::main]\nasync fn main() {}\n```\n").unwrap();
        let program = "#![allow(unused)]\n#[tokio::main]\nasync fn main() {}\n";
        assert_eq!(page.examples[0].program, program);
    }

    #[test]
    fn fragments_and_other_languages_are_left_out_and_unknown_marks_are_errors() {
        let page = parse("```rust,ignore\nfoo(…)\n```\n```text\nx\n```\n```\ny\n```\n").unwrap();
        assert!(page.examples.is_empty() && page.dependencies.is_none());
        assert!(parse("```rust,norun\nx();\n```\n").is_err());
    }

    #[test]
    fn the_dependencies_are_those_that_the_page_prints() {
        let text =
            "```toml\n[dependencies]\na = \"1\"\n```\n```toml\n[dependencies]\nb = \"2\"\n```\n";
        let page = parse(text).unwrap();
        assert_eq!(page.dependencies.as_deref(), Some("[dependencies]\na = \"1\"\nb = \"2\"\n"));
    }
}
