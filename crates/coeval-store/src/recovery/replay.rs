// SPDX-License-Identifier: Apache-2.0
//! Applying log records to a world.

use super::new_indexes::{NewIndexes, check_merged};
use super::{DamagedIndexes, MendTables};
use crate::bricks::{BrickChange, NotReplayed};
use crate::bulk::is_free;
use crate::bulk_load::{BulkLoad, inserted_entries};
use crate::catalog::{CatalogChange, IndexDef, TableDef};
use crate::chunk::Chunk;
use crate::clock::LogTime;
use crate::delta::{Delta, DeltaEntry};
use crate::disk::{Disk, LOG_DIR, chunks_of};
use crate::error::{StoreError, TableDamage};
use crate::ids::{SequenceId, SpaceId};
use crate::key::Key;
use crate::log::{Lsn, place_in_log};
use crate::manifest::Manifest;
use crate::range::KeyRange;
use crate::record::{IndexPlace, LoadPlaces, MalformedRecord, Record, Replayed, ReplayedWrites, decode};
use crate::row::Row;
use crate::segment::SegmentRef;
use crate::space::{Found, Space};
use crate::table::{RowRef, Table};
use crate::table_writes::TableWrites;
use crate::terms::TermHistory;
use crate::transaction::check_brick_definition;
use crate::world::World;
use crate::write_set::WriteSet;
use coeval_txn::ssi::Member;
use coeval_txn::{CommitOrder, Epoch, EpochSet, TransactionId, Version};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Changes that are gathered before they are applied: enough that applying costs little per change, few enough
/// that they fit in a cache of some megabytes.
const GATHERED_MAX: usize = 1 << 16;

/// Why a record cannot be applied.
#[derive(Debug)]
pub(crate) enum ReplayError {
    /// It is not what a writer of ours wrote.
    Malformed(String),
    /// Something it refers to cannot be read.
    Store(StoreError),
    /// Who [observes](ObserveReplay) it does not go on.
    Observer(std::io::Error),
}

impl ReplayError {
    /// The error of a record at this place.
    pub(crate) fn at(self, path: &Path, offset: u64) -> StoreError {
        match self {
            Self::Malformed(what) => StoreError::corrupt(path, offset, &what),
            Self::Store(error) => error,
            // An open has no observer.
            Self::Observer(error) => StoreError::corrupt(path, offset, &error.to_string()),
        }
    }
}

impl From<MalformedRecord> for ReplayError {
    fn from(malformed: MalformedRecord) -> Self {
        Self::Malformed(malformed.to_string())
    }
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Hears of each transaction that is replayed, step by step: every world that it is given is exactly that of this step. In the
/// order of these methods; what a transaction does not do is left out.
pub(crate) trait ObserveReplay {
    /// A transaction begins, the one at `place` of those in the batch, on this world.
    fn begin(
        &mut self,
        place: BatchPlace,
        world: &World,
        definitions: &[CatalogChange],
    ) -> Result<(), ReplayError>;

    /// It has loaded these rows into a table, as it was defined by then. None of their keys was there.
    fn load(&mut self, table: &Table, load: &BulkLoad) -> Result<(), ReplayError>;

    /// It is going to change these rows of this world.
    fn writes(&mut self, world: &World, writes: &[ReplayedWrites]) -> Result<(), ReplayError>;

    /// It has changed brick tables of this world: rows of the second set of epochs exist now, before it did those of the first.
    fn bricks(
        &mut self,
        world: &World,
        changes: &[BrickChange],
        epochs: [&EpochSet; 2],
    ) -> Result<(), ReplayError>;

    /// That was all of it.
    fn end(&mut self) -> Result<(), ReplayError>;
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPlace {
    /// The version of its batch.
    pub(crate) version: Version,
    /// Its number in the batch, from 0.
    pub(crate) position: u32,
    /// How many transactions that has.
    pub(crate) count: u32,
}

/// The state of a replay.
pub(crate) struct Replayer<'d> {
    disk: &'d Disk,
    world: World,
    gathered: BTreeMap<SpaceId, Gathered>,
    gathered_count: usize,
    resume_points: HashMap<SequenceId, Option<i64>>,
    next_space: u32,
    next_sequence: u32,
    /// No record names a newer one, be it as covered by a delete.
    newest_epoch: Epoch,
    /// Whose rows of brick tables exist: those of committed transactions alone.
    epochs: EpochSet,
    /// Up to here all epochs have ended, and no record that comes tells them apart.
    ended: Epoch,
    /// Epochs that were left out of the set and have been found to be rolled back.
    rolled_back: Vec<Epoch>,
    terms: TermHistory,
    /// The last time that the log has.
    time: LogTime,
    /// What followers note of each batch.
    followed: Option<Vec<FollowedBatch>>,
    /// How many transactions it has applied.
    commits: usize,
    /// Whether nobody would miss the last record.
    ends_inert: bool,
    /// Takes the parts of damaged bulk loads that can be read, if there is a repair.
    mender: Option<&'d mut (dyn MendTables + 'd)>,
    observer: Option<&'d mut (dyn ObserveReplay + 'd)>,
    /// The tables that cannot be read, if it goes on without them.
    damaged: Option<BTreeMap<SpaceId, TableDamage>>,
    /// Where the record begins that is being applied, for the damage that it shows.
    place: Lsn,
}

/// Changes of a table from several records, in their order.
#[derive(Default)]
struct Gathered {
    rows: Vec<(Key, DeltaEntry)>,
    indexes: Vec<Vec<(Key, DeltaEntry)>>,
}

/// What a follower notes of a batch, or of a boundary that stands alone.
#[derive(Debug)]
pub(crate) struct FollowedBatch {
    /// The safe snapshot of this version is final, with all batches before.
    pub(crate) boundary: Version,
    /// The transactions with an out-edge.
    pub(crate) members: Vec<Member<Arc<WriteSet>>>,
}

/// The result of following.
pub(crate) struct FollowedLog {
    pub(crate) world: World,
    /// Epochs that the world before left out, and that were rolled back.
    pub(crate) rolled_back: Vec<Epoch>,
    pub(crate) batches: Vec<FollowedBatch>,
    pub(crate) resume_points: Vec<(SequenceId, Option<i64>)>,
    pub(crate) next_space: u32,
    pub(crate) next_sequence: u32,
    pub(crate) terms: TermHistory,
    pub(crate) time: LogTime,
}

/// The result of a replay.
pub(crate) struct ReplayedLog {
    pub(crate) world: World,
    pub(crate) terms: TermHistory,
    pub(crate) time: LogTime,
    pub(crate) resume_points: Vec<(SequenceId, Option<i64>)>,
    pub(crate) next_space: u32,
    pub(crate) next_sequence: u32,
}

impl<'d> Replayer<'d> {
    pub(crate) fn new(disk: &'d Disk, world: World, manifest: &Manifest) -> Self {
        Self {
            disk,
            world,
            gathered: BTreeMap::new(),
            gathered_count: 0,
            resume_points: manifest.resume_points.iter().copied().collect(),
            next_space: manifest.next_space,
            next_sequence: manifest.next_sequence,
            newest_epoch: manifest.newest_epoch(),
            epochs: manifest.flushed_epochs(),
            ended: Epoch::ZERO,
            rolled_back: Vec::new(),
            terms: TermHistory::new(manifest.terms.clone()),
            time: LogTime::from_micros(manifest.time),
            followed: None,
            commits: 0,
            ends_inert: true,
            mender: None,
            observer: None,
            damaged: None,
            place: Lsn::new(manifest.log),
        }
    }

    /// Of a store that follows a log: what comes is applied to its newest world.
    pub(crate) fn following(disk: &'d Disk, world: World, terms: TermHistory, numbers: (u32, u32)) -> Self {
        Self {
            disk,
            newest_epoch: world.epochs().newest(),
            epochs: world.epochs().clone(),
            ended: Epoch::ZERO,
            rolled_back: Vec::new(),
            world,
            gathered: BTreeMap::new(),
            gathered_count: 0,
            resume_points: HashMap::new(),
            next_space: numbers.0,
            next_sequence: numbers.1,
            terms,
            time: LogTime::ZERO,
            followed: Some(Vec::new()),
            commits: 0,
            ends_inert: true,
            mender: None,
            observer: None,
            damaged: None,
            place: Lsn::START,
        }
    }

    /// The same behind a log that has come to this time.
    pub(crate) fn at(mut self, time: LogTime) -> Self {
        self.time = time;
        self
    }

    /// The same going on without tables that cannot be read: these, and those of which a record cannot be applied.
    pub(crate) fn salvaging(mut self, damaged: BTreeMap<SpaceId, TableDamage>) -> Self {
        self.damaged = Some(damaged);
        self
    }

    /// The same with what the mender takes of bulk loads and says to be lost.
    pub(crate) fn mending(mut self, mender: &'d mut (dyn MendTables + 'd)) -> Self {
        self.mender = Some(mender);
        self
    }

    /// The same with somebody who hears of each transaction, which costs applying them one by one.
    pub(crate) fn observed(mut self, observer: &'d mut (dyn ObserveReplay + 'd)) -> Self {
        self.observer = Some(observer);
        self
    }

    /// [`record`](Self::record), of the record that ends here and begins where the last one ended.
    pub(crate) fn record_to(&mut self, end: Lsn, payload: &[u8]) -> Result<(), ReplayError> {
        self.record(payload)?;
        self.place = end;
        Ok(())
    }

    /// Goes on without a table, if that is what it does.
    fn without(&mut self, table: SpaceId, error: ReplayError) -> Result<(), ReplayError> {
        if self.damaged.is_none() {
            return Err(error);
        }
        let (path, offset) = place_in_log(&**self.disk.files(), &self.disk.dir().join(LOG_DIR), self.place)
            .map_err(|error| ReplayError::Store(error.into()))?;
        let damage = TableDamage::of(&error.at(&path, offset), &path, offset);
        if let Some(damaged) = &mut self.damaged {
            damaged.entry(table).or_insert(damage);
        }
        self.gathered.remove(&table);
        Ok(())
    }

    /// Whether it goes on without a table.
    fn is_without(&self, table: SpaceId) -> bool {
        self.damaged.as_ref().is_some_and(|damaged| damaged.contains_key(&table))
    }

    /// Whether the last record, if there was one, says nothing that anybody would miss.
    pub(crate) fn ends_inert(&self) -> bool {
        self.ends_inert
    }

    /// The segment files that a record refers to.
    pub(crate) fn segments_of(payload: &[u8]) -> Result<Vec<SegmentRef>, ReplayError> {
        Ok(match decode(payload)? {
            Record::Sequence { .. }
            | Record::Boundary(_)
            | Record::Term(_)
            | Record::Time(_)
            | Record::Ended(_) => Vec::new(),
            Record::Batch { transactions, .. } => {
                let of_transaction = |transaction: Replayed| {
                    let of_loads = transaction.loads.into_iter().flat_map(|load| load.segments);
                    of_loads.chain(transaction.indexes.into_iter().map(|index| index.segment))
                };
                transactions.into_iter().flat_map(of_transaction).collect()
            }
        })
    }

    /// Applies one record.
    pub(crate) fn record(&mut self, payload: &[u8]) -> Result<(), ReplayError> {
        let record = decode(payload)?;
        self.ends_inert = matches!(record, Record::Boundary(_) | Record::Time(_) | Record::Ended(_));
        match record {
            Record::Sequence { id, next } => {
                self.next_sequence = self.next_sequence.max(id.get() + 1);
                self.resume_points.insert(id, next);
            }
            Record::Boundary(boundary) => {
                if boundary > self.world.version() {
                    let what = format!("boundary {boundary} is beyond version {}", self.world.version());
                    return Err(ReplayError::Malformed(what));
                }
                if let Some(followed) = &mut self.followed {
                    followed.push(FollowedBatch { boundary, members: Vec::new() });
                }
            }
            Record::Term(term) => {
                self.terms.begin(term).map_err(ReplayError::Malformed)?;
                // The opening that began this term discarded what had not committed, and began after all of it.
                self.end_epochs(self.newest_epoch);
            }
            Record::Ended(epoch) => self.end_epochs(epoch),
            Record::Time(time) => self.time = self.time.max(time),
            Record::Batch { version, transactions, boundary } => {
                if version != self.world.version().next() {
                    let what = format!("version {version} does not follow {}", self.world.version());
                    return Err(ReplayError::Malformed(what));
                }
                // Whoever opens a database begins with all of it, and needs no safe snapshots of before.
                if let Some(followed) = &mut self.followed {
                    let members = members_of(version, &transactions, &self.world);
                    followed.push(FollowedBatch { boundary, members });
                }
                self.commits += transactions.len();
                let count = u32::try_from(transactions.len()).expect("a batch is bounded");
                for (position, transaction) in (0..).zip(transactions) {
                    self.transaction(BatchPlace { version, position, count }, transaction)?;
                }
                self.world.set_version(version);
            }
        }
        Ok(())
    }

    /// Epochs up to this one that have not committed never will.
    fn end_epochs(&mut self, through: Epoch) {
        let through = through.min(self.epochs.newest());
        let gone = self.epochs.except().iter().copied().take_while(|epoch| *epoch <= through);
        self.rolled_back.extend(gone);
        self.epochs = self.epochs.filled_through(through);
        self.ended = self.ended.max(through);
    }

    fn transaction(&mut self, place: BatchPlace, transaction: Replayed) -> Result<(), ReplayError> {
        let Replayed { catalog_changes, loads, indexes, writes, bricks, first_out: _ } = transaction;
        if self.observer.is_some() || !(catalog_changes.is_empty() && loads.is_empty()) {
            self.apply_gathered();
        }
        if let Some(observer) = &mut self.observer {
            observer.begin(place, &self.world, &catalog_changes)?;
        }
        self.disk.note_committed(indexes.iter().map(|index| index.segment.number), place.version);
        let mut merged = Vec::new();
        for change in &catalog_changes {
            self.note_numbers(change);
            self.change_catalog(change, &indexes, &mut merged)?;
        }
        for load in loads {
            let table = load.table;
            if !self.is_without(table) {
                self.load(place.version, load, &merged).or_else(|error| self.without(table, error))?;
            }
        }
        if self.mender.is_none() && self.damaged.is_none() {
            check_merged(&self.world, &merged)?;
        }
        let seen = if self.observer.is_some() { writes.clone() } else { Vec::new() };
        for writes in writes {
            let table = writes.table;
            if !self.is_without(table) {
                self.gather(writes).or_else(|error| self.without(table, error))?;
            }
        }
        if let Some(observer) = self.observer.as_mut().filter(|_| !seen.is_empty()) {
            // They are sound, and not in the world yet.
            observer.writes(&self.world, &seen)?;
        }
        let epochs = self.epochs.clone();
        for change in &bricks {
            if !self.is_without(change.table) {
                self.bricks(change).or_else(|error| self.without(change.table, error))?;
            }
        }
        if let Some(observer) = self.observer.as_mut().filter(|_| !bricks.is_empty()) {
            observer.bricks(&self.world, &bricks, [&epochs, &self.epochs])?;
        }
        if self.gathered_count >= GATHERED_MAX {
            self.apply_gathered();
        }
        match &mut self.observer {
            Some(observer) => observer.end(),
            None => Ok(()),
        }
    }

    /// Adds those of the new indexes in files that have the entries of loads.
    fn change_catalog(
        &mut self,
        change: &CatalogChange,
        places: &[IndexPlace],
        merged: &mut Vec<SpaceId>,
    ) -> Result<(), ReplayError> {
        if let (CatalogChange::Truncate(id) | CatalogChange::RemoveTable(id), Some(damaged)) =
            (change, &mut self.damaged)
        {
            // What could not be read is gone.
            damaged.remove(id);
        }
        if let (CatalogChange::Truncate(id) | CatalogChange::RemoveTable(id), Some(mender)) =
            (change, &mut self.mender)
            && let Some(table) = self.world.table(*id)
        {
            mender.emptied(table.def());
        }
        if let CatalogChange::PutTable(def) = change {
            self.world.shared_bricks().prepare(def).map_err(ReplayError::Malformed)?;
            if let Some(old) = self.world.table(def.id) {
                if old.def().bricks.is_some() != def.bricks.is_some() {
                    return Err(ReplayError::Malformed("a table that changes its kind".to_owned()));
                }
                check_brick_definition(Some(old.def()), def)
                    .map_err(|error| ReplayError::Malformed(error.to_string()))?;
            }
        }
        let damaged =
            if self.damaged.is_some() { DamagedIndexes::BuiltAgain } else { DamagedIndexes::Refused };
        let mender = self.mender.as_deref_mut();
        let mut indexes = NewIndexes { disk: self.disk, mender, damaged, places, merged };
        let build = |table: &Table, def: &TableDef, position: usize| indexes.make(table, def, position);
        match (self.world.change_catalog(change, build), change) {
            (Ok(()), _) => Ok(()),
            (Err(error), CatalogChange::PutTable(def)) => {
                // The rows that a new index is of cannot be read.
                self.without(def.id, error)?;
                self.world.change_catalog(change, |_, _, _| Ok(Space::new()))
            }
            (Err(error), _) => Err(error),
        }
    }

    fn bricks(&mut self, change: &BrickChange) -> Result<(), ReplayError> {
        let table = self.table(change.table)?;
        let rows = table.bricks().ok_or_else(|| {
            ReplayError::Malformed(format!("a change of bricks of table {}, which has none", change.table))
        })?;
        let newest = match rows.replay(change, self.time) {
            Ok(newest) => newest,
            // Its epoch is used all the same.
            Err(NotReplayed::Misfit(_)) if self.loses_append(&table) => change.epoch,
            Err(NotReplayed::Misfit(what) | NotReplayed::Other(what)) => {
                return Err(ReplayError::Malformed(what));
            }
        };
        self.newest_epoch = self.newest_epoch.max(newest);
        self.epochs = self.epochs.with(&[change.epoch]);
        Ok(())
    }

    fn loses_append(&mut self, table: &Table) -> bool {
        self.mender.as_mut().is_some_and(|mender| mender.loses_append(table.def()))
    }

    /// Numbers that definitions use are not given again.
    fn note_numbers(&mut self, change: &CatalogChange) {
        match change {
            CatalogChange::PutTable(def) => {
                let numbers = def.indexes.iter().map(|index| index.id).chain([def.id]);
                self.next_space = numbers.map(|id| id.get() + 1).fold(self.next_space, u32::max);
            }
            CatalogChange::PutType(def) => {
                let last = def.id().get().max(def.ty.def().array_id.get());
                self.next_space = self.next_space.max(last + 1);
            }
            CatalogChange::PutSequence(def) => self.next_sequence = self.next_sequence.max(def.id.get() + 1),
            CatalogChange::PutSchema(_)
            | CatalogChange::RemoveSchema(_)
            | CatalogChange::RemoveTable(_)
            | CatalogChange::Truncate(_)
            | CatalogChange::PutView(_)
            | CatalogChange::RemoveView(_)
            | CatalogChange::RemoveSequence(_)
            | CatalogChange::PutRole(_)
            | CatalogChange::RemoveRole(_)
            | CatalogChange::PutSchemaAccess(..)
            | CatalogChange::PutServerAccess(..)
            | CatalogChange::PutDefaultPrivileges(_)
            | CatalogChange::PutSessionDefaults(_)
            | CatalogChange::PutSynchronousReplicas(_)
            | CatalogChange::RemoveType(_) => {}
        }
    }

    /// The indexes of `merged` have its entries already.
    fn load(&mut self, version: Version, places: LoadPlaces, merged: &[SpaceId]) -> Result<(), ReplayError> {
        self.disk.note_committed(places.segments.iter().map(|segment| segment.number), version);
        let table = self.table(places.table)?;
        if places.segments.len() != table.indexes().len() + 1 {
            return Err(ReplayError::Malformed("a bulk load of another number of indexes".to_owned()));
        }
        let all = |reference: &SegmentRef| Ok(chunks_of(&self.disk.open_segment(*reference)?));
        let chunks = match &mut self.mender {
            Some(mender) => mender.load(table.def(), &places.segments),
            None => places.segments.iter().map(all).collect::<Result<Vec<_>, StoreError>>()?,
        };
        let (rows, indexes) = chunks.split_first().expect("there is one more segment than indexes");
        let load = BulkLoad::new(places.table, rows.clone(), indexes.to_vec());
        if let Some(observer) = &mut self.observer {
            observer.load(&table, &load)?;
        }
        if let Some((first, last)) = load.key_span() {
            let span = KeyRange { lower: Bound::Included(first), upper: Bound::Included(last) };
            if takes_chunks(&table, &span, merged)? {
                self.world.update_table(places.table, |table| table.load(&load, merged))?;
            } else {
                let writes = writes_of_load(&table, &load, merged)?;
                self.world.update_table(places.table, |table| table.apply(&writes, None));
            }
        }
        Ok(())
    }

    fn table(&self, id: SpaceId) -> Result<Arc<Table>, ReplayError> {
        let missing = || ReplayError::Malformed(format!("a change of table {id}, which is not there"));
        self.world.table(id).cloned().ok_or_else(missing)
    }

    fn gather(&mut self, writes: ReplayedWrites) -> Result<(), ReplayError> {
        let table = self.table(writes.table)?;
        if writes.indexes.len() != table.indexes().len() {
            let what = format!("changes of another number of indexes of table {}", writes.table);
            return Err(ReplayError::Malformed(what));
        }
        let layout = table.def().layout();
        let is_sound = |entry: &DeltaEntry| match entry.row() {
            Some(row) => Row::check(row.as_bytes(), layout),
            None => !entry.is_present(),
        };
        if !writes.rows.iter().all(|(_, entry)| is_sound(entry)) {
            return Err(ReplayError::Malformed(format!("a row that is none of table {}", writes.table)));
        }
        let gathered = self.gathered.entry(writes.table).or_default();
        self.gathered_count += writes.rows.len() + writes.indexes.iter().map(Vec::len).sum::<usize>();
        gathered.rows.extend(writes.rows);
        gathered.indexes.resize_with(writes.indexes.len(), Vec::new);
        for (all, entries) in gathered.indexes.iter_mut().zip(writes.indexes) {
            all.extend(entries);
        }
        Ok(())
    }

    fn apply_gathered(&mut self) {
        self.gathered_count = 0;
        for (id, gathered) in std::mem::take(&mut self.gathered) {
            let writes = TableWrites {
                table: id,
                rows: add_up(gathered.rows),
                indexes: gathered.indexes.into_iter().map(add_up).collect(),
            };
            self.world.update_table(id, |table| table.apply(&writes, None));
        }
    }

    /// Applies what is left. In the world, all epochs that have not committed count as ended: nobody goes on with them.
    pub(crate) fn finish(self) -> ReplayedLog {
        self.finish_with(|world, newest, _| world.recover_epochs(newest))
    }

    /// As [`finish`](Self::finish), for a store that goes on following the log: transactions that have not committed may yet.
    pub(crate) fn finish_to_follow(self) -> ReplayedLog {
        let ended = self.ended;
        self.finish_with(|world, _, epochs| world.follow_epochs(epochs, ended))
    }

    fn finish_with(mut self, end_epochs: impl FnOnce(&mut World, Epoch, EpochSet)) -> ReplayedLog {
        self.apply_gathered();
        for (id, damage) in self.damaged.take().unwrap_or_default() {
            let Some(def) = self.world.table(id).map(|table| Arc::clone(table.def())) else { continue };
            let bricks = self.world.shared_bricks().rows_of(&def);
            self.world.put_table(Arc::new(Table::new(def).with_bricks(bricks).with_damage(damage)));
        }
        end_epochs(&mut self.world, self.newest_epoch, self.epochs);
        // A sequence that is not defined belongs to a transaction that did not commit, or was dropped.
        let catalog = self.world.catalog();
        self.resume_points.retain(|id, _| catalog.sequence(*id).is_some());
        ReplayedLog {
            resume_points: self.resume_points.into_iter().collect(),
            world: self.world,
            terms: self.terms,
            time: self.time,
            next_space: self.next_space,
            next_sequence: self.next_sequence,
        }
    }

    /// Applies what is left, with exactly the rows of brick tables whose transactions have committed: those of others may
    /// come yet, and are not to be seen in this world then.
    pub(crate) fn finish_following(mut self) -> FollowedLog {
        self.apply_gathered();
        self.world.follow_epochs(self.epochs, self.ended);
        self.world.add_commits(self.commits);
        FollowedLog {
            world: self.world,
            rolled_back: self.rolled_back,
            batches: self.followed.unwrap_or_default(),
            resume_points: self.resume_points.into_iter().collect(),
            next_space: self.next_space,
            next_sequence: self.next_sequence,
            terms: self.terms,
            time: self.time,
        }
    }
}

/// The transactions of a batch that have an out-edge, with what they wrote. `world` is the one before, or, as only rows are
/// written by such transactions, one with the same definitions.
fn members_of(version: Version, transactions: &[Replayed], world: &World) -> Vec<Member<Arc<WriteSet>>> {
    let member = |(position, transaction): (usize, &Replayed)| {
        let first_out = CommitOrder { version: transaction.first_out?, position: 0 };
        let order = CommitOrder { version, position: u32::try_from(position).expect("a batch is bounded") };
        let writes = Arc::new(transaction.write_set(world));
        Some(Member { order, transaction: TransactionId::new(0), first_out, writes })
    };
    transactions.iter().enumerate().filter_map(member).collect()
}

/// Sums up changes in their order, one for each key.
fn add_up(mut changes: Vec<(Key, DeltaEntry)>) -> Delta {
    // Stable: changes of one key stay in their order.
    changes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut summed: Vec<(Key, DeltaEntry)> = Vec::with_capacity(changes.len());
    for (key, entry) in changes {
        match summed.last() {
            Some((last, earlier)) if *last == key => {
                let sum = entry.after(Some(earlier));
                summed.pop();
                summed.extend(sum.map(|sum| (key, sum)));
            }
            _ => summed.push((key, entry)),
        }
    }
    Delta::from_sorted(summed)
}

/// Whether the chunks of a load can be added as they are.
fn takes_chunks(table: &Table, span: &KeyRange, merged: &[SpaceId]) -> Result<bool, StoreError> {
    let mut indexes = table.def().indexes.iter().zip(table.indexes());
    let are_free = indexes.all(|(index, entries)| merged.contains(&index.id) || entries.has_no_parts());
    Ok(are_free && is_free(table, span)?)
}

/// A load row by row, without entries for the indexes of `merged`.
fn writes_of_load(table: &Table, load: &BulkLoad, merged: &[SpaceId]) -> Result<TableWrites, StoreError> {
    load.chunks().iter().try_for_each(|chunk| chunk.check_whole())?;
    let row = |chunk: &Chunk, index: usize| {
        let row = RowRef::new(table.def(), table.missing(), Found::Base(chunk, index)).to_row();
        DeltaEntry::inserted(Some(row))
    };
    let rows = load.chunks().iter().flat_map(|chunk| {
        (0..chunk.rows()).map(|index| (Key::from_slice(chunk.keys().get(index)), row(chunk, index)))
    });
    let entries = |(index, chunks): (&IndexDef, &Vec<Arc<Chunk>>)| {
        if merged.contains(&index.id) { Ok(Delta::default()) } else { inserted_entries(chunks) }
    };
    let indexes = table.def().indexes.iter().zip(load.indexes()).map(entries);
    Ok(TableWrites {
        table: load.table(),
        rows: Delta::from_sorted(rows.collect()),
        indexes: indexes.collect::<Result<_, _>>()?,
    })
}
