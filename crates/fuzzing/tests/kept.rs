//! What was kept for the fuzzer, without a fuzzer: where it begins (`fuzz/seeds`) and what it has
//! found (`fuzz/regressions`), a directory for each target.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files in a directory, none if it is not there.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[test]
fn what_was_kept_holds() {
    for (name, check) in fuzzing::TARGETS {
        let seeds = entries(&fuzz().join("seeds").join(name));
        assert!(!seeds.is_empty(), "{name} has nothing to begin with");
        for path in seeds.into_iter().chain(entries(&fuzz().join("regressions").join(name))) {
            let data = fs::read(&path).expect("it can be read");
            fuzzing::story::tell(|| format!("{name}: {}", path.display()));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&data))) {
                eprintln!("{name}: {}", path.display());
                resume_unwind(panic);
            }
        }
    }
}

/// A target that is listed nowhere would be fuzzed, but not looked at here; a directory with another
/// name would never be looked at.
#[test]
fn every_target_is_here() {
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
