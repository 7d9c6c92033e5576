//! The install script on the bare system: what it installs, and what it refuses.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::bare_system::BareSystem;
use super::server::Server;
use super::{INSTALL_SCRIPT, Release, SUMS, emulated_target, expect, host_target};
use crate::tool::{at, run};

/// The version of a later release.
const LATER: &str = "99.0.0";

/// What an installation in the home folder consists of.
const INSTALLED: [&str; 8] = [
    "/root/.local/bin/conductor",
    "/root/.local/share/bash-completion/completions/conductor",
    "/root/.local/share/zsh/site-functions/_conductor",
    "/root/.local/share/fish/vendor_completions.d/conductor.fish",
    "/root/.local/share/conductor/conductor.ps1",
    "/root/.local/share/man/man1/conductor.1",
    "/root/.local/share/doc/conductor/LICENSE-MIT",
    "/root/.local/share/doc/conductor/sbom.cdx.json",
];

/// A test of one property.
type Case<'a> = fn(&InstallTest<'a>) -> Result<(), String>;

const INSTALL: &str = "sh /install.sh --from /release";

/// The install script, a release, and the system on which it is installed.
pub struct InstallTest<'a> {
    release: &'a Release,
    system: &'a BareSystem,
    server: Server,
    /// The name of the archive for this machine.
    archive: String,
}

impl<'a> InstallTest<'a> {
    pub fn new(release: &'a Release, system: &'a BareSystem, out: &Path) -> Result<Self, String> {
        let archive = format!("{}.tar.gz", release.archive_name(host_target()?));
        let server = Server::start(out, &release.version)?;
        copy_files(out, &system.path("/release"))?;
        let script = fs::read_to_string(INSTALL_SCRIPT).map_err(at(Path::new(INSTALL_SCRIPT)))?;
        write(&system.path("/install.sh"), &script)?;
        let releases = server.url("releases");
        let line = concat!("RELEASES='", env!("CARGO_PKG_REPOSITORY"), "/releases'");
        let local = script.replace(line, &format!("RELEASES={releases}"));
        write(&system.path("/install-from-releases.sh"), &local)?;
        Ok(InstallTest { release, system, server, archive })
    }

    pub fn run_all(&self) -> Result<(), String> {
        let cases: [(&str, Case<'_>); 18] = [
            ("without curl and wget", Self::without_download_program),
            ("from a folder", Self::local_folder),
            ("a second run changes nothing", Self::twice),
            ("wrong checksums and incomplete files are refused", Self::faulty_releases),
            ("faulty downloads are refused", Self::faulty_downloads),
            ("other platforms", Self::other_platforms),
            ("invalid options and folders are refused", Self::invalid_options),
            ("an incomplete script does nothing", Self::incomplete_script),
            ("an upgrade while the program runs", Self::upgrade),
            ("several versions", Self::several_versions),
            ("uninstall", Self::uninstall),
            ("downloads with curl and with wget", Self::downloads),
            ("other folders", Self::other_folders),
            ("several paths of one folder", Self::several_paths),
            ("names with quotes and spaces", Self::odd_names),
            ("another program of the same name is kept", Self::another_program),
            ("other forms of SHA256SUMS", Self::other_sums),
            ("a signal removes the temporary files", Self::signal),
        ];
        for (title, case) in cases {
            println!("install.sh: {title}");
            case(self).map_err(|error| format!("install.sh: {title}: {error}"))?;
        }
        Ok(())
    }

    /// Checks that a command fails with these words, and changes no file.
    fn refused(&self, script: &str, words: &str) -> Result<(), String> {
        let before = self.system.snapshot()?;
        let done = self.system.run(script)?;
        if done.success {
            return Err(format!("`{script}` was not refused:\n{}", done.text));
        }
        expect(&done.text, words)?;
        match self.system.snapshot()? == before {
            true => Ok(()),
            false => Err(format!("`{script}` was refused but has changed files")),
        }
    }

    fn without_download_program(&self) -> Result<(), String> {
        for program in ["curl", "wget"] {
            self.hide(program)?;
        }
        let url = self.server.url("files");
        self.refused(&format!("sh /install.sh --from {url}"), "curl and wget are missing")
    }

    fn local_folder(&self) -> Result<(), String> {
        let text = self.system.succeed(INSTALL)?;
        let version = &self.release.version;
        expect(&text, &format!("conductor {version} is installed: /root/.local/bin/conductor"))?;
        expect(&text, "export PATH=\"/root/.local/bin:$PATH\"")?;
        for path in INSTALLED {
            fs::symlink_metadata(self.system.path(path)).map_err(at(Path::new(path)))?;
        }
        self.works("/root/.local/bin/conductor")
    }

    /// Checks that an installed program is the one of this release, and that a chain answers.
    fn works(&self, program: &str) -> Result<(), String> {
        let version = self.system.succeed(&format!("{program} --version"))?;
        expect(&version, &format!("conductor {}\n", self.release.version))?;
        let details = self.system.succeed(&format!("{program} --version --verbose"))?;
        expect(&details, &format!("commit: {} (", self.release.commit))?;
        let answer = self.system.succeed(&format!("{program} try --prompt hello"))?;
        expect(&answer, "Hello!")
    }

    fn twice(&self) -> Result<(), String> {
        let before = self.system.snapshot()?;
        self.system.succeed(&format!("umask 077; {INSTALL}"))?;
        let mode = self.system.succeed("stat -c %a /root/.local/bin/conductor")?;
        expect(&mode, "755")?;
        match self.system.snapshot()? == before {
            true => Ok(()),
            false => Err("the files are different after a second run".to_owned()),
        }
    }

    /// Copies the release, changes it, and checks that it is refused.
    fn refuses_release(
        &self,
        words: &str,
        change: impl Fn(&Path) -> Result<(), String>,
    ) -> Result<(), String> {
        let folder = self.system.path("/faulty");
        copy_files(&self.system.path("/release"), &folder)?;
        change(&folder)?;
        self.refused("sh /install.sh --from file:///faulty/", words)?;
        fs::remove_dir_all(&folder).map_err(at(&folder))
    }

    fn faulty_releases(&self) -> Result<(), String> {
        let archive = &self.archive;
        let wrong = format!("the checksum of {archive} is wrong, so it is not installed");
        self.refuses_release(&wrong, |folder| {
            edit(&folder.join(archive), |content| {
                let middle = content.len() / 2;
                content[middle] ^= 1;
            })
        })?;
        self.refuses_release(&wrong, |folder| {
            edit(&folder.join(archive), |content| content.truncate(content.len() - 1))
        })?;
        self.refuses_release(&wrong, |folder| {
            change_sums(folder, |line| match line.ends_with(archive.as_str()) {
                true => format!("{}  {archive}", "0".repeat(64)),
                false => line.to_owned(),
            })
        })?;
        self.refuses_release("has no checksum of an archive conductor-VERSION-", |folder| {
            change_sums(folder, |line| line.replace(archive, "other.tar.gz"))
        })?;
        for sum in ["", "123", &"x".repeat(64), &"0".repeat(63)] {
            self.refuses_release("SHA256SUMS", |folder| {
                write(&folder.join(SUMS), &format!("{sum}  {archive}\n"))
            })?;
        }
        // The last line of an incomplete download has no end.
        self.refuses_release("has no checksum", |folder| {
            let text = format!("{}  {archive}", "0".repeat(64));
            write(&folder.join(SUMS), &text)
        })?;
        for (name, words) in [(SUMS, "cannot get"), (archive.as_str(), "cannot get")] {
            self.refuses_release(words, |folder| {
                fs::remove_file(folder.join(name)).map_err(at(&folder.join(name)))
            })?;
        }
        self.refuses_release("is not version", |folder| {
            self.write_release(folder, "98.0.0", "conductor 1.2.3").map(drop)
        })
    }

    fn faulty_downloads(&self) -> Result<(), String> {
        self.refused("sh /install.sh --from http://example.org/x", "use an https URL")?;
        self.refused("sh /install.sh --from ftp://127.0.0.1/x", "use an https URL")?;
        self.refused("sh /install.sh --from http://localhost:1@example.org", "use an https URL")?;
        let note = "#!/bin/sh\necho 'note: TLS certificate validation not implemented' >&2\n";
        program(&self.system.path("/careless/wget"), note)?;
        self.refused(
            "PATH=/careless:$PATH sh /install.sh --from https://localhost/x",
            "this wget does not check the certificate of the server: install curl first",
        )?;
        for program in ["curl", "wget"] {
            self.show(program)?;
            for (path, words) in [("cut", &*self.archive), ("nowhere", "cannot get")] {
                let url = self.server.url(path);
                self.refused(&format!("CONDUCTOR_DOWNLOAD_URL={url} sh /install.sh"), words)?;
            }
            self.hide(program)?;
        }
        Ok(())
    }

    fn other_platforms(&self) -> Result<(), String> {
        for (system, machine, words) in [
            ("Darwin", "arm64", "there is no archive for Darwin. Install Rust"),
            ("FreeBSD", "amd64", "there is no archive for FreeBSD"),
            ("Linux", "riscv64", "there is no archive for Linux on riscv64"),
            ("Linux", "armv7l", "there is no archive for Linux on armv7l"),
        ] {
            self.pretend(system, machine)?;
            self.refused(&format!("PATH=/pretend:$PATH {INSTALL}"), words)?;
        }
        // The program for the other processor runs only if this machine has an emulator for it.
        let other = emulated_target()?;
        self.pretend("Linux", other.split('-').next().unwrap_or_default())?;
        let text = self.system.run(&format!("PATH=/pretend:$PATH {INSTALL}"))?.text;
        expect(&text, &format!("Installing {}.tar.gz", self.release.archive_name(other)))?;
        self.system.succeed(INSTALL)?;
        self.works("/root/.local/bin/conductor")
    }

    /// Makes `uname` in /pretend describe another machine.
    fn pretend(&self, system: &str, machine: &str) -> Result<(), String> {
        let script = format!("#!/bin/sh\n[ \"$1\" = -s ] && echo {system} || echo {machine}\n");
        program(&self.system.path("/pretend/uname"), &script)
    }

    fn invalid_options(&self) -> Result<(), String> {
        for (options, words) in [
            ("--verison 1", "unknown option --verison"),
            ("--version", "--version needs a value"),
            ("--version latest", "latest is not a version"),
            ("--version 1/../2", "1/../2 is not a version"),
            ("--prefix=", "the value of --prefix is empty"),
            ("--from /nowhere", "/nowhere is not a folder"),
            ("--from /release --version 1.2.3", "no checksum of an archive conductor-1.2.3-"),
            ("--from /release --bin-dir /etc/passwd/bin", "cannot create the folder"),
            ("--from /release --bin-dir /proc/self", "cannot write to /proc/self"),
        ] {
            self.refused(&format!("sh /install.sh {options}"), words)?;
        }
        self.refused(&format!("env -u HOME {INSTALL}"), "HOME is not set")?;
        self.refused(&format!("{INSTALL} --prefix '/opt/a\n/etc'"), "contains a line break")?;
        self.refused(&format!("TMPDIR=/nowhere {INSTALL}"), "set the environment variable TMPDIR")?;
        expect(&self.system.succeed("sh /install.sh --help")?, "usage: sh install.sh")
    }

    /// Runs the first bytes of the script, for many lengths.
    fn incomplete_script(&self) -> Result<(), String> {
        let before = self.system.snapshot()?;
        let script = "
            export CONDUCTOR_DOWNLOAD_URL=/release
            length=$(wc -c </install.sh)
            count=0
            for cut in $(seq 1 97 $length) $(seq $((length - 20)) $((length - 2))); do
                head -c $cut /install.sh | sh -s -- --prefix /usr/local >/dev/null 2>&1
                count=$((count + 1))
            done
            echo $count";
        let count = self.system.succeed(script)?;
        let enough = count.trim().parse::<u32>().is_ok_and(|it| it > 100);
        match enough && self.system.snapshot()? == before {
            true => Ok(()),
            false => Err(format!("after {count} incomplete runs, there are other files")),
        }
    }

    /// A later release replaces the program while it runs. A file that the later release lacks is removed.
    fn upgrade(&self) -> Result<(), String> {
        let command = "exec /root/.local/bin/conductor demo-agent";
        let mut agent = self.system.command(command);
        let agent = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut agent = agent.map_err(|error| format!("the running program: {error}"))?;
        let mut input = agent.stdin.take().ok_or("no pipe")?;
        let mut output = BufReader::new(agent.stdout.take().ok_or("no pipe")?);
        let mut ask = |method: &str, parameters: serde_json::Value| {
            let request = serde_json::json!(
                { "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
            let mut line = String::new();
            let written = writeln!(input, "{request}").and_then(|()| output.read_line(&mut line));
            written.map_err(|error| format!("the running program: {error}"))?;
            expect(&line, "\"result\"")
        };
        ask("initialize", serde_json::json!({ "protocolVersion": 1 }))?;
        self.write_release(&self.system.path("/later"), LATER, &format!("conductor {LATER}"))?;
        let text = self.system.succeed("sh /install.sh --from /later")?;
        expect(&text, &format!("conductor {LATER} is installed"))?;
        expect(&self.system.succeed("/root/.local/bin/conductor")?, LATER)?;
        ask("session/new", serde_json::json!({ "cwd": "/", "mcpServers": [] }))?;
        drop(input);
        let status = agent.wait().map_err(|error| format!("the running program: {error}"))?;
        expect(&status.to_string(), "exit status: 0")?;
        let fish = self.system.path(INSTALLED[3]);
        match fish.exists() {
            true => Err("the completion for fish is not in the later release".to_owned()),
            false => Ok(()),
        }
    }

    /// Writes a release whose program only prints a text. It has no completions.
    fn write_release(&self, folder: &Path, version: &str, text: &str) -> Result<(), String> {
        let name = format!("conductor-{version}-{}", host_target()?);
        program(&folder.join(&name).join("conductor"), &format!("#!/bin/sh\necho {text}\n"))?;
        write(&folder.join(&name).join("man/man1/conductor.1"), "later\n")?;
        let archive = format!("{name}.tar.gz");
        run(Command::new("tar")
            .arg("-czf")
            .arg(folder.join(&archive))
            .arg("-C")
            .arg(folder)
            .arg(&name))?;
        fs::remove_dir_all(folder.join(&name)).map_err(at(folder))?;
        write(&folder.join(SUMS), &super::super::archive::checksums(folder, &[archive])?)
    }

    fn several_versions(&self) -> Result<(), String> {
        let both = self.system.path("/both");
        copy_files(&self.system.path("/later"), &both)?;
        let later = fs::read_to_string(both.join(SUMS)).map_err(at(&both))?;
        copy_files(&self.system.path("/release"), &both)?;
        edit(&both.join(SUMS), |content| content.extend_from_slice(later.as_bytes()))?;
        self.refused("sh /install.sh --from /both", "several versions: choose one with --version")?;
        let version = &self.release.version;
        self.system.succeed(&format!("sh /install.sh --from /both --version v{version}"))?;
        self.works("/root/.local/bin/conductor")
    }

    fn uninstall(&self) -> Result<(), String> {
        let history = self.system.path("/root/.local/share/other");
        write(&history, "a file of the user")?;
        expect(&self.system.succeed("sh /install.sh --uninstall")?, "Conductor is removed")?;
        let left = self.system.snapshot()?;
        let ours = left.keys().find(|it| it.contains("conductor"));
        if let Some(path) = ours {
            return Err(format!("{path} is left"));
        }
        fs::remove_file(&history).map_err(at(&history))?;
        expect(&self.system.succeed("sh /install.sh --uninstall")?, "Nothing to remove")
    }

    fn downloads(&self) -> Result<(), String> {
        let version = &self.release.version;
        for program in ["curl", "wget"] {
            self.show(program)?;
            let files = self.server.url("files");
            for install in [
                format!("CONDUCTOR_DOWNLOAD_URL={files}/ sh /install.sh"),
                // As the documentation shows it: the script comes through a pipe.
                "cat /install-from-releases.sh | sh".to_owned(),
                format!("cat /install-from-releases.sh | sh -s -- --version {version}"),
            ] {
                self.system.succeed(&install)?;
                self.works("/root/.local/bin/conductor")?;
                self.system.succeed("sh /install.sh --uninstall")?;
            }
            self.refused("sh /install-from-releases.sh --version 1.2.3", "cannot get")?;
            self.hide(program)?;
        }
        Ok(())
    }

    fn other_folders(&self) -> Result<(), String> {
        self.system.succeed(&format!("cd /opt && umask 077 && {INSTALL} --prefix 'my folder'"))?;
        self.works("'/opt/my folder/bin/conductor'")?;
        expect(&self.system.succeed("stat -c %a '/opt/my folder/bin'")?, "755")?;
        fs::metadata(self.system.path("/opt/my folder/share/man/man1/conductor.1"))
            .map_err(at(Path::new("the manual page")))?;
        self.system.succeed("sh /install.sh --prefix '/opt/my folder' --uninstall")?;
        self.system
            .succeed(&format!("XDG_DATA_HOME=/opt/data {INSTALL} --bin-dir=/usr/local/bin"))?;
        self.works("/usr/local/bin/conductor")?;
        fs::metadata(self.system.path("/opt/data/man/man1/conductor.1"))
            .map_err(at(Path::new("the manual page")))?;
        // Another program of the same name comes first.
        let path = "PATH=/usr/local/bin:/root/.local/bin:$PATH";
        let text = self.system.succeed(&format!("{path} {INSTALL}"))?;
        expect(&text, "Your PATH finds another program first: /usr/local/bin/conductor")?;
        self.system.succeed("XDG_DATA_HOME=/opt/data sh /install.sh --uninstall")?;
        let text = self.system.succeed(&format!("{path} SHELL=/bin/zsh {INSTALL}"))?;
        expect(&text, "fpath=('/root/.local/share/zsh/site-functions' $fpath)")?;
        self.system.succeed("sh /install.sh --uninstall").map(drop)
    }

    /// An upgrade must not remove the new files because it knows the old ones under another path.
    fn several_paths(&self) -> Result<(), String> {
        self.system.succeed("mkdir /opt/place && ln -s /opt/place /opt/link")?;
        for path in ["place", "/opt/place/", "/opt/place//", "/opt/../opt/place", "/opt/link"] {
            self.system.succeed(&format!("cd /opt && {INSTALL} --prefix {path}"))?;
            self.works("/opt/place/bin/conductor")?;
        }
        let path = "PATH=/opt/place/bin:$PATH";
        let text = self.system.succeed(&format!("{path} {INSTALL} --prefix /opt/place/"))?;
        if text.contains("PATH") {
            return Err(format!("the folder is in the PATH, but the script says:\n{text}"));
        }
        self.system.succeed("sh /install.sh --prefix /opt/link --uninstall")?;
        let left = self.system.snapshot()?;
        match left.keys().find(|it| it.starts_with("opt/place")) {
            Some(path) => Err(format!("{path} is left")),
            None => Ok(()),
        }
    }

    /// The line that the script prints for the PATH works with every name of a folder.
    fn odd_names(&self) -> Result<(), String> {
        let script = format!(
            r#"home="/opt/o'd \"\$PATH\` *[x]" && mkdir "$home" && export HOME="$home"
            {INSTALL} >/opt/text && grep 'export PATH' /opt/text >/opt/line
            . /opt/line && conductor --version && sh /install.sh --uninstall
            rm -rf "$home" /opt/text /opt/line"#
        );
        let version = self.system.succeed(&script)?;
        expect(&version, &format!("conductor {}\n", self.release.version))
    }

    fn another_program(&self) -> Result<(), String> {
        let another = self.system.path("/opt/other/bin/conductor");
        program(&another, "#!/bin/sh\necho another program\n")?;
        let install = format!("{INSTALL} --prefix /opt/other");
        self.refused(&install, "exists, and this script has not installed it")?;
        fs::remove_file(&another).map_err(at(&another))?;
        self.system.succeed(&install)?;
        self.system.succeed("sh /install.sh --prefix /opt/other --uninstall").map(drop)
    }

    /// Checksums of other files, the mark of binary files, and the line ends of Windows.
    fn other_sums(&self) -> Result<(), String> {
        let folder = self.system.path("/sums");
        copy_files(&self.system.path("/release"), &folder)?;
        change_sums(&folder, |line| {
            let (sum, name) = line.split_once("  ").unwrap_or_default();
            format!("{sum} *debug-{name}\r\n{sum} *{name}\r\n{sum} *{name}.sig\r")
        })?;
        self.system.succeed("sh /install.sh --from /sums")?;
        self.works("/root/.local/bin/conductor")?;
        self.system.succeed("sh /install.sh --uninstall").map(drop)
    }

    /// A named pipe without a writer stops the script until the signal comes.
    fn signal(&self) -> Result<(), String> {
        self.system.succeed("mkdir /pipe && mkfifo /pipe/SHA256SUMS")?;
        for signal in ["TERM", "HUP", "INT"] {
            self.refused(&format!("timeout -s {signal} 1 sh /install.sh --from /pipe"), "")?;
            let left = self.system.succeed("find /tmp -name 'tmp.*'")?;
            if !left.is_empty() {
                return Err(format!("after {signal}, these files are left: {left}"));
            }
        }
        Ok(())
    }

    /// Takes a program out of the system's path.
    fn hide(&self, program: &str) -> Result<(), String> {
        let (there, hidden) = self.places(program);
        fs::rename(&there, hidden).map_err(at(&there))
    }

    fn show(&self, program: &str) -> Result<(), String> {
        let (there, hidden) = self.places(program);
        fs::rename(&hidden, there).map_err(at(&hidden))
    }

    fn places(&self, program: &str) -> (std::path::PathBuf, std::path::PathBuf) {
        (self.system.path(&format!("/usr/bin/{program}")), self.system.path(&format!("/{program}")))
    }
}

/// Copies the files of a release.
fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))?.flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(at(&entry.path()))?;
    }
    Ok(())
}

fn change_sums(folder: &Path, change: impl Fn(&str) -> String) -> Result<(), String> {
    let path = folder.join(SUMS);
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let lines = text.lines().map(|line| change(line) + "\n");
    write(&path, &lines.collect::<String>())
}

fn edit(path: &Path, change: impl Fn(&mut Vec<u8>)) -> Result<(), String> {
    let mut content = fs::read(path).map_err(at(path))?;
    change(&mut content);
    fs::write(path, content).map_err(at(path))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::write(path, text).map_err(at(path))
}

/// Writes an executable script.
fn program(path: &Path, text: &str) -> Result<(), String> {
    write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(at(path))
}
