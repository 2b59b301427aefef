// SPDX-License-Identifier: Apache-2.0
//! `coeval_cluster_nodes`: the nodes over which brick tables are spread, as this one knows them.
//!
//! What nodes have they are asked when the table is read, and only by a query that names such a column: a plan asks nobody. Whoever reads
//! waits as [`Cluster::shares`] does, a second at most, and may be told to end meanwhile.

use super::rows::{Rows, count, text};
use crate::cluster::{Cluster, ClusterNodeShare, ClusterNodeState, ClusterNodeStatus};
use crate::rights::Rights;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use coeval_store::{ColumnType, ValueRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream;
use std::collections::BTreeMap;
use std::sync::Arc;

const TEXT: ColumnType = ColumnType::Text;

const COLUMNS: [(ColumnType, &str); 8] = [
    (ColumnType::Int, "node"),
    (TEXT, "address"),
    (ColumnType::Boolean, "is_own has_keeper"),
    (TEXT, "state connection"),
    (ColumnType::BigInt, "queued_bytes"),
    (TEXT, "last_error"),
    (ColumnType::BigInt, "copied_bytes bricks rows bytes bricks_to_come"),
    (ColumnType::Boolean, "has_answered"),
];

/// From this column on they are asked.
const FIRST_ASKED: usize = 9;

/// One row for each node, by number; none if this process is no node of a cluster. Where nodes are, and what went wrong on the way
/// there, is shown to roles that see what all sessions do.
pub(super) fn cluster_nodes(cluster: Option<&Arc<dyn Cluster>>, rights: &Rights) -> Arc<dyn TableProvider> {
    let (cluster, is_monitor) = (cluster.cloned(), rights.is_monitor());
    let schema = Rows::new(&COLUMNS).into_batch().schema();
    Arc::new(ClusterNodes { schema, cluster, is_monitor, asks: Asks::Nobody })
}

/// The table, and what reads it.
#[derive(Clone, Debug)]
struct ClusterNodes {
    schema: SchemaRef,
    cluster: Option<Arc<dyn Cluster>>,
    is_monitor: bool,
    asks: Asks,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// The own node alone, for what it knows.
    Nobody,
    /// All, for what they have.
    All,
}

impl ClusterNodes {
    /// The rows, as they are now.
    async fn rows(self) -> RecordBatch {
        let shares = match (&self.cluster, self.asks) {
            (Some(cluster), Asks::All) => cluster.shares().await,
            (Some(_), Asks::Nobody) | (None, _) => BTreeMap::new(),
        };
        let mut rows = Rows::new(&COLUMNS);
        for node in self.cluster.iter().flat_map(|cluster| cluster.nodes()) {
            self.push(&mut rows, &node, shares.get(&node.node));
        }
        rows.into_batch()
    }

    fn push(&self, rows: &mut Rows, node: &ClusterNodeStatus, share: Option<&ClusterNodeShare>) {
        let is_shown = |_: &&str| self.is_monitor;
        let number = |number: Option<u64>| number.map_or(ValueRef::Null, count);
        let is_asked = matches!(
            node.state,
            ClusterNodeState::Live | ClusterNodeState::Joining | ClusterNodeState::Draining
        );
        let has_answered = match share {
            Some(_) => ValueRef::Boolean(true),
            None if is_asked => ValueRef::Boolean(false),
            None => ValueRef::Null,
        };
        rows.push([
            i32::try_from(node.node).map_or(ValueRef::Null, ValueRef::Int32),
            or_null(node.address.as_deref().filter(is_shown)),
            ValueRef::Boolean(node.roles.is_own),
            ValueRef::Boolean(node.roles.has_keeper),
            text(node.state.name()),
            or_null(node.connection.as_deref()),
            count(node.queued_bytes),
            or_null(node.last_error.as_deref().filter(is_shown)),
            number(node.copied_bytes),
            number(share.map(|share| share.bricks)),
            number(share.map(|share| share.rows)),
            number(share.map(|share| share.bytes)),
            number(share.and_then(|share| share.to_come)),
            has_answered,
        ]);
    }
}

fn or_null(value: Option<&str>) -> ValueRef<'_> {
    value.map_or(ValueRef::Null, text)
}

#[async_trait]
impl TableProvider for ClusterNodes {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let names_what_they_have =
            projection.is_none_or(|columns| columns.iter().any(|column| *column >= FIRST_ASKED));
        let asks = if names_what_they_have { Asks::All } else { Asks::Nobody };
        let read: Arc<dyn PartitionStream> = Arc::new(Self { asks, ..self.clone() });
        let schema = Arc::clone(&self.schema);
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![read], projection, [], false, limit)?))
    }
}

impl PartitionStream for ClusterNodes {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let table = self.clone();
        let read = async move {
            let rows: Result<RecordBatch> = Ok(table.rows().await);
            rows
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::once(read)))
    }
}
