// SPDX-License-Identifier: Apache-2.0
//! The dictionary of a string column: strings become codes in order of arrival (AOSI V-A).
//!
//! A dictionary belongs to the table, not to a transaction: a code stays when the transaction that brought its string is
//! rolled back. So whoever reads a code, whenever, finds its string. A load that is refused leaves no string behind:
//! strings are entered when all else about it is known to be good, and are taken back if they do not all fit.

use std::sync::Arc;

use arrow::array::{Array, ArrayBuilder, StringArray, StringBuilder};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

/// The strings of one column and their codes.
pub(crate) struct Dictionary {
    /// How many different strings there can be: a dimension's cardinality, or as many as codes have bits for.
    capacity: u64,
    /// # Locking
    ///
    /// Guards the codes. Loads read it to encode, and write it to enter strings: those of all columns together, in the
    /// order of the columns. Scans take it only when the dictionary has grown since the last one. Held for one load's
    /// strings at most, never across another lock but those and `snapshot`'s.
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

impl Dictionary {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity: capacity.min(u64::from(u32::MAX)),
            entries: RwLock::default(),
            snapshot: Mutex::new(Arc::new(StringArray::new_null(0))),
        }
    }

    /// The codes of strings, in order; 0 for NULLs, and for strings that have none, whose places go to `unknown`.
    pub(crate) fn codes<'a>(
        &self,
        strings: impl Iterator<Item = Option<&'a str>>,
        unknown: &mut Vec<usize>,
    ) -> Vec<u32> {
        let entries = self.entries.read();
        let code = |(place, string): (usize, Option<&str>)| {
            let Some(string) = string else { return 0 };
            let code = entries.codes.get(string).copied();
            code.unwrap_or_else(|| {
                unknown.push(place);
                0
            })
        };
        strings.enumerate().map(code).collect()
    }

    /// The code of `string`, if it has one.
    pub(crate) fn code(&self, string: &str) -> Option<u32> {
        self.entries.read().codes.get(string).copied()
    }

    /// Begins to enter strings; nobody else enters any, or looks one up, until that ends.
    pub(crate) fn enter<'s>(&self) -> Entering<'_, 's> {
        let entries = self.entries.write();
        assert_eq!(entries.codes.len(), entries.values.len(), "each string has its code");
        Entering { capacity: self.capacity, entries, new: Vec::new() }
    }

    /// Enters `string` under the code that it had. Whether it can have that.
    pub(crate) fn restore(&self, code: u32, string: &str) -> bool {
        let mut entering = self.enter();
        if entering.code(string).is_none() && entering.has_room() {
            entering.add(string);
        }
        let is_same = entering.code(string) == Some(code);
        if is_same {
            entering.keep();
        }
        is_same
    }

    /// How many strings there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.entries.read().codes.len()).expect("codes have 32 bits")
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

/// Strings on their way into a dictionary. Dropping this takes them back, unless they are [kept](Self::keep).
pub(crate) struct Entering<'d, 's> {
    capacity: u64,
    entries: RwLockWriteGuard<'d, Entries>,
    /// Those that have codes and are not among the values yet.
    new: Vec<&'s str>,
}

impl<'s> Entering<'_, 's> {
    /// The code of `string`, if it has one by now.
    pub(crate) fn code(&self, string: &str) -> Option<u32> {
        self.entries.codes.get(string).copied()
    }

    /// Whether there can be another string.
    pub(crate) fn has_room(&self) -> bool {
        (self.entries.codes.len() as u64) < self.capacity
    }

    /// Enters `string`, which is new and has room. Its code.
    pub(crate) fn add(&mut self, string: &'s str) -> u32 {
        assert!(self.has_room(), "the caller has looked");
        let code = u32::try_from(self.entries.codes.len()).expect("the capacity has 32 bits");
        let before = self.entries.codes.insert(string.into(), code);
        assert!(before.is_none(), "the string is new");
        self.new.push(string);
        code
    }

    /// Ends it: what was entered stays.
    pub(crate) fn keep(mut self) {
        for string in self.new.drain(..) {
            self.entries.values.append_value(string);
        }
    }
}

impl Drop for Entering<'_, '_> {
    fn drop(&mut self) {
        for string in self.new.drain(..) {
            self.entries.codes.remove(string);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(dictionary: &Dictionary, strings: &[&'static str]) -> Vec<Option<u32>> {
        let mut entering = dictionary.enter();
        let code = |string: &&'static str| {
            let known = entering.code(string);
            known.or_else(|| entering.has_room().then(|| entering.add(string)))
        };
        let codes = strings.iter().map(code).collect();
        entering.keep();
        codes
    }

    #[test]
    fn codes_are_given_in_order_of_arrival_up_to_the_capacity() {
        let dictionary = Dictionary::new(2);
        assert_eq!(enter(&dictionary, &["b", "a", "b", "c"]), [Some(0), Some(1), Some(0), None]);
        let mut unknown = Vec::new();
        let strings = [Some("a"), None, Some("c"), Some("b")];
        assert_eq!(dictionary.codes(strings.into_iter(), &mut unknown), [1, 0, 0, 0]);
        assert_eq!(unknown, [2]);
        assert_eq!((dictionary.code("a"), dictionary.code("c")), (Some(1), None));
        assert_eq!(*dictionary.values(), StringArray::from(vec!["b", "a"]));
    }

    #[test]
    fn what_is_not_kept_is_forgotten_with_its_codes() {
        let dictionary = Dictionary::new(2);
        enter(&dictionary, &["a"]);
        let mut entering = dictionary.enter();
        assert_eq!((entering.code("a"), entering.add("b"), entering.has_room()), (Some(0), 1, false));
        drop(entering);
        assert_eq!((dictionary.count(), dictionary.code("b")), (1, None));
        assert_eq!(enter(&dictionary, &["c"]), [Some(1)]);
        assert_eq!(*dictionary.values(), StringArray::from(vec!["a", "c"]));
    }

    #[test]
    fn strings_come_back_under_the_codes_that_they_had_or_not_at_all() {
        let dictionary = Dictionary::new(2);
        assert!(dictionary.restore(0, "a") && dictionary.restore(0, "a") && !dictionary.restore(1, "a"));
        assert!(!dictionary.restore(2, "b") && dictionary.restore(1, "b") && !dictionary.restore(2, "c"));
        assert_eq!(*dictionary.values(), StringArray::from(vec!["a", "b"]));
    }

    #[test]
    fn concurrent_loads_agree_on_the_codes() {
        const STRINGS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let dictionary = Dictionary::new(8);
        std::thread::scope(|scope| {
            for start in 0..8 {
                let dictionary = &dictionary;
                scope.spawn(move || {
                    for n in 0..8 {
                        assert!(enter(dictionary, &[STRINGS[(start + n) % 8]])[0].is_some());
                    }
                });
            }
        });
        let values = dictionary.values();
        assert_eq!(values.len(), 8);
        assert!(STRINGS.iter().all(|s| values.value(dictionary.code(s).unwrap() as usize) == *s));
    }
}
