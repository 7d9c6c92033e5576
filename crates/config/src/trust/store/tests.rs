//! Tests of consents, with real files.

use super::*;
use crate::project::{self, tests::TestFolder};
use crate::trust::{Names, ReadFile};

/// A folder with a project and a store.
struct Setup {
    folder: TestFolder,
    store: Store,
}

impl Setup {
    fn new(name: &str) -> Setup {
        let folder = TestFolder::new(name);
        folder.write("project/.conductor.toml", "one");
        folder.write("project/run.sh", "echo 1");
        folder.write("project/sub/file", "");
        let store = Store::new(folder.path("state/trust"));
        Setup { folder, store }
    }

    fn project(&self) -> ProjectFile {
        project::find(&self.folder.path("project"), None).expect("readable").expect("found")
    }

    /// The evidence of a component with these arguments, which runs in `start`.
    fn evidence_in(&self, start: &str, args: &[&str]) -> Evidence {
        let texts = args.iter().map(|&it| it.to_owned()).collect();
        let names = Names { command: "sh".into(), texts, ..Names::default() };
        Evidence::collect(&self.project(), &self.folder.path(start), &[], &[names]).expect("small")
    }

    fn evidence(&self) -> Evidence {
        self.evidence_in("project", &["-c", ". ./run.sh later.sh"])
    }

    fn record(&self) -> PathBuf {
        self.folder.path("state/trust").join(Record::file_name(&self.folder.path("project")))
    }

    fn differences(&self, evidence: &Evidence) -> Vec<(String, Difference)> {
        let Consent::Changed(changes) = self.store.consent(evidence) else { return Vec::new() };
        let name =
            |it: &Change| it.path.file_name().expect("a name").to_string_lossy().into_owned();
        changes.iter().map(|it| (name(it), it.difference)).collect()
    }
}

#[test]
fn consent_is_given_to_exact_bytes() {
    let setup = Setup::new("exact");
    let evidence = setup.evidence();
    let names = evidence.files().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(
        names,
        ["project/.conductor.toml", "project/run.sh"].map(|it| setup.folder.path(it))
    );
    assert_eq!(setup.store.consent(&evidence), Consent::Missing);
    assert_eq!(setup.store.knows(&setup.project()), Consent::Missing);
    setup.store.give(&evidence).expect("written");
    assert_eq!(setup.store.consent(&setup.evidence()), Consent::Given);
    assert_eq!(setup.store.knows(&setup.project()), Consent::Given);
    let change = |file: &str, text: &str| setup.folder.write(file, text);

    change("project/run.sh", "echo 2");
    let expected = [("run.sh".to_owned(), Difference::Changed)];
    assert_eq!(setup.differences(&setup.evidence()), expected);
    // The text alone is still the same.
    assert_eq!(setup.store.knows(&setup.project()), Consent::Given);
    change("project/run.sh", "echo 1");
    assert_eq!(setup.store.consent(&setup.evidence()), Consent::Given);

    change("project/later.sh", "");
    let expected = [("later.sh".to_owned(), Difference::Appeared)];
    assert_eq!(setup.differences(&setup.evidence()), expected);
    std::fs::remove_file(setup.folder.path("project/later.sh")).expect("ours");
    std::fs::remove_file(setup.folder.path("project/run.sh")).expect("ours");
    let expected = [("run.sh".to_owned(), Difference::Vanished)];
    assert_eq!(setup.differences(&setup.evidence()), expected);

    change("project/run.sh", "echo 1");
    change("project/.conductor.toml", "two");
    let expected = [(".conductor.toml".to_owned(), Difference::Changed)];
    assert_eq!(setup.differences(&setup.evidence()), expected);
    assert!(matches!(setup.store.knows(&setup.project()), Consent::Changed(_)));
}

/// A person reads what `conductor trust` prints, while the file changes.
#[test]
fn consent_is_given_to_the_bytes_that_were_read_first() {
    let setup = Setup::new("first");
    let shown = setup.evidence();
    setup.folder.write("project/.conductor.toml", "evil");
    setup.folder.write("project/run.sh", "evil");
    setup.store.give(&shown).expect("written");
    assert!(matches!(setup.store.consent(&setup.evidence()), Consent::Changed(_)));
    assert_eq!(setup.store.consent(&shown), Consent::Given);
}

#[test]
fn the_bytes_of_env_files_are_compared_and_not_read_again() {
    let setup = Setup::new("env");
    let evidence = |path: &str, bytes: Option<&str>| {
        let bytes = bytes.map(|it| it.as_bytes().to_vec());
        let file = ReadFile { path: setup.folder.path(path), bytes };
        let project = setup.project();
        Evidence::collect(&project, &project.root, &[file], &[]).expect("small")
    };
    // There is no such file on the disk.
    setup.store.give(&evidence("outside/.env", Some("A=1"))).expect("written");
    assert_eq!(setup.store.consent(&evidence("outside/.env", Some("A=1"))), Consent::Given);
    let expected = [(".env".to_owned(), Difference::Changed)];
    assert_eq!(setup.differences(&evidence("outside/.env", Some("A=2"))), expected);
    let expected = [(".env".to_owned(), Difference::Vanished)];
    assert_eq!(setup.differences(&evidence("outside/.env", None)), expected);
    let expected = [(".env".to_owned(), Difference::Appeared)];
    assert_eq!(setup.differences(&evidence("project/.env", Some("A=1"))), expected);
    // A file that was missing at the consent.
    setup.store.give(&evidence("outside/.env", None)).expect("written");
    assert_eq!(setup.store.consent(&evidence("outside/.env", None)), Consent::Given);
    assert_eq!(
        setup.differences(&evidence("outside/.env", Some("A=1"))),
        [(".env".to_owned(), Difference::Appeared)]
    );
}

/// A component may run in any folder of the project, and its arguments begin there.
#[test]
fn a_consent_holds_in_all_folders_of_a_project() {
    let setup = Setup::new("folders");
    let args = ["run.sh"];
    setup.store.give(&setup.evidence_in("project", &args)).expect("written");
    assert_eq!(setup.store.consent(&setup.evidence_in("project/sub", &args)), Consent::Given);
    setup.folder.write("project/sub/run.sh", "evil");
    let evidence = setup.evidence_in("project/sub", &args);
    assert_eq!(setup.differences(&evidence), [("run.sh".to_owned(), Difference::Appeared)]);
    // The second consent does not forget the first one.
    setup.store.give(&evidence).expect("written");
    for start in ["project", "project/sub"] {
        assert_eq!(setup.store.consent(&setup.evidence_in(start, &args)), Consent::Given);
    }
    setup.folder.write("project/.conductor.toml", "two");
    setup.store.give(&setup.evidence_in("project", &args)).expect("written");
    let evidence = setup.evidence_in("project/sub", &args);
    assert_eq!(setup.differences(&evidence), [("run.sh".to_owned(), Difference::Appeared)]);
}

#[cfg(unix)]
#[test]
fn links_lead_to_the_bytes_that_are_compared() {
    let setup = Setup::new("named-links");
    setup.folder.write("outside/tool", "one");
    setup.folder.write("outside/other", "two");
    setup.folder.link("../outside/tool", "project/tool");
    setup.folder.link("../project", "outside/project");
    setup.folder.link("../outside", "project/folder");
    setup.folder.link("loop", "project/loop");
    setup.folder.link("/dev/zero", "project/zero");
    setup.folder.fifo("project/fifo");
    let by_link = setup.folder.path("outside/project/run.sh").display().to_string();
    let outside = setup.folder.path("outside/other").display().to_string();
    let args = [
        "./tool",
        "folder/other",
        "sub/../run.sh",
        "loop",
        "zero",
        "fifo",
        "sub",
        &by_link,
        &outside,
    ];
    let evidence = || setup.evidence_in("project", &args);
    let found = evidence();
    let found = found.files().map(|it| {
        let state = match it.state {
            FileState::Regular { bytes, .. } => bytes.to_string(),
            state => super::state(state),
        };
        (key(&setup.folder.path("project"), &it.path), state)
    });
    let found: std::collections::BTreeMap<String, String> = found.collect();
    let by_link = by_link.as_str();
    let expected = [
        (".conductor.toml", "3"),
        (by_link, "6"),
        ("fifo", "special"),
        ("folder/other", "3"),
        ("sub", "folder"),
        ("sub/../run.sh", "6"),
        ("tool", "3"),
        ("zero", "special"),
    ];
    let expected = expected.map(|(name, state)| (name.to_owned(), state.to_owned()));
    assert_eq!(found, std::collections::BTreeMap::from(expected));
    setup.store.give(&evidence()).expect("written");
    // The link leads to another file, and the linked folder is replaced by another one.
    std::fs::remove_file(setup.folder.path("project/folder")).expect("ours");
    setup.folder.write("project/folder/other", "evil");
    std::fs::remove_file(setup.folder.path("project/tool")).expect("ours");
    setup.folder.link("../outside/other", "project/tool");
    let expected = [("other", Difference::Changed), ("tool", Difference::Changed)];
    assert_eq!(setup.differences(&evidence()), expected.map(|(name, it)| (name.to_owned(), it)));
}

#[test]
fn too_many_and_too_large_files_get_no_consent() {
    let setup = Setup::new("bounds");
    let text = (0..20_000).map(|it| it.to_string()).collect::<Vec<_>>().join(" ");
    let names = Names { texts: vec![text], ..Names::default() };
    let project = setup.project();
    let collect = |names| Evidence::collect(&project, &project.root, &[], &[names]);
    assert!(matches!(collect(names), Err(crate::trust::EvidenceError::TooMany)));
    let huge = std::fs::File::create(setup.folder.path("project/huge")).expect("ours");
    huge.set_len(1 << 40).expect("sparse");
    let names = Names { texts: vec!["--file=huge".into()], ..Names::default() };
    let error = collect(names).expect_err("huge");
    assert!(error.to_string().contains("more than 256 MiB; "), "{error}");
    // A file that is not named does not matter.
    assert_eq!(setup.store.consent(&setup.evidence()), Consent::Missing);
}

#[test]
fn records_are_listed_and_withdrawn() {
    let setup = Setup::new("list");
    assert!(setup.store.list().expect("empty").is_empty());
    assert!(!setup.store.withdraw(&setup.folder.path("project")).expect("empty"));
    assert_eq!(setup.store.withdraw_all().expect("empty"), 0);
    setup.store.give(&setup.evidence()).expect("written");
    setup.folder.write("other/.conductor.toml", "other");
    let other = project::find(&setup.folder.path("other"), None).expect("readable").expect("found");
    setup.store.give(&Evidence::of_config(&other)).expect("written");
    let records = setup.store.list().expect("readable");
    let roots = records.iter().map(|it| it.as_ref().expect("whole").root.clone());
    let expected = ["other", "project"].map(|it| setup.folder.path(it));
    assert_eq!(roots.collect::<Vec<_>>(), expected);
    assert!(setup.store.withdraw(&other.root).expect("written"));
    assert!(!setup.store.withdraw(&other.root).expect("written"));
    assert_eq!(setup.store.consent(&Evidence::of_config(&other)), Consent::Missing);
    assert_eq!(setup.store.consent(&setup.evidence()), Consent::Given);
    assert_eq!(setup.store.withdraw_all().expect("written"), 1);
    assert_eq!(setup.store.consent(&setup.evidence()), Consent::Missing);
}

#[test]
fn a_moved_or_copied_project_has_no_consent() {
    let setup = Setup::new("moved");
    setup.store.give(&setup.evidence()).expect("written");
    std::fs::rename(setup.folder.path("project"), setup.folder.path("moved")).expect("ours");
    let moved = project::find(&setup.folder.path("moved"), None).expect("readable").expect("found");
    assert_eq!(setup.store.knows(&moved), Consent::Missing);
    // The record of one project under the name of another one is no consent to that.
    let name = setup.record().with_file_name(Record::file_name(&moved.root));
    std::fs::rename(setup.record(), name).expect("ours");
    assert!(matches!(setup.store.knows(&moved), Consent::Unusable(_)));
    assert!(setup.store.list().expect("readable")[0].is_err());
}

#[test]
fn a_damaged_record_is_no_consent() {
    let setup = Setup::new("damaged");
    setup.store.give(&setup.evidence()).expect("written");
    let whole = std::fs::read_to_string(setup.record()).expect("a record");
    let damaged = [
        "",
        "{}",
        &whole[..whole.len() / 2],
        &whole.replace("\"v\": 1", "\"v\": 2"),
        &whole.replace("\"v\": 1", "\"v\": 1, \"more\": 1"),
        &format!("{whole}{whole}"),
        &"[".repeat(100_000),
    ];
    for text in damaged {
        std::fs::write(setup.record(), text).expect("ours");
        let Consent::Unusable(why) = setup.store.consent(&setup.evidence()) else {
            panic!("{text}");
        };
        assert!(why.contains("it is damaged") && why.contains(".json"), "{why}");
        assert!(setup.store.list().expect("readable")[0].is_err(), "{text}");
    }
    // A new consent replaces it.
    setup.store.give(&setup.evidence()).expect("written");
    assert_eq!(setup.store.consent(&setup.evidence()), Consent::Given);
}

#[test]
fn a_store_inside_of_the_project_or_of_the_working_directory_is_refused() {
    let setup = Setup::new("inside");
    let inside = Store::new(setup.folder.path("project/state/trust"));
    assert_eq!(inside.consent(&setup.evidence()), Consent::Missing);
    let error = inside.give(&setup.evidence()).expect_err("inside").to_string();
    assert!(error.contains("inside of the project"), "{error}");
    assert!(matches!(inside.consent(&setup.evidence()), Consent::Unusable(_)));
    #[cfg(unix)]
    {
        setup.folder.write("state/file", "");
        setup.folder.link("../state", "project/link");
        let linked = Store::new(setup.folder.path("project/link/trust"));
        let error = linked.give(&setup.evidence()).expect_err("inside").to_string();
        assert!(error.contains("inside of the project"), "{error}");
    }
    let relative = Store::new("state/trust");
    assert!(
        relative.give(&setup.evidence()).expect_err("relative").to_string().contains("relative")
    );
    assert!(matches!(relative.consent(&setup.evidence()), Consent::Unusable(_)));
    assert!(relative.list().is_err() && relative.withdraw_all().is_err());
}

#[test]
fn consents_at_the_same_time_are_all_kept() {
    let setup = Setup::new("same-time");
    let projects = (0..16).map(|number| {
        let name = format!("many/{number}");
        setup.folder.write(&format!("{name}/.conductor.toml"), "");
        project::find(&setup.folder.path(&name), None).expect("readable").expect("found")
    });
    let projects: Vec<ProjectFile> = projects.collect();
    std::thread::scope(|scope| {
        for project in &projects {
            scope.spawn(|| setup.store.give(&Evidence::of_config(project)).expect("written"));
        }
    });
    assert_eq!(setup.store.list().expect("readable").len(), 16);
    assert!(projects.iter().all(|it| setup.store.knows(it) == Consent::Given));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn only_the_user_can_read_the_records() {
        let setup = Setup::new("private");
        setup.store.give(&setup.evidence()).expect("written");
        let mode = |path: &Path| path.metadata().expect("ours").permissions().mode() & 0o777;
        let folder = setup.folder.path("state/trust");
        assert_eq!((mode(&folder), mode(&setup.record())), (0o700, 0o600));
        assert_eq!(mode(&folder.join("lock")), 0o600);
        let left = std::fs::read_dir(&folder).expect("ours").count();
        assert_eq!(left, 2, "the record and the lock");
    }

    #[test]
    fn a_folder_or_record_that_others_can_access_is_refused() {
        let setup = Setup::new("others");
        setup.store.give(&setup.evidence()).expect("written");
        let (state, folder) = (setup.folder.path("state"), setup.folder.path("state/trust"));
        let refused = |path: &Path, wrong: u32, right: u32| {
            set_mode(path, wrong);
            let consent = setup.store.consent(&setup.evidence());
            set_mode(path, right);
            assert!(matches!(consent, Consent::Unusable(_)), "{path:?} {wrong:o}: {consent:?}");
            assert_eq!(setup.store.consent(&setup.evidence()), Consent::Given);
        };
        for mode in [0o777, 0o770, 0o755, 0o1777] {
            refused(&folder, mode, 0o700);
        }
        refused(&state, 0o777, 0o700);
        refused(&setup.record(), 0o644, 0o600);
        refused(&setup.record(), 0o620, 0o600);
        set_mode(&folder, 0o777);
        let error = setup.store.give(&setup.evidence()).expect_err("refused").to_string();
        assert!(error.contains("chmod 700"), "{error}");
        assert!(setup.store.list().is_err() && setup.store.withdraw_all().is_err());
    }

    #[test]
    fn links_in_the_place_of_the_folder_or_of_a_record_are_not_followed() {
        let setup = Setup::new("store-links");
        setup.store.give(&setup.evidence()).expect("written");
        let elsewhere = setup.folder.path("elsewhere");
        std::fs::rename(setup.record(), &elsewhere).expect("ours");
        std::os::unix::fs::symlink(&elsewhere, setup.record()).expect("a link");
        assert!(matches!(setup.store.consent(&setup.evidence()), Consent::Unusable(_)));
        // The link is replaced, and the file that it leads to stays.
        let before = std::fs::read(&elsewhere).expect("ours");
        setup.folder.write("project/run.sh", "new");
        setup.store.give(&setup.evidence()).expect("written");
        assert_eq!(setup.store.consent(&setup.evidence()), Consent::Given);
        assert_eq!(std::fs::read(&elsewhere).expect("ours"), before);

        let folder = setup.folder.path("state/trust");
        std::fs::rename(&folder, setup.folder.path("state/other")).expect("ours");
        setup.folder.link("other", "state/trust");
        assert!(matches!(setup.store.consent(&setup.evidence()), Consent::Unusable(_)));
        assert!(setup.store.give(&setup.evidence()).is_err());
        std::fs::remove_file(&folder).expect("ours");
        std::fs::rename(setup.folder.path("state/other"), &folder).expect("ours");
        std::fs::remove_file(setup.record()).expect("ours");
        let name = setup.record().file_name().expect("a name").to_string_lossy().into_owned();
        setup.folder.fifo(&format!("state/trust/{name}"));
        assert!(matches!(setup.store.consent(&setup.evidence()), Consent::Unusable(_)));
    }

    /// Only root can give a file to another user.
    #[test]
    fn a_folder_of_another_user_is_refused() {
        let setup = Setup::new("owner");
        setup.store.give(&setup.evidence()).expect("written");
        for path in [setup.record(), setup.folder.path("state/trust")] {
            if std::os::unix::fs::chown(&path, Some(1234), None).is_err() {
                return;
            }
            let Consent::Unusable(why) = setup.store.consent(&setup.evidence()) else {
                panic!("{path:?}");
            };
            assert!(why.contains("belongs to user 1234"), "{why}");
        }
    }

    #[test]
    fn a_root_that_is_not_utf8_has_its_own_record() {
        use std::os::unix::ffi::OsStrExt;
        let setup = Setup::new("bytes");
        let project = |name: &[u8]| {
            let root = setup.folder.path(".").join(std::ffi::OsStr::from_bytes(name));
            std::fs::create_dir(&root).expect("ours");
            std::fs::write(root.join(".conductor.toml"), "").expect("ours");
            project::find(&root, None).expect("readable").expect("found")
        };
        let (one, other) = (project(b"a\xff"), project(b"a\xfe"));
        setup.store.give(&Evidence::of_config(&one)).expect("written");
        assert_eq!(setup.store.knows(&one), Consent::Given);
        assert_eq!(setup.store.knows(&other), Consent::Missing);
        assert!(setup.store.list().expect("readable")[0].is_ok());
    }
}
