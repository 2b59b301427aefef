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
use super::instants;
use crate::error::{SqlError, SqlState};
use crate::scalar::cast_function::literal_as;
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, EnumType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Cast, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Projection, Union,
};
use std::sync::Arc;

/// The column with the number of a row among its equals: no name of a user's.
const PLACE: &str = "\u{1}place";

/// The type of a column of several inputs; `None` if DataFusion is to find it, or to refuse them.
fn common_type<'t>(mut types: impl Iterator<Item = &'t DataType> + Clone) -> Option<DataType> {
    let is_double = types.clone().any(DataType::is_floating) && types.clone().any(DataType::is_decimal);
    if is_double {
        return Some(DataType::Float64);
    }
    if let Some(labels) = types.clone().find_map(EnumType::of_arrow) {
        let is_same = |ty: &DataType| ty.is_null() || ty.is_string() || *ty == labels.arrow();
        return types.all(is_same).then(|| labels.arrow());
    }
    if let Some(common) = instants::common_type(types.clone()) {
        return Some(common);
    }
    let first = types.next()?.clone();
    types.try_fold(first, |known, other| {
        if known == *other || other.is_null() {
            return Some(known);
        }
        if known.is_null() {
            return Some(other.clone());
        }
        let alike =
            (known.is_numeric() && other.is_numeric()) || (known.is_temporal() && other.is_temporal());
        if alike { comparison_coercion(&known, other) } else { None }
    })
}

/// For each column the type that it is to have.
fn common_types(inputs: &[&LogicalPlan]) -> Vec<Option<DataType>> {
    let width = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let of_column =
        |column: usize| common_type(inputs.iter().map(move |input| input.schema().field(column).data_type()));
    (0..width).map(of_column).collect()
}

/// The input with its columns of these types.
fn with_types(input: Arc<LogicalPlan>, types: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let differs = |(field, ty): (&Arc<arrow::datatypes::Field>, &Option<DataType>)| {
        ty.as_ref().is_some_and(|ty| ty != field.data_type())
    };
    if !schema.fields().iter().zip(types).any(differs) {
        return Ok(input);
    }
    let columns = schema.iter().zip(types).enumerate().map(|(place, ((qualifier, field), ty))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        Ok(match ty {
            Some(ty)
                if field.data_type().is_string()
                    && let Some(labels) = EnumType::of_arrow(ty) =>
            {
                require_literal(&input, place, labels)?;
                literal_as(column, ColumnType::Enum(labels))?
                    .alias_qualified(qualifier.cloned(), field.name())
            }
            Some(ty) if ty != field.data_type() && ty.is_temporal() => {
                instants::as_type(column, ty)?.alias_qualified(qualifier.cloned(), field.name())
            }
            Some(ty) if ty != field.data_type() => Expr::Cast(Cast::new(Box::new(column), ty.clone()))
                .alias_qualified(qualifier.cloned(), field.name()),
            _ => column,
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
}

/// `42804` for text beside an enum that is no literal.
fn require_literal(input: &LogicalPlan, place: usize, labels: EnumType) -> Result<()> {
    let is_literal = |expression: &Expr| match expression {
        Expr::Alias(alias) => matches!(*alias.expr, Expr::Literal(..)),
        other => matches!(other, Expr::Literal(..)),
    };
    match input {
        LogicalPlan::Projection(projection) if projection.expr.get(place).is_some_and(is_literal) => Ok(()),
        _ => {
            let message = format!("types {labels} and text cannot be matched");
            Err(SqlError::new(SqlState::DatatypeMismatch, message).into())
        }
    }
}

/// The UNION with inputs of one type.
pub(super) fn settle_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let inputs: Vec<&LogicalPlan> = union.inputs.iter().map(AsRef::as_ref).collect();
    let types = common_types(&inputs);
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
    let types = common_types(&[&join.left, &join.right]);
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
