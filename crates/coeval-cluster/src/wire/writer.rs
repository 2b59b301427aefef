// SPDX-License-Identifier: Apache-2.0
//! Numbers, bytes and lists as they are written.

use super::Wire;

/// Appends a number, seven bits a byte.
pub(super) fn put_u64(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length or count.
pub(super) fn put_len(out: &mut Vec<u8>, length: usize) {
    put_u64(out, length as u64);
}

/// Appends bytes with their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a list.
pub(super) fn put_list<T: Wire>(out: &mut Vec<u8>, list: &[T]) {
    put_len(out, list.len());
    list.iter().for_each(|element| element.put(out));
}
