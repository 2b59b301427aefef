// SPDX-License-Identifier: Apache-2.0
//! The names of outputs beside `*`, where the columns of `*` are known.
//!
//! `output_names.rs` knows no tables: beside `*` it marks every name, since a column of `*` may have the same. A query around it would
//! not find such an output, as in `SELECT id FROM (SELECT u.id, f.* FROM u JOIN f ON ...) s`. So the names that no column of `*` has
//! are given back here.

use super::dialect::is_register;
use super::output_names::columns_of_tables;
use super::scopes::{FindRelation, Scopes};
use crate::column_name::{MARK, column_name, unmarked};
use crate::names::fold;
use crate::select::quoted;
use crate::stack::with_room;
use crate::walk::{WalkMut, any_select};
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Gives the outputs of all parts of the query their names back.
pub(super) fn give_back(query: &mut Query, find: FindRelation<'_>) {
    let is_marked =
        |select: &Select| select.projection.iter().any(is_star) && marked(select).next().is_some();
    if !any_select(query, is_marked) {
        return;
    }
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut GivingBack { scopes: Scopes::of_statement(find) });
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
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
    fn of_body(&mut self, body: &mut SetExpr, ordered: &HashSet<String>) -> Vec<GivenBack> {
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

    fn of_select(&mut self, select: &mut Select, ordered: &HashSet<String>) -> Vec<GivenBack> {
        let places: Vec<usize> = marked(select).collect();
        if places.is_empty() || !select.projection.iter().any(is_star) {
            return Vec::new();
        }
        self.scopes.turn_to(select);
        let Some(stars) = self.stars(select) else { return Vec::new() };
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
            let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                && !is_register(expr)
                && column_name(expr) == name;
            if is_column && self.is_beside(expr, &stars) {
                let column = expr.clone();
                given_back.push(GivenBack { marked: alias.value.clone(), output: column.clone() });
                select.projection[place] = SelectItem::UnnamedExpr(column);
            } else if !is_column && stars.unknown.is_empty() && !ordered.contains(&name) {
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
        let ordered = order.as_ref().map(|order| columns_of_tables(order)).unwrap_or_default();
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
