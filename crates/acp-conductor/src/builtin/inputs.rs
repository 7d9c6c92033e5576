//! The files that a built-in component reads, such as rules. If one of them changes, a reload restarts the component.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use components::Entry;
use config::trust::Digest;
use serde_json::{Map, Value};

use crate::config::InputFile;

/// The options that name a file to which a component writes.
const WRITTEN: [(&str, &str); 3] = [("log", "file"), ("metrics", "file"), ("cache", "file")];

/// The option of every component that names a file with options.
const CONFIG: &str = "config";

/// How much of a file is compared.
const MAX_LENGTH: u64 = 64 * 1024 * 1024;

/// The files that a component reads, as they are now: the files that its options name, also those in the file of `--config`,
/// and the files that these lead to.
pub(super) fn files_of(
    entry: &Entry,
    args: &[String],
    options: &Map<String, Value>,
) -> Vec<InputFile> {
    let is_written = |name: &str| WRITTEN.contains(&(entry.name, name));
    let mut paths: Vec<PathBuf> = config_file(entry, args).into_iter().collect();
    for (_, value) in
        entry.options(args, options).unwrap_or_default().iter().filter(|it| !is_written(it.0))
    {
        add_texts(value, &mut paths);
    }
    paths.retain(|path| path.is_file());
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| InputFile { sha256: sha256(&path), path }).collect()
}

fn config_file(entry: &Entry, args: &[String]) -> Option<PathBuf> {
    let words = std::iter::once(entry.name.to_owned()).chain(args.iter().cloned());
    let matches = entry.command().try_get_matches_from(words).ok()?;
    matches.get_one::<PathBuf>(CONFIG).cloned()
}

fn add_texts(value: &Value, paths: &mut Vec<PathBuf>) {
    match value {
        Value::String(text) => paths.push(text.into()),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, paths)),
        Value::Object(values) => values.values().for_each(|value| add_texts(value, paths)),
        _ => {}
    }
}

fn sha256(path: &Path) -> Option<[u8; 32]> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_LENGTH).read_to_end(&mut bytes).ok()?;
    Some(Digest::of(&bytes).bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_component_are_those_that_it_reads() {
        let folder = std::env::temp_dir().join(format!("inputs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = |name: &str| folder.join(name).display().to_string();
        std::fs::write(path("values"), "one").expect("written");
        std::fs::write(path("log"), "").expect("written");
        std::fs::write(path("toml"), format!("values = [{:?}]\n", path("values")))
            .expect("written");
        let files = |name: &str, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|it| (*it).to_owned()).collect();
            files_of(components::find(name).expect("a component"), &args, &Map::new())
        };
        let names = |files: &[InputFile]| -> Vec<String> {
            files.iter().map(|it| it.path.display().to_string()).collect()
        };
        let config = format!("--config={}", path("toml"));
        let before = files("filter", &[&config]);
        assert_eq!(names(&before), [path("toml"), path("values")]);
        assert_eq!(files("filter", &[&config]), before);
        std::fs::write(path("values"), "two").expect("written");
        assert_ne!(files("filter", &[&config]), before);
        assert_eq!(files("log", &["--file", &path("log")]), []);
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
