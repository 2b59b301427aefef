// SPDX-License-Identifier: Apache-2.0
//! What was done in the demo, and what its checks found.

use super::LOAD_ROWS;
use crate::readable::grouped;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Violations that are kept to be named.
const NAMED_MAX: usize = 8;

/// # Locking
/// `noted` is held while something is noted or looked up, and nothing else is done meanwhile.
#[derive(Default)]
pub(super) struct Figures {
    is_over: AtomicBool,
    sources: AtomicU32,
    loads: AtomicU64,
    dashboards: AtomicU64,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// How many loads of each source were acknowledged.
    acknowledged: BTreeMap<u32, u64>,
    /// Sources that have one more of which nobody knows.
    unknown: BTreeSet<u32>,
    violations: Vec<String>,
}

impl Figures {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// A number that no source has had.
    pub(super) fn new_source(&self) -> u32 {
        self.sources.fetch_add(1, Ordering::Relaxed)
    }

    /// So many loads of a source are acknowledged by now.
    pub(super) fn acknowledge(&self, source: u32, loads: u64) {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.noted().acknowledged.insert(source, loads);
    }

    /// Nobody knows whether the load behind the acknowledged ones is there.
    pub(super) fn note_unknown(&self, source: u32) {
        self.noted().unknown.insert(source);
    }

    pub(super) fn violate(&self, what: String) {
        let mut noted = self.noted();
        if noted.violations.len() < NAMED_MAX {
            noted.violations.push(what);
        }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.noted().violations.clone()
    }

    /// Checks what a dashboard has seen: whole loads, none missing before another, which add up to nothing.
    pub(super) fn check(&self, rows: &[Vec<Option<String>>]) {
        self.dashboards.fetch_add(1, Ordering::Relaxed);
        for row in rows {
            let is_whole = seen(row).is_some_and(|(_, rows, last, sum)| {
                sum == 0 && last.checked_add(1).and_then(|loads| loads.checked_mul(LOAD_ROWS)) == Some(rows)
            });
            if !is_whole {
                self.violate(format!("a dashboard sees {row:?}, which are no whole loads"));
            }
        }
    }

    /// What of the acknowledged loads is not among these rows, or is there beyond them.
    pub(super) fn missing(&self, rows: &[Vec<Option<String>>]) -> Option<String> {
        let seen = rows.iter().filter_map(|row| seen(row));
        let loads: BTreeMap<u32, u64> = seen.map(|(source, rows, ..)| (source, rows / LOAD_ROWS)).collect();
        let noted = self.noted();
        let sources = noted.acknowledged.keys().chain(loads.keys());
        for source in sources {
            let (acknowledged, found) = (noted.acknowledged.get(source), loads.get(source));
            let (acknowledged, found) = (*acknowledged.unwrap_or(&0), *found.unwrap_or(&0));
            let more = u64::from(noted.unknown.contains(source));
            if found < acknowledged || found > acknowledged + more {
                return Some(format!(
                    "source {source} has {found} loads, and {acknowledged} were acknowledged"
                ));
            }
        }
        None
    }

    /// How it goes, in a line.
    pub(super) fn line(&self) -> String {
        let loads = self.loads.load(Ordering::Relaxed);
        let (dashboards, violations) = (self.dashboards.load(Ordering::Relaxed), self.violations().len());
        let checks = if violations == 0 { "all add up" } else { "CHECKS FAILED" };
        format!(
            "{} loads acknowledged, {} rows; {} dashboards, {checks}",
            grouped(loads),
            grouped(loads * LOAD_ROWS),
            grouped(dashboards)
        )
    }

    /// What was done, and what is wrong.
    pub(super) fn summary(&self) -> String {
        let violations = self.violations();
        if violations.is_empty() {
            return format!("{}; in the end all nodes have all that was acknowledged.", self.line());
        }
        format!("CHECKS FAILED: {}", violations.join("; "))
    }
}

/// A row of a dashboard: the source, its rows, the number of its last load, and what they add up to.
fn seen(row: &[Option<String>]) -> Option<(u32, u64, u64, i64)> {
    let [source, rows, last, sum] = row else { return None };
    Some((
        source.as_deref()?.parse().ok()?,
        rows.as_deref()?.parse().ok()?,
        last.as_deref()?.parse().ok()?,
        sum.as_deref()?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(source: u32, rows: u64, last: u64, sum: i64) -> Vec<Option<String>> {
        [source.to_string(), rows.to_string(), last.to_string(), sum.to_string()].map(Some).to_vec()
    }

    /// To break it: leave out one of the comparisons.
    #[test]
    fn half_a_load_and_a_gap_are_seen() {
        for (seen, is_whole) in [
            (row(1, 2 * LOAD_ROWS, 1, 0), true),
            (row(1, 2 * LOAD_ROWS - 1, 1, 0), false),
            (row(1, 2 * LOAD_ROWS, 2, 0), false),
            (row(1, 2 * LOAD_ROWS, 1, 5), false),
        ] {
            let figures = Figures::default();
            figures.check(&[seen]);
            assert_eq!(figures.violations().is_empty(), is_whole);
        }
    }

    #[test]
    fn what_was_acknowledged_is_asked_for() {
        let figures = Figures::default();
        figures.acknowledge(1, 2);
        figures.note_unknown(1);
        assert!(figures.missing(&[row(1, LOAD_ROWS, 0, 0)]).is_some());
        assert!(figures.missing(&[row(1, 2 * LOAD_ROWS, 1, 0)]).is_none());
        assert!(figures.missing(&[row(1, 3 * LOAD_ROWS, 2, 0)]).is_none(), "nobody knew of that one");
        assert!(figures.missing(&[row(1, 4 * LOAD_ROWS, 3, 0)]).is_some());
        assert!(figures.missing(&[row(1, 2 * LOAD_ROWS, 1, 0), row(2, LOAD_ROWS, 0, 0)]).is_some());
    }
}
