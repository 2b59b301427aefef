// SPDX-License-Identifier: Apache-2.0
//! Arrow batches as the text that COPY FROM STDIN reads.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use std::fmt::Write;

/// Text goes out in pieces of about this size: large enough that messages cost nothing, small enough to stay in cache.
const PIECE_BYTES: usize = 256 << 10;

/// The rows of a batch as text, piece by piece, each of whole rows.
pub(super) struct Pieces<'a> {
    columns: Vec<Column<'a>>,
    rows: usize,
    next: usize,
    scratch: String,
}

struct Column<'a> {
    values: &'a dyn Array,
    formatter: ArrayFormatter<'a>,
    is_text: bool,
}

impl<'a> Pieces<'a> {
    /// Those of a batch.
    pub(super) fn new(batch: &'a RecordBatch) -> Result<Self, ArrowError> {
        // The shape of dates and times that servers read; NULL is looked at before.
        const OPTIONS: FormatOptions<'static> = FormatOptions::new();
        let columns = batch.columns().iter().map(|values| {
            Ok(Column {
                values: values.as_ref(),
                formatter: ArrayFormatter::try_new(values.as_ref(), &OPTIONS)?,
                is_text: matches!(values.data_type(), DataType::Utf8 | DataType::Utf8View),
            })
        });
        let columns = columns.collect::<Result<_, ArrowError>>()?;
        Ok(Self { columns, rows: batch.num_rows(), next: 0, scratch: String::new() })
    }

    fn push_row(&mut self, row: usize, out: &mut String) {
        for (place, column) in self.columns.iter().enumerate() {
            if place > 0 {
                out.push('\t');
            }
            if column.values.is_null(row) {
                out.push_str("\\N");
            } else if column.is_text {
                self.scratch.clear();
                write!(self.scratch, "{}", column.formatter.value(row)).expect("a string takes everything");
                push_escaped(&self.scratch, out);
            } else {
                write!(out, "{}", column.formatter.value(row)).expect("a string takes everything");
            }
        }
        out.push('\n');
    }
}

/// What ends values and rows, and the backslash, follow a backslash.
fn push_escaped(text: &str, out: &mut String) {
    if !text.contains(['\\', '\t', '\n', '\r']) {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = String::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 3));
        while self.next < self.rows && piece.len() < PIECE_BYTES {
            self.push_row(self.next, &mut piece);
            self.next += 1;
        }
        (!piece.is_empty()).then(|| Bytes::from(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{BatchBuilder, TableSpec, column, nullable, numeric};
    use coeval::ColumnType;

    const TABLE: TableSpec = TableSpec {
        name: "line",
        columns: &[
            column("l_order", ColumnType::BigInt),
            column("l_price", numeric(15, 2)),
            nullable("l_sent", ColumnType::Timestamp),
            column("l_mode", ColumnType::Varchar(10)),
        ],
        primary_key: &["l_order"],
        indexes: &[],
    };

    fn text(rows: i64, mode: &str) -> Vec<String> {
        let mut builder = BatchBuilder::new(&TABLE, rows as usize);
        for row in 0..rows {
            builder.bigint(row);
            builder.decimal(-705);
            builder.timestamp((row % 2 == 1).then_some(1_735_689_600_000_000));
            builder.text(mode);
        }
        let batch = builder.finish().unwrap();
        let pieces = Pieces::new(&batch).unwrap();
        pieces.map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect()
    }

    #[test]
    fn values_are_separated_and_what_would_separate_them_is_escaped() {
        assert_eq!(text(1, "AIR"), ["0\t-7.05\t\\N\tAIR\n"]);
        assert_eq!(text(1, "a\tb\\c\nd\r"), ["0\t-7.05\t\\N\ta\\tb\\\\c\\nd\\r\n"]);
        assert!(text(2, "AIR")[0].ends_with("1\t-7.05\t2025-01-01T00:00:00\tAIR\n"));
    }

    #[test]
    fn pieces_are_whole_rows_and_together_all_of_them() {
        let pieces = text(30_000, "TRUCK");
        assert!(pieces.len() > 1);
        assert!(pieces.iter().all(|piece| piece.ends_with("\tTRUCK\n")));
        assert_eq!(pieces.iter().map(|piece| piece.lines().count()).sum::<usize>(), 30_000);
    }

    #[test]
    fn no_rows_are_no_piece() {
        assert!(text(0, "AIR").is_empty());
    }
}
