// SPDX-License-Identifier: Apache-2.0
//! The statements that a session keeps compiled by their text, those that were used last.
//!
//! Clients that put values into the text send another text each time: what they sent long ago makes room. The bound is
//! one of size, since texts differ by orders of magnitude: one for each session, and one for all of them together.

use super::prepared::Prepared;
use crate::quota::{QuotaShare, Quotas};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What the kept statements of a session may take, as far as their texts tell.
const CACHE_BYTES: usize = 4 << 20;

/// What a statement takes beside its text: its syntax and its plan, if it is short.
const STATEMENT_BYTES: usize = 2 << 10;

/// What syntax and plan take for each byte of text.
const BYTES_PER_TEXT_BYTE: usize = 16;

/// A statement with a longer text than this part of the cache would push too many others out.
const LARGEST_SHARE: usize = 8;

/// Statements by their text.
pub(super) struct StatementCache {
    entries: HashMap<Arc<str>, Entry>,
    /// Texts in the order of their last use.
    order: BTreeMap<u64, Arc<str>>,
    /// The number of the last use.
    uses: u64,
    /// What they take.
    bytes: QuotaShare,
}

struct Entry {
    prepared: Arc<Prepared>,
    used: u64,
}

fn size_of(sql: &str) -> usize {
    STATEMENT_BYTES + sql.len() * BYTES_PER_TEXT_BYTE
}

impl StatementCache {
    /// Nothing yet, in this bound.
    pub(super) fn new(quotas: &Quotas) -> Self {
        let bytes = QuotaShare::of(&quotas.kept_statements);
        Self { entries: HashMap::new(), order: BTreeMap::new(), uses: 0, bytes }
    }

    /// The statement of this text, which counts as used now.
    pub(super) fn get(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        let entry = self.entries.get_mut(sql)?;
        self.uses += 1;
        let text = self.order.remove(&entry.used).expect("each entry has a place in the order");
        entry.used = self.uses;
        self.order.insert(self.uses, text);
        Some(Arc::clone(&entry.prepared))
    }

    /// Whether the cache is for statements of this text.
    pub(super) fn takes(sql: &str) -> bool {
        size_of(sql) <= CACHE_BYTES / LARGEST_SHARE
    }

    /// Keeps a statement, in the place of an older one of the same text and of those that were not used for longest;
    /// not if all sessions together keep too much.
    pub(super) fn put(&mut self, sql: &str, prepared: Arc<Prepared>) {
        let size = size_of(sql);
        self.remove(sql);
        while self.bytes.amount() + size > CACHE_BYTES
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = Arc::clone(oldest);
            self.remove(&oldest);
        }
        if self.bytes.take(size).is_err() {
            return;
        }
        self.uses += 1;
        let text: Arc<str> = sql.into();
        self.order.insert(self.uses, Arc::clone(&text));
        self.entries.insert(text, Entry { prepared, used: self.uses });
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.bytes.give_back(self.bytes.amount());
    }

    fn remove(&mut self, sql: &str) {
        if let Some(entry) = self.entries.remove(sql) {
            self.order.remove(&entry.used);
            self.bytes.give_back(size_of(sql));
        }
    }
}

#[cfg(test)]
mod tests;
