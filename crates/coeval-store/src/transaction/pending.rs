// SPDX-License-Identifier: Apache-2.0
//! The checks that wait for the end of the statement, as a list that a savepoint can share.
//!
//! A row that is written may come with a savepoint, and a statement writes many rows. So the list is made of links
//! that never change: a savepoint holds the newest link, a new check is one more link, and both cost the same however
//! many checks wait.

use super::foreign_key::PendingCheck;
use std::fmt;
use std::sync::Arc;

/// Checks that wait, the newest first. A clone costs one reference count.
#[derive(Clone, Default)]
pub(super) struct PendingChecks {
    newest: Option<Arc<Link>>,
}

struct Link {
    check: PendingCheck,
    before: PendingChecks,
}

impl PendingChecks {
    pub(super) fn push(&mut self, check: PendingCheck) {
        let before = std::mem::take(self);
        self.newest = Some(Arc::new(Link { check, before }));
    }

    /// Takes the newest out.
    pub(super) fn pop(&mut self) -> Option<PendingCheck> {
        let newest = self.newest.take()?;
        match Arc::try_unwrap(newest) {
            Ok(mut link) => {
                *self = std::mem::take(&mut link.before);
                Some(link.check)
            }
            // A savepoint shares it, so it is cloned.
            Err(shared) => {
                *self = shared.before.clone();
                Some(shared.check.clone())
            }
        }
    }
}

impl Drop for PendingChecks {
    /// One link after the other: a link that drops the one before it would go as deep as the list is long.
    fn drop(&mut self) {
        let mut newest = self.newest.take();
        while let Some(mut link) = newest.and_then(Arc::into_inner) {
            newest = link.before.newest.take();
        }
    }
}

impl fmt::Debug for PendingChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        let mut next = self.newest.as_deref();
        while let Some(link) = next {
            list.entry(&link.check);
            next = link.before.newest.as_deref();
        }
        list.finish()
    }
}

#[cfg(test)]
mod tests;
