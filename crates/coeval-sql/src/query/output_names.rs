// SPDX-License-Identifier: Apache-2.0
//! The names of output columns, as PostgreSQL gives them to expressions without an alias.
//!
//! DataFusion names an expression by its text and refuses two of one name. So every unnamed expression gets
//! PostgreSQL's name as its alias before planning, and a name that is taken gets a mark and a number behind
//! it, which are cut off again from the result.

use crate::stack::with_room;
use crate::types::column_type;
use crate::walk::{WalkMut, visit_expressions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Distinct, Expr, FunctionArguments, Ident, ObjectNamePart,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TrimWhereField, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Divides a name from the number that makes it unique. No identifier holds it.
const MARK: char = '\u{1}';

/// The query with all outputs of all its parts named.
pub(crate) fn named(query: &Query) -> Query {
    let mut query = query.clone();
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut Namer { depth: 0 });
    query
}

/// Marks outputs that have the name of a column which the query is ordered by, `SELECT upper(p.name) AS name ... ORDER BY
/// p.name`: DataFusion has both beside each other until the rows are sorted, and could not tell them apart. For a query that
/// no other one names the outputs of. Whether there are any.
pub(crate) fn mark_beside_order(query: &mut Query) -> bool {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else {
        return false;
    };
    let OrderByKind::Expressions(order) = &mut order.kind else { return false };
    let columns = columns_of_tables(order);
    let mut taken = HashSet::new();
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        let name = crate::names::fold(alias);
        if !columns.contains(&name) {
            continue;
        }
        *alias = unique(&name, &mut taken);
        // By a name alone the query is ordered by its output.
        for ordering in order.iter_mut() {
            if let Expr::Identifier(ident) = &mut ordering.expr
                && crate::names::fold(ident) == name
            {
                *ident = alias.clone();
            }
        }
    }
    !taken.is_empty()
}

/// The names of the columns that are written with their table.
fn columns_of_tables(order: &[OrderByExpr]) -> HashSet<String> {
    let mut columns = HashSet::new();
    for ordering in order {
        // Nothing breaks off the visit.
        let _ = visit_expressions(&ordering.expr, |expression| {
            if let Expr::CompoundIdentifier(parts) = expression
                && let Some(name) = parts.last()
            {
                columns.insert(crate::names::fold(name));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    columns
}

/// Names the outputs in the ORDER BY of a DISTINCT query whose expressions stand there once more: it is ordered by its outputs
/// alone.
fn order_by_outputs(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else { return };
    let (Some(Distinct::Distinct), OrderByKind::Expressions(order)) = (&select.distinct, &mut order.kind)
    else {
        return;
    };
    for ordering in order {
        let output = select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if *expr == ordering.expr => Some(alias),
            _ => None,
        });
        if let Some(alias) = output {
            ordering.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// [`mark_beside_order`] of a query inside another one, which finds the outputs by their names: a query around it takes the
/// marks off again.
fn mark_inside(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let is_known = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { .. } => true,
        SelectItem::UnnamedExpr(expression) => {
            matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    };
    if !query.locks.is_empty() || !select.projection.iter().all(is_known) || !mark_beside_order(query) {
        return;
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let outputs = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(crate::names::fold(alias)),
        SelectItem::UnnamedExpr(expression) => Some(name_of(expression)),
        _ => None,
    });
    let mut taken = HashSet::new();
    let unmarked = |name: String| {
        let shown = name.split(MARK).next().unwrap_or_default().to_owned();
        // Of several outputs of one name only the first can be found by it.
        let alias = if taken.insert(shown.clone()) { shown } else { name.clone() };
        let expr = Expr::Identifier(Ident::with_quote('"', name));
        SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) }
    };
    let projection = outputs.map(unmarked).collect();
    *query = crate::dml::select_around(query.clone(), projection);
}

/// The schema with the names as users see them.
pub(crate) fn shown(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name().split(MARK).next().unwrap_or_default();
            Field::new(name, field.data_type().clone(), field.is_nullable())
                .with_metadata(field.metadata().clone())
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// Names outputs; `depth` says how many queries there are around the one that is visited.
struct Namer {
    depth: usize,
}

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        name_body(&mut query.body);
        order_by_outputs(query);
        if self.depth > 0 {
            mark_inside(query);
        }
        ControlFlow::Continue(())
    }
}

fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            with_room(|| name_body(left));
            name_body(right);
        }
        _ => {}
    }
}

fn name_select(select: &mut Select) {
    let has_wildcard = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut taken = HashSet::new();
    for item in &mut select.projection {
        let (name, expression) = match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = crate::names::fold(alias);
                if !taken.insert(name.clone()) {
                    *alias = unique(&name, &mut taken);
                }
                continue;
            }
            SelectItem::UnnamedExpr(expression) => (name_of(expression), expression),
            _ => continue,
        };
        let is_column = matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_new = taken.insert(name.clone());
        if is_column && is_new && !has_wildcard {
            continue;
        }
        let alias =
            if is_new && !has_wildcard { Ident::with_quote('"', name) } else { unique(&name, &mut taken) };
        let expression = expression.clone();
        *item = SelectItem::ExprWithAlias { expr: expression, alias };
    }
}

fn unique(name: &str, taken: &mut HashSet<String>) -> Ident {
    let mut number = taken.len();
    loop {
        let candidate = format!("{name}{MARK}{number}");
        if taken.insert(candidate.clone()) {
            return Ident::with_quote('"', candidate);
        }
        number += 1;
    }
}

/// The name of a result column that has no alias: PostgreSQL's `FigureColname`.
pub(crate) fn name_of(expression: &Expr) -> String {
    figure(expression).map_or_else(|| "?column?".to_owned(), |figured| figured.name)
}

/// A name, and whether a cast or CASE around the expression leaves it.
struct Figured {
    name: String,
    is_kept: bool,
}

fn kept(name: impl Into<String>) -> Option<Figured> {
    Some(Figured { name: name.into(), is_kept: true })
}

fn given_up(name: impl Into<String>) -> Option<Figured> {
    Some(Figured { name: name.into(), is_kept: false })
}

fn figure(expression: &Expr) -> Option<Figured> {
    match expression {
        Expr::Identifier(ident) => kept(crate::names::fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().and_then(|part| kept(crate::names::fold(part))),
        Expr::Function(function) => {
            debug_assert!(!matches!(function.parameters, FunctionArguments::Subquery(_)));
            function.name.0.last().and_then(|part| match part {
                ObjectNamePart::Identifier(ident) => kept(crate::names::fold(ident)),
                ObjectNamePart::Function(_) => None,
            })
        }
        Expr::Cast { expr, data_type, .. } => kept_of(expr).or_else(|| given_up(type_name(data_type))),
        Expr::TypedString(typed) => given_up(type_name(&typed.data_type)),
        Expr::Interval(_) => given_up("interval"),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Case { else_result, .. } => {
            else_result.as_deref().and_then(kept_of).or_else(|| given_up("case"))
        }
        Expr::Exists { negated: false, .. } => kept("exists"),
        Expr::Subquery(query) => first_name(&query.body).and_then(kept),
        Expr::Extract { .. } => kept("extract"),
        Expr::Substring { shorthand: true, .. } => kept("substr"),
        Expr::Substring { .. } => kept("substring"),
        Expr::Trim { trim_where, .. } => kept(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Position { .. } => kept("position"),
        Expr::Overlay { .. } => kept("overlay"),
        Expr::Ceil { .. } => kept("ceil"),
        Expr::Floor { .. } => kept("floor"),
        Expr::AtTimeZone { .. } => kept("timezone"),
        Expr::Array(_) => kept("array"),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let is_subscript = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(_));
            if access_chain.iter().all(is_subscript) { figure(root) } else { None }
        }
        Expr::Tuple(_) => kept("row"),
        _ => None,
    }
}

fn kept_of(expression: &Expr) -> Option<Figured> {
    figure(expression).filter(|figured| figured.is_kept)
}

fn first_name(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::ExprWithAlias { alias, .. } => {
                crate::names::fold(alias).split(MARK).next().map(str::to_owned)
            }
            SelectItem::UnnamedExpr(expression) => figure(expression).map(|figured| figured.name),
            _ => None,
        },
        SetExpr::Query(query) => first_name(&query.body),
        SetExpr::SetOperation { left, .. } => first_name(left),
        _ => None,
    }
}

/// The name that a cast to this type gives.
fn type_name(ty: &DataType) -> String {
    if let Ok(ColumnType::Enum(ty)) = column_type(ty) {
        return ty.def().name.name.clone();
    }
    match ty {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => type_name(element),
        DataType::Custom(name, _) => match name.0.last().and_then(ObjectNamePart::as_ident) {
            // Another type than the word without quotes: `"char"`.
            Some(ident) if ident.quote_style.is_some() => ident.value.clone(),
            last => type_word(last.map_or("", |ident| ident.value.as_str())),
        },
        ty => type_word(&ty.to_string()),
    }
}

/// PostgreSQL's internal name of a type, which names a cast.
fn type_word(declared: &str) -> String {
    let lower = declared.to_lowercase();
    let base = lower.split('(').next().unwrap_or_default().trim();
    match base {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "real" => "float4",
        "double precision" | "double" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "character varying" | "char varying" => "varchar",
        "char" | "character" => "bpchar",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}
