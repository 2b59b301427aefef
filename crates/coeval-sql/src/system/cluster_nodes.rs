// SPDX-License-Identifier: Apache-2.0
//! `coeval_cluster_nodes`: the nodes over which brick tables are spread, as this one knows them.

use super::rows::{Rows, count, text};
use crate::cluster::{Cluster, ClusterNodeShare};
use crate::hand_over::aside;
use crate::rights::Rights;
use coeval_store::{ColumnType, ValueRef};
use std::sync::Arc;

const TEXT: ColumnType = ColumnType::Text;

/// One row for each node, by number; none if this process is no node of a cluster. Where nodes are, and what went wrong on the way
/// there, is shown to roles that see what all sessions do. What nodes have they are asked, which takes a second if one of them says
/// nothing.
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
        ("bricks", ColumnType::BigInt),
        ("rows", ColumnType::BigInt),
        ("bytes", ColumnType::BigInt),
        ("bricks_to_come", ColumnType::BigInt),
    ]);
    let is_monitor = rights.is_monitor();
    let shares = cluster.map(|cluster| aside(|| cluster.shares())).unwrap_or_default();
    let number = |number: Option<u64>| number.map_or(ValueRef::Null, count);
    for node in cluster.map(|cluster| cluster.nodes()).unwrap_or_default() {
        let share: Option<&ClusterNodeShare> = shares.get(&node.node);
        rows.push([
            i32::try_from(node.node).map_or(ValueRef::Null, ValueRef::Int32),
            node.address.as_deref().filter(|_| is_monitor).map_or(ValueRef::Null, text),
            ValueRef::Boolean(node.roles.is_own),
            ValueRef::Boolean(node.roles.has_keeper),
            text(node.state.name()),
            node.connection.as_deref().map_or(ValueRef::Null, text),
            count(node.queued_bytes),
            node.last_error.as_deref().filter(|_| is_monitor).map_or(ValueRef::Null, text),
            number(node.copied_bytes),
            number(share.map(|share| share.bricks)),
            number(share.map(|share| share.rows)),
            number(share.map(|share| share.bytes)),
            number(share.and_then(|share| share.to_come)),
        ]);
    }
    rows
}
