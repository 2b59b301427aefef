// SPDX-License-Identifier: Apache-2.0
//! Bit strings as values of columns of type `bit` and `bit varying`.
//!
//! Rows, keys and arrays keep a bit string as bytes whose order is the one that PostgreSQL has of bit strings: by the first bit
//! that differs, and a string that another one begins with is below that. Eight bits in a byte with a length beside them would not
//! have it. So a byte has up to seven bits, and all bytes but the last one have seven: a 1 at place `p`, from 1 to 7, counts
//! `2^(8 - p)`, and a 0 counts 1. Of two strings of up to seven bits the smaller one has the smaller sum, and none but the
//! empty one has the sum 0, which is in no byte.

/// Bits in a byte of what is kept.
const BITS_PER_BYTE: usize = 7;

/// The bits as rows, keys and arrays keep them.
#[must_use]
pub fn kept_bits(bits: impl IntoIterator<Item = bool>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut place = 0;
    for bit in bits {
        let counts = if bit { weight(place) } else { 1 };
        match kept.last_mut() {
            Some(byte) if place > 0 => *byte += counts,
            _ => kept.push(counts),
        }
        place = (place + 1) % BITS_PER_BYTE;
    }
    kept
}

/// The bits that are kept as these bytes.
pub fn bits_of(kept: &[u8]) -> impl Iterator<Item = bool> + '_ {
    kept.iter().flat_map(|&byte| {
        let mut rest = byte;
        (0..BITS_PER_BYTE).map_while(move |place| {
            let weight = weight(place);
            let bit = rest >= weight;
            rest = rest.checked_sub(if bit { weight } else { 1 })?;
            Some(bit)
        })
    })
}

/// How many bits are kept as these bytes.
#[must_use]
pub fn bits_length(kept: &[u8]) -> usize {
    let Some((last, full)) = kept.split_last() else { return 0 };
    full.len() * BITS_PER_BYTE + bits_of(std::slice::from_ref(last)).count()
}

/// What a 1 counts behind so many other bits of its byte.
const fn weight(place: usize) -> u8 {
    1 << (BITS_PER_BYTE - place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All strings of up to nine bits, in PostgreSQL's order: each in front of those that it begins.
    fn in_order() -> Vec<Vec<bool>> {
        fn go_on(string: &[bool], all: &mut Vec<Vec<bool>>) {
            all.push(string.to_vec());
            if string.len() < 9 {
                for bit in [false, true] {
                    go_on(&[string, &[bit]].concat(), all);
                }
            }
        }
        let mut all = Vec::new();
        go_on(&[], &mut all);
        all
    }

    #[test]
    fn what_is_kept_has_the_order_of_bit_strings_and_gives_them_back() {
        let strings = in_order();
        assert_eq!(strings.len(), 1_023);
        let kept: Vec<Vec<u8>> = strings.iter().map(|string| kept_bits(string.iter().copied())).collect();
        assert!(kept.is_sorted_by(|one, next| one < next));
        for (string, kept) in strings.iter().zip(&kept) {
            assert_eq!(bits_of(kept).collect::<Vec<_>>(), *string);
            assert_eq!(bits_length(kept), string.len());
        }
    }

    /// Bytes that nothing was kept as, in a damaged file, are read as some bits.
    #[test]
    fn any_bytes_are_read() {
        for byte in 0..=u8::MAX {
            assert!(bits_of(&[byte, byte]).count() <= 2 * BITS_PER_BYTE, "{byte}");
        }
    }
}
