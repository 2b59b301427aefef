// SPDX-License-Identifier: Apache-2.0
//! The codes of one dictionary that a node has been told.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::{Code, Spelling};

/// Codes and texts, one to one. Nothing is ever taken away or changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings {
    codes: BTreeMap<Arc<str>, Code>,
    texts: BTreeMap<Code, Arc<str>>,
}

impl Spellings {
    pub(super) fn code_of(&self, text: &str) -> Option<Code> {
        self.codes.get(text).copied()
    }

    pub(super) fn text_of(&self, code: Code) -> Option<&Arc<str>> {
        self.texts.get(&code)
    }

    /// Takes in `spellings`; gives those that were not known. If one contradicts what is known, nothing is taken in, and
    /// its code is given.
    pub(super) fn learn(&mut self, spellings: &[Spelling]) -> Result<Vec<Spelling>, Code> {
        let mut news: Vec<Spelling> = Vec::new();
        for spelling in spellings {
            let (text, code) = (self.texts.get(&spelling.code), self.codes.get(&spelling.text));
            let is_new = text.is_none() && code.is_none();
            let is_known = text == Some(&spelling.text) && code == Some(&spelling.code);
            if is_new {
                self.codes.insert(Arc::clone(&spelling.text), spelling.code);
                self.texts.insert(spelling.code, Arc::clone(&spelling.text));
                news.push(spelling.clone());
            } else if !is_known {
                news.iter().for_each(|new| self.forget(new));
                return Err(spelling.code);
            }
        }
        assert_eq!(self.codes.len(), self.texts.len(), "codes and texts are one to one");
        Ok(news)
    }

    fn forget(&mut self, spelling: &Spelling) {
        self.codes.remove(&spelling.text);
        self.texts.remove(&spelling.code);
    }

    /// All of them, by code.
    pub(super) fn all(&self) -> Vec<Spelling> {
        self.texts.iter().map(|(code, text)| Spelling { code: *code, text: Arc::clone(text) }).collect()
    }
}
