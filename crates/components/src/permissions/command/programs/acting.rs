//! Arguments that make a program write files or run commands.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::{declares, evaluates_names, is_dangerous_variable, is_flag, sed};

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
    if open.iter().any(|word| flags.iter().any(|flag| is_flag(word, flag))) {
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

fn acting_git(open: &[&str], all: &[&str]) -> Option<&'static str> {
    const GLOBAL: [&str; 8] = [
        "-c",
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
        "rsync" => &["-e", "--rsh", "--rsync-path"],
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
        ],
        "wget" => &[
            "-O", "--output-document", "-o", "--output-file", "-a", "--append-output", "-e",
            "--execute", "--config", "--use-askpass", "-i", "--input-file", "-P",
            "--directory-prefix", "--post-file", "--body-file",
        ],
        "date" => &["-s", "--set"],
        "file" => &["-C", "--compile"],
        "zip" => &["-T", "-TT", "--unzip-command"],
        "tcpdump" => &["-z", "-w", "-W"],
        "go" => &["-exec", "-toolexec", "-vettool", "-overlay", "-o"],
        "cargo" => &["--config", "-Z", "--manifest-path", "-C"],
        "npm" | "pnpm" | "yarn" => &[
            "--script-shell", "--node-options", "--prefix", "-C", "--userconfig", "--globalconfig",
            "--init-module",
        ],
        "node" | "nodejs" => &["-r", "--require", "--import", "--loader", "--experimental-loader"],
        "docker" | "podman" => &["-v", "--volume", "--mount", "--privileged", "--entrypoint"],
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
        "archive" => &["--exec", "-o", "--output", "--remote"],
        "commit" | "tag" => &[],
        "merge" => &["-s", "--strategy"],
        _ => &["--output", "--ext-diff", "--textconv", "--upload-pack", "--exec"],
    }
}
