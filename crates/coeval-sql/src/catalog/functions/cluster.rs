// SPDX-License-Identifier: Apache-2.0
//! `coeval_cluster_drain()` and `coeval_cluster_remove()`: nodes of a cluster have no more bricks, or are out of it. Run on the node with
//! the keeper of views, by superusers. `coeval_cluster_check()`, on any node: whether all replicas have the same rows.

use super::backups::until_stopped;
use super::replication::check_superuser;
use super::{Call, Entry, Gives, strict};
use crate::catalog::CatalogAccess;
use crate::catalog::rows::Cell;
use crate::cluster::Cluster;
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use std::sync::Arc;

const DRAIN: &str = "coeval_cluster_drain";
const REMOVE: &str = "coeval_cluster_remove";
const CHECK: &str = "coeval_cluster_check";

pub(super) const ENTRIES: &[Entry] = &[
    strict(DRAIN, 1..=1, Gives::Bool, |call| change(call, DRAIN, |cluster, node| cluster.drain(node)))
        .acting(),
    strict(REMOVE, 1..=1, Gives::Bool, |call| change(call, REMOVE, |cluster, node| cluster.remove(node)))
        .acting(),
    strict(CHECK, 0..=0, Gives::Text, check).acting(),
];

/// What differs between the replicas of bricks, a line each, and behind that how much was compared.
fn check(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_superuser(access, CHECK)?;
    let cluster = cluster(access)?;
    aside(|| until_stopped(call.meter, |stop| cluster.compare(stop))).map(Cell::from)
}

/// The node that this server is.
fn cluster(access: &CatalogAccess) -> Result<&Arc<dyn Cluster>, SqlError> {
    access.cluster().ok_or_else(|| {
        let message = "this server is no node of a cluster";
        SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
            .with_hint("coeval serve --cluster makes it one.")
    })
}

/// True once what is asked of the node with the number that is the argument is on the keeper's disk.
fn change(
    call: &Call<'_>,
    function: &str,
    change: impl FnOnce(&dyn Cluster, u32) -> Result<(), SqlError>,
) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_superuser(access, function)?;
    let number = call.int(0).and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    let number = number.ok_or_else(|| {
        SqlError::new(SqlState::InvalidParameterValue, "nodes of a cluster have numbers from 1 on")
    })?;
    let cluster = cluster(access)?;
    aside(|| change(cluster.as_ref(), number))?;
    Ok(true.into())
}
