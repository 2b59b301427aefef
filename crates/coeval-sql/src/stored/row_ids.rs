// SPDX-License-Identifier: Apache-2.0
//! Hidden row ids, which stand in for the primary key of a table that declares none.

use coeval_store::SequenceDef;

/// The hidden column that stands in for a primary key.
pub(crate) const ROW_ID_COLUMN: &str = "coeval_row_id";

/// Whether a sequence gives hidden row ids. They go by the name that is made of the column's.
pub(crate) fn counts_rows(sequence: &SequenceDef) -> bool {
    let name = sequence.name.name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    name.strip_suffix("_seq").is_some_and(|name| name.ends_with(ROW_ID_COLUMN))
}
