//! An archive of a release. The same commit gives the same bytes: names are sorted, all files have the time of the
//! commit and belong to nobody, and no file names a path of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Release, dependencies, notices, sbom};
use crate::tool::{at, cargo_home, copy, output_of, root, run, write};

/// The shells, and the file names of their completions.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "conductor.bash"),
    ("zsh", "_conductor"),
    ("fish", "conductor.fish"),
    ("powershell", "conductor.ps1"),
    ("elvish", "conductor.elv"),
];

/// The files of the repository that are part of every archive.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// An archive for one platform.
#[derive(Debug)]
pub struct Archive<'a> {
    pub release: &'a Release,
    pub target: &'a str,
    pub program: &'a Path,
    /// The program for this machine. It writes the completions and the manual pages.
    pub own_program: &'a Path,
}

impl Archive<'_> {
    /// Writes the archive and the SBOM. Returns the names of both files.
    pub fn write(&self, out: &Path) -> Result<[String; 2], String> {
        let name = self.release.archive_name(self.target);
        let folder = out.join(&name);
        let _ = fs::remove_dir_all(&folder);
        self.write_folder(&folder)?;
        check_paths(&folder)?;
        let sbom = format!("{name}.cdx.json");
        copy(&folder.join("sbom.cdx.json"), &out.join(&sbom))?;
        pack(out, &name, &self.release.seconds)?;
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
        Ok([format!("{name}.tar.gz"), sbom])
    }

    /// Writes the files of the archive.
    fn write_folder(&self, folder: &Path) -> Result<(), String> {
        let program = folder.join("conductor");
        copy(self.program, &program)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(at(&program))?;
        for document in DOCUMENTS {
            copy(Path::new(document), &folder.join(document))?;
        }
        for (shell, file) in COMPLETIONS {
            let text = output_of(Command::new(self.own_program).args(["completions", shell]))?;
            write(&folder.join("completions").join(file), text)?;
        }
        let manual = folder.join("man/man1");
        fs::create_dir_all(&manual).map_err(at(&manual))?;
        output_of(Command::new(self.own_program).args(["man", "--dir"]).arg(&manual))?;
        let dependencies = dependencies::read(self.target)?;
        write(&folder.join("THIRD-PARTY-LICENSES.txt"), notices::text(&dependencies)?)?;
        write(&folder.join("RUST-STANDARD-LIBRARY.html"), notices::standard_library()?)?;
        let sum = checksums(folder, &["conductor".to_owned()])?;
        let sum = sum.split(' ').next().unwrap_or_default();
        let bom = sbom::document(self.release, self.target, &dependencies, &rust_version()?, sum);
        sbom::check(&bom)?;
        write(&folder.join("sbom.cdx.json"), format!("{bom:#}\n"))
    }
}

/// Packs a folder with files of the same age, owner and order as on every other machine, and compresses it.
fn pack(out: &Path, name: &str, seconds: &str) -> Result<(), String> {
    let archive = out.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{seconds}")]);
    tar.arg("--directory").arg(out).arg("--create").arg("--file").arg(&archive).arg(name);
    run(tar.env("LC_ALL", "C"))?;
    run(Command::new("gzip").args(["--no-name", "--force"]).arg(&archive))
}

/// The SHA-256 checksums of files, as `sha256sum --check` reads them.
pub fn checksums(folder: &Path, names: &[String]) -> Result<String, String> {
    output_of(Command::new("sha256sum").arg("--").args(names).current_dir(folder))
}

/// Checks that no file names the folders of the sources on this machine.
fn check_paths(folder: &Path) -> Result<(), String> {
    for place in [root().to_owned(), cargo_home()?] {
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--files-with-matches", "--fixed-strings", "--regexp"]);
        // It fails if no file matches.
        if let Ok(files) = output_of(grep.arg(&place).arg(folder)) {
            return Err(format!("these files contain the path {}:\n{files}", place.display()));
        }
    }
    Ok(())
}

/// The version of Rust: `1.91.0`.
fn rust_version() -> Result<String, String> {
    let text = output_of(Command::new("rustc").arg("--version"))?;
    let version = text.split_whitespace().nth(1);
    version.map(str::to_owned).ok_or_else(|| format!("rustc --version printed {text}"))
}
