// SPDX-License-Identifier: Apache-2.0
//! `coeval_cluster_drain()` and `coeval_cluster_remove()`: nodes of a cluster have no more bricks, or are out of it; and
//! `coeval_cluster_recover()`: it goes on without some that are lost for good. Run on the node with the keeper of views, by superusers.
//! `coeval_cluster_check()`, on any node: whether all replicas have the same rows.

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
const RECOVER: &str = "coeval_cluster_recover";
/// More lost nodes than this no cluster goes on without.
const LOST_MAX: usize = 16;
const CHECK: &str = "coeval_cluster_check";

pub(super) const ENTRIES: &[Entry] = &[
    strict(DRAIN, 1..=1, Gives::Bool, |call| change(call, DRAIN, |cluster, nodes| cluster.drain(nodes[0])))
        .acting(),
    strict(REMOVE, 1..=1, Gives::Bool, |call| {
        change(call, REMOVE, |cluster, nodes| cluster.remove(nodes[0]))
    })
    .acting(),
    strict(RECOVER, 1..=LOST_MAX, Gives::Bool, |call| {
        change(call, RECOVER, |cluster, nodes| cluster.recover(nodes))
    })
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

/// True once what is asked of the nodes with the numbers that are the arguments is on the disks that it has to be on.
fn change(
    call: &Call<'_>,
    function: &str,
    change: impl FnOnce(&dyn Cluster, &[u32]) -> Result<(), SqlError>,
) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_superuser(access, function)?;
    let number = |index| call.int(index).and_then(|number| u32::try_from(number).ok());
    let numbers = (0..call.arguments.len()).map(|index| number(index).filter(|number| *number > 0));
    let numbers: Option<Vec<u32>> = numbers.collect();
    let numbers = numbers.ok_or_else(|| {
        SqlError::new(SqlState::InvalidParameterValue, "nodes of a cluster have numbers from 1 on")
    })?;
    let cluster = cluster(access)?;
    aside(|| change(cluster.as_ref(), &numbers))?;
    Ok(true.into())
}
