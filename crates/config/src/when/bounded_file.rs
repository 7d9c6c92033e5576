//! Reads a file of a project, whatever it is: a size limit, and never a wait.

use std::io::Read;
use std::path::Path;

use crate::project::{self, ReadError};

/// The text of a file with at most `limit` bytes. None if there is no such file. An error is a clause such as `is not a
/// regular file`.
pub(super) fn read(path: &Path, limit: u64) -> Option<Result<String, String>> {
    let mut bytes = Vec::new();
    let file = match project::open(path) {
        Ok(file) => file,
        Err(ReadError::Missing) if path.symlink_metadata().is_err() => return None,
        Err(ReadError::Missing) => return Some(Err("is a link to nothing".into())),
        Err(ReadError::NotRegular) => return Some(Err("is not a regular file".into())),
        Err(error) => return Some(Err(format!("cannot be read: {error}"))),
    };
    Some(match file.take(limit + 1).read_to_end(&mut bytes) {
        Err(error) => Err(format!("cannot be read: {error}")),
        Ok(_) if bytes.len() as u64 > limit => Err(format!("has more than {} MiB", limit >> 20)),
        Ok(_) => text(bytes),
    })
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    // PowerShell writes the output of `pip freeze` as UTF-16.
    let utf16: Option<fn([u8; 2]) -> u16> = match &bytes[..] {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    let text = match utf16 {
        Some(unit) => {
            let units = bytes.chunks_exact(2).map(|it| unit([it[0], it[1]]));
            char::decode_utf16(units).collect::<Result<String, _>>().map_err(|_| "is not UTF-16")?
        }
        None => String::from_utf8(bytes).map_err(|_| "is not UTF-8")?,
    };
    // Some editors on Windows also write a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_utf_8_or_has_the_mark_of_utf_16() {
        let read = |bytes: &[u8]| super::text(bytes.to_vec());
        let utf16 = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}django==4.2\r\n".encode_utf16().flat_map(bytes).collect()
        };
        for bytes in [utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)] {
            assert_eq!(read(&bytes).as_deref(), Ok("django==4.2\r\n"));
        }
        assert_eq!(read(b"\xef\xbb\xbfa").as_deref(), Ok("a"));
        assert!(read(b"\xff").is_err() && read(b"\xff\xfe\x00\xd8").is_err());
    }
}
