// SPDX-License-Identifier: Apache-2.0
//! Rows of functions that return one column: `item` in `FROM jsonb_array_elements(doc) AS item` is the value of its column, which
//! is called `value`.

use super::{Rows, Written};
use crate::names::fold;
use datafusion::sql::sqlparser::ast::{Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, Value};

impl Rows<'_> {
    /// The column that is meant by the name of what returns it; `None` if the name is a column's, or of another relation.
    pub(super) fn value(&self, name: &Ident) -> Option<Expr> {
        let whole = self.row((name, Written::Name))?;
        let column = whole.row_column.filter(|_| whole.is_value)?;
        Some(Expr::CompoundIdentifier(vec![name.clone(), Ident::with_quote('"', column.to_owned())]))
    }

    /// Gives outputs the name that they are written with.
    pub(super) fn name_values(&self, select: &mut Select) {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
                && self.value(name).is_some()
            {
                let alias = Ident::with_quote('"', fold(name));
                *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(name.clone()), alias };
            }
        }
    }

    /// Orders by the place of an output what is ordered by its name.
    pub(super) fn order_by_places(&self, query: &mut Query) {
        let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else {
            return;
        };
        let OrderByKind::Expressions(order) = &mut order.kind else { return };
        let is_one = |item: &&SelectItem| {
            matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
        };
        for one in order {
            let Expr::Identifier(name) = &one.expr else { continue };
            if self.value(name).is_none() {
                continue;
            }
            let is_it = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(Expr::Identifier(own)) => fold(own) == fold(name),
                SelectItem::ExprWithAlias { alias, .. } => fold(alias) == fold(name),
                _ => false,
            };
            if let Some(place) = select.projection.iter().take_while(is_one).position(is_it) {
                one.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
            }
        }
    }
}
