// SPDX-License-Identifier: Apache-2.0
//! `VALUES` with what DataFusion does not take: subqueries, and literals without a type beside casts to one.
//!
//! Rows with subqueries become queries of one row each. A literal in a column in which another row casts to a type is
//! cast to that type, too; a date beside a timestamp becomes one, and so does a `numeric` beside a float. Texts of several lengths become
//! texts, and bit strings of several lengths such of any. Beside arrays and truth values whose types are written a literal is one of them.

use super::literals::{TO_NUMERIC, is_int_literal, is_named, own_call, to_numeric};
use crate::error::SqlError;
use crate::query::has_subquery;
use crate::scalar::cast_function::CAST;
use crate::select::{call, cast};
use crate::stack::with_room;
use crate::types;
use crate::walk::WalkMut;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem,
    SetExpr, SetOperator, SetQuantifier, TimezoneInfo, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// The function that stands for a cast to an array.
const TO_ARRAY: &str = "coeval_array";

/// Casts literals in the columns of a `VALUES` to the type that others in their column are cast to.
///
/// # Errors
/// `42804` and `42846` for a column of types that have none in common.
pub(super) fn with_typed_columns(body: &mut SetExpr) -> Result<(), SqlError> {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            with_room(|| with_typed_columns(left))?;
            with_typed_columns(right)
        }
        SetExpr::Values(values) if values.rows.len() > 1 => {
            let width = values.rows.iter().map(|row| row.content.len()).min().unwrap_or(0);
            for column in 0..width {
                let Some(ty) = common_type(values.rows.iter().map(|row| &row.content[column]))? else {
                    let mut cells: Vec<_> =
                        values.rows.iter_mut().map(|row| &mut row.content[column]).collect();
                    read_beside_written(&mut cells);
                    read_bits(&mut cells)?;
                    forget_lengths(&mut cells)?;
                    read_numbers(&mut cells)?;
                    take_digits_away(&mut cells)?;
                    make_floats(cells);
                    continue;
                };
                // A literal is not cut off at the length of others.
                let has_longer = values.rows.iter().any(|row| is_longer(&row.content[column], ty));
                let has_open = values.rows.iter().any(|row| is_open(&row.content[column]));
                let ty = match ty {
                    _ if has_longer => ColumnType::Text,
                    // Nor is it filled up with zeros to that of other bit strings.
                    ty if has_open => types::without_length(ty),
                    ty => ty,
                };
                for row in &mut values.rows {
                    let cell = &mut row.content[column];
                    if is_open(cell) || type_of(cell).is_some_and(|own| own != ty) {
                        *cell = own_call(cell.clone(), ty)?;
                    }
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a cell is a literal of more letters than texts of this type have.
fn is_longer(cell: &Expr, ty: ColumnType) -> bool {
    let (ColumnType::Varchar(length) | ColumnType::Char(length)) = ty else { return false };
    matches!(cell, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text)
        if text.chars().nth(length as usize).is_some()))
}

/// A type as syntax tells it.
enum WrittenType {
    Boolean,
    /// An array of one dimension, with the name of the type of its elements.
    Array(String),
}

/// Casts literals without a type to the one that is written beside them: DataFusion takes no texts beside arrays and truth values.
fn read_beside_written(cells: &mut [&mut Expr]) {
    let Some(ty) = cells.iter().find_map(|cell| written_type(cell)) else { return };
    for cell in cells {
        if matches!(&**cell, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) {
            **cell = match &ty {
                WrittenType::Boolean => cast(cell.clone(), DataType::Boolean),
                WrittenType::Array(element) => {
                    let element = Expr::Value(Value::SingleQuotedString(element.clone()).into());
                    call(TO_ARRAY, vec![cell.clone(), element])
                }
            };
        }
    }
}

/// The type of an array, or of a truth value, as far as syntax tells it.
fn written_type(cell: &Expr) -> Option<WrittenType> {
    match cell {
        Expr::Nested(inner) => written_type(inner),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(WrittenType::Boolean),
        Expr::Cast { data_type: DataType::Boolean | DataType::Bool, .. } => Some(WrittenType::Boolean),
        Expr::Array(array) => Some(WrittenType::Array(type_of_elements(&array.elem)?.to_string())),
        Expr::Function(function) if is_named(function, TO_ARRAY) => match arguments(function)? {
            [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(element)))] => {
                Some(WrittenType::Array(element.value.clone().into_string()?))
            }
            _ => None,
        },
        _ => None,
    }
}

fn arguments(function: &Function) -> Option<&[FunctionArg]> {
    match &function.args {
        FunctionArguments::List(list) => Some(&list.args),
        _ => None,
    }
}

/// The type of all elements of an array; `None` if they have several, or one is not known.
fn type_of_elements(elements: &[Expr]) -> Option<DataType> {
    let mut types = elements.iter().filter(|element| !is_open(element)).map(element_type);
    match types.next() {
        Some(first) => {
            let first = first?;
            types.all(|ty| ty.as_ref() == Some(&first)).then_some(first)
        }
        None => (!elements.is_empty()).then_some(DataType::Text),
    }
}

/// The type of an element that is no open literal. A `numeric` has digits that syntax does not tell.
fn element_type(element: &Expr) -> Option<DataType> {
    match element {
        Expr::Nested(inner) => element_type(inner),
        Expr::Cast { data_type, .. } if is_int_literal(data_type) => Some(DataType::Int(None)),
        Expr::Cast { data_type, .. } => (!is_numeric(element)).then(|| data_type.clone()),
        Expr::Value(value) => match value.value {
            Value::Boolean(_) => Some(DataType::Boolean),
            Value::Number(..) => Some(DataType::BigInt(None)),
            _ => None,
        },
        called => as_written(type_of(called)?),
    }
}

/// A type that the engine casts to by itself, as it is written.
fn as_written(ty: ColumnType) -> Option<DataType> {
    Some(match ty {
        ColumnType::Text => DataType::Text,
        ColumnType::Date => DataType::Date,
        ColumnType::Time => DataType::Time(None, TimezoneInfo::None),
        ColumnType::Timestamp => DataType::Timestamp(None, TimezoneInfo::None),
        ColumnType::TimestampTz => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        ColumnType::Interval => DataType::Interval { fields: None, precision: None },
        ColumnType::Uuid => DataType::Uuid,
        ColumnType::Json => DataType::JSON,
        ColumnType::Jsonb => DataType::JSONB,
        _ => return None,
    })
}

/// Casts texts and bit strings of some length to such of any, which others in their column may be: DataFusion takes marks of one type alone.
fn forget_lengths(cells: &mut [&mut Expr]) -> Result<(), SqlError> {
    for cell in cells {
        if matches!(type_of(cell), Some(ColumnType::Varchar(_) | ColumnType::Char(_))) {
            **cell = own_call(cell.clone(), ColumnType::Text)?;
        } else if let Some(ty) = type_of(cell).filter(|ty| ty.is_bits()) {
            **cell = own_call(cell.clone(), types::without_length(ty))?;
        }
    }
    Ok(())
}

/// Reads literals without a type in a column of bit strings: DataFusion takes their letters for bytes.
fn read_bits(cells: &mut [&mut Expr]) -> Result<(), SqlError> {
    let Some(ty) = cells.iter().filter_map(|cell| type_of(cell)).find(|ty| ty.is_bits()) else {
        return Ok(());
    };
    for cell in cells {
        if is_open(cell) {
            **cell = own_call(cell.clone(), types::without_length(ty))?;
        }
    }
    Ok(())
}

/// Casts numbers in a column with a `numeric` without digits to that.
fn take_digits_away(cells: &mut [&mut Expr]) -> Result<(), SqlError> {
    let without_digits = Some(ColumnType::AnyNumeric);
    if !cells.iter().any(|cell| type_of(cell) == without_digits) {
        return Ok(());
    }
    for cell in cells {
        let is_number = matches!(type_of_literal(cell), Some(ColumnType::Int | ColumnType::BigInt));
        if is_number || is_open(cell) || is_numeric(cell) {
            **cell = own_call(cell.clone(), ColumnType::AnyNumeric)?;
        }
    }
    Ok(())
}

/// Reads literals without a type in a column of `numeric` with the digits that they have: DataFusion gives them those of the others.
fn read_numbers(cells: &mut [&mut Expr]) -> Result<(), SqlError> {
    if !cells.iter().any(|cell| is_numeric(cell)) || cells.iter().any(|cell| float_type(cell).is_some()) {
        return Ok(());
    }
    for cell in cells {
        if matches!(&**cell, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) {
            **cell = to_numeric(cell)?;
        }
    }
    Ok(())
}

/// Casts what stands beside floats in a column with a `numeric` to the widest of these: DataFusion makes a `numeric` of all.
fn make_floats(cells: Vec<&mut Expr>) {
    let floats = cells.iter().filter_map(|cell| float_type(cell));
    let Some(ty) = floats.max_by_key(|ty| *ty == DataType::DoublePrecision) else { return };
    let has_numeric = cells.iter().any(|cell| is_numeric(cell));
    for cell in cells.into_iter().filter(|cell| has_numeric && float_type(cell).is_none() && !is_open(cell)) {
        *cell = cast(cell.clone(), ty.clone());
    }
}

/// The type of floats that a cell is cast to.
fn float_type(cell: &Expr) -> Option<DataType> {
    match cell {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => float_type(inner),
        Expr::Cast { data_type: DataType::Real | DataType::Float4, .. } => Some(DataType::Real),
        Expr::Cast {
            data_type: DataType::DoublePrecision | DataType::Double(_) | DataType::Float(_) | DataType::Float8,
            ..
        } => Some(DataType::DoublePrecision),
        _ => None,
    }
}

fn is_numeric(cell: &Expr) -> bool {
    match cell {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_numeric(inner),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_))
        }
        Expr::Function(function) => is_named(function, TO_NUMERIC),
        _ => false,
    }
}

/// The type that some cells are cast to; `None` if there are others than literals beside them.
///
/// # Errors
/// `42804` and `42846` for types that have none in common.
fn common_type<'e>(cells: impl Iterator<Item = &'e Expr>) -> Result<Option<ColumnType>, SqlError> {
    let (mut common, mut stated, mut is_known) = (None, None, true);
    let both = |known: Option<ColumnType>, own| match known {
        None => Ok(Some(own)),
        Some(known) => types::type_of_both("VALUES", known, own).map(Some),
    };
    for cell in cells {
        let own = type_of(cell);
        is_known &= own.is_some() || is_open(cell);
        if let Some(ty) = own.or_else(|| type_of_literal(cell)) {
            stated = both(stated, ty)?;
        }
        if let Some(ty) = own {
            common = both(common, ty)?;
        }
    }
    Ok(common.filter(|_| is_known))
}

/// The type of a literal that has one: of a number any, since all of them have one in common.
fn type_of_literal(cell: &Expr) -> Option<ColumnType> {
    match cell {
        Expr::Cast { data_type, .. } if is_int_literal(data_type) => Some(ColumnType::Int),
        Expr::Value(value) => match value.value {
            Value::Number(..) => Some(ColumnType::BigInt),
            Value::Boolean(_) => Some(ColumnType::Boolean),
            _ => None,
        },
        _ => None,
    }
}

/// The type that a cell is cast to, by the function that stands for a cast, or that it has by its name.
fn type_of(cell: &Expr) -> Option<ColumnType> {
    let Expr::Function(function) = cell else { return None };
    if is_named(function, "current_date") {
        return Some(ColumnType::Date);
    }
    if !is_named(function, CAST) {
        return None;
    }
    match arguments(function)? {
        [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ty)))] => {
            serde_json::from_str(&ty.value.clone().into_string()?).ok()
        }
        _ => None,
    }
}

/// Whether a cell has no type by itself.
fn is_open(cell: &Expr) -> bool {
    matches!(cell, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_) | Value::Null))
}

/// Writes each `VALUES` of the query that holds a subquery as a union of its rows.
pub(crate) fn without_subqueries_in_values(query: &mut Query) {
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut Rows);
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        rewrite(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn rewrite(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            with_room(|| rewrite(left));
            rewrite(right);
        }
        SetExpr::Values(values) if has_subquery(values) => {
            let rows = values.rows.iter().map(|row| one_row(&row.content));
            let union = rows.reduce(|left, right| SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left: Box::new(left),
                right: Box::new(right),
            });
            if let Some(union) = union {
                *body = union;
            }
        }
        _ => {}
    }
}

/// `SELECT a AS column1, b AS column2`.
fn one_row(values: &[Expr]) -> SetExpr {
    let projection = values.iter().enumerate().map(|(index, value)| SelectItem::ExprWithAlias {
        expr: value.clone(),
        alias: Ident::new(format!("column{}", index + 1)),
    });
    SetExpr::Select(Box::new(crate::select::body(projection.collect(), Vec::new(), None)))
}
