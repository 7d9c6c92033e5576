//! How programs write an exact value: as it is, in JSON, and in addresses.

/// The spellings of a value.
pub(super) fn of(value: &str) -> Vec<Vec<u8>> {
    let mut spellings = vec![value.as_bytes().to_vec(), in_json(value), in_ascii_json(value)];
    spellings.extend(in_address(value));
    spellings.sort();
    spellings.dedup();
    spellings
}

/// A value as it stands in a JSON string.
fn in_json(value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            _ => out.push(byte),
        }
    }
    out
}

/// A value as it stands in a JSON string that is ASCII.
fn in_ascii_json(value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for it in value.chars() {
        match it.is_ascii() {
            true => out.extend(in_json(it.encode_utf8(&mut [0; 4]))),
            false => {
                for unit in it.encode_utf16(&mut [0; 2]) {
                    out.extend(format!("\\u{unit:04x}").bytes());
                }
            }
        }
    }
    out
}

/// A value as it stands in an address. Programs differ in the characters that they escape, and in how they write them.
fn in_address(value: &str) -> Vec<Vec<u8>> {
    let spelling = |kept: &[u8], is_upper: bool, space: Option<u8>| {
        let mut out = Vec::new();
        for byte in value.bytes() {
            match (byte, space) {
                (b' ', Some(space)) => out.push(space),
                _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => out.push(byte),
                _ if is_upper => out.extend(format!("%{byte:02X}").bytes()),
                _ => out.extend(format!("%{byte:02x}").bytes()),
            }
        }
        out
    };
    let mut spellings = Vec::new();
    for kept in [&b"-._~"[..], b"-._~!*'()"] {
        for is_upper in [true, false] {
            spellings.extend([None, Some(b'+')].map(|space| spelling(kept, is_upper, space)));
        }
    }
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_spellings_of_json_and_of_addresses() {
        let has = |value: &str, spelling: &str| of(value).contains(&spelling.as_bytes().to_vec());
        assert_eq!(of("plain-value_1"), [b"plain-value_1"]);
        for spelling in ["p@ss !\u{fc}\"1", "p@ss !\u{fc}\\\"1", "p@ss !\\u00fc\\\"1"] {
            assert!(has("p@ss !\u{fc}\"1", spelling), "{spelling}");
        }
        // As encodeURIComponent, urllib and forms write it.
        for spelling in ["p%40ss%20!%2F1", "p%40ss%20%21%2F1", "p%40ss+%21%2F1", "p%40ss%20%21%2f1"]
        {
            assert!(has("p@ss !/1", spelling), "{spelling}");
        }
        assert!(has("key-\u{1f600}-1", "key-\\ud83d\\ude00-1"));
    }
}
