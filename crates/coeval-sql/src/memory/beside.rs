// SPDX-License-Identifier: Apache-2.0
//! What queries hold beside what they have asked for, all together.
//!
//! Batches that are on their way are nobody's request, and each query has some. One query may well have 64 MiB of them, but of many
//! queries that would be any amount, outside of the budget. So what all of them hold beside is added up:
//!
//! - [`FREE`] bytes are free, for all queries together, whoever holds them;
//! - what they hold beyond that is taken of the budget: there is less for those who ask, and whoever comes to hold more has to find
//!   room for it as if he asked, by the same rules;
//! - a query that holds little beside ([`LITTLE_BYTES`]) is not refused for it, whatever the others hold.
//!
//! So queries have no more than the budget and [`FREE`] bytes, but for what each may have in any case.
//!
//! Cost: a query that holds less than a MiB beside touches nothing that is shared. Others add to one number when they have allocated a
//! MiB more ([`holding`](super::holding)), and lock the budget only beyond what is free.

use super::process::THIS;
use super::{QueryPool, Refused, SMALL_BYTES};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;

/// What all queries together may hold beyond what they have asked for, before it is taken of their budget: batches on their way, in each
/// of some operators and threads.
pub(super) static FREE: LazyLock<usize> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, |threads| threads.get());
    (threads * (8 << 20)).max(64 << 20)
});

/// What each query may hold so in any case: a batch of usual rows in each of some operators.
pub(super) const LITTLE_BYTES: usize = 4 << 20;

/// A number that is never less than 0 for longer than a moment.
fn positive(bytes: isize) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

impl QueryPool {
    /// Notes that the query has come to hold so much more than it has asked for, or less.
    pub(super) fn note_beside(&self, more: isize) {
        if more != 0 {
            self.beside.fetch_add(more, Ordering::Relaxed);
            self.budget.beside.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// What the other queries hold beside, as far as it is taken of the budget.
    pub(super) fn taken_beside_by_others(&self) -> usize {
        let all = self.budget.beside.load(Ordering::Relaxed);
        positive(all.wrapping_sub(self.beside.load(Ordering::Relaxed))).saturating_sub(*FREE)
    }

    /// What of it this query has to find room for once it has noted so much more, and what all queries together hold then beyond what
    /// is free.
    fn beyond(&self, more: isize) -> (usize, usize) {
        let with_more = |noted: isize| positive(noted.saturating_add(more));
        let all = with_more(self.budget.beside.load(Ordering::Relaxed)).saturating_sub(*FREE);
        let mine = with_more(self.beside.load(Ordering::Relaxed)).saturating_sub(LITTLE_BYTES);
        (mine.min(all), all)
    }

    /// Whether it needs no room of the budget if it notes so much more.
    pub(super) fn is_beside_free(&self, more: isize) -> bool {
        self.beyond(more).0 == 0
    }

    /// Whether the query may hold what it has noted.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn room_beside(&self) -> Result<(), Refused> {
        let (mine, all) = self.beyond(0);
        if mine == 0 {
            return Ok(());
        }
        THIS.room_for(mine, self.budget.unwritten()).map_err(|none| {
            self.budget.ask_for_room();
            Refused::Process(none)
        })?;
        let taken = self.budget.taken.lock();
        let asked_for = self.bytes.load(Ordering::Relaxed);
        let (has, there) = (asked_for.saturating_add(mine), taken.bytes.saturating_add(all));
        // It is a large one, whatever it has asked for.
        let large_queries = taken.large_queries + usize::from(asked_for <= SMALL_BYTES);
        let is_within_share = has <= self.budget.size / (large_queries + 1) && there <= self.budget.size;
        let is_left = has.max(there) <= self.budget.query_max();
        if is_within_share || is_left { Ok(()) } else { Err(Refused::Share { has }) }
    }
}
