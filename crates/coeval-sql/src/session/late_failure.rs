// SPDX-License-Identifier: Apache-2.0
//! What fails behind a statement of a block, by hands that do not have the session: rows that are read while later statements
//! run.

use super::block::Block;
use super::{Session, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A note for one transaction block; clones are about the same one. A note that comes when the block has ended says nothing.
///
/// # Locking
/// None: a flag that readers set and the session takes, and that guards nothing else.
#[derive(Clone, Debug, Default)]
pub struct LateFailure(Arc<AtomicBool>);

impl LateFailure {
    /// The block has failed: from its session's next statement on, which is refused with `25P02`.
    pub fn note(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Block {
    pub(super) fn has_failed_late(&self) -> bool {
        self.late_failure.as_ref().is_some_and(|noted| noted.0.load(Ordering::Acquire))
    }
}

impl Session {
    /// What a reader of rows notes its failure by, for the block that is open and has not failed; `None` outside of one.
    #[must_use]
    pub fn late_failure(&mut self) -> Option<LateFailure> {
        match &mut self.state {
            State::Active(block) => Some(block.late_failure.get_or_insert_default().clone()),
            State::Idle | State::Failed(_) => None,
        }
    }

    /// If a failure was noted, makes the open block a failed one. A caller that lets others read rows calls this before each statement.
    pub fn heed_late_failure(&mut self) {
        let (State::Active(block) | State::Failed(block)) = &self.state else { return };
        let Some(LateFailure(noted)) = &block.late_failure else { return };
        // It is taken, so that a block goes on that is rolled back to a savepoint.
        if noted.swap(false, Ordering::AcqRel) {
            self.fail_block();
        }
    }
}
