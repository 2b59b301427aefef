// SPDX-License-Identifier: Apache-2.0
//! Dictionaries: who asks for codes, rows that have them, and what is true of both.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::Rng;

use super::machine::{Bricks, Waiting};
use super::{Machine, Ring, Rows, Simulation};
use crate::epochs::cluster::{
    AskId, AskOutcome, Asked, Dictionaries, DictionaryBounds, DictionaryEffect, DictionaryError,
    DictionaryId, DictionaryMessage, DictionaryRecord, LogRecord, NodeId, Purpose, Spelling,
};

/// The texts of all columns.
const TEXTS: u32 = 12;
/// Not all of them get codes.
pub(super) const CODES_MAX: u32 = 10;
pub(super) const BOUNDS: DictionaryBounds = DictionaryBounds { texts_max: 4, text_bytes_max: 8, patience: 8 };

pub(super) fn dictionaries() -> impl Iterator<Item = DictionaryId> {
    (0..2).map(|column| DictionaryId { table: 1, column })
}

impl Simulation {
    /// Something happens to dictionaries, or nothing.
    pub(super) fn step_texts(&mut self) {
        match self.texts_random.random_range(0..10) {
            0..5 => self.deliver_any_text(),
            5 => {
                let machine = self.texts_random.random_range(0..self.machines.len());
                self.resend_texts(machine);
            }
            6..8 => self.ask_any(),
            _ => {}
        }
    }

    /// A network carries so much.
    pub(super) fn lose_texts(&mut self, most: usize) {
        while self.text_network.len() > most {
            let index = self.texts_random.random_range(0..self.text_network.len());
            self.text_network.swap_remove(index);
        }
    }

    /// Delivers a message under way, drops it, or delivers it and leaves it under way.
    fn deliver_any_text(&mut self) {
        if self.text_network.is_empty() {
            return;
        }
        let index = self.texts_random.random_range(0..self.text_network.len());
        let DictionaryMessage { from, to, .. } = &self.text_network[index];
        let ends = [from.node, to.node].map(|node| node.get() as usize - 1);
        if from.node != to.node && self.isolated.is_some_and(|isolated| ends.contains(&isolated)) {
            return;
        }
        let message = match self.texts_random.random_range(0..12) {
            0 => return drop(self.text_network.swap_remove(index)),
            1 => self.text_network[index].clone(),
            _ => self.text_network.swap_remove(index),
        };
        self.hand_over_text(message);
    }

    fn hand_over_text(&mut self, message: DictionaryMessage) {
        let machine = message.to.node.get() as usize - 1;
        if self.machines[machine].process.is_some() {
            self.machines[machine].texts.receive(message);
            self.pump(machine);
        }
    }

    fn resend_texts(&mut self, machine: usize) {
        if self.machines[machine].process.is_some() {
            self.machines[machine].texts.resend();
            self.pump(machine);
        }
    }

    /// Everything that is under way arrives, and every disk writes.
    pub(super) fn round_texts(&mut self) {
        (0..self.machines.len()).for_each(|machine| self.resend_texts(machine));
        for _ in 0..4 {
            for message in std::mem::take(&mut self.text_network) {
                self.hand_over_text(message);
            }
            for machine in 0..self.machines.len() {
                self.sync(machine, self.machines[machine].not_on_disk());
            }
        }
    }

    fn any_dictionary(&mut self) -> DictionaryId {
        let column = self.texts_random.random_range(0..2);
        DictionaryId { table: 1, column }
    }

    fn any_text(&mut self) -> Arc<str> {
        let number = self.texts_random.random_range(0..TEXTS);
        Arc::from(format!("t{number}"))
    }

    /// Somebody wants codes: a load, or a reader.
    fn ask_any(&mut self) {
        let machine = self.texts_random.random_range(0..self.machines.len());
        let dictionary = self.any_dictionary();
        let count = self.texts_random.random_range(1..3);
        let texts: Vec<Arc<str>> = (0..count).map(|_| self.any_text()).collect();
        let purpose = [Purpose::Give, Purpose::Give, Purpose::Find][self.texts_random.random_range(0..3)];
        self.ask(machine, dictionary, purpose, &texts);
    }

    fn ask(&mut self, machine: usize, dictionary: DictionaryId, purpose: Purpose, texts: &[Arc<str>]) {
        let Some(node) = &self.machines[machine].process else { return };
        // Who is behind may be answered by an owner that is so too.
        let is_of_now = node.view().layout() == self.keeper.view().layout();
        let known = &mut self.machines[machine].texts;
        let unknown: BTreeSet<Arc<str>> =
            texts.iter().filter(|text| known.code_of(dictionary, text).is_none()).cloned().collect();
        let asked = known.ask(dictionary, purpose, texts);
        let under_way = self.text_network.len();
        self.pump_texts(machine);
        let has_asked = self.text_network.len() > under_way || asked != Ok(Asked::Nobody);
        if unknown.is_empty() && has_asked {
            self.violate(format!("{} knows all of {texts:?} and asks", self.machines[machine].member));
        }
        self.counts.asked_nobody += usize::from(unknown.is_empty());
        if purpose == Purpose::Give {
            return;
        }
        let is_told = |text: &Arc<str>| self.told_codes.contains_key(&(dictionary, Arc::clone(text)));
        let told: BTreeSet<Arc<str>> = unknown.into_iter().filter(is_told).collect();
        match asked {
            Ok(Asked::Owner(ask)) if is_of_now => {
                self.finds.insert((machine, ask), told);
            }
            Ok(Asked::Nobody) if !told.is_empty() => {
                self.violate(format!("a reader takes {told:?} for missing and has asked nobody"));
            }
            _ => {}
        }
    }

    /// All machines want a code of each dictionary.
    pub(super) fn ask_everywhere(&mut self) {
        for machine in 0..self.machines.len() {
            for dictionary in dictionaries() {
                let texts = [self.any_text()];
                self.ask(machine, dictionary, Purpose::Give, &texts);
            }
        }
    }

    /// Two rows for a load on a machine; they have codes if it knows those of the texts that they should have.
    pub(super) fn rows_with_codes(&mut self, machine: usize, first: u64) -> Rows {
        let mut rows = Rows { numbers: vec![first, first + 1], texts: Vec::new() };
        for number in first..first + 2 {
            // It may have been tried before.
            self.row_codes.remove(&number);
            let (dictionary, text) = (self.any_dictionary(), self.any_text());
            let known = &self.machines[machine].texts;
            if let Some(code) = known.code_of(dictionary, &text) {
                let spelled = known.spell(dictionary, [code]).into_iter();
                rows.texts.extend(spelled.map(|spelling| (dictionary, spelling)));
                self.row_codes.insert(number, (dictionary, code));
            }
        }
        rows
    }

    /// The texts of the codes in bricks, as far as a machine knows them.
    pub(super) fn spell(&self, known: &Dictionaries<Ring>, bricks: &Bricks) -> Vec<(DictionaryId, Spelling)> {
        let mut texts = Vec::new();
        for (_, row) in bricks.values().flatten() {
            if let Some((dictionary, code)) = self.row_codes.get(row) {
                let spelled = known.spell(*dictionary, [*code]).into_iter();
                texts.extend(spelled.map(|spelling| (*dictionary, spelling)));
            }
        }
        texts
    }

    /// A machine takes in texts that have come with rows.
    pub(super) fn learn(&mut self, machine: usize, texts: &[(DictionaryId, Spelling)]) {
        for (dictionary, spelling) in texts {
            let learned = self.machines[machine].texts.learn(*dictionary, std::slice::from_ref(spelling));
            if let Err(why) = learned {
                self.violate(why.to_string());
            }
        }
        self.pump_texts(machine);
    }

    /// Does what the process of a machine wants done about dictionaries.
    pub(super) fn pump_texts(&mut self, machine: usize) {
        if self.machines[machine].process.is_none() {
            return;
        }
        for effect in self.machines[machine].texts.take_effects() {
            match effect {
                DictionaryEffect::Log(record) => {
                    self.note_told(&record);
                    self.machines[machine].log_texts(record);
                }
                DictionaryEffect::Send(message) => self.text_network.push(message),
                DictionaryEffect::SendOnceLogged(message) => {
                    self.machines[machine].wait(Waiting::Text(message));
                }
                DictionaryEffect::Tell(ask, outcome) => self.note_answer(machine, ask, &outcome),
            }
        }
    }

    /// What a node was told stays true for all.
    fn note_told(&mut self, record: &DictionaryRecord) {
        let DictionaryRecord::Learned { dictionary, spellings } = record else { return };
        for Spelling { code, text } in spellings {
            let text_before = self.told_texts.insert((*dictionary, *code), Arc::clone(text));
            let code_before = self.told_codes.insert((*dictionary, Arc::clone(text)), *code);
            let is_other = text_before.as_ref().is_some_and(|before| before != text);
            if is_other || code_before.is_some_and(|before| before != *code) {
                self.violate(format!(
                    "{dictionary}: {code:?} is {text:?}, was {text_before:?}, which was {code_before:?}"
                ));
            }
        }
    }

    fn note_answer(&mut self, machine: usize, ask: AskId, outcome: &AskOutcome) {
        let told = self.finds.remove(&(machine, ask)).unwrap_or_default();
        match outcome {
            AskOutcome::Answered { without } => {
                self.counts.answered += 1;
                if without.iter().any(|text| told.contains(text)) {
                    self.violate(format!("a reader is told that {without:?} have no codes"));
                }
            }
            AskOutcome::Failed(why @ DictionaryError::TwoMeanings { .. }) => self.violate(why.to_string()),
            AskOutcome::Failed(_) => self.counts.unanswered += 1,
        }
    }

    /// A machine's readers end with it.
    pub(super) fn forget_finds(&mut self, machine: usize) {
        self.finds.retain(|(of, _), _| *of != machine);
    }

    /// Rows that a machine logs have their texts there already.
    pub(super) fn check_spelled(&mut self, machine: usize, record: &LogRecord<Rows>) {
        let numbers: Vec<u64> = match record {
            LogRecord::Append { rows, .. } => rows.numbers.clone(),
            LogRecord::Copied { rows, .. } => {
                rows.iter().flat_map(|(_, rows)| rows.numbers.iter().copied()).collect()
            }
            _ => return,
        };
        self.check_rows_spelled(machine, &numbers);
    }

    /// A machine that starts has the texts of all its rows.
    pub(super) fn check_all_spelled(&mut self, machine: usize) {
        let rows = self.machines[machine].bricks.values().flatten();
        let numbers: Vec<u64> = rows.map(|(_, row)| *row).collect();
        self.check_rows_spelled(machine, &numbers);
    }

    fn check_rows_spelled(&mut self, machine: usize, numbers: &[u64]) {
        let Machine { member, texts, .. } = &self.machines[machine];
        let coded: Vec<_> = numbers.iter().filter_map(|number| self.row_codes.get(number)).collect();
        let wrong = coded.iter().find(|(dictionary, code)| {
            let text = texts.text_of(*dictionary, *code);
            text.is_none() || text != self.told_texts.get(&(*dictionary, *code))
        });
        let wrong = wrong.map(|(dictionary, code)| {
            format!("{member} has a row with {code:?} of {dictionary} and not its text")
        });
        self.counts.spelled += coded.len();
        if let Some(wrong) = wrong {
            self.violate(wrong);
        }
    }

    /// What was told is on the disks of all that serve the place of its dictionary, and there are some.
    pub(super) fn check_texts_durable(&mut self) {
        let disks: Vec<Dictionaries<Ring>> = self.machines.iter().map(Machine::texts_on_disk).collect();
        let mut lost = None;
        for ((dictionary, code), text) in &self.told_texts {
            let mut serving = self.keeper.view().serving(&self.ring, dictionary.place());
            serving.retain(|node| !self.has_lost_disk(*node));
            let lacks = |node: &NodeId| {
                let listed = disks[node.get() as usize - 1].listed(*dictionary, *code);
                listed.as_ref() != Some(text)
            };
            if serving.is_empty() || serving.iter().any(lacks) {
                lost = Some(format!("{text:?} of {dictionary} was told and is not on all of {serving:?}"));
            }
        }
        if let Some(lost) = lost {
            self.violate(lost);
        }
    }

    /// All asks have ended.
    pub(super) fn check_texts_end(&mut self) {
        // Of one that was removed nobody waits for anything.
        let mut running = self.machines.iter().filter(|machine| machine.process.is_some());
        let open = running.find(|machine| machine.texts.open_asks() > 0);
        if let Some(open) = open.map(|machine| machine.member) {
            self.violate(format!("an ask of {open} has not ended"));
        }
    }
}
