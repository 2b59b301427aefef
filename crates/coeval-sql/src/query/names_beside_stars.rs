// SPDX-License-Identifier: Apache-2.0
//! The names of outputs beside `*`, where the columns of `*` are known.
//!
//! `output_names.rs` knows no tables: beside `*` it marks every name, since a column of `*` may have the same. A query around it would
//! not find such an output, as in `SELECT id FROM (SELECT u.id, f.* FROM u JOIN f ON ...) s`. So the names that no column of `*` has
//! are given back here. A name that is written and that a column of `*` has, as in `SELECT *, a AS b FROM t`, gets a mark instead, since
//! DataFusion refuses two outputs of one name. Where the query is ordered by it, that is right: it could mean both.

use super::dialect::is_register;
use super::output_names::{columns_of_tables, unique};
use super::scopes::{FindRelation, Scopes};
use crate::column_name::{MARK, column_name, unmarked};
use crate::names::fold;
use crate::select::quoted;
use crate::stack::with_room;
use crate::walk::{WalkMut, any_select};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, ObjectNamePart, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Gives the outputs of all parts of the query their names back, and marks those that are beside others of the same name.
pub(super) fn give_back(query: &mut Query, find: FindRelation<'_>) {
    let has_names =
        |select: &Select| select.projection.iter().any(is_star) && select.projection.iter().any(has_alias);
    if !any_select(query, has_names) {
        return;
    }
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut GivingBack { scopes: Scopes::of_statement(find) });
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn has_alias(item: &SelectItem) -> bool {
    matches!(item, SelectItem::ExprWithAlias { .. })
}

/// The places of the outputs whose names have marks.
fn marked(select: &Select) -> impl Iterator<Item = usize> + '_ {
    select.projection.iter().enumerate().filter_map(|(place, item)| match item {
        SelectItem::ExprWithAlias { alias, .. } if alias.value.contains(MARK) => Some(place),
        _ => None,
    })
}

/// What stands in the place of a marked name in ORDER BY.
struct GivenBack {
    marked: String,
    output: Expr,
}

/// The names in an ORDER BY.
#[derive(Default)]
struct OrderNames {
    /// Those of columns, behind their tables.
    of_tables: HashSet<String>,
    /// Those that stand alone, which are outputs if there are such.
    alone: HashSet<String>,
}

impl OrderNames {
    fn of(order: &[OrderByExpr]) -> Self {
        let alone = names_alone(order.iter().map(|key| &key.expr)).collect();
        Self { of_tables: columns_of_tables(order), alone }
    }
}

fn names_alone<'e>(expressions: impl Iterator<Item = &'e Expr>) -> impl Iterator<Item = String> {
    expressions.filter_map(|expression| match expression {
        Expr::Identifier(name) => Some(fold(name)),
        _ => None,
    })
}

/// Whether an output is a column of this name.
fn is_column(output: &Expr, name: &str) -> bool {
    matches!(output, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        && !is_register(output)
        && column_name(output) == name
}

/// Marks the names that are written and that a column of `*` has. Where rows are ordered or told apart by such a name, only if it means
/// the same column.
fn mark_written(select: &mut Select, stars: &Stars, ordered: &OrderNames) {
    let told_apart: HashSet<String> = match &select.distinct {
        Some(Distinct::On(keys)) => names_alone(keys.iter()).collect(),
        _ => HashSet::new(),
    };
    let written = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    });
    let mut taken: HashSet<String> = written.collect();
    let is_of_one = matches!(select.from.as_slice(), [only] if only.joins.is_empty());
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = fold(alias);
        let is_meant = ordered.alone.contains(&name) || told_apart.contains(&name);
        let is_same = is_of_one && is_column(expr, &name);
        if stars.names.contains(&name) && (is_same || !is_meant) {
            *alias = unique(&name, &mut taken);
        }
    }
}

/// What is known of the `*` of a SELECT.
#[derive(Default)]
struct Stars {
    names: HashSet<String>,
    /// The tables whose columns are not known.
    unknown: HashSet<String>,
}

struct GivingBack<'f> {
    scopes: Scopes<'f>,
}

impl GivingBack<'_> {
    fn of_body(&mut self, body: &mut SetExpr, ordered: &OrderNames) -> Vec<GivenBack> {
        match body {
            SetExpr::Select(select) => self.of_select(select, ordered),
            SetExpr::SetOperation { left, right, .. } => {
                // What is put together from several queries is ordered by names alone, and those have no marks.
                with_room(|| self.of_body(left, ordered));
                self.of_body(right, ordered);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn of_select(&mut self, select: &mut Select, ordered: &OrderNames) -> Vec<GivenBack> {
        if !select.projection.iter().any(has_alias) || !select.projection.iter().any(is_star) {
            return Vec::new();
        }
        self.scopes.turn_to(select);
        let Some(stars) = self.stars(select) else { return Vec::new() };
        mark_written(select, &stars, ordered);
        self.unmark(select, &stars, ordered)
    }

    /// Takes the marks off names that no column of `*` has.
    fn unmark(&self, select: &mut Select, stars: &Stars, ordered: &OrderNames) -> Vec<GivenBack> {
        let places: Vec<usize> = marked(select).collect();
        let plain = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        });
        let mut taken: HashSet<String> = plain.filter(|name| !name.contains(MARK)).collect();
        let mut given_back = Vec::new();
        for place in places {
            let SelectItem::ExprWithAlias { expr, alias } = &mut select.projection[place] else { continue };
            let name = unmarked(&alias.value).to_owned();
            if stars.names.contains(&name) || taken.contains(&name) {
                continue;
            }
            let is_column = is_column(expr, &name);
            if is_column && self.is_beside(expr, stars) {
                let column = expr.clone();
                given_back.push(GivenBack { marked: alias.value.clone(), output: column.clone() });
                select.projection[place] = SelectItem::UnnamedExpr(column);
            } else if !is_column && stars.unknown.is_empty() && !ordered.of_tables.contains(&name) {
                let output = Expr::Identifier(quoted(name.clone()));
                given_back.push(GivenBack { marked: alias.value.clone(), output });
                *alias = quoted(name.clone());
            } else {
                continue;
            }
            taken.insert(name);
        }
        given_back
    }

    /// Whether a column is of none of the tables whose columns are not known.
    fn is_beside(&self, column: &Expr, stars: &Stars) -> bool {
        if stars.unknown.is_empty() {
            return true;
        }
        let table = self.scopes.own_column(column).and_then(|column| column.table.map(str::to_owned));
        table.is_some_and(|table| !stars.unknown.contains(&table))
    }

    /// `None` if there is `*` of all tables and not all of their columns are known.
    fn stars(&self, select: &Select) -> Option<Stars> {
        let mut stars = Stars::default();
        for item in select.projection.iter().filter(|item| is_star(item)) {
            match (self.scopes.columns_of(item, select), item) {
                (Some(columns), _) => {
                    stars.names.extend(columns.iter().map(|column| unmarked(column).to_owned()));
                }
                (
                    None,
                    SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _),
                ) => {
                    stars.unknown.insert(name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?);
                }
                _ => return None,
            }
        }
        Some(stars)
    }
}

impl VisitorMut for GivingBack<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        let order = query.order_by.as_mut().and_then(|order| match &mut order.kind {
            OrderByKind::Expressions(order) => Some(order),
            OrderByKind::All(_) => None,
        });
        let ordered = order.as_ref().map(|order| OrderNames::of(order)).unwrap_or_default();
        let given_back = self.of_body(&mut query.body, &ordered);
        for ordering in order.into_iter().flatten() {
            let Expr::Identifier(name) = &ordering.expr else { continue };
            if let Some(found) = given_back.iter().find(|one| one.marked == name.value) {
                ordering.expr = found.output.clone();
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }
}
