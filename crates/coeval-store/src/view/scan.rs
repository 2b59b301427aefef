// SPDX-License-Identifier: Apache-2.0
//! A running scan of a part of a table: batches of rows in key order, out of chunks and their changes.

use super::codes::{CODES, SharedTexts, coded_text_type, each_its_own, texts_of, with_texts};
use super::merge::Merge;
use super::{SCAN_BATCH_ROWS, ScanPart};
use crate::chunk::Chunk;
use crate::chunk_stats::ChunkStats;
use crate::column::{constant_column, shown};
use crate::error::StoreError;
use crate::pieces::{Changes, Piece};
use crate::table::Table;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::Arc;

/// What a scan has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Chunks read.
    pub chunks_read: usize,
    /// Chunks passed over because their statistics rule them out.
    pub chunks_pruned: usize,
    /// Rows that came from the delta.
    pub delta_rows: usize,
}

/// A running scan: an iterator over batches, which are in key order and so are their rows. Ends behind an
/// error.
pub struct BatchScan<P> {
    table: Arc<Table>,
    schema: SchemaRef,
    projection: Box<[usize]>,
    /// The places in the projection of texts that go out as codes.
    coded: Box<[usize]>,
    may_match: P,
    pieces: Arc<[Piece]>,
    /// Those that have not been opened.
    waiting: Range<usize>,
    open: Option<OpenPiece>,
    /// Rows that the last batch had no room for.
    rest: Option<Rows>,
    counters: ScanCounters,
}

/// The piece that is being read.
struct OpenPiece {
    /// The chunk's columns, if it is read.
    chunk: Option<Vec<ArrayRef>>,
    /// The new rows' columns, if there are any changes.
    new: Option<Vec<ArrayRef>>,
    /// Where columns of both are codes, what they are codes of, with the column's place.
    texts: Vec<(usize, ArrayRef)>,
    index: usize,
    rows: usize,
    next: usize,
}

/// Columns of so many rows.
struct Rows {
    columns: Vec<ArrayRef>,
    count: usize,
}

impl Rows {
    fn slice(&self, start: usize, count: usize) -> Self {
        Self { columns: self.columns.iter().map(|column| column.slice(start, count)).collect(), count }
    }
}

impl<P: Fn(&ChunkStats) -> bool> BatchScan<P> {
    pub(super) fn new(
        table: Arc<Table>,
        schema: SchemaRef,
        projection: &[usize],
        part: ScanPart,
        may_match: P,
    ) -> Self {
        Self {
            table,
            schema,
            projection: projection.into(),
            coded: Box::default(),
            may_match,
            pieces: part.pieces,
            waiting: part.range,
            open: None,
            rest: None,
            counters: ScanCounters::default(),
        }
    }

    /// The same scan, which gives the columns of texts at these places of its projection as codes: `Dictionary(UInt16, Utf8View)`.
    ///
    /// All batches of a chunk have the same array of texts, as far as codes number them, so that it pays to note something of each. Where
    /// the chunk is a dictionary in its file, each text is there once, and maybe some that no row has. Otherwise each row has a text of
    /// its own, and codes ascend by one until rows are filtered.
    #[must_use]
    pub fn with_codes(mut self, places: &[usize]) -> Self {
        let field = |(place, field): (usize, &Arc<Field>)| match places.contains(&place) {
            true => Arc::new(field.as_ref().clone().with_data_type(coded_text_type())),
            false => Arc::clone(field),
        };
        let fields: Vec<Arc<Field>> = self.schema.fields().iter().enumerate().map(field).collect();
        self.schema = Arc::new(Schema::new(fields));
        self.coded = places.into();
        self
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What has been read so far.
    #[must_use]
    pub fn counters(&self) -> ScanCounters {
        self.counters
    }

    /// Opens the next piece; false at the end.
    fn open_next(&mut self) -> Result<bool, StoreError> {
        let Some(index) = self.waiting.next() else { return Ok(false) };
        let chunk = self.pieces[index].chunk().cloned();
        let is_read = chunk.as_ref().is_some_and(|chunk| (self.may_match)(chunk.stats()));
        let def = self.table.def();
        let changes = self.pieces[index].changes(self.table.rows().delta(), def.columns.len())?;
        let new = changes.map(|changes| changes.columns(def, self.table.missing(), &self.projection));
        let new_rows = changes.map_or(0, Changes::rows);
        let (columns, rows) = match &chunk {
            Some(chunk) if is_read => (Some(self.chunk_columns(chunk)?), chunk.rows()),
            Some(_) | None => (None, new_rows),
        };
        self.counters.chunks_read += usize::from(is_read);
        self.counters.chunks_pruned += usize::from(chunk.is_some() && !is_read);
        self.counters.delta_rows += new_rows;
        let mut open = OpenPiece { chunk: columns, new, texts: Vec::new(), index, rows, next: 0 };
        for place in &self.coded {
            open.encode(*place)?;
        }
        self.open = Some(open);
        Ok(true)
    }

    fn chunk_columns(&self, chunk: &Chunk) -> Result<Vec<ArrayRef>, StoreError> {
        let mut columns = Vec::with_capacity(self.projection.len());
        for (place, &column) in self.projection.iter().enumerate() {
            let array = match self.coded.contains(&place) {
                true => chunk.read_coded(column)?,
                false => chunk.read_columns(&[column])?.pop().flatten(),
            };
            columns.push(array.unwrap_or_else(|| {
                let ty = self.table.def().columns[column].ty;
                constant_column(ty.stored(), &self.table.missing()[column], chunk.rows())
            }));
        }
        Ok(columns)
    }

    /// The next rows of the open piece; `None` at its end.
    fn next_of_piece(&mut self) -> Result<Option<Rows>, StoreError> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let window = open.next..open.rows.min(open.next + SCAN_BATCH_ROWS);
        if window.is_empty() {
            self.open = None;
            return Ok(None);
        }
        open.next = window.end;
        let slices = |columns: &[ArrayRef]| -> Vec<ArrayRef> {
            columns.iter().map(|column| column.slice(window.start, window.len())).collect()
        };
        let (index, rows) = (open.index, open.rows);
        let (mut columns, count): (Vec<ArrayRef>, usize) = match (&open.chunk, &open.new) {
            (None, None) => return Ok(None),
            (Some(columns), None) | (None, Some(columns)) => (slices(columns), window.len()),
            (Some(chunk), Some(new)) => {
                let (delta, def) = (self.table.rows().delta(), self.table.def());
                let changes = self.pieces[index].changes(delta, def.columns.len())?;
                let changes = changes.expect("what there are new columns of has changes");
                let merge = Merge::new(window.clone(), changes.of_window(window, rows));
                let columns = chunk.iter().zip(new).map(|(chunk, new)| merge.column(chunk, new));
                (columns.collect::<Result<_, _>>()?, merge.rows())
            }
        };
        for (place, texts) in &open.texts {
            columns[*place] = with_texts(&columns[*place], texts)?;
        }
        Ok(Some(Rows { columns, count }))
    }

    /// The batch of these rows, or of as many of them as codes number; the others come next.
    fn batch(&mut self, mut rows: Rows) -> Result<RecordBatch, StoreError> {
        if !self.coded.is_empty() && rows.count > CODES {
            self.rest = Some(rows.slice(CODES, rows.count - CODES));
            rows = rows.slice(0, CODES);
        }
        for place in &self.coded {
            let column = &mut rows.columns[*place];
            if *column.data_type() == DataType::Utf8View {
                *column = each_its_own(column)?;
            }
        }
        let types = self.projection.iter().map(|&column| self.table.def().columns[column].ty);
        let columns = rows.columns.into_iter().zip(types).map(|(column, ty)| shown(column, ty)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            match self.next_of_piece()? {
                Some(rows) if rows.count > 0 => return self.batch(rows).map(Some),
                // A window whose rows are all deleted.
                Some(_) => {}
                None if self.open_next()? => {}
                None => return Ok(None),
            }
        }
    }
}

impl<P: Fn(&ChunkStats) -> bool> Iterator for BatchScan<P> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read();
        if item.is_err() {
            self.waiting = 0..0;
            self.open = None;
            self.rest = None;
        }
        item.transpose()
    }
}

impl OpenPiece {
    /// Gives the texts at this place codes, if they have none: for all batches of the piece at once where codes number all that it has.
    fn encode(&mut self, place: usize) -> Result<(), ArrowError> {
        match (&mut self.chunk, &mut self.new) {
            (Some(chunk), Some(new)) => match SharedTexts::of(&chunk[place], &new[place])? {
                Some(shared) => {
                    (chunk[place], new[place]) = (shared.chunk, shared.new);
                    self.texts.push((place, shared.texts));
                }
                None => chunk[place] = texts_of(&chunk[place])?,
            },
            (Some(columns), None) | (None, Some(columns)) => {
                let column = &mut columns[place];
                if *column.data_type() == DataType::Utf8View && column.len() <= CODES {
                    *column = each_its_own(column)?;
                }
            }
            (None, None) => {}
        }
        Ok(())
    }
}
