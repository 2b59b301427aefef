// SPDX-License-Identifier: Apache-2.0
//! `coeval_cluster_nodes`: the nodes over which brick tables are spread, as this one knows them.

use super::rows::{Rows, count, text};
use crate::cluster::Cluster;
use crate::rights::Rights;
use coeval_store::{ColumnType, ValueRef};
use std::sync::Arc;

const TEXT: ColumnType = ColumnType::Text;

/// One row for each node, by number; none if this process is no node of a cluster. Where nodes are, and what went wrong on the way
/// there, is shown to roles that see what all sessions do.
pub(super) fn cluster_nodes(cluster: Option<&Arc<dyn Cluster>>, rights: &Rights) -> Rows {
    let mut rows = Rows::new(&[
        ("node", ColumnType::Int),
        ("address", TEXT),
        ("is_own", ColumnType::Boolean),
        ("has_keeper", ColumnType::Boolean),
        ("state", TEXT),
        ("connection", TEXT),
        ("queued_bytes", ColumnType::BigInt),
        ("last_error", TEXT),
        ("copied_bytes", ColumnType::BigInt),
    ]);
    let is_monitor = rights.is_monitor();
    for node in cluster.map(|cluster| cluster.nodes()).unwrap_or_default() {
        rows.push([
            i32::try_from(node.node).map_or(ValueRef::Null, ValueRef::Int32),
            node.address.as_deref().filter(|_| is_monitor).map_or(ValueRef::Null, text),
            ValueRef::Boolean(node.roles.is_own),
            ValueRef::Boolean(node.roles.has_keeper),
            text(node.state.name()),
            node.connection.as_deref().map_or(ValueRef::Null, text),
            count(node.queued_bytes),
            node.last_error.as_deref().filter(|_| is_monitor).map_or(ValueRef::Null, text),
            node.copied_bytes.map_or(ValueRef::Null, count),
        ]);
    }
    rows
}
