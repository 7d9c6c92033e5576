//! Runs all targets with their seeds (`fuzz/seeds`) and earlier findings (`fuzz/regressions`), without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files in a directory. None if it does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[test]
fn every_seed_and_every_earlier_finding_passes() {
    for (name, check) in fuzzing::TARGETS {
        let seeds = entries(&fuzz().join("seeds").join(name));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for path in seeds.into_iter().chain(entries(&fuzz().join("regressions").join(name))) {
            let data = fs::read(&path).expect("it can be read");
            fuzzing::scenario::trace(|| format!("{name}: {}", path.display()));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&data))) {
                eprintln!("{name}: {}", path.display());
                resume_unwind(panic);
            }
        }
    }
}

/// A target that is not listed would be fuzzed, but not tested here. A directory with another name would never be read.
#[test]
fn every_target_is_listed() {
    let known: BTreeSet<String> =
        fuzzing::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names = |directory: &str| -> BTreeSet<String> {
        let stems = entries(&fuzz().join(directory)).into_iter();
        stems.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
    };
    assert_eq!(names("fuzz_targets"), known);
    assert_eq!(names("seeds"), known);
    assert!(names("regressions").is_subset(&known));
}
