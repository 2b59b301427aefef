// SPDX-License-Identifier: Apache-2.0
//! What must be in the directory, and what may be: kept from what the child says.

use std::collections::{BTreeMap, BTreeSet};

/// The keys of one worker with their values.
pub(crate) type Keys = BTreeMap<String, String>;

/// The keys of all workers, as they are found.
pub(crate) type Contents = BTreeMap<u32, Keys>;

/// What one transaction does: a new value, or none.
type Effect = Vec<(String, Option<String>)>;

/// One worker: the contents that its keys may have. A transaction whose commit was not acknowledged when the
/// process was killed leaves two for each that was possible before.
#[derive(Debug)]
struct Worker {
    possible: Vec<Keys>,
    begun: Option<Effect>,
}

/// All workers.
#[derive(Debug, Default)]
pub(crate) struct Model {
    workers: BTreeMap<u32, Worker>,
    /// The numbers that sequences have given.
    given: BTreeMap<String, BTreeSet<i64>>,
    /// Transactions that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Transactions that were begun and not acknowledged.
    pub(crate) in_doubt: usize,
}

impl Model {
    /// Takes in a line of the child.
    pub(crate) fn hear(&mut self, line: &str) -> Result<(), String> {
        if let Some(given) = line.strip_prefix("given ") {
            return self.give(given);
        }
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let number = words.next().and_then(|word| word.parse::<u32>().ok());
        match (kind, number) {
            ("open", _) => Ok(()),
            ("begin", Some(number)) => {
                let effect = words.map(parse_effect).collect::<Option<Effect>>();
                let effect = effect.ok_or_else(|| format!("a line that nobody wrote: {line}"))?;
                let before = self.worker(number).begun.replace(effect);
                if before.is_some() { Err(format!("worker {number} begins twice")) } else { Ok(()) }
            }
            ("done", Some(number)) => {
                self.acknowledged += 1;
                let worker = self.worker(number);
                let effect = worker.begun.take().ok_or_else(|| format!("nothing was begun: {line}"))?;
                worker.possible.iter_mut().for_each(|keys| apply(keys, &effect));
                Ok(())
            }
            _ => Err(format!("the child says: {line}")),
        }
    }

    /// A sequence has given a number, which it never has before, in this life or another.
    fn give(&mut self, given: &str) -> Result<(), String> {
        let parsed = given.split_once(' ').and_then(|(name, number)| Some((name, number.parse().ok()?)));
        let (name, number) = parsed.ok_or_else(|| format!("a line that nobody wrote: given {given}"))?;
        let is_new = self.given.entry(name.to_owned()).or_default().insert(number);
        if is_new { Ok(()) } else { Err(format!("sequence {name} gives {number} twice")) }
    }

    /// How many numbers sequences have given.
    pub(crate) fn given(&self) -> usize {
        self.given.values().map(BTreeSet::len).sum()
    }

    fn worker(&mut self, number: u32) -> &mut Worker {
        let new = || Worker { possible: vec![Keys::new()], begun: None };
        self.workers.entry(number).or_insert_with(new)
    }

    /// The child is dead: what was begun may have happened or not.
    pub(crate) fn end_of_life(&mut self) {
        for worker in self.workers.values_mut() {
            let Some(effect) = worker.begun.take() else { continue };
            self.in_doubt += 1;
            let mut happened = worker.possible.clone();
            happened.iter_mut().for_each(|keys| apply(keys, &effect));
            worker.possible.extend(happened);
        }
    }

    /// Compares with what was found, which is what is known from now on.
    pub(crate) fn compare(&mut self, found: &Contents) -> Result<(), String> {
        let nothing = Keys::new();
        for (number, worker) in &mut self.workers {
            let found = found.get(number).unwrap_or(&nothing);
            if !worker.possible.contains(found) {
                let nearest = worker.possible.iter().map(|keys| differences(keys, found));
                let nearest = nearest.min_by_key(String::len).unwrap_or_default();
                return Err(format!("worker {number}: {nearest}"));
            }
            worker.possible = vec![found.clone()];
        }
        Ok(())
    }
}

fn parse_effect(word: &str) -> Option<(String, Option<String>)> {
    if let Some(key) = word.strip_prefix('-') {
        return Some((key.to_owned(), None));
    }
    let (key, value) = word.strip_prefix('+')?.split_once('=')?;
    Some((key.to_owned(), Some(value.to_owned())))
}

fn apply(keys: &mut Keys, effect: &Effect) {
    for (key, value) in effect {
        match value {
            Some(value) => keys.insert(key.clone(), value.clone()),
            None => keys.remove(key),
        };
    }
}

fn differences(expected: &Keys, found: &Keys) -> String {
    let all: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let different = all.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    let lines = different.map(|key| format!("{key}: {:?}, not {:?}", found.get(key), expected.get(key)));
    lines.collect::<Vec<_>>().join("; ")
}
