// SPDX-License-Identifier: Apache-2.0
//! A statement with parameters, and the rows of values that it is run with.

use crate::client::Open;
use crate::errors::{of_database, refused, refused_by_code};
use crate::parameters::Cells;
use crate::results::Batches;
use adbc_core::error::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use coeval::{ColumnType, Prepared, SqlState, Value, column_type_of_given};

/// A statement that was planned, with the types that its parameters have.
#[derive(Default)]
pub(crate) struct Plans {
    /// By the types that are not inferred, but those of the values.
    made: Vec<(Vec<Option<ColumnType>>, Prepared)>,
}

impl Plans {
    /// The statement with the types of parameters that it infers.
    ///
    /// # Errors
    /// If the text is not one statement, does not fit the definitions, or does not say of what type a parameter is.
    pub(crate) fn inferred(&mut self, open: &mut Open, sql: &str) -> Result<Prepared> {
        self.with(open, sql, Vec::new())?.map_err(|error| of_database(&error))
    }

    /// As [`inferred`](Self::inferred); none of a text of several statements, or whose parameters are of types that only
    /// values tell. Programs prepare before they run anything, whatever it is.
    ///
    /// # Errors
    /// If the text does not fit the definitions.
    pub(crate) fn foreseen(&mut self, open: &mut Open, sql: &str) -> Result<Option<Prepared>> {
        match self.with(open, sql, Vec::new())? {
            Ok(prepared) => Ok(Some(prepared)),
            Err(error) if error.is_about_parameter_types() || is_about_number(&error) => Ok(None),
            Err(error) => Err(of_database(&error)),
        }
    }

    /// The statement for values of these Arrow types. The types of parameters are those that it infers; where it says nothing
    /// about one, which then counts as text or is refused, the values say what it is.
    ///
    /// # Errors
    /// As [`inferred`](Self::inferred); `07001` for another number of values than of parameters.
    pub(crate) fn of_values(&mut self, open: &mut Open, sql: &str, values: &Schema) -> Result<Prepared> {
        let inferred = self.with(open, sql, Vec::new())?;
        let says_nothing = |index: usize| match &inferred {
            Ok(inferred) => inferred.parameter_types().get(index).is_some_and(|ty| *ty == ColumnType::Text),
            Err(_) => true,
        };
        let texts = if inferred.is_err() { Some(ColumnType::Text) } else { None };
        // Where the statement only asks whether it is NULL, a NULL may be of any type.
        let is_asked = |error: &coeval::Error| error.state() == SqlState::IndeterminateDatatype;
        let nulls = if inferred.as_ref().is_err_and(is_asked) { texts } else { None };
        let own = values.fields().iter().enumerate().map(|(index, field)| match field.data_type() {
            _ if !says_nothing(index) => None,
            DataType::Null => nulls,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => texts,
            _ => column_type_of_given(field).filter(|ty| *ty != ColumnType::Text),
        });
        let own: Vec<_> = own.collect();
        let prepared = match inferred {
            Err(error) if !error.is_about_parameter_types() => Err(error),
            inferred if own.iter().all(Option::is_none) => inferred,
            _ => self.with(open, sql, own)?,
        };
        let prepared = prepared.map_err(|error| of_database(&error))?;
        let (wanted, given) = (prepared.parameter_types().len(), values.fields().len());
        if wanted != given {
            return Err(miscounted(wanted, given));
        }
        Ok(prepared)
    }

    fn with(
        &mut self,
        open: &mut Open,
        sql: &str,
        types: Vec<Option<ColumnType>>,
    ) -> Result<std::result::Result<Prepared, coeval::Error>> {
        if let Some((_, made)) = self.made.iter().find(|(of, _)| *of == types) {
            return Ok(Ok(made.clone()));
        }
        let made = open.prepared(sql, &types)?;
        Ok(made.inspect(|made| self.made.push((types, made.clone()))))
    }
}

/// The error for a number of values that is not the number of parameters.
pub(crate) fn miscounted(wanted: usize, given: usize) -> Error {
    let message = format!("the statement has {wanted} parameters, {given} columns of values were bound");
    refused_by_code("07001", message)
}

/// Whether a text was refused because it is not one statement. An error of syntax has a position.
fn is_about_number(error: &coeval::Error) -> bool {
    match error {
        coeval::Error::Sql(error) => error.state == SqlState::SyntaxError && error.position.is_none(),
        _ => false,
    }
}

/// The rows of values that were bound, one set of parameters after the other.
pub(crate) struct Sets {
    batches: Batches,
    types: Vec<ColumnType>,
    zone: chrono_tz::Tz,
    /// What is left of the batch that came last.
    current: Option<(RecordBatch, Vec<Cells>, usize)>,
}

impl Sets {
    pub(crate) fn new(batches: Batches, types: &[ColumnType], zone: chrono_tz::Tz) -> Self {
        Self { batches, types: types.to_vec(), zone, current: None }
    }

    fn next_set(&mut self) -> Result<Option<Vec<Value>>> {
        loop {
            if let Some((batch, columns, row)) = &mut self.current
                && *row < batch.num_rows()
            {
                let set = columns.iter().map(|column| column.value(*row)).collect();
                *row += 1;
                return Ok(Some(set));
            }
            let Some(batch) = self.batches.next() else { return Ok(None) };
            let batch = batch.map_err(|error| unreadable(&error))?;
            let columns = batch.columns().iter().zip(&self.types).enumerate();
            let columns = columns.map(|(index, (array, ty))| Cells::new(array, *ty, index + 1, self.zone));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            self.current = Some((batch, columns, 0));
        }
    }
}

impl Iterator for Sets {
    type Item = Result<Vec<Value>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_set().transpose()
    }
}

/// The error for a stream of the program that fails.
pub(crate) fn unreadable(error: &arrow::error::ArrowError) -> Error {
    let message = format!("the stream that was bound ends in an error: {error}");
    refused(SqlState::InvalidParameterValue, message)
}
