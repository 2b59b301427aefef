// SPDX-License-Identifier: Apache-2.0
//! Rows that nodes exchange with each other: each node has those of its share, from its own bricks and from what the others make of
//! theirs.
//!
//! ```text
//!   node 2, whose share is 1 of 3                  node 3
//!   ExchangedRows: own rows, node 1, node 3  --->  the piece below, for share 1
//!     ShareExec: share=1 of 3, by=[region]           ShareExec: share=1 of 3, by=[region]
//!       SpreadScan: bricks=4                           SpreadScan: bricks=5
//! ```
//! Whoever has asked for a share has written down the piece below it, and which nodes are to be asked for it. Each node is asked once for
//! each other node's share, and reads its bricks each time: nobody keeps rows for somebody who has not asked for them yet.

use super::asking::decoded;
use super::codec::{Decoder, Encoder, Opened};
use super::first_rows::{in_order, merged, parts};
use super::known::Known;
use super::plan::fitted;
use super::wire::{Reader, malformed};
use crate::cluster::{ClusterSnapshot, PieceOrder};
use crate::error::SqlError;
use bytes::Bytes;
use coeval_operators::over_one_input;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Which rows are exchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    /// What each node does with its own bricks for this share, written down.
    pub(super) piece: Bytes,
    /// Which nodes are asked for it, and for which of their bricks.
    pub(super) sources: Vec<(u32, Vec<u64>)>,
}

impl Exchange {
    /// What [`Encoder::exchange`] has written.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Option<Self>, SqlError> {
        match from.byte()? {
            0 => return Ok(None),
            1 => {}
            _ => return Err(malformed("a flag is neither")),
        }
        let piece = Bytes::copy_from_slice(from.bytes()?);
        let sources = from.list(|from| {
            let node = u32::try_from(from.number()?).map_err(|_| malformed("there is no such node"))?;
            Ok((node, from.list(|from| Ok(from.number()? as u64))?))
        })?;
        Ok(Some(Self { piece, sources }))
    }

    /// The rows, as they come together on this node: its own are made of this scan.
    ///
    /// # Errors
    /// If what is written down is no piece, or does not fit the scan.
    pub(super) fn rows(
        &self,
        scan: Arc<dyn ExecutionPlan>,
        (snapshot, table): (Arc<dyn ClusterSnapshot>, u64),
        known: &Known,
        options: &Arc<ConfigOptions>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let opened = Opened::of(&self.piece)?;
        if opened.exchange.is_some() {
            return Err(malformed("who gives rows for an exchange asks for none").into());
        }
        let own = opened.over(scan, &[], known, options)?;
        Ok(Arc::new(ExchangedRows::new(own, Others { exchange: self.clone(), snapshot, table })))
    }
}

/// Where the rows of other nodes come from.
#[derive(Clone, Debug)]
struct Others {
    exchange: Exchange,
    snapshot: Arc<dyn ClusterSnapshot>,
    /// The table's number in the cluster.
    table: u64,
}

/// See the module.
#[derive(Debug)]
struct ExchangedRows {
    own: Arc<dyn ExecutionPlan>,
    others: Others,
    properties: Arc<PlanProperties>,
}

impl ExchangedRows {
    fn new(own: Arc<dyn ExecutionPlan>, others: Others) -> Self {
        let count = parts(own.as_ref()) + others.exchange.sources.len();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(own.schema()),
            Partitioning::UnknownPartitioning(count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { own, others, properties }
    }
}

impl DisplayAs for ExchangedRows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExchangedRows: own rows")?;
        self.others.exchange.sources.iter().try_for_each(|(node, _)| write!(f, ", node {node}"))
    }
}

impl ExecutionPlan for ExchangedRows {
    fn name(&self) -> &'static str {
        "ExchangedRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_one_input!(own, |old, own| Arc::new(Self::new(own, old.others.clone())));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let parts = parts(self.own.as_ref());
        if partition < parts {
            return self.own.execute(partition, task);
        }
        let Others { exchange, snapshot, table } = &self.others;
        let Some((node, bricks)) = exchange.sources.get(partition - parts).cloned() else {
            return internal_err!("there is no part {partition} of exchanged rows");
        };
        let order = PieceOrder { node, table: *table, bricks, order: exchange.piece.clone() };
        let (schema, output) = (self.own.schema(), self.own.schema());
        let batches = decoded(snapshot.run(order)).map(move |batch| fitted(&batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)))
    }
}

impl Encoder<'_> {
    /// Writes which rows are exchanged; nothing, if none are.
    pub(super) fn exchange(&mut self, exchange: Option<&Exchange>) {
        self.out.byte(u8::from(exchange.is_some()));
        let Some(Exchange { piece, sources }) = exchange else { return };
        self.out.bytes(piece);
        self.out.number(sources.len());
        for (node, bricks) in sources {
            self.out.number(*node as usize);
            self.out.number(bricks.len());
            bricks.iter().for_each(|brick| self.out.number(*brick as usize));
        }
    }

    /// Writes an exchange among threads, by the hash of keys.
    pub(super) fn divided(&mut self, exchange: &RepartitionExec) -> Option<()> {
        match exchange.partitioning() {
            Partitioning::Hash(keys, _) if !exchange.preserve_order() => self.expressions(keys.iter()),
            _ => None,
        }
    }
}

impl Decoder<'_> {
    /// Reads an exchange of these rows among the threads of this node.
    pub(super) fn divided(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = self.expressions(&input.schema())?;
        let threads = self.options.execution.target_partitions.max(1);
        Ok(Arc::new(RepartitionExec::try_new(input, Partitioning::Hash(keys, threads))?))
    }

    /// Reads in which order these rows are one sequence.
    pub(super) fn gathered(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(order) = self.order(&input.schema())? else {
            if parts(input.as_ref()) > 1 {
                return Ok(Arc::new(CoalescePartitionsExec::new(input)));
            }
            return Ok(input);
        };
        let is_in_order = input.properties().equivalence_properties().ordering_satisfy(order.clone())?;
        Ok(if is_in_order { merged(input, &order, 1) } else { in_order(input, order, None) })
    }
}
