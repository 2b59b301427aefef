// SPDX-License-Identifier: Apache-2.0
//! The tables that are spread over a cluster, as a statement uses them on this node.
//!
//! Definitions come by the log, to whichever node: a commit here, or one of the primary that this node follows. Whoever runs the node
//! looks at the newest catalog and declares and forgets what is new there; a statement that comes before that has the table it uses
//! declared here. What is not committed is never declared: no other node would know it.

use super::Engine;
use crate::cluster::Cluster;
use crate::error::{SqlError, SqlState};
use coeval_store::{BrickSchema, SpaceId, TableDef};
use std::sync::Arc;

/// What a statement wants of a spread table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpreadUse {
    /// Rows of it. An older definition lacks columns that nobody asks for.
    Read,
    /// Rows for it, which have all its columns.
    Load,
}

impl Engine {
    /// The cluster that has the rows of this spread table, once it knows the table by its newest definition.
    ///
    /// Cost: a look at the newest catalog, and a comparison of columns.
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
            return Err(error.with_hint(
                "Serve it with --cluster, as when the table was made. What a restore has brought of its rows is loaded when a cluster is made \
                 of the directory.",
            ));
        };
        let world = self.store().world();
        let newest = world.table(def.id).map(|table| table.def()).filter(|newest| newest.is_spread());
        let columns = |def: &TableDef| def.live_columns().count();
        match newest {
            Some(newest) if columns(newest) > columns(def) && wanted == SpreadUse::Load => {
                let message = format!("columns were added to \"{}\" meanwhile", def.name);
                Err(SqlError::new(SqlState::SerializationFailure, message)
                    .with_hint("The transaction might succeed if retried."))
            }
            Some(newest) if columns(newest) >= columns(def) => {
                cluster.declare(spread_number(newest.id), &brick_schema(newest)?)?;
                Ok(cluster)
            }
            Some(_) | None => Err(not_committed(def)),
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

/// The table, or a column of it, is in one transaction alone, or no longer there.
fn not_committed(def: &TableDef) -> SqlError {
    let message =
        format!("the nodes of the cluster have no such definition of \"{}\", or have it no more", def.name);
    SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        .with_hint("Commit what makes or changes a spread table before you read it or load into it.")
}
