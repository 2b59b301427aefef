// SPDX-License-Identifier: Apache-2.0
use super::KeptRecords;
use crate::brick_change::BrickChange;
use crate::node::NodeId;
use crate::placement::RingPlacement;
use bytes::Bytes;
use coeval_txn::cluster::{
    BrickAddress, ClusterNode, CommitTerms, EpochKind, Incarnation, LogRecord, Member,
};
use coeval_txn::{Epoch, Stride};
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
