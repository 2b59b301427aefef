// SPDX-License-Identifier: Apache-2.0
//! Functions of arrays that DataFusion has not, or has with other types: containment, lengths, places.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | `@>`, `<@`, `&&` | NULL is equal to nothing | NULL is equal to NULL; no `&&` |
//! | `<` and its like | NULL elements above all others | below |
//! | `array_length`, `cardinality`, `array_position` | `int` | an unsigned number |
//! | `array_length('{}', 1)` | NULL | 0 |

use super::any_numeric::{alike_arrays, alike_element};
use super::comparisons::{self, FOUND, MISSING};
use crate::allowance::Meter;
use crate::catalog::array_of_text;
use crate::constants::made_of;
use crate::error::{SqlError, SqlState};
use crate::types::{common_arrow_type, type_in_words};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray};
use arrow::compute::{SortOptions, cast, not};
use arrow::datatypes::{DataType, Field, Int64Type};
use arrow::row::{Row, RowConverter, Rows, SortField};
use chrono_tz::Tz;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// What a function tells of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    /// `left @> right`: every element of the right one is in the left one.
    Contains,
    /// `left && right`: some element of the right one is in the left one.
    Overlaps,
    /// `left < right` and its like: element by element, the shorter one first.
    Ordered(Operator),
    /// `array_length(array, dimension)`.
    Length,
    /// `cardinality(array)`.
    Cardinality,
    /// `array_position(array, element [, first])`.
    Position,
    /// `(found, array)`: NULL instead of false if an element is NULL, which may have been the one.
    Found,
    /// `(found, array)`: the contrary of that.
    Missing,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayFunction {
    told: Told,
    signature: Signature,
}

impl ArrayFunction {
    fn new(told: Told) -> Self {
        let counts: &[usize] = match told {
            Told::Contains
            | Told::Overlaps
            | Told::Ordered(_)
            | Told::Length
            | Told::Found
            | Told::Missing => &[2],
            Told::Cardinality => &[1],
            Told::Position => &[2, 3],
        };
        let counts = counts.iter().map(|&count| TypeSignature::Any(count)).collect();
        Self { told, signature: Signature::one_of(counts, Volatility::Immutable) }
    }
}

/// All of them, for the engine's registry.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        Told::Contains,
        Told::Overlaps,
        Told::Length,
        Told::Cardinality,
        Told::Position,
        Told::Found,
        Told::Missing,
    ];
    all.into_iter().map(|told| ScalarUDF::from(ArrayFunction::new(told)))
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        match self.told {
            Told::Contains => "coeval_array_contains",
            Told::Overlaps => "coeval_array_overlaps",
            Told::Ordered(_) => "coeval_array_ordered",
            Told::Length => "array_length",
            Told::Cardinality => "cardinality",
            Told::Position => "array_position",
            Told::Found => FOUND,
            Told::Missing => MISSING,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.told {
            Told::Contains | Told::Overlaps | Told::Ordered(_) | Told::Found | Told::Missing => {
                DataType::Boolean
            }
            Told::Length | Told::Cardinality | Told::Position => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of(&arguments.args, arguments.number_rows, |rows| {
            let meter = Meter::begin(&arguments.config_options, self.name());
            let sides = arguments.args.iter().map(Side::new).collect::<Result<Vec<_>>>()?;
            Ok(match self.told {
                Told::Contains | Told::Overlaps => {
                    self.compared(&sides[0].lists()?, &sides[1].lists()?, rows, &meter)?
                }
                Told::Ordered(operator) => ordered(operator, &sides[0].lists()?, &sides[1].lists()?, rows)?,
                Told::Length => lengths(&sides[0].lists()?, Some(&sides[1]), rows)?,
                Told::Cardinality => lengths(&sides[0].lists()?, None, rows)?,
                Told::Position => positions(&sides[0].lists()?, &sides[1], sides.get(2), rows)?,
                Told::Found => Arc::new(found(&sides[0], &sides[1].lists()?, rows)?),
                Told::Missing => Arc::new(not(&found(&sides[0], &sides[1].lists()?, rows)?)?),
            })
        })
    }
}

/// One argument: a value for each row, or one for all.
struct Side {
    values: ArrayRef,
    is_constant: bool,
}

impl Side {
    fn new(argument: &ColumnarValue) -> Result<Self> {
        let is_constant = matches!(argument, ColumnarValue::Scalar(_));
        Ok(Self { values: argument.to_array(1)?, is_constant })
    }

    fn place(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }

    /// The argument as arrays.
    fn lists(&self) -> Result<Lists> {
        let lists = match self.values.data_type() {
            DataType::List(_) => self.values.as_list::<i32>().clone(),
            DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                cast(&self.values, &DataType::List(Arc::clone(item)))?.as_list::<i32>().clone()
            }
            DataType::Null => {
                ListArray::new_null(Arc::new(Field::new_list_field(DataType::Null, true)), self.values.len())
            }
            other => {
                let message = format!("{} is no array", type_in_words(other));
                return Err(SqlError::new(SqlState::UndefinedFunction, message).into());
            }
        };
        Ok(Lists { lists, is_constant: self.is_constant })
    }
}

/// Arrays, one for each row or one for all.
struct Lists {
    lists: ListArray,
    is_constant: bool,
}

impl Lists {
    /// Where the elements of a row's array are; `None` for NULL.
    fn elements(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.is_constant { 0 } else { row };
        let offsets = self.lists.value_offsets();
        (!self.lists.is_null(row)).then(|| offsets[row] as usize..offsets[row + 1] as usize)
    }
}

/// The values, floats or arrays of them, with `0` in the place of each `-0`, which is equal to it; of other types as they are.
pub(super) fn with_one_zero(values: &ArrayRef) -> Result<ArrayRef> {
    let of_floats = values.as_list_opt::<i32>().filter(|lists| lists.value_type().is_floating());
    let Some(lists) = of_floats else { return Ok(normalize_float_zero(values)) };
    let (item, offsets, elements, nulls) = lists.clone().into_parts();
    Ok(Arc::new(ListArray::try_new(item, offsets, normalize_float_zero(&elements), nulls)?))
}

/// Values as bytes that are equal when the values are.
struct Comparable {
    rows: Rows,
    values: ArrayRef,
}

impl Comparable {
    /// Those of the one side, and those of the other, which are made of the first one's type.
    fn both(left: &ArrayRef, right: &ArrayRef) -> Result<(Self, Self)> {
        // Of an array without a type, such as `ARRAY[]`, no element is compared.
        let ty = if *left.data_type() == DataType::Null { right.data_type() } else { left.data_type() };
        let converter = RowConverter::new(vec![SortField::new(ty.clone())])?;
        let converted = |values: &ArrayRef| {
            let values = with_one_zero(&cast(values, ty)?)?;
            Ok::<_, DataFusionError>(Self {
                rows: converter.convert_columns(&[Arc::clone(&values)])?,
                values,
            })
        };
        Ok((converted(left)?, converted(right)?))
    }

    /// The elements of an array, to look them up.
    fn hashed(&self, places: Range<usize>, meter: &Meter) -> Result<HashSet<Row<'_>>> {
        let mut found = HashSet::with_capacity(places.len());
        for place in places.filter(|place| self.values.is_valid(*place)) {
            meter.step()?;
            found.insert(self.rows.row(place));
        }
        Ok(found)
    }
}

/// So many elements are compared with others one by one; more of both are looked up, so that the work grows with their sum.
const FEW: usize = 8;

/// Elements that are looked for between two looks whether the statement is to end.
const ELEMENTS_BETWEEN_LOOKS: usize = 1 << 12;

impl ArrayFunction {
    fn compared(&self, left: &Lists, right: &Lists, rows: usize, meter: &Meter) -> Result<ArrayRef> {
        let (left_values, right_values) = Comparable::both(left.lists.values(), right.lists.values())?;
        // The elements of a constant are looked up in each row.
        let mut constant = None;
        let mut largest = 0;
        let answers = (0..rows).map(|row| {
            let (Some(among), Some(wanted)) = (left.elements(row), right.elements(row)) else {
                return Ok(None);
            };
            if among.len() <= FEW || wanted.len() <= FEW {
                let is_equal =
                    |row, place| left_values.values.is_valid(place) && left_values.rows.row(place) == row;
                return self.told_of(wanted, &right_values, meter, |row| {
                    among.clone().any(|place| is_equal(row, place))
                });
            }
            // One set is there at a time.
            if among.len() > largest {
                meter.take((among.len() - largest) * size_of::<Row<'_>>() * 2)?;
                largest = among.len();
            }
            let hashed = || left_values.hashed(among.clone(), meter);
            if left.is_constant {
                let known = match &mut constant {
                    Some(known) => known,
                    missing => missing.insert(hashed()?),
                };
                return self.told_of(wanted, &right_values, meter, |row| known.contains(&row));
            }
            let known = hashed()?;
            self.told_of(wanted, &right_values, meter, |row| known.contains(&row))
        });
        Ok(Arc::new(answers.collect::<Result<BooleanArray>>()?))
    }

    /// Whether all elements that are wanted are among the others, or one of them is. NULL is nowhere.
    fn told_of<'r>(
        &self,
        wanted: Range<usize>,
        values: &'r Comparable,
        meter: &Meter,
        mut is_in: impl FnMut(Row<'r>) -> bool,
    ) -> Result<Option<bool>> {
        let is_all = self.told == Told::Contains;
        for (count, place) in wanted.enumerate() {
            if count % ELEMENTS_BETWEEN_LOOKS == 0 {
                meter.look()?;
            }
            if (values.values.is_valid(place) && is_in(values.rows.row(place))) != is_all {
                return Ok(Some(!is_all));
            }
        }
        Ok(Some(is_all))
    }
}

/// Whether the left array of a row stands to the right one as the operator says.
fn ordered(operator: Operator, left: &Lists, right: &Lists, rows: usize) -> Result<ArrayRef> {
    let (left_type, right_type) = (left.lists.data_type(), right.lists.data_type());
    let ty = common_arrow_type([left_type, right_type]).unwrap_or_else(|| left_type.clone());
    let converter = RowConverter::new(vec![SortField::new_with_options(
        ty.clone(),
        SortOptions { descending: false, nulls_first: false },
    )])?;
    let converted = |side: &Lists| {
        let lists: ArrayRef = Arc::new(side.lists.clone());
        Ok::<_, DataFusionError>(converter.convert_columns(&[with_one_zero(&cast(&lists, &ty)?)?])?)
    };
    let (left_rows, right_rows) = (converted(left)?, converted(right)?);
    let answers = (0..rows).map(|row| {
        left.elements(row)?;
        right.elements(row)?;
        let place = |side: &Lists| if side.is_constant { 0 } else { row };
        let order = left_rows.row(place(left)).cmp(&right_rows.row(place(right)));
        Some(match operator {
            Operator::Lt => order.is_lt(),
            Operator::LtEq => order.is_le(),
            Operator::Gt => order.is_gt(),
            _ => order.is_ge(),
        })
    });
    Ok(Arc::new(answers.collect::<BooleanArray>()))
}

/// The number of a place among the elements, as PostgreSQL counts.
fn number(place: usize) -> i32 {
    i32::try_from(place).unwrap_or(i32::MAX)
}

/// How many elements there are; with a dimension NULL where there is none of it.
fn lengths(lists: &Lists, dimension: Option<&Side>, rows: usize) -> Result<ArrayRef> {
    let dimension = dimension.map(|side| Ok::<_, SqlError>((cast(&side.values, &DataType::Int64)?, side)));
    let dimension = dimension.transpose()?;
    let lengths = (0..rows).map(|row| {
        let length = lists.elements(row)?.len();
        let Some((dimensions, side)) = &dimension else { return Some(number(length)) };
        let asked = dimensions.as_primitive::<Int64Type>();
        let place = side.place(row);
        (asked.is_valid(place) && asked.value(place) == 1 && length > 0).then(|| number(length))
    });
    Ok(Arc::new(lengths.collect::<Int32Array>()))
}

/// The first place of an element, from a place on. NULL is found, too.
fn positions(lists: &Lists, wanted: &Side, first: Option<&Side>, rows: usize) -> Result<ArrayRef> {
    let (elements, sought) = Comparable::both(lists.lists.values(), &wanted.values)?;
    let first = first.map(|side| Ok::<_, SqlError>((cast(&side.values, &DataType::Int64)?, side)));
    let first = first.transpose()?;
    let positions = (0..rows).map(|row| {
        let among = lists.elements(row)?;
        let skipped = first.as_ref().map_or(0, |(places, side)| {
            usize::try_from(places.as_primitive::<Int64Type>().value(side.place(row)) - 1).unwrap_or(0)
        });
        let wanted = wanted.place(row);
        among
            .clone()
            .skip(skipped)
            .find(|&place| elements.rows.row(place) == sought.rows.row(wanted))
            .map(|place| number(place - among.start + 1))
    });
    Ok(Arc::new(positions.collect::<Int32Array>()))
}

/// Whether an element was found; where it was not, one that is NULL leaves that open.
fn found(found: &Side, among: &Lists, rows: usize) -> Result<BooleanArray> {
    let values = cast(&found.values, &DataType::Boolean)?;
    let values = values.as_boolean();
    let answers = (0..rows).map(|row| {
        let mut elements = among.elements(row)?;
        let place = found.place(row);
        if values.is_valid(place) && values.value(place) {
            return Some(true);
        }
        let is_empty = elements.is_empty();
        let is_open = values.is_null(place) || elements.any(|element| among.lists.values().is_null(element));
        if is_empty { Some(false) } else { (!is_open).then_some(false) }
    });
    Ok(answers.collect())
}

/// An operator that has an array at one side: a literal at the other one becomes an array, and containment becomes a function. A
/// parameter there is an array by now.
pub(super) fn planned(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let told = match &raw.op {
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt => Some(Told::Contains),
        BinaryOperator::PGOverlap => Some(Told::Overlaps),
        BinaryOperator::Lt => Some(Told::Ordered(Operator::Lt)),
        BinaryOperator::LtEq => Some(Told::Ordered(Operator::LtEq)),
        BinaryOperator::Gt => Some(Told::Ordered(Operator::Gt)),
        BinaryOperator::GtEq => Some(Told::Ordered(Operator::GtEq)),
        BinaryOperator::StringConcat => None,
        _ => return Ok(PlannerResult::Original(raw)),
    };
    let list = |side: &Expr| side.get_type(schema).ok().filter(|ty| matches!(ty, DataType::List(_)));
    // NULL without a type is an array, and no element.
    let is_missing =
        |side: &Expr| told.is_none() && matches!(side, Expr::Literal(scalar, _) if scalar.is_null());
    let mut lists = (list(&raw.left), list(&raw.right));
    if let (Some(left), Some(right)) = lists.clone()
        && let Some(alike) = alike_arrays(&[raw.left.clone(), raw.right.clone()], &[left, right])?
        && let Ok([left, right]) = <[Expr; 2]>::try_from(alike)
    {
        (raw.left, raw.right) = (left, right);
        lists = (list(&raw.left), list(&raw.right));
    }
    if lists != (None, None) && matches!(told, Some(Told::Ordered(_))) {
        // Arguments of a function are no operands any more.
        comparisons::require(&raw.left, &raw.op, &raw.right, schema)?;
    }
    match lists {
        (None, None) => return Ok(PlannerResult::Original(raw)),
        (Some(_), None) if is_missing(&raw.right) => return Ok(PlannerResult::Planned(raw.left)),
        (None, Some(_)) if is_missing(&raw.left) => return Ok(PlannerResult::Planned(raw.right)),
        (Some(ty), None) => raw.right = alike_element(as_list(raw.right, &ty)?, &ty, schema)?,
        (None, Some(ty)) => raw.left = alike_element(as_list(raw.left, &ty)?, &ty, schema)?,
        (Some(_), Some(_)) => {}
    }
    let Some(told) = told else { return Ok(PlannerResult::Original(raw)) };
    let arguments = match raw.op {
        BinaryOperator::ArrowAt => vec![raw.right, raw.left],
        _ => vec![raw.left, raw.right],
    };
    Ok(PlannerResult::Planned(ScalarUDF::from(ArrayFunction::new(told)).call(arguments)))
}

/// Whether an array is between two others.
pub(super) fn between(array: Expr, low: Expr, high: Expr) -> Expr {
    let ordered = |operator, bound| {
        let function = ScalarUDF::from(ArrayFunction::new(Told::Ordered(operator)));
        function.call(vec![array.clone(), bound])
    };
    ordered(Operator::GtEq, low).and(ordered(Operator::LtEq, high))
}

/// The array that a literal stands for. What instants its elements are depends on the session's zone, which is known
/// when the query runs.
pub(super) fn array_literal(text: &str, element: &DataType) -> Result<Expr> {
    if let (DataType::Timestamp(_, Some(_)), Some(cast)) = (element, &*ARRAY_LIKE) {
        let example = Expr::Literal(ScalarValue::try_from(element)?, None);
        return Ok(cast.call(vec![lit(text), example]));
    }
    Ok(Expr::Literal(array_of_text(Some(text), element, Tz::UTC)?, None))
}

/// The cast to an array of the second argument's type.
static ARRAY_LIKE: LazyLock<Option<ScalarUDF>> = LazyLock::new(|| {
    crate::catalog::functions().into_iter().find(|function| function.name() == "coeval_array_like")
});

/// A literal as an array of this type; all else as it is.
fn as_list(side: Expr, ty: &DataType) -> Result<Expr> {
    let DataType::List(item) = ty else { return Ok(side) };
    match &side {
        Expr::Literal(scalar, _) => match scalar.try_as_str() {
            Some(Some(text)) => array_literal(text, item.data_type()),
            Some(None) => Ok(Expr::Literal(ScalarValue::try_new_null(ty)?, None)),
            None => Ok(side),
        },
        _ => Ok(side),
    }
}

#[cfg(test)]
mod tests;
