// SPDX-License-Identifier: Apache-2.0
//! The tables of one statement: what its scans read, found when the physical plan is made.

use super::answers::Answers;
use crate::carried::Carry;
use crate::cluster::ClusterSnapshot;
use crate::error::SqlError;
use crate::result::RowSet;
use coeval_store::{BrickSnapshot, BrickVersion, Scanned, SpaceId, Table, TableView};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// A scan that was planned: its table, and the parts of it that hold everything its result depends on.
pub(crate) type PlannedScan = (SpaceId, Vec<Scanned>);

/// The views of all tables that a statement names. Carried by the statement's options, where
/// optimizer rules find it too, so that a logical plan is free of any snapshot and can be used again.
///
/// # Locking
/// `scans` is held for a push; nobody waits for it but other scans of the same statement.
#[derive(Clone, Debug)]
pub(crate) struct StatementSnapshot {
    views: Arc<HashMap<SpaceId, TableView>>,
    bricks: Arc<HashMap<SpaceId, BrickSnapshot>>,
    foreign: Arc<HashMap<SpaceId, RowSet>>,
    /// What it sees of all tables that are spread over a cluster, if it named one.
    spread: Option<Arc<dyn ClusterSnapshot>>,
    scans: Arc<Mutex<Scans>>,
    /// What samples of the tables have told, in this statement or before.
    answers: Arc<Answers>,
}

/// What becomes of the scans that are planned.
#[derive(Debug)]
enum Scans {
    /// All tables count as read as a whole, or nothing counts: scans may be planned while the statement runs.
    NotAsked,
    /// They are collected until planning has ended.
    Collected(Vec<PlannedScan>),
    /// What they read has been noted. One more would read what nobody knows of.
    Noted,
}

/// Which versions of which tables a statement sees, and whether its scans say what they read of these. Keeps no version.
#[derive(Debug)]
pub(crate) struct Versions {
    tables: Vec<(SpaceId, Weak<Table>)>,
    bricks: Vec<(SpaceId, BrickVersion)>,
    collects_scans: bool,
}

impl PartialEq for Versions {
    // Nothing else comes to lie where a version was as long as somebody remembers it.
    fn eq(&self, other: &Self) -> bool {
        self.collects_scans == other.collects_scans
            && self.bricks == other.bricks
            && self.tables.len() == other.tables.len()
            && self.tables.iter().zip(&other.tables).all(
                |((table, version), (other_table, other_version))| {
                    table == other_table && Weak::ptr_eq(version, other_version)
                },
            )
    }
}

impl StatementSnapshot {
    /// The versions of its tables; `None` if some are no tables of this database alone, or the transaction has written to bricks.
    pub(crate) fn versions(&self) -> Option<Versions> {
        if !self.foreign.is_empty() || self.spread.is_some() {
            return None;
        }
        let seen = |(table, bricks): (&SpaceId, &BrickSnapshot)| Some((*table, bricks.version()?));
        let mut bricks = self.bricks.iter().map(seen).collect::<Option<Vec<_>>>()?;
        bricks.sort_unstable_by_key(|(table, _)| *table);
        let version = |(table, view): (&SpaceId, &TableView)| (*table, Arc::downgrade(view.table()));
        let mut tables: Vec<_> = self.views.iter().map(version).collect();
        tables.sort_unstable_by_key(|(table, _)| *table);
        Some(Versions { tables, bricks, collects_scans: self.collects_scans() })
    }

    /// The snapshot with these views, for a statement whose reads are noted elsewhere, or need not be.
    pub(crate) fn new(views: impl IntoIterator<Item = TableView>) -> Self {
        Self::with(views, Scans::NotAsked)
    }

    /// The snapshot with these views, for a statement whose scans are [taken](Self::take_scans) when it is planned.
    pub(crate) fn collecting(views: impl IntoIterator<Item = TableView>) -> Self {
        Self::with(views, Scans::Collected(Vec::new()))
    }

    fn with(views: impl IntoIterator<Item = TableView>, scans: Scans) -> Self {
        let views = views.into_iter().map(|view| (view.def().id, view)).collect();
        Self {
            views: Arc::new(views),
            bricks: Arc::default(),
            foreign: Arc::default(),
            spread: None,
            scans: Arc::new(Mutex::new(scans)),
            answers: Arc::default(),
        }
    }

    /// The same with these brick tables, which count as read by the scans too.
    pub(crate) fn with_bricks(self, bricks: HashMap<SpaceId, BrickSnapshot>) -> Self {
        Self { bricks: Arc::new(bricks), ..self }
    }

    /// The same with the rows of these tables of servers. Reading them need not be noted for certification here.
    pub(crate) fn with_foreign(self, foreign: HashMap<SpaceId, RowSet>) -> Self {
        Self { foreign: Arc::new(foreign), ..self }
    }

    /// The same with this of tables that are spread over a cluster. Who may read them beside what else is known to the
    /// transaction's part there, so reading them need not be noted.
    pub(crate) fn with_spread(self, spread: Option<Arc<dyn ClusterSnapshot>>) -> Self {
        Self { spread, ..self }
    }

    /// The same for a plan that was made by these answers of samples.
    pub(crate) fn with_answers(self, answers: Arc<Answers>) -> Self {
        Self { answers, ..self }
    }

    /// What the statement sees of spread tables, if it named one.
    pub(super) fn spread(&self) -> Option<&Arc<dyn ClusterSnapshot>> {
        self.spread.as_ref()
    }

    /// The rows of a server's table, if the statement named it.
    pub(super) fn foreign(&self, table: SpaceId) -> Option<&RowSet> {
        self.foreign.get(&table)
    }

    /// What the statement reads of a brick table, if it named that.
    pub(super) fn bricks(&self, table: SpaceId) -> Option<&BrickSnapshot> {
        self.bricks.get(&table)
    }

    /// The view of a table, if the statement named it.
    pub(crate) fn view(&self, table: SpaceId) -> Option<&TableView> {
        self.views.get(&table)
    }

    /// What samples of the tables have told the statement.
    pub(crate) fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// How many rows a table has, if the statement named it and it is one of rows.
    pub(crate) fn rows(&self, table: SpaceId) -> Option<u64> {
        self.views.get(&table).map(TableView::row_count)
    }

    /// How many rows a brick table has, deleted ones included, if the statement named it.
    pub(crate) fn brick_rows(&self, table: SpaceId) -> Option<u64> {
        let bricks = self.bricks.get(&table)?.bricks().iter();
        Some(bricks.map(|brick| brick.rows() as u64).sum())
    }

    /// Whether scans say what they read.
    pub(super) fn collects_scans(&self) -> bool {
        !matches!(*self.scans.lock(), Scans::NotAsked)
    }

    /// A scan is planned.
    ///
    /// # Errors
    /// `XX000` if what scans read was noted before: a bug.
    pub(crate) fn add_scan(&self, scan: PlannedScan) -> Result<(), SqlError> {
        match &mut *self.scans.lock() {
            Scans::NotAsked => Ok(()),
            Scans::Collected(scans) => {
                scans.push(scan);
                Ok(())
            }
            Scans::Noted => {
                Err(SqlError::internal("a scan was planned after the statement's reads were noted"))
            }
        }
    }

    /// The scans that were planned; no more may be. From here on the caller knows what is read.
    pub(crate) fn take_scans(&self) -> Vec<PlannedScan> {
        let mut scans = self.scans.lock();
        match &mut *scans {
            Scans::NotAsked => Vec::new(),
            Scans::Collected(found) => {
                let found = std::mem::take(found);
                *scans = Scans::Noted;
                found
            }
            Scans::Noted => unreachable!("a statement is planned once"),
        }
    }

    /// Scans need not say what they read any more: the caller counts all tables as read.
    pub(crate) fn stop_collecting(&self) {
        *self.scans.lock() = Scans::NotAsked;
    }
}

impl Carry for StatementSnapshot {
    const NAME: &'static str = "coeval_snapshot";
}
