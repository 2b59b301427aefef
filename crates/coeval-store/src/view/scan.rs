// SPDX-License-Identifier: Apache-2.0
//! A running scan of a part of a table: batches of rows in key order, out of chunks and their changes.

use super::codes::{CODES, coded_text_type, give_codes};
use super::late::{LateColumn, LateColumns};
use super::window::{ChangedRows, PlainRows, ScanWindow, Shape};
use super::{SCAN_BATCH_ROWS, ScanPart};
use crate::chunk::Chunk;
use crate::chunk_column::ChunkColumn;
use crate::chunk_stats::ChunkStats;
use crate::column::constant_column;
use crate::error::StoreError;
use crate::narrow_decimals::{narrow_decimal_type, narrowed};
use crate::pieces::{Changes, NewRows, Patch, Piece};
use crate::table::Table;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::Arc;

const _: () = assert!(2 * SCAN_BATCH_ROWS <= CODES, "codes number the rows of a window");

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
///
/// Whoever leaves out rows asks for [windows](Self::next_window) instead: changed rows are not copied together there before
/// it is known which of them are wanted.
pub struct BatchScan<P> {
    table: Arc<Table>,
    shape: Arc<Shape>,
    projection: Box<[usize]>,
    /// The places of decimals that go out as 64-bit integers.
    narrow: Box<[usize]>,
    late: LateColumns,
    may_match: P,
    pieces: Arc<[Piece]>,
    /// Those that have not been opened, by their numbers.
    waiting: std::vec::IntoIter<usize>,
    open: Option<OpenPiece>,
    counters: ScanCounters,
}

/// The piece that is being read.
struct OpenPiece {
    /// The chunk's columns, if it is read.
    chunk: Option<Vec<ChunkColumn>>,
    /// New values for these columns, by their places in the projection.
    patches: Vec<(usize, Patch)>,
    /// New rows that are read beside those of the chunk, if anything has changed.
    new: Option<Arc<NewRows>>,
    index: usize,
    rows: usize,
    next: usize,
    /// The first of the new rows that have not been read, if the chunk is.
    next_new: usize,
}

impl<P: Fn(&ChunkStats) -> bool> BatchScan<P> {
    pub(super) fn new(
        table: Arc<Table>,
        schema: SchemaRef,
        projection: &[usize],
        part: ScanPart,
        may_match: P,
    ) -> Self {
        let types = projection.iter().map(|&column| table.def().columns[column].ty).collect();
        Self {
            table,
            shape: Arc::new(Shape { schema, types, coded: Box::default() }),
            projection: projection.into(),
            narrow: Box::default(),
            late: LateColumns::default(),
            may_match,
            pieces: part.pieces,
            waiting: part.numbers.into_iter(),
            open: None,
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
        let fields: Vec<Arc<Field>> = self.shape.schema.fields().iter().enumerate().map(field).collect();
        let (schema, types) = (Arc::new(Schema::new(fields)), self.shape.types.clone());
        self.shape = Arc::new(Shape { schema, types, coded: places.into() });
        self
    }

    /// The same scan, which gives the columns at these places of its projection as 64-bit integers, `Decimal64`, as far as they are decimals
    /// of [few digits](narrow_decimal_type).
    #[must_use]
    pub fn with_narrow(mut self, places: &[usize]) -> Self {
        let mut fields: Vec<Arc<Field>> = self.shape.schema.fields().iter().cloned().collect();
        let mut narrow = Vec::new();
        for &place in places {
            if let Some(ty) = narrow_decimal_type(fields[place].data_type()) {
                fields[place] = Arc::new(fields[place].as_ref().clone().with_data_type(ty));
                narrow.push(place);
            }
        }
        let (types, coded) = (self.shape.types.clone(), self.shape.coded.clone());
        self.shape = Arc::new(Shape { schema: Arc::new(Schema::new(fields)), types, coded });
        self.narrow = narrow.into();
        self
    }

    /// The same scan, for whoever asks for [windows](Self::next_window) and filters rows without the columns at these places of its
    /// projection: [`PlainRows::put_late`] gives their values when it is known which rows are left. Until then there may be zeros
    /// and empty texts.
    #[must_use]
    pub fn with_late(mut self, places: &[usize]) -> Self {
        self.late = LateColumns::new(places);
        self
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.shape.schema
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
        let width = self.table.def().columns.len();
        let changes = self.pieces[index].changes(self.table.rows().delta(), width)?.cloned();
        let changes = changes.filter(|changes| is_read || self.may_match_new(changes));
        let new_rows = changes.as_ref().map_or(0, |changes| changes.rows());
        let (mut columns, rows) = match &chunk {
            Some(chunk) if is_read => (Some(self.chunk_columns(chunk)?), chunk.rows()),
            Some(_) | None => (None, new_rows),
        };
        self.counters.chunks_read += usize::from(is_read);
        self.counters.chunks_pruned += usize::from(chunk.is_some() && !is_read);
        self.counters.delta_rows += new_rows;
        let laid_out = changes.map(|changes| self.laid_out(&changes, columns.as_deref_mut())).transpose()?;
        let (patches, mut new) = match laid_out {
            Some((patches, new)) => (patches, Some(new)),
            None => (Vec::new(), None),
        };
        if let Some(new) = &mut new {
            for place in &self.narrow {
                new.columns[*place] = narrowed(&new.columns[*place])?;
            }
        }
        for place in &self.shape.coded {
            let of_chunk = columns.as_mut().and_then(|columns| columns[*place].as_array_mut());
            let of_new = new.as_mut().map(|new| &mut new.columns[*place]);
            give_codes(of_chunk, of_new)?;
        }
        let new = new.map(Arc::new);
        self.open = Some(OpenPiece { chunk: columns, patches, new, index, rows, next: 0, next_new: 0 });
        Ok(true)
    }

    /// Whether new rows whose chunk is not read may match.
    fn may_match_new(&self, changes: &Changes) -> bool {
        (self.may_match)(&changes.stats(&self.projection, &self.new_columns(changes)))
    }

    fn new_columns(&self, changes: &Changes) -> Vec<ArrayRef> {
        changes.columns(self.table.def(), self.table.missing(), &self.projection)
    }

    /// What is put into the columns of a chunk, and the new rows that are read beside them; all of these if the chunk is not read.
    fn laid_out(
        &self,
        changes: &Changes,
        chunk: Option<&mut [ChunkColumn]>,
    ) -> Result<(Vec<(usize, Patch)>, NewRows), StoreError> {
        let new = self.new_columns(changes);
        if let Some(columns) = chunk
            && let Some(patches) = changes.patches(&self.projection, columns, &new)?
        {
            return Ok((patches, changes.inserted_rows(new)?));
        }
        Ok((Vec::new(), changes.all_rows(new)))
    }

    fn chunk_columns(&self, chunk: &Chunk) -> Result<Vec<ChunkColumn>, StoreError> {
        let mut columns = Vec::with_capacity(self.projection.len());
        for (place, &column) in self.projection.iter().enumerate() {
            let is_narrow = self.narrow.contains(&place);
            let read = if self.shape.coded.contains(&place) {
                chunk.read_coded(column)?
            } else if is_narrow {
                chunk.read_narrow(column)?
            } else {
                chunk.read_scanned(column)?
            };
            let read = read.unwrap_or_else(|| {
                let ty = self.table.def().columns[column].ty;
                let missing = &self.table.missing()[column];
                ChunkColumn::Array(constant_column(ty.stored(), missing, chunk.rows()))
            });
            columns.push(if is_narrow { read.narrowed()? } else { read });
        }
        Ok(columns)
    }

    /// The next rows of the open piece; `None` at its end.
    fn next_of_piece(&mut self) -> Result<Option<ScanWindow>, StoreError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let (window, new_places) = open.next_rows();
        if window.is_empty() && new_places.is_empty() {
            self.open = None;
            return Ok(None);
        }
        let (shape, rows) = (Arc::clone(&self.shape), window.len());
        let plain = |columns: Vec<ArrayRef>, late| -> Result<Option<ScanWindow>, StoreError> {
            let batch = shape.batch(columns, rows)?;
            Ok(Some(ScanWindow::Plain(PlainRows { shape: Arc::clone(&shape), batch, late })))
        };
        let columns = match (&open.chunk, &open.new) {
            (None, None) => return Ok(None),
            (None, Some(new)) => return plain(slices(&new.columns, &window), Vec::new()),
            (Some(columns), _) => columns,
        };
        if let Some(new) = &open.new {
            let unchanged = new.kept_in(&window);
            if !new_places.is_empty() || unchanged.has_false() {
                return Ok(Some(ScanWindow::Changed(ChangedRows {
                    shape: Arc::clone(&self.shape),
                    piece: open.index,
                    start: window.start,
                    old: open.read(columns, &window, None)?.0,
                    unchanged,
                    new: Arc::clone(new),
                    new_places,
                })));
            }
        }
        let (columns, late) = open.read(columns, &window, Some(&mut self.late))?;
        plain(columns, late)
    }

    fn read(&mut self) -> Result<Option<ScanWindow>, StoreError> {
        loop {
            match self.next_of_piece()? {
                Some(window) if window.rows() > 0 => return Ok(Some(window)),
                // One whose rows are all deleted.
                Some(_) => {}
                None if self.open_next()? => {}
                None => return Ok(None),
            }
        }
    }

    /// The next rows, at least one; `None` at the end, or behind an error.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a chunk is damaged; [`StoreError::File`] if the disk cannot give it.
    pub fn next_window(&mut self) -> Result<Option<ScanWindow>, StoreError> {
        let outcome = self.read();
        if outcome.is_err() {
            self.waiting = Vec::new().into_iter();
            self.open = None;
        }
        outcome
    }
}

impl<P: Fn(&ChunkStats) -> bool> Iterator for BatchScan<P> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_window().transpose().map(|window| window.and_then(ScanWindow::into_batch))
    }
}

impl OpenPiece {
    /// Goes on to the next rows: of the chunk, or of new rows if it is not read, and of new rows among those of the chunk. None of both at
    /// the end.
    ///
    /// There are at most [`SCAN_BATCH_ROWS`] of either. New rows that there is no room for come next, and with them the chunk's rows that
    /// they go before.
    fn next_rows(&mut self) -> (Range<usize>, Range<usize>) {
        let mut window = self.next..self.rows.min(self.next + SCAN_BATCH_ROWS);
        let mut new_places = 0..0;
        if let (Some(_), Some(new)) = (&self.chunk, &self.new) {
            new_places = self.next_new..new.before(window.end, self.rows);
            if new_places.len() > SCAN_BATCH_ROWS {
                new_places.end = new_places.start + SCAN_BATCH_ROWS;
                window.end = window.end.min(new.place(new_places.end - 1));
            }
            self.next_new = new_places.end;
        }
        self.next = window.end;
        (window, new_places)
    }

    /// These rows of the chunk's columns, with the new values that are put into them; and those columns that come late, in whose places
    /// there are blanks.
    fn read(
        &self,
        columns: &[ChunkColumn],
        rows: &Range<usize>,
        mut late: Option<&mut LateColumns>,
    ) -> Result<(Vec<ArrayRef>, Vec<LateColumn>), ArrowError> {
        let (mut read, mut left) = (Vec::with_capacity(columns.len()), Vec::new());
        for (place, column) in columns.iter().enumerate() {
            let patch = self.patches.iter().find(|(patched, _)| *patched == place);
            let column = column.slice(rows);
            if let (None, Some(late)) = (patch, late.as_deref_mut())
                && let Some(blank) = late.blank(place, &column, rows.len())?
            {
                left.push(LateColumn { place, rows: column });
                read.push(blank);
                continue;
            }
            let array = column.array()?;
            read.push(match patch {
                Some((_, patch)) => patch.put_into(&array, rows.start)?,
                None => array,
            });
        }
        Ok((read, left))
    }
}

/// These rows of all columns.
fn slices(columns: &[ArrayRef], rows: &Range<usize>) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(rows.start, rows.len())).collect()
}
