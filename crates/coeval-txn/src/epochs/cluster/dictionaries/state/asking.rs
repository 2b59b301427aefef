// SPDX-License-Identifier: Apache-2.0
//! Asks: from the texts of a load or a reader to an answer, or to an error.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ask, Dictionaries};
use crate::epochs::cluster::dictionaries::message::{DictionaryBody, Purpose};
use crate::epochs::cluster::dictionaries::names::{Code, DictionaryId, Spelling};
use crate::epochs::cluster::dictionaries::record::{AskId, AskOutcome, Asked, DictionaryError};
use crate::epochs::cluster::rules::Rule;
use crate::epochs::cluster::view::Placement;

impl<P: Placement> Dictionaries<P> {
    /// Makes known the codes of `texts`. If all are known here, nobody is asked, and no message is sent. Otherwise the
    /// owner is asked for the others; until that has ended ([`DictionaryEffect::Tell`]) a load appends no rows with them.
    ///
    /// If owners change meanwhile, the new one is asked; if none answers within the bound, the ask fails, and the load
    /// with it, or it asks again. What was given stays given.
    ///
    /// # Errors
    ///
    /// If the dictionary is not declared here, the node is not in the view, or the new texts are too many or too long.
    ///
    /// [`DictionaryEffect::Tell`]: super::super::DictionaryEffect::Tell
    pub fn ask(
        &mut self,
        dictionary: DictionaryId,
        purpose: Purpose,
        texts: &[Arc<str>],
    ) -> Result<Asked, DictionaryError> {
        if !self.declared.contains_key(&dictionary) {
            return Err(DictionaryError::NotDeclared(dictionary));
        }
        let is_asked = |text: &&Arc<str>| {
            self.code_of(dictionary, text).is_none() || !self.rules.keep(Rule::KnownAsksNobody)
        };
        // Each once.
        let texts: BTreeSet<Arc<str>> = texts.iter().filter(is_asked).map(Arc::clone).collect();
        let takes_for_missing = purpose == Purpose::Find && !self.rules.keep(Rule::UnknownIsAsked);
        if texts.is_empty() || takes_for_missing {
            return Ok(Asked::Nobody);
        }
        if !self.view.has(self.member) {
            return Err(DictionaryError::OutOfView);
        }
        let texts: Arc<[Arc<str>]> = texts.into_iter().collect();
        self.check_bounds(&texts)?;
        let patience = self.bounds.patience;
        Ok(Asked::Owner(self.begin_ask(Ask { dictionary, purpose, texts, patience })))
    }

    fn begin_ask(&mut self, ask: Ask) -> AskId {
        let id = AskId(self.next_ask);
        self.next_ask += 1;
        let before = self.asks.insert(id, ask);
        assert!(before.is_none(), "each ask has its own number");
        self.send_ask(id);
        id
    }

    /// Whether one message takes these texts.
    pub(super) fn check_bounds(&self, texts: &[Arc<str>]) -> Result<(), DictionaryError> {
        let (count, max) = (texts.len(), self.bounds.texts_max);
        if count > max {
            return Err(DictionaryError::TooManyTexts { count, max });
        }
        let (bytes, max) = (texts.iter().map(|text| text.len()).max(), self.bounds.text_bytes_max);
        match bytes.filter(|bytes| *bytes > max) {
            Some(bytes) => Err(DictionaryError::TextTooLong { bytes, max }),
            None => Ok(()),
        }
    }

    /// Sends an ask to the owner of now, if there is one.
    pub(super) fn send_ask(&mut self, id: AskId) {
        let Some(Ask { dictionary, purpose, texts, .. }) = self.asks.get(&id).cloned() else { return };
        if let Some(owner) = self.owner(dictionary) {
            self.send(owner, dictionary, DictionaryBody::Ask { number: id.0, purpose, texts });
        }
    }

    /// Asks again what nobody has answered; what was asked often enough fails.
    pub(super) fn ask_again(&mut self) {
        let asks: Vec<AskId> = self.asks.keys().copied().collect();
        for id in asks {
            let Some(ask) = self.asks.get_mut(&id) else { continue };
            assert!(ask.patience > 0, "what has failed is not asked again");
            ask.patience -= 1;
            if ask.patience > 0 {
                self.send_ask(id);
                continue;
            }
            let dictionary = ask.dictionary;
            self.asks.remove(&id);
            let why = match self.owner(dictionary) {
                Some(owner) => DictionaryError::Silent { dictionary, owner },
                None => DictionaryError::NoOwner(dictionary),
            };
            self.tell(id, AskOutcome::Failed(why));
        }
    }

    /// Takes in what the owner has answered.
    pub(super) fn receive_codes(&mut self, dictionary: DictionaryId, number: u64, codes: &[Option<Code>]) {
        let id = AskId(number);
        let is_its = |ask: &&Ask| ask.dictionary == dictionary && ask.texts.len() == codes.len();
        let Some(texts) = self.asks.get(&id).filter(is_its).map(|ask| Arc::clone(&ask.texts)) else { return };
        self.asks.remove(&id);
        let (mut spellings, mut without) = (Vec::new(), Vec::new());
        for (text, code) in texts.iter().zip(codes) {
            match code {
                Some(code) => spellings.push(Spelling { code: *code, text: Arc::clone(text) }),
                None => without.push(Arc::clone(text)),
            }
        }
        let outcome = match self.note(dictionary, &spellings) {
            Ok(()) => AskOutcome::Answered { without },
            Err(why) => AskOutcome::Failed(why),
        };
        self.tell(id, outcome);
    }
}
