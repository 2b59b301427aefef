// SPDX-License-Identifier: Apache-2.0
//! Messages that come in. Each may come twice, and long after it mattered.

use std::sync::Arc;

use super::Dictionaries;
use crate::epochs::cluster::dictionaries::message::{DictionaryBody, DictionaryMessage, Purpose};
use crate::epochs::cluster::dictionaries::names::{DictionaryId, GivenText};
use crate::epochs::cluster::dictionaries::owner::Asker;
use crate::epochs::cluster::dictionaries::record::{DictionaryEffect, DictionaryRecord};
use crate::epochs::cluster::dictionaries::replica::Replica;
use crate::epochs::cluster::rules::Rule;
use crate::epochs::cluster::view::{Member, Placement, ViewNumber};

/// A part of the owner's list, as it came.
struct Part {
    after: u32,
    previous: Option<ViewNumber>,
    texts: Vec<GivenText>,
    length: u32,
}

impl<P: Placement> Dictionaries<P> {
    /// Takes a message in. One for another incarnation, or of another layout, has no effect: who has sent it asks again.
    pub fn receive(&mut self, message: DictionaryMessage) {
        if message.to != self.member || !self.is_of_this_layout(&message) {
            return;
        }
        let DictionaryMessage { from, dictionary, body, .. } = message;
        match body {
            DictionaryBody::Ask { number, purpose, texts } => {
                self.receive_ask(dictionary, purpose, Asker { from, number, texts, silent: 0 });
            }
            DictionaryBody::Codes { number, codes } => self.receive_codes(dictionary, number, &codes),
            DictionaryBody::Give { after, previous, texts, length } => {
                self.receive_part(from, dictionary, &Part { after, previous, texts, length });
            }
            DictionaryBody::Logged { through } => {
                let length = self.replicas.get(&dictionary).map_or(0, Replica::length);
                if let Some(owning) = self.owned.get_mut(&dictionary).filter(|_| through <= length) {
                    owning.note_logged(from.node, through);
                }
                self.give(dictionary);
                self.answer_ready(dictionary);
            }
            DictionaryBody::Differs { after, have } => {
                let step = u32::try_from(self.bounds.texts_max).unwrap_or(u32::MAX);
                if let Some(owning) = self.owned.get_mut(&dictionary) {
                    owning.note_differs(from.node, (after, have), step);
                }
                self.give(dictionary);
            }
        }
    }

    fn is_of_this_layout(&self, message: &DictionaryMessage) -> bool {
        let is_same = message.layout == self.view.layout() && self.view.has(message.from);
        is_same || !self.rules.keep(Rule::SameView)
    }

    /// Gives codes to new texts, if that is asked for, and answers when all holders have the codes of all.
    fn receive_ask(&mut self, dictionary: DictionaryId, purpose: Purpose, asker: Asker) {
        let Some(codes_max) = self.declared.get(&dictionary).copied() else { return };
        let is_refused = self.check_bounds(&asker.texts).is_err();
        let Some(owning) = self.owned.get_mut(&dictionary).filter(|_| !is_refused) else { return };
        let texts = Arc::clone(&asker.texts);
        owning.wait(asker);
        if purpose == Purpose::Give {
            self.give_codes(dictionary, &texts, codes_max);
        }
        self.give(dictionary);
        self.answer_ready(dictionary);
    }

    /// Gives the next codes to those of `texts` that have none, as far as there are codes.
    fn give_codes(&mut self, dictionary: DictionaryId, texts: &[Arc<str>], codes_max: u32) {
        let (layout, keeps) = (self.view.layout(), self.rules.keep(Rule::OneCodePerText));
        let replica = self.replicas.entry(dictionary).or_default();
        let after = replica.length();
        for text in texts {
            let has_code = replica.code_of(text).is_some() && keeps;
            if !has_code && replica.length() < codes_max {
                replica.push(GivenText { text: Arc::clone(text), layout });
            }
        }
        assert!(replica.length() <= codes_max.max(after), "no code is beyond the bound");
        let texts = replica.part(after, usize::MAX);
        if !texts.is_empty() {
            let given = DictionaryRecord::Given { dictionary, after, texts };
            self.effects.push(DictionaryEffect::Log(given));
        }
    }

    /// Answers those whose texts all have codes on the disks of all holders, or none.
    fn answer_ready(&mut self, dictionary: DictionaryId) {
        let (Some(owning), Some(replica)) = (self.owned.get_mut(&dictionary), self.replicas.get(&dictionary))
        else {
            return;
        };
        let ready = owning.take_ready(|text| replica.code_of(text), self.rules);
        let answers: Vec<(Member, DictionaryBody)> = ready
            .into_iter()
            .map(|Asker { from, number, texts, .. }| {
                let codes = texts.iter().map(|text| replica.code_of(text)).collect();
                (from, DictionaryBody::Codes { number, codes })
            })
            .collect();
        for (to, body) in answers {
            let message = self.envelope(to, dictionary, body);
            self.effects.push(DictionaryEffect::Send(message));
        }
    }

    /// Takes over a part of the owner's list, and what is different here makes room for it.
    ///
    /// Nothing that anybody was told makes room: the owner has all of that, at the same places.
    fn receive_part(&mut self, from: Member, dictionary: DictionaryId, part: &Part) {
        let is_owner = self.owner(dictionary) == Some(from.node) || !self.rules.keep(Rule::OneOwner);
        if !is_owner {
            return;
        }
        let Part { after, previous, texts, length } = part;
        let replica = self.replicas.entry(dictionary).or_default();
        let is_here = *after <= replica.length();
        let has_same_past = replica.layout_before(*after) == *previous || !self.rules.keep(Rule::SamePast);
        if !is_here || !has_same_past {
            let have = replica.length().min(*after);
            self.send(from.node, dictionary, DictionaryBody::Differs { after: *after, have });
            return;
        }
        let same = replica.agrees(*after, texts);
        let through = *after + count(texts);
        if same < texts.len() {
            let (first, news) = (*after + count(&texts[..same]), &texts[same..]);
            replica.put(first, news);
            let given = DictionaryRecord::Given { dictionary, after: first, texts: news.to_vec() };
            self.effects.push(DictionaryEffect::Log(given));
        }
        assert!(replica.length() >= through, "what is promised is here");
        if through >= *length {
            self.in_step.insert(dictionary);
        }
        self.promise(from, dictionary, DictionaryBody::Logged { through });
    }

    /// Promises something that a crash must not undo.
    fn promise(&mut self, to: Member, dictionary: DictionaryId, body: DictionaryBody) {
        let message = self.envelope(to, dictionary, body);
        let is_kept = self.rules.keep(Rule::LogBeforeAnswer);
        self.effects.push(if is_kept {
            DictionaryEffect::SendOnceLogged(message)
        } else {
            DictionaryEffect::Send(message)
        });
    }
}

fn count(texts: &[GivenText]) -> u32 {
    u32::try_from(texts.len()).expect("a dictionary has fewer than 2^32 codes")
}
