// SPDX-License-Identifier: Apache-2.0
//! [`Tables`]: the definitions of brick tables, and their rows as they are sent.
//!
//! Why: what a table is comes from outside (in the product by the log of row tables), at any time, and outlives the lives of
//! a node. A node that has not heard of a table yet takes no rows of it; whoever sends them asks again.
//!
//! Rows are sent, logged and given in the form that `coeval-brick` keeps loads in: column by column, for one brick. It is
//! checked as a whole when it is decoded and copied in as it is, so a receiver neither routes nor parses. Tables with strings
//! are refused: their codes are a dictionary's, and who gives these out in a cluster is not settled here.

use crate::brick_change::{BrickChange, LabelledChanges};
use crate::store::StoredBrick;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use bytes::Bytes;
use coeval_brick::{BrickId, BrickSchema, BrickTable, LoadError, MalformedLoad, RoutedLoad, Shards, Ticket};
use coeval_txn::cluster::BrickAddress;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Changes that wait for a thread before who makes more waits too.
const QUEUE_LENGTH: usize = 256;

/// Why a table is not declared so. What was declared before stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Its codes would differ from node to node.
    #[error("column \"{column}\" of table {table} has strings, which bricks of a cluster cannot have yet")]
    Strings {
        /// The table.
        table: u64,
        /// The column.
        column: String,
    },
    /// There are rows of it that the new definition does not fit.
    #[error("table {table} is there with other columns")]
    OtherColumns {
        /// The table.
        table: u64,
    },
}

/// Why rows are not taken. Nothing of them was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsRefused {
    /// The table is not declared here, or not yet.
    #[error("table {0} is not declared here")]
    NoTable(u64),
    /// The bytes are no rows of the table, or of a later definition of it.
    #[error(transparent)]
    Malformed(#[from] MalformedLoad),
    /// The rows are not of one brick, this one.
    #[error("they are not rows of brick {brick} of table {table}")]
    OtherBrick {
        /// The table.
        table: u64,
        /// The brick.
        brick: u64,
    },
    /// A reader is given rows alone.
    #[error("a delete is no rows")]
    NoRows,
    /// They break a rule of the table.
    #[error("{0}")]
    Load(String),
}

/// The brick tables of a cluster, by their numbers. Clones are the same, and have the same threads that change bricks.
///
/// # Locking
/// `definitions` is held to look a table up or to put one there, with nothing else locked within.
#[derive(Clone)]
pub struct Tables {
    shards: Arc<Shards>,
    definitions: Arc<RwLock<BTreeMap<u64, Definition>>>,
}

/// A table as it is declared.
#[derive(Clone)]
struct Definition {
    schema: Arc<BrickSchema>,
    /// It has no rows: it routes and decodes.
    empty: Arc<BrickTable>,
}

impl Tables {
    /// None yet, and so many threads that change bricks; one for each core, as a rule.
    ///
    /// # Errors
    /// If there are no threads to be had.
    ///
    /// # Panics
    /// If `threads` is 0.
    pub fn start(threads: usize) -> io::Result<Self> {
        Ok(Self { shards: Arc::new(Shards::start(threads, QUEUE_LENGTH)?), definitions: Arc::default() })
    }

    /// Declares a table, or anew with metrics behind those that it has. All nodes are told the same.
    ///
    /// # Errors
    /// If the columns cannot be those of a table here.
    pub fn declare(&self, table: u64, schema: BrickSchema) -> Result<(), DefinitionError> {
        let strings = schema.columns().iter().find(|column| *column.data_type() == DataType::Utf8);
        if let Some(column) = strings {
            return Err(DefinitionError::Strings { table, column: column.name().to_owned() });
        }
        let mut definitions = self.definitions.write();
        match definitions.get(&table) {
            Some(before) if *before.schema == schema => return Ok(()),
            Some(before) if !schema.extends(&before.schema) => {
                return Err(DefinitionError::OtherColumns { table });
            }
            _ => {}
        }
        let schema = Arc::new(schema);
        let empty = Arc::new(BrickTable::new(Arc::clone(&schema), Arc::clone(&self.shards)));
        definitions.insert(table, Definition { schema, empty });
        Ok(())
    }

    /// The rows of a batch by brick, for [`Load::append`](crate::Load::append). Its columns are the table's, in their order.
    ///
    /// # Errors
    /// If the table is not declared, or one of the rows is none of the table's.
    pub fn rows(&self, table: u64, batch: &RecordBatch) -> Result<Vec<(BrickAddress, Bytes)>, RowsRefused> {
        let definition = self.definition(table)?;
        let routed = definition.empty.route(batch, 0).map_err(refused)?;
        let by_brick = routed.load.encode_by_brick();
        Ok(by_brick.map(|(brick, rows)| (BrickAddress { table, brick: brick.get() }, rows.into())).collect())
    }

    /// Whether a table is declared.
    pub(crate) fn has(&self, table: u64) -> bool {
        self.definitions.read().contains_key(&table)
    }

    /// What bytes say that are to be rows of a brick.
    ///
    /// # Errors
    /// If they are not.
    pub(crate) fn decode(&self, at: BrickAddress, rows: &Bytes) -> Result<RoutedLoad, RowsRefused> {
        let BrickAddress { table, brick } = at;
        let (load, rest) = self.definition(table)?.empty.decode(rows)?;
        let mut bricks = load.bricks();
        let is_of_brick = bricks.next().is_some_and(|first| first.get() == brick) && bricks.next().is_none();
        drop(bricks);
        if is_of_brick && rest.is_empty() { Ok(load) } else { Err(RowsRefused::OtherBrick { table, brick }) }
    }

    /// A table without rows, as it is declared now; the same one again, as `known`, if that is still so.
    ///
    /// # Errors
    /// If it is not declared.
    pub(crate) fn table(&self, table: u64, known: Option<KnownTable>) -> Result<KnownTable, RowsRefused> {
        let Definition { schema, .. } = self.definition(table)?;
        Ok(match known {
            Some(known) if Arc::ptr_eq(&known.schema, &schema) => known,
            Some(known) => {
                let rows = Arc::new(known.rows.redeclared(Arc::clone(&schema)));
                KnownTable { schema, rows }
            }
            None => {
                let rows = Arc::new(BrickTable::new(Arc::clone(&schema), Arc::clone(&self.shards)));
                KnownTable { schema, rows }
            }
        })
    }

    /// A brick of rows that another node has given, each with its label.
    ///
    /// # Errors
    /// If they are no rows of this brick.
    pub(crate) fn given_brick(
        &self,
        at: BrickAddress,
        given: &LabelledChanges,
    ) -> Result<StoredBrick, RowsRefused> {
        let table = self.table(at.table, None)?.rows;
        for (label, change) in given {
            let BrickChange::Rows(rows) = change else { return Err(RowsRefused::NoRows) };
            let appended = table.append(*label, self.decode(at, rows)?).and_then(Ticket::wait);
            appended.map_err(|stopped| RowsRefused::Load(stopped.to_string()))?;
        }
        Ok(StoredBrick::new(table.view_of(BrickId::new(at.brick))))
    }

    fn definition(&self, table: u64) -> Result<Definition, RowsRefused> {
        self.definitions.read().get(&table).cloned().ok_or(RowsRefused::NoTable(table))
    }
}

/// A table with rows, and by which definition.
#[derive(Clone)]
pub(crate) struct KnownTable {
    schema: Arc<BrickSchema>,
    pub(crate) rows: Arc<BrickTable>,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.definitions.read().keys()).finish()
    }
}

fn refused(error: LoadError) -> RowsRefused {
    match error {
        LoadError::TooManyRejected { rejected, .. } => {
            RowsRefused::Load(rejected.first().map(ToString::to_string).unwrap_or_default())
        }
        error => RowsRefused::Load(error.to_string()),
    }
}
