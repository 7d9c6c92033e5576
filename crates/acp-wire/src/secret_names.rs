//! The names of members, variables and options whose values are secret.

/// Whether all values in a member with this name are secret: variables and headers, such as those of MCP servers.
pub fn has_secret_values(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["env", "headers", "environment", "cookies"].contains(&name.as_str())
}

/// Whether a value with this name is secret.
pub fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 17] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "accesskey",
        "privatekey",
        "signingkey",
        "encryptionkey",
        "authkey",
        "authorization",
        "credential",
        "cookie",
        "bearer",
        "xauth",
        "sessionkey",
    ];
    const EXCEPTIONS: [&str; 7] = [
        "progresstoken",
        "tokentype",
        "tokencount",
        "maxtokens",
        "tokenizer",
        "cancellationtoken",
        "tokenlimit",
    ];
    if name.len() > 100 {
        return false;
    }
    let lower = name.trim_start_matches('-').to_ascii_lowercase();
    let is_key = ["_key", "-key", ".key"].iter().any(|end| lower.ends_with(end))
        && !["public", "primary", "foreign", "sort", "cache"].iter().any(|it| lower.contains(it));
    let joined: String = lower.chars().filter(|it| it.is_alphanumeric()).collect();
    let has_part = PARTS.iter().any(|part| joined.contains(part));
    is_key || has_part && !EXCEPTIONS.iter().any(|it| joined.ends_with(it))
}
