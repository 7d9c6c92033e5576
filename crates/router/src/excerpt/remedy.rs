//! What the user can do about common reasons in the output of a program.

use acp_wire::words;

/// Words in an excerpt, and the remedy for that reason. The first line that fits counts.
const REMEDIES: [(&[&str], &str); 10] = [
    (
        &[
            "npm error e404",
            "was not found in the package registry",
            "no matching distribution",
            "- 404",
            "package 'npm:",
            "etarget",
        ],
        "check the name and the version of the package",
    ),
    (
        &[
            "could not determine executable",
            "does not provide any executables",
            "is not provided by package",
        ],
        "the package has no such program; name the program as well, as the documentation of the package says",
    ),
    (
        &["cannot find module", "cannot find package", "no module named", "modulenotfounderror"],
        "install the dependencies of the program, or correct the path of the script",
    ),
    (
        &[
            "econnrefused",
            "enotfound",
            "eai_again",
            "etimedout",
            "connection refused",
            "dns error",
            "failed to fetch",
        ],
        "check the network connection",
    ),
    (
        &[
            "api key",
            "api_key",
            "logged in",
            "log in",
            "login",
            "unauthorized",
            "authenticate",
            "authenticated",
            "authentication",
            "unauthenticated",
        ],
        "log in with the agent's own program, or set its API key in the environment",
    ),
    (
        &[
            "unexpected argument",
            "unrecognized arguments",
            "unrecognized option",
            "unknown option",
            "unknown argument",
            "unknown arguments",
            "unknown flag",
            "nonexistent flag",
            "no such option",
            "bad option",
            "unrecognized subcommand",
            "arguments are required",
        ],
        "check the options of the command",
    ),
    (&["command not found"], "install the missing program, or write its full path"),
    (&["out of memory", "cannot allocate memory"], "give the program more memory"),
    (&["address already in use", "eaddrinuse"], "end the other program that uses the port"),
    (&["permission denied", "eacces"], "check the permissions of the file"),
];

/// The remedy for the reason in an excerpt, if it is a common one.
pub fn remedy(excerpt: &str) -> Option<&'static str> {
    let excerpt = excerpt.to_lowercase();
    let fitting = REMEDIES.iter().find(|(words, _)| words::contains_any(&excerpt, words));
    fitting.map(|(_, remedy)| *remedy)
}
