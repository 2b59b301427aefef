// SPDX-License-Identifier: Apache-2.0
//! Strings that rows refer to: an arena for text of many kinds, a dictionary for text of few.

use std::collections::HashMap;

/// A string of an [`Arena`], four bytes in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(u32);

impl Text {
    /// As in a log record.
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    /// Out of a log record.
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Self {
        Text(u32::from_le_bytes(bytes))
    }
}

/// The strings of one table, one behind the other, each after its length.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
}

impl Arena {
    /// Appends a string of at most 255 bytes.
    pub(crate) fn add(&mut self, text: &str) -> Text {
        let place = u32::try_from(self.bytes.len()).expect("an arena is smaller than four gigabytes");
        self.bytes.push(u8::try_from(text.len()).expect("TPC-H's strings are shorter than 256 bytes"));
        self.bytes.extend_from_slice(text.as_bytes());
        Text(place)
    }

    /// The string's bytes.
    #[inline]
    pub(crate) fn bytes(&self, text: Text) -> &[u8] {
        let start = text.0 as usize + 1;
        &self.bytes[start..start + usize::from(self.bytes[start - 1])]
    }

    /// The string.
    pub(crate) fn str(&self, text: Text) -> &str {
        std::str::from_utf8(self.bytes(text)).expect("only strings were added")
    }

    /// Bytes in use.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Up to 256 different strings, each known by its place in their order.
#[derive(Debug)]
pub(crate) struct Dictionary {
    names: Vec<&'static str>,
    codes: HashMap<&'static str, u8>,
}

impl Dictionary {
    /// A dictionary of these strings.
    pub(crate) fn new(names: &[&'static str]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() <= 256, "a code is one byte");
        let codes = names.iter().zip(0..=255).map(|(name, code)| (*name, code)).collect();
        Dictionary { names, codes }
    }

    /// The string's code.
    pub(crate) fn code(&self, name: &str) -> u8 {
        *self.codes.get(name).expect("a string of the benchmark's distributions")
    }

    /// The string of a code.
    pub(crate) fn name(&self, code: u8) -> &'static str {
        self.names[usize::from(code)]
    }

    /// Which codes have a string that `is` picks.
    pub(crate) fn which(&self, is: impl Fn(&str) -> bool) -> Vec<bool> {
        self.names.iter().map(|name| is(name)).collect()
    }
}
