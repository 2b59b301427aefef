// SPDX-License-Identifier: Apache-2.0
//! Row locks of a transaction, and snapshots that move.
//!
//! READ COMMITTED reads a snapshot for each statement and locks what it writes; a lock, once granted, is followed
//! by a look at the newest *applied* world, because whoever held it before has been applied then.
//!
//! ```text
//! statement begins    newest published world     what is read until it ends or moves
//! lock granted        newest applied world       is the key there as it was read?
//!    yes                                         go on; the key is certified from the applied world
//!    no                                          the snapshot moves to the applied world; the statement looks again
//! ```
//!
//! # Why this loses nothing
//! Each access is certified from the version at which its key was last looked at, after its lock was granted. So a
//! commit that changed the key before is seen, and one that comes later makes certification fail, whoever made it.
//! A lock that a transaction already has does not stop transactions that take no locks, so every statement looks at what it
//! locks, also when it runs again with the locks of its first run.
//! No transaction that takes locks changes the key while the lock is held (README of `coeval-txn`), so these never fail.
//!
//! # Why locks end before the log is synced
//! A transaction's locks end when it is applied, so a transaction that waited for them may read what is not durable yet. No
//! result of that is given out before it is durable: a commit is acknowledged after all commits before it in the log, and a caller
//! that gives out a result earlier first waits for the versions it depends on ([`Transaction::wait_for_dependencies`]). If the
//! log fails, the versions never become visible, and neither does anything that was made from them.

use super::{AccessMode, Footmark, GlobalKey, Transaction};
use crate::catalog::{IndexDef, TableDef};
use crate::conflicts::ConflictError;
use crate::conflicts::{ConflictCause, ConflictPlace, ConflictReason, Origin};
use crate::cursor::SpaceCursor;
use crate::delta::Change;
use crate::error::StoreError;
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::publishing::Until;
use crate::range::{Direction, KeyRange};
use crate::row::Row;
use crate::row_lock_error::RowLockError;
use crate::space::Found;
use crate::table::{RowRef, Table, index_prefix};
use crate::world::World;
use coeval_txn::{Access, Acquired, Interrupt, Isolation, LockError, LockStrength, Patience, Version};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a transaction waits for row locks.
#[derive(Clone, Default)]
pub struct LockWaits {
    /// How long at most; for ever if not given.
    pub timeout: Option<Duration>,
    /// After which time deadlocks are looked for.
    pub deadlock_after: Duration,
    /// What may end a wait from outside.
    pub interrupt: Option<Arc<dyn Interrupt + Send + Sync>>,
}

impl fmt::Debug for LockWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWaits")
            .field("timeout", &self.timeout)
            .field("deadlock_after", &self.deadlock_after)
            .finish_non_exhaustive()
    }
}

/// A row to be locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowLock {
    /// Its table.
    pub table: SpaceId,
    /// Its primary key.
    pub key: Key,
    /// How.
    pub strength: LockStrength,
}

/// What to do about a row that somebody else has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLocked {
    /// Wait, as [`LockWaits`] says.
    Wait,
    /// Fail (NOWAIT).
    Fail,
    /// Leave it out (SKIP LOCKED).
    Skip,
}

/// What [`Transaction::lock_rows`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedRows {
    /// Whether the rows are still what the transaction read.
    pub state: LockedState,
    /// Which of the rows, by their place, were left out.
    pub skipped: Vec<usize>,
}

/// Whether locked rows are what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedState {
    /// They are.
    AsRead,
    /// One was changed or removed. The transaction's snapshot has moved to one that holds the change: whoever
    /// read them reads again.
    Changed,
}

/// A row's primary or unique key whose owner a write is about to change.
struct OwnedKey {
    space: SpaceId,
    key: Key,
    end: KeyEnd,
}

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyEnd {
    /// The write wants to own it.
    Taken,
    /// The write lets it go.
    GivenUp,
}

impl Transaction {
    /// Whether writes take row locks.
    #[inline]
    pub(super) fn takes_locks(&self) -> bool {
        self.isolation == Isolation::ReadCommitted
    }

    /// How it waits for row locks from now on.
    pub fn set_lock_waits(&mut self, waits: LockWaits) {
        self.lock_waits = waits;
    }

    /// A statement begins: at READ COMMITTED it reads the newest published world. (A transaction that changed
    /// definitions or loaded rows in bulk keeps its snapshot, and so does one that [has to](Self::stay).)
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the definition of a table it wrote was changed meanwhile.
    #[inline]
    pub fn begin_statement(&mut self) -> Result<(), StoreError> {
        self.statements += 1;
        self.restart_wanted = false;
        self.looked_at = self.snapshot;
        self.note_statement();
        if !self.takes_locks() || self.is_tied() || self.has_to_stay() {
            return Ok(());
        }
        let published = self.shared.published();
        if published.version() <= self.snapshot { Ok(()) } else { self.move_to(published) }
    }

    /// Whether what it did ties it to its snapshot.
    pub(super) fn is_tied(&self) -> bool {
        !(self.catalog_changes.is_empty() && self.loads.is_empty())
    }

    /// Whether nothing was given out yet that depends on the snapshot it has.
    fn may_move(&self) -> bool {
        let has_read = !self.takes_locks() && (self.statements != 1 || self.has_writes());
        !(self.is_tied() || self.has_to_stay() || has_read)
    }

    /// Whether something was read elsewhere that goes with the snapshot.
    pub(super) fn has_to_stay(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    /// Whether a statement should run again, on the snapshot that the transaction has moved to; asking resets it.
    pub fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.restart_wanted)
    }

    /// Waits until everything that was read is durable as the store's durability says: before a result is given
    /// out that is not a commit's. Returns at once unless the snapshot has moved within a statement.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] if the log failed: what was read never was.
    pub fn wait_for_dependencies(&self) -> Result<(), StoreError> {
        self.shared.wait_for(self.depends_on, Until::Published, None)
    }

    /// The version that must be published before a result is given out that is not a commit's: for whoever waits in
    /// another way than [`wait_for_dependencies`](Self::wait_for_dependencies).
    #[must_use]
    pub fn dependency(&self) -> Version {
        self.depends_on
    }

    /// Locks rows that it read, in this order, waiting as [`LockWaits`] and `if_locked` say. The locks last until
    /// the transaction ends or rolls back to a savepoint before. The rows are certified as references or, from
    /// SHARE on, as if they were updated: nobody who takes no locks changes them unnoticed.
    ///
    /// At READ COMMITTED, and at any level in a transaction's first statement, the snapshot moves if a row is not
    /// as it was read, unless it [has to stay](Self::stay).
    ///
    /// # Errors
    /// [`StoreError::RowLock`]; [`StoreError::Conflict`] if a row was changed and the snapshot cannot move;
    /// [`StoreError::OutOfMemory`]; [`StoreError::ReadOnly`]. Locks that were got before are kept.
    pub fn lock_rows(&mut self, rows: &[RowLock], if_locked: IfLocked) -> Result<LockedRows, StoreError> {
        self.writable("SELECT FOR UPDATE")?;
        let mut skipped = Vec::new();
        // Also those whose lock it has already. The lock may be older than the statement, which may have been undone
        // together with its marks; and whoever takes no locks may have changed the row since.
        let mut got = Vec::new();
        let mut has_waited = false;
        for (place, row) in rows.iter().enumerate() {
            self.stop_if_asked()?;
            let key = (row.table, row.key.clone());
            match self.acquire(&key, row.strength, if_locked) {
                Ok(acquired) => {
                    has_waited |= acquired == Acquired::AfterWait;
                    got.push(row);
                }
                Err(StoreError::RowLock(RowLockError::NotAvailable(_))) if if_locked == IfLocked::Skip => {
                    skipped.push(place);
                }
                Err(error) => return Err(error),
            }
        }
        if got.is_empty() {
            return Ok(LockedRows { state: LockedState::AsRead, skipped });
        }
        let newest = self.look_at_newest();
        // A first statement that had to wait begins anew after the transaction that it waited for, whether that changed the row or not.
        let begins_again = has_waited && !self.takes_locks() && self.may_move();
        let is_older = newest.version() > self.snapshot;
        let mut state = if begins_again && is_older { LockedState::Changed } else { LockedState::AsRead };
        let mut newer = got[0];
        for row in &got {
            self.stop_if_asked()?;
            if state == LockedState::AsRead && has_changed(&self.world, &newest, row.table, &row.key)? {
                (state, newer) = (LockedState::Changed, *row);
            }
        }
        if state == LockedState::Changed {
            let moved = self.move_to_newest(newest, newer.table, Some(&newer.key));
            self.note_loss(moved)?;
        }
        self.keep_marks(got.len())?;
        for row in got {
            let (certify, admit) = self.accesses_of_lock(row.strength);
            let key = (row.table, row.key.clone());
            self.footprint.push(Footmark { key, certify, admit, begin: self.looked_at });
        }
        Ok(LockedRows { state, skipped })
    }

    /// What a locked row is certified by if nothing else is done to it, and what later ones are certified against.
    ///
    /// On a snapshot that stays, whoever locked a row for an update before is a writer of it: that two who lock the
    /// row that stands for a rule do not both break the rule is what they lock it for. On one that moves, the second
    /// sees what the first has done.
    fn accesses_of_lock(&self, strength: LockStrength) -> (Access, Access) {
        match strength {
            LockStrength::KeyShare => (Access::Reference, Access::Reference),
            LockStrength::Share => (Access::Update, Access::Reference),
            LockStrength::NoKeyUpdate | LockStrength::Update if self.takes_locks() => {
                (Access::Update, Access::Reference)
            }
            LockStrength::NoKeyUpdate | LockStrength::Update => (Access::Update, Access::Update),
        }
    }

    /// As [`lock_rows`](Self::lock_rows) for the rows that a statement found and is about to change; if one was
    /// changed meanwhile the statement is to run again ([`take_restart`](Self::take_restart)). At REPEATABLE READ it
    /// takes locks only while anybody holds some: then it waits for whoever locked these rows. At SERIALIZABLE it
    /// always does, for there the wait may lead to a snapshot that has moved, and not to a refusal; where it would wait
    /// for ever it goes on without the lock.
    ///
    /// # Errors
    /// As [`lock_rows`](Self::lock_rows); [`StoreError::Conflict`] if the statement is to run again.
    pub fn lock_found<'k>(
        &mut self,
        table: SpaceId,
        keys: impl IntoIterator<Item = &'k Key>,
        strength: LockStrength,
    ) -> Result<(), StoreError> {
        let takes_locks = match self.isolation {
            Isolation::ReadCommitted | Isolation::Serializable => true,
            Isolation::Snapshot => self.shared.row_locks.is_in_use(),
        };
        if !takes_locks {
            return Ok(());
        }
        let lock = |key: &Key| RowLock { table, key: key.clone(), strength };
        let rows: Vec<RowLock> = keys.into_iter().map(lock).collect();
        match self.lock_rows(&rows, IfLocked::Wait) {
            // Whoever waits for this one goes on when it commits; certification says which of them may.
            Err(StoreError::RowLock(RowLockError::Deadlock { .. }))
                if self.isolation == Isolation::Serializable =>
            {
                Ok(())
            }
            locked => self.require_as_read(&locked?),
        }
    }

    /// Whether [`lock_ahead`](Self::lock_ahead) is for it: it may write, and its writes take no locks by themselves.
    #[must_use]
    pub fn locks_ahead(&self) -> bool {
        !self.takes_locks() && self.mode == AccessMode::ReadWrite
    }

    /// For INSERT ... ON CONFLICT, before the statement writes anything: locks what it is about to update, the owner of
    /// one of the row's keys, as [`lock_found`](Self::lock_found); or at SERIALIZABLE the keys of the row if they have
    /// no owner. So those who want the same key wait for each other, and the next one begins behind the one before.
    ///
    /// # Errors
    /// As [`lock_found`](Self::lock_found).
    pub fn lock_ahead(
        &mut self,
        table: SpaceId,
        owner: Option<(&Key, LockStrength)>,
        row: &Row,
    ) -> Result<(), StoreError> {
        if let Some((key, strength)) = owner {
            return self.lock_found(table, [key], strength);
        }
        if self.isolation != Isolation::Serializable {
            return Ok(());
        }
        let before = self.snapshot;
        match self.lock_new_row(table, row) {
            // As in `lock_found`.
            Err(StoreError::RowLock(RowLockError::Deadlock { .. })) => return Ok(()),
            locked => self.note_loss(locked)?,
        }
        let state = if self.snapshot == before { LockedState::AsRead } else { LockedState::Changed };
        self.require_as_read(&LockedRows { state, skipped: Vec::new() })
    }

    /// Locks the row that a write is about to update, and says whether it is what was read. Does nothing at levels
    /// at which writes take no locks.
    ///
    /// # Errors
    /// As [`lock_rows`](Self::lock_rows).
    pub fn lock_for_update(
        &mut self,
        table: SpaceId,
        key: &Key,
        strength: LockStrength,
    ) -> Result<LockedState, StoreError> {
        if !self.takes_locks() {
            return Ok(LockedState::AsRead);
        }
        let lock = RowLock { table, key: key.clone(), strength };
        Ok(self.lock_rows(&[lock], IfLocked::Wait)?.state)
    }

    /// Locks the keys of a row that is about to be inserted, and says whether they have the owners that were read.
    /// Does nothing at levels at which writes take no locks.
    ///
    /// # Errors
    /// As [`lock_rows`](Self::lock_rows).
    pub fn lock_for_insert(&mut self, table: SpaceId, row: &Row) -> Result<LockedState, StoreError> {
        let before = self.snapshot;
        if self.takes_locks() {
            self.lock_new_row(table, row)?;
        }
        Ok(if self.snapshot == before { LockedState::AsRead } else { LockedState::Changed })
    }

    /// Notes that a decision depends on a row that was not locked: if another transaction changes it first, this one is refused.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`]; nothing is noted then.
    pub fn rely_on_row(&mut self, table: SpaceId, key: &Key) -> Result<(), StoreError> {
        self.keep_marks(1)?;
        let mark = (table, key.clone());
        let (certify, admit) = (Access::Update, Access::Reference);
        self.footprint.push(Footmark { key: mark, certify, admit, begin: self.snapshot });
        Ok(())
    }

    /// Makes a statement run again if rows that it locked were changed meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the statement is to run again.
    pub fn require_as_read(&mut self, locked: &LockedRows) -> Result<(), StoreError> {
        match locked.state {
            LockedState::AsRead => Ok(()),
            LockedState::Changed => {
                self.restart_wanted = true;
                Err(self.changed(CATALOG_SPACE))
            }
        }
    }

    /// Whether somebody else holds or waits for a lock of this row that conflicts; by the time the answer is there
    /// that may have changed.
    #[must_use]
    pub fn is_locked_elsewhere(&self, lock: &RowLock) -> bool {
        let key = (lock.table, lock.key.clone());
        self.shared.row_locks.is_busy(self.locks.as_ref().map(|locks| locks.id()), &key, lock.strength)
    }

    /// Locks the row with this key for an update, waiting if somebody else has it, and returns whether it is
    /// there.
    ///
    /// # Errors
    /// As [`lock_rows`](Self::lock_rows).
    pub fn lock_row(&mut self, table: SpaceId, key: &Key) -> Result<bool, StoreError> {
        let lock = RowLock { table, key: key.clone(), strength: LockStrength::Update };
        self.lock_rows(&[lock], IfLocked::Wait)?;
        Ok(self.get(table, key)?.is_some())
    }

    /// Gets a lock, for which it takes memory unless it has as much of that key already.
    fn acquire(
        &mut self,
        key: &GlobalKey,
        strength: LockStrength,
        if_locked: IfLocked,
    ) -> Result<Acquired, StoreError> {
        let kept = self.keep_lock(&key.1)?;
        let outcome = self.acquire_now(key, strength, if_locked);
        if matches!(outcome, Ok(Acquired::Already) | Err(_)) {
            self.keep_no_lock(kept);
        }
        outcome
    }

    fn acquire_now(
        &mut self,
        key: &GlobalKey,
        strength: LockStrength,
        if_locked: IfLocked,
    ) -> Result<Acquired, StoreError> {
        let locks = self
            .locks
            .get_or_insert_with(|| self.shared.row_locks.owner_of(self.origin.as_ref().map(Origin::session)));
        match locks.lock(key, strength, Patience::None) {
            Err(LockError::NotAvailable) if if_locked == IfLocked::Wait => {}
            outcome => return outcome.map_err(|error| self.lock_error(&error, key.0).into()),
        }
        let patience = Patience::Wait {
            at_most: self.lock_waits.timeout,
            deadlock_after: self.lock_waits.deadlock_after,
            interrupt: self.lock_waits.interrupt.as_deref(),
        };
        let outcome = self.shared.aside(|| locks.lock(key, strength, patience));
        outcome.map_err(|error| self.lock_error(&error, key.0).into())
    }

    fn lock_error(&self, error: &LockError<GlobalKey>, space: SpaceId) -> RowLockError {
        match error {
            LockError::NotAvailable => {
                let table = self.world.table(space);
                let name = table.map_or_else(|| space.to_string(), |table| table.def().name.name.clone());
                RowLockError::NotAvailable(name)
            }
            LockError::Timeout => RowLockError::Timeout,
            LockError::Interrupted => RowLockError::Interrupted,
            LockError::Deadlock(deadlock) => RowLockError::Deadlock {
                tables: deadlock
                    .waits
                    .iter()
                    .filter_map(|wait| self.world.place_of_space(wait.key.0).space)
                    .collect(),
                detail: deadlock.describe(|(space, key)| self.world.describe_key(*space, key)),
            },
        }
    }

    /// The newest applied world; from here on keys are marked as looked at in it.
    fn look_at_newest(&mut self) -> Arc<World> {
        let newest = self.shared.applied();
        assert!(newest.version() >= self.snapshot, "applied worlds come before published ones");
        if self.takes_locks() {
            self.looked_at = newest.version();
        }
        newest
    }

    /// Moves to a world that holds what others changed of `table`.
    fn move_to_newest(
        &mut self,
        newest: Arc<World>,
        table: SpaceId,
        key: Option<&Key>,
    ) -> Result<(), StoreError> {
        let newest = if self.may_move() {
            newest
        } else {
            self.refreshed().ok_or_else(|| self.changed_at(table, key))?
        };
        self.depends_on = newest.version();
        self.looked_at = newest.version();
        self.move_to(newest)
    }

    /// Reads this world from now on. What it wrote stays as it is; certification says whether that may be.
    fn move_to(&mut self, world: Arc<World>) -> Result<(), StoreError> {
        assert!(!self.is_tied(), "a private copy of a world is not given up");
        assert!(world.version() >= self.snapshot, "snapshots move forward");
        self.writes.change_all(|writes| {
            let (before, now) = (self.world.table(writes.table), world.table(writes.table));
            let (Some(before), Some(now)) = (before, now) else {
                return Err(definition_changed(writes.table, world.version()));
            };
            if !Arc::ptr_eq(before.def(), now.def()) {
                return Err(definition_changed(writes.table, world.version()));
            }
            if !before.rows().base().ptr_eq(now.rows().base()) {
                writes.forget_positions();
            }
            Ok(())
        })?;
        self.check_bricks_stay(&world)?;
        let version = world.version();
        self.move_registration(version, &world);
        if self.footprint.is_empty() {
            // The old registration lasts until the new one is there, so that nothing in between is forgotten.
            self.guard = Arc::new(self.mode.snapshots(&self.shared).register(|| version));
        }
        self.has_moved |= !self.writes.is_empty();
        self.moved_to = Some(Arc::clone(&world));
        self.world = world;
        self.snapshot = version;
        self.looked_at = self.looked_at.max(version);
        Ok(())
    }

    pub(super) fn changed(&self, table: SpaceId) -> StoreError {
        self.changed_at(table, None)
    }

    fn changed_at(&self, table: SpaceId, key: Option<&Key>) -> StoreError {
        let (place, found) = match key {
            Some(key) => (self.world.describe_key(table, key), self.world.place_of(table, key)),
            None => (self.world.describe_space(table), self.world.place_of_space(table)),
        };
        let error = StoreError::Conflict(ConflictError {
            what: "concurrent update",
            space: table,
            detail: format!("{place}: a row was changed or removed since this transaction began."),
            version: self.shared.applied().version(),
            cause: ConflictCause::new(ConflictReason::Overtaken, found),
        });
        match key {
            Some(key) => self.shared.pipeline.with_writer_since(
                &self.shared,
                self.snapshot,
                &(table, key.clone()),
                error,
            ),
            None => error,
        }
    }

    /// Locks the keys that a new row is about to take, and sees who has them.
    pub(super) fn lock_new_row(&mut self, table: SpaceId, row: &Row) -> Result<(), StoreError> {
        let table = Arc::clone(self.table(table)?);
        let new = RowRef::of_row(table.def(), table.missing(), row);
        if new.null_columns().any(|column| table.def().columns[column].not_null) {
            // It will be refused before its keys matter.
            return Ok(());
        }
        let mut keys = vec![OwnedKey { space: table.id(), key: new.key(), end: KeyEnd::Taken }];
        keys.extend(claims_of(table.def(), new, KeyEnd::Taken));
        self.lock_keys(&table, &keys).map(drop)
    }

    /// Locks a row that is about to change, or to go if there is no new one, with the keys that it gives up or
    /// takes.
    pub(super) fn lock_old_row(
        &mut self,
        table: SpaceId,
        key: &Key,
        row: Option<&Row>,
    ) -> Result<(), StoreError> {
        let table = Arc::clone(self.table(table)?);
        let Some(old) = self.find(&table, key)?.map(|found| table.row_ref(found).to_row()) else {
            return Ok(());
        };
        let old = RowRef::of_row(table.def(), table.missing(), &old);
        let new = row.map(|row| RowRef::of_row(table.def(), table.missing(), row));
        let keeps_key = new.is_some_and(|new| {
            let mut columns = table.def().primary_key.iter();
            columns.all(|&column| old.has_same(&new, column))
        });
        let access = if keeps_key { Access::Update } else { Access::Identity };
        self.acquire(&(table.id(), key.clone()), LockStrength::of_access(access), IfLocked::Wait)?;
        let changed = |index: &IndexDef| {
            !keeps_key
                || new.is_none_or(|new| index.columns.iter().any(|&column| !old.has_same(&new, column)))
        };
        let mut keys = Vec::new();
        for (row, end) in std::iter::once((old, KeyEnd::GivenUp)).chain(new.map(|new| (new, KeyEnd::Taken))) {
            let claims = claims_of(table.def(), row, end);
            keys.extend(
                claims.filter(|claim| table.index(claim.space).is_some_and(|(index, _)| changed(index))),
            );
        }
        // The row is looked at last, in the world in which its keys were: it is certified from there, whoever changed it
        // before that. (A row that it has written itself is certified from where it was looked at then.)
        let read = Arc::clone(&self.world);
        let newest = if keys.is_empty() { self.look_at_newest() } else { self.lock_keys(&table, &keys)? };
        let is_own = self.writes_of(table.id()).is_some_and(|writes| writes.rows.get(key).is_some());
        if !is_own && has_changed(&read, &newest, table.id(), key)? {
            return Err(self.changed_at(table.id(), Some(key)));
        }
        Ok(())
    }

    /// Locks keys whose owner is about to change; moves if one has an owner now and had none, or the reverse.
    ///
    /// A key that has an owner will be refused: for that it is enough that the owner stays, so that those who
    /// merely refer to it or change its other columns are not waited for.
    ///
    /// Returns the world in which it saw who owns them.
    fn lock_keys(&mut self, table: &Arc<Table>, keys: &[OwnedKey]) -> Result<Arc<World>, StoreError> {
        let mut newest = self.look_at_newest();
        loop {
            let mut is_new = false;
            for key in keys {
                let stays = key.end == KeyEnd::Taken && self.is_taken(&newest, table.id(), key)?;
                let strength = if stays { LockStrength::KeyShare } else { LockStrength::Update };
                let lock = (key.space, key.key.clone());
                is_new |= self.acquire(&lock, strength, IfLocked::Wait)? != Acquired::Already;
            }
            let before = std::mem::replace(&mut newest, self.look_at_newest());
            if !is_new || before.version() == newest.version() {
                break;
            }
        }
        if newest.version() == self.snapshot {
            return Ok(newest);
        }
        for key in keys {
            if self.is_taken(&self.world, table.id(), key)? != self.is_taken(&newest, table.id(), key)? {
                let of_table = Some(&key.key).filter(|_| key.space == table.id());
                self.move_to_newest(newest, table.id(), of_table)?;
                return Ok(Arc::clone(&self.world));
            }
        }
        Ok(newest)
    }

    /// Whether a key of a table has an owner in a world.
    fn is_taken(&self, world: &World, table: SpaceId, key: &OwnedKey) -> Result<bool, StoreError> {
        let Some(table) = world.table(table) else { return Ok(false) };
        if key.space == table.id() {
            return table.rows().contains(&key.key);
        }
        let Some((_, entries)) = table.index(key.space) else { return Ok(false) };
        let range = KeyRange::prefix(key.key.as_slice());
        let mut found = SpaceCursor::new(entries, None, &range, Direction::Forward);
        Ok(found.next().transpose()?.is_some())
    }

    /// Locks the parent that a row refers to, if there is one in the snapshot or since, so that it stays; sees
    /// whether it does.
    pub(super) fn lock_parent(
        &mut self,
        parent: SpaceId,
        (space, key): &GlobalKey,
    ) -> Result<(), StoreError> {
        let parent_key = OwnedKey { space: *space, key: key.clone(), end: KeyEnd::Taken };
        let is_known = |transaction: &Self, newest: &World| -> Result<(bool, bool), StoreError> {
            let read = transaction.is_taken(&transaction.world, parent, &parent_key)?;
            Ok((read, transaction.is_taken(newest, parent, &parent_key)?))
        };
        let newest = self.look_at_newest();
        if is_known(self, &newest)? != (false, false) {
            self.acquire(&(*space, key.clone()), LockStrength::KeyShare, IfLocked::Wait)?;
        }
        let newest = self.look_at_newest();
        let (read, now) = is_known(self, &newest)?;
        if read == now { Ok(()) } else { self.move_to_newest(newest, parent, None) }
    }

    /// Before children of a locked parent are looked for: sees those that were committed meanwhile.
    pub(super) fn look_at_children(&mut self, child: SpaceId) -> Result<(), StoreError> {
        let newest = self.look_at_newest();
        let is_same = match (self.world.table(child), newest.table(child)) {
            (Some(read), Some(now)) => read.rows().is_same(now.rows()),
            (read, now) => read.is_none() && now.is_none(),
        };
        if is_same { Ok(()) } else { self.move_to_newest(newest, child, None) }
    }

    /// Whether own writes of a table still say the truth about a snapshot that has moved: what they add is not
    /// there and what they replace or remove is. If not, somebody without locks was first.
    pub(super) fn check_writes_of(&self, table: &Table) -> Result<(), StoreError> {
        let Some(writes) = self.writes_of(table.id()).filter(|_| self.has_moved) else { return Ok(()) };
        let indexes = writes.indexes.iter().zip(table.indexes());
        for (changes, space) in std::iter::once((&writes.rows, table.rows())).chain(indexes) {
            for (key, entry) in changes.iter() {
                if space.contains(key)? == (entry.change() == Change::Inserted) {
                    let of_table = Some(key).filter(|_| std::ptr::eq(space, table.rows()));
                    return Err(self.changed_at(table.id(), of_table));
                }
            }
        }
        Ok(())
    }
}

/// The unique keys that a row has, those with a NULL left out.
fn claims_of<'r>(def: &'r TableDef, row: RowRef<'r>, end: KeyEnd) -> impl Iterator<Item = OwnedKey> + 'r {
    let unique = def.indexes.iter().filter(|index| index.uniqueness.is_unique());
    let complete = unique.filter(move |index| index.columns.iter().all(|&column| !row.get(column).is_null()));
    complete.map(move |index| {
        let prefix = index_prefix(index, |column| row.get(column));
        OwnedKey { space: index.id, key: prefix.finish(), end }
    })
}

/// Whether the row with this key is another one in `newest` than in the world that was read, or is there in one alone.
fn has_changed(read: &World, newest: &World, table: SpaceId, key: &Key) -> Result<bool, StoreError> {
    if newest.version() == read.version() {
        return Ok(false);
    }
    let (Some(read), Some(now)) = (read.table(table), newest.table(table)) else { return Ok(true) };
    if read.rows().is_same(now.rows()) {
        return Ok(false);
    }
    if !Arc::ptr_eq(read.def(), now.def()) {
        return Ok(true);
    }
    Ok(match (read.rows().find(key)?, now.rows().find(key)?) {
        (None, None) => false,
        (Some(read_row), Some(row)) => !is_same_row(read, read_row, now, row),
        (Some(_), None) | (None, Some(_)) => true,
    })
}

fn is_same_row(read: &Table, read_row: Found<'_>, now: &Table, row: Found<'_>) -> bool {
    match (read_row, row) {
        (Found::Delta(Some(read)), Found::Delta(Some(now))) => read == now,
        (Found::Base(read, at), Found::Base(now, now_at)) if std::ptr::eq(read, now) => at == now_at,
        _ => {
            let (read_row, row) = (read.row_ref(read_row), now.row_ref(row));
            (0..read.def().columns.len()).all(|column| read_row.has_same(&row, column))
        }
    }
}

pub(super) fn definition_changed(table: SpaceId, version: Version) -> StoreError {
    StoreError::Conflict(ConflictError {
        what: "concurrent change of a definition",
        space: table,
        detail: "The definition of a table that this transaction wrote was changed.".to_owned(),
        version,
        cause: ConflictCause::new(ConflictReason::Definition, ConflictPlace::default()),
    })
}

#[cfg(test)]
mod tests;
