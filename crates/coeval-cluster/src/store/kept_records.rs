// SPDX-License-Identifier: Apache-2.0
//! [`KeptRecords`]: what the protocol has to be given again when the log goes on in another file.
//!
//! Why it is enough stands in the crate's README, "The log gets shorter".

use crate::brick_change::BrickChange;
use bytes::Bytes;
use coeval_txn::Epoch;
use coeval_txn::cluster::{Incarnation, LogRecord};

/// The records of a log without rows, less those that nobody needs any more.
#[derive(Default)]
pub(super) struct KeptRecords {
    /// The first life that this log has, and the last one.
    lives: Option<(Incarnation, Incarnation)>,
    safe: Option<Epoch>,
    /// All others, in their order.
    others: Vec<LogRecord<BrickChange>>,
}

impl KeptRecords {
    /// Notes a record that is logged.
    pub(super) fn note(&mut self, record: &LogRecord<BrickChange>) {
        match record {
            LogRecord::Started(life) => {
                let (first, last) = self.lives.unwrap_or((*life, *life));
                self.lives = Some((first.min(*life), last.max(*life)));
            }
            LogRecord::Safe(epoch) => self.safe = self.safe.max(Some(*epoch)),
            LogRecord::Copied { .. } => {}
            LogRecord::Append { epoch, number, brick, .. } => {
                let rows = BrickChange::Rows(Bytes::new());
                let (epoch, number, brick) = (*epoch, *number, *brick);
                self.others.push(LogRecord::Append { epoch, number, brick, rows });
            }
            LogRecord::Latest(epoch) => {
                // LCE in between matters to nobody.
                if let Some(LogRecord::Latest(last)) = self.others.last_mut() {
                    *last = (*last).max(*epoch);
                } else {
                    self.others.push(record.clone());
                }
            }
            LogRecord::Began(..) | LogRecord::Commit(..) | LogRecord::Cut(_) | LogRecord::Forgotten => {
                self.others.push(record.clone());
            }
        }
    }

    /// Drops what is only of transactions up to LSE: all of these have ended, everywhere.
    pub(super) fn drop_up_to(&mut self, safe: Epoch) {
        self.others.retain(|record| match record {
            LogRecord::Began(epoch, _)
            | LogRecord::Append { epoch, .. }
            | LogRecord::Commit(epoch, _)
            | LogRecord::Cut(epoch)
            | LogRecord::Latest(epoch) => *epoch > safe,
            LogRecord::Forgotten => true,
            LogRecord::Started(_) | LogRecord::Safe(_) | LogRecord::Copied { .. } => false,
        });
        // With nothing before it there is nothing to forget.
        let kept = self.others.iter().position(|record| !matches!(record, LogRecord::Forgotten));
        self.others.drain(..kept.unwrap_or(self.others.len()));
        self.others.insert(0, LogRecord::Latest(safe));
    }

    /// What a log begins with that goes on from here.
    pub(super) fn list(&self) -> Vec<LogRecord<BrickChange>> {
        let lives =
            self.lives.map(|(first, last)| if first == last { vec![first] } else { vec![first, last] });
        let lives = lives.unwrap_or_default().into_iter().map(LogRecord::Started);
        let safe = self.safe.map(LogRecord::Safe);
        lives.chain(safe).chain(self.others.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
