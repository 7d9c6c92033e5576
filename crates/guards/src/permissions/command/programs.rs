//! What is known about programs: which run other programs, which write, which leave their arguments alone.

use std::collections::HashSet;
use std::sync::LazyLock;

mod acting;
mod fed_code;
pub(crate) mod sed;

pub(crate) use acting::{acting, git_command};
pub(crate) use fed_code::takes_code_from_input;

/// The name of a program without the ending of Windows, in lower case if names are compared without case.
pub(crate) fn plain_name(name: &str, case_blind: bool) -> String {
    let name = match name.rsplit_once('.') {
        Some((stem, ending)) if ENDINGS.iter().any(|it| ending.eq_ignore_ascii_case(it)) => stem,
        _ => name,
    };
    if case_blind { name.to_lowercase() } else { name.to_owned() }
}

const ENDINGS: [&str; 4] = ["exe", "cmd", "bat", "com"];

/// Programs that do not run their arguments.
static PASSIVE: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "
    : [ apply_patch applypatch basename cat cd chgrp chmod chown cksum clear cmp column comm cp cut date df diff
    dirname du echo egrep expr false fgrep file fmt fold grep head hostname id jq join ln ls
    md5sum mkdir mv nl paste printf pwd readlink realpath return rev rg rm rmdir seq sha1sum
    sha256sum sha512sum shift sleep sort stat sum tac tail tee test touch tr tree true tsort
    type uname unexpand uniq unlink wc which whoami yes
    "
    .split_whitespace()
    .collect()
});

/// Whether a program leaves its arguments alone: none of them is a command.
pub(crate) fn is_passive(name: &str) -> bool {
    PASSIVE.contains(name)
}

/// Whether a program runs the command that its arguments are.
pub(crate) fn is_wrapper(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        "
        builtin busybox chroot chrt command coproc direnv doas docker dotenv entr env eval exec
        fd find firejail flock gdb gosu ionice kubectl ltrace mise nice nix nohup nsenter
        parallel perf pkexec podman poetry rlwrap rtk runuser screen script setarch setpriv
        setsid sg socat ssh stdbuf strace su sudo systemd-run taskset then time timeout tmux
        toolbox trap tsocks unbuffer unshare uv uvx valgrind watch watchexec xargs xvfb-run
        "
        .split_whitespace()
        .collect()
    });
    NAMES.contains(name)
}

/// Whether a program reads commands in the language of a Unix shell.
pub(crate) fn is_shell(name: &str) -> bool {
    static SHELLS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        "
        sh bash rbash dash zsh ksh ksh93 mksh ash fish busybox yash oksh osh
        "
        .split_whitespace()
        .collect()
    });
    SHELLS.contains(name)
}

/// Whether a program reads code of another language, which is searched for words.
pub(crate) fn reads_code(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        "
        awk bpython bun cmd clojure csh deno ed elixir emacs emacsclient erl ex expect gawk gdb
        ghci groovy guile ipython iex jshell julia just lldb lua luajit m4 make gmake mawk mysql nawk
        node nodejs npx nu ocaml octave osascript perl php pnpx powershell psql pwsh python pypy
        rscript ruby runghc scala sed gsed sqlite3 swift tclsh tcsh ts-node tsx vi view vim nvim
        xonsh zx
        "
        .split_whitespace()
        .collect()
    });
    let stem = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    NAMES.contains(name) || NAMES.contains(stem)
}

/// Whether code of this program can run commands. False for an `awk` script without such a command, and for a plain
/// `sed` script.
pub(crate) fn code_runs_commands(name: &str, code: &str) -> bool {
    match name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.') {
        "awk" | "gawk" | "mawk" | "nawk" => {
            ["system", "|", "getline", "@"].iter().any(|it| code.contains(it))
        }
        "sed" | "gsed" => !sed::is_plain(code),
        _ => true,
    }
}

/// Whether a variable decides which programs run.
pub(crate) fn is_dangerous_variable(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        "
        PATH ENV IFS PAGER EDITOR VISUAL BROWSER NODE_OPTIONS NODE_PATH SHELL SHELLOPTS BASHOPTS PS0 PS1 PS4
        CDPATH HOME MANPAGER LESSOPEN LESSCLOSE LESS RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS GCONV_PATH ZDOTDIR
        RIPGREP_CONFIG_PATH TAR_OPTIONS GREP_OPTIONS MAKEFLAGS MAKEFILES GOFLAGS VIMINIT EXINIT OPENSSL_CONF COMSPEC
        PATHEXT GLOBIGNORE FPATH OLDPWD COMMANDS FUNCTIONS ALIASES GALIASES SALIASES OPTIONS TEXTDOMAIN TEXTDOMAINDIR
        CC CXX CPP PKG_CONFIG KUBECONFIG GOROOT GOPATH GOENV GOTOOLDIR GOWORK PSQLRC MYSQL_HOME JAVA_HOME JDK_HOME
        MAVEN_OPTS GRADLE_OPTS JAVA_OPTS GNUPGHOME INPUTRC AWKPATH AWKLIBPATH JULIA_LOAD_PATH ERL_FLAGS
        ELIXIR_ERL_OPTIONS PHPRC PHP_INI_SCAN_DIR HGRCPATH SVN_SSH CURL_HOME WGETRC
        "
        .split_whitespace()
        .collect()
    });
    const PREFIXES: [&str; 17] = [
        "PYTEST_",
        "PERLLIB",
        "DOCKER_",
        "LUA_INIT",
        "JDK_JAVA",
        "CGO_",
        "LD_",
        "DYLD_",
        "GIT_",
        "PYTHON",
        "PERL5",
        "BASH_",
        "CARGO_",
        "NPM_CONFIG_",
        "RUST",
        "XDG_",
        "TERMINFO",
    ];
    const ENDINGS: [&str; 12] = [
        "_COMMAND", "_PAGER", "_EDITOR", "_ASKPASS", "_WRAPPER", "_RSH", "_SHELL", "_BROWSER",
        "_PLUGINS", "_PRELOAD", "_RUNNER", "_LINKER",
    ];
    let name = name.to_ascii_uppercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    NAMES.contains(name.as_str())
        || PREFIXES.iter().any(|it| name.starts_with(it))
        || ENDINGS.iter().any(|it| name.ends_with(it))
}

/// Variables that change only what a program prints.
const HARMLESS: [&str; 23] = [
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "TERM",
    "TZ",
    "LANG",
    "LANGUAGE",
    "DEBUG",
    "VERBOSE",
    "NODE_ENV",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "RUST_TEST_THREADS",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_PROGRESS_WHEN",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
];

/// Whether an assignment before a command does not decide which programs run: the variable is known, or its value is a
/// number or a word such as `true`.
pub(crate) fn is_harmless_assignment(name: &str, value: Option<&str>) -> bool {
    const VALUES: [&str; 7] = ["", "true", "false", "yes", "no", "on", "off"];
    let is_switch =
        |it: &str| VALUES.contains(&it) || it.chars().all(|it| it.is_ascii_digit() || it == '.');
    !is_dangerous_variable(name)
        && (HARMLESS.contains(&name) || name.starts_with("LC_") || value.is_some_and(is_switch))
}

/// Builtins of the shell whose arguments may be evaluated a second time, as the names of variables.
pub(crate) fn evaluates_names(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        "
        [ declare export getopts let local mapfile printf read readarray readonly test typeset
        unset wait trap
        "
        .split_whitespace()
        .collect()
    });
    NAMES.contains(name)
}

/// Builtins that set variables by their arguments.
pub(crate) fn declares(name: &str) -> bool {
    ["export", "declare", "typeset", "readonly", "local"].contains(&name)
}

/// Whether a word is this flag: the flag itself, with a value, a prefix of a long flag, a letter in a cluster.
pub(crate) fn is_flag(word: &str, flag: &str) -> bool {
    if let Some(long) = flag.strip_prefix("--") {
        let Some(name) = word.strip_prefix("--") else { return false };
        let name = name.split('=').next().unwrap_or_default();
        return !name.is_empty() && long.starts_with(name);
    }
    let Some(letters) = flag.strip_prefix('-') else { return word == flag };
    let Some(cluster) = word.strip_prefix('-').filter(|it| !it.starts_with('-')) else {
        return false;
    };
    match letters.chars().count() {
        1 => cluster.contains(letters),
        2 | 3 if word != flag => false,
        _ => word == flag || word.strip_prefix(flag).is_some_and(|it| it.starts_with('=')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_windows_ending() {
        assert_eq!(plain_name("Git.EXE", true), "git");
        assert_eq!(plain_name("a.sh", false), "a.sh");
    }

    #[test]
    fn a_flag_is_found_in_its_forms() {
        for (word, flag, is) in [
            ("--output=x", "--output", true),
            ("--out", "--output", true),
            ("--oneline", "--output", false),
            ("--", "--output", false),
            ("-uo", "-o", true),
            ("-o", "--output", false),
            ("-exec", "-exec", true),
            ("-executable", "-exec", false),
            ("-ok", "-ok", true),
        ] {
            assert_eq!(is_flag(word, flag), is, "{word} {flag}");
        }
    }
}
