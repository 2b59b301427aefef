// SPDX-License-Identifier: Apache-2.0
//! `SET`: which columns get which expressions, for UPDATE and for ON CONFLICT DO UPDATE.

use super::target::Target;
use crate::error::{SqlError, SqlState};
use crate::parse::is_default;
use crate::select::{self, quoted};
use coeval_store::Identity;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
};

/// What a column is set to.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there are as many as the statement has columns")]
pub(super) enum SetValue {
    /// Its default.
    Default,
    /// This expression, over the row as it was.
    Expression(Expr),
}

/// One column and what it is set to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SetColumn {
    /// The column, by its index in the definition.
    pub(super) column: usize,
    pub(super) value: SetValue,
}

/// The columns that a SET list changes, in its order.
///
/// # Errors
/// `42703` for unknown columns, `42601` for a column that is set twice and for lists of different lengths,
/// `428C9` for a value given to an identity column that is always generated.
pub(super) fn resolve(target: &Target, assignments: &[Assignment]) -> Result<Vec<SetColumn>, SqlError> {
    let mut columns: Vec<SetColumn> = Vec::with_capacity(assignments.len());
    let mut set = |name: &ObjectName, value: Expr| {
        let column = target.column_of_name(name)?;
        let value = if is_default(&value) { SetValue::Default } else { SetValue::Expression(value) };
        refuse_generated(target, column, &value)?;
        if columns.iter().any(|other| other.column == column) {
            let name = &target.def.columns[column].name;
            return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")));
        }
        columns.push(SetColumn { column, value });
        Ok(())
    };
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => set(name, assignment.value.clone())?,
            AssignmentTarget::Tuple(names) => {
                let values = split(&assignment.value, names.len())?;
                names.iter().zip(values).try_for_each(|(name, value)| set(name, value))?;
            }
        }
    }
    Ok(columns)
}

fn refuse_generated(target: &Target, column: usize, value: &SetValue) -> Result<(), SqlError> {
    let column = &target.def.columns[column];
    if column.generated.is_some() && *value != SetValue::Default {
        let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
        return Err(SqlError::new(SqlState::GeneratedAlways, message)
            .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
    }
    if column.identity != Some(Identity::Always) || *value == SetValue::Default {
        return Ok(());
    }
    let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
    Err(SqlError::new(SqlState::GeneratedAlways, message).with_detail(always_generated(&column.name)))
}

/// The detail of every 428C9.
pub(super) fn always_generated(column: &str) -> String {
    format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS.")
}

/// The single expressions of a row-valued one.
fn split(value: &Expr, count: usize) -> Result<Vec<Expr>, SqlError> {
    let values = match value {
        Expr::Tuple(values) => values.clone(),
        Expr::Nested(inner) if count == 1 => vec![(**inner).clone()],
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            row_arguments(&function.args)?
        }
        Expr::Subquery(query) => split_query(query, count)?,
        _ => {
            let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        }
    };
    if values.len() == count {
        Ok(values)
    } else {
        Err(SqlError::syntax("number of columns does not match number of values"))
    }
}

fn row_arguments(arguments: &FunctionArguments) -> Result<Vec<Expr>, SqlError> {
    let FunctionArguments::List(list) = arguments else { return Ok(Vec::new()) };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Ok(expression.clone()),
        other => Err(SqlError::unsupported(format_args!("{other} in a row"))),
    };
    list.args.iter().map(plain).collect()
}

/// One subquery for each column of a subquery with several.
fn split_query(query: &Query, count: usize) -> Result<Vec<Expr>, SqlError> {
    if let SetExpr::Select(select) = query.body.as_ref()
        && select.distinct.is_none()
        && select.projection.iter().all(is_single)
    {
        if select.projection.len() != count {
            return Err(SqlError::syntax("number of columns does not match number of values"));
        }
        let single = |item: &SelectItem| {
            let mut query = query.clone();
            let mut select = select.clone();
            select.projection = vec![item.clone()];
            *query.body = SetExpr::Select(select);
            Expr::Subquery(Box::new(query))
        };
        return Ok(select.projection.iter().map(single).collect());
    }
    let names: Vec<String> = (0..count).map(|number| format!("column{number}")).collect();
    let columns = names.iter().map(|name| TableAliasColumnDef::from_name(name.as_str()));
    let alias = TableAlias { explicit: true, name: quoted("row"), columns: columns.collect(), at: None };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(alias),
        sample: None,
    };
    let from = vec![TableWithJoins { relation, joins: Vec::new() }];
    let single = |name: &String| {
        let item = SelectItem::UnnamedExpr(Expr::Identifier(quoted(name.as_str())));
        Expr::Subquery(Box::new(select::query(None, vec![item], from.clone(), None)))
    };
    Ok(names.iter().map(single).collect())
}

fn is_single(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}
