// SPDX-License-Identifier: Apache-2.0
//! The dictionary of a string column: strings become codes in order of arrival (AOSI V-A).
//!
//! A dictionary belongs to the table, not to a transaction: a code stays when the load that brought its string is
//! rolled back. So whoever reads a code, whenever, finds its string.

use std::sync::Arc;

use arrow::array::{Array, StringArray, StringBuilder};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

/// The strings of one column and their codes.
pub(crate) struct Dictionary {
    /// How many different strings there can be: a dimension's cardinality, or as many as codes have bits for.
    capacity: u64,
    /// # Locking
    ///
    /// Guards the codes. Loads read it to encode and write it to enter strings; scans take it only when the
    /// dictionary has grown since the last one. Held for one load's strings at most, never across another lock but
    /// `snapshot`'s.
    entries: RwLock<Entries>,
    /// # Locking
    ///
    /// Guards the strings as an array, as of some moment; the inner lock, held while `entries` is copied.
    snapshot: Mutex<Arc<StringArray>>,
}

#[derive(Default)]
struct Entries {
    codes: HashMap<Box<str>, u32>,
    values: StringBuilder,
}

/// No room for another string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DictionaryFull;

impl Dictionary {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity: capacity.min(u64::from(u32::MAX)),
            entries: RwLock::default(),
            snapshot: Mutex::new(Arc::new(StringArray::new_null(0))),
        }
    }

    /// Calls `each` with every string's code, in order; strings that are new are entered.
    pub(crate) fn encode<'a>(
        &self,
        strings: impl Iterator<Item = Option<&'a str>>,
        mut each: impl FnMut(Option<Result<u32, DictionaryFull>>),
    ) {
        let mut entries = self.entries.read();
        for string in strings {
            let Some(string) = string else {
                each(None);
                continue;
            };
            if let Some(code) = entries.codes.get(string) {
                each(Some(Ok(*code)));
                continue;
            }
            drop(entries);
            each(Some(self.enter(string)));
            entries = self.entries.read();
        }
    }

    /// The code of `string`, if it has one.
    pub(crate) fn code(&self, string: &str) -> Option<u32> {
        self.entries.read().codes.get(string).copied()
    }

    fn enter(&self, string: &str) -> Result<u32, DictionaryFull> {
        let mut entries = self.entries.write();
        if let Some(code) = entries.codes.get(string) {
            return Ok(*code);
        }
        let code = entries.codes.len();
        if code as u64 >= self.capacity {
            return Err(DictionaryFull);
        }
        let code = u32::try_from(code).expect("the capacity has 32 bits");
        entries.codes.insert(string.into(), code);
        entries.values.append_value(string);
        Ok(code)
    }

    /// How many strings there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.entries.read().codes.len()).expect("codes have 32 bits")
    }

    /// Whether `string` has this code or would get it.
    pub(crate) fn may_give(&self, code: u32, string: &str) -> bool {
        let entries = self.entries.read();
        match entries.codes.get(string) {
            Some(known) => *known == code,
            None => entries.codes.len() == code as usize,
        }
    }

    /// The strings by code; those of all rows that have been loaded before are among them.
    ///
    /// Cost: a reference count, and a copy of all strings if one has come since the last call.
    pub(crate) fn values(&self) -> Arc<StringArray> {
        let entries = self.entries.read();
        let mut snapshot = self.snapshot.lock();
        if snapshot.len() < entries.codes.len() {
            *snapshot = Arc::new(entries.values.finish_cloned());
        }
        Arc::clone(&snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(dictionary: &Dictionary, strings: &[Option<&str>]) -> Vec<Option<Result<u32, DictionaryFull>>> {
        let mut codes = Vec::new();
        dictionary.encode(strings.iter().copied(), |code| codes.push(code));
        codes
    }

    #[test]
    fn codes_are_given_in_order_of_arrival_up_to_the_capacity() {
        let dictionary = Dictionary::new(2);
        let codes = encode(&dictionary, &[Some("b"), None, Some("a"), Some("b"), Some("c")]);
        assert_eq!(codes, [Some(Ok(0)), None, Some(Ok(1)), Some(Ok(0)), Some(Err(DictionaryFull))]);
        assert_eq!((dictionary.code("a"), dictionary.code("c")), (Some(1), None));
        assert_eq!(*dictionary.values(), StringArray::from(vec!["b", "a"]));
    }

    #[test]
    fn concurrent_loads_agree_on_the_codes() {
        let dictionary = Dictionary::new(1_000);
        let strings: Vec<String> = (0..1_000).map(|n| format!("s{n}")).collect();
        std::thread::scope(|scope| {
            for start in [0, 300, 600, 900] {
                let (dictionary, strings) = (&dictionary, &strings);
                scope.spawn(move || {
                    let order = (0..1_000).map(|n| Some(strings[(n + start) % 1_000].as_str()));
                    dictionary.encode(order, |code| assert!(code.unwrap().is_ok()));
                });
            }
        });
        let values = dictionary.values();
        assert_eq!(values.len(), 1_000);
        assert!(strings.iter().all(|s| values.value(dictionary.code(s).unwrap() as usize) == s));
    }
}
