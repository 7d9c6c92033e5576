//! The chain of hashes: each line has the hash of the line before it, and its own.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::record::Record;

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The `prev` of the first record.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What stands between the hashed part of a line and its hash.
const BEFORE_HASH: &str = ",\"hash\":\"";

/// What stands after the hash.
const AFTER_HASH: &str = "\"}";

/// Computes the hashes of lines: SHA-256, or HMAC-SHA-256 with a key.
#[derive(Clone, Default)]
pub struct Hasher(Option<Hmac<Sha256>>);

impl Hasher {
    /// With this key.
    pub fn with_key(key: &[u8]) -> Hasher {
        Hasher(Hmac::new_from_slice(key).ok())
    }

    /// Whether there is a key.
    pub fn has_key(&self) -> bool {
        self.0.is_some()
    }

    /// The name of the algorithm, as it is in the log.
    pub(super) fn name(&self) -> &'static str {
        if self.has_key() { "hmac-sha256" } else { "sha256" }
    }

    fn hash(&self, bytes: &[u8]) -> String {
        match &self.0 {
            None => sha256(bytes),
            Some(mac) => hexadecimal(&mac.clone().chain_update(bytes).finalize().into_bytes()),
        }
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |it: u8| char::from(DIGITS[usize::from(it)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The largest number of a record. A larger one is not of this program.
pub(super) const MAX_SEQ: u64 = u64::MAX / 2;

/// A record with the members that the log adds.
#[derive(Serialize)]
struct Numbered<'a> {
    v: u32,
    seq: u64,
    time: &'a str,
    run: &'a str,
    #[serde(flatten)]
    record: &'a Record,
    prev: &'a str,
}

/// The place of a record in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) seq: u64,
    pub(super) time: &'a str,
    pub(super) run: &'a str,
    pub(super) prev: &'a str,
}

/// The line of a record, with a line break, and its hash.
pub(super) fn encode(record: &Record, place: &Place<'_>, hasher: &Hasher) -> (String, String) {
    let Place { seq, time, run, prev } = place;
    let numbered = Numbered { v: VERSION, seq: *seq, time, run, record, prev };
    // Strings, numbers and maps with string keys can always be serialised.
    let line = serde_json::to_string(&numbered).unwrap_or_default();
    let mut line = acp_wire::printable::json(&line).into_owned();
    line.pop();
    let hash = hasher.hash(line.as_bytes());
    line.push_str(BEFORE_HASH);
    line.push_str(&hash);
    line.push_str(AFTER_HASH);
    line.push('\n');
    (line, hash)
}

/// The members of a line that the chain consists of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Link {
    pub(super) v: u32,
    pub(super) seq: u64,
    pub(super) time: String,
    pub(super) event: String,
    pub(super) prev: String,
    pub(super) hash: String,
}

/// Why a line is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadLine {
    /// It is not a record at all.
    NotARecord(String),
    /// Its hash is not the hash of its bytes.
    WrongHash(Link),
}

/// Reads a line (without its line break) and checks its hash.
pub(super) fn decode(line: &[u8], hasher: &Hasher) -> Result<Link, BadLine> {
    let not_a_record = |why: &str| BadLine::NotARecord(why.to_owned());
    let link: Link =
        serde_json::from_slice(line).map_err(|error| not_a_record(&error.to_string()))?;
    if link.v != VERSION {
        return Err(not_a_record(&format!("its version is {}, not {VERSION}", link.v)));
    }
    if link.seq > MAX_SEQ {
        return Err(not_a_record("its number is too large"));
    }
    let tail = format!("{BEFORE_HASH}{}{AFTER_HASH}", link.hash);
    let hashed = line.strip_suffix(tail.as_bytes());
    let hashed = hashed.ok_or_else(|| not_a_record("its hash is not its last member"))?;
    if hasher.hash(hashed) != link.hash {
        return Err(BadLine::WrongHash(link));
    }
    Ok(link)
}
