// SPDX-License-Identifier: Apache-2.0
//! [`Tables`]: the definitions of brick tables, and their rows as they are sent.
//!
//! Why: what a table is comes from outside (in the product by the log of row tables), at any time, and outlives the lives of
//! a node. A node that has not heard of a table yet takes no rows of it; whoever sends them asks again.
//!
//! Rows are sent, logged and given in the form that `coeval-brick` keeps loads in: column by column, for one brick, or for several that
//! are on the same nodes. It is checked as a whole when it is decoded and copied in as it is, so a receiver neither routes nor parses. Texts are not among
//! them: bricks have the codes that a dictionary of the cluster gives these, one dictionary for each column.

use crate::brick_change::{BrickChange, LabelledChanges};
use crate::brick_rows::StoredBrick;
use crate::texts::{ColumnTexts, NoText, RowCodes, TextColumns};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use bytes::Bytes;
use coeval_brick::{
    BrickId, BrickSchema, BrickTable, Column, LoadError, MalformedLoad, Metric, Nulls, RoutedLoad,
    SchemaError, Shards, Ticket,
};
use coeval_txn::cluster::{BrickAddress, Code, DictionaryError, DictionaryId, NodeId};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that wait for a thread before who makes more waits too.
const QUEUE_LENGTH: usize = 256;

/// Rows of several bricks are appended together up to so many bytes: what an append costs whatever it has is little beside that. And
/// small enough that as many as a load may have unanswered take little memory.
const APPEND_BYTES: usize = 64 << 10;

/// If the texts of a batch have more bytes than that, the rows of each brick are appended by themselves: all texts of an append go into one
/// message with its rows.
const TEXTS_TOGETHER_BYTES: usize = 1 << 20;

/// Of which bricks rows may be that are said to be a brick's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Of that one alone.
    OneBrick,
    /// Of several of its table, that one among them: they are on the same nodes, and their rows were appended together.
    SeveralBricks,
}

/// Why a table is not declared so. What was declared before stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Rows that came without a column of texts would have one in it, and nobody has given that a code.
    #[error("table {table}: {error}")]
    Schema {
        /// The table.
        table: u64,
        /// What is wrong.
        error: SchemaError,
    },
    /// Rows that came before a column of texts was added have none in it, so it may be NULL.
    #[error("column \"{column}\" of table {table} is added later, and has texts: it has to take NULL")]
    TextForOldRows {
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
    /// A number is given to one table only.
    #[error("table {table} is gone for good")]
    Forgotten {
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
    /// The rows are not of this brick, or not of this one alone.
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
    /// A node has to look after the codes of its texts: see [`Node::rows`](crate::Node::rows).
    #[error("table {0} has texts, so a node gives its rows their codes")]
    HasTexts(u64),
    /// The rows have codes whose texts have not come with them, and are not known here.
    #[error(transparent)]
    NoText(#[from] NoText),
    /// What has come with the rows says of a text something else than what is known here.
    #[error(transparent)]
    Texts(#[from] DictionaryError),
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
    definitions: Arc<RwLock<Definitions>>,
    /// How often something was declared: whoever has seen that number has seen all of it.
    declarations: Arc<AtomicU64>,
}

/// The tables that there are, and those that there were.
#[derive(Default)]
struct Definitions {
    declared: BTreeMap<u64, Definition>,
    forgotten: BTreeSet<u64>,
}

/// A table as it is declared.
#[derive(Clone)]
struct Definition {
    declared: Arc<BrickSchema>,
    /// What bricks have: codes in place of texts.
    schema: Arc<BrickSchema>,
    texts: Arc<TextColumns>,
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
        let shards = Arc::new(Shards::start(threads, QUEUE_LENGTH)?);
        Ok(Self { shards, definitions: Arc::default(), declarations: Arc::default() })
    }

    /// Declares a table, or anew with metrics behind those that it has. All nodes are told the same.
    ///
    /// Each column of texts gets a dictionary, whose number is the place of the column: a dimension one of as many codes as it
    /// has values, a metric one without a bound that anybody reaches. Nodes that run know of it within a moment.
    ///
    /// # Errors
    /// If the columns cannot be those of a table here.
    pub fn declare(&self, table: u64, schema: BrickSchema) -> Result<(), DefinitionError> {
        let mut definitions = self.definitions.write();
        if definitions.forgotten.contains(&table) {
            return Err(DefinitionError::Forgotten { table });
        }
        let before = definitions.declared.get(&table).map(|definition| &definition.declared);
        match before {
            Some(before) if **before == schema => return Ok(()),
            Some(before) if !schema.extends(before) => return Err(DefinitionError::OtherColumns { table }),
            Some(before) => check_added(table, &schema, before.columns().len())?,
            None => {}
        }
        let (texts, declared) = (TextColumns::of(table, &schema), Arc::new(schema));
        let schema = if texts.is_empty() {
            Arc::clone(&declared)
        } else {
            Arc::new(declared.coded().map_err(|error| DefinitionError::Schema { table, error })?)
        };
        let empty = Arc::new(BrickTable::new(Arc::clone(&schema), Arc::clone(&self.shards)));
        definitions.declared.insert(table, Definition { declared, schema, texts: Arc::new(texts), empty });
        self.declarations.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Whether a table is declared with these columns already.
    #[must_use]
    pub fn is_declared_as(&self, table: u64, schema: &BrickSchema) -> bool {
        let definitions = self.definitions.read();
        definitions.declared.get(&table).is_some_and(|definition| *definition.declared == *schema)
    }

    /// Says that a table is gone for good, whether it was declared or not. Nobody here gets its rows any more, and none that somebody
    /// here loads are taken.
    ///
    /// What comes from other nodes is taken as before, and dropped: whoever has loads under way that were begun before waits for
    /// answers. What is there takes room until the next round; in files, until all that these have is flushed anew.
    pub fn forget(&self, table: u64) {
        let mut definitions = self.definitions.write();
        definitions.declared.remove(&table);
        definitions.forgotten.insert(table);
    }

    /// Whether a table is gone for good.
    pub(crate) fn is_forgotten(&self, table: u64) -> bool {
        self.definitions.read().forgotten.contains(&table)
    }

    /// The rows of a batch by brick, for [`Load::append`](crate::Load::append). Its columns are the table's, in their order.
    ///
    /// # Errors
    /// If the table is not declared, one of the rows is none of the table's, or the table has texts: then
    /// [`Node::rows`](crate::Node::rows) does it.
    pub fn rows(&self, table: u64, batch: &RecordBatch) -> Result<Vec<(BrickAddress, Bytes)>, RowsRefused> {
        let definition = self.definition(table)?;
        if !definition.texts.is_empty() {
            return Err(RowsRefused::HasTexts(table));
        }
        let routed = routed(table, (&definition.empty, &definition.texts), batch, 0)?;
        Ok(routed.by_brick().map(RoutedRows::sent).collect())
    }

    /// Rows of a batch whose texts have no codes yet, if they have some.
    ///
    /// # Errors
    /// If the table is not declared, or the columns are not the table's.
    pub(crate) fn rows_with_texts(&self, table: u64, batch: &RecordBatch) -> Result<TextRows, RowsRefused> {
        let Definition { declared, texts: columns, empty, .. } = self.definition(table)?;
        let (expected, found) = (declared.columns().len(), batch.num_columns());
        if expected != found {
            return Err(refused(LoadError::ColumnCount { expected, found }));
        }
        let texts = columns.texts_of(batch).map_err(|place| {
            let column = &declared.columns()[place];
            refused(LoadError::ColumnType {
                column: column.name().to_owned(),
                expected: column.data_type().clone(),
                found: batch.column(place).data_type().clone(),
            })
        })?;
        Ok(TextRows { table, empty, batch: batch.clone(), columns, texts })
    }

    /// How often something was declared.
    pub(crate) fn declarations(&self) -> u64 {
        self.declarations.load(Ordering::Acquire)
    }

    /// The dictionaries of all tables, each with how many codes it may have.
    pub(crate) fn dictionaries(&self) -> Vec<(DictionaryId, u32)> {
        let definitions = self.definitions.read();
        definitions.declared.values().flat_map(|definition| definition.texts.dictionaries()).collect()
    }

    /// Whether a table is declared.
    #[must_use]
    pub fn has(&self, table: u64) -> bool {
        self.definitions.read().declared.contains_key(&table)
    }

    /// Whether a table is declared, or gone for good: what comes of it is taken.
    pub(crate) fn is_known(&self, table: u64) -> bool {
        let definitions = self.definitions.read();
        definitions.declared.contains_key(&table) || definitions.forgotten.contains(&table)
    }

    /// What bytes say that are to be rows of a brick.
    ///
    /// # Errors
    /// If they are not.
    pub(crate) fn decode(
        &self,
        at: BrickAddress,
        rows: &Bytes,
        of: RowsOf,
    ) -> Result<RoutedLoad, RowsRefused> {
        decode(at, &self.definition(at.table)?.empty, rows, of)
    }

    /// What bytes say that are to be rows of a brick, and the codes that these rows have in place of texts.
    ///
    /// # Errors
    /// If they are not.
    pub(crate) fn check(
        &self,
        at: BrickAddress,
        rows: &Bytes,
        of: RowsOf,
    ) -> Result<(RoutedLoad, Vec<RowCodes>), RowsRefused> {
        let Definition { texts, empty, .. } = self.definition(at.table)?;
        let load = decode(at, &empty, rows, of)?;
        let codes = codes_of(&texts, &load)?;
        Ok((load, codes))
    }

    /// A table without rows, as it is declared now; the same one again, as `known`, if that is still so.
    ///
    /// # Errors
    /// If it is not declared.
    pub(crate) fn table(&self, table: u64, known: Option<KnownTable>) -> Result<KnownTable, RowsRefused> {
        let Definition { schema, texts, .. } = self.definition(table)?;
        Ok(match known {
            Some(known) if Arc::ptr_eq(&known.schema, &schema) => known,
            Some(known) => {
                let rows = Arc::new(known.rows.redeclared(Arc::clone(&schema)));
                KnownTable { schema, rows, texts }
            }
            None => {
                let rows = Arc::new(BrickTable::new(Arc::clone(&schema), Arc::clone(&self.shards)));
                KnownTable { schema, rows, texts }
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
        let table = self.table(at.table, None)?;
        for (label, change) in given {
            let BrickChange::Rows(rows) = change else { return Err(RowsRefused::NoRows) };
            // Readers look the codes up, so they are to be such.
            let (load, _) = self.check(at, rows, RowsOf::OneBrick)?;
            let appended = table.rows.append(*label, load).and_then(Ticket::wait);
            appended.map_err(|stopped| RowsRefused::Load(stopped.to_string()))?;
        }
        Ok(table.brick(at))
    }

    fn definition(&self, table: u64) -> Result<Definition, RowsRefused> {
        self.definitions.read().declared.get(&table).cloned().ok_or(RowsRefused::NoTable(table))
    }
}

/// A table with rows, and by which definition.
#[derive(Clone)]
pub(crate) struct KnownTable {
    schema: Arc<BrickSchema>,
    pub(crate) rows: Arc<BrickTable>,
    texts: Arc<TextColumns>,
}

impl KnownTable {
    /// One of its bricks, as it is now.
    pub(crate) fn brick(&self, at: BrickAddress) -> StoredBrick {
        StoredBrick::new(self.rows.view_of(BrickId::new(at.brick)), Arc::clone(&self.texts))
    }
}

/// The rows of a batch in the order of their bricks.
#[derive(Debug)]
pub(crate) struct RoutedBatch {
    table: u64,
    load: RoutedLoad,
    texts: Arc<TextColumns>,
    /// Those of the texts in it, each once.
    text_bytes: usize,
}

impl RoutedBatch {
    /// The bricks that it has rows of, each once.
    pub(crate) fn bricks(&self) -> impl Iterator<Item = BrickAddress> + '_ {
        self.load.bricks().map(move |brick| BrickAddress { table: self.table, brick: brick.get() })
    }

    /// The rows of each brick by themselves.
    pub(crate) fn by_brick(&self) -> impl Iterator<Item = RoutedRows> + '_ {
        (0..self.load.bricks().count()).map(move |place| self.rows_of(&[place]))
    }

    /// The rows as they are appended: those of bricks that are on the same nodes together, up to some bytes. `nodes` has for each of the
    /// [bricks](Self::bricks) those that it is on. Cost: a copy of the rows.
    pub(crate) fn together(&self, nodes: &[Vec<NodeId>]) -> Vec<RoutedRows> {
        assert_eq!(nodes.len(), self.load.bricks().count(), "each brick is somewhere");
        let bytes_max = if self.text_bytes > TEXTS_TOGETHER_BYTES { 0 } else { APPEND_BYTES };
        let (mut open, mut full): (BTreeMap<&[NodeId], Together>, Vec<Vec<usize>>) = Default::default();
        for (place, (nodes, bytes)) in nodes.iter().zip(self.load.bytes_by_brick()).enumerate() {
            let together = open.entry(nodes).or_default();
            if !together.places.is_empty() && together.bytes + bytes > bytes_max {
                full.push(std::mem::take(together).places);
            }
            together.places.push(place);
            together.bytes += bytes;
        }
        full.extend(open.into_values().map(|together| together.places));
        full.iter().map(|places| self.rows_of(places)).collect()
    }

    /// The rows of the bricks at these places, of which there is one at least.
    fn rows_of(&self, places: &[usize]) -> RoutedRows {
        let load = self.load.part(places);
        let mut bytes = Vec::new();
        load.encode(&mut bytes);
        let first = load.bricks().next().expect("rows that are appended are of some brick");
        let brick = BrickAddress { table: self.table, brick: first.get() };
        RoutedRows { brick, bytes: bytes.into(), load, texts: Arc::clone(&self.texts) }
    }
}

/// Bricks whose rows are appended together, by their places in a batch.
#[derive(Default)]
struct Together {
    places: Vec<usize>,
    bytes: usize,
}

/// Rows that this node has made of a batch: of one brick, or of several that are on the same nodes.
#[derive(Debug)]
pub(crate) struct RoutedRows {
    /// One of the bricks.
    pub(crate) brick: BrickAddress,
    /// As they are sent and logged.
    pub(crate) bytes: Bytes,
    /// As the bricks take them. It keeps the rows of the whole batch for as long as it is there.
    pub(crate) load: RoutedLoad,
    texts: Arc<TextColumns>,
}

impl RoutedRows {
    /// The codes that they have in place of texts.
    ///
    /// # Errors
    /// If a number in such a column is no code.
    pub(crate) fn codes(&self) -> Result<Vec<RowCodes>, RowsRefused> {
        codes_of(&self.texts, &self.load)
    }

    /// What is sent of them, and to which brick.
    pub(crate) fn sent(self) -> (BrickAddress, Bytes) {
        (self.brick, self.bytes)
    }
}

/// Rows that somebody loads, while codes are looked for that their texts have.
pub(crate) struct TextRows {
    table: u64,
    empty: Arc<BrickTable>,
    batch: RecordBatch,
    columns: Arc<TextColumns>,
    texts: Vec<ColumnTexts>,
}

impl TextRows {
    /// The texts, column by column.
    pub(crate) fn texts(&self) -> &[ColumnTexts] {
        &self.texts
    }

    /// The rows in the order of their bricks; `codes` has for each of the columns one for each text. What has none counts as code 0.
    ///
    /// # Errors
    /// If one of the rows is none of the table's.
    pub(crate) fn routed(&self, codes: &[Vec<Option<Code>>]) -> Result<RoutedBatch, RowsRefused> {
        assert_eq!(codes.len(), self.texts.len(), "each column of texts has its codes");
        if self.texts.is_empty() {
            return routed(self.table, (&self.empty, &self.columns), &self.batch, 0);
        }
        let texts = self.texts.iter().flat_map(ColumnTexts::texts);
        let text_bytes = texts.map(|text| text.len()).sum();
        let mut columns = self.batch.columns().to_vec();
        for (texts, codes) in self.texts.iter().zip(codes) {
            columns[texts.place()] = texts.coded(codes);
        }
        let fields = self.empty.schema().columns().iter().map(Column::name).zip(columns);
        let coded =
            RecordBatch::try_from_iter_with_nullable(fields.map(|(name, column)| (name, column, true)));
        let coded = coded.map_err(|error| RowsRefused::Load(error.to_string()))?;
        routed(self.table, (&self.empty, &self.columns), &coded, text_bytes)
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.definitions.read().declared.keys()).finish()
    }
}

/// Rows of a table without texts, or whose texts have become codes.
fn routed(
    table: u64,
    (empty, texts): (&BrickTable, &Arc<TextColumns>),
    batch: &RecordBatch,
    text_bytes: usize,
) -> Result<RoutedBatch, RowsRefused> {
    let load = empty.route(batch, 0).map_err(refused)?.load;
    Ok(RoutedBatch { table, load, texts: Arc::clone(texts), text_bytes })
}

fn codes_of(texts: &TextColumns, load: &RoutedLoad) -> Result<Vec<RowCodes>, RowsRefused> {
    Ok(texts.codes(load).ok_or(MalformedLoad { what: "a number that is no code" })?)
}

/// What bytes say that are to be rows of a brick.
fn decode(at: BrickAddress, empty: &BrickTable, rows: &Bytes, of: RowsOf) -> Result<RoutedLoad, RowsRefused> {
    let BrickAddress { table, brick } = at;
    // The rows are copied once, into the brick.
    let bytes = Buffer::from(rows.clone());
    let (load, rest) = empty.decode_kept(&bytes)?;
    let is_of_brick = load.bricks().any(|of_rows| of_rows.get() == brick);
    let is_of_others = of == RowsOf::OneBrick && load.bricks().nth(1).is_some();
    if is_of_brick && !is_of_others && rest.is_empty() {
        Ok(load)
    } else {
        Err(RowsRefused::OtherBrick { table, brick })
    }
}

/// Whether rows that came before can do without the columns behind the first `before`.
fn check_added(table: u64, schema: &BrickSchema, before: usize) -> Result<(), DefinitionError> {
    let has_to_have_text = |column: &&Column| {
        matches!(column, Column::Metric(Metric { data_type: DataType::Utf8, nulls: Nulls::Refused, .. }))
    };
    match schema.columns()[before..].iter().find(has_to_have_text) {
        Some(column) => Err(DefinitionError::TextForOldRows { table, column: column.name().to_owned() }),
        None => Ok(()),
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

#[cfg(test)]
mod tests;
