// SPDX-License-Identifier: Apache-2.0
//! A holder's list of the texts of one dictionary.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::message::DictionaryBody;
use super::names::{Code, GivenText};
use crate::epochs::cluster::view::ViewNumber;

/// The texts in the order of their codes, from 0 on. Its end may hold what nobody was told of yet, and may be replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    given: Vec<GivenText>,
    codes: BTreeMap<Arc<str>, Code>,
}

impl Replica {
    pub(super) fn length(&self) -> u32 {
        u32::try_from(self.given.len()).expect("a dictionary has fewer than 2^32 codes")
    }

    pub(super) fn code_of(&self, text: &str) -> Option<Code> {
        self.codes.get(text).copied()
    }

    /// The layout of the last of the first `length` texts.
    pub(super) fn layout_before(&self, length: u32) -> Option<ViewNumber> {
        let last = length.checked_sub(1)?;
        self.given.get(last as usize).map(|given| given.layout)
    }

    /// How many of `texts`, which the owner has after the first `after`, are here as they are there, from the first on.
    pub(super) fn agrees(&self, after: u32, texts: &[GivenText]) -> usize {
        let here = self.given.iter().skip(after as usize);
        here.zip(texts).take_while(|(here, there)| here == there).count()
    }

    /// Makes `texts` what comes after the first `after`, and the end of the list.
    pub(super) fn put(&mut self, after: u32, texts: &[GivenText]) {
        assert!(after <= self.length(), "a list has no gap");
        for gone in self.given.split_off(after as usize) {
            if self.code_of(&gone.text).is_some_and(|code| code.get() >= after) {
                self.codes.remove(&gone.text);
            }
        }
        texts.iter().for_each(|given| self.push(given.clone()));
        assert_eq!(self.given.len(), after as usize + texts.len(), "the part is the end of the list");
    }

    /// Gives a text the next code.
    pub(super) fn push(&mut self, given: GivenText) {
        self.codes.insert(Arc::clone(&given.text), Code::new(self.length()));
        self.given.push(given);
    }

    /// Up to `count` texts after the first `after`.
    pub(super) fn part(&self, after: u32, count: usize) -> Vec<GivenText> {
        self.given.iter().skip(after as usize).take(count).cloned().collect()
    }

    /// What an owner with this list tells a holder that has the first `after` texts.
    pub(super) fn give(&self, after: u32, count: usize) -> DictionaryBody {
        assert!(after <= self.length(), "an owner's list does not get shorter");
        DictionaryBody::Give {
            after,
            previous: self.layout_before(after),
            texts: self.part(after, count),
            length: self.length(),
        }
    }

    #[cfg(test)]
    pub(super) fn text_of(&self, code: Code) -> Option<Arc<str>> {
        self.given.get(code.get() as usize).map(|given| Arc::clone(&given.text))
    }
}
