// SPDX-License-Identifier: Apache-2.0
//! UNION, INTERSECT and EXCEPT: one type for each column, and how often a row comes out.
//!
//! DataFusion tells of a UNION the types of its first input, and makes of INTERSECT and EXCEPT a join that keeps each
//! row of the first input or none of its equals. PostgreSQL has, of a row that comes m times in the first input and n
//! times in the second, min(m, n) in INTERSECT ALL and m - n in EXCEPT ALL. So with ALL the rows on both sides are
//! numbered among their equals first: the k-th of the one side then meets the k-th of the other, and no other.
//!
//! ```text
//! A EXCEPT ALL B -> A, row_number() OVER (PARTITION BY all columns)  anti join  B, the same
//! ```

use super::group_keys::{keyed_columns, with_keys};
use super::{instants, trimmed};
use crate::scalar::cast_function::{called, literal_as};
use crate::scalar::decimal_literal;
use crate::types::{
    column_type_of_arrow, column_type_of_field, common_arrow_type, is_text, require_common_type,
};
use arrow::datatypes::{DataType, Field};
use coeval_store::{ColumnType, EnumType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{
    Cast, Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Projection, Union,
};
use std::sync::Arc;

/// The column with the number of a row among its equals: no name of a user's.
const PLACE: &str = "\u{1}place";

/// What is done to a column of several inputs, so that it has one type.
enum Common {
    /// Nothing: it has one, or DataFusion is to find it, or to refuse the inputs.
    Kept,
    /// All inputs have this type.
    Of(DataType),
    /// All are text without a length: blanks that one input would be filled up with are of no other.
    PlainText,
    /// All are of this type, which is a text to Arrow; a literal is a value of it.
    Like(ColumnType),
}

/// What a column is to be.
fn common(inputs: &[&LogicalPlan], place: usize) -> Common {
    // NULLs and literals are as long as the others are.
    let of_a_type = |input: &&&LogicalPlan| {
        !is_literal(input, place) && !input.schema().field(place).data_type().is_null()
    };
    let of_column = |input: &&LogicalPlan| column_type_of_field(input.schema().field(place));
    let known: Option<Vec<ColumnType>> = inputs.iter().filter(of_a_type).map(of_column).collect();
    // Without `char(n)` the values are the same under any length, which a UNION forgets where its inputs have different ones. A
    // cast would keep conditions from the tables below.
    let is_filled_up = |ty: &ColumnType| matches!(ty, ColumnType::Char(_));
    if let Some([first, others @ ..]) = known.as_deref() {
        let is_one = others.iter().all(|ty| ty == first);
        if is_one && matches!(first, ColumnType::Char(_) | ColumnType::Json | ColumnType::Jsonb) {
            return Common::Like(*first);
        }
        let all = || others.iter().chain([first]);
        if all().copied().all(is_text) && all().any(is_filled_up) {
            return Common::PlainText;
        }
    }
    let types: Vec<&DataType> = inputs.iter().map(|input| input.schema().field(place).data_type()).collect();
    let ty = type_of_all(&types).or_else(|| with_digits_of_literals(inputs, place, &types));
    ty.map_or(Common::Kept, Common::Of)
}

/// The `numeric` of a column in which some inputs have a literal without a type, which DataFusion would give the digits of the others;
/// `None` of any other column. A literal that is no number of so many digits is read as one of any, such as NaN, and refused if it
/// is none of these.
fn with_digits_of_literals(inputs: &[&LogicalPlan], place: usize, types: &[&DataType]) -> Option<DataType> {
    let texts = inputs.iter().zip(types).filter(|(_, ty)| ty.is_string());
    let of_literals = texts.map(|(input, _)| {
        let text = text_of_literal(output(input, place)?)?;
        Some(decimal_literal(text).map_or(ColumnType::AnyNumeric, |(_, ty)| ty).arrow())
    });
    let of_literals: Vec<DataType> = of_literals.collect::<Option<_>>()?;
    let others = || types.iter().copied().filter(|ty| !ty.is_string());
    if !others().any(DataType::is_decimal) {
        return None;
    }
    common_arrow_type(others().chain(&of_literals)).filter(is_numeric)
}

/// Whether values of an Arrow type are of a `numeric`, with digits or without.
fn is_numeric(ty: &DataType) -> bool {
    ty.is_decimal() || *ty == ColumnType::AnyNumeric.arrow()
}

/// The text of a literal, whatever it is called.
fn text_of_literal(output: &Expr) -> Option<&str> {
    match output {
        Expr::Alias(alias) => text_of_literal(&alias.expr),
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// The type of a column of several inputs; `None` if DataFusion is to find it, or to refuse them. Texts beside another type are
/// literals by now, which are read as that.
fn type_of_all(types: &[&DataType]) -> Option<DataType> {
    let others = || types.iter().copied().filter(|ty| !ty.is_string());
    let has_texts = others().count() < types.len();
    // A literal has digits of its own.
    common_arrow_type(others()).filter(|ty| !(has_texts && ty.is_decimal()))
}

/// For each column what it is to be.
fn common_types(inputs: &[&LogicalPlan], operation: &str) -> Result<Vec<Common>> {
    let width = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    (0..width)
        .map(|place| {
            require_one_type(inputs, place, operation)?;
            Ok(common(inputs, place))
        })
        .collect()
}

/// Refuses a column of inputs that have no type in common: DataFusion makes text of them, which is then read as what the first was.
/// Literals are of the type of the others.
///
/// # Errors
/// `42804` and `42846`.
fn require_one_type(inputs: &[&LogicalPlan], place: usize, operation: &str) -> Result<()> {
    let types = inputs.iter().filter_map(|input| {
        let ty = input.schema().field(place).data_type();
        (!(ty.is_string() && is_literal(input, place))).then_some(ty)
    });
    Ok(require_common_type(operation, types)?)
}

/// The input with its columns of these types.
fn with_types(input: Arc<LogicalPlan>, types: &[Common]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let differs = |(field, common): (&Arc<Field>, &Common)| match common {
        Common::Kept => false,
        Common::Of(ty) => ty != field.data_type(),
        Common::PlainText => column_type_of_field(field) != Some(ColumnType::Text),
        Common::Like(_) => {
            field.data_type().is_string() && column_type_of_field(field) == Some(ColumnType::Text)
        }
    };
    if !schema.fields().iter().zip(types).any(differs) {
        return Ok(input);
    }
    let columns = schema.iter().zip(types).enumerate().map(|(place, ((qualifier, field), common))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if !differs((field, common)) {
            return Ok(column);
        }
        let typed = match common {
            Common::Kept => column,
            Common::PlainText => called(column, ColumnType::Text)?,
            Common::Like(ColumnType::Char(_)) => trimmed::without_blanks(&column)?,
            Common::Like(ty) => called(column, *ty)?,
            Common::Of(ty) => of_type(&input, place, column, ty)?,
        };
        Ok(typed.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
}

/// The column of an input as one of this type, which is not its own.
fn of_type(input: &LogicalPlan, place: usize, column: Expr, ty: &DataType) -> Result<Expr> {
    let is_text = input.schema().field(place).data_type().is_string();
    if is_text && let Some(labels) = EnumType::of_arrow(ty) {
        return Ok(literal_as(column, ColumnType::Enum(labels))?);
    }
    if ty.is_temporal() {
        return instants::as_type(column, ty);
    }
    match column_type_of_arrow(ty) {
        Some(ty) if is_text => Ok(called(column, ty)?),
        Some(_) | None => Ok(Expr::Cast(Cast::new(Box::new(column), ty.clone()))),
    }
}

/// Whether a column of an input is a literal of no type of its own, or a parameter.
fn is_literal(input: &LogicalPlan, place: usize) -> bool {
    output(input, place).is_some_and(is_untyped)
}

/// What a column of an input is in its select list; `None` if it has none.
fn output(input: &LogicalPlan, place: usize) -> Option<&Expr> {
    match input {
        LogicalPlan::Projection(projection) => projection.expr.get(place),
        LogicalPlan::Limit(limit) => output(&limit.input, place),
        LogicalPlan::Sort(sort) => output(&sort.input, place),
        // What tells sides apart that have columns of one name.
        LogicalPlan::SubqueryAlias(alias) => output(&alias.input, place),
        // The first side of INTERSECT and EXCEPT.
        LogicalPlan::Distinct(Distinct::All(input)) => output(input, place),
        _ => None,
    }
}

/// Whether an output is a literal or a parameter, whatever it is called.
fn is_untyped(output: &Expr) -> bool {
    match output {
        Expr::Alias(alias) => is_untyped(&alias.expr),
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        _ => false,
    }
}

/// The UNION with inputs of one type.
pub(super) fn settle_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let inputs: Vec<&LogicalPlan> = union.inputs.iter().map(AsRef::as_ref).collect();
    let types = common_types(&inputs, "UNION")?;
    let inputs =
        union.inputs.into_iter().map(|input| with_types(input, &types)).collect::<Result<Vec<_>>>()?;
    // Anew in any case: an input may be a UNION itself, which has become one of other types.
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// Whether a join is an INTERSECT or EXCEPT: nothing else compares NULL as a value before a plan is optimized.
pub(super) fn is_set_operation(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.filter.is_none()
}

/// The INTERSECT or EXCEPT with both sides of one type; with ALL, by the places of rows among their equals.
pub(super) fn settle_join(join: Join) -> Result<Transformed<LogicalPlan>> {
    let operation = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
    let types = common_types(&[&join.left, &join.right], operation)?;
    // Without ALL the first side has no doubles.
    let is_all = !matches!(join.left.as_ref(), LogicalPlan::Distinct(_));
    let schema = Arc::clone(join.left.schema());
    let (left, right) = (with_types(join.left, &types)?, with_types(join.right, &types)?);
    let keyed = keyed_columns(&left, &right)?;
    let ((mut left, mut left_keys), (mut right, mut right_keys)) =
        (with_keys(left, &keyed)?, with_keys(right, &keyed)?);
    if is_all {
        ((left, left_keys), (right, right_keys)) = (numbered(left, left_keys)?, numbered(right, right_keys)?);
    }
    let joined = LogicalPlanBuilder::from(Arc::unwrap_or_clone(left)).join_detailed(
        Arc::unwrap_or_clone(right),
        join.join_type,
        (left_keys, right_keys),
        None,
        NullEquality::NullEqualsNull,
    )?;
    if !is_all && keyed.is_empty() {
        return Ok(Transformed::yes(joined.build()?));
    }
    Ok(Transformed::yes(joined.project(schema.columns().into_iter().map(Expr::Column))?.build()?))
}

/// The rows, each with its number among those that are equal to it in the compared columns, which it is one of then.
fn numbered(input: Arc<LogicalPlan>, mut compared: Vec<Column>) -> Result<(Arc<LogicalPlan>, Vec<Column>)> {
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let place = row_number().partition_by(compared.iter().cloned().map(Expr::Column).collect()).build()?;
    let name = place.schema_name().to_string();
    let windowed = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).window([place])?;
    let place = Expr::Column(Column::from_name(name)).alias(PLACE);
    compared.push(Column::from_name(PLACE));
    Ok((Arc::new(windowed.project(columns.into_iter().chain([place]))?.build()?), compared))
}
