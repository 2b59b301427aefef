// SPDX-License-Identifier: Apache-2.0
//! [`RowTransactions`]: what became of rows of the database with which loads of this process are one transaction.
//!
//! ```text
//!   a load that is prepared     begins, before its rows may name it      -->  open     (or it is closed, and its rows are refused)
//!   its rows are committed, or they will not be                          -->  ends
//!   the keeper, of a load whose node's life is over                      -->  open: it asks again; else closed, and the newest age tells
//! ```
//! It outlives the lives of the node: a transaction whose load began in one of them may commit its rows in the next. What was open when a
//! process ended is not any more: its rows are there, or nobody commits them.

use coeval_txn::Epoch;
use coeval_txn::cluster::RowsFate;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What the newest version of the rows names; nothing if that cannot be told now.
type NewestNamed = Arc<dyn Fn() -> Option<Epoch> + Send + Sync>;

/// See the module. Clones are the same.
///
/// # Locking
/// `state` is held for a look or a change, and nothing else is taken meanwhile.
#[derive(Clone)]
pub struct RowTransactions {
    newest_named: NewestNamed,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Rows may name them by now, and nobody has said what became of these.
    open: BTreeSet<Epoch>,
    /// Of these whoever had the rows is gone: they are there once a version names them.
    left: BTreeSet<Epoch>,
    /// The keeper was told what became of their rows.
    closed: BTreeSet<Epoch>,
    /// The newest that rows may name.
    newest: Epoch,
}

impl RowTransactions {
    /// Those of a database. `newest_named` gives the age that the newest version of its rows names which others may see, or nothing if
    /// that cannot be told, or a failover may lose it; it is asked now and then by the keeper.
    pub fn new(newest_named: impl Fn() -> Option<Epoch> + Send + Sync + 'static) -> Self {
        Self { newest_named: Arc::new(newest_named), state: Arc::default() }
    }

    /// The newest load of this process that rows have named, or may have; or what they [named before](Self::note_named_before).
    #[must_use]
    pub fn newest(&self) -> Epoch {
        self.state.lock().newest
    }

    /// What rows name at the start may be a load of a process before this one, which nobody has decided yet. To be called if these are rows of
    /// the cluster that this node is of.
    pub fn note_named_before(&self, named: Epoch) {
        self.note_named(named);
    }

    /// Rows may name this load from here on. Not if the keeper was told that there are none.
    pub(crate) fn begin(&self, epoch: Epoch) -> bool {
        let mut state = self.state.lock();
        let may_begin = !state.closed.contains(&epoch);
        if may_begin {
            state.open.insert(epoch);
        }
        may_begin
    }

    /// Rows may name it, and nothing is in the way.
    pub(crate) fn note_named(&self, epoch: Epoch) {
        let mut state = self.state.lock();
        state.newest = epoch.max(state.newest);
    }

    /// What became of the rows is known: they are published, or there will be none.
    pub(crate) fn end(&self, epoch: Epoch) {
        let mut state = self.state.lock();
        state.open.remove(&epoch);
        state.left.remove(&epoch);
    }

    /// Whoever was to commit the rows has gone, and it is not known whether they are committed.
    pub(crate) fn leave(&self, epoch: Epoch) {
        self.state.lock().left.insert(epoch);
    }

    /// The loads that were left so, whose rows are there by now.
    pub(crate) fn found(&self) -> Vec<Epoch> {
        let left: Vec<Epoch> = self.state.lock().left.iter().copied().collect();
        let newest = if left.is_empty() { None } else { (self.newest_named)() };
        left.into_iter().filter(|epoch| newest.is_some_and(|newest| newest >= *epoch)).collect()
    }

    /// Of those that were left so nobody here will know any more. Whether there were some.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = self.state.lock();
        let left = std::mem::take(&mut state.left);
        state.open.retain(|epoch| !left.contains(epoch));
        !left.is_empty()
    }

    /// What became of the rows of a load, for good; nothing if that is not known yet.
    pub(crate) fn fate(&self, epoch: Epoch) -> Option<RowsFate> {
        {
            let mut state = self.state.lock();
            if state.open.contains(&epoch) {
                return None;
            }
            // Before the look: none come behind it.
            state.closed.insert(epoch);
        }
        let newest = (self.newest_named)()?;
        Some(if newest >= epoch { RowsFate::Committed } else { RowsFate::RolledBack })
    }
}

/// Of a node without rows.
impl Default for RowTransactions {
    fn default() -> Self {
        Self::new(|| Some(Epoch::ZERO))
    }
}

impl fmt::Debug for RowTransactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowTransactions").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn named_by(newest: &Arc<AtomicU64>) -> RowTransactions {
        let newest = Arc::clone(newest);
        RowTransactions::new(move || Some(Epoch::new(newest.load(Ordering::SeqCst))))
    }

    /// To break it: have `fate` not look at what is open, or `begin` not at what is closed.
    #[test]
    fn a_keeper_is_told_what_stays_so() {
        let newest = Arc::new(AtomicU64::new(3));
        let (rows, at) = (named_by(&newest), Epoch::new);
        assert!(rows.begin(at(5)));
        assert_eq!(rows.fate(at(5)), None, "its rows may come yet");
        newest.store(6, Ordering::SeqCst);
        rows.end(at(5));
        assert_eq!(rows.fate(at(5)), Some(RowsFate::Committed));
        assert_eq!(rows.fate(at(9)), Some(RowsFate::RolledBack));
        assert!(!rows.begin(at(9)), "its rows do not come any more");
        assert!(rows.begin(at(11)));
    }

    /// To break it: have `note_named_before` do nothing. Behind a crash readers below SERIALIZABLE see rows without their load.
    #[test]
    fn what_rows_named_before_the_start_may_be_a_load() {
        let rows = RowTransactions::default();
        assert_eq!(rows.newest(), Epoch::ZERO);
        rows.note_named_before(Epoch::new(6));
        rows.note_named(Epoch::new(4));
        assert_eq!(rows.newest(), Epoch::new(6));
    }

    /// To break it: have `leave` end it.
    #[test]
    fn what_was_left_is_found_once_its_rows_are_there() {
        let newest = Arc::new(AtomicU64::new(3));
        let (rows, at) = (named_by(&newest), Epoch::new);
        assert!(rows.begin(at(5)));
        rows.leave(at(5));
        assert_eq!((rows.found(), rows.fate(at(5))), (vec![], None));
        newest.store(5, Ordering::SeqCst);
        assert_eq!(rows.found(), [at(5)]);
        rows.end(at(5));
        assert_eq!((rows.found(), rows.fate(at(5))), (vec![], Some(RowsFate::Committed)));
        assert!(!rows.give_up());
        assert!(rows.begin(at(9)) && rows.begin(at(11)));
        rows.leave(at(9));
        assert!(rows.give_up() && !rows.give_up());
        assert_eq!([9, 11].map(|epoch| rows.fate(at(epoch))), [Some(RowsFate::RolledBack), None]);
    }
}
