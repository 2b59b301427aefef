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
mod tests {
    use super::*;
    use crate::node::NodeId;
    use crate::placement::RingPlacement;
    use coeval_txn::Stride;
    use coeval_txn::cluster::{BrickAddress, ClusterNode, CommitTerms, EpochKind, Member};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;

    fn member(incarnation: u64) -> Member {
        Member { node: NodeId::new(1), incarnation: Incarnation::new(incarnation) }
    }

    /// All that the protocol has learnt.
    fn learnt(records: &[LogRecord<BrickChange>]) -> String {
        let placement = RingPlacement::new(2);
        format!("{:?}", ClusterNode::recover(member(u64::MAX), Stride::new(1, 4), placement, records))
    }

    /// A log as a node writes it: what has ended stays ended, LCE has nothing open below it, LSE is not above LCE.
    struct Logging {
        random: StdRng,
        log: Vec<LogRecord<BrickChange>>,
        kept: KeptRecords,
        next: u64,
        lives: u64,
        /// How many appends each open transaction has; none takes more once it has its commit or is cut.
        open: BTreeMap<Epoch, Option<u32>>,
        latest: Epoch,
        safe: Epoch,
    }

    impl Logging {
        fn new(seed: u64) -> Self {
            let mut logging = Self {
                random: StdRng::seed_from_u64(seed),
                log: Vec::new(),
                kept: KeptRecords::default(),
                next: 1,
                lives: 0,
                open: BTreeMap::new(),
                latest: Epoch::ZERO,
                safe: Epoch::ZERO,
            };
            logging.live();
            logging
        }

        fn push(&mut self, record: LogRecord<BrickChange>) {
            self.kept.note(&record);
            self.log.push(record);
        }

        fn live(&mut self) {
            self.lives += 1;
            self.push(LogRecord::Started(Incarnation::new(self.lives)));
        }

        fn any_open(&mut self) -> Option<Epoch> {
            let count = self.open.len().max(1);
            self.open.keys().nth(self.random.random_range(0..count)).copied()
        }

        fn step(&mut self) {
            match (self.random.random_range(0..20), self.any_open()) {
                (0..5, _) | (_, None) => {
                    let epoch = Epoch::new(self.next);
                    self.next += self.random.random_range(1..4);
                    self.open.insert(epoch, Some(0));
                    let life = Incarnation::new(self.random.random_range(1..4));
                    self.push(LogRecord::Began(epoch, life));
                }
                (5..11, Some(epoch)) => self.append(epoch),
                (11..14, Some(epoch)) => {
                    if let Some(appends) = self.open.insert(epoch, None).flatten() {
                        let holders = [member(1)].into();
                        let terms =
                            CommitTerms { kind: EpochKind::Load, appends, dependencies: [].into(), holders };
                        self.push(LogRecord::Commit(epoch, terms));
                    }
                }
                (14, Some(epoch)) => {
                    self.open.insert(epoch, None);
                    self.push(LogRecord::Cut(epoch));
                }
                (15..18, _) => self.end(),
                (18, _) => self.live(),
                (_, Some(_)) => self.forget(),
            }
        }

        fn append(&mut self, epoch: Epoch) {
            if let Some(Some(number)) = self.open.get_mut(&epoch) {
                let (brick, rows) =
                    (BrickAddress { table: 1, brick: 2 }, BrickChange::Rows(Bytes::from_static(b"rows")));
                let record = LogRecord::Append { epoch, number: *number, brick, rows };
                *number += 1;
                self.push(record);
            }
        }

        /// The oldest end, if they have their commit or are cut; LCE and LSE follow.
        fn end(&mut self) {
            while let Some((epoch, None)) = self.open.first_key_value().map(|(epoch, open)| (*epoch, *open)) {
                self.open.remove(&epoch);
                self.latest = epoch;
            }
            self.push(LogRecord::Latest(self.latest));
            if self.random.random() {
                self.safe = Epoch::new(self.random.random_range(self.safe.get()..=self.latest.get()));
                self.push(LogRecord::Safe(self.safe));
            }
        }

        fn forget(&mut self) {
            let open: Vec<Epoch> = self.open.keys().copied().collect();
            open.into_iter().for_each(|epoch| self.push(LogRecord::Cut(epoch)));
            self.open.clear();
            self.push(LogRecord::Forgotten);
        }
    }

    #[test]
    fn the_protocol_learns_as_much_from_what_is_kept_as_from_all_of_the_log() {
        let mut dropped = 0;
        for seed in 0..60 {
            let mut logging = Logging::new(seed);
            for _ in 0..300 {
                logging.step();
                if logging.random.random_bool(0.05) && logging.safe > Epoch::ZERO {
                    let safe = logging.safe;
                    logging.kept.drop_up_to(safe);
                }
                assert_eq!(learnt(&logging.kept.list()), learnt(&logging.log), "seed {seed}");
            }
            dropped += logging.log.len() - logging.kept.list().len();
        }
        assert!(dropped > 60 * 100, "{dropped} records are kept no more");
    }

    #[test]
    fn what_has_not_ended_everywhere_is_not_forgotten() {
        let noticed = (0..60).filter(|seed| {
            let mut logging = Logging::new(*seed);
            (0..300).for_each(|_| logging.step());
            let Some(open) = logging.open.keys().next().copied() else { return false };
            logging.kept.drop_up_to(open);
            learnt(&logging.kept.list()) != learnt(&logging.log)
        });
        assert!(noticed.count() > 30);
    }
}
