// SPDX-License-Identifier: Apache-2.0
//! The columns of sets that stand beside each other in FROM: `unnest` of several arrays, and `ROWS FROM`.
//!
//! A column that the alias does not name is called as the function that gives it. Two of one name are told apart behind the mark,
//! which is not shown.
//!
//! | sets | columns |
//! |---|---|
//! | `unnest(x, y) AS u(a)` | `a`, `unnest` |
//! | `ROWS FROM (generate_series(1, 2), unnest(x)) WITH ORDINALITY` | `generate_series`, `unnest`, `ordinality` |
//! | `ROWS FROM (unnest(x)) AS u` | `u` |

use crate::column_name::{MARK, column_name, unmarked};
use crate::names::fold;
use crate::parse::ROWS_FROM;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, ObjectNamePart, TableAlias, TableFactor,
};

/// The function that gives the elements of an array.
const UNNEST: &str = "unnest";

/// What sets beside each other are called.
pub(in crate::query) struct SetNames {
    /// The name of their rows.
    pub(in crate::query) table: String,
    /// Those of their columns, each once.
    pub(in crate::query) columns: Vec<String>,
}

/// The names of such sets; `None` of anything else, and where a set has several columns.
pub(in crate::query) fn names_of_sets(factor: &TableFactor) -> Option<SetNames> {
    let (sets, alias, is_numbered) = match factor {
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            (unnested(array_exprs.len())?, alias.as_ref(), *with_ordinality)
        }
        TableFactor::Table { name, alias, args: Some(arguments), with_ordinality, .. } => {
            (sets_of(name, &arguments.args)?, alias.as_ref(), *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (sets_of(name, args)?, alias.as_ref(), *with_ordinality)
        }
        _ => return None,
    };
    let own = alias.map(|alias| fold(&alias.name));
    let table = own.clone().or_else(|| sets.first().cloned())?;
    let mut names = match own {
        Some(own) if sets.len() == 1 => vec![own],
        _ => sets,
    };
    if is_numbered {
        names.push("ordinality".to_owned());
    }
    Some(SetNames { table, columns: told_apart(names, alias) })
}

/// The names, but for the first ones those that the alias lists.
fn told_apart(names: Vec<String>, alias: Option<&TableAlias>) -> Vec<String> {
    let given = alias.map_or(&[][..], |alias| alias.columns.as_slice());
    let mut columns: Vec<String> = Vec::with_capacity(names.len());
    for (place, name) in names.into_iter().enumerate() {
        let column = match given.get(place) {
            Some(given) => fold(&given.name),
            None if columns.iter().any(|other| unmarked(other) == name) => format!("{name}{MARK}{place}"),
            None => name,
        };
        columns.push(column);
    }
    columns
}

/// For each set the function that it is of; `None` if what is called has no sets beside each other.
fn sets_of(name: &ObjectName, arguments: &[FunctionArg]) -> Option<Vec<String>> {
    let function = name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
    match function.as_str() {
        UNNEST => unnested(arguments.len()),
        ROWS_FROM => arguments.iter().map(set_name).collect(),
        _ => None,
    }
}

/// A single array is no set beside others.
fn unnested(count: usize) -> Option<Vec<String>> {
    (count > 1).then(|| vec![UNNEST.to_owned(); count])
}

/// What the only column of a set is called.
fn set_name(set: &FunctionArg) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(set)) = set else { return None };
    let name = column_name(set);
    let own = if matches!(set, Expr::Function(_)) { crate::json::set_columns(&name) } else { &[] };
    match own {
        [] => Some(name),
        [only] => Some(only.name.to_owned()),
        _ => None,
    }
}
