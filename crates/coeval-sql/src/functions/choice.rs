// SPDX-License-Identifier: Apache-2.0
//! Which form of a function is called, by the types of its arguments.

use super::call::Call;
use crate::error::{SqlError, SqlState};
use crate::types::{column_type_of_arrow, type_in_words};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, ElementType, Value};
use datafusion::common::ScalarValue;

/// What a form takes as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// This type.
    Type(ColumnType),
    /// A `numeric` of any scale.
    Numeric,
    /// An array of this type, or what is cast to it.
    Array(ElementType),
    /// Anything, as it is.
    Any,
}

/// What a form gives.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    /// This type.
    Type(ColumnType),
    /// The type that is found out by those of the arguments, and their values where they are constant.
    Found(fn(&[DataType], &[Option<&ScalarValue>]) -> ColumnType),
}

/// One way to call a function.
pub(super) struct Form {
    pub(super) takes: &'static [Takes],
    /// How many of the last arguments may be left out.
    pub(super) optional: usize,
    /// Whether more arguments of the last type may follow.
    pub(super) is_variadic: bool,
    pub(super) gives: Gives,
    pub(super) body: fn(&Call<'_>) -> Result<Value, SqlError>,
}

/// The most arguments that a variadic function takes, as many as PostgreSQL's.
const ARGUMENTS_MAX: usize = 100;

impl Form {
    pub(super) const fn new(
        takes: &'static [Takes],
        gives: ColumnType,
        body: fn(&Call<'_>) -> Result<Value, SqlError>,
    ) -> Self {
        Self { takes, optional: 0, is_variadic: false, gives: Gives::Type(gives), body }
    }

    pub(super) const fn optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    pub(super) const fn variadic(self) -> Self {
        Self { is_variadic: true, ..self }
    }

    pub(super) const fn giving(self, found: fn(&[DataType], &[Option<&ScalarValue>]) -> ColumnType) -> Self {
        Self { gives: Gives::Found(found), ..self }
    }

    /// How many arguments it is called with.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> + use<> {
        let most = if self.is_variadic { ARGUMENTS_MAX } else { self.takes.len() };
        self.takes.len() - self.optional..=most
    }

    fn taken(&self, place: usize) -> Takes {
        self.takes[place.min(self.takes.len() - 1)]
    }

    /// What the argument at this place, which is of this type, is cast to.
    ///
    /// # Errors
    /// `42883` for a type that SQL does not have.
    pub(super) fn argument(&self, place: usize, ty: &DataType) -> Result<ColumnType, SqlError> {
        match self.taken(place) {
            Takes::Type(ty) => Ok(ty),
            Takes::Array(element) => Ok(ColumnType::Array(element)),
            Takes::Numeric => Ok(numeric(ty)),
            Takes::Any if *ty == DataType::Null => Ok(ColumnType::Text),
            Takes::Any => column_type_of_arrow(ty).ok_or_else(|| {
                SqlError::new(SqlState::UndefinedFunction, format!("no function takes values of type {ty}"))
            }),
        }
    }

    /// The type of what it gives.
    ///
    /// # Errors
    /// Never so far.
    pub(super) fn result(
        &self,
        types: &[DataType],
        values: &[Option<&ScalarValue>],
    ) -> Result<ColumnType, SqlError> {
        Ok(match self.gives {
            Gives::Type(ty) => ty,
            Gives::Found(found) => found(types, values),
        })
    }

    /// How far the types are from those it takes; `None` if it does not take them.
    fn distance(&self, types: &[DataType]) -> Option<u32> {
        let is_count = self.counts().any(|count| count == types.len());
        let places = types.iter().enumerate();
        is_count.then(|| places.map(|(place, ty)| distance(self.taken(place), ty)).sum())?
    }
}

/// A number as `numeric` with the digits that its type has.
fn numeric(ty: &DataType) -> ColumnType {
    let (precision, scale) = match ty {
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => (20, 0),
        _ => (38, 10),
    };
    ColumnType::Numeric { precision, scale }
}

/// How far a type is from the one that is taken; `None` if there is no implicit cast.
fn distance(takes: Takes, ty: &DataType) -> Option<u32> {
    const TEXT_AS_UNKNOWN: u32 = 4;
    let is_integer = matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    let is_text = ty.is_string();
    let of_type = |wanted: ColumnType| match (wanted, ty) {
        _ if *ty == wanted.arrow() => Some(0),
        (ColumnType::Text, _) if is_text => Some(0),
        (ColumnType::Int, DataType::Int8 | DataType::Int16) => Some(1),
        (ColumnType::BigInt, _) if is_integer => Some(1),
        (ColumnType::Double, DataType::Float32) => Some(1),
        // Farther than as what it is, where the other arguments are integers.
        (ColumnType::Double, DataType::LargeBinary) => Some(7),
        (ColumnType::Double, _) if is_integer || ty.is_decimal() => Some(2),
        // Farther than a `numeric` with digits is, where a function has forms for both.
        (ColumnType::AnyNumeric, _) if ty.is_decimal() => Some(1),
        (ColumnType::AnyNumeric, _) if is_integer => Some(4),
        (ColumnType::Timestamp, DataType::Date32) => Some(2),
        (ColumnType::TimestampTz, DataType::Date32) => Some(1),
        (ColumnType::TimestampTz, DataType::Timestamp(_, None)) => Some(2),
        (ColumnType::Timestamp, DataType::Timestamp(_, None))
        | (ColumnType::TimestampTz, DataType::Timestamp(_, Some(_)))
        | (ColumnType::Interval, DataType::Interval(_)) => Some(0),
        _ => None,
    };
    let near = match takes {
        _ if *ty == DataType::Null => Some(1),
        Takes::Any => Some(TEXT_AS_UNKNOWN),
        Takes::Type(wanted) => of_type(wanted),
        Takes::Numeric if ty.is_decimal() => Some(0),
        Takes::Numeric => is_integer.then_some(3),
        Takes::Array(element) => match ty {
            DataType::List(field) if *field.data_type() == element.column_type().arrow() => Some(0),
            DataType::List(_) => Some(2),
            _ => None,
        },
    };
    near.or_else(|| is_text.then_some(TEXT_AS_UNKNOWN))
}

/// The form that is nearest to these types, of two the first.
///
/// # Errors
/// `42883` if none takes them.
pub(super) fn nearest(
    name: &str,
    forms: &'static [Form],
    types: &[DataType],
) -> Result<&'static Form, SqlError> {
    let fitting = forms.iter().filter_map(|form| form.distance(types).map(|distance| (distance, form)));
    // The first one of the least distance.
    fitting.min_by_key(|(distance, _)| *distance).map(|(_, form)| form).ok_or_else(|| {
        let types: Vec<String> = types.iter().map(type_in_words).collect();
        let message = format!("function {name}({}) does not exist", types.join(", "));
        SqlError::new(SqlState::UndefinedFunction, message).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )
    })
}
