//! The hash of a file.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a text or a file. It is written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The bytes of the hash.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// The hash and the length of what a reader returns, in small parts. `None` if it has more than `limit` bytes.
    pub(super) fn of_reader(reader: impl Read, limit: u64) -> io::Result<Option<(Digest, u64)>> {
        let mut reader = reader.take(limit.saturating_add(1));
        let (mut hash, mut length) = (Sha256::new(), 0);
        let mut part = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut part) {
                Ok(0) => break,
                Ok(count) => {
                    hash.update(&part[..count]);
                    length += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((length <= limit).then(|| (Digest(hash.finalize().into()), length)))
    }

    /// The hash that is written as 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Digest> {
        let digits = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(digits) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of FIPS 180-2, and the empty text.
    #[test]
    fn the_hash_is_sha_256_in_hexadecimal_digits() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(Digest::parse(empty), Some(Digest::of(b"")));
        for wrong in ["", "abc", &abc[1..], &abc.to_uppercase(), &abc.replace('b', "+")] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_reader_is_hashed_up_to_a_limit() {
        let bytes = vec![7; 200_000];
        let hashed = Digest::of_reader(bytes.as_slice(), 200_000).expect("no I/O");
        assert_eq!(hashed, Some((Digest::of(&bytes), 200_000)));
        assert_eq!(Digest::of_reader(bytes.as_slice(), 199_999).expect("no I/O"), None);
        assert_eq!(Digest::of_reader(io::repeat(0), 1000).expect("no I/O"), None);
    }
}
