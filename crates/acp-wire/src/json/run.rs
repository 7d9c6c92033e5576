//! Finds the end of a run of plain string bytes.
//!
//! Payloads consist mostly of such runs. They are examined in blocks: 16 bytes with SSE2, which every
//! x86-64 processor has, and 8 bytes elsewhere. The SSE2 intrinsics are the only unsafe code of the crate.

/// The position of the first byte from `at` on that ends a run of plain string bytes: a quote, a backslash
/// or a control character. The end of the text if there is none. `non_ascii` becomes nonzero if an examined
/// block contains a non-ASCII byte, which may be after the run.
#[inline(always)]
pub(crate) fn end_of_run(text: &[u8], mut at: usize, non_ascii: &mut Mask) -> usize {
    while let Some(block) = text.get(at..at + BLOCK_SIZE).and_then(<[u8]>::first_chunk) {
        let (ends, high) = classify(block);
        *non_ascii |= high;
        if ends != 0 {
            return at + ends.trailing_zeros() as usize / BITS_PER_BYTE;
        }
        at += BLOCK_SIZE;
    }
    let (end, high) = end_of_run_in_last_block(text, at);
    *non_ascii |= high;
    end
}

/// [`end_of_run`] if less than a block is left. It examines the last block of the text.
fn end_of_run_in_last_block(text: &[u8], at: usize) -> (usize, Mask) {
    let Some(block) = text.last_chunk() else { return end_of_run_in_short_text(text, at) };
    let (ends, high) = classify(block);
    let before = at + BLOCK_SIZE - text.len();
    match ends.checked_shr((before * BITS_PER_BYTE) as u32).unwrap_or(0) {
        0 => (text.len(), high),
        ends => (at + ends.trailing_zeros() as usize / BITS_PER_BYTE, high),
    }
}

/// [`end_of_run`] for a text shorter than a block.
fn end_of_run_in_short_text(text: &[u8], at: usize) -> (usize, Mask) {
    let rest = text.get(at..).unwrap_or_default();
    let ends = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    let end = rest.iter().position(ends).map_or(text.len(), |length| at + length);
    (end, Mask::from(!rest.is_ascii()))
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "SSE2 intrinsics are unsafe functions")]
mod sse2 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8,
    };

    pub(crate) const BLOCK_SIZE: usize = 16;

    /// One bit for each byte of a block.
    pub(crate) type Mask = u32;
    pub(crate) const BITS_PER_BYTE: usize = 1;

    /// A mask of the bytes that end a run, and a mask of the non-ASCII bytes.
    #[inline(always)]
    pub(crate) fn classify(block: &[u8; BLOCK_SIZE]) -> (Mask, Mask) {
        let whole = u128::from_le_bytes(*block);
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let bytes = _mm_set_epi64x((whole >> 64) as i64, whole as i64);
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
            let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            let controls = _mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, _mm_set1_epi8(0x1f)));
            let ends = _mm_or_si128(_mm_or_si128(quotes, backslashes), controls);
            (_mm_movemask_epi8(ends) as Mask, _mm_movemask_epi8(bytes) as Mask)
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "a test compares both modules"))]
mod portable {
    pub(crate) const BLOCK_SIZE: usize = 8;

    /// The highest bit of each byte of a block.
    pub(crate) type Mask = u64;
    pub(crate) const BITS_PER_BYTE: usize = 8;

    const ONES: u64 = u64::MAX / 255;
    const LOW: u64 = ONES * 0x7f;

    /// A mask of the bytes that end a run, and a mask of the non-ASCII bytes.
    #[inline(always)]
    pub(crate) fn classify(block: &[u8; BLOCK_SIZE]) -> (Mask, Mask) {
        let word = u64::from_le_bytes(*block);
        // Of the ASCII bytes, those from a space on carry into the highest bit.
        let controls = !(((word & LOW) + ONES * 0x60) | word);
        let is = |byte: u8| {
            let differs = word ^ (ONES * u64::from(byte));
            !(((differs & LOW) + LOW) | differs)
        };
        ((controls | is(b'"') | is(b'\\')) & !LOW, word & !LOW)
    }
}

#[cfg(not(target_arch = "x86_64"))]
use portable::{BITS_PER_BYTE, BLOCK_SIZE, classify};
#[cfg(target_arch = "x86_64")]
use sse2::{BITS_PER_BYTE, BLOCK_SIZE, classify};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::Mask;
#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::Mask;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_a_delimiter_at_any_position() {
        // The bytes that end a run, their neighbours, and the same bytes with the highest bit flipped.
        let bytes = b"\x00\x1f\x20\x21\"\x23[\\]\x7f\x80\x9f\xa0\xa2\xdc\xff";
        for length in 0..36 {
            for stop in 0..length {
                for &byte in bytes {
                    let mut text = vec![b'a'; length];
                    text[stop] = byte;
                    let ends = byte == b'"' || byte == b'\\' || byte < 0x20;
                    for start in [0, stop / 2, stop, stop + 1, length] {
                        let end = if ends && start <= stop { stop } else { length };
                        let mut non_ascii = 0;
                        assert_eq!(
                            end_of_run(&text, start, &mut non_ascii),
                            end,
                            "{text:?} {start}"
                        );
                        // The mask may be set for a byte outside the run, but not without any non-ASCII
                        // byte.
                        assert!(
                            non_ascii != 0 || byte.is_ascii() || stop < start,
                            "{text:?} {start}"
                        );
                        assert!(non_ascii == 0 || !byte.is_ascii(), "{text:?} {start}");
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_block_sizes_give_the_same_result() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let mut bytes = [b'x'; 16];
                (bytes[3], bytes[4], bytes[15]) = (first, second, first);
                let (mut non_ascii, mut ends) = (0, 0);
                for (index, half) in bytes.chunks_exact(8).enumerate() {
                    let (marks, high) = portable::classify(half.try_into().unwrap());
                    for byte in 0..8 {
                        ends |= (marks >> (8 * byte + 7) & 1) << (8 * index + byte);
                        non_ascii |= (high >> (8 * byte + 7) & 1) << (8 * index + byte);
                    }
                }
                let found = sse2::classify(&bytes);
                assert_eq!((u64::from(found.0), u64::from(found.1)), (ends, non_ascii));
            }
        }
    }
}
