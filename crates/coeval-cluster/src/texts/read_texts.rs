// SPDX-License-Identifier: Apache-2.0
//! [`ReadTexts`]: from the codes in bricks to the texts of what a reader gets.

use super::{NoText, RowCodes, RowTexts, TextColumn, TextColumns};
use arrow::array::{ArrayRef, AsArray, DictionaryArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{Int64Type, SchemaRef, UInt32Type};
use coeval_brick::{BrickView, Reader, TableView};
use coeval_txn::cluster::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The texts of some rows, by their codes.
pub(crate) struct ReadTexts {
    /// All columns of the table, as readers get them.
    arrow: SchemaRef,
    columns: Vec<ReadColumn>,
}

/// The texts of a column.
struct ReadColumn {
    place: usize,
    /// Ascending.
    codes: Vec<u32>,
    /// The text of each.
    texts: ArrayRef,
}

impl ReadTexts {
    /// The texts of rows that have `codes`, as `texts` says them.
    ///
    /// # Errors
    /// If it does not say one.
    pub(crate) fn new(columns: &TextColumns, codes: &[RowCodes], texts: &[RowTexts]) -> Result<Self, NoText> {
        let of_column = |column: &TextColumn| ReadColumn::new(column, codes, texts);
        let read = columns.columns.iter().map(of_column).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { arrow: Arc::clone(&columns.arrow), columns: read })
    }

    /// A batch of these rows, with texts where the brick has codes.
    pub(crate) fn spell(&self, batch: &RecordBatch) -> RecordBatch {
        let mut columns = batch.columns().to_vec();
        for column in &self.columns {
            columns[column.place] = column.spell(&columns[column.place]);
        }
        RecordBatch::try_new(Arc::clone(&self.arrow), columns).expect("a column of texts is one of codes")
    }
}

impl ReadColumn {
    fn new(column: &TextColumn, codes: &[RowCodes], texts: &[RowTexts]) -> Result<Self, NoText> {
        let dictionary = column.dictionary;
        let texts = texts.iter().filter(|texts| texts.dictionary == dictionary);
        let texts = texts.flat_map(|texts| &texts.spellings);
        let texts: BTreeMap<Code, &str> = texts.map(|spelling| (spelling.code, &*spelling.text)).collect();
        let codes = codes.iter().filter(|codes| codes.dictionary == dictionary);
        let codes: BTreeSet<Code> = codes.flat_map(|codes| codes.codes.iter().copied()).collect();
        let mut spelled = Vec::with_capacity(codes.len());
        for code in &codes {
            spelled.push(*texts.get(code).ok_or(NoText { dictionary, code: *code })?);
        }
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(spelled));
        Ok(Self { place: column.place, codes: codes.into_iter().map(Code::get).collect(), texts })
    }

    fn spell(&self, column: &ArrayRef) -> ArrayRef {
        let place = |code: u32| {
            let place = self.codes.binary_search(&code).expect("the codes of the rows were looked up");
            u32::try_from(place).expect("codes have 32 bits")
        };
        let places: UInt32Array = numbers(column).into_iter().map(|code| code.map(place)).collect();
        let texts = DictionaryArray::try_new(places, Arc::clone(&self.texts));
        Arc::new(texts.expect("each place is one of a text"))
    }
}

/// See [`TextColumns::codes_of`].
pub(super) fn codes_of(
    columns: &[TextColumn],
    view: &TableView,
    brick: &BrickView,
    reader: &Reader,
) -> Vec<RowCodes> {
    if columns.is_empty() {
        return Vec::new();
    }
    let places: Vec<usize> = columns.iter().map(|column| column.place).collect();
    let mut codes: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); columns.len()];
    for batch in view.batches(brick, reader, &places) {
        for (codes, column) in codes.iter_mut().zip(batch.columns()) {
            let mut of_batch: Vec<u32> = numbers(column).into_iter().flatten().collect();
            of_batch.sort_unstable();
            of_batch.dedup();
            codes.extend(of_batch);
        }
    }
    let of_column = |(column, codes): (&TextColumn, BTreeSet<u32>)| RowCodes {
        dictionary: column.dictionary,
        codes: codes.into_iter().map(Code::new).collect(),
    };
    columns.iter().zip(codes).map(of_column).filter(|codes| !codes.codes.is_empty()).collect()
}

/// The codes in a column as a brick gives it: of a dimension, or of a metric.
fn numbers(column: &ArrayRef) -> Vec<Option<u32>> {
    match column.as_primitive_opt::<Int64Type>() {
        Some(ordinals) => {
            let number = |ordinal: i64| u32::try_from(ordinal).expect("rows were checked when they came");
            ordinals.iter().map(|ordinal| ordinal.map(number)).collect()
        }
        None => column.as_primitive::<UInt32Type>().iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};
    use coeval_txn::cluster::{DictionaryId, Spelling};

    fn columns() -> TextColumns {
        let (values, cardinality, range_size) = (DimensionValues::String, 100, 10);
        let note = Metric {
            name: "note".into(),
            data_type: arrow::datatypes::DataType::Utf8,
            nulls: Nulls::Allowed,
        };
        let city = Dimension { name: "city".into(), values, cardinality, range_size };
        let columns = vec![Column::Metric(note), Column::Dimension(city)];
        TextColumns::of(7, &BrickSchema::new(columns).unwrap())
    }

    fn texts(column: u32, texts: &[(u32, &str)]) -> RowTexts {
        let spelling = |(code, text): &(u32, &str)| Spelling { code: Code::new(*code), text: (*text).into() };
        let dictionary = DictionaryId { table: 7, column };
        RowTexts { dictionary, spellings: texts.iter().map(spelling).collect() }
    }

    fn codes(column: u32, codes: &[u32]) -> RowCodes {
        let codes = codes.iter().copied().map(Code::new).collect();
        RowCodes { dictionary: DictionaryId { table: 7, column }, codes }
    }

    fn strings(column: &ArrayRef) -> Vec<Option<&str>> {
        let texts = column.as_dictionary::<UInt32Type>();
        texts.downcast_dict::<StringArray>().unwrap().into_iter().collect()
    }

    #[test]
    fn codes_with_gaps_between_them_become_texts() {
        let said = [texts(0, &[(9, "x")]), texts(1, &[(40, "Oslo"), (2, "Bonn")]), texts(0, &[(3, "y")])];
        let read = ReadTexts::new(&columns(), &[codes(0, &[3, 9]), codes(1, &[2, 40])], &said).unwrap();
        let note: UInt32Array = [Some(9_u32), None, Some(3)].into_iter().collect();
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("note", Arc::new(note) as ArrayRef, true),
            ("city", Arc::new(Int64Array::from(vec![40, 40, 2])), false),
        ]);
        let spelled = read.spell(&batch.unwrap());
        assert_eq!(strings(spelled.column(0)), [Some("x"), None, Some("y")]);
        assert_eq!(strings(spelled.column(1)), [Some("Oslo"), Some("Oslo"), Some("Bonn")]);
    }

    #[test]
    fn a_code_without_its_text_is_named() {
        let said = [texts(0, &[(3, "y")]), texts(1, &[(9, "Rome")])];
        let refused = ReadTexts::new(&columns(), &[codes(0, &[3, 9])], &said).map(drop);
        let dictionary = DictionaryId { table: 7, column: 0 };
        assert_eq!(refused, Err(NoText { dictionary, code: Code::new(9) }));
    }

    #[test]
    fn rows_without_any_text_have_their_column_all_the_same() {
        let read = ReadTexts::new(&columns(), &[codes(1, &[0])], &[texts(1, &[(0, "Bonn")])]).unwrap();
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("note", Arc::new(UInt32Array::from(vec![None::<u32>, None])) as ArrayRef, true),
            ("city", Arc::new(Int64Array::from(vec![0, 0])), false),
        ]);
        let spelled = read.spell(&batch.unwrap());
        assert_eq!(strings(spelled.column(0)), [None, None]);
    }
}
