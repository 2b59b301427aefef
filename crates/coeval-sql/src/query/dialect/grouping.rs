// SPDX-License-Identifier: Apache-2.0
//! Forms of GROUP BY that DataFusion has not, or takes for others.
//!
//! | form | becomes |
//! |---|---|
//! | `GROUP BY (a, b)` | `GROUP BY a, b` |
//! | `GROUP BY ()`, HAVING without groups and aggregates | `GROUP BY GROUPING SETS (())` |
//! | `ROLLUP (1)`, a number to DataFusion | `ROLLUP (a)` with the first output |
//! | `ROLLUP ((a, b), c)`, `CUBE ((a, b), c)`, and with an expression twice | the sets that they stand for |
//! | sets within `GROUPING SETS` | sets beside the others |
//! | `GROUP BY DISTINCT` of several of them | all their combinations, each once |

use super::distinct_on::{are_same, meant};
use super::recursion::aggregates;
use super::{COPIED_MAX, unqualified};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::DISTINCT_SETS;
use crate::walk::each_expression;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};
use std::collections::HashMap;

/// What rows are grouped by for some of the groups.
type Set = Vec<Expr>;

/// Says that all rows are one group, where they are without a column that they are grouped by: `GROUP BY ()`, of which DataFusion
/// does not know the empty set, and HAVING where nothing is aggregated, which it takes for a condition of each row. Beside other
/// groups the empty set changes nothing.
pub(super) fn as_one_group(select: &mut Select) {
    let has_having_alone = select.having.is_some() && !aggregates(select);
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    let given = groups.len();
    groups.retain(|group| !matches!(group, Expr::Tuple(columns) if columns.is_empty()));
    let has_none = groups.iter().all(is_mark);
    if has_none && (given > 0 || has_having_alone) {
        groups.push(Expr::GroupingSets(vec![Vec::new()]));
    }
}

/// Writes groups as DataFusion knows them.
///
/// # Errors
/// `42P10` for a number that is no output's, `54011` for a CUBE of too many elements, `54001` for too many sets, `42601` for an empty one within
/// ROLLUP or CUBE.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    let outputs = &select.projection;
    let is_distinct = groups.iter().any(is_mark);
    groups.retain(|group| !is_mark(group));
    if groups.iter().any(|group| is_sets(group) || is_row(group)) {
        let mut written = Vec::with_capacity(groups.len());
        for group in groups.iter() {
            if is_sets(group) {
                written.push(known_sets(group, outputs)?);
            } else {
                columns_of(group, &mut written);
            }
        }
        *groups = written;
    }
    if is_distinct && groups.iter().any(is_sets) {
        *groups = vec![Expr::GroupingSets(different_sets(groups, outputs)?)];
    }
    Ok(())
}

/// Refuses a SELECT whose outputs would become too large in GROUP BY and HAVING: DataFusion puts an output in each place that names it.
///
/// # Errors
/// `54001`.
pub(super) fn refuse_copies(select: &Select) -> Result<(), SqlError> {
    let has_groups = matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if !groups.is_empty());
    if !has_groups && select.having.is_none() {
        return Ok(());
    }
    let parts = |output: &SelectItem| match output {
        SelectItem::ExprWithAlias { expr, alias } => {
            let mut parts = 0_usize;
            each_expression(expr, |_| parts += 1);
            Some((fold(alias), parts))
        }
        _ => None,
    };
    let outputs: HashMap<String, usize> = select.projection.iter().filter_map(parts).collect();
    if outputs.is_empty() {
        return Ok(());
    }
    let mut copied = 0_usize;
    let mut count = |part: &Expr| {
        if let Expr::Identifier(name) = part {
            copied = copied.saturating_add(outputs.get(&fold(name)).copied().unwrap_or(0));
        }
    };
    each_expression(&select.group_by, &mut count);
    each_expression(&select.having, &mut count);
    if copied <= COPIED_MAX {
        return Ok(());
    }
    let message = "the outputs that GROUP BY and HAVING name are too large together";
    Err(SqlError::new(SqlState::StatementTooComplex, message)
        .with_detail("Each counts as often as it is named.")
        .with_hint("Compute them in a subquery in FROM."))
}

/// Whether this is the function that asks for different sets alone.
fn is_mark(group: &Expr) -> bool {
    matches!(group, Expr::Function(function)
        if unqualified(&function.name).is_some_and(|name| name == DISTINCT_SETS))
}

fn is_sets(group: &Expr) -> bool {
    matches!(group, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))
}

fn is_row(group: &Expr) -> bool {
    match group {
        Expr::Tuple(_) => true,
        Expr::Nested(inner) => is_row(inner),
        _ => false,
    }
}

/// Adds the columns of a row, those of rows in it among them; of anything else, itself.
fn columns_of(group: &Expr, columns: &mut Vec<Expr>) {
    match group {
        Expr::Tuple(row) => row.iter().for_each(|column| columns_of(column, columns)),
        Expr::Nested(inner) if is_row(inner) => columns_of(inner, columns),
        other => columns.push(other.clone()),
    }
}

/// The sets in a form that DataFusion knows.
fn known_sets(group: &Expr, outputs: &[SelectItem]) -> Result<Expr, SqlError> {
    let (parts, known): (_, fn(Vec<Set>) -> Expr) = match group {
        Expr::Rollup(parts) => (parts, Expr::Rollup),
        Expr::Cube(parts) => (parts, Expr::Cube),
        other => return Ok(Expr::GroupingSets(sets_of(other, outputs)?)),
    };
    let parts = parts_of(parts, outputs)?;
    let all: Vec<&Expr> = parts.iter().flatten().collect();
    let is_each_once = all.iter().enumerate().all(|(place, expression)| !all[..place].contains(expression));
    if is_each_once && parts.iter().all(|part| part.len() == 1) {
        return Ok(known(parts));
    }
    Ok(Expr::GroupingSets(sets_of(group, outputs)?))
}

/// The sets that a group stands for.
fn sets_of(group: &Expr, outputs: &[SelectItem]) -> Result<Vec<Set>, SqlError> {
    match group {
        Expr::GroupingSets(members) => {
            let mut sets = Vec::with_capacity(members.len());
            for member in members {
                match member.as_slice() {
                    [one] if is_sets(one) => sets.append(&mut sets_of(one, outputs)?),
                    columns => sets.push(set_of(columns, outputs)?),
                }
            }
            Ok(sets)
        }
        Expr::Rollup(parts) => {
            let parts = parts_of(parts, outputs)?;
            Ok((0..=parts.len()).rev().map(|count| with_each_once(parts[..count].iter())).collect())
        }
        Expr::Cube(parts) => cube(&parts_of(parts, outputs)?),
        other => Ok(vec![set_of(std::slice::from_ref(other), outputs)?]),
    }
}

/// The most elements of a CUBE, as in PostgreSQL: its sets are as many as two to the power of them.
const CUBE_MAX: usize = 12;

fn cube(parts: &[Set]) -> Result<Vec<Set>, SqlError> {
    if parts.len() > CUBE_MAX {
        let message = format!("CUBE is limited to {CUBE_MAX} elements");
        return Err(SqlError::new(SqlState::TooManyColumns, message));
    }
    let sets = (0..1_usize << parts.len()).rev().map(|choice| {
        let chosen = parts.iter().enumerate().filter(|(place, _)| ((choice >> place) & 1) == 1);
        with_each_once(chosen.map(|(_, part)| part))
    });
    Ok(sets.collect())
}

/// The elements of ROLLUP or CUBE, each with its columns.
fn parts_of(parts: &[Vec<Expr>], outputs: &[SelectItem]) -> Result<Vec<Set>, SqlError> {
    let parts = parts.iter().map(|part| match part.as_slice() {
        [] => Err(SqlError::new(SqlState::SyntaxError, "syntax error at or near \")\"")),
        columns => set_of(columns, outputs),
    });
    parts.collect()
}

/// The columns of a set, outputs in the places of their numbers.
fn set_of(columns: &[Expr], outputs: &[SelectItem]) -> Result<Set, SqlError> {
    let mut set = Vec::with_capacity(columns.len());
    columns.iter().for_each(|column| columns_of(column, &mut set));
    for column in &mut set {
        if let Some(place) = place_of(column) {
            *column = output(outputs, place)?;
        }
    }
    Ok(set)
}

/// Several sets as one, with each of their columns once: of one that is there twice, DataFusion makes another.
fn with_each_once<'s>(sets: impl Iterator<Item = &'s Set>) -> Set {
    let mut set = Vec::new();
    for expression in sets.flatten() {
        if !set.contains(expression) {
            set.push(expression.clone());
        }
    }
    set
}

/// The most sets of one GROUP BY, as in PostgreSQL.
const SETS_MAX: usize = 4_096;

/// Each set that comes of a set of each group, once.
fn different_sets(groups: &[Expr], outputs: &[SelectItem]) -> Result<Vec<Set>, SqlError> {
    let mut sets: Vec<Set> = vec![Vec::new()];
    for group in groups {
        let others = sets_of(group, outputs)?;
        if sets.len().saturating_mul(others.len()) > SETS_MAX {
            let message = format!("too many grouping sets present (maximum {SETS_MAX})");
            return Err(SqlError::new(SqlState::StatementTooComplex, message));
        }
        let with_others = |set: &Set| -> Vec<Set> {
            others.iter().map(|other| with_each_once([set, other].into_iter())).collect()
        };
        sets = sets.iter().flat_map(with_others).collect();
    }
    let mut different: Vec<Set> = Vec::new();
    for set in sets {
        if !different.iter().any(|known| are_one(known, &set, outputs)) {
            different.push(set);
        }
    }
    Ok(different)
}

/// Whether two sets have the same columns, in whatever order.
fn are_one(one: &[Expr], other: &[Expr], outputs: &[SelectItem]) -> bool {
    let is_there = |column: &Expr| {
        let column = meant(column, outputs);
        other.iter().any(|known| are_same(&meant(known, outputs), &column))
    };
    one.len() == other.len() && one.iter().all(is_there)
}

/// The place of an output that an expression is.
pub(in crate::query) fn place_of(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn output(outputs: &[SelectItem], place: usize) -> Result<Expr, SqlError> {
    let before = outputs.get(..place).unwrap_or_default();
    match before.last() {
        // How many columns a wildcard is, is not known here.
        _ if before.iter().any(|item| !is_expression(item)) => {
            Err(SqlError::unsupported("a place behind * in grouping sets"))
        }
        Some(SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) => {
            Ok(expression.clone())
        }
        _ => {
            let message = format!("GROUP BY position {place} is not in select list");
            Err(SqlError::new(SqlState::InvalidColumnReference, message))
        }
    }
}

fn is_expression(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}
