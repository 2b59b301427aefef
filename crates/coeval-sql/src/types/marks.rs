// SPDX-License-Identifier: Apache-2.0
//! Types that Arrow has not: `char(n)`, `varchar(n)` and `json` are all text to it, and bit strings of any length and of none are all
//! bytes, so fields of these types carry their type as a mark.

use super::column_type_of_arrow;
use arrow::datatypes::{DataType, Field};
use coeval_store::{ColumnType, ElementType, ViewColumn};

/// The key of the mark in a field's metadata.
pub(crate) const KEY: &str = "coeval.type";
const JSON: &str = "json";
const JSONB: &str = "jsonb";
/// In front of the length of a `char(n)`.
pub(crate) const CHAR: &str = "char ";
const VARCHAR: &str = "varchar ";
/// In front of the length of a `bit(n)`. Bit strings without a mark are of type `bit` of no length.
const BIT: &str = "bit ";
/// In front of the length of a `varbit(n)`, or alone.
const VARBIT: &str = "varbit";
/// In front of the mark of an array's elements.
pub(crate) const LIST: &str = "list ";

/// The field, marked if Arrow does not tell its type.
pub(crate) fn marked_field(field: Field, ty: ColumnType) -> Field {
    let (prefix, ty) = match ty {
        ColumnType::Array(element) => (LIST, element.column_type()),
        ty => ("", ty),
    };
    let mark = match ty {
        ColumnType::Json => JSON.to_owned(),
        ColumnType::Jsonb => JSONB.to_owned(),
        ColumnType::Char(length) => format!("{CHAR}{length}"),
        ColumnType::Varchar(length) => format!("{VARCHAR}{length}"),
        ColumnType::Bit(Some(length)) => format!("{BIT}{length}"),
        ColumnType::Varbit(Some(length)) => format!("{VARBIT} {length}"),
        ColumnType::Varbit(None) => VARBIT.to_owned(),
        _ => return field,
    };
    field.with_metadata([(KEY.to_owned(), format!("{prefix}{mark}"))].into())
}

/// The type of a column of a result; `None` if its values are of no type that columns have.
#[must_use]
pub fn column_type_of_field(field: &Field) -> Option<ColumnType> {
    let marked = match field.data_type() {
        DataType::List(item) if may_be_marked(item.data_type()) => {
            marked_type(field).filter(|ty| matches!(ty, ColumnType::Array(_)))
        }
        ty if may_be_marked(ty) => marked_type(field).filter(|ty| !matches!(ty, ColumnType::Array(_))),
        _ => None,
    };
    let is_of_field = |marked: &ColumnType| match (marked, field.data_type()) {
        (ColumnType::Array(element), DataType::List(item)) => {
            is_carried_by(element.column_type(), item.data_type())
        }
        (marked, ty) => is_carried_by(*marked, ty),
    };
    marked.filter(is_of_field).or_else(|| column_type_of_arrow(field.data_type()))
}

/// Whether values of this Arrow type may be of a type that is told by a mark.
fn may_be_marked(ty: &DataType) -> bool {
    ty.is_string() || *ty == DataType::Binary
}

/// Whether values of a type that is told by a mark are of this Arrow type: what was cast may have the mark that it had before.
fn is_carried_by(marked: ColumnType, ty: &DataType) -> bool {
    marked.is_bits() == (*ty == DataType::Binary)
}

/// The column that a view has for one of its query's. Rows, and arrays of arrays, are shown as text.
pub(crate) fn view_column(name: String, field: &Field) -> ViewColumn {
    let is_list = matches!(field.data_type(), DataType::List(_));
    let shown = if is_list { ColumnType::Array(ElementType::Text) } else { ColumnType::Text };
    ViewColumn { name, ty: column_type_of_field(field).unwrap_or(shown), default: None }
}

/// The type that a field is marked with.
pub(crate) fn marked_type(field: &Field) -> Option<ColumnType> {
    marked_as(field.metadata().get(KEY)?)
}

fn marked_as(mark: &str) -> Option<ColumnType> {
    if let Some(element) = mark.strip_prefix(LIST) {
        return marked_as(element).and_then(ElementType::of).map(ColumnType::Array);
    }
    let length = |kind: &str| mark.strip_prefix(kind)?.parse().ok();
    if mark == JSON {
        return Some(ColumnType::Json);
    }
    if mark == JSONB {
        return Some(ColumnType::Jsonb);
    }
    if let Some(length) = mark.strip_prefix(VARBIT) {
        return Some(ColumnType::Varbit(length.trim_start().parse().ok()));
    }
    length(CHAR)
        .map(ColumnType::Char)
        .or_else(|| length(VARCHAR).map(ColumnType::Varchar))
        .or_else(|| length(BIT).map(|length| ColumnType::Bit(Some(length))))
}
