//! The configuration of a folder: the file of the user, and the file of the project if the user trusts it.

use std::path::Path;

use super::{Consent, Evidence, Store};
use crate::chain::{BuiltIn, Configuration};
use crate::project::{self, ProjectFile};
use crate::source::{Diagnostic, Source};
use crate::when::Surroundings;

/// Where the layers come from.
#[derive(Debug)]
pub struct Layers<'a> {
    /// The file of the user, if there is one.
    pub user: Option<Source>,
    /// Its path, also if it does not exist. A file at this path is never taken for the file of a project.
    pub user_path: Option<&'a Path>,
    /// What the user trusts. Without a store, no project is trusted.
    pub store: Option<&'a Store>,
    /// The built-in components.
    pub built_ins: &'a [BuiltIn],
}

/// The layers that are used.
#[derive(Debug)]
pub struct Layered {
    /// The files, merged. That of the project is one of them only if the user has consented to it and to all files that it names.
    pub configuration: Configuration,
    /// The file of the project, whether or not it is used.
    pub project: Option<ProjectFile>,
    /// What the user must be told: that the file of the project is not used, why, and what to do.
    pub notice: Option<String>,
    /// Why a chain that uses the file of the project goes on with it as it was. See [`Consent::refusal`].
    pub refusal: Option<String>,
}

impl Layers<'_> {
    /// Reads the file of the project that contains the folder of the surroundings, and uses it if the user has consented.
    ///
    /// Whatever a project contains, it cannot make this fail: then the file of the user is used alone.
    ///
    /// # Errors
    /// The file of the user is wrong, or the file of the project has an error although the user has consented to it.
    pub fn load(self, surroundings: &Surroundings) -> Result<Layered, Diagnostic> {
        let built_ins = || self.built_ins.iter().copied();
        let alone = Configuration::load(self.user.clone(), built_ins())?;
        let folder = &surroundings.folder;
        let without = |project, notice| {
            Ok(Layered { configuration: alone.clone(), project, notice, refusal: None })
        };
        let project = match project::find(&surroundings.folder, self.user_path) {
            Ok(None) => return without(None, None),
            Ok(Some(project)) => project,
            Err(why) => return without(None, Some(why.kind().tag(&why))),
        };
        // Until the user has consented to this text, nothing that it names is looked at.
        let known = match self.store {
            Some(store) => store.knows(&project),
            None => {
                Consent::Unusable("the folder of the user is unknown: HOME is not set".to_owned())
            }
        };
        if let Some(notice) = known.notice(&project, folder) {
            let refusal = known.refusal(&project, folder);
            return Ok(Layered { refusal, ..without(Some(project), Some(notice))? });
        }
        let sources = self.user.clone().into_iter().chain([project.source.clone()]);
        let mut merged = Configuration::load(sources, built_ins())?;
        let consent = match Evidence::gather(&project, &mut merged, surroundings) {
            Ok(evidence) => {
                merged.agree(&project.source, &evidence);
                self.store.map_or(Consent::Missing, |store| store.consent(&evidence))
            }
            Err(why) => Consent::Unusable(why.to_string()),
        };
        let refusal = consent.refusal(&project, folder);
        match consent.notice(&project, folder) {
            None => Ok(Layered {
                configuration: merged,
                project: Some(project),
                notice: None,
                refusal: None,
            }),
            Some(notice) => Ok(Layered { refusal, ..without(Some(project), Some(notice))? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::tests::TestFolder;

    const USER: &str =
        "default = \"own\"\n[components.x]\ncommand = \"x\"\n[chains.own]\nagent = \"x\"\n";
    const PROJECT: &str = "default = \"theirs\"\n[components.y]\ncommand = \"./y.sh\"\nenv-file = \".env\"\n\
                           [chains.theirs]\nagent = \"y\"\n";

    struct Setup(TestFolder);

    impl Setup {
        fn new(name: &str) -> Setup {
            let folder = TestFolder::new(name);
            folder.write("user/conductor.toml", USER);
            folder.write("project/sub/.conductor.toml", PROJECT);
            folder.write("project/sub/y.sh", "1");
            folder.write("project/sub/.env", "A=1");
            Setup(folder)
        }

        fn store(&self) -> Store {
            Store::new(self.0.path("state"))
        }

        fn surroundings(&self) -> Surroundings {
            Surroundings::new(self.0.path("project/sub"), [("PATH", "/bin")], "linux")
        }

        fn load(&self) -> Result<Layered, Diagnostic> {
            let (store, path) = (self.store(), self.0.path("user/conductor.toml"));
            let user = Some(Source::read(&path)?);
            let layers =
                Layers { user, user_path: Some(&path), store: Some(&store), built_ins: &[] };
            layers.load(&self.surroundings())
        }

        fn default_and_notice(&self) -> (String, Option<String>) {
            let loaded = self.load().expect("valid");
            let default = loaded.configuration.default_chain().expect("set").value.clone();
            assert_eq!(default == "own", loaded.configuration.sources().len() == 1);
            (default, loaded.notice)
        }

        /// The file of the project is not used, and the notice contains this.
        fn refused(&self, why: &str) {
            let (default, notice) = self.default_and_notice();
            assert_eq!(default, "own");
            let notice = notice.expect("a notice");
            assert!(notice.contains(why), "{notice}");
        }

        fn consent(&self) {
            let project = project::find(&self.0.path("project/sub"), None);
            let project = project.expect("readable").expect("found");
            let sources = [project.source.clone()];
            let mut configuration = Configuration::load(sources, []).expect("valid");
            let evidence = Evidence::gather(&project, &mut configuration, &self.surroundings());
            self.store().give(&evidence.expect("small")).expect("written");
        }
    }

    #[test]
    fn the_file_of_a_project_is_used_after_consent_and_until_a_file_changes() {
        let setup = Setup::new("layers");
        setup.refused("you do not trust this project yet");
        setup.consent();
        assert_eq!(setup.default_and_notice(), ("theirs".to_owned(), None));
        for (file, before) in [("y.sh", "1"), (".env", "A=1"), (".conductor.toml", PROJECT)] {
            let path = format!("project/sub/{file}");
            setup.0.write(&path, "[components.evil]");
            setup.refused(&format!("{file} has changed since you agreed"));
            std::fs::remove_file(setup.0.path(&path)).expect("ours");
            if file != ".conductor.toml" {
                setup.refused(&format!("{file} does not exist any more since"));
            }
            setup.0.write(&path, before);
            assert_eq!(setup.default_and_notice().0, "theirs");
        }
        // A nearer file asks again, and so does one that is found after the nearest has gone.
        std::fs::rename(
            setup.0.path("project/sub/.conductor.toml"),
            setup.0.path("project/.conductor.toml"),
        )
        .expect("ours");
        setup.refused("you do not trust this project yet");
    }

    #[test]
    fn an_env_file_that_appears_after_the_check_is_not_read() {
        let setup = Setup::new("layers-env");
        std::fs::remove_file(setup.0.path("project/sub/.env")).expect("ours");
        setup.consent();
        let loaded = setup.load().expect("valid").configuration;
        setup.0.write("project/sub/.env", "LD_PRELOAD=./evil.so");
        let chain = loaded.chain("theirs", &setup.surroundings()).expect("a chain");
        let error = loaded.launch(&chain.entries[0], &setup.surroundings()).expect_err("missing");
        assert!(error.to_string().contains("it does not exist"), "{error}");
    }

    #[test]
    fn an_env_file_that_changes_after_the_check_is_not_read_again() {
        let setup = Setup::new("layers-swap");
        setup.consent();
        let loaded = setup.load().expect("valid").configuration;
        setup.0.write("project/sub/.env", "LD_PRELOAD=./evil.so");
        let chain = loaded.chain("theirs", &setup.surroundings()).expect("a chain");
        let launch = loaded.launch(&chain.entries[0], &setup.surroundings()).expect("complete");
        assert_eq!(launch.env, [("A".to_owned(), "1".to_owned())]);
    }

    /// Whatever the file of the project is, the chain of the user runs.
    #[test]
    fn a_file_of_a_project_that_cannot_be_used_is_no_error() {
        let setup = Setup::new("layers-wrong");
        let deep = format!("a = {}", "[".repeat(100_000));
        let huge = "#".repeat(2 << 20);
        let cases: [(&[u8], &str); 5] = [
            (b"nonsense", "It has an error as well"),
            (b"\xff", "not UTF-8"),
            (deep.as_bytes(), "It has an error as well"),
            (huge.as_bytes(), "more than 1048576 bytes"),
            (b"", "It only has settings"),
        ];
        for (bytes, why) in cases {
            setup.0.write("project/sub/.conductor.toml", bytes);
            setup.refused(why);
        }
        setup.0.write("project/sub/.conductor/conductor.toml", "");
        setup.refused("two configuration files");
    }

    #[test]
    fn without_a_place_for_consents_no_project_is_trusted() {
        let setup = Setup::new("layers-no-store");
        let layers = Layers { user: None, user_path: None, store: None, built_ins: &[] };
        let loaded = layers.load(&setup.surroundings()).expect("valid");
        assert!(loaded.configuration.sources().is_empty() && loaded.project.is_some());
        assert!(loaded.notice.expect("a notice").contains("HOME is not set"));
    }
}
