// SPDX-License-Identifier: Apache-2.0
//! The columns of joined tables in PostgreSQL's order: those that `USING` or `NATURAL` makes one of two come first, then the others of
//! the left side, then those of the right one. A name without its table means the one column.

use super::{Columns, Scopes, SeenParts};
use crate::names::fold;
use crate::parse::join_name;
use crate::query::typing::Merging;
use crate::select::call;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableFactor,
    TableWithJoins, Value,
};

/// A column of what is joined.
#[derive(Clone)]
pub(in crate::query) struct JoinedColumn {
    pub(in crate::query) name: String,
    /// What it is, in columns of single tables.
    pub(in crate::query) value: Expr,
    /// Whether it is one of two.
    pub(in crate::query) is_merged: bool,
    /// Its type, if syntax and catalog tell it.
    ty: Option<ColumnType>,
}

/// What is known of joined tables.
pub(in crate::query) struct Joined {
    pub(in crate::query) columns: Vec<JoinedColumn>,
    /// For each join what it compares, without names of merged columns; `None` if it stays as it is. Those inside of the left side
    /// come first, then those inside of the table that is joined, then that of the join itself.
    pub(in crate::query) conditions: Vec<Option<JoinConstraint>>,
    /// The names that joins have, each with the columns that it means, which are those that are merged.
    pub(in crate::query) named: Vec<(String, Vec<JoinedColumn>)>,
}

impl Scopes<'_> {
    /// Those of the innermost query; `None` where the columns of some table are not known, or there are not those that are to be
    /// merged.
    pub(in crate::query) fn joined_here(&self, tables: &TableWithJoins) -> Option<Joined> {
        self.joined(tables, &self.queries.last()?.seen)
    }

    /// The names of all columns of a FROM.
    pub(super) fn names_of_all(&self, from: &[TableWithJoins], seen: &SeenParts) -> Columns {
        let mut names = Vec::new();
        for tables in from {
            names.extend(self.joined(tables, seen)?.columns.into_iter().map(|column| column.name));
        }
        Some(names)
    }

    fn joined(&self, tables: &TableWithJoins, seen: &SeenParts) -> Option<Joined> {
        let mut joined = self.side(&tables.relation, seen)?;
        for join in &tables.joins {
            let right = self.side(&join.relation, seen)?;
            joined.conditions.extend(right.conditions);
            joined.named.extend(right.named);
            let (merging, constraint) = join_of(&join.join_operator)?;
            let Some(names) = merged_names(constraint, &joined.columns, &right.columns) else {
                joined.columns.extend(right.columns);
                joined.conditions.push(None);
                continue;
            };
            let (columns, condition) = merge(joined.columns, right.columns, &names, merging)?;
            if let Some(name) = name_of(constraint) {
                joined.named.push((name, columns[..names.len()].to_vec()));
            }
            joined.columns = columns;
            joined.conditions.push(Some(JoinConstraint::On(condition)));
        }
        Some(joined)
    }

    fn side(&self, factor: &TableFactor, seen: &SeenParts) -> Option<Joined> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.joined(table_with_joins, seen);
        }
        let relation = self.relation(factor, seen);
        let table = relation.name?;
        let column = |(place, name): (usize, String)| JoinedColumn {
            ty: relation.types.get(place).copied(),
            value: Expr::CompoundIdentifier(vec![
                Ident::with_quote('"', table.clone()),
                Ident::with_quote('"', name.clone()),
            ]),
            name,
            is_merged: false,
        };
        let columns = relation.columns?.into_iter().enumerate().map(column).collect();
        Some(Joined { columns, conditions: Vec::new(), named: Vec::new() })
    }
}

/// What a join makes of two columns that become one.
fn join_of(join: &JoinOperator) -> Option<(Merging, &JoinConstraint)> {
    Some(match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::CrossJoin(constraint) => (Merging::Either, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Merging::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (Merging::Right, constraint)
        }
        JoinOperator::FullOuter(constraint) => (Merging::Present, constraint),
        _ => return None,
    })
}

/// The constraint of a join of two sides whose columns are all kept.
pub(in crate::query) fn constraint_of(join: &JoinOperator) -> Option<&JoinConstraint> {
    join_of(join).map(|(_, constraint)| constraint)
}

/// The same, to be changed.
pub(in crate::query) fn constraint_mut(join: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// The columns that a USING names.
fn names_of(columns: &[ObjectName]) -> impl Iterator<Item = String> + '_ {
    let columns = columns.iter().filter(|column| join_name(column).is_none());
    columns.filter_map(|column| column.0.last().and_then(ObjectNamePart::as_ident).map(fold))
}

/// The name that a join has.
fn name_of(constraint: &JoinConstraint) -> Option<String> {
    match constraint {
        JoinConstraint::Using(columns) => columns.iter().find_map(join_name).map(fold),
        _ => None,
    }
}

/// The name that a join has, and the columns that it means.
pub(super) fn named_columns(join: &JoinOperator) -> Option<(String, Vec<String>)> {
    let (_, constraint) = join_of(join)?;
    match constraint {
        JoinConstraint::Using(columns) => Some((name_of(constraint)?, names_of(columns).collect())),
        _ => None,
    }
}

/// Takes the name off a join that has one.
pub(in crate::query) fn forget_name(join: &mut JoinOperator) {
    if let Some(JoinConstraint::Using(columns)) = constraint_mut(join) {
        columns.retain(|column| join_name(column).is_none());
    }
}

/// The names of the columns that become one; `None` if the join names none.
fn merged_names(
    constraint: &JoinConstraint,
    left: &[JoinedColumn],
    right: &[JoinedColumn],
) -> Option<Vec<String>> {
    match constraint {
        JoinConstraint::Using(columns) => Some(names_of(columns).collect()),
        JoinConstraint::Natural => {
            let has = |name: &String| right.iter().any(|column| column.name == *name);
            Some(left.iter().map(|column| column.name.clone()).filter(has).collect())
        }
        _ => None,
    }
}

/// The columns of both sides with those merged, and the condition; `None` if a side does not have each name once.
fn merge(
    mut left: Vec<JoinedColumn>,
    mut right: Vec<JoinedColumn>,
    names: &[String],
    merging: Merging,
) -> Option<(Vec<JoinedColumn>, Expr)> {
    let mut columns = Vec::with_capacity(left.len() + right.len());
    let mut condition: Option<Expr> = None;
    for name in names {
        let (of_left, of_right) = (taken(&mut left, name)?, taken(&mut right, name)?);
        let equal = made_of(&of_left, &of_right, Merging::Equal);
        condition = Some(match condition {
            Some(condition) => both(condition, equal),
            None => equal,
        });
        let value = made_of(&of_left, &of_right, merging);
        let ty = of_left.ty.filter(|ty| of_right.ty == Some(*ty));
        columns.push(JoinedColumn { name: name.clone(), value, is_merged: true, ty });
    }
    columns.append(&mut left);
    columns.append(&mut right);
    // A natural join of tables without a common column joins each row with each.
    let condition = condition.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into()));
    Some((columns, condition))
}

/// What is made of two columns. An operator stands between those that may be of two types: planning decides, which knows them.
fn made_of(left: &JoinedColumn, right: &JoinedColumn, merging: Merging) -> Expr {
    let (of_left, of_right) = (left.value.clone(), right.value.clone());
    if left.ty.is_none() || left.ty != right.ty {
        return operation(of_left, merging.operator(), of_right);
    }
    match merging {
        Merging::Equal => operation(of_left, BinaryOperator::Eq, of_right),
        Merging::Either | Merging::Left => of_left,
        Merging::Right => of_right,
        Merging::Present => call("coalesce", vec![of_left, of_right]),
    }
}

/// Takes the only column of this name out.
fn taken(columns: &mut Vec<JoinedColumn>, name: &str) -> Option<JoinedColumn> {
    let mut places = columns.iter().enumerate().filter(|(_, column)| column.name == name);
    let (Some((place, _)), None) = (places.next(), places.next()) else { return None };
    Some(columns.remove(place))
}

fn both(left: Expr, right: Expr) -> Expr {
    operation(left, BinaryOperator::And, right)
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
