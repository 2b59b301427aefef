// SPDX-License-Identifier: Apache-2.0
//! Places of outputs in ROLLUP, CUBE and GROUPING SETS, which DataFusion takes for numbers there, and expressions that stand in one
//! twice, of which it makes one; all rows as one group.

use super::recursion::aggregates;
use crate::error::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};

/// Says that all rows are one group, where they are without a column that they are grouped by: `GROUP BY ()`, of which DataFusion
/// does not know the empty set, and HAVING where nothing is aggregated, which it takes for a condition of each row. Beside other
/// groups the empty set changes nothing.
pub(super) fn as_one_group(select: &mut Select) {
    let has_having_alone = select.having.is_some() && !aggregates(select);
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    let given = groups.len();
    groups.retain(|group| !matches!(group, Expr::Tuple(columns) if columns.is_empty()));
    if groups.is_empty() && (given > 0 || has_having_alone) {
        groups.push(Expr::GroupingSets(vec![Vec::new()]));
    }
}

/// Puts outputs in the places of their numbers.
///
/// # Errors
/// `42P10` for a number that is no output's.
pub(super) fn outputs_by_place(select: &mut Select) -> Result<(), SqlError> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    for group in groups {
        let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = group else { continue };
        for expression in sets.iter_mut().flatten() {
            let Some(place) = place_of(expression) else { continue };
            *expression = output(&select.projection, place)?;
        }
        if let Some(sets) = written_out(group)? {
            *group = Expr::GroupingSets(sets);
        }
    }
    Ok(())
}

/// The most elements of a CUBE, as in PostgreSQL: its sets are as many as two to the power of them.
const CUBE_MAX: usize = 12;

/// The sets of a CUBE or ROLLUP in which an expression stands twice, each with its expressions once: so a set may be there several
/// times, and its groups as often. `None` of all others.
///
/// # Errors
/// `54011` for a CUBE of too many elements.
fn written_out(group: &Expr) -> Result<Option<Vec<Vec<Expr>>>, SqlError> {
    let (Expr::Cube(parts) | Expr::Rollup(parts)) = group else { return Ok(None) };
    let all: Vec<&Expr> = parts.iter().flatten().collect();
    if all.iter().enumerate().all(|(place, expression)| !all[..place].contains(expression)) {
        return Ok(None);
    }
    let with_each_once = |chosen: Vec<&Vec<Expr>>| {
        let mut set: Vec<Expr> = Vec::new();
        for expression in chosen.into_iter().flatten() {
            if !set.contains(expression) {
                set.push(expression.clone());
            }
        }
        set
    };
    if matches!(group, Expr::Rollup(_)) {
        let sets = (0..=parts.len()).rev().map(|count| with_each_once(parts[..count].iter().collect()));
        return Ok(Some(sets.collect()));
    }
    if parts.len() > CUBE_MAX {
        let message = format!("CUBE is limited to {CUBE_MAX} elements");
        return Err(SqlError::new(SqlState::TooManyColumns, message));
    }
    let sets = (0..1_usize << parts.len()).rev().map(|choice| {
        let chosen = parts.iter().enumerate().filter(|(place, _)| ((choice >> place) & 1) == 1);
        with_each_once(chosen.map(|(_, part)| part).collect())
    });
    Ok(Some(sets.collect()))
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
