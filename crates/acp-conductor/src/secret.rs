//! Secrets that authenticate connections to the conductor.

use std::io;

/// A random token of 128 bits, in hexadecimal.
pub(crate) fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in constant time, so that the duration does not reveal where the texts differ.
pub(crate) fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}
