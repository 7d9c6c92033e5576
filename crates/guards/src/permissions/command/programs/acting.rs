//! Arguments that make a program write files or run commands.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::permissions::command::files::reads_format;

use super::{
    declares, evaluates_names, is_dangerous_variable, is_flag, is_harmless_assignment, sed,
};

/// The commands of git itself. Any other name may be an alias, or a program `git-NAME`.
static GIT_COMMANDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "
    add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore
    check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone commit
    commit-graph commit-tree config count-objects describe diff diff-files diff-index diff-tree
    difftool fetch filter-branch for-each-ref format-patch fsck gc grep hash-object help init
    interpret-trailers log ls-files ls-remote ls-tree maintenance merge merge-base merge-file
    merge-tree mergetool mv name-rev notes pack-refs prune pull push range-diff read-tree rebase
    reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm
    send-email shortlog show show-branch show-ref sparse-checkout stash status stripspace
    submodule switch symbolic-ref tag update-index update-ref var verify-commit verify-tag
    version whatchanged worktree write-tree
    "
    .split_whitespace()
    .collect()
});

/// Why arguments of a program that a rule leaves open must not be allowed. `None` if they may.
pub(crate) fn acting(name: &str, open: &[&str], all: &[&str]) -> Option<&'static str> {
    if name == "git"
        && let Some(why) = acting_git(open, all)
    {
        return Some(why);
    }
    let flags = acting_flags(name, all);
    let is = |word: &str, flag: &str| match name {
        // For these programs, the number of dashes does not matter.
        "npm" | "pnpm" | "yarn" | "go" => is_flag(word, flag) || is_long_flag(word, flag),
        _ => is_flag(word, flag),
    };
    if open.iter().any(|word| flags.iter().any(|flag| is(word, flag))) {
        return Some("an argument makes the program write files or run commands");
    }
    match name {
        "uniq" if open.iter().filter(|it| !it.starts_with('-')).count() > 1 => {
            Some("`uniq` writes its second file")
        }
        "sed" | "gsed" if !sed::only_prints(open) => {
            Some("the script of `sed` can write files or run commands")
        }
        "xxd" if open.iter().filter(|it| !it.starts_with('-')).count() > 1 => {
            Some("`xxd` writes its second file")
        }
        "hostname" if open.iter().any(|it| !it.starts_with('-')) => {
            Some("`hostname` sets the name of the machine")
        }
        _ if declares(name) => open
            .iter()
            .any(|it| is_dangerous_variable(it.split(['=', '+', '[']).next().unwrap_or_default()))
            .then_some("a variable decides which programs run"),
        _ if evaluates_names(name) => {
            if sets_dangerous_variable(name, open) {
                return Some("a variable decides which programs run");
            }
            open.iter()
                .any(|it| it.contains("$(") || it.contains('`'))
                .then_some("the shell may evaluate an argument a second time")
        }
        "curl" if open.iter().any(|it| it.contains("%output{")) || reads_format(open) => {
            Some("the format of `curl` can write files")
        }
        "curl" if open.iter().any(|it| it.starts_with("--expand-") || it.starts_with("--va")) => {
            Some("`curl` puts variables into its options")
        }
        "just" if open.iter().any(|it| !it.starts_with('-') && it.contains('/')) => {
            Some("`just` can run the recipes of another folder")
        }
        "cargo" if open.iter().any(|it| it.starts_with('+')) => {
            Some("another toolchain of `cargo` is another program")
        }
        "awk" | "gawk" | "mawk" | "nawk" if open.iter().any(|it| awk_acts(it)) => {
            Some("the script of `awk` can write files or run commands")
        }
        "psql" | "mysql" | "mariadb" | "sqlite3" if open.iter().any(|it| sql_acts(it)) => {
            Some("the script of the program can write files or run commands")
        }
        "make" | "gmake" | "nmake" | "just" | "rake" if open.iter().any(|it| sets_variable(it)) => {
            Some("a variable of the program can make it run other commands")
        }
        "less" | "more" | "vi" | "vim" | "nvim" if open.iter().any(|it| it.starts_with('+')) => {
            Some("an argument of the program is a command")
        }
        _ => None,
    }
}

/// Whether a builtin sets a variable that decides which programs run: `read PATH`, `printf -v PATH`.
fn sets_dangerous_variable(name: &str, open: &[&str]) -> bool {
    let sets = |word: &&str| {
        // A value may follow its option without a space: `-vPATH`.
        let value = word.strip_prefix('-').and_then(|it| it.get(1..)).unwrap_or(word);
        is_dangerous_variable(value.split(['=', '+', '[']).next().unwrap_or_default())
    };
    match name {
        "test" | "[" | "trap" => false,
        "printf" => {
            open.first().is_some_and(|it| it.starts_with("-v")) && open.iter().take(2).any(sets)
        }
        _ => open.iter().any(sets),
    }
}

/// Whether a word is this flag with any number of dashes, perhaps abbreviated.
fn is_long_flag(word: &str, flag: &str) -> bool {
    let Some(name) = word.strip_prefix('-') else { return false };
    let name = name.trim_start_matches('-').split('=').next().unwrap_or_default();
    let flag = flag.trim_start_matches('-');
    name == flag || name.len() >= 3 && flag.starts_with(name)
}

/// Whether a script of `awk` does more than print: it runs a command, or writes or reads another file.
fn awk_acts(script: &str) -> bool {
    // The separator of fields.
    if script.len() < 3 || script.starts_with("-F") {
        return false;
    }
    let plain = script.replace("||", "");
    // `@include`, `@load`, and calls of functions by a name that is the value of a variable. `@/x/` is only a pattern.
    let loads = plain.match_indices('@').any(|(at, _)| !plain[at + 1..].starts_with('/'));
    loads
        || ["system", "getline", "|", "close("].iter().any(|it| plain.contains(it))
        || plain.contains("print") && plain.contains('>')
}

/// Whether a script for a database runs commands or writes files.
fn sql_acts(script: &str) -> bool {
    let script = script.to_lowercase();
    ["\\", "program", "system", "source ", "outfile", "dumpfile", "load_", "writefile", "edit("]
        .iter()
        .any(|it| script.contains(it))
        || script.lines().any(|it| it.trim_start().starts_with('.'))
}

/// Whether an argument sets a variable that may decide which programs run: `SHELL=./x`.
fn sets_variable(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    let name = name.trim_end_matches([':', '+', '?', '!']);
    !word.starts_with('-') && !is_harmless_assignment(name, Some(value))
}

fn acting_git(open: &[&str], all: &[&str]) -> Option<&'static str> {
    const GLOBAL: [&str; 9] = [
        "-c",
        "-C",
        "--exec-path",
        "--config-env",
        "--git-dir",
        "--work-tree",
        "-p",
        "--paginate",
        "--namespace",
    ];
    let position = git_command_position(all);
    let command = position.map(|at| all[at]);
    let before = position.unwrap_or(all.len());
    let global = |word: &&str| GLOBAL.iter().any(|flag| is_flag(word, flag));
    if open.iter().any(|word| all[..before].contains(word) && global(word)) {
        return Some("an option of git can run commands");
    }
    let Some(command) = command else {
        return (!open.is_empty() && !all.iter().all(|it| it.starts_with('-')))
            .then_some("the command of git is not known");
    };
    if open.contains(&command) && !GIT_COMMANDS.contains(command) {
        return Some("git may have an alias of this name");
    }
    if open.iter().any(|it| it.starts_with("ext::") || it.starts_with("fd::")) {
        return Some("git runs the command of this address");
    }
    let positional = || open.iter().filter(|it| !it.starts_with('-')).count();
    match command {
        "config"
            if positional() > 1
                || open.iter().any(|it| is_flag(it, "--edit") || is_flag(it, "-e")) =>
        {
            Some("`git config` can make git run commands")
        }
        "submodule" | "bisect" | "filter-branch" | "difftool" | "mergetool" | "maintenance"
        | "send-email"
            if !open.is_empty() =>
        {
            Some("this command of git can run programs")
        }
        _ => None,
    }
}

/// The command of git: the first word that is neither a global option nor its value.
pub(crate) fn git_command<'w>(arguments: &[&'w str]) -> Option<&'w str> {
    git_command_position(arguments).map(|at| arguments[at])
}

fn git_command_position(arguments: &[&str]) -> Option<usize> {
    const WITH_VALUE: [&str; 9] = [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
        "--super-prefix",
        "--attr-source",
    ];
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        if !word.starts_with('-') {
            return Some(at);
        }
        at += if WITH_VALUE.contains(word) { 2 } else { 1 };
    }
    None
}

/// Flags that make a program write files or run commands.
#[rustfmt::skip] // the flags of a program side by side
fn acting_flags(name: &str, all: &[&str]) -> &'static [&'static str] {
    match name {
        "find" => &[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ],
        "fd" | "fdfind" => &["-x", "-X", "--exec", "--exec-batch"],
        "sort" | "gsort" => &["-o", "--output", "--compress-program", "-T"],
        "shuf" | "tree" | "sdiff" => &["-o", "--output"],
        "split" => &["--filter"],
        "yq" => &["-i", "--inplace", "--in-place"],
        "rg" => &["--pre", "--hostname-bin"],
        "ag" | "ack" | "bat" | "delta" => &["--pager"],
        "tar" | "gtar" | "bsdtar" => &[
            "--checkpoint-action", "--to-command", "-I", "--use-compress-program", "--rsh-command",
            "--rmt-command", "-F", "--info-script", "--new-volume-script",
        ],
        "rsync" => &[
            "-e", "--rsh", "--rsync-path", "-M", "--remote-option", "--log-file", "--write-batch",
            "--only-write-batch", "--config",
        ],
        "scp" | "sftp" => &["-S", "-o", "-F", "-D"],
        "ssh" => &["-o", "-F", "-E"],
        "man" => &["-P", "--pager", "-H", "--html", "-C", "--config-file"],
        "less" | "more" => {
            &["-o", "-O", "--log-file", "--LOG-FILE", "-k", "--lesskey-file", "--lesskey-src"]
        }
        "curl" => &[
            "-o", "-O", "--output", "--remote-name", "--remote-name-all", "--output-dir", "-K",
            "--config", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii",
            "--stderr", "--libcurl", "--etag-save", "-T", "--upload-file", "--hsts", "--alt-svc",
            "--engine",
        ],
        "wget" => &[
            "-O", "--output-document", "-o", "--output-file", "-a", "--append-output", "-e",
            "--execute", "--config", "--use-askpass", "-i", "--input-file", "-P",
            "--directory-prefix", "--post-file", "--body-file", "--save-cookies", "--hsts-file",
            "--rejected-log", "--warc-file",
        ],
        "date" => &["-s", "--set"],
        "file" => &["-C", "--compile"],
        "zip" => &["-T", "-TT", "--unzip-command"],
        "tcpdump" => &["-z", "-w", "-W"],
        "go" => &[
            "-exec", "-toolexec", "-vettool", "-overlay", "-o", "-C", "-modfile", "-ldflags", "-gccgoflags",
            "-compiler", "-pkgdir", "-coverprofile", "-cpuprofile", "-memprofile", "-blockprofile",
            "-mutexprofile", "-trace", "-outputdir",
        ],
        "cargo" => &["--config", "-Z", "--manifest-path", "-C", "--target-dir", "--artifact-dir"],
        "npm" | "pnpm" | "yarn" => &[
            "--script-shell", "--node-options", "--prefix", "-C", "--userconfig", "--globalconfig",
            "--init-module", "--shell", "--git", "--node-gyp", "--editor", "--browser", "--dir", "--cwd",
            "--call",
        ],
        "just" => &[
            "-f", "--justfile", "-d", "--working-directory", "--shell", "--shell-arg", "--shell-command", "--set",
            "-c", "--command", "-e", "--edit", "--chooser", "--choose", "--dotenv-path", "--dotenv-filename", "-E",
            "-g", "--global-justfile", "--init", "--tempdir", "--cygpath", "--fmt",
        ],
        "make" | "gmake" | "nmake" => &[
            "-C", "--directory", "-f", "--file", "--makefile", "-I", "--include-dir", "-E", "--eval",
        ],
        "pytest" | "py.test" => &[
            "-p", "-c", "--config-file", "--rootdir", "--confcutdir", "-o", "--override-ini",
        ],
        "awk" | "gawk" | "mawk" | "nawk" => &[
            "-f", "--file", "-i", "--include", "-l", "--load", "-E", "--exec", "-o", "--pretty-print",
            "-d", "--dump-variables", "-p", "--profile", "-D", "--debug", "-W", "--source",
        ],
        "psql" => &["-f", "--file", "-o", "--output", "-L", "--log-file", "-v", "--set"],
        "sqlite3" => &["-init", "-cmd"],
        "kubectl" => &["--kubeconfig"],
        "iconv" => &["-o", "--output"],
        "csplit" => &["-f", "--prefix"],
        "openssl" => &["-out", "-keyout", "-writerand", "-engine", "-provider", "-config"],
        "gpg" => &["-o", "--output", "--homedir", "--options", "--exec-path"],
        "node" | "nodejs" => &["-r", "--require", "--import", "--loader", "--experimental-loader"],
        "docker" | "podman" => &[
            "-v", "--volume", "--mount", "--privileged", "--entrypoint", "-H", "--host", "--config",
        ],
        "env" => &["-S", "--split-string", "-C", "--chdir", "-i", "-u"],
        "git" => acting_git_flags(git_command(all).unwrap_or_default()),
        _ => &[],
    }
}

/// Flags that make a command of git write files or run commands.
fn acting_git_flags(command: &str) -> &'static [&'static str] {
    match command {
        "grep" => &["-O", "--open-files-in-pager"],
        "rebase" => &["-x", "--exec", "-i", "--interactive", "-s", "--strategy"],
        "push" => &["--receive-pack", "--exec"],
        "fetch" | "pull" | "ls-remote" => &["--upload-pack", "--exec"],
        "clone" => &["--upload-pack", "-u", "-c", "--config", "--template"],
        "init" => &["--template"],
        "format-patch" => &["-o", "--output-directory", "--output", "--ext-diff", "--textconv"],
        "archive" => &["--exec", "-o", "--output", "--remote"],
        "commit" | "tag" => &[],
        "merge" => &["-s", "--strategy"],
        _ => &["--output", "--ext-diff", "--textconv", "--upload-pack", "--exec"],
    }
}
