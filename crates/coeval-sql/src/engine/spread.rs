// SPDX-License-Identifier: Apache-2.0
//! The tables that are spread over a cluster, as they are declared on this node.
//!
//! Definitions come by the log, to whichever node: a commit here, or one of the primary that this node follows. Nobody is told of
//! them one by one. So who needs them to be known compares what is declared with the newest catalog; as long as that is the same
//! one, this is a comparison of two pointers.

use super::Engine;
use crate::cluster::Cluster;
use crate::error::{SqlError, SqlState};
use coeval_store::{BrickSchema, Catalog, SpaceId, TableDef, World};
use coeval_txn::Version;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a statement wants of a spread table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpreadUse {
    /// Rows of it. An older definition lacks columns that nobody asks for.
    Read,
    /// Rows for it, which have all its columns.
    Load,
}

/// The spread tables of the newest catalog that was looked at.
///
/// # Locking
/// Held while definitions are compared and declared, so that an older catalog never undoes what a newer one has said; within it the
/// cluster's own locks alone.
#[derive(Default)]
pub(super) struct SpreadTables(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    version: Version,
    catalog: Option<Arc<Catalog>>,
    declared: BTreeMap<SpaceId, Arc<TableDef>>,
    /// The node would not have them; it is asked again by whoever uses one.
    undeclared: BTreeMap<SpaceId, Arc<TableDef>>,
}

impl Engine {
    /// Declares the spread tables that are new in the newest catalog, and those with new columns, to the node of the cluster that this
    /// process is; it forgets those that are gone. Statements see to this themselves. Whoever runs the node calls it too,
    /// now and then: rows from other nodes come to a node that runs no statement.
    ///
    /// Cost: a comparison of two pointers if no definition has changed since, else a pass over all tables.
    pub fn declare_spread_tables(&self) {
        if let Some(cluster) = self.cluster() {
            let world = self.store().world();
            self.spread_tables.0.lock().follow(&world, cluster);
        }
    }

    /// The cluster that has the rows of this spread table, once it knows the table.
    ///
    /// # Errors
    /// `55000` if this database is served without a cluster, the definition is not committed, or rows are there that it
    /// does not fit; `40001` for a load by a definition that is no longer the newest.
    pub(crate) fn cluster_of(
        &self,
        def: &TableDef,
        wanted: SpreadUse,
    ) -> Result<&Arc<dyn Cluster>, SqlError> {
        let Some(cluster) = self.cluster() else {
            let message = format!(
                "the rows of \"{}\" are spread over the nodes of a cluster, and this database is served without one",
                def.name
            );
            let error = SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
            return Err(error.with_hint("Serve it with --cluster, as when the table was made."));
        };
        self.declare_spread_tables();
        self.spread_tables.0.lock().require(def, wanted, cluster)?;
        Ok(cluster)
    }
}

impl Seen {
    fn follow(&mut self, world: &World, cluster: &Arc<dyn Cluster>) {
        let is_same = self.catalog.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, world.catalog()));
        let is_older = self.catalog.is_some() && world.version() < self.version;
        if is_same || is_older {
            return;
        }
        let spread = world.tables().map(|table| table.def()).filter(|def| def.is_spread());
        let now: BTreeMap<SpaceId, Arc<TableDef>> = spread.map(|def| (def.id, Arc::clone(def))).collect();
        let known = std::mem::take(&mut self.declared);
        let unknown = std::mem::take(&mut self.undeclared);
        for gone in known.keys().chain(unknown.keys()).filter(|id| !now.contains_key(id)) {
            cluster.forget(spread_number(*gone));
        }
        for (id, def) in now {
            let is_known = known.get(&id).is_some_and(|known| Arc::ptr_eq(known, &def));
            let declared = if is_known { Ok(()) } else { declare(&def, cluster) };
            if let Err(error) = declared {
                tracing::error!(table = %def.name, %error, "a table cannot be spread over the cluster");
                self.undeclared.insert(id, def);
            } else {
                self.declared.insert(id, def);
            }
        }
        self.version = world.version();
        self.catalog = Some(Arc::clone(world.catalog()));
    }

    fn require(
        &mut self,
        def: &TableDef,
        wanted: SpreadUse,
        cluster: &Arc<dyn Cluster>,
    ) -> Result<(), SqlError> {
        if let Some(again) = self.undeclared.get(&def.id).cloned() {
            declare(&again, cluster)?;
            self.undeclared.remove(&def.id);
            self.declared.insert(def.id, again);
        }
        let columns = |def: &TableDef| def.live_columns().count();
        match self.declared.get(&def.id) {
            Some(known) if columns(known) < columns(def) => Err(not_committed(def)),
            Some(known) if columns(known) > columns(def) && wanted == SpreadUse::Load => {
                let message = format!("columns were added to \"{}\" meanwhile", def.name);
                Err(SqlError::new(SqlState::SerializationFailure, message)
                    .with_hint("The transaction might succeed if retried."))
            }
            Some(_) => Ok(()),
            None => Err(not_committed(def)),
        }
    }
}

/// A table's number in the cluster.
pub(crate) fn spread_number(table: SpaceId) -> u64 {
    u64::from(table.get())
}

/// The columns of a spread table as bricks have them.
///
/// # Errors
/// `XX000` if there are none: definitions are checked when they are made.
pub(crate) fn brick_schema(def: &TableDef) -> Result<BrickSchema, SqlError> {
    let bricks = def.bricks.as_ref();
    let bricks = bricks.ok_or_else(|| SqlError::internal(format!("\"{}\" is no brick table", def.name)))?;
    bricks.schema(def).map_err(SqlError::internal)
}

fn declare(def: &TableDef, cluster: &Arc<dyn Cluster>) -> Result<(), SqlError> {
    cluster.declare(spread_number(def.id), &brick_schema(def)?)
}

/// The table, or a column of it, is in one transaction alone, or no longer there.
fn not_committed(def: &TableDef) -> SqlError {
    let message =
        format!("the nodes of the cluster have no such definition of \"{}\", or have it no more", def.name);
    SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        .with_hint("Commit what makes or changes a spread table before you read it or load into it.")
}
