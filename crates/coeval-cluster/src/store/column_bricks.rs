// SPDX-License-Identifier: Apache-2.0
//! [`ColumnBricks`]: the bricks that a log makes, in columns.

use super::round::TableViews;
use super::{CountBricks, HeldBrick, StoreFailed};
use crate::brick_change::{BrickChange, LabelledChanges};
use crate::brick_rows::StoredBrick;
use crate::tables::{KnownTable, RowsOf, RowsRefused, Tables};
use crate::texts::RowCodes;
use crate::wire::FlushedBrick;
use bytes::Bytes;
use coeval_brick::{BrickId, BrickTable, Deletion, RoutedLoad, ShardStopped, Ticket};
use coeval_txn::cluster::{BrickAddress, LogRecord};
use coeval_txn::{Epoch, EpochSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Changes that may be under way before somebody waits for them; rows that were given together are one of these.
const UNDER_WAY_MAX: usize = 32;

/// Appends that are given to the threads together, at most.
const TOGETHER_MAX: usize = 128;

/// With so many bytes of rows they are given: what is under way takes memory, and to wake a thread for as much costs little beside the copy.
const TOGETHER_BYTES: usize = 1 << 20;

/// The bricks of a node. Changes are queued for the threads that make them; whoever looks at a brick waits until those are made
/// that were asked for before.
///
/// Rows that follow one another are [gathered](Self::gather) and given to these threads together: a load has an append for each of its
/// bricks, and to wake a thread for each takes longer than to copy a few hundred rows.
pub(super) struct ColumnBricks {
    tables: Tables,
    known: BTreeMap<u64, KnownTable>,
    /// Rows of one table that the threads were not given yet.
    gathered: Option<Gathered>,
    /// Which bricks have something with a label that is above what was purged: where a cut has to look.
    touched: BTreeMap<Epoch, BTreeSet<BrickAddress>>,
    /// Bricks that were copied here since they were last flushed: of these, more is new than labels tell.
    anew: BTreeSet<BrickAddress>,
    /// What the threads have not said to be done, the oldest first.
    under_way: VecDeque<Ticket>,
    /// What was checked last, or made here of a batch: mostly it is appended next.
    checked: Option<(BrickAddress, Bytes, RoutedLoad)>,
    has_failed: bool,
    #[cfg(test)]
    pub(super) left_out: Option<Rule>,
}

/// Rows that go to one table, in their order.
struct Gathered {
    table: Arc<BrickTable>,
    loads: Vec<(Epoch, RoutedLoad)>,
    /// What the rows have as bytes.
    bytes: usize,
}

/// What makes the bricks right beyond appending; tests leave out one of these and see that they notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A cut takes the rows and deletes of its epoch.
    CutsTake,
    /// A copy replaces what had ended here.
    CopiesReplace,
    /// A copy leaves alone what had not ended.
    CopiesLeaveTheRest,
    /// A delete is kept of a brick of which there is nothing yet.
    DeletesComeFirst,
    /// Purge goes to LSE and no further.
    PurgeStopsAtSafe,
    /// What a round flushes of a brick that was copied is all of it.
    CopiesAreFlushedAnew,
}

/// Why a record of a log cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    #[error(transparent)]
    Refused(#[from] RowsRefused),
    #[error(transparent)]
    Stopped(#[from] ShardStopped),
}

impl ColumnBricks {
    pub(super) fn new(tables: Tables) -> Self {
        Self {
            tables,
            known: BTreeMap::new(),
            gathered: None,
            touched: BTreeMap::new(),
            anew: BTreeSet::new(),
            under_way: VecDeque::new(),
            checked: None,
            has_failed: false,
            #[cfg(test)]
            left_out: None,
        }
    }

    /// Whether a rule is kept: outside of tests, always.
    fn keeps(&self, rule: Rule) -> bool {
        #[cfg(test)]
        let is_kept = self.left_out != Some(rule);
        #[cfg(not(test))]
        let is_kept = {
            let _ = rule;
            true
        };
        is_kept
    }

    /// Whether these are rows of a brick, or of several. The codes that they have.
    pub(super) fn check(
        &mut self,
        at: BrickAddress,
        rows: &Bytes,
        of: RowsOf,
    ) -> Result<Vec<RowCodes>, RowsRefused> {
        if self.tables.is_forgotten(at.table) {
            return Ok(Vec::new());
        }
        let (load, codes) = self.tables.check(at, rows, of)?;
        self.checked = Some((at, rows.clone(), load));
        Ok(codes)
    }

    /// Notes which columns these bytes stand for.
    pub(super) fn note_routed(&mut self, at: BrickAddress, rows: &Bytes, load: RoutedLoad) {
        self.checked = Some((at, rows.clone(), load));
    }

    /// Does what a record of the log says. Its rows have been checked.
    ///
    /// # Errors
    /// If they have not, and are no rows; or if a thread has stopped. Something of the record may have been done.
    pub(super) fn apply(&mut self, record: &LogRecord<BrickChange>) -> Result<(), ApplyError> {
        match record {
            LogRecord::Append { epoch, brick, rows, .. } => {
                self.change(*brick, (*epoch, rows), RowsOf::SeveralBricks)
            }
            LogRecord::Cut(epoch) => Ok(self.cut(*epoch)?),
            LogRecord::Copied { brick, ended, rows } => self.replace(*brick, ended, rows),
            LogRecord::Started(_)
            | LogRecord::Began(..)
            | LogRecord::Commit(..)
            | LogRecord::Forgotten
            | LogRecord::Safe(_)
            | LogRecord::Latest(_) => Ok(()),
        }
    }

    /// The table, as it is declared by now.
    fn table(&mut self, table: u64) -> Result<KnownTable, RowsRefused> {
        let known = self.tables.table(table, self.known.get(&table).cloned())?;
        self.known.insert(table, known.clone());
        Ok(known)
    }

    /// Does what a transaction does to a brick, or to several.
    fn change(
        &mut self,
        at: BrickAddress,
        (epoch, change): (Epoch, &BrickChange),
        of: RowsOf,
    ) -> Result<(), ApplyError> {
        if self.tables.is_forgotten(at.table) {
            return Ok(());
        }
        let table = self.table(at.table)?.rows;
        if matches!(change, BrickChange::Rows(rows) if rows.is_empty()) {
            // The log goes on from another one: these rows are among those that were flushed, or follow.
            return Ok(());
        }
        let ticket = match change {
            BrickChange::Rows(rows) | BrickChange::SpelledRows(rows, _) => {
                let load = self.load(at, rows, of)?;
                let bricks = load.bricks().map(|brick| BrickAddress { brick: brick.get(), ..at });
                self.touched.entry(epoch).or_default().extend(bricks);
                return Ok(self.gather(table, (epoch, load), rows.len())?);
            }
            BrickChange::Delete(covered) => {
                self.touched.entry(epoch).or_default().insert(at);
                self.give()?;
                let (covered, own) = (covered.clone(), vec![epoch]);
                let (deletion, brick) = (Deletion { epoch, covered, own }, BrickId::new(at.brick));
                // Rows that it covers may be on their way here from another node.
                if self.keeps(Rule::DeletesComeFirst) {
                    table.delete_ahead(deletion, brick)?
                } else {
                    table.delete(deletion, &[brick])?
                }
            }
        };
        Ok(self.note(ticket)?)
    }

    /// The load that bytes are; what was checked just before, or made here, is not decoded again.
    fn load(&mut self, at: BrickAddress, rows: &Bytes, of: RowsOf) -> Result<RoutedLoad, RowsRefused> {
        // The bytes are kept, so nothing else has come to lie at their place.
        let is_same = |checked: &Bytes| checked.as_ptr() == rows.as_ptr() && checked.len() == rows.len();
        match self.checked.take() {
            Some((brick, bytes, load)) if brick == at && is_same(&bytes) => Ok(load),
            _ => self.tables.decode(at, rows, of),
        }
    }

    /// Puts rows, of so many bytes, behind those that are given to the threads together.
    fn gather(
        &mut self,
        table: Arc<BrickTable>,
        load: (Epoch, RoutedLoad),
        bytes: usize,
    ) -> Result<(), ShardStopped> {
        if self.gathered.as_ref().is_some_and(|gathered| !Arc::ptr_eq(&gathered.table, &table)) {
            self.give()?;
        }
        let gathered = self.gathered.get_or_insert_with(|| Gathered { table, loads: Vec::new(), bytes: 0 });
        gathered.loads.push(load);
        gathered.bytes += bytes;
        let is_enough = gathered.loads.len() >= TOGETHER_MAX || gathered.bytes >= TOGETHER_BYTES;
        if is_enough { self.give() } else { Ok(()) }
    }

    /// How many appends the threads were not given yet.
    #[cfg(test)]
    pub(super) fn gathered(&self) -> usize {
        self.gathered.as_ref().map_or(0, |gathered| gathered.loads.len())
    }

    /// Gives the threads what was gathered. What was checked and is not appended by now is not appended at all, and it keeps a whole batch.
    pub(super) fn end_step(&mut self) -> Result<(), ShardStopped> {
        self.checked = None;
        self.give()
    }

    /// Gives the threads the rows that were gathered. To be done before they are given anything else.
    fn give(&mut self) -> Result<(), ShardStopped> {
        let Some(Gathered { table, loads, .. }) = self.gathered.take() else { return Ok(()) };
        let ticket = table.append_each(loads)?;
        self.note(ticket)
    }

    fn cut(&mut self, epoch: Epoch) -> Result<(), ShardStopped> {
        if !self.keeps(Rule::CutsTake) {
            return Ok(());
        }
        self.give()?;
        let mut by_table: BTreeMap<u64, Vec<BrickId>> = BTreeMap::new();
        for at in self.touched.remove(&epoch).unwrap_or_default() {
            by_table.entry(at.table).or_default().push(BrickId::new(at.brick));
        }
        for (table, bricks) in by_table {
            let ticket = self.known.get(&table).map(|known| known.rows.roll_back(&[epoch], &bricks));
            ticket.map_or(Ok(()), |ticket| self.note(ticket?))?;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        at: BrickAddress,
        ended: &EpochSet,
        given: &LabelledChanges,
    ) -> Result<(), ApplyError> {
        if self.tables.is_forgotten(at.table) {
            return Ok(());
        }
        let table = self.table(at.table)?;
        self.settle()?;
        let id = BrickId::new(at.brick);
        if *ended != EpochSet::none() && self.keeps(Rule::CopiesAreFlushedAnew) {
            self.anew.insert(at);
        }
        let makes_room = |label: &Epoch| {
            let has_ended = ended.contains(*label) || !self.keeps(Rule::CopiesLeaveTheRest);
            has_ended && self.keeps(Rule::CopiesReplace)
        };
        let mut labels: Vec<Epoch> = table.brick(at).labels().filter(makes_room).collect();
        labels.sort_unstable();
        labels.dedup();
        self.note(table.rows.roll_back(&labels, &[id])?)?;
        given.iter().try_for_each(|(label, change)| self.change(at, (*label, change), RowsOf::OneBrick))
    }

    /// Drops what deletes up to `safe` cover, and what tells labels up to it apart.
    pub(super) fn purge(&mut self, safe: Epoch) -> Result<(), ShardStopped> {
        self.give()?;
        let safe = if self.keeps(Rule::PurgeStopsAtSafe) { safe } else { Epoch::new(safe.get() + 4) };
        // What is cut is above LSE.
        self.touched = self.touched.split_off(&Epoch::new(safe.get() + 1));
        let tickets: Result<Vec<Ticket>, _> =
            self.known.values().map(|known| known.rows.purge(safe)).collect();
        tickets?.into_iter().try_for_each(|ticket| self.note(ticket))
    }

    /// Takes in what a round has flushed.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(super) fn restore(&mut self, flushed: &FlushedBrick) -> Result<(), ApplyError> {
        let FlushedBrick { brick, voids_earlier, rows } = flushed;
        if *voids_earlier {
            let all = EpochSet::through(Epoch::MAX);
            self.replace(*brick, &all, rows)
        } else {
            let mut rows = rows.iter();
            rows.try_for_each(|(label, change)| self.change(*brick, (*label, change), RowsOf::OneBrick))
        }
    }

    /// Notes that all is restored that was flushed up to here.
    pub(super) fn restored(&mut self, through: Epoch) {
        self.touched = self.touched.split_off(&Epoch::new(through.get() + 1));
        self.anew.clear();
    }

    /// Whether the next round is the first one without some table that is gone for good.
    pub(super) fn has_gone(&self) -> bool {
        self.known.keys().any(|table| self.tables.is_forgotten(*table))
    }

    /// All that there is, for a round; and the bricks that it flushes as a whole. Of tables that are gone for good, nothing is from
    /// here on.
    pub(super) fn for_round(&mut self) -> Result<(TableViews, BTreeSet<BrickAddress>), ShardStopped> {
        self.settle()?;
        let tables = &self.tables;
        self.known.retain(|table, _| !tables.is_forgotten(*table));
        self.anew.retain(|at| !tables.is_forgotten(at.table));
        let view = |(table, known): (&u64, &KnownTable)| (*table, known.rows.view(&known.rows.selection()));
        Ok((self.known.iter().map(view).collect(), std::mem::take(&mut self.anew)))
    }

    fn note(&mut self, ticket: Ticket) -> Result<(), ShardStopped> {
        self.under_way.push_back(ticket);
        while self.under_way.len() > UNDER_WAY_MAX {
            // Mostly it is done by now. Whoever waited for all would have the threads run out of work, with the node's lock held.
            let oldest = self.under_way.pop_front();
            self.has_failed |= oldest.is_some_and(|oldest| oldest.wait().is_err());
        }
        if self.has_failed { Err(ShardStopped) } else { Ok(()) }
    }

    /// Waits until all is done that was asked for.
    fn settle(&mut self) -> Result<(), ShardStopped> {
        self.give()?;
        let done = self.under_way.drain(..).try_for_each(|ticket| ticket.wait().map(drop));
        self.has_failed |= done.is_err();
        if self.has_failed { Err(ShardStopped) } else { Ok(()) }
    }

    /// A brick with all that was done to it.
    pub(super) fn brick(&mut self, at: BrickAddress) -> Result<StoredBrick, StoreFailed> {
        self.settle()?;
        let Ok(table) = self.table(at.table) else { return Ok(StoredBrick::default()) };
        Ok(table.brick(at))
    }

    /// The bricks of which there is something.
    pub(super) fn bricks(&mut self) -> Result<Vec<BrickAddress>, StoreFailed> {
        self.settle()?;
        let mut bricks = Vec::new();
        let tables: Vec<u64> = self.known.keys().copied().collect();
        for table in tables {
            bricks.extend(self.bricks_of(table)?);
        }
        Ok(bricks)
    }

    /// What looks how much there is of each, when all is done that was asked for by now; none of tables that are gone for good.
    pub(super) fn held(&mut self) -> Result<CountBricks, ShardStopped> {
        self.give()?;
        if self.has_failed {
            return Err(ShardStopped);
        }
        let there = self.known.iter().filter(|(table, _)| !self.tables.is_forgotten(**table));
        let tables: Vec<(u64, KnownTable)> = there.map(|(table, known)| (*table, known.clone())).collect();
        let under_way = self.under_way.clone();
        Ok(Box::new(move || -> Result<Vec<HeldBrick>, StoreFailed> {
            under_way.into_iter().try_for_each(|ticket| ticket.wait().map(drop))?;
            Ok(tables.iter().flat_map(|(table, known)| held_of(*table, known)).collect())
        }))
    }

    /// Those of a table; none of one that is gone for good.
    pub(super) fn bricks_of(&mut self, table: u64) -> Result<Vec<BrickAddress>, ShardStopped> {
        self.settle()?;
        let known = self.known.get(&table).filter(|_| !self.tables.is_forgotten(table));
        let Some(known) = known else { return Ok(Vec::new()) };
        let view = known.rows.view(&known.rows.selection());
        Ok(view.bricks().iter().map(|brick| BrickAddress { table, brick: brick.id().get() }).collect())
    }
}

/// How much there is of each brick of a table. Cost: a look at each of its blocks.
fn held_of(table: u64, known: &KnownTable) -> Vec<HeldBrick> {
    let view = known.rows.view(&known.rows.selection());
    let held = view.bricks().iter().map(|brick| {
        let memory = brick.memory();
        let bytes = (memory.block_bytes + memory.epochs_bytes) as u64;
        let at = BrickAddress { table, brick: brick.id().get() };
        HeldBrick { brick: at, rows: brick.rows() as u64, bytes }
    });
    held.collect()
}
