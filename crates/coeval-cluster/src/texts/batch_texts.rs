// SPDX-License-Identifier: Apache-2.0
//! [`ColumnTexts`]: from the texts of a batch to codes.

use super::{TextColumn, TextColumns};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use coeval_txn::cluster::{Code, DictionaryId};
use std::collections::HashMap;
use std::sync::Arc;

/// The texts of one column of a batch, each once.
pub(crate) struct ColumnTexts {
    column: TextColumn,
    /// In the order in which they come up.
    texts: Vec<Arc<str>>,
    /// Which of them each row has; none for NULL.
    rows: Vec<Option<usize>>,
}

impl TextColumns {
    /// The texts of a batch, column by column. The batch has as many columns as the table.
    ///
    /// # Errors
    /// If a column that should have texts has something else: gives that column's place.
    pub(crate) fn texts_of(&self, batch: &RecordBatch) -> Result<Vec<ColumnTexts>, usize> {
        let of_column = |column: &TextColumn| {
            ColumnTexts::of(*column, batch.column(column.place)).map_err(|_| column.place)
        };
        self.columns.iter().map(of_column).collect()
    }
}

impl ColumnTexts {
    fn of(column: TextColumn, array: &ArrayRef) -> Result<Self, ArrowError> {
        if !is_text(array.data_type()) {
            return Err(ArrowError::CastError("no column of texts".to_owned()));
        }
        let array = cast(array, &DataType::Utf8)?;
        let strings: &StringArray = array.as_string();
        let (mut places, mut texts): (HashMap<&str, usize>, Vec<Arc<str>>) = (HashMap::new(), Vec::new());
        let mut rows = Vec::with_capacity(strings.len());
        for text in strings {
            let place = text.map(|text| {
                *places.entry(text).or_insert_with(|| {
                    texts.push(Arc::from(text));
                    texts.len() - 1
                })
            });
            rows.push(place);
        }
        Ok(Self { column, texts, rows })
    }

    pub(crate) fn dictionary(&self) -> DictionaryId {
        self.column.dictionary
    }

    /// Where the column is among the table's.
    pub(crate) fn place(&self) -> usize {
        self.column.place
    }

    /// The texts, each once.
    pub(crate) fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// The column as a brick gets it: `codes` has one for each of the texts. What has none counts as code 0.
    pub(crate) fn coded(&self, codes: &[Option<Code>]) -> ArrayRef {
        let code = |place: usize| codes[place].map_or(0, Code::get);
        let codes = self.rows.iter().map(|row| row.map(code));
        if self.column.is_dimension {
            Arc::new(codes.map(|code| code.map(i64::from)).collect::<Int64Array>())
        } else {
            Arc::new(codes.collect::<UInt32Array>())
        }
    }
}

/// Whether arrays of this type have texts.
fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, LargeStringArray, StringViewArray};
    use arrow::datatypes::{Int8Type, Int64Type, UInt32Type};
    use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};

    fn columns() -> TextColumns {
        let (values, cardinality, range_size) = (DimensionValues::String, 100, 10);
        let city = Dimension { name: "city".into(), values, cardinality, range_size };
        let (data_type, nulls) = (DataType::Utf8, Nulls::Allowed);
        let note = Metric { name: "note".into(), data_type, nulls };
        let columns = vec![Column::Dimension(city), Column::Metric(note)];
        TextColumns::of(7, &BrickSchema::new(columns).unwrap())
    }

    fn batch(city: ArrayRef, note: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("city", city, true), ("note", note, true)]).unwrap()
    }

    #[test]
    fn each_text_is_there_once_whatever_arrays_it_comes_in() {
        let texts = [Some("Oslo"), None, Some("Bonn"), Some("Oslo")];
        let arrays: [ArrayRef; 4] = [
            Arc::new(texts.iter().copied().collect::<StringArray>()),
            Arc::new(texts.iter().copied().collect::<LargeStringArray>()),
            Arc::new(texts.iter().copied().collect::<StringViewArray>()),
            Arc::new(texts.iter().copied().collect::<DictionaryArray<Int8Type>>()),
        ];
        for array in arrays {
            let columns = columns().texts_of(&batch(Arc::clone(&array), array)).unwrap();
            let codes = [Some(Code::new(70)), Some(Code::new(3))];
            for column in &columns {
                assert_eq!(column.texts(), [Arc::<str>::from("Oslo"), Arc::from("Bonn")]);
            }
            let city = columns[0].coded(&codes);
            assert_eq!(
                *city.as_primitive::<Int64Type>(),
                Int64Array::from(vec![Some(70), None, Some(3), Some(70)])
            );
            let note = columns[1].coded(&[Some(Code::new(u32::MAX)), None]);
            let expected = UInt32Array::from(vec![Some(u32::MAX), None, Some(0), Some(u32::MAX)]);
            assert_eq!(*note.as_primitive::<UInt32Type>(), expected);
        }
    }

    #[test]
    fn what_is_no_text_is_told_by_its_column() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let refused = columns().texts_of(&batch(text, number)).map(drop);
        assert_eq!(refused, Err(1));
    }
}
